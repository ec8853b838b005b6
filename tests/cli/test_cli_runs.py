"""`llmprops runs list`, `show`, `export` and `promote`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.records.files import plain
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.record import RunRecord, first_facts
from tests.support.commands import one_error, output
from tests.support.recorded import edit_run_json, verdict, verdicts
from tests.support.records import recorded
from tests.support.runs import Runner

RUNS = Path("reports") / "runs"
Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("working_folder")


def lines_of(capsys: Capture, *words: object) -> list[str]:
    """Return the lines that `llmprops runs` prints."""
    return output(capsys, "runs", *words).splitlines()


def test_list_shows_the_state_of_each_run(capsys: Capture) -> None:
    """A row has name, start, models, benchmarks, items, accuracy, state and the gate's decision.

    Unreadable, incomplete and current runs have their own states; problems are listed below the table.
    Without runs, the command names the searched folder and succeeds. A killed run is shown with its verdicts.
    """
    assert main(["runs", "list"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, "no runs under" in printed.err) == ("", True)
    recorded(RUNS / "one", verdicts("ccwe"), started="2026-01-02T03:04:05+00:00", gate={"decision": "fail"})
    recorded(RUNS / "two", [*verdicts("cc"), *verdicts("cw", model="new")])
    recorded(RUNS / "killed", verdicts("cw"))
    unfinished: dict[str, Any] = {"summary": [], "calls": {}, "expected": 0}
    edit_run_json(RUNS / "killed", lambda facts: facts.update(finished=None, complete=False, **unfinished))
    recorded(RUNS / "newer", verdicts("c"), schema=3)
    (RUNS / "writing").mkdir()
    record = RunRecord(RUNS / "writing", first_facts(RUNS / "writing"))
    record.add(verdict())
    lines = lines_of(capsys, "list")
    record.finish(record.facts)
    heads = "run started (UTC) models benchmarks items accuracy state gate"
    assert lines[0].split() == heads.split()
    rows = {line.split()[0]: line for line in lines[1:6]}
    assert rows["one"].split()[1:] == ["2026-01-02", "03:04", "old", "sums", "4", "66.7%", "complete", "fail"]
    assert "old, new" in rows["two"]
    assert "100.0%, 50.0%" in rows["two"]
    assert "being written" in rows["writing"]
    assert "incomplete" in rows["killed"]
    assert "50.0%" in rows["killed"]
    assert "unreadable" in rows["newer"]
    assert lines[-1].startswith("  newer: ")
    assert "schema 3" in lines[-1]
    text = "\n".join(lines_of(capsys, "show", "killed"))
    assert "killed (incomplete)" in text
    assert "50.0%" in text
    assert "note: ended without finishing (killed?): 2 verdicts are kept" in text


def test_show_prints_the_summary_of_the_run(run: Runner, capsys: Capture) -> None:
    """The output has the summary that ended the run, its protocol, versions and command."""
    run.sums()
    done = run("--model", run.adder)
    ended = done.output[done.output.index("sums · ") :]
    others = ("====", "failed,", "next: ")
    summary = [line for line in ended.splitlines() if not any(other in line for other in others)]
    lines = lines_of(capsys, "show", str(done.folder))
    assert "\n".join(filter(None, summary)) in "\n".join(filter(None, lines))
    assert lines[0] == "run-1 (complete)"
    text = "\n".join(lines)
    assert "Protocol of sums: name quick, seed 0" in text
    assert "Versions: python 3" in text
    assert "Command: pytest -p no:cacheprovider" in text


def test_show_names_what_affected_the_run(capsys: Capture) -> None:
    """Deviations, commit, data files, the gate's line and the origin of a baseline are shown.

    --json prints run.json with a summary computed from the verdicts; notes go to standard error.
    """
    recorded(
        RUNS / "r",
        verdicts("cw"),
        summary=[],
        deviations={"old": ["no temperature"]},
        git={"commit": "abc123", "dirty": True},
        data={"builtin:sums/a.csv": "0123456789abcdef"},
        gate={"decision": "pass", "line": "PASS: 1 rule met"},
        promoted_from="elsewhere",
        promoted_at="2026-01-01T00:00:00+00:00",
    )
    text = "\n".join(lines_of(capsys, "show", "r"))
    for expected in (
        "Deviations of old: no temperature",
        "Commit: commit abc123, dirty yes",
        "Data of builtin:sums: a.csv 0123456789ab",
        "Gate: PASS: 1 rule met",
        "Promoted from: elsewhere at 2026-01-01",
    ):
        assert expected in text
    assert main(["runs", "show", "r", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == plain(read_run(RUNS / "r").facts)
    assert json.loads(printed.out)["summary"][0]["items"] == 2
    assert "no summary" in printed.err


def test_export_says_what_its_file_cannot_hold(capsys: Capture) -> None:
    """The paths go to standard output, and a note on an incomplete run to standard error."""
    recorded(RUNS / "one", verdicts("e"), complete=False, expected=5)
    assert main(["runs", "export", "one", "--parquet", "t.parquet", "--csv", "t.csv"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["t.parquet", "t.csv"]
    assert "one: incomplete: 1 of 5" in printed.err


def test_promoted_run_has_its_name(capsys: Capture) -> None:
    """A promoted run is listed and shown under its new name; --replace is needed to replace it.

    --without-replies leaves out requests.jsonl; an incomplete run needs --allow-incomplete.
    """
    recorded(RUNS / "one", verdicts("cw"))
    assert lines_of(capsys, "promote", "one", "base") == [str(Path("baselines") / "base")]
    assert any("baselines/base" in line for line in lines_of(capsys, "list"))
    assert lines_of(capsys, "show", "base")[0] == "one (complete)"
    assert "--replace" in one_error(capsys, "runs", "promote", "one", "base")
    recorded(RUNS / "two", verdicts("c"), complete=False, requests=[{"key": "k", "request": {}}])
    assert "--allow-incomplete" in one_error(capsys, "runs", "promote", "two", "base", "--replace")
    lines_of(capsys, "promote", "two", "base", "--replace", "--allow-incomplete", "--without-replies")
    assert lines_of(capsys, "show", "base")[0] == "two (incomplete)"
    assert not (Path("baselines") / "base" / "requests.jsonl").exists()


def test_commands_refuse_in_one_line(capsys: Capture) -> None:
    """A run, name or path that cannot be used gives one line without control characters, and leaves no folder."""
    recorded(RUNS / "one", verdicts("c"))
    Path("baselines").mkdir()
    Path("baselines", "link").symlink_to("nowhere")
    for words, message in (
        (("show", "none"), "no run 'none'"),
        (("export", "one"), "--parquet"),
        (("export", "one", "--csv", "none/t.csv"), "none does not exist"),
        (("promote", "one", "a\nb"), "'a␊b': a baseline needs a plain name"),
        (("promote", "one", "\x1b[31mred"), "'␛[31mred': a baseline needs a plain name"),
        (("promote", "a\nb", "base"), "no run 'a␊b'"),
        (("promote", "one", "猫" * 67), "is longer than 200 bytes; give the baseline a shorter name"),
        (
            ("promote", "one", "link", "--replace"),
            "is a link to a missing folder; remove it, or choose another",
        ),
    ):
        assert message in one_error(capsys, "runs", *words)
    assert [path.name for path in Path("baselines").iterdir()] == ["link"]
    Path("baselines").rename("others")
    Path("baselines").touch()
    line = one_error(capsys, "runs", "promote", "one", "base")
    assert line == "llmprops: baselines: is not a folder, so no baseline can be kept there; rename it"
