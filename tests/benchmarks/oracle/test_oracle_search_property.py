"""Searches for counterexamples to accepted answers: what they find, and what they cost."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import SearchStrategy

from fixtures.strategies import choices, replacements
from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.benchmarks.oracle.search import (
    PAIR_CALLS,
    most_calls,
    pair_search,
    pair_search_of,
    repeated,
)
from pytest_llmprops.benchmarks.oracle.settings import QUICK
from pytest_llmprops.benchmarks.oracle.synonyms import Context
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Reply, Request
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.engine.evaluation.evaluator import Asking, Case, evaluate
from pytest_llmprops.plugin.searching import Search
from tests.support.oracle_fakes import ENTITIES, RULES, SENTENCE, SMALL_POOL, Behaviour, Fake, present
from tests.support.oracle_runs import Subject, pair, sentence
from tests.support.scripted import replied

ORACLE = OracleChecker()
M = len(ENTITIES)


PROTOCOL = resolve("oracle", ORACLE.protocols, "quick", {}, 0)


def made(search: Search, points: Callable[[Any], SearchStrategy[Any]]) -> Search:
    """Return the search after it ran on points of its size."""

    @given(points(search.size))
    def holds(point: tuple[int, ...]) -> None:
        assert search.holds(*point)

    try:
        search.run(holds)
    except AssertionError:
        assert search.counterexample is not None
    return search


class Searched:
    """The measurement and, if it accepts, the search of a sentence with five entities; the number seeds its tests.

    :ivar measured: number of requests of the measurement.
    :ivar asked: number of all requests; each is sent once, as by the reply store.
    """

    def __init__(self, number: int, behave: Behaviour) -> None:
        fake = Fake(behave, M)
        replies: dict[tuple[Any, int], Reply] = {}

        async def ask(model: str, role: str, request: Request) -> Reply:
            assert isinstance(request, Chat)
            key = request.messages, request.sample
            if key not in replies:
                replies[key] = await fake(request)
            return replies[key]

        case = Case(
            ORACLE, sentence(SENTENCE, number, domain="own"), Context(RULES, SMALL_POOL), PROTOCOL, "m"
        )
        verdict = asyncio.run(evaluate(case, ask)).verdict
        assert verdict is not None

        async def measured() -> Verdict:
            return verdict

        self.measured = len(replies)
        self.search: Search | None = None
        if verdict.status == "correct":
            asking = Asking(case, ask)
            found = asyncio.run(
                ORACLE.search(case.item, case.context, asking, PROTOCOL, measured, "linearity")
            )
            assert not isinstance(found, str)
            self.search = made(Search(case, "linearity", found, asking, asyncio.run), replacements)
        self.asked = len(replies)

    @property
    def is_found(self) -> bool:
        """True if the measurement rejects it, or the search has a counterexample that repeats."""
        if self.search is None:
            return True
        return self.search.counterexample is not None and self.search.counterexample.is_repeated


def depends(a: int, b: int) -> Behaviour:
    """Lose the replacement of entity ``b`` where ``a`` is replaced, too."""
    return lambda x, _: [n for i, n in enumerate(present(x, M)) if i != b or not (x >> a & x >> b & 1)]


def test_order_dependent_extractors_are_found() -> None:
    """Each of ten is found on some of six sentences, by the measurement or by the search."""
    for a, b in itertools.combinations(range(M), 2):
        assert any(Searched(number, depends(b, a)).is_found for number in range(6)), (a, b)


def test_a_perfect_extractor_has_no_counterexample_and_costs_a_quarter() -> None:
    """Searches take at most a quarter of the measurement's calls, and the plan has their maximum."""
    for number in range(10):
        one = Searched(number, lambda x, _: present(x, M))
        assert one.search is not None
        assert one.search.counterexample is None
        assert 0 < one.asked - one.measured <= min(one.measured / 4, most_calls(QUICK, "linearity"))
    assert ORACLE.search_calls(QUICK, "linearity") == QUICK.samples * (1 + 3 * QUICK.tests) // 4


def noisy(share: float, seed: int) -> Behaviour:
    """Drop each entity of each reply about a changed sentence with this probability."""
    rng = random.Random(seed)
    return lambda x, _: [name for name in present(x, M) if not x or rng.random() >= share]


