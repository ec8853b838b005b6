"""The questions on pairs, and readers of replies: lists, JSON, yes and no."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pytest_llmprops.benchmarks.oracle.scheme import Oracle, fill
from pytest_llmprops.core.reply_json import found_json
from pytest_llmprops.core.requests import Message
from pytest_llmprops.core.strict_json import is_unicode, short
from pytest_llmprops.core.texts import one_line

# Read the list in a model's reply to prompt 1, 3, 4 or 7, whatever marks its lines begin with.

#: maximum characters of a reply that are read; a list of a sentence's entities is far shorter
LONGEST_READ = 20_000

_NUMBERED = re.compile(r"[\s*_\"“'>#]*[(（]?(\d{1,3})\s*(?:[.):、．）]+(?!\d)|[-–—](?=\s))[*_]*\s*(\S.*)")
_FIRST = re.compile(r"(?<!\w)1[.)] (\S.*)")
_BULLET = re.compile(r"([\s\"“'>]*)(?:[-•·–—‣◦]|\*(?!\*)|(?:[a-z]|[ivx]{2,4})[.)](?=\s))\s*(\S.*)")
_EMPHASIS = re.compile(r"\*\*|__|`")
#: a class without an entity; its entities are the bullets below it
_HEADING = re.compile(r"[^:：]{1,60}[:：][*_]*")


def list_lines(reply: str, is_name: Callable[[str], bool] | None = None) -> list[str]:
    """Return the items of the list in ``reply``, without their marks, in order; empty if there is no list.

    The items are the numbered lines; if there are none, the lines with a bullet. A list on one line is split at its
    ascending numbers. Bullets below a class (``1. city:``) are items of that class. Code fences, bold marks and
    quotation marks around a whole list (as in the prompts) are dropped.

    :param is_name: whether a line is an entity. With it, a class above bullets needs no colon, and deeper bullets below
        an entity are remarks.
    """
    # Single blanks only, after those at the start: the patterns take quadratic time on a long run of blanks.
    lines = [
        " " * min(len(line) - len(line.lstrip()), 20) + " ".join(line.split())
        for line in _EMPHASIS.sub("", reply[:LONGEST_READ]).splitlines()
        if line.strip()
    ]
    items = _numbered(lines, is_name) or _bullets(lines, is_name)
    return [item for line in items if (item := _unquoted(line))]


def _numbered(lines: list[str], is_name: Callable[[str], bool] | None) -> list[str]:
    """Return the items of numbered lines, including a first item on the same line as the preamble."""
    groups: list[tuple[str, list[str]]] = []
    numbers: list[int] = []
    for place, line in enumerate(lines):
        match = _NUMBERED.fullmatch(line)
        if match:
            if not numbers and int(match[1]) == 2 and place and (first := _FIRST.search(lines[place - 1])):
                groups.append((first[1], []))
            numbers.append(int(match[1]))
            groups.append((match[2], []))
        elif groups and (bullet := _BULLET.fullmatch(line)):
            groups[-1][1].append(bullet[2])
        elif groups and line.startswith(" ") and is_name is not None and is_name(line):
            groups[-1][1].append(line.strip())
    items = _ungrouped(groups, is_name)
    if len(numbers) == len(items) == 1:
        return _split(numbers[0], items[0])
    if not items:
        inline = (_split(1, first[1]) for line in lines if (first := _FIRST.search(line)))
        return next((split for split in inline if len(split) > 1), [])
    return items


def _bullets(lines: list[str], is_name: Callable[[str], bool] | None) -> list[str]:
    """Return the items of lines with a bullet."""
    groups: list[tuple[str, list[str]]] = []
    depth = 0
    for match in filter(None, map(_BULLET.fullmatch, lines)):
        if is_name is not None and groups and len(match[1]) > depth:
            groups[-1][1].append(match[2])
        else:
            depth = len(match[1])
            groups.append((match[2], []))
    return _ungrouped(groups, is_name)


def _ungrouped(groups: list[tuple[str, list[str]]], is_name: Callable[[str], bool] | None) -> list[str]:
    """Return the items of a list with lines below some of its items: their entities, or else remarks."""
    upper = [item for item, below in groups if below]
    lower = [item for _, below in groups for item in below]
    has_classes = False
    if is_name is not None:
        more = sum(map(is_name, lower)) - sum(map(is_name, upper))
        # A class may be a word of the sentence too: "flag", then "CARRY" below it.
        are_lower = all(map(str.islower, upper)) and not any(map(str.islower, lower))
        has_classes = more > 0 or (more == 0 and are_lower)
    items: list[str] = []
    for item, below in groups:
        if below and (_HEADING.fullmatch(item) or (has_classes and not re.search("[:：]", item))):
            items += [f"{item.rstrip(':：*_')}: {name}" for name in below]
        else:
            items.append(item)
    return items


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


# Parts of a reply that are not its answer, for all readers.

#: where a reply says that it corrects itself, at the start of a line or of a sentence
_CORRECTION = re.compile(
    r"(?:^|(?<=[.!?…}`] ))[ \t>#*_]*(?:(?:oh|hmm+|ah|but)\b[,.…]* )?(?:"
    r"(?:wait|oops|actually|sorry|apologies|hold on|scratch that|my (?:mistake|apologies|bad)|i apologi[sz]e)\b"
    r"|(?:edit|update) ?[:：]"
    r"|(?:on|upon|after)(?: an?)? (?:second thoughts?|(?:second|closer|further) \w+|reflection|review|rereading)\b"
    r"|(?:let me|i(?:'ll| will| need to| should| must| have to)?|to) (?:correct|fix|revise|redo|try again)\b"
    r"|(?:here is )?(?:a |the |my )?(?:correct(?:ed|ion)|revised|revision|updated|final|full|complete)\b"
    r"(?: (?:correct(?:ed)?|complete|full|final|answer|list|version|output|json|result|reply|response|verdict"
    r"|conclusion|paraphrases|entities)){0,3}(?: (?:is|are))?[*_ ]*[:：]"
    r"|(?:that|this|it)(?:'s| is| was| were| makes) (?:only|wrong|incorrect|incomplete"
    r"|not (?:right|correct|complete|five|all))\b"
    r"|i (?:made an?|missed|forgot|misread|overlooked|was wrong)\b)",
    re.I | re.M,
)
#: words of a part that adds to the list before it, and of a part that replaces it
_ADDS = re.compile(r"\b(?:also|missed|forgot|overlooked|add|another|one more)\b", re.I)
_REPLACES = re.compile(
    r"\b(?:correct(?:ed|ion)?|revised|updated|final|full|complete|all|again|instead|list)\b", re.I
)
#: words of a heading of what is not in the answer, and of one that introduces the answer
_ASIDE = re.compile(
    r"\b(?:not|non-?(?:named )?(?:entit\w*|names)|excluded|omitted|left out|ignored|rejected|discarded"
    r"|removed)\b|n't\b",
    re.I,
)
_NO_ASIDE = re.compile(r"\b(?:here|only|but|list)\b", re.I)
#: a heading of remarks, which may also come before an answer
_REMARKS = re.compile(
    r"(?:why\b[^\n]{0,60}|what (?:has )?changed|(?:explanation|note)s? (?:of|on) \w+ ?\w*"
    r"|(?:key |main )?changes?(?: made)?|relations|differences?|notes?"
    r"|(?:brief |short )?(?:explanations?|reason(?:s|ing)?|rationale|comments?|remarks?"
    r"|analysis)|original(?: \w+)?)\W*",
    re.I,
)
#: "Omitted: city, bridge" on one line
_ASIDE_LINE = re.compile(
    r"(?:not (?:an? )?(?:named )?(?:entit|includ|count)\w*|non-?(?:named )?(?:entit\w*|names)|excluded|omitted"
    r"|left out|ignored|rejected|discarded|removed|original(?: (?:sentence|text|input))?)[^:：\n]{0,30}[:：]",
    re.I,
)
_ASIDE_PART = re.compile(rf"(?:^[ \t*_#>`]*|(?<=[.;|] )){_ASIDE_LINE.pattern}.*", re.I)


def after_correction(reply: str, *, is_list: bool = False) -> str:
    """Return the part of a reply from its last correction on ("Wait, ... Corrected list:"); "" without one.

    :param is_list: whether a part that only adds to the list before it is no correction.
    """
    reply = reply[:LONGEST_READ].replace("’", "'")
    matches = list(_CORRECTION.finditer(reply))
    # A sentence in JSON, such as an explanation, is no correction.
    while matches and not _is_outside_json(reply[: matches[-1].start()]):
        matches.pop()
    if not matches or not reply[: matches[-1].start()].strip():
        return ""
    part = reply[matches[-1].end() :]
    if not is_list:
        return part
    head = reply[matches[-1].start() :].lstrip().split("\n", 1)[0]
    number = next((m[1] for line in part.splitlines() if (m := _NUMBERED.fullmatch(line))), "1")
    adds = _ADDS.search(head) and not _REPLACES.search(head)
    is_listed = (
        matches[-1][0][-1] in ":："
        or head.rstrip("*_ ")[-1:] in ":："
        or any(mark in part for mark in "{[|")
        or bool(list_lines(part))
    )
    return part if is_listed and not adds and number == "1" else ""


def _is_outside_json(before: str) -> bool:
    return before.count("{") <= before.count("}") and before.count("[") <= before.count("]")


def without_asides(text: str) -> str:
    """Return a text without parts under headings such as "Not entities:" and, after a list, "What changed:"."""
    kept: list[str] = []
    in_aside = False
    for line in text.splitlines():
        plain = line.strip(" \t*_#>`")
        is_marked = _NUMBERED.fullmatch(line) or _BULLET.fullmatch(line)
        is_heading = plain[-1:] in (":", "：", "?") and not is_marked
        if is_heading:
            last = re.split(r"[.:：]\s", plain)[-1]
            is_aside = _ASIDE.search(last) is not None and not _NO_ASIDE.search(last)
            in_aside = is_aside or (_REMARKS.fullmatch(plain) is not None and any(map(_is_item, kept)))
        if not in_aside:
            kept.append(line if is_heading or is_marked else _ASIDE_PART.sub("", line))
    return "\n".join(kept)


def is_aside(key: str) -> bool:
    """Return True for the key of values that are not the answer, such as ``not entities``."""
    return _ASIDE_LINE.match(f"{key}:") is not None


def _is_item(line: str) -> bool:
    return bool(_NUMBERED.fullmatch(line) or _BULLET.fullmatch(line)) or ":" in line.rstrip(" :*_")


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


def repaired(messages: Messages, reply: str, problem: str, form: str) -> Messages:
    """Return the conversation with an unreadable ``reply`` and the request to repair it.

    An empty reply becomes ``(empty)``: servers refuse an empty turn, and chat templates refuse two user turns in a row.
    """
    text = fill(REPAIR, problem=problem, form=form)
    return (*messages, Message("assistant", reply.strip() or "(empty)"), Message("user", text))


def _turns(system: str, human: str) -> Messages:
    return Message("system", system), Message("user", human)


# Replies to prompts 5 to 7, with one repair. The paper (Zeng et al., appendix B.1) does not say how it reads them.
#
# JSON anywhere in a reply is the answer; without it, a plain yes or no, or a list of sentences. If a reply cannot
# be read, the model gets one request to repair it. If the second reply cannot be read either, there is no answer,
# yes or no.

FENCE = "```"
#: maximum length of an unreadable reply in the request to repair it, in characters
LONGEST_SENT_BACK = 4_000
#: maximum length of a paraphrase, in characters, because further prompts contain it
LONGEST_PARAPHRASE = 4_000


@dataclass(frozen=True, slots=True)
class Notes:
    """How a reply was read.

    :param problem: why it cannot be read, in one phrase; empty if it can.
    :param fenced: whether the JSON was in code fences.
    :param repaired: whether this is the second reply, after the request to repair the first.
    :param refused: whether a content filter stopped the reply.
    :param text: the reply itself, untrusted.
    :param form: the form of the answer: ``JSON``, ``text``, ``list`` or ``table``; empty if it cannot be read.
    """

    problem: str = ""
    fenced: bool = False
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

_WORDS: Mapping[str, bool] = {
    "y": True, "true": True, "equivalent": True, "semantically equivalent": True, "是": True, "是的": True,
    "n": False, "false": False, "not equivalent": False, "not semantically equivalent": False,
    "different": False, "否": False, "不是": False,
}  # fmt: skip
_YES = frozenset({"yes", "true"})
_EQUIVALENT = re.compile(
    r"(?:is|are)?[ _]?(?:semantic(?:ally)?[ _]?)?(?:equivalent|equivalence|paraphrases?)", re.I
)
_ANSWER = "answer|antwort|respuesta|réponse|risposta|resposta|ответ|答案"
_ANSWER_KEY = re.compile(rf"(?:final[ _]?)?(?:{_ANSWER})s?:?", re.I)

# A line of the prompt is no answer, and neither is a quoted sentence or the choice "yes or no".
_PROMPT = re.compile(
    r"You are a helpful assistant that decides if two [^\n.]{0,80}\.?"
    r"|Decide whether the following two (?:sentences|texts)[^\n:]{0,60}:?"
    r"|^[ \t]*1\. '(?=.*' 2\. ').*'[ \t]*$"
    r"|Answer yes or no and provide a short explanation\.?|Output with keys 'answer' and 'explanation'\.?",
    re.I | re.M,
)
_QUOTED = re.compile(r"\"[^\"\n]{15,}\"|“[^“”\n]{15,}”")
_CHOICE = re.compile(
    r"\b(?:yes|no)\b['\"*]?(?: ?[/|&] ?| or | and )['\"*]?(?:yes|no)\b|\byes,? no(?=[.,;!?]|$)", re.I | re.M
)
_MARKS = re.compile(r"[\"“”‘`*_#\[\](){}<>\\|]+|(?<!\w)['’]|['’](?!\w)")
#: "no" as a whole answer, not "no difference" or "no one"
_YES_NO = (
    r"(yes|true|false|no(?=[.,;:!?。，；–—-]|\n|\Z| [-–—=/]| (?:because|since|as|they|the|these|those|it|both|i"
    r"|for|but|while|although|though|so|due)\b))(?!\w|\?)"
)
_LABELLED = re.compile(
    rf"(?:^a(?=:)|\b(?:{_ANSWER}|final|verdict|decision|conclusion|judge?ment|response|result|output|boxed(?: text)?"
    r"|paraphrases?|(?:semantic(?:ally)? )?equivalen(?:t|ce)))(?: here| (?:for|to|of)(?: \w+){1,4}?)?"
    r"(?: ?(?:is|would be|should be|must be)\b|是)? ?(?:[:：]|=>?|->|→|–|—|-)?\s?" + _YES_NO,
    re.I | re.M,
)
_LEADING = re.compile(
    r"[^\w]*(?:(?:sure|certainly|okay|ok|assistant|well|hmm+|oh|i think|i believe|indeed|overall"
    r"|in (?:short|summary|conclusion|my opinion)|definitely|clearly|a(?=:))\b[^\w]*)?" + _YES_NO,
    re.I,
)
#: a line or a sentence of its own
_ALONE = re.compile(r"(?:^[^\w\n]*|(?<=[.!?] ))(yes|no|true|false)(?:[.!](?=\s)|[^\w\n?]*$)", re.I | re.M)
#: "1. No", where the first of two numbers is the answer, or both sentences are answered
_COUNTED = re.compile(r"(?:^|[ ,;])\d[.)] " + _YES_NO, re.I | re.M)
_SAYS = re.compile(
    rf"(?:\b(?:say|so|therefore|thus|hence) ?[,:]? ?|\? )(?:{_YES_NO})"
    r"|(?:: ?|\b(?:it's|it is|that's|that is) an? )(yes|no)(?=[.!]|\n|\Z| from\b)",
    re.I,
)
#: other words for yes and no, at the start of a text or after a label
_TRANSLATED: Mapping[str, str] = dict.fromkeys(
    ("yep", "yeah", "yup", "ja", "sí", "sì", "si", "oui", "sim", "да", "是", "是的", "等价"), "yes"
) | dict.fromkeys(
    (
        "nope", "nein", "non", "não", "нет", "否", "不是", "不", "不等价",
        "not equivalent", "not semantically equivalent", "i don't think so", "not really", "not quite", "not at all",
        *(f"{adverb} not" for adverb in ("definitely", "certainly", "absolutely", "of course", "clearly", "surely")),
    ),
    "no",
)  # fmt: skip
_FOREIGN = re.compile(
    rf"(?:\A[^\w]*|(\b(?:{_ANSWER}|verdict|decision|conclusion|result)(?: is| est| ist| es)? ?[:：=是为-]?[ \n]*))"
    rf"({'|'.join(sorted(_TRANSLATED, key=len, reverse=True))})(?=\s*(?:[.,;:!。，；！\n(]|\Z)| [-–—])",
    re.I,
)
_VERDICT = re.compile(
    rf"\b((?:{_ANSWER}|verdict|decision|conclusion|result)[:：] )(?:semantically )?equivalent(?=[.,;\n]|\Z)",
    re.I,
)
_EMPHATIC = re.compile(r"[^\w]*(?:absolutely|definitely|of course|indeed|exactly|correct)[.!]", re.I)
_REFUSES = re.compile(r"no,? (?:i(?: am|'m| can|'d| will|'ll)|sorry)\b", re.I)
_CLAUSE = re.compile(r"[^.;!?\n]+[.;!?\n]?")
_SUBJECT = re.compile(
    r"\b(?:sentences?|texts?|phrases?|statements?|they|these|two|both|it|paraphrases?|meanings?)\b", re.I
)
_SAME = re.compile(
    r"\b(?:(?P<no>non-?|in)?equivalent|paraphrases?|(?:the )?same (?:meaning|thing|idea|information|fact|message|event)"
    r"|mean the same|the same(?=[.,;!\n]|$| in\b)|meanings? (?:is|are) (?P<unlike>different)"
    r"|(?P<other>different|differ)(?: in)? (?:meanings?|things|ideas|information|facts|events))\b",
    re.I,
)
_VERB = re.compile(
    r"\b(?:are|is|be|were|mean|convey|have|has|express|say|state|describe|considered)\b|n't\b", re.I
)
_NOT = re.compile(r"\bnot\b|n't\b|\bnever\b|\bcannot\b|\bneither\b|\bfail\b|\bno\b", re.I)
_OPEN = re.compile(
    r"\b(?:whether|if|may|might|maybe|perhaps|possibly|partially|somewhat|unclear|unsure|determine|decide|depends?)\b|\?",
    re.I,
)


def read_answer(reply: str) -> Answer:
    """Read a reply to prompt 5 or 6, such as ``{"answer": "yes", "explanation": "..."}``. Never raises.

    - JSON anywhere in the reply decides: the values of its keys ``answer``, at any depth; without such a key, those of
      a key such as ``equivalent``. True and False, and texts that begin with yes or no, are answers.
    - Without JSON, the text decides: a labelled answer ("The answer is no"), a yes or no at the start or on a line of
      its own, or else a statement ("They are not equivalent").
    - After a correction ("Wait, ..."), the part from there on decides if it has an answer.
    - Different answers, "yes or no" and a repeated prompt are unreadable.
    """
    corrected = after_correction(reply)
    answer = _read_answer(corrected) if corrected else None
    if answer is None or answer.said is None:
        return _read_answer(reply)
    return replace(
        answer, notes=replace(answer.notes, text=reply, form=f"{answer.notes.form} after a correction")
    )


def _read_answer(reply: str) -> Answer:
    """Return the answer of a reply without a correction."""
    values, rest = found_json(reply)
    notes = Notes(fenced=bool(values) and FENCE in rest, text=reply)
    found = [*_members(values)]
    answers = [value for key, value in found if _ANSWER_KEY.fullmatch(key)]
    answers = answers or [value for key, value in found if _EQUIVALENT.fullmatch(key)]
    if not answers and not rest.strip(_AROUND):
        # {"yes": "They say the same."}
        answers = [key for key, value in found if key in ("yes", "no") and not isinstance(value, bool)]
        # ["no", "The dates differ."]
        answers += [value[0] for value in values if isinstance(value, list) and value and _is_word(value[0])]
    if answers:
        said, problem = _decided(list(map(_said, answers)))
        if said is None and not problem:
            shown = short(answers[0]) if isinstance(answers[0], str) else "not a text"
            problem = f'the value of \'answer\' is neither "yes" nor "no": {shown}'
        explanation = next((v for key, v in found if key == "explanation" and isinstance(v, str)), "")
        return Answer(said, explanation, replace(notes, problem=problem, form="" if problem else "JSON"))
    if found and not rest.strip(_AROUND):
        return Answer(None, "", replace(notes, problem="the key 'answer' is missing"))
    said, problem = _plain_answer(rest)
    if said is None and not problem:
        problem = "it has no JSON object and no clear yes or no" if reply.strip() else "it is empty"
    if said is None:
        return Answer(None, "", replace(notes, problem=problem))
    return Answer(said, one_line(rest, LONGEST_SENT_BACK), replace(notes, form="text"))


#: what stands around a JSON document: blanks, fences with their label, marks
_AROUND = " \t\r\n`jsonJSON\"'*:."


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all keys in lower case, with their values, of objects at any depth."""
    if isinstance(value, tuple):
        for key, inner in value:
            yield key.strip().casefold(), inner
            yield from _members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _members(inner)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value.strip(" .").casefold() in ("yes", "no")


