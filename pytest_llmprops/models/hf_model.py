"""What every model of the transformers library has: weights that are loaded at the first request, and freed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import BackendError


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
