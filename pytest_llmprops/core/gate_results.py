"""The part of ``run.json`` about a gate: its decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.core.field_types import Count, Name, Number, Text

CheckVerdict = Literal["met", "failed", "inconclusive", "invalid"]
GateDecision = Literal["pass", "fail", "inconclusive", "invalid"]


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
class Loss:
    """A significant drop of one headline task, language or cluster, whatever the gate's rules are.

    :param kind: ``task``, ``language`` or ``cluster``. :param name: its name in the benchmark.
    :param title: the benchmark's title. :param drop: mean drop of the pairs, a fraction, with its 95% interval.
    :param p: corrected for all that were tested (Holm). :param lost: number of pairs that scored lower.
    """

    benchmark: Name
    title: Name
    kind: Name
    name: Name
    drop: Number
    ci_low: Number
    ci_high: Number
    p: Number
    pairs: Count
    lost: Count
    gained: Count

    @property
    def where(self) -> str:
        """Where the points were lost, in words: ``on palindrome (H-TEST)``."""
        name = {"language": f"in {self.name}", "cluster": f"on cluster {self.name}"}
        return f"{name.get(self.kind, f'on {self.name}')} ({self.title})"


@dataclass(frozen=True, slots=True)
class GateResult:
    """The gate's decision.

    :param caveats: what the APIs of the models forced, one sentence each.
    :param losses: significant drops of single headline tasks, languages and clusters, the largest of each kind first.
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
    losses: tuple[Loss, ...] = ()

    @property
    def passed(self) -> bool:
        """True if the decision is ``pass``; an inconclusive gate does not pass."""
        return self.decision == "pass"


def exit_code(result: GateResult | None) -> int:
    """Return the exit code of a decision; None stands for a gate that was not decided."""
    return 0 if result is not None and result.passed else 1
