"""The groups of an H-TEST task can be separated only by the rule."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from pytest_llmprops.benchmarks.htest.items import TASKS, read_rows
from pytest_llmprops.benchmarks.htest.tools.generation import Lexicon, generate, numbered
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.htest_leakage import Features, ngrams

ITEMS = 1400
SEED = 5
KINDS = ("logistic", "boosting")
Row = dict[str, Any]


def cross_validated_hits(samples: Sequence[Features], labels: Sequence[int], kind: str) -> int:
    """Return how many labels five-fold cross-validation predicts right.

    :param kind: ``logistic``, or ``boosting`` on the 400 features that depend most on the label.
    """
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.feature_selection import SelectKBest, chi2
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    models = {
        "logistic": [LogisticRegression(solver="liblinear")],
        "boosting": [
            SelectKBest(chi2, k=400),
            GradientBoostingClassifier(n_estimators=40, learning_rate=0.3, subsample=0.5, random_state=0),
        ],
    }
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    # One table for all folds: a feature that a fold's training items lack is a column of zeros there.
    table = DictVectorizer().fit_transform(samples)
    predicted = cross_val_predict(make_pipeline(MaxAbsScaler(), *models[kind]), table, list(labels), cv=folds)
    return sum(int(guess) == label for guess, label in zip(predicted, labels, strict=True))


def upper_limit(hits: int, items: int) -> float:
    """Return the upper end of the exact two-sided 99% interval of a share."""
    from scipy.stats import binomtest

    return float(binomtest(hits, items).proportion_ci(0.99, "exact").high)


def planted(task: str, rows: Sequence[Row]) -> list[str]:
    """Return the texts with a word planted in group A (99 of 100 items), and made-up words in B.

    These are as long and have the same outer letters, so that only the unigram differs.
    """
    rng = random.Random(1)
    texts = []
    for row in rows:
        in_a = (row["correct_options"] == [0]) == (rng.random() < 0.99)
        word = "zonk" if in_a else f"z{rng.choice('abcdef')}{rng.choice('ghijlm')}k"
        tokens = row["centerpiece"].split()
        # Where the task's rule does not hide it.
        tokens.insert(task != "palindrome", word)
        texts.append(" ".join(tokens))
    return texts


@pytest.mark.parametrize("task", TASKS)
def test_groups_cannot_be_told_apart_without_the_rule(task: str, lexicon: Lexicon) -> None:
    """With the rule masked, n-grams and their positions give at most 60% (upper 99% limit), also with boosted trees.

    Both classifiers find a planted word: they exceed 95%.
    """
    rows = numbered(generate(task, n=ITEMS, seed=SEED, lexicon=lexicon))
    labels = [int(row["correct_options"][0]) for row in rows]
    samples = [ngrams(task, row["centerpiece"]) for row in rows]
    marked = [ngrams(task, text) for text in planted(task, rows[:600])]
    for kind in KINDS:
        hits = cross_validated_hits(samples, labels, kind)
        assert upper_limit(hits, ITEMS) <= 0.60, f"{kind} reaches {hits / ITEMS:.3f}"
        assert cross_validated_hits(marked, labels[:600], kind) / 600 > 0.95, kind


WORD = re.compile(r"[A-Za-z']+")
MARK = re.compile(r"[^\w\s'-]")
#: task -> functions that return whether the text is A, without looking at the position that the rule is about
SHORTCUTS: dict[str, tuple[Callable[[str], bool], Callable[[str], bool]]] = {
    "end_ly": (
        lambda text: any(word.endswith("ly") for word in WORD.findall(text)),
        lambda text: not any(word.endswith("ly") for word in WORD.findall(text)[:-1]),
    ),
    "start_vowel": (
        lambda text: any(word[0] in "aeiouAEIOU" for word in WORD.findall(text)),
        lambda text: WORD.findall(text)[2][0] not in "aeiouAEIOU",
    ),
    "end_punctuation": (
        lambda text: MARK.search(text) is not None,
        lambda text: MARK.search(text.rstrip(".!?")) is None,
    ),
}


@pytest.mark.parametrize("task", SHORTCUTS)
def test_documented_shortcuts(task: str, request: pytest.FixtureRequest) -> None:
    """bench/README.md has each shortcut's accuracy on the built-in items, and on the published ones if available."""
    text = (Path(__file__).parents[4] / "bench" / "README.md").read_text("utf-8")
    documented = re.findall(
        rf"^\| `{task}` \| .+: [AB] \| ([\d.]+)% \| ([\d.]+%|not measured) \|", text, re.MULTILINE
    )

    def accuracies(source: DataFolder) -> list[float]:
        rows = read_rows(source, f"htest/{task}_test.jsonl", options=2)
        return [
            100 * fmean(is_a(row["text"]) == (row["answer"] == 0) for row in rows) for is_a in SHORTCUTS[task]
        ]

    assert [float(builtin) for builtin, _ in documented] == accuracies(DataFolder(builtin_data(), "builtin"))
    if documented[0][1] != "not measured":
        published = accuracies(DataFolder(request.getfixturevalue("published"), "published"))
        assert [float(value.rstrip("%")) for _, value in documented] == published
