"""Potential alignments that must cover both sentences: the alternative to Algorithm 1 (``oracle.alignment=covering``).

Algorithm 1 needs mappings that cover one of the sentences. With the default helpers, it finds alignments for nearly as
many pairs that are not equivalent as for equivalent ones, and not even for every sentence with itself. The differences:

- Both sentences must be covered by the mappings of one direction. What only one sentence says is left over.
- A path of one node maps, too. A word is then a phrase, so that a subject of one word can be covered.
- A mapping whose phrases contradict each other is left out: they differ in their numbers, only one of them is negated,
  or one is the agent of a verb and the other the patient.
- A mapping inside another one is left out: it covers nothing more.
- A mapping with a cosine below ``MIN_SIMILARITY`` is left out.

``docs/oracle.md`` has the measured shares of both.
"""

from __future__ import annotations

import re

from pytest_llmprops.benchmarks.oracle.algorithm1 import in_order, matching_path, most_similar, targets
from pytest_llmprops.benchmarks.oracle.alignment import Alignments, Mapping
from pytest_llmprops.benchmarks.oracle.arguments import Argument, arguments, role_in
from pytest_llmprops.benchmarks.oracle.choices import Whole
from pytest_llmprops.benchmarks.oracle.trees import Parsed, Span
from pytest_llmprops.benchmarks.oracle.vectors import Array, cosines, node_vectors

#: minimum cosine of a mapping; chosen on the built-in pairs and MSRP's training rows
MIN_SIMILARITY = 0.5
NEGATIONS = frozenset(
    ["cannot", "n't", "n’t", "neither", "never", "no", "nobody", "none", "nor", "not", "nothing", "without"]
)
#: "one" is left out, because it is often a pronoun
NUMBER_WORDS = [
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]
_NUMBERS = {word: str(number) for number, word in enumerate(NUMBER_WORDS, 2)}
_NOT_NUMERIC = re.compile(r"[^\d.]")


def align_covering(
    first: Parsed,
    second: Parsed,
    first_vectors: Array,
    second_vectors: Array,
    *,
    whole: Whole = "bar",
) -> Alignments:
    """Return the potential alignments that cover both sentences, in both directions.

    :param first_vectors: of the first sentence's tokens, shape (tokens, size); ``second_vectors`` likewise.
    :param whole: whether a phrase may be mapped to the whole other sentence.
    :raises ValueError: if there is not one vector per token.
    """
    similarity = cosines(node_vectors(first.tree, first_vectors), node_vectors(second.tree, second_vectors))
    return Alignments(
        first,
        second,
        _mappings(first, second, targets(similarity, second.tree, whole)),
        _mappings(second, first, targets(similarity.T, first.tree, whole)),
        both=True,
    )


def _mappings(source: Parsed, target: Parsed, similarity: Array) -> tuple[Mapping, ...]:
    tree, goal = source.tree, target.tree
    edges = most_similar(similarity, goal)
    roles = arguments(tree), arguments(goal)
    distinct: set[Mapping] = set()
    for leaf in tree.leaves:
        path = matching_path(tree, goal, edges, leaf)
        # Nothing is asked about a single preposition or punctuation mark, which need not be covered.
        if not path or (len(path) == 1 and not tree.must_be_covered(tree.nodes[leaf].start)):
            continue
        top, match = tree.nodes[path[-1]], goal.nodes[edges[path[-1]]]
        cosine = float(similarity[path[-1], edges[path[-1]]])
        mapping = Mapping((top.start, top.end), (match.start, match.end), cosine)
        if cosine >= MIN_SIMILARITY and not contradicts(source, target, mapping, roles):
            distinct.add(mapping)
    return in_order(m for m in distinct if not any(m != other and _includes(other, m) for other in distinct))


def _includes(mapping: Mapping, other: Mapping) -> bool:
    """Return whether the phrases of ``other`` are parts of the phrases of ``mapping``."""
    pairs = (mapping.source, other.source), (mapping.target, other.target)
    return all(span[0] <= part[0] and part[1] <= span[1] for span, part in pairs)


def contradicts(
    source: Parsed,
    target: Parsed,
    mapping: Mapping,
    roles: tuple[tuple[Argument, ...], tuple[Argument, ...]],
) -> bool:
    """Return whether the phrases of a mapping differ in numbers, negation, or who does something to whom.

    :param roles: the arguments of the source's and the target's verbs.
    """
    if numbers(source, mapping.source) != numbers(target, mapping.target):
        return True
    if is_negated(source, mapping.source) != is_negated(target, mapping.target):
        return True
    both = role_in(roles[0], mapping.source), role_in(roles[1], mapping.target)
    return None not in both and both[0] != both[1]


def numbers(sentence: Parsed, span: Span) -> frozenset[str]:
    """Return the numbers of a phrase: digits without separators of thousands, and the words from two to twenty."""
    tokens = sentence.tree.tokens[span[0] : span[1]]
    return frozenset(number for number in map(_number, tokens) if number)


def _number(token: str) -> str:
    return _NUMBERS.get(token.lower()) or _NOT_NUMERIC.sub("", token).strip(".")


def is_negated(sentence: Parsed, span: Span) -> bool:
    """Return whether a phrase has an odd number of negations."""
    tokens = sentence.tree.tokens[span[0] : span[1]]
    return sum(token.lower() in NEGATIONS for token in tokens) % 2 == 1
