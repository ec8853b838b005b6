"""The interface of word aligners, and the symmetrisation of links from two directions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from pytest_llmprops.core.errors import UsageError

#: (source index, target index) of words that are translations of each other.
Links = frozenset[tuple[int, int]]
WordPair = tuple[Sequence[str], Sequence[str]]
Symmetry = Literal["grow-diag-final-and", "intersection", "union"]
SYMMETRIES: tuple[Symmetry, ...] = ("grow-diag-final-and", "intersection", "union")

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class Aligner(Protocol):
    """Links the words of sentence pairs."""

    #: Everything that affects the links, as JSON values; part of the fingerprint of files kept between runs.
    identity: Mapping[str, Any]
    #: Whether it needs written words or lemmas, which make statistics less sparse.
    words: Literal["written", "lemmas"]
    #: Whether a pair's links do not depend on other pairs, so that pairs can be aligned in parts.
    independent: bool

    def align(self, pairs: Iterable[WordPair]) -> Iterator[Links]:
        """Yield the links of each pair, in order; no links if a side has no words.

        Memory does not grow with the number of pairs. An aligner that learns from the corpus reads all pairs before it
        yields the first links.

        :raises UsageError: The aligner cannot run; one line.
        """
        ...


def symmetrised(
    forward: Iterable[tuple[int, int]], backward: Iterable[tuple[int, int]], how: Symmetry
) -> Links:
    """Return one set of links from source-to-target and target-to-source links, both as (source, target).

    ``grow-diag-final-and`` (Koehn et al., 2005) starts with the intersection. It adds links of the union that neighbour
    a link and have an unlinked word, and finally links of either direction between two unlinked words.

    :raises UsageError: ``how`` is unknown.
    """
    first, second = frozenset(forward), frozenset(backward)
    if how == "intersection":
        return first & second
    if how == "union":
        return first | second
    if how != "grow-diag-final-and":
        raise UsageError(f"--symmetrize {how}: choose from {', '.join(SYMMETRIES)}")
    links = set(first & second)
    union = first | second
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(link: tuple[int, int]) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    grown = True
    while grown:
        grown = False
        # Scan in ascending order, including links added ahead during the scan, as Moses does.
        for i in range(max(sources, default=-1) + 2):
            for j in range(max(targets, default=-1) + 2):
                if (i, j) not in links:
                    continue
                for down, right in _NEIGHBOURS:
                    near = (i + down, j + right)
                    free = near[0] not in sources or near[1] not in targets
                    if near in union and near not in links and free:
                        add(near)
                        grown = True
    for direction in (first, second):
        for link in sorted(direction):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return frozenset(links)
