"""Items from the built-in, published and generated files, with their two controls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_llmprops.benchmarks.homophones.function_words import FUNCTION_WORDS, WORD_CLASSES
from pytest_llmprops.core.benchmark import DataFiles
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import CONTROL_MARK, Item

ASKED, CONTEXT_ONLY, WORD_ONLY = "asked", "context_only", "word_only"
#: The blank that replaces the word in the sentence.
MASK = "____"
_ID_MARK = {"published": "p", "generated": "g"}


@dataclass(frozen=True, slots=True)
class Edition:
    """One language's built-in file, published file and answer columns."""

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
    """Return the sentence with every occurrence of the word blanked out, ignoring case; None if there is none.

    In 28 English rows and one Spanish row of the published files, the word is spelt differently in the sentence.
    """
    for pattern in (rf"(?<!\w){re.escape(word)}(?!\w)", re.escape(word)):
        blanked, places = re.subn(pattern, MASK, sentence, flags=re.IGNORECASE)
        if places:
            return blanked
    return None


def is_in(sentence: str, word: str) -> bool:
    """Return True if :func:`masked` finds the word, in most cases without a new regular expression."""
    lower = sentence.lower()
    return (word.lower() in lower and len(lower) == len(sentence)) or masked(sentence, word) is not None


def items(files: DataFiles) -> Iterator[Item]:
    """Yield the items of all languages whose file exists, each followed by its controls.

    :raises DataError: if no file exists, or a row has no word or answer.
    """
    is_any_file_there = False
    for edition in EDITIONS:
        name = edition.builtin if files.source == "builtin" else edition.published
        if files.exists(f"homophones/{name}"):
            is_any_file_there = True
            yield from _edition(files, edition, f"homophones/{name}")
    if not is_any_file_there:
        # Reading a missing file raises the error that says how to get it.
        first = EDITIONS[0]
        files.text(f"homophones/{first.builtin if files.source == 'builtin' else first.published}")


def _edition(files: DataFiles, edition: Edition, path: str) -> Iterator[Item]:
    rows = files.csv(path, required=("sentence", "word", edition.answers[0]))
    mark = _ID_MARK.get(files.source, "")
    for number, row in enumerate(rows, 1):
        sentence, word = row["sentence"].strip(), row["word"].strip()
        answers = tuple(a for column in edition.answers for a in alternatives(row.get(column, "")))
        if not sentence or not word or not answers:
            raise DataError(
                f"{path}: row {number}: sentence, word and {edition.answers[0]} must not be empty"
            )
        name = f"homophones/{edition.language}/{mark}{row.get('id') or format(number, '04d')}"
        label = row.get("function_word")
        function_word = label == "1" if label else answers[0].casefold() in FUNCTION_WORDS[edition.language]
        fields: Mapping[str, object] = {
            "sentence": sentence,
            "word": word,
            "answers": answers,
            "function_word": function_word,
            "dialect": row.get("dialect") or "",
        }
        yield Item(name, ASKED, edition.language, files.source, fields=fields)
        if is_in(sentence, word):
            control = f"{name}{CONTROL_MARK}{CONTEXT_ONLY}"
            yield Item(control, CONTEXT_ONLY, edition.language, files.source, fields=fields)
        yield Item(
            f"{name}{CONTROL_MARK}{WORD_ONLY}", WORD_ONLY, edition.language, files.source, fields=fields
        )


def alternatives(cell: str) -> list[str]:
    """Return the answers that a cell separates with slashes; each is a whole answer.

    ``soy milk/soymilk`` has the answers "soy milk" and "soymilk". ``she/he opened`` has "she opened" and "he opened",
    because a slash between two words of one class separates only these words.
    """
    answers: list[str] = []
    shared: list[str] = []
    for part in filter(None, (part.strip() for part in cell.split("/"))):
        first, _, rest = part.partition(" ")
        if not rest and any(part.casefold() in members for members in WORD_CLASSES):
            shared.append(part)
            continue
        for word in shared:
            is_alike = any({word.casefold(), first.casefold()} <= members for members in WORD_CLASSES)
            answers.append(f"{word} {rest}" if rest and is_alike else word)
        shared = []
        answers.append(part)
    return answers + shared
