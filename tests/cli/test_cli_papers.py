"""`llmprops papers`: the list of the papers' tables, their printed figures, and a model's figures next to them."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_llmprops.benchmark_registry import benchmark_names, find_registration
from pytest_llmprops.cli import papers
from pytest_llmprops.cli.main import main, parser
from pytest_llmprops.data import published_results
from pytest_llmprops.data.published_results import find, load_tables
from pytest_llmprops.runs.paper_results import own_results
from pytest_llmprops.runs.reader import read_run
from tests.support.commands import killed_with_its_child, one_error, output
from tests.support.recorded import edit_run_json
from tests.support.records import recorded, verdicts
from tests.support.runs import ROOT, forked_pytest

Capture = pytest.CaptureFixture[str]
STORED = [table for table in load_tables() if table.stored]


#: runs pytest in a new process
IN_PROCESS_OF_ITS_OWN = vars(papers)["_pytest"]


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Print tables without wrapping, in an empty folder, without published data, with forks of pytest."""
    monkeypatch.setattr(papers, "_pytest", forked_pytest)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)


def cells(text: str) -> list[list[str]]:
    """Return the rows of a CSV text."""
    return list(csv.reader(io.StringIO(text)))


def test_every_printed_figure_belongs_to_one_table() -> None:
    """The places of the stored figures are those of the list, each once, and no listed place is without figures.

    All numbers of tables and figures up to the last are listed, in each paper.
    """
    listed = Counter((table.paper, table.stored) for table in STORED)
    printed = {(r.paper, r.table) for name in benchmark_names() for r in find(paper=name)}
    assert listed == Counter(printed)
    last = {
        "homophones": (2, 3), "eras": (3, 5), "dtails": (7, 9), "htest": (8, 7), "oracle": (15, 10),
    }  # fmt: skip
    names = [table.id for table in load_tables()]
    assert len(set(names)) == len(names)
    for paper, numbers in last.items():
        for kind, number in zip(("table", "figure"), numbers, strict=True):
            expected = {f"{paper}/{kind}-{n}" for n in range(1, number + 1)}
            assert {name for name in names if name.startswith(f"{paper}/{kind}-")} == expected


def test_every_printed_figure_is_shown() -> None:
    """The table of a place has as many figures as are stored, and each row and column has at least one."""
    for table in STORED:
        rows, notes = papers.paper_rows(table)
        heads = len([head for head in rows[0] if head in table.rows.split()])
        shown = [[part for part in cell.split(" / ") if part] for row in rows[1:] for cell in row[heads:]]
        assert sum(map(len, shown)) == len(table.results) > 0, table.id
        assert max(map(len, shown)) == 1, (
            f"{table.id}: two figures in one cell: a field is missing in the rows"
        )
        assert len(set(rows)) == len(rows), table.id
        assert {note.partition("] ")[2] for note in notes} == {r.note for r in table.results if r.note}
        if table.paper == "htest":
            values = Counter(f"{r.value:.4f}" for r in table.results)
            texts = (re.sub(r"^> | \[\d+\]$", "", parts[0]) for parts in shown if parts)
            assert Counter(f"{float(text) / 100:.4f}" for text in texts) == values


def test_commands_and_tests_of_the_list_exist() -> None:
    """Every `llmprops` command of the list can be parsed up to its options, and names known settings.

    A run of the list sets fields that its benchmark has, and its protocol is one of the benchmark's. Each test that the
    list names exists; an exact state names one, and no other state claims it for all figures.
    """
    for table in load_tables():
        for command in filter(None, table.command.split(" && ")):
            words = shlex.split(command)
            if words[0] == "pytest":
                assert (ROOT / words[1]).is_file()
                continue
            assert words[0] == "llmprops"
            values = {"SPEC": "fake:echo", "XX": "af"}
            parser().parse_args([values.get(word, word) for word in words[1:]])
        if table.state == "exact":
            assert table.test
        if table.test:
            file, name = re.split("::", table.test.partition(" (")[0])
            assert f"def {name}(" in (ROOT / file).read_text("utf-8")
            assert ("(" in table.test) == (table.state != "exact"), "a partial test says of which part"
        if table.state == "cannot" or not table.command.startswith("llmprops run "):
            continue
        for words in papers.suite_runs(table):
            benchmark = find_registration(words[0]).load_class()()
            assert words[0] == table.paper
            protocol = benchmark.protocols[words[words.index("--llm-protocol") + 1]]
            for option, value in pairwise(words):
                if option == "--llm-set":
                    name, _, field = value.partition("=")[0].partition(".")
                    assert name == table.paper
                    assert hasattr(protocol.settings, field)


