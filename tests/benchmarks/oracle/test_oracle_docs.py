"""The checker in docs/oracle.md runs unchanged, has under 40 lines, and does what the page says."""

from __future__ import annotations

import asyncio
import json
import random
import re
import types
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import pytest
from scipy.stats import binomtest

from pytest_llmprops.benchmarks.oracle.extraction import contains_words, normalised
from pytest_llmprops.benchmarks.oracle.items import items
from pytest_llmprops.benchmarks.oracle.linearity import LinearityChecker, Sentence
from pytest_llmprops.benchmarks.oracle.metric_names import DIRECTIONS
from pytest_llmprops.benchmarks.oracle.metrics import metric_rows
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.benchmarks.oracle.settings import LINEARITY_QUICK, PAPER, OracleSettings
from pytest_llmprops.benchmarks.oracle.synonyms import Synonym
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.oracle_fakes import POOL, RULES, listed, sentence_in
from tests.support.records import verdict
from tests.support.runs import ROOT, Runner

PAGE = (ROOT / "docs" / "oracle.md").read_text("utf-8")
EXAMPLE, SEARCHED = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
LENGTHS = ["Nile", "Amur", "Congo", "Volga", "Indus", "Rhine", "Tagus", "Ebro", "Thames"]

MODELS = {
    # by length, with one word too many
    "knows": "return 'The ' + min(re.findall(r'[A-Z][a-z]+(?= or|\\?)', text), key={lengths}.index) + '.'",
    # always the first one named, which makes cycles
    "first": "return re.search(r': (\\w+) or', text)[1]",
    "silent": "return 'It depends.'",
}


def model(run: Runner, name: str) -> str:
    """Return the specification of one of the models."""
    body = MODELS[name].format(lengths=LENGTHS) if name == "knows" else MODELS[name]
    file = run.write(f"{name}.py", f"import re\n\ndef reply(chat):\n    text = chat.prompt\n    {body}\n")
    return f"fake:call?file={file}"


def test_example_checker_has_fewer_than_40_lines() -> None:
    """The checker, benchmark and test together are as short as the page claims."""
    assert 20 < len(EXAMPLE.splitlines()) < 40


@pytest.mark.parametrize(
    ("name", "status", "reason", "code"),
    [
        ("knows", "correct", "0 of 3 triples are cycles", 0),
        ("first", "wrong", "3 of 3 triples are cycles", 1),
        ("silent", "unparsed", "a reply names none of the two, or both", 1),
    ],
)
def test_example_checker_runs_unchanged(run: Runner, name: str, status: str, reason: str, code: int) -> None:
    """A model with an order is accepted, one that picks the first is not, and no answer is undecided."""
    run.write("test_rivers.py", EXAMPLE)
    done = run("--model", model(run, name), "-q")
    assert done.code == code, done.output
    verdict = done.verdicts["rivers/0001"]
    assert (verdict["status"], verdict["reason"], verdict["task"]) == (status, reason, "length")
    assert len(verdict["requests"]) == 9


@pytest.mark.parametrize(("counts", "code"), [(12, 1), (60, 0)])
def test_example_search_runs_unchanged(run: Runner, counts: int, code: int) -> None:
    """A model that counts to 12 miscounts 13 letters, and one that counts to 60 has no counterexample."""
    run.write("test_letters.py", SEARCHED)
    body = f"n = chat.prompt.split()[4].count('a')\n    return str(n if n <= {counts} else {counts})"
    file = run.write("counter.py", f"def reply(chat):\n    {body}\n")
    done = run("--model", f"fake:call?file={file}", "-q")
    assert done.code == code, done.output
    assert done.verdicts["letters/a"]["status"] == "correct"
    [result] = [json.loads(line) for line in (done.folder / "searches.jsonl").read_text("utf-8").splitlines()]
    if code:
        assert result["counterexample"] == {
            "why": "miscounts 13 letters", "letters": 13, "evidence": {"reply": "12"},
        }  # fmt: skip
        assert "  letters/a: miscounts 13 letters" in done.output
    else:
        assert result["counterexample"] is None
        assert result["examples"] > 30


