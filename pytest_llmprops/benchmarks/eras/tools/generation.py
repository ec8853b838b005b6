"""Write ERAS sets: ``<out>/eras/pairs.jsonl``, in a folder for ``--llm-data <out>``.

The folder also contains ``paradigms.json``, the paradigms of the pairs, so that the set can be read without
its source files. ``SOURCE.json`` says how the set was generated.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pytest_llmprops.benchmarks.eras.items import (
    SentencePair,
    Words,
    fill_seeded,
    numbered,
    shuffled,
    templates,
)
from pytest_llmprops.benchmarks.eras.paradigms import Paradigm, Parts, Slot, to_json
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import DataFolder, builtin_data, generated_before
from pytest_llmprops.data.whole_files import replacing, write_text, writing

VERSION = 1
#: The authors' maximum number of pairs per paradigm.
MAX_PAIRS = 40_000
#: Threshold of the first slot, and the increase for each further slot (section 2.3, footnote 3).
FIRST_THRESHOLD, FURTHER_THRESHOLD = 0.74, 0.05
MASK = "[MASK]"

MlmScore = Literal["ratio", "absolute"]
Scorer = Callable[[str, Sequence[str]], Sequence[float]]
"""(text, candidates) -> one log probability (natural) per candidate.

It is the sum over the surrounding tokens, with the candidate in the text's first ``[MASK]``; the tokens of
further masks are not included.
"""


def load_templates(published: Path | None = None) -> tuple[tuple[Paradigm, ...], Words]:
    """Load paradigms and slot words: this project's templates, or the published ones with this project's words.

    :param published: Folder of published data, with ``eras/templates.json``.
    :raises DataError: like the parsers.
    """
    if published is None:
        return templates(DataFolder(builtin_data(), "builtin"), "builtin")
    return templates(DataFolder(published, "published"), "published")


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
            hint = "no word passes the model's threshold; try --mlm-score ratio or another model"
            raise DataError(
                f"paradigm {paradigm.id}: no pair can be generated: {hint if score else 'change its words'}"
            )


def write_set(
    out: Path,
    pairs: Iterator[SentencePair],
    paradigms: Sequence[Paradigm],
    *,
    source: Mapping[str, object],
) -> list[Path]:
    """Write a complete set or nothing, and return its files. Pairs are streamed, not kept in memory.

    :param source: How the set was generated, for ``SOURCE.json``.
    :raises UsageError: if the folder cannot be written, or contains ERAS data that was not generated.
    """
    folder = out / "eras"
    source_file = folder / "SOURCE.json"
    generated_before(folder)
    target = folder / "pairs.jsonl"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(target) as draft:
            count = _write_rows(draft, pairs)
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
    return [target, folder / "paradigms.json", source_file]


def pair_to_row(pair: SentencePair) -> dict[str, Any]:
    """Return a pair's line in ``pairs.jsonl``: id, words, test, control, start (0-based)."""
    return {
        "id": pair.id,
        "words": list(pair.words),
        "test": pair.test,
        "control": pair.control,
        "start": pair.site_start,
    }


def _write_rows(path: Path, pairs: Iterator[SentencePair]) -> int:
    count = 0
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for pair in pairs:
            file.write(encode(pair_to_row(pair)) + "\n")
            count += 1
    return count


def threshold(slot: int) -> float:
    """Return the threshold of a slot: 0.74, 0.79, 0.84, … for ``slot`` 0, 1, 2, …"""
    return FIRST_THRESHOLD + FURTHER_THRESHOLD * slot


def capacity(paradigm: Paradigm, words: Words) -> int:
    """Return the number of ways to fill each slot with one word; repeated slots are filled independently."""
    return math.prod(len(words[slot]) for slot in paradigm.slots)


