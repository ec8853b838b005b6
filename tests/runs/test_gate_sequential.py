"""Gates that stop early: the drawing order, bounds that never contradict the full run, and error rates."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, product
from typing import Any

import pytest
from scipy.stats import binomtest

from pytest_llmprops.core.comparison import CONFIDENCE
from pytest_llmprops.core.paired import Pairs, drop_test, mcnemar_drop
from pytest_llmprops.runs.gate import checks, sequential
from pytest_llmprops.runs.gate.checks import Answer
from pytest_llmprops.runs.gate.decide import decide, rule_open, settled
from pytest_llmprops.runs.gate.file import Rule
from pytest_llmprops.runs.gate.sequential import Population, blocks, draw_key, plan_of
from tests.support.gates import DrawnRun, Records, baseline_of, facts_of, gate_of
from tests.support.recorded import verdict, verdicts

#: upgrades per error rate; a rate that is twice as high as stated is found with a probability above 0.999
SIMULATED = 1000


def letters(rng: random.Random, weights: Mapping[str, float], n: int) -> str:
    """Return ``n`` letters drawn with these weights."""
    return "".join(rng.choices(list(weights), list(weights.values()), k=n))


def pairs_as_runs(kinds: Sequence[str]) -> tuple[Records, Records]:
    """Return (candidate's, baseline's) records; each letter means both, lost, gained or neither."""
    old = "".join("c" if kind in "bl" else "w" for kind in kinds)
    new = "".join("c" if kind in "bg" else "w" for kind in kinds)
    return verdicts(new, model="new"), verdicts(old)


# ---- drawing


def places_of(**sizes: int) -> Records:
    """Return cases in file order, with this number per task."""
    return [verdict(f"{task}/{n:04d}", task=task) for task, size in sizes.items() for n in range(size)]


PLACES = places_of(large=300, middle=120, small=35, unruled=20)
GATE = gate_of(*({"task": task, "min_accuracy": 0.5} for task in ("large", "middle", "small")))


@pytest.mark.parametrize("concurrency", [1, 16, 64, 1000])
def test_blocks_hold_every_case_once_in_file_order(concurrency: int) -> None:
    """Every block fills the concurrency; cases without a rule come last, in a separate block."""
    drawn_blocks = blocks(GATE, PLACES, concurrency=concurrency, seed=3)
    assert sorted(p for block in drawn_blocks for p in block) == list(range(len(PLACES)))
    assert all(block == sorted(block) for block in drawn_blocks)
    drawn = sum(map(len, drawn_blocks[:-1]))
    assert all(len(block) >= min(max(concurrency, 16), drawn) for block in drawn_blocks[:-1])
    assert {PLACES[p].task for p in drawn_blocks[-1]} == {"unruled"}
    assert len(drawn_blocks) <= 42


@pytest.mark.parametrize("seed", range(5))
def test_blocks_are_stratified_by_rule(seed: int) -> None:
    """Each block, and all blocks so far, contain each rule's share to within one item."""
    drawn_blocks = blocks(GATE, PLACES, concurrency=16, seed=seed)[:-1]
    sizes = Counter(p.task for p in PLACES if p.task != "unruled")
    drawn: Counter[str] = Counter()
    for block in drawn_blocks:
        here = Counter(PLACES[p].task for p in block)
        drawn.update(here)
        for task, size in sizes.items():
            share = size / sum(sizes.values())
            assert abs(drawn[task] - share * drawn.total()) <= 1
            assert abs(here[task] - share * len(block)) <= 1.5


def test_a_rule_is_drawn_as_a_prefix_of_its_shuffle() -> None:
    """After any block, the items drawn are the first in the order of the keys, whatever the order in the file."""
    order = sorted((p.id for p in PLACES if p.task == "large"), key=lambda i: draw_key(3, i))
    shuffled = random.Random(0).sample(PLACES, len(PLACES))
    for places in (PLACES, shuffled):
        drawn: list[str] = []
        for block in blocks(GATE, places, concurrency=20, seed=3):
            drawn += [places[p].id for p in block if places[p].task == "large"]
            assert set(drawn) == set(order[: len(drawn)])
    other = blocks(GATE, PLACES, concurrency=20, seed=4)
    assert other != blocks(GATE, PLACES, concurrency=20, seed=3)


