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
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.eras.paradigms import Branching, parse_builtin
from pytest_llmprops.core.errors import DataError, MissingExtra
from pytest_llmprops.data.files import DataFolder, builtin_data

#: A word is + from this score upwards, and - below the negative of this score.
STRONG = 0.4
#: Minimum number of "non-sentiment" marks of a word with label 0.
NON_SENTIMENT = 2


@dataclass(frozen=True, slots=True)
class LexiconWord:
    """A word of a sentiment lexicon in ANTUSD's format.

    :param score: From -1 (negative) to 1 (positive). :param positive: Number of annotators who chose positive;
        likewise ``neutral`` and ``negative``. :param non_sentiment: Annotators who marked it "non-sentiment".
    :param not_word: Annotators who marked it "not a word".
    """

    word: str
    score: float
    positive: int
    neutral: int
    negative: int
    non_sentiment: int
    not_word: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible test site: one reading of two overlapping words.

    :param rarer: Dictionary frequency of the rarer word. :param commoner: Frequency of the other word.
    """

    site: str
    branching: Branching
    true_word: str
    canary_word: str
    sentiment: str
    rarer: int
    commoner: int


def label(entry: LexiconWord) -> str | None:
    """Return ``+``, ``-``, ``0``, or None for a word without a clear label (section 2.3, "Sentiment Labeling").

    ``0`` requires score 0, more neutral votes than positive and negative votes together, and two
    "non-sentiment" marks, which do not count as votes.
    """
    if entry.score >= STRONG and entry.positive > entry.negative:
        return "+"
    if entry.score < -STRONG and entry.negative > entry.positive:
        return "-"
    neutral = entry.neutral > entry.positive + entry.negative
    if entry.score == 0 and neutral and entry.non_sentiment >= NON_SENTIMENT:
        return "0"
    return None


def mine(
    frequencies: Mapping[str, int], lexicon: Iterable[LexiconWord], *, known: Iterable[str] = ()
) -> list[Candidate]:
    """Return all sites x1x2x3 whose two words are in the dictionary and have different labels; best first.

    A pair of words gives one candidate per branching in which the true word is + or -. A garden path needs two
    familiar words, so candidates are sorted by the frequency of the rarer word, then of the other word, then
    by the site.

    :param frequencies: Dictionary word -> frequency; 0 or less means that it is not a word.
    :param known: Sites to exclude.
    """
    labels: dict[str, str] = {}
    for entry in lexicon:
        sentiment = label(entry)
        if len(entry.word) == 2 and sentiment is not None and frequencies.get(entry.word, 0) > 0:
            labels[entry.word] = sentiment
    by_first: dict[str, list[str]] = defaultdict(list)
    for word in labels:
        by_first[word[0]].append(word)
    excluded = set(known)
    candidates = []
    for first in labels:
        for second in by_first[first[1]]:
            site = first + second[1]
            if labels[first] == labels[second] or site in excluded:
                continue
            rarer, commoner = sorted((frequencies[first], frequencies[second]))
            readings: tuple[tuple[Branching, str, str], ...] = (
                ("left", first, second),
                ("right", second, first),
            )
            candidates += [
                Candidate(site, branching, true, canary, f"{labels[true]}/{labels[canary]}", rarer, commoner)
                for branching, true, canary in readings
                if labels[true] != "0"
            ]
    return sorted(candidates, key=lambda c: (-c.rarer, -c.commoner, c.site, c.branching))


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
