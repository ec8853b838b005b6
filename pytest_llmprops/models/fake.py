"""The public fake model: fixed replies from a list, rules or a function, for tests without a network.

From Python::

    FakeModel(["A", "B"])                      # in order; one call too many stops the run with one line
    FakeModel({r"rhyme": "A", r".*": "B"})     # the first pattern that matches the last turn
    FakeModel(lambda chat: chat.prompt[-1])    # returns a str, a Reply or an exception

As a model specification: ``fake:echo``, ``fake:constant?text=A``, ``fake:random?choices=A,B&seed=1``,
``fake:list?file=PATH``, ``fake:rule?file=PATH.json``, ``fake:call?file=PATH.py&function=NAME``. Each also
takes ``delay=SECONDS``, ``fail=RATE`` (the share of prompts whose first call fails and is retried),
``price_in``/``price_out`` (USD per million tokens) and ``kinds=completion,likelihood`` or ``kinds=translate``
(default: chat).

Its calls use the broker and the reply store like those of any other backend.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
import runpy
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableSequence, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.faults import fault_text
from pytest_llmprops.core.requests import Chat, Completion, Kind, Likelihood, Price, Reply, Translate, Usage
from pytest_llmprops.core.texts import did_you_mean, one_line
from pytest_llmprops.models.api.prices import price
from pytest_llmprops.models.base import CallOptions, Result, scored
from pytest_llmprops.models.registry import Backend, Maker
from pytest_llmprops.models.spec import ModelSpec

FakeReply = str | Reply | Exception
Asked = Chat | Completion | Likelihood | Translate
Respond = Callable[[Any], FakeReply | Awaitable[FakeReply]]

_PARAMS: Mapping[str, tuple[str, ...]] = {
    "echo": (),
    "constant": ("text",),
    "random": ("choices", "seed"),
    "list": ("file",),
    "rule": ("file",),
    "call": ("file", "function"),
}
_COMMON = ("delay", "fail", "price_in", "price_out", "kinds")
_SERVED: tuple[Kind, ...] = ("chat", "completion", "likelihood", "translate")
#: the log-likelihood of the option that a fake model replies with, and of the others
_LIKELY, _UNLIKELY = -0.125, -4.0


class FakeModel:
    """A model for tests, with fixed replies to chats, to the texts of a base model, and to sentences to translate.

    To a :class:`Likelihood`, the option that equals its reply is the most likely.

    ``requests`` lists every request that it received, in order.

    :param replies: a sequence (one reply per call, in order), a mapping from regular expressions to replies, or a
        function of the request (by default a :class:`Chat`). A reply is a text, a :class:`Reply` or an exception.
    :param delay: duration of each call, in seconds.
    :param fail: share of prompts whose first call fails.
    :param name: distinguishes fake models in the reply store, together with their replies.
    :param price: the price of its tokens.
    """

    max_batch = 1
    blocking = False
    pinned = True

    def __init__(
        self,
        replies: Sequence[FakeReply] | Mapping[str, FakeReply] | Respond,
        *,
        delay: float = 0.0,
        fail: float = 0.0,
        name: str = "fake",
        price: Price | None = None,
    ) -> None:
        if isinstance(replies, str):
            raise UsageError("FakeModel takes a list, a mapping or a function: write FakeModel([text])")
        self.requests: MutableSequence[Any] = []
        self._delay, self._fail, self._price, self._name = delay, fail, price, name
        self._failed: set[tuple[str, int]] = set()
        self._respond: Respond
        if callable(replies):
            self._respond, source = replies, _source_of(replies)
        elif isinstance(replies, Mapping):
            self._respond, source = _by_rule(list(replies.items())), repr(dict(replies))
        else:
            self._respond, source = _in_order(list(replies)), repr(list(replies))
        digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
        self.identity: Mapping[str, Any] = {"backend": "fake", "name": name, "replies": digest}

    async def chat(self, requests: Sequence[Any]) -> list[Result]:
        """Return one result per request, in order."""
        started = time.perf_counter()
        # Recorded before the wait, so that the order is the order of the calls.
        self.requests += requests
        if self._delay:
            await asyncio.sleep(self._delay)
        return [await self._answer(request, started) for request in requests]

    completion = translate = chat

    async def likelihood(self, requests: Sequence[Likelihood]) -> list[Result]:
        """Return one result per request, in order."""
        results = await self.chat(requests)
        return [_scores(request, result) for request, result in zip(requests, results, strict=True)]

    async def _answer(self, request: Asked, started: float) -> Result:
        if self._fail:
            key = (_prompt(request), _sample(request))
            if key not in self._failed and _draw("fail", *key) < self._fail:
                self._failed.add(key)
                return BackendError(
                    "the fake model failed on purpose (fail=RATE)", kind="fake", transient=True
                )
        try:
            reply: Any = self._respond(request)
            if not isinstance(reply, str) and inspect.isawaitable(reply):
                reply = await reply
        except Exception as error:
            text = f"the fake model's function raised {fault_text(error)}"
            return BackendError(text, kind="fake", fatal=True)
        if isinstance(reply, BackendError):
            return reply
        if isinstance(reply, Exception):
            return BackendError(fault_text(reply), kind="fake")
        if isinstance(reply, str):
            usage = Usage(len(_prompt(request)) // 4, len(reply.split()))
            reply = Reply(reply, usage=usage, served_model=self._name)
        if not isinstance(reply, Reply):
            kind = type(reply).__name__
            text = f"the fake model's function returned {kind}; return str, Reply or an exception"
            return BackendError(text, kind="fake", fatal=True)
        cost = self._price.of(reply.usage) if self._price and reply.cost_usd is None else reply.cost_usd
        return replace(reply, seconds=time.perf_counter() - started, cost_usd=cost)

    def deviations(self) -> Sequence[str]:
        """Return nothing: the fake model never changes a request."""
        return ()

    def close(self) -> None:
        """Do nothing: the fake model has no resources."""


def _scores(request: Likelihood, result: Result) -> Result:
    if isinstance(result, BackendError) or result.value is not None:
        return result
    values = (_LIKELY if option.strip() == result.text.strip() else _UNLIKELY for option in request.options)
    return replace(result, text="", value=scored((value, 1) for value in values))


def _sample(request: Asked) -> int:
    return 0 if isinstance(request, (Likelihood, Translate)) else request.sample


def _prompt(request: Asked) -> str:
    return request.text if isinstance(request, Translate) else request.prompt


def _last(request: Asked) -> str:
    return request.messages[-1].content if isinstance(request, Chat) else request.text


def _in_order(replies: list[FakeReply]) -> Respond:
    used = 0

    def respond(request: Asked) -> FakeReply:
        nonlocal used
        if used >= len(replies):
            text = f"the fake model ran out of replies after {len(replies)}"
            return BackendError(text, kind="fake", fatal=True)
        used += 1
        return replies[used - 1]

    return respond


def _by_rule(rules: Sequence[tuple[str, FakeReply]]) -> Respond:
    try:
        compiled = [(re.compile(pattern, re.DOTALL), reply) for pattern, reply in rules]
    except re.error as error:
        raise UsageError(f"fake model: {error.pattern!r} is not a regular expression: {error}") from None

    def respond(request: Asked) -> FakeReply:
        last = _last(request)
        for pattern, reply in compiled:
            if pattern.search(last):
                return reply
        return BackendError(f"the fake model has no rule for: {one_line(last, 80)}", kind="fake", fatal=True)

    return respond


def _at_random(choices: Sequence[str], seed: str) -> Respond:
    return lambda request: choices[int(_draw(seed, _prompt(request), _sample(request)) * len(choices))]


def _draw(*parts: Any) -> float:
    """Return a number in [0, 1) that depends only on ``parts``."""
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big") / 2**48


def _source_of(function: Callable[..., Any]) -> str:
    """Return the function's source, or its name if the source cannot be read."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return (
            f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(type(function)))}"
        )


