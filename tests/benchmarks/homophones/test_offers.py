"""Whether a reply offers the answer: precision and recall, echoes, denials, and hostile replies."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fixtures.replies import homophone_replies
from pytest_llmprops.benchmarks.homophones.answer_forms import forms_of
from pytest_llmprops.benchmarks.homophones.benchmark import Homophones, ask_about, read_rules
from pytest_llmprops.benchmarks.homophones.items import masked
from pytest_llmprops.benchmarks.homophones.reading import reading
from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.core.items import Item
from pytest_llmprops.data.files import DataFolder, builtin_data

RULES = read_rules(DataFolder(builtin_data(), "builtin"))
LANGUAGES = ("en", "zh", "es")
REPLIES = homophone_replies()


def is_offered(row: dict[str, Any], match: str = "word") -> bool:
    return reading(
        row["reply"],
        row["answers"],
        match,
        row["language"],
        RULES,
        word=row["word"],
        sentence=row["sentence"],
    ).correct


def says(reply: str, item: Item, match: str = "word") -> bool:
    return reading(
        reply, item["answers"], match, item.language, RULES, word=item["word"], sentence=item["sentence"]
    ).correct


@pytest.fixture(scope="module", params=["builtin", "published"])
def loaded(request: pytest.FixtureRequest) -> Loaded:
    """All items of one source."""
    if request.param == "builtin":
        return Homophones().load(DataFolder(builtin_data(), "builtin"))
    folder = os.environ.get("LLMPROPS_DATA")
    if not folder or not (Path(folder) / "homophones").is_dir():
        pytest.skip("LLMPROPS_DATA names no folder with published homophones")
    return Homophones().load(DataFolder(Path(folder), "published"))


def asked(loaded: Loaded) -> list[Item]:
    """Return the items of the main task; the controls have the same answers."""
    return [item for item in loaded.items if item.task == "asked"]


# Labelled replies


def test_replies_are_many_and_balanced() -> None:
    """There are at least 400 replies, 200 of them held out, with both labels in every language."""
    counts = Counter((row["split"], row["language"], row["label"]) for row in REPLIES)
    assert len(REPLIES) >= 400
    assert sum(row["split"] == "heldout" for row in REPLIES) >= 200
    assert (
        min(counts[s, c, x] for s in ("dev", "heldout") for c in LANGUAGES for x in ("correct", "not")) >= 30
    )
    assert len({row["id"] for row in REPLIES}) == len(REPLIES)
    assert len({(row["word"], row["reply"]) for row in REPLIES}) == len(REPLIES)


@pytest.mark.simulation
@pytest.mark.parametrize("split", ["dev", "heldout"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_precision_and_recall(split: str, language: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Offered answers are found with a precision and recall of at least .95, printed next to `contains`."""
    rows = [row for row in REPLIES if (row["split"], row["language"]) == (split, language)]
    for match in ("word", "contains"):
        counts = Counter((is_offered(row, match), row["label"] == "correct") for row in rows)
        precision = counts[True, True] / (counts[True, True] + counts[True, False])
        recall = counts[True, True] / (counts[True, True] + counts[False, True])
        with capsys.disabled():
            print(
                f"\n{split} {language} {match:8s} n={len(rows)} precision={precision:.3f} recall={recall:.3f}",
                end="",
            )
        if match == "word":
            assert precision >= 0.95
            assert recall >= 0.95


# Every item


@pytest.mark.simulation
def test_an_echo_never_scores(loaded: Loaded) -> None:
    """A reply that repeats the question, the sentence or the sentence with a blank is not correct."""
    for item in loaded.items:
        question = ask_about(item)
        blanked = masked(item["sentence"], item["word"]) or item["sentence"]
        for reply in (
            question,
            item["sentence"],
            blanked,
            f"{question}\n\n{item['sentence']}",
            question.upper(),
        ):
            for match in ("word", "contains"):
                assert not says(reply, item, match), (item.id, match, reply)


