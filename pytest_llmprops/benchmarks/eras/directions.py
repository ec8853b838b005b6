"""The names of the metrics and their directions, which gates read before a run."""

from __future__ import annotations

from collections.abc import Mapping

#: ``difference`` is control minus test, as in the paper's tables
EXPLICIT_TASK: Mapping[str, str] = {
    "test_accuracy": "higher",
    "control_accuracy": "higher",
    "difference": "lower",
    "both_accuracy": "higher",
}
IMPLICIT_TASK: Mapping[str, str] = {
    "pair_accuracy": "target:0.5",
    "necessity": "lower",
    "sufficiency": "lower",
    "gper": "lower",
    "sentiment_difference": "target:0",
}
#: as the authors' code computes them
AUTHORS: Mapping[str, str] = {
    "authors_gper": "lower",
    "authors_necessity": "lower",
    "authors_sufficiency": "lower",
}
