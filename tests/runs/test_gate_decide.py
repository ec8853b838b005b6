"""Decisions of a gate on recorded runs, check by check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.core.paired import holm, mcnemar_drop
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.statistics import clopper_pearson
from pytest_llmprops.records.files import plain
from pytest_llmprops.runs.gate.checks import share
from pytest_llmprops.runs.gate.decide import impossible_rules
from pytest_llmprops.runs.gate.file import Rule
from pytest_llmprops.runs.pairs import judge_pairs, pair_records
from tests.support.gates import check_of, facts_of, flips, gate_of, judged, paired_runs
from tests.support.recorded import verdict, verdicts


def new(statuses: str, **changes: Any) -> list[VerdictRecord]:
    """Return the candidate's verdicts, one per letter."""
    return verdicts(statuses, model="new", **changes)


# ---- min_accuracy, shares


def test_min_accuracy_at_its_limits() -> None:
    """The lower limit must reach min_accuracy. If the interval contains it, the check is inconclusive."""
    records = new("c" * 80 + "w" * 20)
    low, high, _ = clopper_pearson(80, 100)
    inside, above = (low + 1e-9, high), high + 1e-9
    for limit, wanted in [(low, "met"), *((x, "inconclusive") for x in inside), (above, "failed")]:
        check = check_of(judged(gate_of({"min_accuracy": limit}), records), "min_accuracy")
        assert (check.verdict, check.value, check.ci_low, check.ci_high) == (wanted, 0.8, low, high)


@pytest.mark.parametrize(("status", "letter"), [("refused", "r"), ("unparsed", "u")])
def test_shares_at_their_limit(status: str, letter: str) -> None:
    """The allowed share itself passes and one item more fails; a share of 0 allows no items."""
    key = f"max_{status}"
    for count, limit, wanted in [(7, 0.07, "met"), (8, 0.07, "failed"), (0, 0.0, "met"), (1, 0.0, "failed")]:
        result = judged(gate_of({key: limit}), new(letter * count + "c" * (100 - count)))
        assert check_of(result, key).verdict == wanted
        assert check_of(result, key).value == count / 100


# ---- comparing


def test_no_regression_at_alpha() -> None:
    """The check fails if McNemar's p-value is at most 0.05."""
    for lost, decision in ((12, "fail"), (10, "pass")):
        assert (mcnemar_drop(lost, 4) <= 0.05) is (decision == "fail")
        ours, theirs = paired_runs(390 - lost, lost, 4, 6)
        assert judged(gate_of({"no_regression": True}), ours, theirs).decision == decision


def test_no_regression_rules_out_a_drop() -> None:
    """Without a significant drop the check is met only if the 80% upper limit of the drop is at most ``detect``."""
    ours, theirs = paired_runs(95, 2, 1, 2)
    limit = flips(2, 1, 100).upper_limit(0.2, most=1)
    met = judged(gate_of({"no_regression": True, "detect": limit + 1e-9}), ours, theirs)
    short = judged(gate_of({"no_regression": True, "detect": limit - 1e-9}), ours, theirs)
    assert (met.decision, short.decision) == ("pass", "inconclusive")
    shown = f"a drop of {100 * limit:.1f} points or more is ruled out (80% confidence)"
    assert check_of(met, "no_regression").measured.endswith(shown)
    assert "is not ruled out by 100 pairs; with about" in check_of(short, "no_regression").reason


def test_thirty_identical_verdicts_pass() -> None:
    """30 pairs without a flip rule out the default drop of 10 points, in each of 20 rules."""
    ours, theirs = paired_runs(600, 0, 0, 0)
    ours, theirs = ([replace(r, task=f"t{n // 30}") for n, r in enumerate(rs)] for rs in (ours, theirs))
    gate = gate_of(*({"task": f"t{n}", "no_regression": True} for n in range(20)))
    assert judged(gate, ours, theirs).decision == "pass"


