"""A record that was changed, or that contradicts itself, is not judged by a gate and is not promoted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import plain
from pytest_llmprops.records.run import ModelMetadata
from pytest_llmprops.runs.catalog import promote
from pytest_llmprops.runs.integrity import file_hashes
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.record import RunRecord, first_facts
from pytest_llmprops.runs.summary import summary_rows
from tests.support.recorded import edit_run_json, verdict, verdicts
from tests.support.records import as_schema_1, exchange, recorded

Capture = pytest.CaptureFixture[str]
Edit = Callable[[dict[str, Any]], object]
GATE = "[[rule]]\nbenchmark = 'sums'\nmax_drop = 0.2\nmin_accuracy = 0.5\nmax_errors = 1.0\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 60 sums, 54 of them correct, with two requests."""
    requests = [exchange(key, f"{key} + 1", "4") for key in "ab"]
    return recorded(tmp_path / "run", verdicts("c" * 54 + "w" * 6, model="new"), requests=requests)


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    return recorded(tmp_path / "baseline", verdicts("c" * 54 + "w" * 6))


def write_lines(folder: Path, records: list[VerdictRecord], *, seal: bool = False) -> None:
    """Replace the verdicts.

    :param seal: also replace all hashes, so that only the contents can contradict each other.
    """
    text = "".join(json.dumps(plain(record)) + "\n" for record in records)
    (folder / "verdicts.jsonl").write_text(text, encoding="utf-8")
    if seal:
        edit_run_json(folder, lambda facts: facts.update(files=file_hashes(folder)), seal=True)


def decision(run: Path, baseline: Path, capsys: Capture) -> tuple[int, dict[str, Any]]:
    """Return the exit status of ``llmprops gate`` and the decision as JSON."""
    (run.parent / "gate.toml").write_text(GATE)
    words = ["gate", str(run), "--baseline", str(baseline), "--gate", str(run.parent / "gate.toml")]
    status = main([*words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_run_json_has_the_hashes_of_the_files(run: Path) -> None:
    """The hashes are those of the files on disk, as sha256sum computes them, and of the other keys."""
    facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert facts["files"] == {
        name: hashlib.sha256((run / name).read_bytes()).hexdigest()
        for name in ("verdicts.jsonl", "requests.jsonl")
    }
    own = facts.pop("content_sha256")
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert own == hashlib.sha256(canonical.encode()).hexdigest()
    assert read_run(run).problems == ()


def test_texts_that_cannot_be_encoded_do_not_break_the_hash(tmp_path: Path) -> None:
    """A lone surrogate is written as a question mark, and the hashes are those of what is written."""
    rows = [verdict(given="\ud800")]
    folder = recorded(tmp_path / "r", rows, options={"note": "\udcff", "params": {"n": 1}})
    assert read_run(folder).problems == ()


def test_hash_is_that_of_the_lines_that_were_added(tmp_path: Path) -> None:
    """A verdict that is changed while the run is still going on is seen at its end."""
    record = RunRecord(tmp_path, first_facts(tmp_path, models={"old": ModelMetadata("old")}))
    record.add(verdict(status="wrong"))
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"wrong"', b'"refused"'))
    record.add(verdict("0002"))
    facts = replace(record.facts, complete=True, expected=2, summary=summary_rows(record.records))
    (line,) = record.problems(record.finished(facts), record.records)
    assert line.startswith("verdicts.jsonl was changed after the run")
    record.finish(facts)
    assert "verdicts.jsonl was changed" in read_run(tmp_path).problems[-1]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda facts: facts["summary"][0].update(correct=55), "run.json has correct 55 of sums/add"),
        (lambda facts: facts["summary"][0].update(accuracy=0.95), "run.json has accuracy 0.95 of sums/add"),
        (lambda facts: facts["summary"].clear(), "run.json has no summary of sums/add/en/builtin"),
        (lambda facts: facts["summary"].append(facts["summary"][0]), "several summary rows"),
        (lambda facts: facts.update(models={"other": {"spec": "x"}}), "verdicts of new, which run.json does"),
        (lambda facts: facts.update(finished=None), 'run.json has no time in "finished"'),
        (lambda facts: facts.update(files={}), 'run.json has no hashes in "files"'),
        (lambda facts: facts["files"].pop("verdicts.jsonl"), 'run.json has no hashes in "files"'),
        (lambda facts: facts["files"].pop("requests.jsonl"), "requests.jsonl was added after the run"),
        (lambda facts: facts["files"].update(other="00"), "other is missing"),
        (lambda facts: facts.update(expected=61), "complete with 61 verdicts, and verdicts.jsonl has 60"),
    ],
)
def test_run_json_that_contradicts_the_verdicts_is_invalid(
    edit: Edit, reason: str, run: Path, baseline: Path, capsys: Capture
) -> None:
    """Each is one reason of an invalid decision, with exit code 7, also if the hash of run.json was adjusted."""
    edit_run_json(run, edit, seal=True)
    status, result = decision(run, baseline, capsys)
    assert (status, result["decision"]) == (7, "invalid")
    line = result["reasons"][0]
    assert line.startswith("this run: ")
    assert reason in line
    assert line.endswith("measure again")


