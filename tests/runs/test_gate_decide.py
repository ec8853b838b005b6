"""Decisions of a gate on recorded runs, check by check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import plain
from pytest_llmprops.runs.gate.decide import impossible_rules
from pytest_llmprops.statistics.intervals import clopper_pearson
from pytest_llmprops.statistics.paired import mcnemar_drop
from tests.support.gates import (
    check_of,
    facts_of,
    flips,
    gate_of,
    in_clusters,
    judged,
    new,
    paired_runs,
    repeated,
)
from tests.support.recorded import verdicts
from tests.support.records import metric


def test_min_accuracy_at_its_limits() -> None:
    """The lower limit must reach min_accuracy. If the interval contains it, the check is inconclusive."""
    records = new("c" * 80 + "w" * 20)
    low, high, _ = clopper_pearson(80, 100)
    inside, above = (low + 1e-9, high), high + 1e-9
    for limit, wanted in [(low, "met"), *((x, "inconclusive") for x in inside), (above, "failed")]:
        check = check_of(judged(gate_of({"min_accuracy": limit}), records), "min_accuracy")
        assert (check.verdict, check.value, check.ci_low, check.ci_high) == (wanted, 0.8, low, high)


def test_shares_at_their_limit() -> None:
    """The allowed share itself passes and one item more fails; a share of 0 allows no items."""
    for key, letter in (("max_refused", "r"), ("max_unparsed", "u")):
        for count, limit, wanted in (
            (7, 0.07, "met"),
            (8, 0.07, "failed"),
            (0, 0.0, "met"),
            (1, 0.0, "failed"),
        ):
            check = check_of(judged(gate_of({key: limit}), new(letter * count + "c" * (100 - count))), key)
            assert (check.verdict, check.value) == (wanted, count / 100)


def test_max_drop_at_its_limits() -> None:
    """It is met up to the margin, by one interval; above it, a model that is worse fails, another is inconclusive."""
    sample = flips(12, 9, 300)
    high = sample.upper_limit()
    for margin, wanted in ((high + 1e-9, "met"), (high - 1e-9, "inconclusive"), (0.0, "inconclusive")):
        check = check_of(judged(gate_of({"max_drop": margin}), *paired_runs(270, 12, 9, 9)), "max_drop")
        assert check.verdict == wanted
        assert check.value == pytest.approx(-0.01)
        assert (check.ci_low, check.ci_high) == pytest.approx((-high, -sample.lower_limit(least=-1)))
    worse, margin = paired_runs(1960, 28, 6, 6), flips(28, 6, 2000).upper_limit()
    for limit, decision in ((margin + 1e-9, "pass"), (margin - 1e-9, "fail")):
        result = judged(gate_of({"max_drop": limit}), *worse)
        assert result.decision == decision
        assert "; worse, p <0.001" in check_of(result, "max_drop").measured


def test_a_worse_model_fails_at_two_and_a_half_percent() -> None:
    """The test of a failure is one-sided at 2.5%, because worse and better share 5%."""
    for lost, decision in ((13, "fail"), (12, "inconclusive")):
        assert (mcnemar_drop(lost, 4) <= 0.025) is (decision == "fail")
        ours, theirs = paired_runs(390 - lost, lost, 4, 6)
        assert judged(gate_of({"max_drop": 0.03}), ours, theirs).decision == decision


def test_the_line_has_margin_estimate_and_interval() -> None:
    """A pass says how much worse the model may be, the margin, what was measured, and how often such a gate passes."""
    result = judged(gate_of({"max_drop": 0.05}), *paired_runs(600, 20, 16, 0))
    high = flips(20, 16, 636).upper_limit()
    assert result.line == (
        f"PASS: new may replace old: at most {100 * high:.1f} points worse (margin 5); measured −0.6"
    )
    assert result.chance is not None
    assert result.chance > 0.95
    failed = judged(gate_of({"max_drop": 0.05}), *paired_runs(560, 60, 10, 6))
    assert failed.line == "FAIL: new is 7.9 points worse overall (margin 5)"
    near = judged(gate_of({"max_drop": 0.05}), *paired_runs(570, 40, 20, 6))
    assert near.line.startswith("FAIL: new is 3.1 points worse overall, and up to 5.")
    better = judged(gate_of({"max_drop": 0.05}), *paired_runs(30, 9, 36, 25))
    assert check_of(better, "max_drop").measured.startswith("+27.0 points (95% interval +13.5 to ")
    assert better.line.endswith("not worse (margin 5); measured +27.0")


def test_advice_speaks_of_what_was_measured() -> None:
    """The number of pairs would decide if the models differ as measured; beyond the benchmark, the line says so."""
    gate = gate_of({"max_drop": 0.05})
    reason = check_of(judged(gate, *paired_runs(90, 5, 3, 2)), "max_drop").reason
    assert reason.startswith("probably 2 points worse and within the margin; ")
    needed = int(reason.split("; ")[1].split()[0])
    lost, gained = (round(needed * n / 100) for n in (5, 3))
    assert judged(gate, *paired_runs(needed - lost - gained, lost, gained, 0)).decision == "pass"
    beyond = check_of(judged(gate, *paired_runs(90, 8, 2, 0)), "max_drop")
    assert beyond.verdict == "inconclusive"
    assert beyond.reason.startswith("probably 6 points worse; ")
    both, lost, gained = (
        round(1.2 * int(beyond.reason.split("; ")[1].split()[0]) * n / 100) for n in (90, 8, 2)
    )
    assert judged(gate, *paired_runs(both, lost, gained, 0)).decision == "fail"
    for of, words in ((5000, "would decide"), (120, "the 120 pairs of the benchmark are too few to decide")):
        ours, theirs = paired_runs(90, 5, 3, 2)
        result = judged(gate, ours, theirs, selection={"sums": {"items": 100, "of": of}})
        assert words in check_of(result, "max_drop").reason
    better = check_of(judged(gate, *paired_runs(36, 2, 3, 0)), "max_drop").reason
    assert better.startswith("probably not worse (+2.4); ")


def test_rules_are_judged_together_with_all_members() -> None:
    """A rule on one of two tasks has the change of the task, corrected for both tasks, whatever the other rules are."""
    ours: list[VerdictRecord] = []
    theirs: list[VerdictRecord] = []
    for number, lost in enumerate((13, 14)):
        for records, into in zip(paired_runs(390 - lost, lost, 3, 0), (ours, theirs), strict=True):
            into += [replace(r, task=f"t{number}", id=f"{number}/{r.id}") for r in records]
    one = judged(gate_of({"task": "t0", "max_drop": 0.02}), ours, theirs)
    two = judged(gate_of(*({"task": f"t{n}", "max_drop": 0.02} for n in range(2))), ours, theirs)
    assert check_of(one, "max_drop") == check_of(two, "max_drop")
    by_name = {(change.kind, change.name): change for change in one.changes}
    check, change = check_of(one, "max_drop"), by_name["task", "t0"]
    assert (check.value, check.ci_low, check.ci_high) == (change.difference, change.ci_low, change.ci_high)
    # Both directions of two tasks and of all items.
    assert change.p == pytest.approx(min(1, max(4 * mcnemar_drop(13, 3), 5 * mcnemar_drop(14, 3))))


def test_items_of_a_cluster_do_not_count_as_independent() -> None:
    """40 losses in four whole clusters are far weaker evidence than 40 single losses."""
    old, fallen = "c" * 400, "w" * 40 + "c" * 360
    single = judged(gate_of({"max_drop": 0.1}), new(fallen), verdicts(old))
    rule = {"max_drop": 0.12}
    clustered = judged(gate_of(rule), in_clusters(fallen, 10, "new"), in_clusters(old, 10, "old"))
    assert single.decision == "fail"
    wide, narrow = check_of(clustered, "max_drop"), check_of(single, "max_drop")
    assert wide.verdict == "inconclusive"
    assert "sign-flip permutation over clusters" in wide.measured
    assert wide.ci_high is not None
    assert narrow.ci_high is not None
    assert wide.ci_high > narrow.ci_high + 0.02
    falls = "w" * 10 + "c" * 10
    everywhere = judged(gate_of(rule), in_clusters(falls * 20, 20, "new"), in_clusters(old, 20, "old"))
    assert check_of(everywhere, "max_drop").verdict == "failed"


def test_accuracy_over_clusters() -> None:
    """The interval is over clusters, wider than that of independent items, and holds for few clusters too."""
    statuses = "".join("c" * 10 if n % 4 else "w" * 10 for n in range(20))
    check = check_of(judged(gate_of({"min_accuracy": 0.6}), in_clusters(statuses, 10, "new")), "min_accuracy")
    assert check.ci_low is not None
    assert check.ci_low < clopper_pearson(150, 200).low - 0.03
    assert check.verdict == "inconclusive"
    assert "clusters" in check.reason
    for limit, decision in ((0.5, "pass"), (0.7, "inconclusive"), (0.92, "inconclusive"), (1.0, "fail")):
        few = judged(gate_of({"min_accuracy": limit}), in_clusters("cccccccccw" * 9, 10, "new"))
        assert few.decision == decision, limit


def test_the_number_of_clusters_that_would_decide_would_decide() -> None:
    """An inconclusive min_accuracy check is settled by the advised number of clusters like these."""
    statuses = "c" * 18 + "ww"
    result = judged(gate_of({"min_accuracy": 0.7}), in_clusters(statuses * 6, 20, "new"))
    reason = check_of(result, "min_accuracy").reason
    needed = int(reason.split("; ")[1].split()[0])
    amount = f"{needed} clusters ({20 * needed} items)"
    assert reason == f"the interval contains the limit; {amount} would decide"
    for count, decision in ((needed, "pass"), (needed - 2, "inconclusive")):
        more = in_clusters(statuses * count, 20, "new")
        assert judged(gate_of({"min_accuracy": 0.7}), more).decision == decision


def test_repeats_are_averaged_first() -> None:
    """Three samples of 40 items count as 40 scores, not 120, in the accuracy and in the pairs."""
    ours, theirs = repeated([2] * 40, 3, "new"), repeated([3] * 40, 3, "old")
    result = judged(gate_of({"min_accuracy": 0.5, "max_drop": 0.5}), ours, theirs)
    accuracy = check_of(result, "min_accuracy")
    assert accuracy.value == pytest.approx(2 / 3)
    # 40 equal scores of 2/3: the mean could only be lower if an unseen item scores worse.
    assert accuracy.ci_low == pytest.approx(2 / 3 * 0.025 ** (1 / 40))
    assert check_of(result, "max_drop").value == pytest.approx(-1 / 3)
    assert result.rules[0].items == 40
    assert judged(gate_of({"min_accuracy": 0.5, "min_items": 41}), ours).decision == "invalid"


def test_errors_and_missing_items_of_either_run_count() -> None:
    """Items in error or missing in either run count as errors; the message names the first ones."""
    ours, theirs = new("c" * 196 + "eccc"), verdicts("c" * 198 + "ec")
    ours.pop(2)
    theirs.pop(5)
    at = {"max_drop": 0.5, "max_errors": 4 / 200}
    assert judged(gate_of(at), ours, theirs).decision == "pass"
    result = judged(gate_of({**at, "max_errors": 4 / 200 - 1e-9}), ours, theirs)
    assert result.decision == "invalid"
    check = check_of(result, "max_errors")
    assert check.value == 0.02
    assert check.measured == "2.0%, 4 of 200"
    assert "2 in error and 1 missing in this run and 1 missing in the baseline" in check.reason
    assert "(sums/0196, sums/0198, sums/0002, …)" in check.reason
    assert result.reasons == (f"rule 1: {check.reason}",)


def test_too_few_items_are_invalid() -> None:
    """Fewer than 30 answered items or pairs are invalid, for metric rules too; the gate file can lower the minimum."""
    for rule in ({"min_accuracy": 0.5}, {"metric": "rate", "min": 0.1}):
        metrics = [metric("rate", 0.9, model="new", direction="higher")]
        assert judged(gate_of(rule), new("c" * 30), metrics=metrics).decision == "pass"
        few = judged(gate_of(rule), new("c" * 29), metrics=metrics)
        assert few.decision == "invalid"
        assert "29 answered items are fewer than min_items = 30" in few.line
        assert judged(gate_of({**rule, "min_items": 29}), new("c" * 29), metrics=metrics).decision == "pass"
    pairs = judged(gate_of({"max_drop": 0.9}), new("c" * 40), verdicts("c" * 29))
    assert "29 pairs are fewer" in pairs.reasons[0]


def test_a_rule_without_items_is_invalid() -> None:
    """A recorded run gets the same reason as pytest gives before the first call, and unserved items are mentioned."""
    gate = gate_of({"task": "sub", "min_accuracy": 0.5})
    result = judged(gate, new("c" * 40), not_served={"eras": {"new": 12}})
    assert result.decision == "invalid"
    assert result.reasons == ("sub: matches nothing: task is one of add; 12 eras items were not served",)
    assert judged(gate, [], []).decision == "invalid"


COMPARED = [
    ("higher", {"min": 0.4}, (0.4, 0.6), "met"),
    ("higher", {"min": 0.41}, (0.4, 0.6), "inconclusive"),
    ("higher", {"min": 0.61}, (0.4, 0.6), "failed"),
    ("lower", {"max": 0.6}, (0.4, 0.6), "met"),
    ("target:0.5", {"min": 0.4, "max": 0.6}, (0.4, 0.6), "met"),
    ("target:0.5", {"min": 0.25, "max": 0.75}, (0.76, 0.8), "failed"),
    ("none", {"min": 0.3, "max": 0.5}, (0.4, 0.6), "inconclusive"),
    ("higher", {"min": 0.51}, (None, None), "failed"),
    ("higher", {"max": 0.5}, (0.4, 0.6), "invalid"),
    ("lower", {"min": 0.5}, (0.4, 0.6), "invalid"),
]


def test_metrics_are_compared_in_their_direction() -> None:
    """The interval, or the estimate if there is no interval, is compared with the limit in the metric's direction."""
    for direction, limits, interval, wanted in COMPARED:
        limited = dict(zip(("ci_low", "ci_high"), interval, strict=True))
        metrics = [metric("rate", 0.5, model="new", direction=direction, **limited)]
        result = judged(gate_of({"metric": "rate", **limits}), new("c" * 40), metrics=metrics)
        assert result.rules[0].verdict == wanted


