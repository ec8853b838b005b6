"""Decoding of files that must be UTF-8."""

from __future__ import annotations

import re

from pytest_llmprops.core.errors import DataError

_BOM = b"\xef\xbb\xbf"
_HIGH = re.compile(rb"[\x80-\xfe]+")


def utf8(raw: bytes, name: str) -> str:
    """Return the text of a file's bytes, without a byte-order mark.

    :param name: the file, for the message.
    :raises DataError: if the bytes are not UTF-8; the message names the likely encoding.
    """
    start = len(_BOM) if raw.startswith(_BOM) else 0
    try:
        return raw[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        place = start + error.start
        raise DataError(
            f"{name}: not UTF-8: byte 0x{raw[place]:02x} at offset {place}; save it as UTF-8{_hint(raw)}"
        ) from None


def _hint(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return " (it starts like UTF-16)"
    # In Chinese text nearly every character has two bytes above 0x7f. Accented letters are single ones between ASCII
    # letters, which GBK would read as second bytes.
    runs = [len(run) for run in _HIGH.findall(raw)]
    if runs and 2 * runs.count(1) >= len(runs):
        return " (it looks like Latin-1: `iconv -f WINDOWS-1252 -t UTF-8`)"
    try:
        raw.decode("gbk")
    except UnicodeDecodeError:
        return ""
    return " (it decodes as GBK: `iconv -f GBK -t UTF-8`)"
