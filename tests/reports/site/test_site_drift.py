"""Drift is found where it was planted, and not where it was not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.comparison import judged_together
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.reports.site.contributions import Contributions
from pytest_llmprops.reports.site.drift import Comparisons, Drift, Step, drift_of, sentence
from pytest_llmprops.reports.site.files import SiteFiles
from pytest_llmprops.reports.site.measurements import measurements_of
from pytest_llmprops.runs.catalog import run_folders
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.reader import read_run
from tests.support.team_runs import answers, record


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
    assert (result.losses, result.gains, result.pairs) == (25, 0, 300)
    assert found["model-2"].conclusion == "drop"
    assert found["same-1"].conclusion.startswith("no clear difference (300 items would show a drop of ")
    assert (
        sentence(drifts(runs))
        == "model changed: 1 of 6 comparisons of consecutive runs shows a drop or a gain"
    )


def test_the_numbers_are_those_of_compare(runs: Path) -> None:
    """The difference, its interval and the p-value before the correction are those of ``llmprops compare``."""
    first = record(runs / "a", 0, answers("model", 0.9, 1))
    second = record(runs / "b", 1, answers("model", 0.7, 2))
    [step] = steps(runs)
    [contrast] = compare([read_run(first), read_run(second)]).contrasts
    [change] = [c for c in contrast.changes if c.task_key and c.task_key.task == "asked"]
    assert change.result is not None
    assert step.result == judged_together([change.result])[0]


def test_noise_between_runs_is_rarely_called_a_change(runs: Path) -> None:
    """With 16 runs of one model that answers at random, Holm's correction leaves no change."""
    for n in range(16):
        record(runs / f"noisy-{n:02d}", n, answers("noisy", 0.7, 100 + n, items=60))
    found = steps(runs)
    assert len(found) == 15
    assert any(step.result is not None and step.result.losses for step in found)
    assert not any(step.is_change for step in found)
    # One of them would be called a change alone.
    alone = [r for r in (_alone(step) for step in found) if r <= 0.05]
    assert alone


def _alone(step: Step) -> float:
    folders = [m.run.folder for m in (step.before, step.after)]
    [contrast] = compare([read_run(folder) for folder in folders]).contrasts
    result = contrast.changes[0].result
    assert result is not None
    return min(result.p, 1.0 if result.p_gain is None else result.p_gain)


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


def test_the_sentence_counts_inconclusive_comparisons(runs: Path) -> None:
    """Too few items to show a drop that matters are not called "no change" without saying so."""
    for day, items in enumerate((10, 10)):
        record(runs / f"few-{day}", day, answers("few", 0.9, 1, items=items))
    assert sentence(drifts(runs)) == "No clear change in 1 comparison of consecutive runs; 1 inconclusive"


def test_without_comparable_runs(runs: Path) -> None:
    """With one run per model, the page says that nothing can be compared yet."""
    record(runs / "a", 0, answers("model", 0.9, 1))
    assert sentence(drifts(runs)) == "No model has two comparable runs yet"
