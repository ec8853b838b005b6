"""What phrases of two sentences are compared by: arguments of verbs, content words, numbers and negations.

Arguments are the subjects, objects and agents of verbs, read from a constituency tree in Penn Treebank style.
They say who does something to whom. Phrase mappings must not change this (``covering``), and a minimal edit swaps it
(``edits.minimal_edits``). Clauses of other shapes (questions, relative clauses without a subject) have no arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from pytest_llmprops.benchmarks.oracle.trees import Node, Span, Tree

Role = Literal["agent", "patient"]
_BE = frozenset({"am", "are", "be", "been", "being", "is", "was", "were", "'m", "'re", "'s"})
_CLAUSES = frozenset({"S", "SINV", "SQ"})
#: last words of noun phrases that say when, such as "next week"; they are not objects
_TIMES = frozenset(
    [
        "afternoon", "day", "earlier", "evening", "friday", "later", "monday", "month", "morning", "night",
        "saturday", "sunday", "thursday", "time", "times", "today", "tomorrow", "tuesday", "wednesday", "week",
        "year", "yesterday",
    ]
)  # fmt: skip
_NOUN_PHRASES = frozenset({"NP", "NML"})
NEGATIONS = frozenset(
    ["cannot", "n't", "n’t", "neither", "never", "no", "nobody", "none", "nor", "not", "nothing", "without"]
)
#: "one" is left out, because it is often a pronoun
NUMBER_WORDS = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip
_NUMBERS = {word: str(number) for number, word in enumerate(NUMBER_WORDS, 2)}
_NOT_NUMERIC = re.compile(r"[^\d.]")


@dataclass(frozen=True, slots=True)
class Argument:
    """A noun phrase that is an argument of a verb.

    :param span: its tokens.
    :param verb: the token of the main verb.
    """

    span: Span
    role: Role
    verb: int


def arguments(tree: Tree) -> tuple[Argument, ...]:
    """Return the subjects, objects and agents ("by …") of all clauses. The subject of a passive is a patient."""
    return tuple(argument for node in tree.nodes for argument in _of_clause(tree, node))


def _labels(node: Node) -> frozenset[str]:
    """Return the labels of a node, which may be a unary chain."""
    return frozenset(node.label.split("+"))


def _of_clause(tree: Tree, clause: Node) -> Iterator[Argument]:
    predicates = [child for child in clause.children if "VP" in _labels(child)]
    if not _labels(clause) & _CLAUSES or not predicates:
        return
    predicate = predicates[0]
    before = [c for c in clause.children if _labels(c) & _NOUN_PHRASES and c.end <= predicate.start]
    passive = False
    inner = predicate
    while True:
        words = [child for child in inner.children if not child.children] or [inner]
        verbs = [word.start for word in words if tree.tags[word.start].startswith("VB")]
        deeper = [child for child in inner.children if "VP" in _labels(child)]
        is_be = any(tree.tokens[verb].lower() in _BE for verb in verbs)
        if not deeper:
            break
        passive = is_be and _first_tag(tree, deeper[0]) == "VBN"
        inner = deeper[0]
    if not verbs:
        return
    verb = verbs[-1]
    if before:
        last = before[-1]
        yield Argument((last.start, last.end), "patient" if passive else "agent", verb)
    for child in inner.children:
        if child.start <= verb:
            continue
        if _labels(child) & _NOUN_PHRASES and not passive:
            if tree.tokens[child.end - 1].lower() not in _TIMES:
                yield Argument((child.start, child.end), "patient", verb)
            return
        if not passive and not _labels(child) & {"PRT", "RP"}:
            return
        if passive and "PP" in _labels(child) and tree.tokens[child.start].lower() == "by":
            yield Argument((child.start + 1, child.end), "agent", verb)
            return


def _first_tag(tree: Tree, predicate: Node) -> str:
    """Return the tag of the first verb of a verb phrase."""
    tags = (tree.tags[token] for token in range(predicate.start, predicate.end))
    return next((tag for tag in tags if tag.startswith("VB")), "")


def is_oblique(tree: Tree, node: Node) -> bool:
    """Return True for a prepositional phrase, except one with "of" or "by"."""
    return "PP" in _labels(node) and tree.tokens[node.start].lower() not in ("of", "by")


def inside(part: Span, span: Span) -> bool:
    """Return True if ``part`` is in ``span``."""
    return span[0] <= part[0] and part[1] <= span[1]


def head_of(tree: Tree, place: int) -> Node | None:
    """Return the part of a constituent without which it is no phrase: a verb phrase or verb, or the noun."""
    node = tree.nodes[place]
    if is_nominal(tree, node):
        first: list[Node] = []
        for child in node.children:
            if not child.children or is_nominal(tree, child):
                first.append(child)
            elif any(is_nominal(tree, other) for other in first):
                break
        return next((c for c in reversed(first) if is_nominal(tree, c)), first[-1] if first else None)
    if not _labels(node) & (_CLAUSES | {"VP"}):
        return None
    phrases = [child for child in node.children if child.label.split("+")[0] == "VP"]
    verbs = [c for c in node.children if not c.children and tree.tags[c.start].startswith("VB")]
    return next(iter([*phrases, *verbs]), None)


def is_nominal(tree: Tree, node: Node) -> bool:
    """Return True for a noun phrase, a noun or a pronoun."""
    if not node.children:
        return tree.tags[node.start].startswith(("NN", "PRP", "NOUN", "PROPN", "PRON"))
    return node.label.split("+")[0] in _NOUN_PHRASES


def category(tree: Tree, node: Node) -> Literal["clause", "noun", "of", "other"]:
    """Return what kind of phrase a constituent is; ``of`` is a prepositional phrase with "of"."""
    if is_nominal(tree, node):
        return "noun"
    if tree.tokens[node.start].lower() == "of":
        return "of"
    return "clause" if node.label.split("+")[0] in _CLAUSES | {"SBAR", "VP"} else "other"


def same_stems(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return True if the words are the same, except for their endings ("rises", "rise"; "make", "made")."""
    left = list(second)
    for word in first:
        twin = next((other for other in left if _is_form_of(word, other)), None)
        if twin is None:
            return False
        left.remove(twin)
    return not left


def _is_form_of(word: str, other: str) -> bool:
    common = max(2, min(len(word), len(other)) - 3)
    return word[:common] == other[:common]


@lru_cache(maxsize=4096)
def number_in(word: str) -> str:
    """Return the digits of a number, without separators of thousands, also for "two" to "twenty"; otherwise empty."""
    return _NUMBERS.get(word) or _NOT_NUMERIC.sub("", word).strip(".")