def test_a_clear_gain_is_met() -> None:
    """A gain is met whatever the churn, if its limit is on the other side of zero."""
    check = check_of(judged(gate_of({"no_regression": True}), *paired_runs(30, 9, 36, 25)), "no_regression")
    assert "gain of 27.0 points (" in check.measured
    assert check.measured.endswith("any drop is ruled out (80% confidence)")
    assert check.verdict == "met"


def test_few_clusters_that_all_gain_a_little_are_inconclusive() -> None:
    """A significant gain does not meet the rule: clusters that fail wholly may not be among five."""
    ours, theirs = (
        [
            v
            for n in range(5)
            for v in verdicts("c" * right + "w" * (10 - right), cluster=f"c{n}", model=model)
        ]
        for model, right in (("new", 6), ("old", 5))
    )
    ours, theirs = (
        [replace(record, id=f"sums/{n:04d}") for n, record in enumerate(records)]
        for records in (ours, theirs)
    )
    compared = judge_pairs(pair_records(theirs, ours).pairs)
    assert compared is not None
    assert compared.conclusion == "gain"
    assert judged(gate_of({"no_regression": True}), ours, theirs).decision == "inconclusive"


def test_advised_number_of_pairs_is_sufficient() -> None:
    """An inconclusive no_regression check is met with the advised number of pairs if the flip rates stay the same."""
    ours, theirs = paired_runs(16, 2, 2, 0)
    gate = gate_of({"no_regression": True, "min_items": 5})
    reason = check_of(judged(gate, ours, theirs), "no_regression").reason
    assert "a drop of 10.0 points is not ruled out by 20 pairs; with about " in reason
    assert reason.endswith(" pairs an unchanged model passes in 90% of runs")
    needed = int(reason.split("about ")[1].split()[0])
    more = paired_runs(needed - 2 * (needed // 10), needed // 10, needed // 10, 0)
    assert judged(gate, *more).decision == "pass"


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (1000, "with about "),
        (60, "an unchanged model passes in "),
        (20, "of runs of this size, and the benchmark has no more; with detect = 0.2"),
    ],
)
def test_advice_asks_for_no_more_than_the_benchmark_has(of: int, words: str) -> None:
    """If all items of the benchmark would not do, the reason says how often an unchanged model passes."""
    ours, theirs = paired_runs(16, 2, 2, 0)
    rules = {"min_items": 5, "no_regression": True, "max_drop": 0.1}
    result = judged(gate_of(rules), ours, theirs, selection={"sums": {"items": 20, "of": of}})
    assert words in check_of(result, "no_regression").reason
    assert ("with about" in check_of(result, "no_regression").reason) == (of == 1000)
    margin = check_of(result, "max_drop").reason
    assert margin.startswith("the interval of 20 pairs contains the margin; ")
    assert ("with about" in margin) == (of == 1000)
    assert ("with max_drop = " in margin) == (of < 1000)


def test_a_drop_on_ten_items_is_inconclusive() -> None:
    """An observed drop of 20 points on 10 pairs, of which no drop could be significant, is inconclusive."""
    result = judged(gate_of({"no_regression": True, "min_items": 10}), *paired_runs(5, 3, 1, 1))
    assert result.decision == "inconclusive"
    assert "is not ruled out by 10 pairs" in result.line
    assert check_of(result, "no_regression").measured.startswith("drop of 20.0 points (")


