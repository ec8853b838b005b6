"""Alignments of two sentences: phrase mappings, and what they cover (Zeng et al., section 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pytest_llmprops.benchmarks.oracle.trees import Parsed, Span, Tree


@dataclass(frozen=True, slots=True)
class Mapping:
    """A phrase mapping in one direction, from tokens of the source to tokens of the target.

    :param similarity: the cosine of the two phrases' vectors.
    """

    source: Span
    target: Span
    similarity: float = field(default=1.0, compare=False)


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """The texts of a mapping. The first sentence's phrase is first, whatever the direction."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Rho:
    """Which of the four alignments of section 4.3 hold.

    :param forward: mappings from the first sentence to the second cover the first.
    :param forward_star: mappings from the first sentence to the second cover the second.
    :param backward: mappings from the second sentence to the first cover the second.
    :param backward_star: mappings from the second sentence to the first cover the first.
    :param both: a direction aligns the sentences only if it covers both of them. Otherwise, one is enough.
    """

    forward: bool = False
    forward_star: bool = False
    backward: bool = False
    backward_star: bool = False
    both: bool = False

    @property
    def aligns_forward(self) -> bool:
        """Whether the mappings from the first sentence to the second align them."""
        return self._enough(self.forward, self.forward_star)

    @property
    def aligns_backward(self) -> bool:
        """Whether the mappings from the second sentence to the first align them."""
        return self._enough(self.backward, self.backward_star)

    def _enough(self, own: bool, star: bool) -> bool:
        return own and star if self.both else own or star

    @property
    def phi_or(self) -> bool:
        """Whether at least one direction aligns the sentences."""
        return self.aligns_forward or self.aligns_backward

    @property
    def phi_and(self) -> bool:
        """Whether each direction aligns the sentences."""
        return self.aligns_forward and self.aligns_backward


@dataclass(frozen=True, slots=True)
class Alignments:
    """The mappings between two sentences in both directions. They are potential until an oracle confirms them.

    :param forward: mappings from the first sentence to the second.
    :param backward: mappings from the second sentence to the first.
    :param missing: why there are no trees, in one phrase. Nothing is aligned then.
    :param both: the mappings of one direction must cover both sentences (see ``Rho``).
    """

    first: Parsed | None
    second: Parsed | None
    forward: tuple[Mapping, ...] = ()
    backward: tuple[Mapping, ...] = ()
    missing: str = ""
    both: bool = False

    @classmethod
    def without_trees(cls, missing: str) -> Alignments:
        """Return empty alignments for sentences without trees or vectors; ``missing`` says which, and why."""
        return cls(None, None, missing=missing)

    @property
    def rho(self) -> Rho:
        """The alignments that these mappings result in."""
        if self.first is None or self.second is None:
            return Rho()
        return Rho(
            _complete(self.first.tree, [m.source for m in self.forward]),
            _complete(self.second.tree, [m.target for m in self.forward]),
            _complete(self.second.tree, [m.source for m in self.backward]),
            _complete(self.first.tree, [m.target for m in self.backward]),
            self.both,
        )

    @property
    def strength(self) -> float:
        """The smallest cosine of the mappings that align the sentences, of the better direction; 0 if none does."""
        rho = self.rho
        directions = ((rho.aligns_forward, self.forward), (rho.aligns_backward, self.backward))
        return max(
            (min(m.similarity for m in found) for aligned, found in directions if aligned), default=0.0
        )

    def pair_of(self, mapping: Mapping, *, backward: bool) -> PhrasePair:
        """Return the texts of one of the mappings.

        :raises ValueError: if there are no trees.
        """
        if self.first is None or self.second is None:
            raise ValueError("no phrase without trees: " + self.missing)
        spans = (mapping.target, mapping.source) if backward else (mapping.source, mapping.target)
        return PhrasePair(self.first.phrase(spans[0]), self.second.phrase(spans[1]))

    def pairs(self, *, aligned_only: bool = False) -> tuple[PhrasePair, ...]:
        """Return the distinct phrase pairs in order, forward first.

        :param aligned_only: only pairs of directions that align the sentences.
        """
        rho = self.rho
        pairs: dict[PhrasePair, None] = {}
        if not aligned_only or rho.aligns_forward:
            pairs |= {self.pair_of(m, backward=False): None for m in self.forward}
        if not aligned_only or rho.aligns_backward:
            pairs |= {self.pair_of(m, backward=True): None for m in self.backward}
        return tuple(pairs)

    def without(self, refused: Iterable[PhrasePair]) -> Alignments:
        """Return the alignments without the refused phrase pairs."""
        removed = frozenset(refused)
        return replace(
            self,
            forward=tuple(m for m in self.forward if self.pair_of(m, backward=False) not in removed),
            backward=tuple(m for m in self.backward if self.pair_of(m, backward=True) not in removed),
        )

    @property
    def leftovers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Words of each sentence that are not aligned with the other, as in tables 12 and 14.

        Each sentence's own mappings count. If a direction must cover both sentences, those count of
        the direction that leaves out less.
        """
        if self.first is None or self.second is None:
            return (), ()
        ways = (
            ([m.source for m in self.forward], [m.target for m in self.forward]),
            ([m.target for m in self.backward], [m.source for m in self.backward]),
        )
        if not self.both:
            ways = ((ways[0][0], ways[1][1]),) * 2
        words = [(_left_over(self.first, first), _left_over(self.second, second)) for first, second in ways]
        return min(words, key=lambda left: sum(len(run.split()) for sentence in left for run in sentence))


def _left_over(sentence: Parsed, spans: Iterable[Span]) -> tuple[str, ...]:
    return sentence.uncovered(covered(len(sentence.tree.tokens), spans))


def covered(count: int, spans: Iterable[Span]) -> list[bool]:
    """Return whether one of the spans contains the token, for each of ``count`` tokens."""
    flags = [False] * count
    for start, end in spans:
        flags[start:end] = [True] * (end - start)
    return flags


def _complete(tree: Tree, spans: Sequence[Span]) -> bool:
    """Return ``align()``: whether there are mappings, and they contain every token that must be covered."""
    inside = covered(len(tree.tokens), spans)
    return bool(spans) and all(
        inside[token] or not tree.must_be_covered(token) for token in range(len(tree.tokens))
    )
