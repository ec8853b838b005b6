"""Constituency trees of sentences, and alignments of two sentences by Algorithm 1 (Zeng et al., section 4.3).

The paper leaves some details of Algorithm 1 open. This module decides them as follows:

- The vector of a node is the mean of its tokens' vectors in the sentence; similarity is the cosine. Among equally
  similar nodes, the smaller one is used, then the leftmost.
- A token and its part of speech are one leaf, and a unary chain is one node, because two nodes over the same tokens
  have the same vector. Otherwise paths would stop at places that depend only on the parser's labels.
- The root cannot be part of a path, "to avoid matching the entire sentence". For the same reason, neither can a node
  that covers everything except punctuation. As in the paper, this applies only to the source sentence.
- A word whose node is a child of the root has no path of two nodes, so it can never be covered. A sentence with a
  pronoun as its subject therefore has no alignment in that direction, not even with itself. Tables 12 and 14 show the
  same (``But he``, ``Another`` and ``Meanwhile`` are left over).
- Punctuation counts as covered, and so does a leftover preposition (``Tree.must_be_covered``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_llmprops.benchmarks.oracle.settings import Phi
from pytest_llmprops.core.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: half-open: from the first token (or character) to the one after the last
Span = tuple[int, int]
#: the places of a phrase's tokens, in order; a phrase may have gaps
Tokens = tuple[int, ...]

Array: TypeAlias = "npt.NDArray[np.floating[Any]]"

#: treebank escape -> bracket in a token
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_BRACKET = re.compile("|".join(_BRACKETS))
_ESCAPES = {bracket: escape for escape, bracket in _BRACKETS.items()}
#: an opening bracket with the label of its node, a closing one, or a token
_PIECES = re.compile(r"\(\s*[^\s()]*|\)|[^\s()]+")
#: quotation marks; treebanks write all of them as `` and ''
_QUOTES = re.compile("``|''|[\"“”„«»]")
#: category P in Unicode, but read as words
_WORD_MARKS = frozenset("%&#@")
#: tags of prepositions in the Penn Treebank and in Universal Dependencies
_PREPOSITION_TAGS = frozenset({"IN", "TO", "ADP"})
#: conjunctions that the Penn Treebank also tags IN; they are not prepositions
_SUBORDINATORS = frozenset(
    [
        "although", "because", "if", "lest", "once", "so", "that", "though", "unless", "whereas", "whether",
        "while", "whilst",
    ]
)  # fmt: skip

#: first letters of the tags of content words in the Penn Treebank and in Universal Dependencies
_CONTENT_TAGS = (
    "NN", "JJ", "CD", "FW", "VB", "RB", "NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM", "SYM", "AUX",
)  # fmt: skip
_VERB_TAGS = ("VB", "VERB", "AUX")
_BE = frozenset(
    {"am", "are", "be", "been", "being", "is", "was", "were", "'m", "'re", "'s", "’m", "’re", "’s"}
)
#: they are auxiliaries only before another verb
_HAVE = frozenset({"did", "do", "does", "doing", "had", "has", "have", "having", "'ve", "'d", "’ve", "’d"})
#: adverbs that change the meaning of other words and say little alone
_ADVERBS = frozenset(
    [
        "about", "again", "also", "as", "away", "back", "down", "even", "here", "how", "just", "least", "less", "more",
        "most", "n't", "n’t", "never", "not", "now", "off", "only", "out", "over", "so", "still", "then", "there",
        "too", "up", "very", "when", "where", "why",
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Node:
    """A constituent: ``label``, the tokens ``[start, end)`` it covers, and its children (none for a token)."""

    label: str
    start: int
    end: int
    children: tuple[Node, ...] = ()

    @property
    def size(self) -> int:
        """Number of tokens it covers."""
        return self.end - self.start

    @property
    def tokens(self) -> Tokens:
        """The tokens it covers."""
        return tuple(range(self.start, self.end))


@dataclass(frozen=True, slots=True)
class Tree:
    """A sentence's constituents.

    :param tokens: in order.
    :param tags: the part of speech of each token.
    :ivar nodes: in pre-order, the root first.
    :ivar parents: for each node, the index of its parent in ``nodes``; -1 for the root.
    :ivar leaves: for each token, the index of its node.
    :ivar core: the span from the first to the last token that is not only punctuation; all tokens if there is none.
    """

    root: Node
    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    nodes: tuple[Node, ...] = field(init=False, repr=False, compare=False)
    parents: tuple[int, ...] = field(init=False, repr=False, compare=False)
    leaves: tuple[int, ...] = field(init=False, repr=False, compare=False)
    core: Span = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        nodes: list[Node] = []
        parents: list[int] = []
        todo = [(self.root, -1)]
        while todo:
            node, parent = todo.pop()
            todo += [(child, len(nodes)) for child in reversed(node.children)]
            nodes.append(node)
            parents.append(parent)
        leaves = [place for place, node in enumerate(nodes) if not node.children]
        object.__setattr__(self, "nodes", tuple(nodes))
        object.__setattr__(self, "parents", tuple(parents))
        object.__setattr__(self, "leaves", tuple(leaves))
        words = [token for token in range(len(self.tokens)) if self.is_word(token)]
        object.__setattr__(self, "core", (words[0], words[-1] + 1) if words else (0, len(self.tokens)))

    @classmethod
    def from_brackets(cls, text: str) -> Tree:
        """Read a tree such as ``(ROOT (S (NP (PRP It)) (VP (VBZ rains))))``. Several trees get one root ``TEXT``.

        :raises DataError: if a bracket is not closed, or a node has no label or no children.
        """
        trees, tokens, tags = _read(text)
        root = trees[0] if len(trees) == 1 else Node("TEXT", 0, len(tokens), tuple(trees))
        return cls(root, tuple(tokens), tuple(tags))

    def is_whole(self, place: int) -> bool:
        """Return True if the node covers the whole sentence, except punctuation at its ends."""
        node = self.nodes[place]
        return node.start <= self.core[0] and node.end >= self.core[1]

    def is_word(self, token: int) -> bool:
        """Return True if the token is more than punctuation: Unicode category P or a backtick, without ``% & # @``."""
        return not all(
            (unicodedata.category(mark)[0] == "P" and mark not in _WORD_MARKS) or mark in "`´"
            for mark in self.tokens[token]
        )

    def must_be_covered(self, token: int) -> bool:
        """Return True if an alignment must cover the token: every token except prepositions and punctuation.

        The paper exempts "individual prepositional words" and does not mention punctuation, which has no meaning to
        align. The tag decides whether a token is a preposition, except for conjunctions with the same tag ("if").
        """
        tagged = self.tags[token] in _PREPOSITION_TAGS
        return self.is_word(token) and not (tagged and self.tokens[token].lower() not in _SUBORDINATORS)

    def is_content(self, token: int) -> bool:
        """Return True for a word that carries content: no pronoun, preposition, auxiliary, negation or the like."""
        word, tag = self.tokens[token].lower(), self.tags[token]
        if tag.startswith(_VERB_TAGS) and (word in _BE or (word in _HAVE and self._is_auxiliary(token))):
            return False
        return self.is_word(token) and tag.startswith(_CONTENT_TAGS) and word not in _ADVERBS

    def _is_auxiliary(self, token: int) -> bool:
        """Return True if a verb or a verb phrase follows the token in its constituent."""
        above = self.parents[self.leaves[token]]
        later = [child for child in self.nodes[above].children if child.start > token] if above >= 0 else []
        return any(
            "VP" in child.label.split("+")
            if child.children
            else self.tags[child.start].startswith(_VERB_TAGS)
            for child in later
        )


