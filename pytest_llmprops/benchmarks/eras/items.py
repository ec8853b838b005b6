"""The ERAS items: sentence pairs, their random slot words, their ids, and sentences in another script."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pytest_llmprops.benchmarks.eras.paradigms import (
    Paradigm,
    Parts,
    parse_builtin,
    parse_published,
    parse_slot_words,
)
from pytest_llmprops.core.benchmark import DataFiles, Loaded
from pytest_llmprops.core.errors import DataError, LLMPropsError, RunStopped
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import generator

EXPLICIT, IMPLICIT = "explicit", "implicit"
#: Pairs generated per paradigm, by source. Intervals resample paradigms, so a few pairs per paradigm are enough,
#: and they keep chat models affordable. `llmprops lab eras generate` writes more.
PAIRS = {"builtin": 20, "published": 50}
_SEED = 0
#: Source of items from the authors' templates with this project's slot words; the authors' are not published.
PUBLISHED_TEMPLATES = "published-templates"
_ID_PREFIXES = {"published": "p", "generated": "g"}
_FOLDER = "eras"
_SLOT_WORDS = f"{_FOLDER}/slot_words.json"
_LINE = re.compile(r"[^\n]+")
Words = Mapping[str, Sequence[str]]
#: (text, site_start, site in traditional characters or empty) -> text in traditional characters
Convert = Callable[[str, int, str], str]


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
        if sentence.find(site) != start or sentence.find(site, start + 1) >= 0:
            raise DataError(f"paradigm {paradigm.id}: {sentence[:60]!r} has {site!r} outside its site")
    return SentencePair(paradigm, number, tuple(words), test, control, start)


def fill_seeded(paradigm: Paradigm, words: Words, *, pairs: int, seed: int) -> Iterator[SentencePair]:
    """Yield up to ``pairs`` distinct pairs, drawn without replacement from all fillings.

    The same seed gives the same pairs in the same order, and a smaller number gives the first of them.
    Fillings that use a word twice, or in which a site would occur twice, are skipped.
    """
    lists = [words[slot] for slot in paradigm.slots]
    fillings = shuffled(lists, generator(seed, "eras", paradigm.id).randrange)
    return islice(numbered(paradigm, fillings), pairs)


def shuffled(
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


def numbered(paradigm: Paradigm, fillings: Iterable[Sequence[str]]) -> Iterator[SentencePair]:
    """Yield the pairs of fillings, without those that use a word twice or in which a site occurs twice."""
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


def read_pairs(text: str, paradigms: Sequence[Paradigm], where: str) -> Iterator[SentencePair]:
    """Yield the pairs of a generated set, one row at a time: 200,000 parsed rows would need much memory.

    The pairs have no slot words, which would need memory, too.

    :param text: the rows, as JSON lines. :param paradigms: those of the set.
    :raises DataError: naming the row, if it is incomplete or its sentences do not have the paradigm's sites.
    """
    known = {paradigm.id: paradigm for paradigm in paradigms}
    for number, line in enumerate(_LINE.findall(text), 1):
        try:
            row: Any = json.loads(line)
            name, _, place = row["id"].partition("/")
            paradigm, start = known[name], row["start"]
            pair = SentencePair(paradigm, int(place), (), row["test"], row["control"], start)
            sites = pair.test[start : start + 3], pair.control[start : start + 3]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            sites = "", ""
        if "" in sites or sites != (paradigm.site, paradigm.control_site):
            raise DataError(
                f"{where}, row {number}: needs the id of a paradigm, and test and control with its sites at start;"
                " generate the set again"
            )
        yield pair


def load_items(files: DataFiles) -> Loaded:
    """Load the items of both tasks: the built-in ones, the published templates, or a generated set.

    The context is the converter to traditional characters: the tool ``traditional`` of the registration.

    :raises DataError: for malformed files.
    """
    source = files.source
    if source == "generated":
        pairs = _generated(files)
    else:
        pairs = _filled(*templates(files, source), source)
        source = PUBLISHED_TEMPLATES if source == "published" else source
    return Loaded(_items(pairs, source, _ID_PREFIXES.get(files.source, "")), files.tool("traditional"))


def templates(files: DataFiles, source: str) -> tuple[tuple[Paradigm, ...], Words]:
    """Return the paradigms of a source, ``builtin`` or ``published``, and this project's slot words for them."""
    if source == "published":
        locations = files.json(f"{_FOLDER}/key_word_locations.json")
        paradigms = parse_published(files.json(f"{_FOLDER}/templates.json"), locations)
    else:
        paradigms = parse_builtin(files.json(f"{_FOLDER}/paradigms.json"))
    return paradigms, parse_slot_words(files.builtin.json(_SLOT_WORDS), paradigms, source)


def _filled(paradigms: Sequence[Paradigm], words: Words, part: str) -> Iterator[SentencePair]:
    for paradigm in paradigms:
        yield from fill_seeded(paradigm, words, pairs=PAIRS[part], seed=_SEED)


def _generated(files: DataFiles) -> Iterator[SentencePair]:
    name = f"{_FOLDER}/paradigms.json"
    paradigms = parse_builtin(files.json(name), where=f"the set's {name}")
    name = f"{_FOLDER}/pairs.jsonl"
    yield from read_pairs(files.text(name), paradigms, name)


def _items(pairs: Iterable[SentencePair], source: str, prefix: str) -> tuple[Item, ...]:
    explicit: list[Item] = []
    implicit: list[Item] = []
    clusters: dict[str, str] = {}
    for pair in pairs:
        name = pair.paradigm.id
        suffix = f"{prefix}{name}/{pair.number:05d}"
        # Both tasks share one mapping to save memory: there may be 200,000 pairs.
        fields = {"pair": pair}
        cluster = clusters.setdefault(name, f"eras/{name}")
        explicit.append(Item(f"eras/{EXPLICIT}/{suffix}", EXPLICIT, "zh", source, cluster, fields))
        implicit.append(Item(f"eras/{IMPLICIT}/{suffix}", IMPLICIT, "zh", source, cluster, fields))
    return (*explicit, *implicit)


def sentences_in_script(pair: SentencePair, script: str, convert: Convert) -> tuple[str, str]:
    """Return the test and the control sentence, in simplified characters or converted to traditional ones.

    :param script: ``simplified``, or the name of the converter.
    :raises RunStopped: if the converter is not installed, or changes the number of characters.
    """
    if script == "simplified":
        return pair.test, pair.control
    try:
        site, control_site = pair.paradigm.traditional or ("", "")
        return convert(pair.test, pair.site_start, site), convert(pair.control, pair.site_start, control_site)
    except LLMPropsError as error:
        raise RunStopped(f"eras.script={script}: {error}") from None
