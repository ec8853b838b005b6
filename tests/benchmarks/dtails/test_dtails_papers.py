"""`llmprops papers dtails/...`: every entry that can be measured, from its command to its table, and a resumed one."""

from __future__ import annotations

import shlex
from collections import Counter
from itertools import takewhile
from pathlib import Path

import pytest

from pytest_llmprops.cli import papers
from pytest_llmprops.cli.main import main
from pytest_llmprops.data.published_results import PaperTable, load_tables
from pytest_llmprops.models.registry import register_model
from pytest_llmprops.runs.reader import read_run
from tests.support.annotation import fill
from tests.support.commands import one_error
from tests.support.dtails import asked, row, write_chooser, write_language
from tests.support.dtails_planted import encoder_factory, factory, pairs, write
from tests.support.runs import ROOT

Capture = pytest.CaptureFixture[str]
TABLES = [table for table in load_tables() if table.paper == "dtails" and table.state == "runs"]
#: entries that are measured by the suite, and those that people take part in or a corpus is needed for
SUITE = [table for table in TABLES if table.command.startswith("llmprops run")]
OTHERS = [table for table in TABLES if table not in SUITE]
#: Figure 2 and the gains of section 4, which are made from the same runs, have a test of their own.
OF_FOUR_RUNS = ("dtails/figure-2", "dtails/section-4")
THREE = "['een', 'twee', 'drie']"


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in an empty folder, without wrapping and without published data."""
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data(tmp_path: Path) -> tuple[str, ...]:
    """Options for two languages: Afrikaans lists of two and three variations, Armenian lists of two."""
    folder = tmp_path / "data"
    train = [row(sentence="Fish live in water.", label="leef/lewe")]
    three = [
        row(concept="count", sentence=f"Count to {n}.", variations=THREE, label=name)
        for n, name in enumerate(("een", "twee", "drie"))
    ]
    live = [row(), row(sentence="Dolphins live long.", label="leef/lewe")]
    write_language(folder, "af", [*live, *three], train)
    write_language(folder, "hy", [row(variations="['ապրել', 'բնակվել']", label="ապրել")])
    return ("--llm-data", str(folder), "--llm-store", "store.sqlite", "-p", "no:cacheprovider")


def measure(table: str, *words: str) -> int:
    return main(["papers", table, *words])


def table_rows(text: str, title: str) -> list[list[str]]:
    """Return the rows of a printed table, without its heads, as cells."""
    lines = text.partition(f"\n{title}\n")[2].split("\n\n")[0].splitlines()
    # The table ends with the first line without columns, which is a note.
    rows = takewhile(lambda line: "  " in line, lines[1:])
    return [[cell for cell in line.split("  ") if cell] for line in rows]


def test_figure_2_in_one_command(tmp_path: Path, data: tuple[str, ...], capfd: Capture) -> None:
    """Choices without rules, with own rules and with a helper's, and translations, are planned, measured and shown.

    The command again measures nothing, and its table has the same rows; so have files of rules instead of a helper.
    """
    model = write_chooser(tmp_path)
    words = ("--model", model, "--model", "fake:constant?text=Hulle woon.&kinds=translate", *data)
    helper = ("--llm-set", "dtails.rules=helper", "--llm-helper", f"rules={model}")
    assert measure("dtails/figure-2", *words, *helper) == 0
    text = capfd.readouterr().out
    folders = sorted((tmp_path / "reports" / "runs").iterdir())
    runs = [read_run(folder) for folder in folders]
    settings = [run.facts.protocols["dtails"].settings["rules"] for run in runs]
    assert settings == ["none", "self", "helper", "none"]
    assert {run.facts.protocols["dtails"].name for run in runs} == {"paper"}
    assert [len(run.records) for run in runs] == [6, 6, 6, 6]
    assert [{record.task for record in run.records} for run in runs] == [{"select"}] * 3 + [{"translate"}]
    assert text.count("llmprops plan: no call is made") == 4
    assert text.rindex("llmprops plan") < text.index("run record:")
    title = "Accuracy by language, model and rules (figure 2)"
    rows = table_rows(text, title)
    names = [row[1].strip() for row in rows[:4]]
    assert names == ["no rules", "self rules", f"rules of {model}", "translates"]
    assert rows[4][0] == "frequency baseline"
    # 2 of 5 sentences have the constant translation's word; the Armenian one does not.
    assert [cell.strip() for cell in rows[3][-2:]] == ["20.0", "0.0"]
    calls = asked(tmp_path, rules=False) + asked(tmp_path, rules=True)
    assert set(Counter(asked(tmp_path, rules=True)).values()) == {1}, (
        "the helper's replies are the model's own"
    )

    assert measure("dtails/figure-2", *words, *helper) == 0
    again = capfd.readouterr().out
    assert again.count("already measured:") == 4
    assert table_rows(again, title) == rows
    assert asked(tmp_path, rules=False) + asked(tmp_path, rules=True) == calls
    # The recorded runs give the gains of section 4 as well.
    assert measure("dtails/section-4", *(word for folder in folders for word in ("--run", str(folder)))) == 0
    gains = [row[0] for row in table_rows(capfd.readouterr().out, "Gains in percentage points (section 4)")]
    assert len(gains) == 3
    assert gains[0] == "best model that selects, less best translation system"


def test_a_model_of_another_kind(tmp_path: Path, data: tuple[str, ...], capfd: Capture) -> None:
    """If no given model serves what an entry needs, one line says so and nothing is measured."""
    line = one_error(capfd, "papers", "dtails/figure-5", "--model", "fake:echo?kinds=translate", *data)
    assert "requests of the kind 'chat'" in line
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize(
    "table", [table for table in SUITE if table.id not in OF_FOUR_RUNS], ids=lambda table: table.id
)
def test_every_entry_of_the_suite(
    tmp_path: Path, data: tuple[str, ...], capfd: Capture, table: PaperTable
) -> None:
    """Each entry prints the tables that the list names, with the model's rows, and the paper's figures if there are."""
    model = write_chooser(tmp_path)
    assert measure(table.id, "--model", model, *data) == 0
    text = capfd.readouterr().out.rpartition(f"{table.id}: {table.title}")[2]
    assert text.count("call-file=") >= 1
    if table.results:
        assert "[1]" in text
    shown = {"figure-5": "Positions chosen of 2", "figure-6": "Positions chosen of 3"}
    assert shown.get(table.id.partition("/")[2], "Accuracy by language, model and rules") in text


def test_a_killed_measurement_is_resumed(tmp_path: Path, data: tuple[str, ...], capfd: Capture) -> None:
    """A command that was interrupted in the second of its runs goes on there, and asks nothing twice.

    Files of rules are used by one of the commands only; without translation systems, that is said.
    """
    model = write_chooser(tmp_path)
    assert main(["lab", "dtails", "rules", "--model", model, "--data", data[1], "--lang", "af", "hy"]) == 0
    (tmp_path / "asked.jsonl").unlink()
    files = ",".join(sorted(file.name for file in tmp_path.glob("rules-*.json")))
    settings = ("--llm-set", f"dtails.rules={files}", "--llm-set", "dtails.runs=1")
    words = ("--model", model, *settings, *data, "--out", "out")
    file = tmp_path / "chooser.py"
    whole = file.read_text(encoding="utf-8")
    stop = (
        "    if text.startswith('Here are rules') and pathlib.Path('stop').exists():\n"
        "        import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    file.write_text(whole.replace("    with LOG.open", f"{stop}    with LOG.open"), encoding="utf-8")
    Path("stop").touch()
    assert measure("dtails/figure-2", *words) not in (0, 1)
    before = asked(tmp_path, rules=False)
    assert before
    assert len(list((tmp_path / "reports" / "runs").iterdir())) == 2
    Path("stop").unlink()
    capfd.readouterr()
    assert measure("dtails/figure-2", *words) == 0
    said = capfd.readouterr().out
    assert said.count("already measured:") == 1
    assert "not measured without a --model that serves requests of the kind 'translate'" in said
    after = asked(tmp_path, rules=False)
    assert after[: len(before)] == before
    # The second run makes as many choices as the first, and the third, of the same rules, has the stored replies.
    assert len(after) == 2 * len(before)
    # The replies with rules arrived just before the process was killed, so they may not have been stored.
    assert max(Counter(asked(tmp_path, rules=True)).values()) <= 2
    runs = [read_run(folder).facts for folder in sorted((tmp_path / "reports" / "runs").iterdir())]
    assert all(run.complete for run in runs)
    used = [run.protocols["dtails"].settings for run in runs]
    assert [(one["rules"], one["runs"]) for one in used] == [("none", 1), ("self", 1), (files, 1)]
    written = {path.name for path in Path("out").rglob("*.*")}
    assert written == {"table.md", "table.csv", "dtails-figure-2.svg", "dtails-figure-2.png"}
    assert "kind 'translate'" in Path("out/table.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Files of a corpus with planted concepts."""
    return tuple(map(str, write(tmp_path_factory.mktemp("corpus"), pairs(1_500))))


