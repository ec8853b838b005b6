"""The report's headline follows from the numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.reports.kit.blocks import Fold
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.runs.reader import read_run
from tests.support.records import recorded, verdict, verdicts

HOMOPHONES: dict[str, Any] = {"benchmark": "homophones"}
HTEST: dict[str, Any] = {"benchmark": "htest"}


def title(tmp_path: Path, *runs: list[VerdictRecord], **facts: Any) -> str:
    """Return the heading of a report on runs with these records."""
    folders = [recorded(tmp_path / f"run{n}", records, **facts) for n, records in enumerate(runs)]
    return report_on([read_run(folder) for folder in folders], {}).title


def unread(number: int, **more: Any) -> list[VerdictRecord]:
    """Return unreadable replies on the first items."""
    return [verdict("asked", n, "unparsed", **HOMOPHONES, **more) for n in range(number)]


def asked(correct: int, wrong: int, **more: Any) -> list[VerdictRecord]:
    """Return verdicts on homophones."""
    return verdicts("asked", correct, wrong, **HOMOPHONES, **more)


def models(*correct: int, of: int = 100) -> list[list[VerdictRecord]]:
    """Return a run for each number of correct answers, of the model of that name."""
    return [asked(n, of - n, model=f"m{n}") for n in correct]


def elsewhere(correct: int, **more: Any) -> list[VerdictRecord]:
    """Return a run on other items."""
    return asked(correct, 20 - correct, **{"model": "other", "source": "generated", **more})


def rhymes(correct: int) -> list[VerdictRecord]:
    """Return a run of a task with two answers."""
    return verdicts("rhyme", correct, 200 - correct, **HTEST)


def implicit(correct: int) -> list[VerdictRecord]:
    """Return a run of a task whose best accuracy is one half."""
    return verdicts("implicit", correct, 100 - correct, benchmark="eras", language="zh")


BETTER = "m90 does better than m60 on homophones (+30.0 points, +19.8 to +40.0)"
TO = "Compared with m{} on homophones:"
SEVERAL = f"{TO.format(50)} m89 and m90 do better (m90 most: +40.0 points)"
APART = "; other was measured on other items."


def headings() -> list[tuple[list[list[VerdictRecord]], str]]:
    """Return records of runs with the heading of their report."""
    return [
        ([asked(90, 10)], "model answers 90.0% of homophones (82.4 to 95.1)."),
        ([[*asked(90, 10), *verdicts("word_only", 0, 100, **HOMOPHONES)]],
         "model answers 90.0% of homophones (82.4 to 95.1)."),
        ([[*asked(95, 5), *asked(60, 40, language="zh")]], "* and loses most in Chinese."),
        # A task whose lower accuracy may be chance is no weak spot.
        ([verdicts("rhyme", 8, 2) + verdicts("math", 7, 3)], "model answers 75.0% of sums (50.9 to 91.3)."),
        ([rhymes(102)], "* no better than guessing."),
        ([rhymes(150)], "* of H-TEST (68.4 to 80.8)."),
        ([rhymes(60)], "* fewer than guessing would."),
        (models(60, 90), f"{BETTER}."),
        (models(90, 60), "m60 does worse than m90 on homophones (−30.0 points*"),
        (models(30, 31, of=40), "m31 and m30 do not clearly differ on homophones (+2.5 points, −*)."),
        (models(50, 89, 90), f"{SEVERAL}."),
        (models(93, 98, 99, 50), f"{TO.format(93)} m50 does worse (−43.0 points); m99 does better (+6.0 points);*."),
        (models(93, 98, 99), f"{TO.format(93)} m99 does better (+6.0 points); m98 does not clearly differ."),
        (models(*range(14, 18), of=20), f"{TO.format(14)} no other clearly differs."),
        (models(*range(90, 94), 50), f"{TO.format(90)} m50 does worse (−40.0 points); 3 others do not clearly differ."),
        ([[verdict("asked", n, **HOMOPHONES, model=m)] for n, m in enumerate("ab")],
         "a and b have no item of Homophones in common."),
        ([[]], "No case has a verdict, so there is nothing to report."),
        ([[verdict("asked", 1, "error", **HOMOPHONES)]], "No item of Homophones was answered."),
        ([implicit(41)], "Right by the sign on ERAS pairs, where 50.0% is best: model 41.0% (31.3 to 51.3)."),
        # Where one half is best, no model is better.
        ([implicit(41), implicit(80)], "*where 50.0% is best: model · run0 41.0% (*) and model · run1 80.0% (*)."),
        ([*models(50, 89, 90), elsewhere(0)], SEVERAL + APART),
        ([*models(50, 89, 90), elsewhere(20)], SEVERAL + APART),
        ([elsewhere(20), *models(60, 90)], BETTER + APART),
        ([elsewhere(10, model=m, source=s) for m, s in zip("abc", ("builtin", "generated", "published"), strict=True)],
         "a, b and c have no item of Homophones in common."),
        ([unread(30)], "No reply of model on homophones could be read (30 replies)."),
        ([asked(90, 10, model="old"), [*asked(90, 10, model="new")[:80], *unread(20, model="new")]],
         "new does worse than old on homophones (*; not all replies could be read (25.0% of those of new not), so *."),
        ([asked(90, 10, model="old"), unread(100, model="new")],
         "new does worse than old on homophones (−90.0 points*; no reply of new could be read."),
        ([[*unread(60), *asked(100, 0)[60:]]],
         "model answers 40.0% of homophones (30.3 to 50.3); 60.0% of the replies could not be read, so this may *."),
        ([[verdict("asked", n, "refused", **HOMOPHONES) for n in range(30)]],
         "model refuses all of homophones (30 replies)."),
        ([[verdict("implicit", n, "unparsed", benchmark="eras", language="zh") for n in range(30)]],
         "*; no reply of model could be read."),
    ]  # fmt: skip


def test_the_heading_follows_from_the_numbers(tmp_path: Path) -> None:
    """The heading has the number that matters, and ranks models only where items in common show a difference."""
    for n, (runs, expected) in enumerate(headings()):
        text = title(tmp_path / str(n), *runs)
        assert re.fullmatch(re.escape(expected).replace(r"\*", ".*"), text), text


def test_a_gate_comes_first(tmp_path: Path) -> None:
    """If a gate decided, its decision is the heading."""
    for line, words in (("FAIL: rhyme is lost", "FAIL: rhyme is lost."), ("", "FAIL.")):
        gate = {"decision": "fail", "line": line}
        assert words == title(tmp_path / words, asked(9, 1), gate=gate)


def test_tasks_by_change_worst_first(tmp_path: Path) -> None:
    """The lost task is the first row, whatever its place in the run; controls are not in the table."""
    tasks = ("uppercase", "start_vowel", "end_punctuation", "palindrome", "end_ly", "spelled_math", "rhyme",
             "repeated_word", "hyphenated_word")  # fmt: skip
    lost, gained = {"palindrome": 40}, {"rhyme": 90}
    old = [r for task in tasks for r in verdicts(task, 80, 20, **HTEST, model="old")]
    right = dict.fromkeys(tasks, 80) | lost | gained
    new = [r for task in tasks for r in verdicts(task, right[task], 100 - right[task], **HTEST, model="new")]
    controls = [verdicts("word_only", 90, 10, **HOMOPHONES, model=m) for m in ("old", "new")]
    runs = [recorded(tmp_path / m, [*rows, *c, *asked(9, 1, model=m)]) for m, rows, c in
            zip(("old", "new"), (old, new), controls, strict=True)]  # fmt: skip
    report = report_on(list(map(read_run, runs)), {})
    assert report.changes is not None
    first, *_, last = rows = [[cell.text for cell in row] for row in report.changes.rows]
    assert (first[0], first[2][:5], first[3][:5]) == ("H-TEST: palindrome", "80.0%", "40.0%")
    assert (first[4].split(" (")[0], first[5:]) == ("−40.0", ["40", "0"])
    assert (last[0], len(rows)) == ("H-TEST: rhyme", len(tasks) + 1)
    assert report_on([read_run(runs[0])], {}).changes is None
    # One line per suite, worst first, with the task that lost most.
    assert report.table is not None
    suites = [[cell.text for cell in row] for row in report.table.rows]
    assert [(row[0], row[4:]) for row in suites] == [
        ("H-TEST", ["40", "10", "palindrome −40.0"]), ("Homophones", ["0", "0", ""]),
    ]  # fmt: skip
    assert [section.title for section in report.sections][:2] == ["H-TEST", "Homophones"]


def test_suites_of_one_model_only_are_folded_into_one(tmp_path: Path) -> None:
    """What only the baseline measured is one sentence and one collapsed part, not a line per suite."""
    pairs = verdicts("implicit", 9, 9, benchmark="eras")
    old = recorded(tmp_path / "old", [*asked(9, 1), *rhymes(150), *pairs])
    new = recorded(tmp_path / "new", asked(8, 2, model="new"))
    report = report_on([read_run(old), read_run(new)], {})
    assert report.table is not None
    assert [row[0].text for row in report.table.rows] == ["Homophones"]
    assert report.unshared == "Only model was measured on H-TEST and ERAS."
    assert [section.title for section in report.sections][:2] == ["Homophones", "Measured for one model"]
    folded = [block.title for block in report.sections[1].blocks if isinstance(block, Fold)]
    assert folded == ["H-TEST", "ERAS"]


def test_several_models_are_a_table_of_models_and_suites(tmp_path: Path) -> None:
    """With more than two models, each is a line with its decision and its accuracy on every suite."""
    runs = []
    for n, name in ((9, "a"), (5, "b"), (1, "c")):
        others = [] if name == "c" else verdicts("rhyme", n, 9, model=name, **HTEST)
        gate = {"decision": "fail", "line": "FAIL: lost"} if name == "b" else None
        runs.append(recorded(tmp_path / name, [*asked(n, 10 - n, model=name), *others], gate=gate))
    report = report_on(list(map(read_run, runs)), {})
    assert report.table is not None
    assert [name for name, _ in report.table.columns] == ["Model", "Decision", "Homophones", "H-TEST"]
    rows = sorted([cell.text.split()[0] for cell in row] for row in report.table.rows)
    assert [row[:3] for row in rows] == [["a", "–", "90.0%"], ["b", "FAIL", "50.0%"], ["c", "–", "10.0%"]]
    assert [row[3] == "–" for row in rows] == [False, False, True]
