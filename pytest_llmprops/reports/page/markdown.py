"""A report as GitHub-flavoured Markdown. Untrusted text cannot create links, images, mentions, HTML or formatting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.gate import gate_markdown
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Fold, Note, Report, Section, Table

#: maximum number of incorrect items per benchmark; ``report.html`` has all
SHOWN = 20
_MARKS = re.compile(r"[\\`*_\[\]<>#!|~$&@]|:(?=\/\/|[\w+-]+:)|(?<=www)\.|^[-+](?= )|(?<=^\d)\.(?= )")


def to_markdown(report: Report) -> str:
    """Return the whole report; figures are linked as ``figures/NAME.svg``."""
    lines = [f"# {plain(report.title)}", ""]
    lines += [f"- {plain(text)}" for text in report.findings]
    lines += ["", " · ".join(f"**{plain(name)}** {plain(value)}" for name, value in report.facts), ""]
    lines += [f"> **Note** {plain(text)}\n" for text in report.warnings]
    for run_id, gate in report.gates:
        lines += [*([f"Run {plain(run_id)}", ""] if len(report.gates) > 1 else []), gate_markdown(gate)]
    for section in report.sections:
        lines += _section(section, report.items)
    lines += ["## Runs", ""]
    for run_id, facts in report.runs:
        lines += [f"<details><summary>{plain(run_id)}</summary>", "", "| | |", "|---|---|"]
        lines += [f"| {plain(name)} | {plain(value)} |" for name, value in facts]
        lines += ["", "</details>", ""]
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section, items: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {plain(section.title)}"
    yield ""
    if section.about:
        yield plain(section.about)
        yield ""
    for block in section.blocks:
        yield from _block(block)
    yield from _failures(section.key, items)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Table():
            yield from _table(block)
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


def _table(table: Table) -> Iterator[str]:
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


def _failures(benchmark: str, items: Mapping[str, Any]) -> Iterator[str]:
    fields = {name: n for n, name in enumerate(items["fields"])}
    statuses = items["status"]
    bad = [
        row
        for row in items["rows"]
        if items["benchmark"][row[fields["benchmark"]]] == benchmark
        and statuses[row[fields["status"]]] != "correct"
    ]
    if not bad:
        return
    several = len(items["series"]) > 1
    yield f"<details><summary>{min(SHOWN, len(bad))} of {len(bad):,} items that are not correct</summary>"
    yield ""
    yield ("| model " if several else "") + "| item | status | expected | given | reason |"
    yield ("|---" if several else "") + "|---|---|---|---|---|"
    for row in bad[:SHOWN]:
        cells = [plain(items["series"][row[fields["series"]]])] if several else []
        cells += [code(row[fields["id"]]), statuses[row[fields["status"]]]]
        cells += [code(row[fields["expected"]]), code(row[fields["given"]]), code(row[fields["reason"]])]
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
