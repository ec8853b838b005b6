"""A password in the address of a server is in no file and no output of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from stat import S_IMODE

import pytest

from bench.stub_server import RunningStub
from pytest_llmprops.cli.main import main
from tests.support.runs import Runner

pytest.importorskip("allure_pytest", reason="needs allure-pytest: pip install -e '.[dev]'")
PASSWORD = "pw-of-this-test-1"
KEY = "sk-of-this-test-2"


def holders(folder: Path) -> list[str]:
    """Return the files under ``folder`` that have the password or the key."""
    secrets = (PASSWORD.encode(), KEY.encode())
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
