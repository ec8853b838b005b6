"""Trainings of segmenters and sentiment classifiers: what they learn, their folders, continuing, and the tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pytest_llmprops.benchmarks.eras.report import read_accuracies
from pytest_llmprops.benchmarks.eras.tools.corpora import Review
from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.requests import Reply, Sentiment
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.hf.classifiers import HfSegmentModel, HfSentimentModel
from pytest_llmprops.models.hf.encoder import CharacterTokens
from pytest_llmprops.models.registry import find_backend, parse_spec
from pytest_llmprops.training.run import measure_suite
from pytest_llmprops.training.task import IGNORED, Settings
from tests.support.commands import one_error, output
from tests.support.eras_records import explicit, implicit, write
from tests.support.training import (
    WORDS,
    needs_train,
    resumed,
    save_base,
    sentences,
    settings_of,
    write_corpus,
    write_reviews,
)

# The two modules below import torch.
for package in ("transformers", "accelerate"):
    pytest.importorskip(package, reason="needs the extra 'research'")
torch: Any = pytest.importorskip("torch", reason="needs the extra 'research'")

from pytest_llmprops.benchmarks.eras.tools import training  # noqa: E402
from pytest_llmprops.benchmarks.eras.tools.training import (  # noqa: E402
    LABELS,
    Encoder,
    SegmenterTask,
    SentimentTask,
    TableOptions,
    character_labels,
    fitting,
    labelled_rows,
    score_lines,
    segmented,
    train_segmenter,
    train_sentiment,
)
from pytest_llmprops.training.trainer import train  # noqa: E402

pytestmark = [needs_train, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]
#: Reviews that a word decides; they share no word of the sentiment.
PRAISE = [Review(f"老师有信心{word}。", True) for word in WORDS]
BLAME = [Review(f"学生的书{word}。", False) for word in WORDS]


def encoder_of(folder: Path, window: int = 64) -> Encoder:
    """Return a small encoder, which is saved once."""
    if not (folder / "base").exists():
        save_base(folder / "base")
    return Encoder(str(folder / "base"), window=window)


def toy_task(folder: Path, *, lines: int = 44) -> SegmenterTask:
    toys = sentences(lines + 6)
    return SegmenterTask(encoder_of(folder), toys[:lines], toys[lines:])


def joint_task(folder: Path) -> SentimentTask:
    return SentimentTask(encoder_of(folder), PRAISE + BLAME, PRAISE[:2] + BLAME[:2], sentences(26))


def loaded(folder: Path) -> Any:
    """Return the model of a folder as ``--model hf:FOLDER`` loads it."""
    spec = parse_spec(f"hf:{folder}")
    return find_backend(spec.backend).factory(spec, CallOptions())


def token_ids(text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
    """Return the code of each character; 鑫 has three tokens, a zero-width space none, 龘 is unknown."""
    known: dict[str, list[int]] = {"鑫": [7, 8, 9], "\u200b": [], "龘": [1]}
    ids = [token for character in text for token in known.get(character, [ord(character)])]
    return {"input_ids": [2, *ids, 3] if add_special_tokens else ids}


TOKENIZER: Any = Mock(side_effect=token_ids, unk_token_id=1, convert_ids_to_tokens=str)
TOKENS = CharacterTokens(TOKENIZER, name="test", fold=True)


def test_labels_align_with_tokens() -> None:
    """The first token of each character has its label, also if it is unknown, dropped, or has several tokens."""
    [row] = labelled_rows([["我", "鑫龘", "\u200b１"]], TOKENS, window=20)
    assert list(row.ids) == [2, ord("我"), 7, 8, 9, 1, 1, ord("1"), 3]
    names = ["-" if label == IGNORED else LABELS[label] for label in row.labels]
    assert names == ["-", "S", "B", "-", "-", "E", "B", "E", "-"]


def test_long_lines_are_divided_after_punctuation() -> None:
    """Parts join to the text, fit, and end after the last mark that fits, without one anywhere."""
    assert list(fitting("一二。三四五六，七八九十", TOKENS, window=8)) == ["一二。", "三四五六，", "七八九十"]
    assert list(fitting("一二三四五", TOKENS, window=4)) == ["一二", "三四", "五"]
    line = ["鑫鑫", "一二三", "，", "四", "。", "鑫"]
    rows = labelled_rows([line], TOKENS, window=9)
    assert max(len(row.ids) for row in rows) <= 9
    assert [label for row in rows for label in row.labels if label != IGNORED] == character_labels(line)


def test_a_whole_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A BERT learns a toy language, on a GPU if there is one; the folder has the model, a card and a curve.

    A second run does nothing.
    """
    data = write_corpus(tmp_path / "toy_training.utf8", sentences(80))
    gold = write_corpus(tmp_path / "gold.utf8", sentences(90)[70:])
    base = str(save_base(tmp_path / "base"))
    settings = settings_of(epochs=5, learning_rate=1e-2, evaluations=1)
    out = tmp_path / "out"
    train_segmenter(data, gold, base, settings, out)
    assert {p.name for p in out.iterdir()} >= {"README.md", "config.json", "curve.csv", "curve.svg"}
    assert {p.suffix for p in out.iterdir()} == {".md", ".json", ".csv", ".svg", ".safetensors"}, "no pickle"
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    # Of 80 lines, 10 are in the gold file and 4 (5% of the others) are held out.
    assert (record["complete"], record["training"]["lines"], record["training"]["steps"]) == (True, 66, 5 * 9)
    assert record["training"]["device"] == ("cuda:0" if torch.cuda.is_available() else "cpu")
    [gold_score, held_out] = record["scores"]
    assert (gold_score["file"], held_out["file"]) == ("gold.utf8", "held-out part")
    assert min(gold_score["f1"], held_out["f1"]) > 0.8
    card = (out / "README.md").read_text(encoding="utf-8")
    assert all(hashed in card for _, _, hashed, _ in record["description"]["data"])
    assert "## Assumed" in card
    # 10 of the 20 lines of the gold file are training lines.
    assert "10 training lines are left out: they are lines of the test file\n" in capsys.readouterr().out
    model = loaded(out)
    assert isinstance(model, HfSegmentModel)
    assert score_lines(model, sentences(90)[70:], known=())["f1"] == gold_score["f1"]
    # A text that is longer than the model's 64 positions is divided, and full-width digits are cut like ASCII ones.
    text = "学生的书。" * 20
    long, wide, narrow = segmented(model, [text, "１９９８年的书", "1998年的书"])
    assert "".join(long) == text
    assert [len(word) for word in wide] == [len(word) for word in narrow]
    assert "".join(wide) == "１９９８年的书"
    train_segmenter(data, gold, base, settings, out)
    assert capsys.readouterr().out.endswith("nothing to do\n")
    with pytest.raises(UsageError, match=r"other settings: seed: recorded 0, given 1\. Repeat"):
        train_segmenter(data, gold, base, replace(settings, seed=1), out)
    with pytest.raises(UsageError, match="there are other files"):
        train_segmenter(data, gold, base, settings, tmp_path / "base")


