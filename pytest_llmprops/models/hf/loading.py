"""The base of all models of transformers: files, errors, devices, limits, and the networks that this package adds."""

from __future__ import annotations

import importlib
import importlib.util
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.models.base import Result

Asked = TypeVar("Asked")
Row = TypeVar("Row")
Out = TypeVar("Out")


def tokenized(tokenizer: Any, text: str, name: str, **settings: Any) -> Any:
    """Return what a tokenizer makes of a text.

    :param name: the model's name, for the message. :param settings: of the tokenizer.
    :raises BackendError: if it fails.
    """
    try:
        return tokenizer(text, **settings)
    except Exception as error:
        text = f"{name}: the tokenizer fails: {one_line(str(error), 300)}"
        raise BackendError(text, kind="request") from None


class HfModel:
    """Base of the transformers models.

    :param load: Returns (model, tokenizer); called at the first request.
    :param batch: Maximum rows per batch.
    """

    blocking = True

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
        self.load, self._name, self._batch = load, name, batch
        self.network: Any = None
        self.tokenizer: Any = None
        self._lock = threading.Lock()
        self.is_closed = False

    def deviations(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Free the model as soon as the current computation is done."""
        self.is_closed = True
        with self._lock:
            self.network = self.tokenizer = None

    def prepare(self) -> None:
        """Load the network and the tokenizer, unless they are loaded.

        :raises BackendError: if loading fails or the model is closed.
        """
        with self._lock:
            self._loaded()

    def _loaded(self) -> bool:
        """Load the model if needed; return whether this call loaded it."""
        if self.is_closed:
            raise BackendError(f"{self._name} is closed", kind="closed", fatal=True)
        if self.network is not None:
            return False
        try:
            self.network, self.tokenizer = self.load()
        except Exception as error:
            text = f"{self._name} cannot be loaded: {one_line(str(error), 300)}"
            raise BackendError(text, kind="model", fatal=True) from None
        return True

    def _error(self, text: str, *, kind: str = "request", fatal: bool = False) -> BackendError:
        """Return an error whose message begins with the model's name."""
        return BackendError(f"{self._name}: {text}", kind=kind, fatal=fatal)

    def _check_open(self) -> None:
        """Give up a reply whose model was closed."""
        if self.is_closed:
            raise BackendError(f"{self._name} was closed before its reply was complete", kind="closed")

    def _ends(self) -> frozenset[int]:
        """Return the tokens that end a generated text."""
        configured = getattr(self.network.generation_config, "eos_token_id", None)
        ends = [self.tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])]
        return frozenset(end for end in ends if end is not None)

    def _check_length(self, tokens: int) -> None:
        """Refuse a text with too many tokens; texts are never truncated."""
        if tokens > self.longest:
            raise self._error(f"the text has {tokens} tokens, the model takes {self.longest}")

    @property
    def longest(self) -> int:
        """The maximum number of tokens of a text, including special tokens."""
        config = self.network.config
        positions = int(getattr(config, "max_position_embeddings", 0) or 1 << 30)
        if "roberta" in str(getattr(config, "model_type", "")):
            # RoBERTa models count positions from the padding token's index + 1.
            positions -= int(config.pad_token_id or 0) + 1
        return min(positions, int(getattr(self.tokenizer, "model_max_length", None) or 1 << 30))

    def _served(
        self,
        requests: Sequence[Asked],
        row_of: Callable[[Asked], Row],
        compute: Callable[[list[Row]], Sequence[Result]],
    ) -> list[Result]:
        """Return one result per request, in order. A request whose row cannot be made has its error as its result.

        :param row_of: returns what is computed for a request.
        :param compute: returns one result per row, without the names and times that all of them have.
        """
        with self._lock:
            start = time.perf_counter()
            results: dict[int, Result] = {}
            rows: dict[int, Row] = {}
            try:
                self._loaded()
                for index, request in enumerate(requests):
                    try:
                        rows[index] = row_of(request)
                    except BackendError as error:
                        results[index] = error
                computed = compute(list(rows.values()))
            except BackendError as error:
                return [results.get(index, error) for index in range(len(requests))]
            seconds = (time.perf_counter() - start) / max(len(rows), 1)
            for index, result in zip(rows, computed, strict=True):
                if not isinstance(result, BackendError):
                    result = replace(result, served_model=self._name, seconds=seconds)
                results[index] = result
            return [results[index] for index in range(len(requests))]

    def _in_batches(
        self, lengths: Sequence[int], compute: Callable[[list[int]], Sequence[Out]]
    ) -> list[Out | BackendError]:
        """Call ``compute(indices)`` for batches of rows of similar length; return the results in the rows' order.

        :param lengths: Number of tokens of each row.
        :raises BackendError: from ``compute``, or if the model is closed.
        """
        order = sorted(range(len(lengths)), key=lambda i: lengths[i])
        # Without a padding token, rows cannot share a batch.
        is_alone = self.tokenizer.pad_token_id is None
        results = dict(zip(order, self._in_parts(order, compute, is_alone=is_alone), strict=True))
        return [results[i] for i in range(len(lengths))]

    def _in_parts(
        self, rows: list[Row], compute: Callable[[list[Row]], Sequence[Out]], *, is_alone: bool = False
    ) -> list[Out | BackendError]:
        """Return the results of ``compute`` for parts of at most ``batch`` rows, or for each row alone, in order.

        A part that does not fit into memory, or that the model fails on, is computed again in halves. Later parts are
        as small, except after a row that fails alone, whose result is the error.

        :raises BackendError: from ``compute``, or if the model is closed.
        """
        torch: Any = importlib.import_module("torch")
        results: list[Out | BackendError] = []
        size = self._batch
        while len(results) < len(rows):
            self._check_open()
            part = rows[len(results) : len(results) + (1 if is_alone else self._batch)]
            try:
                with torch.inference_mode():
                    results += compute(part)
                continue
            except BackendError:
                raise
            except torch.OutOfMemoryError:
                failure = self._error("out of memory for one text")
            except Exception as error:
                failure = self._error(f"the model fails: {one_line(str(error), 300)}", kind="backend")
            self._free_memory()
            if len(part) > 1:
                self._batch = len(part) // 2
            else:
                self._batch = size
                results.append(failure)
        return results

    def _free_memory(self) -> None:
        """Free what is cached, after a failure."""
        torch: Any = importlib.import_module("torch")
        torch.cuda.empty_cache()