EDITS: list[Edit] = [
    lambda facts: facts["options"].update(limit=5),
    lambda facts: facts.update(note="unknown keys count, too"),
    lambda facts: facts.pop("content_sha256"),
]


def test_every_other_edit_of_run_json_is_invalid(run: Path, baseline: Path, capsys: Capture) -> None:
    """What cannot be computed from the verdicts is protected by the hash of run.json.

    The hash is of the content: other spaces, escapes and another order of the keys do not matter.
    """
    for folder, what in ((run, "this run"), (baseline, "baseline baseline")):
        before = (folder / "run.json").read_bytes()
        for edit in EDITS:
            edit_run_json(folder, edit)
            status, result = decision(run, baseline, capsys)
            assert (status, result["decision"]) == (7, "invalid")
            assert any(r.startswith(f"{what}: run.json was changed after the run") for r in result["reasons"])
            (folder / "run.json").write_bytes(before)
        facts = json.loads(before)
        (folder / "run.json").write_text(json.dumps(dict(reversed(facts.items())), indent=4))
        assert decision(run, baseline, capsys)[0] == 0


CHANGES: list[tuple[Callable[[list[VerdictRecord]], list[VerdictRecord]], str]] = [
    (lambda rows: [*rows, rows[-1]], "verdicts.jsonl has several verdicts on 1 items or samples (sums/0059)"),
    (
        lambda rows: [*rows[:-1], replace(rows[-1], model="better")],
        "verdicts.jsonl has verdicts of better, which run.json does not name as a model",
    ),
    (lambda rows: rows[:-1], "run.json has wrong 6 of sums/add/en/builtin, verdicts.jsonl has 5"),
    (lambda rows: [*rows[:-1], replace(rows[-1], status="correct")], "run.json has correct 54 of sums/add"),
]


def test_changed_verdicts_are_invalid(run: Path, baseline: Path, capsys: Capture) -> None:
    """Verdicts that contradict run.json are invalid in either run, even if all hashes were computed again."""
    for seal, folder, whose in ((True, baseline, "baseline baseline"), (False, run, "this run")):
        rows = list(read_run(folder).records)
        for edit, reason in CHANGES:
            write_lines(folder, edit(rows), seal=seal)
            status, result = decision(run, baseline, capsys)
            assert (status, result["decision"]) == (7, "invalid")
            assert result["line"].startswith(f"INVALID: {whose}: {reason}")
            hashed = f"{whose}: verdicts.jsonl was changed after the run"
            assert sum(r.startswith(hashed) for r in result["reasons"]) == (not seal)
        write_lines(folder, rows, seal=seal)


def test_a_missing_sample_is_invalid(tmp_path: Path, baseline: Path, capsys: Capture) -> None:
    """A failed sample cannot be left out: every item has the same number of samples."""
    samples = [replace(r, sample=s) for r in verdicts("c" * 60, model="new") for s in range(3)]
    kept = [r for r in samples if (r.id, r.sample) != ("sums/0003", 1)]
    for rows, valid in ((samples, True), (kept, False)):
        folder = recorded(tmp_path / f"run{valid}", rows)
        _, result = decision(folder, baseline, capsys)
        named = [r for r in result["reasons"] if "fewer than 3 samples of 1 items (sums/0003)" in r]
        assert (result["decision"], len(named)) == (("pass", 0) if valid else ("invalid", 1))


