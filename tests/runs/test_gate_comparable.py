"""Runs that a gate cannot judge: incomplete, different from the baseline, or on a task with a target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import from_plain, plain
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.records.run import ModelMetadata
from pytest_llmprops.reports.gate import gate_lines, gate_markdown
from pytest_llmprops.runs.comparable import differences
from pytest_llmprops.runs.gate.decide import decide
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.summary import summary_rows
from tests.support import records
from tests.support.gates import baseline_of, facts_of, gate_of, judged
from tests.support.recorded import verdicts

SETTINGS = {"temperature": 0.0, "k": 4}
PROTOCOL = {"name": "quick", "settings": SETTINGS, "seed": 0}
DATA = {"builtin:sums/en.csv": "aa", "builtin:htest/rhyme.jsonl": "bb"}
FACTS: dict[str, Any] = {
    "protocols": {"sums": PROTOCOL},
    "data": DATA,
    "options": {"params": {"top_p": 0.9}},
    "helpers": {"reader": {"spec": "gpt-4o", "identity": "gpt-4o"}},
    "deviations": {"old": ["temperature left out"]},
}
OURS = {**FACTS, "deviations": {"new": ["temperature left out"]}}


def against(
    ours: dict[str, Any] | None = None, theirs: dict[str, Any] | None = None, **settings: Any
) -> GateResult:
    """Return the decision after changing facts of either run."""
    gate = gate_of({"benchmark": "sums", "max_drop": 0.5}, **settings)
    facts = facts_of("new", **{**OURS, **(ours or {})})
    baseline = baseline_of(verdicts("c" * 40), **{**FACTS, **(theirs or {})})
    return decide(gate, facts, verdicts("c" * 40, model="new"), baseline)


#: facts of this run, and what the decision says
DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    (
        {"protocols": {"sums": {"name": "paper", "seed": 7, "settings": {**SETTINGS, "k": 5, "cot": True}}}},
        "protocol of sums: protocol quick → paper, seed 0 → 7, k 4 → 5, cot (none) → True",
    ),
    ({"options": {"params": {}}}, "request parameter top_p: 0.9 in the baseline, (none) in this run"),
    (
        {"helpers": {"reader": {"spec": "x", "identity": "gpt-5"}}},
        "helper model reader: gpt-4o in the baseline, gpt-5 in this run",
    ),
    ({"data": {**DATA, "builtin:sums/en.csv": "cc"}}, "data: builtin:sums/en.csv changed"),
    ({"models": {"new": {}, "other": {}}}, "this run holds 2 models (new, other); a gate judges one"),
    (
        {"models": {"new": {"served_as": ["a-1", "a-2"]}}},
        "this run mixes replies of 2 served models (a-1, a-2)",
    ),
    (
        {"complete": False},
        "this run is incomplete: cases have no verdict; continue it with: llmprops run --resume run-new",
    ),
    ({"complete": False, "stopped": "wrong key"}, "this run is incomplete: wrong key"),
]


def test_differences_are_named() -> None:
    """Each difference makes the gate invalid and is described in the one-line decision.

    The gate file can allow replies of several served models, but nothing else.
    """
    for ours, wanted in DIFFERENCES:
        result = against(ours)
        assert (result.decision, result.passed) == ("invalid", False)
        assert len(result.reasons) == 1
        assert wanted in result.reasons[0]
        assert wanted in result.line
        allowed = against(ours, allow_mixed=True).decision
        assert allowed == ("pass" if "served models" in wanted else "invalid")


def test_baseline_must_be_complete_too() -> None:
    """An incomplete or mixed baseline makes the gate invalid, as an incomplete or mixed run does."""
    theirs = {"complete": False, "models": {"old": {"served_as": ["a", "b"]}, "older": {}}}
    said = ("is incomplete", "holds 2 models (old, older)", "mixes replies of 2 served models (a, b)")
    for reason, words in zip(against(theirs=theirs).reasons, said, strict=True):
        assert reason.startswith(f"baseline run-old {words}")


def test_an_older_baseline_is_named_as_such() -> None:
    """A baseline from before a change of data or protocol is called older; a newer one is not."""
    changed = {"protocols": {"sums": {**PROTOCOL, "seed": 7}}, "data": {**DATA, "builtin:sums/en.csv": "cc"}}
    older, younger = against(changed), against({**changed, "started": "2025-12-31"})
    assert [r.partition(":")[0] for r in older.reasons] == [
        "baseline run-old of 2026-01-01 is older than this run's protocol of sums",
        "baseline run-old of 2026-01-01 is older than this run's data",
    ]
    assert [r.partition(" this run's")[0] for r in younger.reasons] == [
        "baseline run-old was not measured with"
    ] * 2


def test_only_benchmarks_of_the_rules_are_compared() -> None:
    """Other benchmarks' protocols and data are ignored, and so is a baseline that no rule needs."""
    other = {
        "protocols": {"sums": PROTOCOL, "htest": {**PROTOCOL, "seed": 1}},
        "data": {**DATA, "builtin:htest/rhyme.jsonl": "other"},
    }
    assert against(other, {"protocols": {"sums": PROTOCOL, "htest": PROTOCOL}}).decision == "pass"
    alone = gate_of({"benchmark": "sums", "min_accuracy": 0.5})
    facts = facts_of("new", protocols={"sums": {**PROTOCOL, "seed": 7}})
    baseline = baseline_of(verdicts("c" * 40), complete=False, **FACTS)
    assert decide(alone, facts, verdicts("c" * 40, model="new"), baseline).decision == "pass"


