"""Rows of DTAiLS files: what a variation is, and the strict reading of the dataset and ``.words`` files.

A *concept* is an English word with several *variations* in the target language; each row has an English
sentence, and the *label* is the variation that its context asks for (paper, section 2).

Texts are kept as they stand in the file: zero-width joiners, the order of right-to-left letters and the
Unicode form of a word are data (in the authors' Tamil list two variations differ in that form only).
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.strict_json import short

SENTENCE, TARGET = "source language text", "target language text"
COLUMNS = ("concept", SENTENCE, TARGET, "variations", "label")


@dataclass(frozen=True, slots=True)
class Variation:
    """One word of the target language: the surface forms that count as it.

    A form may contain a form of another variation (``sien`` in ``gesien``): whoever looks for forms in a text
    takes the longest that matches.
    """

    forms: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Variation:
        """``gesê/sê``: forms joined by ``/``; one that stands twice counts once.

        :raises DataError: a form is empty.
        """
        forms = tuple(dict.fromkeys(form.strip() for form in text.split("/")))
        if not all(forms):
            raise DataError(f"variation {short(text)} has an empty form; write forms as a/b")
        return cls(forms)

    @property
    def name(self) -> str:
        """The forms as the files write them: joined by ``/``."""
        return "/".join(self.forms)

    def shares(self, other: Variation) -> bool:
        """Whether any form of the one is a form of the other: the authors' test of a right answer."""
        return not set(self.forms).isdisjoint(other.forms)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a ``.words`` file: a concept, its part of speech (universal tag) and its variations."""

    concept: str
    pos: str
    variations: tuple[Variation, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a dataset file.

    :param number: 1-based place among the file's rows, the header not counted.
    :param target: a translation that uses the label; empty where the project has none that it is sure of.
    :param label: index into ``variations``.
    :param pos: part of speech, empty where no ``.words`` file tells.
    :param clue: words of the sentence that decide the choice (built-in rows only).
    :param repeats: number of the earlier row that is the same in concept, sentence and label, else 0.
    :param id: the last two parts of the item's id, where the file gives it.
    """

    number: int
    concept: str
    sentence: str
    target: str
    variations: tuple[Variation, ...]
    label: int
    pos: str = ""
    clue: tuple[str, ...] = ()
    repeats: int = 0
    id: str = ""


def parse_words(text: str, where: str) -> tuple[Entry, ...]:
    """Lines ``concept,POS,variation;variation``; blank lines are skipped.

    :raises DataError: another shape, a concept with fewer than two variations, or one (concept, POS) twice.
    """
    entries: dict[tuple[str, str], Entry] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"{where}: line {number}"
        concept, pos, words = [*(part.strip() for part in line.split(",", 2)), "", ""][:3]
        if not concept or not pos or not words:
            raise DataError(f"{place}: {short(line)}; write concept,POS,variation;variation")
        if (concept, pos) in entries:
            raise DataError(f"{place}: {concept!r} ({pos}) stands in the file twice; merge its variations")
        found = _variations(words.split(";"), concept, place)
        entries[concept, pos] = Entry(concept, pos, found)
    return tuple(entries.values())


