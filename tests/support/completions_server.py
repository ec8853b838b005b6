"""A server of ``/v1/completions`` for tests, as the documentation of vLLM and llama.cpp describes it.

- vLLM, "OpenAI-Compatible Server", Completions API, and ``CompletionRequest`` (docs.vllm.ai): ``prompt`` may be a list;
  ``echo`` with ``logprobs`` returns ``logprobs.tokens`` and ``logprobs.token_logprobs`` of the prompt, then of what was
  generated; the first token has null; the beginning-of-text token is listed; ``usage`` counts all prompts.
- llama.cpp, ``tools/server/README.md`` and ``oaicompat_completion_params_parse``: status 400, "Only no echo is
  supported".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fixtures.apis import Answer, Call, refusal, serving

#: (text before a token, token) -> its log probability
Score = Callable[[str, str], float]
_TOKENS = re.compile(r" ?\w+|\W")


def by_length(before: str, token: str) -> float:
    """Return a log probability that depends on the token and on all before it."""
    return -(1.0 + len(token) + (len(before) * 7 + sum(map(ord, token))) % 11) / 8


@dataclass
class CompletionsServer:
    """How the server answers; ``bodies`` has the calls.

    :param mode: ``vllm``; ``no-usage``; ``miscounted`` has another usage; ``reversed`` choices; ``one-choice``;
        ``silent`` ignores ``echo``; ``no-logprobs``; ``gaps`` lacks some log probabilities; ``llamacpp``.
    """

    mode: str = "vllm"
    score: Score = by_length
    text: str = " ok"
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of a text, with the beginning of text."""
        return ["<s>", *_TOKENS.findall(text)]

    def log_likelihood(self, before: str, option: str) -> float:
        """Return the log-likelihood of an option, computed from the tokens of the two texts."""
        whole, start = (self._scores(self.tokens(text))[1:] for text in (before + option, before))
        return math.fsum(whole) - math.fsum(start)

    def _scores(self, tokens: list[str]) -> list[Any]:
        """Return the log probability of each token; the first one has none."""
        starts = ("".join(tokens[:place]) for place in range(1, len(tokens)))
        return [None, *(self.score(start, token) for start, token in zip(starts, tokens[1:], strict=True))]

    def answer(self, call: Call) -> Answer:
        """Return the answer to a call."""
        if call.path != "/v1/completions":
            return 404, {}, {}
        body = dict(call.body)
        self.bodies.append(body)
        if self.mode == "llamacpp" and body.get("echo"):
            return refusal("Only no echo is supported")
        prompts = [body["prompt"]] if isinstance(body["prompt"], str) else body["prompt"]
        choices = [self._choice(index, prompt, body) for index, prompt in enumerate(prompts)]
        if self.mode == "reversed":
            choices.reverse()
        if self.mode == "one-choice":
            choices = choices[:1]
        answer: dict[str, Any] = {"object": "text_completion", "model": body["model"], "choices": choices}
        if self.mode != "no-usage":
            total = sum(len(self.tokens(prompt)) for prompt in prompts) - (self.mode == "miscounted")
            answer["usage"] = {"prompt_tokens": total, "completion_tokens": len(prompts)}
        return 200, {}, answer

    def _choice(self, index: int, prompt: str, body: dict[str, Any]) -> dict[str, Any]:
        echo = body.get("echo") and self.mode != "silent"
        tokens = [*(self.tokens(prompt) if echo else ()), self.text]
        scores = self._scores(tokens)
        if self.mode == "gaps":
            scores[-2] = None
        answered: dict[str, Any] = {"index": index, "text": (prompt if echo else "") + self.text}
        answered |= {"finish_reason": "length", "logprobs": None}
        if body.get("logprobs") and self.mode != "no-logprobs":
            answered["logprobs"] = {"tokens": tokens, "token_logprobs": scores}
        return answered


@contextmanager
def completions_server(mode: str = "vllm", **settings: Any) -> Iterator[CompletionsServer]:
    """Run a :class:`CompletionsServer` on a free port."""
    server = CompletionsServer(mode, **settings)

    with serving(server.answer) as address:
        server.url = f"{address}/v1"
        yield server
