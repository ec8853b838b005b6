"""Word aligners: statistical ones on known links, embedding ones on hand-computed links, failures."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.aligner import SYMMETRIES, symmetrised
from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.embedding import (
    METHODS,
    EmbeddingAligner,
    argmax_links,
    awesome_links,
    cosine,
    itermax_links,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.statistical import PACKAGES, statistical
from pytest_llmprops.core.errors import BackendError, MissingExtra, UsageError
from tests.support.dtails_planted import PLANTED, pairs

WORDS = [(first.split(), second.split()) for first, second in pairs(1_500, seed=3)]


def need(name: str) -> None:
    if importlib.util.find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{PACKAGES[name]} is not installed")


Sentences = tuple[Sequence[str], Sequence[str]]


def right_links(source: Sequence[str], target: Sequence[str]) -> set[tuple[int, int]]:
    """Return the links between a word and its only translation, without words that occur twice."""
    links = set()
    for i, word in enumerate(source):
        names = PLANTED.get(word, (word.replace("src", "tgt"),))
        places = [j for j, other in enumerate(target) if other in names]
        if len(places) == 1 and source.count(word) == 1:
            links.add((i, places[0]))
    return links


def counts(name: str, pairs: Sequence[Sentences], *symmetry: Any) -> tuple[int, int, int]:
    """Return the numbers of planted links, of those that an aligner finds, and of others at their words."""
    alignments = list(statistical(name, *symmetry).align(iter(pairs)))
    assert len(alignments) == len(pairs)
    wanted = right = wrong = 0
    for (source, target), links in zip(pairs, alignments, strict=True):
        known = right_links(source, target)
        wanted += len(known)
        right += len(known & links)
        wrong += len({link for link in links if link[0] in {i for i, _ in known}} - known)
    return wanted, right, wrong


@pytest.mark.parametrize("name", PACKAGES)
def test_statistical_aligners_find_planted_links(name: str) -> None:
    """On sentences with known links each library finds nearly all of them and hardly any others."""
    need(name)
    wanted, right, wrong = counts(name, WORDS)
    assert right > 0.95 * wanted, (right, wrong, wanted)
    assert wrong < 0.10 * right, (right, wrong, wanted)


@pytest.mark.parametrize("name", ["eflomal", "nltk"])
def test_both_directions_are_combined(name: str) -> None:
    """On reversed sentences the intersection of both directions has most known links and few others."""
    need(name)
    backwards = [(source, target[::-1]) for source, target in WORDS]
    wanted, right, wrong = counts(name, backwards, "intersection")
    assert right > 0.85 * wanted, (right, wrong, wanted)
    assert wrong < 0.05 * wanted, (right, wrong, wanted)


@pytest.mark.parametrize("name", PACKAGES)
def test_sides_without_words_have_no_links(name: str) -> None:
    """A pair with an empty side has no links, and words special to a library cause no failure."""
    need(name)
    odd = [(["|||", "a-b"], ["<eps>", "x y"]), ([], ["b"]), (["a"], []), ([], [])]
    alignments = list(statistical(name).align([*odd, *WORDS[:50], *odd]))
    assert len(alignments) == 58
    for number in (1, 2, 3, 55, 56, 57):
        assert alignments[number] == frozenset()
    assert all(i < 2 and j < 2 for i, j in alignments[0] | alignments[54])
    assert list(statistical(name).align([([], ["a"]), ([], [])])) == [frozenset(), frozenset()]


def test_default_is_the_first_installed_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """``statistical`` uses the first installed library, and without any it says what to install."""
    need("nltk")
    installed = {"nltk"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name in installed else None)
    assert statistical("statistical").identity["aligner"] == "nltk"
    installed.clear()
    with pytest.raises(MissingExtra, match=r"pip install 'pytest-llmprops\[align\]'"):
        statistical("statistical")
    with pytest.raises(MissingExtra, match="pip install 'eflomal'"):
        statistical("eflomal")


def test_statistical_aligners_refuse_unknown_settings() -> None:
    """An unknown aligner, an unknown symmetrisation and one that fast_align lacks are refused."""
    with pytest.raises(UsageError, match="choose from statistical, fast_align, eflomal, nltk and hf:"):
        statistical("giza")
    with pytest.raises(UsageError, match="grow-diag-final-and"):
        symmetrised([(0, 0)], [(0, 0)], "grow")  # type: ignore[arg-type]
    need("fast_align")
    with pytest.raises(UsageError, match="fast_align only has"):
        statistical("fast_align", "intersection")


def test_symmetrisation_of_a_small_case() -> None:
    """On a small case, links agreed on are kept and others are added only near them or between free words."""
    forward = {(0, 0), (1, 1), (3, 3), (0, 3)}
    backward = {(0, 0), (1, 0), (3, 4)}
    assert symmetrised(forward, backward, "intersection") == {(0, 0)}
    assert symmetrised(forward, backward, "union") == forward | backward
    # (1, 0) and (1, 1) touch (0, 0) and add a free word each. (0, 3) touches no link and word 0 is already
    # linked, so (0, 3) is excluded. (3, 3) has two free words; after it (3, 4) has only one.
    assert symmetrised(forward, backward, "grow-diag-final-and") == {(0, 0), (1, 0), (1, 1), (3, 3)}


points = st.frozensets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14)


@given(points, points)
def test_symmetrisation_lies_between_intersection_and_union(
    forward: frozenset[tuple[int, int]], backward: frozenset[tuple[int, int]]
) -> None:
    """grow-diag-final-and lies between intersection and union and leaves no link of two free words out."""
    small, middle, large = (
        symmetrised(forward, backward, how) for how in (SYMMETRIES[1], SYMMETRIES[0], SYMMETRIES[2])
    )
    assert small <= middle <= large
    rows, columns = {i for i, _ in middle}, {j for _, j in middle}
    assert all(i in rows or j in columns for i, j in large)


def test_awesome_links_by_hand() -> None:
    """Both softmaxes must exceed the threshold: 1/2 and e/(1+e) do, e^-10/(1+e^-10) = 0.000045 does not."""
    products = np.array([[10.0, 0.0], [10.0, 11.0]])
    # rows: (1, .00005), (.27, .73); columns: (.5, .5), (.00002, 1)
    assert awesome_links(products) == [(0, 0), (1, 0), (1, 1)]
    assert awesome_links(products, 0.3) == [(0, 0), (1, 1)]
    assert awesome_links(products, 1e-6) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert awesome_links(products * 1000) == [(0, 0), (1, 1)]  # no overflow


SIMILAR = np.array([[0.9, 0.8, 0.1], [0.7, 0.6, 0.1], [0.2, 0.3, 0.25]])


def test_argmax_and_itermax_links_by_hand() -> None:
    """Argmax links mutually nearest words; Itermax repeats this with a lower weight for words already linked.

    (0, 0) is mutual in the first round. Then (0, 0) is set to zero, 0.8 is weighted to 0.72 and 0.7 to 0.63.
    In the second round (0, 1) is mutual because 0.72 > 0.6, and (1, 0) because 0.63 > 0.6.
    """
    assert argmax_links(SIMILAR) == [(0, 0)]
    assert itermax_links(SIMILAR) == [(0, 0), (0, 1), (1, 0)]
    # With weight 0, linked words get no further links.
    assert itermax_links(SIMILAR, weight=0.0) == [(0, 0), (1, 1)]
    assert itermax_links(SIMILAR, rounds=1) == argmax_links(SIMILAR)
    # If every word of one side is linked, there is no second round.
    used_up = np.array([[0.9, 0.1, 0.5], [0.1, 0.9, 0.5]])
    assert itermax_links(used_up) == argmax_links(used_up) == [(0, 0), (1, 1)]


def test_cosines_lie_between_0_and_1() -> None:
    """Cosines are mapped to [0, 1], and a zero vector causes no division by zero."""
    source = np.array([[3.0, 0.0], [0.0, 0.0]], dtype="float32")
    target = np.array([[5.0, 0.0], [-1.0, 0.0], [0.0, 2.0]], dtype="float32")
    assert cosine(source, target).tolist() == [[1.0, 0.0, 0.5], [0.5, 0.5, 0.5]]


def letters(texts: Iterable[str]) -> list[tuple[list[tuple[int, int]], Any]]:
    """Split words into tokens of up to two letters; a token's vector depends on its first letter."""
    encoded = []
    for text in texts:
        if "TOOLONG" in text:
            raise BackendError("text 1 of 2: 600 tokens are more than the model's 512", kind="context")
        spans = [match.span() for match in re.finditer(r"\S\S?", text)]
        vectors = np.zeros((len(spans), 26), dtype="float32")
        for row, (start, _) in enumerate(spans):
            vectors[row, ord(text[start].lower()) - ord("a")] = 10.0
        encoded.append((spans, vectors))
    return encoded


