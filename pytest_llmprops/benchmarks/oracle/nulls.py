"""Null oracles: what the checker accepts of answers about pairs that need no understanding.

Acceptance alone says little: an oracle that says "no" to every pair and recognises its own paraphrases is accepted each
time. What counts is how many accepted answers are right, and that more of them are than of the best null oracle with
the same coverage.

A null oracle answers by a rule: always yes, always no, a coin, or one shallow feature of the two sentences with the
threshold and direction that suit the labels best. It confirms every phrase, so its yes is accepted where the prover
aligns the sentences, and it knows its own paraphrases, so its no is always accepted. No call is needed for that: a
verdict has ``potential_or``, and ``shallow_`` with each feature.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from math import hypot

from pytest_llmprops.benchmarks.oracle.trust import OUTCOME_CODES, overlap
from pytest_llmprops.core.texts import unicode_words
from pytest_llmprops.statistics.intervals import clopper_pearson

Values = Mapping[str, float]
#: prefix of the features in a verdict's values -> their names in reports
PREFIX = "shallow_"
FEATURES = {
    "first_word": "the first word", "last_word": "the last word", "words": "length",
    "longer": "difference in length", "second_longer": "which one is longer", "overlap": "word overlap",
    "order": "word order", "numbers": "numbers", "all_numbers": "how many numbers", "marks": "punctuation",
    "all_marks": "how much punctuation",
}  # fmt: skip
#: the null oracles in their order
NULLS = ("always yes", "always no", "a coin", "shallow feature")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
_MARK = re.compile(r"[^\w\s]")


def shallow(first: str, second: str) -> dict[str, float]:
    """Return what can be seen of two sentences without reading them, by the keys of ``FEATURES``."""
    one, two = unicode_words(first), unicode_words(second)
    values = {
        "first_word": one[:1] == two[:1],
        "last_word": one[-1:] == two[-1:],
        "words": len(one) + len(two),
        "longer": abs(len(one) - len(two)),
        "second_longer": len(two) - len(one),
        "overlap": overlap(first, second),
        "order": SequenceMatcher(None, one, two, autojunk=False).ratio(),
    }
    for name, pattern in (("numbers", _NUMBER), ("marks", _MARK)):
        counts = Counter(pattern.findall(first)), Counter(pattern.findall(second))
        values[name] = ((counts[0] - counts[1]) + (counts[1] - counts[0])).total()
        values[f"all_{name}"] = (counts[0] + counts[1]).total()
    return {name: float(values[name]) for name in FEATURES}


@dataclass(frozen=True, slots=True)
class Played:
    """What is accepted of a null oracle's answers about labelled pairs.

    :param coverage: share of the answers that are accepted.
    :param right: share of the answers that are accepted and agree with the label.
    """

    name: str
    coverage: float
    right: float

    @property
    def precision(self) -> float | None:
        """The share of accepted answers that are right; None if none is accepted."""
        return self.right / self.coverage if self.coverage else None


class Pairs:
    """A model's answers on pairs from one source, next to those of null oracles.

    :param values: of the verdicts; those without a readable answer or a label do not count.
    :ivar right: for each answer, whether it agrees with the label.
    :ivar accepted: for each accepted answer, whether it is right; ``rejected`` likewise.
    """

    def __init__(self, values: Sequence[Values]) -> None:
        self.values = [v for v in values if v.get("said_yes", -1) >= 0 and v["label"] >= 0]
        self.right = [v["said_yes"] == v["label"] for v in self.values]
        both = list(zip(self.right, self.values, strict=True))
        self.accepted = [right for right, v in both if v["accepted"]]
        self.rejected = [right for right, v in both if not v["accepted"]]

    @property
    def coverage(self) -> float:
        """The share of the model's answers that are accepted."""
        return len(self.accepted) / len(self.values)

    @property
    def gain(self) -> tuple[float, float, float]:
        """How much more often accepted answers are right than all answers, with its 95% interval.

        That is the difference between accepted and rejected answers, times the share of rejected ones. The intervals of
        both shares are combined as by Zou and Donner (2008).
        """
        if not self.accepted or not self.rejected:
            return 0.0, 0.0, 0.0
        one, two = (sum(right) / len(right) for right in (self.accepted, self.rejected))
        first, second = (clopper_pearson(sum(right), len(right)) for right in (self.accepted, self.rejected))
        below = hypot(one - first.low, second.high - two)
        above = hypot(first.high - one, two - second.low)
        rest = 1 - self.coverage
        return rest * (one - two), rest * (one - two - below), rest * (one - two + above)

    def play(self, name: str, says_yes: Sequence[bool]) -> Played:
        """Return a null oracle with these answers."""
        answers = zip(self.values, says_yes, strict=True)
        accepted = [v["label"] == yes for v, yes in answers if not yes or v.get("potential_or")]
        return Played(name, len(accepted) / len(self.values), sum(accepted) / len(self.values))

    @cached_property
    def nulls(self) -> tuple[Played, ...]:
        """The oracles that know nothing, in the order of ``NULLS``; empty without a pair."""
        if not self.values:
            return ()
        count = len(self.values)
        yes, no = self.play("always yes", [True] * count), self.play("always no", [False] * count)
        coin = Played("a coin", (yes.coverage + no.coverage) / 2, (yes.right + no.right) / 2)
        return tuple(filter(None, [yes, no, coin, max(self._by_feature(), key=self.bar, default=None)]))

    def _by_feature(self) -> Iterator[Played]:
        for feature, name in FEATURES.items():
            key = PREFIX + feature
            if all(key in v for v in self.values):
                for threshold in {v[key] for v in self.values}:
                    yield self.play(name, [v[key] >= threshold for v in self.values])
                    yield self.play(name, [v[key] < threshold for v in self.values])

    def bar(self, null: Played) -> float:
        """Return the precision of a null oracle at the model's coverage.

        With a higher coverage, it may be silent on any of its answers, and keeps its precision. With a lower one, it
        says no to as many more pairs as it needs.
        """
        coverage = self.coverage
        if null.coverage >= coverage:
            return null.precision or 0.0
        share = (coverage - null.coverage) / (1 - null.coverage)
        no = sum(v["label"] == 0 for v in self.values) / len(self.values)
        return (share * no + (1 - share) * null.right) / coverage

    @property
    def near_copies(self) -> tuple[int, int]:
        """The answers of no, and those without a test because the model's paraphrases are copies of their sentence."""
        no = [v for v in self.values if v["said_yes"] == 0]
        untested = [v for v in no if v.get("trust_or") == OUTCOME_CODES["untested"]]
        return len(no), sum(v.get("left_out_1", 0) + v.get("left_out_2", 0) > 0 for v in untested)


