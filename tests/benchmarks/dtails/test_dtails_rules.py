"""Rules files and rules in a model's reply: what is accepted and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.rules import (
    LONGEST_RULE,
    ConceptRules,
    Rule,
    RulesFile,
    parse_rules_file,
    read_rules,
)
from pytest_llmprops.core.errors import DataError, UsageError
from tests.support.dtails import row, rules_file, write_language
from tests.support.dtails_cases import BENCHMARK, prepared

NAMES = ("leef/lewe", "woon")
FILE = RulesFile(
    "af",
    "openai:gpt-4o",
    (
        ConceptRules("live", "VERB", (Rule("leef/lewe", "to be alive", 50), Rule("woon", "to dwell", 3))),
        ConceptRules("see", "VERB", (Rule("gesien", "seen", 0), Rule("sien", "see", 0))),
    ),
)
CONCEPT = json.loads(FILE.to_json())["concepts"][0]
LAST = ("concepts", 1, "variations", 1)


def test_file_round_trip() -> None:
    """A written file is read back unchanged, is indented and not escaped."""
    rules = RulesFile("fa", "m", (ConceptRules("most", "", (Rule("مهم‌ترین", "a\nb"), Rule("ترين", "c", 1))),))
    text = rules.to_json()
    assert parse_rules_file(text, "x") == rules
    assert parse_rules_file(FILE.to_json(), "x") == FILE
    assert "مهم‌ترین" in text
    assert text.endswith("}\n")
    assert text.count("\n") > 10


@pytest.mark.parametrize(
    ("path", "changes", "says"),
    [
        (
            (),
            {"extra": 1},
            "'format, language, model, concepts, extra'; write an object with the keys format, ",
        ),
        ((), {"format": "dtails-rules 2"}, 'reads "dtails-rules 1"'),
        ((), {"concepts": {}}, "concepts is '{}'; write a list"),
        ((), {"concepts": []}, "no concepts"),
        ((), {"concepts": [CONCEPT, CONCEPT]}, "concept 2: 'live' is repeated"),
        ((), {"concepts": [7]}, "concept 1: '7'; write an object"),
        (("concepts", 0), {"concept": ""}, "concept 1: concept is ''; write a text"),
        (("concepts", 1), {"variations": CONCEPT["variations"][:1]}, "(see): write at least two variations"),
        (LAST, {"variation": "gesien"}, "(see): write at least two variations, each once"),
        (LAST, {"rule": ["x"]}, "variation 2: rule is"),
        (LAST, {"rule": "x" * 4001}, "a rule of at most 4000 characters"),
        (LAST, {"rule": "\ud800"}, "write a text"),
        (LAST, {"sentences": -1}, "write sentences from 0"),
        (LAST, {"sentences": True}, "sentences is 'True'; write a whole number"),
    ],
)
def test_damaged_files(path: tuple[Any, ...], changes: dict[str, Any], says: str) -> None:
    """A file damaged in an editor is reported in one line with file and location; so is any other text."""
    data = part = json.loads(FILE.to_json())
    for place in path:
        part = part[place]
    part |= changes
    with pytest.raises(DataError, match=rf"\Amy\.json: [^\n]*{re.escape(says)}[^\n]*\Z"):
        parse_rules_file(json.dumps(data), "my.json")
    for text in ("[]", "{", "[" * 100_000):
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


def test_replies_that_can_be_used() -> None:
    """JSON is accepted alone, in any order, or inside fences; the rules get the item's order.

    A key without its zero-width joiner is accepted, and the rule keeps the item's spelling. Variations that differ
    only in Unicode form keep their own rules.
    """
    for reply in (
        '\n{"woon": " dwell ", "leef/lewe": "alive"}\n',
        '```\n{"leef/lewe": "alive",\n "woon": "dwell"}```',
    ):
        assert list(read_rules(reply, NAMES).items()) == [("leef/lewe", "alive"), ("woon", "dwell")]
    texts = read_rules('{"مهمترین": "a", "ترين": "b"}', ("مهم‌ترین", "ترين"))
    assert texts == {"مهم‌ترین": "a", "ترين": "b"}
    composed, decomposed = "இப்போது", "இப்\u0baa\u0bc7\u0bbeது"
    reply = json.dumps({decomposed: "second", composed: "first"})
    assert read_rules(reply, (composed, decomposed)) == {composed: "first", decomposed: "second"}
    with pytest.raises(ValueError, match="missing"):
        read_rules(json.dumps({composed: "one"}), (composed, decomposed))


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("", "empty"),
        ('Here it is:\n```json\n{"leef/lewe": "a", "woon": "b"}\n```', "not JSON"),
        ('["a", "b"]', "not a JSON object"),
        ('{"leef/lewe": "a"}', "'woon' is missing"),
        ('{"leef/lewe": "a", "woon": "b", "note": "c"}', "'note' was not asked for"),
        ('{"leef/lewe": "a", "woon": "b", "woon": "c"}', "'woon' occurs twice"),
        ('{"leef/lewe": "a", "woon": {"rule": "b"}}', "'woon' is not a text"),
        ('{"leef/lewe": "", "woon": "b"}', "'leef/lewe' is not a text"),
        ('{"leef/lewe": "a", "woon": "\\ud800"}', "'woon' is not a text"),
        (json.dumps({"leef/lewe": "a", "woon": "b" * (LONGEST_RULE + 1)}), "longer than"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_replies_that_cannot_be_used(reply: str, says: str) -> None:
    """Text around the JSON, wrong or repeated keys, and values that are not texts give a short problem."""
    with pytest.raises(ValueError, match=re.escape(says)) as caught:
        read_rules(reply, NAMES)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


SETTINGS = BENCHMARK.protocols["quick"].settings


def write_rules(path: Path, language: str = "af", *, concept: str = "live") -> str:
    texts = {"woon": "to dwell", "lewe/leef": "to be alive"}
    return str(rules_file(path, {concept: texts}, language))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two languages with one concept each."""
    write_language(tmp_path, "hy", [row(sentence="We live.")])
    return write_language(tmp_path, "af", [row()], words="live,VERB,leef/lewe;woon\n")


def refusal(data: Path, paths: str, task: str = "") -> str:
    """Return the one-line message that refuses rules for the items of a task, or of all; empty if they are accepted."""
    message = ""
    try:
        part = prepared(data, paths)
        asked = [item for item in part.items if task in item.task]
        BENCHMARK.check_selected(asked, part.context, replace(SETTINGS, rules=paths))
    except (DataError, UsageError) as error:
        message = str(error)
    assert "\n" not in message
    return message


def test_languages_of_files(data: Path) -> None:
    """A second file for a language, and a selected language or concept without rules, are named with the fix.

    Items of translate use no rules, so no file has to cover them.
    """
    file, other = write_rules(data / "af.json"), write_rules(data / "b.json")
    assert "two files for 'af'" in refusal(data, f"{file},{other}")
    message = refusal(data, file)
    assert f"dtails.rules={file}: rules for af, not for 'hy'" in message
    assert "-k dtails/af" in message
    assert refusal(data, file, "translate") == ""
    assert refusal(data, f"{file},{write_rules(data / 'e.json', 'hy')}") == ""
    other = write_rules(data / "c.json", concept="love")
    message = refusal(data, f"{other},{write_rules(data / 'd.json', 'hy', concept='love')}")
    assert "no rules for 'live' with the variations 'leef/lewe, woon' and 1 more" in message
    assert "`llmprops lab dtails rules --lang af`" in message
