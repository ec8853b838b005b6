"""The search for a counterexample to linearity: its strategy, its requests and its results."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fixtures.strategies import replacements
from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker
from pytest_llmprops.benchmarks.oracle.linear_tests import PARAPHRASE_TRIES, OneTest
from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker
from pytest_llmprops.benchmarks.oracle.linearity_evidence import SentenceEvidence
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.benchmarks.oracle.search import LinearitySearch, linearity_search, size_of
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings
from pytest_llmprops.benchmarks.oracle.synonym_rules import Context
from pytest_llmprops.core.benchmark import Counterexample
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.linearity import complement, draws
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Reply, Request
from pytest_llmprops.core.verdicts import Verdict, object_in
from pytest_llmprops.engine.evaluator import Asking, Case, evaluate
from tests.support.linear_functions import is_linear_test
from tests.support.oracle_fakes import (
    POOL,
    RULES,
    SENTENCE,
    SMALL_POOL,
    Behaviour,
    Fake,
    check,
    present,
    sentence_in,
)

Table = Callable[[int], int]
ORACLE = OracleChecker()
OWN = Item("oracle/own/0001", "linearity", "en", fields={"text": SENTENCE, "entities": (), "domain": "own"})
#: every pool name that may occur in the sentence, as one list line each
KNOWN = [
    "person: Adriana",
    "city: Lisbon",
    "country: Kenya",
    "company: Globex",
    *(f"{kind}: {name}" for kind in ("person", "city", "country", "company") for name in POOL.names[kind]),
]


def shrunk(f: Table, m: int, examples: int = 100) -> tuple[int, int] | None:
    """Return the last (x, y) at which hypothesis sees a test of f fail, or None if there is no such point."""
    last = None

    @settings(
        max_examples=examples,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(replacements(m))
    def linear(vectors: tuple[int, int]) -> None:
        nonlocal last
        x, y = vectors
        if not is_linear_test(f(x), f(y), f(x ^ y), m):
            last = vectors
            raise AssertionError

    try:
        linear()
    except AssertionError:
        assert last is not None
    return last


def fewest(f: Table, m: int) -> int:
    """Return the smallest number of replaced entities that makes a test of f fail, by trying all."""
    points = ((x, y) for x in range(1 << m) for y in range(1 << m))
    return min((x | y).bit_count() for x, y in points if not is_linear_test(f(x), f(y), f(x ^ y), m))


def inseparable(a: int, b: int, m: int) -> Table:
    """Both entities are lost if exactly one of them is replaced."""

    def f(x: int) -> int:
        apart = (x >> a ^ x >> b) & 1
        return complement(x, m) | (1 << a | 1 << b if apart else 0)

    return f


def fragile(places: tuple[int, ...], m: int) -> Table:
    """The first entity is lost if all of these are replaced."""

    def f(x: int) -> int:
        return complement(x, m) | (all(x >> place & 1 for place in places) << places[0])

    return f


def test_every_pair_of_vectors_can_be_drawn() -> None:
    """The search can draw every x and y."""
    m, seen = 2, set()

    @settings(max_examples=500, derandomize=True)
    @given(replacements(m))
    def collect(vectors: tuple[int, int]) -> None:
        seen.add(vectors)

    collect()
    assert seen == {(x, y) for x in range(1 << m) for y in range(1 << m)}


@pytest.mark.parametrize("m", [4, 12])
def test_shrinks_to_two_inseparable_entities(m: int) -> None:
    """For any two inseparable entities, hypothesis shrinks to x with one and y with the other."""
    rng = random.Random(m)
    for _ in range(4):
        a, b = rng.sample(range(m), 2)
        smallest = shrunk(inseparable(a, b, m), m)
        assert smallest is not None
        assert {*smallest} == {1 << a, 1 << b}


def test_shrinks_to_the_fewest_entities() -> None:
    """A violation that needs three entities shrinks to three, whatever the first example replaces."""
    rng = random.Random(0)
    for m in (4, 5, 6):
        for _ in range(4):
            places = tuple(rng.sample(range(m), 3))
            f = fragile(places, m)
            smallest = shrunk(f, m, examples=300)
            assert smallest is not None
            assert (smallest[0] | smallest[1]).bit_count() == fewest(f, m)


def test_order_of_violations() -> None:
    """Violations are ordered by the number of replaced entities, then by the number of bits in x and y."""
    points = ((0b100, 0), (0b10, 0b01), (0b100, 0b10), (0b11, 0b01), (0b11, 0b11), (0b1, 0b110))
    tests = [OneTest(x, y, 0, 1) for x, y in points]
    for seed in range(5):
        assert sorted(random.Random(seed).sample(tests, len(tests)), key=size_of) == tests


# ---- searches of a sentence


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop for one search, with a cache of its replies."""
    with closing(asyncio.new_event_loop()) as event_loop:
        yield event_loop


