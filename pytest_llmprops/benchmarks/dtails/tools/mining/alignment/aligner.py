"""The interface of word aligners, and how the links of two directions become those of one pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from pytest_llmprops.core.errors import UsageError

#: (source index, target index) of words that translate each other, from 0
Links = frozenset[tuple[int, int]]
WordPair = tuple[Sequence[str], Sequence[str]]
Symmetry = Literal["grow-diag-final-and", "intersection", "union"]
SYMMETRIES: tuple[Symmetry, ...] = ("grow-diag-final-and", "intersection", "union")

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class Aligner(Protocol):
    """Links the words of sentence pairs."""

    #: all that decides its links, as JSON values; part of the names of what is kept between runs
    identity: Mapping[str, Any]
    #: which words it wants: as they are written, or lemmas, which make statistics less sparse
    words: Literal["written", "lemmas"]
    #: a pair's links do not depend on the other pairs, so that pairs can be aligned part by part
    independent: bool

    def align(self, pairs: Iterable[WordPair]) -> Iterator[Links]:
        """The links of each pair, in order; none where a side has no words. Memory does not grow with the number of
        pairs. One that learns from the corpus reads all pairs before it gives the first links.

        :raises UsageError: it cannot run, in one line.
        """
        ...


def symmetrised(
    forward: Iterable[tuple[int, int]], backward: Iterable[tuple[int, int]], how: Symmetry
) -> Links:
    """One set of links from those of source-to-target and target-to-source, both as (source, target).

    ``grow-diag-final-and`` (Koehn et al., 2005) starts from the intersection, adds links of the union that touch
    one of a word that is not linked yet, and at last links of either direction whose words are both free.

    :raises UsageError: another ``how``.
    """
    first, second = frozenset(forward), frozenset(backward)
    if how == "intersection":
        return first & second
    if how == "union":
        return first | second
    if how != "grow-diag-final-and":
        raise UsageError(f"--symmetrize {how}: there are {', '.join(SYMMETRIES)}")
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
        # In rising order, those added on the way included where they lie ahead: as Moses scans the matrix.
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
