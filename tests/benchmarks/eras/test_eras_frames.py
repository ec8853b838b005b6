"""The built-in ERAS frames and slot words: structure, words across the site's edges, size."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.paradigms import (
    SENTIMENTS,
    Paradigm,
    parse_builtin,
    parse_slot_words,
    to_json,
)
from pytest_llmprops.benchmarks.eras.sentences import (
    PAPER_SIZE,
    capacity,
    fill,
    fill_seeded,
    locate_site,
    make_pair,
    shares,
)
from pytest_llmprops.benchmarks.eras.tools.mining import dictionary
from pytest_llmprops.core.errors import DataError

DATA = Path(__file__).parents[3] / "data" / "eras"


@cache
def document(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


@cache
def paradigms() -> tuple[Paradigm, ...]:
    return parse_builtin(document("paradigms.json"))


@cache
def words() -> dict[str, tuple[str, ...]]:
    return parse_slot_words(document("slot_words.json"), paradigms(), "builtin")


@cache
def jieba_words() -> frozenset[str]:
    return frozenset(dictionary())


def each() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("paradigm", paradigms(), ids=lambda p: p.id)


def test_counts_are_the_papers() -> None:
    """There are 39 paradigms: 23 left, 16 right; 9 +/-, 9 -/+, 11 -/0, 10 +/0, in table 3's order."""
    assert [p.id for p in paradigms()] == [f"{n:02d}" for n in range(1, 40)]
    assert Counter(p.branching for p in paradigms()) == {"left": 23, "right": 16}
    assert Counter(p.sentiment for p in paradigms()) == {"+/-": 9, "-/+": 9, "-/0": 11, "+/0": 10}
    assert tuple(p.sentiment for p in paradigms()) == SENTIMENTS


@pytest.mark.simulation
@each()
def test_site_words_are_in_the_dictionary(paradigm: Paradigm) -> None:
    """x1x2 and x2x3 are words of jieba's dictionary, except the exceptions that the data lists."""
    absent = {word for word in (paradigm.site[:2], paradigm.site[1:]) if word not in jieba_words()}
    assert absent == {paradigm.site[:2], paradigm.site[1:]} & set(document("paradigms.json")["not_in_jieba"])


def test_exceptions_are_all_needed() -> None:
    """Every listed exception is a word of a site and is not in the dictionary."""
    sites = {word for p in paradigms() for word in (p.site[:2], p.site[1:])}
    assert set(document("paradigms.json")["not_in_jieba"]) == sites - jieba_words()


@each()
def test_test_and_control_differ_only_in_the_site(paradigm: Paradigm) -> None:
    """Test and control sentences have the same slot words and length and differ only in the three site
    characters.
    """
    for pair in fill_seeded(paradigm, words(), pairs=50, seed=1):
        start = pair.site_start
        assert (pair.test[start : start + 3], pair.control[start : start + 3]) == (
            paradigm.site,
            paradigm.control_site,
        )
        assert pair.test[:start] == pair.control[:start]
        assert pair.test[start + 3 :] == pair.control[start + 3 :]


@each()
def test_slot_words_do_not_contain_words_of_the_site(paradigm: Paradigm) -> None:
    """Neither bigram of a site or of its control's occurs in a word of the frame's slots."""
    bigrams = [site[i : i + 2] for site in (paradigm.site, paradigm.control_site) for i in (0, 1)]
    held = [w for slot in paradigm.slots for w in words()[slot] if any(b in w for b in bigrams)]
    assert held == []


@pytest.mark.simulation
@each()
def test_no_dictionary_word_crosses_an_edge_of_the_site(paradigm: Paradigm) -> None:
    """No dictionary word crosses the edges of a site, except intended ones (机房 in 留心机房)."""
    chosen = random.Random(3)
    straddling = set()
    for filling in _every_word_once(paradigm, chosen):
        pair = make_pair(paradigm, 0, filling)
        for sentence, meant in (
            (pair.test, paradigm.across_edge),
            (pair.control, paradigm.control_across_edge),
        ):
            straddling |= {
                word
                for word in _across(sentence, pair.site_start, jieba_words().__contains__)
                # 图书发行 extends 图书, which is intended.
                if not word.startswith(meant or ("\0",))
            }
    assert straddling == set()


@each()
def test_words_meant_to_cross_are_words(paradigm: Paradigm) -> None:
    """The words that a frame lists as crossing an edge occur in every sentence and are in the dictionary."""
    pair = next(fill_seeded(paradigm, words(), pairs=1, seed=0))
    for sentence, meant in ((pair.test, paradigm.across_edge), (pair.control, paradigm.control_across_edge)):
        assert set(meant) <= _across(sentence, pair.site_start, jieba_words().__contains__)


