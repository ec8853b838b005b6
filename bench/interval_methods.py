"""Compare intervals of an accuracy over few clusters, and of a drop: stated against measured rates, and widths.

    python -m bench.interval_methods                   # a few minutes on one core
    python -m bench.interval_methods --samples 500     # a quick look

A method misses if its lower limit is above the true accuracy; that is when ``min_accuracy`` accepts at its limit. For
drops, all outcomes are enumerated, so that the rates are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import multinomial, t
from statsmodels.stats.proportion import proportion_confint

from bench.process import parsed
from pytest_llmprops.statistics.bounded_mean import mean_p_value

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: error rate of one side of a 95% interval
TAIL = 0.025
SIZE = 20
CLUSTERS = (5, 10, 20, 39)
ACCURACIES = (0.8, 0.9, 0.95)
ITEMS = (30, 42, 54, 75, 100, 137)
MARGINS = (0.02, 0.05, 0.10, 0.15, 0.3)
GAINS = (0.0, 0.02, 0.06)
_BOOTSTRAPS = 1000


def shares(
    rng: np.random.Generator, samples: int, clusters: int, means: Sequence[float], icc: float
) -> Floats:
    """Return the shares of outcomes in each cluster, shape (samples, clusters, outcomes).

    They have a Dirichlet distribution with these means and this intraclass correlation.
    """
    if icc >= 1:
        return np.eye(len(means))[rng.choice(len(means), p=means, size=(samples, clusters))]
    if icc <= 0:
        return np.broadcast_to(np.asarray(means, float), (samples, clusters, len(means)))
    # One marginal after the other: for a high correlation, gamma variables would all be 0.
    scale, left = (1 - icc) / icc, np.ones((samples, clusters))
    columns = []
    for n, mean in enumerate(means[:-1]):
        rest = sum(means[n + 1 :])
        share = rng.beta(scale * mean, scale * rest, left.shape) if mean > 0 else np.zeros_like(left)
        columns.append(left * share)
        left = left * (1 - share)
    return np.stack([*columns, left], axis=-1)


def draw(
    rng: np.random.Generator, samples: int, clusters: int, size: int, means: Sequence[float], icc: float
) -> Counts:
    """Return how many items of each cluster have each outcome, shape (samples, clusters, outcomes)."""
    return rng.multinomial(size, shares(rng, samples, clusters, means, icc))


# ---- methods: whether the lower limit of an accuracy reaches a limit, given cluster means of shape (samples, clusters)


def student(means: Floats, limit: float) -> Flags:
    """Student's t interval of the cluster means."""
    count = means.shape[1]
    half = t.isf(TAIL, count - 1) * means.std(axis=1, ddof=1) / np.sqrt(count)
    return np.asarray(means.mean(axis=1) - half >= limit)


def wilson(means: Floats, limit: float) -> Flags:
    """Wilson's interval with as many independent items as give the variance of the cluster means."""
    count = means.shape[1]
    p, variance = means.mean(axis=1), means.var(axis=1, ddof=1) / count
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.where(variance > 0, p * (1 - p) / variance, np.inf)
    n = np.minimum(n, count * SIZE)
    return np.asarray(proportion_confint(p * n, n, method="wilson")[0] >= limit)


def bootstrap(means: Floats, limit: float) -> Flags:
    """Percentile interval of a bootstrap of clusters."""
    count = means.shape[1]
    weights = np.random.default_rng(0).multinomial(count, [1 / count] * count, size=_BOOTSTRAPS) / count
    return np.asarray((weights @ means.T < limit).mean(axis=0) <= TAIL)


def betting(means: Floats, limit: float) -> Flags:
    """Bound by betting for a fixed number of clusters (Waudby-Smith & Ramdas 2024, section 4.2), one side."""
    count = means.shape[1]
    number = np.arange(count)
    before = np.cumsum(means, axis=1) - means
    squares = (means - (before + means + 0.5) / (number + 2)) ** 2
    variance = (0.25 + np.cumsum(squares, axis=1) - squares) / (number + 1)
    stakes = np.minimum(np.sqrt(2 * np.log(1 / TAIL) / (count * variance)), 0.75 / limit)
    capital = np.cumsum(np.log1p(stakes * (means - limit)), axis=1)
    return np.asarray(capital.max(axis=1) >= np.log(1 / TAIL))


def gaffke(means: Floats, limit: float) -> Flags:
    """Gaffke's limit, which gates and summaries use."""
    return mean_p_value(means, 1.0, limit, least=0) <= TAIL


METHODS: dict[str, Callable[[Floats, float], Flags]] = {
    "Student's t": student,
    "Wilson, effective size": wilson,
    "bootstrap of clusters": bootstrap,
    "betting": betting,
    "Gaffke (used)": gaffke,
}