@pytest.mark.simulation
def test_plain_answers_score(loaded: Loaded) -> None:
    """Each item's answer scores on its own, in bold, in quotes, and named as the homophone's meaning."""
    for item in asked(loaded):
        answer = item["answers"][0]
        for reply in (
            answer,
            f"**{item['answers'][-1]}**",
            f'It means "{answer}".',
            f"The word '{item['word']}' is a homophone for '{answer}'.",
            f'```json\n{{"answer": "{answer}"}}\n```',
        ):
            assert says(reply, item), (item.id, reply)


@pytest.mark.simulation
def test_denied_answers_do_not_score(loaded: Loaded) -> None:
    """Each item's answer does not score where the reply denies it or cannot decide on it."""
    for item in asked(loaded):
        answer = item["answers"][0]
        for reply in (
            f'It does not mean "{answer}".',
            f'This is not "{answer}".',
            f'No significa "{answer}".',
            f'I cannot tell whether it is "{answer}".',
        ):
            assert not says(reply, item), (item.id, reply)


@pytest.mark.simulation
def test_the_restored_sentence_scores(loaded: Loaded) -> None:
    """The sentence with the answer in the homophone's place is an answer, even if the sentence has a "not"."""
    for item in asked(loaded):
        sentence = item["sentence"]
        if masked(item["sentence"], item["word"]) is None:
            continue
        place = re.search(re.escape(item["word"]), sentence, re.IGNORECASE)
        assert place is not None
        restored = sentence[: place.start()] + item["answers"][0] + sentence[place.end() :]
        assert says(restored, item), (item.id, restored)


# Forms


@pytest.mark.parametrize(
    ("answer", "language", "form", "is_same"),
    [
        ("driver", "en", "Drivers", True),
        ("driver", "en", "driver's", True),
        ("driver", "en", "driving", False),
        ("driver", "en", "screwdriver", False),
        ("knives", "en", "knife", True),
        ("stop", "en", "stopped", True),
        ("hope", "en", "hopping", False),
        ("neighbor", "en", "neighbours", True),
        ("glasses", "en", "glass", False),
        ("write", "en", "wrote", True),
        ("seat belt", "en", "seatbelts", True),
        ("avión", "es", "AVION", True),
        ("avión", "es", "aviones", True),
        ("vecino", "es", "vecina", True),
        ("libro", "es", "libra", False),
        ("caso", "es", "casa", False),
        ("luz", "es", "luces", True),
        ("sembrar", "es", "siembran", True),
        ("caña", "es", "cana", False),
        ("厨房", "zh", "廚房", True),
        ("厨房", "zh", "厨师", False),
    ],
)
def test_forms_of_an_answer(answer: str, language: str, form: str, is_same: bool) -> None:
    """Regular inflection, accents and the Chinese script make no other word; other derivations do."""
    assert forms_of((answer,), language, RULES.words).found_in(form) is is_same


def test_a_form_that_is_the_homophone_is_no_answer() -> None:
    """If only an accent or a letter tells the answer from the homophone, it has to be there."""
    forms = forms_of(("está",), "es", RULES.words, "esta")
    assert forms.found_in("está")
    assert not forms.found_in("esta")
    assert not forms_of(("fly",), "en", RULES.words, "flies").found_in("flies")


def test_traditional_characters_are_those_of_opencc() -> None:
    """The table has each Big5 character that OpenCC converts to one of GB 2312, and nothing else."""
    convert = pytest.importorskip("opencc").OpenCC("t2s").convert
    expected = {}
    for lead in range(0xA1, 0xFF):
        for trail in (*range(0x40, 0x7F), *range(0xA1, 0xFF)):
            character = bytes([lead, trail]).decode("big5", errors="ignore")
            simplified = convert(character)
            is_han = "一" <= character <= "鿿" and len(simplified) == 1
            if is_han and simplified != character and simplified.encode("gb2312", errors="ignore"):
                expected[ord(character)] = simplified
    assert RULES.words.simplified == expected


