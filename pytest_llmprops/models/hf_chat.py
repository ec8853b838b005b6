"""Conversations with a transformers causal language model, in batches that share their prompts' prefix."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply, Usage
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.hf_model import HfModel
from pytest_llmprops.models.prefix import PrefixCache, group_by_prefix, shared_prefix
from pytest_llmprops.models.sampling import MAX_TOKENS, Sampler, cut_at_stop, top_logprobs

# Templates of some models print today's date. A prompt must not change from one day to the next.
_DATE = date(2024, 7, 26)
#: new tokens for which a batch reserves memory at first
_ROOM = 32


@dataclass(slots=True)
class _Row:
    """One reply in the making."""

    index: int
    request: Chat
    sampler: Sampler
    prompt: list[int]
    limit: int
    out: list[int] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    text: str | None = None
    finish: str = "length"


class HfChatModel(HfModel):
    """Chat with a causal language model of the transformers library.

    Prompts are written by the tokenizer's chat template. A group of neighbouring prompts is evaluated
    together: their common prefix once, and kept for the next group; then the remainders as one batch. A
    request without a temperature gets the most probable tokens.

    :param load: gives (model, tokenizer); called at the first request. :param batch: most rows together.
    """

    def __init__(
        self,
        load: Callable[[], tuple[Any, Any]],
        *,
        name: str,
        identity: Mapping[str, Any],
        pinned: bool,
        batch: int,
        seed: int,
    ) -> None:
        super().__init__(load, name=name, identity=identity, pinned=pinned, batch=batch)
        self.max_batch = 4 * batch
        self._seed = seed
        self._prefix: PrefixCache | None = None
        self._ends: frozenset[int] = frozenset()

    def chat(self, requests: Sequence[Chat]) -> Sequence[Result]:
        """One reply a request, in order."""
        with self._lock:
            try:
                self._loaded()
            except BackendError as error:
                return [error] * len(requests)
            results: dict[int, Result] = {}
            rows: list[_Row] = []
            for index, request in enumerate(requests):
                try:
                    rows.append(self._row(index, request))
                except BackendError as error:
                    results[index] = error
            for group in group_by_prefix([row.prompt for row in rows], self._batch):
                self._serve([rows[i] for i in group], results)
            return [results[i] for i in range(len(requests))]

    def forget(self) -> None:
        """Drop what is kept of earlier prompts; the next prompt is evaluated from its start."""
        with self._lock:
            if self._prefix is not None:
                self._prefix.forget()

    def close(self) -> None:
        """Free the model, after the token that is being computed."""
        super().close()
        self._prefix = None

    def _loaded(self) -> bool:
        if not super()._loaded():
            return False
        if not getattr(self._tokenizer, "chat_template", None):
            raise BackendError(
                f"{self._name}: its tokenizer has no chat template; use an instruction-tuned model",
                kind="model",
                fatal=True,
            )
        ends = {self._tokenizer.eos_token_id}
        configured = getattr(self._model.generation_config, "eos_token_id", None)
        ends.update(configured if isinstance(configured, list) else [configured])
        self._ends = frozenset(end for end in ends if end is not None)
        self._prefix = PrefixCache(self._model)
        return True

    @property
    def _context_length(self) -> int:
        config = self._model.config.get_text_config()
        return int(getattr(config, "max_position_embeddings", 0) or 1 << 30)

    def _row(self, index: int, request: Chat) -> _Row:
        sampler = Sampler.of(request, self._seed)
        try:
            text = self._tokenizer.apply_chat_template(
                [{"role": m.role, "content": m.content} for m in request.messages],
                tokenize=False,
                add_generation_prompt=True,
                date_string=_DATE.strftime("%d %b %Y"),
                strftime_now=_DATE.strftime,
            )
            prompt = [int(t) for t in self._tokenizer(text, add_special_tokens=False)["input_ids"]]
        except Exception as error:
            line = " ".join(str(error).split())[:300]
            raise BackendError(f"{self._name}: the chat template fails: {line}", kind="request") from None
        length = self._context_length
        if len(prompt) >= length:
            raise BackendError(
                f"{self._name}: the prompt has {len(prompt)} tokens, the model takes {length}", kind="request"
            )
        limit = request.max_tokens if request.max_tokens is not None else MAX_TOKENS
        return _Row(index, request, sampler, prompt, max(min(limit, length - len(prompt)), 0))

    def _serve(self, rows: list[_Row], results: dict[int, Result]) -> None:
        torch: Any = importlib.import_module("torch")
        start = time.perf_counter()
        try:
            with torch.inference_mode():
                self._generate([row for row in rows if row.limit])
        except torch.OutOfMemoryError:
            if self._prefix is not None:
                self._prefix.forget()
            torch.cuda.empty_cache()
            if len(rows) == 1:
                error = BackendError(f"{self._name}: out of memory for one prompt", kind="request")
                results[rows[0].index] = error
                return
            middle = len(rows) // 2
            for row in rows:
                row.out.clear()
                row.logprobs.clear()
                # The draws start again with the reply.
                row.sampler, row.text, row.finish = Sampler.of(row.request, self._seed), None, "length"
            self._serve(rows[:middle], results)
            self._serve(rows[middle:], results)
            return
        except BackendError as error:
            for row in rows:
                results[row.index] = error
            return
        seconds = (time.perf_counter() - start) / len(rows)
        for row in rows:
            results[row.index] = Reply(
                text=self._decode(row.out) if row.text is None else row.text,
                finish_reason=row.finish,
                served_model=self._name,
                usage=Usage(len(row.prompt), len(row.out)),
                logprobs=tuple(row.logprobs) if row.request.logprobs else None,
                seconds=seconds,
            )

    def _generate(self, rows: list[_Row]) -> None:
        if not rows or self._prefix is None:
            return
        torch: Any = importlib.import_module("torch")
        device = self._model.device
        shared = shared_prefix([row.prompt for row in rows]) if self._prefix.works else 0
        rests = [row.prompt[shared:] for row in rows]
        width = max(map(len, rests))
        room = width + min(max(row.limit for row in rows), _ROOM)
        cache = self._prefix.rows(rows[0].prompt[:shared], len(rows), room)
        # Remainders end in the same column, so that one column holds every row's last token.
        fill = min(self._ends, default=0)
        ids = torch.tensor([[fill] * (width - len(rest)) + rest for rest in rests], device=device)
        mask = torch.tensor(
            [[1] * shared + [0] * (width - len(rest)) + [1] * len(rest) for rest in rests], device=device
        )
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, shared:]
        while True:
            if self._closed:
                raise BackendError(f"{self._name} was closed before its reply was complete", kind="closed")
            logits = self._model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
            going = [i for i, token in enumerate(self._pick(rows, logits)) if self._goes_on(rows[i], token)]
            if not going:
                return
            ids = torch.tensor([[rows[i].out[-1]] for i in going], device=device)
            if len(going) < len(rows):
                keep = torch.tensor(going, device=device)
                cache.batch_select_indices(keep)
                mask, positions = mask[keep], positions[keep]
                rows = [rows[i] for i in going]
            mask = torch.cat([mask, mask.new_ones((len(rows), 1))], dim=1)
            positions = positions[:, -1:] + 1

    def _pick(self, rows: list[_Row], logits: Any) -> list[int]:
        """The next token of every row; logits leave the device only where a row needs them."""
        best: list[int] = logits.argmax(-1).tolist()
        for i, row in enumerate(rows):
            if row.sampler.greedy and not row.request.logprobs:
                continue
            values = logits[i].float().cpu().numpy()
            if not row.sampler.greedy:
                best[i] = row.sampler.pick(values)
            if row.request.logprobs and best[i] not in self._ends:
                own, top = top_logprobs(values, best[i], row.request.logprobs)
                entry = {"token": self._piece(best[i]), "logprob": own}
                row.logprobs.append(
                    entry | {"top": [{"token": self._piece(t), "logprob": p} for t, p in top]}
                )
        return best

    def _goes_on(self, row: _Row, token: int) -> bool:
        if token in self._ends:
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
        text = str(self._tokenizer.decode(tokens, skip_special_tokens=True))
        # A character whose last bytes were cut off by the limit is dropped.
        return text.rstrip("\ufffd")

    def _piece(self, token: int) -> str:
        # Some tokenizers drop a text's leading space, but not one inside it.
        anchor = self._tokenizer.encode("a", add_special_tokens=False)[-1:]
        before = self._tokenizer.decode(anchor)
        return str(self._tokenizer.decode([*anchor, token])[len(before) :])
