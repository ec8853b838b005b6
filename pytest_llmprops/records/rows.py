"""The records of a run: one type for each line or row that one part of the program writes and another reads.

``records/files.py`` reads and writes them. A field with a default may be missing in records of earlier versions.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pytest_llmprops.core.field_types import Count, Flag, FreeObject, Members, Name, Number, Sample, Text
from pytest_llmprops.core.verdicts import Group, VerdictKey


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One row of ``summary`` in ``run.json``: the counts and the accuracy of one group.

    :param samples: number of verdicts: ``items`` times the number of repeats. ``correct``, ``wrong``, ``refused``,
        ``unparsed`` and ``errors`` count samples and add up to it.
    :param answered: number of items with at least one sample that is not an error.
    :param accuracy: mean over the answered items of the share of their answered samples that are correct; without
        repeats ``correct / (items - errors)``. It and its 95% interval are None if nothing was answered.
    :param cluster_accuracy: mean over clusters of their accuracy, if each cluster of the benchmark counts once
        (``Benchmark.weighting``); otherwise it and its interval are None. Tables then show it as the accuracy.
    :param ci_method: ``clopper-pearson``, ``gaffke`` (fractional scores) or ``gaffke over clusters``; None without an
        interval. Older records also have ``wilson``, ``wilson over clusters`` and ``cluster bootstrap``.
    :param between_items: variance of the items' expected scores; None without repeats.
    :param within_items: mean variance of the samples of one item; None without repeats.
    """

    model: Name
    benchmark: Name
    task: Name
    language: Name
    source: Name
    items: Count
    clusters: Count
    samples: Count = field(default=-1, kw_only=True)
    answered: Count = field(default=-1, kw_only=True)
    errors: Count
    correct: Count
    wrong: Count
    refused: Count
    unparsed: Count
    untested: Count = field(default=0, kw_only=True)
    accuracy: Number | None
    ci_low: Number | None
    ci_high: Number | None
    ci_method: Name | None
    between_items: Number | None = None
    within_items: Number | None = None
    cluster_accuracy: Number | None = None
    cluster_ci_low: Number | None = None
    cluster_ci_high: Number | None = None

    def __post_init__(self) -> None:
        # A record from before there were repeats.
        if self.samples < 0:
            object.__setattr__(self, "samples", self.items)
            object.__setattr__(self, "answered", self.items - self.errors - self.untested)

    @property
    def has_repeats(self) -> bool:
        """True if an item has several samples."""
        return self.samples > self.items

    @property
    def group(self) -> Group:
        return Group(self.model, self.benchmark, self.task, self.language, self.source)

    @property
    def estimate(self) -> tuple[float, float, float] | None:
        """The accuracy to show, by cluster or by item, with the limits of its interval; None without an answer."""
        value, low, high = self.accuracy, self.ci_low, self.ci_high
        if self.cluster_accuracy is not None:
            value, low, high = self.cluster_accuracy, self.cluster_ci_low, self.cluster_ci_high
        return None if value is None or low is None or high is None else (value, low, high)


@dataclass(frozen=True, slots=True)
class Remark:
    """One row of ``remarks`` in ``run.json``: a line about a model on a benchmark, in addition to its numbers.

    :param warning: whether the numbers may not mean what they seem to.
    """

    model: Name
    benchmark: Name
    text: Text
    warning: Flag = False


#: a point at which a property did not hold: what it shows, and how often it repeated if it was asked about again
Found = Annotated[
    Mapping[str, Any],
    Members({"why": Text}, {"evidence": FreeObject, "replications": Count, "replicated": Count}),
]


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """One line of ``searches.jsonl``: the search for a counterexample on one item.

    :param property: the name of the property; empty if the benchmark has only one.
    :param examples: number of points tried.
    :param requests: requests of the search itself.
    :param calls: requests that the store did not answer.
    :param spent: the search stopped at its limit of calls.
    :param error: the failed call that ended the search; otherwise empty.
    :param not_repeated: a point at which the property did not hold, if it was asked about again and too
        few replications repeat that; None if there is a counterexample. It is no counterexample.
    """

    model: Name
    benchmark: Name
    task: Name
    language: Name
    source: Name
    id: Name
    property: Name = field(default="", kw_only=True)
    examples: Count
    requests: Count
    calls: Count
    spent: Flag
    counterexample: Found | None
    not_repeated: Found | None = field(default=None, kw_only=True)
    error: Text

    @builtins.property
    def key(self) -> tuple[str, str, str, str]:
        """Model, benchmark, id and property. The last search with a key counts."""
        return (self.model, self.benchmark, self.id, self.property)

    @builtins.property
    def why(self) -> str:
        """What the counterexample shows, or what was not repeated; empty without either."""
        return str(self._shown.get("why", ""))

    @builtins.property
    def repeats(self) -> str:
        """In how many of its replications it repeated: ``4 of 5``; empty if it was not asked about again."""
        found = self._shown
        return f"{found.get('replicated', 0)} of {found['replications']}" if found.get("replications") else ""

    @builtins.property
    def _shown(self) -> Mapping[str, Any]:
        return self.counterexample or self.not_repeated or {}


@dataclass(frozen=True, slots=True)
class SearchCounts:
    """One row of ``searches`` in ``run.json``: the searches of one benchmark, model and property.

    :param searched: items whose search was completed.
    :param counterexamples: number of these items that have a counterexample.
    :param not_repeated: number of other items where a point at which the property did not hold was not repeated.
    :param examples: number of points tried.
    :param calls: requests that the store did not answer.
    :param spent: searches that stopped at their limit of calls.
    :param errors: searches that a failed call ended; they are not in ``searched``.
    """

    benchmark: Name
    model: Name
    property: Name = ""
    searched: Count = 0
    counterexamples: Count = 0
    not_repeated: Count = 0
    examples: Count = 0
    calls: Count = 0
    spent: Count = 0
    errors: Count = 0


ReviewStatus = Literal["", "correct", "wrong", "refused", "unparsed"]


@dataclass(frozen=True, slots=True)
class Review:
    """One line of ``review.jsonl``: what a person says about one verdict.

    :param run: the id of the run; the file may have lines on other runs.
    :param judged_wrongly: the verdict is wrong, in this person's opinion. Only the corrected accuracy depends on it.
    :param status: the status that the verdict should have, in this person's opinion; empty if the person does not say.
    :param time: when the mark was made, ISO 8601 in UTC.
    """

    run: Name
    model: Name
    benchmark: Name
    source: Name
    id: Name
    sample: Sample = 0
    judged_wrongly: Flag = False
    note: Text = ""
    time: Name = ""
    status: ReviewStatus = ""

    @property
    def says_status(self) -> bool:
        """True if the mark says which status the verdict should have."""
        return bool(self.status) or self.judged_wrongly

    def status_for(self, recorded: str) -> str:
        """Return the status that the verdict should have; ``recorded`` is the one that it has."""
        if self.status or not self.judged_wrongly:
            return self.status or recorded
        return "wrong" if recorded == "correct" else "correct"

    @property
    def key(self) -> VerdictKey:
        """The verdict that the mark is on. Its last mark counts."""
        return VerdictKey(self.model, self.benchmark, self.source, self.id, self.sample)
