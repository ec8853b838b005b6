"""The base of segmenters that run inside the pytest worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply, Segment
from pytest_llmprops.models.base import Result

Cut = Callable[[str], list[str]]


class WordSegmenter:
    """A cheap, deterministic segmenter: a function from a sentence to its words.

    :param load: Returns that function; called at the first sentence.
    :param identity: Everything that affects the result: package version, dictionary, switches.
    """

    pinned = True
    max_batch = 256
    blocking = True

    def __init__(self, load: Callable[[], Cut], *, name: str, identity: Mapping[str, Any]) -> None:
        self.identity = identity
        self._load, self._name = load, name
        self._cut: Cut | None = None

    @property
    def cut(self) -> Cut:
        """The function from a sentence to its words, for callers with many sentences.

        :raises BackendError: if it cannot be loaded. The error is fatal: a retry cannot help.
        """
        if self._cut is None:
            try:
                self._cut = self._load()
            except Exception as error:
                line = " ".join(str(error).split())[:300]
                raise BackendError(
                    f"{self._name} cannot be loaded: {line}", kind="model", fatal=True
                ) from None
        return self._cut

    def segment(self, requests: Sequence[Segment]) -> Sequence[Result]:
        """Return one reply per request, in order; ``value`` is the list of words."""
        try:
            cut = self.cut
        except BackendError as error:
            return [error] * len(requests)
        results: list[Result] = []
        for request in requests:
            start = time.perf_counter()
            try:
                words = cut(request.text)
            except Exception as error:
                line = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                results.append(BackendError(f"{self._name} fails: {line}", kind="backend"))
                continue
            results.append(Reply(value=words, served_model=self._name, seconds=time.perf_counter() - start))
        return results

    def deviations(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Free the dictionary or model."""
        self._cut = None