def test_holm_over_rules() -> None:
    """Two rules with p = 0.03 (adjusted to 0.06) do not fail; one alone does, and also next to one with p = 0.02."""
    weak, strong = (14, 5), (13, 4)
    p, q = mcnemar_drop(*weak), mcnemar_drop(*strong)
    assert 0.025 < p < 0.05
    assert q < 0.025
    assert min(holm([p, p])) > 0.05
    assert max(holm([p, q])) < 0.05

    def of(*counts: tuple[int, int]) -> GateResult:
        ours: list[VerdictRecord] = []
        theirs: list[VerdictRecord] = []
        for number, (lost, gained) in enumerate(counts):
            pair = paired_runs(600 - lost - gained, lost, gained, 0)
            for records, into in zip(pair, (ours, theirs), strict=True):
                into += [replace(r, task=f"t{number}", id=f"{number}/{r.id}") for r in records]
        rules = [{"task": f"t{number}", "no_regression": True} for number in range(len(counts))]
        return judged(gate_of(*rules), ours, theirs)

    assert of(weak).decision == "fail"
    assert of(weak, weak).decision == "pass"
    mixed = of(weak, strong)
    assert [r.verdict for r in mixed.rules] == ["failed", "failed"]
    assert "Holm over 2 rules" in check_of(mixed, "no_regression").measured


def test_max_drop_at_its_limits() -> None:
    """max_drop passes at the upper limit, fails below the lower one, and otherwise says what would let a model pass."""
    ours, theirs = paired_runs(80, 12, 4, 4)
    sample = flips(12, 4, 100)
    low, high = sample.lower_limit((1 - 0.95) / 2, least=-1), sample.upper_limit((1 - 0.95) / 2, most=1)
    for margin, wanted in [
        (high, "met"),
        (high - 1e-9, "inconclusive"),
        (low, "inconclusive"),
        (low - 1e-9, "failed"),
    ]:
        check = check_of(judged(gate_of({"max_drop": margin}), ours, theirs), "max_drop")
        assert (check.verdict, check.ci_low, check.ci_high) == (wanted, low, high)
    near = check_of(judged(gate_of({"max_drop": high - 0.01}), ours, theirs), "max_drop")
    assert near.reason.endswith(" pairs an unchanged model passes in 90% of runs")
    none = check_of(judged(gate_of({"max_drop": 0.0}), ours, theirs), "max_drop")
    assert "an unchanged model passes in 2% of runs of this size; with max_drop = " in none.reason


def test_a_gain_is_shown_as_a_gain() -> None:
    """The text shows a negative drop as a gain and reverses its interval."""
    check = check_of(judged(gate_of({"max_drop": 0.05}), *paired_runs(80, 2, 12, 6)), "max_drop")
    assert check.measured.startswith("gain of 10.0 points")
    assert check.value == pytest.approx(-0.1)
    assert check.ci_high is not None
    assert f"(95% interval {-100 * check.ci_high:.1f} to" in check.measured


# ---- clusters, repeats


def in_clusters(statuses: str, size: int, model: str) -> list[VerdictRecord]:
    """Return verdicts in clusters of consecutive items."""
    return [replace(r, cluster=f"c{n // size}") for n, r in enumerate(verdicts(statuses, model=model))]


def test_items_of_a_cluster_do_not_count_as_independent() -> None:
    """40 losses in four whole clusters are far weaker evidence than 40 single losses."""
    old, fallen = "c" * 400, "w" * 40 + "c" * 360
    single = judged(gate_of({"no_regression": True}), new(fallen), verdicts(old))
    rule = {"no_regression": True, "max_drop": 0.12}
    clustered = judged(gate_of(rule), in_clusters(fallen, 10, "new"), in_clusters(old, 10, "old"))
    assert single.decision == "fail"
    assert check_of(clustered, "no_regression").verdict == "inconclusive"
    assert "sign-flip permutation over clusters" in check_of(clustered, "no_regression").measured
    plain = judged(gate_of({"max_drop": 0.12}), new(fallen), verdicts(old))
    wide, narrow = check_of(clustered, "max_drop"), check_of(plain, "max_drop")
    assert wide.ci_high is not None
    assert narrow.ci_high is not None
    assert wide.ci_high > narrow.ci_high + 0.02
    falls = "w" * 10 + "c" * 10
    everywhere = judged(gate_of(rule), in_clusters(falls * 20, 20, "new"), in_clusters(old, 20, "old"))
    assert check_of(everywhere, "no_regression").verdict == "failed"