def test_list_in_the_terminal_and_as_csv(capsys: Capture) -> None:
    """The list has a line per table; with a paper's name, its own; CSV has all columns."""
    text = output(capsys, "papers")
    assert len(text.splitlines()) == 1 + len(load_tables())
    own = output(capsys, "papers", "htest").splitlines()
    assert [line.split()[0] for line in own[1:]] == [t.id for t in load_tables() if t.paper == "htest"]
    rows = cells(output(capsys, "papers", "htest", "--csv"))
    assert rows[0] == list(published_results.TABLE_COLUMNS)
    assert len(rows) == len(own)


HTEST = ["-o", "llm_source=builtin", "--llm-limit", "2", "--llm-store", "store.sqlite", "-pno:cacheprovider"]


def test_measure_resume_and_collect(capfd: Capture, tmp_path: Path) -> None:
    """The plan is printed before the runs; all k are measured, and Letter Geometry, which has no examples, once.

    Repeated after errors or an interrupt, the command measures what is missing; repeated again, nothing.
    `--run` gives the same table.
    Own accuracies are the record's, and the average is the mean of the ten tasks, without Letter Geometry.
    """
    [table] = (table for table in load_tables() if table.id == "htest/table-6")
    (tmp_path / "a.py").write_text(FAILING, "utf-8")
    (tmp_path / "failing").touch()
    model = f"fake:call?file={tmp_path / 'a.py'}"
    words = ["papers", table.id, "--model", model, *HTEST, "-o", "llm_retries=0"]
    assert main(words) == 0
    text = capfd.readouterr().out
    assert text.count("llmprops plan: no call is made") == 4
    assert text.index("llmprops plan") < text.rindex("llmprops plan") < text.index("run record:")
    assert "verdicts, which are left out." in text
    folders = sorted((tmp_path / "reports" / "runs").iterdir())
    first = [read_run(folder) for folder in folders]
    commands = papers.suite_runs(table)
    assert len(first) == len(commands) == 4
    assert all(0 < sum(r.status == "error" for r in run.records) < len(run.records) for run in first)
    # The last run lacks a verdict, as if it was interrupted.
    unfinished: dict[str, object] = {
        "finished": None,
        "complete": False,
        "files": {},
        "summary": [],
        "metrics": [],
    }
    edit_run_json(folders[-1], lambda facts: facts.update(unfinished))
    lines = (folders[-1] / "verdicts.jsonl").read_bytes().splitlines(keepends=True)
    (folders[-1] / "verdicts.jsonl").write_bytes(b"".join(lines[:-1]))

    (tmp_path / "failing").unlink()
    assert main(words) == 0
    text = capfd.readouterr().out
    runs = [read_run(folder) for folder in folders]
    for run, before, arguments in zip(runs, first, commands, strict=True):
        assert (run.has_errors, run.facts.complete, len(run.records)) == (False, True, len(before.records))
        kept = {r.id: r for r in before.records if r.status != "error"}
        assert {r.id: r for r in run.records if r.id in kept} == kept
        protocol = run.facts.protocols["htest"]
        assert protocol.name == "paper"
        assert f"htest.k={protocol.settings['k']}" in arguments
        has_geometry = any(r.task == "letter_geometry" for r in run.records)
        assert has_geometry == ("not letter_geometry" not in arguments) == (run is runs[0])
        own = {result.task: result for result in own_results(table, run)}
        summary = {row.task: row.accuracy for row in run.facts.summary}
        assert {task: r.value for task, r in own.items() if task != "average"} == summary
        tasks = [value for task, value in summary.items() if task != "letter_geometry" and value is not None]
        assert own["average"].value == pytest.approx(sum(tasks) / 10)
        assert {r.k for r in own.values()} == {protocol.settings["k"]}
    mine = [line for line in text.splitlines() if "(yours)" in line]
    assert [line.split()[2] for line in mine] == ["50", "28", "14", "4"]
    assert "LLaMA 2 70B" in text
    assert "items of the source builtin; the paper's are the authors'." in text
    assert "which are left out" not in text

    assert main(words) == 0
    again = capfd.readouterr().out
    assert again.count("already measured:") == 4
    assert "llmprops plan" not in again
    assert [line for line in again.splitlines() if "(yours)" in line] == mine

    out = tmp_path / "out"
    collected = [word for folder in folders for word in ("--run", str(folder))]
    assert main(["papers", table.id, *collected, "--out", str(out)]) == 0
    assert {Path(line).name for line in capfd.readouterr().out.splitlines()} == {
        "table.md", "table.csv", "htest-grid.svg", "htest-grid.png", "htest-geometry.svg", "htest-geometry.png",
    }  # fmt: skip
    rows = cells((out / "table.csv").read_text("utf-8"))
    assert [(row[0].partition(" (")[2], row[1]) for row in rows[-4:]] == [
        ("yours)", k) for k in ("50", "28", "14", "4")
    ]
    assert "Task by number of examples" in (out / "table.md").read_text("utf-8")


