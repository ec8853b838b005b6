"""Agreement of annotators, checked on hand-computed cases and the paper's printed values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

from pytest_llmprops.benchmarks.dtails.tools.annotation.agreement import (
    expert_set,
    fleiss_kappa,
    judged_share,
    majority,
    pabak,
    sufficient_context_share,
    total_agreement,
)
from pytest_llmprops.core.errors import DataError

#: 40 rules by 3 annotators, one of whom calls one rule wrong
PARADOX = [(True, True, True)] * 39 + [(True, True, False)]


def test_kappa_paradox_of_the_paper() -> None:
    """Table 4, Afrikaans: 97.5% agreement, kappa -0.008, PABAK 0.950; table 3: 99.2% are right."""
    assert round(total_agreement(PARADOX), 3) == 0.975
    assert round(fleiss_kappa(PARADOX), 3) == -0.008
    assert round(pabak(PARADOX), 3) == 0.950
    assert round(judged_share(PARADOX), 3) == 0.992


def test_kappa_by_hand() -> None:
    """With 3 of 4 questions agreed, 7 yes and 5 no, p = 5/6, chance is 74/144 and kappa is 23/35."""
    ratings = [(1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 0, 0)]
    assert fleiss_kappa(ratings) == pytest.approx((5 / 6 - 74 / 144) / (1 - 74 / 144))
    assert fleiss_kappa(ratings) == pytest.approx(23 / 35)


@given(st.integers(2, 5).flatmap(lambda size: st.lists(st.tuples(*[st.integers(0, 3)] * size), min_size=1)))
def test_kappa_is_statsmodels_kappa(ratings: list[tuple[int, ...]]) -> None:
    """Kappa equals the value of statsmodels for any number of questions, annotators and categories."""
    assume(len({answer for answers in ratings for answer in answers}) > 1)
    table, _ = aggregate_raters(np.array(ratings))
    assert fleiss_kappa(ratings) == pytest.approx(statsmodels_kappa(table), abs=1e-12)


@pytest.mark.parametrize("ratings", [[], [(True, True, True)] * 5])
def test_kappa_undefined(ratings: list[tuple[bool, ...]]) -> None:
    """Without questions, or if all answers are equal (table 4, Latvian), kappa is NaN without a warning."""
    assert math.isnan(fleiss_kappa(ratings))


def test_unanimous_annotators() -> None:
    """Table 4, Latvian: agreement and PABAK are 1 where kappa is NaN."""
    ratings = [(True,) * 3] * 9
    assert total_agreement(ratings) == pabak(ratings) == 1.0


@pytest.mark.parametrize(
    ("agreed", "of", "total", "expected"),
    [(29, 41, 0.707, 0.415), (8, 18, 0.444, -0.111), (10, 17, 0.588, 0.176), (19, 24, 0.792, 0.583)],
)
def test_pabak_from_total_agreement(agreed: int, of: int, total: float, expected: float) -> None:
    """PABAK is twice the total agreement minus one (rows of tables 4 and 6)."""
    ratings = [(True,) * 3] * agreed + [(True, False, False)] * (of - agreed)
    assert round(total_agreement(ratings), 3) == total
    assert round(pabak(ratings), 3) == expected


def test_pabak_of_several_categories() -> None:
    """With three possible answers an agreement of one third gives a PABAK of 0."""
    ratings = [("a", "a"), ("a", "b"), ("b", "c")]
    assert pabak(ratings, categories=3) == pytest.approx(0.0)
    with pytest.raises(DataError, match="3 different answers"):
        pabak(ratings)
    assert math.isnan(pabak([]))


@pytest.mark.parametrize("measure", [total_agreement, fleiss_kappa, pabak])
@pytest.mark.parametrize(
    ("ratings", "says"), [([(1, 0), (1, 0, 1)], "2 to 3 answers"), ([(1,), (0,)], "two annot")]
)
def test_ragged_ratings(measure: object, ratings: list[tuple[int, ...]], says: str) -> None:
    """Questions with different numbers of answers, or with a single annotator, are refused."""
    with pytest.raises(DataError, match=says):
        measure(ratings)  # type: ignore[operator]


@pytest.mark.parametrize(("yes", "of", "printed"), [(42, 51, 0.824), (217, 300, 0.723), (110, 123, 0.894)])
def test_recall_pools_judgements(yes: int, of: int, printed: float) -> None:
    """Table 1's recall is a share of all judgements, three per concept (Afrikaans 17, Farsi 100, Hindi 41)."""
    judgements = [True] * yes + [False] * (of - yes)
    ratings = list(zip(*[iter(judgements)] * 3, strict=True))
    assert round(judged_share(ratings), 3) == printed
    assert math.isnan(judged_share([]))


def test_majority() -> None:
    """A majority is more than half, so two of four is not a majority."""
    assert majority(["a", "b", "a"]) == "a"
    assert majority(["a", "b", "c"]) is None
    assert majority(["a", "a", "b", "b"]) is None
    assert majority([]) is None


def test_expert_set_and_context() -> None:
    """Rows whose majority chose the original are kept, and their share has sufficient context."""
    choices = {"r1": "aab", "r2": "abc", "r3": "bba", "r4": "aaa", "r5": ""}
    originals = {"r1": "a", "r2": "a", "r3": "a", "r4": "a", "r5": None}
    assert expert_set(choices, originals) == ("r1", "r4")
    assert sufficient_context_share(choices, originals) == pytest.approx(2 / 5)
    assert math.isnan(sufficient_context_share({}, originals))
    with pytest.raises(DataError, match="row 'r9'"):
        expert_set({"r9": "a"}, originals)
