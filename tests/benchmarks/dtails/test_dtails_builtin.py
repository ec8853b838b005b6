"""The built-in sentences of DTAiLS: their structure, and that none is copied from the authors."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache

import pytest

from pytest_llmprops.benchmarks.dtails.items import LANGUAGES, expert_rows, items, languages, words
from pytest_llmprops.benchmarks.dtails.reading import read_translation
from pytest_llmprops.benchmarks.dtails.rows import Row
from pytest_llmprops.core.items import check_unique
from pytest_llmprops.data.files import DataFolder, builtin_data


def files() -> DataFolder:
    return DataFolder(builtin_data(), "builtin")


every_language = pytest.mark.parametrize("language", LANGUAGES)


@cache
def rows_of(language: str) -> tuple[Row, ...]:
    return expert_rows(files(), language)


def of_concepts(language: str) -> dict[str, list[Row]]:
    concepts: dict[str, list[Row]] = {}
    for row in rows_of(language):
        concepts.setdefault(row.concept, []).append(row)
    return concepts


def stands_in(text: str, sentence: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(text.casefold())}(?!\w)", sentence.casefold()))


def test_languages_match_the_paper() -> None:
    """Exactly the languages of the paper are built in."""
    assert languages(files()) == LANGUAGES
    assert len(set(LANGUAGES)) == 9


@every_language
def test_sizes(language: str) -> None:
    """A language has at least six concepts, each with 2 to 4 variations and at least four sentences."""
    concepts = of_concepts(language)
    assert len(concepts) >= 6
    for rows in concepts.values():
        assert len({row.variations for row in rows}) == 1
        assert 2 <= len(rows[0].variations) <= 4 <= len(rows)


@every_language
def test_labels_are_balanced(language: str) -> None:
    """Each variation of a concept is right equally often, so the frequency baseline gains nothing."""
    for concept, rows in of_concepts(language).items():
        counts = Counter(row.label for row in rows)
        assert len(counts) == len(rows[0].variations), concept
        assert len(set(counts.values())) == 1, concept


@every_language
def test_clues(language: str) -> None:
    """Each sentence names words from it that decide the choice, other than the concept itself."""
    for row in rows_of(language):
        assert row.clue, row.id
        assert all(part in row.sentence for part in row.clue), row.id
        assert row.concept not in row.clue, row.id


@every_language
def test_sentences_do_not_contain_the_answer(language: str) -> None:
    """No form of a variation is a word of the English sentence, and the sentence is English letters only."""
    for row in rows_of(language):
        assert row.sentence.isascii()
        assert not [f for v in row.variations for f in v.forms if stands_in(f, row.sentence)], row.id


@every_language
def test_translations_use_their_label(language: str) -> None:
    """A reference translation is read as its label, by a form that occurs in it."""
    translated_rows = [row for row in rows_of(language) if row.target]
    assert translated_rows
    for row in translated_rows:
        reading = read_translation(row.target, [v.forms for v in row.variations], ())
        assert (reading.index, reading.how) == (row.label, "substring"), row.id


@every_language
def test_texts_are_normalised(language: str) -> None:
    """All built-in text is in NFC, and two variations share no form."""
    for row in rows_of(language):
        forms = [form for variation in row.variations for form in variation.forms]
        assert len(forms) == len(set(forms))
        for text in (row.sentence, row.target, *forms):
            assert unicodedata.is_normalized("NFC", text), row.id
            assert text == text.strip(), row.id


@every_language
def test_words_file_lists_the_concepts(language: str) -> None:
    """The words file lists the concepts in the order of the sentences, with the same variations and a tag."""
    expected = [(concept, rows[0].variations) for concept, rows in of_concepts(language).items()]
    assert [(entry.concept, entry.variations) for entry in words(files(), language)] == expected
    assert {row.pos for row in rows_of(language)} <= {"ADJ", "ADV", "NOUN", "PRON", "VERB"}


def test_sentences_are_all_different() -> None:
    """No English sentence occurs twice, within a language or across languages."""
    counts = Counter(row.sentence for language in LANGUAGES for row in rows_of(language))
    assert [sentence for sentence, count in counts.items() if count > 1] == []


def test_ids() -> None:
    """Ids are unique, in the form dtails/lang/concept/n, and an item's cluster is its concept."""
    all_items = list(items(files()))
    check_unique(all_items, "dtails")
    for item in all_items:
        assert re.fullmatch(r"dtails/[a-z]{2}/[a-z-]+/\d\d(\+translate)?", item.id)
        assert item.base_id.rpartition("/")[0] == item.cluster
        assert item.cluster == f"dtails/{item.language}/{item['concept']}"


def test_note_says_that_no_native_speaker_checked_the_data() -> None:
    """The note beside the data says that native speakers have not verified it."""
    assert "Not verified by native speakers" in files().text("dtails/README.md")
