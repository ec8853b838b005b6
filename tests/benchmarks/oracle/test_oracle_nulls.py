"""Null oracles on pairs: what the checker accepts of oracles that know nothing, and the conclusion about a model."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from functools import cache, partial
from typing import Any, cast
from unittest.mock import patch

import pytest

from pytest_llmprops.benchmarks.oracle import REGISTRATION
from pytest_llmprops.benchmarks.oracle.alignment import Alignments
from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker
from pytest_llmprops.benchmarks.oracle.covering import Aligner
from pytest_llmprops.benchmarks.oracle.metrics import FEATURES, PREFIX, Pairs, shallow
from pytest_llmprops.benchmarks.oracle.trust import overlap
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.models.base import CallOptions, Model, Result, serve
from pytest_llmprops.models.registry import available_default, find_backend
from tests.support.oracle_runs import Subject
from tests.support.records import verdict as record
from tests.support.runs import ROOT
from tests.support.scripted import replied

ORACLE = OracleChecker()


def test_shallow_features() -> None:
    """The features are those of the words, numbers and punctuation marks, whatever the sentences mean."""
    assert shallow("In May, 12 dogs barked.", "in june 12 dogs barked, and 1,200 cats ran") == {
        "first_word": 1, "last_word": 0, "words": 15, "longer": 5, "second_longer": 5, "overlap": 4 / 11,
        "order": 8 / 15, "numbers": 1, "all_numbers": 3, "marks": 2, "all_marks": 4,
    }  # fmt: skip
    assert [*shallow("...", "!")] == [*FEATURES]


def answers(*groups: tuple[int, dict[str, float]]) -> list[VerdictRecord]:
    """Return records of pairs: so many with these values, with both labels in turn unless the values have one."""
    rows = [v for count, v in groups for v in [v] * count]
    return [
        record("yes" if v["said_yes"] else "no", n, benchmark="oracle", values={"label": float(n % 2), **v})
        for n, v in enumerate(rows)
    ]


def remarks(*groups: tuple[int, dict[str, float]]) -> list[str]:
    return list(ORACLE.remarks(answers(*groups)))


def values_of(*groups: tuple[int, dict[str, float]]) -> Pairs:
    return Pairs([r.values for r in answers(*groups)])


SAYS_YES = {"said_yes": 1.0, "accepted": 1.0, "potential_or": 1.0, "phi_or": 1.0}
SAYS_NO = {
    "said_yes": 0.0, "accepted": 1.0, "potential_or": 0.0, "trust_or": 1.0, "accepted_paper": 1.0, "fair_coin_or": 1.0,
}  # fmt: skip
IS, IS_NOT = {"label": 1.0}, {"label": 0.0}


def test_the_conclusion_says_what_accepting_adds() -> None:
    """It compares accepted answers with all answers, and with the best null oracle at the same coverage."""
    right = (30, SAYS_YES | IS), (50, SAYS_NO | IS_NOT)
    wrong = (5, SAYS_NO | IS), (15, SAYS_NO | IS | {"accepted": 0.0})
    [said, *_] = remarks(*right, *wrong)
    assert said == (
        "pairs: 85 of 100 answers are accepted (85.0%); accepted answers are right in 94.1% (86.8% to 98.1%; all:"
        " 80.0%): accepting adds 14 points (11 to 15); clearly more than the 53.8% of an oracle that knows nothing"
        " (always yes)"
    )
    [said, *_] = remarks((60, SAYS_NO))
    assert said == (
        "warning: pairs: no conclusion: 60 of 60 answers are accepted (100.0%); accepted answers are right in 50.0%"
        " (36.8% to 63.2%; all: 50.0%): accepting adds 0 points (0 to 0); not clearly more than the 50.0% of an oracle"
        " that knows nothing (always yes)"
    )
    [said, *_] = remarks((20, SAYS_NO | {"accepted": 0.0}))
    assert said.startswith(
        "warning: pairs: no conclusion: 0 of 20 answers are accepted (0.0%); not clearly more"
    )


def test_what_accepting_adds_covers_the_truth() -> None:
    """A checker that accepts at random adds 0, which the interval contains in at least 95% of runs."""
    rng = random.Random(1)
    covered = 0
    for _ in range(400):
        answered = [
            (1, SAYS_NO | {"label": float(rng.random() < 0.3), "accepted": float(rng.random() < 0.7)})
            for _ in range(80)
        ]
        _, low, high = values_of(*answered).gain
        covered += low <= 0 <= high
    assert covered >= 0.95 * 400


def test_null_oracles_are_compared_at_the_models_coverage() -> None:
    """More coverage never lowers the bar by a jump: the best null oracle is silent, or says no to more pairs."""
    proved, unproved = SAYS_YES | IS, SAYS_YES | IS_NOT | {"potential_or": 0.0}
    bars = []
    for accepted in range(10, 61, 5):
        rows = ((1, (proved if n < 30 else unproved) | {"accepted": float(n < accepted)}) for n in range(60))
        pairs = values_of(*rows)
        bars.append(pairs.bar(pairs.nulls[0]))
    # Always yes is accepted on 30 pairs, all right. Beyond, half of the answers of no to the other pairs are right.
    assert bars == pytest.approx(
        [1.0] * 5 + [(30 * (60 - n) / 30 + 30 * (n - 30) / 30) / n for n in range(35, 61, 5)]
    )


def test_the_best_shallow_feature_is_a_null_oracle() -> None:
    """A model that says yes if the first words differ is not above an oracle that does the same."""
    same, other = {PREFIX + name: 0.0 for name in FEATURES}, {PREFIX + name: 0.0 for name in FEATURES}
    same[f"{PREFIX}first_word"] = 1.0
    rows = [
        (40, SAYS_YES | IS | other), (10, SAYS_YES | IS_NOT | other),
        (40, SAYS_NO | IS_NOT | same | {"potential_or": 1.0}), (10, SAYS_NO | IS | same | {"potential_or": 1.0}),
    ]  # fmt: skip
    [said, *_] = remarks(*rows)
    assert said.startswith("warning: pairs: no conclusion: 100 of 100 answers are accepted")
    assert "not clearly more than the 80.0% of an oracle that knows nothing (the first word)" in said


def test_near_copies_are_the_paraphrases_fault() -> None:
    """If answers of no are untested because paraphrases copy their sentence, a line says that these are at fault."""
    left_out = {"left_out_1": 5.0, "left_out_2": 5.0}
    copies = {"said_yes": 0.0, "accepted": 0.0, "trust_or": 5.0, **left_out, **IS_NOT}
    [_, said, *_] = remarks((30, SAYS_YES | IS), (5, SAYS_NO | IS_NOT), (25, copies))
    assert said == (
        "warning: pairs: 25 of 30 answers of no are not tested, because the model's paraphrases copy their sentence:"
        " the coverage is low because of the paraphrases, not of the answers"
    )
    few = remarks((30, SAYS_YES | IS), (28, SAYS_NO | IS_NOT), (2, copies))
    assert not [line for line in few if "copy" in line]


def test_revealed_sources_void_the_bound() -> None:
    """Above .6, word overlap alone passes the tests too often for the statement of 1/2."""
    named = SAYS_NO | {"overlap_own_or": 0.6, "overlap_other_or": 0.3}
    hidden = SAYS_NO | {"overlap_own_or": 0.4, "overlap_other_or": 0.5}
    for revealing, void in ((12, False), (13, True)):
        records = answers((revealing, named), (20 - revealing, hidden))
        rate = next(m for m in ORACLE.metrics(records) if m.name == "source_revealed_rate")
        assert (rate.value, rate.n) == (revealing / 20, 20)
        said = " ".join(ORACLE.remarks(records))
        assert ("no bound: word overlap alone passes" in said) is void
        assert ("passes its test with probability at most 0.5" in said) is not void


def test_what_voids_the_bound_of_a_no() -> None:
    """If answers of no are accepted although they failed a test, or if the coin had no choice, no bound holds."""
    lenient = SAYS_NO | {"trust_or": 3.0, "overlap_own_or": 0.4, "overlap_other_or": 0.5}
    said = " ".join(remarks((20, SAYS_NO), (5, lenient)))
    assert "accepted no: no bound: 5 of 25 answers failed a test, but without triangular evidence" in said
    assert "with probability at most" not in said
    unfair = SAYS_NO | {"fair_coin_or": 0.0}
    said = " ".join(remarks((20, SAYS_NO), (3, unfair), (2, unfair | {"accepted": 0.0})))
    assert (
        "passes its test with probability at most 0.5; no bound for 3, where only one sentence had paraphrases to draw"
        " from (so in 5 of 25 tested answers of no); too few tests to say whether word overlap names the source"
    ) in said


#: (kind: ``sentences`` or ``phrases``, first text, second text) -> whether they are equivalent
Said = Callable[[str, str, str], bool]
BENCHMARK = loaded(ORACLE, DataFolder(builtin_data(), "builtin"))
ITEMS = {item.id: item for item in BENCHMARK.items if item.task in ("yes", "no")}


@cache
def sources() -> Mapping[str, str]:
    """Return the sentence of each paraphrase, and each sentence itself."""
    known = {item[place]: item[place] for item in ITEMS.values() for place in ("first", "second")}
    return known | {text: one for one in known for text in (*free(one), *copied(one))}


def copied(sentence: str) -> list[str]:
    """Return a paraphrase that is a copy with a prefix."""
    return [f"To put it another way: {sentence}"]


def free(sentence: str) -> list[str]:
    """Return the paraphrases that a language model wrote, so word overlap does not simply name their source."""
    return paraphrases()[sentence]


@cache
def paraphrases() -> Mapping[str, list[str]]:
    """Return the paraphrases of each sentence of the built-in pairs."""
    rows = labelled("oracle_paraphrases.jsonl")
    return {
        ITEMS[f"oracle/pair/{r['pair']}"][("first", "second")[r["place"] - 1]]: r["paraphrases"] for r in rows
    }


@cache
def phrases() -> Mapping[frozenset[str], bool]:
    """Return whether the phrases that ``quick`` can ask about are equivalent.

    One reader, who saw only two phrases, labelled them: another voice, tense or aspect makes no difference; a detail, a
    number, or a word that needs its sentence does.
    """
    rows = labelled("oracle_phrases.jsonl")
    return {frozenset((row["first"], row["second"])): row["label"] == 1 for row in rows}


def labelled(name: str) -> list[Any]:
    """Return the lines of a file of ``fixtures``."""
    return [json.loads(line) for line in (ROOT / "fixtures" / name).read_text("utf-8").splitlines()]


def same_source(kind: str, first: str, second: str) -> bool:
    """Say no to every pair, and yes to a sentence and its own paraphrase."""
    return kind == "phrases" or sources().get(first, first) == sources().get(second, second)


def by_first_word(kind: str, first: str, second: str) -> bool:
    """Say yes to sentences with different first words, to a sentence and its own paraphrase, and to phrases."""
    return same_source(kind, first, second) or first.split()[0].casefold() != second.split()[0].casefold()


def knows(kind: str, first: str, second: str) -> bool:
    """Answer by the labels of pairs and phrases, and by the source of each paraphrase."""
    if kind == "phrases":
        return first.casefold() == second.casefold() or phrases()[frozenset((first, second))]
    pair = {sources().get(first, first), sources().get(second, second)}
    return (
        any(item["label"] and pair <= {item["first"], item["second"]} for item in ITEMS.values())
        or len(pair) == 1
    )


def flips(kind: str, first: str, second: str) -> bool:
    """Give the other answer to 10% of the questions."""
    return knows(kind, first, second) != (random.Random(f"0/{kind}/{first}/{second}").random() < 0.1)


#: name -> its answers and its paraphrases
ORACLES: Mapping[str, tuple[Said, Callable[[str], list[str]]]] = {
    "constant yes": (lambda *_: True, free),
    "word overlap ≥ .75": (lambda kind, first, second: overlap(first, second) >= 0.75, free),
    "first words": (by_first_word, free),
    "same source, copies": (same_source, copied),
    "same source, free paraphrases": (same_source, free),
    "perfect, 10% flips": (flips, free),
    "perfect, copies": (knows, copied),
    "perfect": (knows, free),
}


class Helpers:
    """The default parser and encoder of a run on this machine, which process each text once; or the test is skipped."""

    def __init__(self) -> None:
        self._models: dict[str, Model] = {}
        self._known: dict[Request, Result] = {}
        for role, texts in REGISTRATION.default_helpers.items():
            spec = available_default(texts)
            if spec is None:
                pytest.skip(f"no helper {role} on this machine: install one of {', '.join(texts)}")
            self._models[role] = find_backend(spec.backend).factory(spec, CallOptions())

    async def __call__(self, request: Request, role: str = "") -> Reply:
        """Return the reply of a role's model, or raise its error."""
        if request not in self._known:
            results = serve(self._models[role], [request])
            [self._known[request]] = await results if isinstance(results, Awaitable) else results
        result = self._known[request]
        if isinstance(result, BackendError):
            raise result
        return result

    def close(self) -> None:
        """Close the models."""
        for model in self._models.values():
            model.close()


