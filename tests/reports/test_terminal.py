"""Text on the terminal: the summary of a run, tables within a width, and a gate's result, also in Markdown."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.plugin.control.terminal import Progress
from pytest_llmprops.records.files import plain, run_metadata
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.records.messages import BrokerReport
from pytest_llmprops.records.run import CallFacts
from pytest_llmprops.reports.gate import gate_lines, gate_markdown
from pytest_llmprops.reports.tables import fitted, wrapped
from pytest_llmprops.reports.terminal import summary_lines
from pytest_llmprops.runs.summary import summary_rows
from tests.support import records
from tests.support.gates import gate_of, judged, paired_runs
from tests.support.recorded import verdict, verdicts


def metric(language: str, value: float, **changes: Any) -> dict[str, Any]:
    """Return a row of ``metrics`` on the first of two positions."""
    more = {"name": "position_rate", "group": "1of2", "language": language, **changes}
    return records.metric(value=value, **more)


def summary_of(rows: list[VerdictRecord], facts: dict[str, Any], *more: Any) -> list[str]:
    """Return the summary of a complete run; ``more`` are its notes and the width."""
    defaults = {"models": {r.model: {} for r in rows}, "summary": [plain(row) for row in summary_rows(rows)]}
    return summary_lines(
        run_metadata({**defaults, "complete": True, **facts}, "run"), rows, Path("run"), *more
    )


def lines(metrics: list[dict[str, Any]], models: tuple[str, ...] = ("old",), **facts: Any) -> list[str]:
    """Return the summary of a run with one item per model and these metrics."""
    names = sorted({"sums", *(m["benchmark"] for m in metrics)})
    rows = [verdict(model=model, benchmark=name) for model in models for name in names]
    return summary_of(rows, {"metrics": metrics, **facts}, ())


def shown(summary: list[str], name: str = "position_rate") -> list[str]:
    """Return the values of a metric that is alone in its tables: ``PLACE VALUE``, or ``SHARED: PLACE VALUE, …``."""
    tables = []
    for head, line in itertools.pairwise(summary):
        if line.startswith(f"  {name} "):
            shared, *places = head.split()
            values = ", ".join(map(" ".join, zip(places, line.split()[1:], strict=True)))
            tables.append(values if shared == "metric" else f"{shared}: {values}")
    return tables


def test_which_rows_of_metrics_are_shown() -> None:
    """A row over all languages hides the single languages of its own task, metric, model, benchmark and source.

    Rows of single paradigms and documents are only in the record, because there may be thousands.
    """
    one, every = metric("af", 0.75), metric("all", 0.5)
    assert shown(lines([one, metric("hy", 0.25), every])) == ["add/all/1of2 0.5"]
    summary = lines(
        [one, every, metric("af", 0.7, name="retry_rate", group=""), metric("af", 0.1, task="take")]
    )
    assert shown(summary) == ["1of2: add/all 0.5, take/af 0.1"]
    assert shown(summary, "retry_rate") == ["add/af 0.7"]
    assert shown(lines([one])) == ["add/af/1of2 0.75"]
    others = [metric("af", 0.9, model="new"), metric("af", 0.8, benchmark="other")]
    summary = lines([one, every, *others], models=("old", "new"))
    assert shown(summary) == ["add/af/1of2 0.8", "add/all/1of2 0.5", "add/af/1of2 0.9"]
    published = lines([one, every, metric("af", 0.6, source="published")])
    assert shown(published) == ["add/1of2: all 0.5, af 0.6"]
    groups = ("overall", "paradigm 07", "document oracle/p/d0001")
    assert shown(lines([metric("en", 0.5, group=group) for group in groups])) == ["add/en/overall 0.5"]


def test_remarks_are_shown_with_their_model() -> None:
    """A benchmark's remark on a model is shown in that model's block, after the benchmark's numbers.

    Control characters are escaped; joiners are part of a word.
    """
    remarks = [
        {"model": "new", "benchmark": "sums", "text": "not order-invariant"},
        {"model": "old", "benchmark": "other", "text": "of another benchmark"},
    ]
    rows = [metric("af", 0.5), metric("af", 0.5, model="new")]
    summary = lines(rows, models=("old", "new"), remarks=remarks)
    assert [line for line in summary if "invariant" in line] == ["  new: not order-invariant"]
    last = max(n for n, line in enumerate(summary) if line.startswith("  position_rate"))
    assert summary.index("  new: not order-invariant") > last
    assert not any("of another benchmark" in line for line in summary)
    assert lines([]) == lines([], remarks=[])
    for text, escaped in (
        ("\x1b[2Jgone\u202e", "␛[2Jgone[U+202E]"),
        ("\u0645\u200c\u062a", "\u0645\u200c\u062a"),
    ):
        assert f"  old: {escaped}" in lines([], remarks=[{"model": "old", "benchmark": "sums", "text": text}])


CORRECT: RecordStatus = "correct"
STATUSES: list[RecordStatus] = ["wrong", "unparsed", *[CORRECT] * 9]
TABLE = [("task", "lang", "wrong"), ("add", "en", "1"), ("take", "en", "0")]


def summary(width: int) -> list[str]:
    """Return the summary of a run with long settings, notes and metrics."""
    names = ["uppercase", "end_punctuation", "letter_geometry", *(f"task_{n}" for n in range(3))]
    rows = [
        verdict(benchmark="htest", task=name, id=f"x/{name}", status=status)
        for name, status in zip(names, STATUSES, strict=False)
    ]
    metrics = [
        metric("en", 0.25, benchmark="htest", task=name, group="", name=f"a_metric_with_a_long_name_{n}")
        for name in names
        for n in range(4)
    ]
    settings = {f"setting_{n}": n for n in range(12)}
    facts = {
        "metrics": metrics,
        "protocols": {"htest": {"name": "quick", "settings": settings, "assumed": ["a long text " * 20]}},
        "calls": {"requests": 4003, "sent": 4003, "prompt_tokens": 527975},
    }
    return summary_of(rows, facts, ["一个词 一个词 " * 30], width)


def columns(line: str) -> int:
    """Return the columns of a line with Chinese."""
    return len(line) + sum("\u4e00" <= c <= "\u9fff" for c in line)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_summary_fits_the_width(width: int) -> None:
    """Every line of a summary fits, also with long settings, notes in Chinese and many metrics."""
    lines = summary(width)
    assert max(map(columns, lines)) <= width
    assert "4,003 requests, 4,003 calls" in " ".join(lines)


def test_columns_of_wide_and_narrow_tables() -> None:
    """In a file, no column is left out and no text is wrapped.

    At 80 columns, the language and the source are in the heading, and counts of zero have no column.
    """
    wide, narrow = summary(200), summary(80)
    [head] = [line for line in wide if line.startswith("  task ")]
    assert head.split()[:3] == ["task", "lang", "source"]
    assert {"refused", "unparsed", "errors", "published"} <= set(head.split())
    assert max(map(len, wide)) > 200
    [head] = [line for line in narrow if line.startswith("  task ")]
    assert head.startswith("  task (en, builtin)  items")
    assert not {"refused", "errors", "published"} & set(head.split())
    assert "  the papers' figures, which do not fit here, are in the report" in narrow


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


def test_row_of_a_table_that_cannot_fit_is_a_block() -> None:
    """The first table that fits is used; otherwise each row has its cells with their names below it."""
    wide = [(*row, "x" * 30) for row in TABLE]
    assert fitted(40, wide, TABLE)[0].split() == ["task", "lang", "wrong"]
    assert fitted(12, wide, TABLE) == ["  add en", "    wrong 1", "  take en", "    wrong 0"]


def test_text_is_wrapped_between_words() -> None:
    """A line is wrapped with an indent, by columns; names longer than the width stay whole."""
    assert wrapped("  note: " + "ab " * 12, 30) == ["  note: ab ab ab ab ab ab ab", "    ab ab ab ab ab"]
    assert wrapped("中文 " * 5, 20) == ["中文 中文 中文 中文", "  中文"]
    path = "/a" * 40
    assert wrapped(f"run record: {path}", 40) == ["run record:", f"  {path}"]


def test_live_line_has_the_time_left_and_what_calls_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """After two seconds, the line says how long the other cases take so far, and the limit that a run waits for."""
    now, shown = [100.0], [""]
    monkeypatch.setattr("pytest_llmprops.plugin.control.terminal.time.monotonic", lambda: now[0])
    reporter = SimpleNamespace(rewrite=lambda line, erase: shown.append(line))
    reports = [BrokerReport(CallFacts(requests=1))]
    progress = Progress(reporter, 1200, lambda: reports[-1], capture=object())
    for _ in range(300):
        progress.count("correct")
    assert "left" not in shown[-1]
    now[0] += 40
    progress.refresh()
    assert shown[-1].startswith("llmprops: 300/1,200 cases · 2.0 minutes left · ")
    reports.append(replace(reports[0], waits_for="waiting for the rate limit of gpt-4o: 38 calls a minute"))
    progress.refresh()
    assert shown[-1].startswith("llmprops: 300/1,200 cases · waiting for the rate limit of gpt-4o: 38 ")


RULE = {"max_drop": 0.05, "min_accuracy": 0.5}


def result_of(*rules: dict[str, Any]) -> GateResult:
    """Return a decision on 100 pairs, as in ``run.json``."""
    return judged(gate_of(*(rules or (RULE,))), *paired_runs(80, 8, 6, 6))


def test_every_check_shows_requirement_measurement_and_result() -> None:
    """The first line is the decision; checks are in the order of the rules, with the tests among the details."""
    result = result_of()
    lines = gate_lines(result, details=True)
    text = " ".join(" ".join(lines).split())
    assert lines[:2] == [result.line, "gate gate.toml against baseline run-old"]
    for check in result.rules[0].checks:
        assert check.required in text
        assert check.reason in text
        for part in check.measured.split("; "):
            assert part in text
    brief = " ".join(" ".join(gate_lines(result)).split())
    assert "(95% interval −" in brief
    assert not any(word in brief for word in ("McNemar", "alpha", "Holm"))


@pytest.mark.parametrize("width", [20, 60, 80, 100, 120, 500])
def test_lines_fit_the_terminal(width: int) -> None:
    """All lines except the decision are wrapped, with the texts in one column."""
    lines = gate_lines(result_of(), width)
    assert max(map(len, lines[1:])) <= min(max(width, 60), 110)
    starts = {len(line) - len(line[19:].lstrip()) for line in lines[2:]}
    assert starts == {19}


def test_reasons_outside_the_rules_are_listed() -> None:
    """A reason that concerns the whole run is shown once; one that a rule already shows is not repeated.

    In Markdown, the reasons of an invalid gate follow the table as a list.
    """
    result = judged(gate_of({"min_accuracy": 0.5}), verdicts("c" * 9, model="new"), complete=False)
    text = "\n".join(gate_lines(result))
    assert text.count("this run is incomplete") == 2  # in the rule's line, and in the decision
    assert text.count("fewer than min_items") == 1
    assert len(result.reasons) == 2
    text = gate_markdown(judged(gate_of(RULE), verdicts("c" * 9, model="new"), verdicts("c" * 9)))
    assert "\n\n- rule 1: 9 pairs are fewer" in text


def test_texts_of_files_are_escaped() -> None:
    """Control characters in names are shown as text, because names come from untrusted files."""
    result = result_of({**RULE, "name": "a\x1b[31mb\nc"})
    assert all(line.isprintable() for line in gate_lines(result))
    assert "\x1b" not in gate_markdown(result)


def test_markdown_has_tables_of_checks() -> None:
    """A table has the checks that are not met, another the others, each with four cells whatever the names contain."""
    result = result_of({**RULE, "name": "a|b <script> `c` [d](e) @f"})
    lines = gate_markdown(result).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 * 2 + len(result.rules[0].checks)
    assert {row.replace("\\|", "").count("|") for row in rows} == {5}
    text = "\n".join(rows)
    assert ("<script>" in text, "[d]" in text.replace("\\[d\\]", ""), "\\@f" in text) == (False, False, True)
    assert lines[0].startswith("## INCONCLUSIVE: ")
    first = lines.index(rows[0])
    assert (lines[1], lines[first - 1], lines[first : first + 3]) == ("", "", rows[:3])
    assert "inconclusive" in rows[2]
