"""How replies were read: strata, the sample to check, corrected accuracy, warnings, page, command, and marks."""

from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_llmprops.benchmarks.homophones.benchmark import Homophones
from pytest_llmprops.benchmarks.htest.benchmark import HTest
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.core.verdicts import VerdictKey, VerdictRecord
from pytest_llmprops.records.files import from_plain, plain
from pytest_llmprops.records.rows import Review, ReviewStatus
from pytest_llmprops.reports.page.build import write_report
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.readings import (
    LEAST,
    Readings,
    Stratum,
    append_review,
    read_reviews,
    reading_remarks,
    readings_of,
)
from pytest_llmprops.statistics.intervals import wilson
from tests.support.records import exchange, recorded, verdict
from tests.support.report_items import unpacked

HTEST: dict[str, Any] = {"benchmark": "htest"}


def read(number: int, status: RecordStatus, rule: str, alike: float = 1.0, **more: Any) -> VerdictRecord:
    """Return the verdict on a reply that a rule read."""
    return verdict(
        "rhyme", number, status, evidence={"read_by": rule}, values={"read_alike": alike}, **{**HTEST, **more}
    )


def mark(record: VerdictRecord, status: str) -> Review:
    """Return a person's mark on a verdict."""
    return Review("run", *record.key, status=cast("ReviewStatus", status))


def marks(pairs: Iterable[tuple[VerdictRecord, str]]) -> dict[VerdictKey, Review]:
    return {record.key: mark(record, status) for record, status in pairs}


RECORDS = [
    *(read(n, "correct", "letter alone") for n in range(60)),
    *(read(n, "wrong", "letter alone") for n in range(60, 80)),
    *(read(n, "correct", "statement", 0.0) for n in range(80, 90)),
    *(read(n, "unparsed", "no option") for n in range(90, 98)),
    *(read(n, "error", "") for n in range(98, 100)),
]


def test_replies_are_counted_by_status_rule_and_difference() -> None:
    """Errors have no reply; the largest stratum is the first."""
    [readings] = readings_of(RECORDS)
    assert {stratum: len(members) for stratum, members in readings.strata.items()} == {
        Stratum("correct", "letter alone", False): 60,
        Stratum("wrong", "letter alone", False): 20,
        Stratum("correct", "statement", True): 10,
        Stratum("unparsed", "no option", False): 8,
    }
    assert next(iter(readings.strata)) == Stratum("correct", "letter alone", False)
    assert (readings.unread, readings.unread_share) == ({"no option": 8}, 8 / 98)
    assert readings.differing == (10, 98)

    # A reply that a paper counts as wrong may be unread: ``parsed`` says so, and the cause has no details of it.
    record = verdict("select", 1, "wrong", values={"parsed": 0.0}, reason="several variations: ken, weet")
    [readings] = readings_of([record])
    assert readings.unread == {"several variations": 1}
    assert list(readings.strata) == [Stratum("wrong", "several variations", False)]


def test_the_sample_has_every_stratum_and_is_always_the_same() -> None:
    """Small strata have at least three replies, large ones more."""
    [readings] = readings_of(RECORDS)
    sample = readings.sample(20)
    counts = {stratum: sum(Stratum.of(r) == stratum for r in sample) for stratum in readings.strata}
    assert list(counts.values()) == [3 + 4, 3 + 1, 3, 3]
    assert sample == Readings("model", "htest", tuple(reversed(readings.records))).sample(20)
    assert len(readings.sample(0)) == 4 * LEAST
    assert sorted(r.id for r in readings.sample(10_000)) == sorted(r.id for r in readings.records)


