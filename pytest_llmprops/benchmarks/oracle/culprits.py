"""Which entities break linearity, and of what kind they are (Zeng, Wang & Ibbetson, appendix A.3).

A violated test fails on some bits of its vectors: their entities are the culprits. The paper tells four kinds apart
by looking; here they are read off the counts, and one entity may be of several kinds ("these two behaviours can
overlap"). Shares are of the readable replies about one sentence; an entity's *due* name is its synonym where
that was put in, else its own.

======================  ============================================================================================
multi-form              in some sentence, at least ``MIN_SHARE`` (2/11) of the replies have a longer or shorter form of
                        the due name without the due name itself
weak                    in some sentence, the due name is in more than ``NEVER`` (2/11) and fewer than ``ALWAYS`` (9/11)
                        of the replies; or the entity is in at most ``RARE`` (5/11) of those about the original
assumed knowledge       the entity itself is in some sentence found at least ``ALWAYS``, in another at most ``NEVER``:
                        it depends on what the others are
synonym fault           the entity itself is found at least ``ALWAYS`` wherever it stands, with others replaced, too;
                        its synonym in some sentence at most ``RARE``
unexplained             none of these
======================  ============================================================================================

The thresholds are ours, but for 5/11, which the paper gives as an example (figure 8). A synonym that is never
found breaks nothing: its bit is constant, which is linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_llmprops.benchmarks.oracle.extraction import Names, Samples, contains_words
from pytest_llmprops.benchmarks.oracle.linear_tests import OneTest, Rule, Subject, deciding
from pytest_llmprops.core.linearity import failing_bits

Kind = Literal["multi-form", "weak", "assumed knowledge", "synonym fault", "unexplained"]
KINDS: tuple[Kind, ...] = ("multi-form", "weak", "assumed knowledge", "synonym fault", "unexplained")

ALWAYS = 9 / 11
RARE = 5 / 11
NEVER = MIN_SHARE = 2 / 11
#: shares are quotients of small whole numbers; rounding must not decide
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Culprit:
    """An entity on which violated tests fail.

    :param place: its bit. :param tests: how many of the tests given fail on it.
    :param why: the counts that make its kinds, a phrase each.
    """

    place: int
    name: str
    synonym: str
    kinds: tuple[Kind, ...]
    tests: int
    why: str

    def __str__(self) -> str:
        return f'"{self.name}" (replaced by "{self.synonym}"): {", ".join(self.kinds)}; {self.why}'


@dataclass(frozen=True, slots=True)
class _Seen:
    """One sentence with one entity: the share of replies with its due name, and other forms that came in its place.

    :param replaced: its synonym stands there.
    """

    replaced: bool
    due: float
    found: int
    of: int
    forms: Mapping[str, int]


def violated_bits(test: OneTest, samples: Mapping[int, Samples], subject: Subject, rule: Rule) -> int:
    """The bits on which a test fails, by the answers that decide; 0 where an answer could not be read."""
    vectors = []
    for x in (test.x, test.y, test.x ^ test.y):
        names = deciding(samples[x], rule)
        if names is None:
            return 0
        vectors.append(subject.vector(names))
    return failing_bits(vectors[0], vectors[1], vectors[2], subject.m)


def culprits(
    tests: Iterable[OneTest],
    samples: Mapping[int, Samples],
    subject: Subject,
    rule: Rule,
    original: Samples | None = None,
) -> tuple[Culprit, ...]:
    """The entities on which the violated ones among ``tests`` fail, most often first, each with its kinds.

    :param samples: the replies about R(x) for every x, y and x XOR y of the tests, and for any other x at hand.
    :param original: the replies about the original sentence.
    """
    times = [0] * subject.m
    for test in tests:
        if not test.passed:
            bits = violated_bits(test, samples, subject, rule)
            for place in range(subject.m):
                times[place] += bits >> place & 1
    order = sorted((place for place in range(subject.m) if times[place]), key=lambda p: (-times[p], p))
    return tuple(_culprit(place, times[place], samples, subject, original) for place in order)


def explanation(tests: Sequence[OneTest], found: Sequence[Culprit]) -> str:
    """One phrase on the violated tests: how many, and the culprits' names."""
    failed = sum(not test.passed for test in tests)
    text = f"{failed} of {len(tests)} test{'s' if len(tests) > 1 else ''} failed"
    if not failed:
        return text
    if not found:
        return f"{text}; some replies could not be read"
    return f"{text}; culprits: " + ", ".join(
        f'"{culprit.name}" ({", ".join(culprit.kinds)})' for culprit in found
    )


def _culprit(
    place: int, times: int, samples: Mapping[int, Samples], subject: Subject, original: Samples | None
) -> Culprit:
    seen = [_seen(place, x, replies, subject) for x, replies in samples.items() if replies.sets]
    first = _seen(place, 0, original, subject) if original is not None and original.sets else None
    kinds = _kinds([*seen, first] if first else seen, first)
    synonym = subject.synonyms[place]
    if not kinds:
        kinds = {"unexplained": "no count says why"}
    ordered = tuple(kind for kind in KINDS if kind in kinds)
    why = "; ".join(kinds[kind] for kind in ordered)
    return Culprit(place, synonym.entity.name, synonym.text, ordered, times, why)


def _seen(place: int, x: int, replies: Samples, subject: Subject) -> _Seen:
    due = subject.due(place, x)
    sets = replies.sets
    found = sum(due in names for names in sets)
    forms: dict[str, int] = {}
    for names in sets:
        if due not in names:
            for form in _other_forms(due, names):
                forms[form] = forms.get(form, 0) + 1
    return _Seen(bool(x >> place & 1), found / len(sets), found, len(sets), forms)


def _other_forms(due: str, names: Names) -> list[str]:
    return sorted(name for name in names if contains_words(name, due) or contains_words(due, name))


def _kinds(seen: Sequence[_Seen], original: _Seen | None) -> dict[Kind, str]:
    """The kinds that hold, with the counts that make them; ``seen`` includes the original."""
    kinds: dict[Kind, str] = {}
    for one in seen:
        form = max(one.forms, key=lambda f: (one.forms[f], f), default="")
        if form and one.forms[form] / one.of >= MIN_SHARE - _ROUNDING:
            kinds["multi-form"] = f'as "{form}" in {one.forms[form]} of {one.of} replies'
            break
    middle = [one for one in seen if NEVER + _ROUNDING < one.due < ALWAYS - _ROUNDING]
    if original and original.due <= RARE + _ROUNDING:
        kinds["weak"] = f"in {original.found} of {original.of} replies about the original sentence"
    elif middle:
        worst = min(middle, key=lambda one: abs(one.due - 0.5))
        kinds["weak"] = f"in {worst.found} of {worst.of} replies about one sentence"
    own = [one for one in seen if not one.replaced]
    other = [one for one in seen if one.replaced]
    most, least = (choose(own, key=_due, default=None) for choose in (max, min))
    if most and least and most.due >= ALWAYS - _ROUNDING and least.due <= NEVER + _ROUNDING:
        kinds["assumed knowledge"] = (
            f"in {most.found} of {most.of} replies about one sentence and {least.found} of {least.of} about"
            " another, as other entities change"
        )
    rarest = min(other, key=_due, default=None)
    always = own and all(one.due >= ALWAYS - _ROUNDING for one in own)
    if always and rarest and rarest.due <= RARE + _ROUNDING:
        kinds["synonym fault"] = (
            f"always found itself, its synonym in {rarest.found} of {rarest.of} replies about one sentence"
        )
    return kinds


def _due(one: _Seen) -> float:
    return one.due