def samples_of(
    rng: np.random.Generator, samples: int, clusters: int, accuracy: float, icc: float | None
) -> Floats:
    """Return cluster means; without an ICC, clusters fail wholly, and the others are right but for one item in 100."""
    if icc is None:
        right = np.where(rng.random((samples, clusters)) < 1 - accuracy, 0.0, 0.99)
        return rng.binomial(SIZE, right) / SIZE
    return draw(rng, samples, clusters, SIZE, [accuracy, 1 - accuracy], icc)[..., 0] / SIZE


def distance(method: Callable[[Floats, float], Flags], means: Floats) -> float:
    """Return the mean distance from the estimate to the lower limit, by bisection for each sample."""
    distances = []
    for row in means:
        low, high = 1e-6, 1 - 1e-6
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if method(row[None], middle)[0] else (low, middle)
        distances.append(row.mean() - low)
    return float(np.mean(distances))


def accuracy_table(samples: int) -> None:
    """Print the rates and widths of the intervals of an accuracy."""
    heads = [f"{count} clusters" for count in CLUSTERS]
    print(f"| lower limit, stated 2.5% | {' | '.join(heads)} | points below the estimate: 10 | 39 clusters |")
    print("|---" * (len(heads) + 3) + "|")
    for name, method in METHODS.items():
        rng, cells = np.random.default_rng(1), []
        for count in CLUSTERS:
            rates = []
            for icc in (0.1, 0.3, 0.9, None):
                for accuracy in ACCURACIES:
                    true = accuracy * (0.99 if icc is None else 1)
                    rates.append(method(samples_of(rng, samples, count, accuracy, icc), true).mean())
            cells.append(f"{100 * max(rates):.1f}%")
        for count in (10, 39):
            sample = samples_of(np.random.default_rng(2), 100, count, 0.9, 0.3)
            cells.append(f"{100 * distance(method, sample):.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


# ---- drops of independent pairs


def bonett_price(lost: Counts, gained: Counts, n: int, drop: float) -> Flags:
    """Adjusted Wald interval of Bonett & Price (2012)."""
    more, less = (lost + 1) / (n + 2), (gained + 1) / (n + 2)
    half = 1.959964 * np.sqrt((more + less - (more - less) ** 2) / (n + 2))
    return np.asarray(more - less + half <= drop)


def tango(lost: Counts, gained: Counts, n: int, drop: float) -> Flags:
    """Score interval of Tango (1998)."""
    linear = (2 * n - lost + gained) * drop - lost - gained
    root = np.sqrt(linear**2 + 8 * n * gained * drop * (1 - drop))
    share = (root - linear) / (4 * n)
    return np.asarray((lost - gained - n * drop) / np.sqrt(n * (2 * share + drop * (1 - drop))) <= -1.959964)


def gaffke_drop(lost: Counts, gained: Counts, n: int, drop: float) -> Flags:
    """Gaffke's limit, which gates use."""
    counts = np.stack([lost, gained, n - lost - gained], axis=-1)
    return mean_p_value([-1.0, 1.0, 0.0], 1.0, -drop, least=-1, counts=counts) <= TAIL


DROPS: dict[str, Callable[[Counts, Counts, int, float], Flags]] = {
    "Bonett-Price (before)": bonett_price,
    "Tango's score": tango,
    "Gaffke (used)": gaffke_drop,
}


def drop_table() -> None:
    """Print the exact rates at which an upper limit of a drop reaches the true drop, and how often no drop passes."""
    heads = [f"{100 * gain:g}% gained" for gain in GAINS]
    print(f"\n| upper limit, stated 2.5% | {' | '.join(heads)} | equal models accepted: n = 100, 2% | 6% |")
    print("|---" * (len(heads) + 3) + "|")
    for name, method in DROPS.items():
        cells = []
        for gain in GAINS:
            rates = []
            for n in ITEMS:
                for margin in MARGINS:
                    rates.append(_exact(method, n, margin, [gain + margin, gain]))
            cells.append(f"{100 * max(rates):.1f}%")
        cells += [f"{100 * _exact(method, 100, 0.05, [churn, churn]):.0f}%" for churn in (0.02, 0.06)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _exact(
    method: Callable[[Counts, Counts, int, float], Flags], n: int, margin: float, rates: Sequence[float]
) -> float:
    lost, gained = np.divmod(np.arange((n + 1) ** 2), n + 1)
    possible = lost + gained <= n
    lost, gained = lost[possible], gained[possible]
    weights = multinomial.pmf(
        np.stack([lost, gained, n - lost - gained], axis=-1), n, [*rates, 1 - sum(rates)]
    )
    likely = weights > 1e-9
    return float(weights[likely][method(lost[likely], gained[likely], n, margin)].sum())


def main() -> None:
    """Print both tables."""
    options = parsed(__doc__, samples=(5000, "samples per rate (default: 5000)"))
    accuracy_table(options.samples)
    drop_table()


if __name__ == "__main__":
    main()
