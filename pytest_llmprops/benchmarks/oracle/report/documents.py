"""The table of documents whose sentences were tested for linearity until a bound was reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_llmprops.benchmarks.oracle.documents import Document, documents_of
from pytest_llmprops.benchmarks.oracle.items import LINEARITY
from pytest_llmprops.benchmarks.oracle.report.tables import DASH, Row, headings
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.reports.kit.blocks import Block, Cell, Fold, Table, visible
from pytest_llmprops.reports.kit.series import Measured, place_of

TITLE = "Linearity by document"
#: maximum rows of a table that is not folded
_OPEN = 25


def document_blocks(measured: Measured, places: Sequence[Place]) -> Iterator[Block]:
    """Yield the table of documents, folded if it is long; nothing if no sentence has a bound to reach."""
    rows = [
        (Cell(s.starred), Cell(visible(place[2])), *_cells(document))
        for place in places
        for s in measured.series
        for document in documents_of(
            r for r in measured.first_samples(s, [LINEARITY]) if place_of(r) == place
        )
    ]
    if rows:
        table = _table(rows)
        yield Fold(TITLE, (table,)) if len(rows) > _OPEN else table


def _cells(document: Document) -> Row:
    tested = len(document.records)
    cells = (
        Cell(visible(document.name)),
        Cell("yes" if document.is_accepted else "no"),
        Cell(f"{document.accepted:,} of {tested:,}", document.accepted / tested),
        Cell(f"{document.tests:,}", document.tests),
    )
    if not document.is_accepted:
        return (*cells, DASH, DASH)
    bound = document.bound()
    passes, excluded = bound.all_pass(document.epsilon), bound.epsilon(document.delta)
    return (
        *cells,
        Cell(f"ε {document.epsilon:g}: {passes:.2g}", passes),
        Cell(f"{excluded:.3f} (δ {document.delta:g})", excluded),
    )


def _table(rows: Sequence[Row]) -> Table:
    note = (
        "A document is accepted if each sentence that can be tested is accepted. Its mean distance is the mean, over"
        " these sentences, of the share of sets of replacements on which the extraction differs from the nearest linear"
        " one. Accepted if ε-far: the highest probability that all tests pass although the mean distance is ε or more,"
        " however it is distributed over the sentences. Excluded: from this mean distance on, that probability is at"
        " most δ."
    )
    heading = ("Model", "Sentences from", "Document", "Accepted")
    columns = ("Sentences accepted", "Tests", "Accepted if ε-far, at most", "Mean distance excluded")
    return Table(TITLE, headings(heading, columns), tuple(rows), note)
