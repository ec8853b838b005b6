"""The metrics and remarks of DTAiLS, computed from the values of records alone."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.positions import run_values
from pytest_llmprops.benchmarks.dtails.prompts import shown_order
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.core.statistics import clopper_pearson
from tests.support.dtails_cases import BENCHMARK, TRANSLATOR, fenced, item, measured
from tests.support.records import verdict

Records = Sequence[VerdictRecord]


def record(
    size: int, *runs: tuple[int | None, bool], language: str = "af", source: str = "builtin", **more: Any
) -> VerdictRecord:
    """Return the record of a selection; a run is the position chosen, from 0, and whether it is right."""
    values: dict[str, float] = {"variations": float(size), "frequency_baseline": 0.6, "frequency_n": 50.0}
    for number, (place, right) in enumerate(runs, 1):
        values |= run_values(number, place, right)
        values |= {f"run{number}_retried": 0.0, f"run{number}_leftmost": values[f"run{number}_position"]}
    values |= more.pop("values", {})
    task = more.pop("task", "select")
    return verdict(task, 1, benchmark="dtails", language=language, source=source, values=values, **more)


def rows(records: Records) -> dict[tuple[str, str, str, str], Metric]:
    """Return the metrics by task, language, name and group, and check that these are unique."""
    metrics: dict[tuple[str, str, str, str], Metric] = {}
    for metric in BENCHMARK.metrics(records):
        key = (metric.task, metric.language, metric.name, metric.group)
        assert key not in metrics
        metrics[key] = metric
    return metrics


def test_positions_by_hand() -> None:
    """6 of 8 choices of two at position 1 give 0.75 with its exact interval, p = 74/256, target 1/2."""
    records = [record(2, (0, True)) for _ in range(6)] + [record(2, (1, False)) for _ in range(2)]
    metrics = rows([*records, record(2, (None, False))])
    first = metrics["select", "af", "position_rate", "1of2"]
    interval = clopper_pearson(6, 8)
    assert (first.value, first.n, first.direction) == (0.75, 8, "target:0.5")
    assert (first.ci_low, first.ci_high) == (interval.low, interval.high)
    assert metrics["select", "af", "position_rate", "2of2"].value == 0.25
    # Two-sided binomial: 2 (C(8,6) + C(8,7) + C(8,8)) / 2^8.
    p = metrics["select", "af", "position_p", "of2"]
    assert (p.value, p.n) == pytest.approx((2 * (28 + 8 + 1) / 256, 8))
    assert metrics["select", "af", "order_invariant", "of2"].value == 1.0


def test_three_positions_by_hand() -> None:
    """Counts 20, 10, 0 of three give their shares and p = exp(-10), doubled by Holm if two is tested too."""
    threes = [record(3, (0, True))] * 20 + [record(3, (1, True))] * 10
    metrics = rows(threes)
    assert [metrics["select", "af", "position_rate", f"{n}of3"].value for n in (1, 2, 3)] == [
        2 / 3,
        1 / 3,
        0.0,
    ]
    assert metrics["select", "af", "position_rate", "1of3"].direction == "target:0.333333"
    assert metrics["select", "af", "position_p", "of3"].value == pytest.approx(math.exp(-10))
    assert metrics["select", "af", "order_invariant", "of3"].value == 0.0
    both = rows([*threes, record(2, (0, True)), record(2, (1, True))])
    assert both["select", "af", "position_p", "of3"].value == pytest.approx(2 * math.exp(-10))


def test_too_few_choices_have_no_p_value() -> None:
    """Fourteen choices of three have rates but neither a p-value nor a remark."""
    metrics = rows([record(3, (0, True))] * 14)
    assert metrics["select", "af", "position_rate", "1of3"].value == 1.0
    assert not any(name in ("position_p", "order_invariant") for _, _, name, _ in metrics)


def test_mean_and_deviation_over_runs() -> None:
    """Run accuracies 1, 0.5, 0 have mean 0.5 and sample deviation 0.5; a single run has neither row."""
    records = [record(2, (0, True), (0, True), (1, False)), record(2, (0, True), (None, False), (1, False))]
    metrics = rows(records)
    mean, deviation = metrics["select", "af", "accuracy_mean", ""], metrics["select", "af", "accuracy_sd", ""]
    assert (mean.value, mean.n, mean.direction) == (0.5, 3, "higher")
    assert (deviation.value, deviation.n) == pytest.approx((0.5, 3))
    assert not any(name.startswith("accuracy_") for _, _, name, _ in rows([record(2, (0, True))]))


def test_retry_rate_and_longest_decided_rate() -> None:
    """Shares are reported for runs with a retry and for readings whose longest form was not leftmost."""
    records = [
        record(2, (0, True), (1, True), values={"run1_retried": 1.0, "run2_leftmost": 1.0}),
        record(2, (0, True), (None, False)),
    ]
    metrics = rows(records)
    assert (metrics["select", "af", "retry_rate", ""].value, metrics["select", "af", "retry_rate", ""].n) == (
        0.25,
        4,
    )
    decided = metrics["select", "af", "longest_decided_rate", ""]
    assert (decided.value, decided.n) == pytest.approx((1 / 3, 3))


def test_rules_failed_rate() -> None:
    """The share of items with unreadable own rules is reported only if own rules were requested."""
    records = [
        record(2, (0, True), values={"rules_read": 1.0}),
        record(2, values={"rules_read": 0.0}, status="unparsed"),
    ]
    metrics = rows(records)
    assert metrics["select", "af", "rules_failed_rate", ""].value == 0.5
    assert metrics["select", "af", "retry_rate", ""].n == 1
    assert ("select", "af", "rules_failed_rate", "") not in rows([record(2, (0, True))])


def test_the_baseline_is_of_the_whole_file() -> None:
    """The baseline and its number of rows are those of the language's file, whatever items were run."""
    metric = rows([record(2, (0, True))])["select", "af", "frequency_baseline", ""]
    assert (metric.value, metric.n) == (0.6, 50)


