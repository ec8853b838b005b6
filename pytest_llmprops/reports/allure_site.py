"""The Allure report as one HTML file: ``python -m pytest_llmprops.reports.allure_site``, or ``make report``.

Allure 3 (npm's package ``allure``) builds the pages. Afterwards the request to Google's tag manager is removed, a
content security policy prevents requests to other hosts, and everything is put into one file.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.reports import allure_run
from pytest_llmprops.reports.allure_file import is_report, pack
from pytest_llmprops.reports.allure_history import RUNS_KEPT, forget, reduce
from pytest_llmprops.reports.allure_pages import VERSION, fold, make_private
from pytest_llmprops.runs.benchmark_metadata import title_of

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
        forget(history, report_name(known))
    out.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder as the report, so that the new report replaces the old one by a rename.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
        folder = Path(name).absolute()
        site = folder / "report"
        (folder / "allurerc.json").write_text(json.dumps(config(results, site, history)), encoding="utf-8")
        command = [allure, "generate", str(results.absolute()), "--config", str(folder / "allurerc.json")]
        gate = _json(results / allure_run.GATE)
        if gate is not None:
            write_gate(folder / "gate.zip", GateResult.from_json(gate))
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
        make_private(site)
        fold(site)
        notes = _notes(site, known, gate)
        if history is not None:
            reduce(history)
        page = folder / "report.html"
        pack(site, page)
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
    """Return the report's heading: models, benchmarks and the run's id. It is also the key of Allure's history."""
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


def _notes(site: Path, known: Mapping[str, str], gate: Any) -> list[str]:
    notes = []
    if allure_run.EARLIER in known:
        notes.append(f"results of earlier runs are shown too: {known[allure_run.EARLIER]}")
    run = known.get(allure_run.RUN)
    runs = sorted(path.parent.name for path in RUNS.glob("*/run.json"))
    if run in runs and run != runs[-1]:
        notes.append(f"this is run {run}; the last one, {runs[-1]}, was made without --alluredir")
    if gate is not None and not _json(site / "widgets" / "quality-gate.json"):
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
        prog="python -m pytest_llmprops.reports.allure_site", description=__doc__
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
