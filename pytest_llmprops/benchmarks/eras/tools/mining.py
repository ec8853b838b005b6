"""Mining sites for new ERAS paradigms from jieba's dictionary and a user's sentiment lexicon (section 2.3).

A lexicon has ANTUSD's format: one word a line with seven comma-separated fields - word, score from -1 to 1,
then how many annotators chose positive, neutral, negative, "non-sentiment", "not a word". A header line
``word,score,pos,neu,neg,non,not`` may come first. ANTUSD itself is in traditional characters.
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
_FORMAT = "a line is WORD,SCORE,POS,NEU,NEG,NON,NOT"


def read_lexicon(path: Path) -> list[LexiconWord]:
    """The words of a lexicon in ANTUSD's format, UTF-8.

    :raises DataError: naming the line, for another number of fields, a score outside -1 to 1, a count that
        is no whole number, or a word that stands twice.
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
        raise DataError(f"{where}: the score {score_text!r} is no number; {_FORMAT}") from None
    if not -1 <= score <= 1:
        raise DataError(f"{where}: the score {score_text} is outside -1 to 1; {_FORMAT}")
    for text in count_texts:
        if not (text.isascii() and text.isdecimal()):
            raise DataError(f"{where}: the count {text!r} is no whole number; {_FORMAT}")
    return LexiconWord(word, score, *map(int, count_texts))


def mine_lexicon(path: Path, *, traditional: bool = False) -> list[Candidate]:
    """Candidates from a lexicon and jieba's dictionary, best first, without the sites of the 39 paradigms.

    :param traditional: the lexicon's words are in traditional characters; where two become one simplified
        word, that word is left out unless they agree in every number.
    :raises DataError: as :func:`read_lexicon`. :raises MissingExtra: jieba or OpenCC is not installed.
    """
    entries = read_lexicon(path)
    if traditional:
        from pytest_llmprops.benchmarks.eras.tools.traditional import load_simplifier

        entries = _simplified(entries, load_simplifier())
    known = {p.site for p in parse_builtin(DataFolder(builtin_data(), "builtin").json("eras/paradigms.json"))}
    return mine(dictionary(), entries, known=known)


def _simplified(entries: list[LexiconWord], simplify: Callable[[str], str]) -> list[LexiconWord]:
    found: dict[str, set[LexiconWord]] = {}
    for entry in entries:
        numbers = (entry.score, entry.positive, entry.neutral, entry.negative)
        word = simplify(entry.word)
        found.setdefault(word, set()).add(LexiconWord(word, *numbers, entry.non_sentiment, entry.not_word))
    return [next(iter(same)) for same in found.values() if len(same) == 1]


def dictionary() -> Mapping[str, int]:
    """Word -> frequency of jieba's dictionary.

    :raises MissingExtra: jieba is not installed.
    """
    try:
        with warnings.catch_warnings():
            # jieba compiles with invalid escapes and imports pkg_resources: not the user's to mend.
            warnings.simplefilter("ignore")
            jieba: Any = import_module("jieba")
    except ImportError:
        raise MissingExtra("mining ERAS paradigms", package="jieba", extra="zh") from None
    jieba.setLogLevel("ERROR")
    # One's own tokenizer: words that a program added to jieba's global one are no dictionary words.
    tokenizer = jieba.Tokenizer()
    tokenizer.initialize()
    return {word: frequency for word, frequency in tokenizer.FREQ.items() if frequency}


def table(candidates: list[Candidate], *, top: int) -> str:
    """Tab-separated lines under a header, the first ``top`` candidates."""
    lines = ["site\tbranching\ttrue\tcanary\tsentiment\trarer\tcommoner"]
    lines += [
        f"{c.site}\t{c.branching}\t{c.true_word}\t{c.canary_word}\t{c.sentiment}\t{c.rarer}\t{c.commoner}"
        for c in candidates[:top]
    ]
    return "\n".join(lines)
