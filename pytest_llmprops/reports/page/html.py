"""A report as one self-contained HTML file with styles, script, plots and data."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.records.gate import Check, GateResult
from pytest_llmprops.reports.gate import MARKS, loss_text
from pytest_llmprops.reports.kit.blocks import Report, counted, interval, percent, visible
from pytest_llmprops.reports.kit.figures import MARKERS, SERIES, inline, marker

if TYPE_CHECKING:
    from markupsafe import Markup

#: near the beginning of every ``report.html``
MARK = '<meta name="generator" content="pytest-llmprops report">'
ASSETS = Path(__file__).parent / "assets"
SCRIPTS = (
    "page.js", "packed.js", "data.js", "pairs.js", "diff.js", "address.js", "heatmap.js", "reviews.js", "detail.js",
    "items.js",
)  # fmt: skip
#: the script that starts the page, before the texts of the items are read
BEGIN = "begin();"
_SHAPES = dict(zip(MARKERS, "●■▲▼◆✚", strict=True))
#: the numbers of a gate's checks and losses, and of notes on the runs, that are not collapsed
MOST_CHECKS, MOST_LOSSES, MOST_WARNINGS = 5, 5, 2


def to_html(report: Report, figures: Mapping[str, str], *, is_served: bool = False) -> bytes:
    """Return the page.

    :param figures: SVG text by name of the figure.
    :param is_served: the page sends its review marks to the server that it is from, and links to the list of runs.
    """
    return rendered(
        "page.html.jinja",
        report=report,
        figures={name: markup(inline(svg, name)) for name, svg in figures.items()},
        mark=markup(MARK),
        # In base64, so nothing has to be escaped.
        index=markup(report.items.index),
        chunks=list(map(markup, report.items.chunks)),
        script=text_of(*(ASSETS / name for name in SCRIPTS)),
        begin=markup(BEGIN),
        is_served=is_served,
    )


def rendered(template: str, *folders: Path, **values: Any) -> bytes:
    """Return a page in UTF-8. All text is escaped, and control characters are visible.

    :param folders: further folders with templates, which are searched first.
    """
    text: str = _environment(*folders).get_template(template).render(**values)
    return text.encode("utf-8", "replace")


def markup(text: str) -> Markup:
    """Return text of this package, of matplotlib or in base64, which is not escaped."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - see the docstring


def text_of(*paths: Path) -> Markup:
    """Return the contents of files of this package, which are not escaped."""
    return markup("".join(path.read_text(encoding="utf-8") for path in paths))


@cache
def _environment(*folders: Path) -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([*folders, ASSETS], encoding="utf-8"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "counted": counted, "hash": _hash, "lost": loss_text, "percent": percent, "whole": _whole,
    }  # fmt: skip
    environment.globals |= {
        "interval": interval,
        "checks_of": _checks_of,
        "most_losses": MOST_LOSSES,
        "most_warnings": MOST_WARNINGS,
        "glyphs": MARKS,
        "style": text_of(ASSETS / "page.css"),
        "colours": len(SERIES),
        "shape": lambda index: _SHAPES[marker(index)],
    }
    environment.finalize = _shown
    return environment


def _hash(script: str) -> str:
    """Return the hash by which a content security policy allows a script."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _whole(text: str, names: Sequence[str]) -> Markup:
    """Return ``text`` with markup that keeps short model names on one line."""
    short = sorted({visible(name) for name in names if len(name) <= 24}, key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, short)) + ")", visible(text)) if short else [visible(text)]
    span = markup('<span class="whole">{}</span>')
    return markup("").join(span.format(part) if n % 2 else part for n, part in enumerate(parts))


def _checks_of(gate: GateResult) -> list[list[tuple[str, Check]]]:
    """Return the checks that the page shows, and those that it collapses: those that are met, if any is not."""
    checks = [(rule.name, check) for rule in gate.rules for check in rule.checks]
    checks.sort(key=lambda pair: pair[1].verdict == "met")
    unmet = sum(check.verdict != "met" for _, check in checks)
    shown = min(unmet or len(checks), MOST_CHECKS)
    return [checks[:shown], checks[shown:]]


def _shown(value: Any) -> Any:
    """Return text after :func:`visible`; markup, which is the project's own, does not change."""
    return visible(value) if type(value) is str else value
