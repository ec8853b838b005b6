"""Causal language models of transformers, as chat and as base models; the prompts of a batch share their prefix."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Any, TypeVar

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.reasoning import is_mark, opening_at_end
from pytest_llmprops.core.requests import Chat, Completion, Likelihood, Message, Reply, Usage, without_system
from pytest_llmprops.models.base import AS_TEXT, Result, scored
from pytest_llmprops.models.hf.loading import HfModel, Out
from pytest_llmprops.models.sampling import (
    MAX_TOKENS,
    Sampler,
    common_prefix,
    cut_at_stop,
    top_logprobs,
)

#: maximum tokens of the prefix per forward call
CHUNK = 1024


def group_by_prefix(prompts: Sequence[list[int]], max_size: int) -> list[range]:
    """Split sorted prompts into groups of neighbours, at most ``max_size`` each, to be evaluated together.

    A group costs its common prefix once, and the longest remainder for every row. A prompt starts a new group if that
    is clearly cheaper, for example because it has a different prefix or is much longer.
    """
    groups: list[range] = []
    start, prefix, longest, cost = 0, 0, 0, 0
    for i, prompt in enumerate(prompts):
        rows = i - start
        alone = len(prompt)
        if rows:
            new_prefix = min(prefix, common_prefix(prompts[start], prompt))
            new_longest = max(longest, alone)
            together = new_prefix + (rows + 1) * (new_longest - new_prefix)
            if rows < max_size and together <= 1.25 * (cost + alone) + 32:
                prefix, longest, cost = new_prefix, new_longest, together
                continue
            groups.append(range(start, i))
        start, prefix, longest, cost = i, alone, alone, alone
    if prompts:
        groups.append(range(start, len(prompts)))
    return groups


class PrefixCache:
    """The keys and values of the last evaluated prefix, with batch size 1.

    :param model: a transformers causal language model. Only layers with full attention can be shared and shortened;
        if the model has others (sliding windows, recurrent states), :attr:`works` is False.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._caches: Any = importlib.import_module("transformers.cache_utils")
        layers = self._caches.DynamicCache(config=model.config).layers
        self.works = bool(layers) and all(type(layer) is self._caches.DynamicLayer for layer in layers)
        self._tokens: list[int] = []
        self._layers: list[tuple[Any, Any]] = []

    def forget(self) -> None:
        """Drop the cached prefix."""
        self._tokens, self._layers = [], []

    def rows(self, prefix: list[int], count: int) -> Any:
        """Return a cache for ``count`` rows that all begin with ``prefix``."""
        rows = self._caches.DynamicCache(config=self._model.config)
        if not self.works:
            return rows
        layer_class = _buffered_layer(self._caches.DynamicLayer)
        rows = self._caches.Cache(layers=[layer_class() for _ in rows.layers])
        if prefix:
            self._evaluate(prefix)
            for i, layer in enumerate(self._layers):
                rows.update(*(states.expand(count, -1, -1, -1) for states in layer), i)
        return rows

    def _evaluate(self, prefix: list[int]) -> None:
        import torch

        cached = common_prefix(self._tokens, prefix)
        layers = [(k[:, :, :cached], v[:, :, :cached]) for k, v in self._layers]
        if cached < len(prefix):
            cache = self._caches.DynamicCache(config=self._model.config)
            for i, (keys, values) in enumerate(layers):
                if cached:
                    cache.update(keys, values, i)
            for start in range(cached, len(prefix), CHUNK):
                ids = torch.tensor([prefix[start : start + CHUNK]], device=self._model.device)
                positions = torch.arange(start, start + ids.shape[1], device=self._model.device)[None]
                self._model(
                    input_ids=ids,
                    position_ids=positions,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1,
                )
            layers = [(layer.keys, layer.values) for layer in cache.layers]
        self._tokens, self._layers = list(prefix), layers


#: number of new tokens that a cache layer reserves memory for
_ROOM = 32


