"""Convert simplified to traditional characters, one for one (ERAS, section 2.3).

There are two converters: ``chinese-converter``, the paper's, which chooses among a character's forms by its
neighbours, and OpenCC's ``s2t``. ``s2t`` also knows phrases, so it falls for the garden path itself: in 道冲刺
it matches the Daoist 道冲 and writes 沖 instead of 衝. Therefore the text before the site, the site and the text
after it are converted separately. OpenCC's phrase configurations (``s2twp``) replace words and are not offered.

The sites of the built-in paradigms are written by hand, because a converter cannot know which word a site has: 冲 is
衝 (charge) in 13 and 沖 (rinse) in 14. Around such a site, the words that a converter gets wrong are corrected. The
authors' templates are converted as the authors did it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError

CONVERTERS = ("chinese-converter", "opencc")
SITE = 3
#: Words that at least one converter gets wrong, alone or next to other words, and their traditional form. A later word
#: overrides a shorter one before it.
CORRECTIONS = {
    "只": "只", "姑娘": "姑娘", "电缆": "電纜", "学历": "學歷", "历来": "歷來", "王后": "王后", "后人": "後人",
    "邻里": "鄰里", "干活": "幹活", "复赛": "複賽", "制图": "製圖", "采访": "採訪", "采石": "採石", "酒坛": "酒罈",
    "松动": "鬆動", "回复": "回覆", "反复": "反覆", "吃惊": "吃驚", "秋千": "鞦韆",
    "回旋转": "回旋轉", "回转动": "回轉動", "船只": "船隻",
}  # fmt: skip


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
        simplified_to_traditional: Callable[[str], str] = _import("opencc", "opencc").OpenCC("s2t").convert
        return simplified_to_traditional
    raise UsageError(f"unknown converter {name!r} to traditional characters: use {' or '.join(CONVERTERS)}")


def convert_sentence(text: str, site_start: int, name: str, site: str = "") -> str:
    """Return ``text`` in traditional characters. The number of characters stays, and so does ``site_start``.

    :param site_start: 0-based index of the site. :param name: One of :data:`CONVERTERS`.
    :param site: The site in traditional characters, if it is known; then :data:`CORRECTIONS` apply to the rest.
    :raises DataError: if the number of characters changes, in the site or in the rest.
    """
    convert = load_converter(name)
    end = site_start + SITE
    if name == "chinese-converter" and not site:
        pieces = [text]
    else:
        pieces = [text[:site_start], text[site_start:end], text[end:]]
    converted = [convert(piece) for piece in pieces]
    if [len(piece) for piece in converted] != [len(piece) for piece in pieces]:
        raise DataError(
            f"{name} turns {text[:40]!r} into {''.join(converted)[:40]!r}: the number of characters changes;"
            " choose the other converter"
        )
    if site:
        converted = [corrected(pieces[0], converted[0]), site, corrected(pieces[2], converted[2])]
    return "".join(converted)


def corrected(text: str, converted: str) -> str:
    """Return ``converted`` with the traditional form of every word of :data:`CORRECTIONS` in ``text``."""
    for word, traditional in CORRECTIONS.items():
        start = text.find(word)
        while start >= 0:
            end = start + len(word)
            converted = converted[:start] + traditional + converted[end:]
            start = text.find(word, end)
    return converted


def _import(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra("converting Chinese characters", package=package, extra="zh") from None