def test_accuracy_over_clusters() -> None:
    """The interval is over clusters, wider than that of independent items, and holds for few clusters too."""
    statuses = "".join("c" * 10 if n % 4 else "w" * 10 for n in range(20))
    check = check_of(judged(gate_of({"min_accuracy": 0.6}), in_clusters(statuses, 10, "new")), "min_accuracy")
    assert check.ci_low is not None
    assert check.ci_low < clopper_pearson(150, 200).low - 0.03
    assert check.verdict == "inconclusive"
    assert "about" in check.reason
    assert "clusters" in check.reason
    for limit, decision in ((0.5, "pass"), (0.7, "inconclusive"), (0.92, "inconclusive"), (1.0, "fail")):
        few = judged(gate_of({"min_accuracy": limit}), in_clusters("cccccccccw" * 9, 10, "new"))
        assert few.decision == decision, limit


def test_the_number_of_clusters_that_would_decide_would_decide() -> None:
    """An inconclusive min_accuracy check is settled by the advised number of clusters like these."""
    statuses = "c" * 18 + "ww"
    result = judged(gate_of({"min_accuracy": 0.7}), in_clusters(statuses * 6, 20, "new"))
    reason = check_of(result, "min_accuracy").reason
    needed = int(reason.split("about ")[1].split()[0])
    amount = f"about {needed} clusters ({20 * needed} items)"
    assert (
        reason == f"the interval contains the limit; {amount} would decide it, if the accuracy stays as it is"
    )
    for count, decision in ((needed, "pass"), (needed - 2, "inconclusive")):
        more = in_clusters(statuses * count, 20, "new")
        assert judged(gate_of({"min_accuracy": 0.7}), more).decision == decision


def repeated(shares: list[int], of: int, model: str) -> list[VerdictRecord]:
    """Return ``of`` samples for each item, with the given number of correct ones."""
    return [
        verdict(f"{n:04d}", "correct" if sample < right else "wrong", model=model, sample=sample)
        for n, right in enumerate(shares)
        for sample in range(of)
    ]


def test_repeats_are_averaged_first() -> None:
    """Three samples of 40 items count as 40 scores, not 120, in the accuracy and in the pairs."""
    ours, theirs = repeated([2] * 40, 3, "new"), repeated([3] * 40, 3, "old")
    result = judged(gate_of({"min_accuracy": 0.5, "max_drop": 0.5, "no_regression": True}), ours, theirs)
    accuracy = check_of(result, "min_accuracy")
    assert accuracy.value == pytest.approx(2 / 3)
    # 40 equal scores of 2/3: the mean could only be lower if an unseen item scores worse.
    assert accuracy.ci_low == pytest.approx(2 / 3 * 0.025 ** (1 / 40))
    assert check_of(result, "max_drop").value == pytest.approx(1 / 3)
    assert check_of(result, "no_regression").verdict == "failed"
    assert result.rules[0].items == 40
    assert judged(gate_of({"min_accuracy": 0.5, "min_items": 41}), ours).decision == "invalid"


def test_item_is_in_error_if_no_sample_has_an_answer() -> None:
    """An item is in error if all of its samples are; otherwise it is answered, and its errors count in part."""
    records = repeated([3] * 40, 3, "new")
    records[0] = replace(records[0], status="error")
    gate = gate_of({"min_accuracy": 0.5, "max_errors": 1 / 120, "min_items": 40})
    assert judged(gate, records).decision == "pass"
    assert judged(gate_of({"min_accuracy": 0.5, "max_errors": 1 / 121}), records).decision == "invalid"
    records[:3] = [replace(record, status="error") for record in records[:3]]
    result = judged(gate, records)
    assert check_of(result, "min_items").verdict == check_of(result, "max_errors").verdict == "invalid"


# ---- fitness


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


