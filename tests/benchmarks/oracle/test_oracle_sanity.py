"""The sanity checks of section 5.2.1: repeated questions, own paraphrases, and unrelated sentences."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.items import random_pairs
from pytest_llmprops.benchmarks.oracle.pair_evidence import Pair
from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker
from pytest_llmprops.benchmarks.oracle.sanity import own_paraphrase, self_consistency
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings
from pytest_llmprops.core.protocols import generator
from tests.support.paraphrase_oracles import CAT, DOG, OF_DOG, PAIR, PARAPHRASES, FakeOracle, Stub, perfect

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
    checker = ParaphraseChecker(PAPER, Stub(), is_random=True)
    acceptance = asyncio.run(checker.check(Pair(*pairs[0], label=False), oracle, generator(0)))
    assert acceptance.accepted
    assert {"phi_or": 0, "asked_phrases": 0, "category_or": 0}.items() <= acceptance.values.items()
    with pytest.raises(ValueError, match="two different sentences"):
        random_pairs([DOG, DOG], generator(0), 1)
