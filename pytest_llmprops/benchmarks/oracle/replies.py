"""The questions on pairs (prompts 5 to 7 of appendix B.1, word for word), and their replies, with one repair.

The paper does not say how it reads replies, and prints the lines of prompts 5 and 7 with space between them. Here one
line break separates them, as in prompt 6. If a reply cannot be read, the model gets one request to repair it; if that
fails, there is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.core.reading import listed, stated
from pytest_llmprops.core.reply_json import found_json
from pytest_llmprops.core.requests import Message
from pytest_llmprops.core.strict_json import is_unicode
from pytest_llmprops.core.texts import one_line

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
#: the request for other paraphrases; ours, because the paper does not say how near a paraphrase may be
FARTHER = """These sentences repeat most of the words of the original. Paraphrase it again, with other words and \
another structure. Output one JSON object and nothing else, {form}."""
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


def _turns(system: str, human: str) -> Messages:
    return Message("system", system), Message("user", human)


#: maximum characters of a reply that are read
LONGEST_READ = 20_000
#: maximum length of an unreadable reply in the request to repair it, in characters
LONGEST_SENT_BACK = 4_000
#: maximum length of a paraphrase, in characters, because further prompts contain it
LONGEST_PARAPHRASE = 4_000


@dataclass(frozen=True, slots=True)
class Notes:
    """How a reply was read.

    :param problem: why it cannot be read, in one phrase; empty if it can.
    :param repaired: whether this is the second reply, after the request to repair the first.
    :param refused: whether a content filter stopped the reply.
    :param text: the reply itself, untrusted.
    :param form: the form of the answer: ``JSON``, ``text`` or ``list``; empty if it cannot be read.
    """

    problem: str = ""
    repaired: bool = False
    refused: bool = False
    text: str = ""
    form: str = ""

    @property
    def read_by(self) -> str:
        """How the reply was read, or why it cannot be, without details of the reply."""
        rule = self.problem.partition(":")[0] or self.form
        return f"{rule} after a repair" if self.repaired else rule


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply to prompt 5 or 6: ``said`` is True for yes, False for no, None if it cannot be read."""

    said: bool | None
    explanation: str = ""
    notes: Notes = Notes()

    @property
    def word(self) -> str:
        """``yes``, ``no`` or ``unreadable``."""
        return "unreadable" if self.said is None else "yes" if self.said else "no"


@dataclass(frozen=True, slots=True)
class Paraphrases:
    """A reply to prompt 7; ``texts`` is empty if it cannot be read."""

    texts: tuple[str, ...]
    notes: Notes = Notes()


_Read = TypeVar("_Read", Answer, Paraphrases)

_YES_NO = (("yes", "true", "ja", "oui", "sí"), ("no", "false", "nein", "non"))
_EQUIVALENT = (
    ("equivalent", "semantically equivalent", "are paraphrases"),
    ("not equivalent", "not semantically equivalent", "are not paraphrases"),
)
#: what makes a statement no answer, and what begins with "no" but refuses
_OPEN = re.compile(
    r"\b(?:whether|if|may|might|maybe|perhaps|possibly|partially|somewhat|depends?)\b|\?", re.I
)
_REFUSES = re.compile(r"\W*no,? (?:i(?: am|['’]m| can|['’]d| will|['’]ll)|sorry)\b", re.I)
_QUESTION = re.compile(
    r"You are a helpful [^\n.]{0,80}\.?|Decide whether the following two (?:sentences|texts)[^\n:]{0,60}:?"
    r"|^[ \t]*1\. '(?=.*' 2\. ').*'[ \t]*$|Answer yes or no and provide a short explanation\.?"
    r"|Output with keys? '[^\n]*|Generate five paraphrases that are semantically equivalent to[^\n]*",
    re.I | re.M,
)
_PLACEHOLDER = re.compile(
    r"(?:your |the )?(?:\w+ )?(?:paraphrased?|sentence|text)(?: sentence)? ?#?\d*|none|n/a|\W*", re.I
)
_LABEL = re.compile(
    r"(?:paraphrase|sentence|version)s?\s*#?\d*\s*[:.)–-]\s*(?=\S)|\(?\d{1,2}\s?[.):]\s+(?=\S)", re.I
)
_TEXT_KEY = re.compile(r"\b(?:text|sentence|version)s?\b", re.I)
_INLINE = re.compile(r"(?<=[.!?\"”]) +(?=\**Paraphrase \d)", re.I)
#: a text that asks for the sentence or refuses, instead of a paraphrase
_ASKS = re.compile(
    r"^(?:please|could you|can you|sure|okay|certainly|i need you)\b[^.?]{0,30}\b(?:provide|share|enter|send|give)\b"
    r"|^(?:i(?:'|’)?m |i am )?(?:very )?(?:sorry|afraid)\b.*\b(?:help|request|assist|paraphras|comply|provide)"
    r"|^i (?:can(?:'|’)?t|cannot|can not|won(?:'|’)t|will not|am (?:unable|not able) to)\b",
    re.I,
)


def read_answer(reply: str) -> Answer:
    """Read a reply to prompt 5 or 6, such as ``{"answer": "yes", "explanation": "..."}``. Never raises."""
    text = _QUESTION.sub(" ", reply[:LONGEST_READ])
    # "Yes. They are not equivalent." is two answers.
    said = {None if _REFUSES.match(text) else stated(text, _YES_NO)}
    said |= {None if _OPEN.search(text) else stated(text, _EQUIVALENT)}
    answers = said - {None}
    if len(answers) != 1:
        problem = "it has no JSON object and no clear yes or no" if reply.strip() else "it is empty"
        return Answer(None, notes=Notes(problem, text=reply))
    values, _ = found_json(text)
    members = [pair for value in values if isinstance(value, tuple) for pair in value]
    explained = (value for key, value in members if key.strip().casefold() == "explanation")
    explanation = next((value for value in explained if isinstance(value, str)), None)
    shown = one_line(reply, LONGEST_SENT_BACK) if explanation is None else explanation
    return Answer(answers == {0}, shown, Notes(text=reply, form="JSON" if values else "text"))


