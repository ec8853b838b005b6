"""Known values of the authors' published files, and what the paper says about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.items import expert_rows, languages, train_rows, words
from pytest_llmprops.benchmarks.dtails.reading import read_selection, read_translation
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.texts import unicode_words
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.dtails_cases import BENCHMARK


@pytest.fixture
def files(published: Path) -> DataFolder:
    """Return the published data, or skip the test if it has no DTAiLS."""
    folder = DataFolder(published, "published")
    if not languages(folder):
        pytest.skip("needs the published files of DTAiLS")
    return folder


def test_texts_of_a_language(files: DataFolder) -> None:
    """At least 98% of the reference translations are read as using the label's variation, with Unicode words.

    The English sentence has no variation, also where a form is an English word, and an answer that copies a form
    from the list is read as its variation.
    """
    for language in languages(files):
        rows = expert_rows(files, language)
        right = 0
        for row in rows:
            shown = [variation.forms for variation in row.variations]
            target, english = (
                read_translation(text, shown, unicode_words(text), source=row.sentence, concept=row.concept)
                for text in (row.target, row.sentence)
            )
            label = row.variations[row.label]
            right += target.index is not None and row.variations[target.index].shares(label)
            assert english.index is None, row.sentence
            for index, form in ((index, form) for index, forms in enumerate(shown) for form in forms):
                assert read_selection(f"Thus ```{form}```.", shown).index == index, (row.concept, form)
        assert right / len(rows) >= 0.98, language


BASELINES = {"af": 0.656, "fa": 0.709, "gl": 0.640, "hy": 0.619, "ja": 0.658, "ta": 0.716}
#: rows of the expert dataset (paper, Table 2)
TABLE_2 = {"af": 180, "hy": 176, "fa": 127, "gl": 164, "hi": 145, "ja": 149, "lv": 184, "ta": 134, "te": 118}
#: extracted concepts (paper, Table 1)
TABLE_1 = {"af": 17, "hy": 18, "fa": 100, "gl": 24, "hi": 41, "ja": 202, "lv": 16, "ta": 18, "te": 21}


def test_counts_match_the_paper(files: DataFolder) -> None:
    """Each language has the paper's number of test rows, with repeated ones, and of concepts; every row has its tag.

    Always taking the most frequent variation has the known accuracy in each language's file.
    """
    assert sum(TABLE_2.values()) == 1377
    rows = {code: expert_rows(files, code) for code in languages(files)}
    assert {code: len(some) for code, some in rows.items()} == {code: TABLE_2[code] for code in rows}
    assert {code: len(words(files, code)) for code in rows} == {code: TABLE_1[code] for code in rows}
    assert all(row.pos for some in rows.values() for row in some)
    baselines = loaded(BENCHMARK, files).context.baselines
    assert {code: round(baselines[code].accuracy, 3) for code in BASELINES} == BASELINES
    assert {code: baseline.n for code, baseline in baselines.items()} == {
        code: TABLE_2[code] for code in rows
    }


def test_builtin_sentences_differ_from_the_authors(files: DataFolder) -> None:
    """No built-in sentence or translation equals one of the authors', in any language."""

    def texts(folder: DataFolder) -> set[str]:
        rows = [r for c in languages(folder) for r in (*expert_rows(folder, c), *train_rows(folder, c))]
        return {text.casefold() for row in rows for text in (row.sentence, row.target) if text}

    assert texts(files) & texts(DataFolder(builtin_data(), "builtin")) == set()