def test_the_order_of_drawing_is_the_same_in_every_process() -> None:
    """Workers draw the same items although their string hashes differ: the keys do not depend on the process."""
    assert draw_key(7, "htest/0").hex() == "e88c36611d2bb6c55d241da6cd2e97bfcaaf4e338fd1b13877013829ab8f935d"


def test_items_of_a_metric_rule_count_with_their_other_rule() -> None:
    """A metric rule draws only the items that no other rule draws."""
    gate = gate_of({"metric": "rate", "min": 0.1}, {"task": "large", "min_accuracy": 0.5})
    drawn_blocks = blocks(gate, places_of(large=100, other=100), concurrency=20, seed=0)
    assert all(abs(sum(p < 100 for p in block) - 10) <= 1 for block in drawn_blocks)


def test_the_order_of_arrival_does_not_matter() -> None:
    """Records that arrive in any order give the same decision, because they are sorted by drawing order."""
    rng = random.Random(5)
    ours, theirs = pairs_as_runs(letters(rng, {"b": 80, "l": 6, "g": 6, "n": 8}, 200))
    run = DrawnRun(gate_of({"max_drop": 0.1, "min_accuracy": 0.5}, sequential=True), ours, theirs)
    first = run.after(120)
    for _ in range(3):
        assert run.after(rng.sample(run.order[:120], 120)) == first


# ---- bounds against every completion

SURE = 1e-12
ALPHA = 0.05


def answers_of(letters_: Sequence[str], clusters: Sequence[str]) -> list[Answer]:
    """Return one answer per letter: correct, wrong, refused."""
    return [
        Answer(str(n), cluster, float(letter in "c"), float(letter == "r"), 0.0)
        for n, (letter, cluster) in enumerate(zip(letters_, clusters, strict=True))
    ]


def scores_of(kinds: Sequence[str], clusters: Sequence[str]) -> Pairs:
    """Return one pair per letter: both, lost, gained, neither."""
    return Pairs(
        tuple(float(k in "bl") for k in kinds), tuple(float(k in "bg") for k in kinds), tuple(clusters)
    )


def early_verdict(rule: Rule, drawn: Sequence[str], clusters: Sequence[str], error_rate: float = SURE) -> str:
    """Return the verdict on the letters drawn so far."""
    population, known = Population.of(clusters), clusters[: len(drawn)]
    if rule.min_accuracy is not None:
        return sequential.accuracy(rule, answers_of(drawn, known), population, error_rate).verdict
    if rule.max_refused is not None:
        return sequential.share(rule, "refused", answers_of(drawn, known), population, error_rate).verdict
    pairs = scores_of(drawn, known)
    if rule.max_drop is not None:
        return sequential.max_drop(rule, pairs, population, error_rate).verdict
    return sequential.no_regression(rule, pairs, population, error_rate, alpha=rule.alpha, tests=1).verdict


def full_verdict(rule: Rule, drawn: Sequence[str], clusters: Sequence[str]) -> str:
    """Return the verdict of the full run."""
    if rule.min_accuracy is not None:
        return checks.accuracy(rule, answers_of(drawn, clusters)).verdict
    if rule.max_refused is not None:
        return checks.share(rule, "refused", answers_of(drawn, clusters)).verdict
    pairs = scores_of(drawn, clusters)
    if rule.max_drop is not None:
        return checks.max_drop(rule, pairs).verdict
    return checks.no_regression(rule, pairs, drop_test(pairs), alpha=rule.alpha, tests=1).verdict


