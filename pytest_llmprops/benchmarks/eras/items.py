"""The ERAS items: load the sentence pairs, assign ids, and convert sentences to another script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmprops.benchmarks.eras.paradigms import (
    Paradigm,
    parse_builtin,
    parse_published,
    parse_slot_words,
)
from pytest_llmprops.benchmarks.eras.sentences import (
    SentencePair,
    Words,
    fill_seeded,
    locate_site,
    pairs_from_rows,
)
from pytest_llmprops.core.benchmark import DataFiles, Loaded
from pytest_llmprops.core.errors import DataError, LLMPropsError, RunStopped
from pytest_llmprops.core.items import Item

EXPLICIT, IMPLICIT = "explicit", "implicit"
TASKS = (EXPLICIT, IMPLICIT)
#: Pairs generated per paradigm, by source. Intervals resample paradigms, so a few pairs per paradigm are enough,
#: and they keep chat models affordable. `llmprops generate eras` writes more.
PAIRS = {"builtin": 20, "published": 50}
_SEED = 0
#: Source of items from the authors' templates with this project's slot words; the authors' are not published.
PUBLISHED_TEMPLATES = "published-templates"
_ID_PREFIXES = {"published": "p", "generated": "g"}
_FOLDER = "eras"
_SLOT_WORDS = f"{_FOLDER}/slot_words.json"
_LINE = re.compile(r"[^\n]+")
#: (text, site_start, converter, site in traditional characters or empty) -> text in traditional characters
Convert = Callable[[str, int, str, str], str]


@dataclass(frozen=True, slots=True)
class Context:
    """What evaluation needs in addition to the items.

    :param convert: Converter to traditional characters: the tool ``traditional`` of the registration.
    :param mlm_score: How a masked language model's scores chose the slot words of a generated set; empty
        if no model chose them.
    """

    convert: Convert
    mlm_score: str = ""


def load_items(files: DataFiles) -> Loaded:
    """Load the items of both tasks: the built-in ones, the published templates, or a generated set.

    :raises DataError: for malformed files.
    """
    mlm_score = ""
    words: dict[str, tuple[str, ...]] = {}
    source = files.source
    if source == "generated":
        facts = files.json(f"{_FOLDER}/SOURCE.json") if files.exists(f"{_FOLDER}/SOURCE.json") else {}
        mlm_score = str(facts.get("mlm_score") or "") if isinstance(facts, dict) else ""
        pairs = _generated(files)
    elif source == "published":
        paradigms = parse_published(
            files.json(f"{_FOLDER}/templates.json"), files.json(f"{_FOLDER}/key_word_locations.json")
        )
        words = parse_slot_words(files.builtin.json(_SLOT_WORDS), paradigms, "published")
        pairs = _filled(paradigms, words, "published")
        source = PUBLISHED_TEMPLATES
    else:
        paradigms = parse_builtin(files.json(f"{_FOLDER}/paradigms.json"))
        words = parse_slot_words(files.json(_SLOT_WORDS), paradigms, "builtin")
        pairs = _filled(paradigms, words, "builtin")
    return Loaded(
        _items(pairs, source, _ID_PREFIXES.get(files.source, "")),
        Context(files.tool("traditional"), mlm_score),
    )


def _filled(paradigms: Sequence[Paradigm], words: Words, part: str) -> Iterator[SentencePair]:
    for paradigm in paradigms:
        yield from fill_seeded(paradigm, words, pairs=PAIRS[part], seed=_SEED)


def _generated(files: DataFiles) -> Iterator[SentencePair]:
    """Read the pairs of a generated set line by line, because 200,000 parsed rows would need much memory."""
    paradigms = parse_builtin(
        files.json(f"{_FOLDER}/paradigms.json"), where=f"the set's {_FOLDER}/paradigms.json"
    )
    known = {paradigm.id: (paradigm,) for paradigm in paradigms}
    name = f"{_FOLDER}/pairs.jsonl"
    for number, line in enumerate(_LINE.findall(files.text(name)), 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{name}, row {number}: not JSON; generate the set again") from None
        if not isinstance(row, dict):
            raise DataError(f"{name}, row {number}: not a JSON object; generate the set again")
        try:
            candidates = known.get(str(row.get("id")).partition("/")[0], ())
            [pair] = pairs_from_rows((row,), candidates, where=name)
        except DataError as error:
            message = _site_problem(row, candidates) or str(error).replace("row 1:", f"row {number}:", 1)
            raise DataError(
                message if message.startswith(name) else f"{name}, row {number}: {message}"
            ) from None
        # Drop the slot words: the sentences contain them, and 200,000 small tuples would cost memory.
        yield SentencePair(pair.paradigm, pair.number, (), pair.test, pair.control, pair.site_start)


def _site_problem(row: dict[str, Any], paradigms: Sequence[Paradigm]) -> str:
    """Return what is wrong with the sites in a row's sentences; empty if they are fine."""
    for paradigm in paradigms:
        for key, site in (("test", paradigm.site), ("control", paradigm.control_site)):
            try:
                locate_site(str(row.get(key)), site)
            except DataError as error:
                return str(error)
    return ""


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


def sentences_in_script(pair: SentencePair, script: str, context: Context) -> tuple[str, str]:
    """Return the test and the control sentence, in simplified characters or converted to traditional ones.

    :param script: ``simplified``, or the name of the converter.
    :raises RunStopped: if the converter is not installed, or changes the number of characters.
    """
    if script == "simplified":
        return pair.test, pair.control
    try:
        site, control_site = pair.paradigm.traditional or ("", "")
        test = context.convert(pair.test, pair.site_start, script, site)
        return test, context.convert(pair.control, pair.site_start, script, control_site)
    except LLMPropsError as error:
        raise RunStopped(f"eras.script={script}: {error}") from None
