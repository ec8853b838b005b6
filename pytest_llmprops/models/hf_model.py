"""What every model of the transformers library has: weights loaded at the first request, lengths, batches."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pytest_llmprops.core.errors import BackendError

Out = TypeVar("Out")


class HfModel:
    """Base of the transformers models.

    :param load: gives (model, tokenizer); called at the first request. :param batch: most rows together.
    """

    blocking = True
    in_worker = False

    def __init__(
        self,
        load: Callable[[], tuple[Any, Any]],
        *,
        name: str,
        identity: Mapping[str, Any],
        pinned: bool,
        batch: int,
    ) -> None:
        self.identity, self.pinned = identity, pinned
        self._load, self._name, self._batch = load, name, batch
        self._model: Any = None
        self._tokenizer: Any = None
        self._lock = threading.Lock()
        self._closed = False

    def deviations(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Free the model, after what is being computed."""
        self._closed = True
        with self._lock:
            self._model = self._tokenizer = None

    def _loaded(self) -> bool:
        """Load the model unless it is; whether it was loaded now.

        :raises BackendError: when that fails or the model is closed.
        """
        if self._closed:
            raise BackendError(f"{self._name} is closed", kind="closed", fatal=True)
        if self._model is not None:
            return False
        try:
            self._model, self._tokenizer = self._load()
        except Exception as error:
            line = " ".join(str(error).split())[:300]
            raise BackendError(f"{self._name} cannot be loaded: {line}", kind="model", fatal=True) from None
        return True

    def _check_length(self, tokens: int) -> None:
        """:raises BackendError: when the model takes fewer tokens; a text is never cut."""
        if tokens > self._longest:
            raise BackendError(
                f"{self._name}: the text has {tokens} tokens, the model takes {self._longest}", kind="request"
            )

    @property
    def _longest(self) -> int:
        """Most tokens of a text, special ones included."""
        config = self._model.config
        positions = int(getattr(config, "max_position_embeddings", 0) or 1 << 30)
        if "roberta" in str(getattr(config, "model_type", "")):
            # These models count positions from behind the padding token's index.
            positions -= int(config.pad_token_id or 0) + 1
        return min(positions, int(getattr(self._tokenizer, "model_max_length", None) or 1 << 30))

    def _in_batches(
        self, lengths: Sequence[int], compute: Callable[[list[int]], Sequence[Out]]
    ) -> list[Out | BackendError]:
        """``compute(indices)`` for batches of rows of like length, and its results in the rows' order.

        A batch that does not fit into memory, or on which the model fails, is computed in halves, so that one row's
        trouble is no other's: the result of a single row that fails is the error.

        :param lengths: tokens of each row. :raises BackendError: of ``compute``, or when the model is closed.
        """
        found: dict[int, Out | BackendError] = {}
        order = sorted(range(len(lengths)), key=lambda i: lengths[i])
        # A model without a padding token takes one row at a time.
        size = self._batch if self._tokenizer.pad_token_id is not None else 1
        for start in range(0, len(order), size):
            self._halving(order[start : start + size], compute, found)
        return [found[i] for i in range(len(lengths))]

    def _halving(
        self,
        indices: list[int],
        compute: Callable[[list[int]], Sequence[Out]],
        found: dict[int, Out | BackendError],
    ) -> None:
        torch: Any = importlib.import_module("torch")
        if self._closed:
            raise BackendError(f"{self._name} was closed before its reply was complete", kind="closed")
        try:
            with torch.inference_mode():
                found.update(zip(indices, compute(indices), strict=True))
            return
        except BackendError:
            raise
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            failed = BackendError(f"{self._name}: out of memory for one text", kind="request")
        except Exception as error:
            line = " ".join(str(error).split())[:300]
            failed = BackendError(f"{self._name}: the model fails: {line}", kind="backend")
        if len(indices) == 1:
            found[indices[0]] = failed
            return
        middle = len(indices) // 2
        self._halving(indices[:middle], compute, found)
        self._halving(indices[middle:], compute, found)
