"""Passwords, headers and queries of the address of a server are in no file and no output of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_IMODE

import pytest

from bench.stub_server import RunningStub
from pytest_llmprops.cli.main import main
from tests.support.runs import Runner
from tests.support.servers import JsonHandler, serving

pytest.importorskip("allure_pytest", reason="needs allure-pytest: pip install -e '.[dev]'")
PASSWORD = "pw-of-this-test-1"
KEY = "sk-of-this-test-2"
HEADER, ORG, QUERY = "header-of-this-test-3", "org-of-this-test-4", "query-of-this-test-5"


def holders(folder: Path, *texts: str) -> list[str]:
    """Return the files under ``folder`` that have one of the texts (default: the password and the key)."""
    secrets = tuple(text.encode() for text in texts or (PASSWORD, KEY))
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(secret in path.read_bytes() for secret in secrets)
    ]


@pytest.mark.parametrize("place", ["option", "model"])
def test_no_file_of_a_run_has_the_password(
    run: Runner,
    start_stub: Callable[..., RunningStub],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    """Record, store, JUnit, Allure and reports have neither the password nor the key that the server repeats."""
    url = start_stub(delay=0.0, answer=f"constant:I know {KEY} and {PASSWORD}").url
    url = url.replace("http://", f"http://user:{PASSWORD}@")
    run.sums(2)
    model = ["--model", "gpt-x", "--llm-base-url", url]
    if place == "model":
        model = ["--model", f"openai:gpt-x?base_url={url}"]
    outputs = ["--junitxml", "junit.xml", "--alluredir", str(run.folder / "allure")]
    done = run(*model, *outputs, "-n", "0", "-v", env={"OPENAI_API_KEY": KEY})
    assert done.code == 1, done.output
    assert S_IMODE(run.store.stat().st_mode) == 0o600
    assert "I know [key] and [key]" in (done.folder / "requests.jsonl").read_text(encoding="utf-8")
    monkeypatch.chdir(run.folder)
    assert main(["runs", "show", str(done.folder)]) == 0
    assert main(["report", str(done.folder), "--out", "report"]) == 0
    assert "127.0.0.1" in done.folder.joinpath("run.json").read_text(encoding="utf-8")
    printed = done.output + capsys.readouterr().out
    assert PASSWORD not in printed
    assert KEY not in printed
    assert holders(run.folder) == []


class Gateway:
    """A server that notes the path and the headers of each call, and repeats them in a reply and in an error."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(JsonHandler):
            def do_POST(self) -> None:
                asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.calls.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
                said = f"{self.path} {self.headers['api-key']} {self.headers['x-org']}"
                if '"1 + 1 ="' in asked:
                    self.send_json({"error": {"message": said}}, 400)
                message = {"role": "assistant", "content": said}
                self.send_json({"model": said, "choices": [{"message": message, "finish_reason": "stop"}]})

            def do_GET(self) -> None:
                self.send_json({}, 404)

        self.handler = Handler
        self.url = ""


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    """Return a running gateway."""
    gateway = Gateway()
    with serving(gateway.handler) as url:
        gateway.url = f"{url}?api-version={QUERY}"
        yield gateway


def test_headers_and_queries_are_sent_and_never_written(
    run: Runner, gateway: Gateway, workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call has them; record, store, report, error lines and output do not, wherever the option stands."""
    run.sums(3)
    first = ("--model", "gpt-x", "--llm-base-url", gateway.url, "-n", workers, "-v", "--llm-retries", "0")
    inis = ("-o", f"llm_header=api-key={HEADER}\nx-org={ORG}")
    words = ("--llm-header", "api-key=$GATEWAY_KEY", f"--llm-header=x-org={ORG}")
    for options in (words, inis):
        gateway.calls.clear()
        done = run(*first, *options, "--llm-cache", "refresh", env={"GATEWAY_KEY": HEADER})
        assert len(gateway.calls) >= 3, done.output
        for path, headers in gateway.calls:
            assert path == f"/v1/chat/completions?api-version={QUERY}"
            assert (headers["api-key"], headers["x-org"]) == (HEADER, ORG)
        assert {row["status"] for row in done.verdicts.values()} == {"wrong", "error"}
        assert done.run["options"]["headers"] == {"api-key": "***", "x-org": "***"}
        assert not [text for text in (HEADER, ORG, QUERY) if text in done.output]
    (run.folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    monkeypatch.chdir(run.folder)
    assert main(["report", str(done.folder), "--out", "report"]) == 0
    for one in (HEADER, ORG, QUERY):
        assert (one, holders(run.folder, one)) == (one, [])
    again = run(*first, "--llm-header", "x-org=***", "--llm-header", f"api-key={HEADER}")
    assert (again.code, "x-org: a record has no values of headers" in again.output) == (4, True)