def test_the_corrected_accuracy_by_hand() -> None:
    """Shares of the marked replies are weighted by the strata's sizes; a stratum without marks counts as read."""
    [readings] = readings_of(RECORDS)
    assert readings.corrected({}) is None
    sample = readings.sample()
    by_rule = {str(stratum): [r for r in sample if Stratum.of(r) == stratum] for stratum in readings.strata}
    unread, stated = by_rule["unparsed (no option)"], by_rule["correct (statement), the other rule differs"]
    assert (len(unread), len(stated)) == (5, 5)
    says = [(r, "correct" if n == 0 else "unparsed") for n, r in enumerate(unread)]
    corrected = readings.corrected(marks([*says, *((r, "correct") for r in stated)]))
    assert corrected is not None
    # 60 as read, all of 10 stated ones, one of five of 8 unread ones
    assert corrected.value == pytest.approx((60 + 10 + 8 / 5) / 98)
    assert (corrected.marked, corrected.misread, corrected.unmarked) == (10, 1, 80)
    (low, high), (stated_low, _) = wilson(1, 5), wilson(5, 5)
    below = (8 / 98 * (0.2 - low)) ** 2 * (3 / 7) + (10 / 98 * (1 - stated_low)) ** 2 * (5 / 9)
    assert corrected.low == pytest.approx(corrected.value - below**0.5)
    assert corrected.high == pytest.approx(corrected.value + 8 / 98 * (high - 0.2) * (3 / 7) ** 0.5)

    # People mark what they find wrong, so a mark outside of the sample would bias the accuracy.
    other = next(r for r in readings.records if r not in sample)
    assert readings.corrected(marks([(other, "wrong")])) is None
    # A completely marked run has no interval.
    [readings] = readings_of(RECORDS[85:95])
    corrected = readings.corrected(marks((r, "correct") for r in readings.records))
    assert corrected is not None
    assert (corrected.value, corrected.low, corrected.high) == (1.0, 1.0, 1.0)


def test_an_old_mark_without_a_status_turns_the_verdict() -> None:
    """ "Judged wrongly" alone means the opposite of a correct or not correct verdict."""
    [right, wrong] = readings_of([read(1, "correct", "a"), replace(read(2, "wrong", "b"), model="other")])
    for readings, value in ((right, 0.0), (wrong, 1.0)):
        [record] = readings.records
        old = replace(mark(record, ""), judged_wrongly=True)
        corrected = readings.corrected({record.key: old})
        assert corrected is not None
        assert corrected.value == value


def test_the_interval_has_its_coverage() -> None:
    """The interval of a marked sample contains the accuracy of a complete reading in about 95% of runs."""
    chosen = random.Random(1)
    rules = [("correct", "a", 250, 0.03), ("wrong", "a", 100, 0.05), ("correct", "b", 40, 0.3),
             ("unparsed", "c", 60, 0.5)]  # fmt: skip
    covered = 0
    for trial in range(100):
        records, truth = [], {}
        for status, rule, size, misread in rules:
            for n in range(size):
                record = read(n, status, rule, id=f"{trial}/{rule}/{status}/{n}")  # type: ignore[arg-type]
                records.append(record)
                is_misread = chosen.random() < misread
                truth[record.key] = ("wrong" if status == "correct" else "correct") if is_misread else status
        [readings] = readings_of(records)
        corrected = readings.corrected(marks((r, truth[r.key]) for r in readings.sample()))
        assert corrected is not None
        value = sum(status == "correct" for status in truth.values()) / len(truth)
        covered += corrected.low <= value <= corrected.high
    assert covered >= 93


def test_many_unread_replies_are_a_warning_with_their_causes() -> None:
    """Six of a hundred unread replies warn, five do not; controls do not count."""
    records = [*(read(n, "correct", "letter alone") for n in range(94)),
               *(read(n, "unparsed", "empty" if n < 96 else "no option") for n in range(94, 100))]  # fmt: skip
    assert reading_remarks(HTest(), records) == [
        "6.0% of the replies could not be read: format, not ability, may be measured (no option 4, empty 2)"
    ]
    assert reading_remarks(HTest(), [*records[:95], *records[:4], records[95]]) == []
    geometry = [replace(r, task="letter_geometry") if r.status == "unparsed" else r for r in records]
    assert reading_remarks(HTest(), geometry) == []


