"""What the page shows of all runs, and what changes from step to step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.run_metadata import CallFacts, ModelMetadata
from pytest_llmprops.reports.kit.series import Share
from pytest_llmprops.reports.view.following import Part
from pytest_llmprops.reports.view.hub import Watch
from pytest_llmprops.runs.record import RunRecord, first_facts
from pytest_llmprops.runs.summary import summary_rows
from tests.support.records import recorded, verdict, verdicts

Begin = Callable[..., RunRecord]


@pytest.fixture
def begun() -> Iterator[Begin]:
    """Return a function that begins the record of a run in a folder; the files are closed at the end."""
    records: list[RunRecord] = []

    def begin(folder: Path, expected: int | None = 4) -> RunRecord:
        folder.mkdir(parents=True)
        facts = first_facts(folder, models={"model": ModelMetadata("model")}, expected=expected)
        records.append(RunRecord(folder, facts))
        return records[-1]

    yield begin
    for record in records:
        record.close()


def only(watch: Watch) -> Any:
    """Return the only row."""
    [row] = watch.rows.values()
    return row


def test_a_run_from_its_beginning_to_its_end(tmp_path: Path, begun: Begin) -> None:
    """A run appears, makes progress and finishes; a step without a change has no rows."""
    watch = Watch([tmp_path])
    assert watch.step() == ([], [])
    record = begun(tmp_path / "run")
    [row] = watch.step().rows
    assert (row["state"], row["progress"]["done"] if row["progress"] else "") == ("running", "0")
    assert watch.step() == ([], [])
    for number in range(4):
        record.add(verdict("add", number, "correct" if number else "error"))
    [row] = watch.step().rows
    assert row["progress"] == {
        "done": "4", "expected": "4", "share": 1.0, "calls": "0 calls", "speed": "", "left": "",
    }  # fmt: skip
    assert (row["counts"], row["cost"]) == ({"Correct": "3", "Wrong": "0", "Errors": "1"}, "no calls")
    assert [(part["accuracy"], part["interval"]) for part in row["parts"]] == [("100.0%", "")]
    record.finish(replace(record.facts, complete=True, summary=summary_rows(record.records)))
    [row] = watch.step().rows
    assert (row["state"], row["progress"], row["items"]) == ("complete", None, "4")
    assert [(part["accuracy"], part["interval"]) for part in row["parts"]] == [("100.0%", "29.2 to 100.0")]


def test_a_killed_run_says_so_and_how_to_go_on(tmp_path: Path, begun: Begin) -> None:
    """A process that ended without the last run.json has no lock on the verdicts any more."""
    watch = Watch([tmp_path])
    record = begun(tmp_path / "run")
    record.add(verdict("add", 0))
    watch.step()
    record.close()
    [row] = watch.step().rows
    assert (row["state"], row["command"]) == ("killed", f"llmprops retry {tmp_path / 'run'}")
    assert "Ended without finishing (killed?): 1 of 4 cases have a verdict." in row["remarks"]


def test_a_run_without_progress_says_so(tmp_path: Path, begun: Begin) -> None:
    """A run that waits for a server is not shown as one that goes on."""
    now = [0.0]
    watch = Watch([tmp_path], clock=lambda: now[0])
    begun(tmp_path / "run").add(verdict("add", 0))
    watch.step()
    now[0] = 90.0
    assert watch.step().rows[0]["remarks"] == ["No progress for 1.5 minutes."]


def test_a_replaced_run_is_followed_anew_and_a_deleted_one_is_gone(tmp_path: Path, begun: Begin) -> None:
    """A folder of the same name with another run is another run."""
    watch = Watch([tmp_path])
    record = begun(tmp_path / "run")
    record.add(verdict("add", 0))
    watch.step()
    record.close()
    for path in (tmp_path / "run").iterdir():
        path.unlink()
    (tmp_path / "run").rmdir()
    begun(tmp_path / "run", expected=9)
    watch.step()
    assert (only(watch)["progress"]["done"], only(watch)["progress"]["expected"]) == ("0", "9")
    for path in (tmp_path / "run").iterdir():
        path.unlink()
    key = only(watch)["id"]
    assert watch.step() == ([], [key])


def test_a_row_of_a_finished_run_is_that_of_the_terminal(tmp_path: Path) -> None:
    """Accuracy with interval where the summary has it; cost, errors, and the state of an incomplete run."""
    calls = CallFacts(requests=3, sent=3, cost_usd=0.0123)
    recorded(
        tmp_path / "run", verdicts("add", 7, 3), calls=calls, expected=12, complete=False, notes=["one note"]
    )
    watch = Watch([tmp_path])
    watch.step()
    row = only(watch)
    assert (row["state"], row["cost"], row["counts"]) == (
        "incomplete",
        "0.0123 USD",
        {"Correct": "7", "Wrong": "3", "Errors": "0"},
    )
    assert [(part["accuracy"], part["interval"]) for part in row["parts"]] == [("70.0%", "34.8 to 93.3")]
    assert row["remarks"] == ["incomplete: 10 of 12 cases have a verdict", "one note"]


def test_an_accuracy_over_several_tasks_gets_its_interval_later(tmp_path: Path) -> None:
    """Such an interval needs the verdicts; until it is known, the accuracy is shown without one."""
    run = recorded(tmp_path / "run", [*verdicts("add", 7, 3), *verdicts("take", 1, 9)])
    watch = Watch([tmp_path])
    watch.step()
    assert [(part["accuracy"], part["interval"]) for part in only(watch)["parts"]] == [("40.0%", "")]
    [waiting] = watch.without_shares()
    watch.add_shares(waiting, {Part("model", "sums"): Share(0.4, 0.19, 0.64, 20)})
    [row] = watch.step().rows
    assert [(part["accuracy"], part["interval"]) for part in row["parts"]] == [("40.0%", "19.0 to 64.0")]
    assert watch.without_shares() == []
    # The interval was that of another record.
    (run / "run.json").write_text((run / "run.json").read_text() + " ")
    watch.step()
    assert only(watch)["parts"][0]["interval"] == ""


def test_hostile_names_are_spelled_out_and_cut(tmp_path: Path) -> None:
    """Names and notes of a record cannot hide text or reorder the page."""
    hostile = "\x1b[2J\u202e<script>alert(1)</script>" + "x" * 500
    recorded(tmp_path / "\u202eevil", [verdict("add", 0, model=hostile, benchmark=hostile)], notes=[hostile])
    watch = Watch([tmp_path])
    watch.step()
    row = only(watch)
    texts = [row["name"], *row["models"], *row["remarks"], row["parts"][0]["benchmark"]]
    assert row["name"] == "[U+202E]evil"
    assert not any(set("\x1b\u202e") & set(text) or len(text) > 400 for text in texts)


def test_a_record_that_cannot_be_read_names_its_problem(tmp_path: Path, begun: Begin) -> None:
    """Neither a damaged run.json nor a folder in place of a file ends the page."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    begun(tmp_path / "run").close()
    (tmp_path / "run" / "requests.jsonl").mkdir()
    watch = Watch([tmp_path])
    watch.step()
    rows = {row["name"]: row for row in watch.rows.values()}
    assert rows["bad"]["remarks"] == [
        f"{tmp_path}/bad/run.json: is damaged (not JSON); restore it or measure again"
    ]
    assert rows["run"]["state"] == "killed"
    assert any("Is a directory" in text for text in rows["run"]["remarks"])