@each()
def test_sites_occur_once_in_every_sentence_of_a_sample(paradigm: Paradigm) -> None:
    """The site occurs once in the test sentence, at its position, and never in the control sentence."""
    for filling in _every_word_once(paradigm, random.Random(4)):
        test, control = fill(paradigm.test_parts, filling), fill(paradigm.control_parts, filling)
        assert locate_site(test, paradigm.site) == locate_site(control, paradigm.control_site)
        assert paradigm.site not in control


def test_frames_can_supply_the_papers_size() -> None:
    """The frames can supply the paper's 203,944 pairs, at most 40,000 per paradigm and thousands in each."""
    capacities = [capacity(paradigm, words()) for paradigm in paradigms()]
    assert min(capacities) > 5000
    numbers = shares(capacities, PAPER_SIZE)
    assert sum(numbers) == PAPER_SIZE
    assert max(numbers) <= 40_000
    assert max(numbers) - min(numbers) <= 1


def test_every_word_list_is_used_and_marked_unchecked() -> None:
    """Every word list in the file is used, and each says that no native speaker has checked it."""
    used = {slot for paradigm in paradigms() for slot in paradigm.slots}
    assert set(document("slot_words.json")["builtin"]) == used
    for name in ("paradigms.json", "slot_words.json"):
        assert "not verified by native speakers" in document(name)["note"]


def test_changed_frames_have_new_item_numbers() -> None:
    """The pairs of the frames that were rewritten do not use the ids of the pairs that they replace."""
    starts = {p.id: p.first_number for p in paradigms() if p.first_number}
    assert starts == dict.fromkeys(("01", "09", "20", "33", "34"), 20)
    pairs = list(fill_seeded(paradigms()[0], words(), pairs=3, seed=0))
    assert [pair.id for pair in pairs] == ["01/00020", "01/00021", "01/00022"]


def test_document_survives_writing() -> None:
    """The document written by to_json is read back as the same paradigms."""
    assert parse_builtin(json.loads(json.dumps(to_json(paradigms())))) == paradigms()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"site": "信心"}, "not three"),
        ({"site": "abc"}, "not Chinese"),
        ({"branching": "up"}, "branching"),
        ({"true_class": "0"}, "classes"),
        ({"canary_class": "+"}, "classes"),
        ({"frame": "{person}有。"}, "{site} once"),
        ({"frame": "{site}有。"}, "no slot"),
        ({"frame": "{Person}有{site}。"}, "not a slot"),
        ({"frame": "{person}信心机有{site}。"}, "twice"),
        ({"control_frame": "{person}有{site}器。"}, "differ"),
        ({"control_site": "信心机"}, "do not differ"),
        ({"id": "1"}, "two digits"),
        ({"id": "02"}, "two paradigms"),
        ({"gloss": None}, "'gloss'"),
        ({"across_edge": [1]}, "strings"),
        ({"first_number": -1}, "'first_number'"),
        ({"first_number": "0"}, "'first_number'"),
    ],
)
def test_malformed_frames_are_one_line(change: dict[str, Any], message: str) -> None:
    """A fault in a frame is one line that names the paradigm."""
    changed = copy.deepcopy(document("paradigms.json"))
    changed["paradigms"][0] |= change
    with pytest.raises(DataError) as caught:
        parse_builtin(changed)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "paradigms.json" in str(caught.value)


@pytest.mark.parametrize(
    "data", [None, [], {}, {"version": 2}, {"version": 1}, {"version": 1, "paradigms": []}]
)
def test_other_documents_are_refused(data: Any) -> None:
    """A document without paradigms is an error, not an empty set."""
    with pytest.raises(DataError, match=r"paradigms\.json"):
        parse_builtin(data)


@pytest.mark.parametrize("entries", [None, [], ["学生", "学生"], ["abc"], [1], ["学 生"], "学生"])
def test_bad_word_lists_are_refused(entries: Any) -> None:
    """A slot's word list that is missing, empty, repeated or not Chinese is an error that names it."""
    changed = copy.deepcopy(document("slot_words.json"))
    changed["builtin"]["person"] = entries
    with pytest.raises(DataError, match="builtin/person"):
        parse_slot_words(changed, paradigms(), "builtin")


def _every_word_once(paradigm: Paradigm, chosen: random.Random) -> Iterator[tuple[str, ...]]:
    """Return fillings in which each word of each slot occurs at least once, with random other words."""
    lists = [words()[slot] for slot in paradigm.slots]
    for place, members in enumerate(lists):
        for word in members:
            filling = [chosen.choice(other) for other in lists]
            filling[place] = word
            yield tuple(filling)


def _across(sentence: str, start: int, is_word: Callable[[str], bool]) -> set[str]:
    entries = set()
    for edge in (start, start + 3):
        for left in range(max(0, edge - 6), edge):
            for right in range(edge + 1, min(len(sentence), edge + 6) + 1):
                if is_word(sentence[left:right]):
                    entries.add(sentence[left:right])
    return entries