def test_rules_that_differ_are_a_warning() -> None:
    """More than 5% of different readings are named with their number."""
    records = [read(n, "correct", "statement", float(n >= 6)) for n in range(100)]
    [line] = reading_remarks(HTest(), records)
    assert line.startswith("the rules of quick and paper read 6.0% of the replies differently (6 of 100)")
    fewer = [replace(r, values={"read_alike": float(n >= 5)}) for n, r in enumerate(records)]
    assert reading_remarks(HTest(), fewer) == []


def test_equal_answers_are_a_warning() -> None:
    """From 90% equal answers to different questions; an answer that is always right is fine."""
    for same, lines in ((97, ["97.0% of the answers are the same: 'yes'"]), (89, [])):
        given = ["yes" if n < same else "no" for n in range(100)]
        answers = [
            verdict("rhyme", n, "wrong", benchmark="homophones", given=text, expected="AB"[n % 2])
            for n, text in enumerate(given)
        ]
        assert reading_remarks(Homophones(), answers) == lines
    right = [verdict("rhyme", n, "correct", given="A", expected="A", **HTEST) for n in range(30)]
    assert reading_remarks(HTest(), right) == []


def test_an_accuracy_that_guessing_reaches_is_a_warning() -> None:
    """The lower limit of the interval has to be above the chance level."""
    guesses = [
        verdict("rhyme", n, "correct" if n % 2 else "wrong", given="AB"[n % 2], **HTEST) for n in range(100)
    ]
    assert reading_remarks(HTest(), guesses) == [
        "50.0% of 100 answers are correct, which is not above chance (50.0%)"
    ]
    better = [replace(r, status="correct") if n < 40 else r for n, r in enumerate(guesses)]
    assert reading_remarks(HTest(), better) == []
    assert reading_remarks(Homophones(), guesses) == []


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with replies."""
    records = [replace(r, requests=(f"k{n}",), given="A") for n, r in enumerate(RECORDS)]
    requests = [exchange(f"k{n}", "Rhyme?", f"Label: A ({n})") for n in range(len(records))]
    return recorded(tmp_path / "run", records, requests=requests)


def test_the_command_shows_rules_and_a_sample(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The counts come first, then replies of every rule; marks give the corrected accuracy."""
    assert main(["readings", str(run), "--sample", "12"]) == 0
    text = capsys.readouterr().out
    assert "htest · model · 98 replies" in text
    assert "unread: 8.2%" in text
    assert "read differently by the rules of quick and paper: 10.2%" in text
    assert "no reply of the sample is marked" in text
    assert text.count("    Label: A (") == 12
    [readings] = readings_of(RECORDS)
    for record in readings.sample():
        append_review(run, mark(record, record.status))
    main(["readings", str(run), "--sample", "0"])
    text = " ".join(capsys.readouterr().out.split())
    assert "correct as read: 71.4%; corrected by marks: 71.4% (" in text
    assert f"0 of {len(readings.sample())} misread" in text
    assert "Label: A" not in text
    assert main(["readings", str(run), "--sample=-1"]) == 2
    assert capsys.readouterr().err == "llmprops: --sample -1: must not be negative\n"


def test_the_page_gives_the_same_corrected_accuracy(run: Path, browser_page: Any, tmp_path: Path) -> None:
    """The section opens the sample; its marks give the accuracy that the command prints, at once."""
    [page] = [path for path in write_report([run], tmp_path / "out") if path.name == "report.html"]
    browser_page.goto(page.as_uri())
    browser_page.locator('html[data-ready="items"]').wait_for(state="attached")
    browser_page.get_by_role("region", name="Replies by rule").get_by_role("button", name="60").click()
    [readings] = readings_of(RECORDS)
    sample = readings.sample()
    count = browser_page.locator("#count")
    assert count.inner_text() == f"{len(sample)} of 100 items"
    chosen = {r.id: "should be correct" for r in sample if r.status == "unparsed"}
    chosen |= {r.id: "right: wrong" for r in sample if r.status == "wrong"}
    for item, judgement in chosen.items():
        browser_page.locator("#list .open", has_text=item).click()
        browser_page.get_by_label("Judgement").select_option(judgement)
        browser_page.keyboard.press("Escape")
    with browser_page.expect_download() as download:
        browser_page.get_by_role("button", name="Export review.jsonl").click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    made = {review.key: review for line in lines if (review := from_plain(Review, json.loads(line)))}
    corrected = readings.corrected(made)
    assert corrected is not None
    shown = browser_page.locator("#corrected").inner_text()
    numbers = "{:.1%} ({:.1%} to {:.1%}, conservative)".format(*corrected[:3])
    assert shown.startswith(f"htest, model: corrected accuracy {numbers}, as read 71.4%; ")
    assert f"{corrected.misread} of {corrected.marked} marked replies of the sample are misread" in shown


