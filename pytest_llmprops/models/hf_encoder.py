"""The base of transformers models that read a whole text at once: token rows and padded batches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.models.hf_model import HfModel, Out

#: The mask in a request; it is replaced by the model's own mask token.
MASK = "[MASK]"

Row = list[int]


class HfEncoder(HfModel):
    """Base of the models that turn rows of tokens into logits.

    Rows are evaluated in order of length, which keeps padding short. A row's logits depend on its batch by
    rounding only (about 1e-6).

    :param load: Returns (model, tokenizer); called at the first request.
    :param batch: Maximum rows per batch.
    :param mask: Replacement for ``[MASK]`` if the tokenizer has no mask token.
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
        """Return the model's own mask token, or the replacement for a model without one."""
        own = getattr(self.tokenizer, "mask_token", None) or self._stand_in
        if not own:
            raise BackendError(
                f"{self._name}: its tokenizer has no mask token; name a stand-in: hf:MODEL?mask=TEXT",
                kind="request",
                fatal=True,
            )
        return str(own)

    def _ids(self, text: str) -> Row:
        """Return the token ids of ``text``, including special tokens; a text that is too long is an error."""
        if not text.strip():
            raise BackendError(f"{self._name}: the text is empty", kind="request")
        masks = text.count(MASK)
        if masks:
            text = text.replace(MASK, self._mask())
        try:
            ids = [int(i) for i in self.tokenizer(text, truncation=False)["input_ids"]]
        except Exception as error:
            line = " ".join(str(error).split())[:300]
            raise BackendError(f"{self._name}: the tokenizer fails: {line}", kind="request") from None
        own = getattr(self.tokenizer, "mask_token_id", None)
        if masks and own is not None and ids.count(own) != masks:
            raise BackendError(
                f"{self._name}: the tokenizer does not read its own mask token", kind="request"
            )
        self._check_length(len(ids))
        return ids

    def _evaluate(self, rows: Sequence[Row], read: Callable[[Any, list[int]], list[Out]]) -> list[Out]:
        """Call ``read(outputs, indices)`` for batches of rows; return its results in the rows' order.

        ``outputs`` comes from :meth:`outputs`; its first axis follows ``indices``.

        :raises BackendError: if any row fails.
        """
        results = self._in_batches(
            [len(row) for row in rows], lambda indices: self._read(rows, indices, read)
        )
        done: list[Out] = []
        for result in results:
            if isinstance(result, BackendError):
                raise result
            done.append(result)
        return done

    def _read(
        self, rows: Sequence[Row], indices: list[int], read: Callable[[Any, list[int]], list[Out]]
    ) -> list[Out]:
        torch: Any = importlib.import_module("torch")
        width = max(len(rows[i]) for i in indices)
        fill = self.tokenizer.pad_token_id or 0
        ids = [rows[i] + [fill] * (width - len(rows[i])) for i in indices]
        mask = [[1] * len(rows[i]) + [0] * (width - len(rows[i])) for i in indices]
        device = self.network.device
        outputs = self.outputs(torch.tensor(ids, device=device), torch.tensor(mask, device=device))
        return read(outputs, indices)

    def outputs(self, ids: Any, mask: Any) -> Any:
        """Return the model's logits on its device. ``ids`` and ``mask`` have the shape (rows, tokens)."""
        return self.network(input_ids=ids, attention_mask=mask).logits