FORCED: list[tuple[dict[str, list[str]], list[str]]] = [
    ({"new": ["temperature left out"]}, []),
    (
        {"new": ["temperature from 0.01 to 1", "token budget raised by 4096", "stop left out"]},
        [
            "old takes no temperature: sampled at its default",
            "new takes no stop: left out",
            "new takes only a temperature from 0.01 to 1",
            "new thinks before it answers: token limits raised by 4096",
        ],
    ),
    (
        {"helper:reader": ["temperature left out"]},
        [
            "old takes no temperature: sampled at its default",
            "the helper reader takes no temperature: sampled at its default",
        ],
    ),
]


def test_what_an_api_forces_is_a_caveat() -> None:
    """What only one of the APIs, or a helper's, forces is named beside the decision and never makes it invalid."""
    for ours, caveats in FORCED:
        result = against({"deviations": ours})
        assert (result.decision, result.reasons, sorted(result.caveats)) == ("pass", (), sorted(caveats))
        assert from_plain(GateResult, plain(result)) == result
        for caveat in caveats:
            assert f"  CAVEAT           {caveat}" in gate_lines(result)
            assert f"- Caveat: {caveat}" in gate_markdown(result)


def test_replies_of_the_baseline_are_no_measurement() -> None:
    """A candidate with the requests of its baseline and no newer reply was not asked."""

    def asking(model: str, *requests: str) -> list[VerdictRecord]:
        return [replace(record, requests=requests) for record in verdicts("c" * 40, model=model)]

    baseline = baseline_of(asking("old", "k"), models={"old": {"newest_reply": 100.0}})
    for requests, newest, decision in (
        (["k"], 100.0, "invalid"),
        (["k"], 100.5, "pass"),
        (["k"], None, "pass"),
        (["other"], 99.0, "pass"),
        ([], 99.0, "pass"),
    ):
        facts = facts_of("new", models={"new": {"newest_reply": newest}})
        result = decide(gate_of({"max_drop": 0.5}), facts, asking("new", *requests), baseline)
        assert result.decision == decision
        is_said = result.line.startswith("INVALID: all replies of this run are those of")
        assert is_said == (decision == "invalid")


def test_a_default_helper_of_another_benchmark_is_not_compared() -> None:
    """A baseline on more benchmarks has helpers for them. One that the user gave is always compared."""

    def summary(*benchmarks: str) -> list[dict[str, Any]]:
        return [plain(row) for n in benchmarks for row in summary_rows(verdicts("c", benchmark=n))]

    cases: list[tuple[dict[str, str], list[str], str]] = [
        ({}, ["sums"], "pass"),
        ({}, ["sums", "oracle"], "invalid"),
        ({"parse": "words"}, ["sums"], "invalid"),
    ]
    for given, measured, decision in cases:
        theirs = {
            "helpers": {**FACTS["helpers"], "parse": {"spec": "words"}},
            "options": {"params": {"top_p": 0.9}, "helpers": given},
            "summary": summary("sums", "oracle"),
        }
        assert against({"summary": summary(*measured)}, theirs).decision == decision


def test_accuracy_rule_on_a_task_with_a_target_is_invalid() -> None:
    """Higher accuracy on eras implicit is not better, so a rule on it is invalid; other rules are valid."""
    implicit = verdicts("cw" * 40, benchmark="eras", language="zh", task="implicit")
    for rule in ({"task": "*", "min_accuracy": 0.4}, {"benchmark": "eras", "max_drop": 0.1}):
        result = judged(gate_of(rule), implicit, implicit)
        assert result.decision == "invalid"
        assert "whose accuracy is best at 0.5" in result.line
    assert judged(gate_of({"benchmark": "eras", "max_refused": 0.1}), implicit).decision == "pass"
    both = [*implicit, *verdicts("c" * 60, benchmark="eras", language="zh", task="explicit")]
    assert judged(gate_of({"task": "explicit", "min_accuracy": 0.4}), both).decision == "pass"


