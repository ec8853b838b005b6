"""Fill the slots of ERAS templates: a seeded random choice, or a masked language model's choice (section 2.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

from pytest_llmprops.benchmarks.eras.paradigms import Paradigm, Parts, Slot
from pytest_llmprops.benchmarks.eras.sentences import SentencePair, make_pair
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.seeds import generator

#: The authors' maximum number of pairs per paradigm, and the size of their set.
MAX_PAIRS = 40_000
PAPER_SIZE = 203_944
#: Threshold of the first slot, and the increase for each further slot (section 2.3, footnote 3).
FIRST_THRESHOLD, FURTHER_THRESHOLD = 0.74, 0.05
MASK = "[MASK]"

Words = Mapping[str, Sequence[str]]
MlmScore = Literal["ratio", "absolute"]
Scorer = Callable[[str, Sequence[str]], Sequence[float]]
"""(text, candidates) -> one log probability (natural) per candidate.

It is the sum over the surrounding tokens, with the candidate in the text's first ``[MASK]``; the tokens of
further masks are not included.
"""


def threshold(slot: int) -> float:
    """Return the threshold of a slot: 0.74, 0.79, 0.84, … for ``slot`` 0, 1, 2, …"""
    return FIRST_THRESHOLD + FURTHER_THRESHOLD * slot


def capacity(paradigm: Paradigm, words: Words) -> int:
    """Return the number of ways to fill each slot with one word; repeated slots are filled independently."""
    return math.prod(len(words[slot]) for slot in paradigm.slots)


def fill_seeded(
    paradigm: Paradigm, words: Words, *, pairs: int, seed: int, limit: int = MAX_PAIRS
) -> Iterator[SentencePair]:
    """Yield up to ``pairs`` distinct pairs, drawn without replacement from all fillings.

    The same seed gives the same pairs in the same order, and a smaller number gives the first of them.
    Fillings that use a word twice, or in which a site would occur twice, are skipped.

    :raises UsageError: if ``pairs`` is not between 1 and ``limit``.
    """
    if not 1 <= pairs <= limit:
        raise UsageError(f"{pairs} pairs per paradigm: choose 1 to {limit:,}")
    lists = [words[slot] for slot in paradigm.slots]
    return islice(
        _numbered(paradigm, _shuffled(lists, generator(seed, "eras", paradigm.id).randrange)), pairs
    )


def _shuffled(
    lists: Sequence[Sequence[str]], randrange: Callable[[int, int], int]
) -> Iterator[tuple[str, ...]]:
    """Yield all combinations of one word per list, in random order.

    This is a Fisher–Yates shuffle of the combinations' numbers that stores only the swapped positions.
    """
    total = math.prod(map(len, lists))
    moved: dict[int, int] = {}
    for step in range(total):
        other = randrange(step, total)
        code = moved.get(other, other)
        moved[other] = moved.pop(step, step)
        choice = []
        for words in reversed(lists):
            code, index = divmod(code, len(words))
            choice.append(words[index])
        yield tuple(reversed(choice))


def fill_by_model(
    paradigm: Paradigm,
    words: Words,
    score: Scorer,
    *,
    mlm_score: MlmScore = "ratio",
    limit: int = MAX_PAIRS,
) -> Iterator[SentencePair]:
    """Yield the pairs whose slot words are likely according to a masked language model.

    Slots are filled from the left. The model gets the control template with the slots to the left filled, the
    candidate in its slot, and the slots to the right masked. Candidates that score above :func:`threshold`
    are kept, and each is continued with the next slot. The score is the product of the surrounding tokens'
    probabilities (``absolute``), or this product divided by the best candidate's (``ratio``, as in the
    authors' code). Pairs are in the order of the word lists. Fillings that use a word twice, or in which a
    site occurs twice, are skipped after scoring.

    :param limit: Maximum number of pairs.
    :raises UsageError: for an unknown ``mlm_score``, or for so many slots that a threshold reaches 1.
    :raises DataError: if the scorer does not return one number per candidate.
    """
    if mlm_score not in ("ratio", "absolute"):
        raise UsageError(f"eras.mlm_score={mlm_score!r}: use ratio or absolute")
    if threshold(len(paradigm.slots) - 1) >= 1:
        raise UsageError(
            f"paradigm {paradigm.id}: no word can exceed the threshold of slot {len(paradigm.slots)};"
            " use frames of up to six slots"
        )
    return islice(_numbered(paradigm, _likely_fillings(paradigm, words, score, mlm_score, ())), limit)


def _likely_fillings(
    paradigm: Paradigm, words: Words, score: Scorer, mlm_score: MlmScore, filled: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    """Search depth first: this gives the order of the authors' code without a list of partial fillings."""
    slots = paradigm.slots
    if len(filled) == len(slots):
        yield filled
        return
    candidates = words[slots[len(filled)]]
    scores = list(score(masked(paradigm.control_parts, filled), candidates))
    if len(scores) != len(candidates) or any(math.isnan(value) for value in scores):
        raise DataError(f"paradigm {paradigm.id}: the model did not return one score per candidate")
    best = max(scores) if mlm_score == "ratio" else 0.0
    if best == -math.inf:
        raise DataError(f"paradigm {paradigm.id}: the model gives every candidate probability 0")
    minimum = threshold(len(filled))
    for word, value in zip(candidates, scores, strict=True):
        if math.exp(value - best) > minimum:
            yield from _likely_fillings(paradigm, words, score, mlm_score, (*filled, word))


def masked(parts: Parts, filled: Sequence[str]) -> str:
    """Return a template with its first slots filled and ``[MASK]`` in the others."""
    remaining = iter(filled)
    return "".join(next(remaining, MASK) if isinstance(part, Slot) else part for part in parts)


def _numbered(paradigm: Paradigm, fillings: Iterator[tuple[str, ...]]) -> Iterator[SentencePair]:
    seen: set[str] = set()
    for words in fillings:
        if len(set(words)) < len(words):
            continue
        try:
            pair = make_pair(paradigm, paradigm.first_number + len(seen), words)
        except DataError:
            continue
        # If two slots are adjacent, different words can result in the same sentence.
        if pair.test not in seen:
            seen.add(pair.test)
            yield pair


def shares(capacities: Sequence[int], total: int, *, limit: int = MAX_PAIRS) -> list[int]:
    """Return the number of pairs per paradigm: ``total``, distributed as evenly as possible.

    :param capacities: Number of possible fillings per paradigm. :param limit: Maximum pairs per paradigm.
    :raises UsageError: if the paradigms do not have that many pairs, or ``total`` is less than one pair each.
    """
    limits = [min(size, limit) for size in capacities]
    if not len(limits) <= total <= sum(limits):
        raise UsageError(f"{total:,} pairs in total: choose {len(limits)} to {sum(limits):,}")
    counts = [0] * len(limits)
    remaining = total
    unfilled = list(range(len(limits)))
    while remaining:
        each, extra = divmod(remaining, len(unfilled))
        for place, number in enumerate(unfilled):
            more = min(limits[number] - counts[number], each + (place < extra))
            counts[number] += more
            remaining -= more
        unfilled = [number for number in unfilled if counts[number] < limits[number]]
    return counts
