"""The score of a word segmentation, as a command."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import Groups
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.texts import utf8


def add_segment_score(commands: Groups) -> None:
    """Add ``segment-score``."""
    score = commands.add_parser(
        "segment-score",
        help="precision, recall, F1 and recall of unknown words, as in the SIGHAN bakeoffs",
        description="Compare a segmented file with a gold file. Both are UTF-8, one sentence per line, with spaces"
        " between words.",
    )
    score.add_argument("--gold", type=Path, required=True, metavar="FILE", help="gold segmentation")
    score.add_argument("--pred", type=Path, required=True, metavar="FILE", help="segmentation to score")
    score.add_argument(
        "--train-words",
        type=Path,
        metavar="FILE",
        help="words of the training data, separated by spaces or lines; all other words count as unknown",
    )
    score.add_argument(
        "--whole-text",
        action="store_true",
        help="compare the whole texts, for files with different line breaks",
    )
    score.set_defaults(command=_score)


def _score(options: argparse.Namespace) -> int:
    from pytest_llmprops.core.segmentation import score

    known = None
    if options.train_words is not None:
        known = frozenset(word for line in _lines(options.train_words) for word in line)
    gold, predicted = _lines(options.gold), _lines(options.pred)
    result = score(gold, predicted, known=known, whole_text=options.whole_text)
    rates = [("precision", result.precision), ("recall", result.recall), ("F1", result.f1)]
    if known is not None:
        rates += [
            ("OOV rate", result.oov_rate),
            ("OOV recall", result.oov_recall),
            ("IV recall", result.iv_recall),
        ]
    for name, count in (("gold", result.gold), ("predicted", result.predicted), ("correct", result.correct)):
        print(f"{f'{name} words':<16}{count:>9,}")
    for name, rate in rates:
        print(f"{name:<16}{'-' if rate is None else f'{rate:.4f}':>9}")
    return 0


def _lines(file: Path) -> list[list[str]]:
    """Return the words of each line of a UTF-8 file."""
    text = utf8(file.read_bytes(), str(file))
    if not text.strip():
        raise DataError(f"{file}: the file is empty")
    # splitlines() would also split at other separators, which may occur within a line.
    lines = [line.split() for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]
