"""``llmprops eras train sentiment``: a sentiment classifier, alone or jointly with word segmentation (section 4.1)."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.eras.implicit import Score
from pytest_llmprops.benchmarks.eras.tools.sentiment_files import (
    Labelled,
    Reviews,
    SentimentAccuracy,
    read_reviews,
    sentiment_accuracy,
)
from pytest_llmprops.benchmarks.eras.tools.training.corpus import (
    LABELS,
    Words,
    check_characters,
    check_corpus,
    check_measured,
    labelled_rows,
    read_data,
)
from pytest_llmprops.benchmarks.eras.tools.training.encoder import DEFAULT_BASE, Encoder
from pytest_llmprops.benchmarks.eras.tools.training.segmenter import segment_model, segmented
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.segmentation import score
from pytest_llmprops.models.hf.classifiers import probability
from pytest_llmprops.models.hf.encoder import CharacterTokens
from pytest_llmprops.training.run import run_training
from pytest_llmprops.training.task import (
    CardFacts,
    DataFile,
    Row,
    Settings,
    padded,
    require_packages,
    token_tensors,
)

#: The classes, by index.
CLASSES = ("negative", "positive")
_SENTIMENT, _SEGMENTATION = 0, 1
#: reviews per batch of an evaluation
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Segmentation:
    """The second part of joint training.

    :param lines: the words of the lines to train on. :param held_out: lines whose F1 is reported.
    :param weight: factor of the loss of segmentation; that of sentiment is 1.
    :param window: maximum number of tokens of a line; longer ones are divided after punctuation.
    """

    lines: Sequence[Words]
    held_out: Sequence[Words]
    weight: float = 1.0
    window: int = 256


class SentimentTask:
    """Training of a binary classifier on labelled reviews.

    A review of more tokens than the window is cut at its end. With ``segmentation``, the encoder is shared, each batch
    of reviews is followed by one of segmented lines, and an epoch is one pass over the reviews.

    :param held_out: reviews whose accuracy chooses the best checkpoint.
    """

    metric = "accuracy"

    def __init__(
        self,
        encoder: Encoder,
        reviews: Sequence[Labelled],
        held_out: Sequence[Labelled],
        segmentation: Segmentation | None = None,
        *,
        dropout: float = 0.1,
    ) -> None:
        self._encoder, self._held_out, self._segmentation = encoder, held_out, segmentation
        self._dropout = dropout
        self.rows: list[Row] = [
            Row(ids, [int(review.positive)], _SENTIMENT)
            for ids, review in zip(self._ids(reviews), reviews, strict=True)
        ]
        if segmentation is not None:
            characters = CharacterTokens(encoder.tokenizer, name="--base", fold=True)
            window = min(encoder.window, segmentation.window)
            self.rows += labelled_rows(segmentation.lines, characters, window=window, source=_SEGMENTATION)

    def _ids(self, reviews: Sequence[Labelled]) -> list[list[int]]:
        if not reviews:
            return []
        texts = [review.text for review in reviews]
        rows = self._encoder.tokenizer(texts, truncation=True, max_length=self._encoder.window)["input_ids"]
        return [[int(token) for token in row] for row in rows]

    def network(self) -> Any:
        """Return the base with a new classifier, and with a second head for joint training."""
        classifier = self._encoder.load(
            "AutoModelForSequenceClassification",
            classifier_dropout=self._dropout,
            num_labels=len(CLASSES),
            id2label=dict(enumerate(CLASSES)),
            label2id={name: index for index, name in enumerate(CLASSES)},
        )
        if self._segmentation is None:
            return classifier
        joint: Any = importlib.import_module("pytest_llmprops.benchmarks.eras.tools.training.joint")
        return joint.JointNetwork(
            classifier, labels=len(LABELS), weight=self._segmentation.weight, dropout=self._dropout
        )

    def collate(self, rows: Sequence[Row]) -> Mapping[str, Any]:
        return token_tensors(rows, pad=self._encoder.tokenizer.pad_token_id or 0)

    def evaluate(self, network: Any) -> Mapping[str, float]:
        """Return the accuracy on the held-out reviews; of a joint network, also F1 on the held-out lines."""
        scores = {"accuracy": self.accuracy(network, self._held_out).value}
        if self._segmentation is not None and self._segmentation.held_out:
            joint: Any = importlib.import_module("pytest_llmprops.benchmarks.eras.tools.training.joint")
            model = segment_model(joint.SegmentationHead(network).eval(), self._encoder.tokenizer)
            lines = self._segmentation.held_out
            f1 = score(lines, segmented(model, ["".join(line) for line in lines])).f1
            scores["segmentation_f1"] = f1 or 0.0
        return scores

    def accuracy(self, network: Any, reviews: Sequence[Labelled]) -> SentimentAccuracy:
        """Return the accuracy of a network on reviews; those of too many tokens are cut at their end."""
        odds = log_odds(network, self._ids(reviews), pad=self._encoder.tokenizer.pad_token_id or 0)
        return sentiment_accuracy(reviews, [Score(probability(x), x) for x in odds])

    def cut(self, reviews: Sequence[Labelled]) -> int:
        """Return how many reviews have more tokens than the window."""
        rows = self._encoder.tokenizer([review.text for review in reviews])["input_ids"] if reviews else []
        return sum(len(row) > self._encoder.window for row in rows)

    def save(self, network: Any, folder: Path) -> None:
        """Write the sentiment classifier for ``hf:FOLDER``; the head for segmentation is not written."""
        classifier = network if self._segmentation is None else network.classifier
        classifier.save_pretrained(folder)
        self._encoder.tokenizer.save_pretrained(folder)


def log_odds(network: Any, rows: Sequence[Sequence[int]], *, pad: int) -> list[float]:
    """Return the log odds of the positive class of rows of tokens.

    :param pad: the id of the padding token.
    """
    torch: Any = importlib.import_module("torch")
    odds: dict[int, float] = {}
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    with torch.inference_mode():
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            ids = [rows[index] for index in chosen]
            logits = network(
                input_ids=torch.tensor(padded(ids, pad), device=network.device),
                attention_mask=torch.tensor(
                    padded([[1] * len(row) for row in ids], 0), device=network.device
                ),
            ).logits.double()
            odds.update(zip(chosen, (logits[:, 1] - logits[:, 0]).tolist(), strict=True))
    return [odds[index] for index in range(len(rows))]


#: share and maximum number of segmented lines whose F1 is reported
_HELD_OUT, _MOST_HELD_OUT = 0.05, 500


@dataclass(frozen=True, slots=True)
class SentimentOptions:
    """What is trained, and on which data.

    :param data: labelled files, or folders with files that have train, dev or test in their names.
    :param base: a folder or repository of a pre-trained encoder.
    :param cws: segmented data for joint training with word segmentation (as ``--data`` of a segmenter); empty without.
    :param cws_weight: factor of the loss of segmentation; that of sentiment is 1.
    :param tests: further labelled files to score. Their reviews are left out of the training data.
    :param held_out: share of the reviews that choose the best checkpoint if there is no dev file.
    :param window: maximum number of tokens of a review; a longer one is cut at its end.
    :param measured: sentences that the model will be measured on. It must know their characters.
    """

    data: Sequence[Path]
    base: str = DEFAULT_BASE
    cws: str = ""
    cws_weight: float = 1.0
    tests: Sequence[Path] = ()
    held_out: float = 0.05
    window: int = 512
    measured: Sequence[str] = ()


def train_sentiment(
    options: SentimentOptions,
    settings: Settings,
    out: Path,
    *,
    plan: bool = False,
    say: Callable[[str], object] = print,
) -> None:
    """Train a sentiment classifier into the folder ``out``, or continue there.

    :param plan: print the steps, memory and time, and train nothing.
    :raises DataError: if a file cannot be used. :raises UsageError: if an option cannot be used.
    """
    require_packages("llmprops eras train")
    if options.cws_weight <= 0:
        raise UsageError(
            f"--cws-weight must be above 0, not {options.cws_weight}; leave out --cws to train without it"
        )
    reviews = read_reviews(options.data, options.tests, held_out=options.held_out, seed=settings.seed)
    encoder = Encoder(options.base, window=options.window)
    segmentation, files = _segmentation(options, settings.seed, encoder)
    _check_characters(options, reviews, encoder)
    task = SentimentTask(encoder, reviews.training, reviews.held_out, segmentation)

    def score(folder: Path) -> Sequence[Mapping[str, object]]:
        network = load_classifier(folder)
        rows = []
        for test in reviews.tests:
            result = task.accuracy(network, test.rows)
            rows.append(
                {
                    "file": test.name,
                    "accuracy": result.value,
                    "accuracy_low": result.ci_low,
                    "accuracy_high": result.ci_high,
                    "n": result.n,
                    "cut": task.cut(test.rows),
                }
            )
            say(
                f"{test.name}: accuracy {result.value:.4f} [{result.ci_low:.4f}, {result.ci_high:.4f}],"
                f" {result.n:,} reviews, {rows[-1]['cut']:,} of them cut to {encoder.window} tokens"
            )
        return rows

    lines = len(reviews.training) + (0 if segmentation is None else len(segmentation.lines))
    facts = _facts(options, reviews, files, lines, encoder, out)
    run_training(task, settings, out, facts, score=score, plan=plan, say=say)


def _check_characters(options: SentimentOptions, reviews: Reviews, encoder: Encoder) -> None:
    """Check that the base knows the characters of all reviews, and of what the model is measured on."""
    base = f"--base {options.base}"
    characters = CharacterTokens(encoder.tokenizer, name="--base")
    parts = {"the training reviews": [*reviews.training, *reviews.held_out]}
    for name, rows in (parts | {test.name: list(test.rows) for test in reviews.tests}).items():
        check_characters(name, (row.text for row in rows), characters, base, unit="review")
    check_measured(options.measured, characters, base)


def load_classifier(folder: Path) -> Any:
    """Return the network of a trained folder, in evaluation mode, on the GPU if there is one."""
    import torch
    from transformers import AutoModelForSequenceClassification

    network: Any = AutoModelForSequenceClassification.from_pretrained(folder)
    return network.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def _segmentation(
    options: SentimentOptions, seed: int, encoder: Encoder
) -> tuple[Segmentation | None, list[DataFile]]:
    if not options.cws:
        return None, []
    corpora = read_data(options.cws)
    characters = CharacterTokens(encoder.tokenizer, name="--base", fold=True)
    for corpus in corpora:
        check_corpus(corpus, characters, f"--base {options.base}")
    lines = [line for corpus in corpora for line in corpus.lines]
    if len(lines) < 2:
        raise UsageError(f"--cws {options.cws}: {len(lines)} line to train on; give more data")
    random.Random(f"held out lines {seed}").shuffle(lines)
    held = min(_MOST_HELD_OUT, max(1, round(_HELD_OUT * len(lines))))
    files = [DataFile("segmentation", c.label, c.sha256, len(c.lines)) for c in corpora]
    return Segmentation(lines[held:], lines[:held], options.cws_weight), files


def _facts(
    options: SentimentOptions,
    reviews: Reviews,
    segmented: Sequence[DataFile],
    lines: int,
    encoder: Encoder,
    out: Path,
) -> CardFacts:
    names = [file.name for file in reviews.files if file.role == "training"]
    title = f"Sentiment classifier trained on {', '.join(names)}"
    assumed = [
        "which reviews the paper's models are trained on: here, those of all training files together",
        "optimizer (AdamW), learning rate, batch, epochs, warm-up, weight decay, clipping of gradients: see Settings",
        "a pooled first token, dropout of 0.1 and a linear layer with two outputs",
        f"reviews of more than {encoder.window} tokens are cut at their end",
        "ASAP: 4 and 5 stars are positive, 1 and 2 negative, 3 are left out",
        "training reviews that are also test reviews are left out",
    ]
    if segmented:
        title += f", jointly with word segmentation on {', '.join(file.name for file in segmented)}"
        assumed += [
            "joint training: a batch of reviews and a batch of segmented lines in turn; an epoch is one of the reviews",
            f"the loss of segmentation counts {options.cws_weight:g} times that of sentiment",
            "full-width digits and letters of segmented lines are read as ASCII",
        ]
    return CardFacts(
        benchmark="eras",
        language="zh",
        title=title,
        base=options.base,
        use=[f"pytest --pyargs pytest_llmprops.suites.test_eras --model hf:{out}"],
        files=[*reviews.files, *segmented],
        lines=lines,
        assumed=assumed,
        notes=reviews.notes,
        options={
            "base": options.base,
            "cws": [file.name for file in segmented],
            "cws_weight": options.cws_weight if segmented else None,
            "window": encoder.window,
            "held_out": options.held_out,
        },
    )