def parse_rows(
    rows: Iterable[Mapping[str, str]],
    language: str,
    source: str,
    where: str,
    words: Sequence[Entry] = (),
    *,
    training: bool = False,
) -> tuple[Row, ...]:
    """Rows of ``expert_dataset.csv``, ``train_dataset.csv`` or a built-in file, checked.

    :param rows: cells by column: those of :data:`COLUMNS`; ``clue`` (parts joined by ``;``) and ``id`` may be
        there. A ``target language text`` may be empty.
    :param source: rows that repeat another are kept when ``published``, since the authors' counts include
        them, and refused otherwise.
    :param words: entries of the ``.words`` file, for the parts of speech.
    :param training: rows that rules are made from: they may repeat whatever their source, as corpora do.
    :raises DataError: variations that are not a list of at least two different words, a label that is none of
        them or more than one, an empty concept or sentence, a clue that is not in the sentence, a repeated row.
    """
    lists: dict[tuple[str, str], tuple[Variation, ...]] = {}
    tags: dict[tuple[str, frozenset[Variation]], str] = {}
    first: dict[tuple[str, str, frozenset[str]], int] = {}
    found = []
    for number, cells in enumerate(rows, 1):
        place = f"{where}: row {number} ({language})"
        concept, sentence = cells["concept"].strip(), cells[SENTENCE].strip()
        if not concept:
            raise DataError(f"{place}: the concept is empty; name the English word")
        if not sentence:
            raise DataError(
                f"{place}: the {SENTENCE} of {short(concept)} is empty; give the sentence or drop the row"
            )
        key = (concept, cells["variations"])
        if key not in lists:
            lists[key] = _variations(_list(cells["variations"], place), concept, place)
            tags[concept, frozenset(lists[key])] = _pos(concept, lists[key], words)
        variations = lists[key]
        label = _label(cells["label"], variations, place)
        mark = (concept, sentence, frozenset(variations[label].forms))
        earlier = first.setdefault(mark, number)
        if earlier != number and source != "published" and not training:
            raise DataError(f"{place}: repeats row {earlier} (same concept, sentence and label); drop one")
        found.append(
            Row(
                number,
                concept,
                sentence,
                cells[TARGET].strip(),
                variations,
                label,
                tags[concept, frozenset(variations)],
                _clue(cells.get("clue", ""), sentence, place),
                0 if earlier == number else earlier,
                cells.get("id", "").strip(),
            )
        )
    return tuple(found)


def _list(text: str, place: str) -> list[str]:
    """A Python list literal of strings; its escapes are resolved, nothing in it is run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an unknown escape, which stays as it is written
            value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        _fail(place, f"variations {short(text)} are not a list", "write ['one', 'other/form']")
    return value


def _variations(texts: Sequence[str], concept: str, place: str) -> tuple[Variation, ...]:
    try:
        found = tuple(Variation.parse(text) for text in texts)
    except DataError as error:
        raise DataError(f"{place}: {error}") from None
    if len(found) < 2:
        _fail(
            place,
            f"concept {short(concept)} has {len(found)} variation(s)",
            "give at least two, or drop the concept",
        )
    twice = next((v for index, v in enumerate(found) if v in found[:index]), None)
    if twice is not None:
        _fail(place, f"variation {short(twice.name)} of {short(concept)} stands twice", "drop one")
    return found


def _label(text: str, variations: Sequence[Variation], place: str) -> int:
    """The variation that is the label, else the only one that shares a form with it."""
    if not text.strip():
        _fail(place, "the label is empty", "give the variation that is right")
    try:
        label = Variation.parse(text)
    except DataError as error:
        raise DataError(f"{place}: label: {error}") from None
    if label in variations:
        return variations.index(label)
    fitting = [index for index, variation in enumerate(variations) if variation.shares(label)]
    if len(fitting) != 1:
        names = ", ".join(variation.name for variation in variations)
        what = "is no variation" if not fitting else f"fits {len(fitting)} variations"
        _fail(place, f"label {short(text)} {what} of {short(names)}", "write one of them as it stands there")
    return fitting[0]


def _clue(text: str, sentence: str, place: str) -> tuple[str, ...]:
    clue = tuple(part.strip() for part in text.split(";") if part.strip())
    for part in clue:
        if not re.search(rf"(?<!\w){re.escape(part)}(?!\w)", sentence):
            _fail(
                place,
                f"clue {short(part)} is not in the sentence",
                "copy words of the sentence, joined by ;",
            )
    return clue


def _pos(concept: str, variations: Sequence[Variation], words: Sequence[Entry]) -> str:
    """The tag of the entry with these variations, else of the only entry of the concept."""
    entries = [entry for entry in words if entry.concept == concept]
    same = [entry for entry in entries if set(entry.variations) == set(variations)]
    chosen = same or entries
    return chosen[0].pos if len(chosen) == 1 else ""


def _fail(place: str, what: str, fix: str) -> NoReturn:
    raise DataError(f"{place}: {what}; {fix}")