ANSWERS, KINDS = {"c": 6, "w": 3, "r": 1}, {"b": 6, "l": 3, "g": 1, "n": 1}


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize(
    ("keys", "weights"),
    [
        ({"min_accuracy": 0.5}, ANSWERS),
        ({"min_accuracy": 0.7, "basis": "point"}, ANSWERS),
        ({"max_refused": 0.1}, ANSWERS),
        ({"max_drop": 0.2}, KINDS),
        ({"no_regression": True, "detect": 0.3}, KINDS),
        ({"no_regression": True, "detect": 0.15}, {"b": 10, "l": 2, "g": 1, "n": 1}),
    ],
)
def test_what_is_settled_holds_for_every_completion(
    keys: dict[str, Any], weights: Mapping[str, float], clustered: bool
) -> None:
    """With certain bounds, no outcome of the remaining items changes an early verdict, and such verdicts occur."""
    rng = random.Random(11)
    rule = Rule("rule", {}, **{"alpha": ALPHA, **keys})
    verdict_counts = Counter[str]()
    for _ in range(24 if clustered else 50):
        n, left = (2 * rng.randint(40, 60), 2) if clustered else (rng.randint(40, 60), 3)
        shift = {k: w * rng.choice((0.2, 1, 4)) for k, w in weights.items()}
        drawn = letters(rng, shift, n - left)
        clusters = [f"c{m % (n // 2) if clustered else m}" for m in range(n)]
        verdict_ = early_verdict(rule, drawn, clusters)
        verdict_counts[verdict_] += 1
        if verdict_ != "inconclusive":
            # The order of independent items does not matter.
            for rest in (
                product(weights, repeat=left) if clustered else combinations_with_replacement(weights, left)
            ):
                assert full_verdict(rule, [*drawn, *rest], clusters) == verdict_, (drawn, rest, clusters)
    assert verdict_counts["failed"] >= 2
    # With clusters, the test's p-value has no lower bound, so only the full run can pass such a rule.
    assert verdict_counts["met"] >= 2 or (
        clustered and keys.get("no_regression") and not verdict_counts["met"]
    )


# ---- error rates