def test_data_that_cannot_be_used(tmp_path: Path) -> None:
    """A base that cannot be loaded, too little data and data without reviews say what to do, in one line."""
    data = write_corpus(tmp_path / "toy_training.utf8", sentences(40))
    gold = write_corpus(tmp_path / "gold.utf8", sentences(50)[40:])
    single = write_corpus(tmp_path / "single.utf8", sentences(1))
    base = str(save_base(tmp_path / "base"))
    none = r"--base .*none: cannot be loaded: .*give the folder of a downloaded model"
    with pytest.raises(UsageError, match=none):
        train_segmenter(data, gold, str(tmp_path / "none"), Settings(), tmp_path / "out")
    with pytest.raises(UsageError, match="--data: 1 lines are left to train on"):
        train_segmenter(single, gold, base, Settings(), tmp_path / "out")
    with pytest.raises(
        LLMPropsError, match=r"needs positive and negative reviews in files with train[^\n]*$"
    ):
        train_sentiment(tmp_path / "none", None, base, settings_of(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("kind", "evaluation"), [("segmenter", 5), ("joint", 2)])
def test_resumed_equals_uninterrupted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    evaluation: int,
) -> None:
    """A training stopped within an epoch or between two has the same weights, steps and curve, with dropout."""
    task: Any = toy_task(tmp_path) if kind == "segmenter" else joint_task(tmp_path)
    settings = settings_of(epochs=3, evaluations=9)
    whole, again = resumed(lambda out: train(task, settings, out), tmp_path, evaluation, monkeypatch)
    assert "continuing from step" in capsys.readouterr().out
    assert again.steps == whole.steps
    first, second = whole.network.state_dict(), again.network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    name = f"eval_{task.metric}"
    scores = [[p[name] for p in outcome.history if name in p] for outcome in (whole, again)]
    assert scores[0] == scores[1]
    assert len(scores[0]) > evaluation + 2


