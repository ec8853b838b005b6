"""Messages between workers and their controller."""

from __future__ import annotations

from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import from_text, text
from pytest_llmprops.records.messages import CaseReport, GroupLines
from pytest_llmprops.records.rows import SearchRecord

VERDICT = VerdictRecord(
    "gpt", "sums", "add", "en", "own", "sums/1", "sums/1", "wrong", 0.0, "2", "3", "expected '2'",
    {"n": 1.0}, ("k1",), evidence={"text": "1 + 1"},
)  # fmt: skip
SEARCH = SearchRecord("gpt", "sums", "add", "en", "own", "sums/1", 3, 4, 2, False, {"why": "1 + 1"}, "")


def test_case_reports_survive_json() -> None:
    """A report is unchanged by a round trip through JSON."""
    for message in (
        CaseReport(VERDICT, by_model=True),
        CaseReport(group=GroupLines("wrong", {"wrong": 1}, "{}\n")),
        CaseReport(search=SEARCH),
    ):
        assert from_text(CaseReport, text(message)) == message


def test_the_status_and_the_group_of_a_report() -> None:
    """A report has the status of its verdict or group, none of a search."""
    assert CaseReport(VERDICT).status == "wrong"
    assert CaseReport(search=SEARCH).status is None
    message = CaseReport(group=GroupLines("error", {"wrong": 1}, "{}\n"))
    assert message.status == "error"
