"""The stub server used to measure the engine."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

import pytest

from bench.stub_server import RunningStub, running_stub
from pytest_llmprops.benchmarks.oracle.extraction import PROMPT, read_list
from pytest_llmprops.benchmarks.oracle.scheme import fill
from pytest_llmprops.benchmarks.oracle.synonyms import read_named
from pytest_llmprops.core.requests import Reply


def ask(stub: RunningStub, content: str, *, key: str = "k", **fields: Any) -> tuple[int, dict[str, Any]]:
    """Return (status, parsed answer) of one call for a single user message."""
    connection = HTTPConnection(stub.url.split("/")[2], timeout=30)
    body = {"model": "m", "messages": [{"role": "user", "content": content}], **fields}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Authorization": f"Bearer {key}"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def text(answer: dict[str, Any]) -> str:
    """Return the first choice's text."""
    content: str = answer["choices"][0]["message"]["content"]
    return content


def test_answers_follow_from_the_prompt() -> None:
    """Two servers give the same answer to the same prompt, and both answers occur."""
    prompts = [f"question {i}" for i in range(20)]
    with running_stub(delay=0) as one, running_stub(delay=0) as two:
        first = [text(ask(one, p)[1]) for p in prompts]
        assert first == [text(ask(two, p)[1]) for p in prompts]
    assert set(first) == {"A", "B"}


def test_statistics() -> None:
    """A prompt sent again after its answer is a repeat; counts are per prompt; eight calls at once are counted."""
    with running_stub(delay=0.2) as stub, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: ask(stub, f"q{i}"), range(16)))
        ask(stub, "q0")
        stats = stub.stats(prompts=True)
    assert (stats["requests"], stats["distinct"], stats["repeats"]) == (17, 16, 1)
    assert (stats["prompts"]["q0"], stats["prompts"]["q1"]) == (2, 1)
    assert (stats["peak_in_flight"], stats["in_flight"]) == (8, 0)


def test_injected_faults_hit_the_first_attempt_only() -> None:
    """About the requested share of prompts fail at the first attempt, and succeed at the second."""
    prompts = [f"q{i}" for i in range(200)]
    with running_stub(delay=0, rate_429=0.2, rate_500=0.1) as stub:
        first, second = ([ask(stub, p)[0] for p in prompts] for _ in range(2))
    assert 20 <= first.count(429) <= 60
    assert 8 <= first.count(500) <= 35
    assert second == [200] * 200


@pytest.mark.parametrize(("doomed", "failed"), [("3/20", 3), ("q12|q15", 2)])
def test_doomed_prompts_always_fail(doomed: str, failed: int) -> None:
    """``3/20`` fails three of twenty prompts, and not the first; substrings separated by a bar select prompts."""
    prompts = [f"q{i}" for i in range(20)]
    with running_stub(delay=0, always_500=doomed) as stub:
        first, second = ([ask(stub, p)[0] for p in prompts] for _ in range(2))
    assert first == second
    assert first.count(500) == failed
    assert first[0] == 200


def test_n_logprobs_and_limits() -> None:
    """``n`` choices, ``top_logprobs`` alternatives, and an answer cut at the token limit."""
    with running_stub(delay=0, answer="constant:one two three") as stub:
        answer = ask(stub, "q", n=2, logprobs=True, top_logprobs=3, max_completion_tokens=2)[1]
    assert [c["message"]["content"] for c in answer["choices"]] == ["one two"] * 2
    assert answer["choices"][0]["finish_reason"] == "length"
    assert len(answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 3
    assert answer["usage"]["completion_tokens"] == 4


def test_reasoner_hides_tokens() -> None:
    """A reasoning model refuses a temperature, and returns an empty answer with a small budget."""
    with running_stub(delay=0) as stub:
        status, refusal = ask(stub, "q", model="reasoner", temperature=0)
        assert (status, refusal["error"]["param"]) == (400, "temperature")
        answer = ask(stub, "q", model="reasoner", max_completion_tokens=5)[1]
    assert answer["choices"][0]["message"]["content"] is None
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 5


def test_oracle_answers_are_those_of_an_ideal_extractor() -> None:
    """Prompt 1 gets a list of the capitalised words, prompt 2 a decision, prompts 3 and 4 five names."""
    sentence = "Abbury and Big Beldale are near Abbury."
    about = f'"Abbury" in the sentence "{sentence}"'
    with running_stub(delay=0, answer="oracle") as stub:
        content = text(ask(stub, fill(PROMPT, text=sentence))[1])
        named = text(ask(stub, f"Is the entity {about} a name?")[1])
        offered = text(ask(stub, f"Please list synonyms for {about}.")[1])
        other = text(ask(stub, "Another question")[1])
    assert read_list(content, sentence).names == frozenset({"abbury", "big beldale"})
    assert read_named(Reply(named)) is True
    assert len(read_list(offered).names or ()) == 5
    assert other in ("A", "B")


def test_unknown_option_is_named() -> None:
    """A misspelt option is an error that lists the valid options."""
    with pytest.raises(TypeError, match=r"'dealy'.*delay"), running_stub(dealy=1):
        pass
