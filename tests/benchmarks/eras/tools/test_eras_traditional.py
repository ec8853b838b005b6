"""Traditional characters: every site keeps three, test and control stay alike around it."""

from __future__ import annotations

import sys
from functools import cache

import pytest

from pytest_llmprops.benchmarks.eras.filling import fill_seeded
from pytest_llmprops.benchmarks.eras.sentences import SentencePair
from pytest_llmprops.benchmarks.eras.tools import traditional
from pytest_llmprops.benchmarks.eras.tools.generation import load_templates
from pytest_llmprops.benchmarks.eras.tools.traditional import (
    CONVERTERS,
    convert_pair,
    convert_sentence,
    load_converter,
)
from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError

pytest.importorskip("chinese_converter")
pytest.importorskip("opencc")


@cache
def pairs() -> tuple[SentencePair, ...]:
    """Sixty pairs of each of the 39 paradigms."""
    paradigms, words = load_templates()
    return tuple(p for one in paradigms for p in fill_seeded(one, words, pairs=60, seed=7))


@pytest.mark.parametrize("name", CONVERTERS)
def test_every_site_keeps_three_characters(name: str) -> None:
    """In context, all 39 test and control sites are three characters at the same place."""
    for pair in pairs():
        made = convert_pair(pair, name)
        for before, after in ((pair.test, made.test), (pair.control, made.control)):
            assert len(before) == len(after)
        end = pair.site_start + 3
        assert made.site_start == pair.site_start
        assert made.test[pair.site_start : end] == made.paradigm.site
        assert made.control[pair.site_start : end] == made.paradigm.control_site
        assert len(made.paradigm.site) == len(made.paradigm.control_site) == 3
        assert made.test.count(made.paradigm.site) == 1
        assert [len(word) for word in made.words] == [len(word) for word in pair.words]
        assert all(word in made.test for word in made.words)


def test_opencc_gives_test_and_control_one_context() -> None:
    """With OpenCC a pair differs nowhere but in the site, and a site looks the same in all its sentences."""
    sites = set()
    for pair in pairs():
        made = convert_pair(pair, "opencc")
        start, end = pair.site_start, pair.site_start + 3
        assert made.test[:start] + made.test[end:] == made.control[:start] + made.control[end:]
        sites.add((pair.paradigm.id, made.paradigm.site, made.paradigm.control_site))
    assert len(sites) == 39


def test_the_site_is_converted_apart() -> None:
    """OpenCC alone finds 道冲 across the site's edge in 赛道冲刺针 and writes another character."""
    text = "选手在赛道冲刺针对强敌调整步伐。"
    assert "道沖刺" in load_converter("opencc")(text)
    assert convert_sentence(text, text.index("冲"), "opencc") == "選手在賽道衝刺針對強敵調整步伐。"


def test_a_change_of_length_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A converter that adds a character is refused, even when another is dropped elsewhere."""
    monkeypatch.setattr(
        traditional, "load_converter", lambda name: {"甲": "一二", "乙丙丁": "三四", "": ""}.__getitem__
    )
    with pytest.raises(DataError, match="number of characters"):
        convert_sentence("甲乙丙丁", 1, "opencc")


def test_unknown_and_missing_converters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phrase configurations cannot be named; a package that is not installed is asked for."""
    with pytest.raises(UsageError, match="chinese-converter or opencc"):
        load_converter("s2twp")
    load_converter.cache_clear()
    monkeypatch.setitem(sys.modules, "opencc", None)
    monkeypatch.setitem(sys.modules, "chinese_converter", None)
    for name in CONVERTERS:
        with pytest.raises(MissingExtra, match=r"pytest-llmprops\[zh\]"):
            load_converter(name)
    load_converter.cache_clear()