@dataclass(frozen=True)
class Looks:
    """The verdicts of a sequential gate of one rule at three looks, on the items in the order drawn.

    :param rule: with the alpha of the full test.
    :param judged: verdicts of full runs. They depend on the numbers of correct, lost and gained items alone, because
        items are independent; the sequence of draws matters for early verdicts only.
    """

    rule: Rule
    judged: dict[tuple[int, ...], str] = field(default_factory=dict)

    def at(self, drawn: Sequence[str], items: int) -> str:
        """Return the verdict after these of ``items`` items, each in a separate cluster."""
        clusters = [str(n) for n in range(items)]
        if len(drawn) < items:
            return early_verdict(self.rule, drawn, clusters, ALPHA / 2)
        counts = (items, *map(Counter(drawn).__getitem__, "clg"))
        if counts not in self.judged:
            self.judged[counts] = full_verdict(self.rule, drawn, clusters)
        return self.judged[counts]

    def accept(self, kinds: Sequence[str], limit: float) -> bool:
        """Return True if the gate accepts, early or at the end.

        Looks at which the items drawn exceed the limit are skipped: none could accept, and a refusal ends the run.
        """
        for third in (1, 2, 3):
            drawn = kinds[: len(kinds) * third // 3]
            counts = Counter(drawn)
            if self.rule.min_accuracy is not None:
                beyond = counts["c"] / len(drawn) < limit
            else:
                beyond = (counts["l"] - counts["g"]) / len(drawn) > limit + 1e-12
            if not beyond and (verdict_ := self.at(drawn, len(kinds))) != "inconclusive":
                return verdict_ == "met"
        return False


DROP = Looks(Rule("rule", {}, max_drop=0.1))
ACCURACY = Looks(Rule("rule", {}, min_accuracy=0.8))
REGRESSION = Looks(Rule("rule", {}, no_regression=True, detect=0.1, alpha=ALPHA / 2))
UPGRADES = {"b": 70, "l": 16, "g": 6, "n": 8}


@pytest.mark.parametrize(
    ("looks", "weights", "keys"),
    [
        (DROP, UPGRADES, {"max_drop": 0.1}),
        (DROP, {"b": 88, "l": 4, "g": 4, "n": 4}, {"max_drop": 0.1}),
        (ACCURACY, {"c": 62, "w": 38}, {"min_accuracy": 0.8}),
        (ACCURACY, {"c": 95, "w": 5}, {"min_accuracy": 0.8}),
        (REGRESSION, {"b": 74, "l": 12, "g": 2, "n": 12}, {"no_regression": True, "detect": 0.1}),
        (REGRESSION, {"b": 90, "l": 1, "g": 6, "n": 3}, {"no_regression": True, "detect": 0.1}),
    ],
)
def test_simulated_verdicts_match_the_gate(
    looks: Looks, weights: dict[str, float], keys: dict[str, Any]
) -> None:
    """At every look, a whole gate on recorded runs gives the same verdict as the simulation of its error rate."""
    rng = random.Random(24)
    gate = gate_of(keys, sequential=True)
    seen = Counter[str]()
    for seed in range(12):
        kinds = letters(rng, weights, 120)
        pair = (verdicts(kinds, model="new"), None) if looks is ACCURACY else pairs_as_runs(kinds)
        run = DrawnRun(gate, *pair, seed=seed)
        in_order = [kinds[int(record.id.rpartition("/")[2])] for record in run.order]
        for drawn in (40, 80, 120):
            verdict_ = looks.at(in_order[:drawn], 120)
            assert [rule.verdict for rule in run.after(drawn).rules] == [verdict_]
            seen[verdict_] += 1
    assert len(seen) > 1


def not_above(count: int, rate: float, simulated: int = SIMULATED) -> None:
    """Assert that ``count`` of the simulated upgrades is consistent with the stated rate."""
    print(f"false accepts: {count} of {simulated}, stated {rate:.3f}")
    assert binomtest(count, simulated, rate, alternative="greater").pvalue > 0.01


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("looks", "seed", "weights", "items", "limit", "rate"),
    [
        (DROP, 21, UPGRADES, 120, 0.1, ALPHA),
        (ACCURACY, 22, {"c": 80, "w": 20}, 120, 0.8, ALPHA),
        # alpha / 2 is for early stopping
        (REGRESSION, 23, {"b": 74, "l": 12, "g": 2, "n": 12}, 110, 0.1, 1 - CONFIDENCE + ALPHA / 2),
    ],
    ids=["largest drop", "least accuracy", "drop to detect"],
)
def test_false_accepts_at_the_limit(
    looks: Looks, seed: int, weights: Mapping[str, float], items: int, limit: float, rate: float
) -> None:
    """Of 1,000 upgrades exactly at the limit, each on new items, at most the stated rate is accepted."""
    rng = random.Random(seed)
    count = sum(looks.accept(letters(rng, weights, items), limit) for _ in range(SIMULATED))
    assert count > 0
    not_above(count, rate)


def calls(weights: Mapping[str, float], gate: Any, items: int, seed: int, *, block: int = 20) -> int:
    """Return the number of items measured until the gate was settled."""
    run = DrawnRun(gate, *pairs_as_runs(letters(random.Random(seed), weights, items)), seed=seed)
    return next((n for n in range(block, items, block) if settled(run.after(n))), items)


@pytest.mark.parametrize(
    "keys", [{"max_drop": 0.1}, {"no_regression": True}, {"max_drop": 0.1, "min_accuracy": 0.6}]
)
@pytest.mark.parametrize(
    "weights", [{"b": 93, "l": 1, "g": 3, "n": 3}, {"b": 50, "l": 35, "g": 2, "n": 13}], ids=["pass", "fail"]
)
def test_clear_cases_take_less_than_half_of_the_calls(
    keys: dict[str, Any], weights: Mapping[str, float]
) -> None:
    """400 items that are clearly better or clearly worse need less than half of the calls (median of 5 upgrades)."""
    gate = gate_of(keys, sequential=True)
    taken = [calls(weights, gate, 400, seed) for seed in range(5)]
    assert statistics.median(taken) < 200