def _parse_reply(value: Any, where: str) -> FakeReply:
    """Parse a reply of a file: text, ``{"text", "finish_reason"}`` or ``{"error", "transient", "fatal", "kind"}``."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return Reply(value["text"], finish_reason=value.get("finish_reason", "stop"), served_model="fake")
    if isinstance(value, dict) and isinstance(value.get("error"), str):
        return BackendError(
            value["error"],
            kind=str(value.get("kind", "fake")),
            transient=bool(value.get("transient")),
            fatal=bool(value.get("fatal")),
        )
    raise UsageError(f'{where}: not a reply; write a text, {{"text": ...}} or {{"error": ...}}')


def _read(spec: ModelSpec) -> str:
    file = spec.params.get("file")
    if not file:
        raise spec.error("add file=PATH")
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise spec.error(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise spec.error(f"{file} is not UTF-8 text") from None


def _read_list(spec: ModelSpec) -> list[FakeReply]:
    text = _read(spec)
    values = _parse_json(spec, text) if text.lstrip().startswith("[") else text.splitlines()
    return [_parse_reply(value, f"{spec.params['file']}: entry {i}") for i, value in enumerate(values, 1)]


def _read_rules(spec: ModelSpec) -> dict[str, FakeReply]:
    rules: dict[str, FakeReply] = {}
    for number, rule in enumerate(_parse_json(spec, _read(spec)), 1):
        where = f"{spec.params['file']}: rule {number}"
        if not isinstance(rule, dict) or not isinstance(rule.get("match"), str) or "reply" not in rule:
            raise UsageError(f'{where}: write {{"match": REGEX, "reply": TEXT}}')
        rules.setdefault(rule["match"], _parse_reply(rule["reply"], where))
    return rules


def _parse_json(spec: ModelSpec, text: str) -> list[Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise spec.error(f"{spec.params['file']} is not JSON: {error}") from None
    if not isinstance(values, list):
        raise spec.error(f"{spec.params['file']} must be a JSON list")
    return values


def _read_function(spec: ModelSpec) -> Respond:
    """Run the user's Python file and return the function that the specification names."""
    _read(spec)  # for its messages
    file, name = spec.params["file"], spec.params.get("function", "reply")
    try:
        namespace = runpy.run_path(file)
    except Exception as error:
        raise spec.error(f"{file} cannot be run: {fault_text(error)}") from None
    if not callable(namespace.get(name)):
        raise spec.error(f"{file} has no function '{name}'; add function=NAME")
    function: Respond = namespace[name]
    return function


