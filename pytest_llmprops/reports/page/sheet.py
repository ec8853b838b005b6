"""The decision sheet: the first screen of a report on one page of A4, printed by an installed Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.kit.blocks import Report
from pytest_llmprops.reports.page.html import markup, rendered

#: the script of the decision sheet: 1047 pixels are the printable height of A4
FIT = """
const { style } = document.body;
for (let scale = 0.96; document.documentElement.getBoundingClientRect().height > 1040 && scale > 0.3; scale -= 0.04) {
  style.zoom = scale;
  style.width = `${718 / scale}px`;
}
"""
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
        # Without this option, Chromium does not start as root.
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [
            browser, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
            "--no-first-run", "--no-pdf-header-footer", f"--user-data-dir={folder / 'profile'}",
            f"--print-to-pdf={pdf}", *root, page.as_uri(),
        ]  # fmt: skip
        try:
            ended = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"--pdf: {browser} could not print: {error}") from None
        if not pdf.is_file():
            lines = ended.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            raise UsageError(f"--pdf: {browser} could not print: {one_line(lines[-1], 300)}")
        return pdf.read_bytes()


def sheet_html(report: Report) -> bytes:
    """Return the page of the decision sheet, which makes itself small enough for one page."""
    return rendered("sheet.html.jinja", report=report, fit=markup(FIT))
