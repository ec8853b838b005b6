"""Writing ERAS sets: ``<out>/eras/pairs.jsonl``, a folder that ``--llm-data <out>`` reads.

Beside the pairs the folder holds ``paradigms.json``, the paradigms that they were made of, so that the set
can be read without the files it came from, and ``SOURCE.json``, which says how it was made.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_llmprops.benchmarks.eras.filling import (
    MAX_PAIRS,
    MlmScore,
    Scorer,
    capacity,
    fill_by_model,
    fill_seeded,
    shares,
)  # fmt: skip
from pytest_llmprops.benchmarks.eras.paradigms import (
    Paradigm,
    parse_builtin,
    parse_published,
    parse_slot_words,
    to_json,
)  # fmt: skip
from pytest_llmprops.benchmarks.eras.sentences import SentencePair, pair_to_row, pairs_from_rows
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.location import builtin_data
from pytest_llmprops.data.whole_files import replacing, write_text

VERSION = 1
Words = Mapping[str, Sequence[str]]
_ROWS_A_WRITE = 2000


def load_templates(published: Path | None = None) -> tuple[tuple[Paradigm, ...], Words]:
    """Paradigms and slot words: the project's own, or the published templates with the project's words.

    :param published: a folder of published data (it holds ``eras/templates.json``).
    :raises DataError: as the parsers.
    """
    own = DataFolder(builtin_data(), "builtin")
    words = own.json("eras/slot_words.json")
    if published is None:
        paradigms = parse_builtin(own.json("eras/paradigms.json"))
        return paradigms, parse_slot_words(words, paradigms, "builtin")
    folder = DataFolder(published, "published")
    paradigms = parse_published(
        folder.json("eras/templates.json"), folder.json("eras/key_word_locations.json")
    )
    return paradigms, parse_slot_words(words, paradigms, "published")


def make_pairs(
    paradigms: Sequence[Paradigm],
    words: Words,
    *,
    seed: int,
    pairs: int | None = None,
    total: int | None = None,
    score: Scorer | None = None,
    mlm_score: MlmScore = "ratio",
) -> Iterator[SentencePair]:
    """The pairs of all paradigms, in order.

    :param pairs: at most so many a paradigm (1 to 40,000). :param total: so many in all, spread as evenly as
        the paradigms hold them; instead of ``pairs``. :param score: a masked language model chooses the slot
        words; each paradigm then gives what the model lets through, up to ``pairs``.
    :raises UsageError: for numbers that cannot be had. :raises DataError: for a paradigm without any pair.
    """
    if (pairs is None) == (total is None):
        raise UsageError("say how many pairs: either a paradigm (--pairs N) or in all (--total N)")
    if pairs is not None and not 1 <= pairs <= MAX_PAIRS:
        raise UsageError(f"{pairs} pairs a paradigm: choose 1 to {MAX_PAIRS:,}")
    if total is not None and score is not None:
        raise UsageError("--total cannot be held with --mlm: the model decides how many pairs there are")
    if total is not None:
        numbers = shares([capacity(paradigm, words) for paradigm in paradigms], total)
    else:
        numbers = [pairs or 0] * len(paradigms)
    return _each(paradigms, words, numbers, seed, score, mlm_score)


def _each(
    paradigms: Sequence[Paradigm],
    words: Words,
    numbers: Sequence[int],
    seed: int,
    score: Scorer | None,
    mlm_score: MlmScore,
) -> Iterator[SentencePair]:
    for paradigm, number in zip(paradigms, numbers, strict=True):
        if score is None:
            made = fill_seeded(paradigm, words, pairs=number, seed=seed)
        else:
            made = fill_by_model(paradigm, words, score, mlm_score=mlm_score, limit=number)
        empty = True
        for pair in made:
            empty = False
            yield pair
        if empty:
            how = "no word passes the model's threshold; try eras.mlm_score ratio or another model"
            raise DataError(
                f"paradigm {paradigm.id}: no pair can be made: {how if score else 'change its words'}"
            )


def write_set(
    out: Path,
    pairs: Iterator[SentencePair],
    paradigms: Sequence[Paradigm],
    *,
    source: Mapping[str, object],
    report: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write a set whole or not at all, and return its files; pairs are not held in memory.

    :param source: how the set was made, for ``SOURCE.json``. :param report: gets a line of progress now and
        then; by default standard error, where that is a terminal.
    :raises UsageError: when the folder cannot be written, or holds ERAS data that was not generated.
    """
    folder = out / "eras"
    mark = folder / "SOURCE.json"
    if not mark.is_file() and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder}: holds ERAS data that was not generated; choose another output folder")
    target = folder / "pairs.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(target) as draft:
            count = _write_rows(draft, pairs, _progress(report))
            # The mark first: a crash in between must not leave generated pairs that look published.
            facts = {
                "source": "generated",
                "generator": "eras",
                "version": VERSION,
                **source,
                "written": count,
            }
            write_text(mark, json.dumps(facts, ensure_ascii=False, indent=1) + "\n")
            rows = json.dumps(to_json(paradigms), ensure_ascii=False, indent=1)
            write_text(folder / "paradigms.json", rows + "\n")
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror or error}); free some space or choose another folder"
        ) from None
    return [target, folder / "paradigms.json", mark]


def read_set(out: Path) -> list[SentencePair]:
    """The pairs of a folder that :func:`write_set` wrote.

    :raises DataError: as the readers.
    """
    folder = DataFolder(out, "generated")
    paradigms = parse_builtin(folder.json("eras/paradigms.json"), where=str(out / "eras/paradigms.json"))
    return pairs_from_rows(
        folder.jsonl("eras/pairs.jsonl", ("id", "words", "test", "control", "start")),
        paradigms,
        where=str(out / "eras/pairs.jsonl"),
    )


def _write_rows(path: Path, pairs: Iterator[SentencePair], progress: Callable[[int, str], None]) -> int:
    count = 0
    name = ""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with path.open("w", encoding="utf-8", newline="\n") as file:
        lines: list[str] = []
        for pair in pairs:
            name = pair.paradigm.id
            lines.append(encode(pair_to_row(pair)) + "\n")
            count += 1
            if len(lines) == _ROWS_A_WRITE:
                file.writelines(lines)
                lines.clear()
                progress(count, name)
        file.writelines(lines)
    progress(count, "done")
    return count


def _progress(report: Callable[[str], None] | None) -> Callable[[int, str], None]:
    """Tells how far a run is, at most twice a second."""
    on_terminal = report is None and sys.stderr.isatty()
    last = 0.0

    def tell(count: int, name: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < 0.5 and name != "done":
            return
        last = now
        line = f"{count:,} pairs" if name == "done" else f"{count:,} pairs, paradigm {name}"
        if report is not None:
            report(line)
        elif on_terminal:
            sys.stderr.write(f"\r{line:<40}" + ("\n" if name == "done" else ""))
            sys.stderr.flush()

    return tell
