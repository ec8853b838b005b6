"""A report as one self-contained HTML file with styles, script, plots and data."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pytest_llmprops.records.gate import Check, GateResult
from pytest_llmprops.reports.gate import loss_text
from pytest_llmprops.reports.kit.blocks import Report, counted, interval, percent, visible
from pytest_llmprops.reports.kit.figures import MARKERS, SERIES, inline, marker

#: near the beginning of every ``report.html``
MARK = '<meta name="generator" content="pytest-llmprops report">'
ASSETS = Path(__file__).parent / "assets"
SCRIPTS = (
    "page.js", "packed.js", "data.js", "pairs.js", "diff.js", "address.js", "heatmap.js", "reviews.js", "detail.js",
    "items.js",
)  # fmt: skip
#: the script that starts the page, before the texts of the items are read
BEGIN = "begin();"
SHAPES = dict(zip(MARKERS, "●■▲▼◆✚", strict=True))
_PATH = re.compile(r"[A-Za-z0-9_-]+/[A-Za-z0-9_-]+\.html")
#: the numbers of a gate's checks and losses, and of notes on the runs, that are not collapsed
MOST_CHECKS, MOST_LOSSES, MOST_WARNINGS = 5, 5, 2
GLYPHS = {"met": "✓", "failed": "✗", "inconclusive": "?", "invalid": "!"}


def to_html(report: Report, figures: Mapping[str, str], *, is_served: bool = False) -> bytes:
    """Return the page.

    :param figures: SVG text by name of the figure.
    :param is_served: the page sends its review marks to the server that it is from, and links to the list of runs.
    """
    from markupsafe import Markup

    script = "".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    page: str = (
        environment()
        .get_template("page.html.jinja")
        .render(
            report=report,
            figures={name: Markup(inline(svg, name)) for name, svg in figures.items()},  # noqa: S704 - matplotlib's own
            mark=Markup(MARK),  # noqa: S704 - a constant
            style=style(),
            script=Markup(script),  # noqa: S704 - a file of the package
            # In base64, so nothing has to be escaped.
            index=Markup(report.items.index),  # noqa: S704
            chunks=[Markup(chunk) for chunk in report.items.chunks],  # noqa: S704
            begin=BEGIN,
            is_served=is_served,
            script_hashes=[script_hash(script), script_hash(BEGIN)],
            colours=len(SERIES),
            shape=lambda index: SHAPES[marker(index)],
            glyphs=GLYPHS,
        )
    )
    return page.encode("utf-8", "replace")


def script_hash(script: str) -> str:
    """Return the hash by which a content security policy allows a script."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def pages_html(report: Report) -> dict[str, bytes]:
    """Return the additional pages by path; each links to its section of the report.

    :raises ValueError: for a path that is not safe in an address or on every file system.
    """
    templates, sheet = environment(), style()
    pages: dict[str, bytes] = {}
    for number, section in enumerate(report.sections, 1):
        for page in section.pages:
            if not _PATH.fullmatch(page.path):
                raise ValueError(f"{page.path!r}: the path of an additional page must be FOLDER/NAME.html")
            text = templates.get_template(page.template).render(
                page=page,
                content=page.content,
                section=section.title,
                back=f"../report.html#{number}-section",
                style=sheet,
                colours=len(SERIES),
                shape=lambda index: SHAPES[marker(index)],
            )
            pages[page.path] = text.encode("utf-8", "replace")
    return pages


def environment(*folders: Path) -> Any:
    """Return the environment of the templates; it escapes all text and makes control characters visible.

    :param folders: further folders with templates, which are searched first.
    """
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader(
            [FileSystemLoader([*folders, ASSETS], encoding="utf-8"), FunctionLoader(_template_of_package)]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"counted": counted, "lost": loss_text, "percent": percent, "whole": _whole}
    environment.globals |= {
        "interval": interval,
        "checks_of": _checks_of,
        "most_losses": MOST_LOSSES,
        "most_warnings": MOST_WARNINGS,
    }
    environment.finalize = _shown
    return environment


def _template_of_package(name: str) -> str | None:
    """Return the text of the template ``PACKAGE:FILE``; None if there is none."""
    package, colon, file = name.partition(":")
    if not colon:
        return None
    try:
        return (files(package) / file).read_text(encoding="utf-8")
    except (ImportError, OSError):
        return None


def style() -> Any:
    """Return the style sheet as markup."""
    from markupsafe import Markup

    return Markup((ASSETS / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - a file of the package


def _whole(text: str, names: Sequence[str]) -> Any:
    """Return ``text`` with markup that keeps short model names on one line."""
    from markupsafe import Markup

    short = sorted({visible(name) for name in names if len(name) <= 24}, key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, short)) + ")", visible(text)) if short else [visible(text)]
    span = Markup('<span class="whole">{}</span>')
    return Markup("").join(span.format(part) if n % 2 else part for n, part in enumerate(parts))


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
