"""Tables 1 and 2 from trained models: numbers, intervals over seeds and paradigms, continuing after a stop."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pytest_llmprops.benchmarks.eras.judging import pair_result
from pytest_llmprops.benchmarks.eras.metrics import authors_metrics
from pytest_llmprops.benchmarks.eras.tools.training.experiment import (
    Experiment,
    Model,
    classifiers,
    crossed_mean,
    measure,
    run_experiment,
    segmenters,
    table1_numbers,
    table2_numbers,
)
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import DataError, LLMPropsError, UsageError
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.training.task import Settings
from tests.support.eras_records import explicit, implicit, write
from tests.support.training import lines_said, needs_train, save_base, sentences, silent, write_corpus

FLAT = {"occluded_test": 0.5, "occluded_control": 0.5}


def test_one_seed_is_the_t_interval_over_paradigms() -> None:
    """With one factor, the interval is Student's."""
    values = [0.2, 0.4, 0.9, 0.7]
    estimate = crossed_mean([values], bounded=False, least=-9, most=9)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (estimate.low, estimate.high) == pytest.approx((low, high))
    transposed = crossed_mean([[value] for value in values], bounded=False, least=-9, most=9)
    assert transposed == pytest.approx(estimate)


def test_variance_of_seeds_widens_the_interval() -> None:
    """Three seeds that differ have a wider interval than three equal ones, with few degrees of freedom."""
    paradigms = np.linspace(0.5, 0.7, 20)
    equal = crossed_mean([paradigms.tolist()] * 3, bounded=False)
    apart = crossed_mean([(paradigms + shift).tolist() for shift in (-0.1, 0, 0.1)], bounded=False)
    assert apart.value == pytest.approx(equal.value)
    assert equal.low is not None
    assert apart.low is not None
    # The standard error of the seeds alone is 0.0577, and t with two degrees of freedom 4.30.
    assert apart.value - apart.low > 0.2 > 5 * (equal.value - equal.low)


def test_equal_values_have_an_interval() -> None:
    """39 paradigms with 100% do not show that every paradigm has 100%."""
    estimate = crossed_mean([[1.0] * 39] * 3)
    assert estimate.high == 1
    assert estimate.low is not None
    assert 0.8 < estimate.low < 0.97


@pytest.mark.simulation
@pytest.mark.parametrize(("by_seed", "by_paradigm"), [(0.0, 0.1), (0.1, 0.1), (0.1, 0.0), (0.0, 0.0)])
def test_interval_covers_the_mean(by_seed: float, by_paradigm: float) -> None:
    """For normal effects of 3 seeds and 20 paradigms, 95% intervals cover the mean in at least 93% of 2,000 samples.

    The standard error of this share is 0.5 points.
    """
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        table = (
            random.normal(0, 0.1, (3, 20))
            + random.normal(0, by_seed, (3, 1))
            + random.normal(0, by_paradigm, 20)
        )
        _, low, high = crossed_mean(table.tolist(), least=-9, most=9, bounded=False)
        assert low is not None
        assert high is not None
        covered += low <= 0 <= high
    assert covered >= 0.93 * 2000


def test_table_1_is_the_mean_over_paradigms_and_seeds() -> None:
    """Each paradigm and each seed counts once, in all and in left- and right-branching paradigms."""
    first = [explicit(1, 0, 1, 1), explicit(1, 1, 0, 1), explicit(2, 0, 0, 1)]
    second = [explicit(1, 0, 1, 1), explicit(1, 1, 1, 1), explicit(2, 0, 0, 0)]
    numbers = table1_numbers([first, second])
    assert numbers["test_accuracy", "overall"].value == pytest.approx((0.5 + 0 + 1 + 0) / 4)
    assert numbers["test_accuracy", "left"].value == pytest.approx(0.75)
    assert numbers["difference", "right"].value == pytest.approx(0.5)
    assert table1_numbers([first])["control_accuracy", "left"].value == 1
    with pytest.raises(DataError, match="no paradigm in common"):
        table1_numbers([first[:2], second[2:]])


