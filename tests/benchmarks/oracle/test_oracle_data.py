"""The structure of the oracle-checker's built-in sentences and pairs, and what their README says about them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.extraction import contains_words
from pytest_llmprops.benchmarks.oracle.items import DOMAINS, MSRP, REDOCRED, items
from pytest_llmprops.benchmarks.oracle.metrics import FEATURES, shallow
from pytest_llmprops.core.items import Item, check_unique
from pytest_llmprops.data.files import DataFolder, builtin_data


@cache
def builtin() -> tuple[Item, ...]:
    return tuple(items(DataFolder(builtin_data(), "builtin")))


def sentences(domain: str) -> list[Item]:
    return [item for item in builtin() if item.task == "linearity" and item["domain"] == domain]


def pairs() -> list[Item]:
    return [item for item in builtin() if item.task in ("yes", "no")]


def words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.casefold()))


def named(item: Item) -> list[str]:
    return [name for name, _ in item["entities"]]


def test_sizes() -> None:
    """There are at least so many sentences and pairs, as the README's table says, with unique ids and texts."""
    counts = {domain: len(sentences(domain)) for domain in DOMAINS} | {"pairs": len(pairs())}
    least = {"general": 120, "technical": 80, "hardware": 60, "pairs": 160}
    assert all(counts[name] >= number for name, number in least.items())
    readme = DataFolder(builtin_data(), "builtin").text("oracle/README.md")
    assert counts == {name: int(rows) for name, rows in re.findall(r"`(\w+)\.jsonl` \| (\d+) ", readme)}
    check_unique(builtin(), "oracle")
    assert all(re.fullmatch(rf"oracle/({'|'.join(DOMAINS)}|pair)/\d{{3}}", item.id) for item in builtin())
    assert {(item.source, item.language) for item in builtin()} == {("builtin", "en")}
    texts = [item[key] for item in builtin() for key in ("text", "first", "second") if key in item.fields]
    assert [text for text, count in Counter(map(words, texts)).items() if count > 1] == []


def test_entities_occur_in_the_text() -> None:
    """Every label is in its sentence as whole words, occurs once in the list and has a kind."""
    for item in (item for domain in DOMAINS for item in sentences(domain)):
        assert all(contains_words(item["text"], name) for name in named(item)), item.id
        assert len(set(named(item))) == len(named(item)), item.id
        assert all(re.fullmatch(r"[a-z]+", kind) for _, kind in item["entities"]), item.id


def test_numerals_and_months_are_labelled() -> None:
    """As the README says, every digit, month and day of the week is inside a label."""
    months = "January|February|March|April|June|July|August|September|October|November|December"
    pattern = re.compile(rf"\d[\d.,:]*\d|\d|\b(?:{months})\b|\b(?:Sun|Mon|Tues|Wednes|Thurs|Fri|Satur)day\b")
    for item in sentences("general"):
        text = item["text"]
        spans = [found.span() for name in named(item) for found in re.finditer(re.escape(name), text)]
        for found in pattern.finditer(text):
            assert any(start <= found.start() and found.end() <= end for start, end in spans), text


@pytest.mark.parametrize(("domain", "kept"), [("technical", str.upper), ("hardware", None)])
def test_names_are_labelled_everywhere(domain: str, kept: Any) -> None:
    """A name labelled in one sentence is labelled in all (technical: unless in upper case); a number is in none."""
    names = {name for item in sentences(domain) for name in named(item) if not kept or name != kept(name)}
    assert len(names) > 20
    for item in sentences(domain):
        text = item["text"]
        for name in sorted(named(item), key=len, reverse=True):
            text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w|\.\w)", "", text)
        assert not [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)], item.id
        # "CSR" is a common noun: a specification has many of them.
        capitals = set(re.findall(r"\b[A-Z][A-Z0-9_.]*[A-Z0-9]\b", text))
        assert domain != "hardware" or capitals <= {"CSR"}, item.id
        assert not [name for name in named(item) if re.match(r"[\d-]", name)], item.id


def test_pairs_are_balanced() -> None:
    """Labels, and levels within each label, are equally frequent and mixed throughout the file."""
    counts = Counter((item.task, item["level"]) for item in pairs())
    assert set(counts) == {(task, level) for task in ("yes", "no") for level in ("clear", "subtle")}
    assert len(set(counts.values())) == 1
    for start in range(0, len(pairs()), 8):
        part = Counter(item["label"] for item in pairs()[start : start + 8])
        assert part[True] == part[False]


