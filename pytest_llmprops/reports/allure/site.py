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
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.reports.allure import run as allure_run
from pytest_llmprops.runs.benchmark_metadata import title_of

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


def _data(page: str, name: str) -> Any:
    """Return a JSON file of the data in a page; None if the page does not have it."""
    found = re.search(rf'd\("{re.escape(name)}","([^"]*)"\)', page)
    return None if found is None else json.loads(base64.b64decode(found[1]))


def with_accuracy(page: str, accuracy: str | None) -> str:
    """Return a page whose headline figure is this accuracy in percent.

    Allure shows the share of passed cases, in which controls count. With a gate, wrong answers are expected failures,
    and the share is 100%.
    """
    if accuracy is None:
        return page

    def replaced(match: re.Match[str]) -> str:
        chart = json.loads(base64.b64decode(match[2])) | {"percentage": float(accuracy.rstrip("%"))}
        return f'{match[1]}{base64.b64encode(json.dumps(chart).encode()).decode("ascii")}"'

    return re.sub(r'(d\("widgets/(?:[^"/]*/)?pie_chart\.json",")([^"]*)"', replaced, page)


def folded(page: str) -> str:
    """Return a page with many cases whose groups are all closed when it is opened for the first time.

    The page opens groups with failures and draws all their rows, and ten thousand rows freeze a browser. It keeps the
    list of closed groups in the browser's storage, so a script fills that list.
    """
    tree = _data(page, "widgets/tree.json") or {"leavesById": {}}
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


def is_report(path: Path) -> bool:
    """Return True if a file is a page of Allure, or empty."""
    if not path.is_file():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    return not text or "window.allureReportOptions" in text


#: maximum number of runs in the history and in the page's trends
RUNS_KEPT = 10
RESULTS = Path("reports") / "allure-results"
OUT = Path("reports") / "allure-report.html"
HISTORY = Path("reports") / "allure-history.jsonl"
RUNS = Path("reports") / "runs"
#: Allure as installed by ``make``
LOCAL = Path(".venv-allure") / "node_modules" / ".bin" / "allure"
RUN_FIRST = f"pytest suites/ --model SPEC --alluredir {RESULTS} --clean-alluredir"
#: labels that repeat others or name the machine
HIDDEN = ("host", "thread", "framework", "language", "package", "parentSuite", "suite", "subSuite")
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
    command = requested or (str(LOCAL) if LOCAL.exists() else shutil.which("allure"))
    if command is not None and (found := shutil.which(command)) is not None:
        # Allure runs in another folder.
        command = str(Path(found).absolute())
    if command is None:
        raise UsageError(
            f"the report needs Allure 3, which needs Node.js: npm install --prefix .venv-allure allure@{VERSION}"
        )
    try:
        done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(f"{command}: {error.strerror}; give Allure 3 with --allure FILE") from None
    version = done.stdout.strip()
    if not version.startswith("3."):
        raise UsageError(
            f"{command} is version {version or 'unknown'}; the report needs Allure 3:"
            f" npm install --prefix .venv-allure allure@{VERSION}"
        )
    return command


