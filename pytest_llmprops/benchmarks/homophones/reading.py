"""Reading a model's reply to "can you tell its true meaning?".

The paper counts a reply as correct if it contains the answer (``contains``). ``word`` asks whether the reply offers
it: see `mentions`. The paper names two things that accuracy alone hides: refusals, the most common error
(section 9.1), and replies that guess several answers (section 10.3). All are recognised by regular expressions in
a data file that can be replaced (``data/homophones/reading_rules.json``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from rapidfuzz.distance import Levenshtein

from pytest_llmprops.benchmarks.homophones.answer_forms import Forms, forms_of
from pytest_llmprops.benchmarks.homophones.mentions import (
    Echo,
    Offer,
    candidates,
    clean,
    final_answer,
    meanings,
    offer,
)
from pytest_llmprops.benchmarks.homophones.normal import (
    HAN,
    fold,
    plain,
    prepare,
    sentence_pattern,
    without_markup,
)
from pytest_llmprops.benchmarks.homophones.reading_rules import Rule, Rules, Words, without_group
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.verdicts import OTHER_READING, READ_ALIKE, READ_BY, Verdict

#: The rules for refusals and several answers search only this many characters of a longer reply: its beginning and, as
#: the last fifth, its end. All rules together take about 5 ms per 1,000 characters.
LONGEST_READ = 3_000
#: What ``word`` goes by, for `llmprops readings`.
_READ_BY = {
    Offer.MENTIONED: "only mention",
    Offer.NAMED: "named answer",
    Offer.RESTORED: "restored sentence",
}
#: Maximum number of candidates per kind of rule; a reply with more is a list of words.
_CANDIDATES = 50


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says.

    :param correct: It contains the answer (``contains``), or offers it (``word``), whatever else it says.
    :param refused: It gives no answer and says why.
    :param empty: It has no letter and no digit.
    :param answers_named: Distinct answers that the rules recognise, in order.
    :param several: It offers more than one answer (paper, section 10.3), correct or not.
    :param reason: A short phrase that explains the judgement.
    :param read_by: The rule that decided, without details of the reply.
    :param is_echo: It only repeats the question.
    :param other_correct: Whether the other rule (``contains`` for ``word``, and the reverse) finds it correct.
    """

    correct: bool
    refused: bool
    empty: bool
    answers_named: tuple[str, ...]
    several: bool
    reason: str
    read_by: str
    is_echo: bool = False
    other_correct: bool = False


def contains_answer(reply: str, answers: Iterable[str], match: str, language: str, words: Words) -> bool:
    """Return True if one of the answers occurs in the reply.

    :param match: ``contains`` is the paper's substring match: only case is ignored. ``word`` matches whole words,
        if the script separates words, and ignores inflection, accents and the Chinese script.
    :param language: The item's language. Outside English, an English answer "to sow" also matches "sow".
    """
    if match == "word":
        return forms_of(tuple(answers), language, words).found_in(reply)
    if match != "contains":
        raise ValueError(f"homophones.match is {match!r}: use contains or word")
    text = fold(reply)
    for answer in answers:
        folded = fold(answer).strip()
        if language != "en" and folded.startswith("to "):
            folded = folded[3:].strip()
        if folded and folded in text:
            return True
    return False


