"""The part of ``run.json`` about a gate: its decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from pytest_llmprops.core.record_schema import ChangeKind as ChangeKind
from pytest_llmprops.core.record_schema import ChangeWord as ChangeWord
from pytest_llmprops.core.record_schema import CheckVerdict as CheckVerdict
from pytest_llmprops.core.record_schema import GateDecision as GateDecision

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement, what was measured, and whether it is met.

    ``value`` and its limits are fractions, or in the metric's own unit; None if there is no value.
    """

    kind: str
    required: str
    measured: str
    verdict: CheckVerdict
    reason: str = ""
    value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of one rule."""

    name: str
    verdict: CheckVerdict
    items: int
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

    benchmark: str
    title: str
    kind: ChangeKind
    name: str
    word: ChangeWord
    difference: float
    ci_low: float
    ci_high: float
    p: float
    pairs: int
    lost: int
    gained: int

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
    :param changes: the judgement of the run and its baseline (:mod:`~pytest_llmprops.runs.judgement`).
    """

    decision: GateDecision
    line: str = ""
    file: str = ""
    sha256: str = ""
    baseline: str | None = None
    reasons: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rules: tuple[RuleResult, ...] = ()
    chance: float | None = None
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

    @classmethod
    def from_json(cls, gate: Mapping[str, Any]) -> GateResult:
        rules = tuple(
            _read(RuleResult, {**rule, "checks": tuple(_read(Check, check) for check in rule["checks"])})
            for rule in gate.get("rules", ())
        )
        changes = tuple(_read(MemberChange, change) for change in gate.get("changes", ()))
        texts = {name: tuple(gate.get(name, ())) for name in ("reasons", "caveats", "notes")}
        return _read(cls, {**gate, **texts, "rules": rules, "changes": changes})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


#: exit code by decision
EXIT_CODES: Mapping[GateDecision, int] = {"pass": 0, "fail": 1, "inconclusive": 6, "invalid": 7}


def exit_code(result: GateResult | None) -> int:
    """Return the exit code of a decision; None stands for a gate that was not decided."""
    return EXIT_CODES["invalid" if result is None else result.decision]


def _read(kind: type[T], row: Mapping[str, Any]) -> T:
    """Return a dataclass from the fields that it has; fields of later versions are ignored."""
    return kind(**{f.name: row[f.name] for f in fields(kind) if f.name in row})  # type: ignore[arg-type]