def _said(value: Any) -> bool | None:
    """Return the answer in a JSON value."""
    if isinstance(value, bool):
        return value
    if isinstance(value, list) and len(value) == 1:
        return _said(value[0])
    if isinstance(value, tuple) and value:
        return _said(value[0][1])
    return _plain_answer(value)[0] if isinstance(value, str) else None


def _decided(answers: Sequence[bool | None]) -> tuple[bool | None, str]:
    """Return the only answer, or None and the problem if there are two."""
    said = {answer for answer in answers if answer is not None}
    if len(said) > 1:
        return None, "it has two different answers"
    return next(iter(said), None), ""


def _plain_answer(text: str) -> tuple[bool | None, str]:
    """Return the answer in a text without JSON, and the problem if there are two."""
    text = _QUOTED.sub(" ", _PROMPT.sub(" ", text[:LONGEST_READ]))
    text = _without_table(text)
    text = _CHOICE.sub(" ", _MARKS.sub(" ", text.replace("’", "'")))
    text = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    text = re.sub(r" (?=[.,;:!?])", "", text)
    text = _VERDICT.sub(r"\1yes", text)
    text = _FOREIGN.sub(lambda m: f"{m[1] or ''}{_TRANSLATED[m[2].casefold()]}", text)
    whole = text.strip(" .!。").casefold()
    if whole in _WORDS:
        return _WORDS[whole], ""
    words = [m[1] for pattern in (_LABELLED, _ALONE, _COUNTED) for m in pattern.finditer(text)]
    leading = _LEADING.match(text)
    if leading and not _REFUSES.match(text, leading.start(1)):
        words.append(leading[1])
    said, problem = _decided([word.casefold() in _YES for word in words])
    if said is not None or problem:
        return said, problem
    said, problem = _decided([(m[1] or m[2]).casefold() in _YES for m in _SAYS.finditer(text)])
    if said is not None or problem:
        return said, problem
    said, problem = _decided([_stated(clause) for clause in _CLAUSE.findall(text)])
    if said is not None or problem:
        return said, problem
    return bool(_EMPHATIC.match(text)) or None, ""


