"""The entries of `llmprops papers` that run, with fake models: measured, interrupted and resumed, and collected."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from fnmatch import filter as matching
from functools import cache
from pathlib import Path

import pytest

from pytest_llmprops.cli import papers
from pytest_llmprops.cli.main import main
from pytest_llmprops.data.published_results import PaperTable, load_tables
from pytest_llmprops.runs.reader import read_run
from tests.support.browser import without_png
from tests.support.runs import ROOT, WORD_HELPERS, forked_pytest
from tests.support.training import write_reviews

Capture = pytest.CaptureFixture[str]
#: entries of the two papers whose entries are all measured
RUNS = [table for table in load_tables() if table.state == "runs" and table.paper in ("oracle", "homophones")]
#: entries of the other papers that name parts of the report of runs; test_cli_papers.py has those of trained models
OTHERS = [
    table
    for table in load_tables()
    if table.report and table not in RUNS and "htest train" not in table.command
]
_FAKES = ROOT / "tests" / "support" / "oracle_fakes.py"
_COMMON = ("-o", "llm_source=builtin", "-p", "no:cacheprovider", "--llm-store", "store.sqlite")
#: With fewer sentences and tests, some causes of a rejection have no example.
OPTIONS = {
    "oracle": (
        "--model", f"fake:call?file={_FAKES}&function=paper_cases", "--llm-limit", "12",
        "--llm-set", "oracle.samples=3", "--llm-set", "oracle.tests=12",
        *WORD_HELPERS,
    ),
    "homophones": ("--model", "fake:echo", "--llm-limit", "10"),
    "htest": ("--model", "fake:constant?text=A", "--llm-limit", "1"),
    "eras": ("--model", "fake:constant?text=A", "--llm-limit", "1"),
    "dtails": ("--model", "fake:call?file=chooser.py", "--llm-limit", "1"),
}  # fmt: skip
CHOOSER = "from tests.support.dtails_runs import takes, with_rules\n\nreply = with_rules(takes(1))\n"
#: entries whose runs have all that the entries of their paper name
ALL_NAMES = {"htest": "htest/table-6", "dtails": "dtails/figure-2"}
#: entry -> tasks of its run
TASKS = {
    "oracle/section-5": {"linearity"},
    "oracle/section-5.1": {"linearity"},
    "oracle/section-5.2.1": {"consistency", "own_paraphrase", "random_pair"},
    "oracle/table-2": {"yes", "no"},
    "oracle/table-4": {"own_paraphrase"},
    "homophones/table-2": {"asked"},
    "homophones/section-9.1": {"asked", "context_only", "word_only"},
}


def without_plans(arguments: Sequence[str]) -> int:
    """Run pytest, except for the plan before each run, which test_cli_papers.py checks."""
    return 0 if arguments[-1] == "--llm-plan" else forked_pytest(arguments)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Work in an empty folder without published data."""
    folder = tmp_path_factory.mktemp("papers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("LLMPROPS_DATA", raising=False)
        patch.setenv("COLUMNS", "1000")
        patch.setattr(papers, "_pytest", without_plans)
        (folder / "chooser.py").write_text(CHOOSER, "utf-8")
        yield folder


Measure = Callable[[str], tuple[str, ...]]


@pytest.fixture(scope="module")
def measure(place: Path) -> Measure:
    """Return a function that measures an entry once, and returns the options that name its runs."""

    @cache
    def measured(name: str) -> tuple[str, ...]:
        before = set(place.glob("reports/runs/*"))
        assert main(["papers", name, *OPTIONS[name.partition("/")[0]], *_COMMON]) == 0
        folders = sorted(set(place.glob("reports/runs/*")) - before)
        assert folders
        return tuple(word for folder in folders for word in ("--run", str(folder)))

    return measured


def first_with(command: str) -> str:
    """Return the first entry with this command."""
    return next(table.id for table in (*RUNS, *OTHERS) if table.command == command)


def found(table: PaperTable, folder: Path) -> dict[str, list[str]]:
    """Return each name in ``report`` with the report's tables and figures of that name in a written folder."""
    heads = [
        line.removeprefix("## ")
        for line in (folder / "table.md").read_text("utf-8").splitlines()
        if line.startswith("## ")
    ]
    names = [*heads, *(file.stem for file in folder.rglob("*.svg"))]
    return {name: matching(names, name) for name in table.report.split("; ") if name}


@pytest.mark.parametrize("name", TASKS)
def test_entries_are_measured_and_collected(
    name: str, measure: Measure, tmp_path: Path, capsys: Capture
) -> None:
    """The command of an entry selects the tasks that the paper measures, and its run is complete.

    A recorded run gives the paper's figures next to the model's, the named parts of the report, and the files.
    """
    runs = [read_run(Path(word)) for word in measure(name)[1::2]]
    assert {record.task for run in runs for record in run.records} == TASKS[name]
    assert all(run.facts.complete and not run.has_errors for run in runs)
    if "linearity" in TASKS[name]:
        assert {record.id.split("/")[1] for run in runs for record in run.records} == {"hardware"}
    assert {first_with(table.command) for table in RUNS} == set(TASKS)
    for table in RUNS:
        if first_with(table.command) == name:
            check_collected(table, measure(name), tmp_path / table.id, capsys)


def check_collected(table: PaperTable, runs: tuple[str, ...], out: Path, capsys: Capture) -> None:
    """Check what `papers` prints and writes about an entry with recorded runs."""
    with without_png():
        assert main(["papers", table.id, *runs, "--out", str(out)]) == 0
    parts = found(table, out)
    assert all(parts.values()), (table.id, parts)
    assert parts or any("(yours)" in line for line in (out / "table.md").read_text("utf-8").splitlines())
    files = sorted(out.glob("*.csv"))
    tables = [list(csv.reader(io.StringIO(file.read_text("utf-8")))) for file in files]
    models = {cell for rows in tables for row in rows[1:] for cell in row if cell.startswith("fake-")}
    if table.paper == "homophones" and table.stored:
        [rows] = tables
        printed, _ = papers.paper_rows(table)
        assert [tuple(row) for row in rows[: len(printed)]] == printed
        assert rows[-1][0] == "fake-echo (yours)"
        assert any(rows[-1][1:])
    elif table.paper == "oracle" and not all("oracle-" in name for name in parts):
        assert len(models) == 1
        assert not table.stored or "GPT3.5" in {row[0] for row in tables[0]}
        assert len(files) == sum("oracle-" not in name for name in parts)
    capsys.readouterr()
    assert main(["papers", table.id, *runs]) == 0
    text = capsys.readouterr().out
    assert "no case in these runs" not in text
    assert f"Measure it: {table.command}" in text


@pytest.mark.parametrize("paper", ["htest", "eras", "dtails"])
def test_names_of_the_report_exist(
    paper: str, measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name in the column `report` is a table or a figure of a real report."""
    for table in (table for table in OTHERS if table.paper == paper):
        if paper == "eras":
            # The second command of Figure 5 needs sentiment data.
            runs = measure(first_with(table.command) if table.id != "eras/figure-5" else "eras/table-2")
        else:
            # The runs of a paper differ in settings that change no names.
            runs = measure(ALL_NAMES[paper])[: 2 * len(table.command.split(" && "))]
        if table.id == "eras/figure-5":
            # Accuracies on sentiment data are measured by another command.
            write_reviews(tmp_path / "data/training/chnsenticorp/test.tsv", ("很好", 1), ("很差", 0))
            with monkeypatch.context() as patched:
                patched.setenv("LLMPROPS_DATA", str(tmp_path / "data"))
                assert main(["lab", "eras", "sentiment-accuracy", "--run", runs[1]]) == 0
        with without_png():
            assert main(["papers", table.id, *runs, "--out", str(tmp_path / table.id)]) == 0
        parts = found(table, tmp_path / table.id)
        assert all(parts.values()), (table.id, parts)


def test_built_in_sentences_need_no_published_data(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """An entry on the built-in hardware sentences runs without the authors' data; one on Re-DocRED does not."""
    monkeypatch.setattr(papers, "_pytest", forked_pytest)
    assert (
        main(["papers", "oracle/section-5", "--model", "fake:echo", "--llm-plan", "-p", "no:cacheprovider"])
        == 0
    )
    assert " 82 " in capsys.readouterr().out
    assert main(["papers", "oracle/table-1", "--model", "fake:echo", "--llm-plan"]) == 2
    assert "llmprops data pull --dest DIR" in capsys.readouterr().err


def test_a_run_without_cases_says_so(measure: Measure, capsys: Capture) -> None:
    """If a run has none of an entry's examples, one line says so instead of the state of the entry."""
    assert main(["papers", "oracle/table-14", *measure("oracle/table-2")]) == 0
    assert "no case in these runs" in capsys.readouterr().out