def test_table_2_is_that_of_the_authors_code() -> None:
    """With one seed, the numbers are the metrics of a run: shares over all pairs, and GPER from their product."""
    draws = np.random.default_rng(1).uniform(size=(60, 4)).tolist()
    pairs = [
        implicit(1 + n % 5, test, control, occluded_test=masked, occluded_control=masked_control)
        for n, (test, control, masked, masked_control) in enumerate(draws)
    ]
    numbers = table2_numbers([pairs])
    rows = authors_metrics(("implicit", "zh", "builtin"), [pair_result(p.values) for p in pairs])
    for row in rows:
        assert numbers[row.name.removeprefix("authors_"), ""].value == pytest.approx(row.value)
    gper = numbers["gper", ""]
    assert gper.low is not None
    assert gper.high is not None
    assert gper.low < gper.value < gper.high
    assert ("difference", "+/-") in numbers
    both = table2_numbers([pairs, pairs])
    assert both["necessity", ""].value == pytest.approx(numbers["necessity", ""].value)


def toy(name: str, slug: str, trained: list[str], scores: Sequence[dict[str, Any]]) -> Model:
    """Return a model whose training only writes the record of a training, unless it is complete."""

    def train(settings: Settings, out: Path, plan: bool, say: Callable[[str], object]) -> None:
        trained.append("plan" if plan else out.name)
        if not plan:
            out.mkdir(parents=True, exist_ok=True)
            (out / "training.json").write_text(
                json.dumps({"complete": True, "scores": scores}), encoding="utf-8"
            )

    return Model(name, slug, train)


def records(table: int, seed: int) -> list[VerdictRecord]:
    if table == 1:
        return [explicit(1, n, float(n <= seed), 1) for n in range(4)] + [explicit(2, 0, 1, 1)]
    return [implicit(n, 0.2 + 0.1 * seed, 0.6, **FLAT) for n in (1, 2, 3)]


class Interrupted(Exception):
    """What a test raises to stop an experiment."""


@pytest.mark.parametrize("table", [1, 2])
def test_experiment_goes_on_where_it_stopped(tmp_path: Path, table: int) -> None:
    """After a stop, only what is missing is trained and measured; the table is that of an uninterrupted experiment."""
    trained: list[str] = []
    if table == 1:
        scores: list[dict[str, Any]] = [{"file": "g", "f1": 0.9, "oov_recall": 0.5}]
    else:
        numbers = {"accuracy": 0.97, "accuracy_low": 0.9, "accuracy_high": 0.99, "n": 9}
        scores = [{"file": "asap/test.csv", **numbers}]
    names = ("PKU", "MSR") if table == 1 else ("WWM", "CWS")
    models = [toy(n, n.lower(), trained, s) for n, s in zip(names, (scores, []), strict=True)]
    experiment, out = Experiment(table, models, 2, arguments=["--llm-limit", "4"]), tmp_path / "out"
    measured: list[str] = []

    def measure(model: Path, run: Path, arguments: Sequence[str]) -> None:
        if len(measured) == 3:
            raise Interrupted
        assert arguments[-2:] == ["--llm-limit", "4"]
        write(run, records(table, int(run.name[-1])))
        measured.append(run.name)

    with pytest.raises(Interrupted):
        run_experiment(experiment, Settings(), out, say=silent, measured_by=measure)
    partly = (out / "table.md").read_text(encoding="utf-8")
    assert [name in partly for name in names] == [True, False], "the first model is in the table already"
    trained.clear()
    measured.clear()
    said, say = lines_said()
    run_experiment(experiment, Settings(), out, say=say, measured_by=measure)
    assert trained == measured == [f"{models[1].slug}-seed1"]
    with open(out / "table.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {(row["model"], row["from"]) for row in rows} == {
        (model.name, origin) for model in models for origin in ("here, 2 seeds", "the paper")
    }
    own = [row for row in rows if (row["model"], row["from"]) == (names[0], "here, 2 seeds")]
    first = {row["metric"]: row for row in own}
    name, value = ("word_f1", 0.9) if table == 1 else ("sentiment_accuracy", 0.97)
    assert float(first[name]["value"]) == value
    assert all(float(row["ci_low"]) <= float(row["value"]) <= float(row["ci_high"]) for row in first.values())
    assert said[-1] == (out / "table.md").read_text(encoding="utf-8")
    if table == 2:
        assert (out / "runs" / "wwm-seed1" / "sentiment_accuracy.json").is_file()
    with pytest.raises(UsageError, match=r"other options \(arguments\);"):
        run_experiment(replace(experiment, arguments=[]), Settings(), out, say=silent, measured_by=measure)
    run_experiment(experiment, Settings(), out, plan=True, say=silent)
    assert trained[-2:] == ["plan", "plan"]