@cache
def _buffered_layer(base: Any) -> Any:
    """Return a class of cache layers that write into one buffer.

    The library's layers copy everything for each new token: 8 replies after 1,200 shared tokens took 2.7 times the CPU.
    """

    class BufferedLayer(base):  # type: ignore[misc]  # the base class is known at run time only
        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            new = (key_states, value_states)
            if not self.is_initialized:
                self.lazy_initialization(*new)
                self._buffers, self._length = [part[..., :0, :] for part in new], 0
            start, self._length = self._length, self._length + key_states.shape[-2]
            if self._length > self._buffers[0].shape[-2]:
                shape = (*key_states.shape[:2], self._length + _ROOM, key_states.shape[3])
                old, self._buffers = self._buffers, [part.new_empty(shape) for part in new]
                for buffer, before in zip(self._buffers, old, strict=True):
                    buffer[:, :, :start] = before[:, :, :start]
            for buffer, part in zip(self._buffers, new, strict=True):
                buffer[:, :, start : self._length] = part
            self.keys, self.values = (buffer[:, :, : self._length] for buffer in self._buffers)
            return self.keys, self.values

        def batch_select_indices(self, indices: Any) -> None:
            self._buffers = [buffer[indices] for buffer in self._buffers]
            self.keys, self.values = (buffer[:, :, : self._length] for buffer in self._buffers)

    return BufferedLayer


# Some chat templates print today's date. A fixed date keeps prompts the same from one day to the next.
_DATE = date(2024, 7, 26)


@dataclass(slots=True)
class _Row:
    """One reply while it is generated."""

    index: int
    request: Chat | Completion
    sampler: Sampler
    #: of the prompt
    tokens: list[int]
    limit: int
    #: the opening tag of a thought, which the template wrote at the end of the prompt
    opening: str = ""
    out: list[int] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    text: str | None = None
    finish: str = "length"

    @property
    def top(self) -> int:
        """Number of alternatives to return per token."""
        return self.request.logprobs if isinstance(self.request, Chat) else 0


@dataclass(frozen=True, slots=True)
class _Scored:
    """A text whose tokens from ``start`` are scored.

    :param index: the request. :param sign: 1 for the text with an option, -1 for the text before it.
    """

    index: int
    option: int
    tokens: list[int]
    start: int
    sign: int = 1


R = TypeVar("R", _Row, _Scored)
Asked = TypeVar("Asked", bound=Chat | Completion | Likelihood)


