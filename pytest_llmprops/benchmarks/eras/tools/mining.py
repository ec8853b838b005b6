"""Mine sites for new ERAS paradigms from jieba's dictionary and a user's sentiment lexicon (section 2.3).

A lexicon has ANTUSD's format: one word per line with seven comma-separated fields. These are the word, a score
from -1 to 1, and the numbers of annotators who chose positive, neutral, negative, "non-sentiment" and "not a
word". The first line may be the header ``word,score,pos,neu,neg,non,not``. ANTUSD itself uses traditional
characters.
"""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.eras.paradigms import parse_builtin
from pytest_llmprops.benchmarks.eras.tools.candidates import Candidate, LexiconWord, mine
from pytest_llmprops.core.errors import DataError, MissingExtra
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.location import builtin_data

COLUMNS = ("word", "score", "pos", "neu", "neg", "non", "not")
_FORMAT = "every line must be WORD,SCORE,POS,NEU,NEG,NON,NOT"


def read_lexicon(path: Path) -> list[LexiconWord]:
    """Read the words of a UTF-8 lexicon in ANTUSD's format.

    :raises DataError: naming the line, for a wrong number of fields, a score outside -1 to 1, a count that
        is not an integer, or a repeated word.
    """
    text = DataFolder(path.parent, "user").text(path.name)
    entries: list[LexiconWord] = []
    lines: dict[str, int] = {}
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for fields in reader:
            line = reader.line_num
            if not fields or (line == 1 and tuple(f.strip().lower() for f in fields) == COLUMNS):
                continue
            entry = _entry(fields, f"{path}: line {line}")
            if entry.word in lines:
                raise DataError(
                    f"{path}: line {line} repeats {entry.word!r} of line {lines[entry.word]}; remove one"
                )
            lines[entry.word] = line
            entries.append(entry)
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: {error}; {_FORMAT}") from None
    if not entries:
        raise DataError(f"{path}: no words; {_FORMAT}")
    return entries


def _entry(fields: list[str], where: str) -> LexiconWord:
    if len(fields) != len(COLUMNS):
        raise DataError(f"{where} has {len(fields)} fields instead of {len(COLUMNS)}; {_FORMAT}")
    word, score_text, *count_texts = (field.strip() for field in fields)
    if not word:
        raise DataError(f"{where} has no word; {_FORMAT}")
    try:
        score = float(score_text)
    except ValueError:
        raise DataError(f"{where}: the score {score_text!r} is not a number; {_FORMAT}") from None
    if not -1 <= score <= 1:
        raise DataError(f"{where}: the score {score_text} is outside -1 to 1; {_FORMAT}")
    for text in count_texts:
        if not (text.isascii() and text.isdecimal()):
            raise DataError(f"{where}: the count {text!r} is not an integer; {_FORMAT}")
    return LexiconWord(word, score, *map(int, count_texts))


def mine_lexicon(path: Path, *, traditional: bool = False) -> list[Candidate]:
    """Return candidates from a lexicon and jieba's dictionary, best first, without the sites of the 39 paradigms.

    :param traditional: The lexicon uses traditional characters. If two words have the same simplified form,
        it is used only if they have the same numbers.
    :raises DataError: like :func:`read_lexicon`.
    :raises MissingExtra: if jieba or OpenCC is not installed.
    """
    entries = read_lexicon(path)
    if traditional:
        from pytest_llmprops.benchmarks.eras.tools.traditional import load_simplifier

        entries = _simplified(entries, load_simplifier())
    known = {p.site for p in parse_builtin(DataFolder(builtin_data(), "builtin").json("eras/paradigms.json"))}
    return mine(dictionary(), entries, known=known)


def _simplified(entries: list[LexiconWord], simplify: Callable[[str], str]) -> list[LexiconWord]:
    variants: dict[str, set[LexiconWord]] = {}
    for entry in entries:
        numbers = (entry.score, entry.positive, entry.neutral, entry.negative)
        word = simplify(entry.word)
        variants.setdefault(word, set()).add(LexiconWord(word, *numbers, entry.non_sentiment, entry.not_word))
    return [next(iter(words)) for words in variants.values() if len(words) == 1]


def dictionary() -> Mapping[str, int]:
    """Return word -> frequency from jieba's dictionary.

    :raises MissingExtra: if jieba is not installed.
    """
    try:
        with warnings.catch_warnings():
            # jieba has invalid escapes and imports pkg_resources; users cannot fix these warnings.
            warnings.simplefilter("ignore")
            jieba: Any = import_module("jieba")
    except ImportError:
        raise MissingExtra("mining ERAS paradigms", package="jieba", extra="zh") from None
    jieba.setLogLevel("ERROR")
    # Use a separate tokenizer, because a program may have added words to jieba's global one.
    tokenizer = jieba.Tokenizer()
    tokenizer.initialize()
    return {word: frequency for word, frequency in tokenizer.FREQ.items() if frequency}


def table(candidates: list[Candidate], *, top: int) -> str:
    """Return the first ``top`` candidates as tab-separated lines with a header."""
    lines = ["site\tbranching\ttrue\tcanary\tsentiment\trarer\tcommoner"]
    lines += [
        f"{c.site}\t{c.branching}\t{c.true_word}\t{c.canary_word}\t{c.sentiment}\t{c.rarer}\t{c.commoner}"
        for c in candidates[:top]
    ]
    return "\n".join(lines)