@pytest.mark.parametrize("name", ["requests.jsonl", "verdicts.jsonl"])
def test_changed_or_missing_files_are_invalid(name: str, run: Path, baseline: Path, capsys: Capture) -> None:
    """Another space in a line is enough; a missing file of requests is named."""
    path = run / name
    path.write_bytes(path.read_bytes().replace(b'":', b'" :', 1))
    _, result = decision(run, baseline, capsys)
    (line,) = result["reasons"]
    assert line.startswith(
        f"this run: {name} was changed after the run: it does not fit its hash in run.json;"
    )
    if name == "requests.jsonl":
        path.unlink()
        assert "requests.jsonl is missing" in decision(run, baseline, capsys)[1]["line"]


def test_inconsistent_run_is_not_promoted(run: Path, tmp_path: Path) -> None:
    """Promoting writes hashes, so it accepts no record with a problem, nor one without an answer to compare with."""
    for statuses in ("", "eee"):
        with pytest.raises(DataError, match="has no answer to compare with"):
            promote(recorded(tmp_path / f"run-{statuses}", verdicts(statuses)), "base", tmp_path)
    rows = list(read_run(run).records)
    write_lines(run, [replace(r, status="correct", score=1.0) for r in rows])
    with pytest.raises(DataError) as caught:
        promote(run, "base", tmp_path)
    assert "run.json has correct 54" in str(caught.value)
    assert "\n" not in str(caught.value)
    edit_run_json(run, lambda facts: facts.pop("files"))
    for allow_incomplete in (False, True):
        with pytest.raises(DataError, match=r"run\.json"):
            promote(run, "base", tmp_path, allow_incomplete=allow_incomplete)
    assert not (tmp_path / "baselines").exists()


def test_promoted_run_of_schema_1_gets_hashes(
    run: Path, baseline: Path, tmp_path: Path, capsys: Capture
) -> None:
    """A record of schema 1 has no hashes. Its promoted copy has, and each gate says since when."""
    as_schema_1(baseline)
    edit_run_json(baseline, lambda facts: (facts.pop("files"), facts.pop("content_sha256")))
    status, result = decision(run, baseline, capsys)
    assert (status, result["decision"]) == (7, "invalid")
    assert "is of schema 1, which has no hashes" in result["line"]
    assert "llmprops runs promote" in result["line"]
    target = promote(baseline, "base", tmp_path)
    assert read_run(target).problems == ()
    status, result = decision(run, target, capsys)
    assert (status, result["decision"]) == (0, "pass")
    assert [n for n in result["notes"] if "its hashes were added when it was promoted (20" in n]
    write_lines(target, verdicts("w" * 60))
    assert decision(run, target, capsys)[1]["decision"] == "invalid"


def test_promotion_of_schema_1_does_not_hide_changes(run: Path, tmp_path: Path) -> None:
    """A newer record that is called schema 1, with a hash or a later key, or that contradicts itself, is refused."""
    edit_run_json(
        run, lambda facts: (facts.update(schema=1), facts.pop("files"), facts.pop("benchmarks", None))
    )
    with pytest.raises(DataError, match="does not fit its content_sha256"):
        promote(run, "base", tmp_path)
    edit_run_json(
        run, lambda facts: (facts.pop("content_sha256"), facts.update(benchmarks={"sums": {"title": "S"}}))
    )
    with pytest.raises(DataError, match='schema 1 but has "benchmarks"'):
        promote(run, "base", tmp_path)
    edit_run_json(run, lambda facts: facts.pop("benchmarks"))
    write_lines(run, verdicts("c" * 60, model="new"))
    with pytest.raises(DataError, match=r"run\.json has correct 54"):
        promote(run, "base", tmp_path)


def test_killed_run_is_promoted_without_hashes(run: Path, tmp_path: Path, capsys: Capture) -> None:
    """With --allow-incomplete, a killed run can be kept for comparisons; no gate accepts it."""
    gone = ("files", "content_sha256", "summary", "finished")
    edit_run_json(run, lambda facts: (facts.update(complete=False), [facts.pop(name) for name in gone]))
    target = promote(run, "base", tmp_path, allow_incomplete=True)
    assert "files" not in json.loads((target / "run.json").read_text())
    status, result = decision(run, target, capsys)
    assert (status, result["decision"]) == (7, "invalid")
    assert [r for r in result["reasons"] if r.startswith('baseline run: run.json has no time in "finished"')]
