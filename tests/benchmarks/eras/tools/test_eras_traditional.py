"""Conversion to traditional characters keeps sites at three characters, and the context of each pair the same."""

from __future__ import annotations

import sys
from functools import cache

import pytest

from pytest_llmprops.benchmarks.eras.sentences import SentencePair, fill_seeded
from pytest_llmprops.benchmarks.eras.tools import traditional
from pytest_llmprops.benchmarks.eras.tools.generation import load_templates
from pytest_llmprops.benchmarks.eras.tools.traditional import CONVERTERS, convert_sentence, load_converter
from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError

pytest.importorskip("chinese_converter")
pytest.importorskip("opencc")


@cache
def pairs() -> tuple[SentencePair, ...]:
    """Return sixty pairs of each of the 39 paradigms."""
    paradigms, words = load_templates()
    return tuple(p for one in paradigms for p in fill_seeded(one, words, pairs=60, seed=7))


def convert(pair: SentencePair, name: str) -> tuple[str, str]:
    """Return test and control sentence in traditional characters."""
    start = pair.site_start
    return convert_sentence(pair.test, start, name), convert_sentence(pair.control, start, name)


@pytest.mark.parametrize("name", CONVERTERS)
def test_every_site_keeps_three_characters(name: str) -> None:
    """All 39 test and control sites, converted in context, remain three characters that occur once."""
    for pair in pairs():
        test, control = convert(pair, name)
        assert (len(test), len(control)) == (len(pair.test), len(pair.control))
        start, end = pair.site_start, pair.site_start + 3
        assert test.count(test[start:end]) == 1
        assert control.count(control[start:end]) == 1
        assert test[start:end] != control[start:end]


def test_opencc_keeps_one_context_for_test_and_control() -> None:
    """With OpenCC the sentences of a pair differ only in the site, and a site is the same in all its sentences."""
    sites = set()
    for pair in pairs():
        test, control = convert(pair, "opencc")
        start, end = pair.site_start, pair.site_start + 3
        assert test[:start] + test[end:] == control[:start] + control[end:]
        sites.add((pair.paradigm.id, test[start:end], control[start:end]))
    assert len(sites) == 39


def test_site_is_converted_separately() -> None:
    """OpenCC would match 道冲 across the site's edge in 赛道冲刺针 and write another character."""
    text = "选手在赛道冲刺针对强敌调整步伐。"
    assert "道沖刺" in load_converter("opencc")(text)
    assert convert_sentence(text, text.index("冲"), "opencc") == "選手在賽道衝刺針對強敵調整步伐。"


def test_a_change_of_length_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A converter that adds a character is an error, even if it drops another one elsewhere."""
    monkeypatch.setattr(
        traditional, "load_converter", lambda name: {"甲": "一二", "乙丙丁": "三四", "": ""}.__getitem__
    )
    with pytest.raises(DataError, match="number of characters"):
        convert_sentence("甲乙丙丁", 1, "opencc")


def test_unknown_and_missing_converters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phrase configurations are refused, and the error for a missing package names the extra to install."""
    with pytest.raises(UsageError, match="chinese-converter or opencc"):
        load_converter("s2twp")
    load_converter.cache_clear()
    monkeypatch.setitem(sys.modules, "opencc", None)
    monkeypatch.setitem(sys.modules, "chinese_converter", None)
    for name in CONVERTERS:
        with pytest.raises(MissingExtra, match=r"pytest-llmprops\[zh\]"):
            load_converter(name)
    load_converter.cache_clear()
