"""ERAS sentence pairs, and the position of the site in a sentence (Li & Hao, section 2.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmprops.benchmarks.eras.paradigms import Paradigm, Parts
from pytest_llmprops.core.errors import DataError


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
