"""ERAS sentence pairs: the position of the site, and the choice of slot words, random or by a masked language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from pytest_llmprops.benchmarks.eras.paradigms import Paradigm, Parts, Slot
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.protocols import generator


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A test sentence and its control sentence, which differ in the site (see :class:`Paradigm`).

    :param number: Number of the pair in its paradigm, from 0. :param words: The slot words, in order.
    :param site_start: 0-based index of the site, the same in ``test`` and in ``control``.
    """

    paradigm: Paradigm
    number: int
    words: tuple[str, ...]
    test: str
    control: str
    site_start: int

    @property
    def id(self) -> str:
        """Return paradigm and number, for example ``01/00017``."""
        return f"{self.paradigm.id}/{self.number:05d}"


def locate_site(sentence: str, site: str) -> int:
    """Return the 0-based index of the site's only occurrence.

    :raises DataError: if the site does not occur, or occurs more than once (overlaps count).
    """
    start = sentence.find(site)
    if start < 0:
        raise DataError(f"{sentence[:60]!r} has no site {site!r}; correct the sentence or its template")
    if sentence.find(site, start + 1) >= 0:
        raise DataError(f"{sentence[:60]!r} has the site {site!r} twice; choose other slot words")
    return start


def fill(parts: Parts, words: Sequence[str]) -> str:
    """Return the template ``parts`` with ``words`` in its slots."""
    remaining = iter(words)
    return "".join([part if isinstance(part, str) else next(remaining) for part in parts])


def known_boundaries(pair: SentencePair) -> tuple[int, ...]:
    """Return the word boundaries of the test sentence that its paradigm determines, without those at its ends.

    They are the edges of the slot words and the edge of the true word inside the site. Empty if the slot words are
    unknown, as in a set that was read from a file.
    """
    if not pair.words:
        return ()
    places = {pair.site_start + (2 if pair.paradigm.branching == "left" else 1)}
    words, place = iter(pair.words), 0
    for part in pair.paradigm.test_parts:
        if isinstance(part, str):
            place += len(part)
        else:
            places.add(place)
            place += len(next(words))
            places.add(place)
    return tuple(sorted(places - {0, place}))


def make_pair(paradigm: Paradigm, number: int, words: Sequence[str]) -> SentencePair:
    """Return the pair that results from filling the paradigm's templates with ``words``.

    :raises DataError: if the number of words is wrong, or a sentence contains the site anywhere except in
        the template's place.
    """
    if len(words) != len(paradigm.slots):
        raise DataError(
            f"paradigm {paradigm.id}: {len(words)} slot words for {len(paradigm.slots)} slots; give one per slot"
        )
    test, control = fill(paradigm.test_parts, words), fill(paradigm.control_parts, words)
    before = fill(paradigm.test_parts[: paradigm.site_part], words)
    start = len(before) + paradigm.site_offset
    for sentence, site in ((test, paradigm.site), (control, paradigm.control_site)):
        if locate_site(sentence, site) != start:
            raise DataError(f"paradigm {paradigm.id}: {sentence!r} has {site!r} outside its site")
    return SentencePair(paradigm, number, tuple(words), test, control, start)


def pair_to_row(pair: SentencePair) -> dict[str, Any]:
    """Return a pair's line in ``pairs.jsonl``: id, words, test, control, start (0-based)."""
    return {
        "id": pair.id,
        "words": list(pair.words),
        "test": pair.test,
        "control": pair.control,
        "start": pair.site_start,
    }


def pairs_from_rows(
    rows: Sequence[Mapping[str, Any]], paradigms: Sequence[Paradigm], *, where: str = "pairs.jsonl"
) -> list[SentencePair]:
    """Return the pairs of a generated set.

    :raises DataError: naming the row, for an unknown paradigm, or sentences that do not match their words.
    """
    known = {paradigm.id: paradigm for paradigm in paradigms}
    pairs = []
    for line, row in enumerate(rows, 1):
        name, _, number = str(row.get("id")).partition("/")
        words = row.get("words")
        paradigm = known.get(name)
        if paradigm is None or not (number.isascii() and number.isdecimal()):
            raise DataError(f"{where}, row {line}: id {row.get('id')!r} is not PARADIGM/NUMBER of this set")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DataError(f"{where}, row {line}: 'words' must be a list of strings; generate the set again")
        try:
            pair = make_pair(paradigm, int(number), words)
        except DataError as error:
            raise DataError(f"{where}, row {line}: {error}") from None
        if (pair.test, pair.control, pair.site_start) != (
            row.get("test"), row.get("control"), row.get("start"),
        ):  # fmt: skip
            raise DataError(
                f"{where}, row {line}: the sentences do not match their words; generate the set again"
            )
        pairs.append(pair)
    return pairs


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


