"""Replies to prompts 5 to 7, read strictly as JSON, with one repair (Zeng et al., appendix B.1).

A reply is one JSON object, with or without code fences. Only the requested keys are read. If a reply cannot be read,
the model gets one request to repair it. If the second reply cannot be read either, there is no answer, yes or no.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pytest_llmprops.benchmarks.oracle.paraphrase_prompts import (
    ANSWER_FORM,
    PARAPHRASES_FORM,
    Messages,
    paraphrases_prompt,
    repaired,
)
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.core.strict_json import is_unicode, short, strict_json

FENCE = "```"
#: maximum length of an unreadable reply in the request to repair it, in characters
LONGEST_SENT_BACK = 4_000
#: maximum length of a paraphrase, in characters, because further prompts contain it
LONGEST_PARAPHRASE = 4_000
_SAID = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Notes:
    """How a reply was read.

    :param problem: why it cannot be read, in one phrase; empty if it can.
    :param fenced: whether the JSON was in code fences.
    :param repaired: whether this is the second reply, after the request to repair the first.
    :param refused: whether a content filter stopped the reply.
    :param text: the reply itself, untrusted.
    """

    problem: str = ""
    fenced: bool = False
    repaired: bool = False
    refused: bool = False
    text: str = ""


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


def read_answer(reply: str) -> Answer:
    """Read ``{"answer": "yes", "explanation": "..."}``. Case is ignored; the explanation is optional."""
    data, notes = _read_object(reply)
    if data is None:
        return Answer(None, "", notes)
    if "answer" not in data:
        return Answer(None, "", replace(notes, problem="the key 'answer' is missing"))
    value = data["answer"]
    said = _SAID.get(value.strip().casefold()) if isinstance(value, str) else None
    if said is None:
        shown = short(value) if isinstance(value, str) else "not a text"
        problem = f'the value of \'answer\' is {shown}: it must be "yes" or "no"'
        return Answer(None, "", replace(notes, problem=problem))
    explanation = data.get("explanation")
    return Answer(said, explanation if isinstance(explanation, str) else "", notes)


def read_paraphrases(reply: str) -> Paraphrases:
    """Read ``{"paraphrases": ["...", ...]}``: a list of non-empty texts, in the order of the reply."""
    data, notes = _read_object(reply)
    if data is None:
        return Paraphrases((), notes)
    if "paraphrases" not in data:
        return Paraphrases((), replace(notes, problem="the key 'paraphrases' is missing"))
    texts = data["paraphrases"]
    problem = _list_problem(texts)
    if problem:
        return Paraphrases((), replace(notes, problem=problem))
    return Paraphrases(tuple(" ".join(text.split()) for text in texts), notes)


def _list_problem(texts: Any) -> str:
    if not isinstance(texts, list) or not texts:
        return "the value of 'paraphrases' is not a list of sentences"
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str) or not text.strip() or not is_unicode(text):
            return f"element {number} of 'paraphrases' is not a text, or is empty"
        if len(text) > LONGEST_PARAPHRASE:
            return f"element {number} of 'paraphrases' is longer than {LONGEST_PARAPHRASE} characters"
    return ""


async def ask_answer(oracle: Oracle, messages: Messages, *, sample: int = 0) -> Answer:
    """Ask prompt 5 or 6 and return the yes or no.

    :raises BackendError: if the call could not be made.
    """
    return await _ask(oracle, messages, ANSWER_FORM, read_answer, sample)


async def ask_paraphrases(oracle: Oracle, sentence: str, *, sample: int = 0) -> Paraphrases:
    """Ask prompt 7 and return the paraphrases.

    :raises BackendError: if the call could not be made.
    """
    return await _ask(oracle, paraphrases_prompt(sentence), PARAPHRASES_FORM, read_paraphrases, sample)


async def _ask(
    oracle: Oracle, messages: Messages, form: str, read: Callable[[str], _Read], sample: int
) -> _Read:
    """Ask, and ask again once if the reply cannot be read. A filtered reply would be filtered again."""
    first = await _read_reply(oracle, messages, read, sample)
    if not first.notes.problem or first.notes.refused:
        return first
    again = repaired(messages, first.notes.text[:LONGEST_SENT_BACK], first.notes.problem, form)
    second = await _read_reply(oracle, again, read, sample)
    return replace(second, notes=replace(second.notes, repaired=True))


async def _read_reply(oracle: Oracle, messages: Messages, read: Callable[[str], _Read], sample: int) -> _Read:
    reply = await oracle(messages, sample=sample)
    result = read(reply.text)
    problem = result.notes.problem
    refused = bool(problem) and reply.finish_reason == "content_filter"
    if refused:
        problem = "a content filter refused"
    elif problem and reply.finish_reason == "length":
        problem += " (cut off)"
    return replace(result, notes=replace(result.notes, problem=problem, refused=refused))


def _read_object(reply: str) -> tuple[dict[str, Any] | None, Notes]:
    """Return the JSON object of a reply, or None and the problem."""
    text = reply.strip()
    parts = text.split(FENCE)
    fenced = len(parts) == 3 and not parts[0].strip() and not parts[2].strip()
    if fenced:
        label, _, rest = parts[1].partition("\n")
        text = (rest if label.strip().casefold() == "json" else parts[1]).strip()
    try:
        data, problem = strict_json(text), ""
    except ValueError as error:
        data, problem = None, f"it is not JSON ({error})" if text else "it is empty"
    if not problem and not isinstance(data, dict):
        data, problem = None, "it is not a JSON object"
    return data, Notes(problem, fenced, text=reply)
