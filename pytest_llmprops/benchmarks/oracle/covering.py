"""Potential alignments that must cover both sentences: the alternative to Algorithm 1 (``oracle.alignment=covering``).

Algorithm 1 needs mappings that cover one of the sentences, and it asks about pieces such as "It" and "the". Here, the
constituents of both sentences are linked, and the links are divided until the phrases are small:

1. Constituents are linked in the order of their similarity, each at most once. Links do not cross: what is inside a
   linked phrase is only linked to what is inside its counterpart (sub-tree alignment, Zhechev and Way 2008).
2. A link is divided into the links inside it if these contain every word that carries meaning. A function word, such as
   a preposition, a negation or a modal verb, must be inside a link, or stand beside the same links in both sentences.
   Articles, auxiliaries, "of", "that" and the like carry no meaning of their own.
3. A word that no link contains is covered by its enclosing constituent and the smallest constituent around its
   counterparts, or by what remains of a constituent without the linked phrases at its ends.
4. A link that cannot be divided is one phrase pair. The whole sentence is none, so a pair whose sentences cannot be
   divided has no alignment.

Nothing is asked about a phrase without a content word, and nothing about two single words if the phrase around them is
not the whole sentence. Two phrases are not linked if they contradict each other: each has a number that the other does
not have, they differ only in a negation, one is the agent of a verb and the other the patient, or one is an argument
of a verb and the other a prepositional phrase. If one sentence adds several words to the other, they have no alignment.

``data/oracle/README.md`` has the measured shares of both.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, Protocol

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, NodeMapping, align, in_order
from pytest_llmprops.benchmarks.oracle.items import EMBED, PARSE, Matching, Whole
from pytest_llmprops.benchmarks.oracle.trees import (
    Array,
    Kind,
    Node,
    Parsed,
    Span,
    Tree,
    cosines,
    is_punctuation,
    node_vectors,
    token_vectors,
)
from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.requests import PLANNED, Embed, Parse, Reply, Request

# Subjects, objects and agents of verbs, read from a constituency tree in the style of the Penn Treebank.
#
# They say who does something to whom. Phrase mappings must not change this (``covering``), and a minimal edit
# swaps it (``edits.minimal_edits``). Clauses of other shapes (questions, relative clauses without a subject) have
# no arguments here.

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
    argument = argument_of(found, span)
    return argument.role if argument else None


def argument_of(found: tuple[Argument, ...], span: Span) -> Argument | None:
    """Return the smallest argument that contains the span, or None."""
    around = [a for a in found if a.span[0] <= span[0] and span[1] <= a.span[1]]
    return min(around, key=lambda a: a.span[1] - a.span[0], default=None)


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


#: minimum cosine of linked constituents, and of links made by widening or from what remains; chosen on the built-in
#: pairs and the first 200 rows of MSRP's training file
MIN_SIMILARITY, MIN_WIDENED = 0.5, 0.6
#: minimum cosine of what remains if the other parts have at least this share of each phrase's content words
MIN_REMAINING, MOST = 0.3, 0.5
#: added to the similarity of phrases with the same words
SAME_WORDS = 0.3
#: subtracted from the similarity, times the share of content words that the longer phrase has more
SIZE_PENALTY = 0.3
#: how often the links are made anew without the link that differs most in size
ATTEMPTS = 5
#: content words of only one sentence without a counterpart that count as an addition
ADDITION = 2
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
#: personal pronoun -> its subject form
_PRONOUNS = {
    "he": "he", "him": "he", "i": "i", "it": "it", "me": "i", "she": "she", "her": "she", "they": "they",
    "them": "they", "us": "we", "we": "we", "you": "you",
}  # fmt: skip


def align_covering(
    first: Parsed, second: Parsed, first_vectors: Array, second_vectors: Array, *, whole: Whole = "bar"
) -> Alignments:
    """Return the potential alignments that cover both sentences. Both directions have the same mappings.

    :param first_vectors: of the first sentence's tokens, shape (tokens, size); ``second_vectors`` likewise.
    :param whole: whether the two whole sentences are a phrase pair if they cannot be divided.
    :raises ValueError: if there is not one vector per token.
    """
    one, two = _Sentence.of(first, first_vectors), _Sentence.of(second, second_vectors)
    # The order of the two sentences must not change the mappings.
    is_swapped = second.text < first.text
    linker = _Linker(two, one, whole) if is_swapped else _Linker(one, two, whole)
    pairs, around, settled = linker.result()
    if is_swapped:
        pairs, around = [_turned(m) for m in pairs], [_turned(m) for m in around]
        settled = settled[::-1]
    forward = in_order(pairs)
    backward = in_order(_turned(m) for m in pairs)
    return Alignments(first, second, forward, backward, both=True, settled=settled, around=in_order(around))


def _turned(mapping: NodeMapping) -> NodeMapping:
    return replace(mapping, source=mapping.target, target=mapping.source)


#: the spans of a phrase pair in the two sentences
_Link = tuple[Span, Span]
_BOTH = (0, 1)
#: the phrase pairs, the links around them, and the tokens of each sentence that need no mapping
_Result = tuple[list[NodeMapping], list[NodeMapping], tuple[frozenset[int], frozenset[int]]]


def _inside(part: Span, span: Span) -> bool:
    return span[0] <= part[0] and part[1] <= span[1]


def _apart(one: Span, two: Span) -> bool:
    return one[1] <= two[0] or two[1] <= one[0]


def _holds(link: _Link, part: _Link) -> bool:
    """Return True if ``part`` is another link inside ``link``."""
    return part != link and _inside(part[0], link[0]) and _inside(part[1], link[1])


def _hull(spans: Sequence[Span]) -> Span:
    """Return the smallest span that contains all of them."""
    return min(start for start, _ in spans), max(end for _, end in spans)


def _agree(one: _Link, two: _Link) -> bool:
    """Return True if two links do not cross: they are apart in both sentences, or one is inside the other in both."""
    if one[0] == two[0] or one[1] == two[1]:
        return False
    if _apart(one[0], two[0]):
        return _apart(one[1], two[1])
    return _holds(one, two) or _holds(two, one)


@dataclass(frozen=True)
class _Sentence:
    """A sentence with what its phrases are compared by.

    :param vectors: of its tokens, shape (tokens, size).
    :param kinds: of its tokens.
    :param roles: the arguments of its verbs.
    """

    parsed: Parsed
    vectors: Array
    kinds: tuple[Kind, ...]
    roles: tuple[Argument, ...]

    @classmethod
    def of(cls, parsed: Parsed, vectors: Array) -> _Sentence:
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
        return self.parsed.tree

    @cached_property
    def spans(self) -> dict[Span, int]:
        """The span of each constituent, with its place in the tree's nodes; a larger one before those inside it."""
        return {(node.start, node.end): place for place, node in enumerate(self.tree.nodes)}

    def content(self, span: Span) -> int:
        """Return the number of content words of a phrase."""
        return self.kinds[span[0] : span[1]].count("content")

    def words(self, span: Span) -> list[str]:
        return [token.lower() for token in self.tree.tokens[span[0] : span[1]]]

    def is_whole(self, span: Span) -> bool:
        core = self.tree.core
        return _inside(core, span) and len(self.kinds) > 1

    def around(self, span: Span) -> Span:
        """Return the smallest constituent that contains a span."""
        return [node for node in self.spans if _inside(span, node)][-1]

    def above(self, token: int) -> Iterator[Span]:
        """Yield the constituents that contain a token, the smallest first, without the token itself."""
        place = self.tree.parents[self.tree.leaves[token]]
        while place >= 0:
            node = self.tree.nodes[place]
            yield node.start, node.end
            place = self.tree.parents[place]

    def mean(self, span: Span) -> Array:
        import numpy as np

        inside = self.vectors[span[0] : span[1]]
        inside = inside[inside.any(axis=1)]
        return inside.mean(axis=0) if len(inside) else np.zeros(self.vectors.shape[1])

    def is_argument(self, span: Span) -> bool:
        return any(argument.span == span for argument in self.roles)

    def is_oblique(self, span: Span) -> bool:
        """Return True for a prepositional phrase, except one with "of" and that of an agent."""
        place = self.spans.get(span)
        return (
            place is not None and "PP" in _labels(self.tree.nodes[place]) and self.kinds[span[0]] == "meaning"
        )

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
        return role_in(self.roles, span) is not None or self.tree.tokens[span[1] - 1].lower() in _TIMES


