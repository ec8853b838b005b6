"""Gates keep their stated error rates with few clusters: a reduced form of ``bench.gate_rates``, and its check."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from bench import gate_rates
from bench.interval_methods import Counts, Flags, draw
from pytest_llmprops.core.gate_results import Check
from pytest_llmprops.core.paired import Pairs, drop_test
from pytest_llmprops.runs.gate import checks
from pytest_llmprops.runs.gate.checks import Answer
from pytest_llmprops.runs.gate.file import Rule


def _pairs(lost: list[int], gained: list[int], size: int) -> Pairs:
    """Return pairs in clusters of this size with these numbers of lost and gained items."""
    baseline: list[float] = []
    candidate: list[float] = []
    for losses, gains in zip(lost, gained, strict=True):
        baseline += [1.0] * losses + [0.0] * gains + [1.0] * (size - losses - gains)
        candidate += [0.0] * losses + [1.0] * gains + [1.0] * (size - losses - gains)
    names = [str(n // size) for n in range(len(lost) * size)]
    return Pairs(tuple(baseline), tuple(candidate), tuple(names))


def accuracy_verdict(limit: float, right: list[int], size: int) -> str:
    """Return the gate's verdict on ``min_accuracy``, given the right items of each cluster."""
    answers = [
        Answer(str(n), float(item < count), 0.0, 0.0) for n, count in enumerate(right) for item in range(size)
    ]
    return checks.accuracy(Rule("rule", {}, min_accuracy=limit), answers).verdict


def drop_verdict(margin: float, pairs: Pairs) -> str:
    """Return the gate's verdict on ``max_drop``."""
    return checks.max_drop(Rule("rule", {}, max_drop=margin), pairs).verdict


def regression_verdict(detect: float, pairs: Pairs) -> str:
    """Return the gate's verdict on ``no_regression``."""
    rule = Rule("rule", {}, no_regression=True, detect=detect)
    return checks.no_regression(rule, pairs, drop_test(pairs), tests=1).verdict


def test_eight_clusters_are_too_few() -> None:
    """Eight clusters of 20 with one item lost and one gained are inconclusive, and the advised number is enough."""
    rule = Rule("rule", {}, no_regression=True)

    def check(clusters: int) -> Check:
        lost, gained = ([1] + [0] * 7) * clusters, ([0, 1] + [0] * 6) * clusters
        pairs = _pairs(lost[:clusters], gained[:clusters], 20)
        return checks.no_regression(rule, pairs, drop_test(pairs), tests=1)

    few = check(8)
    assert few.verdict == "inconclusive"
    assert few.reason.startswith(
        "a drop of 10.0 points is not ruled out by 8 clusters (160 pairs); with about "
    )
    needed = int(few.reason.split("about ")[1].split()[0])
    assert f"{needed} clusters ({20 * needed} pairs) an unchanged model passes in 90% of runs" in few.reason
    assert 12 < needed < 25
    assert check(needed).verdict == "met"
    assert check(needed - 4).verdict == "inconclusive"


def test_clusters_that_fail_wholly_have_exact_rates() -> None:
    """Rates over the number of failed clusters of 16, without simulation: 18.5% pass a drop of ``detect``."""
    rate = sum(
        binom.pmf(failed, 16, 0.1)
        for failed in range(17)
        if regression_verdict(0.1, _pairs([20] * failed + [0] * (16 - failed), [0] * 16, 20)) == "met"
    )
    assert rate == pytest.approx(0.9**16)
    assert 0.15 < rate <= 0.2


@pytest.mark.parametrize(("size", "icc"), [(1, 0.0), (5, 0.3), (20, 0.9), (20, 1.0)])
def test_the_benchmark_decides_as_the_gate(size: int, icc: float) -> None:
    """The vectorised decisions of ``bench.gate_rates`` are those of the gate's own checks."""
    rng, verdicts = np.random.default_rng(7), set()
    clusters = {1: 80, 5: 24, 20: 30}[size]

    def agree(flags: Flags, found: list[str]) -> None:
        assert flags.tolist() == [verdict == "met" for verdict in found]
        verdicts.update(found)

    right = draw(rng, 12, clusters, size, [0.93, 0.07], icc)[..., 0]
    agree(
        gate_rates.accuracy_met(right, size, 0.85),
        [accuracy_verdict(0.85, row, size) for row in right.tolist()],
    )
    counts: Counts = draw(rng, 12, clusters, size, [0.03, 0.01, 0.96], icc)
    lost, gained = counts[..., 0], counts[..., 1]
    pairs = [_pairs(*pair, size) for pair in zip(lost.tolist(), gained.tolist(), strict=True)]
    agree(gate_rates.drop_met(lost, gained, size, 0.12), [drop_verdict(0.12, p) for p in pairs])
    agree(gate_rates.regression_met(lost, gained, size), [regression_verdict(0.1, p) for p in pairs])
    assert verdicts >= {"met", "inconclusive"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "stated", "rate", "items"), gate_rates.RULES, ids=[rule[0] for rule in gate_rates.RULES]
)
def test_reduced_table_of_the_benchmark(
    name: str, stated: float, rate: gate_rates.Rate, items: object
) -> None:
    """No cell of a small form of the table is above its stated rate by more than chance."""
    cells = [(1, 0.0, 54), (5, 0.1, 100), (20, 0.3, 200), (20, 1.0, 400)]
    for size, icc, n in cells:
        for measured in rate(np.random.default_rng(3), 1000, n, size, icc):
            # 24 rates per rule: a limit that chance exceeds about once in 5,000
            assert binomtest(round(1000 * measured), 1000, stated, alternative="greater").pvalue > 2e-4
