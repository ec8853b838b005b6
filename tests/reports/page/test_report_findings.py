"""The report's headline follows from the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.runs.reader import read_run
from tests.support.records import recorded, verdict, verdicts

HOMOPHONES: dict[str, Any] = {"benchmark": "homophones"}
HTEST: dict[str, Any] = {"benchmark": "htest"}


def title(tmp_path: Path, *runs: list[VerdictRecord], **facts: Any) -> str:
    """Return the heading of a report on runs with these records."""
    folders = [recorded(tmp_path / f"run{n}", records, **facts) for n, records in enumerate(runs)]
    return report_on([read_run(folder) for folder in folders], {}).title


def test_heading_gives_the_share_of_one_model(tmp_path: Path) -> None:
    """The heading gives the share with its interval; without a weak spot it mentions none."""
    assert title(tmp_path, verdicts("asked", 90, 10, **HOMOPHONES)) == (
        "model answers 90.0% of homophones (82.4 to 95.1)."
    )


def test_the_weak_spot_is_named(tmp_path: Path) -> None:
    """The heading names the language whose interval is below those of the other languages."""
    records = verdicts("asked", 95, 5, **HOMOPHONES) + verdicts("asked", 60, 40, **HOMOPHONES, language="zh")
    assert title(tmp_path, records).endswith("and loses most in Chinese.")


def test_a_weak_spot_within_chance_is_not_named(tmp_path: Path) -> None:
    """A task whose lower accuracy may be chance is not named as a weak spot."""
    records = verdicts("rhyme", 8, 2) + verdicts("math", 7, 3)
    assert "loses" not in title(tmp_path, records)


def test_controls_do_not_count(tmp_path: Path) -> None:
    """Wrong answers on a control do not affect the heading."""
    records = verdicts("asked", 90, 10, **HOMOPHONES) + verdicts("word_only", 0, 100, **HOMOPHONES)
    assert "90.0%" in title(tmp_path, records)


@pytest.mark.parametrize(
    ("correct", "words"),
    [
        (102, "no better than guessing."),
        (150, "of H-TEST (68.4 to 80.8)."),
        (60, "fewer than guessing would."),
    ],
)
def test_heading_says_no_better_than_guessing(tmp_path: Path, correct: int, words: str) -> None:
    """An A/B accuracy whose interval contains one half is called no better than guessing."""
    assert title(tmp_path, verdicts("rhyme", correct, 200 - correct, **HTEST)).endswith(words)


def test_the_better_of_two_is_named(tmp_path: Path) -> None:
    """The second run is called better or worse than the first if a one-sided test says so."""
    low, high = (verdicts("asked", n, 100 - n, **HOMOPHONES, model=f"m{n}") for n in (60, 90))
    assert title(tmp_path, low, high) == (
        "m90 does better than m60 on homophones (+30.0 points, +19.8 to +40.0)."
    )
    worse = title(tmp_path / "again", high, low)
    assert worse.startswith("m60 does worse than m90 on homophones (−30.0 points")


def test_heading_gives_the_detectable_drop(tmp_path: Path) -> None:
    """Without a clear difference the heading gives the smallest drop detectable with so many items."""
    first, second = (verdicts("asked", n, 40 - n, **HOMOPHONES, model=f"m{n}") for n in (30, 31))
    text = title(tmp_path, first, second)
    assert "m31 and m30 do not clearly differ" in text
    assert "40 items would show a drop of" in text


def test_the_best_of_several_is_named_with_its_rivals(tmp_path: Path) -> None:
    """Among three or more models the heading names the best and those not clearly behind it."""
    runs = [verdicts("asked", n, 100 - n, **HOMOPHONES, model=f"m{n}") for n in (50, 89, 90)]
    assert title(tmp_path, *runs) == (
        "m90 does best on homophones: 90.0% (82.4 to 95.1), not clearly ahead of m89."
    )


def test_equals_are_not_ranked(tmp_path: Path) -> None:
    """If no model is clearly ahead, none is called the best."""
    runs = [verdicts("asked", n, 20 - n, **HOMOPHONES, model=f"m{n}") for n in (15, 16, 17)]
    assert title(tmp_path, *runs).startswith("3 models do not clearly differ on homophones")


def test_heading_says_that_no_items_are_in_common(tmp_path: Path) -> None:
    """Two runs without common items are not compared, and the heading says so."""
    one = [verdict("asked", 1, **HOMOPHONES, model="a")]
    other = [verdict("asked", 2, **HOMOPHONES, model="b")]
    assert title(tmp_path, one, other) == "a and b have no item of Homophones in common."


@pytest.mark.parametrize(
    ("decision", "passed", "words"),
    [
        ("pass", True, "The gate passes: all is met."),
        ("fail", False, "The gate fails: all is met."),
        ("inconclusive", True, "The gate is inconclusive, which its file accepts: all is met."),
        ("invalid", False, "The gate cannot decide: all is met."),
    ],
)
def test_a_gate_comes_first(tmp_path: Path, decision: str, passed: bool, words: str) -> None:
    """If a gate decided, its decision is the heading."""
    gate = {"decision": decision, "passed": passed, "line": f"{decision}: all is met"}
    assert words == title(tmp_path, verdicts("asked", 9, 1, **HOMOPHONES), gate=gate)


def test_heading_says_that_nothing_was_measured(tmp_path: Path) -> None:
    """The heading of a run without verdicts says that nothing was measured."""
    assert title(tmp_path, []) == "No case has a verdict, so there is nothing to report."
    errors = [verdict("asked", 1, "error", **HOMOPHONES)]
    assert title(tmp_path / "errors", errors) == "Nothing of Homophones was answered."


def test_heading_of_a_task_with_a_target(tmp_path: Path) -> None:
    """Accuracy on eras implicit is best at one half: the heading says so and calls no model better."""
    runs = [verdicts("implicit", n, 100 - n, benchmark="eras", language="zh") for n in (41, 80)]
    assert title(tmp_path / "one", runs[0]) == (
        "Right by the sign on ERAS pairs, where 50.0% is best: model 41.0% (31.3 to 51.3)."
    )
    both = title(tmp_path / "two", *runs)
    assert "where 50.0% is best" in both
    assert "better" not in both


def test_models_on_other_items_are_not_ranked(tmp_path: Path) -> None:
    """A model that has no item in common with the others is neither close to the best nor the best."""
    runs = [verdicts("asked", n, 100 - n, **HOMOPHONES, model=f"m{n}") for n in (50, 89, 90)]
    for correct in (0, 20):
        other = verdicts("asked", correct, 20 - correct, **HOMOPHONES, model="other", source="generated")
        assert title(tmp_path / str(correct), *runs, other) == (
            "m90 does best on homophones: 90.0% (82.4 to 95.1), not clearly ahead of m89; "
            "other was measured on other items."
        )


def test_pair_with_common_items_is_compared(tmp_path: Path) -> None:
    """Of three models, the two on the same items are compared, and the third one is named."""
    low, high = (verdicts("asked", n, 100 - n, **HOMOPHONES, model=f"m{n}") for n in (60, 90))
    other = verdicts("asked", 20, 0, **HOMOPHONES, model="other", source="generated")
    assert title(tmp_path, other, low, high) == (
        "m90 does better than m60 on homophones (+30.0 points, +19.8 to +40.0); other was measured on other items."
    )


def test_heading_says_that_no_item_is_shared_by_any_two_models(tmp_path: Path) -> None:
    """Three runs on different items are not compared."""
    runs = [
        verdicts("asked", 20, 20, **HOMOPHONES, model=name, source=source)
        for name, source in (("a", "builtin"), ("b", "generated"), ("c", "published"))
    ]
    assert title(tmp_path, *runs) == "a, b and c have no item of Homophones in common."


def unread(number: int, **more: Any) -> list[VerdictRecord]:
    """Return unreadable replies on the first items."""
    return [verdict("asked", n, "unparsed", **HOMOPHONES, **more) for n in range(number)]


def test_heading_says_that_no_reply_could_be_read(tmp_path: Path) -> None:
    """A model whose replies are all unreadable gets no share, and two models are compared with a remark."""
    assert title(tmp_path / "one", unread(30)) == (
        "No reply of model on homophones could be read (30 replies)."
    )
    pair = title(
        tmp_path / "two", verdicts("asked", 90, 10, **HOMOPHONES, model="old"), unread(100, model="new")
    )
    assert pair.startswith("new does worse than old on homophones (−90.0 points")
    assert pair.endswith("; no reply of new could be read.")
    mixed = [*unread(60), *verdicts("asked", 100, 0, **HOMOPHONES)[60:]]
    assert title(tmp_path / "mixed", mixed) == (
        "model answers 40.0% of homophones (30.3 to 50.3); 60 of 100 replies could not be read."
    )


def test_heading_says_that_all_was_refused(tmp_path: Path) -> None:
    """A model that refuses every item is said to refuse, not to answer 0.0%."""
    refused = [verdict("asked", n, "refused", **HOMOPHONES) for n in range(30)]
    assert title(tmp_path, refused) == "model refuses all of homophones (30 replies)."


def test_unreadable_replies_on_a_task_with_a_target(tmp_path: Path) -> None:
    """Also where an accuracy of one half is best, the heading says that no reply could be read."""
    records = [verdict("implicit", n, "unparsed", benchmark="eras", language="zh") for n in range(30)]
    assert title(tmp_path, records).endswith("; no reply of model could be read.")