def test_max_errors_alone_is_a_rule() -> None:
    """max_errors defaults to 1% and can be the only requirement of a rule."""
    gate = gate_of({"max_errors": 0.01})
    assert judged(gate, new("c" * 99 + "e")).decision == "pass"
    assert judged(gate, new("c" * 98 + "ee")).decision == "invalid"


def test_too_few_items_are_invalid() -> None:
    """Fewer than 30 answered items or pairs are invalid, for metric rules too; the gate file can lower the minimum."""
    for rule in ({"min_accuracy": 0.5}, {"metric": "rate", "min": 0.1}):
        metrics = [row("rate", 0.9, "higher")]
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


def test_two_rules_about_the_same_items_are_invalid() -> None:
    """The reason names both rules; a metric rule may share items with another rule."""
    result = judged(
        gate_of({"task": "add", "min_accuracy": 0.5}, {"task": "a*", "max_refused": 0.5}), new("c" * 40)
    )
    assert result.decision == "invalid"
    assert "rules 'add' and 'a*' are both about sums/add/en/builtin" in result.line
    beside = gate_of({"task": "add", "min_accuracy": 0.5}, {"metric": "rate", "min": 0.1})
    assert judged(beside, new("c" * 40), metrics=[row("rate", 0.9, "higher")]).decision == "pass"


def test_run_without_an_answer_is_invalid() -> None:
    """A run of errors only, or a baseline without records, makes the gate invalid."""
    assert judged(gate_of({"min_accuracy": 0.0, "max_errors": 1.0}), new("e" * 40)).decision == "invalid"
    assert judged(gate_of({"max_drop": 1.0}), new("c" * 40), []).decision == "invalid"


# ---- metrics


def row(name: str, value: float | None, direction: str, **changes: Any) -> dict[str, Any]:
    """Return a row of ``metrics``."""
    place = {"model": "new", "benchmark": "sums", "task": "add", "language": "en", "source": "builtin"}
    return {**place, "group": "", "name": name, "value": value, "n": 40, "ci_low": None, "ci_high": None,
            "direction": direction, **changes}  # fmt: skip


@pytest.mark.parametrize(
    ("direction", "limits", "interval", "wanted"),
    [
        ("higher", {"min": 0.4}, (0.4, 0.6), "met"),
        ("higher", {"min": 0.41}, (0.4, 0.6), "inconclusive"),
        ("higher", {"min": 0.61}, (0.4, 0.6), "failed"),
        ("lower", {"max": 0.6}, (0.4, 0.6), "met"),
        ("lower", {"max": 0.59}, (0.4, 0.6), "inconclusive"),
        ("lower", {"max": 0.39}, (0.4, 0.6), "failed"),
        ("target:0.5", {"min": 0.4, "max": 0.6}, (0.4, 0.6), "met"),
        ("target:0.5", {"min": 0.41, "max": 0.6}, (0.4, 0.6), "inconclusive"),
        ("target:0.5", {"min": 0.25, "max": 0.75}, (0.75, 0.8), "inconclusive"),
        ("target:0.5", {"min": 0.25, "max": 0.75}, (0.76, 0.8), "failed"),
        ("target:0.5", {"min": 0.25, "max": 0.75}, (0.1, 0.2), "failed"),
        ("target:0.5", {"max": 0.6}, (0.4, 0.6), "met"),
        ("none", {"min": 0.3, "max": 0.7}, (0.4, 0.6), "met"),
        ("none", {"min": 0.3, "max": 0.5}, (0.4, 0.6), "inconclusive"),
        ("higher", {"min": 0.5}, (None, None), "met"),
        ("higher", {"min": 0.51}, (None, None), "failed"),
        ("higher", {"max": 0.5}, (0.4, 0.6), "invalid"),
        ("lower", {"min": 0.5}, (0.4, 0.6), "invalid"),
    ],
)
def test_metrics_are_compared_in_their_direction(
    direction: str, limits: dict[str, Any], interval: tuple[float | None, float | None], wanted: str
) -> None:
    """The interval, or the estimate if there is no interval, is compared with the limit in the metric's direction."""
    metrics = [row("rate", 0.5, direction, ci_low=interval[0], ci_high=interval[1])]
    result = judged(gate_of({"metric": "rate", **limits}), new("c" * 40), metrics=metrics)
    assert result.rules[0].verdict == wanted