def reading(
    reply: str,
    answers: Sequence[str],
    match: str,
    language: str,
    rules: Rules,
    *,
    word: str = "",
    sentence: str = "",
) -> Reading:
    """Read one reply. No reply makes this raise.

    :param word: The homophone; a reply that repeats it gives no answer.
    :param sentence: The item's sentence; the same holds for it.
    """
    shown = _first_answer(without_markup(reply), word, rules)
    if not any(character.isalnum() for character in shown):
        return Reading(False, False, True, (), False, "the reply is empty", "empty")
    echo = Echo(fold(word), fold(sentence))
    text = prepare(_ends(shown), word, sentence)
    is_echo = rules.phrase("question").match(text.casefold()) is not None
    for rule in rules.ignore:
        text = rule.pattern.sub(lambda m: without_group(m, "gloss"), text)
    named: dict[str, str] = {}
    quoted: dict[str, str] = {}
    for hit in _hits(rules.answer, text, named):
        named_here = candidates(hit, rules, echo)
        named.update(named_here)
        if any(value and value.startswith("⟦") for value in hit.groupdict().values()):
            quoted.update(named_here)
    folded = text.casefold()
    refusal = _refusal(folded, rules, echo)
    forms = forms_of(tuple(answers), language, rules.words, word)
    kind = offer(shown, forms, word, sentence, rules)
    offers = kind >= Offer.NAMED or (
        kind is Offer.MENTIONED
        and not any(not rule.is_weak and rule.pattern.search(folded) for rule in rules.refusal)
        and not any(_is_other(candidate, text, forms) for candidate in named)
    )
    without_question = _without_question(reply, word, sentence, rules)
    contains = contains_answer(without_question, answers, "contains", language, rules.words)
    correct, other_correct = (offers, contains) if match == "word" else (contains, offers)
    offered = [quoted]
    for hit in _hits(rules.alternatives, text, offered):
        offered.append(candidates(hit, rules, echo))
    listed: dict[str, str] = {}
    for hit in _hits(rules.list, text, listed):
        listed.update(candidates(hit, rules, echo))
    offered.append(listed)
    plural = [group for group in offered if _distinct(group, answers, language, rules.words) > 1]
    for group in plural:
        named.update(group)
    if not named and refusal is None and len(text.split()) <= 4 and len(text) <= 40:
        named.update(clean(text, rules, echo))
    is_echo = is_echo and not correct
    refused = refusal is not None and not correct and not named and not is_echo
    if correct:
        reason = "contains the answer" if match == "contains" else "offers the answer"
        read_by = reason if match == "contains" else _READ_BY[kind]
    elif is_echo:
        reason = read_by = "repeats the question"
    elif refused and refusal is not None:
        reason = f"refuses: {refusal.name}"
        read_by = f"refusal rule {refusal.name}"
    else:
        is_mentioned = match == "word" and forms.found_in(_without_question(shown, word, sentence, rules))
        first = next(iter(named.values()), None)
        reason = "no answer found in the reply" if first is None else f"names {first}"
        if is_mentioned:
            reason = "mentions the answer without offering it"
        if any(m.kind != "turn" for m in meanings(plain(folded, rules.words), rules, echo)):
            read_by = "defines another meaning"
        elif named:
            read_by = "names another word"
        else:
            read_by = reason
    if len(shown) > LONGEST_READ:
        reason += f"; only the beginning and the end of {len(shown):,} characters were read for other answers"
    return Reading(
        correct, refused, False, tuple(named.values()), bool(plural), reason, read_by, is_echo, other_correct
    )


def _first_answer(text: str, word: str, rules: Rules) -> str:
    """Return a reply up to the next question, if a base model goes on with one about another word."""
    homophone = word.casefold()
    for question in rules.phrase("next_question").finditer(text):
        before = text[: question.start()]
        is_other = not homophone or homophone not in question[0].casefold()
        if is_other and any(character.isalnum() for character in before):
            return before
    return text


def _refusal(text: str, rules: Rules, echo: Echo) -> Rule | None:
    """Return the first rule for refusals that matches the folded text."""
    for rule in rules.refusal:
        if hit := rule.pattern.search(text):
            says_something = (
                _says_something(text, rules, echo)
                if rule.is_last
                else (any(m.start >= hit.end() for m in meanings(plain(text, rules.words), rules, echo)))
            )
            return None if says_something else rule
    return None


def _says_something(text: str, rules: Rules, echo: Echo) -> bool:
    """Return True if the reply gives the homophone a meaning, denies one, or settles on a word."""
    shown = plain(text, rules.words)
    if next(meanings(shown, rules, echo), None) is not None or final_answer(shown, rules, echo) is not None:
        return True
    rejected = islice(rules.phrase("rejected").finditer(shown), _CANDIDATES)
    return any(clean(match[match.lastgroup or 0], rules, echo) for match in rejected)


