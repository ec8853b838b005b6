"""What a reply denies, and on what it settles: the rules ``kept``, ``denied`` and ``final`` on a marked reply."""

from __future__ import annotations

import re

from pytest_llmprops.benchmarks.homophones.candidates import Echo, clean
from pytest_llmprops.benchmarks.homophones.normal import HAN
from pytest_llmprops.benchmarks.homophones.reading_rules import Rules

#: The mark of a mention in the text that the rules ``kept``, ``denied`` and ``final`` search.
MARK = "<a>"
#: What precedes a rival that is another possibility, an example, or denied.
_ASIDE = re.compile(
    r"(?:(?:\b(?:or|and|o|u|y|e|nor|ni|vs\.?|versus|than|que)(?: (?:as|like|maybe|perhaps|possibly|even|quizas?))?|"
    r"alternatives?,|other (?:option|candidate|reading)s?,|或者?|还是|和|与|、|/|⟧\s*[,，]|\||\(|⟧)\s*⟦?"
    r"(?:(?:an?|the|una?|el|la) )?|\n\s*(?:-|\d{1,2}[.)])\s*|⟧\s*:\s*)\Z"
    r"|(?:\b(?:not|no|never|nor|cannot|as in|like|such as|e\.g|example|rhym\w+|unlike|similar\w*|resembl\w+|also|too|"
    r"alternativ\w+|another|other|could|might|may|can|perhaps|possibly|maybe|instead of|rather than|opposed to|"
    r"confus\w+|mistak\w+|sound\w*|pronounc\w+|letters?|silent|spell\w*|spelt|writ\w+|wrote|syllables?|starts?|"
    r"ends?|begin\w*|plural|singular|short for|synonym\w*|mean(?:s|ing)?|translat\w+|english|spanish|in the sense|"
    r"podria|puede|tambien|quizas?|suena|pronuncia|escrib\w+|como|letras?|ejemplo|significa|decir|en vez|en lugar|"
    r"parecid\w+|otr[oa]s?|typo|slang|phonetic\w*|sentence|context|clues?|phrase|words?|because|since|with|"
    r"before|after|whereas|while|mientras|frase|contexto|palabras?|porque)\b|n't\b|"
    r"可能|也|例如|比如|像|不|非|无|没|读|音|写|字|意|因为|根据|结合)[^.,;!?。，；！？\n⟦]{0,40}\Z"
)
#: What follows a rival that is denied.
_WITHDRAWN = re.compile(
    r"[,，]? ?(?::|(?:is|was|would be|es|seems) (?:\w+ )?(?:not|wrong|incorrect|unlikely|silent|different|another|"
    r"also|something|a )|isn't|doesn't|does not|no (?:es|encaja|tiene)|would not|wouldn't|cannot|can't|sounds|"
    r"fits? less|too|不|也|说不通|等)"
)


def denied_spans(marked: str, rules: Rules, echo: Echo) -> list[tuple[int, int]]:
    """Return the spans that the rules ``denied`` take and the rules ``kept`` do not."""
    kept = [m.span("kept") for rule in rules.kept for m in rule.pattern.finditer(marked)]
    spans = []
    for rule in rules.denied:
        for match in rule.pattern.finditer(marked):
            if "other" in rule.pattern.groupindex and _rival(match["other"] or "", rules, echo) is None:
                continue
            for group, value in match.groupdict().items():
                if not value or not group.startswith(("denied", "undecided")):
                    continue
                start, end = match.span(group)
                is_kept = any(s < end and start < e for s, e in kept)
                if group.startswith("undecided") or not is_kept:
                    spans.append((start, end))
    return spans


def is_overruled(marked: str, start: int, form: str, rules: Rules, echo: Echo) -> bool:
    """Return whether the reply puts a quoted rival after its last mention of the answer, and stands by it.

    :param start: Where the last mention is marked.
    :param form: What was there; a rival in another script is a translation.
    """
    for quoted in re.finditer(r"⟦([^⟦⟧\n]{1,40})⟧", marked[start:]):
        at = start + quoted.start()
        rival = _rival(quoted[0], rules, echo)
        if rival is None or bool(HAN.search(rival)) != bool(HAN.search(form)) or rival in form:
            continue
        if len(rival) < 3 and not HAN.search(rival):
            continue
        before, after = marked[max(start + len(MARK), at - 70) : at], marked[at + len(quoted[0]) :][:60]
        if not (_ASIDE.search(before) or _WITHDRAWN.match(after)):
            return True
    return False


def final_rival(marked: str, rules: Rules, echo: Echo) -> str | None:
    """Return the candidate that the reply's last final answer names, if that is not the answer."""
    answers = [
        (match.start(group), value)
        for rule in rules.final
        for match in rule.pattern.finditer(marked)
        for group, value in match.groupdict().items()
        if value
        and group.startswith("answer")
        and (MARK in value or len(value) == 1 or clean(value, rules, echo))
    ]
    _, last = max(answers, default=(0, MARK))
    # "A: driver, B: dryer. Answer: B" names what follows the letter.
    if option := re.fullmatch(r"[⟦\s]*([a-e])[⟧\s.)]*", last):
        is_right = re.search(rf"(?<!\w){option[1]}\s?[.:)、．]\s?⟦?{MARK}", marked)
        return None if is_right else last
    return _rival(last, rules, echo)


def _rival(text: str, rules: Rules, echo: Echo) -> str | None:
    """Return a candidate other than the answer, folded. A longer text explains the answer ("a person who drives")."""
    if MARK in text:
        return None
    for folded in clean(text, rules, echo):
        if len(folded.split()) <= 2 and not (HAN.search(folded) and ("的" in folded or len(folded) > 5)):
            return folded
    return None
