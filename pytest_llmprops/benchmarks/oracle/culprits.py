"""Which entities break linearity, and of what kind they are (Zeng, Wang & Ibbetson, appendix A.3).

A violated test fails on some bits of its vectors, and their entities are the culprits. The paper assigns four kinds by
hand. Here they follow from counts, and an entity may be of several kinds ("these two behaviours can overlap"). Shares
are of the readable replies about one sentence. The *due* name of an entity is its synonym if it was replaced, otherwise
its own name.

======================  ============================================================================================
multi-form              for some sentence, at least ``MIN_SHARE`` (2/11) of the replies have a longer or shorter form of
                        the due name, but not the due name
weak                    for some sentence, more than ``NEVER`` (2/11) and fewer than ``ALWAYS`` (9/11) of the replies
                        have the due name; or at most ``RARE`` (5/11) of those about the original have the entity
assumed knowledge       the share of replies with the unreplaced entity is at least ``ALWAYS`` for one sentence and at
                        most ``NEVER`` for another, and noise does not explain that (``dependence``)
synonym fault           the share of replies with the unreplaced entity is at least ``ALWAYS`` for every sentence, but
                        that of its synonym is at most ``RARE`` for some sentence
unexplained             none of these
======================  ============================================================================================

The cause of a culprit comes from ``dependence``: it depends on other entities, varies by itself, or the replies are too
few to tell.

The thresholds are ours, except 5/11, an example in the paper (figure 8). A synonym that is never extracted breaks
nothing: its bit is constant, which is linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.benchmarks.oracle.choices import Rule
from pytest_llmprops.benchmarks.oracle.dependence import Losses, losses
from pytest_llmprops.benchmarks.oracle.extraction import Names, Samples, contains_words
from pytest_llmprops.benchmarks.oracle.linear_tests import OneTest, Subject, deciding_set
from pytest_llmprops.core.linearity import failing_bits

Kind = Literal["multi-form", "weak", "assumed knowledge", "synonym fault", "unexplained"]
KINDS: tuple[Kind, ...] = ("multi-form", "weak", "assumed knowledge", "synonym fault", "unexplained")

ALWAYS = 9 / 11
RARE = 5 / 11
NEVER = MIN_SHARE = 2 / 11
#: tolerance for the rounding of shares, which are quotients of small whole numbers
_ROUNDING = 1e-9


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
    """Return why an entity is lost: noise or dependence, in one phrase; empty if there is nothing to explain."""
    if lost is None or lost.outcome == "consistent":
        return ""
    if lost.outcome == "inconsistent":
        return "varies by itself"
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
        kinds.pop("assumed knowledge", None)
    synonym = subject.synonyms[place]
    if not kinds:
        kinds = {"unexplained": "no count explains it"}
    ordered = tuple(kind for kind in KINDS if kind in kinds)
    why = "; ".join(kinds[kind] for kind in ordered)
    cause = cause_of(lost, subject)
    return Culprit(place, synonym.entity.name, synonym.text, ordered, times, why, cause)


def _extraction(place: int, x: int, replies: Samples, subject: Subject) -> _Extraction:
    due = subject.due(place, x)
    sets = replies.sets
    hits = sum(due in names for names in sets)
    forms: dict[str, int] = {}
    for names in sets:
        if due not in names:
            for form in _other_forms(due, names):
                forms[form] = forms.get(form, 0) + 1
    return _Extraction(bool(x >> place & 1), hits / len(sets), hits, len(sets), forms)


def _other_forms(due: str, names: Names) -> list[str]:
    return sorted(name for name in names if contains_words(name, due) or contains_words(due, name))


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
            f"in {most.hits} of {most.of} replies about one sentence and {least.hits} of {least.of} about"
            " another, as other entities change"
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
