"""``llmprops eras train sentiment``: from options to a trained sentiment classifier."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.eras.tools.training.base import Encoder
from pytest_llmprops.benchmarks.eras.tools.training.corpus import read_data
from pytest_llmprops.benchmarks.eras.tools.training.reviews import Reviews, read_reviews
from pytest_llmprops.benchmarks.eras.tools.training.run import run_training
from pytest_llmprops.benchmarks.eras.tools.training.sentiment import Segmentation, SentimentTask
from pytest_llmprops.benchmarks.eras.tools.training.settings import Settings, require_packages
from pytest_llmprops.benchmarks.eras.tools.training.task import CardFacts, DataFile
from pytest_llmprops.core.errors import UsageError

DEFAULT_BASE = "google-bert/bert-base-chinese"
#: The base of the paper's WWM models (section 4.1, footnote 12).
WWM_BASE = "hfl/chinese-bert-wwm-ext"
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
    """

    data: Sequence[Path]
    base: str = DEFAULT_BASE
    cws: str = ""
    cws_weight: float = 1.0
    tests: Sequence[Path] = ()
    held_out: float = 0.05
    window: int = 512


def train_sentiment(
    options: SentimentOptions,
    settings: Settings,
    out: Path,
    *,
    plan: bool = False,
    say: Callable[[str], object] = print,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Train a sentiment classifier into the folder ``out``, or continue there.

    :param plan: print the steps, memory and time, and train nothing. :param clock: see :func:`run_training`.
    :raises DataError: if a file cannot be used. :raises UsageError: if an option cannot be used.
    """
    require_packages()
    if options.cws_weight <= 0:
        raise UsageError(
            f"--cws-weight must be above 0, not {options.cws_weight}; leave out --cws to train without it"
        )
    reviews = read_reviews(options.data, options.tests, held_out=options.held_out, seed=settings.seed)
    segmentation, files = _segmentation(options, settings.seed)
    encoder = Encoder(options.base, window=options.window)
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

    facts = _facts(options, reviews, files, encoder, out)
    run_training(task, settings, out, facts, score=score, plan=plan, say=say, clock=clock)


def load_classifier(folder: Path) -> Any:
    """Return the network of a trained folder, in evaluation mode, on the GPU if there is one."""
    import torch
    from transformers import AutoModelForSequenceClassification

    network: Any = AutoModelForSequenceClassification.from_pretrained(folder)
    return network.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def _segmentation(options: SentimentOptions, seed: int) -> tuple[Segmentation | None, list[DataFile]]:
    if not options.cws:
        return None, []
    corpora = read_data(options.cws)
    lines = [line for corpus in corpora for line in corpus.lines]
    if len(lines) < 2:
        raise UsageError(f"--cws {options.cws}: {len(lines)} line to train on; give more data")
    random.Random(f"held out lines {seed}").shuffle(lines)
    held = min(_MOST_HELD_OUT, max(1, round(_HELD_OUT * len(lines))))
    files = [DataFile("segmentation", c.label, c.sha256, len(c.lines)) for c in corpora]
    return Segmentation(lines[held:], lines[:held], options.cws_weight), files


def _facts(
    options: SentimentOptions, reviews: Reviews, segmented: Sequence[DataFile], encoder: Encoder, out: Path
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
        title=title,
        base=options.base,
        use=[f"pytest --pyargs pytest_llmprops.suites.test_eras --model hf:{out}"],
        files=[*reviews.files, *segmented],
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