def _kinds(spec: ModelSpec) -> frozenset[Kind]:
    names = spec.params.get("kinds", "chat").split(",")
    if not set(names) <= set(_SERVED):
        raise spec.error(f"kinds must be a list of {', '.join(_SERVED)}, separated by commas")
    return frozenset(kind for kind in _SERVED if kind in names)


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    if spec.name not in _PARAMS:
        raise spec.error(
            f"unknown fake model '{spec.name}'; choose from {', '.join(_PARAMS)}"
            + did_you_mean(spec.name, _PARAMS)
        )
    spec.only(*_PARAMS[spec.name], *_COMMON)
    _kinds(spec)
    replies, source = _replies_of(spec)
    delay, fail = spec.number("delay") or 0.0, spec.number("fail") or 0.0
    cost = price(spec.name, spec.params, options.prices)

    def make() -> FakeModel:
        model = FakeModel(replies, delay=delay, fail=fail, name=f"fake:{spec.name}", price=cost)
        if callable(replies):
            # The specification or the file determines what a function replies.
            digest = hashlib.sha256(f"{source} {spec.params.get('function', '')}".encode()).hexdigest()
            model.identity = {**model.identity, "replies": digest}
        # Nobody reads those of a specification, and a run may have millions.
        model.requests = deque(maxlen=0)
        return model

    return make


def _replies_of(spec: ModelSpec) -> tuple[list[FakeReply] | dict[str, FakeReply] | Respond, str]:
    """Return the replies of a specification, and what determines those of a function."""
    if spec.name == "constant":
        return {"": spec.params.get("text", "A")}, ""
    if spec.name == "random":
        choices, seed = spec.params.get("choices", "A,B").split(","), spec.params.get("seed", "0")
        return _at_random(choices, seed), f"{choices} {seed}"
    if spec.name == "list":
        return _read_list(spec), ""
    if spec.name == "rule":
        return _read_rules(spec), ""
    return (_last, "") if spec.name == "echo" else (_read_function(spec), _read(spec))


BACKEND = Backend(_check, _kinds, is_free=True, example="fake:echo")