def test_a_metric_that_is_missing_is_invalid() -> None:
    """The gate is invalid if no row has the metric's name, group or place, or if the row has no value."""
    rows = [row("rate", 0.5, "higher", group="left"), row("none", None, "higher")]
    for rule in ({"metric": "rat"}, {"metric": "rate", "group": "right"}):
        result = judged(gate_of({**rule, "min": 0.1}), new("c" * 40), metrics=rows)
        assert result.decision == "invalid"
        assert "the run has no metric" in result.line
    undefined = judged(gate_of({"metric": "none", "min": 0.1}), new("c" * 40), metrics=rows)
    assert "none is undefined in this run" in undefined.line
    assert judged(gate_of({"metric": "r*", "group": "l*", "min": 0.1}), new("c" * 40), metrics=rows).passed


# ---- the decision


def test_the_worst_rule_decides() -> None:
    """The order is invalid, fail, inconclusive, pass, and the decision line shows the worst."""
    records = [*new("c" * 40, task="good"), *new("w" * 40, task="bad"), *new("cw" * 20, task="open"),
               *new("c" * 9, task="few")]  # fmt: skip
    records = [replace(r, id=f"{r.task}/{r.id}") for r in records]
    rules = {t: {"task": t, "min_accuracy": 0.5} for t in ("good", "bad", "open", "few")}
    for tasks, decision in [
        (("good",), "pass"),
        (("good", "open"), "inconclusive"),
        (("open", "bad", "good"), "fail"),
        (("open", "bad", "good", "few"), "invalid"),
    ]:
        result = judged(gate_of(*(rules[t] for t in tasks)), records)
        assert result.decision == decision
        assert result.passed == (decision == "pass")
        assert result.line.startswith(f"{decision.upper()}: ")
        assert {"fail": "bad", "inconclusive": "open", "invalid": "few"}.get(
            decision, "new meets the rule"
        ) in result.line
    assert plain(result)["rules"][1]["checks"][0]["verdict"] == "failed"


# ---- errors and numbers of samples


def with_errors(records: list[VerdictRecord], items: int, errors: int) -> list[VerdictRecord]:
    """Return the records with the first ``errors`` samples of the first ``items`` items in error."""
    broken = {f"{n:04d}" for n in range(items)}
    return [
        replace(r, status="error") if r.id.rpartition("/")[2] in broken and r.sample < errors else r
        for r in records
    ]


@pytest.mark.parametrize("required", [{"min_accuracy": 0.5}, {"max_drop": 0.5}])
def test_errors_are_counted_per_sample(required: dict[str, float]) -> None:
    """19 of 20 samples in error on 10 of 100 items are 9.5% errors, whether in this run or in the baseline."""
    ours, theirs = repeated([20] * 100, 20, "new"), repeated([20] * 100, 20, "old")
    for candidate, baseline in ((with_errors(ours, 10, 19), theirs), (ours, with_errors(theirs, 10, 19))):
        if "max_drop" not in required and candidate is ours:
            continue
        result = judged(gate_of({**required, "max_errors": 0.0949}), candidate, baseline)
        assert result.decision == "invalid"
        check = check_of(result, "max_errors")
        assert check.value == pytest.approx(0.095)
        assert check.measured == "9.5%, 9.5 of 100"
        assert "of 100 items 10 partly in error (sums/0000, sums/0001, sums/0002, …)" in check.reason
        at_limit = judged(gate_of({**required, "max_errors": 0.0951}), candidate, baseline)
        assert check_of(at_limit, "max_errors").verdict == "met"


