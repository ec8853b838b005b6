"""A gate's result as terminal lines, and as Markdown for the job page of a CI system."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pytest_llmprops.core.gate_results import GateResult, Loss
from pytest_llmprops.core.numbers import interval, p_value, size_in_points
from pytest_llmprops.core.texts import one_line, terminal_line

MARKS = {"met": "✓", "failed": "✗", "inconclusive": "?", "invalid": "!"}
#: limits of the line width
NARROWEST, WIDEST = 60, 110
#: the number of losses in the terminal
MOST_LOSSES = 10
#: width of the column of labels: four spaces, a mark, the longest verdict
_LABELS = 19


def gate_lines(result: GateResult, width: int = 100, *, details: bool = False) -> list[str]:
    """Return the decision in one line, the tasks that were lost, then each rule's requirements and verdicts.

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
    lines.append(terminal_line(f"gate {result.file}{against}"))
    for rule in result.rules:
        early = " (stopped early)" if rule.partial else ""
        lines += _wrapped(rule.verdict.upper(), rule.name + early, width, indent=2)
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


def loss_text(loss: Loss, *, details: bool = False) -> str:
    """Return a significant drop in words.

    :param details: with the p-value.
    """
    drop = f"{size_in_points(loss.drop)} {loss.where} (95% interval {interval(loss.ci_low, loss.ci_high)})"
    p = f"; p {p_value(loss.p)} (Holm)" if details else ""
    return f"{drop}, {loss.lost} lost and {loss.gained} gained of {loss.pairs} pairs{p}"


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


def gate_markdown(result: GateResult, title: str = "") -> str:
    """Return the result as a Markdown section with a table.

    :param title: of the section; by default the decision in one line.
    """
    return "\n".join(_markdown(result, title or result.line)) + "\n"


def _markdown(result: GateResult, title: str) -> Iterator[str]:
    yield f"## {_cell(title)}"
    yield ""
    if result.losses:
        yield "Lost:"
        yield ""
        yield from (f"- {_cell(loss_text(loss))}" for loss in result.losses)
        yield ""
    if result.baseline:
        yield f"Compared with baseline {_cell(result.baseline)}."
        yield ""
    yield "| rule | required | measured | verdict |"
    yield "|---|---|---|---|"
    details = [_cell(f"{loss.where}: p {p_value(loss.p)} (Holm)") for loss in result.losses]
    for rule in result.rules:
        early = " (stopped early)" if rule.partial else ""
        for check in rule.checks:
            why = f"{check.verdict}: {check.reason}" if check.reason else check.verdict
            first, _, rest = check.measured.partition("; ")
            details += [_cell(f"{rule.name}: {rest}")] if rest else []
            cells = (rule.name, check.required, first + early, f"{MARKS[check.verdict]} {why}")
            yield "| " + " | ".join(map(_cell, cells)) + " |"
    listed = [*result.reasons, *result.notes]
    if listed:
        yield ""
        yield from (f"- {_cell(line)}" for line in listed)
    if details:
        yield ""
        yield "<details><summary>Tests</summary>"
        yield ""
        yield from (f"- {line}" for line in details)
        yield ""
        yield "</details>"


def _cell(text: str) -> str:
    # Names of models and rules are untrusted.
    plain = one_line(text, 400).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "\\`*_|[]~#@$":
        plain = plain.replace(mark, "\\" + mark if mark not in "@#" else f"&#{ord(mark)};")
    return plain
