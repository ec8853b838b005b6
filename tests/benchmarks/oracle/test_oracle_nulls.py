"""Null oracles and the perfect judge on pairs: what they answer, and what the checker accepts of them."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest

from fixtures import known_oracles
from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker
from pytest_llmprops.benchmarks.oracle.items import random_pairs
from pytest_llmprops.benchmarks.oracle.metrics import Pairs, all_pairs_metrics, yes_metrics
from pytest_llmprops.benchmarks.oracle.nulls import (
    NAMES,
    null_oracle,
    null_values,
    own_paraphrase,
    random_checker,
    self_consistency,
)
from pytest_llmprops.benchmarks.oracle.pair_evidence import Pair
from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance
from pytest_llmprops.benchmarks.oracle.settings import QUICK, OracleSettings
from pytest_llmprops.benchmarks.oracle.tools.sentences import Helpers
from pytest_llmprops.benchmarks.oracle.trust import overlap
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.records import VerdictRecord
from tests.support.oracle_runs import Subject, pair, verdict_on
from tests.support.paraphrase_oracles import CAT, DOG, OF_DOG, PAIR, PARAPHRASES, FakeOracle, Stub, perfect
from tests.support.records import verdict as record

DOGS, MOVED = "red dogs barked loudly last night.", "last night red dogs barked loudly."
ORACLE = OracleChecker()
PLACE = ("pairs", "en", "builtin")


def played(x: Pair, table: Any = None, seed: int = 0, settings: OracleSettings = QUICK) -> dict[str, float]:
    """Return the values of the null oracles for a pair."""
    checker = ParaphraseChecker(settings, Stub(table))
    return asyncio.run(null_values(x, checker, generator(seed)))


@pytest.mark.parametrize("label", [True, False])
def test_constant_answers_and_the_perfect_judge(label: bool) -> None:
    """A constant yes is accepted if the pair is aligned, a constant no never, and the judge by the label."""
    one, two = DOG.split(), CAT.split()
    phrases = tuple((" ".join(one[n : n + 2]), " ".join(two[n : n + 2]), True) for n in (0, 2))
    x = Pair(DOG, CAT, label, phrases)
    aligned, other = played(x, {(DOG, CAT): "and"}), played(x)
    assert (aligned["null_yes"], other["null_yes"]) == (1, 0)
    assert aligned["null_no"] == other["null_no"] == 0
    assert (aligned["null_judge"], other["null_judge"]) == ((1, 0) if label else (1, 1))
    assert other["self_aligned"] == 0


def test_the_overlap_of_words_is_recorded_as_thresholds() -> None:
    """``overlap_proof`` is the highest threshold at which a judge by overlap proves a yes; 0 if there is none."""
    assert overlap("the dog ran", "The dog, ran") == 1
    assert overlap("...", "!") == 0
    far = played(PAIR)
    assert (far["overlap"], far["overlap_proof"]) == (1 / 7, 0)
    near = Pair("the dog slept quietly", "the dog slept well")
    aligned = played(near, {near.sentences: "and"})
    assert (aligned["overlap"], aligned["overlap_proof"]) == (3 / 5, 0.33)
    assert played(near)["overlap_proof"] == 0


def test_no_label_no_judge() -> None:
    """Without a label, there is no perfect judge."""
    others = {"self_aligned", "overlap", "overlap_proof", "said_coin"}
    assert set(played(Pair(DOG, CAT))) == {*NAMES, *others} - {"null_judge"}


def test_a_coin_is_accepted_by_chance() -> None:
    """Without an alignment, only a no can be accepted: with probability 1/2 for no, then 1/4 for no and yes."""
    accepted = sum(played(PAIR, seed=seed)["null_coin"] for seed in range(400))
    assert 0.5 * 0.25 * 400 - 30 < accepted < 0.5 * 0.25 * 400 + 30


def test_null_oracles_read_quotes_and_line_breaks() -> None:
    """Apostrophes in a sentence do not confuse the null oracles."""
    x = Pair("it's the dog's bone", "the cat's not here", label=False)
    assert played(x)["null_judge"] == 1
    assert null_oracle(lambda first, second: True).asked == 0


def test_a_verdict_has_the_null_values_and_no_more_calls() -> None:
    """The nulls are recorded with the verdict on a pair, and the model is not called for them."""
    model = Subject(same=lambda first, second: True)
    verdict = verdict_on(pair(DOGS, MOVED, 1), model)
    assert verdict.values["null_yes"] == verdict.values["self_aligned"] == 1
    # Nobody labelled the phrases of this pair.
    assert "null_judge" not in verdict.values
    assert verdict.values["null_no"] == 0


YES = {
    "said_yes": 1, "label": 1, "phi": 0, "accepted": 1, "potential_or": 1, "phi_or": 1, "null_yes": 1, "null_no": 0,
}  # fmt: skip
UNPROVED = {**YES, "accepted": 0, "potential_or": 0, "phi_or": 0, "null_yes": 0}
REFUSED = {**YES, "accepted": 0, "phi_or": 0, "label": 0}
UNREAD = {"said_yes": -1, "label": 0, "null_yes": 1, "null_no": 0}


def test_metrics_tell_the_prover_from_the_model() -> None:
    """``potential_rate`` is the prover's part of an acceptance, and ``confirmed_rate`` the model's."""
    values = [YES, YES, UNPROVED, REFUSED, UNREAD]
    rows = {(m.name, m.group): m.value for m in yes_metrics(("yes", "en", "builtin"), values)}
    assert rows["acceptance_rate", ""] == 1 / 2
    assert rows["potential_rate", ""] == 3 / 4
    assert rows["confirmed_rate", ""] == 2 / 3
    pairs = {(m.name, m.group): (m.value, m.n) for m in all_pairs_metrics(PLACE, values)}
    assert pairs["acceptance_rate", ""] == (1 / 2, 4)
    # Accepted: two of four answers, both right. A constant yes is accepted three times, once wrongly.
    assert pairs["coverage", ""] == (1 / 2, 4)
    assert pairs["accepted_precision", ""] == (1.0, 2)
    assert pairs["right_acceptance_rate", ""] == (2 / 3, 3)
    assert pairs["wrong_acceptance_rate", ""] == (0.0, 1)
    assert pairs["null_coverage", "constant yes"] == (3 / 4, 4)
    assert pairs["null_precision", "constant yes"] == (2 / 3, 3)
    assert pairs["potential_rate", "label yes"] == (2 / 3, 3)
    assert pairs["potential_rate", "label no"] == (1.0, 2)
    assert "perfect judge" not in {group for _, group in pairs}


# ---- oracles that know nothing


def answers(*groups: tuple[int, dict[str, float]]) -> list[VerdictRecord]:
    """Return records of pairs: so many with these values, each with both labels in turn unless it has one."""
    rows = [v for count, v in groups for v in [v] * count]
    return [
        record(
            "yes" if v["said_yes"] else "no",
            n,
            benchmark="oracle",
            values={"label": float(n % 2), **NULL, **v},
        )
        for n, v in enumerate(rows)
    ]


NULL = {
    "null_yes": 0.0,
    "null_no": 0.0,
    "null_coin": 0.0,
    "said_coin": 0.0,
    "overlap": 0.1,
    "overlap_proof": 0.0,
}
SAYS_YES = {"said_yes": 1.0, "accepted": 1.0}
SAYS_NO = {
    "said_yes": 0.0,
    "accepted": 1.0,
    "trust_or": 1.0,
    "accepted_paper": 1.0,
    "tests_or": 1.0,
    "fair_coin_or": 1.0,
}


def test_precision_decides_where_there_are_labels() -> None:
    """A model that is accepted each time with wrong answers gets no conclusion; one that is mostly right does."""
    blind = answers((60, SAYS_NO | {"overlap_own_or": 0.5, "overlap_other_or": 0.2}))
    [said, *_] = ORACLE.remarks(blind)
    assert said == (
        "warning: pairs: no conclusion: 60 of 60 answers are accepted (100.0%); of these, 50.0% are right (36.8% to"
        " 63.2%); not clearly more than of an oracle that knows nothing (word overlap ≥ 0.50): 50.0%"
    )
    right = [(30, SAYS_YES | {"label": 1.0}), (28, SAYS_NO | {"label": 0.0}), (2, SAYS_NO | {"label": 1.0})]
    [said, *_] = ORACLE.remarks(answers(*right))
    assert said.startswith(
        "pairs: 60 of 60 answers are accepted (100.0%); of these, 96.7% are right (88.5% to"
    )
    assert "clearly more than of an oracle that knows nothing (" in said


def test_a_constant_yes_is_not_above_itself() -> None:
    """What the prover alone makes right is no merit of a model that always says yes."""
    proved = SAYS_YES | {"null_yes": 1.0, "label": 1.0}
    false = SAYS_YES | {"null_yes": 1.0, "label": 0.0}
    rejected = {"said_yes": 1.0, "accepted": 0.0}
    [said, *_] = ORACLE.remarks(answers((72, proved), (28, false), (60, rejected)))
    assert said.startswith("warning: pairs: no conclusion: ")
    assert "(constant yes): 72.0%" in said


def test_without_labels_the_same_answer_is_no_merit() -> None:
    """Without labels, acceptance is compared; an oracle that nearly always says the same is never above."""
    unlabelled = {"label": -1.0}
    mixed = answers(
        (30, SAYS_YES | unlabelled),
        (30, SAYS_NO | unlabelled | {"overlap_own_or": 0.2, "overlap_other_or": 0.5}),
    )
    [said, *_] = ORACLE.remarks(mixed)
    assert said.startswith(
        "pairs: 60 of 60 answers are accepted (100.0%) (94.0% to 100.0%); clearly more than of"
    )
    [said, *_] = ORACLE.remarks(
        answers((60, SAYS_NO | unlabelled | {"overlap_own_or": 0.2, "overlap_other_or": 0.5}))
    )
    assert said.startswith("warning: pairs: no conclusion: 100.0% of the answers are the same; ")


@pytest.mark.parametrize(("revealing", "void"), [(12, False), (13, True)])
def test_revealed_sources_void_the_bound(revealing: int, void: bool) -> None:
    """Above .6, word overlap alone passes the tests too often for the statement of 2⁻ⁿ."""
    named = SAYS_NO | {"overlap_own_or": 0.6, "overlap_other_or": 0.3}
    hidden = SAYS_NO | {"overlap_own_or": 0.4, "overlap_other_or": 0.5}
    records = answers((revealing, named), (20 - revealing, hidden))
    rate = next(m for m in ORACLE.metrics(records) if m.name == "source_revealed_rate")
    assert (rate.value, rate.n) == (revealing / 20, 20)
    said = " ".join(ORACLE.remarks(records))
    assert ("no bound: word overlap alone passes" in said) is void
    assert ("passes 1 test with probability at most 0.5" in said) is not void


def test_an_oracle_that_knows_nothing_never_wins() -> None:
    """Only judges that know the labels get a conclusion; what is accepted of them is right in 90% or more."""
    try:
        helpers = Helpers({"parse": None, "embed": None})
    except UsageError as missing:
        pytest.skip(str(missing))
    # The labels alternate.
    some = [item for n, item in enumerate(known_oracles.pairs_of()) if n % 6 < 2]
    with closing(helpers):
        for name in (
            "constant yes", "word overlap ≥ .75", "same source, copies", "same source, free paraphrases",
            "perfect, 10% flips", "perfect",
        ):  # fmt: skip
            verdicts = asyncio.run(known_oracles.played(name, some, helpers))
            records = [
                record(v.task or "no", n, benchmark="oracle", values=v.values) for n, v in enumerate(verdicts)
            ]
            said = list(ORACLE.remarks(records))
            model = Pairs([r.values for r in records]).model
            if name.startswith("perfect"):
                assert said[0].startswith("pairs: "), (name, said)
                assert (model.precision or 0) >= 0.9, name
                assert model.coverage >= 0.5, name
                assert any("with probability at most 0.5" in line for line in said), name
            else:
                assert said[0].startswith("warning: pairs: no conclusion: "), (name, said)
            assert any("no bound: word overlap" in line for line in said) is (name == "same source, copies")


# ---- sanity checks

PAPER = OracleSettings()


def saying(*answers: bool | str) -> FakeOracle:
    """Return an oracle that gives these answers in turn, then no."""
    said = iter(answers)
    return FakeOracle(lambda *_: next(said, False), paraphrases=lambda _: OF_DOG)


def own(fake: FakeOracle, table: Any = None) -> Acceptance:
    """Return the decision on the oracle's own paraphrase."""
    checker = ParaphraseChecker(PAPER, Stub(table))
    return asyncio.run(own_paraphrase(DOG, fake.oracle, checker, generator(0)))