class HfCausalModel(HfModel):
    """A causal language model of the transformers library.

    Neighbouring prompts are evaluated in groups: first their common prefix, once, which is kept for the next group;
    then the remainders as one batch. A request without a temperature gets the most probable tokens.

    :param load: returns (model, tokenizer); called at the first request.
    :param batch: maximum rows per batch. It is halved whenever a batch does not fit into memory.
    """

    def __init__(self, load: Callable[[], tuple[Any, Any]], *, seed: int, **settings: Any) -> None:
        super().__init__(load, **settings)
        self.max_batch = 4 * self._batch
        self._seed = seed
        self.prefix_cache: PrefixCache | None = None
        self.end_tokens: frozenset[int] = frozenset()
        self.special_tokens: frozenset[int] = frozenset()
        #: the tags of thoughts among the special tokens
        self.thought_tokens: frozenset[int] = frozenset()
        self._has_no_system = False

    def deviations(self) -> Sequence[str]:
        """Return that the chat template has no role for system messages, once it has refused one."""
        return ("system message put before the first user message",) if self._has_no_system else ()

    def likelihood(self, requests: Sequence[Likelihood]) -> Iterator[Result]:
        """Yield one result per request, in order, as soon as all its options are scored."""
        start = time.perf_counter()

        def reply(index: int, parts: list[tuple[_Scored, float]]) -> Reply:
            options = []
            for option in range(len(requests[index].options)):
                own = [(row, value) for row, value in parts if row.option == option]
                whole = own[0][0]
                total = sum(row.sign * value for row, value in own)
                options.append((total, len(whole.tokens) - whole.start))
            return Reply(
                value=scored(options),
                served_model=self._name,
                usage=Usage(sum(len(row.tokens) for row, _ in parts)),
                seconds=(time.perf_counter() - start) / (index + 1),
            )

        yield from self._results(requests, self._scored_rows, self.log_likelihoods, reply)

    def _answers(self, requests: Sequence[Chat | Completion]) -> Iterator[Result]:
        """Yield one result per request, in order, those of a group as soon as its replies are complete."""
        yield from self._results(
            requests,
            lambda index, request: [self._row(index, request)],
            self._replies,
            lambda index, parts: parts[0][1],
        )

    def _results(
        self,
        requests: Sequence[Asked],
        rows_of: Callable[[int, Asked], Iterable[R]],
        compute: Callable[[list[R]], Sequence[Out]],
        reply: Callable[[int, list[tuple[R, Out]]], Reply],
    ) -> Iterator[Result]:
        """Yield one result per request, in order, as soon as all its rows are computed.

        :param rows_of: returns the rows of a request, by its index. A request without them has its error as its result.
        :param compute: computes a batch of rows.
        :param reply: returns the reply to a request, by its index, from its rows and what was computed for them.
        """
        with self._lock:
            try:
                self._loaded()
            except BackendError as error:
                yield from [error] * len(requests)
                return
            rows: list[R] = []
            errors: dict[int, BackendError] = {}
            for index, request in enumerate(requests):
                try:
                    rows += list(rows_of(index, request))
                except BackendError as error:
                    errors[index] = error
            computed: dict[int, list[tuple[R, Out]]] = {}
            done = 0
            for group in group_by_prefix([row.tokens for row in rows], self._batch):
                part = [rows[i] for i in group]
                values: Sequence[Out | BackendError]
                try:
                    values = self._in_parts(part, compute)
                except BackendError as error:
                    values = [error] * len(part)
                for row, value in zip(part, values, strict=True):
                    if isinstance(value, BackendError):
                        errors[row.index] = value
                    else:
                        computed.setdefault(row.index, []).append((row, value))
                complete = rows[group.stop].index if group.stop < len(rows) else len(requests)
                while done < complete:
                    yield errors.get(done) or reply(done, computed.pop(done))
                    done += 1
            for index in range(done, len(requests)):
                yield errors[index]

    def _scored_rows(self, index: int, request: Likelihood) -> Iterator[_Scored]:
        """Yield the rows of a request.

        The log-likelihood of an option is that of the whole text minus that of the text before it. Where the tokens of
        both begin alike, the first part has the same value. So a token of the text before the option is evaluated only
        if the option changes it.
        """
        before = self._tokens(text := self._text(Chat.user(request.text)))
        for option, continuation in enumerate(request.options):
            tokens = self._tokens(text + continuation)
            start = common_prefix(before, tokens)
            if not 0 < start < len(tokens):
                problem = "adds no token" if start else "has no token before it"
                raise self._error(f"the option {continuation!r} {problem}")
            self._check_context(len(tokens))
            yield _Scored(index, option, tokens, start)
            if start < len(before):
                yield _Scored(index, option, before, start, sign=-1)

    def log_likelihoods(self, rows: Sequence[_Scored]) -> list[float]:
        """Return the log probability of the tokens of each row from its start; the rows are one batch."""
        # The last token is not followed by another; the one before the start predicts the first that counts.
        prompts, kept = [row.tokens[:-1] for row in rows], min(row.start for row in rows) - 1
        inputs = self._inputs(prompts, min(self._shared(prompts), kept))
        counts = [len(row.tokens) - row.start for row in rows]
        logits = self.network(**inputs, use_cache=True, logits_to_keep=max(counts)).logits
        values = []
        for i, (row, count) in enumerate(zip(rows, counts, strict=True)):
            targets = inputs["input_ids"].new_tensor(row.tokens[row.start :])[:, None].to(logits.device)
            of_tokens = logits[i, -count:].float().log_softmax(-1).gather(-1, targets)
            values.append(float(of_tokens.double().sum()))
        return values

    def close(self) -> None:
        """Free the model after the current token is computed."""
        super().close()
        self.prefix_cache = None

    def _loaded(self) -> bool:
        if not super()._loaded():
            return False
        self.end_tokens = self._ends()
        self.special_tokens = frozenset(self.tokenizer.all_special_ids)
        self.thought_tokens = frozenset(
            token
            for token in self.special_tokens
            if is_mark(str(self.tokenizer.decode([token], skip_special_tokens=False)))
        )
        self.prefix_cache = PrefixCache(self.network)
        return True

    def example(self, request: Chat | Completion, answer: str) -> tuple[list[int], int]:
        """Return the tokens of a prompt with its answer, and the place of the first token that the answer changes.

        The model must be loaded (:meth:`prepare`).
        """
        text = self._text(request)
        tokens = self._tokens(text + answer)
        return tokens, common_prefix(self._tokens(text), tokens)

    def _text(self, request: Chat | Completion) -> str:
        """Return the text that the model continues."""
        raise NotImplementedError

    def _tokens(self, text: str) -> list[int]:
        raise NotImplementedError

    @property
    def _context_length(self) -> int:
        config = self.network.config.get_text_config()
        return int(getattr(config, "max_position_embeddings", 0) or 1 << 30)

    def _check_context(self, tokens: int, *, room: int = 0) -> None:
        """Refuse a text that is too long.

        :param room: number of tokens that must fit after it.
        :raises BackendError: if the model's context is shorter.
        """
        if tokens + room > self._context_length:
            raise self._error(f"the prompt has {tokens} tokens, the model takes {self._context_length}")

    def _row(self, index: int, request: Chat | Completion) -> _Row:
        sampler = Sampler.of(request, self._seed)
        text = self._text(request)
        prompt = self._tokens(text)
        self._check_context(len(prompt), room=1)
        if not prompt:
            raise self._error("the prompt has no tokens")
        limit = request.max_tokens if request.max_tokens is not None else MAX_TOKENS
        limit = max(min(limit, self._context_length - len(prompt)), 0)
        opening = opening_at_end(text) if isinstance(request, Chat) else ""
        return _Row(index, request, sampler, prompt, limit, opening)

    def _free_memory(self) -> None:
        if self.prefix_cache is not None:
            self.prefix_cache.forget()
        super()._free_memory()

    def _replies(self, rows: list[_Row]) -> list[Reply]:
        start = time.perf_counter()
        for row in rows:
            # After an error, the reply starts again, and so do its random numbers.
            row.out.clear()
            row.logprobs.clear()
            row.sampler, row.text, row.finish = Sampler.of(row.request, self._seed), None, "length"
        self.generate([row for row in rows if row.limit])
        seconds = (time.perf_counter() - start) / len(rows)
        return [
            Reply(
                text=row.opening + (self._decode(row.out) if row.text is None else row.text),
                finish_reason=row.finish,
                served_model=self._name,
                usage=Usage(len(row.tokens), len(row.out)),
                logprobs=tuple(row.logprobs) if row.top else None,
                seconds=seconds,
            )
            for row in rows
        ]

    def _shared(self, prompts: Sequence[list[int]]) -> int:
        """Return the number of leading tokens that are evaluated once for all prompts; one of each remains."""
        if self.prefix_cache is None or not self.prefix_cache.works:
            return 0
        # What the first and the last in order share, all between them share.
        return min(common_prefix(min(prompts), max(prompts)), min(map(len, prompts)) - 1)

    def _inputs(self, prompts: Sequence[list[int]], shared: int) -> dict[str, Any]:
        """Return the inputs of the network for a batch of prompts, whose first ``shared`` tokens are in the cache."""
        if self.prefix_cache is None:
            raise BackendError(f"{self._name} is closed", kind="closed")
        torch: Any = importlib.import_module("torch")
        device = self.network.device
        rests = [prompt[shared:] for prompt in prompts]
        width = max(map(len, rests))
        cache = self.prefix_cache.rows(prompts[0][:shared], len(prompts))
        # Remainders are padded on the left, so that the last column is the last token of every row.
        fill = min(self.end_tokens, default=0)
        ids = torch.tensor([[fill] * (width - len(rest)) + rest for rest in rests], device=device)
        mask = torch.tensor(
            [[1] * shared + [0] * (width - len(rest)) + [1] * len(rest) for rest in rests], device=device
        )
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, shared:]
        return {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "past_key_values": cache}

    def generate(self, rows: list[_Row]) -> None:
        """Append tokens to each row until it ends; the rows are one batch with a common prefix."""
        if not rows or self.prefix_cache is None:
            return
        torch: Any = importlib.import_module("torch")
        device = self.network.device
        prompts = [row.tokens for row in rows]
        inputs = self._inputs(prompts, self._shared(prompts))
        ids, mask, positions, cache = inputs.values()
        while True:
            self._check_open()
            logits = self.network(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
            active = [i for i, token in enumerate(self._pick(rows, logits)) if self._append(rows[i], token)]
            if not active:
                return
            ids = torch.tensor([[rows[i].out[-1]] for i in active], device=device)
            if len(active) < len(rows):
                keep = torch.tensor(active, device=device)
                cache.batch_select_indices(keep)
                mask, positions = mask[keep], positions[keep]
                rows = [rows[i] for i in active]
            mask = torch.cat([mask, mask.new_ones((len(rows), 1))], dim=1)
            positions = positions[:, -1:] + 1

    def _pick(self, rows: list[_Row], logits: Any) -> list[int]:
        """Return the next token of every row. Logits are copied from the device only for rows that need them."""
        best: list[int] = logits.argmax(-1).tolist()
        for i, row in enumerate(rows):
            if row.sampler.greedy and not row.top:
                continue
            values = logits[i].float().cpu().numpy()
            if not row.sampler.greedy:
                best[i] = row.sampler.pick(values)
            if row.top and best[i] not in self.end_tokens:
                own, top = top_logprobs(values, best[i], row.top)
                entry = {"token": self._piece(best[i]), "logprob": own}
                row.logprobs.append(
                    entry | {"top": [{"token": self._piece(t), "logprob": p} for t, p in top]}
                )
        return best

    def _append(self, row: _Row, token: int) -> bool:
        """Append a token to a row's reply; return whether the reply continues."""
        if token in self.end_tokens:
            row.finish = "stop"
            return False
        row.out.append(token)
        if row.request.stop:
            row.text = cut_at_stop(self._decode(row.out), row.request.stop)
            if row.text is not None:
                row.finish = "stop"
                return False
        return len(row.out) < row.limit

    def _decode(self, tokens: list[int]) -> str:
        if self.thought_tokens:
            # The tags of thoughts may be special tokens, which would be left out.
            special = self.special_tokens
            tokens = [token for token in tokens if token not in special or token in self.thought_tokens]
        text = str(self.tokenizer.decode(tokens, skip_special_tokens=not self.thought_tokens))
        # Drop a last character whose bytes the token limit cut off.
        return text.rstrip("\ufffd")

    def _piece(self, token: int) -> str:
        # Some tokenizers drop a leading space. A character in front of the token keeps it.
        anchor = self.tokenizer.encode("a", add_special_tokens=False)[-1:]
        before = self.tokenizer.decode(anchor)
        return str(self.tokenizer.decode([*anchor, token])[len(before) :])


class HfChatModel(HfCausalModel):
    """Chat with a causal language model; the tokenizer's chat template builds the prompts."""

    def chat(self, requests: Sequence[Chat]) -> Iterator[Result]:
        """Yield one result per request, in order, those of a group as soon as its replies are complete."""
        return self._answers(requests)

    def _loaded(self) -> bool:
        is_new = super()._loaded()
        if not getattr(self.tokenizer, "chat_template", None):
            raise self._error(
                "its tokenizer has no chat template; use an instruction-tuned model, or measure it as a"
                " base model: ?kind=completion",
                kind="model",
                fatal=True,
            )
        return is_new

    def _text(self, request: Chat | Completion) -> str:
        messages: tuple[Message, ...] = getattr(request, "messages", ())
        try:
            try:
                return self._templated(messages)
            except Exception as error:
                has_system = any(message.role == "system" for message in messages)
                if not has_system or "system" not in str(error).lower():
                    raise
                # The templates of Gemma and others refuse system messages.
                text = self._templated(without_system(messages))
                self._has_no_system = True
                return text
        except Exception as error:
            line = " ".join(str(error).split())[:300]
            raise self._error(f"the chat template fails: {line}") from None

    def _templated(self, messages: Sequence[Message]) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                [{"role": message.role, "content": message.content} for message in messages],
                tokenize=False,
                add_generation_prompt=True,
                date_string=_DATE.strftime("%d %b %Y"),
                strftime_now=_DATE.strftime,
            )
        )

    def _tokens(self, text: str) -> list[int]:
        # The template has written the special tokens.
        return [int(t) for t in self.tokenizer(text, add_special_tokens=False)["input_ids"]]


class HfBaseModel(HfCausalModel):
    """A causal language model that continues texts, without a chat template."""

    def completion(self, requests: Sequence[Completion]) -> Iterator[Result]:
        """Yield one result per request, in order, those of a group as soon as its replies are complete."""
        return self._answers(requests)

    def deviations(self) -> Sequence[str]:
        """Return that prompts are not those of chat models."""
        return (AS_TEXT,)

    def _text(self, request: Chat | Completion) -> str:
        return request.prompt

    def _tokens(self, text: str) -> list[int]:
        tokens = [int(t) for t in self.tokenizer(text)["input_ids"]]
        # Few tokenizers end a text, after which a model would begin another one.
        while (
            tokens and tokens[-1] in self.end_tokens and not text.endswith(self.tokenizer.decode(tokens[-1:]))
        ):
            tokens.pop()
        return tokens
