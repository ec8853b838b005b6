"""Convert simplified to traditional characters, one for one (ERAS, section 2.3).

The converter is the paper's, ``chinese-converter``, which chooses among a character's forms by its neighbours. It
converts the authors' templates as the authors did it.

The sites of the built-in paradigms are written by hand, because a converter cannot know which word a site has: 冲 is
衝 (charge) in 13 and 沖 (rinse) in 14. Around such a site, the words that the converter gets wrong are corrected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

from pytest_llmprops.core.errors import DataError, MissingExtra

SITE = 3
#: Words that the converter gets wrong, alone or next to other words, and their traditional form. A later word
#: overrides a shorter one before it.
CORRECTIONS = {
    "只": "只", "姑娘": "姑娘", "电缆": "電纜", "学历": "學歷", "历来": "歷來", "王后": "王后", "后人": "後人",
    "邻里": "鄰里", "干活": "幹活", "复赛": "複賽", "制图": "製圖", "采访": "採訪", "采石": "採石", "酒坛": "酒罈",
    "松动": "鬆動", "回复": "回覆", "反复": "反覆", "吃惊": "吃驚", "秋千": "鞦韆",
    "回旋转": "回旋轉", "回转动": "回轉動", "船只": "船隻",
}  # fmt: skip


@lru_cache(maxsize=1)
def load_converter() -> Callable[[str], str]:
    """Return the converter: simplified text -> traditional text.

    :raises MissingExtra: if it is not installed.
    """
    try:
        module = import_module("chinese_converter")
    except ImportError:
        raise MissingExtra("converting Chinese characters", package="chinese-converter", extra="zh") from None
    convert: Callable[[str], str] = module.to_traditional
    return convert


def convert_sentence(text: str, site_start: int, site: str = "") -> str:
    """Return ``text`` in traditional characters. The number of characters stays, and so does ``site_start``.

    :param site_start: 0-based index of the site.
    :param site: The site in traditional characters, if it is known; then :data:`CORRECTIONS` apply to the rest.
    :raises DataError: if the number of characters changes, in the site or in the rest.
    """
    end = site_start + SITE
    pieces = [text[:site_start], text[site_start:end], text[end:]] if site else [text]
    converted = list(map(load_converter(), pieces))
    if list(map(len, converted)) != list(map(len, pieces)):
        raise DataError(
            f"chinese-converter turns {text[:40]!r} into {''.join(converted)[:40]!r}: the number of characters changes;"
            " use simplified characters"
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
