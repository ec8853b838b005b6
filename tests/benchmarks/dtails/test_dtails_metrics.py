"""Positions, their balanced orders, metrics and remarks of DTAiLS."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.benchmark import Dtails, run_values
from pytest_llmprops.benchmarks.dtails.items import SELECT, Slot, slots
from pytest_llmprops.benchmarks.dtails.metrics import Positions, order_dependent
from pytest_llmprops.benchmarks.dtails.prompts import shown_order
from pytest_llmprops.benchmarks.dtails.reading import Reading
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.statistics.intervals import clopper_pearson
from tests.support.dtails_cases import BENCHMARK, measured, prompt_of, shown
from tests.support.records import verdict

Records = Sequence[VerdictRecord]


def record(
    size: int, *runs: tuple[int | None, bool], language: str = "af", source: str = "builtin", **more: Any
) -> VerdictRecord:
    """Return the record of a selection; a run is the position chosen, from 0, and whether it is right."""
    values: dict[str, float] = {"variations": float(size), "frequency_baseline": 0.6, "frequency_n": 50.0}
    for number, (place, right) in enumerate(runs, 1):
        values |= run_values(number, Reading(place), right, retried=False)
    values |= more.pop("values", {})
    task = more.pop("task", "select")
    return verdict(task, 1, benchmark="dtails", language=language, source=source, values=values, **more)


def rows(records: Records) -> dict[tuple[str, str, str, str], Metric]:
    """Return the metrics by task, language, name and group, and check that these are unique."""
    metrics = list(BENCHMARK.metrics(records))
    by_key = {(m.task, m.language, m.name, m.group): m for m in metrics}
    assert len(by_key) == len(metrics)
    return by_key


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
    rates = [metrics["select", "af", "position_rate", f"{n}of3"].value for n in (1, 2, 3)]
    assert rates == [2 / 3, 1 / 3, 0.0]
    assert metrics["select", "af", "position_rate", "1of3"].direction == "target:0.333333"
    assert metrics["select", "af", "position_p", "of3"].value == pytest.approx(math.exp(-10))
    assert metrics["select", "af", "order_invariant", "of3"].value == 0.0
    both = rows([*threes, record(2, (0, True)), record(2, (1, True))])
    assert both["select", "af", "position_p", "of3"].value == pytest.approx(2 * math.exp(-10))
    few = rows([record(3, (0, True))] * 14)
    assert few["select", "af", "position_rate", "1of3"].value == 1.0
    assert not any(name in ("position_p", "order_invariant") for _, _, name, _ in few)


def test_mean_and_deviation_over_runs() -> None:
    """Run accuracies 1, 0.5, 0 have mean 0.5 and sample deviation 0.5; a single run has neither row.

    The retries are a share of all runs; the baseline is that of the whole file.
    """
    retried = {"run1_retried": 1.0}
    runs = (0, True), (0, True), (1, False)
    metrics = rows([record(2, *runs, values=retried), record(2, runs[0], (None, False), runs[2])])
    mean, deviation, retries, baseline = (
        metrics["select", "af", name, ""]
        for name in ("accuracy_mean", "accuracy_sd", "retry_rate", "frequency_baseline")
    )
    assert (mean.value, mean.n, mean.direction) == (0.5, 3, "higher")
    assert (deviation.value, deviation.n) == pytest.approx((0.5, 3))
    assert (retries.value, retries.n) == pytest.approx((1 / 6, 6))
    assert (baseline.value, baseline.n) == (0.6, 50)
    assert not any(name.startswith("accuracy_") for _, _, name, _ in rows([record(2, (0, True))]))


def test_rules_failed_rate() -> None:
    """The share of items with unreadable own rules is reported only if own rules were requested."""
    read = record(2, (0, True), values={"rules_read": 1.0})
    metrics = rows([read, record(2, values={"rules_read": 0.0}, status="unparsed")])
    assert metrics["select", "af", "rules_failed_rate", ""].value == 0.5
    assert metrics["select", "af", "retry_rate", ""].n == 1
    assert ("select", "af", "rules_failed_rate", "") not in rows([record(2, (0, True))])


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

    def one(chosen: float, substring: float, **more: float) -> VerdictRecord:
        return record(2, values={"chosen": chosen, "substring": substring, **more}, task="translate")

    metrics = rows([one(1, 1), one(2, 0, parser=1.0), one(0, 0, parser=0.0), one(0, 0, parser=0.0)])
    assert metrics["translate", "af", "found_rate", ""].value == 0.5
    assert metrics["translate", "af", "substring_rate", ""].value == 0.25
    parsed = metrics["translate", "af", "parser_rate", ""]
    assert (parsed.value, parsed.n) == pytest.approx((1 / 3, 3))
    assert ("translate", "af", "parser_rate", "") not in rows([one(1, 1)])


def test_directions_are_declared() -> None:
    """Each metric has its declared direction, and a position's target depends on the number of variations."""
    records = [record(2, (0, True), (1, False), values={"rules_read": 1.0})] * 20
    translation = record(2, values={"chosen": 1.0, "substring": 1.0, "parser": 1.0}, task="translate")
    scored = record(2, (0, True), values={"run1_normalised_right": 1.0})
    measured_rows = [*BENCHMARK.metrics([*records, translation]), *BENCHMARK.metrics([scored])]
    directions = {metric.name: metric.direction for metric in reversed(measured_rows)}
    assert directions == {**BENCHMARK.metric_directions, "position_rate": "target:0.5"}
    assert BENCHMARK.metric_directions["position_rate"].startswith("target:")


