"""The paper's prompts (Barua et al., figures 7 to 9 and appendix B.3) and the order of their variations.

The wording is the paper's, with its lost spaces restored. The paper does not show what its placeholders look like.
Here, a list of variations is printed as in the authors' files (``['gesien', 'sien']``, forms joined by ``/``), and
rules and sentences are JSON objects with the variations as keys. The system prompt is put before the user prompt,
separated by a newline. The paper does this for models without a system role; here, every model gets the same text.
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
    """Return the English name of one of the paper's languages; any other code is returned unchanged."""
    return LANGUAGE_NAMES.get(code, code)


def variation_name(forms: Sequence[str]) -> str:
    """Return a variation as the prompts and files write it: its forms joined by ``/``."""
    return "/".join(forms)


def shown_order(count: int, seed: int, item_id: str, run: int = 0) -> tuple[int, ...]:
    """Return the order in which variations are shown: a shuffle of 0 to count - 1, seeded by (seed, item, run)."""
    order = list(range(count))
    generator(seed, item_id, "order", run).shuffle(order)
    return tuple(order)


def selection(
    concept: str, sentence: str, variations: Variations, *, language: str = "", rules: str = ""
) -> str:
    """Return the prompt for a choice: figure 7, or figure 8 with ``rules``.

    :param variations: In the order to be shown.
    :param language: Name of the target language; only used with rules.
    :param rules: The text from :func:`shown_rules`.
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
    """Return the prompt to send again after a reply that does not follow the template (appendix B.3)."""
    return f"{prompt} Please enclose your selected translation from {_names(variations)} with 3 back ticks."


def rule_generation(
    concept: str, variations: Variations, language: str, sentences: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Return the prompt for rules on how the variations differ (figure 9). It asks for strict JSON.

    :param language: Name of the target language.
    :param sentences: English sentences by variation name. Without any sentence, the prompt's last part is left out.
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
        examples = {name: list(sentences.get(name, ())) for name in map(variation_name, variations)}
        user += (
            " Here are sentences where each word is used in-context to help you:"
            f" {json.dumps(examples, ensure_ascii=False)}"
        )
    return merged(system, user)


def repaired(prompt: str, problem: str) -> str:
    """Return the prompt for rules to send again, with the problem of the last reply (not in the paper)."""
    return f"{prompt} Your last reply could not be used: {problem}. Please return only the json."


def translation(sentence: str, language: str) -> str:
    """Return the prompt for a chat model as translator (the paper has only translation models, without a prompt)."""
    return (
        f"Please translate the following sentence from English to {language}."
        f" Return only the translation and no other text.\n{sentence}"
    )


def shown_rules(rules: Mapping[str, str]) -> str:
    """Return rules by variation name as figure 8's prompt shows them: a JSON object without escapes."""
    return json.dumps(dict(rules), ensure_ascii=False)


def merged(system: str, user: str) -> str:
    """Return the system prompt and the user prompt as one text."""
    return f"{system}\n{user}"


def _names(variations: Variations) -> str:
    return quoted_list([variation_name(forms) for forms in variations])
