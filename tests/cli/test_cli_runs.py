"""`llmprops runs list`, `show`, `export` and `promote`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.record import RunRecord, first_facts
from tests.support.recorded import verdict, verdicts, write_run
from tests.support.runs import Runner

RUNS = Path("reports") / "runs"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in its own working folder, with a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def output(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return the output of a command that succeeds."""
    assert main(list(words)) == 0
    return capsys.readouterr().out.splitlines()


def one_error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the error line of a command that fails."""
    assert main(list(words)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("llmprops: ")
    return line


def change_facts(folder: Path, **facts: Any) -> None:
    """Replace facts in the ``run.json`` of a run."""
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | facts), encoding="utf-8")


# list


def test_list_has_one_row_per_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A row has name, start, models, benchmarks, items, accuracy, state and the gate's decision."""
    write_run(RUNS / "one", verdicts("ccwe"), started="2026-01-02T03:04:05+00:00", gate={"decision": "fail"})
    write_run(RUNS / "two", [*verdicts("cc"), *verdicts("cw", model="new")])
    lines = output(capsys, "runs", "list")
    assert lines[0].split() == [
        "run",
        "started",
        "(UTC)",
        "models",
        "benchmarks",
        "items",
        "accuracy",
        "state",
        "gate",
    ]
    assert lines[1].split()[0] == "two"
    assert "old, new" in lines[1]
    assert "100.0%, 50.0%" in lines[1]
    assert lines[2].split() == ["one", "2026-01-02", "03:04", "old", "sums", "4", "66.7%", "complete", "fail"]


def test_list_shows_the_state_of_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Unreadable, incomplete and current runs have their own states; problems are listed below the table."""
    write_run(RUNS / "killed", verdicts("cw"))
    change_facts(RUNS / "killed", finished=None, complete=False, summary=[])
    write_run(RUNS / "newer", verdicts("c"), schema=3)
    (RUNS / "writing").mkdir()
    record = RunRecord(RUNS / "writing", first_facts(RUNS / "writing"))
    record.add(verdict())
    lines = output(capsys, "runs", "list")
    record.finish(record.facts)
    rows = {line.split()[0]: line for line in lines[1:4]}
    assert "being written" in rows["writing"]
    assert "incomplete" in rows["killed"]
    assert "50.0%" in rows["killed"]
    assert "unreadable" in rows["newer"]
    assert lines[-1].startswith("  newer: ")
    assert "schema 3" in lines[-1]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_list_fits_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the table is too wide, each run has two lines with the same content."""
    monkeypatch.setenv("COLUMNS", str(width))
    name = "20261121T133918Z-some-model-with-a-name"
    write_run(RUNS / name, verdicts("cw"), gate={"decision": "pass"})
    lines = output(capsys, "runs", "list")
    assert max(map(len, lines)) <= max(width, 75)
    text = " ".join(lines)
    assert all(word in text for word in (name, "old", "sums", "50.0%", "complete", "pass"))
    assert len(lines) == 2


def test_list_without_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Without runs, the command names the searched folder and succeeds."""
    assert main(["runs", "list"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no runs under" in printed.err


# show


def test_show_prints_the_summary_of_the_run(run: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    """The output has the summary that ended the run, its protocol, versions and command."""
    run.sums()
    done = run("--model", run.adder)
    ended = done.output[done.output.index("sums · ") :]
    others = ("====", "failed,", "next: ")
    summary = [line for line in ended.splitlines() if not any(other in line for other in others)]
    lines = output(capsys, "runs", "show", str(done.folder))
    assert "\n".join(filter(None, summary)) in "\n".join(filter(None, lines))
    assert lines[0] == "run-1 (complete)"
    text = "\n".join(lines)
    assert "protocol of sums: quick, seed 0" in text
    assert "versions: python 3" in text
    assert "command: pytest -p no:cacheprovider" in text


def test_show_a_killed_run(capsys: pytest.CaptureFixture[str]) -> None:
    """An unfinished run is shown with its verdicts and a note, as incomplete."""
    write_run(RUNS / "killed", verdicts("cw"), summary=[], complete=False)
    change_facts(RUNS / "killed", finished=None, calls={}, expected=0)
    text = "\n".join(output(capsys, "runs", "show", "killed"))
    assert "killed (incomplete)" in text
    assert "50.0%" in text
    assert "note: ended without finishing (killed?): 2 verdicts are kept" in text
    assert "INCOMPLETE" not in text


def test_show_a_run_ended_by_its_gate(capsys: pytest.CaptureFixture[str]) -> None:
    """One note says that the sequential gate stopped the run, and how many cases have a verdict."""
    gate = {"decision": "pass", "stopped_early": True}
    facts: dict[str, Any] = {"complete": False, "expected": 9, "gate": gate, "sequential": {"ended": True}}
    write_run(RUNS / "gated", verdicts("cw"), **facts)
    lines = [line for line in output(capsys, "runs", "show", "gated") if "early" in line]
    assert lines == ["note: stopped early by its gate: 2 of 9 cases have a verdict"]


def test_show_names_what_affected_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Deviations, commit, data files, the gate's line and the origin of a baseline are shown."""
    write_run(
        RUNS / "r",
        verdicts("c"),
        deviations={"old": ["no temperature"]},
        git={"commit": "abc123", "dirty": True},
        data={"builtin:sums/a.csv": "0123456789abcdef"},
        gate={"decision": "pass", "line": "PASS: 1 rule met"},
        promoted_from="elsewhere",
        promoted_at="2026-01-01T00:00:00+00:00",
    )
    text = "\n".join(output(capsys, "runs", "show", "r"))
    for expected in (
        "deviation of old: no temperature",
        "git: abc123 with uncommitted changes",
        "data of builtin:sums: a.csv 01234567",
        "gate: PASS: 1 rule met",
        "promoted from elsewhere",
    ):
        assert expected in text