def _hits(rules: Iterable[Rule], text: str, found: Sized) -> Iterator[re.Match[str]]:
    """Yield the matches of the rules until ``found``, which the caller fills, has enough candidates."""
    for rule in rules:
        for hit in rule.pattern.finditer(text):
            if len(found) >= _CANDIDATES:
                return
            yield hit


def _ends(text: str) -> str:
    """Return the text, or the beginning and the end of a long one."""
    if len(text) <= LONGEST_READ:
        return text
    end = LONGEST_READ // 5
    return f"{text[: LONGEST_READ - end]}\n\n{text[-end:]}"


def _is_other(candidate: str, text: str, forms: Forms) -> bool:
    """Return True if a candidate is another answer, and no part of a phrase with the answer ("fishing net")."""
    if forms.pattern is None or forms.found_in(candidate):
        return False
    phrase = rf"{re.escape(plain(candidate, forms.words, exact=forms.exact))}\s+(?:{forms.pattern.pattern})"
    return re.search(phrase, plain(text, forms.words, exact=forms.exact)) is None


def _without_question(reply: str, word: str, sentence: str, rules: Rules) -> str:
    """Return the folded reply without the question and the sentence, if it repeats them."""
    text = fold(reply)
    for rule in rules.echo:
        text = rule.pattern.sub(" ", text)
    return sentence_pattern(fold(sentence), fold(word)).sub(" ", text)


def _distinct(group: Mapping[str, str], answers: Sequence[str], language: str, words: Words) -> int:
    """Return the number of different answers. Two accepted answers ("fridge", "refrigerator") count as one,
    and so does 键盘 with its translation."""
    by_script: dict[bool, set[str]] = {True: set(), False: set()}
    for folded in group:
        # A single character of a longer candidate explains that candidate.
        if HAN.search(folded) and any(folded != other and folded in other for other in (*group, *answers)):
            continue
        same = contains_answer(folded, answers, "word", language, words)
        by_script[HAN.search(folded) is not None].add("the answer" if same else folded)
    return max(map(len, by_script.values()))


def spelling_distance(word: str, answer: str) -> float:
    """Return the edit distance divided by the longer length, in [0, 1]. Case is ignored.

    A model may use similar spelling as a clue without knowing how words sound (section 10.2).
    """
    return Levenshtein.normalized_distance(word.casefold(), answer.casefold())


def judge(
    item: Item, reply: Reply, rules: Rules, match: Literal["contains", "word"], *, asks: int
) -> Verdict:
    """Return the verdict on a reply.

    A reply that is empty, cut off before an answer, or only repeats the question is ``unparsed``.
    """
    answers: Sequence[str] = item["answers"]
    result = reading(
        reply.text, answers, match, item.language, rules, word=item["word"], sentence=item["sentence"]
    )
    values = {
        "several": float(result.several),
        "answers_named": float(len(result.answers_named)),
        "function_word": float(item["function_word"]),
        "spelling_distance": round(spelling_distance(item["word"], answers[0]), 4),
        "asks": float(asks),
    }
    if item["dialect"]:
        values["dialect"] = float(item["dialect"] != "general")
    status: Literal["correct", "wrong", "refused", "unparsed"]
    given, reason = ", ".join(result.answers_named) or reply.text, result.reason
    read_by = result.read_by
    if reply.finish_reason == "content_filter":
        status, reason, read_by = "refused", "a content filter refused", "content filter"
    elif result.correct:
        forms = forms_of(tuple(answers), item.language, rules.words)
        right = (name for name in result.answers_named if forms.found_in(name))
        status, given = "correct", next(right, answers[0])
    elif result.empty or result.is_echo:
        status = "unparsed"
    elif result.refused:
        status, given = "refused", reply.text
    elif reply.finish_reason == "length" and not result.answers_named:
        status, reason, read_by = "unparsed", "cut off before an answer", "cut off before an answer"
    else:
        status = "wrong"
    values[READ_ALIKE] = float(result.correct == result.other_correct)
    evidence = {READ_BY: read_by}
    if result.correct != result.other_correct:
        evidence[OTHER_READING] = "correct" if result.other_correct else "not correct"
    return Verdict(status, " / ".join(answers), given, reason, float(status == "correct"), values, evidence)