def fill_by_model(
    paradigm: Paradigm,
    words: Words,
    score: Scorer,
    *,
    seed: int,
    mlm_score: MlmScore = "ratio",
    limit: int = MAX_PAIRS,
) -> Iterator[SentencePair]:
    """Yield up to ``limit`` of the pairs whose slot words are likely according to a masked language model.

    Slots are filled from the left. The model gets the control template with the slots to the left filled, the
    candidate in its slot, and the slots to the right masked. A word passes if its score is above :func:`threshold`.
    The score is the product of the surrounding tokens' probabilities (``absolute``), or this product divided by that
    of the best candidate with the same number of characters (``ratio``, as in the authors' code).

    The pairs are a uniform random sample of all pairs that pass, without replacement, in random order. A smaller
    ``limit`` gives the first of them. Fillings that use a word twice, or in which a site occurs twice, are
    skipped after scoring.

    :raises UsageError: for an unknown ``mlm_score``, or for so many slots that a threshold reaches 1.
    :raises DataError: if the scorer does not return one number per candidate.
    """
    if mlm_score not in ("ratio", "absolute"):
        raise UsageError(f"--mlm-score {mlm_score}: use ratio or absolute")
    if threshold(len(paradigm.slots) - 1) >= 1:
        raise UsageError(
            f"paradigm {paradigm.id}: no word can exceed the threshold of slot {len(paradigm.slots)};"
            " use frames of up to six slots"
        )

    @cache
    def likely(filled: tuple[str, ...]) -> frozenset[str]:
        return frozenset(_likely_words(paradigm, words, score, mlm_score, filled))

    def passes(filling: tuple[str, ...]) -> bool:
        return all(word in likely(filling[:place]) for place, word in enumerate(filling))

    lists = [words[slot] for slot in paradigm.slots]
    fillings = shuffled(lists, generator(seed, "eras", "mlm", paradigm.id).randrange)
    return islice(numbered(paradigm, (filling for filling in fillings if passes(filling))), limit)


def _likely_words(
    paradigm: Paradigm, words: Words, score: Scorer, mlm_score: MlmScore, filled: tuple[str, ...]
) -> list[str]:
    """Return the words for the next slot that score above its threshold."""
    candidates = words[paradigm.slots[len(filled)]]
    scores = list(score(masked(paradigm.control_parts, filled), candidates))
    if len(scores) != len(candidates) or any(math.isnan(value) for value in scores):
        raise DataError(f"paradigm {paradigm.id}: the model did not return one score per candidate")
    best = dict.fromkeys(map(len, candidates), -math.inf if mlm_score == "ratio" else 0.0)
    if mlm_score == "ratio":
        for word, value in zip(candidates, scores, strict=True):
            best[len(word)] = max(best[len(word)], value)
    if -math.inf in best.values():
        raise DataError(f"paradigm {paradigm.id}: the model gives every candidate probability 0")
    minimum = threshold(len(filled))
    return [
        word
        for word, value in zip(candidates, scores, strict=True)
        if math.exp(value - best[len(word)]) > minimum
    ]


def masked(parts: Parts, filled: Sequence[str]) -> str:
    """Return a template with its first slots filled and ``[MASK]`` in the others."""
    remaining = iter(filled)
    return "".join(next(remaining, MASK) if isinstance(part, Slot) else part for part in parts)


def shares(capacities: Sequence[int], total: int) -> list[int]:
    """Return the number of pairs per paradigm: ``total``, distributed as evenly as possible.

    :param capacities: Number of possible fillings per paradigm; at most :data:`MAX_PAIRS` of them are used.
    :raises UsageError: if the paradigms do not have that many pairs, or ``total`` is less than one pair each.
    """
    limits = [min(size, MAX_PAIRS) for size in capacities]
    if not len(limits) <= total <= sum(limits):
        raise UsageError(f"{total:,} pairs in total: choose {len(limits)} to {sum(limits):,}")
    # The largest number that every paradigm with enough pairs can have; the first of these get the rest.
    level = (
        bisect_right(range(MAX_PAIRS + 1), total, key=lambda n: sum(min(limit, n) for limit in limits)) - 1
    )
    counts = [min(limit, level) for limit in limits]
    larger = [place for place, limit in enumerate(limits) if limit > level]
    for place in larger[: total - sum(counts)]:
        counts[place] += 1
    return counts