@pytest.fixture(scope="module")
def helpers() -> Iterator[Helpers]:
    """Return the helpers. The alignments of two sentences are the same for all oracles."""
    known: dict[tuple[str, str], Alignments] = {}
    align = Aligner.__call__

    async def aligned(self: Aligner, first: str, second: str) -> Alignments:
        if (first, second) not in known:
            known[first, second] = await align(self, first, second)
        return known[first, second]

    with patch.object(Aligner, "__call__", aligned), closing(Helpers()) as found:
        yield found


async def played(said: Said, write: Callable[[str], list[str]], helpers: Helpers) -> list[VerdictRecord]:
    """Return records of the verdicts of ``quick`` on an oracle's answers about built-in pairs."""
    protocol = resolve("oracle", ORACLE.protocols, "quick", {}, 0)
    model = Subject(None, partial(said, "sentences"), write, partial(said, "phrases"))

    async def ask(request: Request, role: str = "") -> Reply:
        return await helpers(request, role=role) if role else replied(model, request)

    # The labels alternate.
    some = [item for n, item in enumerate(ITEMS.values()) if n % 8 < 2]
    verdicts = [await ORACLE.evaluate(item, BENCHMARK.context, cast(Ask, ask), protocol) for item in some]
    return [
        record(v.task or "no", n, benchmark="oracle", values=dict(v.values)) for n, v in enumerate(verdicts)
    ]


def test_an_oracle_that_knows_nothing_never_wins(helpers: Helpers) -> None:
    """Only judges that know the labels get a conclusion; of a perfect one, 70% of the equivalent pairs are proved."""
    for name, oracle in ORACLES.items():
        records = asyncio.run(played(*oracle, helpers))
        said, pairs = list(ORACLE.remarks(records)), Pairs([r.values for r in records])
        copied = any("copy their sentence: the coverage is low" in line for line in said)
        assert copied is name.endswith("copies"), (name, said)
        if name.startswith("perfect"):
            assert said[0].startswith("pairs: "), (name, said)
            assert sum(pairs.accepted) >= 0.9 * len(pairs.accepted), name
            assert copied or pairs.coverage >= 0.5, name
            proved = Counter(bool(v["label"]) for v in pairs.values if v["accepted"] and v["said_yes"])
            assert proved[False] <= 0.05 * len(records) / 2, name
            assert "flips" in name or proved[True] >= 0.7 * len(records) / 2, name
        else:
            assert said[0].startswith("warning: pairs: no conclusion: "), (name, said)
