"""Base models behind ``/v1/completions``: continuations, log-likelihoods, servers that do not score prompts."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_llmprops.core.requests import Completion, Likelihood
from pytest_llmprops.models.api.completions import BACKEND
from pytest_llmprops.models.base import kinds_of
from pytest_llmprops.models.registry import parse_spec
from tests.support.backends import called, error, fatal, make, refuse, reply
from tests.support.completions_server import CompletionsServer, completions_server
from tests.support.networks import clear_network

TEXT = 'Input: "one, two" Label: A\nInput: "three" Label:'
OPTIONS = (" A", " B", " a longer option")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove what the machine sets from the environment."""
    clear_network(monkeypatch)


def result_of(server: CompletionsServer, request: Completion | Likelihood) -> Any:
    """Return the result of one call."""
    return called(make("completions:base", base_url=server.url), request)[0]


def test_a_text_is_continued() -> None:
    """The body has the text and the parameters, and the reply is the continuation."""
    with completions_server() as server:
        request = Completion("Once", 0.0, max_tokens=4, stop=("\n",), extra=(("top_p", 0.5),))
        got = reply(result_of(server, request))
    assert server.bodies == [
        {"model": "base", "prompt": "Once", "temperature": 0.0, "max_tokens": 4, "stop": ["\n"], "top_p": 0.5}
    ]
    assert (got.text, got.finish_reason, got.usage.prompt_tokens) == (" ok", "length", 2)


@pytest.mark.parametrize("mode", ["vllm", "no-usage", "reversed"])
def test_options_are_scored(mode: str) -> None:
    """One call scores all options, whatever the server lists after the prompt."""
    with completions_server(mode) as server:
        got = reply(result_of(server, Likelihood(TEXT, OPTIONS)))
    [body] = server.bodies
    assert body["prompt"] == [TEXT, *(TEXT + option for option in OPTIONS)]
    assert (body["echo"], body["logprobs"], body["max_tokens"]) == (True, 1, 1)
    expected = [server.log_likelihood(TEXT, option) for option in OPTIONS]
    assert [option["logprob"] for option in got.value["options"]] == pytest.approx(expected)
    assert [option["tokens"] for option in got.value["options"]] == [1, 1, 3]
    assert got.text == ""


def test_an_option_that_changes_a_token_of_the_text() -> None:
    """Where a token spans the border, the option has the difference of the two texts."""
    with completions_server() as server:
        error(result_of(server, Likelihood("the str", ("ong", ""))))
        got = reply(result_of(server, Likelihood("the str", ("ong", "ange one"))))
    assert server.tokens("the strong") == ["<s>", "the", " strong"]
    expected = [server.log_likelihood("the str", option) for option in ("ong", "ange one")]
    assert [option["logprob"] for option in got.value["options"]] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("silent", "returned no log probabilities of the prompt's tokens"),
        ("miscounted", "returned no log probabilities of the prompt's tokens"),
        ("no-logprobs", "returned no log probabilities of the prompt's tokens"),
        ("gaps", "returned no log probability of some of the prompt's tokens"),
        ("one-choice", "returned 1 choices for 4 prompts"),
        ("llamacpp", "Only no echo is supported"),
    ],
)
def test_a_server_that_scores_no_prompts(mode: str, words: str) -> None:
    """A server without log probabilities of the prompt is an error with one line; no option is chosen for it."""
    with completions_server(mode) as server:
        error(result_of(server, Likelihood(TEXT, OPTIONS)), words)


def test_identity_and_specification() -> None:
    """The identity differs from that of a chat model; a base model is marked by a deviation."""
    with completions_server() as server:
        model = make("completions:base", base_url=server.url)
        assert (
            kinds_of(model) == BACKEND.kinds(parse_spec("completions:base")) == {"completion", "likelihood"}
        )
        assert model.identity == {"backend": "completions", "name": "base", "base_url": server.url}
    assert any("base model" in text for text in model.deviations())
    refuse("completions:base?n=off", "'n' is not a parameter of completions")
    refuse("completions:base?kind=chat", "it takes price_in, price_out")


def test_parameters_that_the_plugin_sets() -> None:
    """--llm-param may not replace the prompt."""
    with completions_server() as server:
        refused = fatal(result_of(server, Completion("Once", extra=(("echo", True),))))
    assert refused.message == "--llm-param echo: this is set by the plugin"