def test_printed_rows_are_the_papers(tmp_path: Path) -> None:
    """The rows below the measured ones have the printed numbers, with F1 from footnote 6."""
    for table, model, printed in ((1, "MSR", "98.3"), (2, "WWM+CWS", "18.8")):
        trained: list[str] = []
        experiment = Experiment(table, [toy(model, "m", trained, [])], 1)
        out = tmp_path / str(table)

        def written(folder: Path, run: Path, arguments: Sequence[str], table: int = table) -> None:
            write(run, records(table, 0))

        run_experiment(experiment, Settings(), out, say=silent, measured_by=written)
        [line] = [x for x in (out / "table.md").read_text(encoding="utf-8").splitlines() if "the paper" in x]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[2 if table == 2 else -1] == printed
        assert "–" not in cells
        assert "with one seed" in (out / "table.md").read_text(encoding="utf-8")


def test_files_of_the_corpora(tmp_path: Path) -> None:
    """The files of SIGHAN are found at any depth; a missing one is named."""
    for name in ("training/pku_training.utf8", "gold/pku_test_gold.utf8", "training/msr_training.utf8"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [m.slug for m in segmenters(tmp_path, "base", ["pku"])] == ["pku"]
    with pytest.raises(UsageError, match=r"no as_training.utf8 in this folder"):
        segmenters(tmp_path, "base")
    with pytest.raises(UsageError, match=r"no msr_test_gold.utf8 or msr_testing_gold.utf8"):
        segmenters(tmp_path, "base", ["msr"])
    with pytest.raises(UsageError, match="--only x: give as, cityu, pku or msr"):
        segmenters(tmp_path, "base", ["x"])
    assert [m.name for m in classifiers(tmp_path, "a", "b")] == ["Sentiment Only", "WWM", "CWS", "WWM+CWS"]
    assert [m.slug for m in classifiers(tmp_path, "a", "b", only=["wwm-cws"])] == ["wwm-cws"]
    with pytest.raises(UsageError, match="--only x"):
        classifiers(tmp_path, "a", "b", only=["x"])


@needs_train
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_table_1_from_files_to_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command trains, measures with pytest in another process, and prints the table; again, it only prints."""
    write_corpus(tmp_path / "pku_training.utf8", sentences(60))
    write_corpus(tmp_path / "pku_test_gold.utf8", sentences(66)[60:])
    base, out = save_base(tmp_path / "base"), tmp_path / "out"
    words = ["eras", "train", "table1", "--data", tmp_path, "--base", base, "--out", out, "--only", "pku"]
    words += ["--seeds", 1, "--limit", 1, "--epochs", 1, "--evaluations", 1, "--threads", 1, "--batch", 8]
    assert main([str(word) for word in words]) == 0
    first = capsys.readouterr().out
    assert "| PKU | here, 1 seed |" in first
    assert "PKU, seed 0: training" in first
    assert main([str(word) for word in words]) == 0
    again = capsys.readouterr().out
    assert "seed 0: training" not in again
    assert again.strip() in first


def test_a_model_that_cannot_be_measured_is_one_line(tmp_path: Path) -> None:
    """pytest's last line says why; the run is not counted as measured."""
    with pytest.raises(LLMPropsError, match="pytest ended with status") as raised:
        measure(tmp_path / "missing", tmp_path / "run", [])
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent was killed")
def test_measurement_ends_with_a_killed_training(tmp_path: Path) -> None:
    """A training that is killed (SIGKILL) leaves no pytest that measures its model."""
    fake = tmp_path / "python"
    new, pid = tmp_path / "new", tmp_path / "pid"
    fake.write_text(f"#!/bin/sh\necho $$ > {new}; mv {new} {pid}; exec sleep 60\n")
    fake.chmod(0o700)
    code = (
        "import sys; from pathlib import Path; from pytest_llmprops.benchmarks.eras.tools.training import experiment;"
        f"sys.executable = {str(fake)!r}; experiment.measure(Path('model'), Path('run'), [])"
    )
    training = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    try:
        wait_until(pid.exists)
        measuring = int(pid.read_text())
        training.kill()
        wait_until(lambda: not is_running(measuring))
    finally:
        training.kill()
        training.wait()


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for a minute at most."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(process: int) -> bool:
    """Return True if a process has not ended; one that nobody waits for has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