# Rules


def drywer(reply: str) -> bool:
    return reading(
        reply, ["driver"], "word", "en", RULES, word="drywer", sentence="The drywer is drunk"
    ).correct


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("dryer, not driver", False),
        ("driver, not dryer", True),
        ("not only a driver", True),
        ("It can't be anything but a driver.", True),
        ("'drywer' is written instead of 'driver'", True),
        ("I read 'dryer' instead of 'driver'", False),
        ("not the usual spelling of 'driver'", True),
        ("Isn't it 'driver'?", True),
        ("Driver? No.", False),
        ("I can't tell whether it means 'driver'.", False),
        ("I can't be certain, but it may be 'driver'.", True),
        ("You might think of 'driver', but it is a 'dryer'.", False),
        ('{"answer": "dryer", "rejected": ["driver"]}', False),
        ("A: driver\nB: dryer\nAnswer: B", False),
        ("A: driver\nB: dryer\nAnswer: A", True),
        ("~~driver~~ dryer", False),
        ("<think>driver?</think>dryer", False),
        (r"$\boxed{\text{driver}}$", True),
        ("d-r-i-v-e-r", True),
        ("dri**ver**", True),
        ("'driver' or 'dryer'", True),
        ("no es 'driver' sino 'dryer'", False),
        ("不是driver，而是dryer", False),
    ],
)
def test_rules_in_one_line(reply: str, expected: bool) -> None:
    """Denials, contrasts, exceptions to them, structured answers and markup, one example each."""
    assert drywer(reply) is expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Let me see … I cannot determine it.", False),
        ("I see what you mean.", False),
        ("It means see.", True),
        ("**see**", True),
        ("I can see the house from here.", True),
    ],
)
def test_a_word_of_the_replys_own_prose_must_be_named(reply: str, expected: bool) -> None:
    """ "see" counts if it is quoted, introduced or in its place in the sentence."""
    said = reading(reply, ["see"], "word", "en", RULES, word="sea", sentence="I can sea the house from here.")
    assert said.correct is expected


def test_the_sentences_own_answer_is_an_echo() -> None:
    """Where the sentence has the answer elsewhere, quoting that part of it is no answer; naming it is."""
    sentence = "Costa Rica es conocida por su pica biodiversidad"
    said = {
        reply: reading(reply, ["rica"], "word", "es", RULES, word="pica", sentence=sentence).correct
        for reply in ("La frase trata de Costa Rica es conocida por su clima.", 'Debería ser "rica".')
    }
    assert list(said.values()) == [False, True]


# Hostile replies


@pytest.mark.simulation
@pytest.mark.parametrize(
    "piece",
    [
        "not ", "driver ", "not driver ", "driver but ", "driver? no ", "“driver” ", "instead of ",
        "cannot tell whether ", "is not ", "In the sentence ", "d-r-", "\\text{", "<think>", "~~", "不是", "厨房不",
        "no se si ", "¿no ", "&amp;", "____ ", "⟦", "at first glance ", "answer: ", '"x", ',
        "为,", "意为", "是", "word, ", "“为”、", "可能是为、", "driver or ",
    ],
)  # fmt: skip
def test_a_hostile_reply_is_read_in_no_time(piece: str) -> None:
    """100 kB of any text take less than a few seconds, with and without mentions of the answer."""
    text = piece * (100_000 // len(piece))
    start = time.perf_counter()
    drywer(text)
    drywer(f"driver {text} driver")
    assert time.perf_counter() - start < 10


@pytest.mark.simulation
def test_ten_thousand_replies_are_read_quickly() -> None:
    """An ordinary reply takes a few milliseconds at most."""
    rows = REPLIES[:400]
    for row in rows:
        is_offered(row)
    start = time.process_time()
    for row in rows:
        is_offered(row)
    assert (time.process_time() - start) / len(rows) < 0.01