# ---- plans and decisions


def test_the_plan_counts_items_and_pairs() -> None:
    """Items without an answer in the baseline are not pairs; the plan knows them in advance."""
    ours = verdicts("c" * 60, model="new")
    theirs = [*verdicts("c" * 50 + "e" * 5), verdict("9999")]
    plan = plan_of(gate_of({"max_drop": 0.1}), ours, theirs, 0).rules["rule 1"]
    assert (plan.items, plan.pairs, plan.effective) == (60, 50, 60)
    assert {what: len(ids) for what, ids in plan.faults.items()} == {
        "in error": 5,
        "missing in this run": 1,
        "missing in the baseline": 5,
    }
    clustered = [replace(r, cluster=f"c{n // 4}") for n, r in enumerate(ours)]
    rule = plan_of(gate_of({"max_drop": 0.1}), clustered, clustered, 0).rules["rule 1"]
    assert (rule.pairs, rule.pairs_effective) == (60, 15)


def test_items_missing_from_the_baseline_are_known_before_the_first_call() -> None:
    """Too many missing items make the gate invalid before any draw; a few are left out of the pairs."""
    gate = gate_of({"max_drop": 0.3, "max_errors": 0.05}, sequential=True)
    ours = verdicts("c" * 200, model="new")
    for theirs in (
        verdicts("c" * 180),
        [*verdicts("c" * 200), *verdicts("c" * 20, benchmark="sums", task="add")],
    ):
        theirs = [*theirs[:200], *(replace(r, id=f"more/{r.id}") for r in theirs[200:])]
        result = DrawnRun(gate, ours, theirs).after(0)
        assert result.decision == "invalid"
        assert settled(result)
    few = DrawnRun(gate, ours, verdicts("c" * 195))
    assert few.after(0).decision == "inconclusive"
    assert few.after(199).decision == "pass"
    assert few.after(200).decision == "pass"


def test_errors_so_far_do_not_decide_the_rule() -> None:
    """More errors than allowed so far keep the rule open, unless they already exceed the limit of the full run."""
    gate = gate_of({"max_drop": 0.3, "max_errors": 0.05}, sequential=True)
    ours, theirs = verdicts("c" * 200, model="new"), verdicts("c" * 200)
    run = DrawnRun(gate, ours, theirs)
    run.order[:6] = [replace(record, status="error") for record in run.order[:6]]
    assert run.after(100).decision == "inconclusive"
    assert not settled(run.after(100))
    assert run.after(160).decision == "pass"
    run.order[6:11] = [replace(record, status="error") for record in run.order[6:11]]
    result = run.after(60)
    assert result.decision == "invalid"
    assert "of 200 items 11 in error" in result.line
    assert settled(result)


def test_a_rule_on_errors_alone_waits_until_no_more_can_come() -> None:
    """A rule with only max_errors passes once errors in all remaining items would be allowed."""
    run = DrawnRun(gate_of({"max_errors": 0.1}, sequential=True), verdicts("c" * 100, model="new"))
    assert run.after(89).decision == "inconclusive"
    assert run.after(90).decision == "pass"


def test_a_rule_on_a_metric_needs_all_its_items() -> None:
    """A metric rule is decided only at the end, because the benchmark computes metrics from all items."""
    run = DrawnRun(gate_of({"metric": "rate", "min": 0.1}, sequential=True), verdicts("c" * 100, model="new"))
    result = run.after(99)
    assert result.decision == "inconclusive"
    assert not settled(result)


def test_rules_settle_one_by_one() -> None:
    """A settled rule needs no more items; the run continues for the other rule, and a failure ends it."""
    ours = [*verdicts("c" * 200, model="new", task="easy"), *verdicts("cw" * 100, model="new", task="hard")]
    ours = [replace(r, id=f"{r.task}/{r.id}") for r in ours]
    gate = gate_of(*({"task": t, "min_accuracy": 0.5} for t in ("easy", "hard")), sequential=True)
    result = DrawnRun(gate, ours).after(200)
    assert [rule_open(rule) for rule in result.rules] == [False, True]
    assert not settled(result)
    assert result.stopped_early
    assert result.items_used == 200
    assert result.items_of == 400
    strict = gate_of(
        {"task": "easy", "min_accuracy": 0.5}, {"task": "hard", "min_accuracy": 0.9}, sequential=True
    )
    assert settled(DrawnRun(strict, ours).after(200))
    assert DrawnRun(strict, ours).after(200).decision == "fail"