def test_changes() -> None:
    """Each label has pairs of several kinds of change, and the two labels share no kind.

    If one sentence has news that the other lacks, the pair is labelled 0, whichever of the two it is. Both sentences
    of a pair labelled 1 therefore have the same names.
    """
    rows = DataFolder(builtin_data(), "builtin").jsonl("oracle/pairs.jsonl", required=("change",))
    changes = {label: {row["change"] for row in rows if row["label"] == label} for label in (0, 1)}
    assert min(map(len, changes.values())) >= 5
    assert not changes[0] & changes[1]
    assert not {"addition", "omission"} & changes[1]
    for item in pairs():
        if item["label"]:
            for one, other in (("first", "second"), ("second", "first")):
                inner = re.findall(r"\w+", item[one])[1:]
                names = {word.casefold() for word in inner if word[0].isupper()}
                assert names <= set(words(item[other])), (item.id, names)


#: highest share of the labels of the built-in pairs that anything shallow may get right
MOST_SHALLOW = 0.6


def test_nothing_shallow_tells_the_labels_apart() -> None:
    """No threshold on a feature, linear classifier or forest over all features gets more than 60% right.

    A threshold may be used in either direction; the classifiers are cross-validated.
    """
    rows = [list(shallow(item["first"], item["second"]).values()) for item in pairs()]
    labels = [item["label"] for item in pairs()]
    for feature, values in zip(FEATURES, zip(*rows, strict=True), strict=True):
        for threshold in set(values):
            right = sum((value >= threshold) == label for value, label in zip(values, labels, strict=True))
            assert max(right, len(labels) - right) <= MOST_SHALLOW * len(labels), (feature, threshold)
    pytest.importorskip("sklearn")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    linear = make_pipeline(StandardScaler(), LogisticRegression())
    for classifier in (linear, RandomForestClassifier(50, max_depth=4, random_state=0)):
        folds = StratifiedKFold(10, shuffle=True, random_state=0)
        assert cross_val_score(classifier, rows, labels, cv=folds).mean() <= MOST_SHALLOW


#: file -> pairs labelled equivalent, and not (Dolan & Brockett, 2005)
PAIRS = {MSRP[0]: (2753, 1323), MSRP[1]: (1147, 578)}
#: file -> documents (Tan et al., 2022)
DOCUMENTS = {REDOCRED["d"]: 500, REDOCRED["t"]: 500, REDOCRED["r"]: 3053}


def runs(result: Iterable[Item], n: int = 8) -> dict[tuple[str, ...], str]:
    """Return all runs of ``n`` words, or the whole text if it is shorter, with a text that has it."""
    every = [item[key] for item in result for key in ("text", "first", "second") if key in item.fields]
    return {words(text)[k : k + n]: text for text in every for k in range(max(1, len(words(text)) - n + 1))}


def test_published_data(published: Path) -> None:
    """They are complete, unique, read with 1,000 items per second, and no built-in sentence has eight words of them.

    A document is a cluster. Very few spaces are misplaced, and very few names are not whole words.
    """
    files = DataFolder(published, "published")
    there = [path for path in (*PAIRS, *DOCUMENTS) if files.exists(path)] or pytest.skip(
        "needs MSRP or Re-DocRED"
    )
    start = time.process_time()
    loaded = list(items(files))
    assert time.process_time() - start < max(1.0, len(loaded) / 1000)
    check_unique([*loaded, *builtin()], "oracle")
    tasks = Counter(item.task for item in loaded)
    assert (tasks["yes"], tasks["no"]) == tuple(
        sum(PAIRS[path][n] for path in there if path in PAIRS) for n in (0, 1)
    )
    from_documents = [item for item in loaded if item.task == "linearity" and item["domain"] == "published"]
    assert len({item.cluster for item in from_documents}) == sum(DOCUMENTS.get(path, 0) for path in there)
    bad = re.compile(r"\s[,;:.!?)\]](?:\s|\Z)|[(\[]\s|\s(?:'s|n't)\b")
    assert sum(bool(bad.search(item["text"])) for item in from_documents) <= len(from_documents) / 1000
    whole = [contains_words(item["text"], name) for item in from_documents for name in named(item)]
    assert whole.count(False) <= len(whole) / 1000
    ours, theirs = runs(builtin()), runs(loaded)
    assert [text for run, text in ours.items() if run in theirs] == []