def _without_table(text: str) -> str:
    """Return the text with each cell of a table's first row after its heading; a heading with the answer is a row."""
    lines = text.splitlines()
    for place, line in enumerate(lines[1:-1], 1):
        head, row = lines[place - 1], lines[place + 1]
        if "-" in line and set(line) <= set("|-: \t") and "|" in row and re.search(r"\banswer\b", head, re.I):
            heads, cells = (
                [cell.strip(" *_") for cell in part.strip("| \t").split("|")] for part in (head, row)
            )
            if not any(_is_word(cell) for cell in heads):
                found = [f"{name}: {cell}" for name, cell in zip(heads, cells, strict=False)]
                return "\n".join([*lines[: place - 1], *found, *lines[place + 2 :]])
    return text


def _stated(clause: str) -> bool | None:
    """Return True for "They are equivalent", False for "They are not equivalent", None for anything else."""
    match = _SAME.search(clause)
    if match is None or _OPEN.search(clause) or not _SUBJECT.search(clause):
        return None
    before = clause[: match.start()]
    if match["no"] or match["other"] or match["unlike"]:
        return None if _NOT.search(before) else False
    if _NOT.search(before):
        return False
    return True if _VERB.search(before) or match[0].casefold().startswith("mean") else None


_TEXT_KEYS = re.compile(r"(?:paraphras\w*|text|sentence|content|value|output|version|rephras\w*)\W*\d*", re.I)
_PARAPHRASE_KEY = re.compile(r"(?:\w*[ _])?paraphras\w*(?:[ _](?:sentences?|list|texts?))?", re.I)
_LABEL = re.compile(
    r"(?:paraphrase|sentence|version)\s*#?\d*\s*[:.)–-]\s*(?=\S)|\(?\d{1,2}\s?[.):]\s+(?=\S)", re.I
)
_QUOTES = '"“”'
_PLACEHOLDER = re.compile(
    r"(?:your |the )?(?:first |second |third |fourth |fifth )?(?:paraphrased?|sentence|text)(?: sentence)? ?#?\d*"
    r"|none|n/a",
    re.I,
)
_PROMPT_7 = re.compile(
    r"Generate five paraphrases that are semantically equivalent to[^\n]*|Output with key 'paraphrases'[^\n]*",
    re.I,
)
#: a text that asks for the sentence or refuses, instead of a paraphrase
_ASKS = re.compile(
    r"^(?:please|kindly|could you|can you|sure|okay|certainly|of course|i need you|you (?:did|have|need))\b"
    r"[^.?]{0,30}\b(?:provide|share|enter|send|give|paste|specify|supply)\b[^.!?]{0,40}\b(?:sentence|text)\b"
    r"|^(?:i(?:'|’)?m |i am )?(?:very )?(?:sorry|afraid)\b.*\b(?:help with|request|assist|paraphras|comply|provide)"
    r"|^(?:there (?:is|was) )?no (?:sentence|text|input)\b[^.]{0,30}\b(?:provided|given|found|supplied)\b"
    r"|^i (?:can(?:'|’)?t|cannot|can not|am (?:unable|not able) to|won(?:'|’)t|will not)(?: \w+)? "
    r"(?:help|assist|paraphras|rephras|fulfil|comply|generat|provide|complete)",
    re.I,
)
#: between sentences in one text
_BETWEEN = (
    re.compile(r"\s*\|\s*"),
    re.compile(r"\s+/\s+"),
    re.compile(r"\s*;\s+"),
    re.compile(r"(?<=[\"”])[,;]?\s+(?=[\"“])"),
)
#: a paraphrase's label within a line
_INLINE = re.compile(
    r"(?:^|(?<=[.!?\"”;,|])) *\**\b(?:paraphrase|version|sentence) ?#?(\d{1,2})\**\s?[:.)–-]\**\s*(?=\S)",
    re.I | re.M,
)
_ROW = re.compile(r"^[ \t]*\|(.*\w.*)\|[ \t]*$", re.M)
_RULE = re.compile(r"^[ \t]*+\|?+[ \t:]*+-[ \t:-]*+\|[ \t|:-]*+$", re.M)
_TAG = re.compile(r"</?\w{1,20}>")
_OFFER = re.compile(r"(?:let me know|i hope|feel free|would you)\b", re.I)
_REFUSAL = re.compile(r"\b(?:can(?:'|’)t|cannot|unable|not able|won(?:'|’)t|sorry)\b", re.I)
_HERE = re.compile(r"\bhere\b", re.I)