class Searching:
    """A search of SENTENCE, run point by point, on a fake that extracts as ``behave`` says."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        behave: Behaviour,
        m: int = 5,
        most: int = 1000,
        replications: int = 0,
        **measured: Any,
    ) -> None:
        self.fake, self._loop = Fake(behave, m), loop
        checker = LinearityChecker(OracleSettings(**{"samples": 3, **measured}), RULES, SMALL_POOL)
        search = loop.run_until_complete(
            linearity_search(checker, SENTENCE, Oracle(self.fake), 0, most, replications)
        )
        assert isinstance(search, LinearitySearch)
        self.search = search
        #: requests before the search itself
        self.before = len(self.fake.asked)

    def holds(self, x: int, y: int) -> bool | None:
        """Return True if the property holds at one point."""
        return self._loop.run_until_complete(self.search.holds(x, y))

    def all_points(self) -> list[bool | None]:
        """Check every x and y, the largest first."""
        size = 1 << self.search.size
        return [self.holds(x, y) for x in reversed(range(size)) for y in range(size)]

    @property
    def counterexample(self) -> Counterexample | None:
        """Return the smallest counterexample so far."""
        return self._loop.run_until_complete(self.search.counterexample())

    @property
    def asked(self) -> list[tuple[str, int]]:
        """Return the search's requests in order."""
        return self.fake.asked[self.before :]


def ideal(x: int, sample: int) -> list[str]:
    """Extract the names in R(x)."""
    return present(x, 5)


def lisbon_and_globex(x: int, sample: int) -> list[str]:
    """Extract entities 1 and 3 only together."""
    apart = (x >> 1 ^ x >> 3) & 1
    return [name for i, name in enumerate(present(x, 5)) if not (apart and i in (1, 3))]


@pytest.mark.parametrize("rule", ["any", "majority", "single"])
def test_counterexample_names_the_inseparable_entities(loop: asyncio.AbstractEventLoop, rule: str) -> None:
    """The smallest violation is kept, with its two entities, their kind and both sentences."""
    searching = Searching(loop, lisbon_and_globex, rule=rule)
    assert searching.search.size == 5
    assert False in searching.all_points()
    counterexample = searching.counterexample
    assert counterexample is not None
    smallest = {"x": ["Lisbon"], "y": ["Globex"], "replaced": 2, "entities": 5}
    assert {name: counterexample.values[name] for name in smallest} == smallest
    culprits = [(c["name"], c["kinds"]) for c in counterexample.values["culprits"]]
    assert culprits == [("Lisbon", ["assumed knowledge"]), ("Globex", ["assumed knowledge"])]
    assert '2 of 5 entities replaced (x: "Lisbon"; y: "Globex")' in counterexample.why
    [test] = SentenceEvidence.from_json(counterexample.evidence).tests
    assert object_in(test, "x")["sentence"] == SENTENCE.replace("Lisbon", "Nairobi")
    assert object_in(test, "y")["sentence"] == SENTENCE.replace("Globex", "Initech")


def test_each_sentence_is_requested_once(loop: asyncio.AbstractEventLoop) -> None:
    """Each sentence is requested once per sample, however often its vector is drawn; the original is known."""
    searching = Searching(loop, ideal, samples=3)
    for x, y in ((0, 0), (1, 2), (1, 2), (3, 2), (3, 1), (2, 2)):
        assert searching.holds(x, y)
    assert len(searching.asked) == len(set(searching.asked)) == 9 == searching.search.asked
    assert {sample for _, sample in searching.asked} == {0, 1, 2}
    assert SENTENCE not in {text for text, _ in searching.asked}


@given(st.integers(0, 100), st.lists(st.tuples(st.integers(0, 31), st.integers(0, 31)), max_size=20))
def test_requests_stay_within_the_limit(most: int, points: list[tuple[int, int]]) -> None:
    """Requests stay within the limit, and a point whose sentences are known is still decided."""
    with closing(asyncio.new_event_loop()) as loop:
        searching = Searching(loop, ideal, most=most)
        results = [searching.holds(x, y) for x, y in points]
    assert len(searching.asked) == searching.search.asked <= most
    assert False not in results
    known = {0}
    for (x, y), held in zip(points, results, strict=True):
        new = {x, y, x ^ y} - known
        if held is None:
            assert 3 * len(new) + 3 * (len(known) - 1) > most
        else:
            known |= new


