"""``llmprops eras train wwm``: from options to a masked language model."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmprops.benchmarks.eras.tools.training.base import Encoder
from pytest_llmprops.benchmarks.eras.tools.training.corpus import Words
from pytest_llmprops.benchmarks.eras.tools.training.labels import parts
from pytest_llmprops.benchmarks.eras.tools.training.run import run_training
from pytest_llmprops.benchmarks.eras.tools.training.settings import Settings, require_packages
from pytest_llmprops.benchmarks.eras.tools.training.task import CardFacts, DataFile
from pytest_llmprops.benchmarks.eras.tools.training.wwm import WwmTask
from pytest_llmprops.core.encoding import utf8
from pytest_llmprops.core.errors import BackendError, DataError, UsageError
from pytest_llmprops.core.requests import Segment
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.registry import find_backend, parse_spec

#: maximum number of held-out lines
_MOST_HELD_OUT = 1000
_BATCH = 256


@dataclass(frozen=True, slots=True)
class WwmOptions:
    """What is trained, and on which data.

    :param corpus: plain text, one sentence or paragraph per line.
    :param segmenter: a specification: ``jieba``, ``pkuseg`` or ``hf:FOLDER``.
    :param base: a folder or repository of a masked language model.
    :param whole_words: mask all tokens of a word together; otherwise each token alone.
    :param rate: share of the tokens that is masked.
    :param held_out: share of the lines that choose the best checkpoint.
    :param window: maximum number of tokens of a row; longer lines are divided after punctuation.
    """

    corpus: Path
    segmenter: str
    base: str
    whole_words: bool = True
    rate: float = 0.15
    held_out: float = 0.01
    window: int = 256


def train_wwm(
    options: WwmOptions,
    settings: Settings,
    out: Path,
    *,
    plan: bool = False,
    say: Callable[[str], object] = print,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Continue the pre-training of a masked language model into the folder ``out``, or continue there.

    :param plan: print the steps, memory and time, and train nothing. :param clock: see :func:`run_training`.
    :raises DataError: if the corpus cannot be used. :raises UsageError: if an option cannot be used.
    """
    require_packages()
    for name, value in (("--rate", options.rate), ("--held-out", options.held_out)):
        if not 0 < value < 1:
            raise UsageError(f"{name} must be between 0 and 1, not {value}")
    encoder = Encoder(options.base, window=options.window)
    texts, digest = _read(options.corpus, encoder.window - 2)
    lines = segmented_lines(options.segmenter, texts)
    random.Random(f"held out text {settings.seed}").shuffle(lines)
    held = min(_MOST_HELD_OUT, max(1, round(options.held_out * len(lines))))
    task = WwmTask(
        encoder, lines[held:], lines[:held],
        whole_words=options.whole_words, rate=options.rate, seed=settings.seed,
    )  # fmt: skip
    facts = _facts(options, encoder, DataFile("training", options.corpus.name, digest, len(texts)), held, out)

    def score(folder: Path) -> Sequence[Mapping[str, object]]:
        return []

    run_training(task, settings, out, facts, score=score, plan=plan, say=say, clock=clock)


def _read(file: Path, longest: int) -> tuple[list[str], str]:
    """Return the lines of a corpus, divided to at most ``longest`` characters, and the sha256 of the file."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise DataError(f"--corpus {file}: cannot be read: {error.strerror or error}") from None
    lines = ["".join(line.split()) for line in utf8(raw, str(file)).split("\n")]
    texts = [part for line in lines for part in parts(line, longest)]
    if len(texts) < 2:
        raise DataError(f"--corpus {file}: {len(texts)} lines of text; it must have one sentence per line")
    return texts, hashlib.sha256(raw).hexdigest()


def segmented_lines(spec: str, texts: Sequence[str]) -> list[Words]:
    """Return the words of texts from a segmenter.

    :param spec: a model specification. :raises UsageError: if it is not a segmenter, or fails on a text.
    """
    parsed = parse_spec(spec)
    backend = find_backend(parsed.backend)
    model = backend.factory(parsed, BackendOptions())
    segment = getattr(model, "segment", None)
    if segment is None:
        raise UsageError(f"--segmenter {spec}: is not a segmenter; give jieba, pkuseg or hf:FOLDER")
    lines: list[Words] = []
    for start in range(0, len(texts), _BATCH):
        for reply in segment([Segment(text) for text in texts[start : start + _BATCH]]):
            if isinstance(reply, BackendError):
                raise UsageError(f"--segmenter {spec}: {reply}")
            lines.append(reply.value)
    return lines


def _facts(options: WwmOptions, encoder: Encoder, file: DataFile, held: int, out: Path) -> CardFacts:
    masked = "whole words" if options.whole_words else "single tokens"
    return CardFacts(
        title=f"Masked language model trained on {file.name}, masking {masked}",
        base=options.base,
        use=[f"llmprops eras train sentiment --data reviews --base {out} --out DIR"],
        files=[file],
        assumed=[
            f"{options.rate:.0%} of the tokens are masked: 80% become the mask, 10% a random token, 10% stay",
            "no next-sentence prediction; the pooled output of the base is not kept",
            "optimizer (AdamW), learning rate, batch, epochs, warm-up, weight decay, clipping: see Settings",
        ],
        notes=[f"{held:,} lines are held out, chosen with the seed"],
        options={
            "segmenter": options.segmenter,
            "masking": masked,
            "rate": options.rate,
            "window": encoder.window,
            "held_out": options.held_out,
        },
    )
