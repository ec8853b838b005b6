"""A report as GitHub-flavoured Markdown. Untrusted text cannot create links, images, mentions, HTML or formatting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.gate import gate_markdown
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Failures,
    Figure,
    Fold,
    Note,
    Report,
    Section,
    Table,
)
from pytest_llmprops.reports.page.items import row_id

_MARKS = re.compile(r"[\\`*_\[\]<>#!|~$&@]|:(?=\/\/|[\w+-]+:)|(?<=www)\.|^[-+](?= )|(?<=^\d)\.(?= )")


def to_markdown(report: Report) -> str:
    """Return the whole report; figures are linked as ``figures/NAME.svg``."""
    lines = [f"# {plain(report.title)}", ""]
    for run_id, gate in report.gates:
        # The decision of a single gate is the heading of the page.
        several = len(report.gates) > 1
        lines += [
            *([f"Run {plain(run_id)}", ""] if several else []),
            gate_markdown(gate, "" if several else "Decision"),
        ]
    if report.table is not None:
        lines += [*table_lines(report.table), ""]
    lines += [plain(report.unshared), ""] if report.unshared else []
    if report.changes is not None:
        lines += _block(Fold(report.changes.title, (report.changes,)))
    lines += ["", " · ".join(f"**{plain(name)}** {plain(value)}" for name, value in report.facts), ""]
    lines += [f"> **Note** {plain(text)}\n" for text in report.warnings]
    for section in report.sections:
        lines += _section(section)
        lines += _failures(report.items.failures.get(section.key), several=len(report.series) > 1)
    lines += ["## Runs", ""]
    for run_id, facts in report.runs:
        lines += [f"<details><summary>{plain(run_id)}</summary>", "", "| | |", "|---|---|"]
        lines += [f"| {plain(name)} | {plain(value)} |" for name, value in facts]
        lines += ["", "</details>", ""]
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {plain(section.title)}"
    yield ""
    for text in filter(None, (section.about, section.finding)):
        yield plain(text)
        yield ""
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Table():
            yield from table_lines(block)
        case Figure():
            yield f"### {plain(block.title)}"
            yield ""
            yield f"![{plain(block.alt)}](figures/{block.name}.svg)"
            if block.note:
                yield ""
                yield plain(block.note)
        case Note():
            yield f"> {plain(block.text)}" if block.tone == "warn" else plain(block.text)
        case Fold():
            yield f"<details><summary>{plain(block.title)}</summary>"
            yield ""
            for inner in block.blocks:
                yield from _block(inner)
            yield "</details>"
    yield ""


def table_lines(table: Table) -> Iterator[str]:
    """Yield the lines of a table, with its title above and its note below."""
    yield f"### {plain(table.title)}"
    yield ""
    yield "| " + " | ".join(plain(name) for name, _ in table.columns) + " |"
    yield "|" + "|".join("--:" if number else "---" for _, number in table.columns) + "|"
    for row in table.rows:
        yield "| " + " | ".join(map(_cell, row)) + " |"
    if table.note:
        yield ""
        yield plain(table.note)


def _cell(cell: Cell) -> str:
    return f"[{plain(cell.text)}]({cell.page})" if cell.page else plain(cell.text)


def _failures(failures: Failures | None, *, several: bool) -> Iterator[str]:
    if failures is None or not failures.total:
        return
    yield f"<details><summary>{len(failures.first)} of {failures.total:,} items that are not correct</summary>"
    yield ""
    yield ("| model " if several else "") + "| item | status | expected | given | reason |"
    yield ("|---" if several else "") + "|---|---|---|---|---|"
    for label, record in failures.first:
        cells = [plain(label)] if several else []
        cells += [code(row_id(record)), record.status]
        cells += [code(record.expected), code(record.given), code(record.reason)]
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield "</details>"
    yield ""


def plain(text: str) -> str:
    """Return ``text`` on one line, escaped for Markdown and HTML."""
    flat = one_line(text, 4000)
    return _MARKS.sub(lambda m: {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(m[0], f"\\{m[0]}"), flat)


def code(text: str) -> str:
    """Return ``text`` as a code span in a table cell, with backticks and bars as text."""
    flat = one_line(text, 120)
    if not flat:
        return ""
    longest = max((len(run) for run in _runs(flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if flat[0] in "` " or flat[-1] in "` " else ""
    return f"{fence}{pad}{flat}{pad}{fence}".replace("|", "\\|")


def _runs(text: str) -> Iterable[str]:
    return re.findall("`+", text)
