"""Gate, compare, report, site and Allure agree on every pair of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.core.numbers import point_range, points
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import from_plain, plain
from pytest_llmprops.records.gate import ChangeKind, GateResult, MemberChange
from pytest_llmprops.reports.allure import run as allure
from pytest_llmprops.reports.compare import terminal_lines, to_json
from pytest_llmprops.reports.gate import gate_lines, gate_markdown, loss_text
from pytest_llmprops.reports.kit.generic import change_cells
from pytest_llmprops.reports.kit.series import Measured, series_of
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.page.findings import finding
from pytest_llmprops.reports.site.contributions import Contributions, shares_of
from pytest_llmprops.reports.site.index import Index
from pytest_llmprops.reports.site.measurements import SiteRun
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.gate.decide import decide
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.summary import summary_rows
from tests.support.gates import facts_of, gate_of
from tests.support.recorded import verdict

PAIRS = 40
GATE = gate_of(
    {"benchmark": "homophones", "max_drop": 0.1, "no_collapse": 0.15, "each": "language", "min_items": 1},
    {"benchmark": "htest", "max_drop": 0.1, "no_collapse": 0.15, "each": "task", "min_items": 1},
)
Recorded = Mapping[tuple[str, ChangeKind, str], MemberChange]
LINES = [("homophones", "asked", code) for code in ("en", "zh")] + [("homophones", "word_only", "en")]
LINES += [("htest", task, "en") for task in ("rhyme", "palindrome")]


def pair_of_runs(
    rng: np.random.Generator, folder: Path, names: tuple[str, str], *, is_unchanged: bool
) -> tuple[Run, Run]:
    """Return two runs of random size, churn, clusters and repeats.

    :param names: of the models.
    """
    churn, repeats = rng.choice([0.0, 0.03, 0.06, 0.12]), int(rng.choice([1, 1, 2]))
    records: tuple[list[VerdictRecord], list[VerdictRecord]] = ([], [])
    for benchmark, task, language in LINES:
        drop = 0.0 if is_unchanged else float(rng.choice([0.0, 0.0, 0.05, 0.6, -0.6]))
        size = int(rng.choice([1, 1, 3]))
        for n in range(int(rng.integers(18, 28))):
            first = verdict(f"{task}/{language}/{n}", benchmark=benchmark, task=task, language=language)
            first = replace(first, cluster=f"{task}/{language}/{n // size}")
            usual = rng.random() < 0.7
            after = usual ^ (rng.random() < abs(drop) and usual == (drop > 0))
            for sample in range(repeats):
                for model, right, into in zip(names, (usual, after), records, strict=True):
                    is_right = right ^ (rng.random() < churn / 2)
                    status: RecordStatus = "correct" if is_right else "wrong"
                    into.append(replace(first, model=model, status=status, sample=sample))
    old, new = (
        Run(folder, facts_of(model, summary=[plain(row) for row in summary_rows(rows)]), tuple(rows))
        for model, rows in zip(names, records, strict=True)
    )
    return replace(old, facts=replace(old.facts, run_id="first", started="2026-01-01T00:00:00Z")), new


def check_compare(old: Run, new: Run, recorded: Recorded) -> None:
    """Check every row of compare, and that it has all changes that are worse or better."""
    [contrast] = (comparison := compare([old, new])).contrasts
    text = " ".join(" ".join(terminal_lines(comparison, 400, limit=0)).split())
    rows = {tuple(row["member"].values()): row for row in to_json(comparison)["contrasts"][0]["changes"]}
    shown = set()
    for row in contrast.changes:
        change = row.result
        assert change is not None
        assert f"{points(change.difference)} {point_range(change.low, change.high)} " in text
        assert rows[row.member]["result"]["word"] == change.word
        if change.word == "not judged":
            assert row.member.name == "word_only/en/builtin"
        elif row.member.kind != "all":
            one = recorded[row.member]
            assert (one.word, one.difference, one.ci_low, one.ci_high, one.p) == (
                change.word, change.difference, change.low, change.high, change.p,
            )  # fmt: skip
            shown.add((change.difference, change.low, change.p))
    # What compare leaves out is the same change as a row that it has.
    clear = [c for c in recorded.values() if c.word != "no clear difference"]
    assert {(c.difference, c.ci_low, c.p) for c in clear} <= shown


def check_gate(result: GateResult, new: Run, recorded: Recorded) -> None:
    """Check that each rule has the numbers of its part, and that every output of the gate has its words."""
    for rule, judged in zip(GATE.rules, result.rules, strict=True):
        whole = recorded[rule.where["benchmark"], "benchmark", rule.where["benchmark"]]
        drop, collapse = (c for c in judged.checks if c.kind in ("max_drop", "no_collapse"))
        assert (drop.value, drop.ci_low, drop.ci_high) == (whole.difference, whole.ci_low, whole.ci_high)
        assert f"; {whole.word}, p " in drop.measured
        assert drop.verdict == (
            "met" if -whole.ci_low <= 0.1 else "failed" if whole.word == "worse" else "inconclusive"
        )
        members = [c for c in recorded.values() if (c.benchmark, c.kind) == (whole.benchmark, rule.each)]
        collapsed = any(m.word == "worse" and -m.difference > 0.15 for m in members)
        assert collapse.verdict == ("failed" if collapsed else "met")
    worse = {c for c in recorded.values() if c.word == "worse" and c.kind in ("task", "language", "cluster")}
    assert set(result.losses) <= worse
    assert {c for c in worse if c.kind == "task"} <= set(result.losses)
    files = allure.run_files(replace(new.facts, gate=result), (), new.folder)
    assert from_plain(GateResult, json.loads(files[allure.GATE])) == result
    for text in ("\n".join(gate_lines(result)), gate_markdown(result), files[allure.GATE_TEXT]):
        words = " ".join(text.replace("\\", "").split())
        assert " ".join(result.line.split()) in words
        assert all(" ".join(loss_text(loss).split()) in words for loss in result.losses[:10])
    decision, *checks = allure.quality_gate(result)
    assert (decision["actual"], decision["message"]) == (result.decision, result.line)
    assert [row["actual"] for row in checks] == [c.measured for rule in result.rules for c in rule.checks]


def check_page(old: Run, new: Run, recorded: Recorded) -> None:
    """Check the sentences and the table of the report."""
    series = series_of([old, new])
    for measured in (Measured(benchmark, series) for benchmark in ("homophones", "htest")):
        whole = recorded[measured.benchmark, "benchmark", measured.benchmark]
        assert sentence(whole, series[0].starred) in finding(measured)
        for place in measured.places:
            part = recorded.get((measured.benchmark, "part", "/".join(place)))
            if part is not None:
                numbers = f"{points(part.difference)} ({point_range(part.ci_low, part.ci_high)}), {part.word}"
                assert change_cells(measured, place)[0].text == numbers


def sentence(whole: MemberChange, first: str) -> str:
    """Return the end of a sentence on two models, given the label of the first one."""
    words = {"worse": "does worse than", "better": "does better than"}
    numbers = f"({points(whole.difference)} points, {point_range(whole.ci_low, whole.ci_high)})"
    subject = f"{words[whole.word]} {first}" if whole.word in words else f"and {first} do not clearly differ"
    return f"{subject} on {whole.title if whole.benchmark == 'htest' else whole.benchmark} {numbers}"


def check_site(old: Run, new: Run, contributions: Contributions, recorded: Recorded) -> None:
    """Check the leaderboard, or what changed if both runs are of one model, and the headline."""
    runs = {run.run_id: run for run in (old, new)}
    contributions.run = lambda run: runs[run.run_id]  # type: ignore[method-assign]
    sites = [
        SiteRun(Path(name), str(id(run)), run.facts, shares=shares_of(run)) for name, run in runs.items()
    ]
    page = Index.of(sites, contributions).values
    wholes = {c.title: c for c in recorded.values() if c.kind == "benchmark"}
    if old.models == new.models:
        clear = {title: c for title, c in wholes.items() if c.word != "no clear difference"}
        changes = {step.after.benchmark_facts.title: step for step in page["changes"]}
        assert changes.keys() == clear.keys()
        for title, step in changes.items():
            verb = {"worse": "dropped", "better": "gained"}[clear[title].word]
            size = f"{100 * abs(clear[title].difference):.1f}".removesuffix(".0")
            assert step.did.startswith(f"{verb} {size} point")
            assert step.limits == point_range(clear[title].ci_low, clear[title].ci_high)
        drops = [c for c in clear.values() if c.word == "worse"]
        assert ("dropped" in page["heading"]) is bool(drops)
        assert ("gained" in page["heading"]) is (not drops and bool(clear))
        return
    for benchmark in page["benchmarks"]:
        [board], whole = benchmark.boards, wholes[benchmark.title]
        highest, other = board.rows
        assert highest.against == "highest"
        if highest.measurement.run.run_id == old.run_id:
            numbers = f"{points(whole.difference)} ({point_range(whole.ci_low, whole.ci_high)})"
            assert other.against == f"{numbers}, {whole.word}"
            assert sentence(whole, "old") in board.finding
        else:
            mirrored = {"worse": "better", "better": "worse"}.get(whole.word, whole.word)
            numbers = f"{points(-whole.difference)} ({point_range(-whole.ci_high, -whole.ci_low)})"
            assert other.against == f"{numbers}, {mirrored}"


def test_outputs_agree_on_random_pairs_of_runs(tmp_path: Path) -> None:
    """No output has another sign, word or number for a part."""
    rng = np.random.default_rng(11)
    for n in range(PAIRS):
        names = ("old", "new") if n % 4 < 2 else ("new", "new")
        old, new = pair_of_runs(rng, tmp_path, names, is_unchanged=n % 2 == 0)
        result = decide(GATE, new.facts, new.records, old)
        assert result.decision != "invalid", result.line
        recorded = {(c.benchmark, c.kind, c.name): c for c in result.changes}
        check_gate(result, new, recorded)
        check_compare(old, new, recorded)
        check_page(old, new, recorded)
        check_site(old, new, Contributions(tmp_path / "known"), recorded)
        if n < 4:
            decided = replace(new, facts=replace(new.facts, gate=result))
            assert report_on([old, decided], {}).title.removesuffix(".") == result.line.removesuffix(".")
