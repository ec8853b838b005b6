"""Rows of tokens, the batches of an epoch, and their tensors."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: label of a token that is not trained on; the value that torch's cross entropy ignores
IGNORED = -100
#: Rows of a batch differ by about this many tokens in length, so that not every epoch has the same batches.
_SPREAD = 4.0


@dataclass(frozen=True, slots=True)
class Row:
    """A text to train on.

    :param ids: its tokens, with special tokens.
    :param labels: one label per token (:data:`IGNORED` for special tokens), or the one label of the text.
    :param source: index of the source that the row comes from. All rows of a batch have the same source.
    """

    ids: Sequence[int]
    labels: Sequence[int]
    source: int = 0


class EpochBatches:
    """The batches of each epoch, as a batch sampler of torch's DataLoader.

    Rows of similar length share a batch, which keeps padding short. All batches have the same number of rows: a last,
    smaller batch is filled with other rows. The order depends on the seed and the epoch only, so a resumed training
    continues with the same batches. If there are several sources, one batch of each other source follows each batch of
    the first one, which defines the length of an epoch. The other sources start again when they end.

    Each batch is divided into ``accumulate`` parts, and an iteration yields parts. Another value of ``accumulate``
    changes no batch.

    :param rows: all rows; an iteration yields lists of their indices.
    """

    drop_last = False

    def __init__(self, rows: Sequence[Row], *, batch: int, accumulate: int, seed: int) -> None:
        self._batch, self._accumulate, self._seed = batch, accumulate, seed
        self._lengths = [len(row.ids) for row in rows]
        sources: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            sources.setdefault(row.source, []).append(index)
        self._sources = [sources[number] for number in sorted(sources)]
        #: rows of a part; accelerate reads this name
        self.batch_size = batch // accumulate
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        self._epoch = epoch

    @property
    def steps(self) -> int:
        """Steps of the optimizer in an epoch."""
        return self._count(0) * len(self._sources)

    def __len__(self) -> int:
        return self.steps * self._accumulate

    def _count(self, source: int) -> int:
        return -(-len(self._sources[source]) // self._batch)

    def __iter__(self) -> Iterator[list[int]]:
        first = self._batches(0, self._epoch)
        others: dict[tuple[int, int], list[list[int]]] = {}
        for place, batch in enumerate(first):
            yield from self._parts(batch)
            for source in range(1, len(self._sources)):
                epoch, index = divmod(self._epoch * len(first) + place, self._count(source))
                if (source, epoch) not in others:
                    others[source, epoch] = self._batches(source, epoch)
                yield from self._parts(others[source, epoch][index])

    def _batches(self, source: int, epoch: int) -> list[list[int]]:
        choice = random.Random(f"{self._seed} {source} {epoch}")
        rows = self._sources[source]
        order = sorted(rows, key=lambda index: self._lengths[index] + _SPREAD * choice.random())
        batches = [order[start : start + self._batch] for start in range(0, len(order), self._batch)]
        while len(batches[-1]) < self._batch:
            batches[-1].append(choice.choice(rows))
        choice.shuffle(batches)
        return batches

    def _parts(self, batch: list[int]) -> Iterator[list[int]]:
        for start in range(0, len(batch), self.batch_size):
            yield batch[start : start + self.batch_size]


def padded(rows: Sequence[Sequence[int]], fill: int) -> list[list[int]]:
    """Return ``rows`` as lists of the same length; shorter ones end with ``fill``."""
    width = max(map(len, rows))
    return [[*row, *[fill] * (width - len(row))] for row in rows]
