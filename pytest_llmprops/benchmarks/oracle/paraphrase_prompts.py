"""Prompts 5, 6 and 7 of the paper (Zeng et al., appendix B.1), word for word, and the request to repair a reply.

The paper prints the lines of prompts 5 and 7 with space between them. Here one line break separates them, as in
prompt 6.
"""

from __future__ import annotations

from pytest_llmprops.benchmarks.oracle.scheme import fill
from pytest_llmprops.core.requests import Message

#: a conversation's turns so far
Messages = tuple[Message, ...]

SENTENCES_SYSTEM = (
    "You are a helpful assistant that decides if two sentences are paraphrases designed to output JSON."
)
SENTENCES = """Decide whether the following two sentences are semantically equivalent:
1. '{sentence1}' 2. '{sentence2}'
Answer yes or no and provide a short explanation.
Output with keys 'answer' and 'explanation'."""

PHRASES_SYSTEM = (
    "You are a helpful assistant that decides if two texts could be paraphrases designed to output JSON."
)
PHRASES = """Decide whether the following two texts could be considered semantically equivalent:
1. '{text1}' 2. '{text2}'
Answer yes or no and provide a short explanation.
Output with keys 'answer' and 'explanation'."""

PARAPHRASES_SYSTEM = "You are a helpful paraphrases generator designed to output JSON."
PARAPHRASES = """Generate five paraphrases that are semantically equivalent to the following sentence: '{sentence}'
Output with key 'paraphrases'."""

#: the request to repair an unreadable reply; ours, because the paper does not say how it treats such replies
REPAIR = """Your reply cannot be read: {problem}. Output one JSON object and nothing else, {form}."""
ANSWER_FORM = "with the keys 'answer', which is \"yes\" or \"no\", and 'explanation'"
PARAPHRASES_FORM = "with the key 'paraphrases', which is a list of five sentences"


def sentences_prompt(first: str, second: str) -> Messages:
    """Return prompt 5: are two sentences equivalent?"""
    return _turns(SENTENCES_SYSTEM, fill(SENTENCES, sentence1=first, sentence2=second))


def phrases_prompt(first: str, second: str) -> Messages:
    """Return prompt 6: could two phrases be equivalent?"""
    return _turns(PHRASES_SYSTEM, fill(PHRASES, text1=first, text2=second))


def paraphrases_prompt(sentence: str) -> Messages:
    """Return prompt 7: five paraphrases of a sentence."""
    return _turns(PARAPHRASES_SYSTEM, fill(PARAPHRASES, sentence=sentence))


def repaired(messages: Messages, reply: str, problem: str, form: str) -> Messages:
    """Return the conversation with an unreadable ``reply`` and the request to repair it.

    An empty reply becomes ``(empty)``: servers refuse an empty turn, and chat templates refuse two user turns in a row.
    """
    text = fill(REPAIR, problem=problem, form=form)
    return (*messages, Message("assistant", reply.strip() or "(empty)"), Message("user", text))


def _turns(system: str, human: str) -> Messages:
    return Message("system", system), Message("user", human)