def test_positions_over_all_languages() -> None:
    """Positions are also counted over all languages of a source if it has several."""
    records = [record(2, (0, True)), record(2, (0, True), language="hy"), record(2, (1, True), language="hy")]
    metrics = rows(records)
    over_all = metrics["select", "all", "position_rate", "1of2"]
    assert (over_all.value, over_all.n) == pytest.approx((2 / 3, 3))
    assert {name for _, language, name, _ in metrics if language == "all"} == {
        "position_rate", "position_p", "order_invariant",
    }  # fmt: skip
    apart = [record(2, (0, True)), record(2, (0, True), language="hy", source="published")]
    assert not any(language == "all" for _, language, _, _ in rows(apart))


def test_errors_are_not_counted() -> None:
    """Items in error do not count in any metric or remark."""
    right = [record(2, (0, True))] * 3
    wrong = record(2, *[(1, False)] * 3, status="error")
    assert rows([*right, wrong]) == rows(right)
    assert list(BENCHMARK.remarks([*[wrong] * 100])) == []
    assert rows([wrong]) == {}


def test_translations() -> None:
    """Translations report the shares with a variation, with an exact form, and split by the parser."""

    def one(chosen: float, substring: float, tokenizer: float) -> VerdictRecord:
        values = {"chosen": chosen, "substring": substring, "tokenizer": tokenizer, "variations": 2.0}
        return record(2, values=values, task="translate")

    metrics = rows([one(1, 1, 0), one(2, 0, 2), one(0, 0, 1), one(0, 0, 1)])
    assert metrics["translate", "af", "found_rate", ""].value == 0.5
    assert metrics["translate", "af", "substring_rate", ""].value == 0.25
    parsed = metrics["translate", "af", "parser_rate", ""]
    assert (parsed.value, parsed.n) == pytest.approx((1 / 3, 3))
    assert ("translate", "af", "parser_rate", "") not in rows([one(1, 1, 0)])


def test_directions_are_declared() -> None:
    """Each metric has its declared direction, and a position's target depends on the number of variations."""
    records = [record(2, (0, True), (1, False), values={"rules_read": 1.0})] * 20
    translation = record(2, values={"chosen": 1.0, "substring": 1.0, "tokenizer": 1.0}, task="translate")
    directions = {metric.name: metric.direction for metric in BENCHMARK.metrics([*records, translation])}
    assert directions == {**BENCHMARK.metric_directions, "position_rate": "target:0.5"}
    assert BENCHMARK.metric_directions["position_rate"].startswith("target:")


