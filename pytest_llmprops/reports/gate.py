"""A gate's result as terminal lines, and as Markdown for the job page of a CI system."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_llmprops.core.numbers import cost, count, counted, p_value, percent, point_range, size_in_points
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.records.gate import Check, GateResult, MemberChange
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.reports.tables import aligned_table, markdown_fold, markdown_table, plain
from pytest_llmprops.runs.gate.file import Gate

if TYPE_CHECKING:
    from pytest_llmprops.runs.gate.forecast import Forecast, Rates

MARKS = {"met": "✓", "failed": "✗", "inconclusive": "?", "invalid": "!"}
#: limits of the line width
NARROWEST, WIDEST = 60, 110
#: the number of losses in the terminal
MOST_LOSSES = 10
#: width of the column of labels: four spaces, a mark, the longest verdict
_LABELS = 19


def gate_lines(result: GateResult, width: int = 100, *, details: bool = False) -> list[str]:
    """Return the decision in one line, lost tasks, caveats, then each rule's requirements and verdicts.

    :param width: columns to wrap to; the first line, with the decision, is not wrapped.
    :param details: also the tests and their p-values.
    """
    width = min(max(width, NARROWEST), WIDEST)
    against = f" against baseline {result.baseline}" if result.baseline else ""
    lines = [terminal_line(result.line)]
    for loss in result.losses[:MOST_LOSSES]:
        lines += _wrapped("LOST", loss_text(loss, details=details), width, indent=2)
    if len(result.losses) > MOST_LOSSES:
        lines += _wrapped("", f"and {len(result.losses) - MOST_LOSSES} more", width)
    for caveat in result.caveats:
        lines += _wrapped("CAVEAT", caveat, width, indent=2)
    lines.append(terminal_line(f"gate {result.file}{against}"))
    if result.chance is not None:
        lines.append(f"  {chance_text(result.chance)}")
    for rule in result.rules:
        lines += _wrapped(rule.verdict.upper(), rule.name, width, indent=2)
        for check in rule.checks:
            lines += _wrapped(f"{MARKS[check.verdict]} required", check.required, width)
            first, *more = check.measured.split("; ")
            lines += _wrapped("  measured", first, width)
            lines += [line for part in more if details for line in _wrapped("", part, width)]
            if check.reason:
                lines += _wrapped(f"  {check.verdict}", check.reason, width)
    shown = {f"{rule.name}: {check.reason}" for rule in result.rules for check in rule.checks}
    for reason in result.reasons:
        if reason not in shown:
            lines += _wrapped("INVALID", reason, width, indent=2)
    for note in result.notes:
        lines += _wrapped("note", note, width, indent=2)
    return lines


def loss_text(loss: MemberChange, *, details: bool = False) -> str:
    """Return a drop in words.

    :param details: with the p-value.
    """
    interval = point_range(loss.ci_low, loss.ci_high)
    drop = f"{size_in_points(loss.difference)} worse {loss.where} (95% interval {interval})"
    p = f"; p {p_value(loss.p)} (corrected)" if details else ""
    return f"{drop}, {loss.lost} lost and {loss.gained} gained of {loss.pairs} pairs{p}"


def chance_text(chance: float) -> str:
    """Return how likely an unchanged model passes, in words."""
    return f"An unchanged model passes with {chance:.0%} probability"


def _wrapped(label: str, text: str, width: int, *, indent: int = 4) -> list[str]:
    """Return ``text`` wrapped in a column to the right of ``label``."""
    first = (" " * indent + label).ljust(_LABELS - 1) + " "
    return textwrap.wrap(
        terminal_line(text),
        width,
        initial_indent=first,
        subsequent_indent=" " * _LABELS,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [first.rstrip()]


def gate_markdown(result: GateResult, title: str = "", changes: Iterable[str] = ()) -> str:
    """Return the result as a Markdown section: the decision, what was lost, and tables of the checks.

    Checks that are met are collapsed, if any is not.

    :param title: of the section; by default the decision in one line.
    :param changes: lines that follow the losses.
    """
    return "\n".join(_markdown(result, title or result.line, changes)) + "\n"


def _markdown(result: GateResult, title: str, changes: Iterable[str]) -> Iterator[str]:
    yield f"## {plain(title)}"
    yield ""
    if result.losses:
        yield from ("Lost:", "", *(f"- {plain(loss_text(loss))}" for loss in result.losses), "")
    if result.caveats:
        yield from (*(f"- Caveat: {plain(caveat)}" for caveat in result.caveats), "")
    yield from changes
    if result.baseline:
        chance = "" if result.chance is None else f" {plain(chance_text(result.chance))}."
        yield f"Compared with baseline {plain(result.baseline)}.{chance}"
        yield ""
    checks = [(rule.name, check) for rule in result.rules for check in rule.checks]
    met = [pair for pair in checks if pair[1].verdict == "met"]
    unmet = [pair for pair in checks if pair[1].verdict != "met"]
    yield from _checks(unmet or met)
    if listed := [*result.reasons, *result.notes]:
        yield from ("", *(f"- {plain(line)}" for line in listed))
    if unmet and met:
        yield from ("", *markdown_fold(f"{counted(len(met), 'check')} met", _checks(met)))
    tests = [f"- {plain(f'{loss.where}: p {p_value(loss.p)} (corrected)')}" for loss in result.losses]
    rests = ((name, check.measured.partition("; ")[2]) for name, check in checks)
    tests += [f"- {plain(f'{name}: {rest}')}" for name, rest in rests if rest]
    if tests:
        yield from ("", *markdown_fold("Tests", tests))


def _checks(checks: Iterable[tuple[str, Check]]) -> list[str]:
    rows: list[Sequence[str]] = [("rule", "required", "measured", "verdict")]
    for name, check in checks:
        why = f"{check.verdict}: {check.reason}" if check.reason else check.verdict
        cells = (name, check.required, check.measured.partition("; ")[0], f"{MARKS[check.verdict]} {why}")
        rows.append(list(map(plain, cells)))
    return markdown_table(rows)


def forecast_lines(
    gate: Gate, plan: Forecast, facts: RunMetadata, impossible: Mapping[str, str], width: int = 100
) -> list[str]:
    """Return how often a gate would pass, fail and be inconclusive, and what the run would cost.

    :param facts: those of the baseline, or empty ones without a baseline.
    :param impossible: why no candidate can meet a rule, by its name.
    """
    from pytest_llmprops.runs.gate.forecast import DROPS

    head = (
        "rule",
        "items",
        "churn",
        *(f"{100 * drop:.0f} points worse" if drop else "unchanged" for drop in DROPS),
    )
    table = [head]
    for rule in plan.rules:
        own = rule.items
        items = count(own.items) + (f" in {count(own.units)} clusters" if own.units < own.items else "")
        cells = map(_shares, rule.rates) if rule.rates else ["not simulated"] * len(DROPS)
        table.append((rule.name, items, percent(own.churn), *cells))
    if plan.whole:
        table.append(("the whole gate", "", "", *map(_shares, plan.whole)))
    title = f"gate {gate.file}: pass / fail / inconclusive, in percent of simulated candidates"
    lines = list(map(terminal_line, (title, *aligned_table(table))))
    notes = [("IMPOSSIBLE", f"{name}: {why}") for name, why in impossible.items()]
    notes += [("note", note) for note in _plan_notes(plan, facts)]
    return lines + [line for label, text in notes for line in _wrapped(label, text, width, indent=2)]


def _plan_notes(plan: Forecast, facts: RunMetadata) -> Iterator[str]:
    if all(rule.items.repeats == 1 for rule in plan.rules):
        yield (
            "churn is assumed (--churn): the share of the items that an unchanged model loses between two runs, and"
            " gains. A baseline with --llm-repeats measures it. Sampling at a temperature above 0 may cause 10% or more"
        )
    calls, requests = sum(rule.items.calls for rule in plan.rules), facts.calls.requests
    if calls and requests:
        usd = None if facts.calls.cost_usd is None else facts.calls.cost_usd * min(1.0, calls / requests)
        yield f"about {count(calls)} calls, {cost(calls, usd)}, as for the baseline"
    else:
        yield "for calls and cost: pytest with --llm-plan"


def _shares(rates: Rates) -> str:
    return " / ".join(f"{100 * rate:.0f}" for rate in rates)