class _Linker:
    """Links the constituents of two sentences and divides them into phrase pairs."""

    def __init__(self, one: _Sentence, two: _Sentence, whole: Whole) -> None:
        self.sentences = one, two
        self.whole = whole
        self.root: _Link = (0, len(one.kinds)), (0, len(two.kinds))
        self.links: list[_Link] = []
        #: the parts of the whole sentences, once they are divided
        self.top: list[_Link] = []
        self.candidates = self._candidates()

    def result(self) -> _Result:
        """Return the phrase pairs, the links around them, and the words of each sentence that need no mapping.

        If there is no alignment, the pairs are the largest links, and some words are neither in them nor settled.
        """
        barred: list[_Link] = []
        for _ in range(ATTEMPTS):
            self._link(barred)
            first = self._below(self.root)
            pairs = self._divided(self.root)
            if pairs is not None:
                return self._mapped(pairs)
            uneven = [link for link in first if self._unevenness(link)]
            if not uneven:
                break
            barred.append(max(uneven, key=lambda link: (self._unevenness(link), -self._similarity(link))))
        whole = self.sentences[0].tree.core, self.sentences[1].tree.core
        # A sentence of one word has no other phrase.
        is_barred = self.whole == "bar" and all(len(sentence.spans) > 1 for sentence in self.sentences)
        if not is_barred and self._may_link(whole):
            return self._mapped([whole])
        self._link([])
        top = self._below(self.root)
        unsettled = self._open(self.root, top)
        if any(unsettled):
            return self._mapped(top, unsettled)
        # The parts cover all words, but their order may change what the sentence says.
        return self._mapped([], self._loose(self.root, []))

    def _mapped(self, pairs: Sequence[_Link], unsettled: tuple[list[int], list[int]] = ([], [])) -> _Result:
        """Return the result for some pairs.

        :param unsettled: words of each sentence that must be covered, but are in no pair.
        """
        asked = [pair for pair in pairs if self._has_content(pair)]
        one, two = (
            frozenset(range(len(self.sentences[side].kinds))).difference(
                unsettled[side], *(range(*pair[side]) for pair in asked)
            )
            for side in _BOTH
        )
        joined = [self._joined(part, self.top) for part in self.top if not self._same(part)]
        around = [
            link
            for link in dict.fromkeys([*self.links, *filter(None, joined)])
            if self._has_content(link) and any(_holds(link, pair) for pair in asked)
        ]
        return (
            [NodeMapping(*pair, self._similarity(pair)) for pair in asked],
            [NodeMapping(*link, self._similarity(link)) for link in around],
            (one, two),
        )

    # Links

    def _candidates(self) -> list[_Link]:
        """Return the pairs of constituents that may be linked, the best first."""
        one, two = self.sentences
        vectors = [node_vectors(s.tree, s.vectors) for s in self.sentences]
        similarity = cosines(vectors[0], vectors[1])
        ranked = []
        phrases = [
            [(span, place) for span, place in s.spans.items() if not s.is_whole(span)] for s in self.sentences
        ]
        for first, row in phrases[0]:
            for second, column in phrases[1]:
                cosine = float(similarity[row, column])
                link = first, second
                # NaN fails the comparison, too.
                if not cosine >= MIN_SIMILARITY or not (self._has_content(link) or self._same_pronoun(link)):
                    continue
                if self._contradict(link):
                    continue
                same = not self._has_content(link) or one.words(first) == two.words(second)
                score = cosine + SAME_WORDS * same - SIZE_PENALTY * self._unevenness(link)
                distance = abs(first[0] / len(one.kinds) - second[0] / len(two.kinds))
                size = first[1] - first[0] + second[1] - second[0]
                ranked.append((-round(score, 6), -size, distance, link))
        return [link for *_, link in sorted(ranked)]

    def _link(self, barred: Collection[_Link]) -> None:
        """Link the best candidates that do not cross, except the barred ones; drop additions, the smallest first."""
        self.links = []
        for link in self.candidates:
            if link not in barred and all(_agree(link, other) for other in self.links):
                self.links.append(link)
        for link in sorted(self.links, key=lambda link: sum(end - start for start, end in link)):
            if self._adds(link, self._below(link)):
                self.links.remove(link)

    def _has_content(self, link: _Link) -> bool:
        return all(self.sentences[side].content(link[side]) for side in _BOTH)

    def _same_pronoun(self, link: _Link) -> bool:
        """Return True for the same personal pronoun in both sentences, in any case."""
        words = [self.sentences[side].words(link[side]) for side in _BOTH]
        forms = [_PRONOUNS.get(word[0]) if len(word) == 1 else None for word in words]
        return forms[0] is not None and forms[0] == forms[1]

    def _same(self, link: _Link) -> bool:
        """Return True if the phrases need no question: they have the same words, or are the same pronoun."""
        one, two = (self.sentences[side].parsed.phrase(link[side]).casefold() for side in _BOTH)
        return one == two or not self._has_content(link)

    def _unevenness(self, link: _Link) -> float:
        """Return the share of content words that the longer phrase has more than the shorter one."""
        one, two = (self.sentences[side].content(link[side]) for side in _BOTH)
        return abs(one - two) / max(one, two, 1)

    def _similarity(self, link: _Link) -> float:
        """Return the cosine of the phrases' mean vectors; 0 if one has none."""
        one, two = (self.sentences[side].mean(link[side]) for side in _BOTH)
        cosine = float(cosines(one[None, :], two[None, :])[0, 0])
        return cosine if cosine == cosine else 0.0

    def _contradict(self, link: _Link) -> bool:
        """Return True if two phrases cannot say the same, so that nothing is asked about them."""
        one, two = self.sentences
        first, second = link
        numbers_one, numbers_two = numbers(one.parsed, first), numbers(two.parsed, second)
        if numbers_one - numbers_two and numbers_two - numbers_one:
            return True
        negated = is_negated(one.parsed, first) != is_negated(two.parsed, second)
        if negated and _same_stems(*(_stems(s, span) for s, span in zip(self.sentences, link, strict=True))):
            return True
        if (one.is_argument(first) and two.is_oblique(second)) or (
            one.is_oblique(first) and two.is_argument(second)
        ):
            return True
        roles = role_in(one.roles, first), role_in(two.roles, second)
        return None not in roles and roles[0] != roles[1]

    # Division into phrase pairs

    def _below(self, link: _Link) -> list[_Link]:
        """Return the largest links inside a link, in order."""
        inside = [other for other in self.links if _holds(link, other)]
        return sorted(other for other in inside if not any(_holds(larger, other) for larger in inside))

    def _divided(self, link: _Link) -> list[_Link] | None:
        """Return the phrase pairs of a link; None if the whole sentences cannot be divided."""
        is_root = link == self.root
        if not is_root and self._same(link):
            return [link]
        parts = None
        if is_root and all(self._open(link, self._below(link))):
            parts = self._remaining(link)
        if parts is None:
            parts = self._parts(link)
        if parts is None and is_root:
            parts = self._remaining(link)
        if is_root and (parts is None or not any(map(self._has_content, parts))):
            return None
        if is_root:
            self.top = list(parts or ())
        if parts is None or (not is_root and any(map(self._is_weak, parts))):
            return [link]
        return list(dict.fromkeys(pair for part in parts for pair in self._divided(part) or ()))

    def _is_weak(self, link: _Link) -> bool:
        """Return True for two different single words: what they mean depends on the phrase around them."""
        return not self._same(link) and all(self.sentences[side].content(link[side]) < 2 for side in _BOTH)

    def _parts(self, link: _Link) -> list[_Link] | None:
        """Return the links into which a link can be divided, after widening some; None if there are none."""
        # Every widened link is larger than those that it replaces, so this ends.
        while parts := self._below(link):
            unsettled = self._open(link, parts)
            if not any(unsettled):
                return None if self._is_reordered(link, parts) or self._changes_verbs(parts) else parts
            if not any(self._widen(side, token, link) for side in _BOTH for token in unsettled[side]):
                return None
        return None

    def _changes_verbs(self, parts: Sequence[_Link]) -> bool:
        """Return True if a part is an argument of verbs that are in different parts ("inherit the castle")."""
        for part in parts:
            places = []
            for side, sentence in enumerate(self.sentences):
                argument = argument_of(sentence.roles, part[side])
                if argument is None or _inside((argument.verb, argument.verb + 1), part[side]):
                    break
                verb = argument.verb
                places.append([i for i, p in enumerate(parts) if p[side][0] <= verb < p[side][1]])
            if len(places) == len(_BOTH) and places[0] != places[1]:
                return True
        return False

    def _is_reordered(self, link: _Link, parts: Sequence[_Link]) -> bool:
        """Return True if parts whose meaning depends on their order have another order in the second sentence.

        These are the parts of a noun phrase ("car park"), and two noun phrases of a clause if neither is known to be
        the same argument in both sentences ("gave the boy the dog").
        """
        moved = [(one, two) for one in parts for two in parts if one[0] < two[0] and one[1] > two[1]]
        if any(self.sentences[side].is_nominal(link[side]) for side in _BOTH):
            return bool(moved)
        return any(
            all(self.sentences[side].is_nominal(part[side]) for part in pair for side in _BOTH)
            and not any(all(self.sentences[s].has_place(part[s]) for s in _BOTH) for part in pair)
            for pair in moved
        )

    def _loose(self, link: _Link, parts: Sequence[_Link]) -> tuple[list[int], list[int]]:
        """Return the words with a meaning of each phrase that are in none of its parts."""
        one, two = (
            [
                token
                for token in range(*link[side])
                if self.sentences[side].kinds[token] != "form"
                and not any(part[side][0] <= token < part[side][1] for part in parts)
            ]
            for side in _BOTH
        )
        return one, two

    def _open(self, link: _Link, parts: Sequence[_Link]) -> tuple[list[int], list[int]]:
        """Return the words with a meaning of each phrase that its parts do not cover.

        A function word is covered if the other phrase has the same one in the same place.
        """
        one, two = self._loose(link, parts)
        left = []
        for token in one:
            twin = next((other for other in two if self._are_twins(token, other, link, parts)), None)
            if twin is None:
                left.append(token)
            else:
                two.remove(twin)
        tenses = [self._tenses(side, link, parts) for side in _BOTH]
        if link != self.root and all(tenses) and tenses[0] != tenses[1]:
            return [*left, *sorted(tenses[0].values())], [*two, *sorted(tenses[1].values())]
        return left, two

    def _are_twins(self, token: int, other: int, link: _Link, parts: Sequence[_Link]) -> bool:
        one, two = self.sentences
        if one.kinds[token] != "meaning" or two.kinds[other] != "meaning":
            return False
        if one.tree.tokens[token].lower() != two.tree.tokens[other].lower():
            return False
        return bool(self._places(0, token, link, parts) & self._places(1, other, link, parts))

    def _places(self, side: int, token: int, link: _Link, parts: Sequence[_Link]) -> set[int]:
        """Return where a function word is: directly in the phrase (-1), before a part, or behind the verb of a part."""
        sentence = self.sentences[side]
        places = {-1} if next(sentence.above(token)) == sentence.around(link[side]) else set()
        if sentence.tree.tags[token] == "RP":
            return places | {i for i, part in enumerate(parts) if part[side][1] == token}
        governed = self._next(side, token, parts, chain=sentence.tree.tags[token] not in ("IN", "TO", "ADP"))
        return places | {i for i, part in enumerate(parts) if part[side][0] <= governed < part[side][1]}

    def _next(self, side: int, token: int, parts: Sequence[_Link], *, chain: bool = False) -> int:
        """Return the next token that is in a part or has a meaning; ``chain`` skips modal verbs and adverbs."""
        sentence = self.sentences[side]
        token += 1
        while token < len(sentence.kinds) and not any(p[side][0] <= token < p[side][1] for p in parts):
            skipped = chain and sentence.tree.tags[token][:2] in ("MD", "RB", "WR")
            if sentence.kinds[token] == "content" or (sentence.kinds[token] == "meaning" and not skipped):
                break
            token += 1
        return token

    def _tenses(self, side: int, link: _Link, parts: Sequence[_Link]) -> dict[bool, int]:
        """Return the finite auxiliaries outside the parts: whether it is a past tense -> token."""
        sentence = self.sentences[side]
        return {
            sentence.tree.tags[token] == "VBD": token
            for token in range(*link[side])
            if sentence.kinds[token] == "form"
            and sentence.tree.tags[token] in ("VBD", "VBP", "VBZ")
            and not any(part[side][0] <= token < part[side][1] for part in parts)
        }

    def _adds(self, link: _Link, parts: Sequence[_Link]) -> bool:
        """Return True if one phrase has several content words without a counterpart, and the other one none."""
        if not parts:
            return False
        loose = self._loose(link, parts)
        counts = [sum(self.sentences[s].kinds[token] == "content" for token in loose[s]) for s in _BOTH]
        return min(counts) == 0 and max(counts) >= ADDITION

    def _may_link(self, link: _Link, minimum: float = MIN_WIDENED) -> bool:
        return self._has_content(link) and self._similarity(link) >= minimum and not self._contradict(link)

    def _replaced(self, link: _Link) -> list[_Link] | None:
        """Return the links with a new one instead of those with the same phrase; None if it crosses others."""
        kept = [other for other in self.links if all(other[side] != link[side] for side in _BOTH)]
        if not all(_agree(link, other) for other in kept):
            return None
        parts = [other for other in kept if _holds(link, other)]
        largest = [part for part in parts if not any(_holds(other, part) for other in parts)]
        return None if self._adds(link, largest) else [*kept, link]

    def _widen(self, side: int, token: int, within: _Link) -> bool:
        """Link the smallest constituent around a token that has a counterpart inside ``within``; False if none has."""
        for span in self.sentences[side].above(token):
            if not _inside(span, within[side]) or span == within[side]:
                return False
            link = self._enclosing(side, span, within)
            if link is None:
                continue
            if not _holds(within, link) or any(within[s] == link[s] for s in _BOTH):
                return False
            if any(self.sentences[s].is_whole(link[s]) for s in _BOTH):
                return False
            if link not in self.links and self._may_link(link):
                links = self._replaced(link)
                if links is not None:
                    self.links = links
                    return True
        return False

    def _enclosing(self, side: int, span: Span, within: _Link) -> _Link | None:
        """Return the smallest constituents around a span and its counterparts; None if it has no counterpart."""
        here, there = self.sentences[side], self.sentences[1 - side]
        inside = [link for link in self.links if _holds(within, link)]
        other: Span | None = None
        while True:
            touched = [
                link
                for link in inside
                if not _apart(link[side], span) or (other is not None and not _apart(link[1 - side], other))
            ]
            # A link around both is not a part of them.
            touched = [
                link
                for link in touched
                if not (
                    _inside(span, link[side])
                    and span != link[side]
                    and (other is None or _inside(other, link[1 - side]))
                )
            ]
            if not touched:
                return None
            new_other = there.around(_hull([link[1 - side] for link in touched]))
            new_span = here.around(_hull([span, *(link[side] for link in touched)]))
            if (new_span, new_other) == (span, other):
                return (span, new_other) if side == 0 else (new_other, span)
            span, other = new_span, new_other

    def _remaining(self, link: _Link) -> list[_Link] | None:
        """Return the parts of a link and one more: what remains of a constituent without the parts at its ends.

        It contains all words that the parts do not cover; None if that is not one phrase in both sentences.
        """
        parts = self._below(link)
        unsettled = self._open(link, parts)
        spans: list[list[Span]] = [[], []]
        for side in _BOTH:
            for token in unsettled[side]:
                spans[side].append((token, token + 1))
                if self.sentences[side].kinds[token] == "meaning" or not unsettled[1 - side]:
                    spans[side] += self._governed(side, token, parts)
        inner: list[_Link] = []
        while True:
            hulls = [_hull(found) if found else None for found in spans]
            more = [
                part
                for part in parts
                if part not in inner
                and any(hull and not _apart(part[s], hull) for s, hull in enumerate(hulls))
            ]
            if not more:
                break
            inner += more
            for side in _BOTH:
                spans[side] += [part[side] for part in more]
        if hulls[0] is None or hulls[1] is None:
            return None
        phrase = hulls[0], hulls[1]
        rest = [part for part in parts if part not in inner]
        if not any(map(self._has_content, rest)) or not self._may_link(phrase, self._minimum(link, rest)):
            return None
        if not all(self._is_phrase(side, phrase[side], [part[side] for part in rest]) for side in _BOTH):
            return None
        links = self._replaced(phrase)
        if links is None:
            return None
        self.links = links
        return sorted([*rest, phrase])

    def _minimum(self, link: _Link, rest: Sequence[_Link]) -> float:
        """Return the minimum similarity of what remains of a link: lower if most words are in the other parts."""
        counts = [
            (sum(sentence.content(part[side]) for part in rest), sentence.content(link[side]))
            for side, sentence in enumerate(self.sentences)
        ]
        return MIN_REMAINING if all(part >= MOST * every for part, every in counts) else MIN_WIDENED

    def _governed(self, side: int, token: int, parts: Sequence[_Link]) -> list[Span]:
        """Return the part that a word belongs to: the next one, or for a particle the one before it."""
        is_particle = self.sentences[side].tree.tags[token] == "RP"
        place = token - 1 if is_particle else self._next(side, token, parts)
        return [part[side] for part in parts if part[side][0] <= place < part[side][1]]

    def _joined(self, part: _Link, parts: Sequence[_Link]) -> _Link | None:
        """Return the smallest phrases that consist of a part and others beside it, but not of all parts."""
        found = []
        for other in parts:
            if other == part:
                continue
            phrase = _hull([part[0], other[0]]), _hull([part[1], other[1]])
            while True:
                inner = [p for p in parts if not all(_apart(p[side], phrase[side]) for side in _BOTH)]
                wider = _hull([p[0] for p in inner]), _hull([p[1] for p in inner])
                if wider == phrase:
                    break
                phrase = wider
            rest = [p for p in parts if p not in inner]
            if (
                any(map(self._has_content, rest))
                and self._may_link(phrase)
                and all(self._is_phrase(side, phrase[side], [p[side] for p in rest]) for side in _BOTH)
            ):
                found.append(phrase)
        return min(found, key=lambda link: (sum(end - start for start, end in link), link), default=None)

    def _is_phrase(self, side: int, span: Span, rest: Sequence[Span]) -> bool:
        """Return True if a span is a constituent without some of the other parts at its ends, and has its head.

        :param rest: the other parts of the sentence.
        """
        sentence = self.sentences[side]
        around = sentence.around(span)
        for token in (*range(around[0], span[0]), *range(span[1], around[1])):
            is_mark = is_punctuation(sentence.tree.tokens[token])
            is_form = sentence.kinds[token] == "form" and (is_mark or token >= span[1])
            if not is_form and not any(part[0] <= token < part[1] for part in rest):
                return False
        for node in sentence.spans:
            is_cut = not (_apart(node, span) or _inside(span, node) or _inside(node, span))
            if is_cut and node[0] < span[0] and sentence.is_nominal(node):
                return False
            if is_cut or node == around:
                head = sentence.head(node)
                if head is not None and _apart(head, span):
                    return False
        return True


