"""`llmprops papers`: the list of the papers' tables, their printed figures, and a model's figures next to them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_llmprops import NEEDS_MODEL
from pytest_llmprops.benchmark_registry import benchmark_names, find_registration
from pytest_llmprops.cli import papers
from pytest_llmprops.cli.main import main, parser
from pytest_llmprops.data import published_results
from pytest_llmprops.data.files import builtin_data
from pytest_llmprops.data.published_results import PaperTable, find, load_tables
from pytest_llmprops.runs.paper_results import own_results
from pytest_llmprops.runs.reader import read_run
from tests.support.commands import killed_with_its_child, one_error, output
from tests.support.fork_server import run_pytest
from tests.support.records import recorded, verdicts
from tests.support.runs import ROOT
from tests.support.training import write_reviews

Capture = pytest.CaptureFixture[str]
STORED = [table for table in load_tables() if table.stored]


#: runs pytest in a new process
IN_PROCESS_OF_ITS_OWN = vars(papers)["_pytest"]


def forked(arguments: Sequence[str]) -> int:
    """Run pytest in a copy of a process that has imported it, print its output, and return its status."""
    environment = os.environ | {NEEDS_MODEL: "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ("-pllmprops", "-pxdist")
    code, text = run_pytest([*plugins, *arguments], root=ROOT, cwd=Path.cwd(), env=environment, timeout=120)
    print(text)
    return code


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Print tables without wrapping, in an empty folder, without published data, with forks of pytest."""
    monkeypatch.setattr(papers, "_pytest", forked)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)


def named(name: str) -> PaperTable:
    """Return the table with this id."""
    (table,) = (table for table in load_tables() if table.id == name)
    return table


def cells(text: str) -> list[list[str]]:
    """Return the rows of a CSV text."""
    return list(csv.reader(io.StringIO(text)))


# The list


def test_every_printed_figure_belongs_to_one_table() -> None:
    """The places of the stored figures are those of the list, each once, and no listed place is without figures."""
    listed = Counter((table.paper, table.stored) for table in STORED)
    printed = {(r.paper, r.table) for name in benchmark_names() for r in find(paper=name)}
    assert listed == Counter(printed)


@pytest.mark.parametrize("table", STORED, ids=lambda table: table.id)
def test_every_printed_figure_is_shown(table: PaperTable) -> None:
    """The table of a place has as many figures as are stored, and each row and column has at least one."""
    rows, notes = papers.paper_rows(table)
    heads = len([head for head in rows[0] if head in table.rows.split()])
    shown = [[part for part in cell.split(" / ") if part] for row in rows[1:] for cell in row[heads:]]
    assert sum(map(len, shown)) == len(table.results) > 0
    assert max(map(len, shown)) == 1, "two figures in one cell: a field is missing in the rows"
    assert len(set(rows)) == len(rows)
    assert {note.partition("] ")[2] for note in notes} == {r.note for r in table.results if r.note}
    if table.paper == "htest":
        values = Counter(f"{r.value:.4f}" for r in table.results)
        texts = (re.sub(r"^> | \[\d+\]$", "", parts[0]) for parts in shown if parts)
        assert Counter(f"{float(text) / 100:.4f}" for text in texts) == values


def test_tables_and_figures_of_each_paper_are_listed() -> None:
    """All numbers of tables and figures up to the last are listed, in each paper."""
    last = {
        "homophones": {"table": 2, "figure": 3}, "eras": {"table": 3, "figure": 5},
        "dtails": {"table": 7, "figure": 9}, "htest": {"table": 8, "figure": 7},
        "oracle": {"table": 15, "figure": 10},
    }  # fmt: skip
    names = [table.id for table in load_tables()]
    assert len(set(names)) == len(names)
    for paper, kinds in last.items():
        for kind, number in kinds.items():
            expected = {f"{paper}/{kind}-{n}" for n in range(1, number + 1)}
            assert {name for name in names if name.startswith(f"{paper}/{kind}-")} == expected


def test_commands_exist() -> None:
    """Every `llmprops` command of the list can be parsed up to its options, and names known settings."""
    for table in load_tables():
        for command in filter(None, table.command.split(" && ")):
            words = shlex.split(command)
            if words[0] == "pytest":
                assert (ROOT / words[1]).is_file()
                continue
            assert words[0] == "llmprops"
            values = {"SPEC": "fake:echo", "XX": "af"}
            parser().parse_args([values.get(word, word) for word in words[1:]])


