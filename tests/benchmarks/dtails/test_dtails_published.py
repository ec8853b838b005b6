"""The authors' files, if available: all of them are read, and no built-in sentence is copied from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.items import expert_rows, items, languages, train_rows, words
from pytest_llmprops.core.items import check_unique
from pytest_llmprops.data.files import DataFolder, builtin_data

#: rows of the expert dataset (paper, Table 2)
TABLE_2 = {"af": 180, "hy": 176, "fa": 127, "gl": 164, "hi": 145, "ja": 149, "lv": 184, "ta": 134, "te": 118}
#: extracted concepts (paper, Table 1)
TABLE_1 = {"af": 17, "hy": 18, "fa": 100, "gl": 24, "hi": 41, "ja": 202, "lv": 16, "ta": 18, "te": 21}


@pytest.fixture
def files(published: Path) -> DataFolder:
    """Return the published data, or skip the test if it has no DTAiLS."""
    folder = DataFolder(published, "published")
    if not languages(folder):
        pytest.skip("needs the published files of DTAiLS")
    return folder


def test_counts_match_the_paper(files: DataFolder) -> None:
    """Each language has the paper's number of test rows and concepts, including its repeated rows."""
    assert sum(TABLE_2.values()) == 1377
    codes = languages(files)
    assert {code: len(expert_rows(files, code)) for code in codes} == {code: TABLE_2[code] for code in codes}
    assert {code: len(words(files, code)) for code in codes} == {code: TABLE_1[code] for code in codes}


def test_every_row_has_its_part_of_speech(files: DataFolder) -> None:
    """The concepts of the test rows are found in the words files, with their tags."""
    assert all(row.pos for code in languages(files) for row in expert_rows(files, code))


def test_items_are_unique(files: DataFolder) -> None:
    """The published items have unique ids and both tasks, together with those of the built-in items."""
    published_items = list(items(files))
    check_unique([*published_items, *items(DataFolder(builtin_data(), "builtin"))], "dtails")
    assert Counter(item.task for item in published_items)["select"] == len(published_items) / 2


def test_training_rows(files: DataFolder) -> None:
    """The Afrikaans training rows are read, and they include those of the test set's concepts."""
    if not files.exists("dtails/en-af/train_dataset.csv"):
        pytest.skip("needs the Afrikaans training rows")
    rows = train_rows(files, "af")
    assert {row.concept for row in rows} == {row.concept for row in expert_rows(files, "af")}
    assert all(row.pos for row in rows)


def test_builtin_sentences_differ_from_the_authors(files: DataFolder) -> None:
    """No built-in sentence or translation equals one of the authors', in any language."""
    theirs = {
        text.casefold()
        for code in languages(files)
        for row in (*expert_rows(files, code), *train_rows(files, code))
        for text in (row.sentence, row.target)
    }
    own = DataFolder(builtin_data(), "builtin")
    texts = [
        text
        for code in languages(own)
        for row in expert_rows(own, code)
        for text in (row.sentence, row.target)
    ]
    assert [text for text in texts if text and text.casefold() in theirs] == []
