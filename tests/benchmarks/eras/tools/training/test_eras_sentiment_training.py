"""Training of sentiment classifiers: two heads on one encoder, continuing, and scores as ``hf:FOLDER`` gives them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.tools.sentiment_files import Labelled
from pytest_llmprops.benchmarks.eras.tools.training.encoder import Encoder
from pytest_llmprops.benchmarks.eras.tools.training.sentiment import (
    Segmentation,
    SentimentOptions,
    SentimentTask,
    load_classifier,
    log_odds,
    train_sentiment,
)
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Reply, Sentiment
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.hf.classifiers import HfSentimentModel
from pytest_llmprops.models.registry import find_backend, parse_spec
from pytest_llmprops.reports.kit.series import series_of
from pytest_llmprops.reports.kit.trained import read_training
from pytest_llmprops.runs.reader import read_run
from tests.support.eras_records import implicit, write
from tests.support.sentiment_models import reviews
from tests.support.training import (
    WORDS,
    lines_said,
    needs_train,
    resumed,
    save_base,
    sentences,
    settings_of,
    silent,
    write_corpus,
    write_reviews,
)

pytestmark = [needs_train, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]
#: Reviews that a word decides; they share no word of the sentiment.
PRAISE, BLAME = (
    [Labelled(f"老师有信心{w}。", True) for w in WORDS],
    [Labelled(f"学生的书{w}。", False) for w in WORDS],
)


def toy_task(folder: Path, *, joint: bool = True, weight: float = 1.0, window: int = 64) -> SentimentTask:
    """Return a task on a few toy reviews, with a base that is saved once."""
    if not (folder / "base").exists():
        save_base(folder / "base")
    lines = sentences(30)
    segmentation = Segmentation(lines[:26], lines[26:], weight) if joint else None
    return SentimentTask(
        Encoder(str(folder / "base"), window=window), PRAISE + BLAME, PRAISE[:2] + BLAME[:2], segmentation
    )


def gradients(task: SentimentTask, network: Any, source: int, **more: Any) -> dict[str, float]:
    """Return the sum of absolute gradients per part of the network after one batch of a source, and the loss."""
    network.zero_grad()
    rows = [row for row in task.rows if row.source == source][:8]
    loss = network(**task.collate(rows), **more).loss
    loss.backward()
    parts = {"encoder": 0.0, "sentiment": 0.0, "segmentation": 0.0, "loss": float(loss.detach())}
    for name, weights in network.named_parameters():
        head = name.split(".")[1] if name.startswith("classifier.") else name.split(".")[0]
        part = {"bert": "encoder", "classifier": "sentiment"}.get(head, head)
        parts[part] += 0.0 if weights.grad is None else float(weights.grad.abs().sum())
    return parts


def test_both_heads_receive_gradients(tmp_path: Path) -> None:
    """A batch of reviews trains encoder and sentiment head; one of segmented lines encoder and segmentation head."""
    task = toy_task(tmp_path)
    network = task.network()
    for source, head, other in ((0, "sentiment", "segmentation"), (1, "segmentation", "sentiment")):
        sums = gradients(task, network, source)
        assert sums["encoder"] > 0
        assert sums[head] > 0
        assert sums[other] == 0


def test_weight_scales_the_loss_of_segmentation_only(tmp_path: Path) -> None:
    """With weight 3, the loss of a batch of lines is three times as large, and that of reviews is the same."""
    import torch

    losses = {}
    for weight in (1.0, 3.0):
        task = toy_task(tmp_path, weight=weight)
        torch.manual_seed(0)
        network = task.network().eval()
        losses[weight] = [gradients(task, network, source)["loss"] for source in (0, 1)]
    assert losses[3.0][0] == pytest.approx(losses[1.0][0])
    assert losses[3.0][1] == pytest.approx(3 * losses[1.0][1])


def test_parts_of_a_batch_add_up(tmp_path: Path) -> None:
    """The losses of the parts of a batch of lines add up to that of the batch, also if the parts differ in length."""
    task = toy_task(tmp_path)
    network = task.network().eval()
    rows = [row for row in task.rows if row.source == 1][:6]
    items = sum(label != -100 for row in rows for label in row.labels)
    whole = float(network(**task.collate(rows)).loss.detach())
    parts = [
        float(network(**task.collate(part), num_items_in_batch=items).loss.detach())
        for part in (rows[:1], rows[1:])
    ]
    assert sum(parts) == pytest.approx(whole, rel=1e-5)


def test_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    """A training with two heads that was stopped and continued has the weights of an uninterrupted one."""
    from pytest_llmprops.training.trainer import train

    task = toy_task(tmp_path)

    def weights(out: Path, say: Callable[[str], object]) -> Any:
        return train(task, settings_of(epochs=2), out, say=say).network.state_dict()

    first, second, said = resumed(weights, tmp_path, after=2)
    assert said.startswith("continuing from step")
    assert first.keys() == second.keys()
    assert all(bool((first[name] == second[name]).all()) for name in first)


def test_joint_training_on_real_reviews(tmp_path: Path) -> None:
    """On 1,600 reviews, the loss falls and the accuracy on 300 others is above 65%.

    Both labels are about equally frequent, and the standard error of 300 reviews is 2.8 points. The saved model is the
    classifier alone: through ``hf:FOLDER`` it gives the log odds that training computed.
    """
    rows = reviews(24)
    data = tmp_path / "data"
    write_reviews(data / "chnsenticorp" / "train.tsv", *rows[:1600])
    write_reviews(data / "chnsenticorp" / "dev.tsv", *rows[1600:1800])
    write_reviews(data / "chnsenticorp" / "test.tsv", *rows[1800:2100])
    save_base(
        tmp_path / "base", vocabulary="".join(text for text, _ in rows[:1600] if text.isascii() is False)
    )
    options = SentimentOptions(
        [data],
        base=str(tmp_path / "base"),
        cws=str(write_corpus(tmp_path / "msr.utf8", sentences(60))),
        window=26,
    )
    out = tmp_path / "out"
    said, say = lines_said()
    train_sentiment(options, settings_of(batch=32, epochs=3, learning_rate=4e-3, evaluations=3), out, say=say)
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    [test, held_out] = record["scores"]
    assert (test["file"], test["n"]) == ("chnsenticorp/test.tsv", 300)
    assert test["accuracy"] > 0.65
    assert test["accuracy_low"] < test["accuracy"] < test["accuracy_high"]
    assert held_out["segmentation_f1"] > 0.6, "random cuts have about .4"
    assert any(line.startswith("chnsenticorp/test.tsv: accuracy") for line in said)
    curve = (out / "curve.csv").read_text(encoding="utf-8").splitlines()
    losses = [float(row["loss"]) for row in csv.DictReader(curve) if row["loss"]]
    assert losses[-1] < 0.8 * losses[0]
    assert "jointly with word segmentation on msr.utf8" in record["description"]["title"]
    uses = [use for use, *_ in record["description"]["data"]]
    assert uses == ["training", "held out", "test", "segmentation"]

    run = write(tmp_path / "run", [implicit(1, 0.2, 0.6)], models={"model": {"spec": f"hf:{out}"}})
    shown = read_training(series_of([read_run(run)])[0])
    assert shown is not None, "the report reads what a training writes"
    assert (shown.metric, len(shown.held_out), shown.data) == ("accuracy", 3, ("chnsenticorp/train.tsv",))

    network = load_classifier(out)
    spec = parse_spec(f"hf:{out}")
    model = find_backend(spec.backend).factory(spec, CallOptions())
    assert isinstance(model, HfSentimentModel)
    texts = ["老师有信心", "这本书不好"]
    replies = model.sentiment([Sentiment(text) for text in texts])
    from transformers import AutoTokenizer

    ids = AutoTokenizer.from_pretrained(out)(texts)["input_ids"]
    served = [reply.value["log_odds"] for reply in replies if isinstance(reply, Reply)]
    assert served == pytest.approx(log_odds(network, ids, pad=0), abs=1e-4)


def test_long_reviews_are_cut_and_counted(tmp_path: Path) -> None:
    """A review of more tokens than the window keeps its beginning and its last special token."""
    task = toy_task(tmp_path, joint=False, window=8)
    long = Labelled("学" * 50, True)
    assert task.cut([long, Labelled("学", True)]) == 1
    assert max(len(row.ids) for row in task.rows) == 8
    network = task.network().eval()
    same = [task.accuracy(network, [Labelled("学" * n, True)]).value for n in (6, 50)]
    assert same[0] == same[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cws_weight": 0.0}, "--cws-weight must be above 0"),
        ({"window": 3}, "--window must be at least 8"),
        ({"held_out": 1.0}, "--held-out must be between 0 and 1"),
        ({"base": "/no/such/folder"}, "--base /no/such/folder: cannot be loaded"),
    ],
)
def test_options_that_cannot_be_used(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """A wrong option is one line that names it, before anything is trained."""
    data = write_reviews(tmp_path / "train.tsv", *((f"书{w}", n % 2) for n, w in enumerate(WORDS)))
    with pytest.raises(UsageError, match=message) as raised:
        train_sentiment(SentimentOptions([data], **change), settings_of(), tmp_path / "out", say=silent)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()