def _read(text: str) -> tuple[list[Node], list[str], list[str]]:
    """Return trees, tokens and tags of a bracketed string. No recursion, because a tree may have any depth."""
    tokens: list[str] = []
    tags: list[str] = []
    # One entry per open bracket, and one for the text around the trees: label, start, nodes, words.
    opened: list[tuple[str, int, list[Node], list[str]]] = [("", 0, [], [])]
    for piece in _PIECES.findall(text):
        if piece[0] == "(":
            opened.append((piece[1:].strip(), len(tokens), [], []))
        elif piece != ")":
            opened[-1][3].append(piece)
        elif len(opened) == 1:
            raise _malformed(text, "a bracket closes that was not opened")
        else:
            label, start, parts, words = opened.pop()
            if bool(parts) == bool(words) or len(words) > 1:
                raise _malformed(text, f"the node {label!r} must hold either nodes or one token")
            if words:
                tokens.append(_BRACKET.sub(lambda match: _BRACKETS[match[0]], words[0]))
                tags.append(label)
            node = Node(label, start, len(tokens), tuple(parts))
            if len(parts) == 1:
                # Treebank files have a bracket without a label around each tree.
                only = parts[0]
                node = replace(only, label=f"{label}+{only.label}" if label else only.label)
            opened[-1][2].append(node)
    _, _, done, outside = opened[0]
    if outside:
        raise _malformed(text, f"{outside[0][:40]!r} is outside all brackets")
    if len(opened) > 1 or not done:
        raise _malformed(text, "it is empty" if len(opened) == 1 else "a bracket is not closed")
    return done, tokens, tags


