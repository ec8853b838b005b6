"""A report as one self-contained HTML file with styles, script, plots and data."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import one_line
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
#: the script of the decision sheet: 1047 pixels are the printable height of A4
FIT = """
const { style } = document.body;
for (let scale = 0.96; document.documentElement.getBoundingClientRect().height > 1040 && scale > 0.3; scale -= 0.04) {
  style.zoom = scale;
  style.width = `${718 / scale}px`;
}
"""
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


def sheet_html(report: Report) -> bytes:
    """Return the page of the decision sheet, which makes itself small enough for one page."""
    from markupsafe import Markup

    page: str = (
        environment()
        .get_template("sheet.html.jinja")
        .render(
            report=report,
            style=style(),
            colours=len(SERIES),
            shape=lambda index: SHAPES[marker(index)],
            glyphs=GLYPHS,
            fit=Markup(FIT),  # noqa: S704 - a constant
            fit_hash=script_hash(FIT),
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


# The decision sheet: the findings of a report on one page of A4, printed by an installed Chromium.

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
#: seconds until the browser is stopped
PATIENCE = 120


def find_browser() -> str:
    """Return the path of an installed Chromium or Chrome.

    :raises UsageError: if there is none.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise UsageError(
            "--pdf: needs Chromium or Chrome on the PATH to print, and neither was found; install one"
            " (Debian: apt-get install chromium), or print report.html from your browser"
        )
    return found


def decision_sheet(report: Report, browser: str) -> bytes:
    """Return the decision sheet as PDF.

    :param browser: see :func:`find_browser`.
    :raises UsageError: if the browser fails.
    """
    with tempfile.TemporaryDirectory(prefix="llmprops-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        page, pdf = folder / "sheet.html", folder / "decision.pdf"
        page.write_bytes(sheet_html(report))
        command = [
            browser, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
            "--no-first-run", "--no-pdf-header-footer", f"--user-data-dir={folder / 'profile'}",
            f"--print-to-pdf={pdf}", *_root_options(), page.as_uri(),
        ]  # fmt: skip
        try:
            ended = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"--pdf: {browser} could not print: {error}") from None
        if not pdf.is_file():
            lines = ended.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            raise UsageError(f"--pdf: {browser} could not print: {one_line(lines[-1], 300)}")
        return pdf.read_bytes()


def _root_options() -> Sequence[str]:
    """Return the option without which Chromium does not start as root."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []
