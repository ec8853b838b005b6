"""The Allure report as one HTML file: ``python -m pytest_llmprops.reports.allure.site``, or ``make report``.

Allure 3 (npm's package ``allure``) builds the pages. Afterwards the request to Google's tag manager is removed, a
content security policy prevents requests to other hosts, and large reports open with closed groups.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.numbers import percent
from pytest_llmprops.reports.allure.run import SITE

#: the tested version of Allure
VERSION = "3.18.0"
#: with at most this many cases, groups with failures are open
OPEN = 500
POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="'
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; base-uri 'self';"
    " form-action 'none'\">"
)
_ANALYTICS = re.compile(
    r"<script[^>]*\ssrc=\"https://www\.googletagmanager\.com/[^\"]*\"[^>]*></script>\s*<script>.*?</script>",
    re.S,
)
#: Allure scrolls to its list of cases, away from the decision; the page stays at its top until a person acts
_AT_TOP = """<script>{
  let acted = Boolean(location.hash);
  for (const name of ["wheel", "keydown", "pointerdown", "touchstart"]) {
    addEventListener(name, () => { acted = true; }, { capture: true, passive: true, once: true });
  }
  addEventListener("scroll", ({ target }) => { if (!acted && target.scrollTop) target.scrollTop = 0; }, true);
}</script>"""
#: Allure's script starts before the script that defines its data. If a busy browser pauses between the two, it asks for
#: files, which a report in one file does not have, and stays empty. With this object, it waits for the data.
_DATA = "<script>window.allureReportDataReady = false; window.allureReportData = {};</script>"
_FOREIGN = re.compile(r"(?:src|href|action|data)\s*=\s*[\"']?((?:https?:)?//[^\"'\s>]+)", re.I)
_TRACKERS = re.compile(r"googletagmanager|google-analytics|mc\.yandex")
_HEAD = re.compile(r"<head[^>]*>", re.I)


def without_requests(page: str) -> str:
    """Return a page without requests to other hosts, and with a policy that forbids them.

    :raises UsageError: if the page has a request that this function does not know.
    """
    text = _ANALYTICS.sub("", page)
    left = _FOREIGN.search(text) or _TRACKERS.search(text)
    if left is not None:
        raise UsageError(
            f"this version of Allure asks other hosts ({left.group()}); build with allure@{VERSION}"
        )
    text, heads = _HEAD.subn(lambda match: f"{match.group()}\n{POLICY}", text, count=1)
    if not heads:
        raise UsageError(
            f"this version of Allure has no <head> to hold a policy; build with allure@{VERSION}"
        )
    return text


def with_accuracy(page: str, accuracy: float | None) -> str:
    """Return a page whose headline figure is this accuracy.

    Allure shows the share of passed cases, in which controls count. With a gate, wrong answers are expected failures,
    and the share is 100%.
    """
    if accuracy is None:
        return page

    def replaced(match: re.Match[str]) -> str:
        chart = json.loads(base64.b64decode(match[2])) | {"percentage": float(percent(accuracy).rstrip("%"))}
        return f'{match[1]}{base64.b64encode(json.dumps(chart).encode()).decode("ascii")}"'

    return re.sub(r'(d\("widgets/(?:[^"/]*/)?pie_chart\.json",")([^"]*)"', replaced, page)


def folded(page: str) -> str:
    """Return a page with many cases whose groups are all closed when it is opened for the first time.

    The page opens groups with failures and draws all their rows, and ten thousand rows freeze a browser. It keeps the
    list of closed groups in the browser's storage, so a script fills that list.
    """
    found = re.search(r'd\("widgets/tree\.json","([^"]*)"\)', page)
    tree = json.loads(base64.b64decode(found[1])) if found else {"leavesById": {}}
    if len(tree["leavesById"]) <= OPEN:
        return page
    closed = [group["nodeId"] for group in tree["groupsById"].values() if group.get("leaves")]
    key = hashlib.sha256(page.encode()).hexdigest()[:16]
    script = (
        f'<script>if(localStorage.getItem("llmprops")!=="{key}"){{'
        f'localStorage.setItem("llmprops","{key}");localStorage.setItem("expandedTrees","[]");'
        f'localStorage.setItem("collapsedTrees",{json.dumps(json.dumps(closed))})}}</script>'
    )
    return page.replace('<div id="app">', f'{script}\n    <div id="app">', 1)


#: maximum number of runs in the history and in the page's trends
RUNS_KEPT = 10
RESULTS = Path("reports") / "allure-results"
OUT = Path("reports") / "allure-report.html"
HISTORY = Path("reports") / "allure-history.jsonl"
#: Allure as installed by ``make``
LOCAL = Path(".venv-allure") / "node_modules" / ".bin" / "allure"
RUN_FIRST = f"pytest suites/ --model SPEC --alluredir {RESULTS} --clean-alluredir"
#: entries that ``allure generate --dump`` requires in an archive, besides the quality gate's
_EMPTY: dict[str, Any] = {
    "test-results": {},
    "test-cases": {},
    "fixtures": {},
    "attachments": {},
    "environments": [],
    "report-variables": {},
    "global-attachments": [],
    "global-errors": [],
    "index-attachments-by-test-results": {},
    "index-test-results-by-history-id": {},
    "index-test-results-by-test-case": {},
    "index-attachments-by-fixture": {},
    "index-fixtures-by-test-result": {},
}


def find_allure(requested: str | None = None) -> str:
    """Return the command ``allure``: the given one, otherwise the one that make installed or the one on the path.

    :raises UsageError: if there is none, or it is not Allure 3.
    """
    command = shutil.which(requested or (str(LOCAL) if LOCAL.exists() else "allure"))
    needs = (
        f"the report needs Allure 3, which needs Node.js: npm install --prefix .venv-allure allure@{VERSION}"
    )
    if command is None:
        raise UsageError(
            f"{requested or 'allure'}: is not a command; {needs}, or give Allure 3 with --allure FILE"
        )
    # Allure runs in another folder.
    command = str(Path(command).absolute())
    version = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not version.startswith("3."):
        raise UsageError(f"{command} is version {version or 'unknown'}; {needs}")
    return command


def build(results: Path, out: Path, history: Path | None, *, allure: str) -> list[str]:
    """Build the report of ``results`` in ``out``; return notes for the user, one line each.

    :param history: file with the outcomes of the last runs.
    :raises UsageError: if there are no results, if ``out`` has other files, or if Allure fails.
    """
    try:
        known = json.loads((results / SITE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(f"no results of pytest-llmprops in {results}: run {RUN_FIRST} first") from None
    if out.exists() and not (out.is_file() and _is_report(out.read_text(encoding="utf-8", errors="replace"))):
        raise UsageError(f"{out} is not an Allure report and is not changed: give another file with --out")
    if history is not None:
        history.parent.mkdir(parents=True, exist_ok=True)
        known["config"] |= {"historyPath": str(history.absolute()), "historyLimit": RUNS_KEPT}
    out.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder as the report, so that the new report replaces the old one by a rename.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
        folder = Path(name).absolute()
        page, rc, gate = folder / "report" / "index.html", folder / "allurerc.json", folder / "gate.zip"
        rc.write_text(json.dumps({**known["config"], "output": str(page.parent)}), encoding="utf-8")
        command = [allure, "generate", str(results.absolute()), "--config", str(rc)]
        if known["gate"] is not None:
            write_gate(gate, known["gate"])
            command += ["--dump", str(gate)]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False
        )
        if done.returncode or not page.is_file():
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            raise UsageError(f"allure generate failed: {lines[-1]}")
        text = with_accuracy(without_requests(page.read_text(encoding="utf-8")), known["accuracy"])
        text = text.replace('<div id="app">', f'{_AT_TOP}\n    {_DATA}\n    <div id="app">', 1)
        page.write_text(folded(text), encoding="utf-8")
        page.replace(out)
    return [f"{known['earlier']} results of earlier runs are shown too"] if known["earlier"] else []


def _is_report(text: str) -> bool:
    """Return True if a file is a page of Allure, or empty."""
    return not text or "window.allureReportOptions" in text


def write_gate(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write an archive as ``allure run --dump`` does, with only the results of the quality gate.

    Allure computes its quality gate by its own rules. An archive is the only way to provide other results.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in {**_EMPTY, "quality-gate-results": rows}.items():
            archive.writestr(f"{name}.json", json.dumps(value))


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the report and print its address; return 2 if it cannot be built."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_llmprops.reports.allure.site", description=__doc__
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help=f"folder given to --alluredir ({RESULTS})"
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"file of the report ({OUT})")
    parser.add_argument("--history", type=Path, default=HISTORY, help=f"file of earlier outcomes ({HISTORY})")
    parser.add_argument("--allure", help="the command allure of Allure 3")
    options = parser.parse_args(arguments)
    try:
        notes = build(options.results, options.out, options.history, allure=find_allure(options.allure))
    except LLMPropsError as error:
        sys.stderr.write(f"report: {error}\n")
        return 2
    for note in notes:
        sys.stdout.write(f"note: {note}\n")
    sys.stdout.write(f"report: {options.out.resolve().as_uri()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
