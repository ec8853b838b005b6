"""The decision sheet: the findings of a report on one page of A4, printed by an installed Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.kit.blocks import Report
from pytest_llmprops.reports.page.html import sheet_html

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
#: seconds until the browser is stopped
PATIENCE = 120
#: the numbers of findings, warnings and checks of gates on the sheet
MOST_FINDINGS, MOST_WARNINGS, MOST_CHECKS = 8, 5, 24


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
        page.write_bytes(sheet_html(_shortened(report)))
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
    return ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


def _shortened(report: Report) -> Report:
    """Return what fits on a page. What is left out is counted; checks that are not met come first."""
    left = MOST_CHECKS
    gates = []
    for run_id, gate in report.gates:
        checks = [(rule, check) for rule in gate.rules for check in rule.checks]
        checks.sort(key=lambda pair: pair[1].verdict == "met")
        kept = tuple(replace(rule, checks=(check,)) for rule, check in checks[: max(0, left)])
        left -= len(kept)
        more = len(checks) - len(kept)
        notes = (f"{more} further checks in report.html",) if more else ()
        gates.append((run_id, replace(gate, rules=kept, notes=notes, reasons=gate.reasons[:3])))
    return replace(
        report,
        findings=_first(report.findings, MOST_FINDINGS, "findings"),
        warnings=_first(report.warnings, MOST_WARNINGS, "notes"),
        gates=tuple(gates),
    )


def _first(texts: Sequence[str], most: int, noun: str) -> tuple[str, ...]:
    more = len(texts) - most
    return (*texts[:most], *([f"{more} further {noun} in report.html."] if more > 0 else []))