def test_the_larger_share_of_errors_of_an_item_counts() -> None:
    """Errors of both runs on the same item are not added; a missing item counts whole."""
    ours = with_errors(repeated([4] * 40, 4, "new"), 2, 1)
    theirs = with_errors(repeated([4] * 41, 4, "old"), 2, 3)
    check = check_of(judged(gate_of({"max_drop": 0.5, "max_errors": 1.0}), ours, theirs), "max_errors")
    assert check.value == pytest.approx((2 * 0.75 + 1) / 41)
    assert check.measured == "6.1%, 2.5 of 41"


def test_a_rule_may_ask_for_repeats() -> None:
    """With fewer samples per item in either run, the gate is invalid and says how to measure again."""
    once, thrice = repeated([1] * 40, 1, "new"), repeated([3] * 40, 3, "new")
    accuracy = gate_of({"min_accuracy": 0.5, "repeats": 3})
    assert judged(accuracy, thrice).decision == "pass"
    result = judged(accuracy, once)
    assert result.decision == "invalid"
    assert "1 sample per item, and repeats = 3; measure again with --llm-repeats 3" in result.line
    thrice[5:6] = []
    assert "2 samples per item" in judged(accuracy, thrice).line
    paired = gate_of({"max_drop": 0.5, "repeats": 3})
    result = judged(paired, repeated([3] * 40, 3, "new"), repeated([1] * 40, 1, "old"))
    assert "the baseline has 1 sample per item, and repeats = 3; measure it again with" in result.line


def test_a_share_of_no_answers_is_invalid() -> None:
    """If every item is in error, a share of refusals is not judged."""
    check = share(Rule("rule", {}, max_refused=0.1), "refused", [])
    assert (check.verdict, check.reason) == ("invalid", "nothing to judge")


@pytest.mark.parametrize(
    ("keys", "items", "size", "possible"),
    [
        ({"no_regression": True}, 30, 1, True),
        ({"no_regression": True, "detect": 0.05}, 31, 1, False),
        ({"no_regression": True, "detect": 0.05}, 32, 1, True),
        ({"no_regression": True}, 150, 10, False),
        ({"no_regression": True}, 160, 10, True),
        ({"max_drop": 0.05}, 71, 1, False),
        ({"max_drop": 0.05}, 72, 1, True),
        ({"min_accuracy": 0.95}, 71, 1, False),
        ({"min_accuracy": 0.95}, 72, 1, True),
        ({"max_refused": 0.0}, 29, 1, False),
        ({"max_refused": 0.0}, 30, 1, True),
        ({"no_collapse": True, "each": "task"}, 30, 1, True),
        ({"metric": "rate", "min": 0.5}, 29, 1, False),
        ({"metric": "rate", "min": 0.5}, 30, 1, True),
    ],
)  # fmt: skip
def test_rules_that_cannot_be_met(keys: dict[str, Any], items: int, size: int, possible: bool) -> None:
    """A rule is possible if and only if a run that answers everything correctly, like its baseline, meets it."""
    records = in_clusters("c" * items, size, "new")
    gate = gate_of(keys)
    assert (not impossible_rules(gate, records, facts_of("new"))) == possible
    if "metric" not in keys:
        theirs = in_clusters("c" * items, size, "old")
        assert (judged(gate, records, theirs).decision == "pass") == possible


def test_a_rule_on_one_of_several_possible_tasks_counts_all_items() -> None:
    """Items whose task depends on the answer count for each rule on one of the tasks; other rules' items do not."""
    places = [replace(r, task=task) for r in verdicts("c" * 30) for task in ("yes", "no")]
    gate = gate_of({"task": "yes", "no_regression": True}, {"task": "other", "no_regression": True})
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
    assert result.line.startswith("FAIL: new loses 30 points on zh; it loses ")
