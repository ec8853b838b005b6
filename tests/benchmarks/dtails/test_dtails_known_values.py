"""Known values of the authors' published files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.context import frequency_baseline
from pytest_llmprops.benchmarks.dtails.items import LANGUAGES, expert_rows, languages, train_rows
from pytest_llmprops.benchmarks.dtails.prompts import variation_name
from pytest_llmprops.benchmarks.dtails.reading import is_right, read_selection, read_translation
from pytest_llmprops.benchmarks.dtails.rows import Row
from pytest_llmprops.benchmarks.dtails.rule_making import choose_sentences, english_tokens
from pytest_llmprops.benchmarks.dtails.text import unicode_words
from pytest_llmprops.data.files import DataFolder


def rows_of(published: Path, language: str) -> tuple[Row, ...]:
    files = DataFolder(published, "published")
    if language not in languages(files):
        pytest.skip(f"needs the published file of {language}")
    return expert_rows(files, language)


@pytest.mark.parametrize(
    ("language", "baseline"),
    [("af", 0.656), ("fa", 0.709), ("gl", 0.640), ("hy", 0.619), ("ja", 0.658), ("ta", 0.716)],
)
def test_frequency_baseline(published: Path, language: str, baseline: float) -> None:
    """The most common label of each concept is right in the known share of the language's rows."""
    rows = rows_of(published, language)
    computed = frequency_baseline(((r.concept, frozenset(r.variations)), r.label) for r in rows)
    assert computed.accuracy is not None
    assert round(computed.accuracy, 3) == baseline


#: Least share of reference translations that are read as their label, with Unicode words.
READ = {
    "af": 0.99,
    "fa": 0.98,
    "gl": 0.98,
    "hi": 0.9,
    "hy": 0.975,
    "ja": 0.99,
    "lv": 0.98,
    "ta": 0.98,
    "te": 0.98,
}


@pytest.mark.parametrize(("language", "share"), READ.items())
def test_reference_translations(published: Path, language: str, share: float) -> None:
    """The known share of reference translations is read as using the label's variation."""
    rows = rows_of(published, language)
    right = 0
    for row in rows:
        variations = [variation.forms for variation in row.variations]
        reading = read_translation(row.target, variations, unicode_words(row.target))
        right += reading.index is not None and is_right(variations[reading.index], variations[row.label])
    assert right / len(rows) >= share


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_published_variation_is_read_as_itself(published: Path, language: str) -> None:
    """An answer that copies any form of a variation from the list is read as that variation."""
    for row in rows_of(published, language):
        shown = [variation.forms for variation in row.variations]
        for index, forms in enumerate(shown):
            for answer in (variation_name(forms), *forms):
                assert read_selection(f"Thus ```{answer}```.", shown).index == index, (row.concept, answer)


def test_sentences_for_rules_are_not_test_sentences(published: Path) -> None:
    """Afrikaans train rows supply sentences for each concept's rules, and none of them is a test sentence."""
    files = DataFolder(published, "published")
    test, train = expert_rows(files, "af"), train_rows(files, "af")
    asked = {row.sentence for row in test}
    for concept in {row.concept for row in test}:
        variations = next(row.variations for row in test if row.concept == concept)
        rows = [(r.sentence, r.variations[r.label].forms) for r in train if r.concept == concept]
        chosen = choose_sentences(rows, [v.forms for v in variations], asked)
        for sentences in chosen.values():
            assert 0 < len(sentences) <= 50
            assert not asked & set(sentences)
            assert max(map(english_tokens, sentences)) < 50