def read_paraphrases(reply: str) -> Paraphrases:
    """Read a reply to prompt 7, such as ``{"paraphrases": ["...", ...]}``, in its order. Never raises.

    - JSON anywhere in the reply decides: the value of a key such as ``paraphrases``; without it, a list of texts or of
      objects with a text, or an object with numbered keys.
    - Without JSON, numbered lines, bullets, or at least three lines that all end like a sentence.
    - After a correction ("Wait, ..."), the part from there on decides if it has paraphrases.
    """
    corrected = after_correction(reply, is_list=True)
    result = _read_paraphrases(corrected) if corrected else None
    if result is None or not result.texts:
        return _read_paraphrases(reply)
    return replace(result, notes=replace(result.notes, text=reply))


def _read_paraphrases(reply: str) -> Paraphrases:
    """Return the paraphrases of a reply without a correction."""
    values, rest = found_json(reply)
    notes = Notes(fenced=bool(values) and FENCE in rest, text=reply)
    keyed = [value for key, value in _top_members(values) if _PARAPHRASE_KEY.fullmatch(key)]
    # Of two lists, the first.
    keyed = [value for value in keyed if isinstance(value, list) and value][:1] or keyed
    if keyed:
        texts = [text for value in keyed for text in _texts(value)]
    elif values:
        texts = [text for value in values for text in _texts(value, is_keyed=False)]
    else:
        texts = []
    if not texts and not keyed:
        texts = _plain_sentences(rest)
    texts = [text for text in map(_cleaned, texts) if text and not _ASKS.search(text)]
    problem = ""
    if not texts:
        problem = _no_paraphrases(reply, has_json=bool(values), has_key=bool(keyed))
    for number, text in enumerate(texts, 1):
        if not is_unicode(text):
            problem = f"paraphrase {number} has characters that are not Unicode"
        elif len(text) > LONGEST_PARAPHRASE:
            problem = f"paraphrase {number} is longer than {LONGEST_PARAPHRASE} characters"
    return Paraphrases(() if problem else tuple(texts), replace(notes, problem=problem))