def test_the_full_tests_have_half_of_alpha() -> None:
    """A sequential gate that runs to the end tests at alpha / 2; early stopping uses the rest."""
    ours, theirs = pairs_as_runs("l" * 14 + "g" * 5 + "b" * 581)
    one = gate_of({"no_regression": True})
    assert decide(one, facts_of("new"), ours, baseline_of(theirs)).decision == "fail"
    run = DrawnRun(gate_of({"no_regression": True}, sequential=True), ours, theirs)
    assert run.after(600).decision == "pass"


def test_run_that_ended_early_is_complete_for_its_own_gate_only() -> None:
    """For another gate file or baseline, or with an open rule, a run that its gate ended is incomplete."""
    gate = gate_of({"max_drop": 0.3}, sequential=True)
    ours, theirs = verdicts("c" * 200, model="new"), verdicts("c" * 200)
    run = DrawnRun(gate, ours, theirs)
    assert run.after(100, ended=True).decision == "pass"
    assert "stopped early: 100 of 200 items" in run.after(100, ended=True).notes[0]
    still_open = run.after(5, ended=True)
    assert still_open.decision == "invalid"
    assert "this run is incomplete" in still_open.line
    facts = facts_of("new", complete=False, sequential=replace(run.plan, ended=True))
    other_baseline = baseline_of(theirs[:-1])
    assert decide(gate, facts, run.order[:100], other_baseline).decision == "invalid"
    other = replace(facts, sequential=replace(run.plan, ended=True, gate="another"))
    elsewhere = decide(gate, other, run.order[:100], run.baseline)
    assert "this run is incomplete: it was stopped early by another gate file" in elsewhere.line


