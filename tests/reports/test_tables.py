"""Tables and text within the width of a terminal."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_llmprops.core.records import RecordStatus
from pytest_llmprops.core.run_metadata import CallFacts, RunMetadata
from pytest_llmprops.core.worker_messages import BrokerReport
from pytest_llmprops.plugin.terminal import Progress
from pytest_llmprops.reports.tables import fitted, without, wrapped
from pytest_llmprops.reports.terminal import summary_lines
from pytest_llmprops.runs.summary import summary_rows
from tests.support.recorded import verdict

CORRECT: RecordStatus = "correct"
STATUSES: list[RecordStatus] = ["wrong", "unparsed", *[CORRECT] * 9]
TABLE = [("task", "lang", "wrong"), ("add", "en", "1"), ("take", "en", "0")]


def summary(width: int, *, tasks: int = 3, lang: str = "en", benchmark: str = "htest") -> list[str]:
    """Return the summary of a run with long settings, notes and metrics."""
    names = ["uppercase", "end_punctuation", "letter_geometry", *(f"task_{n}" for n in range(tasks))]
    records = [
        verdict(benchmark=benchmark, task=name, language=lang, id=f"x/{name}", status=status)
        for name, status in zip(names, STATUSES, strict=False)
    ]
    metric = {
        "model": "old", "benchmark": benchmark, "language": lang, "source": "builtin", "group": "", "n": 1,
        "ci_low": None, "ci_high": None, "direction": "none",
    }  # fmt: skip
    metrics = [
        metric | {"task": name, "name": f"a_metric_with_a_long_name_{n}", "value": 0.25}
        for name in names
        for n in range(4)
    ]
    settings = {f"setting_{n}": n for n in range(12)}
    facts = {
        "models": {"old": {}},
        "summary": [row.to_json() for row in summary_rows(records)],
        "metrics": metrics,
        "protocols": {benchmark: {"name": "quick", "settings": settings, "assumed": ["a long text " * 20]}},
        "calls": {"requests": 4003, "sent": 4003, "prompt_tokens": 527975},
        "complete": True,
    }
    return summary_lines(
        RunMetadata.from_json(facts, "run"), records, Path("run"), ["一个词 一个词 " * 30], width
    )


def columns(line: str) -> int:
    """Return the columns of a line with Chinese."""
    return len(line) + sum("\u4e00" <= c <= "\u9fff" for c in line)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_summary_fits_the_width(width: int) -> None:
    """Every line of a summary fits, also with long settings, notes in Chinese and many metrics."""
    lines = summary(width)
    assert max(map(columns, lines)) <= width
    assert "4,003 requests, 4,003 calls" in " ".join(lines)


def test_file_has_every_column_and_whole_lines() -> None:
    """In a file, no column is left out and no text is wrapped."""
    lines = summary(200)
    [head] = [line for line in lines if line.startswith("  task ")]
    assert head.split()[:3] == ["task", "lang", "source"]
    assert {"refused", "unparsed", "errors", "published"} <= set(head.split())
    assert max(map(len, lines)) > 200


def test_narrow_table_says_once_what_all_rows_share() -> None:
    """At 80 columns, the language and the source are in the heading, and counts of zero have no column."""
    [head] = [line for line in summary(80) if line.startswith("  task ")]
    assert head.startswith("  task (en, builtin)  items")
    assert not {"refused", "errors", "published"} & set(head.split())
    assert "  the papers' figures, which do not fit here, are in the report" in summary(80)


def test_metrics_are_a_table() -> None:
    """Metrics of the same tasks share a table, with a row per task or, if that is wider, a row per metric."""
    lines = summary(160)
    at = lines.index(next(line for line in lines if "a_metric_with_a_long_name_0" in line))
    assert lines[at - 1].split()[:3] == ["en", "uppercase", "end_punctuation"]
    assert [line.split() for line in lines[at : at + 4]] == [
        [f"a_metric_with_a_long_name_{n}", *["0.25"] * 6] for n in range(4)
    ]
    narrow = summary(80)
    [head, *_] = [line.split() for line in narrow if "a_metric_with_a_long_name_0" in line]
    assert head == ["en", "a_metric_with_a_long_name_0", "a_metric_with_a_long_name_1"]
    assert ["uppercase", "0.25", "0.25"] in [line.split() for line in narrow]


def test_columns_with_one_value_are_left_out() -> None:
    """A column is left out if all rows have one value, or one of the values that may be left out."""
    assert without(TABLE, ("lang", "wrong")) == ([("task", "wrong"), ("add", "1"), ("take", "0")], ["en"])
    assert without(TABLE, ("lang", "wrong"), values=("0",))[1] == []
    assert without([*TABLE[:1], TABLE[2]], ("wrong",), values=("0",))[0] == [("task", "lang"), ("take", "en")]


def test_row_of_a_table_that_cannot_fit_is_a_block() -> None:
    """The first table that fits is used; otherwise each row has its cells with their names below it."""
    wide = [(*row, "x" * 30) for row in TABLE]
    assert fitted(40, wide, TABLE)[0].split() == ["task", "lang", "wrong"]
    assert fitted(12, wide, TABLE) == ["  add en", "    wrong 1", "  take en", "    wrong 0"]


def test_text_is_wrapped_between_words() -> None:
    """A line is wrapped with an indent, by columns; names longer than the width stay whole."""
    assert wrapped("  note: " + "ab " * 12, 30) == ["  note: ab ab ab ab ab ab ab", "    ab ab ab ab ab"]
    assert wrapped("中文 " * 8, 20) == ["中文 中文 中文 中文", "  中文 中文 中文", "  中文"]
    path = "/a" * 40
    assert wrapped(f"run record: {path}", 40) == ["run record:", f"  {path}"]


def test_live_line_has_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """After two seconds, the line says how long the other cases take at the rate so far."""
    now, shown = [100.0], [""]
    monkeypatch.setattr("pytest_llmprops.plugin.terminal.time.monotonic", lambda: now[0])
    reporter = SimpleNamespace(rewrite=lambda line, erase: shown.append(line))
    progress = Progress(reporter, 1200, lambda: BrokerReport(CallFacts(requests=1)), capture=object())
    for _ in range(300):
        progress.count("correct")
    assert "left" not in shown[-1]
    now[0] += 40
    progress.refresh()
    assert shown[-1].startswith("llmprops: 300/1,200 cases · 2.0 minutes left · ")
