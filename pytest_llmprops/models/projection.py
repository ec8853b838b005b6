"""Derive phrase structure from a dependency parse: each head and its dependents become a constituent.

Relations have the names of spaCy's English models (CLEAR) or of Universal Dependencies; tags are the Penn Treebank's,
if available. The trees follow the Penn Treebank as far as dependencies allow:

- A head and its dependents are one constituent, in the order of the tokens. If a token between a dependent and its head
  does not descend from the head (a non-projective arc), the dependent is lifted to the head's head. Constituents are
  therefore always contiguous, and leaves are always in token order.
- A clause is ``S``. It has a ``VP`` and everything before it, including the subject. Each auxiliary opens a ``VP``. An
  inverted subject comes between the parts of the clause. A subordinating word, or a relative or interrogative phrase at
  the start, is a sibling of the clause's ``S`` under ``SBAR`` (``SBARQ`` in a main clause).
- A noun and the words before it are an ``NP``; together with the phrases after it they are another one: ``(NP (NP the
  man) (PP in it))``. Prepositions with their complement are ``PP``, a number with its modifiers ``QP``, names inside
  names ``NML``.
- Coordination: conjuncts, conjunctions and commas are parts of one constituent, however the parse chains them. Verbs
  that share a subject are coordinated below it; non-finite verbs that share auxiliaries are coordinated below those.
- Punctuation at either end of a constituent belongs to the constituent above it ("attached high"), except pairs of
  brackets or quotation marks around a constituent.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmprops.models.phrases import Builder, Node, Token

#: version of the trees; part of the identity of parsers that use them. Increase it when the trees change.
VERSION = 1

_ESCAPES = str.maketrans({"(": "-LRB-", ")": "-RRB-"})


def bracketed(tokens: Sequence[Token]) -> str:
    """Return the trees of the sentences as brackets: ``(ROOT (S (NP (PRP It)) (VP (VBZ rains))))``, one root each.

    Brackets inside tokens are written ``-LRB-`` and ``-RRB-``. A token without a tag gets its universal part of speech.

    :raises ValueError: if the heads form a circle.
    """
    heads = _projective([token.head for token in tokens])
    return " ".join(_brackets(root, tokens) for root in Builder(tokens, heads, _depths(heads)).roots())


def _depths(heads: Sequence[int]) -> list[int]:
    """Return the number of arcs from each token to its root.

    :raises ValueError: if the heads form a circle.
    """
    depths = [-1] * len(heads)
    for start in range(len(heads)):
        path: list[int] = []
        place = start
        while place >= 0 and depths[place] < 0:
            if len(path) > len(heads):
                raise ValueError("the heads form a circle")
            path.append(place)
            place = heads[place]
        depth = depths[place] if place >= 0 else -1
        for place in reversed(path):
            depth += 1
            depths[place] = depth
    return depths


def _projective(heads: Sequence[int]) -> list[int]:
    """Return projective heads: every token between a dependent and its head descends from that head.

    The shortest non-projective arc is lifted to the head's head until none is left (Nivre and Nilsson 2005). The arcs
    to roots count as well: no arc spans a root.
    """
    heads = list(heads)
    _depths(heads)
    while True:
        crossed = [d for d, head in enumerate(heads) if head >= 0 and not _spans(heads, d)]
        if not crossed:
            return heads
        shortest = min(crossed, key=lambda d: (abs(heads[d] - d), d))
        heads[shortest] = heads[heads[shortest]]


def _spans(heads: Sequence[int], dependent: int) -> bool:
    """Return whether all tokens between a token and its head descend from the head."""
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