def drawn_wholly(lost: int, gained: int, n: int, *, tests: int, size: int = 1) -> str:
    """Return the early verdict of ``no_regression`` on a rule whose pairs are all drawn, one of ``tests`` rules.

    :param size: number of pairs per cluster; the pairs of a cluster are alike.
    """
    rule = Rule("rule", {}, no_regression=True, detect=0.1, alpha=0.05)
    drops = [1.0] * lost + [-1.0] * gained + [0.0] * (n - lost - gained)
    labels = tuple(str(number // size) for number in range(n))
    pairs = Pairs(tuple(max(d, 0.0) for d in drops), tuple(max(-d, 0.0) for d in drops), labels)
    return sequential.no_regression(
        rule, pairs, Population.of(labels), 0.0125, alpha=0.025, tests=tests
    ).verdict


def test_each_of_several_rules_fails_at_its_share_of_alpha() -> None:
    """A p-value between alpha / 3 and alpha fails one rule alone, and none of three."""
    lost = next(lost for lost in range(100) if 0.01 < mcnemar_drop(lost, 5) < 0.02)
    assert drawn_wholly(lost, 5, 600, tests=1) == "failed"
    assert drawn_wholly(lost, 5, 600, tests=3) == "inconclusive"
    # In clusters of two, 60 lost and 6 gained pairs count as 30 and 3: exp(-27² / (2 * 33)) is far below 0.025 / 3.
    assert [drawn_wholly(60, 6, 600, tests=tests, size=2) for tests in (1, 3)] == ["failed", "failed"]
    # exp(-15² / (2 * 25)) = 0.011
    assert [drawn_wholly(40, 10, 600, tests=tests, size=2) for tests in (1, 3)] == ["failed", "inconclusive"]


def test_the_limit_of_a_drop_is_not_corrected_for_other_rules() -> None:
    """Pairs that rule out ``detect`` meet one rule of 20 as they meet one rule alone."""
    for tests in (1, 20):
        assert drawn_wholly(3, 3, 100, tests=tests) == "met"
        assert drawn_wholly(6, 6, 36, tests=tests) == "inconclusive"


def with_easy_rules(kinds: str, easy: int) -> tuple[Any, Records, Records]:
    """Return a sequential gate, and the records of both runs, with ``easy`` more rules on items that both have right.

    The records of the first rule come first.
    """
    tasks = ["hard", *(f"easy{n}" for n in range(easy))]
    sides: tuple[list[Any], list[Any]] = ([], [])
    for task in tasks:
        both = pairs_as_runs(kinds if task == "hard" else "b" * len(kinds))
        for side, records in zip(sides, both, strict=True):
            side += [replace(r, task=task, id=f"{task}/{r.id}") for r in records]
    return gate_of(*({"task": task, "no_regression": True} for task in tasks), sequential=True), *sides


@pytest.mark.parametrize("drawn", [600, 599])
@pytest.mark.parametrize(
    ("lost", "gained", "easy", "fails"),
    [(37, 20, 0, True), (35, 20, 0, False), (15, 5, 1, False), (19, 5, 1, True), (19, 5, 9, False)],
    ids=["alpha / 2", "alpha", "alpha / 2 of two", "alpha / 4 of two", "alpha / 4 of ten"],
)
def test_rules_that_wait_count_in_the_correction_of_the_others(
    lost: int, gained: int, easy: int, fails: bool, drawn: int
) -> None:
    """Holm's correction counts all rules of the gate, also those with items left, even if it is one."""
    level = ALPHA / 2 / (1 + easy)
    assert (mcnemar_drop(lost, gained + 1) <= level) == (mcnemar_drop(lost, gained) <= level) == fails
    gate, ours, theirs = with_easy_rules("l" * lost + "g" * gained + "b" * (600 - lost - gained), easy)
    run = DrawnRun(gate, ours, theirs)
    hard = [r for r in run.order if r.task == "hard"]
    # The item that is left is one that both have right.
    hard.sort(key=lambda r: r.id == "hard/sums/0599")
    some = [r for r in run.order if r.task != "hard"][: 50 * easy]
    assert (run.after([*hard[:drawn], *some]).rules[0].verdict == "failed") == fails


def test_the_error_rate_of_stopping_is_split_over_the_checks_of_all_rules() -> None:
    """The bounds of one of ten rules are those of one rule alone at a tenth of the error rate."""
    kinds = "l" * 15 + "g" * 5 + "b" * 80
    for easy in (0, 9):
        gate, ours, theirs = with_easy_rules(kinds, easy)
        run = DrawnRun(gate, ours, theirs)
        hard = [r for r in run.order if r.task == "hard"][:60]
        some = [r for r in run.order if r.task != "hard"][: 10 * easy]
        (check,) = [c for c in run.after([*hard, *some]).rules[0].checks if c.kind == "no_regression"]
        drawn = {r.id: r for r in hard}
        old = {r.id: r for r in theirs}
        pairs = Pairs(
            tuple(float(old[name].status == "correct") for name in drawn),
            tuple(float(r.status == "correct") for r in drawn.values()),
            tuple(drawn),
        )
        rate = ALPHA / 2 / (1 + easy)
        bounds = sequential.PairBounds.of(pairs, Population(100, 100.0), rate)
        assert (check.ci_low, check.ci_high) == (bounds.drop_low, bounds.drop_high)


def test_an_open_rule_says_what_it_waits_for() -> None:
    """Only a rule that needs further items gives that as its reason."""
    run = DrawnRun(gate_of({"min_accuracy": 0.5}, sequential=True), verdicts("c" * 200, model="new"))
    open_check, settled_check = (run.after(drawn).rules[0].checks[-1] for drawn in (3, 100))
    assert (open_check.verdict, open_check.reason) == ("inconclusive", sequential.OPEN)
    assert (settled_check.verdict, settled_check.reason) == ("met", "")
