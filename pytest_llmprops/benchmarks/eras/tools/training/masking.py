"""Masked tokens for continued pre-training: whole words, or single tokens (Cui et al. 2021)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_llmprops.benchmarks.eras.tools.training.rows import IGNORED, Row

#: Of the chosen tokens, this share becomes the mask token, and this share a random token; the others stay.
_MASKED, _RANDOM = 0.8, 0.1


class MaskedRow(NamedTuple):
    """The tokens of a row after masking, and the original token at each chosen place (elsewhere :data:`IGNORED`)."""

    ids: list[int]
    labels: list[int]


class Masking:
    """How tokens are chosen.

    :param whole_words: all tokens of a word are chosen together; otherwise each token alone.
    :param rate: share of a row's tokens that is chosen, at least one word or token.
    :param mask: the id of the mask token. :param vocabulary: number of tokens, for random ones.
    """

    def __init__(self, *, whole_words: bool, rate: float, mask: int, vocabulary: int) -> None:
        self.whole_words, self._rate = whole_words, rate
        self._mask, self._vocabulary = mask, vocabulary

    def masked(self, row: Row, choice: random.Random) -> MaskedRow:
        """Return a row with masked tokens.

        :param row: its labels are the numbers of the tokens' words, :data:`IGNORED` for special tokens.
        """
        ids, labels = list(row.ids), [IGNORED] * len(row.ids)
        for place in self._chosen(row.labels, choice):
            labels[place] = ids[place]
            drawn = choice.random()
            if drawn < _MASKED:
                ids[place] = self._mask
            elif drawn < _MASKED + _RANDOM:
                ids[place] = choice.randrange(self._vocabulary)
        return MaskedRow(ids, labels)

    def _chosen(self, words: Sequence[int], choice: random.Random) -> Iterator[int]:
        groups: dict[int, list[int]] = {}
        for place, word in enumerate(words):
            if word != IGNORED:
                groups.setdefault(word if self.whole_words else place, []).append(place)
        wanted = max(1, round(self._rate * sum(map(len, groups.values()))))
        order = list(groups.values())
        choice.shuffle(order)
        count = 0
        for places in order:
            # A word that would exceed the share is left out, as in the code of BERT, except the first one.
            if count and count + len(places) > wanted:
                continue
            count += len(places)
            yield from places
            if count >= wanted:
                return
