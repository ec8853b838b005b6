"""Null oracles: what the checker accepts of answers about pairs that need no understanding.

Acceptance alone says little: an oracle that says "no" to every pair and recognises its own paraphrases is accepted each
time. What counts is how many accepted answers are right, and that more of them are than of the best null oracle with
the same coverage.

A null oracle answers by a rule: always yes, always no, a coin, or one shallow feature of the two sentences with the
threshold and direction that suit the labels best. It confirms every phrase, so its yes is accepted where the prover
aligns the sentences, and it knows its own paraphrases, so its no is always accepted. No call is needed for that: a
verdict has ``potential_or`` or ``potential_and``, and ``shallow_`` with each feature.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import takewhile
from math import sqrt

from pytest_llmprops.benchmarks.oracle.trust import OUTCOME_CODES, overlap
from pytest_llmprops.core.texts import unicode_words
from pytest_llmprops.statistics.intervals import Interval, clopper_pearson

Values = Mapping[str, float]
#: prefix of the features in a verdict's values -> their names in reports
PREFIX = "shallow_"
FEATURES = {
    "first_word": "the first word", "last_word": "the last word", "start": "the common start",
    "end": "the common end", "words": "length", "longer": "difference in length",
    "second_longer": "which one is longer", "overlap": "word overlap", "order": "word order",
    "numbers": "numbers", "all_numbers": "how many numbers", "marks": "punctuation",
    "all_marks": "how much punctuation",
}  # fmt: skip
#: the null oracles in their order
NULLS = ("always yes", "always no", "a coin", "shallow feature")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
_MARK = re.compile(r"[^\w\s]")


def shallow(first: str, second: str) -> dict[str, float]:
    """Return what can be seen of two sentences without reading them, by the keys of ``FEATURES``."""
    one, two = unicode_words(first), unicode_words(second)
    numbers, more_numbers = Counter(_NUMBER.findall(first)), Counter(_NUMBER.findall(second))
    marks, more_marks = Counter(_MARK.findall(first)), Counter(_MARK.findall(second))
    return {
        "first_word": float(one[:1] == two[:1]),
        "last_word": float(one[-1:] == two[-1:]),
        "start": float(_same(one, two)),
        "end": float(_same(one[::-1], two[::-1])),
        "words": float(len(one) + len(two)),
        "longer": float(abs(len(one) - len(two))),
        "second_longer": float(len(two) - len(one)),
        "overlap": overlap(first, second),
        "order": SequenceMatcher(None, one, two, autojunk=False).ratio(),
        "numbers": float(_differing(numbers, more_numbers)),
        "all_numbers": float((numbers + more_numbers).total()),
        "marks": float(_differing(marks, more_marks)),
        "all_marks": float((marks + more_marks).total()),
    }


def _same(one: Sequence[str], two: Sequence[str]) -> int:
    """Return how many words are the same from the start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))


def _differing(one: Counter[str], two: Counter[str]) -> int:
    return ((one - two) + (two - one)).total()


@dataclass(frozen=True, slots=True)
class Played:
    """What is accepted of an oracle's answers about labelled pairs.

    :param coverage: share of the answers that are accepted.
    :param right: share of the answers that are accepted and agree with the label.
    :param agrees: share of the answers that agree with the label.
    """

    name: str
    coverage: float
    right: float
    agrees: float

    @property
    def precision(self) -> float | None:
        """The share of accepted answers that are right; None if none is accepted."""
        return self.right / self.coverage if self.coverage else None


