"""The tables and figures of a site: leaderboard, drift and trends."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from pytest_llmprops.core.judgement import Change
from pytest_llmprops.core.paired import latest_drop
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.site.contributions import Contributions
from pytest_llmprops.reports.site.drift import Comparisons, Drift, Step, drift_of, sentence
from pytest_llmprops.reports.site.files import SiteFiles
from pytest_llmprops.reports.site.leaderboard import Board, boards_of
from pytest_llmprops.reports.site.measurements import Measurement, ModelIndexes, SiteRun, measurements_of
from pytest_llmprops.reports.site.trends import BOTTOM, LARGE, TOP, Section, trends_of
from pytest_llmprops.runs.catalog import run_folders
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.pairs import comparable_groups
from pytest_llmprops.runs.reader import Run, read_run
from tests.support.records import recorded, verdict, verdicts
from tests.support.team_runs import PROTOCOL, answers, record, team


def boards(folder: Path) -> dict[str, list[Board]]:
    """Return the tables on the runs in a folder by benchmark."""
    contributions = Contributions(SiteFiles(folder.parent / "site"))
    by_benchmark = measurements_of(contributions.runs(run_folders([folder])))
    comparisons = Comparisons({}, contributions.run)
    return {name: boards_of(ms, comparisons, contributions.run) for name, ms in by_benchmark.items()}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Board]:
    """Return the tables on homophones of the team."""
    return boards(team(tmp_path_factory.mktemp("team") / "runs"))["homophones"]


def test_the_numbers_are_those_of_the_report(tables: list[Board]) -> None:
    """Accuracies, intervals, numbers of items, printed figures and the sentence are those of the report."""
    for board in tables:
        report = report_on([read_run(row.measurement.run.folder) for row in board.rows], {})
        # The decision of a gate comes first.
        assert f"{board.finding}." == [report.title, *report.findings][len(report.gates)]
        rows = [(r.label, r.share.value, r.share.low, r.share.high, r.share.n) for r in board.rows if r.share]
        assert rows == [(h.label, h.value, h.low, h.high, h.n) for h in report.overview]
        assert {h.chance for h in report.overview} == {board.chance}
    assert len(tables) == 4


def test_models_that_are_not_clearly_behind_have_no_rank(tables: list[Board]) -> None:
    """Only models that the paired test shows to be behind are called so; differences are model minus best."""
    rows = {row.label: row for row in tables[0].rows}
    assert list(rows) == ["steady", "close", "drifting", "poor*"]
    assert [row.standing for row in rows.values()] == ["highest", "close", "behind", "behind"]
    assert rows["steady"].against == "highest, not clearly ahead of 1 of 3"
    assert rows["close"].against.startswith("not clearly behind the highest: −4.0 (")
    assert rows["drifting"].against.startswith("behind the highest: −27.0 (")


def test_the_latest_complete_run_is_shown(tables: list[Board]) -> None:
    """A row has a model's latest complete run under the same settings, and the number of all of them."""
    rows = {row.label: row for row in tables[0].rows}
    assert (rows["steady"].runs, rows["steady"].measurement.run.run_id) == (4, "steady-3")
    assert (rows["drifting"].runs, rows["drifting"].measurement.run.run_id) == (2, "drifting-1")
    assert rows["steady"].measurement.date == "2026-01-22"
    assert rows["steady"].cost == "0.0123 USD"
    assert [(row.standing, row.against) for board in tables[1:] for row in board.rows] == [("", "")] * 3
    shown = {row.measurement.run.run_id for board in tables for row in board.rows}
    assert shown == {"steady-3", "drifting-1", "close-0", "poor-0", "other-settings", "smoke", "hostile"}


def test_other_settings_and_other_items_have_tables_of_their_own(tables: list[Board]) -> None:
    """A run with another setting or with fewer items shares no table with the others, and the table says why."""
    apart = {board.rows[0].measurement.run.run_id: board.apart for board in tables[1:]}
    assert apart["other-settings"] == ("protocol of homophones: asks 1 → 5",)
    assert apart["smoke"] == ("other items, controls or weights: 5 items instead of 100",)


