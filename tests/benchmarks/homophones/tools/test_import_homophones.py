"""`llmprops runs import-homophones`: the authors' verdicts as recorded runs."""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.homophones.benchmark import Homophones
from pytest_llmprops.benchmarks.homophones.tools.import_verdicts import import_homophones
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import clopper_pearson
from tests.support.runs import ROOT

ENGLISH = [
    ["sentence", "word", "answer", "GPT-4", "My Model"],
    ["Hang the lammpe", "lammpe", "lamp", "Y", "n"],
    ["Drink the teigh", "teigh", "tea", " y ", "N"],
    ["Come witth me", "witth", "with", "N", "Y"],
]
CHINESE = [
    ["sentence", "word", "answer_english", "answer_chinese", "GPT-4"],
    ["他把门观上了", "观上", "close", "关上", "N"],
]
FACTS = {
    "schema", "run_id", "started", "finished", "complete", "models", "helpers", "protocols", "options",
    "versions", "git", "data", "deviations", "calls", "summary", "metrics",
}  # fmt: skip
CALLS = {"requests", "cache_hits", "retries", "prompt_tokens", "completion_tokens", "cost_usd", "seconds"}
VERDICT = {
    "model", "benchmark", "task", "language", "source", "id", "cluster", "sample", "status", "score",
    "expected", "given", "reason", "values", "evidence", "requests",
}  # fmt: skip


def write(root: Path, name: str, rows: list[list[str]]) -> Path:
    """Write a file in the published format; SOURCE.json exempts the folder from the sha256 check."""
    folder = root / "homophones"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SOURCE.json").write_text('{"source": "generated"}\n', encoding="utf-8")
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path = folder / name
    path.write_bytes(codecs.BOM_UTF8 + text.getvalue().encode())
    return path


def run(data: Path, out: Path) -> int:
    return main(["runs", "import-homophones", "--data", str(data), "--out", str(out)])


def facts(folder: Path) -> dict[str, Any]:
    actual: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return actual


