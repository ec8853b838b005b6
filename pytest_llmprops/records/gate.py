"""The part of ``run.json`` about a gate: its decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.core.field_types import Count, Name, Number, Text
from pytest_llmprops.statistics.judgement import ChangeWord

CheckVerdict = Literal["met", "failed", "inconclusive", "invalid"]
GateDecision = Literal["pass", "fail", "inconclusive", "invalid"]
ChangeKind = Literal["all", "benchmark", "task", "language", "part", "cluster"]


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement, what was measured, and whether it is met.

    ``value`` and its limits are fractions, or in the metric's own unit; None if there is no value.
    """

    kind: Name
    required: Text
    measured: Text
    verdict: CheckVerdict
    reason: Text = ""
    value: Number | None = None
    ci_low: Number | None = None
    ci_high: Number | None = None


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of one rule."""

    name: Name
    verdict: CheckVerdict
    items: Count
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class MemberChange:
    """The change of one part of the items of two runs, whatever the gate's rules are.

    :param kind: what the part is. :param name: its name in the benchmark. :param title: the benchmark's title.
    :param word: ``worse``, ``better`` or ``no clear difference``.
    :param difference: candidate - baseline, a fraction, with its 95% interval.
    :param p: p-value of the difference's direction, corrected for all changes of the two runs.
    :param lost: number of pairs that scored lower.
    """

    benchmark: Name
    title: Name
    kind: ChangeKind
    name: Name
    word: ChangeWord
    difference: Number
    ci_low: Number
    ci_high: Number
    p: Number
    pairs: Count
    lost: Count
    gained: Count

    @property
    def where(self) -> str:
        """What changed, in words: ``on palindrome (H-TEST)``."""
        name = {"language": f"in {self.name}", "cluster": f"on cluster {self.name}"}
        return f"{name.get(self.kind, f'on {self.name}')} ({self.title})"


#: the parts that a decision names, in this order
NAMED: tuple[ChangeKind, ...] = ("task", "language", "cluster")


@dataclass(frozen=True, slots=True)
class GateResult:
    """The gate's decision.

    :param caveats: what the APIs of the models forced, one sentence each.
    :param chance: the share of unchanged models that would pass, by simulation; None if it was not simulated.
    :param changes: the judgement of the run and its baseline (:mod:`~pytest_llmprops.runs.pairs`).
    """

    decision: GateDecision
    line: Text = ""
    file: Name = ""
    sha256: Name = ""
    baseline: Name | None = None
    reasons: tuple[Text, ...] = ()
    caveats: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()
    rules: tuple[RuleResult, ...] = ()
    chance: Number | None = None
    changes: tuple[MemberChange, ...] = ()

    @property
    def losses(self) -> tuple[MemberChange, ...]:
        """The headline tasks, languages and clusters that are worse, the largest drop of each kind first."""
        counts = Counter((change.benchmark, change.kind) for change in self.changes)
        worse = [
            change
            for change in self.changes
            if change.word == "worse" and change.kind in NAMED
            # The only language of a benchmark is all of its items.
            if change.kind != "language" or counts[change.benchmark, "language"] > 1
        ]
        return tuple(sorted(worse, key=lambda change: (NAMED.index(change.kind), change.difference)))

    @property
    def passed(self) -> bool:
        """True if the decision is ``pass``; an inconclusive gate does not pass."""
        return self.decision == "pass"


#: exit code by decision
EXIT_CODES: Mapping[GateDecision, int] = {"pass": 0, "fail": 1, "inconclusive": 6, "invalid": 7}


def exit_code(result: GateResult | None) -> int:
    """Return the exit code of a decision; None stands for a gate that was not decided."""
    return EXIT_CODES["invalid" if result is None else result.decision]
