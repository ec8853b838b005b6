"""The numbers that an ERAS verdict records. Every metric is computed from these numbers alone."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_llmprops.benchmarks.eras.explicit import Branching, ParadigmFacts, SiteOutcome
from pytest_llmprops.benchmarks.eras.implicit import PairResult, PairScores
from pytest_llmprops.benchmarks.eras.paradigms import Paradigm

_CODES = {"+": 1.0, "0": 0.0, "-": -1.0}
_CLASSES = {code: name for name, code in _CODES.items()}


def paradigm_values(paradigm: Paradigm) -> dict[str, float]:
    """Return ``paradigm`` (its number), ``right_branching`` (0, 1), ``true_class``, ``canary_class`` (1, 0, -1)."""
    return {
        "paradigm": float(paradigm.id),
        "right_branching": float(paradigm.branching == "right"),
        "true_class": _CODES[paradigm.true_class],
        "canary_class": _CODES[paradigm.canary_class],
    }


def outcome_values(test: SiteOutcome | None, control: SiteOutcome | None) -> dict[str, float]:
    """Return 0 or 1 for each of ``test``, ``control`` (the site is segmented correctly), and the two errors.

    The errors at the test site are ``canary_token`` and ``canary_swallowed``; see :class:`SiteOutcome`.

    :param test: None if the reply could not be read, which counts as incorrect and has no error type.
        The same holds for ``control``.
    """
    return {
        "test": float(test is not None and test.right),
        "control": float(control is not None and control.right),
        "canary_token": float(test is not None and test.canary == "token"),
        "canary_swallowed": float(test is not None and test.canary == "swallowed"),
    }


def paradigm_name(values: Mapping[str, float]) -> str:
    """Return the paradigm's id, for example ``07``."""
    return f"{int(values['paradigm']):02d}"


def facts_of(values: Mapping[str, float]) -> ParadigmFacts:
    """Return the paradigm's branching and sentiment from the values of :func:`paradigm_values`."""
    return ParadigmFacts(_branching(values), _sentiment(values))


def pair_result(values: Mapping[str, float]) -> PairResult:
    """Return a scored pair from the values of :func:`paradigm_values` and :meth:`PairScores.values`."""
    return PairResult(paradigm_name(values), _sentiment(values), _branching(values), PairScores.of(values))


def _branching(values: Mapping[str, float]) -> Branching:
    return "right" if values["right_branching"] else "left"


def _sentiment(values: Mapping[str, float]) -> str:
    return f"{_CLASSES[values['true_class']]}/{_CLASSES[values['canary_class']]}"