class Guess(Benchmark):
    """A benchmark that is not installed, so that the gate knows it only from the record."""

    name = "guess"
    accuracy_targets = {"coin": 0.5}
    unranked = {"bet": "bets"}
    presentation = frozenset({"layout"})


GUESS = {"guess": plain(BenchmarkMetadata.of(Guess, data=["builtin:guess/coins.csv"]))}


def test_targets_come_from_the_record() -> None:
    """A rule on a task with a declared target is invalid; without a record or a class, the gate says so and judges."""
    records = verdicts("cccw" * 20, benchmark="guess", task="coin")
    rule = gate_of({"benchmark": "guess", "min_accuracy": 0.4})
    known, unknown = judged(rule, records, benchmarks=GUESS), judged(rule, records)
    assert (known.decision, known.notes) == ("invalid", ())
    assert "guess coin, whose accuracy is best at 0.5" in known.line
    [note] = unknown.notes
    assert (unknown.decision, note[:29]) == ("pass", "guess: run.json does not say ")


def test_a_task_without_a_ranking_needs_a_metric() -> None:
    """A rule on the accuracy of a task that ranks no models is invalid; it counts in no rule without a task."""
    bets = verdicts("c" * 80, benchmark="guess", task="bet")
    result = judged(gate_of({"benchmark": "guess", "max_drop": 0.1}), bets, bets, benchmarks=GUESS)
    assert result.decision == "invalid"
    assert "guess bet, whose accuracy says nothing by itself: name another task, or a metric" in result.line
    others = verdicts("w" * 80, benchmark="guess", task="other")
    rule = gate_of({"benchmark": "guess", "min_accuracy": 0.4})
    assert judged(rule, [*bets, *others], benchmarks=GUESS).decision == "fail"


def test_what_the_record_of_a_benchmark_compares() -> None:
    """Runs may differ in presentation settings, and in files that another benchmark reads, whatever their folder."""
    protocols = dict.fromkeys(("guess", "sums"), PROTOCOL)
    files = [{"protocols": protocols, "data": {"builtin:guess/coins.csv": text}} for text in ("aa", "bb")]
    shown, asked = (
        [{"protocols": {"guess": {**PROTOCOL, "settings": {setting: value}}}} for value in (1, 2)]
        for setting in ("layout", "samples")
    )
    for benchmark, (ours, theirs), number in (
        ("guess", files, 1), ("sums", files, 0), ("guess", shown, 0), ("guess", asked, 1),
    ):  # fmt: skip
        old, new = facts_of("old", benchmarks=GUESS, **ours), facts_of("new", benchmarks=GUESS, **theirs)
        assert len(differences(old, new, [benchmark])) == number


def tasks(model: str, benchmark: str = "htest", language: str = "en", /, **right: int) -> list[VerdictRecord]:
    """Return the verdicts of 100 items of each task, of which so many are correct."""
    place = {"model": model, "benchmark": benchmark, "language": language}
    return [r for task, n in right.items() for r in records.verdicts(task, n, 100 - n, **place)]


HOMOPHONES = {"benchmark": "homophones", "language": "en"}


@pytest.mark.parametrize(
    ("asked", "control", "decision"), [(78, 90, "fail"), (90, 20, "pass")], ids=["asked", "control"]
)
def test_a_rule_without_a_task_judges_headline_tasks(asked: int, control: int, decision: str) -> None:
    """Controls cannot hide a drop of the headline task, and a drop of a control is no failure."""
    old = tasks("old", "homophones", asked=90, context_only=60)
    new = tasks("new", "homophones", asked=asked, context_only=control)
    result = judged(gate_of({**HOMOPHONES, "max_drop": 0.1}), new, old)
    assert (result.decision, result.rules[0].items) == (decision, 100)
    every = judged(gate_of({**HOMOPHONES, "task": "*", "max_drop": 0.1}), new, old)
    assert (every.decision == "fail", every.rules[0].items) == (decision == "pass", 200)


