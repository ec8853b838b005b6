"""The part of ``run.json`` about a gate: its decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

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
class Loss:
    """A significant drop of one headline task, language or cluster, whatever the gate's rules are.

    :param kind: ``task``, ``language`` or ``cluster``. :param name: its name in the benchmark.
    :param title: the benchmark's title. :param drop: mean drop of the pairs, a fraction, with its 95% interval.
    :param p: corrected for all that were tested (Holm). :param lost: number of pairs that scored lower.
    """

    benchmark: str
    title: str
    kind: str
    name: str
    drop: float
    ci_low: float
    ci_high: float
    p: float
    pairs: int
    lost: int
    gained: int

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
    line: str = ""
    file: str = ""
    sha256: str = ""
    baseline: str | None = None
    reasons: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rules: tuple[RuleResult, ...] = ()
    losses: tuple[Loss, ...] = ()

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
        losses = tuple(_read(Loss, loss) for loss in gate.get("losses", ()))
        texts = {name: tuple(gate.get(name, ())) for name in ("reasons", "caveats", "notes")}
        return _read(cls, {**gate, **texts, "rules": rules, "losses": losses})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def exit_code(result: GateResult | None) -> int:
    """Return the exit code of a decision; None stands for a gate that was not decided."""
    return 0 if result is not None and result.passed else 1


def _read(kind: type[T], row: Mapping[str, Any]) -> T:
    """Return a dataclass from the fields that it has; fields of later versions are ignored."""
    return kind(**{f.name: row[f.name] for f in fields(kind) if f.name in row})  # type: ignore[arg-type]