def build(results: Path, out: Path, history: Path | None, *, allure: str) -> list[str]:
    """Build the report of ``results`` in ``out``; return notes for the user, one line each.

    :param history: file with the outcomes of the last runs.
    :raises UsageError: if there are no results, if ``out`` has other files, or if Allure fails.
    """
    if not any(results.glob("*-result.json")):
        raise UsageError(f"no Allure results in {results}: run {RUN_FIRST} first")
    if out.exists() and not is_report(out):
        raise UsageError(f"{out} is not an Allure report and is not changed: give another file with --out")
    known = _environment(results)
    if history is not None:
        history.parent.mkdir(parents=True, exist_ok=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder as the report, so that the new report replaces the old one by a rename.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
        folder = Path(name).absolute()
        site = folder / "report"
        (folder / "allurerc.json").write_text(json.dumps(config(results, site, history)), encoding="utf-8")
        command = [allure, "generate", str(results.absolute()), "--config", str(folder / "allurerc.json")]
        gate = _json(results / allure_run.GATE)
        if gate is not None:
            write_gate(folder / "gate.zip", from_plain(GateResult, gate))
            command += ["--dump", str(folder / "gate.zip")]
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode or not (site / "index.html").is_file():
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            raise UsageError(f"allure generate failed: {lines[-1]}")
        text = (site / "index.html").read_text(encoding="utf-8")
        notes = _notes(text, known, gate)
        page = folder / "report.html"
        text = with_accuracy(without_requests(text), known.get(allure_run.ACCURACY))
        text = text.replace('<div id="app">', f'{_AT_TOP}\n    <div id="app">', 1)
        page.write_text(folded(text), encoding="utf-8")
        page.replace(out)
    return notes


def config(results: Path, site: Path, history: Path | None) -> dict[str, Any]:
    """Return Allure's configuration, with the categories and the metrics' titles.

    The tree groups by benchmark, task and language, and first by model if there are several.
    """
    known = _environment(results)
    models = len(_after("Model ", known))
    tree = [*(["parentSuite"] if models > 1 else []), "epic", "feature", "story"]
    categories = _json(results / allure_run.CATEGORIES) or []
    for category in categories:
        # All messages differ, so grouping by message would give one group per case.
        category |= {"groupByMessage": False, "groupBy": [{"label": "epic"}, {"label": "feature"}]}
    keys = [row["key"] for row in _json(results / allure_run.METRICS) or []]
    return {
        "name": report_name(known),
        "output": str(site),
        "plugins": {
            "awesome": {
                "options": {
                    "groupBy": tree,
                    "defaultSortBy": "status,asc",
                    "stepTreeExpansion": "expanded",
                    "singleFile": True,
                }
            },
            "agent": {"enabled": False},
        },
        "hideLabels": [label for label in HIDDEN if label not in tree],
        "categories": categories,
        "performance": {
            "groups": {m: {"title": m} for m in sorted({key.partition("/")[0] for key in keys})},
            "metrics": {
                key: {
                    "title": key.partition("/")[2],
                    "unit": "%",
                    "better": "higher",
                    "group": key.partition("/")[0],
                }
                for key in keys
            },
        },
        **({} if history is None else {"historyPath": str(history.absolute()), "historyLimit": RUNS_KEPT}),
    }


def report_name(known: Mapping[str, str]) -> str:
    """Return the report's heading: the decision of a gate, or models and benchmarks, and the run's id."""
    if allure_run.DECISION in known:
        return " · ".join(filter(None, (known[allure_run.DECISION], known.get(allure_run.RUN))))
    models = ", ".join(_after("Model ", known))
    suites = ", ".join(map(title_of, _after("Protocol ", known)))
    return " · ".join(filter(None, (models, suites, known.get(allure_run.RUN)))) or "pytest-llmprops"


def _after(prefix: str, known: Mapping[str, str]) -> list[str]:
    return [name.removeprefix(prefix) for name in known if name.startswith(prefix)]


def write_gate(path: Path, gate: GateResult) -> None:
    """Write an archive as ``allure run --dump`` does, with only the gate's results.

    Allure computes its quality gate by its own rules. An archive is the only way to provide other results.
    """
    entries = {**_EMPTY, "quality-gate-results": allure_run.quality_gate(gate)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in entries.items():
            archive.writestr(f"{name}.json", json.dumps(value))


def _notes(page: str, known: Mapping[str, str], gate: Any) -> list[str]:
    notes = []
    if allure_run.EARLIER in known:
        notes.append(f"results of earlier runs are shown too: {known[allure_run.EARLIER]}")
    run = known.get(allure_run.RUN)
    runs = sorted(path.parent.name for path in RUNS.glob("*/run.json"))
    if run in runs and run != runs[-1]:
        notes.append(f"this is run {run}; the last one, {runs[-1]}, was made without --alluredir")
    if gate is not None and not _data(page, "widgets/quality-gate.json"):
        notes.append("this version of Allure does not show the gate; its decision is in the attachments")
    return notes


def _environment(results: Path) -> dict[str, str]:
    path = results / allure_run.ENVIRONMENT
    return allure_run.read_properties(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _json(path: Path) -> Any:
    """Return the file's value; None if the file does not exist.

    :raises UsageError: if it is not JSON.
    """
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path}: not JSON ({error}); run {RUN_FIRST} again") from None


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