def test_early_stop_and_full_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience ends a training that does not improve; without memory, the message names what saves some."""
    task = toy_task(tmp_path)
    settings = settings_of(learning_rate=1e-9, epochs=10, evaluations=10, patience=2)
    assert train(task, settings, tmp_path / "a").steps == 3 * 6

    def full(rows: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(task, "collate", full)
    with pytest.raises(LLMPropsError, match="out of memory with 4 rows at once; use a larger --accumulate"):
        train(task, settings_of(accumulate=2), tmp_path / "b")


def test_heads_and_losses(tmp_path: Path) -> None:
    """A batch of reviews trains encoder and sentiment head; one of segmented lines encoder and segmentation head."""
    task = joint_task(tmp_path)
    network = task.network()
    for source, head in ((0, "classifier.classifier"), (1, "segmentation")):
        network.zero_grad()
        network(**task.collate([row for row in task.rows if row.source == source][:8])).loss.backward()
        trained = [name for name, weights in network.named_parameters() if weights.grad is not None]
        trained = [name for name in trained if network.get_parameter(name).grad.abs().sum() > 0]
        assert any(name.startswith("classifier.bert") for name in trained)
        assert {name.rpartition(".")[0] for name in trained if "bert" not in name} == {head}
    # The losses of the parts of a batch of lines add up to that of the batch, also if the parts differ in length.
    network, rows = network.eval(), [row for row in task.rows if row.source == 1][:6]
    items = sum(label != IGNORED for row in rows for label in row.labels)

    def loss(rows: Sequence[Any], **options: Any) -> float:
        return float(network(**task.collate(rows), **options).loss.detach())

    parts = [loss(part, num_items_in_batch=items) for part in (rows[:1], rows[1:])]
    assert sum(parts) == pytest.approx(loss(rows), rel=1e-5)


def test_joint_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model learns, test reviews are left out, and the saved model is the classifier alone.

    Through ``hf:FOLDER`` it gives the log odds that the training computes.
    """
    data = tmp_path / "data"
    reviews = [(review.text, int(review.positive)) for review in PRAISE + BLAME]
    for name, rows in {
        "train": reviews,
        "dev": [("老师有信心", 1), ("学生的书", 0)],
        "test": [("老师有信心吗", 1), ("学生的书吗", 0), reviews[0]],
    }.items():
        write_reviews(data / "chnsenticorp" / f"{name}.tsv", *rows)
    cws = write_corpus(tmp_path / "msr.utf8", sentences(60))
    base = str(save_base(tmp_path / "base", vocabulary="".join(WORDS) + "吗"))
    out = tmp_path / "out"
    settings = settings_of(epochs=20, learning_rate=1e-2, evaluations=3)
    train_sentiment(data, cws, base, settings, out)
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    [test, held_out] = record["scores"]
    assert (test["file"], test["n"]) == ("chnsenticorp/test.tsv", 3)
    assert test["accuracy"] == held_out["accuracy"] == 1
    assert "\nchnsenticorp/test.tsv: accuracy 1.0000 [" in capsys.readouterr().out
    assert record["training"]["lines"] == len(PRAISE) + len(BLAME) - 1 + 60
    assert "jointly with word segmentation on msr.utf8" in record["description"]["title"]
    uses = [use for use, *_ in record["description"]["data"]]
    assert uses == ["training", "held out", "test", "segmentation"]
    model = loaded(out)
    assert isinstance(model, HfSentimentModel)
    first, second = model.sentiment([Sentiment(text) for text in ("老师有信心", "学生的书")])
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert first.value["positive"] > 0.5 > second.value["positive"]


def test_long_reviews_are_cut(tmp_path: Path) -> None:
    """A review of more tokens than the window keeps its beginning and its last special token."""
    encoder = encoder_of(tmp_path, window=8)
    assert max(len(row.ids) for row in SentimentTask(encoder, PRAISE, BLAME).rows) == 8
    assert encoder.cut("学" * 50) == "学" * 6


