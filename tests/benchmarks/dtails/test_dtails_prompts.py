"""The paper's prompts, word for word."""

from __future__ import annotations

from collections import Counter

from pytest_llmprops.benchmarks.dtails import prompts

LIVE = (("woon",), ("leef", "lewe"))


def test_selection_without_rules() -> None:
    """Figure 7: concept, sentence and list, reasoning first, the answer between three backticks."""
    assert prompts.selection("live", "They live here.", LIVE) == (
        'Please select the best translation of "live" in "They live here." from the following list:'
        " ['woon', 'leef/lewe']. Carefully explain your reasoning first and then enclose your final answer like"
        " this ```answer```."
    )


def test_selection_with_rules() -> None:
    """Figure 8: the rules come directly after a colon and before the question, which refers to them."""
    rules = prompts.shown_rules({"leef/lewe": "to be alive", "woon": "to dwell"})
    prompt = prompts.selection("live", "They live here.", LIVE, language="Afrikaans", rules=rules)
    system, user = prompt.split("\n")
    assert system == (
        'Here are rules for how to translate "live" in Afrikaans:'
        '{"leef/lewe": "to be alive", "woon": "to dwell"}'
    )
    assert user.startswith(
        'Based on the provided rules, please select the best translation of "live" in "They'
    )
    assert user.endswith("```answer```.")


def test_retry() -> None:
    """The retry is the prompt followed by the paper's sentence."""
    first = prompts.selection("live", "They live here.", LIVE)
    assert prompts.retried(first, LIVE) == (
        first + " Please enclose your selected translation from ['woon', 'leef/lewe'] with 3 back ticks."
    )


def test_rule_generation() -> None:
    """Figure 9, with and without sentences; without them its last sentence is omitted."""
    without_sentences = prompts.rule_generation("live", LIVE, "Afrikaans")
    assert without_sentences.startswith(
        "Please only return a json with the following keys ['woon', 'leef/lewe'] and no other text. For each key"
        " the value should be a string in English explaining how the meaning and usage of that Afrikaans word is"
        " different from the others. The string should also include a brief example in Afrikaans of the word"
        " being used with an English translation. Please include the transliteration from Afrikaans to Latin"
        " characters if necessary. "
    )
    assert without_sentences.endswith(
        'When translating the concept "live" from English to Afrikaans, what is the difference in meaning between'
        ' "woon" and "leef/lewe" and in which contexts should they be used?'
    )
    assert (
        prompts.rule_generation("live", LIVE, "Afrikaans", {"woon": (), "leef/lewe": ()}) == without_sentences
    )
    full = prompts.rule_generation("live", LIVE, "Afrikaans", {"woon": ("We live in 'Paris'.",)})
    assert full == (
        without_sentences + " Here are sentences where each word is used in context to help you:"
        " {'woon': [\"We live in 'Paris'.\"], 'leef/lewe': []}"
    )


def test_names_and_sentences_in_the_prompt_for_rules() -> None:
    """Three names are joined by commas and "and"; a sentence with both kinds of quotes is escaped as in Python."""
    prompt = prompts.rule_generation("x", [["a"], ["b"], ["c"]], "Afrikaans", {"a": ['It\'s "a".']})
    assert ' between "a", "b", and "c" and in which contexts' in prompt
    assert prompt.endswith(""" to help you: {'a': ['It\\'s "a".'], 'b': [], 'c': []}""")


def test_prompts_are_not_escaped() -> None:
    """A zero-width non-joiner, right-to-left and Japanese text reach the model unescaped."""
    shown = prompts.selection("most", "Most of it", [["مهم‌ترین"], ["美術"]])
    rules = prompts.shown_rules({"مهم‌ترین": "美術"})
    for text in (shown, rules):
        assert "مهم‌ترین" in text
        assert "美術" in text
        assert "\\" not in text


def test_orders_are_seeded_and_uniform() -> None:
    """Equal keys give equal orders, different keys and seeds different ones; all orders are equally frequent."""
    order = prompts.shown_order
    assert order(4, 1, "dtails/af/see/01", 2) == order(4, 1, "dtails/af/see/01", 2)
    runs = Counter(order(3, 7, f"dtails/af/see/{i}", run) for i in range(400) for run in range(3))
    assert len(runs) == 6
    assert all(150 < count < 250 for count in runs.values())
    assert not any(order(2, 0, str(i), 0) == order(2, 0, str(i), 1) for i in range(400)), (
        "the next run turns it"
    )
    assert 150 < sum(order(2, 0, str(i)) == order(2, 1, str(i)) for i in range(400)) < 250


def test_language_names() -> None:
    """The nine languages of the paper have names, and any other language is called by its code."""
    assert prompts.language_name("fa") == "Farsi"
    assert prompts.language_name("el") == "el"
    assert len(prompts.LANGUAGE_NAMES) == 9