def test_side_tasks_are_no_headline_tasks() -> None:
    """Letter Geometry is not in the figure of H-TEST; alone, it is judged, as in reports."""
    old = verdicts("c" * 40, benchmark="htest", task="rhyme")
    geometry = verdicts("w" * 40, benchmark="htest", task="letter_geometry", model="new")
    new = [*verdicts("c" * 40, benchmark="htest", task="rhyme", model="new"), *geometry]
    gate = gate_of({"benchmark": "htest", "min_accuracy": 0.5})
    assert judged(gate, new, old).decision == "pass"
    assert judged(gate, geometry).decision == "fail"
    # A selection of the candidate cannot change what is judged.
    [reason] = judged(gate, geometry, old).reasons
    assert reason.startswith(
        "htest: matches nothing: without a task, it judges headline tasks, not htest/letter"
    )


TEN = {f"task_{n}": 80 for n in range(10)}
NINE = {**TEN, "task_3": 40}


def test_a_lost_task_is_named_though_the_gate_passes() -> None:
    """The mean over ten tasks hides one; the first line, the JSON and the terminal name it."""
    new, old = tasks("new", **NINE), tasks("old", **TEN)
    result = judged(gate_of({"benchmark": "htest", "max_drop": 0.1}), new, old)
    assert result.decision == "pass"
    assert result.line == (
        "PASS: new may replace old: at most 5.4 points worse (margin 10); measured −4.0; but it is 40.0 points worse on"
        " task_3 (H-TEST)"
    )
    [loss] = result.losses
    assert (loss.benchmark, loss.kind, loss.name, loss.lost, loss.gained, loss.pairs) == (
        "htest", "task", "task_3", 40, 0, 100,
    )  # fmt: skip
    assert (loss.word, loss.difference) == ("worse", -0.4)
    assert loss.ci_low < -0.4 < loss.ci_high
    assert from_plain(GateResult, plain(result)) == result
    lines = gate_lines(result)
    assert lines[0] == result.line
    assert lines[1].startswith("  LOST             40.0 points worse on task_3 (H-TEST) (95% interval ")
    assert "on task\\_3" in gate_markdown(result)
    # Also if no rule compares.
    result = judged(gate_of({"benchmark": "htest", "min_accuracy": 0.5}), new, old)
    assert result.line == "PASS: new meets the rule; but it is 40.0 points worse on task_3 (H-TEST)"


def test_only_comparable_benchmarks_are_named() -> None:
    """A benchmark without a rule that compares may have had another protocol, of which a note tells."""
    facts = {"protocols": {"htest": PROTOCOL, "homophones": {**PROTOCOL, "seed": 7}}}
    theirs = {"protocols": {"htest": PROTOCOL, "homophones": PROTOCOL}}
    new = [*tasks("new", **NINE), *tasks("new", "homophones", asked=40)]
    old = baseline_of([*tasks("old", **TEN), *tasks("old", "homophones", asked=90)], **theirs)
    result = decide(gate_of({"benchmark": "htest", "max_drop": 0.1}), facts_of("new", **facts), new, old)
    assert [loss.name for loss in result.losses] == ["task_3"]
    [note] = result.notes
    assert note.startswith("not compared on homophones: baseline run-old of 2026-01-01 is older")


def test_controls_side_tasks_and_chance_are_not_named() -> None:
    """A drop of a control, of a task with another target or within chance is no loss."""
    homophone = {"asked": 80, "context_only": 90}
    new = [
        *tasks("new", "homophones", **{**homophone, "context_only": 20}),
        *tasks("new", letter_geometry=10, **{**TEN, "task_4": 76}),
        *tasks("new", "eras", "zh", implicit=10, explicit=90),
    ]
    old = [
        *tasks("old", "homophones", **homophone),
        *tasks("old", letter_geometry=90, **TEN),
        *tasks("old", "eras", "zh", implicit=90, explicit=90),
    ]
    result = judged(gate_of({"min_accuracy": 0.1}), new, old)
    assert (result.losses, result.line) == ((), "PASS: new meets the rule")
    [task] = GUESS["guess"]["accuracy_targets"]
    guesses = (tasks(model, "guess", **{task: right}) for model, right in (("new", 50), ("old", 90)))
    assert judged(gate_of({"max_refused": 0.1}), *guesses, benchmarks=GUESS).losses == ()