@pytest.mark.parametrize("expected", [None, 0])
def test_an_unknown_number_of_cases_has_no_share(tmp_path: Path, begun: Begin, expected: int | None) -> None:
    """A record of an older version may not say how many cases there are."""
    begun(tmp_path / "run", expected)
    watch = Watch([tmp_path])
    watch.step()
    assert only(watch)["progress"]["share"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"started": 5}, {"expected": "many"}, {"stopped": [1]}, {"summary": [{}]}, {"gate": {"decision": 3}},
        {"deviations": {"model": 3}}, {"finished": None, "expected": "many"}, {"notes": [3]},
        {"finished": None, "models": {"model": {"price": 1}}},
        {"run_id": ""}, {"calls": {"cost_usd": 1e400}}, {"not_served": {"a": {"b": "c"}}},
    ],
)  # fmt: skip
def test_fields_of_other_types_hide_no_other_run(tmp_path: Path, change: dict[str, Any]) -> None:
    """Every run has a row; the damaged one is shown as far as it can be, or says what is wrong."""
    recorded(tmp_path / "good", verdicts("add", 1, 0))
    damaged = recorded(tmp_path / "damaged", verdicts("add", 1, 0))
    facts = json.loads((damaged / "run.json").read_text())
    (damaged / "run.json").write_text(json.dumps({**facts, **change}))
    watch = Watch([tmp_path])
    watch.step()
    rows = {row["name"]: row for row in watch.rows.values()}
    assert rows.keys() == {"good", "damaged"}
    assert rows["good"]["state"] == "complete"
    assert rows["damaged"]["state"] != "unreadable" or "run.json" in rows["damaged"]["remarks"][0]
