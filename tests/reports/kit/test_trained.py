"""Trained models whose folder a report reads: their data, scores and learning curve."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_llmprops.reports.kit.series import series_of
from pytest_llmprops.reports.kit.trained import CURVE, RECORD, Training, read_training
from pytest_llmprops.runs.reader import read_run
from tests.support.records import recorded, verdicts

TRAINING = {
    "complete": True,
    "description": {
        "title": "Word segmenter trained on pku_training.utf8",
        "base": "google-bert/bert-base-chinese",
        "data": [["training", "pku_training.utf8", "ab12", 10], ["test", "pku_test_gold.utf8", "cd34", 2]],
    },
    "scores": [
        {"file": "pku_test_gold.utf8", "f1": 0.965, "f1_low": 0.96, "f1_high": 0.97, "oov_recall": 0.85},
        {"file": "held-out part", "f1": 0.97},
    ],
}
CURVE_TEXT = """step,epoch,seconds,learning_rate,loss,f1,oov_recall
20,0.1,3.5,1e-05,1.5,,
40,0.2,7.0,2e-05,0.5,,
40,0.2,7.0,,,0.9,0.5
60,0.3,9.0,1e-05,0.25,,
60,0.3,9.0,,,0.95,0.6
"""


def trained(folder: Path, curve: str = CURVE_TEXT, record: object = TRAINING) -> Path:
    """Write the files of a trained model that a report reads."""
    folder.mkdir()
    (folder / CURVE).write_text(curve, encoding="utf-8")
    (folder / RECORD).write_text(json.dumps(record), encoding="utf-8")
    return folder


def training_of(tmp_path: Path, spec: str) -> Training | None:
    run = recorded(tmp_path / "run", verdicts("add", 1, 0), models={"model": {"spec": spec}})
    return read_training(series_of([read_run(run)])[0])


def test_a_training_is_read(tmp_path: Path) -> None:
    """The record has data and scores, the curve the losses and the scores of the held-out part."""
    folder = trained(tmp_path / "model")
    training = training_of(tmp_path, f"hf:{folder}?dtype=float32")
    assert training is not None
    assert (training.base, training.data) == ("google-bert/bert-base-chinese", ("pku_training.utf8",))
    assert [(file, numbers["f1"]) for file, numbers in training.scores] == [
        ("pku_test_gold.utf8", 0.965), ("held-out part", 0.97),
    ]  # fmt: skip
    assert list(training.losses) == [(20, 1.5), (40, 0.5), (60, 0.25)]
    assert (training.metric, list(training.held_out)) == ("f1", [(40, 0.9), (60, 0.95)])


@pytest.mark.parametrize(
    "spec", ["hf:/no/such/folder", "hf:google-bert/bert-base-chinese", "jieba", "", "hf:", "hf:\0"]
)
def test_model_without_its_folder_has_no_curve(tmp_path: Path, spec: str) -> None:
    """Without the folder there is no curve and no error."""
    assert training_of(tmp_path, spec) is None


@pytest.mark.parametrize("record", [[], {}, {"description": 1}, {"description": {}, "scores": "x"}])
def test_other_records_are_not_shown_or_empty(tmp_path: Path, record: object) -> None:
    """A file of the same name from another program is no error."""
    training = training_of(tmp_path, f"hf:{trained(tmp_path / 'model', record=record)}")
    assert training is None or (training.data, training.scores) == ((), ())


def test_damaged_lines_of_a_curve_are_left_out(tmp_path: Path) -> None:
    """Lines without a step, with text or with an infinite loss are left out."""
    curve = "step,loss,f1\n1,2,\nx,1,\n2,inf,\n3,,0.5\n4\n5,1,0.75\n"
    training = training_of(tmp_path, f"hf:{trained(tmp_path / 'model', curve)}")
    assert training is not None
    assert list(training.losses) == [(1, 2), (5, 1)]
    assert list(training.held_out) == [(3, 0.5), (5, 0.75)]


def test_a_curve_is_bounded(tmp_path: Path) -> None:
    """Of a long curve, evenly chosen points are drawn, with the last one; a huge file is not read."""
    lines = "".join(f"{step},1\n" for step in range(10_001))
    training = training_of(tmp_path, f"hf:{trained(tmp_path / 'model', 'step,loss' + chr(10) + lines)}")
    assert training is not None
    assert 400 < len(training.losses) <= 500
    assert list(training.losses[-1]) == [10_000, 1]
    with open(tmp_path / "model" / CURVE, "a", encoding="utf-8") as file:
        file.write("1,1\n" * 2_500_000)
    assert read_training(series_of([read_run(tmp_path / "run")])[0]) is None
