"""Simulated extractors on the built-in sentences: what their acceptances say, and the table of docs/oracle.md."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.oracle.extraction import contains_words, normalised
from pytest_llmprops.benchmarks.oracle.items import items
from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker, Sentence
from pytest_llmprops.benchmarks.oracle.metrics import metric_rows
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.benchmarks.oracle.settings import LINEARITY_QUICK, PAPER
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.oracle_fakes import POOL, RULES, listed, sentence_in
from tests.support.records import verdict

pytestmark = pytest.mark.simulation

PAGE = (Path(__file__).parents[3] / "docs" / "oracle.md").read_text("utf-8")
UNTIL = "tests until a bound"
PROTOCOLS = {
    "quick": LINEARITY_QUICK,
    "paper": PAPER,
    UNTIL: replace(LINEARITY_QUICK, epsilon=0.1, delta=0.05),
}
#: extractor in the page's table -> share of entities that it drops, and whether it ignores the sentence
EXTRACTORS = {
    "ideal": (0.0, False),
    "the same list for every sentence": (0.0, True),
    "drops each entity with probability 30%": (0.3, False),
}
#: replies to the prompts of the synonym generator: named, and words that fit most entities
NEW_NAMES = ("Quorvane", "Brintell", "zorvane", "zorvanes", "forty-eight", "7,731")


@dataclass
class Extractor:
    """An extractor that knows the labels of one sentence and, once they are chosen, the synonyms."""

    item: Item
    drops: float
    is_constant: bool
    synonyms: Sequence[Synonym] = ()
    noise: random.Random = field(default_factory=lambda: random.Random(1))

    async def __call__(self, chat: Chat) -> Reply:
        """Reply to prompts 1 to 4."""
        if "normal entity" in chat.prompt:
            return Reply("[[named entity]]")
        if "list of the synonyms" in chat.prompt:
            return Reply("\n".join(f"{n}. {name}" for n, name in enumerate(NEW_NAMES, 1)))
        names = self._names(sentence_in(chat))
        return Reply(listed([name for name in names if self.noise.random() >= self.drops]))

    def _names(self, text: str) -> list[str]:
        labels = [name for name, _ in self.item["entities"]]
        if self.is_constant or text == self.item["text"]:
            return labels
        key = normalised(text)
        changed = {s.entity.key: s.text for s in self.synonyms if contains_words(key, s.key)}
        return [changed.get(normalised(name), name) for name in labels]


async def measure(item: Item, protocol: str, drops: float, is_constant: bool) -> dict[str, float]:
    """Return the values of one sentence."""
    checker = LinearityChecker(PROTOCOLS[protocol], RULES, POOL)
    sentence = Sentence(item["text"], tuple(name for name, _ in item["entities"]))
    known = Extractor(item, drops, is_constant)
    # The same noise and the same seed give the same synonyms as in the measurement.
    prepared = await checker.prepare(sentence, Oracle(known), random.Random(item.id).getrandbits(64))
    extractor = Extractor(item, drops, is_constant, prepared.subject.synonyms)
    return dict((await checker.check(sentence, Oracle(extractor), random.Random(item.id))).values)


@cache
def metrics(protocol: str, name: str) -> dict[str, Metric]:
    """Return the metrics of an extractor over all built-in sentences with labels."""
    every = items(DataFolder(builtin_data(), "builtin"))
    sentences = [item for item in every if item.task == "linearity" and item["entities"]]
    records = [
        verdict("linearity", n, benchmark="oracle", id=item.id, values=values)
        for n, item in enumerate(sentences)
        for values in [asyncio.run(measure(item, protocol, *EXTRACTORS[name]))]
    ]
    return {metric.name: metric for metric in metric_rows(records) if not metric.group}


def share(metric: Metric) -> str:
    """Return a rate as the page prints it."""
    assert metric.value is not None
    return f"{metric.value * metric.n:.0f} of {metric.n}"


@pytest.mark.parametrize("name", EXTRACTORS)
def test_page_has_the_measured_acceptances(name: str) -> None:
    """The page's table has the acceptances of each extractor in each protocol."""
    [row] = re.findall(rf"^\| {re.escape(name)} \| (.* of .*) \|$", PAGE, re.M)
    rates = ("acceptance_rate", "faithful_acceptance_rate")
    assert row.split(" | ") == [
        share(metrics(protocol, name)[rate]) for protocol in PROTOCOLS for rate in rates
    ]


def test_page_has_the_tests_until_a_bound() -> None:
    """The page says how many tests an ideal and a noisy extractor take."""
    ideal, noisy = (
        metrics(UNTIL, name)["tests_per_sentence"].value for name in EXTRACTORS if "same list" not in name
    )
    text = " ".join(PAGE.split())
    assert f"takes {ideal:.1f} tests per sentence, and the one that drops entities {noisy:.1f}" in text


def test_constant_list_does_not_meet_the_pages_gate() -> None:
    """The metric of the page's gate is 0 for a constant list, although every sentence is accepted."""
    [name] = re.findall(r'task = "linearity"\nmetric = "(\w+)"', PAGE)
    measured = metrics("quick", "the same list for every sentence")
    assert measured["acceptance_rate"].value == 1
    assert measured[name].value == 0
    assert metrics("quick", "ideal")[name].value == 1


def test_page_has_the_share_of_tests_that_cannot_fail() -> None:
    """The page says how many tests and sentences of the ideal extractor tell nothing in each protocol."""
    paper, quick = (metrics(protocol, "ideal") for protocol in ("paper", "quick"))
    vacuous, none = paper["vacuous_test_rate"].value, share(paper["no_informative_test_rate"])
    assert vacuous is not None
    assert (
        f"{100 * vacuous:.0f}% of the tests of the ideal extractor could not fail, and {none} sentences"
        in PAGE
    )
    assert quick["vacuous_test_rate"].value == 0
    assert f"in `quick`, {share(quick['no_informative_test_rate'])} have" in " ".join(PAGE.split())
