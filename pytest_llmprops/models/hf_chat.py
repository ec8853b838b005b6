"""Chat with causal language models of transformers; the prompts of a batch share their prefix."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply, Usage
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.hf_model import HfModel
from pytest_llmprops.models.prefix import PrefixCache, group_by_prefix, shared_prefix
from pytest_llmprops.models.sampling import MAX_TOKENS, Sampler, cut_at_stop, top_logprobs

# Some chat templates print today's date. A fixed date keeps prompts the same from one day to the next.
_DATE = date(2024, 7, 26)
#: number of new tokens that a batch first reserves memory for
_ROOM = 32


@dataclass(slots=True)
class _Row:
    """One reply while it is generated."""

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

    The tokenizer's chat template builds the prompts. Neighbouring prompts are evaluated in groups: first their common
    prefix, once, which is kept for the next group; then the remainders as one batch. A request without a temperature
    gets the most probable tokens.

    :param load: returns (model, tokenizer); called at the first request.
    :param batch: maximum rows per batch.
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
        self.prefix_cache: PrefixCache | None = None
        self.end_tokens: frozenset[int] = frozenset()

    def chat(self, requests: Sequence[Chat]) -> Iterator[Result]:
        """Yield one result per request, in order, those of a group as soon as its replies are complete."""
        with self._lock:
            try:
                self._loaded()
            except BackendError as error:
                yield from [error] * len(requests)
                return
            results: dict[int, Result] = {}
            rows: list[_Row] = []
            for index, request in enumerate(requests):
                try:
                    rows.append(self._row(index, request))
                except BackendError as error:
                    results[index] = error
            done = 0
            for group in group_by_prefix([row.prompt for row in rows], self._batch):
                self._serve([rows[i] for i in group], results)
                while done in results:
                    yield results[done]
                    done += 1
            for index in range(done, len(requests)):
                yield results[index]

    def forget(self) -> None:
        """Drop the cached prefix; the next prompt is evaluated from its start."""
        with self._lock:
            if self.prefix_cache is not None:
                self.prefix_cache.forget()

    def close(self) -> None:
        """Free the model after the current token is computed."""
        super().close()
        self.prefix_cache = None

    def _loaded(self) -> bool:
        if not super()._loaded():
            return False
        if not getattr(self.tokenizer, "chat_template", None):
            raise BackendError(
                f"{self._name}: its tokenizer has no chat template; use an instruction-tuned model",
                kind="model",
                fatal=True,
            )
        ends = {self.tokenizer.eos_token_id}
        configured = getattr(self.network.generation_config, "eos_token_id", None)
        ends.update(configured if isinstance(configured, list) else [configured])
        self.end_tokens = frozenset(end for end in ends if end is not None)
        self.prefix_cache = PrefixCache(self.network)
        return True

    @property
    def _context_length(self) -> int:
        config = self.network.config.get_text_config()
        return int(getattr(config, "max_position_embeddings", 0) or 1 << 30)

    def _row(self, index: int, request: Chat) -> _Row:
        sampler = Sampler.of(request, self._seed)
        try:
            text = self.tokenizer.apply_chat_template(
                [{"role": m.role, "content": m.content} for m in request.messages],
                tokenize=False,
                add_generation_prompt=True,
                date_string=_DATE.strftime("%d %b %Y"),
                strftime_now=_DATE.strftime,
            )
            prompt = [int(t) for t in self.tokenizer(text, add_special_tokens=False)["input_ids"]]
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
                self.generate([row for row in rows if row.limit])
        except torch.OutOfMemoryError:
            if self.prefix_cache is not None:
                self.prefix_cache.forget()
            torch.cuda.empty_cache()
            if len(rows) == 1:
                error = BackendError(f"{self._name}: out of memory for one prompt", kind="request")
                results[rows[0].index] = error
                return
            middle = len(rows) // 2
            for row in rows:
                row.out.clear()
                row.logprobs.clear()
                # The reply starts again, and so do its random numbers.
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

    def generate(self, rows: list[_Row]) -> None:
        """Append tokens to each row until it ends; the rows are one batch with a common prefix."""
        if not rows or self.prefix_cache is None:
            return
        torch: Any = importlib.import_module("torch")
        device = self.network.device
        shared = shared_prefix([row.prompt for row in rows]) if self.prefix_cache.works else 0
        rests = [row.prompt[shared:] for row in rows]
        width = max(map(len, rests))
        room = width + min(max(row.limit for row in rows), _ROOM)
        cache = self.prefix_cache.rows(rows[0].prompt[:shared], len(rows), room)
        # Remainders are padded on the left, so that the last column is the last token of every row.
        fill = min(self.end_tokens, default=0)
        ids = torch.tensor([[fill] * (width - len(rest)) + rest for rest in rests], device=device)
        mask = torch.tensor(
            [[1] * shared + [0] * (width - len(rest)) + [1] * len(rest) for rest in rests], device=device
        )
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, shared:]
        while True:
            if self.is_closed:
                raise BackendError(f"{self._name} was closed before the reply was complete", kind="closed")
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
            if row.sampler.greedy and not row.request.logprobs:
                continue
            values = logits[i].float().cpu().numpy()
            if not row.sampler.greedy:
                best[i] = row.sampler.pick(values)
            if row.request.logprobs and best[i] not in self.end_tokens:
                own, top = top_logprobs(values, best[i], row.request.logprobs)
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
        text = str(self.tokenizer.decode(tokens, skip_special_tokens=True))
        # Drop a last character whose bytes the token limit cut off.
        return text.rstrip("\ufffd")

    def _piece(self, token: int) -> str:
        # Some tokenizers drop a leading space. A character in front of the token keeps it.
        anchor = self.tokenizer.encode("a", add_special_tokens=False)[-1:]
        before = self.tokenizer.decode(anchor)
        return str(self.tokenizer.decode([*anchor, token])[len(before) :])
