"""Null extractors: which of them linearity accepts, under each rule."""

from __future__ import annotations

import asyncio
import random

import pytest

from pytest_llmprops.benchmarks.oracle.entities import locate
from pytest_llmprops.benchmarks.oracle.extraction import Extracted
from pytest_llmprops.benchmarks.oracle.items import RULES, Rule
from pytest_llmprops.benchmarks.oracle.linear_tests import Subject
from pytest_llmprops.benchmarks.oracle.linearity import NAMES, extraction_null_values
from pytest_llmprops.benchmarks.oracle.metrics import metric_rows
from pytest_llmprops.benchmarks.oracle.sentence_metrics import null_remarks
from pytest_llmprops.benchmarks.oracle.settings import LinearitySettings
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from tests.support.oracle_runs import Subject as Model
from tests.support.oracle_runs import sentence, verdict_on
from tests.support.records import verdict as record

TEXT = "Then Oslo wrote to Lima about Quito and Cairo."


def played(rule: Rule, samples: int, times: int = 1) -> dict[str, float]:
    """Return the mean values of the null extractors on a sentence with four entities."""
    answer = locate([Extracted(name) for name in ("Oslo", "Lima", "Quito", "Cairo")], TEXT)
    texts = ("Paris", "Rome", "Bonn", "Bern")
    subject = Subject(
        TEXT, answer, tuple(Synonym(e, t, "pool", "") for e, t in zip(answer, texts, strict=True))
    )
    settings = LinearitySettings(samples=samples, tests=5, rule=rule)
    pairs = [(1, 2), (3, 5), (7, 8), (15, 1), (6, 9)]
    rng = random.Random(0)
    runs = [asyncio.run(extraction_null_values(subject, settings, pairs, rng)) for _ in range(times)]
    return {name: sum(run[name] for run in runs) / times for name in runs[0]}


@pytest.mark.parametrize("rule", RULES)
def test_the_same_list_is_linear_but_not_faithful(rule: Rule) -> None:
    """An empty and a constant list pass all tests and are never faithful."""
    values = played(rule, 3)
    assert values["null_empty"] == values["null_list"] == 1
    assert values["null_empty_faithful"] == values["null_list_faithful"] == 0


def test_noise_is_rejected_except_under_any() -> None:
    """Dropping 30% fails a single-sample test, and passes the best of 1,331 combinations."""
    assert played("single", 1, 40)["null_drop30"] < 0.1
    assert played("any", 11)["null_drop30"] == 1
    majority = played("majority", 11, 20)
    assert majority["null_drop10"] > majority["null_drop30"] >= majority["null_coin"]


def test_null_extractors_are_recorded_and_shown() -> None:
    """A verdict has their values without a call of the model, and the metrics have their rates."""
    item = sentence("Then Oslo wrote to Lima about Quito.", 1)
    verdict = verdict_on(item, Model())
    assert {name for name in NAMES if name in verdict.values} == set(NAMES)
    rows = list(metric_rows([record("linearity", 1, benchmark="oracle", values=dict(verdict.values))]))
    shown = {(m.name, m.group): m.value for m in rows}
    assert shown["null_acceptance_rate", "constant list"] == 1
    assert shown["null_faithful_rate", "constant list"] == 0
    [remark] = null_remarks([verdict.values])
    assert remark.startswith(
        "sentences: 100.0% accepted (100.0% also faithful); of null extractors on the same 1"
    )
    assert "constant list 100.0% (0.0%)" in remark