def test_self_consistency() -> None:
    """In the first sanity check five repeated answers, each its own sample, must agree and be readable."""
    fake = saying(*[False] * 5)
    acceptance = asyncio.run(self_consistency(PAIR, fake.oracle))
    assert (acceptance.accepted, acceptance.outcome) == (True, "consistent")
    assert acceptance.why == "0 yes, 5 no in 5 askings"
    assert [chat.sample for chat in fake.chats] == [0, 1, 2, 3, 4]
    acceptance = asyncio.run(self_consistency(PAIR, saying(True, True, False, True, True).oracle))
    assert not acceptance
    assert (acceptance.outcome, acceptance.values["answers_yes"]) == ("inconsistent", 4)
    assert not asyncio.run(self_consistency(PAIR, saying(*["?"] * 10).oracle)).accepted


def test_own_paraphrases() -> None:
    """The second sanity check asks about the first distinct paraphrase five times and proves it (table 4)."""
    fake = FakeOracle(perfect, paraphrases=lambda _: [DOG, *OF_DOG])
    acceptance = own(fake, {(DOG, OF_DOG[0]): "or"})
    assert acceptance.accepted
    assert acceptance.evidence["paraphrase"] == OF_DOG[0]
    assert acceptance.evidence["answers"] == ["yes"] * 5
    assert fake.asked("sentences") == [(DOG, OF_DOG[0])] * 5
    assert {"said_yes": 1, "phi_or": 1, "phi_and": 0}.items() <= acceptance.values.items()
    nothing = own(FakeOracle(perfect, paraphrases=lambda _: [DOG]))
    assert (nothing.outcome, nothing.accepted) == ("untested", False)