def test_show_json(capsys: pytest.CaptureFixture[str]) -> None:
    """--json prints run.json with a summary computed from the verdicts; notes go to standard error."""
    write_run(RUNS / "r", verdicts("cw"), summary=[])
    assert main(["runs", "show", "r", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == read_run(RUNS / "r").facts.to_json()
    assert json.loads(printed.out)["summary"][0]["items"] == 2
    assert "no summary" in printed.err


def test_no_control_character_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bad = "\x1b[2J\x07\x9b31m\u202e"
    rows = [verdict("x", "wrong", given=bad, reason=bad, model=f"m{bad}", task=f"t{bad}")]
    write_run(
        RUNS / "r", rows, notes=[bad], deviations={f"m{bad}": [bad]}, gate={"decision": bad, "line": bad}
    )
    for words in (("list",), ("show", "r"), ("show", "r", "--json")):
        for line in output(capsys, "runs", *words):
            assert line.isprintable()


@pytest.mark.parametrize(
    "words", [("show", "none"), ("export", "none", "--csv", "x.csv"), ("promote", "none", "b")]
)
def test_missing_run_is_one_line(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Every command reports a missing run in one line."""
    assert "no run 'none'" in one_error(capsys, "runs", *words)


# export


def test_export_to_parquet_and_csv(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdicts of several runs are one table in both formats, and the files are named."""
    import pandas as pd

    write_run(RUNS / "one", verdicts("cw", values={"a": 1.0}))
    write_run(RUNS / "two", verdicts("e"))
    files = ("--parquet", "t.parquet", "--csv", "t.csv")
    assert output(capsys, "runs", "export", "one", "two", *files) == ["t.parquet", "t.csv"]
    for frame in (pd.read_parquet("t.parquet"), pd.read_csv("t.csv")):
        assert list(frame["run_id"]) == ["one", "one", "two"]
        assert list(frame["status"]) == ["correct", "wrong", "error"]
        assert list(frame["value_a"].isna()) == [False, False, True]


def test_export_another_table(capsys: pytest.CaptureFixture[str]) -> None:
    """--table selects what a row is."""
    import pandas as pd

    write_run(RUNS / "one", verdicts("cw"))
    output(capsys, "runs", "export", "one", "--csv", "t.csv", "--table", "summary")
    assert list(pd.read_csv("t.csv")["items"]) == [2]


def test_export_notes_an_incomplete_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The note goes to standard error, because the file cannot hold it."""
    write_run(RUNS / "one", verdicts("cw"), complete=False, expected=5)
    assert main(["runs", "export", "one", "--csv", "t.csv"]) == 0
    assert "one: incomplete: 2 of 5" in capsys.readouterr().err


def test_export_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file option and a missing folder give one line each."""
    write_run(RUNS / "one", verdicts("cw"))
    assert "--parquet" in one_error(capsys, "runs", "export", "one")
    assert "none does not exist" in one_error(capsys, "runs", "export", "one", "--csv", "none/t.csv")


# promote


def test_promoted_run_has_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """A promoted run is listed and shown under its new name; --replace is needed to replace it."""
    write_run(RUNS / "one", verdicts("cw"))
    assert output(capsys, "runs", "promote", "one", "base") == [str(Path("baselines") / "base")]
    assert any("baselines/base" in line for line in output(capsys, "runs", "list"))
    assert output(capsys, "runs", "show", "base")[0] == "one (complete)"
    assert "--replace" in one_error(capsys, "runs", "promote", "one", "base")
    write_run(RUNS / "two", verdicts("c"))
    output(capsys, "runs", "promote", "two", "base", "--replace")
    assert output(capsys, "runs", "show", "base")[0] == "two (complete)"


def test_promote_options(capsys: pytest.CaptureFixture[str]) -> None:
    """--without-replies leaves out requests.jsonl; an incomplete run needs --allow-incomplete."""
    write_run(RUNS / "one", verdicts("cw"), complete=False, requests=[{"key": "k", "request": {}}])
    assert "--allow-incomplete" in one_error(capsys, "runs", "promote", "one", "base")
    output(capsys, "runs", "promote", "one", "base", "--allow-incomplete", "--without-replies")
    assert not (Path("baselines") / "base" / "requests.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("one", "a\nb"), "'a␊b': a baseline needs a plain name"),
        (("one", "\x1b[31mred"), "'␛[31mred': a baseline needs a plain name"),
        (("a\nb", "base"), "no run 'a␊b'"),
        (("one", "x" * 201), "is longer than 200 bytes; give the baseline a shorter name"),
        (("one", "猫" * 67), "is longer than 200 bytes"),
        (("one", "link"), "is a link to a missing folder; remove it, or choose another name"),
        (("one", "link", "--replace"), "is a link to a missing folder"),
    ],
)
def test_promote_refuses_in_one_line(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name or path that cannot be used gives one line without control characters, and leaves no folder behind."""
    write_run(RUNS / "one", verdicts("c"))
    Path("baselines").mkdir()
    Path("baselines", "link").symlink_to("nowhere")
    assert message in one_error(capsys, "runs", "promote", *words)
    assert [path.name for path in Path("baselines").iterdir()] == ["link"]


def test_promote_needs_a_folder_of_baselines(capsys: pytest.CaptureFixture[str]) -> None:
    """A file called ``baselines`` is named in one line."""
    write_run(RUNS / "one", verdicts("c"))
    Path("baselines").touch()
    line = one_error(capsys, "runs", "promote", "one", "base")
    assert line == "llmprops: baselines: is not a folder, so no baseline can be kept there; rename it"
