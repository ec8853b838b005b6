"""Measure what gates decide: table of bench/README.md.

    python -m bench.gate_rates                      # about half an hour on one core
    python -m bench.gate_rates --upgrades 100       # a quick look

Runs are simulated and judged by the code of ``llmprops gate``, on verdicts as records have them. An unchanged model
loses a share of the items between two runs, the *churn*, and gains as many. A model that is worse by some points also
loses that share of the items; in clusters, the share varies (beta distribution with an intraclass correlation of 0.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.process import parsed
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import run_metadata
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.runs.gate.decide import decide
from pytest_llmprops.runs.gate.file import Gate, Rule
from pytest_llmprops.runs.reader import Run

CORRELATION = 0.2
#: share of the items that the baseline has right
ACCURACY = 0.8
CHURN = (0.0, 0.03, 0.06, 0.12)
DROPS = (0.0, 0.01, 0.02, 0.05, 0.10)


class Setup(NamedTuple):
    """The items of a gate: clusters of equal size, in equal parts for each rule."""

    name: str
    clusters: int
    size: int = 1
    repeats: int = 1
    rules: int = 1

    @property
    def items(self) -> int:
        """Number of items."""
        return self.clusters * self.size


SETUPS = (
    Setup("100 items", 100),
    Setup("300 items", 300),
    Setup("633 items", 633),
    Setup("633 items, 3 repeats", 633, repeats=3),
    Setup("2,000 items", 2000),
    Setup("2,633 items, 2 rules", 2633, rules=2),
    Setup("39 clusters of 20", 39, 20),
    Setup("10 rules of 200 items", 2000, rules=10),
    Setup("20 rules of 100 items", 2000, rules=20),
)


def gate_of(setup: Setup, margin: float) -> Gate:
    """Return a gate with ``max_drop`` on each part of the items."""
    rules = (Rule(f"t{n}", {"task": f"t{n}"}, max_drop=margin) for n in range(setup.rules))
    return Gate(tuple(rules), file="gate.toml")


def runs(
    rng: np.random.Generator, setup: Setup, churn: float, drop: float
) -> tuple[list[VerdictRecord], list[VerdictRecord]]:
    """Return the verdicts of a baseline, and of a candidate with this true drop."""
    shape = (setup.items, setup.repeats)
    lose = np.full(setup.clusters, drop)
    if drop and setup.size > 1:
        scale = (1 - CORRELATION) / CORRELATION
        lose = rng.beta(scale * drop, scale * (1 - drop), setup.clusters)
    right = np.broadcast_to((rng.random(setup.items) < ACCURACY)[:, None], shape)
    # Losses are among the right items and gains among the wrong ones, so that their shares are of all items.
    is_lost = rng.random((setup.items, 1)) < np.repeat(lose, setup.size)[:, None] / ACCURACY
    flips = rng.random(shape) < np.where(right, churn / ACCURACY, churn / (1 - ACCURACY))
    candidate = (right & ~is_lost) ^ (flips & ~is_lost)
    return _verdicts("old", setup, right), _verdicts("new", setup, candidate)


def _verdicts(model: str, setup: Setup, right: np.ndarray) -> list[VerdictRecord]:
    return [
        VerdictRecord(
            model, "sums", f"t{n * setup.rules // setup.items}", "en", "builtin", f"sums/{n}",
            f"c{n // setup.size}", "correct" if is_right else "wrong", float(is_right), "", "", "", {}, (),
            sample=sample,
        )
        for n, samples in enumerate(right.tolist())
        for sample, is_right in enumerate(samples)
    ]  # fmt: skip


def decisions(
    setup: Setup, churn: float, drop: float, upgrades: int, margin: float = 0.05
) -> Iterator[GateResult]:
    """Yield the decisions on simulated upgrades."""
    rng = np.random.default_rng(
        [setup.items, setup.repeats, setup.rules, round(1000 * churn), round(1000 * drop)]
    )
    gate = gate_of(setup, margin)
    facts = [
        run_metadata({"complete": True, "started": started, "models": {model: {}}}, f"run-{model}")
        for model, started in (("new", "2026-01-02"), ("old", "2026-01-01"))
    ]
    for _ in range(upgrades):
        old, new = runs(rng, setup, churn, drop)
        yield decide(gate, facts[0], new, Run(Path("run-old"), facts[1], tuple(old)))


def rates(results: Iterator[GateResult]) -> tuple[float, float, float]:
    """Return the shares of decisions that pass and fail, and of those that call a part worse or better."""
    decided = [(r.decision, any(c.word in ("worse", "better") for c in r.changes)) for r in results]
    passed, failed = (sum(decision == word for decision, _ in decided) for word in ("pass", "fail"))
    return passed / len(decided), failed / len(decided), sum(called for _, called in decided) / len(decided)


def main() -> None:
    """Print the table."""
    options = parsed(__doc__, upgrades=(400, "simulated upgrades per rate (default: 400)"))
    drops = (f"−{100 * drop:g}" for drop in DROPS[1:])
    heads = ["items", "churn", "unchanged", *drops, "called though unchanged"]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|", flush=True)
    for setup in SETUPS:
        for churn in CHURN:
            row = [rates(decisions(setup, churn, drop, options.upgrades)) for drop in DROPS]
            cells = [f"{100 * passed:.0f}/{100 * failed:.0f}" for passed, failed, _ in row]
            called = f"{100 * row[0][2]:.1f}%"
            print(f"| {setup.name} | {100 * churn:.0f}% | {' | '.join(cells)} | {called} |", flush=True)


if __name__ == "__main__":
    main()