MARK: dict[str, Any] = {
    "run": "run", "model": "model", "benchmark": "sums", "source": "builtin", "id": "sums/en/add/0001", "sample": 0,
    "judged_wrongly": True, "note": "both spellings are right", "time": "2026-01-02T03:04:05Z",
    "status": "",
}  # fmt: skip


def beside(folder: Path, *lines: object) -> Path:
    """Return a run with a ``review.jsonl`` of these lines; a text is a line as it is."""
    run = recorded(folder / "run", [verdict("add", n, "wrong") for n in range(3)])
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (run / "review.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return run


def test_the_last_mark_on_a_verdict_counts(tmp_path: Path) -> None:
    """A later mark replaces an earlier one, an empty one deletes it, and marks on other runs are ignored.

    A line that was cut off at the end is ignored; without the file there are no marks.
    """
    assert read_reviews(tmp_path, "run") == {}
    run = beside(
        tmp_path,
        MARK,
        {**MARK, "note": "no, it is wrong", "judged_wrongly": False},
        {**MARK, "id": "sums/en/add/0002"},
        {**MARK, "id": "sums/en/add/0002", "judged_wrongly": False, "note": ""},
        {**MARK, "run": "other"},
        '{"run": "ru',
    )
    [mark] = read_reviews(run, "run").values()
    assert (mark.id, mark.note, mark.judged_wrongly) == ("sums/en/add/0001", "no, it is wrong", False)
    assert plain(mark) == {**MARK, "note": "no, it is wrong", "judged_wrongly": False}


def test_marks_beside_a_run_are_on_the_page_and_change_no_number(tmp_path: Path) -> None:
    """The page has the marks; the record is still consistent."""
    run = beside(tmp_path, {**MARK, "note": "\u202eevil"})
    page = write_report([run], tmp_path / "out")[0].read_text(encoding="utf-8")
    [index] = [line for line in page.splitlines() if 'id="index"' in line]
    [mark] = unpacked(index.split(">")[1].split("<")[0])["reviews"]
    assert mark == {**MARK, "note": "[U+202E]evil"}
    assert read_run(run).problems == ()


@pytest.mark.parametrize(
    ("tail", "notes"),
    [("", []), ('{"run": "ru', []), (json.dumps({**MARK, "id": "other"}), ["both spellings are right"])],
)
def test_a_mark_is_appended_as_one_line(tmp_path: Path, tail: str, notes: list[str]) -> None:
    """What was in the file stays, also a line of a person without its end; what a killed process left is removed."""
    run = beside(tmp_path, {**MARK, "note": "first", "id": "sums/en/add/0002"})
    with (run / "review.jsonl").open("a") as file:
        file.write(tail)
    append_review(run, from_plain(Review, {**MARK, "note": "new\u2028 line\n"}))
    assert len((run / "review.jsonl").read_bytes().splitlines()) == 2 + len(notes)
    assert [mark.note for mark in read_reviews(run, "run").values()] == ["first", *notes, "new\u2028 line\n"]


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error reaches the caller, and the file has its earlier marks and no half line."""
    run = beside(tmp_path, MARK)
    before = (run / "review.jsonl").read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        append_review(run, from_plain(Review, {**MARK, "note": "lost"}))
    assert (run / "review.jsonl").read_bytes() == before