def _cleaned(text: str) -> str:
    """Return a paraphrase without the number or label of its line; "" for "..." or "paraphrase 1", as in a template."""
    text = " ".join(text.split())
    text = _unquoted(_LABEL.sub("", text, count=1) if _LABEL.match(text) else text)
    if text[:1] in _QUOTES and text[-1:] in _QUOTES and sum(map(text.count, _QUOTES)) == 2:
        text = text[1:-1].strip()
    return text if any(map(str.isalpha, text)) and not _PLACEHOLDER.fullmatch(text) else ""


def _no_paraphrases(reply: str, *, has_json: bool, has_key: bool) -> str:
    """Return why a reply has no paraphrases, in one phrase."""
    if has_key:
        return "the value of 'paraphrases' is not a list of sentences"
    if has_json:
        return "the key 'paraphrases' is missing"
    return "it has no JSON and no list of sentences" if reply.strip() else "it is empty"


def _top_members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield keys and values outside the values of keys such as ``paraphrases``."""
    if isinstance(value, tuple):
        for key, inner in value:
            yield key, inner
            if not _PARAPHRASE_KEY.fullmatch(key):
                yield from _top_members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _top_members(inner)


def _texts(value: Any, *, is_keyed: bool = True) -> list[str]:
    """Return the sentences in a JSON value.

    :param is_keyed: False if no key says that these are paraphrases. Then texts in a list count, and of objects only
        numbered keys.
    """
    if isinstance(value, str):
        lines = list_lines(_INLINE.sub(r"\n\1. ", value))
        return lines if len(lines) > 1 else [text for line in value.splitlines() for text in _sentences(line)]
    if isinstance(value, list):
        return [text for e in value for text in ([e] if isinstance(e, str) else _texts(e))]
    if not isinstance(value, tuple):
        return []
    members = [(key, inner) for key, inner in value if isinstance(inner, str)]
    numbered = [inner for key, inner in members if key.strip()[-1:].isdigit()]
    if numbered:
        return numbered
    if is_keyed:
        named = [inner for key, inner in members if _TEXT_KEYS.fullmatch(key)]
        return named or [inner for _, inner in members]
    return [text for _, inner in value if isinstance(inner, list) for text in _texts(inner)]


def _sentences(line: str) -> list[str]:
    """Split a line at marks between its parts if all of them look like sentences."""
    for mark in _BETWEEN:
        parts = [part for part in mark.split(line) if part]
        if len(parts) > 1 and all(
            part.lstrip("\"'“‘(")[:1].isupper() and len(part.split()) > 2 for part in parts
        ):
            return parts
    return [line]


def _plain_sentences(text: str) -> list[str]:
    """Return the sentences of a list without JSON; an empty list if the text has none."""
    text = without_asides(_TAG.sub("\n", _PROMPT_7.sub("", text)))
    if rule := _RULE.search(text):
        rows = [max(row.split("|"), key=len).strip() for row in _ROW.findall(text, rule.end())]
        return [row for row in rows if row]
    text = _INLINE.sub(r"\n\1. ", text)
    items = list_lines(text)
    before = text[: text.find(items[0])] if items else text
    if _REFUSAL.search(before) and not _HERE.search(before):
        return []
    if items:
        return items
    lines = [line.strip(" *_\t,") for line in text.splitlines() if FENCE not in line]
    if len(lines) == 1 and (match := re.match(r"(?:\w+ ){0,3}paraphrases?: ", lines[0], re.I)):
        lines = _sentences(lines[0][match.end() :])
    lines = [line for line in lines if line[-1:] != ":" and _cleaned(line) and not _OFFER.match(line)]
    are_sentences = all(line.rstrip("\"'”*")[-1:] in ".!?" for line in lines)
    return lines if are_sentences and len(lines) > 2 else []


async def ask_answer(oracle: Oracle, messages: Messages, *, sample: int = 0) -> Answer:
    """Ask prompt 5 or 6 and return the yes or no.

    :raises BackendError: if the call could not be made.
    """
    return await _ask(oracle, messages, ANSWER_FORM, read_answer, sample)


async def ask_paraphrases(
    oracle: Oracle, sentence: str, *, sample: int = 0, is_usable: Callable[[Paraphrases], bool] | None = None
) -> Paraphrases:
    """Ask prompt 7 and return the paraphrases.

    :param is_usable: returns False for paraphrases that are too near to the sentence. Others are then asked for, once.
    :raises BackendError: if the call could not be made.
    """
    messages = paraphrases_prompt(sentence)
    first = await _ask(oracle, messages, PARAPHRASES_FORM, read_paraphrases, sample)
    if not first.texts or is_usable is None or is_usable(first):
        return first
    shown = Message("assistant", first.notes.text[:LONGEST_SENT_BACK])
    again = (*messages, shown, Message("user", fill(FARTHER, form=PARAPHRASES_FORM)))
    second = await _read_reply(oracle, again, read_paraphrases, sample)
    return second if second.texts else first


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
