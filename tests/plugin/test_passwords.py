"""Passwords, headers and queries of the address of a server are in no file and no output of a run."""

from __future__ import annotations

import base64
import re
import zlib
from typing import Any
from urllib.parse import quote, unquote

import pytest

from pytest_llmprops.cli.main import main
from tests.support.runs import Runner
from tests.support.servers import JsonHandler, serving

pytest.importorskip("allure_pytest", reason="needs allure-pytest: pip install -e '.[dev]'")
#: Their characters have other forms in addresses and in base64.
SECRETS = {
    name: f"s3cret+{number:02d}/{name}&of=this?test"
    for number, name in enumerate(
        (
            "OPENAI_API_KEY", "header", "header_of_variable", "header_of_dotenv", "url_password", "url_query",
            "helper_url_password", "parameter", "inner_parameter", "store_url_password", "ray_url_password",
            "AZURE_API_KEY",
        )
    )
}  # fmt: skip


def forms(secret: str) -> list[bytes]:
    """Return a secret as it is, in percent-encoding, and what base64 of any text with it contains."""
    raw = secret.encode()
    found = [raw, quote(secret).encode(), quote(secret, safe="").encode()]
    for before in range(3):
        # Only whole groups of three bytes are the same in each text.
        kept = raw[-before % 3 :]
        kept = kept[: len(kept) // 3 * 3]
        found += [base64.b64encode(kept), base64.urlsafe_b64encode(kept)]
    return found


def leaks(content: bytes) -> list[str]:
    """Return the names of the secrets in some bytes, or in compressed or encoded parts of them."""
    parts = [content]
    for match in re.finditer(rb"[A-Za-z0-9+/]{80,}={0,2}", content):
        raw = base64.b64decode(match[0] + b"=" * (-len(match[0]) % 4))
        parts.append(raw)
        try:
            parts.append(zlib.decompress(raw, wbits=47))
        except zlib.error:
            continue
    parts = [part.lower() for part in parts]
    return [
        name for name, secret in SECRETS.items() if any(f.lower() in p for p in parts for f in forms(secret))
    ]


def _tokens(text: str) -> list[dict[str, Any]]:
    """Return the log probabilities of a text of tokens of four characters, as a server reports them."""
    parts = [text[place : place + 4] for place in range(0, len(text), 4)]
    return [
        {"token": part, "logprob": -1.0, "top_logprobs": [{"token": text, "logprob": -2.0}]} for part in parts
    ]


class Echo:
    """A server that puts all that it gets into every text of replies and errors, in several spellings.

    It notes the path and the headers of each call.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.received = b""
        outer = self

        class Handler(JsonHandler):
            def do_POST(self) -> None:
                asked = self.read_body().decode()
                said = f"{self.path} {' '.join(self.headers.values())}"
                outer.calls.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
                outer.received += said.encode()
                said = " ".join(
                    (
                        said,
                        quote(said, safe=""),
                        *(base64.b64encode(v.encode()).decode() for v in said.split()),
                    )
                )
                if '"1 + 1 ="' in asked:
                    # The provider of another package may know its key.
                    said = f"{SECRETS['AZURE_API_KEY']} {said}"
                    self.send_json({"error": {"message": said, "code": said}}, 400)
                    return
                message = {"role": "assistant", "content": said.lower(), "reasoning": said, "refusal": None}
                # A server of its own kind may send any text as a reason.
                choice = {"message": message, "finish_reason": said, "logprobs": {"content": _tokens(said)}}
                self.send_json({"model": said, "choices": [choice], "system_fingerprint": said})

            def do_GET(self) -> None:
                self.send_json({"error": {"message": self.path}}, 404)

        self.handler = Handler


def test_twelve_secrets_are_in_no_byte_of_any_output(
    run: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records, stores, reports, exports and output have no secret, wherever it was given and whatever a server says."""
    pytest.importorskip("dotenv", reason="needs python-dotenv")
    run.sums(3)
    (run.folder / ".env").write_text(f"DOTENV_TOKEN='{SECRETS['header_of_dotenv']}'\n")
    names = ("OPENAI_API_KEY", "AZURE_API_KEY")
    env = {name: SECRETS[name] for name in names} | {"HEADER_TOKEN": SECRETS["header_of_variable"]}
    url = {name: quote(secret, safe="") for name, secret in SECRETS.items()}
    echo = Echo()
    printed = []
    with serving(echo.handler) as address:
        own = address.replace("http://", f"http://user:{url['url_password']}@") + f"?code={url['url_query']}"
        helper = address.replace("http://", f"http://user:{url['helper_url_password']}@")
        words = ["--llm-base-url", own, "--llm-header", f"x-org={SECRETS['header']}", "-o", "llm_retries=0"]
        words += ["--llm-header", "x-variable=$HEADER_TOKEN", "--llm-header", "x-dotenv=$DOTENV_TOKEN"]
        words += ["--llm-helper", f"reader=openai:helper?base_url={quote(helper, safe=':/@')}"]
        words += ["-n", "2", "-v", "--model", "gpt-x"]
        outputs = ["--junitxml", "junit.xml", "--alluredir", str(run.folder / "allure")]
        done = run(*words, *outputs, env=env)
        printed.append(done.output)
        assert done.code == 1, done.output
        assert {row["status"] for row in done.verdicts.values()} == {"wrong", "error"}
        received = [name for name in SECRETS if forms(SECRETS[name])[0] in echo.received]
        assert {"header", "header_of_variable", "header_of_dotenv"} <= set(received)
        assert len(echo.calls) >= 3
        for path, headers in echo.calls:
            assert unquote(path) == f"/v1/chat/completions?code={SECRETS['url_query']}"
            assert (headers["x-org"], headers["x-variable"]) == (SECRETS["header"], env["HEADER_TOKEN"])
        assert done.run["options"]["headers"] == dict.fromkeys(("x-org", "x-variable", "x-dotenv"), "***")
        # These end before the first call.
        for option, value in (
            ("--llm-header", "x-org=***"),
            ("--llm-param", f"api_key={SECRETS['parameter']}"),
            ("--llm-param", f'extra_body={{"auth": {{"api_key": "{SECRETS["inner_parameter"]}"}}}}'),
            ("--llm-store", f"postgresql://user:{url['store_url_password']}@127.0.0.1:1/db"),
            ("--llm-engine", f"ray://user:{url['ray_url_password']}@127.0.0.1:1"),
        ):
            ended = run(*words, option, value, env=env)
            assert ended.code != 0, ended.output
            printed.append(ended.output)
    (run.folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    monkeypatch.chdir(run.folder)
    record = str(done.folder)
    for arguments in (
        ["runs", "show", record], ["runs", "show", record, "--json"], ["compare", record, record, "--full"],
        ["report", record, "--out", "report"], ["site", ".", "--out", "site"], ["readings", record],
        *(["runs", "export", record, "--table", t, "--csv", f"{t}.csv"] for t in ("verdicts", "requests", "summary")),
    ):  # fmt: skip
        main(arguments)
    printed += [*capsys.readouterr()]
    assert leaks("\n".join(printed).encode()) == []
    files = [path for path in sorted(run.folder.rglob("*")) if path.is_file() and path.name != ".env"]
    found = {str(path.relative_to(run.folder)): leaks(path.read_bytes()) for path in files}
    assert {name: secrets for name, secrets in found.items() if secrets} == {}
    assert {"store.sqlite", "junit.xml", "report/report.html"} <= found.keys()
    # The search finds what is there.
    for secret in SECRETS.values():
        for text in (secret.encode(), quote(secret).encode(), base64.b64encode(f"user:{secret}".encode())):
            assert leaks(b"x" + text)
        assert leaks(base64.b64encode(zlib.compress(secret.encode() + bytes(range(99)))))