def test_settings_of_runs_are_those_of_the_protocol() -> None:
    """A run of the list sets fields that its benchmark has, and its protocol is one of the benchmark's."""
    for table in load_tables():
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


def test_exact_states_name_a_test() -> None:
    """Each test that the list names exists; an exact state names one, and no other state claims it for all figures."""
    for table in load_tables():
        if table.state == "exact":
            assert table.test
        if table.test:
            file, name = re.split("::", table.test.partition(" (")[0])
            assert f"def {name}(" in (ROOT / file).read_text("utf-8")
            assert ("(" in table.test) == (table.state != "exact"), "a partial test says of which part"


def test_unknown_state_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> None:
    """A state that is none of the three is one line with the table."""
    (tmp_path / "published_results").mkdir()
    text = (builtin_data() / published_results.TABLES).read_text("utf-8")
    (tmp_path / published_results.TABLES).write_text(text.replace(",exact,", ",perhaps,", 1), "utf-8")
    monkeypatch.setattr(published_results, "builtin_data", lambda: tmp_path)
    load_tables.cache_clear()
    try:
        assert "dtails/section-2.2: state 'perhaps'" in one_error(capsys, "papers")
    finally:
        load_tables.cache_clear()


# Printing


def test_list_in_the_terminal_and_as_csv(capsys: Capture) -> None:
    """The list has a line per table; with a paper's name, its own; CSV has all columns."""
    text = output(capsys, "papers")
    assert len(text.splitlines()) == 1 + len(load_tables())
    own = output(capsys, "papers", "htest").splitlines()
    assert [line.split()[0] for line in own[1:]] == [t.id for t in load_tables() if t.paper == "htest"]
    rows = cells(output(capsys, "papers", "htest", "--csv"))
    assert rows[0] == list(published_results.TABLE_COLUMNS)
    assert len(rows) == len(own)


def test_table_8_is_shown(capsys: Capture) -> None:
    """The fine-tuning matrix has its 11 rows and 11 columns, with the paper's figures and the command."""
    text = output(capsys, "papers", "htest/table-8")
    assert "runs" in text.splitlines()[0]
    assert "Measure it: llmprops lab htest train --model SPEC --out DIR" in text
    rows = cells(output(capsys, "papers", "htest/table-8", "--csv"))
    assert len(rows) == 12
    assert {len(row) for row in rows} == {12}
    assert dict(zip(rows[0], rows[1], strict=True))["rhyme"] == "57.0"


def test_printed_digits_are_kept(capsys: Capture) -> None:
    """A share is printed with all its digits, a count and a correlation as they are."""
    text = output(capsys, "papers", "oracle/section-5.1")
    assert all(figure in text for figure in ("79.54", "38.48", "71.2", " 165 "))
    assert "-0.61" in output(capsys, "papers", "oracle/table-1")


# Measuring

HTEST = (
    "-o",
    "llm_source=builtin",
    "--llm-limit",
    "2",
    "--llm-store",
    "store.sqlite",
    "-p",
    "no:cacheprovider",
)