def _stems(sentence: _Sentence, span: Span) -> list[str]:
    """Return the content words, prepositions and conjunctions of a phrase without the negations."""
    return [
        sentence.tree.tokens[token].lower()
        for token in range(*span)
        if sentence.kinds[token] == "content"
        or (sentence.kinds[token] == "meaning" and sentence.tree.tags[token] in _JOINING_TAGS)
        if sentence.tree.tokens[token].lower() not in NEGATIONS
    ]


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


def numbers(sentence: Parsed, span: Span) -> frozenset[str]:
    """Return the numbers of a phrase: digits without separators of thousands, and the words from two to twenty."""
    tokens = sentence.tree.tokens[span[0] : span[1]]
    return frozenset(number for number in map(_number, tokens) if number)


@lru_cache(maxsize=4096)
def _number(token: str) -> str:
    return _NUMBERS.get(token.lower()) or _NOT_NUMERIC.sub("", token).strip(".")


def is_negated(sentence: Parsed, span: Span) -> bool:
    """Return True if a phrase has an odd number of negations."""
    tokens = sentence.tree.tokens[span[0] : span[1]]
    return sum(token.lower() in NEGATIONS for token in tokens) % 2 == 1


#: helper -> its output, for messages
_OUTPUTS = {PARSE: "tree", EMBED: "vectors"}
#: kinds of errors caused by a text that a helper cannot process (too long, no tokens), not by the helper
_TEXT_ERRORS = frozenset({"request", "backend"})


