"""Small changes of a sentence that change what it says: known negatives for pairs without labels.

Each edit changes one thing: a number, who does something to whom, or a negation. They are made from the sentence's
tree; a sentence without a number, without an object, or without an auxiliary verb lacks the corresponding edit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_llmprops.benchmarks.oracle.arguments import Argument, arguments
from pytest_llmprops.benchmarks.oracle.covering import NUMBER_WORDS
from pytest_llmprops.benchmarks.oracle.trees import Parsed, Span

KINDS = ("numbers", "roles", "negation")
#: forms of verbs that are not changed in meaning if subject and object are swapped, or that have no object
_SYMMETRIC = re.compile(
    r"(am|are|be|been|being|is|was|were|becom\w+|became|remain\w*|seem\w*|equal\w*|match\w*|meet\w*|met|marr\w+"
    r"|resembl\w+|rival\w*)\Z"
)
_AUXILIARIES = frozenset(
    [
        "are",
        "can",
        "could",
        "did",
        "do",
        "does",
        "had",
        "has",
        "have",
        "is",
        "may",
        "might",
        "must",
        "shall",
        "should",
        "was",
        "were",
        "will",
        "would",
    ]
)
_BE = frozenset({"are", "is", "was", "were"})
_DIGITS = re.compile(r"[\d.,]*\d\Z")


def minimal_edits(sentence: Parsed) -> Mapping[str, str]:
    """Return the edited sentences by kind, for the kinds that the sentence allows."""
    edits = {"numbers": _number(sentence), "roles": _roles(sentence), "negation": _negation(sentence)}
    return {kind: text for kind, text in edits.items() if text is not None}


def _number(sentence: Parsed) -> str | None:
    """Return the sentence with its first number changed by one."""
    for token, word in enumerate(sentence.tree.tokens):
        if _DIGITS.match(word):
            last = int(word[-1])
            return _replaced(sentence, (token, token + 1), word[:-1] + str(last + 1 if last < 9 else 8))
        # Parsers split "twenty-four".
        if word.lower() in NUMBER_WORDS and sentence.tree.tokens[token + 1 : token + 2] != ("-",):
            place = NUMBER_WORDS.index(word.lower())
            other = NUMBER_WORDS[place + 1 if place + 1 < len(NUMBER_WORDS) else place - 1]
            return _replaced(sentence, (token, token + 1), other.capitalize() if word[0].isupper() else other)
    return None


def _negation(sentence: Parsed) -> str | None:
    """Return the sentence with ``not`` after its first auxiliary verb."""
    tokens, tags = sentence.tree.tokens, sentence.tree.tags
    for token, word in enumerate(tokens[:-1]):
        following = tags[token + 1]
        if word.lower() not in _AUXILIARIES or tokens[token + 1].lower() in ("not", "n't", "n’t"):
            continue
        # "had a gain" has no auxiliary, and "is" needs none.
        if word.lower() in _BE or following.startswith(("VB", "RB")):
            end = sentence.spans[token][1]
            return f"{sentence.text[:end]} not{sentence.text[end:]}"
    return None


def _roles(sentence: Parsed) -> str | None:
    """Return the sentence with the subject and the object of a verb swapped."""
    phrases = arguments(sentence.tree)
    for subject in phrases:
        for other in phrases:
            if (subject.role, other.role, subject.verb) == ("agent", "patient", other.verb):
                text = _swapped(sentence, subject, other)
                if text is not None:
                    return text
    return None


def _swapped(sentence: Parsed, subject: Argument, other: Argument) -> str | None:
    tree = sentence.tree
    one, two = subject.span, other.span
    verb = tree.tokens[subject.verb].lower()
    tags = [tree.tags[token] for span in (one, two) for token in range(*span)]
    has_noun = all(any(tree.tags[t].startswith("NN") for t in range(*span)) for span in (one, two))
    # Pronouns change their form, and "rose 15 percent" has no object.
    if one[1] > two[0] or _SYMMETRIC.match(verb) or not has_noun or {"PRP", "CD"} & set(tags):
        return None
    moved, risen = sentence.phrase(two), sentence.phrase(one)
    if moved.casefold() == risen.casefold():
        return None
    if one[0] == 0 and tree.tags[0] in ("DT", "PRP$", "JJ", "NNS"):
        risen = risen[0].lower() + risen[1:]
    if one[0] == 0:
        moved = moved[0].upper() + moved[1:]
    swapped = _replaced(sentence, two, risen)
    start, end = sentence.spans[one[0]][0], sentence.spans[one[1] - 1][1]
    return swapped[:start] + moved + swapped[end:]


def _replaced(sentence: Parsed, span: Span, text: str) -> str:
    start, end = sentence.spans[span[0]][0], sentence.spans[span[1] - 1][1]
    return sentence.text[:start] + text + sentence.text[end:]
