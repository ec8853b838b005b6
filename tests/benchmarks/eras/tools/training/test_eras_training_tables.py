"""Tables 1 and 2 from trained models: numbers, intervals over seeds and paradigms, continuing after a stop."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pytest_llmprops.benchmarks.eras.cli.train import figures_in
from pytest_llmprops.benchmarks.eras.judging import pair_result
from pytest_llmprops.benchmarks.eras.metrics import authors_metrics
from pytest_llmprops.benchmarks.eras.tools.training.experiment import (
    Experiment,
    Model,
    chosen_items,
    classifiers,
    item_arguments,
    measure,
    measured_sentences,
    run_experiment,
    segmenters,
)
from pytest_llmprops.benchmarks.eras.tools.training.tables import (
    TIES,
    crossed_mean,
    table1_numbers,
    table2_numbers,
)
from pytest_llmprops.benchmarks.eras.tools.training.wwm import WwmOptions, train_wwm
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import DataError, LLMPropsError, UsageError
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.training.task import Settings
from tests.support.commands import killed_with_its_child
from tests.support.eras_records import explicit, implicit, write
from tests.support.published_shapes import published_shapes
from tests.support.training import (
    WORDS,
    lines_said,
    needs_train,
    save_base,
    sentences,
    settings_of,
    silent,
    write_corpus,
    write_reviews,
)

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


def test_ties_are_counted_and_never_a_gper() -> None:
    """The share of ties has its own column; if a seed has nothing else, no other number is shown."""
    mixed = [implicit(1, 0.3, 0.3, **FLAT), implicit(2, 0.7, 0.4, **FLAT)]
    numbers = table2_numbers([mixed])
    assert numbers[TIES].value == 0.5
    assert numbers["pair_accuracy", ""].value == 0.5, "a tie is correct"
    assert numbers["necessity", ""].value == 1, "and an error that occlusion explains"
    equal = [implicit(n, 0.3, 0.3, **FLAT) for n in (1, 2)]
    assert set(table2_numbers([equal])) == {TIES}
    assert set(table2_numbers([mixed, equal])) == {TIES}
    assert table2_numbers([mixed, equal])[TIES].value == 0.75


def toy(name: str, slug: str, trained: list[str], scores: Sequence[dict[str, Any]]) -> Model:
    """Return a model whose training only writes the record of a training, unless it is complete."""

    def train(settings: Settings, out: Path, plan: bool, say: Callable[[str], object]) -> None:
        trained.append("plan" if plan else out.name)
        if not plan:
            out.mkdir(parents=True, exist_ok=True)
            (out / "training.json").write_text(
                json.dumps({"complete": True, "scores": scores, "training": {"lines": 1234}}),
                encoding="utf-8",
            )

    return Model(name, slug, train, base="a base")


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
    out = tmp_path / "out"
    experiment = Experiment(
        table, models, 2, {"limit": 4}, arguments=["--llm-limit", "4"], show=figures_in(out)
    )
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
        (model.name, origin) for model in models for origin in ("here", "the paper")
    }
    facts = [[row[name] for name in ("items", "pairs", "base", "lines", "seeds")] for row in rows]
    paper = "chinese-bert-wwm-ext" if table == 2 else "bert-base-chinese"
    assert facts[0] == ["builtin", "5" if table == 1 else "3", "a base", "1234", "2"]
    assert ["the authors'", "203944", paper, "", ""] in facts
    own = [row for row in rows if (row["model"], row["from"]) == (names[0], "here")]
    first = {row["metric"]: row for row in own}
    name, value = ("word_f1", 0.9) if table == 1 else ("sentiment_accuracy", 0.97)
    assert float(first[name]["value"]) == value
    assert all(float(row["ci_low"]) <= float(row["value"]) <= float(row["ci_high"]) for row in first.values())
    assert said[-1] == (out / "table.md").read_text(encoding="utf-8")
    if table == 2:
        assert (out / "runs" / "wwm-seed1" / "sentiment_accuracy.json").is_file()
    check_figures(out, table)
    other = replace(experiment, options={"limit": None}, seeds=3)
    with pytest.raises(UsageError) as refused:
        run_experiment(other, Settings(batch=8), out, say=silent, measured_by=measure)
    assert str(refused.value) == (
        f"--out {out}: the folder was begun with other settings: seeds: recorded 2, given 3; limit: recorded 4, given"
        " none; batch: recorded 32, given 8. Repeat the command with the recorded values to continue, or give a new"
        " folder"
    )
    run_experiment(experiment, Settings(), out, plan=True, say=silent)
    assert trained[-2:] == ["plan", "plan"]


def check_figures(out: Path, table: int) -> None:
    """Check that a table's figures say what each row is based on, and that Figure 5 has its numbers as CSV."""
    if table == 1:
        svg = (out / "figures" / "table-1.svg").read_text(encoding="utf-8")
        assert "PKU, here: builtin, 5 pairs, a base, 1,234 lines, 2 seeds" in svg
        assert "PKU, the paper: the authors', 203,944 pairs, bert-base-chinese" in svg
        return
    assert [file.name for file in sorted((out / "figures").glob("*.svg"))] == ["figure-5-asap.svg"]
    svg = (out / "figures" / "figure-5-asap.svg").read_text(encoding="utf-8")
    assert "WWM, here: builtin, 3 pairs, a base, 1,234 lines, 2 seeds" in svg
    assert "published: the authors', 203,944 pairs" in svg
    with open(out / "figure-5.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["corpus"], row["model"]) for row in rows if row["from"] == "here"] == [("ASAP", "WWM")]
    assert rows[0]["sentiment_accuracy"] == "0.97"
    assert rows[0]["lines"] == "1234"
    printed = {(row["corpus"], row["model"]): row for row in rows if row["from"] == "the paper"}
    assert len(printed) == 2 * 7
    assert printed["ChnSentiCorp", "RoBERTa-330M"]["gper"] == "0.38"


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
        assert cells[7 if table == 2 else -1] == printed
        missing = ["lines", "seeds"] + ["ties"] * (table == 2)
        assert cells.count("–") == len(missing)
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
    with pytest.raises(UsageError, match="--base small: only segmenters have it"):
        classifiers(tmp_path, "small", "b")


def test_items_are_the_published_templates_if_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --eras, the templates in LLMPROPS_DATA are measured; without them, a line names the built-in frames."""
    said, say = lines_said()
    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    assert item_arguments(chosen_items(None, say)) == ["--llm-source", "builtin"]
    assert "this project's built-in frames" in said[-1]
    assert "LLMPROPS_DATA is not set. `llmprops data pull eras --dest DIR`" in said[-1]
    monkeypatch.setenv("LLMPROPS_DATA", str(tmp_path))
    assert chosen_items(None, say) == "builtin"
    assert f"LLMPROPS_DATA={tmp_path} has none" in said[-1]
    shapes = published_shapes()
    for name in ("eras/templates.json", "eras/key_word_locations.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(shapes[name])
    items = chosen_items(None, say)
    assert item_arguments(items) == ["--llm-source", "published", "--llm-data", str(tmp_path)]
    assert said[-1] == f"items: the published templates in {tmp_path}"
    assert len(measured_sentences(items, "simplified")) > 2
    assert chosen_items("builtin", say) == "builtin"
    with pytest.raises(UsageError, match="--eras nosuch: no such folder"):
        chosen_items("nosuch", say)


@needs_train
def test_base_that_knows_no_character_is_refused(tmp_path: Path) -> None:
    """A base must know the characters of the reviews, of the segmented lines, and of the ERAS sentences."""
    write_corpus(tmp_path / "msr_training.utf8", sentences(20))
    reviews = [(f"老师有信心{word}", 1) for word in WORDS] + [(f"学生的书{word}", 0) for word in WORDS]
    write_reviews(tmp_path / "train.tsv", *reviews)
    latin = save_base(tmp_path / "latin", vocabulary="abc")
    toys = save_base(tmp_path / "toys")
    only_reviews = save_base(tmp_path / "reviews", vocabulary="老师有信心学生的书" + "".join(WORDS[6:]))
    for base, slug, message in (
        (
            latin,
            "sentiment-only",
            "the training reviews, review 1: 老 and 100% of all characters are unknown to --base",
        ),
        (only_reviews, "cws", "msr_training.utf8, line [12]: "),
        (
            toys,
            "sentiment-only",
            "the ERAS sentences, sentence 1: .* of all characters are unknown to --base",
        ),
    ):
        [model] = classifiers(tmp_path, str(base), str(base), only=[slug])
        with pytest.raises(DataError, match=message) as raised:
            model.train(settings_of(epochs=1.0), tmp_path / "out", False, silent)
        assert "\n" not in str(raised.value)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("老师有信心。\n学生的书。\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"corpus.txt, part 1: 老 and 100% of all characters are unknown"):
        train_wwm(WwmOptions(corpus, "jieba", str(latin)), settings_of(), tmp_path / "out", say=silent)
    assert not (tmp_path / "out").exists()


@needs_train
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_table_2_and_figure_5_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command trains, measures on ERAS and on the reviews, and writes the table, Figure 5 and its CSV."""
    everything = "".join(measured_sentences("builtin", "simplified"))
    reviews = [(f"老师有信心{word}", 1) for word in WORDS] + [(f"学生的书{word}", 0) for word in WORDS]
    write_reviews(tmp_path / "data" / "chnsenticorp" / "train.tsv", *reviews)
    write_reviews(tmp_path / "data" / "chnsenticorp" / "test.tsv", ("老师可以", 1), ("学生的书。", 0))
    base = save_base(tmp_path / "base", vocabulary=everything + "".join(WORDS))
    out = tmp_path / "out"
    words = ["eras", "train", "table2", "--data", tmp_path / "data", "--base", base, "--out", out]
    words += ["--only", "sentiment-only", "--seeds", 1, "--limit", 1, "--epochs", 1, "--evaluations", 1]
    words += ["--threads", 1, "--batch", 8, "--eras", "builtin"]
    assert main([str(word) for word in words]) == 0
    text = capsys.readouterr().out
    assert f"| Sentiment Only | here | builtin | 39 | {base} | 24 | 1 |" in text
    assert (out / "figures" / "figure-5-chnsenticorp.svg").is_file()
    rows = csv.DictReader((out / "figure-5.csv").read_text(encoding="utf-8").splitlines())
    [own] = [row for row in rows if row["from"] == "here"]
    assert own["corpus"] == "ChnSentiCorp"
    assert float(own["sentiment_accuracy"]) in (0, 0.5, 1)
    assert 0 <= float(own["gper"]) <= 1


@needs_train
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_table_1_from_files_to_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command trains, measures with pytest in another process, and prints the table; again, it only prints."""
    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    write_corpus(tmp_path / "pku_training.utf8", sentences(60))
    write_corpus(tmp_path / "pku_test_gold.utf8", sentences(66)[60:])
    known = "".join(measured_sentences("builtin", "simplified")) + "".join(WORDS)
    base, out = save_base(tmp_path / "base", vocabulary=known), tmp_path / "out"
    words = ["eras", "train", "table1", "--data", tmp_path, "--base", base, "--out", out, "--only", "pku"]
    words += ["--seeds", 1, "--limit", 1, "--epochs", 1, "--evaluations", 1, "--threads", 1, "--batch", 8]
    assert main([str(word) for word in words]) == 0
    first = capsys.readouterr().out
    assert f"| PKU | here | builtin | 39 | {base} | 57 | 1 |" in first
    assert "PKU, here: builtin, 39 pairs, " in (out / "figures" / "table-1.svg").read_text(encoding="utf-8")
    assert "PKU, seed 0: training" in first
    assert main([str(word) for word in words]) == 0
    again = capsys.readouterr().out
    assert "seed 0: training" not in again
    assert again.partition("\n")[2].strip() in first


def test_a_model_that_cannot_be_measured_is_one_line(tmp_path: Path) -> None:
    """pytest's last line says why; the run is not counted as measured."""
    with pytest.raises(LLMPropsError, match="pytest ended with status") as raised:
        measure(tmp_path / "missing", tmp_path / "run", [])
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent was killed")
def test_measurement_ends_with_a_killed_training(tmp_path: Path) -> None:
    """A training that is killed (SIGKILL) leaves no pytest that measures its model."""
    killed_with_its_child(
        "from pathlib import Path; from pytest_llmprops.benchmarks.eras.tools.training import experiment;"
        " experiment.measure(Path('model'), Path('run'), [])",
        tmp_path,
    )
