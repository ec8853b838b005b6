"""The rules file and the rules read from a model's reply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails.rules import (
    LONGEST_RULE,
    ConceptRules,
    Rule,
    RulesFile,
    check_covers,
    parse_rules_file,
    read_rules_reply,
)
from pytest_llmprops.core.errors import DataError, UsageError

LIVE = (("leef", "lewe"), ("woon",))
SEE = (("gesien",), ("sien",))
FILE = RulesFile(
    "af",
    "openai:gpt-4o",
    (
        ConceptRules("live", "VERB", (Rule("leef/lewe", "to be alive", 50), Rule("woon", "to dwell", 3))),
        ConceptRules("see", "VERB", (Rule("gesien", "seen", 0), Rule("sien", "see", 0))),
    ),
)


def test_file_round_trip() -> None:
    """A written file is read back unchanged; its text is indented and not escaped."""
    rules = RulesFile("fa", "m", (ConceptRules("most", "", (Rule("مهم‌ترین", "a\nb"), Rule("ترين", "c", 1))),))
    text = rules.to_json()
    assert parse_rules_file(text, "x") == rules
    assert parse_rules_file(FILE.to_json(), "x") == FILE
    assert "مهم‌ترین" in text
    assert text.endswith("}\n")
    assert text.count("\n") > 10


def test_file_says_how_many_sentences() -> None:
    """A concept without example sentences has ``sentences: 0``, and any other has the total number."""
    counts = [entry["sentences"] for entry in json.loads(FILE.to_json())["concepts"]]
    assert counts == [53, 0] == [entry.sentences for entry in FILE.concepts]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop("model"), "'model' is missing"),
        (lambda d: d.update(extra=1), "unknown key 'extra'"),
        (lambda d: d.update(format="dtails-rules 2"), 'reads "dtails-rules 1"'),
        (lambda d: d.update(language=" "), "language is empty"),
        (lambda d: d.update(concepts={}), "must be a list"),
        (lambda d: d.update(concepts=[]), "no concepts"),
        (lambda d: d["concepts"].append(d["concepts"][0]), "concept 3: 'live' is repeated"),
        (lambda d: d["concepts"][0].update(concept=""), "concept 1: the concept is empty"),
        (lambda d: d["concepts"][0].update(note=""), "concept 1: unknown key 'note'"),
        (lambda d: d["concepts"][0].update(sentences=52), "its variations have 53"),
        (lambda d: d["concepts"][0].update(sentences=True), "must be a whole number"),
        (lambda d: d["concepts"][1]["variations"].pop(), "(see): there are rules for 1 variation"),
        (
            lambda d: d["concepts"][1]["variations"][1].update(variation="gesien"),
            "(see): a variation is repeated",
        ),
        (lambda d: d["concepts"][1]["variations"][1].update(rule=" "), "variation 2: the rule is empty"),
        (lambda d: d["concepts"][1]["variations"][1].update(rule=["x"]), "must be a string"),
        (lambda d: d["concepts"][1]["variations"][1].update(rule="x" * 4001), "4001 characters"),
        (lambda d: d["concepts"][1]["variations"][1].update(rule="\ud800"), "surrogate"),
        (lambda d: d["concepts"][1]["variations"][1].update(sentences=-1), "sentences is -1"),
        (lambda d: d["concepts"].append(7), "concept 3: not a JSON object"),
    ],
)
def test_damaged_files(change: Any, says: str) -> None:
    """A file damaged in an editor is reported in one line with file and location."""
    data = json.loads(FILE.to_json())
    change(data)
    with pytest.raises(DataError) as caught:
        parse_rules_file(json.dumps(data), "my.json")
    assert says in str(caught.value)
    assert str(caught.value).startswith("my.json: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1, "a": 2}', '{"a": NaN}', "[" * 100_000])
def test_text_that_is_not_a_rules_file(text: str) -> None:
    """Text that is not a JSON object of this kind is refused in one line."""
    with pytest.raises(DataError, match=r"\Amy\.json: [^\n]*\Z"):
        parse_rules_file(text, "my.json")


def test_two_concepts_with_one_spelling() -> None:
    """A noun and a verb may share their spelling, and each item gets the rules of its own concept."""
    noun = ConceptRules("play", "NOUN", (Rule("a", "n1"), Rule("b", "n2")))
    verb = ConceptRules("play", "VERB", (Rule("a", "v1"), Rule("b", "v2")))
    other = ConceptRules("play", "", (Rule("c", "1"), Rule("d", "2")))
    rules = parse_rules_file(RulesFile("af", "m", (noun, verb, other)).to_json(), "x")
    assert rules.find("play", [["b"], ["a"]], "VERB") == verb
    assert rules.find("play", [["b"], ["a"]], "NOUN") == noun
    assert rules.find("play", [["c"], ["d"]], "VERB") == other
    assert rules.find("play", [["a"], ["d"]]) is None


def test_order_of_variations_and_forms_does_not_matter() -> None:
    """The order of variations and of their forms does not matter, but a different form does."""
    entry = FILE.concepts[0]
    assert entry.fits("live", (("woon",), ("lewe", "leef")))
    assert not entry.fits("live", (("woon",), ("lewe",)))
    assert not entry.fits("love", LIVE)
    assert entry.texts() == {"leef/lewe": "to be alive", "woon": "to dwell"}


@pytest.mark.parametrize(
    ("language", "concepts", "says"),
    [
        ("hy", [("live", "VERB", LIVE)], "rules for 'af', not 'hy'"),
        ("af", [("live", "VERB", LIVE), ("time", "NOUN", (("keer",), ("tyd",)))], "'time'"),
        ("af", [("see", "VERB", (*SEE, ("kyk",)))], "other variations"),
        ("af", [("time", "", LIVE), ("day", "", LIVE), ("man", "", LIVE)], "and 2 more"),
    ],
)
def test_rules_for_other_concepts(language: str, concepts: Any, says: str) -> None:
    """A rules file that lacks a concept, has other variations or is for another language is refused."""
    with pytest.raises(UsageError) as caught:
        check_covers(FILE, language, concepts, "my.json")
    assert says in str(caught.value)
    assert str(caught.value).startswith("my.json: ")


def test_rules_may_cover_more_concepts() -> None:
    """A file may cover more concepts than are selected."""
    check_covers(FILE, "af", [("see", "VERB", SEE)], "my.json")


@pytest.mark.parametrize(
    "reply",
    [
        '{"leef/lewe": "alive", "woon": "dwell"}',
        '\n{"woon": " dwell ", "leef/lewe": "alive"}\n',
        '```json\n{"leef/lewe": "alive", "woon": "dwell"}\n```',
        '```\n{"leef/lewe": "alive",\n "woon": "dwell"}```',
    ],
)
def test_replies_that_can_be_used(reply: str) -> None:
    """JSON is accepted alone, in any order, or inside fences; the rules get the item's order."""
    reply_rules = read_rules_reply(reply, LIVE)
    assert reply_rules.texts == {"leef/lewe": "alive", "woon": "dwell"}
    assert not reply_rules.problem
    assert list(reply_rules.texts) == ["leef/lewe", "woon"]
    assert reply_rules.fenced == reply.startswith("```")


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("", "empty"),
        ("Sure! {}", "not JSON"),
        ('Here it is:\n```json\n{"leef/lewe": "a", "woon": "b"}\n```', "not JSON"),
        ('{"leef/lewe": "a", "woon": "b"} I hope this helps', "not JSON"),
        ('["a", "b"]', "not a JSON object"),
        ('{"leef/lewe": "a"}', "'woon' is missing"),
        ('{"leef": "a", "lewe": "a", "woon": "b"}', "'leef/lewe' is missing"),
        ('{"leef/lewe": "a", "woon": "b", "note": "c"}', "'note' was not asked for"),
        ('{"leef/lewe": "a", "woon": "b", "woon": "c"}', "'woon' occurs twice"),
        ('{"leef/lewe": "a", "woon": {"rule": "b"}}', "'woon' is not a text"),
        ('{"leef/lewe": "", "woon": "b"}', "'leef/lewe' is not a text"),
        ('{"leef/lewe": "a", "woon": NaN}', "not JSON"),
        ('{"leef/lewe": "a", "woon": "\\ud800"}', "surrogate"),
        (json.dumps({"leef/lewe": "a", "woon": "b" * (LONGEST_RULE + 1)}), "longer than"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_replies_that_cannot_be_used(reply: str, says: str) -> None:
    """Text around the JSON, wrong or repeated keys, and values that are not texts give a short problem."""
    reply_rules = read_rules_reply(reply, LIVE)
    assert reply_rules.texts is None
    assert says in reply_rules.problem
    assert "\n" not in reply_rules.problem
    assert len(reply_rules.problem) < 200


def test_keys_without_joiners() -> None:
    """A key without its zero-width joiner is accepted, and the rule keeps the item's spelling."""
    reply_rules = read_rules_reply('{"مهمترین": "a", "ترين": "b"}', (("مهم‌ترین",), ("ترين",)))
    assert reply_rules.texts == {"مهم‌ترین": "a", "ترين": "b"}


def test_keys_that_are_equal_after_folding() -> None:
    """Variations that differ only in Unicode form keep their own rules."""
    composed, decomposed = "இப்போது", "இப்\u0baa\u0bc7\u0bbeது"
    reply = json.dumps({decomposed: "second", composed: "first"})
    assert read_rules_reply(reply, ((composed,), (decomposed,))).texts == {
        composed: "first",
        decomposed: "second",
    }
    assert "missing" in read_rules_reply(json.dumps({composed: "one"}), ((composed,), (decomposed,))).problem


@given(st.text(max_size=80))
def test_any_reply_is_read(reply: str) -> None:
    """Any reply yields either complete rules or a problem."""
    reply_rules = read_rules_reply(reply, LIVE)
    assert (reply_rules.texts is None) == bool(reply_rules.problem)