def test_paraphrase_retries_count_as_requests(loop: asyncio.AbstractEventLoop) -> None:
    """If R is a paraphrase, each sentence, including the original, takes up to three more requests."""
    checker = LinearityChecker(OracleSettings(samples=2, paraphrase=True), RULES, SMALL_POOL)
    prepared = loop.run_until_complete(
        LinearityChecker(OracleSettings(samples=2), RULES, SMALL_POOL).prepare(
            SENTENCE, Oracle(Fake(ideal, 5)), 0
        )
    )

    async def unwilling(chat: Chat) -> Reply:
        return Reply("1. city: Lisbon" if chat.messages[-1].content.startswith("Please perform") else "no")

    oracle = Oracle(unwilling)
    searching = LinearitySearch(checker, prepared, oracle, most=2 * (2 + PARAPHRASE_TRIES))
    assert loop.run_until_complete(searching.holds(0, 1)) is not None
    # The original's extraction is known, because no paraphrase of the original could be made.
    assert oracle.asked == 2 * PARAPHRASE_TRIES + 2
    assert searching.asked == 2 * (2 + PARAPHRASE_TRIES)
    assert loop.run_until_complete(searching.holds(0, 2)) is None


@pytest.mark.parametrize("rule", ["any", "majority", "single"])
def test_counterexample_is_replicated(loop: asyncio.AbstractEventLoop, rule: str) -> None:
    """The sentences of a counterexample are asked about again with new samples, once."""
    searching = Searching(loop, lisbon_and_globex, replications=4, rule=rule)
    assert searching.holds(0b00010, 0b01000) is False
    before = searching.search.asked
    counterexample = searching.counterexample
    assert counterexample is not None
    assert (counterexample.replicated, counterexample.replications) == (4, 4)
    assert counterexample.is_repeated
    assert searching.search.asked == before + 3 * 4 * 3
    assert searching.counterexample is counterexample
    assert len(searching.asked) == len(set(searching.asked)) == searching.search.asked


@pytest.mark.parametrize("rule", ["any", "majority", "single"])
def test_noise_does_not_hide_a_dependence(loop: asyncio.AbstractEventLoop, rule: str) -> None:
    """After a counterexample that does not repeat, its property holds, and the search finds the next one."""

    def behave(x: int, sample: int) -> list[str]:
        lost = "Tobias" if x == 0b00101 and sample < 3 else ""
        return [name for name in lisbon_and_globex(x, sample) if name != lost]

    searching = Searching(loop, behave, replications=4, rule=rule)
    assert searching.holds(0b00001, 0b00100) is False
    noise = searching.counterexample
    assert noise is not None
    assert (noise.replicated, noise.replications, noise.values["x"]) == (0, 4, ["Adriana"])
    assert searching.holds(0b00001, 0b00100) is True
    assert searching.counterexample is noise
    assert searching.holds(0b00110, 0b01000) is False
    found = searching.counterexample
    assert found is not None
    assert (found.replicated, found.values["y"]) == (4, ["Globex"])


def test_more_than_60_percent_of_the_replications_are_needed(loop: asyncio.AbstractEventLoop) -> None:
    """A violation that 4 of 5 replications repeat is a counterexample; one that 3 repeat is not, and then holds."""
    for repeats, is_repeated in ((4, True), (3, False)):

        def behave(x: int, sample: int, last: int = 500_000 + 3 * repeats) -> list[str]:
            return lisbon_and_globex(x, sample) if sample < last else present(x, 5)

        searching = Searching(loop, behave, replications=5, rule="majority")
        assert searching.holds(0b00010, 0b01000) is False
        counterexample = searching.counterexample
        assert counterexample is not None
        assert (counterexample.replicated, counterexample.is_repeated) == (repeats, is_repeated)
        asked = searching.search.asked
        assert searching.holds(0b00010, 0b01000) is not is_repeated
        assert searching.counterexample == counterexample
        assert searching.search.asked == asked
    assert [n for n in range(1, 11) if Counterexample("", {}, {}, 10, n).is_repeated] == [7, 8, 9, 10]


