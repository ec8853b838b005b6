"""What phrases of two sentences are compared by: arguments of verbs, content words, numbers and negations.

Arguments are the subjects, objects and agents of verbs, read from a constituency tree in Penn Treebank style.
They say who does something to whom. Phrase mappings must not change this (``covering``), and a minimal edit swaps it
(``edits.minimal_edits``). Clauses of other shapes (questions, relative clauses without a subject) have no arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

from pytest_llmprops.benchmarks.oracle.trees import Array, Kind, Node, Parsed, Span, Tree

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
#: tags of prepositions and conjunctions
_JOINING_TAGS = frozenset({"IN", "TO", "WRB", "ADP", "SCONJ"})


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


def inside(part: Span, span: Span) -> bool:
    """Return True if ``part`` is in ``span``."""
    return span[0] <= part[0] and part[1] <= span[1]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase with what decides whether another one can say the same.

    :param words: in lower case.
    :param content: number of content words.
    :param numbers: digits without separators of thousands, also for the words from two to twenty.
    :param stems: its content words, prepositions and conjunctions, without negations.
    :param role: of the smallest argument around it.
    :param is_oblique: whether it is a prepositional phrase, except one with "of" and that of an agent.
    """

    words: tuple[str, ...]
    content: int
    numbers: frozenset[str]
    is_negated: bool
    stems: tuple[str, ...]
    role: Role | None
    is_argument: bool
    is_oblique: bool

    def contradicts(self, other: Phrase) -> bool:
        """Return True if the two cannot say the same, so that nothing is asked about them."""
        if self.numbers - other.numbers and other.numbers - self.numbers:
            return True
        if self.is_negated != other.is_negated and _same_stems(self.stems, other.stems):
            return True
        if (self.is_argument and other.is_oblique) or (self.is_oblique and other.is_argument):
            return True
        return None not in (self.role, other.role) and self.role != other.role


@dataclass(frozen=True)
class Sentence:
    """A sentence with what its phrases are compared by.

    :param vectors: of its tokens, shape (tokens, size).
    :param kinds: of its tokens.
    :param roles: the arguments of its verbs.
    """

    parsed: Parsed
    vectors: Array
    kinds: tuple[Kind, ...]
    roles: tuple[Argument, ...]
    _phrases: dict[Span, Phrase] = field(default_factory=dict)

    @classmethod
    def of(cls, parsed: Parsed, vectors: Array) -> Sentence:
        """Return a sentence with the kinds of its tokens and its arguments."""
        tree = parsed.tree
        roles = arguments(tree)
        # The preposition before an agent says only that it is one, which the roles say, too.
        agents = {
            role.span[0] - 1
            for role in roles
            if role.role == "agent" and role.span[0] and tree.tokens[role.span[0] - 1].lower() == "by"
        }
        kinds: list[Kind] = [
            "form" if token in agents else tree.kind(token) for token in range(len(tree.tokens))
        ]
        return cls(parsed, vectors, tuple(kinds), roles)

    @property
    def tree(self) -> Tree:
        """The constituents of the sentence."""
        return self.parsed.tree

    @cached_property
    def spans(self) -> dict[Span, int]:
        """The span of each constituent, with its place in the tree's nodes; a larger one before those inside it."""
        return {(node.start, node.end): place for place, node in enumerate(self.tree.nodes)}

    def phrase(self, span: Span) -> Phrase:
        """Return what a phrase is compared by."""
        if span not in self._phrases:
            place, tokens = self.spans.get(span), range(*span)
            words = tuple(self.tree.tokens[token].lower() for token in tokens)
            stems = [
                word
                for token, word in zip(tokens, words, strict=True)
                if self.kinds[token] == "content"
                or (self.kinds[token] == "meaning" and self.tree.tags[token] in _JOINING_TAGS)
                if word not in NEGATIONS
            ]
            argument = self.argument(span)
            self._phrases[span] = Phrase(
                words,
                self.kinds[span[0] : span[1]].count("content"),
                frozenset(filter(None, map(_number, words))),
                sum(word in NEGATIONS for word in words) % 2 == 1,
                tuple(stems),
                argument.role if argument else None,
                any(other.span == span for other in self.roles),
                place is not None
                and "PP" in _labels(self.tree.nodes[place])
                and self.kinds[span[0]] == "meaning",
            )
        return self._phrases[span]

    def argument(self, span: Span) -> Argument | None:
        """Return the smallest argument that contains a span, or None."""
        around = [argument for argument in self.roles if inside(span, argument.span)]
        return min(around, key=lambda one: one.span[1] - one.span[0], default=None)

    def is_whole(self, span: Span) -> bool:
        """Return True if a span has all words of a sentence of several tokens."""
        return inside(self.tree.core, span) and len(self.kinds) > 1

    def around(self, span: Span) -> Span:
        """Return the smallest constituent that contains a span."""
        return [node for node in self.spans if inside(span, node)][-1]

    def above(self, token: int) -> Iterator[Span]:
        """Yield the constituents that contain a token, the smallest first, without the token itself."""
        place = self.tree.parents[self.tree.leaves[token]]
        while place >= 0:
            node = self.tree.nodes[place]
            yield node.start, node.end
            place = self.tree.parents[place]

    def mean(self, span: Span) -> Array:
        """Return the mean vector of a phrase's tokens, without those that have none."""
        import numpy as np

        known = self.vectors[span[0] : span[1]]
        known = known[known.any(axis=1)]
        return known.mean(axis=0) if len(known) else np.zeros(self.vectors.shape[1])

    def is_nominal(self, span: Span) -> bool:
        """Return True for a noun phrase, a noun or a pronoun."""
        place = self.spans.get(span)
        if place is None:
            return False
        node = self.tree.nodes[place]
        if not node.children:
            return self.tree.tags[span[0]].startswith(("NN", "PRP", "NOUN", "PROPN", "PRON"))
        return node.label.split("+")[0] in _NOUN_PHRASES

    def head(self, span: Span) -> Span | None:
        """Return the part of a constituent without which it is no phrase: a verb phrase or verb, or the noun."""
        node = self.tree.nodes[self.spans[span]]
        if self.is_nominal(span):
            first = []
            for child in node.children:
                part = child.start, child.end
                if not child.children or self.is_nominal(part):
                    first.append(part)
                elif any(map(self.is_nominal, first)):
                    break
            return next(filter(self.is_nominal, reversed(first)), first[-1] if first else None)
        if not _labels(node) & (_CLAUSES | {"VP"}):
            return None
        phrases = [child for child in node.children if child.label.split("+")[0] == "VP"]
        verbs = [c for c in node.children if not c.children and self.tree.tags[c.start].startswith("VB")]
        return next(((child.start, child.end) for child in [*phrases, *verbs]), None)

    def has_place(self, span: Span) -> bool:
        """Return True for a noun phrase whose order does not matter: an argument, or one that says when."""
        return self.argument(span) is not None or self.tree.tokens[span[1] - 1].lower() in _TIMES


def _same_stems(first: Sequence[str], second: Sequence[str]) -> bool:
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
def _number(word: str) -> str:
    return _NUMBERS.get(word) or _NOT_NUMERIC.sub("", word).strip(".")