def _malformed(text: str, problem: str) -> DataError:
    return DataError(f"no tree in {text[:60]!r}: {problem}; check the parser's output")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A sentence with its tree.

    :param spans: for each token, ``[start, end)`` in characters of ``text``.
    """

    text: str
    tree: Tree
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, text: str, brackets: str) -> Parsed:
        """Read the tree of ``text`` from brackets.

        :raises DataError: if the tree is malformed or its tokens are not those of the text.
        """
        tree = Tree.from_brackets(brackets)
        return cls(text, tree, token_spans(text, tree.tokens))

    def phrase(self, span: Span) -> str:
        """Return the text of the tokens ``[start, end)``."""
        start, end = span
        return self.text[self.spans[start][0] : self.spans[end - 1][1]]

    def text_of(self, tokens: Tokens) -> str:
        """Return the text of a phrase; an ellipsis stands for each gap."""
        starts = [token for token in tokens if token - 1 not in tokens]
        ends = [token + 1 for token in tokens if token + 1 not in tokens]
        return " … ".join(map(self.phrase, zip(starts, ends, strict=True)))

    def left_over(self, phrases: Iterable[Tokens]) -> tuple[str, ...]:
        """Return the texts of the runs of tokens that no phrase contains, without the punctuation at their ends.

        A run counts if at least one of its tokens must be covered.
        """
        inside = {token for phrase in phrases for token in phrase}
        runs = groupby(range(len(self.tree.tokens)), key=inside.__contains__)
        words = [[t for t in run if self.tree.is_word(t)] for is_covered, run in runs if not is_covered]
        return tuple(
            self.phrase((run[0], run[-1] + 1)) for run in words if any(map(self.tree.must_be_covered, run))
        )


def token_spans(text: str, tokens: Sequence[str]) -> tuple[Span, ...]:
    """Return ``[start, end)`` of each token in ``text``, in characters, in order.

    Treebank quotes (two backticks, two apostrophes) match any quotation mark. A bracket also matches its treebank
    escape, because a tree has ``-LRB-`` both for a bracket and for the letters ``-LRB-``.

    :raises DataError: if a token is not the next text after white space; the message names the token.
    """
    spans: list[Span] = []
    place = 0
    for token in tokens:
        while place < len(text) and text[place].isspace():
            place += 1
        match = _token_pattern(token).match(text, place)
        if match is None:
            raise DataError(
                f"the parser's token {token[:40]!r} does not follow {text[:place][-40:]!r} in the text"
            )
        spans.append(match.span())
        place = match.end()
    return tuple(spans)


@lru_cache(maxsize=1024)
def _token_pattern(token: str) -> re.Pattern[str]:
    """Return a pattern for all spellings of a tree's token in a text."""
    if _QUOTES.fullmatch(token):
        return _QUOTES
    marks = (f"(?:{re.escape(m)}|{_ESCAPES[m]})" if m in _ESCAPES else re.escape(m) for m in token)
    return re.compile("".join(marks))


def token_vectors(spans: Sequence[Span], pieces: Sequence[Sequence[int]], vectors: npt.ArrayLike) -> Array:
    """Return the vectors of words: the mean of the vectors of the encoder's pieces that overlap a word.

    :param spans: [start, end) of each word, in characters.
    :param pieces: [start, end) of each piece, in characters.
    :param vectors: of the pieces, shape (pieces, size).
    :return: shape (words, size), float64. A word without a piece (unknown to the encoder) is all zeros, and nothing is
        similar to it.
    :raises DataError: if there are no pieces, or not one vector per piece, or the vectors differ in size.
    """
    import numpy as np

    try:
        values, piece_spans = np.asarray(vectors, dtype=np.float64), np.asarray(pieces, dtype=np.int64)
    except (TypeError, ValueError):
        raise DataError(
            "the encoder's spans or vectors are not numbers, or not all of the same size"
        ) from None
    if not len(pieces):
        raise DataError("the encoder returned no tokens")
    if (
        piece_spans.shape != (len(pieces), 2)
        or values.ndim != 2
        or len(values) != len(pieces)
        or not values.size
    ):
        raise DataError(
            f"the encoder returned spans of shape {piece_spans.shape} and vectors of shape {values.shape}: it must"
            " return [start, end) and one vector for each token"
        )
    starts, ends = piece_spans.T
    means = np.zeros((len(spans), values.shape[1]))
    for word, (start, end) in enumerate(spans):
        inside = (starts < end) & (ends > start)
        if inside.any():
            means[word] = values[inside].mean(axis=0)
    return means


