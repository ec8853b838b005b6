"""Slot filling for ERAS: a seeded product of slot words, or a masked language model's choice (section 2.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

from pytest_llmprops.benchmarks.eras.paradigms import Paradigm, Parts, Slot
from pytest_llmprops.benchmarks.eras.sentences import SentencePair, make_pair
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.seeds import generator

#: the authors' limit of pairs a paradigm, and the size of their set
MOST_PAIRS = 40_000
PAPER_SIZE = 203_944
#: the threshold of the first slot, and what each further slot adds (section 2.3, footnote 3)
FIRST_THRESHOLD, FURTHER_THRESHOLD = 0.74, 0.05
MASK = "[MASK]"

Words = Mapping[str, Sequence[str]]
MlmScore = Literal["ratio", "absolute"]
Scorer = Callable[[str, Sequence[str]], Sequence[float]]
"""(text, candidates) -> one natural logarithm a candidate: of the product of the probabilities of the
surrounding tokens with the candidate in the text's first ``[MASK]``; further masks do not count."""


def threshold(slot: int) -> float:
    """The threshold of the slot with this 0-based number: 0.74, 0.79, 0.84 ..."""
    return FIRST_THRESHOLD + FURTHER_THRESHOLD * slot


def capacity(paradigm: Paradigm, words: Words) -> int:
    """How many ways there are to put one word into each slot (the same slot twice takes two words)."""
    return math.prod(len(words[slot]) for slot in paradigm.slots)


def fill_seeded(
    paradigm: Paradigm, words: Words, *, pairs: int, seed: int, most: int = MOST_PAIRS
) -> Iterator[SentencePair]:
    """Up to ``pairs`` distinct pairs, drawn without replacement from all fillings.

    The same seed gives the same pairs in the same order, and fewer pairs are the beginning of more. Fillings
    with one word in two slots are left out, and those in which a site would occur twice.

    :raises UsageError: for ``pairs`` outside 1 to ``most``.
    """
    if not 1 <= pairs <= most:
        raise UsageError(f"{pairs} pairs a paradigm: choose 1 to {most:,}")
    lists = [words[slot] for slot in paradigm.slots]
    return islice(_numbered(paradigm, _drawn(lists, generator(seed, "eras", paradigm.id).randrange)), pairs)


def _drawn(lists: Sequence[Sequence[str]], randrange: Callable[[int, int], int]) -> Iterator[tuple[str, ...]]:
    """All choices of one word a list, in random order.

    A shuffle (Fisher and Yates) of the choices' numbers that stores only the places it has touched.
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
    most: int = MOST_PAIRS,
) -> Iterator[SentencePair]:
    """The pairs whose slot words a masked language model finds likely, slot by slot from the left.

    The model sees the control template: slots to the left filled, the candidate in place, slots to the right
    masked. A candidate stays when its score exceeds :func:`threshold`; each that stays is continued. The
    score is the product of the surrounding tokens' probabilities (``absolute``), or that divided by the best
    candidate's (``ratio``, as the authors did). Pairs come in the order of the word lists, the first ``most``.
    Fillings with one word in two slots are left out after scoring, and those in which a site occurs twice.

    :raises UsageError: for an unknown ``mlm_score``, or more slots than thresholds below 1.
    :raises DataError: when the scorer gives other than one number a candidate.
    """
    if mlm_score not in ("ratio", "absolute"):
        raise UsageError(f"eras.mlm_score={mlm_score!r}: use ratio or absolute")
    if threshold(len(paradigm.slots) - 1) >= 1:
        raise UsageError(
            f"paradigm {paradigm.id}: no word can exceed the threshold of slot {len(paradigm.slots)};"
            " use frames of up to six slots"
        )
    return islice(_numbered(paradigm, _chosen(paradigm, words, score, mlm_score, ())), most)


def _chosen(
    paradigm: Paradigm, words: Words, score: Scorer, mlm_score: MlmScore, filled: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    """Depth first, which gives the same order as the authors' rounds and needs no list of unfinished ones."""
    slots = paradigm.slots
    if len(filled) == len(slots):
        yield filled
        return
    candidates = words[slots[len(filled)]]
    scores = list(score(masked(paradigm.control_parts, filled), candidates))
    if len(scores) != len(candidates) or any(math.isnan(value) for value in scores):
        raise DataError(f"paradigm {paradigm.id}: the model did not give one score a candidate")
    best = max(scores) if mlm_score == "ratio" else 0.0
    if best == -math.inf:
        raise DataError(f"paradigm {paradigm.id}: the model gives every candidate probability 0")
    bar = threshold(len(filled))
    for word, value in zip(candidates, scores, strict=True):
        if math.exp(value - best) > bar:
            yield from _chosen(paradigm, words, score, mlm_score, (*filled, word))


def masked(parts: Parts, filled: Sequence[str]) -> str:
    """A template with its first slots filled and ``[MASK]`` in each further one."""
    rest = iter(filled)
    return "".join(next(rest, MASK) if isinstance(part, Slot) else part for part in parts)


def _numbered(paradigm: Paradigm, fillings: Iterator[tuple[str, ...]]) -> Iterator[SentencePair]:
    seen: set[str] = set()
    for words in fillings:
        if _repeats(paradigm, words):
            continue
        try:
            pair = make_pair(paradigm, len(seen), words)
        except DataError:
            continue
        # Different words can make the same sentence where two slots stand side by side.
        if pair.test not in seen:
            seen.add(pair.test)
            yield pair


def _repeats(paradigm: Paradigm, words: Sequence[str]) -> bool:
    return len(set(words)) < len(words)


def shares(capacities: Sequence[int], total: int, *, most: int = MOST_PAIRS) -> list[int]:
    """``total`` pairs spread over paradigms as evenly as their capacities and ``most`` allow.

    :raises UsageError: when the paradigms do not hold that many, or fewer than one each is asked for.
    """
    limits = [min(one, most) for one in capacities]
    if not len(limits) <= total <= sum(limits):
        raise UsageError(f"{total:,} pairs in all: choose {len(limits)} to {sum(limits):,}")
    given = [0] * len(limits)
    left = total
    open_ones = list(range(len(limits)))
    while left:
        each, odd = divmod(left, len(open_ones))
        for place, number in enumerate(open_ones):
            more = min(limits[number] - given[number], each + (place < odd))
            given[number] += more
            left -= more
        open_ones = [number for number in open_ones if given[number] < limits[number]]
    return given
