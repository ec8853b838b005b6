"""What a benchmark's own section of a report is written with.

A registration's ``section`` is a function from :class:`Measured` to :class:`Section`. Blocks are tables, figures,
notes and folds; Markdown, HTML, sorting, themes and escaping come with them.
"""

from pytest_llmprops.core.comparison import PairedResult
from pytest_llmprops.core.metrics import Place
from pytest_llmprops.reports.kit.blocks import Block, Cell, Figure, Fold, Note, Page, Section, Table
from pytest_llmprops.reports.kit.compare import compare
from pytest_llmprops.reports.kit.figures import Point, colour, legend, margins, marker, new_figure, share_axis
from pytest_llmprops.reports.kit.forest import ForestRow, Mark, forest
from pytest_llmprops.reports.kit.generic import (
    accuracy_figure,
    detailed,
    fine_print,
    metric_cell,
    place_cell,
    share_cell,
    tables,
)
from pytest_llmprops.reports.kit.pages import cut_text, linked_pages, outcome_label
from pytest_llmprops.reports.kit.series import Measured, Series, Share, accuracy
from pytest_llmprops.reports.kit.text import (
    interval,
    language,
    percent,
    points,
    visible,
    with_interval,
    words,
)

__all__ = [
    "Block",
    "Cell",
    "Figure",
    "Fold",
    "ForestRow",
    "Mark",
    "Measured",
    "Note",
    "Page",
    "PairedResult",
    "Place",
    "Point",
    "Section",
    "Series",
    "Share",
    "Table",
    "accuracy",
    "accuracy_figure",
    "colour",
    "compare",
    "cut_text",
    "detailed",
    "fine_print",
    "forest",
    "interval",
    "language",
    "legend",
    "linked_pages",
    "margins",
    "marker",
    "metric_cell",
    "new_figure",
    "outcome_label",
    "percent",
    "place_cell",
    "points",
    "share_axis",
    "share_cell",
    "tables",
    "visible",
    "with_interval",
    "words",
]
