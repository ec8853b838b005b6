"""Subjects, objects and agents of verbs, read from a constituency tree in the style of the Penn Treebank.

They say who does something to whom. Phrase mappings must not change this (``covering``), and a minimal edit swaps it
(``minimal_edits``). Clauses of other shapes (questions, relative clauses without a subject) have no arguments here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.benchmarks.oracle.trees import Node, Span, Tree

Role = Literal["agent", "patient"]
_BE = frozenset({"am", "are", "be", "been", "being", "is", "was", "were", "'m", "'re", "'s"})
_CLAUSES = frozenset({"S", "SINV", "SQ"})
#: last words of noun phrases that say when, such as "next week"; they are not objects
_TIMES = frozenset(
    [
        "afternoon",
        "day",
        "earlier",
        "evening",
        "friday",
        "later",
        "monday",
        "month",
        "morning",
        "night",
        "saturday",
        "sunday",
        "thursday",
        "time",
        "times",
        "today",
        "tomorrow",
        "tuesday",
        "wednesday",
        "week",
        "year",
        "yesterday",
    ]
)
_NOUN_PHRASES = frozenset({"NP", "NML"})


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


def role_in(found: tuple[Argument, ...], span: Span) -> Role | None:
    """Return the role of the smallest argument that contains the span, or None."""
    around = [a for a in found if a.span[0] <= span[0] and span[1] <= a.span[1]]
    return min(around, key=lambda a: a.span[1] - a.span[0]).role if around else None


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
        if not passive and "PRT" not in _labels(child):
            return
        if passive and "PP" in _labels(child) and tree.tokens[child.start].lower() == "by":
            yield Argument((child.start + 1, child.end), "agent", verb)
            return


def _first_tag(tree: Tree, predicate: Node) -> str:
    """Return the tag of the first verb of a verb phrase."""
    tags = (tree.tags[token] for token in range(predicate.start, predicate.end))
    return next((tag for tag in tags if tag.startswith("VB")), "")
