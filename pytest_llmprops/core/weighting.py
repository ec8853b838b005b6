"""How items are averaged: each item counts once, or each cluster does, whatever its number of items."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

Weighting = Literal["item", "cluster"]
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)


def by_cluster(scores: Iterable[float], clusters: Iterable[str]) -> dict[str, list[float]]:
    """Return the scores of each cluster, in order of first appearance.

    :raises ValueError: unless there are as many clusters as scores.
    """
    groups: dict[str, list[float]] = {}
    for score, cluster in zip(scores, clusters, strict=True):
        groups.setdefault(cluster, []).append(score)
    return groups


def cluster_means(scores: Sequence[float], clusters: Sequence[str]) -> tuple[list[float], list[str]]:
    """Return the mean score of each cluster, and the clusters, in order of first appearance."""
    groups = by_cluster(scores, clusters)
    return [math.fsum(members) / len(members) for members in groups.values()], list(groups)
