"""Rules from another model or a person (dtails.rules=FILE): what is accepted and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.rules import ConceptRules, Rule, RulesFile
from pytest_llmprops.core.errors import DataError, UsageError
from tests.support.dtails import row, write_language
from tests.support.dtails_cases import BENCHMARK, fenced, measured, prepared, prompt_of

SETTINGS = BENCHMARK.protocols["quick"].settings
WORDS = "live,VERB,leef/lewe;woon\n"
RULES = (Rule("woon", "to dwell", 2), Rule("lewe/leef", "to be alive", 0))


def write_rules(
    path: Path, language: str = "af", concept: str = "live", rules: tuple[Rule, ...] = RULES
) -> str:
    path.write_text(
        RulesFile(language, "m", (ConceptRules(concept, "VERB", rules),)).to_json(), encoding="utf-8"
    )
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two languages with one concept each."""
    write_language(tmp_path, "hy", [row(sentence="We live.")])
    return write_language(tmp_path, "af", [row()], words=WORDS)


def test_prompt_has_the_rules_of_the_file(data: Path) -> None:
    """The prompt has the file's rules with one call per item, and the number of their sentences is kept."""
    file = write_rules(data / "af.json")
    part = prepared(data, file)
    subject = next(item for item in part.items if item.id == "dtails/af/live/g01")
    outcome, [request] = measured(subject, lambda r: fenced("woon"), case_context=part.context, rules=file)
    assert prompt_of(request).startswith(
        'Here are rules for how to translate "live" in Afrikaans:'
        '{"woon": "to dwell", "lewe/leef": "to be alive"}\nBased on the provided rules, please select'
    )
    assert outcome.verdict is not None
    assert outcome.verdict.status == "correct"
    assert (outcome.verdict.values["rules_read"], outcome.verdict.values["sentences"]) == (1.0, 2.0)


def test_a_file_for_each_language(data: Path) -> None:
    """Files joined by commas are matched to languages by the language that each file declares."""
    paths = f"{write_rules(data / 'one.json', 'hy')}, {write_rules(data / 'two.json')}"
    part = prepared(data, paths)
    assert sorted(part.context.rules) == ["af", "hy"]
    BENCHMARK.check_selected(part.items, part.context, SETTINGS)


def test_edited_file_is_used(data: Path) -> None:
    """The model sees the edits that a person makes to the file."""
    file = data / "af.json"
    write_rules(file)
    edited = json.loads(file.read_text(encoding="utf-8"))
    edited["concepts"][0]["variations"][0]["rule"] = "where one's house is — «huis»"
    file.write_text(json.dumps(edited), encoding="utf-8")
    part = prepared(data, str(file))
    _, [request] = measured(
        part.items[0], lambda r: fenced("woon"), case_context=part.context, rules=str(file)
    )
    assert "where one's house is — «huis»" in prompt_of(request)


def refusal(data: Path, paths: str, *, select: str = "dtails") -> str:
    """Return the one-line message that refuses rules for the items whose id begins with ``select``."""

    def check() -> None:
        part = prepared(data, paths)
        items = [item for item in part.items if item.id.startswith(select)]
        BENCHMARK.check_selected(items, part.context, SETTINGS)

    with pytest.raises((DataError, UsageError)) as caught:
        check()
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_two_files_for_one_language_are_refused(data: Path) -> None:
    paths = f"{write_rules(data / 'a.json')},{write_rules(data / 'b.json')}"
    assert "two files for 'af'" in refusal(data, paths)


def test_a_language_without_rules(data: Path) -> None:
    """A selected language without a file is named with both fixes; an unselected one is not mentioned."""
    file = write_rules(data / "af.json")
    message = refusal(data, file)
    assert f"dtails.rules={file}: rules for af, not for 'hy'" in message
    assert "-k dtails/af" in message
    part = prepared(data, file)
    own = [item for item in part.items if item.language == "af"]
    BENCHMARK.check_selected(own, part.context, SETTINGS)


def test_translations_need_no_rules(data: Path) -> None:
    """Items of translate use no rules, so no file has to cover them."""
    part = prepared(data, write_rules(data / "af.json", concept="other"))
    BENCHMARK.check_selected([i for i in part.items if i.task == "translate"], part.context, SETTINGS)


@pytest.mark.parametrize(
    ("rules", "concept", "said"),
    [
        (RULES, "see", "rules for other concepts: 'live' ('leef/lewe, woon') is not in this file"),
        (
            (Rule("woon", "a"), Rule("leef", "b")),
            "live",
            "'live' ('leef/lewe, woon') has other variations in this file",
        ),
    ],
)
def test_rules_for_other_concepts(data: Path, rules: tuple[Rule, ...], concept: str, said: str) -> None:
    """A file that does not fit the selected concepts is named with the command that makes a new one."""
    file = write_rules(data / "af.json", concept=concept, rules=rules)
    message = refusal(data, file, select="dtails/af")
    assert message.startswith(file)
    assert said in message
    assert "llmprops dtails rules --lang af" in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b" \n", "the file is empty"),
        (b"{", "not JSON"),
        (b'{"format": "dtails-rules 9"}', "is missing"),
        ('{"é": 1}'.encode("latin-1"), "not UTF-8"),
    ],
)
def test_files_that_are_not_rules_files(data: Path, content: bytes | None, said: str) -> None:
    """A missing, empty or damaged file is named in one line."""
    file = data / "my rules.json"
    if content is not None:
        file.write_bytes(content)
    message = refusal(data, str(file))
    assert message.startswith(f"{file}: ")
    assert said in message


def test_two_concepts_with_one_spelling(tmp_path: Path) -> None:
    """A noun and a verb with the same spelling and list get the rules of their own part of speech."""
    verb, noun = "['bou', 'oprig']", "['gebou', 'bouwerk']"
    rows = [
        row(concept="build", variations=verb, label="bou"),
        row(concept="build", variations=noun, label="gebou", sentence="A build."),
    ]
    write_language(tmp_path, "af", rows, words="build,VERB,bou;oprig\nbuild,NOUN,gebou;bouwerk\n")
    concepts = (
        ConceptRules("build", "NOUN", (Rule("gebou", "n"), Rule("bouwerk", "n"))),
        ConceptRules("build", "VERB", (Rule("bou", "v"), Rule("oprig", "v"))),
    )
    file = tmp_path / "af.json"
    file.write_text(RulesFile("af", "m", concepts).to_json(), encoding="utf-8")
    part = prepared(tmp_path, str(file))
    BENCHMARK.check_selected(part.items, part.context, SETTINGS)
    rule_texts = {i["pos"]: part.context.rules_of(i).rules[0].text for i in part.items}
    assert rule_texts == {"VERB": "v", "NOUN": "n"}


def test_rules_of_the_same_part_of_speech(data: Path) -> None:
    """If a file has the same variations for two parts of speech, an item gets the rules of its own."""
    concepts = [
        ConceptRules("live", pos, (Rule("woon", pos), Rule("leef/lewe", pos))) for pos in ("ADJ", "VERB")
    ]
    file = data / "af.json"
    file.write_text(RulesFile("af", "m", tuple(concepts)).to_json(), encoding="utf-8")
    part = prepared(data, str(file))
    own = next(item for item in part.items if item.language == "af")
    assert own["pos"] == "VERB"
    assert part.context.rules_of(own).pos == "VERB"
