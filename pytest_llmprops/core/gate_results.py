"""The parts of ``run.json`` about a gate: its decision, and the plan of a sequential gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
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
    """The result of one rule.

    :param partial: not all of its items were drawn.
    """

    name: str
    verdict: CheckVerdict
    items: int
    checks: tuple[Check, ...]
    partial: bool = False


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

    :param passed: whether the exit code is that of a passed gate.
    :param caveats: what the APIs of the models forced, one sentence each.
    :param losses: significant drops of single headline tasks, languages and clusters, the largest of each kind first.
    """

    decision: GateDecision
    passed: bool = False
    line: str = ""
    file: str = ""
    sha256: str = ""
    baseline: str | None = None
    sequential: bool = False
    stopped_early: bool = False
    items_used: int = 0
    items_of: int = 0
    reasons: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rules: tuple[RuleResult, ...] = ()
    losses: tuple[Loss, ...] = ()

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


@dataclass(frozen=True, slots=True)
class RulePlan:
    """What a sequential gate knows about one rule before the first call.

    :param effective: effective number of independent items (``runs/gate/sequential.py``); so is ``pairs_effective``.
    :param faults: reason -> ids of the items that cannot be compared for that reason.
    :param pairs: None for a rule that does not compare.
    """

    items: int
    effective: float
    faults: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pairs: int | None = None
    pairs_effective: float | None = None

    def to_json(self) -> dict[str, Any]:
        plan: dict[str, Any] = {"items": self.items, "effective": self.effective, "faults": dict(self.faults)}
        if self.pairs is not None:
            plan |= {"pairs": self.pairs, "pairs_effective": self.pairs_effective}
        return plan


@dataclass(frozen=True, slots=True)
class SequentialPlan:
    """The plan of a run with a sequential gate: ``sequential`` in ``run.json``.

    :param gate: sha256 of the gate file.
    :param baseline: hash of the items that the baseline answered.
    :param ended: the gate was decided before all cases were measured.
    """

    gate: str = ""
    baseline: str = ""
    seed: int = 0
    ended: bool = False
    rules: Mapping[str, RulePlan] = field(default_factory=dict)

    @classmethod
    def from_json(cls, plan: Mapping[str, Any]) -> SequentialPlan:
        """Read ``sequential`` of a checked ``run.json``; missing fields are empty."""
        rules = {name: _read(RulePlan, rule) for name, rule in plan.get("rules", {}).items()}
        return _read(cls, {**plan, "rules": rules})

    def to_json(self) -> dict[str, Any]:
        rules = {name: rule.to_json() for name, rule in self.rules.items()}
        return {
            "gate": self.gate, "baseline": self.baseline, "seed": self.seed, "ended": self.ended, "rules": rules,
        }  # fmt: skip


def _read(kind: type[T], row: Mapping[str, Any]) -> T:
    """Return a dataclass from the fields that it has; fields of later versions are ignored."""
    return kind(**{f.name: row[f.name] for f in fields(kind) if f.name in row})  # type: ignore[arg-type]
