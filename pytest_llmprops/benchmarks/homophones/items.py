"""Items from the built-in, published and generated files, with their two controls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_llmprops.benchmarks.homophones.function_words import is_function_word
from pytest_llmprops.core.benchmark import DataFiles
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import CONTROL_MARK, Item

ASKED, CONTEXT_ONLY, WORD_ONLY = "asked", "context_only", "word_only"
#: what stands in the sentence where the word was
MASK = "____"
_ID_MARK = {"published": "p", "generated": "g"}


@dataclass(frozen=True, slots=True)
class Edition:
    """Where a language's items are: the built-in file, the published one, and the answer columns."""

    language: str
    builtin: str
    published: str
    answers: tuple[str, ...]


EDITIONS = (
    Edition("en", "english.csv", "testset_english.csv", ("answer",)),
    Edition("zh", "chinese.csv", "testset_chinese.csv", ("answer_chinese", "answer_english")),
    Edition("es", "spanish.csv", "testset_espanol.csv", ("answer_spanish", "answer_english")),
)


def masked(sentence: str, word: str) -> str | None:
    """The sentence with the word blanked out wherever it stands, ignoring case; None when it does not.

    28 English rows of the published file and one Spanish spell the word otherwise than the sentence does.
    """
    for pattern in (rf"(?<!\w){re.escape(word)}(?!\w)", re.escape(word)):
        blanked, places = re.subn(pattern, MASK, sentence, flags=re.IGNORECASE)
        if places:
            return blanked
    return None


def items(files: DataFiles) -> Iterator[Item]:
    """All languages whose file is there, each item followed by its controls.

    :raises DataError: when no file is there, or a row lacks its word or answer.
    """
    found = False
    for edition in EDITIONS:
        name = edition.builtin if files.source == "builtin" else edition.published
        if files.exists(f"homophones/{name}"):
            found = True
            yield from _edition(files, edition, f"homophones/{name}")
    if not found:
        # Names a missing file, and how to get it.
        first = EDITIONS[0]
        files.text(f"homophones/{first.builtin if files.source == 'builtin' else first.published}")


def _edition(files: DataFiles, edition: Edition, path: str) -> Iterator[Item]:
    rows = files.csv(path, required=("sentence", "word", edition.answers[0]))
    mark = _ID_MARK.get(files.source, "")
    for number, row in enumerate(rows, 1):
        sentence, word = row["sentence"].strip(), row["word"].strip()
        answers = tuple(a for column in edition.answers for a in _alternatives(row.get(column, "")))
        if not sentence or not word or not answers:
            raise DataError(
                f"{path}: row {number}: sentence, word and {edition.answers[0]} must not be empty"
            )
        name = f"homophones/{edition.language}/{mark}{row.get('id') or format(number, '04d')}"
        given = row.get("function_word")
        function_word = given == "1" if given else is_function_word(answers[0], edition.language)
        blank = masked(sentence, word)
        fields: Mapping[str, object] = {
            "sentence": sentence,
            "word": word,
            "answers": answers,
            "function_word": function_word,
            "masked": blank,
        }
        yield Item(name, ASKED, edition.language, files.source, fields=fields)
        if blank is not None:
            control = f"{name}{CONTROL_MARK}{CONTEXT_ONLY}"
            yield Item(control, CONTEXT_ONLY, edition.language, files.source, fields=fields)
        yield Item(
            f"{name}{CONTROL_MARK}{WORD_ONLY}", WORD_ONLY, edition.language, files.source, fields=fields
        )


def _alternatives(cell: str) -> list[str]:
    return [part.strip() for part in cell.split("/") if part.strip()]
