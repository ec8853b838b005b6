"""Built-in frames and slot words, and the authors' templates: structure, words across a site's edges, bad files."""

from __future__ import annotations

import copy
import json
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmark_registry import find_benchmark
from pytest_llmprops.benchmarks.eras.items import fill_seeded, make_pair
from pytest_llmprops.benchmarks.eras.paradigms import (
    SENTIMENTS,
    Paradigm,
    Slot,
    parse_builtin,
    parse_published,
    parse_slot_words,
    to_json,
)
from pytest_llmprops.benchmarks.eras.tools.generation import capacity, shares
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.files import DataFolder

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
    with warnings.catch_warnings():
        # jieba has invalid escapes and imports pkg_resources.
        warnings.simplefilter("ignore")
        import jieba
    jieba.setLogLevel("ERROR")
    tokenizer = jieba.Tokenizer()
    tokenizer.initialize()
    return frozenset(word for word, frequency in tokenizer.FREQ.items() if frequency)


def test_counts_are_the_papers() -> None:
    """There are 39 paradigms: 23 left, 16 right; 9 +/-, 9 -/+, 11 -/0, 10 +/0, in table 3's order.

    The frames can supply the paper's 203,944 pairs, at most 40,000 per paradigm and thousands in each.
    """
    assert [p.id for p in paradigms()] == [f"{n:02d}" for n in range(1, 40)]
    assert Counter(p.branching for p in paradigms()) == {"left": 23, "right": 16}
    assert Counter(p.sentiment for p in paradigms()) == {"+/-": 9, "-/+": 9, "-/0": 11, "+/0": 10}
    assert tuple(p.sentiment for p in paradigms()) == SENTIMENTS
    capacities = [capacity(paradigm, words()) for paradigm in paradigms()]
    assert min(capacities) > 5000
    numbers = shares(capacities, 203_944)
    assert (sum(numbers), max(numbers) - min(numbers) <= 1) == (203_944, True)


def test_site_words_are_in_the_dictionary() -> None:
    """x1x2 and x2x3 are words of jieba's dictionary, except the exceptions that the data lists."""
    sites = {word for p in paradigms() for word in (p.site[:2], p.site[1:])}
    assert set(document("paradigms.json")["not_in_jieba"]) == sites - jieba_words()


def test_test_and_control_differ_only_in_the_site() -> None:
    """Test and control sentences have the same slot words and length, and differ only in the site's characters.

    Neither bigram of a site or of its control's occurs in a word of the frame's slots.
    """
    for paradigm in paradigms():
        bigrams = [site[i : i + 2] for site in (paradigm.site, paradigm.control_site) for i in (0, 1)]
        assert [w for slot in paradigm.slots for w in words()[slot] if any(b in w for b in bigrams)] == []
        for pair in fill_seeded(paradigm, words(), pairs=50, seed=1):
            start = pair.site_start
            sites = pair.test[start : start + 3], pair.control[start : start + 3]
            assert sites == (paradigm.site, paradigm.control_site)
            assert pair.test[:start] == pair.control[:start]
            assert pair.test[start + 3 :] == pair.control[start + 3 :]


def test_no_dictionary_word_crosses_an_edge_of_the_site() -> None:
    """No dictionary word crosses the edges of a site, except intended ones (机房 in 留心机房); sites occur once."""
    for paradigm in paradigms():
        for filling in _every_word_once(paradigm, random.Random(3)):
            pair = make_pair(paradigm, 0, filling)
            assert paradigm.site not in pair.control
            for sentence, meant in (
                (pair.test, paradigm.across_edge),
                (pair.control, paradigm.control_across_edge),
            ):
                across = _across(sentence, pair.site_start)
                # 图书发行 extends 图书, which is intended.
                assert [word for word in across if not word.startswith(meant or ("\0",))] == [], paradigm.id


def test_every_word_list_is_used_and_marked_unchecked() -> None:
    """Every word list in the file is used, and each file says that no native speaker has checked it."""
    used = {slot for paradigm in paradigms() for slot in paradigm.slots}
    assert set(document("slot_words.json")["builtin"]) == used
    for name in ("paradigms.json", "slot_words.json"):
        assert "not verified by native speakers" in document(name)["note"]


def test_malformed_files_are_one_line() -> None:
    """A fault in a frame is one line that names the paradigm; one in a word list names the list."""
    for change, message in (
        ({"site": "信心"}, "three Chinese characters"),
        ({"branching": "up"}, "'branching'"),
        ({"canary_class": "+"}, "the true class"),
        ({"frame": "{person}有。"}, "{site} once"),
        ({"control_frame": "{person}有{site}器。"}, "same slots"),
        ({"id": "02"}, "two paradigms"),
        ({"across_edge": [1]}, "strings"),
        ({"first_number": -1}, "'first_number'"),
        ({"traditional": ["信心機"]}, "two sites"),
    ):
        changed = copy.deepcopy(document("paradigms.json"))
        changed["paradigms"][0] |= change
        with pytest.raises(DataError, match=rf"^[^\n]*paradigms\.json[^\n]*{re.escape(message)}[^\n]*$"):
            parse_builtin(changed)
    others: list[Any] = [[], {"version": 2}, {"version": 1, "paradigms": []}]
    for other in others:
        with pytest.raises(DataError, match=r"paradigms\.json"):
            parse_builtin(other)
    changed = copy.deepcopy(document("slot_words.json"))
    for entries in (None, [], ["学生", "学生"], ["学 生"], "学生"):
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


