"""The sentences that new homophone items are generated from: those of this package, or the user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.files import DataFolder, builtin_data

SENTENCES = "homophones/sentences.csv"
"""Sentences that were written for the generator, with the word that their context determines, and its English
translations. None of them is a sentence of a built-in item, and no answer is the answer of one."""
_BUILTIN: Mapping[str, tuple[str, str]] = MappingProxyType({
    "en": ("homophones/english.csv", "answer"),
    "es": ("homophones/spanish.csv", "answer_spanish"),
    "zh": ("homophones/chinese.csv", "answer_chinese"),
})  # fmt: skip
_COLUMNS = "sentence<TAB>answer<TAB>English translations"

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Source:
    """A correct sentence to generate items from.

    :param answer: The word that its context determines. It is replaced first. Empty if nobody said which.
    :param english: English translations of the answer, separated by ``/``; empty for English sentences.
    """

    text: str
    answer: str = ""
    english: str = ""


def builtin_rows(lang: str) -> list[Row]:
    """Read the rows of the built-in set of a language."""
    path, answer = _BUILTIN[lang]
    folder = DataFolder(builtin_data(), "builtin")
    return folder.csv(path, required=("id", "sentence", "word", answer, "function_word"))


@cache
def builtin_pairs(lang: str) -> frozenset[tuple[str, str]]:
    """Return the (word, answer) pairs of the built-in items, which are not new."""
    answer = _BUILTIN[lang][1]
    return frozenset((row["word"].casefold(), row[answer].casefold()) for row in builtin_rows(lang))


@cache
def own_sources(lang: str) -> tuple[Source, ...]:
    """Return the sentences of this package in a language."""
    columns = ("language", "sentence", "answer", "answer_english")
    rows = DataFolder(builtin_data(), "builtin").csv(SENTENCES, columns)
    return tuple(
        Source(row["sentence"], row["answer"], row["answer_english"])
        for row in rows
        if row["language"] == lang
    )


@cache
def translations(lang: str) -> Mapping[str, str]:
    """Return Spanish or Chinese word -> its English translations, from the package's items and sentences."""
    answer = _BUILTIN[lang][1]
    known = {row[answer]: row["answer_english"] for row in builtin_rows(lang)}
    return MappingProxyType(known | {source.answer: source.english for source in own_sources(lang)})


def read_sentences(path: Path, lang: str) -> list[Source]:
    """Read the user's sentences from a UTF-8 file, one per line; blank lines are skipped.

    A line is a sentence, or ``sentence<TAB>answer``, or ``sentence<TAB>answer<TAB>English translations``.

    :raises DataError: if the file is missing, empty or not UTF-8.
    :raises UsageError: if a line has more columns, an answer that does not occur once in its sentence, or a Spanish or
        Chinese answer without a translation.
    """
    text = DataFolder(path.parent, "user").text(path.name)
    sources = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                sources.append(_source(line, lang))
            except ValueError as error:
                raise UsageError(f"{path}, line {number}: {error}") from None
    return sources


def _source(line: str, lang: str) -> Source:
    cells = [" ".join(cell.split()) for cell in line.split("\t")]
    if len(cells) > 3:
        raise ValueError(f"{len(cells)} columns; write {_COLUMNS}, or only the sentence")
    sentence, answer, english = [*cells, "", ""][:3]
    if lang == "zh" and not any("一" <= character <= "鿿" for character in sentence):
        raise ValueError(f"no Chinese character in {sentence[:40]!r}; give one Chinese sentence per line")
    if answer and sentence.casefold().count(answer.casefold()) != 1:
        raise ValueError(f"the answer {answer!r} must occur once in {sentence[:40]!r}")
    if answer and lang != "en" and not (english or translations(lang).get(answer)):
        raise ValueError(f"the answer {answer!r} has no English translation; write {_COLUMNS}")
    return Source(sentence, answer, english)