def test_measure_resume_and_collect(capfd: Capture, tmp_path: Path) -> None:
    """The plan is printed before the runs; all k are measured; a repeated command and `--run` give the same table.

    Own accuracies are the record's, and the average is the mean of the ten tasks, without Letter Geometry.
    """
    words = ("papers", "htest/table-6", "--model", "fake:constant?text=A", *HTEST)
    assert main(list(words)) == 0
    text = capfd.readouterr().out
    folders = sorted((tmp_path / "reports" / "runs").iterdir())
    assert len(folders) == 4
    assert text.count("llmprops plan: no call is made") == 4
    assert text.index("llmprops plan") < text.rindex("llmprops plan") < text.index("run record:")
    mine = [line for line in text.splitlines() if line.startswith("fake-constant-text=A (yours)")]
    assert [line.split()[2] for line in mine] == ["50", "28", "14", "4"]
    assert "LLaMA 2 70B" in text
    assert "items of the source builtin; the paper's are the authors'." in text

    assert main(list(words)) == 0
    again = capfd.readouterr().out
    assert again.count("already measured:") == 4
    assert "llmprops plan" not in again
    assert [line for line in again.splitlines() if line.startswith("fake-constant-text=A (yours)")] == mine

    out = tmp_path / "out"
    assert (
        main(["papers", "htest/table-6", *(w for f in folders for w in ("--run", str(f))), "--out", str(out)])
        == 0
    )
    written = capfd.readouterr().out.splitlines()
    assert {Path(line).name for line in written} == {
        "table.md", "table.csv", "htest-grid.svg", "htest-grid.png", "htest-geometry.svg", "htest-geometry.png",
    }  # fmt: skip
    rows = cells((out / "table.csv").read_text("utf-8"))
    assert [row[:2] for row in rows[-4:]] == [
        ["fake-constant-text=A (yours)", k] for k in ("50", "28", "14", "4")
    ]
    markdown = (out / "table.md").read_text("utf-8")
    assert "| fake-constant-text=A (yours) | 50 |" in markdown
    assert "Task by number of examples" in markdown
    for run in map(read_run, folders):
        own = {result.task: result for result in own_results(named("htest/table-6"), run)}
        summary = {row.task: row.accuracy for row in run.facts.summary}
        assert {task: r.value for task, r in own.items() if task != "average"} == summary
        tasks = [value for task, value in summary.items() if task != "letter_geometry" and value is not None]
        assert own["average"].value == pytest.approx(sum(tasks) / 10)
        assert {r.k for r in own.values()} == {run.facts.protocols["htest"].settings["k"]}


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
SUITE_TABLES = [
    table
    for table in load_tables()
    if table.paper == "htest" and table.state == "runs" and table.command.startswith("llmprops run ")
]
#: The figures of a model's own row are of these metrics; other tables show the report's.
OWN = {"accuracy", "accuracy_lower_bound", "unparsed_rate_lower_bound"}


def test_letter_geometry_is_measured_once() -> None:
    """Letter Geometry has no examples, so of the four commands of Table 6 only the first one measures it."""
    commands = papers.suite_runs(named("htest/table-6"))
    assert ["not letter_geometry" in command for command in commands] == [False, True, True, True]


@pytest.mark.parametrize("table", SUITE_TABLES, ids=lambda table: table.id)
def test_every_htest_table_is_measured_and_resumed(
    table: PaperTable, capsys: Capture, tmp_path: Path
) -> None:
    """Each command measures what it says; repeated after errors, it measures these only; own figures are shown."""
    (tmp_path / "a.py").write_text(FAILING, "utf-8")
    (tmp_path / "failing").touch()
    model = f"fake:call?file={tmp_path / 'a.py'}"
    words = ["papers", table.id, "--model", model, *HTEST, "--llm-limit", "6", "-o", "llm_retries=0"]
    words += ["--llm-cache", "off"]
    words += ["--llm-helper", "reader=fake:constant?text=A"] if "cot=true" in table.command else []
    assert main(words) == 0
    folders = sorted((tmp_path / "reports" / "runs").iterdir())
    first = [read_run(folder) for folder in folders]
    assert len(folders) == len(papers.suite_runs(table))
    assert all(0 < sum(r.status == "error" for r in run.records) < len(run.records) for run in first)
    assert "verdicts, which are left out." in capsys.readouterr().out

    (tmp_path / "failing").unlink()
    assert main(words) == 0
    text = capsys.readouterr().out
    runs = [read_run(folder) for folder in folders]
    for run, before, arguments in zip(runs, first, papers.suite_runs(table), strict=True):
        assert not run.has_errors
        assert run.facts.complete
        kept = {r.id: r for r in before.records if r.status != "error"}
        assert {r.id: r for r in run.records if r.id in kept} == kept
        assert len(run.records) == len(before.records)
        protocol = run.facts.protocols["htest"]
        assert protocol.name == "paper"
        assert {f"htest.{name}={str(value).lower()}" for name, value in protocol.settings.items()} >= {
            word for word in arguments if word.startswith("htest.")
        }
        has_geometry = any(r.task == "letter_geometry" for r in run.records)
        assert has_geometry == ("not letter_geometry" not in arguments)
    shown = text[text.index(f"{table.id}: {table.title}") :]
    own = [result for run in runs for result in own_results(table, run)]
    assert bool(own) == bool(OWN & {r.metric for r in table.results})
    assert ("(yours)" in shown) == bool(own)
    titles = [part for part in table.report.split("; ") if part and not part.startswith("htest-")]
    assert all(title in shown for title in titles)
    assert own or titles
    assert "which are left out" not in shown


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


