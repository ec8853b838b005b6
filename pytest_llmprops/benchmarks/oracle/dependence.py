"""Noise or dependence: why an entity is extracted from some transformed sentences and not from others.

An entity is *lost* in a reply without its due name: its synonym if it was replaced, otherwise its own name. There are
three models of how often it is lost in the replies about a sentence R(z):

- noise: with one probability per state of the entity itself, z_i, whatever the sentence is
- between sentences: each sentence has its own probability, which has nothing to do with the replaced entities
- dependence: the probability depends on the *other* replaced entities: on one of them (z_j), on their number, or on
  whether that number is odd

===============  ====================================================================================================
consistent       in each state it is lost in every reply or in none
dependent        the first two models are rejected: the losses go with the other replaced entities
varying          the sentences differ more than chance explains, and no entity explains it
inconsistent     the answer to the same question varies, and for each other entity j, an exact test excludes that
                 replacing j changes the loss by ``EXCLUDED`` (50 points) or more
undecided        it varies, but the replies or the sentences are too few to tell
===============  ====================================================================================================

A rejection is at 5%. Both p-values are exact up to their random draws, and adjusted (Holm): that of noise for the
entities of the sentence, that of dependence for those of them for which noise is rejected. The statistic is the
smallest chi-square p-value of several ones; its own distribution comes from the draws:

- noise: every assignment of the lost replies to the sentences with the same z_i is equally likely. The statistics are
  the likelihood ratios of all sentences and of each single j.
- dependence: every assignment of the shares of lost replies to the sentences with the same z_i is equally likely,
  because a sentence counts as a whole. The statistics are about each single j, the number of replaced others, and its
  parity. With few sentences no assignment is rare enough, and the outcome is ``undecided``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from pytest_llmprops.benchmarks.oracle.extraction import Samples, contains_words
from pytest_llmprops.benchmarks.oracle.items import Rule
from pytest_llmprops.benchmarks.oracle.linear_tests import OneTest, Subject, deciding_set
from pytest_llmprops.core.linearity import failing_bits
from pytest_llmprops.core.paired import holm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Floats: TypeAlias = NDArray[np.float64]

Outcome = Literal["consistent", "inconsistent", "varying", "dependent", "undecided"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
#: level of each test
ALPHA = 0.05
#: a change of the loss that has to be excluded before an entity counts as inconsistent
EXCLUDED = 0.5
#: random assignments per test
DRAWS = 999
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Losses:
    """How an entity is lost.

    :param place: its bit.
    :param lost: replies that lose it, out of ``of``.
    :param p: p-value of noise, adjusted for the entities of the sentence; 1 if there is nothing to explain.
    :param p_unrelated: p-value of losses that have nothing to do with the other replaced entities, adjusted for the
        entities for which noise is rejected; 1 for the others.
    :param on: places of the other entities that explain its losses alone, if it is dependent. Of several, the replies
        do not tell which; with none, it depends on a combination.
    :param changes: by place of another entity, the change of the loss when that one is replaced; None if the entity's
        sentences do not allow the comparison.
    """

    place: int
    outcome: Outcome
    lost: int
    of: int
    p: float = 1.0
    p_unrelated: float = 1.0
    on: tuple[int, ...] = ()
    changes: tuple[float | None, ...] = ()


def losses(sentences: Sequence[tuple[int, Samples]], subject: Subject) -> tuple[Losses, ...]:
    """Return how each entity is lost.

    :param sentences: vectors with replies about their sentences. Leave out replies that chose the entities or the
        vectors: of the original sentence, and those that made a search look closer.
    """
    import numpy as np

    read: dict[int, list[int]] = {}
    for z, samples in sentences:
        counts = read.setdefault(z, [0] * (subject.m + 1))
        due = [subject.expected_name(place, z) for place in range(subject.m)]
        for names, times in Counter(samples.sets).items():
            counts[-1] += times
            for place, name in enumerate(due):
                counts[place] += times * (name not in names)
    read = {z: counts for z, counts in read.items() if counts[-1]}
    if not read:
        return tuple(Losses(place, "undecided", 0, 0) for place in range(subject.m))
    table = np.array(list(read.values()), dtype=np.int64)
    bits = np.array([[z >> place & 1 for place in range(subject.m)] for z in read], dtype=np.int64)
    tables = [_Table(place, bits, table[:, place], table[:, -1]) for place in range(subject.m)]
    varying = [table for table in tables if table.varies]
    noise = dict(zip((t.place for t in varying), holm([t.noise_p() for t in varying]), strict=True))
    # Only entities that are not noise are tested for dependence, so that those that are do not cost power.
    tests = {t.place: t.unrelated() for t in varying if noise[t.place] <= ALPHA}
    unrelated = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    return tuple(
        t.losses(noise.get(t.place), unrelated.get(t.place, 1.0), tests.get(t.place)) for t in tables
    )


@dataclass(frozen=True, slots=True)
class _Unrelated:
    """A test of whether losses have nothing to do with the other replaced entities.

    :param p: its p-value.
    :param lowest: the lowest p-value that the same losses could have had, in other sentences.
    :param alone: p-value of each other entity alone.
    """

    p: float
    lowest: float
    alone: tuple[float, ...]


@dataclass(frozen=True)
class _Table:
    """The counts of one entity.

    :param bits: sentences x entities, whether the sentence replaces the entity.
    :param lost: per sentence, replies that lose the entity, out of ``of``.
    """

    place: int
    bits: Ints
    lost: Ints
    of: Ints

    @property
    def others(self) -> list[int]:
        return [place for place in range(self.bits.shape[1]) if place != self.place]

    @property
    def varies(self) -> bool:
        """True if it is lost in some, but not all replies in one of its states."""
        return any(0 < self.lost[rows].sum() < self.of[rows].sum() for rows in self._states())

    def _states(self) -> list[Ints]:
        """Return the rows of the sentences in each state of the entity."""
        return _groups(self.bits[:, [self.place]])

    def losses(self, noise: float | None, unrelated: float, test: _Unrelated | None) -> Losses:
        """Return the outcome.

        :param noise: p-value of noise, adjusted; None if there is nothing to explain.
        :param unrelated: p-value of ``test``, adjusted.
        :param test: missing if noise is not rejected.
        """
        known = Losses(self.place, "consistent", int(self.lost.sum()), int(self.of.sum()))
        if noise is None:
            return known
        every = range(self.bits.shape[1])
        changes = [self._change(place) if place in self.others else None for place in every]
        known = replace(known, p=noise, p_unrelated=unrelated, changes=tuple(changes), outcome="undecided")
        if test is not None and unrelated <= ALPHA:
            alone = zip(self.others, test.alone, strict=True)
            on = tuple(place for place, p in alone if p <= ALPHA and self._explains(place))
            return replace(known, outcome="dependent", on=on)
        if test is not None:
            return replace(known, outcome="varying") if test.lowest <= ALPHA else known
        repeated = bool(((self.lost > 0) & (self.lost < self.of)).any())
        if repeated and all(self._is_excluded(place) for place in self.others):
            return replace(known, outcome="inconsistent")
        return known

    def noise_p(self) -> float:
        """Return the p-value of noise."""
        return self._p(self._states(), [_groups(self.bits[:, [self.place, j]]) for j in self.others])

    def unrelated(self) -> _Unrelated:
        """Test whether the losses have nothing to do with the other replaced entities.

        The rows of ``features`` are the states of each other entity, whether an odd number of them is replaced, and
        their number. The statistic of a feature is the covariance with the share of lost replies, in each state of the
        entity, standardised over all assignments: once summed over the states, which finds losses in the same
        direction, and once squared first.
        """
        import numpy as np
        from scipy.special import chdtrc

        number = self.bits[:, self.others].sum(axis=1)
        features = np.array([*self.bits[:, self.others].T, number % 2, number], dtype=float)
        shares = self.lost / self.of
        rng = np.random.default_rng(0)
        shape = (len(features), DRAWS + 1)
        total, variance, squares, states = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for rows in self._states():
            order = rng.random((len(rows), DRAWS + 1)).argsort(axis=0)
            order[:, 0] = range(len(rows))
            centred = features[:, rows] - features[:, rows].mean(axis=1, keepdims=True)
            spread = shares[rows].var(ddof=1) if len(rows) > 1 else 0.0
            covariance = centred @ shares[rows][order]
            known = np.broadcast_to(spread * (centred**2).sum(axis=1, keepdims=True), shape)
            total += covariance
            variance += known
            is_known = known > _ROUNDING
            squares += np.divide(covariance**2, known, out=np.zeros(shape), where=is_known)
            states += is_known
        is_known = variance > _ROUNDING
        directed = np.divide(total**2, variance, out=np.zeros(shape), where=is_known)
        p_values = np.minimum(
            chdtrc(1, directed.round(9)),
            np.where(is_known, chdtrc(np.maximum(states, 1), squares.round(9)), 1.0),
        )

        def share(p_values: Floats, limit: float) -> float:
            return float((p_values <= limit * (1 + _ROUNDING)).mean())

        smallest = p_values.min(axis=0)
        alone = tuple(share(p, p[0]) for p in p_values[: len(self.others)])
        return _Unrelated(share(smallest, smallest[0]), share(smallest, smallest.min()), alone)

    def _explains(self, place: int) -> bool:
        """Return True if the sentences do not differ once the state of another entity is known."""
        return self._p(_groups(self.bits[:, [self.place, place]]), []) > ALPHA

    def _p(self, strata: Sequence[Ints], groupings: Sequence[Sequence[Ints]]) -> float:
        """Return the p-value of one probability per stratum.

        :param groupings: finer groups of sentences, each with its own statistic.
        """
        import numpy as np
        from scipy.special import chdtrc

        rng = np.random.default_rng(0)
        drawn = np.repeat(self.lost[:, None], DRAWS + 1, axis=1)
        for rows in strata:
            lost, of = int(self.lost[rows].sum()), self.of[rows]
            if len(rows) > 1 and 0 < lost < of.sum():
                drawn[rows, 1:] = rng.multivariate_hypergeometric(of, lost, DRAWS).T
        single = [np.array([row]) for row in range(len(self.of))]
        # The likelihood with one probability per stratum is the same for all draws.
        base = self._fit(drawn[:, :1], strata)
        p_values = [
            chdtrc(len(groups) - len(strata), np.maximum(0, 2 * (self._fit(drawn, groups) - base)).round(9))
            for groups in [*groupings, single]
            if len(groups) > len(strata)
        ]
        if not p_values:
            return 1.0
        smallest = np.min(p_values, axis=0)
        return float((smallest <= smallest[0] * (1 + _ROUNDING)).mean())

    def _fit(self, lost: Ints, groups: Sequence[Ints]) -> Floats:
        """Return the log-likelihood of each column of ``lost`` with one probability per group of sentences."""
        import numpy as np

        counts = [lost[rows[0]] if len(rows) == 1 else lost[rows].sum(axis=0) for rows in groups]
        parts = [
            _log_likelihoods(int(self.of[rows].sum()))[count]
            for rows, count in zip(groups, counts, strict=True)
        ]
        return cast("Floats", np.sum(parts, axis=0))

    def _arms(self, place: int) -> list[tuple[int, int, int, int]]:
        """Return (lost, of) with another entity kept, then with it replaced, in each state that has both."""
        arms: list[tuple[int, int, int, int]] = []
        for rows in self._states():
            kept, changed = (rows[self.bits[rows, place] == bit] for bit in (0, 1))
            if len(kept) and len(changed):
                lost, of = ([int(c[rows].sum()) for rows in (kept, changed)] for c in (self.lost, self.of))
                arms.append((lost[0], of[0], lost[1], of[1]))
        return arms

    def _change(self, place: int) -> float | None:
        """Return the difference of the shares, averaged over the states (Mantel and Haenszel's weights)."""
        arms = self._arms(place)
        weights = [of * of_2 / (of + of_2) for _, of, _, of_2 in arms]
        changes = [lost_2 / of_2 - lost / of for lost, of, lost_2, of_2 in arms]
        total = math.fsum(weights)
        return math.fsum(w * c for w, c in zip(weights, changes, strict=True)) / total if arms else None

    def _is_excluded(self, place: int) -> bool:
        arms = self._arms(place)
        return bool(arms) and all(_excludes(*arm) and _excludes(*arm[2:], *arm[:2]) for arm in arms)


def _groups(columns: Ints) -> list[Ints]:
    """Return the rows with the same bits; ten times faster than with ``numpy.unique``."""
    import numpy as np

    width = columns.shape[1]
    labels = columns @ (1 << np.arange(width)[::-1])
    groups = [np.flatnonzero(labels == label) for label in range(2**width)]
    return [rows for rows in groups if len(rows)]


@lru_cache(maxsize=256)
def _log_likelihoods(of: int) -> Floats:
    """Return the log-likelihood of 0 to ``of`` lost replies; the draws of a table have few different numbers."""
    import numpy as np
    from scipy.special import xlogy

    lost = np.arange(of + 1)
    return cast("Floats", xlogy(lost, lost / of) + xlogy(of - lost, (of - lost) / of))


def _excludes(lost: int, of: int, lost_2: int, of_2: int) -> bool:
    """Return True if the replies exclude that the second share is larger by ``EXCLUDED`` or more.

    The p-value is the largest probability, over all shares that far apart, of a difference as small as this one.
    """
    import numpy as np

    smaller = (
        np.arange(of_2 + 1) / of_2 - np.arange(of + 1)[:, None] / of <= lost_2 / of_2 - lost / of + _ROUNDING
    )
    joint = (_binomial(of, 0.0) @ smaller) * _binomial(of_2, EXCLUDED)
    return bool(joint.sum(axis=1).max() <= ALPHA)


@lru_cache(maxsize=256)
def _binomial(n: int, least: float) -> Floats:
    """Return the probabilities of 0 to n, one row per share; ten times faster than ``scipy.stats.binom``.

    :param least: the smallest of the shares, which are as far apart as :func:`_excludes` compares.
    """
    import numpy as np
    from scipy.special import betaln, xlog1py, xlogy

    k, shares = np.arange(n + 1), np.linspace(0, 1 - EXCLUDED, 51)[:, None] + least
    logs = xlogy(k, shares) + xlog1py(n - k, -shares) - betaln(n - k + 1, k + 1) - np.log(n + 1)
    return cast("Floats", np.exp(logs))


# Which entities break linearity, and of what kind they are (Zeng, Wang & Ibbetson, appendix A.3).
#
# A violated test fails on some bits of its vectors, and their entities are the culprits. The paper assigns
# four kinds by hand. Here they follow from counts, and an entity may be of several kinds ("these two
# behaviours can overlap"). Shares are of the readable replies about one sentence. The *due* name of an entity
# is its synonym if it was replaced, otherwise its own name.
#
# ======================  ============================================================================================
# multi-form              for some sentence, at least ``MIN_SHARE`` (2/11) of the replies have a longer or shorter
# form of
#                         the due name, but not the due name
# weak                    for some sentence, more than ``NEVER`` (2/11) and fewer than ``ALWAYS`` (9/11) of the replies
#                         have the due name; or at most ``RARE`` (5/11) of those about the original have the entity
# assumed knowledge       the share of replies with the unreplaced entity is at least ``ALWAYS`` for one sentence and at
#                         most ``NEVER`` for another, and the losses are dependent
# synonym fault           the share of replies with the unreplaced entity is at least ``ALWAYS`` for every sentence, but
#                         that of its synonym is at most ``RARE`` for some sentence
# unexplained             none of these
# ======================  ============================================================================================
#
# The cause of a culprit comes from its losses: it depends on other entities, varies between sentences or by itself, or
# the sentences or replies are too few to tell.
#
# The thresholds are ours, except 5/11, an example in the paper (figure 8). A synonym that is never extracted
# breaks nothing: its bit is constant, which is linear.

Kind = Literal["multi-form", "weak", "assumed knowledge", "synonym fault", "unexplained"]
KINDS: tuple[Kind, ...] = ("multi-form", "weak", "assumed knowledge", "synonym fault", "unexplained")

ALWAYS = 9 / 11
RARE = 5 / 11
NEVER = MIN_SHARE = 2 / 11


@dataclass(frozen=True, slots=True)
class Culprit:
    """An entity on which violated tests fail.

    :param place: its bit.
    :param tests: number of tests that fail on it.
    :param why: the counts that justify its kinds, one phrase each.
    :param cause: noise or dependence, in one phrase; empty if it is not lost.
    """

    place: int
    name: str
    synonym: str
    kinds: tuple[Kind, ...]
    tests: int
    why: str
    cause: str = ""

    @property
    def described(self) -> str:
        """Its name, kinds and cause."""
        kinds = ", ".join(self.kinds)
        return f'"{self.name}" ({kinds}; {self.cause})' if self.cause else f'"{self.name}" ({kinds})'

    def __str__(self) -> str:
        return f'"{self.name}" (replaced by "{self.synonym}"): {", ".join(self.kinds)}; {self.why}'


@dataclass(frozen=True, slots=True)
class _Extraction:
    """How often one entity was extracted from one sentence.

    :param replaced: whether the sentence has its synonym.
    :param share: share of replies with its due name.
    :param hits: number of replies with its due name, out of ``of``.
    :param forms: other form -> number of replies that have it instead of the due name.
    """

    replaced: bool
    share: float
    hits: int
    of: int
    forms: Mapping[str, int]


def violated_bits(test: OneTest, subject: Subject, rule: Rule) -> int:
    """Return the bits on which a test fails, by the deciding answer sets; 0 if one could not be read."""
    vectors = []
    for samples in test.samples:
        names = deciding_set(samples, rule)
        if names is None:
            return 0
        vectors.append(subject.vector(names))
    return failing_bits(vectors[0], vectors[1], vectors[2], subject.m)


def culprits(
    tests: Iterable[OneTest],
    sentences: Sequence[tuple[int, Samples]],
    subject: Subject,
    rule: Rule,
    original: Samples | None = None,
    lost: Sequence[Losses] | None = None,
) -> tuple[Culprit, ...]:
    """Return the entities on which ``tests`` fail, with their kinds, in the order of the number of failed tests.

    :param sentences: vectors x with the replies about R(x), those of the tests and any others.
    :param original: the replies about the original sentence.
    :param lost: how the entities are lost; by default according to ``sentences``.
    """
    times = [0] * subject.m
    for test in tests:
        if not test.passed:
            bits = violated_bits(test, subject, rule)
            for place in range(subject.m):
                times[place] += bits >> place & 1
    order = sorted((place for place in range(subject.m) if times[place]), key=lambda p: (-times[p], p))
    if order and lost is None:
        lost = losses(sentences, subject)
    by_place = {one.place: one for one in lost or ()}
    return tuple(
        _culprit(place, times[place], sentences, subject, original, by_place.get(place)) for place in order
    )


def explanation(tests: Sequence[OneTest], breaking: Sequence[Culprit]) -> str:
    """Return one phrase with the number of failed tests and the names of the culprits."""
    failed = sum(not test.passed for test in tests)
    text = f"{failed} of {len(tests)} test{'s' if len(tests) > 1 else ''} failed"
    if not failed:
        return text
    if not breaking:
        return f"{text}; some replies could not be read"
    return f"{text}; culprits: " + ", ".join(culprit.described for culprit in breaking)


def cause_of(lost: Losses | None, subject: Subject) -> str:
    """Return why an entity is lost, in one phrase; empty if there is nothing to explain."""
    if lost is None or lost.outcome == "consistent":
        return ""
    if lost.outcome == "inconsistent":
        return "varies by itself"
    if lost.outcome == "varying":
        return "varies between sentences, no entity found"
    if lost.outcome == "undecided" and lost.p <= ALPHA:
        return "varies between sentences, too few of them to tell why"
    if lost.outcome == "undecided":
        return "too few replies to tell noise from dependence"
    if len(lost.on) == 1:
        return f'depends on "{subject.tested[lost.on[0]].name}"'
    return "depends on other entities"


def _culprit(
    place: int,
    times: int,
    sentences: Sequence[tuple[int, Samples]],
    subject: Subject,
    original: Samples | None,
    lost: Losses | None,
) -> Culprit:
    extractions = [_extraction(place, x, replies, subject) for x, replies in sentences if replies.sets]
    first = _extraction(place, 0, original, subject) if original is not None and original.sets else None
    kinds = _kinds([*extractions, first] if first else extractions, first)
    if lost is None or lost.outcome != "dependent":
        counts = kinds.pop("assumed knowledge", "no count explains it")
        kinds = kinds or {"unexplained": counts}
    synonym = subject.synonyms[place]
    if not kinds:
        kinds = {"unexplained": "no count explains it"}
    ordered = tuple(kind for kind in KINDS if kind in kinds)
    why = "; ".join(kinds[kind] for kind in ordered)
    cause = cause_of(lost, subject)
    return Culprit(place, synonym.entity.name, synonym.text, ordered, times, why, cause)


def _extraction(place: int, x: int, replies: Samples, subject: Subject) -> _Extraction:
    due = subject.expected_name(place, x)
    sets = replies.sets
    hits = sum(due in names for names in sets)
    forms: dict[str, int] = {}
    for names in sets:
        if due not in names:
            for form in sorted(n for n in names if contains_words(n, due) or contains_words(due, n)):
                forms[form] = forms.get(form, 0) + 1
    return _Extraction(bool(x >> place & 1), hits / len(sets), hits, len(sets), forms)


def _kinds(extractions: Sequence[_Extraction], original: _Extraction | None) -> dict[Kind, str]:
    """Return the kinds that apply, with the counts that justify them; ``extractions`` includes the original."""
    kinds: dict[Kind, str] = {}
    for one in extractions:
        form = max(one.forms, key=lambda f: (one.forms[f], f), default="")
        if form and one.forms[form] / one.of >= MIN_SHARE - _ROUNDING:
            kinds["multi-form"] = f'as "{form}" in {one.forms[form]} of {one.of} replies'
            break
    middle = [one for one in extractions if NEVER + _ROUNDING < one.share < ALWAYS - _ROUNDING]
    if original and original.share <= RARE + _ROUNDING:
        kinds["weak"] = f"in {original.hits} of {original.of} replies about the original sentence"
    elif middle:
        worst = min(middle, key=lambda one: abs(one.share - 0.5))
        kinds["weak"] = f"in {worst.hits} of {worst.of} replies about one sentence"
    unreplaced = [one for one in extractions if not one.replaced]
    replaced = [one for one in extractions if one.replaced]
    most, least = (choose(unreplaced, key=_share, default=None) for choose in (max, min))
    if most and least and most.share >= ALWAYS - _ROUNDING and least.share <= NEVER + _ROUNDING:
        kinds["assumed knowledge"] = (
            f"in {most.hits} of {most.of} replies about one sentence and {least.hits} of {least.of} about another"
        )
    rarest = min(replaced, key=_share, default=None)
    always = unreplaced and all(one.share >= ALWAYS - _ROUNDING for one in unreplaced)
    if always and rarest and rarest.share <= RARE + _ROUNDING:
        kinds["synonym fault"] = (
            f"always extracted itself, its synonym in {rarest.hits} of {rarest.of} replies about one sentence"
        )
    return kinds


def _share(one: _Extraction) -> float:
    return one.share
