"""Read the sentiment scores that the authors of ERAS published, and compute their table 2 from them.

The score file (``sent_results/NAME_result.json`` of winglicopy/ERAS, 17 MB) is one JSON array with one list for each
of the 60 templates. A list has two rows per pair, test and control: ``[p(negative), p(positive)]``. The occlusion
file (``NAME_occu.json``) has the same lists with one number per pair, alone or in a list; see
:mod:`pytest_llmprops.benchmarks.eras.metrics`. Table 2 uses the 39 templates of the benchmark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pytest_llmprops.benchmarks.eras.implicit import SENTIMENTS as CLASSES
from pytest_llmprops.benchmarks.eras.metrics import AuthorsCounts, AuthorsValues, authors_values
from pytest_llmprops.benchmarks.eras.paradigms import PUBLISHED_INDICES, SENTIMENTS
from pytest_llmprops.core.errors import DataError

Array = NDArray[np.float64]
_TEMPLATES = 60
_CHUNK = 1 << 16
_BRACKET = re.compile(r"[\[\]]")
_BETWEEN = re.compile(r"\s*\[[\s,]*\]\s*")
#: Largest deviation of p(negative) + p(positive) from 1.
_ROUNDING = 0.01


@dataclass(frozen=True, slots=True)
class AuthorsTable:
    """The quantities of a row of table 2.

    :param values: Accuracy, necessity, sufficiency and GPER; the last three are None without an occlusion file.
    :param differences: Mean over paradigms of control minus test p(positive), by sentiment class.
    :param pairs: Number of pairs of the 39 paradigms. :param all_pairs: Number of pairs of all 60 templates.
    """

    values: AuthorsValues
    differences: dict[str, float]
    pairs: int
    all_pairs: int


def occlusion_beside(scores: Path) -> Path | None:
    """Return the occlusion file that belongs to a score file, if it is in the same folder."""
    other = scores.with_name(scores.name.replace("_result", "_occu"))
    return other if other != scores and other.is_file() else None


def authors_table(scores: Path, occlusion: Path | None = None) -> AuthorsTable:
    """Compute a row of table 2. The files are read list by list and never kept whole.

    :raises DataError: with one line, for a file of another shape.
    """
    counts: list[AuthorsCounts] = []
    differences: dict[str, list[float]] = {name: [] for name in CLASSES}
    changes = None if occlusion is None else json_lists(occlusion)
    sentiments = dict(zip(PUBLISHED_INDICES, SENTIMENTS, strict=True))
    number = all_pairs = 0
    for number, rows in enumerate(json_lists(scores), 1):
        sentiment = sentiments.get(number - 1)
        test, control = _score_pairs(rows, scores, number)
        stored = None
        if occlusion is not None and changes is not None:
            stored = _numbers(next(changes, None), len(test), occlusion, number)
        all_pairs += len(test)
        if sentiment is None:
            continue
        difference = control - test
        differences[sentiment].append(float(difference.mean()))
        counts.append(_counts(difference if sentiment[0] == "+" else -difference, stored))
    _check_number(number, scores)
    if occlusion is not None and changes is not None:
        _check_number(number + sum(1 for _ in changes), occlusion)
    means = {name: float(np.mean(values)) for name, values in differences.items()}
    return AuthorsTable(authors_values(counts), means, sum(c.pairs for c in counts), all_pairs)


def _counts(difference: Array, stored: Array | None) -> AuthorsCounts:
    """Count the pairs of one paradigm.

    :param difference: Control minus test probability of the true word's class.
    """
    correct = int((difference <= 0).sum())
    if stored is None:
        return AuthorsCounts(len(difference), correct, 0, 0, 0)
    errors, hits = difference >= 0, stored >= 0
    return AuthorsCounts(
        len(difference), correct, int(errors.sum()), int(hits.sum()), int((errors & hits).sum())
    )


def json_lists(file: Path) -> Iterator[Any]:
    """Yield the lists of a JSON array of lists of numbers, one at a time.

    :raises DataError: if the file cannot be read, or contains anything else.
    """
    depth = 0
    parts: list[str] = []
    between: list[str] = []
    try:
        with file.open(encoding="utf-8-sig") as lines:
            while chunk := lines.read(_CHUNK):
                start = 0
                for bracket in _BRACKET.finditer(chunk):
                    if bracket[0] == "[":
                        depth += 1
                        if depth == 2:
                            between.append(chunk[start : bracket.start()])
                            start = bracket.start()
                        continue
                    if depth == 2:
                        parts.append(chunk[start : bracket.end()])
                        yield json.loads("".join(parts))
                        parts.clear()
                        start = bracket.end()
                    depth -= 1
                (parts if depth >= 2 else between).append(chunk[start:])
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror or error}); check the path") from None
    except UnicodeDecodeError:
        _fail(file, "is not UTF-8")
    except (ValueError, RecursionError) as error:
        _fail(file, f"is not JSON: {error}")
    if depth or not _BETWEEN.fullmatch("".join(between)):
        _fail(file, "is not one complete JSON array of lists")


def _score_pairs(rows: Any, file: Path, number: int) -> tuple[Array, Array]:
    """Return p(positive) of the test and of the control sentences."""
    where = f"list {number}"
    try:
        values = np.array(rows, dtype=float)
    except (TypeError, ValueError):
        _fail(file, f"{where} has a row that is not two numbers")
    if values.ndim != 2 or values.shape[1] != 2 or not len(values) or len(values) % 2:
        _fail(file, f"{where} is not two rows of two numbers per pair")
    # A comparison with NaN is false.
    bad = ~((values >= 0) & (values <= 1)).all(axis=1) | ~(abs(values.sum(axis=1) - 1) <= _ROUNDING)
    if bad.any():
        _fail(file, f"{where}, row {int(bad.argmax()) + 1} is not [p(negative), p(positive)]")
    return values[::2, 1], values[1::2, 1]


def _numbers(rows: Any, size: int, file: Path, number: int) -> Array:
    """Return the occlusion values of one list."""
    where = f"list {number}"
    if not isinstance(rows, list) or len(rows) != size:
        count = len(rows) if isinstance(rows, list) else "no"
        _fail(file, f"{where} has {count} values, but the score file has {size} pairs")
    try:
        values = np.array([row[0] if isinstance(row, list) else row for row in rows], dtype=float)
    except (IndexError, TypeError, ValueError):
        _fail(file, f"{where} has a value that is not a number")
    if values.ndim != 1 or not np.isfinite(values).all():
        _fail(file, f"{where} has a value that is not a number")
    return values


def _check_number(number: int, file: Path) -> None:
    if number != _TEMPLATES:
        _fail(file, f"has {number} lists, not one for each of the {_TEMPLATES} templates")


def _fail(file: Path, problem: str) -> NoReturn:
    raise DataError(f"{file}: {problem}; get the file again from sent_results/ of the authors' repository")
