"""Known values of the published rows, measured through the benchmark itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.core.benchmark_checks import loaded
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Translate
from pytest_llmprops.data.files import DataFolder
from tests.support.dtails_cases import BENCHMARK, TRANSLATOR, fenced, measured

BASELINES = {"af": 0.656, "fa": 0.709, "gl": 0.640, "hy": 0.619, "ja": 0.658, "ta": 0.716}


@pytest.fixture(scope="module")
def part(published: Path) -> Loaded:
    """Return all published items."""
    return loaded(BENCHMARK, DataFolder(published, "published"))


def records(part: Loaded, language: str, task: str, most: int | None = None) -> list[VerdictRecord]:
    """Return the records of a language's items, each answered with the right answer of its row."""
    verdicts = []
    for subject in [i for i in part.items if (i.language, i.task) == (language, task)][:most]:
        if task == "translate":
            answer, kinds = subject["target"], TRANSLATOR
        else:
            answer, kinds = fenced(subject["label"][0]), frozenset({"chat"})
        outcome, requests = measured(subject, lambda r, x=answer: x, case_context=part.context, kinds=kinds)  # type: ignore[misc]
        assert task == "select" or requests == [Translate(subject["sentence"], "en", language)]
        verdicts.append(outcome.record())
    return verdicts


def named(rows: list[Metric], name: str) -> Metric:
    [metric] = [row for row in rows if row.name == name]
    return metric


@pytest.mark.parametrize("language", sorted(BASELINES))
@pytest.mark.parametrize("task", ["select", "translate"])
def test_frequency_baseline(part: Loaded, language: str, task: str) -> None:
    """The metric is the known share over the language's whole file, also if only five items are run."""
    rows = list(BENCHMARK.metrics(records(part, language, task, most=5)))
    baseline = named(rows, "frequency_baseline")
    assert baseline.value is not None
    assert round(baseline.value, 3) == BASELINES[language]
    assert baseline.n == sum((i.language, i.task) == (language, "select") for i in part.items)


@pytest.mark.parametrize(
    ("language", "share"), [("af", 0.92), ("hy", 0.92), ("ja", 0.92), ("fa", 0.95), ("gl", 0.95)]
)
def test_reference_translations(part: Loaded, language: str, share: float) -> None:
    """The reference translations, used as a model's replies, are right in the known share of rows."""
    verdicts = records(part, language, "translate")
    assert len(verdicts) > 100
    assert sum(r.status == "correct" for r in verdicts) / len(verdicts) >= share
    assert {r.status for r in verdicts} <= {"correct", "wrong"}
    assert named(list(BENCHMARK.metrics(verdicts)), "found_rate").value is not None


@pytest.mark.parametrize("language", sorted(BASELINES))
def test_labels_are_right(part: Loaded, language: str) -> None:
    """A model that answers with the row's label is right in every row, in any Unicode form."""
    assert {r.status for r in records(part, language, "select")} == {"correct"}
