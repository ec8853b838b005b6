"""Measure how often gates pass, and how often their rules accept at the limit: tables of docs/gate-statistics.md.

    python -m bench.gate_rates                      # about ten minutes on one core
    python -m bench.gate_rates --upgrades 500       # a quick look

The first table has the decisions of gates with ``no_regression`` on an unchanged model, and on models that are worse on
one suite. The second table compares stated with measured rates.

Upgrades are simulated at the limit of a rule, with few or many clusters. The shares of lost and gained items vary
between clusters by a Dirichlet distribution with the given intraclass correlation (ICC); at an ICC of 1, a cluster is
lost, gained or unchanged as a whole. Cells have the worst rate over numbers of items, gains and limits. A test checks
that the vectorised decisions are those of the gate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from bench.interval_methods import Counts, Flags, Floats, draw
from bench.process import parsed
from pytest_llmprops.core.bounded_mean import mean_p_value
from pytest_llmprops.core.comparison import CONFIDENCE
from pytest_llmprops.core.paired import mcnemar_drop

ALPHA = 0.05
#: columns of the table: size of clusters, intraclass correlation
SHAPES = [(1, 0.0), (5, 0.1), (5, 0.3), (5, 0.9), (20, 0.1), (20, 0.3), (20, 0.9), (20, 1.0)]
ITEMS = (30, 42, 54, 100, 137, 200, 400)
#: the numbers of items for clusters: 5 to 20 and 20 to 80 clusters, and two of the smallest samples
CLUSTERED = (42, 100, 200, 400)
GAINS = (0.0, 0.02, 0.06)
ACCURACIES = (0.8, 0.9, 0.95)
MARGINS = (0.05, 0.10)
DETECT = 0.10


# ---- the decisions of the gate, for many upgrades at once


def p_values(sums: Counts, size: int, limit: float, least: int) -> Floats:
    """Return the p-values of "the mean per item is at most ``limit``", given sums of scores by cluster.

    Samples with the same number of clusters of each sum are computed once. Those with a mean of at most ``limit`` get
    the p-value 1, because no rule asks for a p-value that large.
    """
    p, above = np.ones(len(sums)), sums.mean(axis=1) > limit * size
    if above.any():
        values = np.arange(least * size, size + 1)
        counts = np.stack([(sums[above] == value).sum(axis=1) for value in values], axis=-1)
        rows, where = np.unique(counts, axis=0, return_inverse=True)
        used = rows.any(axis=0)
        found = [
            mean_p_value(values[used], float(size), limit, least=least, counts=part)
            for part in np.array_split(rows[:, used], 1 + len(rows) // 1000)
        ]
        p[above] = np.concatenate(found)[where.ravel()]
    return p


def accuracy_met(right: Counts, size: int, limit: float) -> Flags:
    """Return, per sample, whether ``min_accuracy`` is met, given the right items of each cluster."""
    return p_values(right, size, limit, 0) <= ALPHA / 2


def below(lost: Counts, gained: Counts, size: int, drop: float) -> Floats:
    """Return the p-values of "the drop is at least ``drop``"."""
    return p_values(gained - lost, size, -drop, -1)


def drop_met(lost: Counts, gained: Counts, size: int, margin: float) -> Flags:
    """Return, per sample, whether ``max_drop`` is met."""
    return below(lost, gained, size, margin) <= ALPHA / 2


@lru_cache(maxsize=64)
def signs(clusters: int) -> Floats:
    """Return all patterns of signs of up to 12 clusters, otherwise 4,096 random ones and that of no flip."""
    if clusters <= 12:
        return np.array(list(itertools.product((1.0, -1.0), repeat=clusters)))
    drawn = np.random.default_rng(0).choice([1.0, -1.0], size=(4096, clusters))
    return np.concatenate([np.ones((1, clusters)), drawn])


def regression_p(lost: Counts, gained: Counts, size: int) -> Floats:
    """Return the p-values of the test of a drop."""
    if size == 1:
        return np.asarray(mcnemar_drop(lost.sum(axis=1), gained.sum(axis=1)))
    sums = (lost - gained).astype(float)
    return np.asarray((signs(sums.shape[1]) @ sums.T >= sums.sum(axis=1) - 1e-9).mean(axis=0))


def regression_met(lost: Counts, gained: Counts, size: int, alpha: float = ALPHA) -> Flags:
    """Return, per sample, whether ``no_regression`` is met: no significant drop, and ``DETECT`` is ruled out."""
    return (regression_p(lost, gained, size) > alpha) & (below(lost, gained, size, DETECT) <= 1 - CONFIDENCE)


# ---- what gates of one or several rules pass and catch

#: numbers of clusters and of items per cluster, intraclass correlation: as the suites have them
SUITES = {
    "30 items": (30, 1, 0.0),
    "64 items (oracle pairs)": (64, 1, 0.0),
    "100 items": (100, 1, 0.0),
    "200 items (htest, a task)": (200, 1, 0.0),
    "780 items": (780, 1, 0.0),
    "2,000 items": (2000, 1, 0.0),
    "67 clusters of 5 (dtails `select`)": (67, 5, 0.2),
    "39 clusters of 20 (eras `explicit`)": (39, 20, 0.2),
}
CHURN = (0.0, 0.01, 0.03, 0.06)
DROPS = (0.02, 0.05, 0.10)
SEVERAL = (5, 10, 20)


def outcomes(
    rng: np.random.Generator, upgrades: int, suite: str, churn: float, drop: float
) -> tuple[Floats, Flags]:
    """Return the p-values of simulated upgrades on a suite, and whether ``DETECT`` is ruled out.

    :param churn: share of the items that are gained, and as many are lost, besides the drop.
    """
    clusters, size, icc = SUITES[suite]
    counts = draw(rng, upgrades, clusters, size, [churn + drop, churn, 1 - 2 * churn - drop], icc)
    lost, gained = counts[..., 0], counts[..., 1]
    return regression_p(lost, gained, size), below(lost, gained, size, DETECT) <= 1 - CONFIDENCE


def decisions(
    rng: np.random.Generator, one: tuple[Floats, Flags], others: tuple[Floats, Flags], rules: int
) -> str:
    """Return the shares of gates that pass, fail, and are inconclusive, in percent: ``97/3/0``.

    :param one: :func:`outcomes` of one rule. :param others: of the other rules, whose models are unchanged.
    """
    p, ruled_out = one
    chosen = rng.integers(0, len(others[0]), size=(len(p), rules - 1))
    p = np.minimum(p, others[0][chosen].min(axis=1, initial=1.0))
    # Holm's method rejects some rule if and only if the smallest p-value is at most alpha / rules.
    failed = p <= ALPHA / rules
    passed = ~failed & ruled_out & others[1][chosen].all(axis=1)
    rates = passed.mean(), failed.mean(), (~failed & ~passed).mean()
    return "/".join(f"{100 * rate:.0f}" for rate in rates)


def decision_rows(upgrades: int) -> Iterator[list[str]]:
    """Yield the rows of the table of decisions."""
    yield [
        "each rule is on", "churn",
        "unchanged", *(f"{rules} rules" for rules in SEVERAL),
        *(f"−{100 * drop:.0f}" for drop in DROPS), *(f"−10, {rules} rules" for rules in SEVERAL),
    ]  # fmt: skip
    for suite, churn in itertools.product(SUITES, CHURN):
        rng = np.random.default_rng([*map(int, suite.encode()), round(100 * churn)])
        same = outcomes(rng, upgrades, suite, churn, 0.0)
        worse = [outcomes(rng, upgrades, suite, churn, drop) for drop in DROPS]
        yield [
            suite,
            f"{100 * churn:.0f}%",
            *(decisions(rng, same, same, rules) for rules in (1, *SEVERAL)),
            *(decisions(rng, one, same, 1) for one in worse),
            *(decisions(rng, worse[-1], same, rules) for rules in SEVERAL),
        ]


# ---- the table of stated and measured rates

Rate = Callable[[np.random.Generator, int, int, int, float], Iterator[float]]


def _pairs(
    rng: np.random.Generator, upgrades: int, n: int, size: int, icc: float, drop: float, gain: float
) -> Counts:
    return draw(rng, upgrades, n // size, size, [gain + drop, gain, 1 - 2 * gain - drop], icc)


def min_accuracy(rng: np.random.Generator, upgrades: int, n: int, size: int, icc: float) -> Iterator[float]:
    """Yield the rates of acceptance at a true accuracy of exactly ``min_accuracy``."""
    for limit in ACCURACIES:
        right = draw(rng, upgrades, n // size, size, [limit, 1 - limit], icc)[..., 0]
        yield float(accuracy_met(right, size, limit).mean())


def max_drop(rng: np.random.Generator, upgrades: int, n: int, size: int, icc: float) -> Iterator[float]:
    """Yield the rates of acceptance at a true drop of exactly ``max_drop``."""
    for margin, gain in itertools.product(MARGINS, GAINS):
        counts = _pairs(rng, upgrades, n, size, icc, margin, gain)
        yield float(drop_met(counts[..., 0], counts[..., 1], size, margin).mean())


def no_regression(rng: np.random.Generator, upgrades: int, n: int, size: int, icc: float) -> Iterator[float]:
    """Yield the rates of acceptance at a true drop of exactly ``detect``."""
    for gain in GAINS:
        counts = _pairs(rng, upgrades, n, size, icc, DETECT, gain)
        yield float(regression_met(counts[..., 0], counts[..., 1], size).mean())


def false_alarm(rng: np.random.Generator, upgrades: int, n: int, size: int, icc: float) -> Iterator[float]:
    """Yield the rates of a failed ``no_regression`` where both models are equally good."""
    for gain in GAINS[1:]:
        counts = _pairs(rng, upgrades, n, size, icc, 0.0, gain)
        yield float((regression_p(counts[..., 0], counts[..., 1], size) <= ALPHA).mean())


#: rule, stated rate, measured rate, numbers of items
RULES: list[tuple[str, float, Rate, Sequence[int]]] = [
    ("`min_accuracy`, accepted at the limit", ALPHA / 2, min_accuracy, ITEMS),
    ("`max_drop`, accepted at the limit", ALPHA / 2, max_drop, ITEMS),
    ("`no_regression`, accepted at a drop of `detect`", 1 - CONFIDENCE, no_regression, ITEMS),
    ("`no_regression`, failed though equally good", ALPHA, false_alarm, ITEMS),
]


def worst(rate: Rate, upgrades: int, items: Sequence[int], size: int, icc: float, seed: int = 0) -> float:
    """Return the largest rate over numbers of items that make at least two clusters."""
    rng = np.random.default_rng([seed, size, round(100 * icc)])
    chosen = [n for n in items if size == 1 or (n in CLUSTERED and n >= 2 * size)]
    return max(value for n in chosen for value in rate(rng, upgrades, n, size, icc))


def main() -> None:
    """Print the tables."""
    options = parsed(__doc__, upgrades=(5000, "simulated upgrades per rate (default: 5000)"))
    for number, row in enumerate(decision_rows(options.upgrades)):
        print("| " + " | ".join(row) + " |" + ("" if number else "\n" + "|---" * len(row) + "|"), flush=True)
    print()
    heads = ["1" if size == 1 else f"{size}, ICC {icc:g}" for size, icc in SHAPES]
    print("| rule | stated | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 2) + "|")
    for name, stated, rate, items in RULES:
        cells = [f"{100 * worst(rate, options.upgrades, items, size, icc):.1f}%" for size, icc in SHAPES]
        print(f"| {name} | {100 * stated:g}% | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
