"""Have a sentence translated and judge which variation the translation uses (Barua et al., appendix B.2)."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmprops.benchmarks.dtails.evidence import TranslationEvidence
from pytest_llmprops.benchmarks.dtails.prompts import language_name, translation, variation_name
from pytest_llmprops.benchmarks.dtails.reading import Reading, declines, read_translation
from pytest_llmprops.benchmarks.dtails.text import TOKENIZER, unicode_words
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.errors import RunStopped
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import Chat, Parse, Reply, Translate
from pytest_llmprops.core.verdicts import Status, Verdict

PARSE = "parse"
#: ``tokenizer`` in a verdict's values: words not needed, split by Unicode rules, split by the helper ``parse``.
UNNEEDED, UNICODE, PARSER = 0.0, 1.0, 2.0


async def translate(
    item: Item, ask: Ask, *, temperature: float, max_tokens: int, tokenizer: str, more: dict[str, float]
) -> Verdict:
    """Have the sentence translated and search the translation for a variation.

    :param tokenizer: ``auto``, ``stanza`` or ``unicode``. :param more: Further values of the verdict.
    :raises RunStopped: The tokenizer is ``stanza``, and no model of the language is available.
    """
    if "translate" in ask.kinds:
        reply = await ask(Translate(item["sentence"], "en", item.language))
    else:
        prompt = translation(item["sentence"], language_name(item.language))
        reply = await ask(Chat.user(prompt, temperature=temperature, max_tokens=max_tokens))
    variations: Sequence[tuple[str, ...]] = item["variations"]
    reading, how, name = read_translation(reply.text, variations, ()), UNNEEDED, ""
    if reading.index is None and reply.text.strip():
        words, how, name = await _words(reply.text, item.language, ask, tokenizer)
        reading = read_translation(reply.text, variations, words)
    return judge_translation(item, reply, reading, how, name, more)


async def _words(text: str, language: str, ask: Ask, tokenizer: str) -> tuple[list[str], float, str]:
    """Return the words of a translation, with lemmas from a parser, and what split it: as a number and as a name."""
    missing = "no model for the role 'parse': --llm-helper parse=stanza"
    if tokenizer != "unicode" and PARSE in ask.roles:
        value = (await ask(Parse(text, language, "words"), role=PARSE)).value
        if value["words"] is not None:
            # The authors compare every word and its lemma.
            return [text for word in value["words"] for text in word[:2]], PARSER, str(value["by"])
        missing = str(value.get("missing", "its parser has no model of the language"))
    if tokenizer == "stanza":
        raise RunStopped(f"dtails.tokenizer=stanza: {missing}; or use dtails.tokenizer=auto")
    return unicode_words(text), UNICODE, TOKENIZER


def judge_translation(
    item: Item, reply: Reply, reading: Reading, how: float, name: str, more: dict[str, float]
) -> Verdict:
    """Return the verdict on one translation. A translation without any variation is wrong, as in the paper."""
    variations: Sequence[tuple[str, ...]] = item["variations"]
    chosen = None if reading.index is None else variations[reading.index]
    status, reason = _judged(item, reply, reading, chosen)
    if reading.how == "word":
        reason += f" (similar word, ratio {reading.ratio:.2f}; words by {name})"
    elif reading.how == "inflected":
        reason += f" (an inflected form of {reading.form})"
    elif chosen is None and name:
        reason += f" (words by {name})"
    values = {
        "variations": float(len(variations)),
        **more,
        "chosen": 0.0 if reading.index is None else float(reading.index + 1),
        "substring": float(reading.how == "substring"),
        "ratio": round(reading.ratio, 4),
        "start": float(reading.start),
        "length": float(len(reading.form)),
        "leftmost": 0.0 if reading.leftmost is None else float(reading.leftmost + 1),
        "tokenizer": how,
    }
    evidence = TranslationEvidence(item["concept"], item["sentence"], reply.text, item["target"], name)
    answer = variation_name(chosen) if chosen is not None else reply.text
    return Verdict(
        status,
        variation_name(item["label"]),
        answer,
        reason,
        float(status == "correct"),
        values,
        evidence.to_json(),
    )


def _judged(item: Item, reply: Reply, reading: Reading, chosen: tuple[str, ...] | None) -> tuple[Status, str]:
    if chosen is not None:
        right = not set(chosen).isdisjoint(item["label"])
        return ("correct" if right else "wrong"), f"translated with {variation_name(chosen)}"
    if reply.finish_reason == "content_filter":
        return "refused", "a content filter refused"
    if not reply.text.strip():
        return "unparsed", "the translation is empty"
    if declines(reply.text):
        return "refused", "declined to translate"
    if reply.finish_reason == "length":
        return "unparsed", "cut off before any variation"
    return "wrong", reading.problem
