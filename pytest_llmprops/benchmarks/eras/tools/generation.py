"""Write ERAS sets: ``<out>/eras/pairs.jsonl``, in a folder for ``--llm-data <out>``.

The folder also contains ``paradigms.json``, the paradigms of the pairs, so that the set can be read without
its source files. ``SOURCE.json`` says how the set was generated.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_llmprops.benchmarks.eras.paradigms import (
    Paradigm,
    parse_builtin,
    parse_published,
    parse_slot_words,
    to_json,
)  # fmt: skip
from pytest_llmprops.benchmarks.eras.sentences import (
    MAX_PAIRS,
    MlmScore,
    Scorer,
    SentencePair,
    capacity,
    fill_by_model,
    fill_seeded,
    pair_to_row,
    pairs_from_rows,
    shares,
)  # fmt: skip
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.whole_files import replacing, write_text

VERSION = 1
Words = Mapping[str, Sequence[str]]
_ROWS_PER_WRITE = 2000


def load_templates(published: Path | None = None) -> tuple[tuple[Paradigm, ...], Words]:
    """Load paradigms and slot words: this project's templates, or the published ones with this project's words.

    :param published: Folder of published data, with ``eras/templates.json``.
    :raises DataError: like the parsers.
    """
    builtin = DataFolder(builtin_data(), "builtin")
    words = builtin.json("eras/slot_words.json")
    if published is None:
        paradigms = parse_builtin(builtin.json("eras/paradigms.json"))
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
    """Yield the pairs of all paradigms, in order.

    :param pairs: Maximum number of pairs per paradigm (1 to 40,000).
    :param total: Number of pairs in total, distributed as evenly as possible; instead of ``pairs``.
    :param score: Scores of a masked language model that chooses the slot words. A paradigm then has a random
        sample of the pairs that pass the model's thresholds, up to ``pairs``.
    :raises UsageError: for impossible numbers. :raises DataError: for a paradigm without any pair.
    """
    if (pairs is None) == (total is None):
        raise UsageError("give the number of pairs: per paradigm (--pairs N) or in total (--total N)")
    if pairs is not None and not 1 <= pairs <= MAX_PAIRS:
        raise UsageError(f"{pairs} pairs per paradigm: choose 1 to {MAX_PAIRS:,}")
    if total is not None and score is not None:
        raise UsageError(
            "--total does not work with --mlm, because the model decides the number of pairs; use --pairs"
        )
    if total is not None:
        numbers = shares([capacity(paradigm, words) for paradigm in paradigms], total)
    else:
        numbers = [pairs or 0] * len(paradigms)
    return _fill_all(paradigms, words, numbers, seed, score, mlm_score)


def _fill_all(
    paradigms: Sequence[Paradigm],
    words: Words,
    numbers: Sequence[int],
    seed: int,
    score: Scorer | None,
    mlm_score: MlmScore,
) -> Iterator[SentencePair]:
    for paradigm, number in zip(paradigms, numbers, strict=True):
        if score is None:
            pairs = fill_seeded(paradigm, words, pairs=number, seed=seed)
        else:
            pairs = fill_by_model(paradigm, words, score, seed=seed, mlm_score=mlm_score, limit=number)
        empty = True
        for pair in pairs:
            empty = False
            yield pair
        if empty:
            hint = "no word passes the model's threshold; try eras.mlm_score ratio or another model"
            raise DataError(
                f"paradigm {paradigm.id}: no pair can be generated: {hint if score else 'change its words'}"
            )


def write_set(
    out: Path,
    pairs: Iterator[SentencePair],
    paradigms: Sequence[Paradigm],
    *,
    source: Mapping[str, object],
    report: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write a complete set or nothing, and return its files. Pairs are streamed, not kept in memory.

    :param source: How the set was generated, for ``SOURCE.json``. :param report: Gets progress lines; by
        default they go to standard error if it is a terminal.
    :raises UsageError: if the folder cannot be written, or contains ERAS data that was not generated.
    """
    folder = out / "eras"
    source_file = folder / "SOURCE.json"
    if not source_file.is_file() and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder}: contains ERAS data that was not generated; choose another output folder")
    target = folder / "pairs.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(target) as draft:
            count = _write_rows(draft, pairs, _progress(report))
            # SOURCE.json first: a crash in between must not leave generated pairs that look published.
            facts = {
                "source": "generated",
                "generator": "eras",
                "version": VERSION,
                **source,
                "written": count,
            }
            write_text(source_file, json.dumps(facts, ensure_ascii=False, indent=1) + "\n")
            rows = json.dumps(to_json(paradigms), ensure_ascii=False, indent=1)
            write_text(folder / "paradigms.json", rows + "\n")
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror or error}); free disk space or choose another folder"
        ) from None
    return [target, folder / "paradigms.json", source_file]


def read_set(out: Path) -> list[SentencePair]:
    """Read the pairs of a folder written by :func:`write_set`.

    :raises DataError: like the parsers.
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
            if len(lines) == _ROWS_PER_WRITE:
                file.writelines(lines)
                lines.clear()
                progress(count, name)
        file.writelines(lines)
    progress(count, "done")
    return count


def _progress(report: Callable[[str], None] | None) -> Callable[[int, str], None]:
    """Return a function that reports progress, at most twice per second."""
    on_terminal = report is None and sys.stderr.isatty()
    last = 0.0

    def show(count: int, name: str) -> None:
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

    return show
