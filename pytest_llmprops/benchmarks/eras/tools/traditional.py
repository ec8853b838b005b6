"""Simplified to traditional characters, one for one (ERAS, section 2.3).

Two converters: ``chinese-converter``, the paper's, which chooses among a character's forms by its
neighbours; and OpenCC's ``s2t``. ``s2t`` knows phrases too, and in 道冲刺 it finds the Daoist 道冲 and writes
沖 for 衝: it cuts the garden path wrongly itself. The text before the site, the site and the text after it
are therefore converted apart. OpenCC's phrase configurations (``s2twp``) replace words and are not offered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any

from pytest_llmprops.benchmarks.eras.paradigms import Paradigm
from pytest_llmprops.benchmarks.eras.sentences import SentencePair
from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError

CONVERTERS = ("chinese-converter", "opencc")
SITE = 3


@lru_cache(maxsize=4)
def load_converter(name: str) -> Callable[[str], str]:
    """text -> traditional text, by the converter called ``name``.

    :raises UsageError: for a name that is not in :data:`CONVERTERS`. :raises MissingExtra: not installed.
    """
    if name == "chinese-converter":
        module = _import("chinese_converter", "chinese-converter")
        convert: Callable[[str], str] = module.to_traditional
        return convert
    if name == "opencc":
        return _opencc("s2t")
    raise UsageError(f"traditional characters by {name!r}: use {' or '.join(CONVERTERS)}")


@lru_cache(maxsize=1)
def load_simplifier() -> Callable[[str], str]:
    """text -> simplified text, by OpenCC's ``t2s``.

    :raises MissingExtra: OpenCC is not installed.
    """
    return _opencc("t2s")


def convert_sentence(text: str, site_start: int, name: str) -> str:
    """``text`` in traditional characters, as many as before, so that ``site_start`` stays.

    :param site_start: 0-based index of the site. :param name: one of :data:`CONVERTERS`.
    :raises DataError: when the number of characters changes, of the site or of the rest.
    """
    convert = load_converter(name)
    if name == "chinese-converter":
        pieces = [text]
    else:
        end = site_start + SITE
        pieces = [text[:site_start], text[site_start:end], text[end:]]
    converted = [convert(piece) for piece in pieces]
    if [len(piece) for piece in converted] != [len(piece) for piece in pieces]:
        raise DataError(
            f"{name} turns {text[:40]!r} into {''.join(converted)[:40]!r}: the number of characters changes;"
            " choose the other converter"
        )
    return "".join(converted)


def convert_pair(pair: SentencePair, name: str) -> SentencePair:
    """The pair in traditional characters: sentences, slot words and the paradigm's sites.

    :raises DataError: as :func:`convert_sentence`.
    """
    test = convert_sentence(pair.test, pair.site_start, name)
    control = convert_sentence(pair.control, pair.site_start, name)
    end = pair.site_start + SITE
    sites = test[pair.site_start : end], control[pair.site_start : end]
    words = []
    at = 0
    for part, word in _slots_with_text(pair):
        at += len(part)
        words.append(test[at : at + len(word)])
        at += len(word)
    return replace(
        pair,
        paradigm=_with_sites(pair.paradigm, *sites),
        words=tuple(words),
        test=test,
        control=control,
    )


def _slots_with_text(pair: SentencePair) -> list[tuple[str, str]]:
    """(text before it, word) of each slot."""
    found = []
    text = ""
    words = iter(pair.words)
    for part in pair.paradigm.test_parts:
        if isinstance(part, str):
            text += part
        else:
            found.append((text, next(words)))
            text = ""
    return found


@lru_cache(maxsize=1024)
def _with_sites(paradigm: Paradigm, site: str, control_site: str) -> Paradigm:
    """The paradigm with other sites; its frames stay in simplified characters."""
    return replace(paradigm, site=site, control_site=control_site)


def _opencc(configuration: str) -> Callable[[str], str]:
    convert: Callable[[str], str] = _import("opencc", "opencc").OpenCC(configuration).convert
    return convert


def _import(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra("converting Chinese characters", package=package, extra="zh") from None