def test_a_metric_that_is_missing_is_invalid() -> None:
    """The gate is invalid if no row has the metric's name, group or place, or if the row has no value."""
    higher = {"model": "new", "direction": "higher"}
    rows = [metric("rate", 0.5, group="left", **higher), metric("none", None, **higher)]
    for rule in ({"metric": "rat"}, {"metric": "rate", "group": "right"}):
        result = judged(gate_of({**rule, "min": 0.1}), new("c" * 40), metrics=rows)
        assert result.decision == "invalid"
        assert "the run has no metric" in result.line
        assert "it has none, rate" in result.line
        assert ("did you mean rate?" in result.line) == (rule["metric"] == "rat")
    undefined = judged(gate_of({"metric": "none", "min": 0.1}), new("c" * 40), metrics=rows)
    assert "none is undefined in this run" in undefined.line
    assert judged(gate_of({"metric": "r*", "group": "l*", "min": 0.1}), new("c" * 40), metrics=rows).passed


def test_the_worst_rule_decides() -> None:
    """The order is invalid, fail, inconclusive, pass, and the decision line shows the worst."""
    records = [*new("c" * 40, task="good"), *new("w" * 40, task="bad"), *new("cw" * 20, task="open"),
               *new("c" * 9, task="few")]  # fmt: skip
    records = [replace(r, id=f"{r.task}/{r.id}") for r in records]
    rules = {t: {"task": t, "min_accuracy": 0.5} for t in ("good", "bad", "open", "few")}
    for tasks, decision, said in (
        (("good",), "pass", "new meets the rule"),
        (("good", "open"), "inconclusive", "open"),
        (("open", "bad", "good"), "fail", "bad"),
        (("open", "bad", "good", "few"), "invalid", "few"),
    ):
        result = judged(gate_of(*(rules[t] for t in tasks)), records)
        assert (result.decision, result.passed) == (decision, decision == "pass")
        assert result.line.startswith(f"{decision.upper()}: ")
        assert said in result.line
    assert plain(result)["rules"][1]["checks"][0]["verdict"] == "failed"