def test_controls_are_apart_and_printed_figures_are_beside(tables: list[Board]) -> None:
    """Controls have a table of their own, and the paper's figures are below ours."""
    board = tables[0]
    assert [(m.title, m.columns) for m in board.matrices] == [
        ("Controls and tasks that do not count", ("word only",))
    ]
    assert [(p.model, p.value) for p in board.printed][:2] == [("GPT-4", 0.9), ("Ernie-4.0", 0.83)]
    assert all(row.share is not None and row.share.n == 100 for row in board.rows)


def test_runs_of_all_items_come_before_small_ones(tmp_path: Path) -> None:
    """One model on all items is shown before two models on a part of them."""
    for name, size in (("one", 5), ("two", 5), ("whole", 50)):
        rows = verdicts("add", size - 1, 1, model=name)
        recorded(tmp_path / "runs" / name, rows, selection={"sums": {"items": size, "of": 50}})
    first, second = boards(tmp_path / "runs")["sums"]
    assert [row.label for row in first.rows] == ["whole"]
    assert len(second.rows) == 2


def test_repeats_are_named(tmp_path: Path) -> None:
    """A run with several samples of an item is not in the table of those with one, and shows their number."""
    once = verdicts("add", 8, 2, model="once")
    repeated = [verdict("add", n, sample=k, model="often") for n in range(10) for k in range(3)]
    for name, records in (("once", once), ("often", repeated)):
        recorded(tmp_path / "runs" / name, records)
    first, second = boards(tmp_path / "runs")["sums"]
    assert sorted((board.rows[0].label, board.rows[0].items) for board in (first, second)) == [
        ("often", "10 × 3 samples"),
        ("once", "10"),
    ]


def test_two_models_are_ranked_in_both_directions(tmp_path: Path) -> None:
    """With two models, the table tests both directions, and the sentence agrees with the rows."""
    for folder, *numbers in (("close", 90, 85), ("clear", 90, 70)):
        for model, correct in zip(("first", "second"), numbers, strict=True):
            records = verdicts("add", correct, 100 - correct, model=model)
            recorded(tmp_path / folder / "runs" / model, records)
    # Five losses and no gain: p = 0.03 in one direction.
    [board] = boards(tmp_path / "close" / "runs")["sums"]
    assert board.finding == (
        "No model is clearly best on sums: first has 90.0% (82.4 to 95.1), not clearly ahead of second"
    )
    assert [row.standing for row in board.rows] == ["highest", "close"]
    [board] = boards(tmp_path / "clear" / "runs")["sums"]
    assert board.finding == "first does best on sums: 90.0% (82.4 to 95.1), clearly ahead of second"
    assert [row.standing for row in board.rows] == ["best", "behind"]


def test_what_is_accepted_of_pairs_ranks_no_models(tmp_path: Path) -> None:
    """Models with answers on pairs only are in alphabetical order, without a share; the sentence says what counts."""
    for model, accepted in (("zeta", 40), ("alpha", 20)):
        records = [
            verdict("no", n, "correct" if n < accepted else "wrong", model=model, benchmark="oracle")
            for n in range(40)
        ]
        remark = {
            "model": model,
            "benchmark": "oracle",
            "text": f"pairs: no conclusion on {model}",
            "warning": True,
        }
        recorded(tmp_path / "runs" / model, records, remarks=[remark])
    [board] = boards(tmp_path / "runs")["oracle"]
    assert board.finding == "alpha: pairs: no conclusion on alpha; zeta: pairs: no conclusion on zeta"
    assert [(row.label, row.share, row.standing, row.against) for row in board.rows] == [
        ("alpha", None, "", ""), ("zeta", None, "", ""),
    ]  # fmt: skip
    report = report_on([read_run(tmp_path / "runs" / model) for model in ("alpha", "zeta")], {})
    assert report.title == f"{board.finding}."
    assert report.overview == ()


