"""Whether a gate's rule has enough answers to judge: ``min_items``, ``repeats`` and ``max_errors``."""

from __future__ import annotations

from pytest_llmprops.core.gate_results import Check, CheckVerdict
from pytest_llmprops.core.numbers import percent
from pytest_llmprops.core.texts import first_names
from pytest_llmprops.runs import gate_bounds
from pytest_llmprops.runs.gate_data import RuleData


def fitness(data: RuleData) -> list[Check]:
    """Check ``min_items``, ``repeats`` and ``max_errors``: whether there are enough answers to judge."""
    rule, checks = data.rule, []
    n, what = data.population.items, "pairs" if rule.paired else "answered items"
    if n < rule.min_items:
        reason = f"{n} {what} are fewer than min_items = {rule.min_items}"
        checks.append(Check("min_items", f"at least {rule.min_items} {what}", str(n), "invalid", reason))
    checks += _repeats(data)
    faulty, of = data.fault_size, data.either
    least, most = faulty / of, min(faulty + data.total - data.drawn, of) / of
    so_far = data.drawn_fault_size / data.drawn if data.drawn else least
    required = f"at most {percent(rule.max_errors)} in error or missing"
    measured = f"{percent(faulty / of)}, {faulty:.6g} of {of}"
    verdict: CheckVerdict = "met"
    if least > rule.max_errors:
        verdict = "invalid"
    elif data.partial and (so_far > rule.max_errors or (not rule.checks and most > rule.max_errors)):
        # The items to come may bring the share of the drawn ones down again, or the share of all up.
        verdict = "inconclusive"
    if verdict != "met" or faulty or not rule.checks:
        reason = {"invalid": _faults(data), "inconclusive": gate_bounds.OPEN}.get(verdict, "")
        checks.append(Check("max_errors", required, measured, verdict, reason, least))
    return checks


def _repeats(data: RuleData) -> list[Check]:
    wanted = data.rule.repeats
    fewest = [samples for samples in data.samples if samples is not None]
    if wanted == 1 or not fewest:
        return []
    required, measured = f"at least {wanted} samples per item", str(min(fewest))
    for name, again, samples in zip(("this run", "the baseline"), ("", " it"), data.samples, strict=True):
        if samples is not None and samples < wanted:
            has = f"{name} has {samples} sample{'s' * (samples > 1)} per item, and repeats = {wanted}"
            reason = f"{has}; measure{again} again with --llm-repeats {wanted}"
            return [Check("repeats", required, measured, "invalid", reason)]
    return [Check("repeats", required, measured, "met")]


def _faults(data: RuleData) -> str:
    kinds = [f"{len(ids)} {what}" for what, ids in data.faults.items() if ids]
    return f"of {data.either} items {' and '.join(kinds)} ({first_names(data.faulty)})"