def with_errors(records: list[VerdictRecord], items: int, errors: int) -> list[VerdictRecord]:
    """Return the records with the first ``errors`` samples of the first ``items`` items in error."""
    broken = {f"{n:04d}" for n in range(items)}
    return [
        replace(r, status="error") if r.id.rpartition("/")[2] in broken and r.sample < errors else r
        for r in records
    ]


def test_errors_are_counted_per_sample() -> None:
    """19 of 20 samples in error on 10 of 100 items are 9.5% errors, whether in this run or in the baseline."""
    ours, theirs = repeated([20] * 100, 20, "new"), repeated([20] * 100, 20, "old")
    for rule, candidate, baseline in (
        ({"min_accuracy": 0.5}, with_errors(ours, 10, 19), theirs),
        ({"max_drop": 0.5}, with_errors(ours, 10, 19), theirs),
        ({"max_drop": 0.5}, ours, with_errors(theirs, 10, 19)),
    ):
        result = judged(gate_of({**rule, "max_errors": 0.0949}), candidate, baseline)
        assert result.decision == "invalid"
        check = check_of(result, "max_errors")
        assert check.value == pytest.approx(0.095)
        assert check.measured == "9.5%, 9.5 of 100"
        assert "of 100 items 10 partly in error (sums/0000, sums/0001, sums/0002, …)" in check.reason
        at_limit = judged(gate_of({**rule, "max_errors": 0.0951}), candidate, baseline)
        assert check_of(at_limit, "max_errors").verdict == "met"


