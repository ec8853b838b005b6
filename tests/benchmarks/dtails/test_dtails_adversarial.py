"""Replies that name several variations, reject some, misspell one, or use a look-alike word."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from fixtures.replies import dtails_replies
from pytest_llmprops.benchmarks.dtails.items import LANGUAGES, expert_rows, languages, words
from pytest_llmprops.benchmarks.dtails.reading import read_selection
from pytest_llmprops.data.files import DataFolder, builtin_data

Row = dict[str, str]
KNOW = (("weet",), ("ken",))
every_language = pytest.mark.parametrize("language", LANGUAGES)


@cache
def labelled_replies() -> tuple[Row, ...]:
    """Return the labelled answers: language, concept, the answer between the fences, and the variation it selects."""
    return tuple(dtails_replies())


@cache
def variations_of(language: str, concept: str) -> tuple[tuple[str, ...], ...]:
    entries = words(DataFolder(builtin_data(), "builtin"), language)
    return next(tuple(v.forms for v in entry.variations) for entry in entries if entry.concept == concept)


def selected(answer: str, variations: Sequence[Sequence[str]]) -> int | None:
    return read_selection(f"Thus ```{answer}```.", variations).index


def label_of(row: Row) -> int | None:
    if row["selects"] == "-":
        return None
    forms = variations_of(row["language"], row["concept"])
    return next(index for index, variation in enumerate(forms) if row["selects"] in variation)


def read(row: Row) -> int | None:
    return selected(row["answer"], variations_of(row["language"], row["concept"]))


def test_the_replies_cover_all_languages() -> None:
    """There are at least 300 different replies, half of them written later, with and without a choice everywhere."""
    rows = labelled_replies()
    assert len({(row["language"], row["concept"], row["answer"]) for row in rows}) == len(rows) >= 300
    assert 2 * sum(row["written"] != "before" for row in rows) >= len(rows)
    for language in LANGUAGES:
        labels = [label_of(row) for row in rows if row["language"] == language]
        assert len(labels) >= 34
        assert 5 <= labels.count(None) <= len(labels) - 15


@every_language
def test_precision_and_recall(language: str) -> None:
    """Of the choices that are read, at least 95% are right, and at least 95% of the choices are read."""
    rows = [row for row in labelled_replies() if row["language"] == language]
    labels, readings = [label_of(row) for row in rows], [read(row) for row in rows]
    right = sum(
        reading is not None and reading == label for reading, label in zip(readings, labels, strict=True)
    )
    precision = right / (len(readings) - readings.count(None))
    recall = right / (len(labels) - labels.count(None))
    print(f"{language}: {len(rows)} replies, precision {precision:.3f}, recall {recall:.3f}")
    wrong = [
        row["answer"] for row, label, index in zip(rows, labels, readings, strict=True) if label != index
    ]
    assert min(precision, recall) >= 0.95, wrong


def rejecting(label: str, others: Sequence[str]) -> Iterator[str]:
    """Yield answers that select the label and reject all others."""
    yield f"{label} (not {', '.join(others)})"
    yield f"{label} (not {' or '.join(others)})"
    yield f"{label}, not {', not '.join(others)}"
    yield f"{label} rather than {' or '.join(others)}"
    yield f"not {' or '.join(others)} but {label}"
    yield f"{label}. {' '.join(f'{other} is wrong.' for other in others)}"
    yield f"{label} (not the others)"


def listing(names: Sequence[str]) -> Iterator[str]:
    """Yield answers that name all variations and reject none."""
    for separator in (", ", " or ", " and ", "/", " / ", "; ", "\n", " "):
        yield separator.join(names)
    yield str(list(names))


def check_lists(files: DataFolder, language: str) -> None:
    for row in {(row.variations, row.label): row for row in expert_rows(files, language)}.values():
        forms = [variation.forms for variation in row.variations]
        for names in (["/".join(f) for f in forms], [f[0] for f in forms], [f[-1] for f in forms]):
            others = [name for index, name in enumerate(names) if index != row.label]
            for answer in rejecting(names[row.label], others):
                assert selected(answer, forms) == row.label, answer
            for answer in (*listing(names), f"not {names[row.label]}"):
                assert selected(answer, forms) is None, answer


@every_language
def test_published_labels_with_all_others_rejected_or_listed(published: Path, language: str) -> None:
    """In every published row, the label is read if the others are rejected, and a list of all is never read."""
    files = DataFolder(published, "published")
    if language not in languages(files):
        pytest.skip(f"needs the published file of {language}")
    check_lists(files, language)


@pytest.mark.simulation
@every_language
def test_builtin_labels_with_all_others_rejected_or_listed(language: str) -> None:
    """The same holds for the built-in variations."""
    check_lists(DataFolder(builtin_data(), "builtin"), language)


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("دايي", "دایی"),
        ("كهنه", "کهنه"),
        ("می دانم", "می\u200cدانم"),
        ("می\\u200cدانم", "می\u200cدانم"),
        ("ｺｰﾄ", "コート"),
        ("こうと", "コウト"),
        ("लडका", "लड़का"),
        ("ल\u0921\u093cका", "ल\u095cका"),
        ("माँग", "मांग"),
        ("zinat", "zināt"),
        ("se\u0302", "sê"),
        ("ＫＥＮ", "ken"),
        ("Իրենց", "իրենց"),
    ],
)
def test_spelling_variants(written: str, form: str) -> None:
    """A word in another spelling is its form, alone and with the other one rejected."""
    forms = ((form,), ("xyz",))
    assert selected(written, forms) == 0
    assert selected(f"xyz (not {written})", forms) == 1


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("week", "weet"),
        ("wet", "weet"),
        ("sweet", "weet"),
        ("keen", "ken"),
        ("kader", "vader"),
        ("onder", "ander"),
    ],
)
def test_look_alikes(word: str, form: str) -> None:
    """A similar word of the language is not the form."""
    assert selected(word, ((form,), ("xyz",))) is None


@pytest.mark.parametrize(("word", "form"), [("kyke", "kyk"), ("gesein", "gesien"), ("orela", "orella")])
def test_typing_errors(word: str, form: str) -> None:
    """A form with an ending, two letters swapped or one letter less is read."""
    assert selected(word, ((form,), ("xyz",))) == 0


def test_spelling_decides_between_variations_that_are_spelled_alike() -> None:
    """If two variations differ only in an accent, the one that is written counts, and none if neither is."""
    forms = (("te",), ("té",))
    assert [selected(word, forms) for word in ("te", "té", "not te but té", "tè")] == [0, 1, 1, None]


def test_variations_that_share_a_form() -> None:
    """A form of two variations is read as the first, and it is right for both by the authors' rule."""
    assert selected("te", (("te", "ook"), ("te", "nog"))) == 0


def test_a_variation_is_not_a_word_of_rejection() -> None:
    """Variations that mean "not" are names."""
    forms = (("nie",), ("nooit",))
    assert selected("nie", forms) == 0
    assert selected("nooit nie", forms) is None
    assert selected("nooit (not nie)", forms) == 1


@pytest.mark.simulation
@pytest.mark.parametrize(
    "answer",
    ["ken" + '"' * 20_000, "ken weet " * 4_000, "not " * 8_000 + "ken", "not ken over weet " * 2_000,
     "ken" + "(" * 20_000, "~~" * 10_000 + "ken", "not" + ":" * 20_000, "k" * 30_000, "ken " + "so it " * 5_000],
)  # fmt: skip
def test_long_replies_are_read_quickly(answer: str) -> None:
    """A reply of tens of thousands of characters is read in seconds, whatever it repeats."""
    start = time.perf_counter()
    selected(answer, KNOW)
    assert time.perf_counter() - start < 10


def test_private_characters_in_a_reply() -> None:
    """Characters that the reader uses for names are ignored in a reply."""
    assert selected("\ue000 or \uf8ff ken", KNOW) == 1
