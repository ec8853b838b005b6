"""The ERAS section of a report: tables 1 and 2 of Li & Hao, figures, one example pair, and a page per paradigm."""

from __future__ import annotations

from pytest_llmprops.benchmarks.eras.items import EXPLICIT, IMPLICIT
from pytest_llmprops.benchmarks.eras.report.paradigm_pages import paradigm_pages, paradigm_table
from pytest_llmprops.benchmarks.eras.report.segmenters import segmenter_blocks
from pytest_llmprops.benchmarks.eras.report.sentiment import sentiment_blocks
from pytest_llmprops.benchmarks.eras.report.training import trained_blocks
from pytest_llmprops.reports.kit.blocks import Block, Note, Section, visible
from pytest_llmprops.reports.kit.generic import detailed, fine_print
from pytest_llmprops.reports.kit.series import Measured
from pytest_llmprops.reports.kit.trained import read_training


def section(measured: Measured) -> Section:
    """Return warnings, both tables with the paper's rows, figures, an example pair, paradigms and the general parts."""
    blocks: list[Block] = [
        Note(f"{s.label}: {visible(row.text)}.", "warn" if row.warning else "plain")
        for s in measured.series
        for row in s.run.facts.remarks
        if (row.model, row.benchmark) == (s.model, measured.benchmark)
    ]
    trained = [(s, training) for s in measured.series if (training := read_training(s)) is not None]
    explicit = [place for place in measured.places if place[0] == EXPLICIT]
    implicit = [place for place in measured.places if place[0] == IMPLICIT]
    if explicit:
        blocks += segmenter_blocks(measured, explicit, {s.index for s, _ in trained})
    if implicit:
        blocks += sentiment_blocks(measured, implicit)
    blocks += trained_blocks(trained)
    pages = paradigm_pages(measured)
    blocks += [*paradigm_table(pages), *detailed(measured), *fine_print(measured)]
    return Section(tuple(blocks), tuple(page for _, page in pages if page is not None))
