"""Convert simplified to traditional characters, one for one (ERAS, section 2.3).

There are two converters: ``chinese-converter``, the paper's, which chooses among a character's forms by its
neighbours, and OpenCC's ``s2t``. ``s2t`` also knows phrases, so it falls for the garden path itself: in 道冲刺
it matches the Daoist 道冲 and writes 沖 instead of 衝. Therefore the text before the site, the site and the text
after it are converted separately. OpenCC's phrase configurations (``s2twp``) replace words and are not offered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError

CONVERTERS = ("chinese-converter", "opencc")
SITE = 3


@lru_cache(maxsize=4)
def load_converter(name: str) -> Callable[[str], str]:
    """Return the converter ``name``: simplified text -> traditional text.

    :raises UsageError: for a name not in :data:`CONVERTERS`.
    :raises MissingExtra: if the converter is not installed.
    """
    if name == "chinese-converter":
        module = _import("chinese_converter", "chinese-converter")
        convert: Callable[[str], str] = module.to_traditional
        return convert
    if name == "opencc":
        return _opencc("s2t")
    raise UsageError(f"unknown converter {name!r} to traditional characters: use {' or '.join(CONVERTERS)}")


@lru_cache(maxsize=1)
def load_simplifier() -> Callable[[str], str]:
    """Return OpenCC's converter ``t2s``: traditional text -> simplified text.

    :raises MissingExtra: if OpenCC is not installed.
    """
    return _opencc("t2s")


def convert_sentence(text: str, site_start: int, name: str) -> str:
    """Return ``text`` in traditional characters. The number of characters stays, and so does ``site_start``.

    :param site_start: 0-based index of the site. :param name: One of :data:`CONVERTERS`.
    :raises DataError: if the number of characters changes, in the site or in the rest.
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


def _opencc(configuration: str) -> Callable[[str], str]:
    convert: Callable[[str], str] = _import("opencc", "opencc").OpenCC(configuration).convert
    return convert


def _import(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra("converting Chinese characters", package=package, extra="zh") from None