def test_the_larger_share_of_errors_of_an_item_counts() -> None:
    """Errors of both runs on the same item are not added; a missing item counts whole."""
    ours = with_errors(repeated([4] * 40, 4, "new"), 2, 1)
    theirs = with_errors(repeated([4] * 41, 4, "old"), 2, 3)
    check = check_of(judged(gate_of({"max_drop": 0.5, "max_errors": 1.0}), ours, theirs), "max_errors")
    assert check.value == pytest.approx((2 * 0.75 + 1) / 41)
    assert check.measured == "6.1%, 2.5 of 41"


POSSIBLE: list[tuple[dict[str, Any], int, int, bool]] = [
    ({"max_drop": 0.1}, 350, 10, False),
    ({"max_drop": 0.1}, 360, 10, True),
    ({"min_accuracy": 0.95}, 71, 1, False),
    ({"min_accuracy": 0.95}, 72, 1, True),
    ({"max_refused": 0.0}, 29, 1, False),
    ({"no_collapse": 0.15, "each": "task"}, 30, 1, True),
    ({"metric": "rate", "min": 0.5}, 29, 1, False),
]  # fmt: skip


def test_rules_that_cannot_be_met() -> None:
    """A rule is possible if and only if a run that answers everything correctly, like its baseline, meets it."""
    for keys, items, size, possible in POSSIBLE:
        records = in_clusters("c" * items, size, "new")
        gate = gate_of(keys)
        assert (not impossible_rules(gate, records, facts_of("new"))) == possible
        if "metric" not in keys:
            theirs = in_clusters("c" * items, size, "old")
            assert (judged(gate, records, theirs).decision == "pass") == possible


def test_a_rule_on_one_of_several_possible_tasks_counts_all_items() -> None:
    """Items whose task depends on the answer count for each rule on one of the tasks; other rules' items do not."""
    places = [replace(r, task=task) for r in verdicts("c" * 30) for task in ("yes", "no")]
    gate = gate_of({"task": "yes", "max_drop": 0.12}, {"task": "other", "max_drop": 0.12})
    assert impossible_rules(gate, places, facts_of("new")) == {}
    assert list(impossible_rules(gate, places[:58], facts_of("new"))) == ["yes"]


def test_the_failed_rule_comes_before_other_losses() -> None:
    """A gate on Chinese alone fails because of Chinese; that English lost as well comes after it."""
    old = [replace(r, language=("en", "zh")[n % 2]) for n, r in enumerate(verdicts("c" * 400))]
    ours = [
        replace(
            r, model="new", status="wrong" if (n % 2 and n < 120) or (not n % 2 and n > 300) else "correct"
        )
        for n, r in enumerate(old)
    ]
    result = judged(gate_of({"language": "zh", "max_drop": 0.1}), ours, old)
    assert result.line.startswith(
        "FAIL: new is 30.0 points worse on zh (margin 10); it is 27.3 points worse on add "
    )
