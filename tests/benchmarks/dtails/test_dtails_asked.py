"""From a logged prompt back to what it was made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails import prompts
from pytest_llmprops.benchmarks.dtails.asked import (
    RuleGeneration,
    Selection,
    read_list,
    read_rule_generation,
    read_selection,
    read_translation,
)
from pytest_llmprops.benchmarks.dtails.text import quoted_list

NAMES = ("woon", "leef/lewe")
FORMS = (("woon",), ("leef", "lewe"))
RULES = {"leef/lewe": 'to be "alive"\nand \u200cwell', "woon": "to dwell: ['x']"}
SHOWN = prompts.shown_rules(RULES)

#: quotes, brackets, commas, line ends and right-to-left letters among the rest
TEXTS = st.text(
    st.one_of(st.sampled_from("\"'[],/:\n\\`{} ۀخر"), st.characters(exclude_categories=("Cs",))), max_size=40
)
WORDS = st.text(
    st.characters(categories=("L", "Mn", "Zs"), include_characters="/-\u200c"), min_size=1, max_size=12
)


@given(WORDS, TEXTS, st.lists(WORDS, min_size=1, max_size=5), st.booleans())
def test_a_choices_prompt_is_read_back(concept: str, sentence: str, names: list[str], retry: bool) -> None:
    """Whatever the sentence holds, concept, sentence and order come back, also from a retry."""
    forms = [(name,) for name in names]
    prompt = prompts.selection(concept, sentence, forms)
    if retry:
        prompt = prompts.retried(prompt, forms)
    assert read_selection(prompt) == Selection(concept, sentence, tuple(names), retried=retry)


@given(WORDS, TEXTS, st.dictionaries(WORDS, TEXTS, min_size=1, max_size=4))
def test_rules_are_read_back(concept: str, sentence: str, rules: dict[str, str]) -> None:
    """A prompt with rules gives them back, whatever they say."""
    forms = [(name,) for name in rules]
    prompt = prompts.selection(concept, sentence, forms, language="Farsi", rules=prompts.shown_rules(rules))
    assert read_selection(prompt) == Selection(concept, sentence, tuple(rules), "Farsi", rules)


def test_a_sentence_that_quotes_a_prompt() -> None:
    """A sentence that looks like the prompt's own end does not end the sentence."""
    trap = prompts.selection("live", "They live here.", FORMS)
    for sentence in (trap, prompts.retried(trap, FORMS), f'{trap}" in "'):
        for rules in ("", SHOWN):
            prompt = prompts.selection(
                "live", sentence, FORMS, language="Afrikaans" if rules else "", rules=rules
            )
            found = read_selection(prompt)
            assert found is not None
            assert (found.sentence, found.names, found.retried) == (sentence, NAMES, False)


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("sentences", [{}, {"woon": ("They 'live' in [Paris].", "B"), "leef/lewe": ()}])
def test_a_prompt_for_rules_is_read_back(sentences: dict[str, tuple[str, ...]], repair: bool) -> None:
    """Concept, variations and example sentences come back, also where a problem stands behind the prompt."""
    prompt = prompts.rule_generation("live", FORMS, "Afrikaans", sentences)
    if repair:
        prompt = prompts.repaired(prompt, "it is not JSON")
    assert read_rule_generation(prompt) == RuleGeneration("live", NAMES, "Afrikaans", sentences)
    assert read_selection(prompt) is None


def test_a_translations_prompt_is_read_back() -> None:
    """The sentence comes back whole, with its line ends."""
    prompt = prompts.translation("They live\nfrom English to here.", "Farsi")
    assert read_translation(prompt) == "They live\nfrom English to here."
    assert read_selection(prompt) is None
    assert read_translation(prompt.replace("Return", "Give")) is None


@pytest.mark.parametrize(
    "change", [str.upper, lambda text: text + " ", lambda text: text[1:], lambda text: ""]
)
def test_another_wording_is_not_read(change: object) -> None:
    """A prompt that is not in this version's words gives nothing rather than something near it."""
    assert callable(change)
    assert read_selection(change(prompts.selection("live", "Here.", FORMS))) is None
    assert (
        read_selection(change(prompts.selection("live", "Here.", FORMS, language="Farsi", rules=SHOWN)))
        is None
    )
    assert (
        read_rule_generation(change(prompts.rule_generation("live", FORMS, "Farsi", {"woon": ("A",)})))
        is None
    )


@given(st.lists(TEXTS, max_size=4))
def test_a_list_is_read_back_or_not_at_all(names: list[str]) -> None:
    """No list is read as another one; without quotes and brackets in its texts every list is read."""
    found = read_list(quoted_list(names))
    assert found in (None, tuple(names))
    if not any(mark in name for name in names for mark in "'\""):
        assert found == tuple(names)


@pytest.mark.parametrize(
    "text", ["", "[", "[]]", "['a'", "['a' 'b']", "['a',]", '["a"]', "[a]", "['a', b]", "[''''']"]
)
def test_what_is_no_list_of_ours(text: str) -> None:
    """Anything but the list as the prompts print it is no list."""
    assert read_list(text) is None
