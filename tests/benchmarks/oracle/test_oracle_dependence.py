"""Noise or dependence: outcomes of hand-made counts, error rates of simulated extractors, and the record."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from pytest_llmprops.benchmarks.oracle.dependence import (
    DRAWS,
    Culprit,
    Losses,
    cause_of,
    culprits,
    explanation,
    losses,
    violated_bits,
)
from pytest_llmprops.benchmarks.oracle.entities import locate
from pytest_llmprops.benchmarks.oracle.extraction import Extracted, ListReading, Samples
from pytest_llmprops.benchmarks.oracle.linear_tests import OneTest, Subject, deciding_set
from pytest_llmprops.benchmarks.oracle.linearity_evidence import LossEvidence, SentenceEvidence
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from pytest_llmprops.core.linearity import complement, different_draws, draws, failing_bits, needed_tests
from pytest_llmprops.core.verdicts import Evidence
from tests.support.linear_functions import is_linear_test
from tests.support.oracle_fakes import ENTITIES, SENTENCE, Fake, check, present

#: (entity, z) -> probability that the entity is lost in a reply about R(z)
Chance = Callable[[int, int], float]


def subject(m: int) -> Subject:
    """A sentence with m entities."""
    found = locate([Extracted(name) for name, _, _ in ENTITIES[:m]], SENTENCE)
    pairs = zip(found, ENTITIES[:m], strict=True)
    return Subject(SENTENCE, found, tuple(Synonym(e, s, "pool", "") for e, (_, _, s) in pairs))


def replies(z: int, lost: Sequence[Sequence[int]], m: int) -> tuple[int, Samples]:
    """Replies about R(z), each without the entities in one element of ``lost``."""
    names = present(z, m)
    sets = [[name for place, name in enumerate(names) if place not in gone] for gone in lost]
    return z, Samples("", tuple(ListReading(tuple(map(Extracted, names))) for names in sets))


def first_of(m: int, of: int, lost: Mapping[int, int]) -> Losses:
    """How the first of m entities is lost: vector -> lost replies out of ``of``."""
    sentences = [replies(z, [(0,)] * n + [()] * (of - n), m) for z, n in lost.items()]
    return losses(sentences, subject(m))[0]


Design = Literal["quick", "paper", "search"]


def played(m: int, chance: Chance, seed: int, design: Design) -> tuple[Losses, ...]:
    """How the entities are lost in a measurement of one sentence, or in a search that has asked about every vector.

    A measurement in quick ends with the batch that has a failing test. A search asks again about three sentences.
    """
    rng = random.Random(seed)
    known: dict[int, list[list[int]]] = {}

    def asked(z: int, samples: int) -> list[list[int]]:
        gone = [[place for place in range(m) if rng.random() < chance(place, z)] for _ in range(samples)]
        known[z] = known.get(z, []) + gone
        return gone

    def value(z: int) -> int:
        gone = known.get(z) or asked(z, 3)
        lost = sum(1 << place for place in range(m) if sum(place in one for one in gone) > len(gone) / 2)
        return complement(z, m) | lost

    if design == "search":
        for z in range(1, 1 << m):
            asked(z, 15 if z <= 3 else 3)
    elif design == "paper":
        for x, y in draws(rng, m, 5):
            for z in (x, y, x ^ y):
                asked(z, 11)
    else:
        pairs = different_draws(rng, m, needed_tests(m, 0.1, 0.1))
        done, failed = 0, False
        while done < len(pairs) and not failed:
            batch = pairs[done : 2 * done + 1]
            done += len(batch)
            fails = [failing_bits(value(x), value(y), value(x ^ y), m) for x, y in batch]
            failed = any(fails)
    return losses([replies(z, gone, m) for z, gone in known.items()], subject(m))


#: seed -> chance
Extractors = Callable[[int], Chance]


def always(chance: Chance) -> Extractors:
    """The same extractor for every seed."""
    return lambda seed: chance


def by_sentence(seed: int) -> Chance:
    """An extractor that loses the first entity in half of the sentences, at random."""
    lost = [random.Random(f"{seed} {z}").random() < 0.5 for z in range(32)]
    return lambda place, z: float(place == 0 and lost[z])


def outcomes(m: int, extractors: Extractors, design: Design, times: int = 20) -> tuple[Counter[str], int]:
    """Count the outcomes of the first entity, and the sentences in which any entity is dependent."""
    counts: Counter[str] = Counter()
    wrong = 0
    for seed in range(times):
        every = played(m, extractors(seed), seed, design)
        counts[every[0].outcome] += 1
        wrong += any(one.outcome == "dependent" for one in every)
    return counts, wrong


def test_entity_that_is_never_or_always_lost_is_consistent() -> None:
    """An entity is consistent if it is never lost, or always and only in one of its states."""
    assert first_of(2, 5, {1: 0, 2: 0, 3: 0}) == Losses(0, "consistent", 0, 15)
    assert first_of(2, 5, {1: 5, 2: 0, 3: 5}).outcome == "consistent"


def test_dependence_on_another_entity() -> None:
    """An entity that is lost exactly if another one is replaced depends on that one."""
    seen = first_of(4, 3, {z: 3 * (z >> 1 & 1) for z in range(16)})
    assert (seen.outcome, seen.on, seen.lost, seen.of) == ("dependent", (1,), 24, 48)
    assert max(seen.p, seen.p_unrelated) <= 0.05
    assert seen.changes == (None, 1, 0, 0)


@pytest.mark.parametrize("odd", [True, False])
def test_dependence_on_a_combination(odd: bool) -> None:
    """If the number of the others explains the losses, or whether it is odd, no single entity is named."""
    number = {z: (z >> 1).bit_count() for z in range(16)}
    seen = first_of(4, 11, {z: 11 * (n % 2 if odd else n >= 2) for z, n in number.items()})
    assert (seen.outcome, seen.on) == ("dependent", ())


def test_dependence_of_opposite_direction() -> None:
    """An entity that is lost exactly if one of it and another is replaced depends on that one."""
    seen = first_of(4, 3, {z: 3 * ((z ^ z >> 1) & 1) for z in range(16)})
    assert (seen.outcome, seen.on, seen.changes[1]) == ("dependent", (1,), 0)


def test_entities_that_are_always_replaced_together() -> None:
    """If the sentences do not separate two entities, both are named."""
    tied = [z for z in range(32) if z >> 1 & 1 == z >> 2 & 1]
    assert first_of(5, 3, {z: 3 * (z >> 1 & 1) for z in tied}).on == (1, 2)


def test_losses_that_vary_between_sentences() -> None:
    """If the losses differ between sentences, but no entity explains that, the entity does not count as dependent."""
    lost = {1, 2, 7, 8, 10, 11, 13, 14}
    seen = first_of(4, 3, {z: 3 * (z in lost) for z in range(1, 16)})
    assert (seen.outcome, seen.on) == ("varying", ())
    assert seen.p <= 0.05 < seen.p_unrelated
    assert cause_of(seen, subject(4)) == "varies between sentences, no entity found"
    few = first_of(3, 6, {1: 0, 0b101: 0, 0b011: 6, 0b111: 6})
    assert (few.outcome, few.p <= 0.05) == ("undecided", True)
    assert cause_of(few, subject(3)) == "varies between sentences, too few of them to tell why"


@pytest.mark.parametrize("design", ["quick", "paper", "search"])
def test_losses_per_sentence_are_rarely_called_dependence(design: Design) -> None:
    """An entity that is lost in sentences at random is called dependent in at most about 5% of the sentences."""
    counts, wrong = outcomes(4, by_sentence, design, times=60)
    # Of 60 sentences, more than 7 have a probability of 1% at a rate of 5%.
    assert wrong <= 7
    assert counts["varying"] >= {"quick": 3, "paper": 15, "search": 45}[design]


def test_noise() -> None:
    """An entity whose losses are spread evenly varies by itself, if enough replies exclude a dependence."""
    # No two sentences differ only in the second entity.
    assert first_of(2, 30, {1: 6, 2: 0}).outcome == "undecided"
    assert first_of(2, 30, {0: 0, 1: 6, 2: 0, 3: 7}).outcome == "inconsistent"
    assert first_of(2, 3, {0: 0, 1: 1, 2: 0, 3: 1}).outcome == "undecided"


def test_few_replies_are_undecided() -> None:
    """With three replies per sentence, even a complete change may be chance; without a reply, nothing is known."""
    assert first_of(2, 3, {1: 0, 3: 3, 2: 0}).outcome == "undecided"
    assert first_of(2, 0, {1: 0, 3: 0}) == Losses(0, "undecided", 0, 0)
    assert losses([], subject(2))[1].outcome == "undecided"


def test_equal_sentences_are_pooled() -> None:
    """Several askings of the same sentence count as one."""
    halves = [replies(z, [(0,)] * n + [()] * (5 - n), 2) for z, n in ((1, 0), (1, 0), (3, 4), (3, 5))]
    whole = [replies(z, [(0,)] * n + [()] * (10 - n), 2) for z, n in ((1, 0), (3, 9))]
    assert losses(halves, subject(2)) == losses(whole, subject(2))


def exact_p(of: int, lost: Sequence[int]) -> float:
    """The p-value of noise for an entity of three, by all tables with the losses of four sentences that replace it.

    The sentences keep both other entities, replace the first, the second, and both.
    """

    def smallest(table: Sequence[int]) -> float:
        cells = np.array([table, [of - n for n in table]])
        merged = [cells[:, [0, 2]] + cells[:, [1, 3]], cells[:, [0, 1]] + cells[:, [2, 3]], cells]
        return min(
            float(chi2_contingency(one, correction=False, lambda_="log-likelihood").pvalue) for one in merged
        )

    tables = [table for table in product(range(of + 1), repeat=4) if sum(table) == sum(lost)]
    weights = np.array([math.prod(math.comb(of, n) for n in table) for table in tables])
    below = np.array([smallest(table) for table in tables]) <= smallest(lost) * (1 + 1e-9)
    return float(weights[below].sum() / weights.sum())


@pytest.mark.parametrize(
    ("of", "lost"),
    [(3, (0, 1, 0, 3)), (3, (1, 2, 2, 3)), (3, (0, 2, 0, 0)), (4, (0, 0, 2, 0)), (5, (3, 1, 1, 3))],
)
def test_p_value_is_that_of_all_tables(of: int, lost: tuple[int, int, int, int]) -> None:
    """The p-value of noise from draws is that of an enumeration, with likelihood ratios of another program.

    With ratios that are 0.8 or 1.25 times as large, the last three would be .727, .200 and .921 in place of .182, .733
    and .444: the ratios of the groupings have different numbers of degrees of freedom.
    """
    seen = first_of(3, of, dict(zip((0b001, 0b011, 0b101, 0b111), lost, strict=True)))
    exact = exact_p(of, lost)
    assert seen.p == pytest.approx(exact, abs=5 * math.sqrt(exact * (1 - exact) / DRAWS))


def test_p_values_are_adjusted_for_the_entities() -> None:
    """The p-values of two entities that vary are twice those of one."""
    gone: dict[int, list[tuple[int, ...]]] = {
        1: [()] * 5,
        3: [(0,)] * 3 + [()] * 2,
        2: [(1,), *[()] * 4],
        0: [()] * 5,
    }
    both = losses([replies(z, lost, 2) for z, lost in gone.items()], subject(2))
    alone = losses(
        [replies(z, [[p for p in one if p == 0] for one in lost], 2) for z, lost in gone.items()], subject(2)
    )
    assert both[0].p == pytest.approx(2 * alone[0].p)


@pytest.mark.parametrize(("share", "paper"), [(0.3, True), (0.1, False)])
def test_noise_is_rarely_called_dependence(share: float, paper: bool) -> None:
    """At most about 5% of sentences whose entities are lost by chance get a dependent entity."""
    counts, wrong = outcomes(3, always(lambda place, z: share), "paper" if paper else "quick")
    # Of 20 sentences, more than 3 have a probability of 1.6% at a rate of 5%.
    assert wrong <= 3
    if paper:
        assert counts["inconsistent"] >= 16


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_dependence_is_found_at_the_size_of_the_paper(share: float) -> None:
    """Dependence on one other entity, and on the parity of the others, is found on top of noise of 5%."""
    on_second = always(lambda p, z: 0.05 + 0.95 * share * (p == 0) * (z >> 1 & 1))
    on_parity = always(lambda p, z: 0.05 + 0.95 * share * (p == 0) * ((z >> 1).bit_count() & 1))
    for extractors in (on_second, on_parity):
        # Five tests have 11 of 16 sentences on average, too few in about a third of the cases.
        assert outcomes(4, extractors, "paper")[0]["dependent"] >= 8
        assert outcomes(4, extractors, "search")[0]["dependent"] >= (18 if share == 1 else 8)


def test_dependence_is_not_called_noise_in_quick() -> None:
    """In quick, half of the replies lost to another entity are dependence or undecided, rarely noise."""
    counts, _ = outcomes(3, always(lambda p, z: 0.5 * (p == 0) * (z >> 1 & 1)), "quick")
    assert counts["inconsistent"] <= 3


@pytest.mark.parametrize("rule", ["any", "majority", "single"])
def test_record_of_a_sentence(rule: str) -> None:
    """The verdict counts the outcomes of the tested entities, and has their map unless all are consistent."""
    result = check(Fake(lambda x, sample: present(x)), rule=rule)
    assert [result.values[name] for name in ("consistent", "undecided")] == [3, 0]
    assert "losses" not in result.evidence

    def dependent(x: int, sample: int) -> list[str]:
        return [name for place, name in enumerate(present(x, 4)) if place != 2 or not x & 1]

    result = check(Fake(dependent, 4), 3, rule=rule, tests=12)
    assert (result.values["dependent"], result.values["consistent"]) == (1, 3)
    evidence = SentenceEvidence.from_json(result.evidence)
    [lost] = [one for one in evidence.losses if one.outcome == "dependent"]
    assert (lost.name, lost.on, lost.changes[0], lost.changes[2]) == ("Kenya", ("Adriana",), 1, None)
    assert max(lost.p, lost.p_unrelated) <= 0.05
    assert 'culprits: "Kenya" (' in result.why
    assert '; depends on "Adriana")' in result.why
    assert SentenceEvidence.from_json(evidence.to_json()) == evidence


def test_damaged_losses_are_read() -> None:
    """Values of the wrong type in a record are empty."""
    damaged: Evidence = {
        "name": 3, "outcome": "dependent", "lost": "x", "p": None, "on": [1, "a"], "changes": [0.5, "x", None],
    }  # fmt: skip
    assert LossEvidence.from_json(damaged) == LossEvidence(
        "", "dependent", 0, 0, 1.0, 1.0, ("a",), (0.5, None, None)
    )


# ---- culprits


SUBJECT = subject(2)
#: the test of x = Adriana replaced, y = Lisbon replaced, and its four sentences
X, Y = 0b01, 0b10


def replies_to(x: int, *groups: tuple[int, Sequence[str]]) -> Samples:
    """Return replies about R(x): each list of names as often as its count, with None for an unread reply."""
    readings = []
    for times, names in groups:
        readings += [ListReading(tuple(Extracted(name) for name in names))] * times
    return Samples(SUBJECT.transformed(x).text, tuple(readings))


def ideal(x: int) -> Samples:
    """Eleven perfect replies."""
    return replies_to(x, (11, present(x, 2)))


def culprits_of(lost: Sequence[Losses] | None = None, /, **changed: Samples) -> tuple[Culprit, ...]:
    """Return the culprits of the one test; replies are perfect except those given for ``x01``, ``x10``, ``x11``."""
    samples = {x: changed.get(f"x{x:02b}", ideal(x)) for x in (X, Y, X ^ Y)}
    vectors = [
        SUBJECT.vector(names)
        for x in (X, Y, X ^ Y)
        if (names := deciding_set(samples[x], "majority")) is not None
    ]
    passing = len(vectors) == 3 and is_linear_test(vectors[0], vectors[1], vectors[2], SUBJECT.m)
    test = OneTest(X, Y, int(passing), 1, (samples[X], samples[Y], samples[X ^ Y]))
    original = changed.get("original", ideal(0))
    return culprits([test], list(samples.items()), SUBJECT, "majority", original, lost)


def test_multi_form() -> None:
    """An entity that some replies put in a longer name is multi-form, with the form and its count."""
    (culprit,) = culprits_of(
        x11=replies_to(3, (3, ["Tobias", "Nairobi"]), (8, ["Tobias of Nairobi", "Nairobi"]))
    )
    assert (culprit.name, culprit.synonym, culprit.tests) == ("Adriana", "Tobias", 1)
    assert "multi-form" in culprit.kinds
    assert 'as "tobias of nairobi" in 8 of 11 replies' in culprit.why
    assert str(culprit).startswith('"Adriana" (replaced by "Tobias"): multi-form')
    (once,) = culprits_of(x11=replies_to(3, (1, ["Tobias Ltd", "Nairobi"]), (10, ["Nairobi"])))
    assert "multi-form" not in once.kinds


def test_weak() -> None:
    """An entity that only some replies about one sentence contain is weak, with its count, and only weak."""
    (culprit,) = culprits_of(x11=replies_to(3, (4, ["Tobias", "Nairobi"]), (7, ["Nairobi"])))
    assert culprit.kinds[0] == "weak"
    assert culprit.why.startswith("in 4 of 11 replies about one sentence")
    (edge,) = culprits_of(x11=replies_to(3, (2, ["Tobias", "Nairobi"]), (9, ["Nairobi"])))
    assert "weak" not in edge.kinds
    wavering = replies_to(X, (5, ["Tobias", "Lisbon"]), (6, ["Tobias"]))
    (culprit,) = culprits_of(x01=wavering, x11=replies_to(3, (11, ["Tobias"])))
    assert culprit.name == "Lisbon"
    assert culprit.kinds == ("weak",)


def test_weak_in_the_original() -> None:
    """An entity in at most 5 of 11 replies about the original sentence is weak (the paper's example)."""
    never = replies_to(3, (11, ["Nairobi"]))
    for times in (5, 1):
        (culprit,) = culprits_of(
            x11=never, original=replies_to(0, (times, present(0, 2)), (11 - times, ["Lisbon"]))
        )
        assert "weak" in culprit.kinds
        assert f"in {times} of 11 replies about the original" in culprit.why
    (culprit,) = culprits_of(x11=never, original=replies_to(0, (6, present(0, 2)), (5, ["Lisbon"])))
    assert "in 6 of 11 replies about one sentence" in culprit.why


def test_assumed_knowledge() -> None:
    """An entity found with one set of others and never with another has that kind only if it is dependent."""
    changed = {"x01": replies_to(X, (11, ["Tobias"])), "x11": replies_to(3, (11, ["Tobias"]))}
    counts = "in 11 of 11 replies about one sentence and 0 of 11 about another"
    varying = Losses(1, "varying", 22, 33, 0.001)
    for lost, kind in (
        (replace(varying, outcome="dependent", on=(0,)), "assumed knowledge"),
        (varying, "unexplained"),
    ):
        (culprit,) = culprits_of([lost], **changed)
        assert (culprit.name, culprit.kinds, culprit.why) == ("Lisbon", (kind,), counts)
    (culprit,) = culprits_of(**changed)
    assert (culprit.kinds, culprit.cause) == (
        ("unexplained",),
        "varies between sentences, too few of them to tell why",
    )


def test_synonym_fault() -> None:
    """An entity always found under its own name, but rarely as its synonym, has a synonym fault."""
    (culprit,) = culprits_of(x11=replies_to(3, (11, ["Nairobi"])))
    assert culprit.kinds == ("synonym fault",)
    assert culprit.why == "always extracted itself, its synonym in 0 of 11 replies about one sentence"
    (weak,) = culprits_of(x11=replies_to(3, (5, ["Tobias", "Nairobi"]), (6, ["Nairobi"])))
    assert weak.kinds == ("weak", "synonym fault")
    assert culprits_of(x01=replies_to(X, (11, ["Lisbon"])), x11=replies_to(3, (11, ["Nairobi"]))) == ()


def test_unexplained() -> None:
    """A violation that no count explains is unexplained: for example, a replaced name is still extracted."""
    (culprit,) = culprits_of(x10=replies_to(Y, (11, ["Adriana", "Tobias", "Nairobi"])))
    assert culprit.kinds == ("unexplained",)
    assert "no count" in culprit.why


def test_culprits_are_sorted_by_failed_tests() -> None:
    """The entity with the most failed tests comes first, with the number of tests that fail because of it."""
    three = subject(3)
    samples = {
        x: Samples("", (ListReading(tuple(map(Extracted, present(x)))),) * 11) for x in (1, 2, 3, 4, 5, 6)
    }
    for x, lost in ((3, "Tobias"), (5, "Norway"), (6, "Norway")):
        names = [name for name in present(x) if name != lost]
        samples[x] = Samples("", (ListReading(tuple(map(Extracted, names))),) * 11)
    tests = [
        OneTest(x, y, 0, 1, (samples[x], samples[y], samples[x ^ y])) for x, y in ((1, 2), (4, 1), (4, 2))
    ]
    seen = culprits(tests, list(samples.items()), three, "majority")
    assert [(c.name, c.tests, c.place) for c in seen] == [("Kenya", 2, 2), ("Adriana", 1, 0)]
    assert [violated_bits(test, three, "majority") for test in tests] == [1, 4, 4]


def test_unread_replies_name_no_entity() -> None:
    """A test that fails because of an unread reply names no entity and gives the reason."""
    unread = Samples("", (ListReading(None, "the reply is not a list"),) * 11)
    assert culprits_of(x11=unread) == ()
    text = explanation([OneTest(X, Y, 0, 1)], ())
    assert text == "1 of 1 test failed; some replies could not be read"


def test_explanation() -> None:
    """The explanation has the number of failed tests, and the entities by name and kind."""
    culprit = Culprit(0, "Adriana", "Tobias", ("multi-form", "weak"), 2, "")
    tests = [OneTest(1, 2, 0, 1), OneTest(1, 2, 4, 8), OneTest(3, 2, 0, 1)]
    assert explanation(tests, [culprit]) == '2 of 3 tests failed; culprits: "Adriana" (multi-form, weak)'
    assert explanation(tests[1:2], ()) == "0 of 1 test failed"


def test_test_that_some_combination_passes_has_no_culprits() -> None:
    """A test that some combination passes has no culprits, even if its most frequent answers fail."""
    samples = {x: ideal(x) for x in (X, Y)} | {3: replies_to(3, (10, []), (1, present(3, 2)))}
    passed = OneTest(X, Y, 121, 1331, (samples[X], samples[Y], samples[3]))
    sentences = list(samples.items())
    assert violated_bits(passed, SUBJECT, "any") == 3
    assert culprits([passed], sentences, SUBJECT, "any") == ()
    assert len(culprits([replace(passed, passing=0)], sentences, SUBJECT, "any")) == 2
