"""The paper's prompts (Barua et al., figures 7 to 9 and appendix B.3) and the order of their variations.

The wording is the paper's. The paper does not show what its placeholders look like, and its text has lost spaces;
both follow the authors' code (``evaluate.py`` and ``generate_lexical_rules.py`` of Berkeley-NLP/Lex-Rules):

- A list of variations is printed like a Python list (``['gesien', 'sien']``, forms joined by ``/``), and as words in
  quotes (``"gesien" and "sien"``) in the question of the prompt for rules. Sentences are printed like a Python
  dictionary. Characters are never escaped.
- There is no space between ``Afrikaans:`` and the rules. The rules are the JSON object that the model wrote.
- The prompt for rules says "in context", where figure 9 has "in-context".
- For Gemma-1.1, whose chat template refuses system messages, the authors put the system prompt before the user prompt.
  Backends do this for every such model, and record it as a deviation.
- After rules that cannot be read, the problem is appended to the prompt in the words of the authors' code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pytest_llmprops.benchmarks.dtails.items import Slot
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.requests import Message

Variations = Sequence[Sequence[str]]
Prompt = tuple[Message, ...]

LANGUAGE_NAMES = {
    "af": "Afrikaans", "fa": "Farsi", "gl": "Galician", "hi": "Hindi", "hy": "Armenian", "ja": "Japanese",
    "lv": "Latvian", "ta": "Tamil", "te": "Telugu",
}  # fmt: skip


def language_name(code: str) -> str:
    """Return the English name of one of the paper's languages; any other code is returned unchanged."""
    return LANGUAGE_NAMES.get(code, code)


def variation_name(forms: Sequence[str]) -> str:
    """Return a variation as the prompts and files write it: its forms joined by ``/``."""
    return "/".join(forms)


def quoted_list(texts: Sequence[str]) -> str:
    """Return ``['a', 'b']``, as the authors' files print a list, but without escapes."""
    return "[" + ", ".join(map(quoted, texts)) + "]"


def quoted(text: str) -> str:
    """Return ``text`` in the quotes that Python prints, without escapes for characters that are not ASCII."""
    if "'" not in text:
        return f"'{text}'"
    return f'"{text}"' if '"' not in text else "'" + text.replace("'", "\\'") + "'"


def shown_order(
    count: int, seed: int, item_id: str, run: int = 0, slot: Slot | None = None
) -> tuple[int, ...]:
    """Return the order in which ``count`` variations are shown in a run (from 0), as indexes.

    :param slot: Balances the order over items; without it, the order is balanced over the runs of the item only.
    """
    order = [index for index in range(count) if slot is None or index != slot.label]
    generator(seed, item_id, "order", run // count).shuffle(order)
    if slot is not None:
        block, place = divmod(slot.rank, count)
        # The first position of the right variation for each item of the block.
        places = list(range(count))
        generator(seed, slot.group, "positions", block).shuffle(places)
        order.insert(places[place], slot.label)
    turn = -run % count
    return (*order[turn:], *order[:turn])


def selection(
    concept: str, sentence: str, variations: Variations, *, language: str = "", rules: str = ""
) -> Prompt:
    """Return the prompt for a choice: figure 7, or figure 8 with ``rules`` as the system prompt.

    :param variations: In the order to be shown.
    :param language: Name of the target language; only used with rules.
    :param rules: The text from :func:`shown_rules`.
    """
    user = Message(
        "user",
        f"{_question(concept, sentence, variations, rules)} Carefully explain your reasoning first and then enclose"
        " your final answer like this ```answer```.",
    )
    return (Message("system", _given_rules(concept, language, rules)), user) if rules else (user,)


def scored_selection(
    concept: str,
    sentence: str,
    variations: Variations,
    *,
    language: str = "",
    rules: str = "",
    is_base: bool = False,
) -> str:
    """Return the text whose most likely continuation is the choice; the arguments are those of :func:`selection`.

    :param is_base: For a base model.

    The question is the paper's; its end, which asks for an explanation there, is this project's.
    """
    end = "\nAnswer:" if is_base else " Answer with the translation and nothing else."
    question = _question(concept, sentence, variations, rules) + end
    return f"{_given_rules(concept, language, rules)}\n{question}" if rules else question


def _question(concept: str, sentence: str, variations: Variations, rules: str) -> str:
    ask = "Based on the provided rules, please select" if rules else "Please select"
    return (
        f'{ask} the best translation of "{concept}" in "{sentence}" from the following list:'
        f" {_names(variations)}."
    )


def _given_rules(concept: str, language: str, rules: str) -> str:
    return f'Here are rules for how to translate "{concept}" in {language}:{rules}'


def retried(prompt: Prompt, variations: Variations) -> Prompt:
    """Return the prompt to send again after a reply that does not follow the template (appendix B.3)."""
    return _continued(
        prompt, f"Please enclose your selected translation from {_names(variations)} with 3 back ticks."
    )


def _continued(prompt: Prompt, text: str) -> Prompt:
    return (*prompt[:-1], Message("user", f"{prompt[-1].content} {text}"))


def rule_generation(
    concept: str, variations: Variations, language: str, sentences: Mapping[str, Sequence[str]] | None = None
) -> Prompt:
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
        f" between {_in_words(variations)} and in which contexts should they be used?"
    )
    if sentences and any(sentences.values()):
        examples = ", ".join(
            f"{quoted(name)}: {quoted_list(sentences.get(name, ()))}"
            for name in map(variation_name, variations)
        )
        user += f" Here are sentences where each word is used in context to help you: {{{examples}}}"
    return (Message("system", system), Message("user", user))


def repaired(prompt: Prompt, problem: str) -> Prompt:
    """Return the prompt for rules to send again, with the problem of the last reply (as in the authors' code)."""
    return _continued(prompt, f"Please avoid the following error in your output: {problem}")


def translation(sentence: str, language: str) -> Prompt:
    """Return the prompt for a chat model as translator (the paper has only translation models, without a prompt)."""
    text = (
        f"Please translate the following sentence from English to {language}."
        f" Return only the translation and no other text.\n{sentence}"
    )
    return (Message("user", text),)


def shown_rules(rules: Mapping[str, str]) -> str:
    """Return rules by variation name as figure 8's prompt shows them: a JSON object without escapes."""
    return json.dumps(dict(rules), ensure_ascii=False)


def _names(variations: Variations) -> str:
    return quoted_list([variation_name(forms) for forms in variations])


def _in_words(variations: Variations) -> str:
    """Return ``"a" and "b"``, or ``"a", "b", and "c"``."""
    names = [f'"{variation_name(forms)}"' for forms in variations]
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])}, and {names[-1]}"
