"""Read a model's reply to "can you tell its true meaning?".

``contains`` is the paper's rule: a reply is judged "solely by if it contains the correct answer" (section 6.4).
``line`` reads the last line that the question asks for, ``ANSWER: word``. A reply without this line must have the
answer as whole words, which may be inflected, and must neither reject it each time nor only compare the sounds.

The paper names two things that accuracy alone hides: refusals, the most common error (section 9.1), and replies that
guess several answers (section 10.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from rapidfuzz.distance import Levenshtein

from pytest_llmprops.core.items import Item
from pytest_llmprops.core.reading import rejects
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.texts import plain
from pytest_llmprops.core.verdicts import OTHER_READING, READ_ALIKE, READ_BY, Status, Verdict

Match = Literal["contains", "line"]
#: The request for the last line that ``line`` reads.
REQUEST = "End your reply with one more line that has only the word that is meant:\nANSWER: <word>"
_LINE = re.compile(r"^[\W_]*answer[\W_]*[:：=]\W*(\w[^\n]*)$", re.IGNORECASE | re.MULTILINE)
_PLACEHOLDER = re.compile(r"<?(?:the )?(?:word|answer|your answer)>?\W*", re.IGNORECASE)
#: A last line that says that the model does not know.
_UNKNOWN = re.compile(
    r"(?:unknown|unclear|none|n/?a|i don't know|不知道|未知|desconocid[oa])\W*", re.IGNORECASE
)
_REFUSAL = re.compile(
    r"\b(?:can(?:not|'t)|could(?:n't| not)|unable to|not able to) (?:\w+ ){0,3}?(?:determine|tell|say|identify"
    r"|know|find|provide|answer|help|assist|understand|figure|give|be (?:determined|certain|sure))"
    r"|\b(?:do(?:n't| not)|did(?:n't| not)) (?:know|recogni[sz]e|understand|have (?:enough|sufficient))"
    r"|\bnot (?:sure|certain|familiar)"
    r"|\bmore (?:context|information)\b|\b(?:no (?:puedo|se|sabria|conozco)|mas contexto)\b"
    r"|无法(?:确定|判断|理解|回答|得知)|不(?:知道|清楚|确定|认识)|更多(?:上下文|信息)",
    re.IGNORECASE,
)
#: A comparison of sounds, and what says that another meaning follows or is meant: "sounds like X, but means Y".
_COMPARED = re.compile(
    r"\b(?:sounds? (?:\w+ ){0,2}(?:like|to|as)|(?:pronounced|pronunciation|sound)\b(?: \w+){0,2} (?:like|as)"
    r"|(?:confused|mixed up|interchanged) with|suena (?:\w+ )?(?:como|a|que)|(?:se pronuncia|pronunciado) como"
    r"|parecido a|confund\w+ con)[^.,;\n]{0,40}"
    r"|(?:同音|听起来像|读音|发音|混淆)[^。.,;\n]{0,12}|与[^。.,;\n]{1,8}(?:同音|混淆)",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r"\b(?:but|although|though|while|however|actually|different|confused|mixed up|not the same|pero|aunque"
    r"|en realidad|a menudo)\b|但|不同|其实|虽然|不是|混淆|无关",
    re.IGNORECASE,
)
_OR = r"\s*,?\s*(?:\bor\b|\bo\b|或者?|还是|,|/|\|)\s*(?:maybe |perhaps |possibly |even )?"
_SEVERAL = re.compile(rf"\"[^\"\n]{{1,30}}\"{_OR}\"|'[^'\n]{{1,30}}'{_OR}'")
#: Endings of regular forms: English plurals and verbs, Spanish gender and number.
_ENDINGS = {"en": "'s|s|es|ed|d|ing|n|en|er", "es": "s|es|a|as|os", "zh": "s|es|ed|d|ing"}
_SHORT = 2


@lru_cache(maxsize=4096)
def _forms(answer: str, language: str) -> str:
    """Return a pattern for an answer and its regular forms, as whole words if its script has spaces."""
    word = plain(answer).casefold().strip()
    if language != "en":
        word = word.removeprefix("to ")
    shape = re.escape(word)
    if not word or not word.isascii():
        return shape
    ending = f"(?:{_ENDINGS[language]})?"
    if len(word) <= _SHORT:
        ending = ""
    elif language == "es" and word[-1] in "aeo":
        shape, ending = re.escape(word[:-1]), f"(?:{word[-1]}|[aeo]s?)"
    elif word[-1] in "ey" and len(word) > 3:
        shape, ending = re.escape(word[:-1]), f"(?:{word[-1]}(?:'s|s|d|n|r|ing)?|ies|ied|ing|en)"
    return rf"(?<![a-z0-9]){shape}{ending}(?![a-z0-9])"


def contains_answer(reply: str, answers: Sequence[str], language: str) -> bool:
    """Return True if one of the answers occurs in the reply, by the paper's rule; case is ignored.

    Outside English, an English answer "to sow" also matches "sow".
    """
    text = reply.casefold()
    plain_answers = (answer.casefold().strip() for answer in answers)
    return any(a and (a if language == "en" else a.removeprefix("to ")) in text for a in plain_answers)


def answer_line(reply: str) -> str | None:
    """Return what follows ``ANSWER:`` in the last such line of a reply; None without one."""
    lines = [line for line in _LINE.findall(plain(reply)) if not _PLACEHOLDER.fullmatch(line)]
    return lines[-1].strip(" .*_\"'`})") if lines else None


def offers_answer(reply: str, answers: Sequence[str], language: str, simplified: Mapping[int, str]) -> bool:
    """Return True if a reply's last line has one of the answers, or else the reply names one without rejecting it.

    :param simplified: translates traditional characters into simplified ones.
    """
    text = plain(reply).translate(simplified)
    pattern = "|".join(filter(None, (_forms(answer, language) for answer in answers)))
    line = answer_line(text)
    if line is not None:
        return re.search(pattern, line.casefold()) is not None
    if _CONTRAST.search(text):
        text = _COMPARED.sub(" ", text)
    found = {match[0] for match in re.finditer(pattern, text.casefold())}
    return bool(found) and not rejects(text, sorted(found))


def spelling_distance(word: str, answer: str) -> float:
    """Return the edit distance divided by the longer length, in [0, 1]. Case is ignored.

    A model may use similar spelling as a clue without knowing how words sound (section 10.2).
    """
    return Levenshtein.normalized_distance(word.casefold(), answer.casefold())


def _repeats(text: str, question: str) -> bool:
    """Return True if a reply has only words of the question, or is a part of it."""
    said, asked = text.casefold(), question.casefold()
    words = re.findall(r"\w+", said)
    return set(words) <= set(re.findall(r"\w+", asked)) or " ".join(said.split()).strip(" ?.\"'") in asked


def judge(
    item: Item, reply: Reply, simplified: Mapping[int, str], match: Match, *, question: str, asks: int
) -> Verdict:
    """Return the verdict on a reply.

    A reply that is empty, cut off before an answer, or only repeats the question is ``unparsed``.

    :param simplified: translates traditional characters into simplified ones. :param question: that was asked.
    """
    answers: Sequence[str] = item["answers"]
    text = plain(reply.text)
    line = answer_line(text) if match == "line" else None
    by_line = offers_answer(reply.text, answers, item.language, simplified)
    by_paper = contains_answer(reply.text, answers, item.language)
    is_right = by_line if match == "line" else by_paper
    several = len(re.split(_OR, line)) > 1 if line is not None else _SEVERAL.search(text) is not None
    values = {
        "several": float(several),
        "function_word": float(item["function_word"]),
        "spelling_distance": round(spelling_distance(item["word"], answers[0]), 4),
        "asks": float(asks),
        READ_ALIKE: float(by_line == by_paper),
    }
    if match == "line":
        values["line"] = float(line is not None)
    if item["dialect"]:
        values["dialect"] = float(item["dialect"] != "general")
    read_by = "answer line" if line is not None else "the paper's rule"
    status: Status
    given = line or reply.text
    if reply.finish_reason == "content_filter":
        status, reason, read_by = "refused", "a content filter refused", "content filter"
    elif is_right:
        status, reason = "correct", "the last line has the answer" if line else "contains the answer"
        given = line or answers[0]
    elif line is not None and (_UNKNOWN.fullmatch(line) or _REFUSAL.search(line)):
        status, reason = "refused", "the last line says that it cannot answer"
    elif line is not None:
        status, reason = "wrong", f"the last line has {line}"
    elif not any(map(str.isalnum, text)):
        status, reason = "unparsed", "the reply is empty"
    elif _repeats(text, plain(question)):
        status, reason = "unparsed", "repeats the question"
    elif _REFUSAL.search(text):
        status, reason = "refused", "says that it cannot answer"
    elif reply.finish_reason == "length":
        status, reason = "unparsed", "cut off before an answer"
    else:
        status, reason = "wrong", "rejects the answer" if by_paper else "does not contain the answer"
    evidence = {READ_BY: read_by}
    if by_line != by_paper:
        other = by_paper if match == "line" else by_line
        evidence[OTHER_READING] = "correct" if other else "not correct"
    return Verdict(status, " / ".join(answers), given, reason, float(status == "correct"), values, evidence)
