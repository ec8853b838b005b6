"""ERAS sentence pairs, and where the site is in a sentence (Li & Hao, section 2.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmprops.benchmarks.eras.paradigms import Paradigm, Parts
from pytest_llmprops.core.errors import DataError


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A test sentence and its control, which differ in the site (see :class:`Paradigm`).

    :param number: from 0 within its paradigm. :param words: the slot words, in order.
    :param site_start: 0-based index of the site in ``test`` and in ``control``.
    """

    paradigm: Paradigm
    number: int
    words: tuple[str, ...]
    test: str
    control: str
    site_start: int

    @property
    def id(self) -> str:
        """Paradigm and number: ``01/00017``."""
        return f"{self.paradigm.id}/{self.number:05d}"


def locate_site(sentence: str, site: str) -> int:
    """0-based index of the site's only occurrence, overlapping ones counted.

    :raises DataError: when the site does not occur, or more than once.
    """
    start = sentence.find(site)
    if start < 0:
        raise DataError(f"{sentence[:60]!r} has no site {site!r}; correct the sentence or its template")
    if sentence.find(site, start + 1) >= 0:
        raise DataError(f"{sentence[:60]!r} has the site {site!r} twice; choose other slot words")
    return start


def fill(parts: Parts, words: Sequence[str]) -> str:
    """The template ``parts`` with ``words`` in its slots."""
    rest = iter(words)
    return "".join([part if isinstance(part, str) else next(rest) for part in parts])


def make_pair(paradigm: Paradigm, number: int, words: Sequence[str]) -> SentencePair:
    """The pair that ``words`` make of the paradigm's templates.

    :raises DataError: when the number of words is wrong, or the site is not where the template has it, once.
    """
    if len(words) != len(paradigm.slots):
        raise DataError(
            f"paradigm {paradigm.id}: {len(words)} slot words for {len(paradigm.slots)} slots; give one a slot"
        )
    test, control = fill(paradigm.test_parts, words), fill(paradigm.control_parts, words)
    before = fill(paradigm.test_parts[: paradigm.site_part], words)
    start = len(before) + paradigm.site_offset
    for sentence, site in ((test, paradigm.site), (control, paradigm.control_site)):
        if locate_site(sentence, site) != start:
            raise DataError(f"paradigm {paradigm.id}: {sentence!r} has {site!r} outside its site")
    return SentencePair(paradigm, number, tuple(words), test, control, start)


def pair_to_row(pair: SentencePair) -> dict[str, Any]:
    """The line of ``pairs.jsonl`` for a pair: id, words, test, control, start (0-based)."""
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
    """The pairs of a generated set.

    :raises DataError: naming the line, for an unknown paradigm, or sentences that the words do not make.
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
                f"{where}, row {line}: the sentences are not what the words make; generate the set again"
            )
        pairs.append(pair)
    return pairs