def test_coin_is_accepted_as_often_as_the_bound_says() -> None:
    """A fair coin makes no cycle in three triples with probability 0.75 cubed."""
    module = types.ModuleType("rivers")
    exec(compile(EXAMPLE, "docs/oracle.md", "exec"), module.__dict__)
    rng = random.Random(4)

    async def coin(chat: Chat) -> Reply:
        two = re.search(r": (\w+) or (\w+)\?", chat.prompt)
        assert two
        return Reply(two[rng.randint(1, 2)])

    async def trials(count: int) -> list[Any]:
        [item] = module.Rivers().load(None)
        return [await module.Order().check(item, Oracle(coin), rng) for _ in range(count)]

    result = asyncio.run(trials(2000))
    assert {f.bound.probability for f in result} == {0.75**3}
    assert binomtest(sum(f.accepted for f in result), 2000, 0.75**3).pvalue > 0.001


def test_page_lists_the_existing_metrics_and_settings() -> None:
    """The page lists every metric, only existing metrics and settings, and the number of built-in items."""
    section = PAGE[PAGE.index("## Metrics") : PAGE.index("```toml")]
    named = {name for row in re.findall(r"^\| .*", section, re.M) for name in re.findall(r"`([a-z_]+)`", row)}
    groups = {"linearity", "accepted", "general", "technical", "yes", "no", "pairs", "or", "and"}
    assert named - groups == set(DIRECTIONS)
    settings = {field.name for field in fields(OracleSettings)}
    assert set(re.findall(r"oracle\.([a-z_]+)=", PAGE)) <= settings
    tables = PAGE[PAGE.index("## Settings") : PAGE.index("## Metrics")]
    values = {
        "paper", "quick", "any", "majority", "or", "asked", "potential", "uniform", "informative", "even",
        "indifferentiable", "covering", "printed", "bar", "allow",
    }  # fmt: skip
    assert set(re.findall(r"`([a-z_]+)`", tables)) - values <= settings
    for name, what in (("general", "general"), ("technical", "technical"), ("pairs", "labelled pairs")):
        rows = len((ROOT / "data" / "oracle" / f"{name}.jsonl").read_text("utf-8").splitlines())
        assert re.search(rf"\b{rows} {what}", PAGE), (rows, what)


# ---- extractors of known behaviour


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


@pytest.mark.simulation
@pytest.mark.parametrize("name", EXTRACTORS)
def test_page_has_the_measured_acceptances(name: str) -> None:
    """The page's table has the acceptances of each extractor in each protocol."""
    [row] = re.findall(rf"^\| {re.escape(name)} \| (.* of .*) \|$", PAGE, re.M)
    rates = ("acceptance_rate", "faithful_acceptance_rate")
    assert row.split(" | ") == [
        share(metrics(protocol, name)[rate]) for protocol in PROTOCOLS for rate in rates
    ]


@pytest.mark.simulation
def test_page_has_the_tests_until_a_bound() -> None:
    """The page says how many tests an ideal and a noisy extractor take."""
    ideal, noisy = (
        metrics(UNTIL, name)["tests_per_sentence"].value for name in EXTRACTORS if "same list" not in name
    )
    text = " ".join(PAGE.split())
    assert f"takes {ideal:.1f} tests per sentence, and the one that drops entities {noisy:.1f}" in text


@pytest.mark.simulation
def test_constant_list_does_not_meet_the_pages_gate() -> None:
    """The metric of the page's gate is 0 for a constant list, although every sentence is accepted."""
    [name] = re.findall(r'task = "linearity"\nmetric = "(\w+)"', PAGE)
    measured = metrics("quick", "the same list for every sentence")
    assert measured["acceptance_rate"].value == 1
    assert measured[name].value == 0
    assert metrics("quick", "ideal")[name].value == 1


@pytest.mark.simulation
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
