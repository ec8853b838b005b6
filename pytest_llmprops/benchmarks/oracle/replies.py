"""The questions on pairs, and readers of replies: lists, JSON, yes and no."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.core.requests import Message
from pytest_llmprops.core.strict_json import is_unicode, short, strict_json

# Read the list in a model's reply to prompt 1, 3 or 4, whatever marks its lines begin with.

#: maximum characters of a reply that are read; a list of a sentence's entities is far shorter
LONGEST_READ = 20_000

_NUMBERED = re.compile(r"[\s*_\"“'>#]*\(?(\d{1,3})\s*[.):]+[*_]*\s*(\S.*)")
_FIRST = re.compile(r"(?<!\w)1[.)] (\S.*)")
_BULLET = re.compile(r"[\s\"“'>]*(?:[-•·–—‣◦]|\*(?!\*))\s*(\S.*)")
_UNMARKED = re.compile(r"[\s*_\"“'>]*[A-Za-z][\w /&-]{0,40}[*_]*:[*_]*\s*[^\s*_].*")
_EMPHASIS = re.compile(r"\*\*|__|`")
#: a class without an entity; its entities are the bullets below it
_HEADING = re.compile(r"[^:]{1,60}:[*_]*")


def list_lines(reply: str, *, unmarked: bool = True) -> list[str]:
    """Return the items of the list in ``reply``, without their marks, in order; empty if there is no list.

    The items are the numbered lines; if there are none, the lines with a bullet; if there are none and ``unmarked``
    is set, the lines ``class: entity``. A list on one line is split at its ascending numbers. Bullets below a numbered
    class (``1. city:``) are items of that class. Code fences, bold marks and quotation marks around a whole list (as
    in the prompts) are dropped.
    """
    # Single blanks only: the patterns take quadratic time on a long run of blanks.
    lines = [" ".join(line.split()) for line in _EMPHASIS.sub("", reply[:LONGEST_READ]).splitlines()]
    lines = [line for line in lines if line and not line.startswith("~~~")]
    items = _numbered(lines)
    if not items:
        items = [match[1] for line in lines if (match := _BULLET.fullmatch(line))]
    if not items and unmarked:
        items = [line for line in lines if _UNMARKED.fullmatch(line)]
    return [item for line in items if (item := _unquoted(line))]


def _numbered(lines: list[str]) -> list[str]:
    """Return the items of numbered lines, including a first item on the same line as the preamble."""
    items: list[str] = []
    numbers: list[int] = []
    heading = ""
    for place, line in enumerate(lines):
        match = _NUMBERED.fullmatch(line)
        if match:
            if not numbers and int(match[1]) == 2 and place and (first := _FIRST.search(lines[place - 1])):
                items.append(first[1])
            numbers.append(int(match[1]))
            heading = match[2] if _HEADING.fullmatch(match[2]) else ""
            items.append(match[2])
        elif heading and (bullet := _BULLET.fullmatch(line)):
            if items[-1] == heading:
                items.pop()
            items.append(f"{heading} {bullet[1]}")
    return _split(numbers[0], items[0]) if len(numbers) == len(items) == 1 else items


def _split(number: int, rest: str) -> list[str]:
    """Split ``a 2. b 3. c``, which follows ``1.``, into its items."""
    items: list[str] = []
    while True:
        number += 1
        match = re.search(rf"[\s,;]\(?{number}\s*[.)]\s+(?=\S)", rest)
        if match is None:
            return [*items, rest]
        items.append(rest[: match.start()].strip(" ,;"))
        rest = rest[match.end() :]


def _unquoted(item: str) -> str:
    """Remove a quotation mark without a partner, because it belongs to the list as a whole."""
    item = item.strip().strip("_*").strip()
    for mark in '"“”':
        if item.count(mark) == 1 and (item.startswith(mark) or item.endswith(mark)):
            item = item.strip(mark).strip()
    return item


# Prompts 5, 6 and 7 of the paper (Zeng et al., appendix B.1), word for word, and the request to repair a
# reply.
#
# The paper prints the lines of prompts 5 and 7 with space between them. Here one line break separates them,
# as in prompt 6.

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


# Replies to prompts 5 to 7, read strictly as JSON, with one repair (Zeng et al., appendix B.1).
#
# A reply is one JSON object, with or without code fences. Only the requested keys are read. If a reply cannot
# be read, the model gets one request to repair it. If the second reply cannot be read either, there is no
# answer, yes or no.

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