class Pairs:
    """A model's answers on pairs from one source, next to those of null oracles.

    :param values: of the verdicts; those without a readable answer or a label do not count.
    """

    def __init__(self, values: Sequence[Values]) -> None:
        self.values = [v for v in values if v.get("said_yes", -1) >= 0 and v["label"] >= 0]

    @cached_property
    def accepted(self) -> list[bool]:
        """For each accepted answer, whether it is right."""
        return [v["said_yes"] == v["label"] for v in self.values if v["accepted"]]

    @cached_property
    def rejected(self) -> list[bool]:
        """For each answer that is not accepted, whether it is right."""
        return [v["said_yes"] == v["label"] for v in self.values if not v["accepted"]]

    @cached_property
    def model(self) -> Played:
        """The model's own answers."""
        count = len(self.values) or 1
        right, wrong = sum(self.accepted), sum(self.rejected)
        return Played("", len(self.accepted) / count, right / count, (right + wrong) / count)

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of the model's precision; None if nothing is accepted."""
        return clopper_pearson(sum(self.accepted), len(self.accepted)) if self.accepted else None

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
        below = sqrt((one - first.low) ** 2 + (second.high - two) ** 2)
        above = sqrt((first.high - one) ** 2 + (two - second.low) ** 2)
        rest = len(self.rejected) / len(self.values)
        return rest * (one - two), rest * (one - two - below), rest * (one - two + above)

    def play(self, name: str, says_yes: Sequence[bool]) -> Played:
        """Return a null oracle with these answers."""
        answers = list(zip(self.values, says_yes, strict=True))
        accepted = [v["label"] == yes for v, yes in answers if not yes or v.get("potential_or")]
        count = len(answers)
        agrees = sum(v["label"] == yes for v, yes in answers)
        return Played(name, len(accepted) / count, sum(accepted) / count, agrees / count)

    @cached_property
    def nulls(self) -> tuple[Played, ...]:
        """The oracles that know nothing; empty without a pair."""
        if not self.values:
            return ()
        count = len(self.values)
        yes, no = self.play("always yes", [True] * count), self.play("always no", [False] * count)
        coin = Played(
            "a coin",
            (yes.coverage + no.coverage) / 2,
            (yes.right + no.right) / 2,
            (yes.agrees + no.agrees) / 2,
        )
        return tuple(filter(None, [yes, no, coin, max(self._by_feature(), key=self.bar, default=None)]))

    def _by_feature(self) -> Iterator[Played]:
        for feature, name in FEATURES.items():
            key = PREFIX + feature
            if all(key in v for v in self.values):
                for threshold in {v[key] for v in self.values}:
                    says_yes = [v[key] >= threshold for v in self.values]
                    yield self.play(name, says_yes)
                    yield self.play(name, [not yes for yes in says_yes])

    def bar(self, null: Played) -> float:
        """Return the precision of a null oracle at the model's coverage.

        With a higher coverage, it may be silent on any of its answers, and keeps its precision. With a lower one, it
        says no to as many more pairs as it needs.
        """
        coverage = self.model.coverage
        if null.coverage >= coverage:
            return null.precision or 0.0
        share = (coverage - null.coverage) / (1 - null.coverage)
        no = sum(v["label"] == 0 for v in self.values) / len(self.values)
        return (share * no + (1 - share) * null.right) / coverage

    @property
    def best_null(self) -> Played:
        """The null oracle whose accepted answers are most often right at the model's coverage."""
        return max(self.nulls, key=self.bar)

    @property
    def is_above_nulls(self) -> bool:
        """True if the model's accepted answers are clearly more often right than those of the best null oracle."""
        return self.interval is not None and self.interval.low > self.bar(self.best_null)

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
    model, best, interval = pairs.model, pairs.best_null, pairs.interval
    text = f"{len(pairs.accepted)} of {len(pairs.values)} answers are accepted ({model.coverage:.1%})"
    if interval is not None:
        gain, low, high = (f"{round(100 * points)}".replace("-", "−") for points in pairs.gain)
        text += (
            f"; accepted answers are right in {model.precision:.1%} ({interval.low:.1%} to {interval.high:.1%}; all:"
            f" {model.agrees:.1%}): accepting adds {gain} points ({low} to {high})"
        )
    null = f"the {pairs.bar(best):.1%} of an oracle that knows nothing ({best.name})"
    if pairs.is_above_nulls:
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
