"""Conversion to traditional characters keeps sites at three characters, and the context of each pair the same."""

from __future__ import annotations

import sys

import pytest

from pytest_llmprops.benchmarks.eras.items import fill_seeded
from pytest_llmprops.benchmarks.eras.tools import traditional
from pytest_llmprops.benchmarks.eras.tools.generation import load_templates
from pytest_llmprops.benchmarks.eras.tools.traditional import convert_sentence, load_converter
from pytest_llmprops.core.errors import DataError, MissingExtra
from pytest_llmprops.data.files import builtin_data

pytest.importorskip("chinese_converter")


#: What converters write for 姑娘, 学历, 历来, 王后, 后人, 邻里, 电缆, 干活, 采访, 采石, 制图, 复赛, 松动, 酒坛, 只 …
WRONG = "姑孃 學曆 曆來 王後 后人 鄰裡 鄰裏 電缆 干活 采訪 采石 制圖 復賽 松動 酒壇 隻 來迴 喫".split()  # noqa: SIM905


def test_no_known_wrong_character_is_left() -> None:
    """No sentence has a form that is known to be wrong, and no character changes with the words around it.

    All 39 test and control sites remain three characters that occur once.
    """
    paradigms, words = load_templates()
    alone = {
        word: traditional.corrected(word, load_converter()(word))
        for one in paradigms
        for slot in one.slots
        for word in words[slot]
    }
    for pair in (pair for one in paradigms for pair in fill_seeded(one, words, pairs=200, seed=5)):
        start, sides = pair.site_start, (pair.test, pair.control)
        sites = pair.paradigm.traditional or ("", "")
        converted = [convert_sentence(side, start, site) for side, site in zip(sides, sites, strict=True)]
        assert [text[start : start + 3] for text in converted] == list(sites) != list(sites)[::-1]
        for sentence, site, parts in zip(
            converted, sites, (pair.paradigm.test_parts, pair.paradigm.control_parts), strict=True
        ):
            assert sentence.count(site) == 1
            assert [wrong for wrong in WRONG if wrong in sentence] == [], sentence
            chosen, place = iter(pair.words), 0
            for part in parts:
                length = len(part) if isinstance(part, str) else len(word := next(chosen))
                if not isinstance(part, str):
                    assert sentence[place : place + length] == alone[word], sentence
                place += length
            assert len(sentence) == place


def test_sites_are_the_same_in_both_scripts() -> None:
    """Every site has a hand-written traditional form that is the same in simplified characters."""
    paradigms, words = load_templates()
    simplify = pytest.importorskip("chinese_converter").to_simplified
    for one in paradigms:
        assert tuple(map(simplify, one.traditional)) == (one.site, one.control_site), one.id
    sites = {one.id: one.traditional for one in paradigms}
    # To charge is 衝, to rinse is 沖.
    assert (sites["13"], sites["14"]) == (("衝刺針", "衝鋒針"), ("沖刺針", "沖利針"))
    texts = [
        part for one in paradigms for part in (*one.test_parts, *one.control_parts) if isinstance(part, str)
    ]
    texts += [word for group in words.values() for word in group]
    traditional_only = set(
        (builtin_data() / "homophones" / "traditional.txt").read_text("utf-8").split()[0][::2]
    )
    assert [text for text in texts if traditional_only & set(text)] == [], (
        "the data is in simplified characters"
    )


def test_a_change_of_length_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A converter that adds a character is an error, even if it drops another one elsewhere."""
    changes = {"甲": "一二", "乙丙丁": "三四", "": ""}
    monkeypatch.setattr(traditional, "load_converter", lambda: changes.__getitem__)
    with pytest.raises(DataError, match="number of characters"):
        convert_sentence("甲乙丙丁", 1, "乙丙丁")


def test_missing_converter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a missing package names the extra to install."""
    load_converter.cache_clear()
    monkeypatch.setitem(sys.modules, "chinese_converter", None)
    with pytest.raises(MissingExtra, match=r"pytest-llmprops\[zh\]"):
        load_converter()
    load_converter.cache_clear()
