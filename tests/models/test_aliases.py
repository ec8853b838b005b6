"""Aliases such as `ollama:` stand for what serves them."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.stub_server import RunningStub
from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.dotenv_file import read_dotenv
from pytest_llmprops.models.registry import ALIASES, find_backend, hint, parse_spec
from tests.support.runs import Runner


@pytest.mark.parametrize(
    ("text", "backend", "name", "params", "label", "said"),
    [
        (
            "ollama:llama3.2:3b", "openai", "llama3.2:3b", {"base_url": "http://localhost:11434/v1"},
            "llama3.2_3b", "ollama:llama3.2:3b is openai:llama3.2:3b with the base URL http://localhost:11434/v1",
        ),
        (
            "vllm:Qwen/Qwen3-8B?n=off", "openai", "Qwen/Qwen3-8B",
            {"base_url": "http://localhost:8000/v1", "n": "off"}, "Qwen3-8B-n=off",
            "vllm:Qwen/Qwen3-8B is openai:Qwen/Qwen3-8B with the base URL http://localhost:8000/v1",
        ),
        ("gemini:gemini-x", "litellm", "gemini/gemini-x", {}, "gemini-x", "gemini:gemini-x is litellm:gemini/gemini-x"),
        ("openai:x", "openai", "x", {}, "x", ""),
    ],
)  # fmt: skip
def test_alias_is_a_specification(
    text: str, backend: str, name: str, params: dict[str, str], label: str, said: str
) -> None:
    """An alias has backend, name and base URL, a label without the URL, and a hint."""
    spec = parse_spec(text)
    assert (spec.text, spec.backend, spec.name, dict(spec.params)) == (text, backend, name, params)
    assert (spec.label, hint(spec)) == (label, said)


def test_base_url_on_the_command_line_replaces_the_alias_address() -> None:
    """`--llm-base-url` names the server of `ollama:`, too."""
    spec = parse_spec("ollama:x", base_url="http://gpu:11434/v1")
    assert (spec.params, hint(spec)) == ({}, "ollama:x is openai:x")


@pytest.mark.parametrize("text", ["ollama", "ollama:", "gemini:"])
def test_alias_without_a_model_is_refused(text: str) -> None:
    """The message has an example."""
    head = text.rstrip(":")
    with pytest.raises(UsageError, match=f"write {head}:MODEL, for example {head}:{ALIASES[head].example}"):
        parse_spec(text)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("grok-x", "xai:grok-x"), ("gemini-x", "gemini:gemini-x"), ("qwen9", "'llmprops models'")],
)
def test_bare_name_of_a_known_family_is_refused_with_its_alias(name: str, suggestion: str) -> None:
    """If no table of prices knows the name, the message says what to write."""
    with pytest.raises(UsageError, match=f"--model {name}: unknown model; write .*{suggestion}"):
        parse_spec(name)


def test_name_of_an_alias_is_a_model_of_a_named_server() -> None:
    """With `--llm-base-url`, `mistral` is the name of a model."""
    spec = parse_spec("mistral", base_url="http://gpu:8000/v1")
    assert (spec.backend, spec.name) == ("openai", "mistral")


def test_alias_of_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without litellm, the message of `gemini:` says what to install."""
    find = importlib.util.find_spec

    def without_litellm(name: str, package: str | None = None) -> Any:
        return None if name == "litellm" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_litellm)
    spec = parse_spec("gemini:gemini-x")
    with pytest.raises(MissingExtra, match=r"gemini:gemini-x .* pip install 'pytest-llmprops\[litellm\]'"):
        find_backend(spec.backend).check(spec, BackendOptions())


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://x/v1"])
def test_wrong_base_url_of_a_model_is_named(url: str) -> None:
    """The message names the specification, not the option."""
    spec = parse_spec(f"openai:x?base_url={url}")
    with pytest.raises(
        UsageError, match=r"^--model openai:x\?base_url=.*: base_url .*: write http://HOST:PORT/v1"
    ):
        find_backend("openai").check(spec, BackendOptions())


def test_two_servers_in_one_run(run: Runner, start_stub: Callable[..., RunningStub], workers: str) -> None:
    """`?base_url=` names a model's own server; the record has both, and the header has no key."""
    run.sums(2)
    one, two = (start_stub(answer=f"constant:{text}", delay=0.0) for text in ("1", "2"))
    done = run(
        "--model", f"openai:one?base_url={one.url}", "--model", f"openai:two?base_url={two.url}", "-n", workers,
    )  # fmt: skip
    rows = [json.loads(line) for line in (done.folder / "verdicts.jsonl").read_text("utf-8").splitlines()]
    assert {(row["model"], row["id"], row["given"]) for row in rows} == {
        (model, f"sums/000{n}", given) for model, given in (("one", "1"), ("two", "2")) for n in (0, 1)
    }


def test_dotenv_of_a_run(run: Runner, start_stub: Callable[..., RunningStub]) -> None:
    """The header names the variables of `.env`, never their values; LLMPROPS_DATA in it counts."""
    pytest.importorskip("dotenv")
    run.sums(1)
    run.write(".env", "OPENAI_API_KEY=sk-from-file\nLLMPROPS_DATA=nowhere\n")
    model = f"--model=openai:x?base_url={start_stub(delay=0.0).url}"
    done = run(model)
    assert "llmprops: LLMPROPS_DATA, OPENAI_API_KEY from .env" in done.output
    refused = run(model, "--llm-source", "published")
    assert "nowhere: no such file or folder" in refused.output
    assert "sk-from-file" not in done.output + refused.output


def test_dotenv_sets_what_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a folder above is read; a variable that is set keeps its value, and no value is printed."""
    pytest.importorskip("dotenv")
    (tmp_path / ".env").write_text("LLMPROPS_TEST_NEW=secret\nLLMPROPS_TEST_OLD=other\n", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    monkeypatch.setenv("LLMPROPS_TEST_OLD", "old")
    monkeypatch.setenv("LLMPROPS_TEST_NEW", "")
    monkeypatch.delenv("LLMPROPS_TEST_NEW")
    assert read_dotenv() == f"LLMPROPS_TEST_NEW from {Path('..', '.env')}"
    assert (os.environ["LLMPROPS_TEST_NEW"], os.environ["LLMPROPS_TEST_OLD"]) == ("secret", "old")
    assert read_dotenv() == ""