def node_vectors(tree: Tree, vectors: Array) -> Array:
    """Return the mean vector of each node's tokens, in the order of ``tree.nodes``: (tokens, size) -> (nodes, size)."""
    import numpy as np

    return np.array([mean_of(vectors[node.start : node.end]) for node in tree.nodes])


def mean_of(vectors: Array) -> Array:
    """Return the mean of vectors, without those that are all zeros: (n, size) -> (size,); zeros if none is left."""
    known = vectors[vectors.any(axis=1)]
    mean: Array = known.mean(axis=0) if len(known) else vectors[0] * 0.0
    return mean


def cosines(first: Array, second: Array) -> Array:
    """Return the cosines of all pairs of rows: (n, size) and (m, size) -> (n, m); NaN if a row is all zeros."""
    import numpy as np

    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)[None, :]
    # einsum does not use BLAS, whose threads would wait for each other longer than this small product takes.
    products = np.einsum("ik,jk->ij", first, second)
    result: Array = np.divide(products, lengths, out=np.full(products.shape, np.nan), where=lengths > 0)
    return result


#: cosines closer than this are ties, because means of equal token vectors may differ by rounding
TIE = 1e-6


@dataclass(frozen=True, slots=True)
class NodeMapping:
    """A phrase of the first sentence and one of the second, as tokens in order. Either may have been mapped."""

    first: Tokens
    second: Tokens

    def includes(self, other: NodeMapping) -> bool:
        """Return True if the phrases of ``other`` are parts of these phrases."""
        return {*other.first} <= {*self.first} and {*other.second} <= {*self.second}

    @property
    def turned(self) -> NodeMapping:
        """The same mapping with the sentences in the other order."""
        return NodeMapping(self.second, self.first)


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """The texts of a mapping."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Rho:
    """Which directions align the sentences: their mappings cover one of the two (section 4.3)."""

    forward: bool = False
    backward: bool = False

    @property
    def phi_or(self) -> bool:
        """True if at least one direction aligns the sentences."""
        return self.forward or self.backward

    @property
    def phi_and(self) -> bool:
        """True if each direction aligns the sentences."""
        return self.forward and self.backward

    def holds(self, phi: Phi) -> bool:
        """Return True if the alignments of this kind hold."""
        return self.phi_or if phi == "or" else self.phi_and


@dataclass(frozen=True, slots=True)
class Alignments:
    """The mappings between two sentences. They are potential until an oracle confirms them.

    :param forward: from the first sentence to the second.
    :param backward: from the second sentence to the first.
    :param missing: why there are no trees, in one phrase. Nothing is aligned then.
    :param around: mappings of larger phrases. They can replace those inside them, in both directions.
    """

    first: Parsed | None
    second: Parsed | None
    forward: tuple[NodeMapping, ...] = ()
    backward: tuple[NodeMapping, ...] = ()
    missing: str = ""
    around: tuple[NodeMapping, ...] = ()

    @property
    def rho(self) -> Rho:
        """The directions that align the sentences."""
        return Rho(self._covers_one(self.forward), self._covers_one(self.backward))

    def _covers_one(self, mappings: Collection[NodeMapping]) -> bool:
        """Return True if the mappings contain every token of a sentence that must be covered."""
        return bool(mappings) and not all(self._left_over(mappings, mappings))

    def _left_over(
        self, of_first: Iterable[NodeMapping], of_second: Iterable[NodeMapping]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.first is None or self.second is None:
            return (), ()
        return self.first.left_over(m.first for m in of_first), self.second.left_over(
            m.second for m in of_second
        )

    @property
    def leftovers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Words of each sentence that its own mappings do not align with the other one, as in tables 12 and 14."""
        return self._left_over(self.forward, self.backward)

    def pair_of(self, mapping: NodeMapping) -> PhrasePair:
        """Return the texts of one of the mappings.

        :raises ValueError: if there are no trees.
        """
        if self.first is None or self.second is None:
            raise ValueError("no phrase without trees: " + self.missing)
        return PhrasePair(self.first.text_of(mapping.first), self.second.text_of(mapping.second))

    @property
    def pairs(self) -> tuple[PhrasePair, ...]:
        """The distinct phrase pairs of the directions that align the sentences, in order, forward first."""
        rho = self.rho
        mappings = (*(self.forward if rho.forward else ()), *(self.backward if rho.backward else ()))
        return tuple(dict.fromkeys(map(self.pair_of, mappings)))

    def without(self, refused: Collection[PhrasePair]) -> Alignments:
        """Return the alignments without the refused phrase pairs."""
        forward, backward = (
            tuple(m for m in mappings if self.pair_of(m) not in refused)
            for mappings in (self.forward, self.backward)
        )
        return replace(self, forward=forward, backward=backward)

    def widened(self, refused: Collection[PhrasePair]) -> Alignments:
        """Return the alignments with the next larger phrases instead of the refused ones, where there are any."""
        larger = [
            min(around, key=lambda m: len(m.first) + len(m.second))
            for mapping in self.forward
            if self.pair_of(mapping) in refused
            if (around := [m for m in self.around if m != mapping and m.includes(mapping)])
        ]
        new = [m for m in larger if not any(m != other and other.includes(m) for other in larger)]
        if not new:
            return self
        kept = [m for m in self.forward if not any(other.includes(m) for other in new)]
        both = in_order({*kept, *new})
        return replace(self, forward=both, backward=both)


