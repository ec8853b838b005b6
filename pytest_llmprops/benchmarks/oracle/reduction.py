"""Shorter versions of a sentence: parts that can be left out, so that a sentence remains.

With a tree, the parts are modifiers and second conjuncts: prepositional and adverbial phrases, clauses, parentheses,
adjectives and adverbs that are not the head of their phrase. Without one, they are the texts between commas, semicolons
and dashes, except the longest. A shorter sentence need not mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_llmprops.benchmarks.oracle.trees import Node, Parsed, Span, Tree, collapsed

#: maximum number of parts of a sentence, the longest first
MOST = 8
_MODIFIERS = frozenset({"PP", "ADVP", "SBAR", "PRN", "RRC"})
#: a clause after a verb that begins with one of them is what the verb is about
_COMPLEMENTISERS = frozenset({"that", "whether"})
#: what does not begin a main clause
_SUBORDINATE = re.compile(
    r"\W*(?:after|although|and|as|at|because|before|but|by|for|from|if|in|on|or|since|that|though|unless|until|when"
    r"|where|which|while|who|whose|with)\b",
    re.IGNORECASE,
)
#: phrases whose other child is the complement of their first word
_GOVERNED = frozenset({"PP", "SBAR", "WHPP", "PRN"})
_COPULAS = frozenset(
    {"am", "are", "be", "became", "become", "been", "is", "seem", "seems", "was", "were", "'s", "'re"}
)
_PAIRED = frozenset({"both", "between", "either", "neither"})
_SEPARATORS = frozenset({",", ";", ":", "-", "--", "–", "—"})
_ENDS = frozenset({".", "!", "?"})


@dataclass(frozen=True)
class Reducible:
    """A sentence, with its tree if a parser returned one."""

    text: str
    parsed: Parsed | None = None

    @cached_property
    def parts(self) -> tuple[Span, ...]:
        """The parts that can be left out, in tokens of the tree, or else in characters of the text."""
        found = set(_modifiers(self.parsed.tree) if self.parsed else _segments(self.text))
        return tuple(sorted(found, key=lambda span: (span[0] - span[1], span))[:MOST])

    def without(self, parts: Collection[Span]) -> Reducible:
        """Return the sentence without some of its :attr:`parts`."""
        if not parts:
            return self
        if self.parsed is None:
            return Reducible(_joined(self.text, parts))
        return _reduced(self.parsed, {token for start, end in parts for token in range(start, end)})


def _modifiers(tree: Tree) -> Iterator[Span]:
    for place, node in enumerate(tree.nodes):
        parent = tree.parents[place]
        if parent < 0:
            continue
        above = tree.nodes[parent]
        if _is_modifier(tree, node, above) and _is_balanced(tree, node):
            yield node.start, node.end
        if node.label == "CC" and (span := _conjunct(tree, node, above, tree.parents[parent])) is not None:
            yield span


def _is_modifier(tree: Tree, node: Node, above: Node) -> bool:
    labels, outer = set(node.label.split("+")), set(above.label.split("+"))
    words = [c for c in above.children if c is not node and _has_word(tree, c)]
    if outer & _GOVERNED or not words:
        return False
    if not node.children and not labels & _MODIFIERS:
        # an adjective before a noun, or an adverb; a leaf may also be a phrase of one word
        tag = tree.tags[node.start]
        is_adjective = tag.startswith(("JJ", "RB")) and outer & {"NP", "NML"}
        return bool(is_adjective) and any(
            c.start > node.start and _is_noun(tree, c) and not c.children for c in words
        )
    first = tree.tokens[node.start].lower()
    if not labels & _MODIFIERS or first in ("not", "n't", "never"):
        return False
    if not node.children and tree.tags[node.start] in ("IN", "TO", "ADP"):
        return False
    if outer & {"S", "SINV", "SQ", "TEXT", "ROOT"}:
        kept = {label for child in words for label in child.label.split("+")}
        return "VP" in kept and bool(kept & {"NP", "EX"})
    if "VP" in outer:
        is_copula = tree.tokens[above.start].lower() in _COPULAS
        is_complement = first in _COMPLEMENTISERS or (is_copula and len(words) == 1)
        return node.start > above.start and not is_complement
    return any(_is_noun(tree, child) for child in words)


def _conjunct(tree: Tree, node: Node, above: Node, higher: int) -> Span | None:
    """Return the conjunction and what follows it, if two phrases are joined and the first can stand alone."""
    words = [child for child in above.children if _has_word(tree, child)]
    if (
        len(words) != 3
        or words[1] is not node
        or (above.start and tree.tokens[above.start - 1].lower() in _PAIRED)
    ):
        return None
    outer = tree.nodes[higher].label if higher >= 0 else ""
    # A subject of one conjunct would need another form of the verb.
    if "NP" in above.label.split("+") and set(outer.split("+")) & {"S", "SINV", "SQ", ""}:
        return None
    return (node.start, words[2].end) if _is_balanced(tree, words[2]) else None


def _has_word(tree: Tree, node: Node) -> bool:
    return any(map(tree.is_word, range(node.start, node.end)))


def _is_noun(tree: Tree, node: Node) -> bool:
    return any(tree.tags[t].startswith(("NN", "PRP", "CD", "DT")) for t in range(node.start, node.end))


def _is_balanced(tree: Tree, node: Node) -> bool:
    """Return True if quotation marks and brackets in the node are in pairs."""
    tokens = tree.tokens[node.start : node.end]
    opening = sum(token in ("``", "“", "(", "[") for token in tokens)
    closing = sum(token in ("''", "”", ")", "]") for token in tokens)
    return opening == closing and tokens.count('"') % 2 == 0


def _reduced(sentence: Parsed, dropped: set[int]) -> Reducible:
    tree = sentence.tree
    kept = _cleaned(tree.tokens, [t for t in range(len(tree.tokens)) if t not in dropped])
    numbers = {token: number for number, token in enumerate(kept)}
    root = _filtered(tree.root, numbers)
    if root is None:
        return Reducible(sentence.text, sentence)
    text, spans = "", []
    tokens = [tree.tokens[token] for token in kept]
    for number, token in enumerate(kept):
        start, end = sentence.spans[token]
        gap = sentence.text[sentence.spans[token - 1][1] : start] if number else ""
        word = sentence.text[start:end]
        if number == 0 and token > 0 and sentence.text[:1].isupper():
            word, tokens[0] = word[:1].upper() + word[1:], tokens[0][:1].upper() + tokens[0][1:]
        elif number and not gap and token - 1 != kept[number - 1] and tree.is_word(token):
            gap = " "
        spans.append((len(text) + len(gap), len(text) + len(gap) + len(word)))
        text += gap + word
    text += sentence.text[sentence.spans[-1][1] :]
    shorter = Tree(collapsed(root), tuple(tokens), tuple(tree.tags[token] for token in kept))
    return Reducible(text, Parsed(text, shorter, tuple(spans)))


def _cleaned(tokens: Sequence[str], kept: Sequence[int]) -> list[int]:
    """Return the kept tokens without the commas and dashes that separated what was left out."""
    result: list[int] = []
    for token in kept:
        word = tokens[token]
        last = result[-1] if result else -1
        has_gap = token - 1 != last
        if word in _SEPARATORS and (not result or (has_gap and tokens[last] in _SEPARATORS)):
            if result:
                result.pop()
            continue
        if word in _SEPARATORS and sum(t in _SEPARATORS for t in tokens[last + 1 : token]) % 2:
            # Its partner was inside of what was left out.
            continue
        if word in _ENDS and has_gap and result and tokens[last] in _SEPARATORS:
            result.pop()
        result.append(token)
    return result


def _filtered(node: Node, numbers: dict[int, int]) -> Node | None:
    if not node.children:
        number = numbers.get(node.start)
        return None if number is None else Node(node.label, number, number + 1)
    children = tuple(c for child in node.children if (c := _filtered(child, numbers)) is not None)
    return Node(node.label, children[0].start, children[-1].end, children) if children else None


def _segments(text: str) -> Iterator[Span]:
    """Yield the texts between commas, semicolons and dashes, each with one of them, except the longest."""
    ends = [match.start() for match in re.finditer(r"[,;] | [–—-] |—", text)]
    spans = list(zip([0, *ends], [*ends, len(text.rstrip(" .!?"))], strict=True))
    main = [span for span in spans if not _SUBORDINATE.match(text[slice(*span)])] or spans
    longest = max(main, key=lambda span: span[1] - span[0])
    yield from (span for span in spans if span != longest)


def _joined(text: str, dropped: Collection[Span]) -> str:
    kept = "".join(c for n, c in enumerate(text) if not any(start <= n < end for start, end in dropped))
    kept = re.sub(r"^[\s,;–—-]+", "", kept)
    return kept[:1].upper() + kept[1:] if text[:1].isupper() else kept