@pytest.mark.parametrize(
    ("answers", "outcome", "consistent"),
    [
        ([False] * 5, "denied", 1),
        ([True] * 5, "consistent", 1),
        ([True] * 4 + [False], "inconsistent", 0),
        ([False] * 4 + [True], "inconsistent", 0),
        ([False, "eh", "eh", False, False, False], "unreadable", 0),
        ([False, "eh", "eh", False, True, False], "inconsistent", 0),
        (["eh"] * 10, "unreadable", 0),
    ],
)
def test_a_denied_paraphrase_is_not_accepted(
    answers: list[bool | str], outcome: str, consistent: int
) -> None:
    """Only five "yes" answers are accepted: five "no" answers are consistent, but deny the own paraphrase."""
    acceptance = own(saying(*answers))
    assert (acceptance.outcome, acceptance.accepted) == (outcome, outcome == "consistent")
    assert acceptance.values["consistent"] == consistent
    assert ("denies its own paraphrase" in acceptance.why) == (outcome == "denied")


def test_a_no_about_an_own_paraphrase_is_tested() -> None:
    """The answer of no is tested like that on any pair, with another paraphrase (appendix B.3.3); a yes is not."""
    denied, other = OF_DOG

    def says(first: str, second: str) -> bool:
        return {first, second} != {DOG, denied}

    fake = FakeOracle(says, paraphrases=lambda _: OF_DOG)
    acceptance = own(fake, {(DOG, denied): "and", (other, denied): "or"})
    assert acceptance.outcome == "denied"
    asked = fake.asked("sentences")
    assert asked[:7] == [(DOG, denied)] * 5 + [(other, denied), (other, DOG)]
    assert (denied, denied) not in asked, "the paraphrase is not compared with itself"
    assert acceptance.evidence["tests"] == [
        {"outcome": "triangular", "source": 1, "paraphrase": other, "other": "yes", "own": "yes"}
    ]
    assert (acceptance.evidence["trust"], acceptance.evidence["explanation"]) == ("triangular", "as it is")
    tested = {
        "said_yes": 0,
        "phi_and": 1,
        "trust_or": 2,
        "trust_paper_or": 0,
        "category_or": 1,
        "category_and": 3,
    }
    assert tested.items() <= acceptance.values.items()
    assert "accepted" not in acceptance.values
    said_yes = own(FakeOracle(perfect, paraphrases=lambda _: OF_DOG))
    assert "trust_or" not in said_yes.values
    assert "tests" not in said_yes.evidence


def test_random_pairs() -> None:
    """The third sanity check aligns and tests different sentences, labelled not equivalent."""
    pairs = random_pairs([*PARAPHRASES, *PARAPHRASES], generator(0), 20)
    assert len(pairs) == 20
    assert set(pairs) == {(DOG, CAT), (CAT, DOG)}
    oracle = FakeOracle(perfect, paraphrases=lambda s: list(PARAPHRASES[s])).oracle
    checker = random_checker(PAPER, Stub())
    acceptance = asyncio.run(checker.check(Pair(*pairs[0], label=False), oracle, generator(0)))
    assert acceptance.accepted
    assert {"phi_or": 0, "asked_phrases": 0, "category_or": 0}.items() <= acceptance.values.items()
    with pytest.raises(ValueError, match="two different sentences"):
        random_pairs([DOG, DOG], generator(0), 1)
