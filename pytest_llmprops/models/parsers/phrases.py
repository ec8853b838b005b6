"""Build the constituent of every head of a dependency parse from the constituents of its dependents.

Relations have the names of spaCy's English models (CLEAR) or of Universal Dependencies; tags are the Penn Treebank's,
if available. The trees follow the Penn Treebank as far as dependencies allow:

- A head and its dependents are one constituent, in the order of the tokens. If a token between a dependent and its
  head does not descend from the head (a non-projective arc), the dependent is lifted to the head's head. Constituents
  are therefore always contiguous, and leaves are always in token order.
- A clause is ``S``. It has a ``VP`` and everything before it, including the subject. Each auxiliary opens a ``VP``.
  An inverted subject comes between the parts of the clause. A subordinating word, or a relative or interrogative
  phrase at the start, is a sibling of the clause's ``S`` under ``SBAR`` (``SBARQ`` in a main clause).
- A noun and the words before it are an ``NP``; together with the phrases after it they are another one: ``(NP (NP the
  man) (PP in it))``. Prepositions with their complement are ``PP``, a number with its modifiers ``QP``, names inside
  names ``NML``.
- Coordination: conjuncts, conjunctions and commas are parts of one constituent, however the parse chains them. Verbs
  that share a subject are coordinated below it; non-finite verbs that share auxiliaries are coordinated below those.
- Punctuation at either end of a constituent belongs to the constituent above it ("attached high"), except pairs of
  brackets or quotation marks around a constituent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple

_SUBJECTS = frozenset(
    ["nsubj", "nsubjpass", "csubj", "csubjpass", "expl", "nsubj:pass", "csubj:pass", "nsubj:outer"]
)
_AUXILIARIES = frozenset({"aux", "auxpass", "aux:pass", "cop"})
#: dependents that are single words of their head's phrase, never phrases
_WORDS = frozenset(
    [*_AUXILIARIES, "neg", "cc", "cc:preconj", "preconj", "mark", "det", "predet", "case", "prt", "punct"]
)
_CLAUSES = frozenset(["ccomp", "xcomp", "advcl", "acl", "acl:relcl", "relcl", "pcomp", "csubj", "csubjpass"])
_MODIFIERS = frozenset(["amod", "compound", "nummod", "quantmod", "nmod", "advmod", "npadvmod", "poss"])
_WH = frozenset({"WP", "WP$", "WDT", "WRB"})
_LABELS = {
    "VERB": "VP",
    "AUX": "VP",
    "NOUN": "NP",
    "PROPN": "NP",
    "PRON": "NP",
    "NUM": "NP",
    "SYM": "NP",
    "DET": "NP",
    "ADJ": "ADJP",
    "ADV": "ADVP",
    "ADP": "PP",
    "SCONJ": "PP",
    "INTJ": "INTJ",
    "CCONJ": "CONJP",
}
_PAIRS = dict(zip("([{\"'“‘«„", ")]}\"'”’»“", strict=True)) | {"``": "''"}


class Token(NamedTuple):
    """One word of a parse.

    :param tag: the treebank's own tag (Penn's), "" if there is none.
    :param upos: the universal part of speech.
    :param head: the position of the head, counted from 0; -1 for the root of a sentence.
    """

    text: str
    tag: str
    upos: str
    head: int
    relation: str


class Node(NamedTuple):
    """A constituent, or a leaf, whose ``token`` is its position; ``token`` is -1 for constituents."""

    label: str
    parts: tuple[Node, ...]
    token: int = -1


class _Built(NamedTuple):
    """The constituent of a head and its dependents.

    :param nodes: the constituent, with the punctuation around it.
    :param tail: the conjunctions, commas and conjuncts after it, not yet joined to it.
    :param heads: for each node of the tail, the conjunct's head; -1 if the node is not a conjunct.
    """

    nodes: list[Node]
    tail: list[Node]
    heads: list[int]


class _Piece(NamedTuple):
    """A dependent and the nodes built from it; ``place`` is the position of its token."""

    relation: str
    place: int
    nodes: list[Node]


class Builder:
    """Builds the constituent of every head from those of its dependents, which come first.

    :param heads: for each token, the position of its head, -1 for roots; no arcs cross.
    """

    def __init__(self, tokens: Sequence[Token], heads: Sequence[int]) -> None:
        self._tokens, self._heads = tokens, heads
        self._dependents = _dependents(heads)
        self._built: dict[int, _Built] = {}
        for place in TopologicalSorter(self._dependents).static_order():
            self._built[place] = self._build(place)

    def roots(self) -> Iterator[Node]:
        """Yield a tree for each root, in the order of the tokens."""
        for place, head in enumerate(self._heads):
            if head < 0:
                yield self._root(self._joined(place))

    def _root(self, nodes: list[Node]) -> Node:
        """Return ``ROOT`` over one constituent that includes the sentence's outer punctuation."""
        if len(nodes) > 1:
            main = next((i for i, node in enumerate(nodes) if not self._is_mark(node)), 0)
            label, parts, _ = nodes[main]
            # In a clause the marks become its own parts. Any other phrase stays one part between the marks.
            inner = parts if label.startswith("S") and parts else (nodes[main],)
            nodes = [Node(label, (*nodes[:main], *inner, *nodes[main + 1 :]))]
        return Node("ROOT", tuple(nodes))

    def _build(self, place: int) -> _Built:
        token = self._tokens[place]
        left = [self._piece(d) for d in self._dependents[place] if d < place]
        right = [d for d in self._dependents[place] if d > place]
        lead: list[Node] = []
        while token.relation == "conj" and left and left[0].relation in ("cc", "punct"):
            lead += _unwrapped(left.pop(0).nodes)
        start = self._coordinated_from(right)
        tail, heads = self._tail(right[start:])
        after = [self._piece(d) for d in right[:start]]
        if self._is_clause(place, [*left, *after]):
            nodes, tail, heads = self._clause(place, left, after, tail, heads)
        else:
            nodes = self._phrase(place, left, after)
        return _Built([*lead, *nodes], tail, heads)

    def _piece(self, place: int) -> _Piece:
        relation = self._tokens[place].relation
        nodes = self._joined(place)
        return _Piece(relation, place, _unwrapped(nodes) if relation in _WORDS else nodes)

    def _joined(self, place: int) -> list[Node]:
        """Return the nodes of a head; its conjuncts are in one constituent with it."""
        nodes, tail, _ = self._built[place]
        return self._node(self._main(nodes).label, [*nodes, *tail]) if tail else nodes

    def _coordinated_from(self, right: Sequence[int]) -> int:
        """Return the index of the first conjunction or conjunct in the dependents to the right."""
        relations = [self._tokens[d].relation for d in right]
        if "conj" not in relations:
            return len(right)
        return min(i for i, relation in enumerate(relations) if relation in ("cc", "conj"))

    def _tail(self, places: Sequence[int]) -> tuple[list[Node], list[int]]:
        """Return the conjuncts with the nodes that join them, and each node's head, -1 if it is not a conjunct."""
        nodes: list[Node] = []
        heads: list[int] = []
        for place in places:
            if self._tokens[place].relation == "conj":
                own, tail, inner = self._built[place]
                main = self._main(own)
                nodes += [*own, *tail]
                heads += [place if node is main else -1 for node in own] + inner
            else:
                joining = self._piece(place).nodes
                nodes += joining
                heads += [-1] * len(joining)
        return nodes, heads

    def _is_clause(self, place: int, pieces: Iterable[_Piece]) -> bool:
        token = self._tokens[place]
        relations = {piece.relation for piece in pieces}
        if relations & (_SUBJECTS | _AUXILIARIES | {"mark"}):
            return True
        return token.upos in ("VERB", "AUX") and token.relation not in _MODIFIERS

    def _clause(
        self, place: int, left: list[_Piece], right: list[_Piece], tail: list[Node], heads: list[int]
    ) -> tuple[list[Node], list[Node], list[int]]:
        """Return the clause of a predicate, and the rest of its coordination, which is not below its subject."""
        count = self._outer_count(left)
        outer, left = left[:count], left[count:]
        subject = max((i for i, p in enumerate(left) if p.relation in _SUBJECTS), default=-1)
        verbal = self._tokens[place].upos in ("VERB", "AUX")
        auxiliaries = [i for i, p in enumerate(left) if i > subject and p.relation in _AUXILIARIES]
        inside = auxiliaries[0] if auxiliaries else len(left) if verbal else subject + 1
        inverted = next((i for i, p in enumerate(right) if p.relation in _SUBJECTS), len(right))
        if verbal:
            predicate = self._node("VP", [_leaf(place), *_all(right[:inverted])])
            within = left[inside:]
        else:
            words = auxiliaries[-1] + 1 if auxiliaries else inside
            predicate = self._phrase(place, left[words:], right[:inverted])
            within = left[inside:words]
        # Conjuncts share the subject up to the first one that has its own subject. Those after an inverted subject
        # never share it. A conjunct without a subject leaves its own conjuncts to the first conjunct.
        shares_subject = inverted == len(right) and (self._tokens[place].relation != "conj" or subject >= 0)
        shared = self._below_subject(heads) if shares_subject else 0
        below, tail = tail[:shared], tail[shared:]
        shares_auxiliaries = all(self._can_share_auxiliaries(head) for head in heads[:shared] if head >= 0)
        heads = heads[shared:]
        if below and shares_auxiliaries:
            predicate, below = self._node("VP", [*predicate, *below]), []
        for i in range(len(within) - 1, -1, -1):
            predicate = [*within[i].nodes, *predicate]
            if within[i].relation in _AUXILIARIES:
                predicate = self._node("VP", predicate)
        if below:
            predicate = self._node("VP", [*predicate, *below])
        nodes = self._node("S", [*_all(left[:inside]), *predicate, *_all(right[inverted:])])
        if outer:
            if tail and not any(node.label.startswith("SBAR") for node in tail):
                nodes, tail, heads = self._node("S", [*nodes, *tail]), [], []
            label = "SBARQ" if self._heads[place] < 0 else "SBAR"
            nodes = self._node(label, [*(self._mark_wh(node) for node in _all(outer)), *nodes])
        return nodes, tail, heads

    def _outer_count(self, left: Sequence[_Piece]) -> int:
        """Return how many of the first dependents are outside the clause: up to its subordinator or wh-phrase."""
        marks = [i for i, piece in enumerate(left) if piece.relation == "mark"]
        if marks:
            return marks[-1] + 1
        first = next((i for i, piece in enumerate(left) if piece.relation != "punct"), -1)
        if first < 0 or left[first].relation in _CLAUSES:
            return 0
        leaves = [leaf for node in left[first].nodes for leaf in _leaves(node)]
        tags = [self._tokens[leaf].tag for leaf in leaves[:2]]
        has_wh = tags[0] in _WH or (tags[0] in ("IN", "TO") and tags[-1] in _WH)
        return first + 1 if has_wh else 0

    def _mark_wh(self, node: Node) -> Node:
        """Return a phrase that contains a wh-word with ``WH`` before its label; any other node unchanged."""
        has_wh = any(self._tokens[leaf].tag in _WH for leaf in _leaves(node))
        return node._replace(label=f"WH{node.label}") if has_wh and node.parts else node

    def _below_subject(self, heads: Sequence[int]) -> int:
        """Return how many nodes of a coordination come before the first conjunct that has its own subject."""
        for i, head in enumerate(heads):
            if head >= 0 and any(self._tokens[d].relation in _SUBJECTS for d in self._dependents[head]):
                joined = [n for n, other in enumerate(heads[:i]) if other >= 0]
                return joined[-1] + 1 if joined else 0
        return len(heads)

    def _can_share_auxiliaries(self, place: int) -> bool:
        """Return True if a conjunct may share the first one's auxiliaries: it is not finite and has no auxiliary."""
        token = self._tokens[place]
        if any(self._tokens[d].relation in _AUXILIARIES for d in self._dependents[place]):
            return False
        return token.tag not in ("VBD", "VBZ", "VBP", "MD")

    def _phrase(self, place: int, left: list[_Piece], right: list[_Piece]) -> list[Node]:
        """Return the phrase of a head that is not a clause."""
        token = self._tokens[place]
        label = _LABELS.get(token.upos, "X")
        if token.upos == "SCONJ" and not right:
            label = "ADVP"
        if label == "NP" and not (token.upos in ("NUM", "SYM", "DET") and token.relation in _MODIFIERS):
            return self._noun_phrase(place, left, right)
        if token.relation in _MODIFIERS and label in ("NP", "VP"):
            label = "QP" if label == "NP" else "ADJP"
        before = [node for piece in left for node in _unwrapped(piece.nodes)]
        return self._node(label, [*before, _leaf(place), *_all(right)])

    def _noun_phrase(self, place: int, left: list[_Piece], right: list[_Piece]) -> list[Node]:
        # In Universal Dependencies a preposition depends on its noun.
        cases = [
            i for i, p in enumerate(left) if p.relation == "case" and self._tokens[p.place].upos == "ADP"
        ]
        marked = cases[-1] + 1 if cases else 0
        before = [node for piece in left[marked:] for node in _unwrapped(piece.nodes)]
        close = 0
        while close < len(right) and self._is_close(right[close:]):
            close += 1
        inner = [*before, _leaf(place), *(node for p in right[:close] for node in _unwrapped(p.nodes))]
        small = "NML" if self._tokens[place].relation in ("compound", "nmod") and not marked else "NP"
        nodes = self._node(small, inner)
        if close < len(right):
            nodes = self._node("NP", [*nodes, *_all(right[close:])])
        return self._node("PP", [*_all(left[:marked]), *nodes]) if marked else nodes

    def _is_close(self, pieces: Sequence[_Piece]) -> bool:
        """Return True if the first dependent after a noun is part of the name or date: John's; May 5, 1999."""
        names = ("case", "nummod", "compound", "flat", "fixed", "goeswith")
        relations = [piece.relation for piece in pieces[:2]]
        return relations[0] in names or relations == ["punct", "nummod"]

    def _node(self, label: str, parts: list[Node]) -> list[Node]:
        """Return one constituent of ``parts``, with the punctuation at its ends outside it."""
        start, end = 0, len(parts)
        while start < end and self._is_mark(parts[start]) and not self._closes(parts[start:end]):
            start += 1
        while start < end and self._is_mark(parts[end - 1]) and not self._opens(parts[start:end]):
            end -= 1
        if start == end:
            return [Node(label, tuple(parts))]
        inner = parts[start:end]
        same = len(inner) == 1 and inner[0].label == label and inner[0].token < 0
        return [*parts[:start], inner[0] if same else Node(label, tuple(inner)), *parts[end:]]

    def _is_mark(self, node: Node) -> bool:
        if node.token < 0:
            return False
        token = self._tokens[node.token]
        return token.upos == "PUNCT" or token.relation == "punct"

    def _closes(self, parts: Sequence[Node]) -> bool:
        """Return True if the first part is a bracket or quotation mark that another part closes."""
        closing = _PAIRS.get(self._text(parts[0]))
        return closing is not None and any(self._text(node) == closing for node in parts[1:])

    def _opens(self, parts: Sequence[Node]) -> bool:
        """Return True if the last part is a bracket or quotation mark that another part opens."""
        last = self._text(parts[-1])
        return any(_PAIRS.get(self._text(node)) == last for node in parts[:-1])

    def _text(self, node: Node) -> str:
        return self._tokens[node.token].text if node.token >= 0 else ""

    def _main(self, nodes: Sequence[Node]) -> Node:
        """Return the first constituent; the other nodes are conjunctions and punctuation."""
        return next((node for node in nodes if node.parts), nodes[-1])


