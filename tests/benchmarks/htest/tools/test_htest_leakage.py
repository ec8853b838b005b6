"""The groups of an H-TEST task can be separated only by the rule."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from fixtures.htest_leakage import OWN_FEATURES, Features, features
from pytest_llmprops.benchmarks.htest.tools.generators import TASKS, Row, generate
from pytest_llmprops.benchmarks.htest.tools.matched_words import Lexicon

ITEMS = 4000
SEED = 5
CLASSIFIERS = ("logistic", "tree")
# Tasks whose rule concerns a fixed-form element: spelling it changes the length or the number of words.
CHANGES_SIZE = ("hyphenated_word", "spelled_math", "spelled_number")

_ROWS: dict[str, list[Row]] = {}


def rows_of(task: str, lexicon: Lexicon) -> list[Row]:
    """Return the task's 4,000 items, generated once."""
    if task not in _ROWS:
        _ROWS[task] = generate(task, n=ITEMS, seed=SEED, lexicon=lexicon)
    return _ROWS[task]


def cross_validated_hits(samples: Sequence[Features], labels: Sequence[int], kind: str) -> int:
    """Return how many labels five-fold cross-validation predicts right."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler
    from sklearn.tree import DecisionTreeClassifier

    model = (
        LogisticRegression(solver="liblinear")
        if kind == "logistic"
        else DecisionTreeClassifier(max_depth=4, random_state=0)
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(
        make_pipeline(DictVectorizer(), MaxAbsScaler(), model), list(samples), list(labels), cv=folds
    )
    return sum(int(guess) == label for guess, label in zip(predicted, labels, strict=True))


def upper_limit(hits: int, items: int) -> float:
    """Return the upper end of the exact two-sided 99% interval of a share."""
    from scipy.stats import binomtest

    return float(binomtest(hits, items).proportion_ci(0.99, "exact").high)


def labels_of(rows: Sequence[Row]) -> list[int]:
    """Return the index of the right option per row."""
    return [row["correct_options"][0] for row in rows]


def test_every_task_has_its_own_features_named() -> None:
    """The table of masked features covers the ten tasks, each with its rule and a description of what is
    hidden.
    """
    assert tuple(sorted(OWN_FEATURES)) == TASKS
    assert all(own.rule and own.hides for own in OWN_FEATURES.values())


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("task", TASKS)
def test_groups_cannot_be_distinguished_without_the_rule(task: str, kind: str, lexicon: Lexicon) -> None:
    """With the rule's own features masked, no classifier exceeds 60% (upper 99% limit)."""
    rows = rows_of(task, lexicon)
    hits = cross_validated_hits([features(task, row["centerpiece"]) for row in rows], labels_of(rows), kind)
    assert upper_limit(hits, len(rows)) <= 0.60, f"{task}: {kind} reaches {hits / len(rows):.3f}"


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("task", TASKS)
def test_a_planted_feature_is_found(task: str, kind: str, lexicon: Lexicon) -> None:
    """With one word planted in group A (99 of 100 items) and made-up words in B, both classifiers exceed
    95%.
    """
    rows = rows_of(task, lexicon)[:1000]
    rng = random.Random(1)

    def plant(row: Row) -> str:
        in_a = (row["correct_options"] == [0]) == (rng.random() < 0.99)
        # As long as the planted word and with the same outer letters, so that only the unigram differs.
        word = "zonk" if in_a else f"z{rng.choice('abcdef')}{rng.choice('ghijlm')}k"
        first, *others = row["centerpiece"].split()
        return " ".join([first, word, *others])

    samples = [features(task, plant(row)) for row in rows]
    assert cross_validated_hits(samples, labels_of(rows), kind) / len(rows) > 0.95


LEAKS: dict[str, Callable[[str], str]] = {
    "longer": lambda text: text + " " * 60,
    "exclaims": lambda text: text.replace(".", "!!"),
    "begins with z": lambda text: "z" + text,
}


@pytest.mark.parametrize("leak", LEAKS)
def test_other_planted_features_are_found(leak: str, lexicon: Lexicon) -> None:
    """The tree also detects length, punctuation and first letter, each planted in group A."""
    rows = rows_of("end_ly", lexicon)[:1000]
    planted = [
        LEAKS[leak](row["centerpiece"]) if index % 2 == 0 else row["centerpiece"]
        for index, row in enumerate(rows)
    ]
    hits = cross_validated_hits([features("end_ly", text) for text in planted], labels_of(rows), "tree")
    assert hits / len(rows) > 0.95


@pytest.mark.parametrize("task", CHANGES_SIZE)
def test_raw_length_does_not_reveal_the_group(task: str, lexicon: Lexicon) -> None:
    """Length alone, even unmasked, gives at most 60%, because places of all lengths hide it."""
    rows = rows_of(task, lexicon)
    samples: list[Features] = [{"length": len(row["centerpiece"])} for row in rows]
    for kind in CLASSIFIERS:
        hits = cross_validated_hits(samples, labels_of(rows), kind)
        assert upper_limit(hits, len(rows)) <= 0.60, f"{task}: {kind} reaches {hits / len(rows):.3f}"
