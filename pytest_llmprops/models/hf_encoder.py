"""What the transformers models that read a whole text at once share: loading, token rows, padded batches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.models.hf_model import HfModel

#: how a masked place is written in a request, whatever the model's own mask token is
MASK = "[MASK]"

Row = list[int]
Out = TypeVar("Out")


class HfEncoder(HfModel):
    """Base of the models that turn rows of tokens into logits. The weights are loaded at the first request.

    :param load: gives (model, tokenizer). :param batch: most rows evaluated together.
    :param mask: what stands for ``[MASK]`` where the tokenizer has no mask token.

    Rows are evaluated in order of length, so that a batch holds little padding. The logits of a row differ
    by rounding (about 1e-6) with the rows that it shares a batch with.
    """

    def __init__(
        self,
        load: Callable[[], tuple[Any, Any]],
        *,
        name: str,
        identity: Mapping[str, Any],
        pinned: bool,
        batch: int,
        mask: str = "",
    ) -> None:
        super().__init__(load, name=name, identity=identity, pinned=pinned, batch=batch)
        self.max_batch = 8 * batch
        self._stand_in = mask

    def _mask(self) -> str:
        """The model's own mask token, or the stand-in given for a model that has none."""
        own = getattr(self._tokenizer, "mask_token", None) or self._stand_in
        if not own:
            raise BackendError(
                f"{self._name}: its tokenizer has no mask token; name a stand-in: hf:MODEL?mask=TEXT",
                kind="request",
                fatal=True,
            )
        return str(own)

    def _ids(self, text: str) -> Row:
        """The tokens of ``text`` with the model's special ones; a text too long is an error, never cut."""
        if not text.strip():
            raise BackendError(f"{self._name}: the text is empty", kind="request")
        masks = text.count(MASK)
        if masks:
            text = text.replace(MASK, self._mask())
        try:
            ids = [int(i) for i in self._tokenizer(text, truncation=False)["input_ids"]]
        except Exception as error:
            line = " ".join(str(error).split())[:300]
            raise BackendError(f"{self._name}: the tokenizer fails: {line}", kind="request") from None
        own = getattr(self._tokenizer, "mask_token_id", None)
        if masks and own is not None and ids.count(own) != masks:
            raise BackendError(
                f"{self._name}: the tokenizer does not read its own mask token", kind="request"
            )
        self._check_length(len(ids))
        return ids

    def _check_length(self, tokens: int) -> None:
        if tokens > self._longest:
            raise BackendError(
                f"{self._name}: the text has {tokens} tokens, the model takes {self._longest}", kind="request"
            )

    @property
    def _longest(self) -> int:
        config = self._model.config
        positions = int(getattr(config, "max_position_embeddings", 0) or 1 << 30)
        if "roberta" in str(getattr(config, "model_type", "")):
            # These models count positions from behind the padding token's index.
            positions -= int(config.pad_token_id or 0) + 1
        return min(positions, int(getattr(self._tokenizer, "model_max_length", None) or 1 << 30))

    def _evaluate(self, rows: Sequence[Row], read: Callable[[Any, list[int]], list[Out]]) -> list[Out]:
        """``read(logits, indices)`` for batches of rows, and its results in the rows' order.

        ``logits`` are the model's, on its device, the first axis as ``indices`` into ``rows``.
        """
        found: dict[int, Out] = {}
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        # A model without a padding token takes one row at a time.
        size = self._batch if self._tokenizer.pad_token_id is not None else 1
        for start in range(0, len(order), size):
            self._batch_of(rows, order[start : start + size], read, found)
        return [found[i] for i in range(len(rows))]

    def _batch_of(
        self,
        rows: Sequence[Row],
        indices: list[int],
        read: Callable[[Any, list[int]], list[Out]],
        found: dict[int, Out],
    ) -> None:
        torch: Any = importlib.import_module("torch")
        if self._closed:
            raise BackendError(f"{self._name} was closed before its reply was complete", kind="closed")
        width = max(len(rows[i]) for i in indices)
        fill = self._tokenizer.pad_token_id or 0
        ids = [rows[i] + [fill] * (width - len(rows[i])) for i in indices]
        mask = [[1] * len(rows[i]) + [0] * (width - len(rows[i])) for i in indices]
        device = self._model.device
        try:
            with torch.inference_mode():
                logits = self._model(
                    input_ids=torch.tensor(ids, device=device),
                    attention_mask=torch.tensor(mask, device=device),
                ).logits
                results = read(logits, indices)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            if len(indices) == 1:
                raise BackendError(f"{self._name}: out of memory for one text", kind="request") from None
            middle = len(indices) // 2
            self._batch_of(rows, indices[:middle], read, found)
            self._batch_of(rows, indices[middle:], read, found)
            return
        except RuntimeError as error:
            line = " ".join(str(error).split())[:300]
            raise BackendError(f"{self._name}: the model fails: {line}", kind="backend") from None
        found.update(zip(indices, results, strict=True))