def read_paraphrases(reply: str) -> Paraphrases:
    """Read a reply to prompt 7, such as ``{"paraphrases": ["...", ...]}``, in its order. Never raises.

    Without a list, at least three lines that end like sentences are the paraphrases.
    """
    text = _INLINE.sub("\n", _QUESTION.sub("", reply[:LONGEST_READ]))
    values, _ = found_json(text)
    groups = [_texts(value) for value in values]
    # Of several objects, each may have one paraphrase, or the last ones may correct the first.
    longest = max(groups, key=len, default=[])
    together = [one for group in groups for one in group]
    items = longest if len(longest) > 1 else together if values else listed(text)
    if items is None:
        lines = [line.strip(" *_\t,") for line in text.splitlines()]
        lines = [line for line in lines if line and line[-1:] != ":"]
        are_sentences = all(line.rstrip("\"'”*")[-1:] in ".!?" for line in lines)
        items = lines if are_sentences and len(lines) > 2 else []
    cleaned = [_LABEL.sub("", " ".join(item.split()), count=1).strip('"“” ') for item in items]
    texts = [one for one in cleaned if not _PLACEHOLDER.fullmatch(one) and not _ASKS.search(one)]
    problem = "" if texts else "it has no JSON and no list of sentences" if reply.strip() else "it is empty"
    for number, one in enumerate(texts, 1):
        if not is_unicode(one):
            problem = f"paraphrase {number} has characters that are not Unicode"
        elif len(one) > LONGEST_PARAPHRASE:
            problem = f"paraphrase {number} is longer than {LONGEST_PARAPHRASE} characters"
    if problem:
        return Paraphrases((), Notes(problem, text=reply))
    return Paraphrases(tuple(texts), Notes(text=reply, form="JSON" if values else "list"))


def _texts(value: object) -> list[str]:
    """Return the sentences in a JSON value. Without a key that says so, lists and numbered keys have them."""
    if isinstance(value, str):
        lines = listed(value) or [one for one in re.split(r"\s*\|\s*", value) if one]
        return lines if len(lines) > 1 else [value]
    if isinstance(value, tuple):
        keyed = [inner for key, inner in value if "phras" in key.casefold()]
        keyed = keyed or [inner for key, inner in value if _TEXT_KEY.search(key)]
        others = (inner for key, inner in value if not isinstance(inner, str) or key.strip()[-1:].isdigit())
        return [one for inner in keyed or others for one in _texts(inner)]
    return [one for inner in value for one in _texts(inner)] if isinstance(value, list) else []


async def ask_answer(oracle: Oracle, messages: Messages, *, sample: int = 0) -> Answer:
    """Ask prompt 5 or 6 and return the yes or no.

    :raises BackendError: if the call could not be made.
    """
    return await _ask(oracle, messages, ANSWER_FORM, read_answer, sample)


async def ask_paraphrases(
    oracle: Oracle, sentence: str, *, is_usable: Callable[[Paraphrases], bool] | None = None
) -> Paraphrases:
    """Ask prompt 7 and return the paraphrases.

    :param is_usable: returns False for paraphrases that are too near to the sentence. Others are then asked for, once.
    :raises BackendError: if the call could not be made.
    """
    messages = paraphrases_prompt(sentence)
    first = await _ask(oracle, messages, PARAPHRASES_FORM, read_paraphrases, 0)
    if not first.texts or is_usable is None or is_usable(first):
        return first
    shown = Message("assistant", first.notes.text[:LONGEST_SENT_BACK])
    again = (*messages, shown, Message("user", fill(FARTHER, form=PARAPHRASES_FORM)))
    second = await _read_reply(oracle, again, read_paraphrases, 0)
    return second if second.texts else first


async def _ask(
    oracle: Oracle, messages: Messages, form: str, read: Callable[[str], _Read], sample: int
) -> _Read:
    """Ask, and ask again once if the reply cannot be read. A filtered reply would be filtered again."""
    first = await _read_reply(oracle, messages, read, sample)
    if not first.notes.problem or first.notes.refused:
        return first
    # Servers refuse an empty turn, and chat templates refuse two user turns in a row.
    shown = Message("assistant", first.notes.text[:LONGEST_SENT_BACK].strip() or "(empty)")
    again = (*messages, shown, Message("user", fill(REPAIR, problem=first.notes.problem, form=form)))
    second = await _read_reply(oracle, again, read, sample)
    return replace(second, notes=replace(second.notes, repaired=True))


async def _read_reply(oracle: Oracle, messages: Messages, read: Callable[[str], _Read], sample: int) -> _Read:
    reply = await oracle(messages, sample=sample)
    result = read(reply.text)
    is_cut = reply.finish_reason == "length"
    if is_cut and isinstance(result, Paraphrases) and reply.text.rstrip().endswith(result.texts[-1:]):
        # The end of the last paraphrase is missing.
        result = replace(result, texts=result.texts[:-1])
    problem = result.notes.problem
    refused = bool(problem) and reply.finish_reason == "content_filter"
    if refused:
        problem = "a content filter refused"
    elif problem and is_cut:
        problem += " (cut off)"
    return replace(result, notes=replace(result.notes, problem=problem, refused=refused))