@pytest.mark.parametrize("listed", {table.command: None for table in OTHERS})
def test_every_other_entry(
    tmp_path: Path, corpus: tuple[str, ...], capfd: Capture, monkeypatch: pytest.MonkeyPatch, listed: str
) -> None:
    """The commands of entries run one after the other as they are listed, with filled sheets between them."""
    monkeypatch.setattr("pytest_llmprops.models.registry.registered", {})
    monkeypatch.setattr("pytest_llmprops.benchmarks.dtails.tools.senses.find_wordnet", lambda: None)
    register_model("planted", factory, kinds=("parse",))
    register_model("planted-encoder", encoder_factory, kinds=("embed",))
    model, extracts = write_chooser(tmp_path), "extract" in listed
    values = {
        "SPEC": [model], "XX": ["xx" if extracts else "af"], "DIR": ["dir"], "FILE": ["rules.json"],
        "RULES": ["rules.json"], "SHEETS": ["sheets"],
    }  # fmt: skip
    if "--rules FILE" in listed and "dtails rules" not in listed:
        assert main(["lab", "dtails", "rules", "--model", model, "--lang", "af", "--out", "rules.json"]) == 0
    for command in listed.split(" && "):
        words = shlex.split(command)[1:]
        if words[2] == "extract":
            values |= {"EN": [corpus[0]], "TARGET": [corpus[1]]}
            words += [
                "--source-parser",
                "planted",
                "--target-parser",
                "words",
                "--aligner",
                "planted-encoder",
            ]
            words += ["--set", "min_count=20"]
        if "--score" in words:
            for sheet in Path(values[words[3]][0]).glob("annotator_*.csv"):
                fill(sheet, _answer)
        capfd.readouterr()
        assert main([part for word in words for part in values.get(word, [word])]) == 0, (
            capfd.readouterr().err
        )
    said = capfd.readouterr().out
    wanted = {
        "table-2": "sufficient context", "table-4": "rule", "table-5": "kappa", "table-6": "kappa",
        "section-2.1": "variations",
    }  # fmt: skip
    tables = [table for table in OTHERS if table.command == listed]
    assert all(wanted.get(table.id.partition("/")[2], "") in said for table in tables)
    assert papers.list_markdown(tables)


def _answer(line: dict[str, str]) -> dict[str, str]:
    if "choice" in line:
        return {"choice": "1", "confidence": "2"}
    return {"answer": "none" if line["ask"].startswith("Which") else "yes"}
