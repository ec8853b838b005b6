"""A gate's result as terminal lines, and as Markdown for the job page of a CI system."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.core.texts import one_line, terminal_line

MARKS = {"met": "✓", "failed": "✗", "inconclusive": "?", "invalid": "!"}
#: limits of the line width
NARROWEST, WIDEST = 60, 110
#: width of the column of labels: four spaces, a mark, the longest verdict
_LABELS = 19


def gate_lines(result: GateResult, width: int = 100) -> list[str]:
    """Return each rule's requirements, measurements and verdicts, then the decision in one line.

    :param width: columns to wrap to; the last line, with the decision, is not wrapped.
    """
    width = min(max(width, NARROWEST), WIDEST)
    against = f" against baseline {result.baseline}" if result.baseline else ""
    lines = [terminal_line(f"gate {result.file}{against}")]
    for rule in result.rules:
        early = " (stopped early)" if rule.partial else ""
        lines += _wrapped(rule.verdict.upper(), rule.name + early, width, indent=2)
        for check in rule.checks:
            mark = MARKS[check.verdict]
            lines += _wrapped(f"{mark} required", check.required, width)
            first, *more = check.measured.split("; ")
            lines += _wrapped("  measured", first, width)
            lines += [line for part in more for line in _wrapped("", part, width)]
            if check.reason:
                lines += _wrapped(f"  {check.verdict}", check.reason, width)
    shown = {f"{rule.name}: {check.reason}" for rule in result.rules for check in rule.checks}
    for reason in result.reasons:
        if reason not in shown:
            lines += _wrapped("INVALID", reason, width, indent=2)
    for note in result.notes:
        lines += _wrapped("note", note, width, indent=2)
    lines.append(terminal_line(f"gate decision: {result.line}"))
    return lines


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


def gate_markdown(result: GateResult) -> str:
    """Return the result as a Markdown section with a table."""
    return "\n".join(_markdown(result)) + "\n"


def _markdown(result: GateResult) -> Iterator[str]:
    yield f"## Gate: {result.decision}"
    yield ""
    yield f"**{_cell(result.line)}**"
    yield ""
    if result.baseline:
        yield f"Compared with baseline {_cell(result.baseline)}."
        yield ""
    yield "| rule | required | measured | verdict |"
    yield "|---|---|---|---|"
    for rule in result.rules:
        early = " (stopped early)" if rule.partial else ""
        for check in rule.checks:
            why = f"{check.verdict}: {check.reason}" if check.reason else check.verdict
            cells = (
                rule.name,
                check.required,
                check.measured + early,
                f"{MARKS[check.verdict]} {why}",
            )
            yield "| " + " | ".join(map(_cell, cells)) + " |"
    listed = [*result.reasons, *result.notes]
    if listed:
        yield ""
        yield from (f"- {_cell(line)}" for line in listed)


def _cell(text: str) -> str:
    # Names of models and rules are untrusted.
    plain = one_line(text, 400).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "\\`*_|[]~@#$":
        plain = plain.replace(mark, "\\" + mark if mark not in "@#" else f"&#{ord(mark)};")
    return plain
