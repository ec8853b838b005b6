"""Items of the sanity checks of section 5.2.1, built from the loaded pairs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from pytest_llmprops.benchmarks.oracle.items import NO, YES
from pytest_llmprops.benchmarks.oracle.metric_names import CONSISTENCY, OWN, RANDOM
from pytest_llmprops.core.items import CONTROL_MARK, Item
from pytest_llmprops.core.protocols import generator

#: maximum cases per check, as in the paper; a third of the pairs if that is fewer
MOST = 500
#: fixed, so that the items are the same in every run
_SEED = 0


def sanity_items(items: Sequence[Item]) -> Iterator[Item]:
    """Yield the items of the three sanity checks, built from the pairs among ``items``.

    They are pairs to ask about repeatedly, first sentences to paraphrase, and random pairs. The ids are those of the
    pairs with ``+consistency`` and ``+own_paraphrase``, and ``oracle/random/0001``.
    """
    by_source: dict[str, list[Item]] = {}
    for item in items:
        if item.task in (YES, NO):
            by_source.setdefault(item.source, []).append(item)
    for source, pairs in by_source.items():
        rng = generator(_SEED, "oracle", "sanity", source)
        count = min(MOST, len(pairs) // 3)
        for task in (CONSISTENCY, OWN):
            for item in sorted(rng.sample(pairs, count), key=lambda item: item.id):
                yield Item(
                    f"{item.id}{CONTROL_MARK}{task}", task, item.language, source, item.cluster, item.fields
                )
        firsts = [item["first"] for item in pairs]
        mark = "" if source == "builtin" else source[0]
        for number, pair in enumerate(random_pairs(firsts, rng, count) if count else (), 1):
            fields = {"first": pair[0], "second": pair[1], "label": False, "level": ""}
            yield Item(f"oracle/random/{mark}{number:04d}", RANDOM, pairs[0].language, source, "", fields)


def random_pairs(sentences: Sequence[str], rng: random.Random, count: int) -> list[tuple[str, str]]:
    """Draw pairs of two different sentences, which are not equivalent (third check).

    :raises ValueError: if there are fewer than two different sentences.
    """
    distinct = list(dict.fromkeys(sentences))
    if len(distinct) < 2:
        raise ValueError("random pairs need at least two different sentences: add sentences")
    return [(first, second) for first, second in (rng.sample(distinct, 2) for _ in range(count))]
