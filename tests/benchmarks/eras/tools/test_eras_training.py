"""Trainings of segmenters and sentiment classifiers: what they learn, their folders, continuing, and the tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.cli import show_table
from pytest_llmprops.benchmarks.eras.report import read_accuracies
from pytest_llmprops.benchmarks.eras.tools.corpora import Review
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.requests import Reply, Segment, Sentiment
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.hf.classifiers import HfSegmentModel, HfSentimentModel
from pytest_llmprops.models.hf.encoder import CharacterTokens
from pytest_llmprops.models.registry import find_backend, parse_spec
from pytest_llmprops.training.run import measure_suite
from pytest_llmprops.training.task import IGNORED, Settings
from tests.support.eras_records import implicit, write
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
for package in ("torch", "transformers", "accelerate"):
    pytest.importorskip(package, reason="needs the extra 'research'")

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
    run_table,
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


class Tokenizer:
    """Characters get the token of their code; 鑫 has three tokens, a zero-width space none, 龘 is unknown."""

    unk_token_id = 1

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        ids: list[int] = []
        for character in text:
            ids += {"鑫": [7, 8, 9], "\u200b": [], "龘": [1]}.get(character, [ord(character)])
        return {"input_ids": [2, *ids, 3] if add_special_tokens else ids}

    def convert_ids_to_tokens(self, token: int) -> str:
        return str(token)


TOKENS = CharacterTokens(Tokenizer(), name="test", fold=True)


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


def test_a_segmenter_learns(tmp_path: Path) -> None:
    """A BERT learns a toy language, and the saved model cuts its words."""
    task = toy_task(tmp_path, lines=64)
    settings = settings_of(epochs=5, learning_rate=1e-2, evaluations=1)
    outcome = train(task, settings, tmp_path / "work")
    assert outcome.scores["f1"] > 0.8
    task.save(outcome.network, tmp_path / "model")
    assert {p.suffix for p in (tmp_path / "model").iterdir()} == {".json", ".safetensors"}, "no pickle"
    model = loaded(tmp_path / "model")
    assert isinstance(model, HfSegmentModel)
    assert score_lines(model, sentences(70)[64:], known=())["f1"] == outcome.scores["f1"]
    # A text that is longer than the model's 64 positions is divided, and full-width digits are cut like ASCII ones.
    text = "学生的书。" * 20
    long, wide, narrow = segmented(model, [text, "１９９８年的书", "1998年的书"])
    assert "".join(long) == text
    assert [len(word) for word in wide] == [len(word) for word in narrow]
    assert "".join(wide) == "１９９８年的书"


@pytest.mark.skipif("not __import__('torch').cuda.is_available()", reason="this machine has no GPU")
def test_training_on_a_gpu(tmp_path: Path) -> None:
    """On a GPU, the network is trained there in bf16."""
    settings = settings_of(epochs=5, learning_rate=1e-2, evaluations=1)
    outcome = train(toy_task(tmp_path, lines=64), settings, tmp_path / "work")
    assert outcome.network.device.type == "cuda"
    assert outcome.scores["f1"] > 0.9


def test_a_whole_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder has a model that segments, a card with hashes and scores, and a curve; a second run does nothing."""
    data = write_corpus(tmp_path / "toy_training.utf8", sentences(80))
    gold = write_corpus(tmp_path / "gold.utf8", sentences(90)[70:])
    base = str(save_base(tmp_path / "base"))
    settings = settings_of(epochs=3, evaluations=3)
    out = tmp_path / "out"
    train_segmenter(data, gold, base, settings, out)
    assert {p.name for p in out.iterdir()} >= {
        "README.md", "config.json", "curve.csv", "curve.svg", "model.safetensors", "training.json",
    }  # fmt: skip
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert record["complete"] is True
    # Of 80 lines, 10 are in the gold file and 4 (5% of the others) are held out.
    assert (record["training"]["lines"], record["training"]["steps"]) == (66, 3 * 9)
    [gold_score, held_out] = record["scores"]
    assert (gold_score["file"], held_out["file"]) == ("gold.utf8", "held-out part")
    assert 0 <= gold_score["f1"] <= 1
    card = (out / "README.md").read_text(encoding="utf-8")
    assert all(hashed in card for _, _, hashed, _ in record["description"]["data"])
    assert "## Assumed" in card
    # 10 of the 20 lines of the gold file are training lines.
    assert "10 training lines are left out: they are lines of the test file\n" in capsys.readouterr().out
    [reply] = loaded(out).segment([Segment("１９９８年的书")])
    assert isinstance(reply, Reply)
    assert "".join(reply.value) == "１９９８年的书"
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
    for file, name, said in (
        (data, str(tmp_path / "none"), none),
        (single, base, "--data: 1 lines are left to train on"),
    ):
        with pytest.raises(UsageError, match=said):
            train_segmenter(file, gold, name, Settings(), tmp_path / "out")
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
    import torch

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
    import torch

    task = toy_task(tmp_path)
    settings = settings_of(learning_rate=1e-9, epochs=10, evaluations=10, patience=2)
    assert train(task, settings, tmp_path / "a").steps == 3 * 6

    def full(rows: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(task, "collate", full)
    with pytest.raises(LLMPropsError, match="out of memory with 4 rows at once; use a larger --accumulate"):
        train(task, settings_of(accumulate=2), tmp_path / "b")


def gradients(task: SentimentTask, network: Any, source: int) -> dict[str, float]:
    """Return the sum of absolute gradients per part of the network after one batch of a source."""
    network.zero_grad()
    rows = [row for row in task.rows if row.source == source][:8]
    network(**task.collate(rows)).loss.backward()
    parts = {"encoder": 0.0, "sentiment": 0.0, "segmentation": 0.0}
    for name, weights in network.named_parameters():
        head = name.split(".")[1] if name.startswith("classifier.") else name.split(".")[0]
        part = {"bert": "encoder", "classifier": "sentiment"}.get(head, head)
        parts[part] += 0.0 if weights.grad is None else float(weights.grad.abs().sum())
    return parts


def test_both_heads_receive_gradients(tmp_path: Path) -> None:
    """A batch of reviews trains encoder and sentiment head; one of segmented lines encoder and segmentation head."""
    task = joint_task(tmp_path)
    network = task.network()
    for source, head, other in ((0, "sentiment", "segmentation"), (1, "segmentation", "sentiment")):
        sums = gradients(task, network, source)
        assert sums["encoder"] > 0
        assert sums[head] > 0
        assert sums[other] == 0


def test_parts_of_a_batch_add_up(tmp_path: Path) -> None:
    """The losses of the parts of a batch of lines add up to that of the batch, also if the parts differ in length."""
    task = joint_task(tmp_path)
    network = task.network().eval()
    rows = [row for row in task.rows if row.source == 1][:6]
    items = sum(label != IGNORED for row in rows for label in row.labels)
    whole = float(network(**task.collate(rows)).loss.detach())
    parts = [
        float(network(**task.collate(part), num_items_in_batch=items).loss.detach())
        for part in (rows[:1], rows[1:])
    ]
    assert sum(parts) == pytest.approx(whole, rel=1e-5)


def write_toy_reviews(folder: Path) -> None:
    """Write reviews as the published files have them."""
    rows = [(text, int(is_positive)) for text, is_positive in PRAISE + BLAME]
    write_reviews(folder / "chnsenticorp" / "train.tsv", *rows)
    write_reviews(folder / "chnsenticorp" / "dev.tsv", ("老师有信心", 1), ("学生的书", 0))
    write_reviews(folder / "chnsenticorp" / "test.tsv", ("老师有信心吗", 1), ("学生的书吗", 0), rows[0])


def test_joint_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model learns, test reviews are left out, and the saved model is the classifier alone.

    Through ``hf:FOLDER`` it gives the log odds that the training computes.
    """
    data = tmp_path / "data"
    write_toy_reviews(data)
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
    task = SentimentTask(encoder, PRAISE, BLAME)
    assert max(len(row.ids) for row in task.rows) == 8
    assert encoder.cut("学" * 50) == "学" * 6
    assert task.evaluate(task.network().eval())["accuracy"] in {n / len(BLAME) for n in range(len(BLAME) + 1)}


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


class Interrupted(Exception):
    """What a test raises to stop an experiment."""


def test_table_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stop, only what is missing is trained and measured; a folder of other options is refused."""
    (tmp_path / "msr_training.utf8").touch()
    options = TableOptions(2, tmp_path, "a", "b", seeds=2, only=["wwm", "cws"], source="builtin", limit=4)
    out = tmp_path / "out"
    trained: list[str] = []
    measured: list[str] = []

    def train_toy(data: Path, cws: Any, base: str, settings: Settings, folder: Path) -> None:
        trained.append(folder.name)
        folder.mkdir(parents=True)
        numbers = {"accuracy": 0.97, "ci_low": 0.9, "ci_high": 0.99, "n": 9}
        scores = [{"file": "asap/test.csv", **numbers}, {"file": "held-out part", "accuracy": 0.5}]
        (folder / "training.json").write_text(json.dumps({"scores": scores}), encoding="utf-8")

    def measure(benchmark: str, spec: str, run: Path, arguments: Sequence[str]) -> None:
        if len(measured) == 3:
            raise Interrupted
        assert arguments[-4:] == ["-o", "llm_source=builtin", "--llm-limit", "4"]
        write(run, [implicit(n, 0.2, 0.6) for n in (1, 2, 3)])
        measured.append(run.name)

    def table(options: TableOptions) -> Any:
        return run_table(options, Settings(), out)

    monkeypatch.setattr(training, "train_sentiment", train_toy)
    monkeypatch.setattr("pytest_llmprops.training.run.measure_suite", measure)

    with pytest.raises(Interrupted):
        table(options)
    trained.clear()
    measured.clear()
    (out / "models" / "cws-seed1" / "training.json").unlink()
    (out / "models" / "cws-seed1").rmdir()
    done = table(options)
    assert trained == measured == ["cws-seed1"]
    assert [(m.name, m.seed, m.run.name) for m in done] == [
        ("WWM", 0, "wwm-seed0"), ("WWM", 1, "wwm-seed1"), ("CWS", 0, "cws-seed0"), ("CWS", 1, "cws-seed1"),
    ]  # fmt: skip
    assert show_table(2, done, tmp_path / "table.csv") == 0
    rows = rows_of(tmp_path / "table.csv")
    seeds = [rows[f"WWM, {name}"] for name in ("seed 0", "seed 1", "mean of 2")]
    # Only the number of measured seeds differs.
    assert seeds[0] == seeds[1] == seeds[2]
    label = parse_spec(f"hf:{done[0].model.resolve()}").label
    assert read_accuracies(done[0].run, label) == {"ASAP": 0.97}
    with pytest.raises(
        UsageError, match="other settings: seeds: recorded 2, given 3; limit: recorded 4, given none"
    ):
        table(replace(options, seeds=3, limit=None))
    with pytest.raises(UsageError, match="--seeds must be at least 1, not 0"):
        table(replace(options, seeds=0))


def test_table_1_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command trains, measures with pytest in another process, and prints the table; again, it only prints."""
    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    write_corpus(tmp_path / "pku_training.utf8", sentences(60))
    write_corpus(tmp_path / "pku_test_gold.utf8", sentences(66)[60:])
    base, out = save_base(tmp_path / "base"), tmp_path / "out"
    words = (
        f"lab eras train 1 --data {tmp_path} --base {base} --out {out} --only pku --seeds 1 --limit 1".split()
    )
    words += [f"--set={setting}" for setting in ("epochs=1", "evaluations=1", "threads=1", "batch=8")]
    assert main([*words, "--source", "builtin", "--set", "batch=0"]) == 2
    assert "batch must be at least 1, not 0" in capsys.readouterr().err
    assert main(words) == 2
    assert "set LLMPROPS_DATA=DIR, or give --source builtin" in capsys.readouterr().err
    words += ["--source", "builtin"]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert "pku-seed0: training" in first
    rows = rows_of(out / "table.csv")
    assert all(0 <= float(cell) <= 100 for cell in rows["PKU, seed 0"] if cell)
    assert rows["PKU, seed 0"] == rows["PKU, mean of 1"]
    assert rows["MaxMatch"][0].startswith("64.1")
    assert "eras/footnote-6: Trained segmenters" in first
    assert main(words) == 0
    again = capsys.readouterr().out
    assert "training\n" not in again
    assert again.strip() in first


def test_a_model_that_cannot_be_measured_is_one_line(tmp_path: Path) -> None:
    """pytest's last line says why; the run is not counted as measured."""
    with pytest.raises(LLMPropsError, match="pytest ended with status") as raised:
        measure_suite("eras", f"hf:{tmp_path / 'missing'}", tmp_path / "run", [])
    assert "\n" not in str(raised.value)
