"""What ``run.json`` holds of a gate: its decision under ``gate``, and the plan of a sequential one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

CheckVerdict = Literal["met", "failed", "inconclusive", "invalid"]
GateDecision = Literal["pass", "fail", "inconclusive", "invalid"]


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement, what was measured, and whether it is met.

    ``value`` and its limits are fractions, or a metric's own unit; None where there is nothing to show.
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
    """What became of one rule. ``partial``: not all of its items were drawn."""

    name: str
    verdict: CheckVerdict
    items: int
    checks: tuple[Check, ...]
    partial: bool = False


@dataclass(frozen=True, slots=True)
class GateResult:
    """The gate's decision; ``passed`` is what an exit code says."""

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
    notes: tuple[str, ...] = ()
    rules: tuple[RuleResult, ...] = ()

    @classmethod
    def from_json(cls, gate: Mapping[str, Any]) -> GateResult:
        """Read a result. :raises ValueError: in one phrase, without a decision, or for a field of the wrong type."""
        try:
            known = {name: gate[name] for name in cls.__slots__ if name in gate}
            rules = tuple(
                RuleResult(**{**rule, "checks": tuple(Check(**check) for check in rule["checks"])})
                for rule in known.get("rules", ())
            )
            texts = {name: tuple(map(str, known.get(name, ()))) for name in ("reasons", "notes")}
            return cls(**{**known, **texts, "rules": rules})
        except (TypeError, LookupError) as error:
            raise ValueError(f"'gate' is no gate's result ({error})") from None

    def to_json(self) -> dict[str, Any]:
        """The result as it is written."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RulePlan:
    """What a sequential gate knows about one rule before the first call.

    :param effective: ``items`` counted as independent ones (see ``runs/gate_bounds.py``); so ``pairs_effective``.
    :param faults: ids that cannot be a pair, by what is wrong. :param pairs: None for a rule that does not compare.
    """

    items: int
    effective: float
    faults: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pairs: int | None = None
    pairs_effective: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The object as it is written."""
        plan: dict[str, Any] = {"items": self.items, "effective": self.effective, "faults": dict(self.faults)}
        if self.pairs is not None:
            plan |= {"pairs": self.pairs, "pairs_effective": self.pairs_effective}
        return plan


@dataclass(frozen=True, slots=True)
class SequentialPlan:
    """The plan of a run that draws its items, under ``sequential``.

    :param gate: sha256 of the gate file. :param baseline: hash of the baseline's answered items.
    :param ended: the gate was decided before all cases were measured.
    """

    gate: str = ""
    baseline: str = ""
    seed: int = 0
    ended: bool = False
    rules: Mapping[str, RulePlan] = field(default_factory=dict)

    @classmethod
    def from_json(cls, plan: Mapping[str, Any]) -> SequentialPlan:
        """Read the plan; what it lacks is empty. :raises ValueError: in one phrase, for a field of the wrong type."""
        try:
            rules = {name: RulePlan(**rule) for name, rule in plan.get("rules", {}).items()}
            known = {name: plan[name] for name in ("gate", "baseline", "seed") if name in plan}
            return cls(**known, ended=plan.get("ended") is True, rules=rules)
        except (TypeError, LookupError, AttributeError) as error:
            raise ValueError(f"'sequential' is no plan of a gate ({error})") from None

    def to_json(self) -> dict[str, Any]:
        """The object as it is written."""
        rules = {name: rule.to_json() for name, rule in self.rules.items()}
        return {
            "gate": self.gate, "baseline": self.baseline, "seed": self.seed, "ended": self.ended, "rules": rules,
        }  # fmt: skip
