"""Files of DTAiLS: what their reader accepts and refuses in one line, and the built-in sentences."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.benchmark import Dtails
from pytest_llmprops.benchmarks.dtails.items import (
    LANGUAGES,
    Row,
    expert_rows,
    frequency_baseline,
    items,
    languages,
    parse_rows,
    parse_words,
    row_items,
    train_rows,
    words,
)
from pytest_llmprops.benchmarks.dtails.reading import read_translation
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import check_unique, limited
from pytest_llmprops.core.texts import unicode_words
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.dtails import row as valid_row
from tests.support.dtails import table


def cells(**changes: str) -> dict[str, str]:
    """Return a valid row with changes; keys are concept, sentence, target, variations, label, clue, id."""
    valid = {"concept": "sun", "sentence": "The sun is up.", "target": "Die son is op."}
    return valid_row(**{**valid, "variations": "['son', 'sol/sole']", "label": "son", **changes})


def read(*rows: dict[str, str], source: str = "builtin") -> tuple[Row, ...]:
    return parse_rows(rows, "xx", source, "xx.csv")


def test_row_is_read() -> None:
    """A row yields its variations with their forms, the index of its label, its clue and its id."""
    (row,) = read(cells(label="sol/sole", clue="sun; up", id="sun/07"))
    assert [v.forms for v in row.variations] == [("son",), ("sol", "sole")]
    assert (row.label, row.clue, row.id, row.number) == (1, ("sun", "up"), "sun/07", 1)
    # Published files have variations inside others, and train rows of a sentence with two labels.
    assert read(cells(variations="['gesien', 'sien']", label="sien"))[0].label == 1
    assert [row.repeats for row in read(cells(), cells(label="sol"))] == [0, 0]
    # A list is a Python literal, in which the Persian files have escapes.
    assert read(cells(variations="['a\\u200cb', 'c']", label="a\u200cb"))[0].label == 0
    # A label means the variation that it equals, or the only one with which it shares a form.
    assert read(cells(variations="['a', 'b/a']", label="b/a"))[0].label == 1
    assert {read(cells(label=label))[0].label for label in ("sol", "sole/sol", "x/sole")} == {1}


def test_bad_rows() -> None:
    """An invalid row is reported in one short line with file, row, language and a fix."""
    cases: list[tuple[dict[str, str], str]] = [
        ({"label": "maan"}, "label 'maan' is not one of the variations 'son, sol/sole'"),
        ({"label": " "}, "the label is empty"),
        ({"variations": "['a/x', 'b/x']", "label": "x"}, "label 'x' fits 2 of the variations 'a/x, b/x'"),
        ({"variations": "['son']"}, "concept 'sun' has 1 variation(s)"),
        ({"variations": "['son', 'son']"}, "variation 'son' of 'sun' is repeated"),
        ({"variations": "['son', 'sol//x']"}, "variation 'sol//x' has an empty form"),
        ({"concept": " "}, "the concept is empty"),
        ({"sentence": "\t"}, "the source language text of 'sun' is empty"),
        ({"clue": "up;u"}, "clue 'u' is not in the sentence"),
    ]
    for changes, what in cases:
        with pytest.raises(DataError, match=rf"\Axx\.csv: row 1 \(xx\): {re.escape(what)}; [^\n]*\Z"):
            read(cells(**changes))
    no_list = r"\Axx\.csv: row 1 \(xx\): variations [^\n]{,100} are not a list; write \[[^\n]{,60}\Z"
    for text in ("son;sol", "('son', 'sol')", "['son', 3]", "", "__import__('os').listdir('.')", "[" * 5000):
        with pytest.raises(DataError, match=no_list):
            read(cells(variations=text))


def test_repeated_rows() -> None:
    """A repeated row is refused, except in published files, where it is kept and marked."""
    rows = [cells(), cells(label="sol", sentence="Sol."), cells(target="other")]
    with pytest.raises(DataError, match=r"^xx.csv: row 3 \(xx\): repeats row 1 "):
        read(*rows)
    kept = read(*rows, source="published")
    assert [row.repeats for row in kept] == [0, 0, 1]
    first, _, third = list(row_items(kept, "xx", "published"))[::2]
    assert (first["repeats"], third["repeats"]) == ("", first.id)


def test_bad_words_file() -> None:
    """A malformed line is refused in one line with its number."""
    for text, what in (
        ("tell,VERB", "write concept,POS,variation;variation"),
        ("tell,VERB,a", "concept 'tell' has 1 variation"),
        ("tell,VERB,a;;b", "has an empty form"),
        ("tell,VERB,a;b\ntell,VERB,c;d", "is repeated; merge its variations"),
    ):
        with pytest.raises(DataError, match=rf"\Axx\.words: line [^\n]*{what}"):
            parse_words(f"ok,NOUN,x;y\n{text}\n", "xx.words")


def test_tags_distinguish_concepts_with_one_spelling() -> None:
    """The tag comes from the entry with the row's variations, so equal spellings have separate ids.

    A words file may have any line ends.
    """
    words = parse_words("build,VERB,a;b\r\n\r\nbuild,NOUN,c;d\nlate,ADJ,x/X;y\n", "w")
    assert [one.concept for one in words] == ["build", "build", "late"]
    assert [v.forms for v in words[2].variations] == [("x", "X"), ("y",)]
    rows = [
        cells(concept=concept, variations=str(list(forms)), label=label)
        for concept, forms, label in (
            ("build", "ba", "a"), ("build", "cd", "d"), ("build", "ef", "e"), ("late", "xz", "x"),
        )
    ]  # fmt: skip
    read_rows = parse_rows(rows, "xx", "published", "f", words)
    assert [row.pos for row in read_rows] == ["VERB", "NOUN", "", "ADJ"]
    selection_items = list(row_items(read_rows, "xx", "published"))[::2]
    names = [item.cluster.rsplit("/")[-1] for item in selection_items]
    assert names == ["build", "build-noun", "build-2", "late"]
    assert len({item.id for item in selection_items}) == 4


def test_items_of_both_tasks() -> None:
    """Each row gives one select item and one translate item in the same cluster, with all fields.

    Items of any concept have valid ASCII ids that differ from those of other concepts.
    """
    one, same, two, _ = row_items(read(cells(), cells(sentence="A sun.", label="sol")), "xx", "builtin")
    assert [(i.id, i.task, i.cluster) for i in (one, same, two)] == [
        ("dtails/xx/sun/01", "select", "dtails/xx/sun"),
        ("dtails/xx/sun/01+translate", "translate", "dtails/xx/sun"),
        ("dtails/xx/sun/02", "select", "dtails/xx/sun"),
    ]
    assert (two["variations"], two["label"]) == ((("son",), ("sol", "sole")), ("sol", "sole"))
    assert (one["sentence"], one["target"], one["concept"]) == ("The sun is up.", "Die son is op.", "sun")
    for concept in ("mother-in-law", "naïve", "日", "A" * 300, "a/b+c"):
        rows = read(cells(concept=concept), cells(concept="concept"))
        all_items = list(row_items(rows, "xx", "generated"))
        check_unique(all_items, "dtails")
        assert all(item.id.isascii() and len(item.id) <= 120 for item in all_items)
        assert all_items[0].cluster != all_items[2].cluster


def test_any_language_with_a_folder_is_read(tmp_path: Path) -> None:
    """Published folders of any two letters are found, the paper's languages first; words are optional.

    Train rows, which may repeat, are read from their own file and do not become items.
    """
    rows = table([cells(), cells(sentence="Sun.", label="sol")])
    files = {f"en-{code}/expert_dataset.csv": rows for code in ("es", "te")} | {
        "en-hi/hi.words": "a,X,b;c",
        "en-es/es.words": "sun,NOUN,son;sol/sole\n",
        "en-es/train_dataset.csv": table([cells(sentence="One sun."), cells(sentence="One sun.")]),
    }
    for name, text in files.items():
        path = tmp_path / "dtails" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    folder = DataFolder(tmp_path, "published")
    assert languages(folder) == ("te", "es")
    all_items = list(items(folder))
    wanted = [f"dtails/{code}/sun/p0{n}" for code in ("te", "es") for n in (1, 2)]
    assert [i.id for i in all_items[::2]] == wanted
    assert {i.source for i in all_items} == {"published"}
    assert train_rows(folder, "te") == ()
    assert [(row.sentence, row.pos) for row in train_rows(folder, "es")] == [("One sun.", "NOUN")] * 2


BUILTIN_FILES = DataFolder(builtin_data(), "builtin")
BUILTIN = {language: expert_rows(BUILTIN_FILES, language) for language in LANGUAGES}
EVERY_ROW = [row for rows in BUILTIN.values() for row in rows]


def test_concepts() -> None:
    """Each of the paper's nine languages has at least six concepts, and no English sentence occurs twice.

    A concept has 2 to 4 variations, each right equally often, in the words file too.
    """
    assert languages(BUILTIN_FILES) == LANGUAGES
    assert len(set(LANGUAGES)) == 9
    sentences = Counter(row.sentence for row in EVERY_ROW)
    assert [sentence for sentence, count in sentences.items() if count > 1] == []
    assert "Not verified by native speakers" in BUILTIN_FILES.text("dtails/README.md")
    for language, rows in BUILTIN.items():
        concepts = {row.concept: [one for one in rows if one.concept == row.concept] for row in rows}
        assert len(concepts) >= 6
        for concept, own in concepts.items():
            assert len({row.variations for row in own}) == 1
            assert 2 <= len(own[0].variations) <= 4 <= len(own)
            counts = Counter(row.label for row in own)
            assert len(counts) == len(own[0].variations), concept
            assert len(set(counts.values())) == 1, concept
        expected = [(concept, own[0].variations) for concept, own in concepts.items()]
        assert [(entry.concept, entry.variations) for entry in words(BUILTIN_FILES, language)] == expected
        assert {row.pos for row in rows} <= {"ADJ", "ADV", "NOUN", "PRON", "VERB"}


def test_sentences_and_translations() -> None:
    """An English sentence has the clue and is read as no variation; a translation is read as its label.

    All text is in NFC, and two variations share no form.
    """
    for row in EVERY_ROW:
        variations = [v.forms for v in row.variations]
        echo = unicode_words(row.sentence)
        assert read_translation(row.sentence, variations, echo, source=row.sentence).index is None, row.id
        assert row.clue, row.id
        assert row.concept not in row.clue, row.id
        assert row.sentence.isascii()
        forms = [form for variation in variations for form in variation]
        words = rf"(?<!\w)({'|'.join(map(re.escape, forms))})(?!\w)"
        assert not re.search(words, row.sentence, re.IGNORECASE), row.id
        assert len(forms) == len(set(forms))
        for text in (row.sentence, row.target, *forms):
            assert unicodedata.is_normalized("NFC", text), row.id
            assert text == text.strip(), row.id
        reading = read_translation(row.target, variations, (), source=row.sentence, concept=row.concept)
        assert (reading.index, reading.how) == (row.label, "substring"), row.id


def test_no_sentence_defines_the_relative() -> None:
    """The words for relatives follow from what happens, not from a definition such as "my father's younger brother"."""
    definition = re.compile(
        r"\b(maternal|paternal|on my (mother|father)'s side)\b"
        r"|\b(elder|older|younger|youngest|baby|newborn|twin) (brother|sister)\b"
        r"|\b(father|mother|papa|mum|husband|wife|sister|brother)'s (\w+ )?"
        r"(brother|sister|mother|father|husband|wife)\b",
        re.IGNORECASE,
    )
    relatives = {"uncle", "aunt", "cousin", "brother", "sister", "grandmother", "grandfather"}
    rows = [row for row in EVERY_ROW if row.concept in relatives or row.concept.endswith("-in-law")]
    assert [row.sentence for row in rows if definition.search(row.sentence)] == []


def test_ids() -> None:
    """Ids are unique, in the form dtails/lang/concept/n, and an item's cluster is its concept.

    A limit of one has one sentence of every concept, the same for both tasks.
    """
    all_items = list(items(BUILTIN_FILES))
    check_unique(all_items, "dtails")
    for item in all_items:
        assert re.fullmatch(r"dtails/[a-z]{2}/[a-z-]+/\d\d(\+translate)?", item.id)
        assert item.base_id.rpartition("/")[0] == item.cluster
        assert item.cluster == f"dtails/{item.language}/{item['concept']}"
    chosen = limited(all_items, 1, seed=0, per_cluster=Dtails.limit_per_cluster)
    assert len(chosen) == 2 * len({i.base_id for i in chosen}) == 2 * len({i.cluster for i in all_items})


def test_frequency_baseline() -> None:
    """Three of four and one of two are right; in a tie either label gives the same count."""
    assert frequency_baseline([("a", "x")] * 3 + [("a", "y"), ("b", "x"), ("b", "y")]) == (4 / 6, 6)
