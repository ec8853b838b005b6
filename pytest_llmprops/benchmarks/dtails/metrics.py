"""The metrics of DTAiLS, computed from the values of verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from pytest_llmprops.benchmarks.dtails.evaluation import PARSER, UNICODE
from pytest_llmprops.benchmarks.dtails.items import SELECT
from pytest_llmprops.benchmarks.dtails.positions import (
    RULE,
    holm_p_values,
    mean_and_deviation,
    order_dependent,
    position_group,
    positions,
    run_accuracies,
    runs_of,
)
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.numbers import percent
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import clopper_pearson

Values = Mapping[str, float]
#: The language of rows over all languages. Position bias is a property of the model, not of a language.
ALL = "all"
#: Minimum number of choices for a comparison with the most frequent variation.
FEWEST = 20


def metric_rows(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield rows for every task, language and source, and positions over all languages of a source."""
    places = by_place(records)
    by_source: dict[str, list[Values]] = {}
    for place, members in places.items():
        values = [r.values for r in members]
        yield from _baseline(place, values)
        if place[0] == SELECT:
            asked = [v for v in values if runs_of(v)]
            yield from _selected(place, values, asked)
            by_source.setdefault(place[2], []).extend(asked)
        else:
            yield from _translated(place, values)
    for source, values in by_source.items():
        if len([place for place in places if place[0] == SELECT and place[2] == source]) > 1:
            yield from _positions((SELECT, ALL, source), values)


def remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield warnings: choices no better than the most frequent variation, or that depend on the order."""
    selected = [r for r in records if r.task == SELECT and r.status != "error"]
    values = [r.values for r in selected]
    baselines = [v["frequency_baseline"] for v in values if "frequency_baseline" in v]
    if len(baselines) == len(selected) >= FEWEST:
        baseline, right = sum(baselines) / len(baselines), sum(r.status == "correct" for r in selected)
        # Two standard deviations: guessing the most frequent variation reaches this by chance.
        margin = 2 * sqrt(baseline * (1 - baseline) / len(selected))
        if right / len(selected) <= baseline + margin:
            share = percent(right / len(selected))
            yield (
                f"warning: {share} of {len(selected)} choices are right; always taking the most frequent variation gets"
                f" {percent(baseline)}"
            )
    by_size = positions(v for v in values if runs_of(v))
    for size in order_dependent(by_size):
        shares = ", ".join(f"{share:.0%}" for share in by_size[size].rates)
        yield f"warning: {RULE}; of {size} variations: {shares} of {by_size[size].n} choices"


def _baseline(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    known = next((v for v in values if "frequency_baseline" in v), None)
    if known is not None:
        # In-sample: over the language's whole file, even if only part of it was asked.
        yield Metric(*place, "frequency_baseline", known["frequency_baseline"], int(known["frequency_n"]))


def _selected(place: Place, values: Sequence[Values], asked: Sequence[Values]) -> Iterator[Metric]:
    yield from _positions(place, asked)
    accuracies = run_accuracies(asked)
    mean, deviation = mean_and_deviation(accuracies)
    if len(accuracies) > 1:
        yield Metric(*place, "accuracy_mean", mean, len(accuracies), direction="higher")
        yield Metric(*place, "accuracy_sd", deviation, len(accuracies))
    # If a model's own rules could not be read, no choice was asked for, so no retry was possible.
    runs = [(v, f"run{n}_") for v in asked if v.get("rules_read", 1.0) for n in range(1, runs_of(v) + 1)]
    scored = [bool(v[run + "normalised_right"]) for v, run in runs if run + "normalised_right" in v]
    if scored:
        # Nothing was written, so nothing was read or asked again.
        yield rate(place, "normalised_accuracy", scored, "higher")
        return
    yield rate(place, "retry_rate", [bool(v[run + "retried"]) for v, run in runs], "lower")
    named = [v[run + "leftmost"] != v[run + "position"] for v, run in runs if v[run + "position"]]
    yield rate(place, "longest_decided_rate", named, "none")
    unread = [not v["rules_read"] for v in values if "rules_read" in v]
    if unread:
        yield rate(place, "rules_failed_rate", unread, "lower")


def _positions(place: Place, asked: Sequence[Values]) -> Iterator[Metric]:
    by_size = positions(asked)
    adjusted = holm_p_values(by_size)
    dependent = order_dependent(by_size)
    for size, places in by_size.items():
        for number, count in enumerate(places.counts, 1):
            limits, group = clopper_pearson(count, places.n), position_group(number, size)
            share, target = count / places.n, f"target:{1 / size:.6g}"
            yield Metric(*place, "position_rate", share, places.n, group, limits.low, limits.high, target)
        group = f"of{size}"
        if size in adjusted:
            yield Metric(*place, "position_p", adjusted[size], places.n, group)
            invariant = float(size not in dependent)
            yield Metric(*place, "order_invariant", invariant, places.n, group, direction="higher")


def _translated(place: Place, values: Sequence[Values]) -> Iterator[Metric]:
    read = [v for v in values if "chosen" in v]
    yield rate(place, "found_rate", [bool(v["chosen"]) for v in read], "higher")
    yield rate(place, "substring_rate", [bool(v["substring"]) for v in read], "none")
    split = [v["tokenizer"] == PARSER for v in read if v["tokenizer"] in (UNICODE, PARSER)]
    if split:
        yield rate(place, "parser_rate", split, "none")