def test_report_table_is_shown_with_the_papers_rows(capfd: Capture) -> None:
    """ERAS Table 1 is the report's, with the paper's rows; a segmenter has a row for each script."""
    words = ["papers", "eras/table-1", "--model", "fake:echo", "--model", "jieba", *HTEST]
    words += ["--llm-limit", "1", "-k", "01"]
    assert main([*words, "--csv"]) == 0
    rows = cells(capfd.readouterr().out.partition("model,")[2])
    own = [row[0] for row in rows if row and "(yours)" in row[0]]
    assert own == [
        "fake-echo, script=simplified (yours)", "jieba, script=simplified (yours)",
        "jieba, script=chinese-converter (yours)",
    ]  # fmt: skip
    assert main(words) == 0
    text = capfd.readouterr().out
    assert "Segmenters (Table 1)" in text
    assert "the paper, traditional" in text


def test_figure_5_of_eras_is_one_command(
    capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ERAS Figure 5 measures the pairs, then the labelled files, and shows both next to the paper's models."""
    words = ["papers", "eras/figure-5", "--model", "fake:constant?text=A", *HTEST[:2], "--llm-limit", "1"]
    words += [*HTEST[4:], "--llm-set", "eras.samples=1", "-k", "eras/implicit and 01"]
    assert main(words) == 2
    assert "llmprops data pull training" in capfd.readouterr().err
    write_reviews(tmp_path / "data/training/chnsenticorp/test.tsv", ("很好", 1), ("不好", 0), ("不错", 1))
    monkeypatch.setenv("LLMPROPS_DATA", str(tmp_path / "data"))
    out = tmp_path / "out"
    assert main([*words, "--out", str(out)]) == 0
    assert "already measured" in capfd.readouterr().out
    heads, own, *printed = cells((out / "table.csv").read_text("utf-8"))
    numbers = dict(zip(heads, own, strict=True))
    assert [numbers[name] for name in ("Ties", "ChnSentiCorp", "ASAP")] == ["100.0", "66.7", "–"]
    assert ["Megatron-1.3B", "the paper", "41.8"] in [row[:3] for row in printed]
    svg = (out / "figures" / "eras-figure-5-chnsenticorp-gper.svg").read_text("utf-8")
    assert "Accuracy on ChnSentiCorp" in svg


def test_plan_only(capfd: Capture, tmp_path: Path) -> None:
    """`--llm-plan` prints the plan and measures nothing."""
    assert main(["papers", "homophones/table-2", "--model", "fake:echo", "--llm-plan", *HTEST]) == 0
    assert capfd.readouterr().out.count("llmprops plan: no call is made") == 1
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["htest/table-9"], "no paper or table 'htest/table-9'"),
        (["htest/table-6", "--model", "fake:echo"], "llmprops data pull --dest DIR"),
        (
            ["htest/table-8", "--model", "fake:echo"],
            "gpt-3.5-turbo-0613 is retired. The command trains an adapter of a local model",
        ),
        (["dtails/table-3", "--model", "fake:echo"], "use llmprops lab dtails rules"),
        (["htest", "--model", "fake:echo"], "name one table"),
        (["htest/table-6", "--llm-limit", "2"], "--llm-limit: needs --model SPEC"),
        (["htest/table-6", "--model", "fake:echo", "--run", "x"], "not both"),
        (["htest/table-6", "--run", "nosuch"], "nosuch"),
        (
            ["htest/table-6", "--model", "m", "-o", "llm_source=builtin", "--llm-run", "x"],
            "--llm-run is set by",
        ),
    ],
)
def test_errors_are_one_line(words: list[str], message: str, capsys: Capture, tmp_path: Path) -> None:
    """Each is one line, and nothing is written."""
    assert message in one_error(capsys, "papers", *words)
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
