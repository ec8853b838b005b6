"""Phrase structure from a dependency parse: the constituents that each head spans with its dependents.

Relations have the names of spaCy's English models (CLEAR) or of Universal Dependencies; tags are Penn Treebank's where
they are there. The trees are shaped like the Penn Treebank's, as far as dependencies tell:

- A head and its dependents are one constituent, in the order of the tokens. A dependent whose head lies beyond a token
  that the head does not dominate (a non-projective arc) is lifted to the head's head, so that constituents are
  contiguous and leaves stand in token order, always.
- A clause is ``S``: what stands before the verb phrase, the subject among it, and ``VP``. Auxiliaries open a ``VP``
  each. An inverted subject stands between the parts of the clause. A subordinating word, or a relative or
  interrogative phrase at the start, stands beside the clause's ``S`` under ``SBAR`` (``SBARQ`` in a main clause).
- A noun with what precedes it is ``NP``, and again with the phrases that follow it: ``(NP (NP the man) (PP in it))``.
  Prepositions with their complement are ``PP``, a number with its modifiers ``QP``, names inside names ``NML``.
- Coordination: conjuncts, conjunctions and commas are parts of one constituent, however the parse chains them. Verbs
  that share a subject are coordinated below it, and non-finite ones that share auxiliaries below those.
- Punctuation at either end of a constituent stands in the constituent above it ("attached high"), except pairs of
  brackets or quotation marks around a constituent.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmprops.models.phrases import Builder, Node, Token

#: raised when the trees change: it is part of the identity of a parser that uses this
VERSION = 1

_ESCAPES = str.maketrans({"(": "-LRB-", ")": "-RRB-"})


def bracketed(tokens: Sequence[Token]) -> str:
    """The trees of the sentences, as brackets: ``(ROOT (S (NP (PRP It)) (VP (VBZ rains))))``, a root each.

    Brackets inside tokens are written ``-LRB-`` and ``-RRB-``; a token without a tag has its universal part of speech.

    :raises ValueError: when heads go round in a circle.
    """
    heads = _projective([token.head for token in tokens])
    return " ".join(_written(root, tokens) for root in Builder(tokens, heads, _depths(heads)).roots())


def _depths(heads: Sequence[int]) -> list[int]:
    """How far each token is from its root. :raises ValueError: heads go round in a circle."""
    depths = [-1] * len(heads)
    for start in range(len(heads)):
        path: list[int] = []
        place = start
        while place >= 0 and depths[place] < 0:
            if len(path) > len(heads):
                raise ValueError("heads go round in a circle")
            path.append(place)
            place = heads[place]
        depth = depths[place] if place >= 0 else -1
        for place in reversed(path):
            depth += 1
            depths[place] = depth
    return depths


def _projective(heads: Sequence[int]) -> list[int]:
    """Heads such that every token between a dependent and its head descends from that head.

    The shortest arc that is not so is lifted to the head's head, until there is none (Nivre and Nilsson 2005). Arcs
    from outside of all sentences count: nothing stands on both sides of a root that is not below it.
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
    """Whether all between a token and its head descends from the head."""
    head = heads[dependent]
    for between in range(min(head, dependent) + 1, max(head, dependent)):
        above = between
        while above >= 0 and above != head:
            above = heads[above]
        if above < 0:
            return False
    return True


def _written(root: Node, tokens: Sequence[Token]) -> str:
    """A tree as brackets, without recursion: a list of a thousand words may be nested a thousand deep."""
    found: list[str] = []
    todo: list[Node | str] = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            found.append(node)
        elif node.token >= 0:
            token = tokens[node.token]
            tag = (token.tag or token.upos or "X").translate(_ESCAPES)
            found.append(f" ({tag} {token.text.translate(_ESCAPES)})")
        else:
            found.append(f" ({node.label}")
            todo += [")", *reversed(node.parts)]
    return "".join(found).strip()
