"""Sentences that are tested until a bound is reached: when tests end, what they claim, and the bound of a document."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker
from pytest_llmprops.benchmarks.oracle.linearity import expected_calls, most_calls, plan_remark
from pytest_llmprops.benchmarks.oracle.linearity_evidence import SentenceEvidence
from pytest_llmprops.benchmarks.oracle.metrics import metric_rows
from pytest_llmprops.benchmarks.oracle.scheme import Bound
from pytest_llmprops.benchmarks.oracle.sentence_metrics import documents_of
from pytest_llmprops.benchmarks.oracle.settings import QUICK, OracleSettings
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.linearity import (
    Passed,
    all_pass,
    complement,
    different_draws,
    failure_bound,
    needed_tests,
    pooled_bound,
)
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import PLANNED, Chat, Reply
from tests.support.linear_functions import distance_to_homomorphisms, failure_rate
from tests.support.oracle_fakes import SENTENCE, Fake, check, names_of, present
from tests.support.oracle_runs import Subject as Model
from tests.support.oracle_runs import sentence, verdict_on
from tests.support.records import verdict as record

ORACLE = OracleChecker()
FOUR = sentence("Then Oslo wrote to Lima about Quito and Cairo.", 1)
PAGE = (Path(__file__).parents[3] / "docs" / "oracle-method.md").read_text("utf-8")
TARGET: dict[str, Any] = {
    "rule": "majority", "draw": "informative", "samples": 1, "epsilon": 0.1, "delta": 0.05,
}  # fmt: skip


def tabled(table: list[int], m: int = 3) -> Fake:
    """Return an extractor whose f is this table."""
    return Fake(lambda x, _: names_of(table[x], m), m)


def flipped(m: int, flips: dict[int, int]) -> list[int]:
    """Return the table of the ideal extractor with some values changed."""
    return [complement(x, m) ^ flips.get(x, 0) for x in range(1 << m)]


# ---- when tests end


@settings(max_examples=30)
@given(st.integers(2, 5), st.integers(0, 10_000), st.sampled_from([0.1, 0.05]))
def test_linear_extractor_is_always_accepted(m: int, seed: int, epsilon: float) -> None:
    """A linear extractor passes as many tests as the bound needs, and no vector is asked about twice."""
    fake = Fake(lambda x, _: present(x, m), m)
    acceptance = check(fake, seed, **{**TARGET, "epsilon": epsilon})
    needed = needed_tests(m, epsilon, 0.05)
    assert acceptance.accepted
    assert acceptance.values["tests"] == acceptance.values["tests_passed"] == needed
    assert acceptance.values["informative_tests"] == needed
    assert acceptance.why.startswith(f"{needed} of {needed} tests passed; ")
    assert len(SentenceEvidence.from_json(acceptance.evidence).tests) == needed
    assert len(fake.asked) == len(set(fake.asked)) <= min(3 * needed, 2**m - 1) + 1


def test_reason_and_bound_have_what_was_reached() -> None:
    """The reason and the bound have the probability that the tests reach, which is at least 1 - delta."""
    acceptance = check(Fake(lambda x, _: present(x, 4), 4), 1, **TARGET)
    assert all_pass(4, 7, 2) == pytest.approx(0.036457, abs=1e-6)
    text = "an extractor 0.1-far from linear would have been rejected with probability at least 0.963"
    assert acceptance.why == f"7 of 7 tests passed; {text}"
    assert acceptance.bound == Bound(text, 0.1, 0.963)
    assert {"epsilon": 0.1, "delta": 0.05, "known_in_full": 0}.items() <= acceptance.values.items()


def test_all_vectors_known_is_an_exact_statement() -> None:
    """With two entities, one test asks about all vectors, so an accepted extraction is linear for certain."""
    acceptance = check(Fake(lambda x, _: present(x, 2), 2), **TARGET)
    assert acceptance.why == (
        "1 of 1 tests passed; every set of replacements was asked about: the extraction is linear"
    )
    assert acceptance.values["known_in_full"] == 1
    assert acceptance.bound is not None
    assert acceptance.bound.probability == 1
    for flips in ({1: 1}, {2: 2}, {3: 3}):
        assert not check(tabled(flipped(2, flips), 2), **TARGET).accepted


@pytest.mark.parametrize("flips", [{1: 0b101}, {1: 0b001, 6: 0b010, 3: 0b111}])
def test_far_extractor_is_accepted_at_most_delta_of_the_time(flips: dict[int, int]) -> None:
    """Extractors at a verified distance are accepted as often as computed, and at most delta of the time."""
    table, n = flipped(3, flips), 250
    assert distance_to_homomorphisms(table, 3) == len(flips) / 8
    accepted = sum(map(bool, (check(tabled(table), seed, **{**TARGET, "delta": 0.3}) for seed in range(n))))
    assert needed_tests(3, 0.1, 0.3) == 2
    passing = 7 - round(failure_rate(table, 3) * 64 / 6)
    expected = passing * (passing - 1) / 42
    assert expected <= 0.3
    assert binomtest(accepted, n, expected).pvalue > 0.001


def test_tests_end_with_the_batch_that_fails() -> None:
    """Batches have 1, 2, 4 … tests. The first batch with a failing test is the last, and nothing more is asked."""
    sizes = set()
    for seed in range(30):
        fake = tabled(flipped(5, {x: x & 7 for x in range(1, 20)}), 5)
        acceptance = check(fake, seed, **TARGET)
        values, tests = acceptance.values, SentenceEvidence.from_json(acceptance.evidence).tests
        assert acceptance.outcome == "rejected"
        assert acceptance.why.split("; culprits")[0] == (
            f"{values['tests'] - values['tests_passed']:.0f} of {values['tests']:.0f}"
            f" test{'s' if values['tests'] > 1 else ''} failed"
        )
        size = int(values["tests"])
        assert all(test["passed"] for test in tests[: size // 2])
        assert len({text for text, _ in fake.asked}) <= 1 + 3 * size
        sizes.add(size)
    assert {1, 3} <= sizes <= {1, 3, 7, 8}


def test_function_known_in_full_is_checked_in_full() -> None:
    """If the drawn tests pass and cover all vectors, a failing test that was not drawn still rejects.

    f differs at two vectors from the ideal. The three tests with the third vector of their line pass and cover all
    vectors.
    """
    table = flipped(3, {1: 0b100, 2: 0b100})

    def drawn(seed: int) -> set[frozenset[int]]:
        rng = random.Random(seed)
        rng.getrandbits(64)  # the seed of the pool
        return {
            frozenset((x, y, x ^ y)) for x, y in different_draws(random.Random(rng.getrandbits(64)), 3, 3)
        }

    through = {frozenset(line) for line in ((1, 2, 3), (3, 4, 7), (3, 5, 6))}
    seed = next(seed for seed in range(1000) if drawn(seed) == through)
    acceptance = check(tabled(table), seed, **{**TARGET, "delta": 0.2})
    assert acceptance.outcome == "rejected"
    assert (acceptance.values["tests"], acceptance.values["tests_passed"]) == (4, 3)
    assert acceptance.values["known_in_full"] == 0
    linear = check(Fake(lambda x, _: present(x)), seed, **{**TARGET, "delta": 0.2})
    assert (linear.values["tests"], linear.values["known_in_full"]) == (3, 1)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [(Reply("Sorry."), "rejected"), (Reply("", finish_reason="content_filter"), "refused")],
    ids=["unread", "filtered"],
)
def test_unread_sentence_ends_the_tests(reply: Reply, outcome: str) -> None:
    """A changed sentence without a readable reply fails its test; a filtered one refuses the sentence."""
    asked: list[str] = []

    async def ask(chat: Chat) -> Reply:
        asked.append(chat.prompt)
        return reply if SENTENCE not in chat.prompt else await Fake(lambda x, _: present(x))(chat)

    acceptance = check(ask, **TARGET)
    assert acceptance.outcome == outcome
    assert len(asked) == 1 + 3
    assert ("epsilon" in acceptance.values) == (outcome == "rejected")


# ---- settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0.1, "delta": "none"}, "epsilon and delta are set together; delta is missing"),
        ({"delta": 0.1, "epsilon": "none"}, "epsilon and delta are set together; epsilon is missing"),
        ({"tests": 10}, "epsilon and delta decide the number of tests: set both to none to set tests"),
        ({"epsilon": 0.005, "delta": 0.1}, "epsilon must be at least 0.01 and below 1, or none"),
        ({"epsilon": 1, "delta": 0.1}, "epsilon must be at least 0.01 and below 1, or none"),
        ({"epsilon": "nan", "delta": 0.1}, "epsilon=nan: must be a finite number"),
        ({"epsilon": 0.1, "delta": 0}, "delta must be at least 0.001 and below 1, or none"),
        ({"epsilon": 0.1, "delta": 0.1, "rule": "any"}, "need a rule with a bound: set rule to majority or single"),
        ({"epsilon": 0.1, "delta": 0.1, "draw": "uniform"}, "need tests that can fail: set draw to informative"),
    ],
)  # fmt: skip
def test_wrong_targets_are_one_line(wrong: dict[str, Any], message: str) -> None:
    """Settings that make no statement are refused in one line that says how to fix it."""
    with pytest.raises(UsageError, match=message) as error:
        resolve("oracle", ORACLE.protocols, "quick", {k: str(v) for k, v in wrong.items()}, 0)
    assert "\n" not in str(error.value)


# ---- null extractors


def test_null_extractors_play_until_the_same_bound() -> None:
    """A constant list is linear and accepted; noise is accepted at most delta of the time."""
    values = verdict_on(FOUR, Model(), epsilon=0.05, delta=0.05).values
    nulls = {"null_list": 1, "null_empty": 1, "null_list_faithful": 0, "null_coin": 0, "null_drop30": 0}
    assert ({"tests": 12, "tested": 4} | nulls).items() <= values.items()


# ---- plan


@pytest.mark.parametrize("m", [2, 4])
def test_expected_and_highest_calls_are_those_of_measurements(m: int) -> None:
    """The mean number of calls of accepted sentences is the expected one, and none has more than the maximum."""
    chosen = OracleSettings(**{**TARGET, "samples": 2})
    calls = []
    for seed in range(60):
        fake = Fake(lambda x, _: present(x, m), m)
        check(fake, seed, **{**TARGET, "samples": 2})
        calls.append(len(fake.asked) - 2)
    assert max(calls) <= most_calls(chosen, m)
    assert sum(calls) / len(calls) == pytest.approx(expected_calls(chosen, m), rel=0.05)


def test_plan_counts_an_accepted_sentence() -> None:
    """The plan asks what an accepted sentence with four entities needs, and its remark says so."""
    prompts: list[str] = []

    async def ask(chat: Chat) -> Reply:
        prompts.append(chat.prompt)
        return Reply(key=PLANNED)

    check(ask, **{**TARGET, "samples": 3})
    tests = [p for p in prompts[3:] if "list synonyms" not in p]
    chosen = OracleSettings(**{**TARGET, "samples": 3})
    assert len(tests) == 3 * len(set(tests))
    assert 9 * 3 <= len(tests) <= 15 * 3
    assert most_calls(chosen, 12) == 3 * 3 * 11
    assert expected_calls(chosen, 4) == pytest.approx(37.08, abs=0.01)
    assert plan_remark(chosen, 10) == (
        "tests of linearity take 37 calls per accepted sentence with 4 entities, which the plan expects, fewer if"
        " rejected, and at most 99 with up to 12 entities; 10 sentences: 371 expected, 990 at most"
    )
    with_target, plain = (replace(QUICK, epsilon=e, delta=d) for e, d in ((0.1, 0.05), (None, None)))
    items = [sentence("Then Oslo wrote to Lima.", number) for number in range(10)]
    assert list(ORACLE.plan_remarks(items, with_target)) == [plan_remark(chosen, 10)]
    assert list(ORACLE.plan_remarks(items, plain)) == []
    [quick] = ORACLE.plan_remarks(items, QUICK)
    assert "take 35 calls per accepted sentence with 4 entities" in quick
    assert "at most 81 with up to 12 entities" in quick
    assert list(ORACLE.plan_remarks([], with_target)) == []


# ---- documents


@cache
def measured() -> dict[str, float]:
    """Return the values of an accepted sentence with four entities."""
    verdict = verdict_on(FOUR, Model(), epsilon=0.1, delta=0.05)
    assert (verdict.status, verdict.values["tests"]) == ("correct", 7)
    return dict(verdict.values)


def line(number: int, document: str = "a", **values: float) -> VerdictRecord:
    """Return the record of an accepted sentence of a document, with some values changed."""
    cluster = f"oracle/p/{document}"
    name = f"{cluster}-{number:02d}"
    changed = measured() | values
    return record("linearity", number, benchmark="oracle", id=name, cluster=cluster, values=changed)


def test_document_is_accepted_if_all_tested_sentences_are() -> None:
    """A rejected sentence, or one whose tests a content filter ended, means no acceptance; unmeasurable ones do not."""
    own: dict[str, Any] = {"benchmark": "oracle"}
    filtered = record("linearity", 9, cluster="oracle/p/c", status="refused", values={"entities": 4.0}, **own)
    unmeasurable = record(
        "linearity", 8, cluster="oracle/p/d", status="unparsed", values={"entities": 1.0}, **own
    )
    alone = record("linearity", 7, values=dict(line(1).values), **own)
    records = [
        *(line(n) for n in range(3)),
        line(3, "b"), line(4, "b", accepted=0, tests=1, informative_tests=1),
        line(5, "c"), filtered, line(6, "d"), unmeasurable, alone,
    ]  # fmt: skip
    documents = {d.name[-1]: d for d in documents_of(records)}
    assert {name: d.is_accepted for name, d in documents.items()} == {
        "a": True, "b": False, "c": False, "d": True,
    }  # fmt: skip
    assert [(d.accepted, d.tests) for d in documents.values()] == [(3, 21), (1, 8), (1, 7), (1, 7)]
    one, three = documents["d"].bound(), documents["a"].bound()
    assert one.all_pass(0.1) == pytest.approx(all_pass(4, 7, 2))
    # One far sentence of three can have the whole distance, but it is then three times as far.
    assert three.all_pass(0.1) == pytest.approx(all_pass(4, 7, 2))
    assert three.epsilon(0.05) == pytest.approx(one.epsilon(0.05) / 3)


def test_documents_are_metrics_and_a_remark() -> None:
    """Each document has its tests and, if accepted, its bounds; the remark has the weakest bound."""
    records = [
        *(line(n) for n in range(10, 18)),
        line(3, "b"),
        line(4, "b", accepted=0, tests=1, informative_tests=1),
        line(5, "d"),
    ]
    place = ("linearity", "en", "builtin")
    rows = {
        (m.name, m.group): m for m in metric_rows(records) if "tests_per" in m.name or "document" in m.name
    }
    shown = {key: row.value for key, row in rows.items()}
    assert {(m.task, m.language, m.source) for m in rows.values()} == {place}
    assert shown["tests_per_sentence", ""] == pytest.approx(71 / 11)
    assert shown["tests_per_sentence", "accepted"] == 7
    assert shown["tests_per_sentence", "document oracle/p/b"] == 4
    assert shown["document_acceptance_rate", ""] == pytest.approx(2 / 3)
    assert shown["document_bound", "document oracle/p/d"] == pytest.approx(all_pass(4, 7, 2))
    assert shown["document_bound", "document oracle/p/a"] == pytest.approx(all_pass(4, 7, 2) ** 2)
    assert (shown["document_epsilon", "document oracle/p/a"] or 1) < (
        shown["document_epsilon", "document oracle/p/d"] or 0
    )
    assert ("document_bound", "document oracle/p/b") not in shown
    assert rows["document_bound", "document oracle/p/a"].n == 8
    [said] = [text for text in ORACLE.remarks(records) if text.startswith("documents")]
    assert said == (
        "documents: 2 of 3 accepted; in each accepted one, an extractor 0.1-far on average over the tested sentences"
        " would have been rejected with probability at least 0.963"
    )
    [bound] = [text for text in ORACLE.remarks(records) if text.startswith("accepted sentences")]
    assert bound.endswith("0.1-far from linear would have been rejected with probability at least 0.950")


# ---- documentation


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.1), (0.05, 0.05)])
def test_page_has_the_tests_and_calls(epsilon: float, delta: float) -> None:
    """The page's table has the tests, the expected calls and those of as good a bound with a fixed number of tests."""
    chosen = OracleSettings(**{**TARGET, "samples": 3, "epsilon": epsilon, "delta": delta})
    sizes = range(2, 7)
    fixed = math.ceil(math.log(delta) / math.log(1 - failure_bound(epsilon)))
    cells = [
        f"{epsilon:g}, {delta:g}".replace("0.", "."),
        joined(needed_tests(m, epsilon, delta) for m in sizes),
        joined(round(expected_calls(chosen, m)) for m in sizes),
        f"{fixed} tests: {joined(round(with_replacement(m, fixed)) for m in sizes)}",
        str(max(most_calls(chosen, m) for m in range(2, 13))),
    ]
    assert f"| {' | '.join(cells)} |" in PAGE


def test_page_has_the_bound_of_a_document() -> None:
    """The page's example of a document has the numbers of the pooled bound."""
    pooled = pooled_bound([Passed(4, 7)] * 8)
    numbers = (pooled.epsilon(0.05), 8 * pooled.epsilon(0.05), pooled.all_pass(0.1))
    excluded, alone, passes = (f"{number:.2g}".removeprefix("0") for number in numbers)
    text = " ".join(PAGE.split())
    assert (
        f"`document_epsilon` is {excluded} for δ = .05: a mean distance of {excluded} is one sentence at {alone}"
        in text
    )
    assert f"`document_bound` at ε = .1 is {passes}." in text


def joined(numbers: Iterable[int]) -> str:
    """Return numbers as in the cells of the page."""
    return ", ".join(map(str, numbers))


def with_replacement(m: int, n: int) -> float:
    """Return the expected calls of ``n`` informative tests with replacement, 3 samples per vector."""
    vectors = (1 << m) - 1
    return 3 * vectors * (1 - math.pow(1 - 3 / vectors, n))
