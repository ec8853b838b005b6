"""Is a candidate worse or better than the baseline? The one judgement of a pair of runs.

:func:`judge` judges all comparisons of two runs together, at one level of 5% that *worse* and *better* share: if the
model did not change, the chance that any comparison is called worse or better is at most 5%. Gates, ``llmprops
compare`` and reports take their words and numbers from it. ``statistics/paired.py`` has the tests and intervals.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from pytest_llmprops.statistics.paired import Pairs, difference_interval, direction_test, holm

ChangeWord = Literal["worse", "better", "no clear difference", "not judged"]

#: the chance that an unchanged model is called worse or better in any comparison of two runs
LEVEL = 0.05

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Change:
    """The change from a baseline to a candidate on the same items.

    :param word: what the test shows; ``not judged`` for items that rank no models, such as controls.
    :param lost: number of pairs on which the candidate scores lower; ``gained``: higher.
    :param difference: candidate - baseline, in [-1, 1], with the limits of its 95% interval. A drop is negative.
    :param p: p-value of the difference's direction, corrected for all comparisons of the two runs and both directions.
    :param noun: what a pair is: ``cluster`` if the scores are means of clusters.
    """

    word: ChangeWord
    pairs: int
    lost: int
    gained: int
    difference: float
    low: float
    high: float
    p: float
    test: str
    interval: str
    noun: str = "pair"

    @property
    def is_clear(self) -> bool:
        """True if the candidate is worse or better."""
        return self.word in ("worse", "better")

    @property
    def largest_drop(self) -> float:
        """The largest drop in the interval; negative if the whole interval is a gain."""
        return -self.low


def measured(pairs: Pairs) -> Change:
    """Return the change of some pairs without a judgement.

    :raises ValueError: if there are no pairs.
    """
    return _change(pairs, "not judged", 1.0, direction_test(pairs).method)


def _change(pairs: Pairs, word: ChangeWord, p: float, test: str) -> Change:
    low, high, interval = difference_interval(pairs)
    return Change(
        word, pairs.n, pairs.losses, pairs.gains, pairs.difference, low, high, p, test, interval, pairs.noun
    )


def judge(family: Mapping[Name, Pairs]) -> dict[Name, Change]:
    """Judge all comparisons of two runs together.

    The tests are one of a drop and one of a gain per comparison. Holm's correction (1979) is over those that could
    be significant (Tarone 1990, *Biometrics* 46, 515-522): how many pairs differ does not depend on which run is
    better, so a comparison with few differing pairs takes nothing from the others. Equal pairs are tested once.

    :param family: the comparisons by name; each has at least one pair.
    """
    tests = {pairs: direction_test(pairs) for pairs in dict.fromkeys(family.values())}
    kept = _testable(tests)
    adjusted = holm([*(tests[pairs].p for pairs in kept), *[1.0] * len(kept)])
    corrected = dict(zip(kept, adjusted, strict=False))
    changes = {}
    for pairs, test in tests.items():
        # A comparison that cannot be significant stays so under this correction.
        p = corrected.get(pairs, min(1.0, 2 * (len(kept) + 1) * test.p))
        word: ChangeWord = "no clear difference"
        if p <= LEVEL and pairs.difference:
            word = "worse" if pairs.difference < 0 else "better"
        changes[pairs] = _change(pairs, word, p, test.method)
    return {name: changes[pairs] for name, pairs in family.items()}


def _testable(family: Iterable[Pairs]) -> list[Pairs]:
    """Return the comparisons that could be significant if all of them are tested.

    The smallest p-value is that of all differences in one direction: 1/2 for each independent one.
    """
    smallest = {pairs: 0.5**pairs.differing for pairs in family}
    kept = sorted(smallest, key=lambda pairs: smallest[pairs])
    while kept and smallest[kept[-1]] > LEVEL / (2 * len(kept)):
        kept.pop()
    return kept