def test_unreadable_and_unanswered_models(tmp_path: Path) -> None:
    """A model without a readable reply is named, and one without an answer has no accuracy."""
    statuses = {"mute": "unparsed", "down": "error", "fine": "correct", "other": "wrong"}
    for model, status in statuses.items():
        records = [verdict("add", n, status, model=model) for n in range(20)]  # type: ignore[arg-type]
        recorded(tmp_path / "runs" / model, records)
    [board] = boards(tmp_path / "runs")["sums"]
    assert board.finding == (
        "fine does best on sums: 100.0% (83.2 to 100.0), clearly ahead of the others; no reply of mute could be read"
    )
    assert [(row.label, row.share is None, row.rest) for row in board.rows] == [
        ("fine", False, ""),
        ("mute", False, "20 unparsed"),
        ("other", False, ""),
        ("down", True, "20 errors"),
    ]


def test_runs_without_a_difference_are_in_one_group(tmp_path: Path) -> None:
    """Runs are in one group exactly if no two of them differ; deviations count only if asked."""

    def facts(name: str, **more: Any) -> RunMetadata:
        return read_run(record(tmp_path / name, 0, answers("m", 0.5, 1, items=5), **more)).facts

    other = {"homophones": {"name": "quick", "settings": {"match": "word", "asks": 1}, "seed": 1}}
    runs = [
        facts("a", data={"builtin:homophones/en.jsonl": "1"}),
        facts("b", deviations={"m": ["temperature left out"]}),
        facts("c", protocols=other),
        facts("d", data={"builtin:homophones/en.jsonl": "2"}),
        facts("e", protocols=other),
    ]
    assert comparable_groups(runs, "homophones", deviations=False) == [0, 0, 1, 2, 1]
    assert comparable_groups(runs, "homophones") == [0, 1, 2, 3, 2]


def drifts(folder: Path) -> list[Drift]:
    """Return the drift in a folder of runs."""
    contributions = Contributions(SiteFiles(folder.parent / "site"))
    by_benchmark = measurements_of(contributions.runs(run_folders([folder])))
    return drift_of(by_benchmark, Comparisons({}, contributions.run))


def steps(folder: Path) -> list[Step]:
    """Return the steps of all models."""
    return [step for drift in drifts(folder) for step in drift.steps]