def test_noise_is_no_counterexample() -> None:
    """Of the accepted sentences of an extractor that drops 10%, at most one in a hundred has a counterexample.

    A violation is asked about again until it can no longer repeat in more than three of five replications.
    """
    searched = [one for n in range(200) if (one := Searched(n % 40, noisy(0.1, n))).search is not None]
    assert len(searched) > 20
    violated = [one.search.counterexample for one in searched if one.search and one.search.counterexample]
    assert sum(one.is_found for one in searched) <= len(searched) / 100
    assert all(one.replications - one.replicated == 2 for one in violated)


def test_a_violation_is_asked_about_until_it_is_decided() -> None:
    """Two replications that do not repeat it decide."""
    for answers, result in {
        "yyyyy": (5, 5),
        "ynyyy": (5, 4),
        "nn": (2, 0),
        "ynyn": (4, 2),
        "yyynn": (5, 3),
    }.items():
        asked: list[int] = []

        async def again(number: int, answers: str = answers, asked: list[int] = asked) -> bool:
            asked.append(number)
            return answers[number] == "y"

        assert asyncio.run(repeated(again)) == result
        assert asked == list(range(result[0]))


DOGS, CATS = "red dogs barked loudly last night.", "small cats slept under warm tables."


def searched_pair(
    name: str, same: Callable[[str, str], bool], said: bool, paraphrases: Sequence[str] = ()
) -> tuple[Any, int]:
    """Return the search on a pair, after it ran, or why there is none; and the number of questions that it asked."""
    subject, asked = Subject(same=same, paraphrases=lambda text: paraphrases), 0

    async def ask(chat: Chat) -> Reply:
        nonlocal asked
        asked += "Decide whether" in chat.prompt
        return replied(subject, chat)

    found = asyncio.run(pair_search_of(name, DOGS, CATS, said, Oracle(ask), QUICK))
    if isinstance(found, str):
        return found, asked
    case = Case(ORACLE, pair(DOGS, CATS, 1), None, PROTOCOL, "m")
    nothing: Any = None
    return made(Search(case, name, found, Asking(case, nothing), asyncio.run), choices), asked


def test_triangular_evidence_is_a_counterexample_to_a_no() -> None:
    """A paraphrase that is called equivalent to both sentences contradicts the no, if that repeats."""
    search, asked = searched_pair(
        "no", lambda a, b: {a, b} != {DOGS, CATS}, False, ["at night many hounds made noise."]
    )
    assert search.counterexample.why.startswith(f'no to "{DOGS}" and "{CATS}", but yes to "at night many')
    assert search.counterexample.values["answers"] == [[1, 2, "no"], [3, 2, "yes"], [3, 1, "yes"]]
    assert (search.counterexample.replications, search.counterexample.replicated) == (5, 5)
    # Two questions of the search, and three in each replication.
    assert asked == PAIR_CALLS["no"] + 15


@pytest.mark.parametrize("said", [True, False])
def test_an_answer_that_depends_on_the_order_is_a_counterexample(said: bool) -> None:
    """The other order is one question."""
    search, asked = searched_pair("symmetry", lambda a, b: (a == DOGS) == said, said)
    assert "to the same sentences in the other order" in search.counterexample.why
    assert asked == PAIR_CALLS["symmetry"] + 10
    search, asked = searched_pair("symmetry", lambda a, b: said, said)
    assert (search.counterexample, asked) == (None, PAIR_CALLS["symmetry"])


def test_what_cannot_be_searched_on_a_pair_says_why() -> None:
    """A yes has no triangular evidence, and a no without a paraphrase neither."""
    assert searched_pair("no", lambda a, b: True, True)[0] == "its answer is yes"
    assert searched_pair("no", lambda a, b: False, False)[0] == "no paraphrase can be used"


def test_each_pair_has_one_search() -> None:
    """A no takes at least five calls, and the searches of all pairs at most a quarter of that."""
    items = ORACLE.load(DataFolder(builtin_data(), "builtin")).items
    pairs = [item for item in items if item.task in ("yes", "no")]
    names = [pair_search(one.id) for one in pairs]
    assert {*names} == {"no", "symmetry"}
    assert sum(map(PAIR_CALLS.__getitem__, names)) <= 5 * len(names) / 4
    paper = ORACLE.protocols["paper"].settings
    for one, searched in zip(pairs, names, strict=True):
        assert [name for name in ORACLE.properties if ORACLE.searches(one, QUICK, name)] == [searched]
        assert not any(ORACLE.searches(one, paper, name) for name in ORACLE.properties)