def verdicts(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llmprops: ")
    return line


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write an English file with two models' verdicts and a Chinese one with one model's."""
    write(tmp_path / "data", "testset_english.csv", ENGLISH)
    write(tmp_path / "data", "testset_chinese.csv", CHINESE)
    return tmp_path / "data"


def imported(data: Path, out: Path) -> dict[str, Path]:
    """Map each model to the folder of its run."""
    assert run(data, out) == 0
    return {next(iter(facts(folder)["models"])): folder for folder in out.iterdir()}


# Output


def test_one_run_per_model(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each verdict column becomes a separate run, and the output names it with its score per language."""
    runs = imported(data, tmp_path / "runs")
    assert set(runs) == {"GPT-4", "My Model"}
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert any(str(runs["GPT-4"]) in line and "en 2/3" in line and "zh 0/1" in line for line in lines)
    assert any(str(runs["My Model"]) in line and "en 1/3" in line for line in lines)


def test_run_of_a_model(data: Path, tmp_path: Path) -> None:
    """A run is complete, with the files' hashes, the column's counts, and the ids of the items in a new run."""
    folder = imported(data, tmp_path / "runs")["GPT-4"]
    actual, lines = facts(folder), verdicts(folder)
    assert set(actual) >= FACTS
    assert (actual["schema"], actual["complete"], actual["run_id"]) == (2, True, folder.name)
    assert actual["started"] <= actual["finished"]
    assert actual["protocols"]["homophones"]["name"] == "paper"
    english = hashlib.sha256((data / "homophones" / "testset_english.csv").read_bytes()).hexdigest()
    assert actual["data"]["published:homophones/testset_english.csv"] == english
    assert any("imported" in note for note in actual["notes"])
    assert {actual["calls"][name] for name in CALLS} == {0}
    english_row, chinese_row = actual["summary"]
    names = (
        "language",
        "items",
        "correct",
        "wrong",
        "accuracy",
        "errors",
        "refused",
        "ci_low",
        "ci_high",
        "ci_method",
    )
    assert [english_row[name] for name in names] == ["en", 3, 2, 1, 2 / 3, 0, 0, *clopper_pearson(2, 3)]
    assert [chinese_row[name] for name in names[:3]] == ["zh", 1, 0]
    assert all(set(line) == VERDICT for line in lines)
    assert [(line["id"], line["status"], line["score"]) for line in lines] == [
        ("homophones/en/p0001", "correct", 1.0),
        ("homophones/en/p0002", "correct", 1.0),
        ("homophones/en/p0003", "wrong", 0.0),
        ("homophones/zh/p0001", "wrong", 0.0),
    ]
    assert {(v["model"], v["benchmark"], v["task"], v["source"]) for v in lines} == {
        ("GPT-4", "homophones", "asked", "published")
    }
    assert [v["values"]["function_word"] for v in lines] == [0.0, 0.0, 1.0, 0.0]
    assert all(v["requests"] == [] and v["given"] == "" for v in lines)
    # All metrics except those that need the reply's text.
    records = [VerdictRecord.from_json(line) for line in lines]
    metrics = {(m.language, m.name, m.group): m.value for m in Homophones().metrics(records)}
    assert metrics["en", "accuracy", "content_words"] == 1.0
    assert metrics["en", "accuracy", "function_words"] == 0.0
    assert not any(name == "several_answers_rate" for _, name, _ in metrics)


def test_published_counts(published: Path, tmp_path: Path) -> None:
    """The authors' columns count 63, 90, 62 and 83 on English and 20, 68, 50 and 63 on Chinese."""
    for name in ("testset_english.csv", "testset_chinese.csv"):
        if not (published / "homophones" / name).is_file():
            pytest.skip(f"{name} is not in the folder")
    expected = {
        "GPT-3.5": (63, 20),
        "GPT-4": (90, 68),
        "Ernie-3.5": (62, 50),
        "Ernie-4.0": (83, 63),
    }
    runs = imported(published, tmp_path / "runs")
    assert set(runs) == set(expected)
    for model, folder in runs.items():
        actual = {row["language"]: (row["correct"], row["items"]) for row in facts(folder)["summary"]}
        assert (actual["en"], actual["zh"]) == tuple((right, 100) for right in expected[model])
        assert facts(folder)["complete"] is True


# Errors


@pytest.mark.parametrize("cell", ["", "yes", "1", "Y/N"])
def test_bad_cell_is_one_line(cell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cell that is neither Y nor N is a one-line error with file, row and column; no run is written."""
    rows = [list(row) for row in ENGLISH]
    rows[2][3] = cell
    write(tmp_path / "data", "testset_english.csv", rows)
    assert run(tmp_path / "data", tmp_path / "runs") == 2
    line = one_error(capsys)
    assert "testset_english.csv: row 2, column GPT-4" in line
    assert repr(cell) in line
    assert not (tmp_path / "runs").exists()


def test_changed_published_file_is_one_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without SOURCE.json the files must equal the authors' byte for byte; otherwise no run is written."""
    (data / "homophones" / "SOURCE.json").unlink()
    assert run(data, tmp_path / "runs") == 2
    assert "differs from the manifest" in one_error(capsys)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("empty", [True, False])
def test_nothing_to_import_is_one_line(
    empty: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without homophone files, or with files without a verdict column, is a one-line error."""
    if not empty:
        write(tmp_path / "data", "testset_english.csv", [row[:3] for row in ENGLISH])
    assert run(tmp_path / "data", tmp_path / "runs") == 2
    assert str(tmp_path / "data") in one_error(capsys)
    assert not (tmp_path / "runs").exists()


def test_without_a_folder_the_verdicts_of_the_package_are_imported(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Table 2's four models on 200 items, without texts; LLMPROPS_DATA is the default of --data."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    assert main(["runs", "import-homophones", "--out", str(tmp_path / "shipped")]) == 0
    lines = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "en 63/100, zh 20/100",
        "en 90/100, zh 68/100",
        "en 62/100, zh 50/100",
        "en 83/100, zh 63/100",
    ]
    assert {
        row["expected"] + row["given"] for row in verdicts(tmp_path / "shipped" / "imported-homophones-GPT-4")
    } == {""}
    gate = tmp_path / "gate.toml"
    gate.write_text(
        "[[rule]]\nbenchmark = 'homophones'\nlanguage = 'en'\nno_regression = true\n", encoding="utf-8"
    )
    runs = [str(tmp_path / "shipped" / f"imported-homophones-{model}") for model in ("GPT-3.5", "GPT-4")]
    assert main(["gate", runs[1], "--baseline", runs[0], "--gate", str(gate)]) == 0
    decision = capsys.readouterr().out.replace(runs[0], "imported-homophones-GPT-3.5").strip()
    for page in ("README.md", "docs/gate.md"):
        assert decision in (ROOT / page).read_text(encoding="utf-8")
    assert main(["gate", "--plan", str(gate), "--baseline", runs[0]]) == 0
    plan = capsys.readouterr().out.replace(str(gate), "gate.toml").partition("  note")[0]
    assert plan in (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    assert main(["gate", runs[0], "--baseline", runs[1], "--gate", str(gate)]) == 1
    assert "FAIL: " in capsys.readouterr().out
    monkeypatch.setenv("LLMPROPS_DATA", str(data))
    assert main(["runs", "import-homophones", "--out", str(tmp_path / "runs")]) == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2


@pytest.mark.skipif(
    "LLMPROPS_DATA" not in os.environ, reason="needs the authors' data: LLMPROPS_DATA names its folder"
)
def test_the_verdicts_of_the_package_are_the_authors(tmp_path: Path) -> None:
    """The same runs, except for the texts."""
    folders = [tmp_path / "published", tmp_path / "shipped"]
    for folder, given in zip(folders, (Path(os.environ["LLMPROPS_DATA"]), None), strict=True):
        list(import_homophones(given, folder))
    for model in ("GPT-3.5", "GPT-4", "Ernie-3.5", "Ernie-4.0"):
        own, authors = (verdicts(folder / f"imported-homophones-{model}") for folder in folders)
        assert [(r["id"], r["status"], r["values"]) for r in own] == [
            (r["id"], r["status"], r["values"]) for r in authors
        ]


def test_importing_twice_is_one_line(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An earlier import is not overwritten; the error names the folder and this command's option."""
    before = verdicts(imported(data, tmp_path / "runs")["GPT-4"])
    capsys.readouterr()
    assert run(data, tmp_path / "runs") == 2
    line = one_error(capsys)
    assert "already holds a run" in line
    assert "--out" in line
    assert "--llm-run" not in line
    assert verdicts(tmp_path / "runs" / "imported-homophones-GPT-4") == before


def test_ids_and_columns_of_a_file(tmp_path: Path) -> None:
    """Verdicts use the ids of an id column, in any order; a column's name cannot place a run elsewhere."""
    rows = [[name, *row] for name, row in zip(["id", "7", "x3", "1"], ENGLISH, strict=True)]
    rows[0][4] = "a/../../../escaped"
    write(tmp_path / "data", "testset_english.csv", rows)
    lines = verdicts(imported(tmp_path / "data", tmp_path / "deep" / "runs")["a/../../../escaped"])
    assert [(v["id"], v["status"]) for v in lines] == [
        ("homophones/en/p7", "correct"),
        ("homophones/en/px3", "correct"),
        ("homophones/en/p1", "wrong"),
    ]
    assert {path.parent.parent for path in tmp_path.rglob("run.json")} == {tmp_path / "deep" / "runs"}
