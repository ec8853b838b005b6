"""A benchmark's section of the report on some runs, with its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.reports.kit.blocks import Block, Figure, Note, Report, Section, Table
from pytest_llmprops.reports.kit.figures import draw_svg
from pytest_llmprops.reports.page.build import unfolded
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.page.html import to_html
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.replies import read_requests


class Shown:
    """The report on runs of one benchmark."""

    def __init__(self, *folders: Path) -> None:
        runs = [read_run(folder) for folder in folders]
        self.report: Report = report_on(runs, {id(run): read_requests(run.folder) for run in runs})
        self.section: Section = self.report.sections[0]
        self.records: Sequence[VerdictRecord] = runs[0].records

    def every(self, kind: type[Block]) -> list[Any]:
        """All blocks of one kind, including folded ones."""
        return [b for b in unfolded(self.section.blocks) if isinstance(b, kind)]

    def table(self, title: str) -> list[dict[str, str]]:
        """The rows of a table as heading -> text."""
        [one] = [b for b in self.every(Table) if b.title == title]
        names = [name for name, _ in one.columns]
        return [dict(zip(names, [c.text for c in row], strict=True)) for row in one.rows]

    def figures(self, name: str) -> list[Figure]:
        """The figures whose name begins like this."""
        return [f for f in self.every(Figure) if f.name.startswith(name)]

    @property
    def html(self) -> str:
        """The page."""
        return to_html(self.report, {f.name: draw_svg(f.draw) for f in self.every(Figure)}).decode("utf-8")

    @property
    def titles(self) -> set[str]:
        """The titles of all tables."""
        return {b.title for b in self.every(Table)}

    @property
    def notes(self) -> list[str]:
        """All paragraphs."""
        return [b.text for b in self.every(Note)]