class AskHelper(Protocol):
    """Sends a request to the helper of a role: the ``ask`` of a benchmark, or any function like it."""

    async def __call__(self, request: Request, role: str = ...) -> Reply: ...


class Aligner:
    """Computes the alignments of pairs of sentences. Each sentence is parsed and embedded once.

    :param matching: ``printed`` is Algorithm 1, ``covering`` requires that one direction covers both sentences.
    :param whole: whether a phrase may be mapped to the whole other sentence.
    """

    def __init__(self, ask: AskHelper, matching: Matching = "covering", whole: Whole = "bar") -> None:
        self._ask = ask
        self._align = align_covering if matching == "covering" else align
        self._whole: Whole = whole
        self._known: dict[str, asyncio.Future[tuple[Reply | str, Reply | str]]] = {}

    async def __call__(self, first: str, second: str) -> Alignments:
        """Return the potential alignments, or why there are none: a sentence has no tree or no vectors.

        A text that a helper cannot process has none either. Paraphrases come from the model, so a paraphrase that is
        too long must not turn the case into an error.

        :raises BackendError: if a helper could not be called.
        """
        one, two = await asyncio.gather(self._analyse(first), self._analyse(second))
        try:
            (tree, vectors), (other, others) = _ready(first, *one), _ready(second, *two)
        except DataError as error:
            return Alignments.without_trees(str(error))
        if vectors.shape[1] != others.shape[1]:
            sizes = f"{vectors.shape[1]} and {others.shape[1]}"
            return Alignments.without_trees(f"the encoder's vectors of two sentences have {sizes} numbers")
        return self._align(tree, other, vectors, others, whole=self._whole)

    async def parsed(self, text: str) -> Parsed | None:
        """Return a sentence with its tree; None if the parser returns none.

        :raises BackendError: if the parser could not be called.
        """
        reply = await self._call(Parse(text, "en", "constituency"), PARSE)
        brackets = None if isinstance(reply, str) or reply.key == PLANNED else reply.value.get("tree")
        try:
            return Parsed.of(text, brackets) if brackets else None
        except DataError:
            return None

    async def _analyse(self, text: str) -> tuple[Reply | str, Reply | str]:
        if text not in self._known:
            replies = asyncio.gather(
                self._call(Parse(text, "en", "constituency"), PARSE),
                self._call(Embed(text, tokens=True), EMBED),
            )
            self._known[text] = asyncio.ensure_future(replies)
        return await self._known[text]

    async def _call(self, request: Parse | Embed, role: str) -> Reply | str:
        """Return a helper's reply, or why it has none for this text.

        :raises BackendError: if the helper could not be called.
        """
        try:
            return await self._ask(request, role=role)
        except BackendError as error:
            if error.fatal or error.transient or error.kind not in _TEXT_ERRORS:
                raise
            return f"no {_OUTPUTS[role]} for {request.text[:60]!r}: {error.message}"


def _ready(text: str, parse: Reply | str, embedding: Reply | str) -> tuple[Parsed, Array]:
    """Return the tree and the vectors of its tokens.

    :raises DataError: if the parser or the encoder returned none.
    """
    if isinstance(parse, str):
        raise DataError(parse)
    if isinstance(embedding, str):
        raise DataError(embedding)
    if PLANNED in (parse.key, embedding.key):
        raise DataError("a plan has no trees")
    parse_value: Mapping[str, Any] = parse.value
    if not parse_value.get("tree"):
        raise DataError(
            f"no tree for {text[:60]!r}: {parse_value.get('missing', 'the parser returned none')}"
        )
    parsed = Parsed.of(text, parse_value["tree"])
    value: Mapping[str, Any] = embedding.value
    try:
        return parsed, token_vectors(parsed.spans, value["spans"], value["vectors"])
    except DataError as error:
        raise DataError(f"no vectors for {text[:60]!r}: {error}") from None