@pytest.mark.parametrize("method", METHODS)
def test_words_are_linked_by_their_tokens(method: str) -> None:
    """A word is linked by any of its tokens: "abcd" has the tokens ab and cd."""
    aligner = EmbeddingAligner(letters, identity={"model": "letters"}, method=method)
    (links, empty) = aligner.align([(["abcd", "x", "ef"], ["eq", "aq", "xq"]), ([], ["a"])])
    assert links >= {(0, 1), (1, 2), (2, 0)}
    assert empty == frozenset()
    assert {(i, j) for i, j in links if i == 2} == {(2, 0)}
    (by_second,) = aligner.align([(["abcd"], ["cq", "zq"])])
    assert (0, 0) in by_second
    assert aligner.failed == 0


def test_too_long_pair_has_no_links() -> None:
    """A pair that is too long has no links and is counted, and the others of its batch are aligned."""
    aligner, good = EmbeddingAligner(letters, identity={}), (["a", "b"], ["b", "a"])
    alignments = list(aligner.align([good] * 40 + [(["TOOLONG"], ["a"])] + [good] * 60))
    assert alignments == [{(0, 1), (1, 0)}] * 40 + [frozenset()] + [{(0, 1), (1, 0)}] * 60
    assert aligner.failed == 1


def test_fatal_model_failure_stops_the_run() -> None:
    """A fatal model failure stops the run instead of giving empty alignments."""

    def broken(texts: Sequence[str]) -> Any:
        raise BackendError("m: no tokenizer.json", kind="model", fatal=True)

    with pytest.raises(UsageError, match=r"--aligner: m: no tokenizer\.json"):
        list(EmbeddingAligner(broken, identity={}).align([(["a"], ["b"])]))


@pytest.mark.parametrize("settings", [{"method": "cosine"}, {"threshold": 1.0}, {"threshold": math.nan}])
def test_settings_of_embedding_aligners_are_checked(settings: dict[str, Any]) -> None:
    """Unknown methods and thresholds that are not probabilities are refused."""
    with pytest.raises(UsageError, match="--align-"):
        EmbeddingAligner(letters, identity={}, **settings)
