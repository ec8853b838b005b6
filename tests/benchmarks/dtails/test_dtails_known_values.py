"""Known values of the authors' published files, and what the paper says about them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.items import expert_rows, items, languages, train_rows, words
from pytest_llmprops.benchmarks.dtails.prompts import variation_name
from pytest_llmprops.benchmarks.dtails.reading import read_selection, read_translation
from pytest_llmprops.benchmarks.dtails.rules import choose_sentences, english_tokens
from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.items import check_unique
from pytest_llmprops.core.texts import unicode_words
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.dtails_cases import BENCHMARK, TRANSLATOR, fenced, measured
from tests.support.scripted import CHAT


@pytest.fixture
def files(published: Path) -> DataFolder:
    """Return the published data, or skip the test if it has no DTAiLS."""
    folder = DataFolder(published, "published")
    if not languages(folder):
        pytest.skip("needs the published files of DTAiLS")
    return folder


def test_texts_of_a_language(files: DataFolder) -> None:
    """At least 98% of the reference translations are read as using the label's variation, with Unicode words.

    The English sentence has no variation, also where a form is an English word, and an answer that copies any form
    of a variation from the list is read as that variation.
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
            right += target.index is not None and row.variations[target.index].shares(
                row.variations[row.label]
            )
            assert english.index is None, row.sentence
            for index, forms in enumerate(shown):
                for answer in (variation_name(forms), *forms):
                    assert read_selection(f"Thus ```{answer}```.", shown).index == index, (
                        row.concept,
                        answer,
                    )
        assert right / len(rows) >= 0.98, language


def test_sentences_for_rules_are_not_test_sentences(files: DataFolder) -> None:
    """Afrikaans train rows, with tags, supply sentences for each concept's rules, and none is a test sentence."""
    if not files.exists("dtails/en-af/train_dataset.csv"):
        pytest.skip("needs the Afrikaans training rows")
    test, train = expert_rows(files, "af"), train_rows(files, "af")
    asked = {row.sentence for row in test}
    assert {row.concept for row in train} == {row.concept for row in test}
    assert all(row.pos for row in train)
    for concept in {row.concept for row in test}:
        variations = next(row.variations for row in test if row.concept == concept)
        rows = [(r.sentence, r.variations[r.label].forms) for r in train if r.concept == concept]
        chosen = choose_sentences(rows, [v.forms for v in variations], asked)
        for sentences in chosen.values():
            assert 0 < len(sentences) <= 50
            assert not asked & set(sentences)
            assert max(map(english_tokens, sentences)) < 50


BASELINES = {"af": 0.656, "fa": 0.709, "gl": 0.640, "hy": 0.619, "ja": 0.658, "ta": 0.716}


@pytest.fixture(scope="module")
def part(published: Path) -> Loaded:
    """Return all published items."""
    return loaded(BENCHMARK, DataFolder(published, "published"))


def records(part: Loaded, language: str, task: str, most: int | None = None) -> list[VerdictRecord]:
    """Return the records of a language's items, each answered with the right answer of its row."""
    verdicts = []
    kinds = TRANSLATOR if task == "translate" else CHAT
    for subject in [i for i in part.items if (i.language, i.task) == (language, task)][:most]:
        answer = subject["target"] if task == "translate" else fenced(subject["label"][0])
        outcome, _ = measured(subject, lambda r, x=answer: x, case_context=part.context, kinds=kinds)  # type: ignore[misc]
        verdicts.append(outcome.record())
    return verdicts


@pytest.mark.parametrize("task", ["select", "translate"])
def test_frequency_baseline(part: Loaded, task: str) -> None:
    """The metric is the known share over the language's whole file, also if only five items are run."""
    for language, share in BASELINES.items():
        rows = list(BENCHMARK.metrics(records(part, language, task, most=5)))
        [baseline] = [row for row in rows if row.name == "frequency_baseline"]
        assert baseline.value is not None
        assert round(baseline.value, 3) == share
        assert baseline.n == sum((i.language, i.task) == (language, "select") for i in part.items)


#: rows of the expert dataset (paper, Table 2)
TABLE_2 = {"af": 180, "hy": 176, "fa": 127, "gl": 164, "hi": 145, "ja": 149, "lv": 184, "ta": 134, "te": 118}


#: extracted concepts (paper, Table 1)
TABLE_1 = {"af": 17, "hy": 18, "fa": 100, "gl": 24, "hi": 41, "ja": 202, "lv": 16, "ta": 18, "te": 21}


def test_counts_match_the_paper(files: DataFolder) -> None:
    """Each language has the paper's number of test rows, with repeated ones, and of concepts; every row has its tag."""
    assert sum(TABLE_2.values()) == 1377
    rows = {code: expert_rows(files, code) for code in languages(files)}
    assert {code: len(some) for code, some in rows.items()} == {code: TABLE_2[code] for code in rows}
    assert {code: len(words(files, code)) for code in rows} == {code: TABLE_1[code] for code in rows}
    assert all(row.pos for some in rows.values() for row in some)


def test_items_are_unique(files: DataFolder) -> None:
    """The published items have unique ids and both tasks, together with those of the built-in items."""
    published_items = list(items(files))
    check_unique([*published_items, *items(DataFolder(builtin_data(), "builtin"))], "dtails")
    assert Counter(item.task for item in published_items)["select"] == len(published_items) / 2


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