#: minimum share of the answers of no whose paraphrases are copies, for the conclusion to blame them
MANY_COPIES = 0.1


def conclusion(pairs: Pairs, where: str) -> Iterator[str]:
    """Yield what the accepted answers are worth, and what is accepted of null oracles."""
    best = max(pairs.nulls, key=pairs.bar)
    text = f"{len(pairs.accepted)} of {len(pairs.values)} answers are accepted ({pairs.coverage:.1%})"
    is_above = False
    if pairs.accepted:
        right, every = len(pairs.accepted), sum(pairs.right) / len(pairs.right)
        interval = clopper_pearson(sum(pairs.accepted), right)
        is_above = interval.low > pairs.bar(best)
        gain, low, high = (f"{round(100 * points)}".replace("-", "−") for points in pairs.gain)
        text += (
            f"; accepted answers are right in {sum(pairs.accepted) / right:.1%} ({interval.low:.1%} to"
            f" {interval.high:.1%}; all: {every:.1%}): accepting adds {gain} points ({low} to {high})"
        )
    null = f"the {pairs.bar(best):.1%} of an oracle that knows nothing ({best.name})"
    if is_above:
        yield f"{where}: {text}; clearly more than {null}"
    else:
        yield f"warning: {where}: no conclusion: {text}; not clearly more than {null}"
    said_no, copies = pairs.near_copies
    if copies > MANY_COPIES * said_no:
        yield (
            f"warning: {where}: {copies} of {said_no} answers of no are not tested, because the model's paraphrases"
            " copy their sentence: the coverage is low because of the paraphrases, not of the answers"
        )
    shares = ", ".join(f"{p.name} {p.coverage:.1%} and {p.precision or 0:.1%}" for p in pairs.nulls)
    yield f"{where}: accepted, and right of these, of oracles that know nothing: {shares}"