def fill_seeded(paradigm: Paradigm, words: Words, *, pairs: int, seed: int) -> Iterator[SentencePair]:
    """Yield up to ``pairs`` distinct pairs, drawn without replacement from all fillings.

    The same seed gives the same pairs in the same order, and a smaller number gives the first of them.
    Fillings that use a word twice, or in which a site would occur twice, are skipped.
    """
    lists = [words[slot] for slot in paradigm.slots]
    fillings = _shuffled(lists, generator(seed, "eras", paradigm.id).randrange)
    return islice(_numbered(paradigm, fillings), pairs)


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
    seed: int,
    mlm_score: MlmScore = "ratio",
    limit: int = MAX_PAIRS,
) -> Iterator[SentencePair]:
    """Yield up to ``limit`` of the pairs whose slot words are likely according to a masked language model.

    Slots are filled from the left. The model gets the control template with the slots to the left filled, the
    candidate in its slot, and the slots to the right masked. Candidates that score above :func:`threshold`
    are kept, and each is continued with the next slot. The score is the product of the surrounding tokens'
    probabilities (``absolute``), or this product divided by that of the best candidate with the same number of
    characters (``ratio``, as in the authors' code).

    The pairs are a uniform random sample of all pairs that pass, without replacement, in random order. A smaller
    ``limit`` gives the first of them. Fillings that use a word twice, or in which a site occurs twice, are
    skipped after scoring.

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

    def passing(filled: tuple[str, ...]) -> list[str]:
        return _likely_words(paradigm, words, score, mlm_score, filled)

    sizes = [len(words[slot]) for slot in paradigm.slots]
    random = generator(seed, "eras", "mlm", paradigm.id)
    return islice(_numbered(paradigm, _sampled(sizes, passing, random.randrange)), limit)


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


@dataclass(slots=True)
class _Prefix:
    """A partial filling. ``bound`` is the maximum number of fillings below it that have not been drawn."""

    bound: int
    children: dict[str, _Prefix] | None = None


def _sampled(
    sizes: Sequence[int], passing: Callable[[tuple[str, ...]], Sequence[str]], randrange: Callable[[int], int]
) -> Iterator[tuple[str, ...]]:
    """Yield all fillings that pass, in uniformly random order, and ask for the passing words only when needed.

    Each attempt goes down the tree of partial fillings and chooses a child in proportion to its bound. When an
    attempt is the first to reach a partial filling, the bound shrinks from all words to those that pass, and the
    attempt continues with probability new bound / old bound. So in each attempt, every remaining filling has
    the same chance, 1 / (bound of the root), and each partial filling is scored at most once.

    :param sizes: Number of words per slot.
    """
    below = [math.prod(sizes[level:]) for level in range(len(sizes) + 1)]
    root = _Prefix(below[0])
    while root.bound:
        path = [root]
        filled: tuple[str, ...] = ()
        while len(filled) < len(sizes):
            here = path[-1]
            if here.children is None:
                here.children = {word: _Prefix(below[len(filled) + 1]) for word in passing(filled)}
                before, after = here.bound, len(here.children) * below[len(filled) + 1]
                for prefix in path:
                    prefix.bound -= before - after
                if randrange(before) >= after:
                    break
            word = _word_at(here.children, randrange(here.bound))
            path.append(here.children[word])
            filled = (*filled, word)
        else:
            for prefix in path:
                prefix.bound -= 1
            yield filled


def _word_at(children: Mapping[str, _Prefix], place: int) -> str:
    """Return the word whose fillings include number ``place`` of all fillings below ``children``."""
    for word, child in children.items():
        if place < child.bound:
            return word
        place -= child.bound
    raise IndexError(place)


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


def shares(capacities: Sequence[int], total: int) -> list[int]:
    """Return the number of pairs per paradigm: ``total``, distributed as evenly as possible.

    :param capacities: Number of possible fillings per paradigm; at most :data:`MAX_PAIRS` of them are used.
    :raises UsageError: if the paradigms do not have that many pairs, or ``total`` is less than one pair each.
    """
    limits = [min(size, MAX_PAIRS) for size in capacities]
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