async def prepared_search(ask: Any) -> LinearitySearch | str:
    """Return a search with one sample per sentence, or why there is none."""
    checker = LinearityChecker(OracleSettings(samples=1), RULES, SMALL_POOL)
    return await linearity_search(checker, SENTENCE, Oracle(ask), 0, 100)


def test_replies_that_cannot_be_read(loop: asyncio.AbstractEventLoop) -> None:
    """Unreadable replies break the property as in the measurement, without culprits."""

    async def ask(chat: Chat) -> Reply:
        known = SENTENCE in chat.messages[-1].content
        return Reply("1. city: Lisbon\n2. company: Globex" if known else "I would rather not say.")

    search = loop.run_until_complete(prepared_search(ask))
    assert isinstance(search, LinearitySearch)
    assert loop.run_until_complete(search.holds(1, 2)) is False
    smallest = loop.run_until_complete(search.counterexample())
    assert smallest is not None
    assert smallest.why.endswith("a reply could not be read")


@pytest.mark.parametrize(
    ("reply", "why"),
    [("None", "no entities"), ("Hello.", "not a list"), ("1. city: Atlantis", "is in the sentence")],
)
def test_sentences_that_cannot_be_searched(loop: asyncio.AbstractEventLoop, reply: str, why: str) -> None:
    """A sentence that cannot be tested cannot be searched, for the same reason as in the measurement."""

    async def ask(chat: Chat) -> Reply:
        return Reply(reply)

    reason = loop.run_until_complete(prepared_search(ask))
    assert isinstance(reason, str)
    assert why in reason


def test_search_and_measurement_agree(loop: asyncio.AbstractEventLoop) -> None:
    """At the points drawn by the measurement, the search finds the same violations."""
    seed, tests = 3, 40
    acceptance = check(Fake(lisbon_and_globex, 5), seed, samples=3, tests=tests, rule="majority")
    rng = random.Random(seed)
    rng.getrandbits(64)
    pairs = draws(random.Random(rng.getrandbits(64)), 5, tests)
    searching = Searching(loop, lisbon_and_globex, rule="majority")
    held = [searching.holds(x, y) for x, y in pairs]
    assert 0 < sum(map(bool, held)) == acceptance.values["tests_passed"] < tests


@pytest.mark.parametrize("which", ["rejected", "all"])
def test_benchmark_searches_with_the_measurements_synonyms(which: str) -> None:
    """The benchmark's preparation sends no new requests and uses the same synonyms as its measurement."""
    context = Context(RULES, POOL)
    changed = {"search": which, "tests": "9", "epsilon": "none", "delta": "none"}
    protocol = resolve("oracle", ORACLE.protocols, "quick", changed, 0)
    asked: list[Request] = []

    async def reply(label: str, role: str, request: Request) -> Reply:
        assert isinstance(request, Chat)
        asked.append(request)
        text = sentence_in(request)
        names = [line for line in KNOWN if line.partition(": ")[2] in text]
        if text != SENTENCE and zlib.crc32(text.encode()) % 2:
            names = names[1:]
        return Reply("\n".join(f"{n}. {line}" for n, line in enumerate(names, 1)) or "None")

    async def both() -> tuple[Verdict, LinearitySearch | str, int]:
        case = Case(ORACLE, OWN, context, protocol, "m")
        verdict = (await evaluate(case, reply)).verdict
        assert verdict is not None

        async def measured() -> Verdict:
            assert which == "rejected", "nobody has to know"
            return verdict

        before = len(asked)
        search = await ORACLE.search(OWN, context, Asking(case, reply), protocol, measured, "linearity")
        assert isinstance(search, LinearitySearch | str)
        return verdict, search, before

    verdict, search, before = asyncio.run(both())
    assert verdict.given == "rejected"
    assert isinstance(search, LinearitySearch)
    assert {*asked[before:]} <= {*asked[:before]}
    assert len(asked) > before
    assert search.prepared.evidence.entities == SentenceEvidence.from_json(verdict.evidence).entities
    assert search.most == protocol.settings.shrink_calls


@pytest.mark.parametrize(
    ("task", "which", "wanted"),
    [("linearity", "all", True), ("linearity", "none", False), ("yes", "all", False)],
)
def test_items_that_are_searched(task: str, which: str, wanted: bool) -> None:
    """Only linearity items are searched, and none if the settings turn the search off."""
    settings = resolve("oracle", ORACLE.protocols, "quick", {"search": which}, 0).settings
    assert ORACLE.searches(Item("i", task, "en"), settings, "linearity") == wanted
