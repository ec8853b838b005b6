"""``maxmatch:WORDS.txt``: greedy longest match from left to right over a list of words.

At each position the longest word of the list that starts there is taken, or one character if no word starts there
(Chang et al. 2008; the baseline of ERAS). The list is UTF-8 text; words are separated by whitespace. It may have one
word per line, or be a segmented training file of the SIGHAN bakeoffs.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.texts import utf8
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.segmenters.base import Cut, WordSegmenter
from pytest_llmprops.models.spec import ModelSpec, file_sha256


def read_words(file: Path) -> frozenset[str]:
    """Read the words of a list.

    :raises DataError: if the file is not UTF-8 or has no words.
    """
    words = frozenset(utf8(file.read_bytes(), str(file)).split())
    if not words:
        raise DataError(
            f"{file}: the word list is empty; write one word per line, or words separated by spaces"
        )
    return words


def longest_match(words: Collection[str]) -> Cut:
    """Return the function that cuts a text into the longest words of ``words``, from left to right."""
    known = frozenset(words)
    # First two characters of words -> the lengths of these words, longest first. Only these lengths are tried.
    lengths: dict[str, set[int]] = {}
    for word in known:
        if len(word) > 1:
            lengths.setdefault(word[:2], set()).add(len(word))
    tries = {start: tuple(sorted(sizes, reverse=True)) for start, sizes in lengths.items()}

    def cut(text: str) -> list[str]:
        result: list[str] = []
        place, end = 0, len(text)
        while place < end:
            word = text[place]
            for length in tries.get(text[place : place + 2], ()):
                candidate = text[place : place + length]
                if candidate in known:
                    word = candidate
                    break
            result.append(word)
            place += len(word)
        return result

    return cut


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only()
    file = Path(spec.name).expanduser()
    if not file.is_file():
        raise UsageError(f"--model {spec.text}: no such file: {file}; give a word list: maxmatch:WORDS.txt")
    try:
        words = read_words(file)
    except DataError as error:
        raise UsageError(f"--model {spec.text}: {error}") from None
    return lambda: WordSegmenter(
        lambda: longest_match(words),
        name=spec.label,
        identity={"backend": "maxmatch", "words_sha256": file_sha256(file)},
    )


BACKEND = Backend(_check, always("segment"), in_worker=True, example="maxmatch:WORDS.txt")
