"""Sentiment with a binary sequence classifier of the transformers library."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Reply, Sentiment, Usage
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.hf_encoder import HfEncoder

# Class names that classifiers of Chinese and English reviews use.
_POSITIVE = re.compile(r"(positive|pos|1|\+|正面|正向|正|积极|积极的|好评|喜欢)(\s*\(.*\))?")
_NEGATIVE = re.compile(r"(negative|neg|0|-1|-|负面|负向|负|消极|消极的|差评|不喜欢)(\s*\(.*\))?")


def labels_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the class names of a ``config.json`` by index; LABEL_0, LABEL_1, ... if it has none.

    :raises UsageError: if ``id2label`` does not map 0, 1, 2, ... to names.
    """
    stated = config.get("id2label")
    if stated is None:
        count = config.get("num_labels", config.get("_num_labels", 2))
        return tuple(f"LABEL_{i}" for i in range(int(count)))
    try:
        named = {int(index): str(label) for index, label in stated.items()}
        return tuple(named[i] for i in range(len(named)))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UsageError("id2label in config.json must map 0, 1, ... to the names of the classes") from None


def positive_index(config: Mapping[str, Any], stated: str | None = None) -> int:
    """Return the index of the positive class; 0 for a model with a single output.

    :param config: The model's ``config.json``.
    :param stated: The positive class's name or index from the user. Without it, the class names must be
        recognisable (positive/negative, LABEL_1/LABEL_0, ...).
    :raises UsageError: if the model is not binary or its class names are not recognised.
    """
    labels = labels_of(config)
    if config.get("problem_type") == "regression":
        raise UsageError("it is a regression model, not a classifier; sentiment needs a binary classifier")
    if len(labels) not in (1, 2):
        names = ", ".join(labels[:8])
        raise UsageError(f"it has {len(labels)} classes ({names}); sentiment needs a binary classifier")
    if stated is not None:
        return _stated_index(labels, stated)
    if len(labels) == 1:
        return 0
    plain = tuple(label.strip().casefold().removeprefix("label_") for label in labels)
    for index, other in ((1, 0), (0, 1)):
        if _POSITIVE.fullmatch(plain[index]) and _NEGATIVE.fullmatch(plain[other]):
            return index
    raise UsageError(
        f"its classes {labels[0]!r} and {labels[1]!r} do not say which is the positive one;"
        " add positive_label=NAME or positive_label=0|1"
    )


def _stated_index(labels: Sequence[str], stated: str) -> int:
    folded = [label.casefold() for label in labels]
    if folded.count(stated.casefold()) == 1:
        return folded.index(stated.casefold())
    if stated.isdecimal() and int(stated) < len(labels):
        return int(stated)
    known = ", ".join(f"{i} ({label})" for i, label in enumerate(labels))
    raise UsageError(f"positive_label={stated} is not one of its classes: {known}")


def probability(log_odds: float) -> float:
    """Return the probability for natural log odds, without overflow."""
    if log_odds >= 0:
        return 1 / (1 + math.exp(-log_odds))
    return math.exp(log_odds) / (1 + math.exp(log_odds))


class HfSentimentModel(HfEncoder):
    """A binary classifier with two logits, or with one logit for the positive class.

    ``Reply.value`` is ``{"positive": p, "log_odds": x}`` with x = ln(p / (1 - p)), computed in 64 bits from the
    logits: close to 0 or 1, p can no longer order two sentences, but x can. ``[MASK]`` in a text is replaced
    by the model's own mask token. A text that is too long for the model is an error.

    :param positive: Index of the positive class, from :func:`positive_index`.
    """

    def __init__(self, load: Callable[[], tuple[Any, Any]], *, positive: int, **settings: Any) -> None:
        super().__init__(load, **settings)
        self._positive = positive

    def sentiment(self, requests: Sequence[Sentiment]) -> Sequence[Result]:
        """Return one result per request, in order."""
        with self._lock:
            start = time.perf_counter()
            try:
                self._loaded()
            except BackendError as error:
                return [error] * len(requests)
            results: dict[int, Result] = {}
            rows: dict[int, list[int]] = {}
            for index, request in enumerate(requests):
                try:
                    rows[index] = self._ids(request.text)
                except BackendError as error:
                    results[index] = error
            try:
                scores = self._evaluate(list(rows.values()), self._log_odds)
            except BackendError as error:
                results |= dict.fromkeys(rows, error)
                scores = []
            seconds = (time.perf_counter() - start) / max(len(scores), 1)
            for index, score in zip(rows, scores, strict=False):
                results[index] = self._reply(score, len(rows[index]), seconds)
            return [results[i] for i in range(len(requests))]

    def _log_odds(self, logits: Any, indices: list[int]) -> list[float]:
        wide = logits.double().cpu()
        if wide.ndim != 2 or wide.shape[1] not in (1, 2):
            shape = "x".join(map(str, wide.shape))
            raise BackendError(
                f"{self._name}: returns {shape} numbers, not one or two per text", kind="model"
            )
        if wide.shape[1] == 1:
            log_odds: list[float] = wide[:, 0].tolist()
        else:
            log_odds = (wide[:, self._positive] - wide[:, 1 - self._positive]).tolist()
        return log_odds

    def _reply(self, log_odds: float, tokens: int, seconds: float) -> Result:
        if not math.isfinite(log_odds):
            return BackendError(f"{self._name}: returns {log_odds} for a text, not a number", kind="model")
        value = {"positive": probability(log_odds), "log_odds": log_odds}
        return Reply(value=value, served_model=self._name, usage=Usage(tokens, 0), seconds=seconds)
