"""ERAS items: which pairs there are, under which ids, and how they are written in another script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmprops.benchmarks.eras.filling import fill_seeded
from pytest_llmprops.benchmarks.eras.paradigms import (
    Paradigm,
    parse_builtin,
    parse_published,
    parse_slot_words,
)
from pytest_llmprops.benchmarks.eras.sentences import SentencePair, locate_site, pairs_from_rows
from pytest_llmprops.core.benchmark import DataFiles, Loaded
from pytest_llmprops.core.errors import DataError, LLMPropsError, RunStopped
from pytest_llmprops.core.items import Item

EXPLICIT, IMPLICIT = "explicit", "implicit"
TASKS = (EXPLICIT, IMPLICIT)
#: pairs a paradigm that are made of templates and slot words, by source: enough for paradigms, which are what
#: intervals are made of, at a chat model's price; `llmprops generate eras` makes more
PAIRS = {"builtin": 20, "published": 50}
_SEED = 0
#: the source of the authors' templates filled with this project's slot words: theirs are not published
PUBLISHED_TEMPLATES = "published-templates"
_MARK = {"published": "p", "generated": "g"}
_FOLDER = "eras"
_LINE = re.compile(r"[^\n]+")
#: (text, site_start, converter) -> text in traditional characters
Convert = Callable[[str, int, str], str]


@dataclass(frozen=True, slots=True)
class Context:
    """What evaluation needs beside the items.

    :param convert: to traditional characters: the tool ``traditional`` of the registration.
    :param mlm_score: how a masked language model's scores chose the slot words of a generated set; empty
        where no model did.
    """

    convert: Convert
    mlm_score: str = ""


def load_items(files: DataFiles) -> Loaded:
    """Both tasks' items of a folder: built-in, the published templates, or a generated set.

    :raises DataError: for files that are not what they should be.
    """
    mlm_score = ""
    source = files.source
    if source == "generated":
        made = files.json(f"{_FOLDER}/SOURCE.json") if files.exists(f"{_FOLDER}/SOURCE.json") else {}
        mlm_score = str(made.get("mlm_score") or "") if isinstance(made, dict) else ""
        pairs = _generated(files)
    elif source == "published":
        paradigms = parse_published(
            files.json(f"{_FOLDER}/templates.json"), files.json(f"{_FOLDER}/key_word_locations.json")
        )
        pairs = _filled(paradigms, files.builtin.json(f"{_FOLDER}/slot_words.json"), "published")
        source = PUBLISHED_TEMPLATES
    else:
        paradigms = parse_builtin(files.json(f"{_FOLDER}/paradigms.json"))
        pairs = _filled(paradigms, files.json(f"{_FOLDER}/slot_words.json"), "builtin")
    return Loaded(
        _items(pairs, source, _MARK.get(files.source, "")), Context(files.tool("traditional"), mlm_score)
    )


def _filled(paradigms: Sequence[Paradigm], words: Any, part: str) -> Iterator[SentencePair]:
    lists = parse_slot_words(words, paradigms, part)
    for paradigm in paradigms:
        yield from fill_seeded(paradigm, lists, pairs=PAIRS[part], seed=_SEED)


def _generated(files: DataFiles) -> Iterator[SentencePair]:
    """The pairs of a generated set, one after the other: as rows, 200,000 of them would fill much memory."""
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
            own = known.get(str(row.get("id")).partition("/")[0], ())
            [pair] = pairs_from_rows((row,), own, where=name)
        except DataError as error:
            said = _without_site(row, own) or str(error).replace("row 1:", f"row {number}:", 1)
            raise DataError(said if said.startswith(name) else f"{name}, row {number}: {said}") from None
        # The words are in the sentences; many small tuples of them would only cost memory.
        yield SentencePair(pair.paradigm, pair.number, (), pair.test, pair.control, pair.site_start)


def _without_site(row: dict[str, Any], paradigms: Sequence[Paradigm]) -> str:
    """What is wrong with the sites of a row's sentences; empty where that is not the fault."""
    for paradigm in paradigms:
        for key, site in (("test", paradigm.site), ("control", paradigm.control_site)):
            try:
                locate_site(str(row.get(key)), site)
            except DataError as error:
                return str(error)
    return ""


def _items(pairs: Iterable[SentencePair], source: str, mark: str) -> tuple[Item, ...]:
    explicit: list[Item] = []
    implicit: list[Item] = []
    clusters: dict[str, str] = {}
    for pair in pairs:
        name = pair.paradigm.id
        rest = f"{mark}{name}/{pair.number:05d}"
        # One mapping for both tasks: there may be 200,000 pairs.
        fields = {"pair": pair}
        cluster = clusters.setdefault(name, f"eras/{name}")
        explicit.append(Item(f"eras/{EXPLICIT}/{rest}", EXPLICIT, "zh", source, cluster, fields))
        implicit.append(Item(f"eras/{IMPLICIT}/{rest}", IMPLICIT, "zh", source, cluster, fields))
    return (*explicit, *implicit)


def written(pair: SentencePair, script: str, context: Context) -> tuple[str, str]:
    """Test and control sentence in the script ``simplified``, or as a converter writes them.

    :raises RunStopped: where the converter is not installed, or changes the number of characters.
    """
    if script == "simplified":
        return pair.test, pair.control
    try:
        test = context.convert(pair.test, pair.site_start, script)
        return test, context.convert(pair.control, pair.site_start, script)
    except LLMPropsError as error:
        raise RunStopped(f"eras.script={script}: {error}") from None
