"""Balance the order of variations over the items and runs of a language (Barua et al., appendix B.4).

With independent shuffles, a model that ignores the order may choose one position too often, by chance and, because
the seed fixes the orders, in every run. Therefore:

- Each run of an item rotates the order of the run before. After k runs, each of k variations was at each position once.
- In each block of k items, the right variation begins at each position once. A block is k consecutive items with the
  same number of variations, sorted by concept and label, so the variations of a concept are balanced, too.

Which item gets which position, and the order of the other variations, are random choices by the seed
(``prompts.shown_order``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_llmprops.core.items import Item


@dataclass(frozen=True, slots=True)
class Slot:
    """An item's place among the items that are balanced together.

    :param group: Their language and number of variations. :param rank: The item's rank in the group, from 0.
    :param label: Index of its right variation.
    """

    group: str
    rank: int
    label: int


def slots(items: Iterable[Item]) -> Mapping[str, Slot]:
    """Return the slot of each item by its id. The items need ``variations`` and ``label``."""
    groups: dict[str, list[tuple[str, int, Item]]] = {}
    for item in items:
        group = f"{item.language}/{len(item['variations'])}"
        label = item["variations"].index(item["label"])
        groups.setdefault(group, []).append((item.cluster, label, item))
    return {
        item.base_id: Slot(group, rank, label)
        for group, members in groups.items()
        for rank, (_, label, item) in enumerate(sorted(members, key=lambda member: member[:2]))
    }