def with_lost(records: list[VerdictRecord], lost: int) -> list[VerdictRecord]:
    """Return the records with the first correct answers wrong."""
    changed = []
    for r in records:
        is_lost = lost > 0 and r.status == "correct" and r.task == "asked"
        lost -= is_lost
        changed.append(replace(r, status="wrong", score=0.0) if is_lost else r)
    return changed


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder for runs."""
    return tmp_path / "runs"


def test_a_planted_change_is_found_and_no_other(runs: Path) -> None:
    """A change of one model between two runs is the only one found; it counts the items lost and gained."""
    for n in range(4):
        records = answers("model", 0.9, 1, items=300)
        record(runs / f"model-{n}", n, with_lost(records, 25) if n >= 2 else records)
        record(runs / f"same-{n}", n, answers("same", 0.8, 2, items=300))
    found = {(s.after.run.run_id): s for s in steps(runs)}
    assert len(found) == 6
    changed = [name for name, step in found.items() if step.is_change]
    assert changed == ["model-2"]
    result = found["model-2"].result
    assert result is not None
    assert (result.lost, result.gained, result.pairs) == (25, 0, 300)
    assert found["model-2"].conclusion == "worse"
    assert found["same-1"].conclusion == "no clear difference"
    assert (
        sentence(drifts(runs))
        == "model changed: 1 of 6 comparisons with earlier runs shows a clear difference"
    )


def test_the_numbers_are_those_of_compare(runs: Path) -> None:
    """With one earlier run, differences, limits and counts are those of ``llmprops compare``."""
    first = record(runs / "a", 0, answers("model", 0.9, 1))
    second = record(runs / "b", 1, answers("model", 0.7, 2))
    [step] = steps(runs)
    [contrast] = compare([read_run(first), read_run(second)]).contrasts
    [change] = [c for c in contrast.changes if c.task_key and c.task_key.task == "asked"]
    assert change.result is not None
    assert step.result is not None
    names = ("pairs", "lost", "gained", "difference", "low", "high", "noun")
    assert attrgetter(*names)(step.result) == attrgetter(*names)(change.result)
    assert change.result.one_sided_p < step.result.one_sided_p < 10 * change.result.one_sided_p


def noisy(rng: np.random.Generator, items: int = 200, *, lost: int = 0, noise: float = 0.03) -> list[bool]:
    """Return which items are right; 80% are, except those that are lost, and each flips with probability ``noise``."""
    usual = np.arange(items) < 0.8 * items
    usual[:lost] = False
    right: list[bool] = (usual ^ (rng.random(items) < noise)).tolist()
    return right


def test_earlier_runs_show_what_noise_is(runs: Path) -> None:
    """A drop that two runs do not show is found among ten, once; later runs are compared with those after it."""
    rng = np.random.default_rng(0)
    for n in range(12):
        right = noisy(rng, lost=16 if n >= 10 else 0)
        records = [
            verdict("asked", k, "correct" if r else "wrong", benchmark="homophones", model="m")
            for k, r in enumerate(right)
        ]
        record(runs / f"run-{n:02d}", n, records)
    found = steps(runs)[::-1]
    assert [step.earlier for step in found] == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 1]
    assert [step.after.run.run_id for step in found if step.is_change] == ["run-10"]
    assert {step.conclusion.split(" (")[0] for step in found} == {"worse", "no clear difference"}
    change = found[-2].result
    assert change is not None
    assert change.difference == pytest.approx(-0.08, abs=0.03)
    for n in range(9):
        shutil.rmtree(runs / f"run-{n:02d}")
    assert not any(step.is_change for step in steps(runs))


class FastComparisons(Comparisons):
    """Computes the tests of simulated runs without the intervals of their differences."""

    right: ClassVar[dict[str, list[bool]]] = {}

    def change(self, earlier: Sequence[Measurement], after: Measurement) -> Change | None:
        """Return a result with the p-values of a change."""
        scores = np.array([self.right[m.run.key] for m in (*earlier, after)], dtype=float).T
        difference = float((scores[:, -1] - scores[:, :-1].mean(axis=1)).mean())
        p = latest_drop(scores if difference < 0 else -scores)
        return Change("not judged", len(scores), 0, 0, difference, 0, 0, 1.0, p, "", "")


def changes(rng: np.random.Generator, facts: RunMetadata, number: int, models: int, **more: Any) -> list[int]:
    """Return the numbers of the weekly runs that a site calls changes; the first model loses 20 items in run 20."""
    measurements = []
    for model in range(models):
        for n in range(number):
            run = SiteRun(Path(), f"{model} {n}", replace(facts, started=f"{n:03d}", run_id=str(n)))
            lost = more.get("lost", 0) if model == 0 and n >= 20 else 0
            FastComparisons.right[run.key] = noisy(rng, lost=lost, noise=more["noise"])
            measurements.append(Measurement(run, str(model), "homophones"))
    found = drift_of({"homophones": measurements}, FastComparisons({}, _not_read))
    return [int(s.after.run.run_id) for drift in found for s in drift.steps if s.is_change]


def _not_read(run: SiteRun) -> Run:
    raise AssertionError(run)


def test_a_drop_is_found_and_an_unchanged_model_is_not(runs: Path) -> None:
    """Of 200 items, a drop of 10 points is found within three runs. At most 5% of years have a false alarm."""
    facts = read_run(record(runs / "a", 0, answers("m", 0.9, 1, items=5))).facts
    rng = np.random.default_rng(0)
    assert sum(bool(changes(rng, facts, 53, 1, noise=0.03)) for _ in range(40)) <= 2
    found = [changes(rng, facts, 23, 5, lost=20, noise=0.03) for _ in range(20)]
    assert sum(bool({20, 21, 22} & set(numbers)) for numbers in found) >= 16


@pytest.mark.parametrize(("stored", "earlier"), [(5, [1, 2, 3]), (50, [1, 2, 1]), (100, [1, 2, 2])])
def test_stored_replies_are_not_evidence_twice(runs: Path, stored: int, earlier: list[int]) -> None:
    """A run with many stored replies starts the earlier runs again, and one with only these is not among them."""
    for n in range(4):
        calls = {"requests": 100, "cache_hits": stored if n == 2 else 0}
        record(runs / f"run-{n}", n, answers("model", 0.9, 1), calls=calls)
    assert [step.earlier for step in steps(runs)[::-1]] == earlier


def test_a_change_counts_clusters_and_answered_items(runs: Path) -> None:
    """Items without an answer in one of the runs are left out; items of a cluster are exchanged together."""
    for n in range(4):
        records = [
            verdict("asked", k, "correct" if n < 3 or k >= 8 else "wrong", benchmark="homophones", cluster=str(k // 8))
            for k in range(80)
        ]  # fmt: skip
        records[70 + n] = replace(records[70 + n], status="error", score=None)
        record(runs / f"run-{n}", n, records)
    last, *others = [step.result for step in steps(runs)]
    assert last is not None
    assert (last.pairs, last.lost) == (76, 8)
    assert last.one_sided_p == pytest.approx(1 / 4)
    assert [result.pairs for result in others if result] == [77, 78]


def test_a_change_of_paradigms_counts_each_once(runs: Path) -> None:
    """Where each cluster counts once, the difference is the mean over clusters."""
    for n in range(3):
        records = [
            verdict("explicit", k, "correct" if n < 2 or k else "wrong", benchmark="eras", cluster=str(min(k, 1)))
            for k in range(10)
        ]  # fmt: skip
        record(runs / f"run-{n}", n, records)
    result = steps(runs)[0].result
    assert result is not None
    assert (result.noun, result.pairs, result.lost) == ("cluster", 2, 1)
    assert result.difference == pytest.approx(-0.5)


def test_items_whose_task_depends_on_the_answer_are_compared(runs: Path) -> None:
    """An item has another task if the model answers otherwise, and is the same item."""
    for n in range(3):
        item = verdict("yes", 0, "correct" if n < 2 else "wrong", benchmark="oracle")
        moved = replace(item, task="no" if n == 2 else "yes")
        record(runs / f"run-{n}", n, [moved])
    result = steps(runs)[0].result
    assert result is not None
    assert (result.pairs, result.lost) == (1, 1)


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ({}, 1),
        ({"deviations": {"model": ["temperature left out"]}}, 0),
        ({"options": {"params": {"top_p": 0.5}}}, 0),
        ({"complete": False}, 0),
    ],
)
def test_only_comparable_runs_are_compared(runs: Path, more: dict[str, Any], count: int) -> None:
    """Runs with other deviations, parameters or settings are not compared, and neither are incomplete ones."""
    record(runs / "a", 0, answers("model", 0.9, 1))
    record(runs / "b", 1, answers("model", 0.1, 2), **more)
    assert len(steps(runs)) == count


def test_runs_between_with_other_settings_are_passed_over(runs: Path) -> None:
    """Consecutive runs are those of the same settings."""
    other = {"homophones": {"name": "paper", "settings": {}, "seed": 0}}
    record(runs / "a", 0, answers("model", 0.9, 1))
    record(runs / "b", 1, answers("model", 0.9, 1), protocols=other)
    record(runs / "c", 2, answers("model", 0.9, 1))
    assert [(s.before.run.run_id, s.after.run.run_id) for s in steps(runs)] == [("a", "c")]


def test_a_replay_is_no_evidence(runs: Path) -> None:
    """If the store answered every request of the later run, nothing was measured, and nothing is concluded."""
    record(runs / "a", 0, answers("model", 0.9, 1))
    record(runs / "b", 1, answers("model", 0.9, 1), calls={"requests": 100, "cache_hits": 100})
    [step] = steps(runs)
    assert (step.result, step.conclusion) == (None, "not asked again: every reply is from the store")
    assert sentence(drifts(runs)) == "No model was asked again"


def test_a_changed_served_model_and_version_are_shown(runs: Path) -> None:
    """The model that the server reports, and the recorded version, are shown if they changed."""
    for n, served in enumerate(("gpt-0613", "gpt-1106")):
        model = {"spec": "gpt", "served_as": [served], "identity": {"model": "gpt", "revision": str(n)}}
        record(runs / f"run-{n}", n, answers("gpt", 0.9, 1), models={"gpt": model})
    [step] = steps(runs)
    assert (step.served, step.identity) == ("gpt-0613 → gpt-1106", "revision 0 → 1")
    assert not step.is_change


def test_few_items_show_no_clear_change(runs: Path) -> None:
    """Ten items are too few for a change."""
    for day, items in enumerate((10, 10)):
        record(runs / f"few-{day}", day, answers("few", 0.9, 1, items=items))
    assert sentence(drifts(runs)) == "No clear change in 1 comparison with earlier runs"


def test_without_comparable_runs(runs: Path) -> None:
    """With one run per model, the page says that nothing can be compared yet."""
    record(runs / "a", 0, answers("model", 0.9, 1))
    assert sentence(drifts(runs)) == "No model has two comparable runs yet"


def section(folder: Path, benchmark: str = "homophones") -> Section | None:
    """Return the figures on the runs in a folder."""
    runs = Contributions(SiteFiles(folder.parent / "site")).runs(run_folders([folder]))
    members = measurements_of(runs)[benchmark]
    models = ModelIndexes.of(m.model for m in members)
    return trends_of(members, models, {run.key: n for n, run in enumerate(runs)})


def test_lines_connect_runs_that_may_be_compared(tmp_path: Path) -> None:
    """A run with other settings is a point of its own; accuracy goes up from 0 to 100%, time to the right."""
    other = {"homophones": {**PROTOCOL, "seed": 1}}
    for day, correct in enumerate((0, 5, 10)):
        record(
            tmp_path / "runs" / f"run-{day}",
            day,
            verdicts("asked", correct, 10 - correct, benchmark="homophones"),
        )
    record(tmp_path / "runs" / "other", 3, verdicts("asked", 5, 5, benchmark="homophones"), protocols=other)
    found = section(tmp_path / "runs")
    assert found is not None
    [line] = found.main.lines
    parts = [part.split("L") for part in line.line.split("M")[1:]]
    assert [len(part) for part in parts] == [3, 1]
    places = [tuple(map(float, place.split())) for part in parts for place in part]
    height = LARGE[1] - TOP - BOTTOM
    assert [y for _, y in places] == pytest.approx([TOP + height, TOP + height / 2, TOP, TOP + height / 2])
    gaps = {round(b[0] - a[0], 1) for a, b in pairwise(places)}
    assert max(gaps) - min(gaps) < 0.2
    intervals = re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", line.intervals)
    assert len(intervals) == 4
    assert all(float(low) > float(high) for _, low, high in intervals)
    assert found.tasks == ()
    assert [row[:4] for row in found.main.numbers][:2] == [
        ("2026-01-04", "model", "50.0% (18.7 to 81.3)", 10),
        ("2026-01-03", "model", "100.0% (69.2 to 100.0)", 10),
    ]


def test_each_task_has_a_figure_and_the_chance_level(tmp_path: Path) -> None:
    """Controls are named, and guessing is a line where the benchmark defines it."""
    records = [
        *verdicts("rhyme", 5, 5, benchmark="htest"),
        *verdicts("letter_geometry", 5, 5, benchmark="htest"),
    ]
    record(tmp_path / "runs" / "one", 0, records)
    found = section(tmp_path / "runs", "htest")
    assert found is not None
    assert [trend.title for trend in found.tasks] == ["letter geometry", "rhyme"]
    assert found.main.chance is not None
    assert [label for _, label in found.main.shares] == ["0%", "25%", "50%", "75%", "100%"]


def test_runs_without_a_date_have_no_place(tmp_path: Path) -> None:
    """Without a date or an answer there is no figure."""
    record(tmp_path / "runs" / "undated", 0, verdicts("asked", 5, 5, benchmark="homophones"), started="")
    assert section(tmp_path / "runs") is None