def simulated(
    choose: Callable[[tuple[int, ...]], int], seed: int, sizes: Sequence[int], runs: int = 1
) -> Records:
    """Return the records of a model that maps the shown order of each item and run to a position."""
    orders = [
        [shown_order(size, seed, f"dtails/af/x/{number}", run) for run in range(runs)]
        for number, size in enumerate(sizes)
    ]
    return [
        record(size, *((choose(order), False) for order in own))
        for size, own in zip(sizes, orders, strict=True)
    ]


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
    # The same variation is no position, however one-sided the choice.
    records = simulated(lambda order: order.index(0), 7, [2] * 100 + [3] * 100, runs=3)
    assert list(BENCHMARK.remarks(records)) == list(BENCHMARK.remarks([])) == []


def test_remarks_are_over_all_languages() -> None:
    """Weak evidence from two languages is combined, and translate items are not considered."""
    one = [record(2, (0, False))] * 4
    both = [*one, *(replace(r, language="hy") for r in one)]
    assert list(BENCHMARK.remarks(one)) == []
    assert len(list(BENCHMARK.remarks(both))) == 1
    assert list(BENCHMARK.remarks([replace(r, task="translate") for r in both])) == []


def test_false_alarms_are_rare() -> None:
    """Of 1,000 order-invariant models at most about 5% are named."""
    named = [
        seed
        for seed in range(1000)
        if [*BENCHMARK.remarks(simulated(lambda order: order.index(0), seed, [2] * 20 + [3] * 20))]
    ]
    # The binomial's 99.9% quantile of 1,000 draws at 5%; a rate of 10% exceeds it with probability 0.998.
    assert len(named) <= 73


def test_small_deviations_are_not_named() -> None:
    """A deviation below 0.05 is not named even if it is significant; a deviation of 0.05 is."""
    assert Positions((53000, 47000)).p_value() < 1e-9
    assert order_dependent({2: Positions((53000, 47000))}) == ()
    assert order_dependent({2: Positions((55000, 45000))}) == (2,)


def test_orders_are_balanced() -> None:
    """Three runs of two variations never have one order, and three runs of three show each variation everywhere.

    In each run, each block of three items has its right variation at each position once, for any labels.
    """
    for number in range(200):
        for slot in (None, Slot("af/2", 5, 1)):
            assert len({shown_order(2, 0, f"item {number}", run, slot) for run in range(3)}) == 2
        three = [shown_order(3, 0, f"item {number}", run) for run in range(3)]
        assert [set(places) for places in zip(*three, strict=True)] == [{0, 1, 2}] * 3
    for run, block in itertools.product(range(4), range(20)):
        slots_of_block = [Slot("af/3", 3 * block + n, n) for n in range(3)]
        orders = [shown_order(3, 1, f"item {block} {n}", run, slot) for n, slot in enumerate(slots_of_block)]
        assert sorted(order.index(n) for n, order in enumerate(orders)) == [0, 1, 2]
    starts = [shown_order(2, seed, "x", 0, Slot("af/2", 0, 0)).index(0) for seed in range(400)]
    assert 150 < sum(starts) < 250, "the seed decides"
    free = Counter(shown_order(3, seed, "x") for seed in range(1200))
    assert len(free) == 6
    assert all(150 < count < 250 for count in free.values())


def test_the_benchmark_uses_the_balanced_orders() -> None:
    """The prompts of an item show the variations in the orders of its slot, for every item of the file."""
    part = loaded(Dtails(), DataFolder(builtin_data(), "builtin"))
    items = [item for item in part.items if item.task == SELECT]
    by_id = slots(items)
    for one in [item for item in items if item.language == "af"][:12]:
        _, requests = measured(one, lambda r: "```x```", case_context=part.context, runs=3, seed=7)
        names = ["/".join(forms) for forms in one["variations"]]
        for run, request in enumerate(requests):
            order = shown_order(len(names), 7, one.id, run, by_id[one.id])
            assert shown(prompt_of(request)) == [names[index] for index in order]
