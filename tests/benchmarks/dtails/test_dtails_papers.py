"""`llmprops papers dtails/figure-2`: its runs, from one command to its table, and the gains of section 4."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from pathlib import Path

import pytest

from pytest_llmprops.cli import papers
from pytest_llmprops.cli.main import main
from pytest_llmprops.runs.reader import read_run
from tests.support.commands import one_error
from tests.support.dtails import asked, row, write_chooser, write_language
from tests.support.runs import ROOT, forked_pytest

Capture = pytest.CaptureFixture[str]
THREE = "['een', 'twee', 'drie']"


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in an empty folder, without wrapping and published data, with forks of pytest."""
    monkeypatch.setattr(papers, "_pytest", forked_pytest)
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

    The command again measures nothing, and its table has the same rows.
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