def in_order(mappings: Iterable[NodeMapping]) -> tuple[NodeMapping, ...]:
    """Return mappings by start, the longer first."""
    return tuple(sorted(mappings, key=lambda m: (m.first[0], -len(m.first), m.second)))


def align(first: Parsed, second: Parsed, first_vectors: Array, second_vectors: Array) -> Alignments:
    """Return the potential alignments of two sentences in both directions, by Algorithm 1.

    :param first_vectors: of the first sentence's tokens, shape (tokens, size); ``second_vectors`` likewise.
    :raises ValueError: if there is not one vector per token.
    """
    similarity = cosines(node_vectors(first.tree, first_vectors), node_vectors(second.tree, second_vectors))
    forward = _mappings(first.tree, second.tree, similarity)
    backward = (m.turned for m in _mappings(second.tree, first.tree, similarity.T))
    return Alignments(first, second, in_order(forward), in_order(backward))


def _mappings(source: Tree, target: Tree, similarity: Array) -> set[NodeMapping]:
    """Return the phrase mappings at the tops of all matching paths.

    :param similarity: shape (source nodes, target nodes); NaN is never the most similar.
    """
    edges = most_similar(similarity, target)
    paths = (matching_path(source, target, edges, leaf) for leaf in source.leaves)
    tops = {path[-1] for path in paths if len(path) >= 2}
    return {NodeMapping(source.nodes[top].tokens, target.nodes[edges[top]].tokens) for top in tops}


def most_similar(similarity: Array, target: Tree) -> list[int]:
    """Return the matching graph: for each source node, the index of the most similar target node, or -1.

    Ties (within ``TIE``) go to the node with fewer tokens, then to the leftmost, then to the deeper one.

    :param similarity: shape (source nodes, target nodes).
    """
    import numpy as np

    nodes = target.nodes
    preferred = sorted(range(len(nodes)), key=lambda place: (nodes[place].size, nodes[place].start, -place))
    known = np.where(np.isnan(similarity), -np.inf, similarity)[:, preferred]
    best = known.max(axis=1, keepdims=True)
    # argmax returns the first True, which is the preferred column.
    chosen = (known >= best - TIE).argmax(axis=1)
    return [
        preferred[column] if np.isfinite(highest) else -1
        for column, highest in zip(chosen, best[:, 0], strict=True)
    ]


def matching_path(source: Tree, target: Tree, edges: Sequence[int], leaf: int) -> tuple[int, ...]:
    """Return ``matchingpath(U, V, x)``: the indices of the nodes from the leaf upwards, including the leaf.

    The path continues to the parent of a node if the parent's edge leads to the parent of the node's match, and the
    parent does not cover the whole sentence. The node must have a sibling, which it has in a tree without unary chains.
    A path of one node maps nothing. A leaf without an edge has an empty path.
    """
    path = [leaf]
    if edges[leaf] < 0:
        return ()
    while True:
        place = path[-1]
        parent, match = source.parents[place], target.parents[edges[place]]
        if parent < 0 or match < 0 or edges[parent] != match or source.is_whole(parent):
            break
        path.append(parent)
    return tuple(path)