def test_files_of_the_tables(tmp_path: Path) -> None:
    """The files of SIGHAN are found at any depth; a missing one and an unknown model are named."""
    for name in ("training/pku_training.utf8", "gold/pku_test_gold.utf8", "training/msr_training.utf8"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    first, second = (TableOptions(table, tmp_path, "a", "b") for table in (1, 2))
    assert list(replace(first, only=["pku"]).trainings()) == ["PKU"]
    for only, message in (
        ([], r"no as_training.utf8|no as_test_gold.utf8 or as_testing_gold.utf8 in this folder"),
        (["msr"], r"no msr_test_gold.utf8 or msr_testing_gold.utf8"),
        (["x"], "--only x: unknown; give some of as, cityu, pku, msr"),
    ):
        with pytest.raises(UsageError, match=message):
            replace(first, only=only).trainings()
    trainings: dict[str, Any] = second.trainings()
    assert {name: (one.args[2], one.args[1] is not None) for name, one in trainings.items()} == {
        "Sentiment Only": ("a", False), "WWM": ("b", False), "CWS": ("a", True), "WWM+CWS": ("b", True),
    }  # fmt: skip
    assert list(replace(second, only=["wwm-cws"]).trainings()) == ["WWM+CWS"]
    scripts = [first.arguments(name)[5] for name in ("AS (hant)", "CityU (yue)", "PKU", "MSR")]
    assert scripts == ["eras.script=chinese-converter"] * 2 + ["eras.script=simplified"] * 2


def rows_of(file: Path) -> dict[str, list[str]]:
    with open(file, encoding="utf-8") as lines:
        return {row[0]: row[1:] for row in csv.reader(lines)}


@pytest.mark.parametrize("number", [1, 2])
def test_table_of_seeds(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each training has a row per seed and their mean, below the paper's; repeated, the command only prints.

    Trainings and measurements only write their results.
    """
    for name in ("msr_training.utf8", "msr_test_gold.utf8"):
        (tmp_path / name).touch()
    out = tmp_path / "out"
    done: list[str] = []
    numbers = {"ci_low": 0.9, "ci_high": 0.99, "n": 9}

    def train_toy(*arguments: Any) -> None:
        *_, settings, folder = arguments
        done.append(f"train {folder.name} {settings.seed}")
        folder.mkdir(parents=True)
        score = {"file": "asap/test.csv", "accuracy": 0.97} if number == 2 else {"file": "gold", "f1": 0.97}
        scores = [score | numbers, {"file": "held-out part", "accuracy": 0.5}]
        (folder / "training.json").write_text(json.dumps({"scores": scores}), encoding="utf-8")

    def measure(benchmark: str, spec: str, run: Path, arguments: Sequence[str]) -> None:
        assert arguments[-4:] == ["-o", "llm_source=builtin", "--llm-limit", "4"]
        records = [implicit(n, 0.2, 0.6) if number == 2 else explicit(n, 0, 1, 1) for n in (1, 2, 3)]
        done.append(f"measure {write(run, records).name}")

    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    monkeypatch.setattr(training, "train_sentiment", train_toy)
    monkeypatch.setattr(training, "train_segmenter", train_toy)
    monkeypatch.setattr("pytest_llmprops.training.run.measure_suite", measure)
    only = ["msr"] if number == 1 else ["wwm", "cws"]
    command = ["lab", "eras", "train", str(number), "--data", tmp_path, "--base", "a", "--wwm-base", "b"]
    command += ["--only", *only, "--out", out, "--limit", 4]
    assert "set LLMPROPS_DATA=DIR, or give --source builtin" in one_error(capsys, *command)
    command += ["--source", "builtin", "--seeds"]
    assert "--seeds must be at least 1, not 0" in one_error(capsys, *command, 0)
    assert "batch must be at least 1, not 0" in one_error(capsys, *command, 2, "--set=batch=0")
    assert "training\n" in output(capsys, *command, 2)
    places = [f"{name}-seed{seed}" for name in only for seed in (0, 1)]
    assert done == [step for place in places for step in (f"train {place} {place[-1]}", f"measure {place}")]
    shown = output(capsys, *command, 2)
    assert "training\n" not in shown
    assert len(done) == 2 * len(places)
    rows = rows_of(out / "table.csv")
    name = only[0].upper()
    seeds = [rows[f"{name}, {part}"] for part in ("seed 0", "seed 1", "mean of 2")]
    # Only the number of measured seeds differs.
    assert seeds[0] == seeds[1] == seeds[2]
    if number == 1:
        assert rows["MaxMatch"][0].startswith("64.1")
        assert "eras/footnote-6: Trained segmenters" in shown
    else:
        label = parse_spec(f"hf:{(out / 'models' / places[0]).resolve()}").label
        assert read_accuracies(out / "runs" / places[0], label) == {"ASAP": 0.97}
    assert "other settings: seeds: recorded 2, given 3" in one_error(capsys, *command, 3)


def test_a_model_that_cannot_be_measured_is_one_line(tmp_path: Path) -> None:
    """pytest's last line says why; the run is not counted as measured."""
    with pytest.raises(LLMPropsError, match="pytest ended with status") as raised:
        measure_suite("eras", f"hf:{tmp_path / 'missing'}", tmp_path / "run", [])
    assert "\n" not in str(raised.value)
