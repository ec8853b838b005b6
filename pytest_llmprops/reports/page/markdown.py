"""A report as GitHub-flavoured Markdown. Untrusted text cannot create links, images, mentions, HTML or formatting."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.gate import gate_markdown
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Failures,
    Figure,
    Fold,
    Note,
    Report,
    Section,
    Table,
)
from pytest_llmprops.reports.page.items import row_id
from pytest_llmprops.reports.tables import markdown_fold, markdown_table, plain


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
        rows = [["", ""], *([plain(name), plain(value)] for name, value in facts)]
        lines += markdown_fold(plain(run_id), markdown_table(rows))
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section) -> Iterator[str]:
    for text in (f"## {plain(section.title)}", *map(plain, filter(None, (section.about, section.finding)))):
        yield from (text, "")
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Table():
            yield from table_lines(block)
        case Figure():
            yield from (f"### {plain(block.title)}", "", f"![{plain(block.alt)}](figures/{block.name}.svg)")
            if block.note:
                yield from ("", plain(block.note))
        case Note():
            yield f"> {plain(block.text)}" if block.tone == "warn" else plain(block.text)
        case Fold():
            yield from markdown_fold(plain(block.title), (x for inner in block.blocks for x in _block(inner)))
    yield ""


def table_lines(table: Table) -> Iterator[str]:
    """Yield the lines of a table, with its title above and its note below."""
    yield f"### {plain(table.title)}"
    yield ""
    rows = [
        [plain(name) for name, _ in table.columns],
        *([plain(cell.text) for cell in row] for row in table.rows),
    ]
    yield from markdown_table(rows, {n for n, (_, is_number) in enumerate(table.columns) if is_number})
    if table.note:
        yield from ("", plain(table.note))


def _failures(failures: Failures | None, *, several: bool) -> list[str]:
    if failures is None or not failures.total:
        return []
    rows = [["model", "item", "status", "expected", "given", "reason"]]
    for label, record in failures.first:
        texts = (row_id(record), record.expected, record.given, record.reason)
        item, *others = map(code, texts)
        rows.append([plain(label), item, record.status, *others])
    shown = rows if several else [row[1:] for row in rows]
    title = f"{len(failures.first)} of {failures.total:,} items that are not correct"
    return markdown_fold(title, markdown_table(shown))


def code(text: str) -> str:
    """Return ``text`` as a code span in a table cell, with backticks and bars as text."""
    flat = one_line(text, 120)
    if not flat:
        return ""
    longest = max(map(len, re.findall("`+", flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if flat[0] in "` " or flat[-1] in "` " else ""
    return f"{fence}{pad}{flat}{pad}{fence}".replace("|", "\\|")