def _leaf(place: int) -> Node:
    return Node("", (), place)


def _all(pieces: Iterable[_Piece]) -> list[Node]:
    return [node for piece in pieces for node in piece.nodes]


def _unwrapped(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes; constituents of a single token become leaves."""
    result = []
    for node in nodes:
        while len(node.parts) == 1:
            node = node.parts[0]
        result.append(node)
    return result


def _leaves(node: Node) -> list[int]:
    """Return the positions of a constituent's tokens, in order."""
    positions, todo = [], [node]
    while todo:
        node = todo.pop()
        if node.token >= 0:
            positions.append(node.token)
        todo += reversed(node.parts)
    return positions


#: version of the trees; part of the identity of parsers that use them. Increase it when the trees change.
VERSION = 1

_ESCAPES = str.maketrans({"(": "-LRB-", ")": "-RRB-"})


def bracketed(tokens: Sequence[Token]) -> str:
    """Return the trees of the sentences as brackets: ``(ROOT (S (NP (PRP It)) (VP (VBZ rains))))``, one root each.

    Brackets inside tokens are written ``-LRB-`` and ``-RRB-``. A token without a tag gets its universal part of speech.

    :raises ValueError: if the heads form a cycle.
    """
    heads = _projective([token.head for token in tokens])
    return " ".join(_brackets(root, tokens) for root in Builder(tokens, heads).roots())


def _dependents(heads: Sequence[int]) -> dict[int, list[int]]:
    """Return the dependents of each token, in order."""
    dependents: dict[int, list[int]] = {place: [] for place in range(len(heads))}
    for place, head in enumerate(heads):
        if head >= 0:
            dependents[head].append(place)
    return dependents


def _projective(heads: list[int]) -> list[int]:
    """Change heads to projective ones: every token between a dependent and its head descends from that head.

    The shortest non-projective arc is lifted to the head's head until none is left (Nivre and Nilsson 2005). The arcs
    to roots count as well: no arc spans a root.

    :raises ValueError: if the heads form a cycle.
    """
    TopologicalSorter(_dependents(heads)).prepare()
    while crossed := [d for d, head in enumerate(heads) if head >= 0 and not _spans(heads, d)]:
        shortest = min(crossed, key=lambda d: (abs(heads[d] - d), d))
        heads[shortest] = heads[heads[shortest]]
    return heads


def _spans(heads: Sequence[int], dependent: int) -> bool:
    """Return True if all tokens between a token and its head descend from the head."""
    head = heads[dependent]
    for between in range(min(head, dependent) + 1, max(head, dependent)):
        above = between
        while above >= 0 and above != head:
            above = heads[above]
        if above < 0:
            return False
    return True


def _brackets(root: Node, tokens: Sequence[Token]) -> str:
    """Return a tree as brackets. No recursion, because a list of a thousand words may be nested a thousand deep."""
    parts: list[str] = []
    todo: list[Node | str] = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            parts.append(node)
        elif node.token >= 0:
            token = tokens[node.token]
            tag = (token.tag or token.upos or "X").translate(_ESCAPES)
            parts.append(f" ({tag} {token.text.translate(_ESCAPES)})")
        else:
            parts.append(f" ({node.label}")
            todo += [")", *reversed(node.parts)]
    return "".join(parts).strip()
