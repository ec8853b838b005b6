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
from tests.support.dtails import row, write_language
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
        ([], {"model": None}, "write an object with the keys format, language, model, concepts"),
        ([], {"extra": 1}, "'format, language, model, concepts, extra'; write an object"),
        ([], {"format": "dtails-rules 2"}, 'reads "dtails-rules 1"'),
        ([], {"concepts": {}}, "concepts is '{}'; write a list"),
        ([], {"concepts": []}, "no concepts"),
        (["concepts"], {2: json.loads(FILE.to_json())["concepts"][0]}, "concept 3: 'live' is repeated"),
        (["concepts"], {2: 7}, "concept 3: '7'; write an object"),
        (["concepts", 0], {"concept": ""}, "concept 1: concept is ''; write a text"),
        (["concepts", 1, "variations"], {1: None}, "(see): write at least two variations"),
        (
            ["concepts", 1, "variations", 1],
            {"variation": "gesien"},
            "(see): write at least two variations, each once",
        ),
        (["concepts", 1, "variations", 1], {"rule": ["x"]}, "variation 2: rule is"),
        (["concepts", 1, "variations", 1], {"rule": "x" * 4001}, "a rule of at most 4000 characters"),
        (["concepts", 1, "variations", 1], {"rule": "\ud800"}, "write a text"),
        (["concepts", 1, "variations", 1], {"sentences": -1}, "write sentences from 0"),
        (["concepts", 1, "variations", 1], {"sentences": True}, "sentences is 'True'; write a whole number"),
    ],
)
def test_damaged_files(path: list[Any], changes: dict[Any, Any], says: str) -> None:
    """A file damaged in an editor is reported in one line with file and location."""
    data = part = json.loads(FILE.to_json())
    for place in path:
        part = part[place]
    for key, value in changes.items():
        if value is None:
            part.pop(key)
        elif isinstance(part, list):
            part.append(value)
        else:
            part[key] = value
    with pytest.raises(DataError, match=rf"\Amy\.json: [^\n]*{re.escape(says)}[^\n]*\Z"):
        parse_rules_file(json.dumps(data), "my.json")


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000])
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


@pytest.mark.parametrize(
    "reply",
    [
        '\n{"woon": " dwell ", "leef/lewe": "alive"}\n',
        '```\n{"leef/lewe": "alive",\n "woon": "dwell"}```',
    ],
)
def test_replies_that_can_be_used(reply: str) -> None:
    """JSON is accepted alone, in any order, or inside fences; the rules get the item's order."""
    assert list(read_rules(reply, NAMES).items()) == [("leef/lewe", "alive"), ("woon", "dwell")]


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


def test_keys_without_joiners() -> None:
    """A key without its zero-width joiner is accepted, and the rule keeps the item's spelling."""
    texts = read_rules('{"مهمترین": "a", "ترين": "b"}', ("مهم‌ترین", "ترين"))
    assert texts == {"مهم‌ترین": "a", "ترين": "b"}


def test_keys_that_are_equal_after_folding() -> None:
    """Variations that differ only in Unicode form keep their own rules."""
    composed, decomposed = "இப்போது", "இப்\u0baa\u0bc7\u0bbeது"
    reply = json.dumps({decomposed: "second", composed: "first"})
    assert read_rules(reply, (composed, decomposed)) == {composed: "first", decomposed: "second"}
    with pytest.raises(ValueError, match="missing"):
        read_rules(json.dumps({composed: "one"}), (composed, decomposed))


SETTINGS = BENCHMARK.protocols["quick"].settings
GIVEN = (Rule("woon", "to dwell", 2), Rule("lewe/leef", "to be alive", 0))


def write_rules(path: Path, language: str = "af", *, concept: str = "live") -> str:
    text = RulesFile(language, "m", (ConceptRules(concept, "VERB", GIVEN),)).to_json()
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two languages with one concept each."""
    write_language(tmp_path, "hy", [row(sentence="We live.")])
    return write_language(tmp_path, "af", [row()], words="live,VERB,leef/lewe;woon\n")


def refusal(data: Path, paths: str) -> str:
    """Return the one-line message that refuses rules."""

    def check() -> None:
        part = prepared(data, paths)
        BENCHMARK.check_selected(part.items, part.context, replace(SETTINGS, rules=paths))

    with pytest.raises((DataError, UsageError)) as caught:
        check()
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_languages_of_files(data: Path) -> None:
    """A second file for a language, and a selected language without a file, are named with the fix."""
    file, other = write_rules(data / "af.json"), write_rules(data / "b.json")
    assert "two files for 'af'" in refusal(data, f"{file},{other}")
    message = refusal(data, file)
    assert f"dtails.rules={file}: rules for af, not for 'hy'" in message
    assert "-k dtails/af" in message
    part = prepared(data, file)
    own = [item for item in part.items if item.language == "af"]
    BENCHMARK.check_selected(own, part.context, replace(SETTINGS, rules=file))
    other = write_rules(data / "c.json", concept="love")
    both = f"{other},{write_rules(data / 'd.json', 'hy', concept='love')}"
    message = refusal(data, both)
    assert "no rules for 'live' with the variations 'leef/lewe, woon' and 1 more" in message
    assert "`llmprops lab dtails rules --lang af`" in message


def test_translations_need_no_rules(data: Path) -> None:
    """Items of translate use no rules, so no file has to cover them."""
    file = write_rules(data / "af.json", concept="other")
    part = prepared(data, file)
    translated = [item for item in part.items if item.task == "translate"]
    BENCHMARK.check_selected(translated, part.context, replace(SETTINGS, rules=file))