#: The model always says A. While a file is there, it fails on a part of the prompts.
FAILING = """
import zlib
from pathlib import Path

def reply(chat):
    prompt = chat.messages[-1].content
    if Path(__file__).with_name("failing").exists() and zlib.crc32(prompt.encode()) % 2:
        return RuntimeError("overloaded")
    return "A"
"""


def test_table_8_of_recorded_runs(capsys: Capture, tmp_path: Path) -> None:
    """With runs of the base and a trained model, the table, its CSV and Figure 6 have both and the paper's."""
    (tmp_path / "trained").mkdir()
    settings, options = {"seed": 3, "epochs": 2.0}, {"task": "rhyme", "items": 9}
    description = {"title": "t", "base": "org/base", "settings": settings, "options": options}
    (tmp_path / "trained" / "training.json").write_text(json.dumps({"description": description}), "utf-8")
    (tmp_path / "trained" / "curve.csv").write_text("step,loss\n", "utf-8")
    words = ["papers", "htest/table-8"]
    for name, spec in (("before", "hf:org/base"), ("after", f"hf:{tmp_path / 'trained'}")):
        records = verdicts("rhyme", 3, 1, benchmark="htest")
        words += ["--run", str(recorded(tmp_path / name, records, models={"model": {"spec": spec}}))]
    assert "Before and after fine-tuning" in output(capsys, *words)
    rows = cells(output(capsys, *words, "--csv"))
    assert rows[2][1:5] == ["rhyme", "3", "9", "2"]
    assert len(rows) == 1 + 2 + 11
    output(capsys, *words, "--out", tmp_path / "out")
    assert cells((tmp_path / "out" / "table.csv").read_text("utf-8")) == rows
    assert (tmp_path / "out" / "figures" / "htest-fine-tuning.svg").is_file()
    output(capsys, "papers", "htest/figure-6", *words[2:], "--out", tmp_path / "plot")
    assert (tmp_path / "plot" / "figures" / "htest-fine-tuning.svg").is_file()


def test_errors_are_one_line(capsys: Capture, tmp_path: Path) -> None:
    """Each is one line, and nothing is written."""
    for words, message in (
        ("htest/table-9", "no paper or table 'htest/table-9'"),
        ("htest/table-6 --model fake:echo", "llmprops data pull --dest DIR"),
        (
            "htest/table-8 --model fake:echo",
            "gpt-3.5-turbo-0613 is retired. The command trains an adapter of a local model",
        ),
        ("dtails/table-3 --model fake:echo", "use llmprops lab dtails rules"),
        ("htest --model fake:echo", "name one table"),
        ("htest/table-6 --llm-limit 2", "--llm-limit: needs --model SPEC"),
        ("htest/table-6 --model fake:echo --run x", "not both"),
        ("htest/table-6 --run nosuch", "nosuch"),
        ("htest/table-6 --model m -o llm_source=builtin --llm-run x", "--llm-run is set by"),
    ):
        assert message in one_error(capsys, "papers", *words.split())
        assert list(tmp_path.iterdir()) == []


def test_missing_key_stops_with_pytests_status(
    capfd: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without the model's key, pytest's line and status are the command's, and nothing is measured."""
    monkeypatch.setattr(papers, "_pytest", IN_PROCESS_OF_ITS_OWN)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["papers", "htest/table-2", "--model", "gpt-4o", *HTEST]) == 4
    assert "OPENAI_API_KEY" in capfd.readouterr().err
    assert not (tmp_path / "reports").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent was killed")
def test_killed_command_leaves_no_pytest(tmp_path: Path) -> None:
    """The pytest that it runs ends with it."""
    words = ["papers", "homophones/table-2", "--model", "fake:echo", *HTEST]
    killed_with_its_child(f"from pytest_llmprops.cli.main import main; main({words!r})", tmp_path)
