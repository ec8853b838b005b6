"""Measure the calls that a sequential gate saves, and how often it decides wrongly: tables of docs/gate-statistics.md.

    python -m bench.sequential_gate                     # a few minutes on two cores
    python -m bench.sequential_gate --upgrades 50       # a quick look

Upgrades are simulated: for each item, baseline and candidate are both right or both wrong, or only one of them is
right. The gate's own code decides after every block, as in a run.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter
from typing import Any

from bench.process import parsed
from pytest_llmprops.runs.gate.decide import settled
from tests.support.gates import DrawnRun, gate_of
from tests.support.recorded import verdicts

#: CHURN: share of items that the candidate gains (and loses) even without a drop
CHURN, WRONG_IN_BOTH = 0.03, 0.07
MARGIN = 0.10
GATES: dict[str, dict[str, Any]] = {
    "max_drop": {"max_drop": MARGIN},
    "no_regression": {"no_regression": True, "detect": MARGIN},
}


def upgrade(gate: Any, drop: float, items: int, seed: int, blocks: int) -> tuple[str, int]:
    """Simulate one upgrade; return the decision and the number of items measured."""
    rng = random.Random(f"{drop} {items} {seed}")
    lost, gained = CHURN + max(drop, 0.0), CHURN + max(-drop, 0.0)
    weights = [1 - lost - gained - WRONG_IN_BOTH, lost, gained, WRONG_IN_BOTH]
    kinds = rng.choices("blgn", weights, k=items)
    old = "".join("c" if kind in "bl" else "w" for kind in kinds)
    new = "".join("c" if kind in "bg" else "w" for kind in kinds)
    run = DrawnRun(gate, verdicts(new, model="new"), verdicts(old), seed=seed)
    step = max(16, -(-items // blocks))
    for drawn in [*range(step, items, step), items]:
        result = run.after(drawn)
        if settled(result):
            break
    return result.decision, drawn


def main() -> None:
    """Print one table per gate."""
    options = parsed(
        __doc__,
        upgrades=(400, "simulated upgrades per row (default: 400)"),
        blocks=(16, "maximum number of looks per run (default: 16)"),
        items=([200, 1000], "items of the full run"),
    )
    for name, rule in GATES.items():
        gate = gate_of(rule, sequential=True)
        print(f"\n`{name}`, margin {100 * MARGIN:g} points, {options.upgrades} upgrades per row\n")
        print("| items | true drop | accepted | refused | undecided | calls: median | 90% |")
        print("|---|---|---|---|---|---|---|")
        for items in options.items:
            for drop in (-0.05, 0.0, 0.05, MARGIN, 0.15, 0.20, 0.30):
                results = [
                    upgrade(gate, drop, items, seed, options.blocks) for seed in range(options.upgrades)
                ]
                shares = Counter(decision for decision, _ in results)
                rates = [f"{100 * shares[d] / len(results):.1f}%" for d in ("pass", "fail", "inconclusive")]
                used = sorted(calls for _, calls in results)
                ninetieth = used[int(0.9 * (len(used) - 1))]
                row = [items, f"{100 * drop:+.0f}", *rates, f"{statistics.median(used):g}", ninetieth]
                print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
