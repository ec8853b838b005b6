"""The groups of an H-TEST task can be separated only by the rule.

The check: turn every item into n-grams, hide what the rule itself is about, and try to predict the label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean

import pytest
from scipy.stats import binomtest

from pytest_llmprops.benchmarks.htest.items import TASKS, read_rows
from pytest_llmprops.benchmarks.htest.tools.generation import generate, numbered
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.pronunciation import load_cmudict

ITEMS = 1400
SEED = 5


Features = dict[str, float | str]

_PUNCTUATION = re.compile(r"[^\w\s]")
NUMBERS = re.compile(
    r"\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|twenty|thirty|forty|fifty|sixty"
    r"|eighty|ninety|\d+)\b"
)
OPERATORS = re.compile(r" (plus|minus|times|over|modulo|equals|exceeds|below|[-+*/%=<>]) ")


def _without_last_word(text: str) -> str:
    rest, space, last = text.rpartition(" ")
    return rest + space + re.sub(r"\w", "_", last)


def _without_repeats(text: str) -> str:
    letters = [_PUNCTUATION.sub("", word) for word in text.split()]
    is_masked = [False, *(len(one) == len(other) for one, other in pairwise(letters))]
    return " ".join("_" * len(w) if masked else w for w, masked in zip(letters, is_masked, strict=True))


#: task -> function from a text to the text without what the rule is about; it does not depend on the label
MASKS: dict[str, Callable[[str], str]] = {
    "end_ly": _without_last_word,
    "end_punctuation": lambda text: text.rstrip(".!?"),
    "hyphenated_word": lambda text: text.replace("-", " "),
    "palindrome": lambda text: text[: len(text) // 2].ljust(len(text), "_"),
    "repeated_word": _without_repeats,
    "rhyme": _without_last_word,
    "spelled_math": lambda text: OPERATORS.sub(" OPERATOR ", text),
    "spelled_number": lambda text: NUMBERS.sub("NUMBER", text),
    "start_vowel": lambda text: re.sub(r"^\S+", lambda first: "_" * len(first[0]), text),
    "uppercase": str.casefold,
}


def ngrams(task: str, text: str) -> Features:
    """Return the n-grams of one item without its rule, with their positions.

    For each word, counted from both ends: the word, its first letter, its last two letters and its punctuation. Also
    the words at any place, pairs of neighbouring words, and triples of letters within words.

    """
    masked = MASKS[task](text)
    tokens = masked.split()
    result: Features = {"length": len(masked), "words": len(tokens)}
    for place, token in enumerate(tokens):
        word = _PUNCTUATION.sub("", token)
        # The same word from the left (0, 1, …) and from the right (-1, -2, …).
        for where in (place, place - len(tokens)):
            result |= {f"{where}:{word}": 1, f"{where}:{word[:1]}…": 1, f"{where}:…{word[-2:]}": 1}
            result[f"{where} marks"] = len(token) - len(word)
        result[f"word:{word}"] = 1
        for start in range(max(len(word) - 2, 0)):
            result[f"letters:{word[start : start + 3]}"] = 1
    for first, second in pairwise(tokens):
        result[f"pair:{first} {second}"] = 1
    return result


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


def planted(task: str, text: str, label: int) -> str:
    """Return a text with one word in group A and another in group B, where no mask hides it."""
    tokens = text.split()
    tokens.insert(task != "palindrome", "zink" if label else "zonk")
    return " ".join(tokens)


@pytest.mark.parametrize("task", TASKS)
def test_groups_cannot_be_told_apart_without_the_rule(task: str) -> None:
    """With the rule masked, n-grams and their positions give at most 60% (upper 99% limit), also with boosted trees.

    Both classifiers find a planted word: they exceed 95%.
    """
    rows = numbered(generate(task, n=ITEMS, seed=SEED, lexicon=load_cmudict()))
    labels = [int(row["correct_options"][0]) for row in rows]
    samples = [ngrams(task, row["centerpiece"]) for row in rows]
    texts = (planted(task, row["centerpiece"], label) for row, label in zip(rows, labels, strict=True))
    marked = [ngrams(task, text) for text in islice(texts, 600)]
    for kind in ("logistic", "boosting"):
        hits = cross_validated_hits(samples, labels, kind)
        limit = binomtest(hits, ITEMS).proportion_ci(0.99, "exact").high
        assert limit <= 0.60, f"{kind} reaches {hits / ITEMS:.3f}"
        assert cross_validated_hits(marked, labels[:600], kind) / 600 > 0.95, kind


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z']+", text)


def _has_mark(text: str) -> bool:
    return re.search(r"[^\w\s'-]", text) is not None


#: task -> whether a text is A, without looking at the position that the rule is about; the rows of bench/README.md
SHORTCUTS: dict[str, tuple[Callable[[str], bool], Callable[[str], bool]]] = {
    "end_ly": (
        lambda text: any(word.endswith("ly") for word in _words(text)),
        lambda text: not any(word.endswith("ly") for word in _words(text)[:-1]),
    ),
    "start_vowel": (
        lambda text: any(word[0] in "aeiouAEIOU" for word in _words(text)),
        lambda text: _words(text)[2][0] not in "aeiouAEIOU",
    ),
    "end_punctuation": (_has_mark, lambda text: not _has_mark(text.rstrip(".!?"))),
}


@pytest.mark.parametrize("source", ["builtin", "published"])
def test_documented_shortcuts(source: str, request: pytest.FixtureRequest) -> None:
    """bench/README.md has each shortcut's accuracy on the built-in items, and on the published ones if available."""
    folder = builtin_data() if source == "builtin" else request.getfixturevalue("published")
    text = (Path(__file__).parents[4] / "bench" / "README.md").read_text("utf-8")
    for task, shortcuts in SHORTCUTS.items():
        documented = re.findall(rf"^\| `{task}` \| .+: [AB] \| (.+) \| (.+) \|$", text, re.MULTILINE)
        shown = [row[source == "published"] for row in documented]
        if shown[0] != "not measured":
            rows = read_rows(DataFolder(folder, source), f"htest/{task}_test.jsonl", options=2)
            right = [[is_a(row["text"]) == (row["answer"] == 0) for row in rows] for is_a in shortcuts]
            assert shown == [f"{100 * fmean(one):.4g}%" for one in right]