def test_languages_and_clusters_are_named() -> None:
    """A language counts if the benchmark has several, a cluster if it has several items."""
    new = [
        r
        for code in ("en", "zh", "es")
        for r in tasks("new", "homophones", code, asked=90 - 50 * (code == "zh"))
    ]
    old = [r for code in ("en", "zh", "es") for r in tasks("old", "homophones", code, asked=90)]
    result = judged(gate_of({"max_drop": 0.5}), new, old)
    assert [(loss.kind, loss.name) for loss in result.losses] == [("task", "asked"), ("language", "zh")]
    assert result.line.endswith("; but it is 16.7 points worse on asked (Homophones) (and 1 more)")
    clustered = [
        [
            replace(r, cluster=f"c{n // 20}")
            for n, r in enumerate(verdicts(text, benchmark="dtails", task="select", model=m))
        ]
        for m, text in (("new", ("c" * 20 + "w" * 20) + "c" * 160), ("old", "c" * 200))
    ]
    result = judged(gate_of({"benchmark": "dtails", "max_drop": 0.5}), *clustered)
    assert [(loss.kind, loss.name) for loss in result.losses] == [("cluster", "c1")]
    assert "100.0 points worse on cluster c1 (DTAiLS)" in result.line


@pytest.mark.parametrize(("lost", "decision"), [(0, "pass"), (3, "pass"), (12, "pass"), (40, "fail")])
def test_no_collapse_fails_if_a_member_drops(lost: int, decision: str) -> None:
    """A member that is worse within the margin, or without a significant drop, meets the rule."""
    new, old = tasks("new", **{**TEN, "task_3": 80 - lost}), tasks("old", **TEN)
    result = judged(gate_of({"benchmark": "htest", "each": "task", "no_collapse": 0.15}), new, old)
    assert result.decision == decision
    [check] = [check for check in result.rules[0].checks if check.kind == "no_collapse"]
    assert check.reason == ("1 of 10 collapsed: task_3" if lost == 40 else "")
    if lost == 40:
        assert result.line == "FAIL: new is 40.0 points worse on task_3 (htest) (margin 15)"


def test_no_collapse_of_few_items_is_met_and_of_none_invalid() -> None:
    """The check is never inconclusive for lack of power; single items are no clusters to be tested."""
    few = gate_of({"benchmark": "htest", "each": "task", "no_collapse": 0.15, "min_items": 1})
    new, old = verdicts("c" * 9 + "w", model="new", benchmark="htest"), verdicts("c" * 10, benchmark="htest")
    assert judged(few, new, old).decision == "pass"
    single = gate_of({"benchmark": "htest", "each": "cluster", "no_collapse": 0.15})
    result = judged(single, tasks("new", **TEN), tasks("old", **TEN))
    assert (result.decision, result.reasons) == (
        "invalid", ("htest: no cluster has six independent pairs, so no drop could be significant",)
    )  # fmt: skip


def test_errors_cannot_hide_a_collapse() -> None:
    """If all answers that are missing were wrong, the task would have dropped."""
    old = tasks("old", task_0=80, task_1=80)
    new = [replace(r, status="error") if r.id in {f"htest/en/task_0/{n:04d}" for n in range(16)} else r
           for r in tasks("new", task_0=80, task_1=80)]  # fmt: skip
    gate = gate_of({"benchmark": "htest", "each": "task", "no_collapse": 0.15, "max_errors": 0.1})
    result = judged(gate, new, old)
    assert result.decision == "inconclusive"
    assert "met by the answers, but not if the candidate fails the 16 items in error" in result.line


def test_a_run_is_not_its_own_baseline() -> None:
    """Its promoted copy has the same id and start. A later run in the same folder has another start."""
    gate = gate_of({"min_accuracy": 0.5})
    records = verdicts("c" * 40, model="new")
    itself = Run(Path("baselines/x"), facts_of("new"), tuple(records))
    result = decide(gate, facts_of("new"), records, itself)
    assert result.line == "INVALID: this run is its own baseline run-new; compare it with another run"
    later = facts_of("new", started="2026-02-02T00:00:00Z")
    assert decide(gate, later, records, itself).decision == "pass"


def test_a_decision_names_what_is_odd_about_its_baseline() -> None:
    """It is judged all the same. An imported baseline starts when it is imported, which is no oddity."""
    ours = {"versions": {"pytest-llmprops": "0.2", "python": "3.12"}}
    later, imported = {"started": "2026-01-03T00:00:00Z"}, {"old": ModelMetadata("old", imported=True)}
    odd: list[tuple[dict[str, Any], str]] = [
        (later, "baseline run-old of 2026-01-03 is newer than this run of 2026-01-02"),
        ({**later, "models": imported}, ""),
        (
            {"versions": {"pytest-llmprops": "0.1", "python": "3.11"}},
            "baseline run-old was measured with other versions: pytest-llmprops 0.1 → 0.2",
        ),
    ]
    for theirs, note in odd:
        result = against(ours, {**ours, **theirs})
        assert result.decision == "pass"
        assert [text for text in result.notes if "baseline run-old" in text] == ([note] if note else [])
