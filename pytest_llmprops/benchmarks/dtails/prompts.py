"""The paper's prompts (Barua et al., figures 7 to 9 and appendix B.3) and the order of their variations.

The wording is the paper's, its lost spaces put back. What its placeholders look like is not stated: a list of
variations is printed as in the authors' files (``['gesien', 'sien']``, forms joined by ``/``), rules and
sentences as a JSON object with the variations as keys. A system prompt goes in front of the user turn, after
which a line ends: the paper does so for models without a system role, and here every model reads the same text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pytest_llmprops.benchmarks.dtails.text import quoted_list
from pytest_llmprops.core.seeds import generator

Variations = Sequence[Sequence[str]]

LANGUAGE_NAMES = {
    "af": "Afrikaans",
    "fa": "Farsi",
    "gl": "Galician",
    "hi": "Hindi",
    "hy": "Armenian",
    "ja": "Japanese",
    "lv": "Latvian",
    "ta": "Tamil",
    "te": "Telugu",
}


def language_name(code: str) -> str:
    """The English name of a language of the paper; any other code as it is."""
    return LANGUAGE_NAMES.get(code, code)


def variation_name(forms: Sequence[str]) -> str:
    """A variation as the prompts and files write it: its forms joined by ``/``."""
    return "/".join(forms)


def shown_order(count: int, seed: int, item_id: str, run: int = 0) -> tuple[int, ...]:
    """In which order ``count`` variations are shown: a shuffle of 0 to count - 1 seeded by (seed, item, run)."""
    order = list(range(count))
    generator(seed, item_id, "order", run).shuffle(order)
    return tuple(order)


def selection(
    concept: str, sentence: str, variations: Variations, *, language: str = "", rules: str = ""
) -> str:
    """Figure 7, or figure 8 where there are ``rules``: which variation translates the concept here?

    :param variations: in the order to be shown.
    :param language: name of the target language; only rules speak of it.
    :param rules: the text of :func:`shown_rules`.
    """
    ask = "Based on the provided rules, please select" if rules else "Please select"
    user = (
        f'{ask} the best translation of "{concept}" in "{sentence}" from the following list:'
        f" {_names(variations)}. Carefully explain your reasoning first and then enclose your final answer"
        " like this ```answer```."
    )
    if not rules:
        return user
    return merged(f'Here are rules for how to translate "{concept}" in {language}: {rules}', user)


def retried(prompt: str, variations: Variations) -> str:
    """The prompt that goes out once more after a reply outside of the template (appendix B.3)."""
    return f"{prompt} Please enclose your selected translation from {_names(variations)} with 3 back ticks."


def rule_generation(
    concept: str, variations: Variations, language: str, sentences: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Figure 9: how do the variations differ? Strict JSON is asked for.

    :param language: name of the target language.
    :param sentences: English sentences for each variation's name. Where there are none at all the prompt's last
        sentence is left out.
    """
    names = _names(variations)
    system = (
        f"Please only return a json with the following keys {names} and no other text. For each key the value"
        f" should be a string in English explaining how the meaning and usage of that {language} word is"
        " different from the others. The string should also include a brief example in"
        f" {language} of the word being used with an English translation. Please include the transliteration"
        f" from {language} to Latin characters if necessary."
    )
    user = (
        f'When translating the concept "{concept}" from English to {language}, what is the difference in meaning'
        f" between {names} and in which contexts should they be used?"
    )
    if sentences and any(sentences.values()):
        given = {name: list(sentences.get(name, ())) for name in map(variation_name, variations)}
        user += (
            " Here are sentences where each word is used in-context to help you:"
            f" {json.dumps(given, ensure_ascii=False)}"
        )
    return merged(system, user)


def repaired(prompt: str, problem: str) -> str:
    """The prompt for rules that goes out once more, saying what was wrong with the reply (not in the paper)."""
    return f"{prompt} Your last reply could not be used: {problem}. Please return only the json."


def translation(sentence: str, language: str) -> str:
    """What a chat model is asked as a translator (the paper has only translation models, without a prompt)."""
    return (
        f"Please translate the following sentence from English to {language}."
        f" Return only the translation and no other text.\n{sentence}"
    )


def shown_rules(rules: Mapping[str, str]) -> str:
    """Rules by variation name as they stand in figure 8's prompt: a JSON object in its own characters."""
    return json.dumps(dict(rules), ensure_ascii=False)


def merged(system: str, user: str) -> str:
    """A system prompt in front of the user's."""
    return f"{system}\n{user}"


def _names(variations: Variations) -> str:
    return quoted_list([variation_name(forms) for forms in variations])