def _across(sentence: str, start: int) -> set[str]:
    """Return the words of the dictionary that cross an edge of the site."""
    places = (
        (e, a, b) for e in (start, start + 3) for a in range(max(0, e - 6), e) for b in range(e + 1, e + 7)
    )
    return {sentence[a:b] for _, a, b in places if b <= len(sentence)} & jieba_words()


def templates() -> dict[str, Any]:
    """Return sixty pairs in the published form; the odd ones from 18 on are not part of the benchmark."""
    tests, controls = ["human买甲乙丙丁的ob。"] * 60, ["human买戊乙己丁的ob。"] * 60
    return {"amb_templates": tests, "nonamb_templates": controls}


#: the site 甲乙丙 after a slot that counts as two characters and one character of text; left, then right
LOCATIONS = [[4, 7, 0]] * 30 + [[4, 7, 1]] * 30


def test_places_count_slots_as_two(tmp_path: Path) -> None:
    """A location counts from 1, a slot counts as two characters, the end is exclusive, and branch 0 is left.

    The items of a folder with these files have the project's slot words.
    """
    parsed = parse_published(templates(), LOCATIONS)
    assert len(parsed) == 39
    first, last = parsed[0], parsed[-1]
    assert (first.site, first.control_site, first.branching) == ("甲乙丙", "戊乙己", "left")
    assert (last.id, last.branching) == ("39", "right")
    assert first.slots == ("human", "ob")
    assert first.test_parts == (Slot("human"), "买甲乙丙丁的", Slot("ob"), "。")
    assert Counter(p.sentiment for p in parsed) == {"+/-": 9, "-/+": 9, "-/0": 11, "+/0": 10}
    (tmp_path / "eras").mkdir()
    for name, content in (("templates", templates()), ("key_word_locations", LOCATIONS)):
        (tmp_path / "eras" / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    items = loaded(find_benchmark("eras"), DataFolder(tmp_path, "published")).items
    assert {item.source for item in items} == {"published-templates"}
    assert (len(items), items[0].id) == (3900, "eras/explicit/p01/00000")


def test_difference_next_to_the_site_is_allowed() -> None:
    """Pair 52 also differs in the character after its site; such paradigms survive to_json, as the built-in ones do."""
    data = templates()
    data["nonamb_templates"][0] = "human买戊乙丙己的ob。"
    parsed = parse_published(data, LOCATIONS)
    assert (parsed[0].control_site, parsed[0].control_parts[1]) == ("戊乙丙", "买戊乙丙己的")
    assert parse_builtin(to_json(parsed)) == parsed
    assert parse_builtin(json.loads(json.dumps(to_json(paradigms())))) == paradigms()


def test_broken_files_are_one_line() -> None:
    """Each fault is a one-line error that names the file and the pair."""
    for key, number, value, message in (
        ("nonamb_templates", None, ["x"] * 59, "list of 60"),
        ("amb_templates", 0, "animal买甲乙丙丁的ob。", "'animal'"),
        ("amb_templates", 0, "human买甲乙丙丁的ob!", "not a slot"),
        ("amb_templates", 0, "一二买甲乙丙丁的。", "one or more"),
        ("nonamb_templates", 0, "human买戊乙己丁的en。", "same slots"),
        ("locations", None, None, "list of 60"),
        ("locations", 0, [4, 7], "is not [start"),
        ("locations", 0, [4, 8, 0], "is not [start"),
        ("locations", 0, [2, 5, 0], "overlap a slot"),
    ):
        files: dict[str, Any] = copy.deepcopy(templates() | {"locations": LOCATIONS})
        if number is None:
            files[key] = value
        else:
            files[key][number] = value
        with pytest.raises(DataError, match=re.escape(message)) as caught:
            parse_published(files, files.pop("locations"))
        assert "\n" not in str(caught.value)
        assert ".json" in str(caught.value)


@pytest.fixture(scope="module")
def authors(published: Path) -> tuple[Paradigm, ...]:
    """Return the authors' paradigms."""
    files = (published / "eras" / f"{name}.json" for name in ("templates", "key_word_locations"))
    return parse_published(*(json.loads(file.read_text()) for file in files))


def test_builtin_sites_are_the_published_ones(authors: tuple[Paradigm, ...]) -> None:
    """Built-in frames have the published sites and branchings; the control site of 34 fits the published frame only."""
    facts, own = (
        [(p.id, p.site, p.control_site, p.branching, p.sentiment) for p in some if p.id != "34"]
        for some in (authors, paradigms())
    )
    assert facts == own
    theirs, ours = (
        {"".join(x if isinstance(x, str) else "_" for x in p.test_parts) for p in some}
        for some in (authors, paradigms())
    )
    assert not theirs & ours


def test_published_templates_fill(authors: tuple[Paradigm, ...]) -> None:
    """Every published template accepts the project's words for its slots; all slots except `one` count as two.

    Test and control sentence differ in the site, and otherwise only in a character beside it (pair 52).
    """
    lists = parse_slot_words(document("slot_words.json"), authors, "published")
    assert {len(word) for name, parsed in lists.items() if name != "one" for word in parsed} == {2}
    for paradigm in authors:
        pairs = list(fill_seeded(paradigm, lists, pairs=100, seed=0))
        assert len(pairs) == 100
        assert {pair.test[pair.site_start : pair.site_start + 3] for pair in pairs} == {paradigm.site}
        test, control, start = pairs[0].test, pairs[0].control, pairs[0].site_start
        places = {place - start for place, (a, b) in enumerate(zip(test, control, strict=True)) if a != b}
        assert places <= {-1, 0, 1, 2, 3}
        assert places & {0, 1, 2}