def test_metrics_of_real_verdicts() -> None:
    """Verdicts of the benchmark itself have every value that the metrics need."""
    records = []
    for number in range(1, 5):
        outcome, _ = measured(item(number=number), lambda r: fenced("woon"), runs=3)
        records.append(outcome.record())
        outcome, _ = measured(item("translate", number=number), lambda r: "Hulle woon.", kinds=TRANSLATOR)
        records.append(outcome.record())
    metrics = rows(records)
    assert metrics["select", "af", "accuracy_mean", ""].value == 1.0
    assert metrics["select", "af", "position_rate", "1of2"].n == 12
    assert metrics["translate", "af", "substring_rate", ""].value == 1.0
    assert metrics["translate", "af", "frequency_baseline", ""].value == 0.75


# remarks

Chooser = Callable[[tuple[int, ...]], int]


def simulated(choose: Chooser, seed: int, sizes: Sequence[int], *, runs: int = 1) -> Records:
    """Return the records of a model that maps the shown order of each item and run to a position."""
    verdicts = []
    for number, size in enumerate(sizes):
        orders = [shown_order(size, seed, f"dtails/af/x/{number}", run) for run in range(runs)]
        verdicts.append(record(size, *((choose(order), False) for order in orders)))
    return verdicts


def test_order_dependent_model_is_named() -> None:
    """A model that takes the first of two and chooses freely of three is named for two, with its shares."""
    rng = random.Random(0)
    sizes = [2] * 60 + [3] * 60
    records = simulated(lambda order: 0 if len(order) == 2 else rng.randrange(3), 1, sizes)
    [remark] = BENCHMARK.remarks(records)
    assert "not order-invariant" in remark
    assert remark.endswith("of 2 variations: 100%, 0% of 60 choices")
    both = list(BENCHMARK.remarks(simulated(lambda order: len(order) - 1, 1, sizes)))
    assert [r.rpartition(" variations")[0][-1] for r in both] == ["2", "3"]
    assert both[1].endswith("0%, 0%, 100% of 60 choices")


def test_order_invariant_model_is_not_named() -> None:
    """A model that always chooses the same variation is not named, however one-sided its choice."""
    records = simulated(lambda order: order.index(0), 7, [2] * 100 + [3] * 100, runs=3)
    assert list(BENCHMARK.remarks(records)) == []
    assert list(BENCHMARK.remarks([])) == []


def test_remarks_are_over_all_languages() -> None:
    """Weak evidence from two languages is combined, and translate items are not considered."""
    one = simulated(lambda order: 0 if len(order) == 2 else 1, 3, [2] * 4)
    other = [replace(r, language="hy") for r in one]
    assert list(BENCHMARK.remarks(one)) == []
    assert len(list(BENCHMARK.remarks([*one, *other]))) == 1
    assert list(BENCHMARK.remarks([replace(r, task="translate") for r in [*one, *other]])) == []


@pytest.mark.simulation
@pytest.mark.parametrize(("twos", "threes"), [(60, 60), (10, 15)])
def test_false_alarms_are_rare(twos: int, threes: int) -> None:
    """Of 1,000 order-invariant models at most about 5% are named, in small runs and larger ones."""
    sizes = [2] * twos + [3] * threes
    named = sum(
        bool(list(BENCHMARK.remarks(simulated(lambda order: order.index(0), seed, sizes))))
        for seed in range(1000)
    )
    # The binomial's 99.9% quantile of 1,000 draws at 5%; a rate of 10% exceeds it with probability 0.998.
    assert named <= 73


def test_positions_of_real_calls() -> None:
    """A model that copies the first word of the list is named when run through the benchmark itself."""

    def first(request: Any) -> str:
        assert isinstance(request, Chat)
        return fenced(request.prompt.split("['")[1].split("'")[0])

    records = [measured(item(number=n), first)[0].record() for n in range(1, 21)]
    assert len(list(BENCHMARK.remarks(records))) == 1
    same = [measured(item(number=n), lambda r: fenced("woon"))[0].record() for n in range(1, 21)]
    assert list(BENCHMARK.remarks(same)) == []
