"""The authors' templates: reading them, and the errors for broken files."""

from __future__ import annotations

import copy
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.paradigms import (
    PUBLISHED_INDICES,
    Paradigm,
    Slot,
    parse_builtin,
    parse_published,
    parse_slot_words,
    to_json,
)
from pytest_llmprops.benchmarks.eras.sentences import fill_seeded
from pytest_llmprops.core.errors import DataError

BUILTIN = Path(__file__).parents[3] / "data" / "eras"
PUBLISHED = Path(os.environ.get("LLMPROPS_DATA") or "-") / "eras"


def templates() -> dict[str, Any]:
    """Return sixty pairs in the published form; the odd ones from 18 on are not part of the benchmark."""
    return {
        "amb_templates": ["human买甲乙丙丁的ob。"] * 60,
        "nonamb_templates": ["human买戊乙己丁的ob。"] * 60,
    }


def locations() -> list[list[int]]:
    """Return the site 甲乙丙 after a slot that counts as two characters and one character of text."""
    return [[4, 7, 0]] * 30 + [[4, 7, 1]] * 30


def test_places_count_slots_as_two() -> None:
    """A location counts from 1, a slot counts as two characters, the end is exclusive, and branch 0 is left."""
    parsed = parse_published(templates(), locations())
    assert len(parsed) == 39
    first, last = parsed[0], parsed[-1]
    assert (first.site, first.control_site, first.branching) == ("甲乙丙", "戊乙己", "left")
    assert (first.true_word, first.canary_word) == ("甲乙", "乙丙")
    assert (last.id, last.branching, last.true_word, last.canary_word) == ("39", "right", "乙丙", "甲乙")
    assert first.slots == ("human", "ob")
    assert first.test_parts == (Slot("human"), "买甲乙丙丁的", Slot("ob"), "。")
    assert Counter(p.sentiment for p in parsed) == {"+/-": 9, "-/+": 9, "-/0": 11, "+/0": 10}


def test_39_paradigms_are_chosen() -> None:
    """The benchmark uses pairs 0 to 17 and the even ones from 18 to 58; faults in other pairs do not matter."""
    assert (*range(18), *range(18, 59, 2)) == PUBLISHED_INDICES
    data, places = templates(), locations()
    data["amb_templates"][19] = "human买。"
    places[59] = [1, 4, 0]
    assert len(parse_published(data, places)) == 39
    data["amb_templates"][20] = "human买。"
    with pytest.raises(DataError, match="pair 20"):
        parse_published(data, places)


def test_difference_next_to_the_site_is_allowed() -> None:
    """Pair 52 also differs in the character after its site; such paradigms survive to_json."""
    data = templates()
    data["nonamb_templates"][0] = "human买戊乙丙己的ob。"
    parsed = parse_published(data, locations())
    assert (parsed[0].control_site, parsed[0].control_parts[1]) == ("戊乙丙", "买戊乙丙己的")
    again = parse_builtin(to_json(parsed))
    assert [(p.test_parts, p.control_parts, p.site, p.site_part, p.site_offset) for p in again] == [
        (p.test_parts, p.control_parts, p.site, p.site_part, p.site_offset) for p in parsed
    ]


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        ("templates", None, None, "amb_templates"),
        ("templates", None, [], "amb_templates"),
        ("templates", "amb_templates", None, "list of 60"),
        ("templates", "nonamb_templates", ["x"] * 59, "list of 60"),
        ("templates", ("amb_templates", 0), 3, "not a template"),
        ("templates", ("amb_templates", 0), " ", "not a template"),
        ("templates", ("amb_templates", 0), "animal买甲乙丙丁的ob。", "'animal'"),
        ("templates", ("amb_templates", 0), "human买甲乙丙丁的ob!", "not a slot"),
        ("templates", ("amb_templates", 0), "一二买甲乙丙丁的。", "no slot"),
        ("templates", ("nonamb_templates", 0), "human买戊乙己丁的en。", "slots or lengths"),
        ("templates", ("nonamb_templates", 0), "human买戊乙己的ob。", "slots or lengths"),
        ("templates", ("nonamb_templates", 0), "human买甲乙丙丁的ob。", "do not differ"),
        ("templates", ("nonamb_templates", 0), "human卖甲乙丙丁的ob。", "away from the site"),
        ("templates", ("nonamb_templates", 0), "human买戊乙己丁得ob。", "away from the site"),
        ("templates", ("amb_templates", 0), "human买甲乙丙丁甲乙丙ob。", "slots or lengths"),
        ("locations", None, None, "list of 60"),
        ("locations", None, [[4, 7, 0]] * 39, "list of 60"),
        ("locations", (0,), [4, 7], "[start, end, branch]"),
        ("locations", (0,), [4, 7, True], "as integers"),
        ("locations", (0,), ["4", 7, 0], "as integers"),
        ("locations", (0,), [4, 7, 2], "branch"),
        ("locations", (0,), [4, 8, 0], "three characters"),
        ("locations", (0,), [0, 3, 0], "three characters"),
        ("locations", (0,), [2, 5, 0], "overlap a slot"),
        ("locations", (0,), [90, 93, 0], "overlap a slot"),
        ("locations", (0,), [7, 10, 0], "overlap a slot"),
    ],
)
def test_broken_files_are_one_line(file: str, key: Any, value: Any, message: str) -> None:
    """Each fault is a one-line error that names the file and the pair."""
    files: dict[str, Any] = {"templates": templates(), "locations": locations()}
    if key is None:
        files[file] = value
    elif isinstance(key, str):
        files[file][key] = value
    else:
        *path, last = key
        target = copy.deepcopy(files[file])
        files[file] = target
        for step in path:
            target = target[step]
        target[last] = value
    with pytest.raises(DataError) as caught:
        parse_published(files["templates"], files["locations"])
    text = str(caught.value)
    assert message in text
    assert "\n" not in text
    assert ".json" in text


@pytest.fixture(scope="module")
def published() -> tuple[Paradigm, ...]:
    if not (PUBLISHED / "templates.json").exists():
        pytest.skip("needs LLMPROPS_DATA, the folder of published data")
    read = (json.loads((PUBLISHED / f"{n}.json").read_text()) for n in ("templates", "key_word_locations"))
    return parse_published(*read)


def test_builtin_sites_are_the_published_ones(published: tuple[Paradigm, ...]) -> None:
    """The built-in frames have the published sites, control sites and branchings, but different frames."""
    own = parse_builtin(json.loads((BUILTIN / "paradigms.json").read_text(encoding="utf-8")))
    facts = [(p.id, p.site, p.control_site, p.branching, p.sentiment) for p in published]
    assert facts == [(p.id, p.site, p.control_site, p.branching, p.sentiment) for p in own]
    assert not {"".join(map(_bare, p.test_parts)) for p in own} & {
        "".join(map(_bare, p.test_parts)) for p in published
    }


def _bare(part: str | Slot) -> str:
    return part if isinstance(part, str) else "_"


def test_published_templates_fill(published: tuple[Paradigm, ...]) -> None:
    """Every published template accepts the project's words for its slots; all slots except `one` count as
    two.
    """
    document = json.loads((BUILTIN / "slot_words.json").read_text(encoding="utf-8"))
    words = parse_slot_words(document, published, "published")
    assert {len(word) for name, parsed in words.items() if name != "one" for word in parsed} == {2}
    for paradigm in published:
        pairs = list(fill_seeded(paradigm, words, pairs=100, seed=0))
        assert len(pairs) == 100
        assert {pair.test[pair.site_start : pair.site_start + 3] for pair in pairs} == {paradigm.site}
