"""The entities that break linearity and their kinds, from hand-made counts and whole measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_llmprops.benchmarks.oracle.dependence import Culprit, culprits, explanation, violated_bits
from pytest_llmprops.benchmarks.oracle.entities import locate
from pytest_llmprops.benchmarks.oracle.extraction import Extracted, ListReading, Samples
from pytest_llmprops.benchmarks.oracle.linear_tests import OneTest, Subject, deciding_set
from pytest_llmprops.benchmarks.oracle.linearity_evidence import SentenceEvidence
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from tests.support.linear_functions import is_linear_test
from tests.support.oracle_fakes import ENTITIES, SENTENCE, Fake, check, present

FOUND = locate([Extracted(name) for name, _, _ in ENTITIES[:2]], SENTENCE)
SUBJECT = Subject(
    SENTENCE,
    FOUND,
    tuple(Synonym(e, s, "pool", "") for e, (_, _, s) in zip(FOUND, ENTITIES[:2], strict=True)),
)
#: the test of x = Adriana replaced, y = Lisbon replaced, and its four sentences
X, Y = 0b01, 0b10


def replies(x: int, *groups: tuple[int, Sequence[str]]) -> Samples:
    """Return replies about R(x): each list of names as often as its count, with None for an unread reply."""
    readings = []
    for times, names in groups:
        readings += [ListReading(tuple(Extracted(name) for name in names))] * times
    return Samples(SUBJECT.transformed(x).text, tuple(readings))


def ideal(x: int) -> Samples:
    """Eleven perfect replies."""
    return replies(x, (11, present(x, 2)))


def culprits_of(**changed: Samples) -> tuple[Culprit, ...]:
    """Return the culprits of the one test; replies are perfect except those given for ``x01``, ``x10``,
    ``x11``.
    """
    samples = {x: changed.get(f"x{x:02b}", ideal(x)) for x in (X, Y, X ^ Y)}
    vectors = [
        SUBJECT.vector(names)
        for x in (X, Y, X ^ Y)
        if (names := deciding_set(samples[x], "majority")) is not None
    ]
    passing = len(vectors) == 3 and is_linear_test(vectors[0], vectors[1], vectors[2], SUBJECT.m)
    test = OneTest(X, Y, int(passing), 1, (samples[X], samples[Y], samples[X ^ Y]))
    original = changed.get("original", ideal(0))
    return culprits([test], list(samples.items()), SUBJECT, "majority", original)


def test_passed_test_has_no_culprit() -> None:
    """A passed test has no culprit, even if other replies vary."""
    assert culprits_of() == ()


def test_multi_form() -> None:
    """An entity that some replies put in a longer name is multi-form, with the form and its count."""
    (culprit,) = culprits_of(
        x11=replies(3, (3, ["Tobias", "Nairobi"]), (8, ["Tobias of Nairobi", "Nairobi"]))
    )
    assert culprit.name == "Adriana"
    assert culprit.synonym == "Tobias"
    assert culprit.tests == 1
    assert "multi-form" in culprit.kinds
    assert 'as "tobias of nairobi" in 8 of 11 replies' in culprit.why
    assert str(culprit).startswith('"Adriana" (replaced by "Tobias"): multi-form')
    (once,) = culprits_of(x11=replies(3, (1, ["Tobias Ltd", "Nairobi"]), (10, ["Nairobi"])))
    assert "multi-form" not in once.kinds


def test_weak() -> None:
    """An entity that only some replies about one sentence contain is weak, with its count."""
    (culprit,) = culprits_of(x11=replies(3, (4, ["Tobias", "Nairobi"]), (7, ["Nairobi"])))
    assert culprit.kinds[0] == "weak"
    assert culprit.why.startswith("in 4 of 11 replies about one sentence")
    (edge,) = culprits_of(x11=replies(3, (2, ["Tobias", "Nairobi"]), (9, ["Nairobi"])))
    assert "weak" not in edge.kinds


def test_entity_that_varies_is_only_weak() -> None:
    """An entity that varies within one sentence is only weak."""
    wavering = replies(X, (5, ["Tobias", "Lisbon"]), (6, ["Tobias"]))
    (culprit,) = culprits_of(x01=wavering, x11=replies(3, (11, ["Tobias"])))
    assert culprit.name == "Lisbon"
    assert culprit.kinds == ("weak",)


def test_weak_in_the_original() -> None:
    """An entity in at most 5 of 11 replies about the original sentence is weak (the paper's example)."""
    never = replies(3, (11, ["Nairobi"]))
    for times in (5, 1):
        (culprit,) = culprits_of(
            x11=never, original=replies(0, (times, present(0, 2)), (11 - times, ["Lisbon"]))
        )
        assert "weak" in culprit.kinds
        assert f"in {times} of 11 replies about the original" in culprit.why
    (culprit,) = culprits_of(x11=never, original=replies(0, (6, present(0, 2)), (5, ["Lisbon"])))
    assert "in 6 of 11 replies about one sentence" in culprit.why


def test_assumed_knowledge() -> None:
    """An entity found with one set of others and never with another depends on them."""
    (culprit,) = culprits_of(x01=replies(X, (11, ["Tobias"])), x11=replies(3, (11, ["Tobias"])))
    assert culprit.name == "Lisbon"
    assert culprit.kinds == ("assumed knowledge",)
    assert "in 11 of 11 replies about one sentence and 0 of 11 about another" in culprit.why


def test_synonym_fault() -> None:
    """An entity always found under its own name, but rarely as its synonym, has a synonym fault."""
    (culprit,) = culprits_of(x11=replies(3, (11, ["Nairobi"])))
    assert culprit.kinds == ("synonym fault",)
    assert culprit.why == "always extracted itself, its synonym in 0 of 11 replies about one sentence"
    (weak,) = culprits_of(x11=replies(3, (5, ["Tobias", "Nairobi"]), (6, ["Nairobi"])))
    assert weak.kinds == ("weak", "synonym fault")
    assert culprits_of(x01=replies(X, (11, ["Lisbon"])), x11=replies(3, (11, ["Nairobi"]))) == ()


def test_unexplained() -> None:
    """A violation that no count explains is unexplained: for example, a replaced name is still extracted."""
    (culprit,) = culprits_of(x10=replies(Y, (11, ["Adriana", "Tobias", "Nairobi"])))
    assert culprit.kinds == ("unexplained",)
    assert "no count" in culprit.why


def test_culprits_are_sorted_by_failed_tests() -> None:
    """The entity with the most failed tests comes first, with the number of tests that fail because of it."""
    entities = locate([Extracted(name) for name, _, _ in ENTITIES[:3]], SENTENCE)
    synonyms = tuple(Synonym(e, s, "pool", "") for e, (_, _, s) in zip(entities, ENTITIES[:3], strict=True))
    subject = Subject(SENTENCE, entities, synonyms)
    samples = {
        x: Samples("", (ListReading(tuple(map(Extracted, present(x)))),) * 11) for x in (1, 2, 3, 4, 5, 6)
    }
    for x, lost in ((3, "Tobias"), (5, "Norway"), (6, "Norway")):
        names = [name for name in present(x) if name != lost]
        samples[x] = Samples("", (ListReading(tuple(map(Extracted, names))),) * 11)
    tests = [
        OneTest(x, y, 0, 1, (samples[x], samples[y], samples[x ^ y])) for x, y in ((1, 2), (4, 1), (4, 2))
    ]
    seen = culprits(tests, list(samples.items()), subject, "majority")
    assert [(c.name, c.tests, c.place) for c in seen] == [("Kenya", 2, 2), ("Adriana", 1, 0)]
    assert [violated_bits(test, subject, "majority") for test in tests] == [1, 4, 4]


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


@pytest.mark.parametrize("rule", ["any", "majority", "single"])
def test_culprit_of_a_whole_measurement(rule: str) -> None:
    """An entity dropped whenever another is replaced is the only culprit of every rejection."""

    def dependent(x: int, sample: int) -> list[str]:
        names = present(x)
        return names[:2] if x & 1 else names

    rejected = 0
    for seed in range(20):
        result = check(Fake(dependent), seed, rule=rule, samples=3)
        if not result.accepted:
            rejected += 1
            assert 'culprits: "Kenya" (' in result.why
            assert "Lisbon" not in result.why
            shown = SentenceEvidence.from_json(result.evidence)
            assert ("Kenya", "Norway") in [(c.name, c.synonym) for c in shown.culprits]
            assert any(test["passed"] is False for test in shown.tests)
    assert rejected > 10


def test_test_that_some_combination_passes_has_no_culprits() -> None:
    """A test that some combination passes has no culprits, even if its most frequent answers fail."""
    samples = {x: ideal(x) for x in (X, Y)} | {3: replies(3, (10, []), (1, present(3, 2)))}
    passed = OneTest(X, Y, 121, 1331, (samples[X], samples[Y], samples[3]))
    sentences = list(samples.items())
    assert violated_bits(passed, SUBJECT, "any") == 3
    assert culprits([passed], sentences, SUBJECT, "any") == ()
    assert len(culprits([replace(passed, passing=0)], sentences, SUBJECT, "any")) == 2
