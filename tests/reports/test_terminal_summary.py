"""The summary on the terminal: which metrics and remarks it shows."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.reports.terminal import summary_lines
from pytest_llmprops.runs.summary import summary_rows
from tests.support.recorded import verdict

FOLDER = Path("run")


def metric(language: str, value: float, **changes: Any) -> dict[str, Any]:
    """Return a row of ``metrics``."""
    row: dict[str, Any] = {
        "n": 1,
        "ci_low": None,
        "ci_high": None,
        "direction": "none",
        "model": "old",
        "benchmark": "sums",
        "task": "add",
        "language": language,
        "source": "builtin",
    }
    return row | {"group": "1of2", "name": "position_rate", "value": value} | changes


def lines(metrics: list[dict[str, Any]], models: tuple[str, ...] = ("old",), **facts: Any) -> list[str]:
    """Return the summary of a run with one item per model and these metrics."""
    names = sorted({"sums", *(m["benchmark"] for m in metrics)})
    records = [verdict(model=model, benchmark=name) for model in models for name in names]
    facts_json = {
        "models": {model: {} for model in models},
        "summary": [row.to_json() for row in summary_rows(records)],
        "metrics": metrics,
        "protocols": {},
        "deviations": {},
        "calls": {},
        "complete": True,
        **facts,
    }
    return summary_lines(RunMetadata.from_json(facts_json, "run"), records, FOLDER, ())


def shown(summary: list[str], name: str = "position_rate") -> list[str]:
    """Return the values of a metric that is alone in its tables: ``PLACE VALUE``, or ``SHARED: PLACE VALUE, …``."""
    tables = []
    for head, line in itertools.pairwise(summary):
        if line.startswith(f"  {name} "):
            shared, *places = head.split()
            values = ", ".join(map(" ".join, zip(places, line.split()[1:], strict=True)))
            tables.append(values if shared == "metric" else f"{shared}: {values}")
    return tables


def test_rows_over_all_languages_hide_single_ones() -> None:
    """If a metric has a row over all languages, its single languages are shown only in the record."""
    summary = lines([metric("af", 0.75), metric("hy", 0.25), metric("all", 0.5)])
    assert shown(summary) == ["add/all/1of2 0.5"]


def test_other_metrics_keep_their_languages() -> None:
    """A metric or task without a row over all languages shows each language."""
    rows = [metric("af", 0.75), metric("all", 0.5), metric("af", 0.7, name="retry_rate", group="")]
    summary = lines([*rows, metric("af", 0.1, task="take")])
    assert shown(summary) == ["1of2: add/all 0.5, take/af 0.1"]
    assert shown(summary, "retry_rate") == ["add/af 0.7"]
    assert shown(lines(rows[:1])) == ["add/af/1of2 0.75"]


def test_rows_are_hidden_per_model_benchmark_and_source() -> None:
    """A row over all languages hides only the rows of its own model, benchmark and source."""
    rows = [metric("af", 0.75), metric("all", 0.5)]
    other = [metric("af", 0.9, model="new"), metric("af", 0.8, benchmark="other")]
    summary = lines([*rows, *other], models=("old", "new"))
    assert shown(summary) == ["add/af/1of2 0.8", "add/all/1of2 0.5", "add/af/1of2 0.9"]
    published = lines([*rows, metric("af", 0.6, source="published")])
    assert shown(published) == ["add/1of2: all 0.5, af 0.6"]


def test_single_paradigms_and_documents_are_not_shown() -> None:
    """Rows of single paradigms and documents are only in the record, because there may be thousands."""
    groups = ("overall", "paradigm 07", "document oracle/p/d0001")
    assert shown(lines([metric("en", 0.5, group=group) for group in groups])) == ["add/en/overall 0.5"]


def test_remarks_are_shown_with_their_model() -> None:
    """A benchmark's remark on a model is shown in that model's block, after the benchmark's numbers."""
    remarks = [
        {"model": "new", "benchmark": "sums", "text": "not order-invariant"},
        {"model": "old", "benchmark": "other", "text": "of another benchmark"},
    ]
    summary = lines(
        [metric("af", 0.5), metric("af", 0.5, model="new")], models=("old", "new"), remarks=remarks
    )
    assert [line for line in summary if "invariant" in line] == ["  new: not order-invariant"]
    assert summary.index("  new: not order-invariant") > max(
        i for i, line in enumerate(summary) if line.startswith("  position_rate")
    )
    assert not any("of another benchmark" in line for line in summary)
    assert lines([]) == lines([], remarks=[])


def test_remarks_cannot_drive_the_terminal() -> None:
    """Control characters in a remark are escaped."""
    remarks = [{"model": "old", "benchmark": "sums", "text": "\x1b[2Jgone\u202e"}]
    assert "  old: ␛[2Jgone[U+202E]" in lines([], remarks=remarks)
    joined = [{**remarks[0], "text": "\u0645\u200c\u062a"}]
    assert "  old: \u0645\u200c\u062a" in lines([], remarks=joined), "joiners are part of a word"
