"""What a benchmark's own section of a report is written with.

A registration's ``section`` is a function from :class:`Measured` to :class:`Section`. Blocks are tables, figures,
notes and folds; Markdown, HTML, sorting, themes and escaping come with them.
"""

from pytest_llmprops.core.metrics import Place
from pytest_llmprops.reports.kit.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Note,
    Section,
    Table,
    interval,
    language,
    percent,
    points,
    visible,
    with_interval,
    words,
)
from pytest_llmprops.reports.kit.figures import (
    ForestRow,
    Mark,
    Point,
    colour,
    forest,
    legend,
    margins,
    marker,
    new_figure,
    share_axis,
)
from pytest_llmprops.reports.kit.generic import (
    accuracy_figure,
    detailed,
    fine_print,
    metric_cell,
    place_cell,
    share_cell,
    tables,
)
from pytest_llmprops.reports.kit.series import Measured, Series, Share, accuracy
from pytest_llmprops.statistics.judgement import Change

__all__ = [
    "Block",
    "Cell",
    "Change",
    "Figure",
    "Fold",
    "ForestRow",
    "Mark",
    "Measured",
    "Note",
    "Place",
    "Point",
    "Section",
    "Series",
    "Share",
    "Table",
    "accuracy",
    "accuracy_figure",
    "colour",
    "detailed",
    "fine_print",
    "forest",
    "interval",
    "language",
    "legend",
    "margins",
    "marker",
    "metric_cell",
    "new_figure",
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
