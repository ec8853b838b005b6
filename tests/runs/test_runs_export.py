"""Runs as tables, in Parquet and CSV."""

from __future__ import annotations

import builtins
import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.requests import Chat, Reply, Usage
from pytest_llmprops.engine.broker.request_log import RequestLog
from pytest_llmprops.records.files import plain
from pytest_llmprops.runs.export import TABLES, Table, table, tables, write_csv, write_parquet
from pytest_llmprops.runs.reader import Run, read_run
from tests.runs.test_runs_searches import row
from tests.support.recorded import verdict
from tests.support.records import recorded


@pytest.fixture
def two(tmp_path: Path) -> list[Run]:
    """Return two runs with different values; one has a request, the other an error."""
    first = [
        verdict("1", values={"a": 1.0}, requests=["k"]),
        verdict("2", "wrong", values={"a": 2, "b": 0.5}),
    ]
    recorded(tmp_path / "first", first)
    log = RequestLog(tmp_path / "first")
    log.add(
        "subject",
        Chat.user("2 + 2 ="),
        Reply('four, "4"\n', reasoning="2 + 2", usage=Usage(3, 2, 1), key="k"),
    )
    log.close()
    recorded(tmp_path / "second", [verdict("1", "error")])
    return [read_run(tmp_path / name) for name in ("first", "second")]


def through_parquet(runs: list[Run], name: Table, folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a table that is written to ``t.parquet`` and read again."""
    import pyarrow.parquet as pq

    write_parquet(tables(runs, name), folder / "t.parquet")
    rows: list[dict[str, Any]] = pq.read_table(folder / "t.parquet").to_pylist()
    return rows


def csv_rows(folder: Path) -> list[dict[str, str]]:
    """Return the rows of ``t.csv``."""
    with open(folder / "t.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_verdicts_of_all_runs(two: list[Run], tmp_path: Path) -> None:
    """Each verdict is a row with its run, its numbers in separate columns and a list of its requests.

    Two runs with the same name are refused, because their rows could not be distinguished.
    """
    with pytest.raises(UsageError, match="'first'"):
        table([*two, two[0]])
    rows = through_parquet(two, "verdicts", tmp_path)
    assert [(r["run_id"], r["id"], r["status"], r["score"]) for r in rows] == [
        ("first", "sums/1", "correct", 1.0),
        ("first", "sums/2", "wrong", 0.0),
        ("second", "sums/1", "error", None),
    ]
    assert [(r["value_a"], r["value_b"]) for r in rows] == [(1.0, None), (2.0, 0.5), (None, None)]
    assert [r["requests"] for r in rows] == [["k"], [], []]
    assert "values" not in rows[0]
    kept = {name for name in plain(verdict()) if name != "values"}
    assert rows[0].keys() == {"run_id", *kept, "value_a", "value_b"}
    rows = through_parquet(two, "summary", tmp_path)
    assert rows == [{"run_id": run.run_id, **plain(row)} for run in two for row in run.facts.summary]
    assert rows[1]["accuracy"] is None


def test_requests(two: list[Run], tmp_path: Path) -> None:
    """Prompts are JSON, replies and thoughts are text, and token counts are numbers."""
    [row] = through_parquet(two, "requests", tmp_path)
    assert json.loads(row["request"])["messages"] == [["user", "2 + 2 ="]]
    assert (row["run_id"], row["key"], row["reply"]) == ("first", "k", 'four, "4"\n')
    assert row["reasoning"] == "2 + 2"
    assert (row["prompt_tokens"], row["completion_tokens"], row["reasoning_tokens"]) == (3, 2, 1)


@pytest.mark.parametrize("begin", ["=", "@", "\r"])
def test_csv_has_no_formulas(begin: str, tmp_path: Path) -> None:
    """A text that a spreadsheet would evaluate begins with an apostrophe; numbers and Parquet stay as they are."""
    text = f"{begin}HYPERLINK(1)"
    names: dict[str, Any] = dict.fromkeys(("model", "id", "task", "expected", "given", "reason"), text)
    record = verdict(**names, values={text: -1.0}, requests=["k"], evidence={"a": 1})
    folder = recorded(tmp_path / "run", [record])
    log = RequestLog(folder)
    log.add("subject", Chat.user(text), Reply(text, reasoning=text, served_model=text, key="k"))
    log.close()
    run = read_run(folder)
    for name in TABLES:
        write_csv(tables([run], name), tmp_path / "t.csv")
        cells = [cell for row in csv_rows(tmp_path) for cell in (*row, *row.values())]
        texts = [cell for cell in cells if "HYPERLINK" in cell]
        assert bool(texts) == (name in ("verdicts", "summary", "requests"))
        assert all(cell.startswith(("'", "value_", "{")) for cell in texts)
    write_csv(tables([run]), tmp_path / "t.csv")
    [row] = csv_rows(tmp_path)
    assert json.loads(row["requests"]) == ["k"]
    assert (row["given"], row["value_" + text.replace("\r", "\n")]) == (
        "'" + text.replace("\r", "\n"),
        "-1.0",
    )
    assert through_parquet([run], "verdicts", tmp_path)[0]["given"] == text


@pytest.mark.parametrize("name", ["verdicts", "requests", "searches"])
def test_half_surrogates_are_exported(name: Table, tmp_path: Path) -> None:
    """Free JSON can have half a surrogate pair, which no file in UTF-8 can have; it becomes a question mark."""
    half = "x\ud83d"
    record = verdict(evidence={"a": [half]})
    folder = recorded(tmp_path / "run", [verdict()], metrics=[], remarks=[])
    (folder / "verdicts.jsonl").write_text(json.dumps(plain(record)) + "\n")
    request = {"key": "k", "request": {"text": half}, "reply": {"value": [half]}}
    (folder / "requests.jsonl").write_text(json.dumps(request) + "\n")
    search = row(1, {"why": "", "point": half})
    (folder / "searches.jsonl").write_text(json.dumps(search) + "\n")
    run = read_run(folder)
    write_csv(tables([run], name), tmp_path / "t.csv")
    rows = through_parquet([run], name, tmp_path)
    assert "x?" in str(rows)
    assert "x?" in (tmp_path / "t.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["verdicts", "requests"])
def test_long_tables_are_written_in_parts(
    name: Table, two: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts become row groups of Parquet and lines of CSV below one header, with the same rows and types."""
    import pyarrow.parquet as pq

    log = RequestLog(two[1].folder)
    # JSON writes whole seconds without a point
    log.add("subject", Chat.user("3 + 3 ="), Reply("six", seconds=2, key="l"))
    log.close()
    whole = through_parquet(two, name, tmp_path)
    monkeypatch.setattr("pytest_llmprops.runs.export.MOST_ROWS", 1)
    assert through_parquet(two, name, tmp_path) == whole
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == len(whole) > 1
    write_csv(tables(two, name), tmp_path / "t.csv")
    assert len(csv_rows(tmp_path)) == len(whole)


@pytest.mark.parametrize(("package", "call"), [("pandas", "table"), ("pyarrow", "parquet")])
def test_missing_package(
    package: str, call: str, two: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the package is missing, one line names it and says how to install it."""
    frame = table(two)
    original = builtins.__import__

    def importing(name: str, *args: Any, **options: Any) -> Any:
        if name.split(".")[0] == package:
            raise ImportError(name)
        return original(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(MissingExtra, match=rf"'{package}': pip install 'pytest-llmprops\[report\]'"):
        table(two) if call == "table" else write_parquet([frame], tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()
