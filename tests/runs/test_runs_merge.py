"""Shards of a run, and ``llmprops runs merge``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.cli.run import resume_arguments
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.items import Item, Shard
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.plugin.options import parse_shard
from pytest_llmprops.records.run import ModelMetadata
from pytest_llmprops.reports.terminal import summary_lines
from pytest_llmprops.runs.merge import merge, merged_models
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.replies import read_requests
from tests.support.recorded import edit_run_json
from tests.support.records import exchange, recorded, verdict
from tests.support.runs import ROOT, Runner

OPTIONS = (
    *(str(ROOT / "suites" / f"test_{name}.py") for name in ("homophones", "htest")),
    "--model", "fake:random", "--llm-limit", "9", "-k", "htest/rhyme or homophones",
)  # fmt: skip


def shards(folder: Path, parts: Sequence[list[VerdictRecord]], *, of: int = 0, **facts: Any) -> list[Path]:
    """Write one record for each part, as shards 1, 2 and so on."""
    return [
        recorded(
            folder / str(number),
            part,
            requests=[exchange(f"key-{record.id}", record.id, "A") for record in part],
            **{"options": {"shard": [number, of or len(parts)]}, **facts},
        )
        for number, part in enumerate(parts, 1)
    ]


def merged(folders: Sequence[Path], out: Path) -> dict[str, Any]:
    """Merge the runs and return the new ``run.json``."""
    merge([read_run(folder) for folder in folders], out)
    facts: dict[str, Any] = json.loads((out / "run.json").read_text())
    return facts


def test_every_item_is_in_one_shard_with_its_cluster() -> None:
    """The shards are disjoint, contain all items, keep clusters whole, and do not depend on the other items."""
    items = [Item(f"t/{n:03d}", "t", "en", cluster=f"t/{n // 3}") for n in range(300)]
    parts = [Shard(number, 7).part_of(items, "b") for number in range(1, 8)]
    assert sorted(item.id for part in parts for item in part) == [item.id for item in items]
    clusters = [{item.cluster for item in part} for part in parts]
    assert sum(map(len, clusters)) == 100
    assert min(map(len, clusters)) >= 5
    assert Shard(3, 7).part_of(items[::2], "b") == [item for item in parts[2] if item in items[::2]]


def test_merged_shards_are_the_whole_run(run: Runner) -> None:
    """Verdicts, summary, metrics, remarks, counts and calls are those of one run, in the order of the suites."""
    whole = run(*OPTIONS)
    done = [run(*OPTIONS, "--llm-shard", f"{n}/3", "-n", "2" if n == 1 else "0") for n in range(1, 4)]
    # The random model answers some items of each shard wrong.
    assert {one.code for one in done} == {1}, [one.output for one in done]
    out = run.folder / "merged"
    merge([read_run(one.folder) for one in done], out)
    one, other = read_run(whole.folder), read_run(out)
    assert sorted(replace(record, requests=()).key for record in one.records) == sorted(
        r.key for r in other.records
    )
    of_item = {record.key: (record.status, record.values) for record in one.records}
    assert {record.key: (record.status, record.values) for record in other.records} == of_item
    for name in (
        "summary", "metrics", "remarks", "protocols", "data", "expected", "selection", "not_served", "complete",
    ):  # fmt: skip
        assert getattr(other.facts, name) == getattr(one.facts, name), name
    assert other.facts.calls.requests == one.facts.calls.requests
    assert {record.key for record in read_requests(out).values()} == {*read_requests(whole.folder)}
    assert max(len(run.verdicts) for run in done) < len(one.records)
    assert other.problems == ()


def test_a_shard_without_items_is_complete(run: Runner) -> None:
    """With more shards than clusters, some have nothing to measure; the merged run is complete."""
    run.sums(2)
    done = [run("--model", run.adder, "--llm-shard", f"{n}/3") for n in range(1, 4)]
    assert {one.code for one in done} <= {0, 1}, [one.output for one in done]
    assert min(one.run["expected"] for one in done) == 0
    facts = merged([one.folder for one in done], run.folder / "merged")
    assert (facts["complete"], facts["expected"]) == (True, 2)


def test_shards_that_do_not_exist_are_refused(run: Runner) -> None:
    """I is from 1 to N. A gate does not judge one shard."""
    run.sums()
    run.write("gate.toml", "[[rule]]\nmin_accuracy = 0.5\n")
    done = run("--model", run.adder, "--llm-shard", "1/2", "--llm-gate", "gate.toml")
    done.refused("merge the shards with 'llmprops runs merge'")
    for text in ("0/4", "5/4", "4", "1/0", "a/b", "1/-2"):
        with pytest.raises(ValueError, match="must be"):
            parse_shard(text)


def test_an_incomplete_merged_run_names_the_shards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gate and retry say which shards to measure or to resume; a merged run itself cannot be resumed."""
    folders = shards(tmp_path, [[verdict("add", 0)], [verdict("add", 1, "error")]], of=4)
    out = tmp_path / "merged"
    facts = merged(folders, out)
    assert (facts["complete"], facts["expected"]) == (False, None)
    assert "incomplete: missing shards 3/4, 4/4" in facts["notes"]
    steps = (
        "measure the missing shards with --llm-shard (3/4, 4/4), complete the others with 'llmprops run --resume"
        f" RUN' ({folders[1]}), then merge all shards again with 'llmprops runs merge'"
    )
    gate = tmp_path / "gate.toml"
    gate.write_text("[[rule]]\nbenchmark = 'sums'\nmin_accuracy = 0.3\n")
    assert main(["gate", str(out), "--gate", str(gate)]) == 7
    assert f"this run is incomplete: cases have no verdict; {steps}" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(["run", "--resume", str(out)]) == 2
    assert capsys.readouterr().err == f"llmprops: {out}: was merged from shards; {steps}\n"
    merged(shards(tmp_path / "whole", [[verdict("add", 0)], [verdict("add", 1)]]), tmp_path / "all")
    with pytest.raises(UsageError, match="are complete and have no errors, so there is nothing to run"):
        resume_arguments([str(tmp_path / "all")])
    run = read_run(out)
    assert f"have no verdict; complete it: {steps}" in " ".join(
        summary_lines(run.facts, run.records, out, ())
    )
    # The shards that were measured may be incomplete themselves.
    killed = shards(tmp_path / "killed", [[verdict("add", 0)], [verdict("add", 1)]], complete=False)
    facts = merged(killed, tmp_path / "incomplete")
    assert not facts["complete"]
    assert "incomplete: 2 is shard 2/2" in facts["notes"]


def test_an_incomplete_last_line_of_requests_is_left_out(tmp_path: Path) -> None:
    """A killed shard's requests do not spoil those of the next one."""
    folders = shards(tmp_path, [[verdict("add", 0)], [verdict("add", 1)]], finished=None)
    edit_run_json(folders[0], lambda facts: facts.update(finished=None, files={}), seal=True)
    with open(folders[0] / "requests.jsonl", "a") as file:
        file.write('{"key": "cut')
    merged(folders, tmp_path / "out")
    assert len(read_requests(tmp_path / "out")) == 2


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"data": {"sums.json": "2"}}, "differ in the data of sums.json: 1 and 2"),
        ({"models": {"model": {"spec": "other"}}}, "differ in the model of model: model and other"),
        ({"options": {"shard": [2, 2], "limit": 3}}, r"differ in the option of --llm-limit: \(none\) and 3"),
        ({"options": {"shard": [2, 2], "selected": {"-k": "x"}}}, "differ in the selection of the tests"),
        ({"options": {"shard": [2, 3]}}, "is one of 2 shards and .* one of 3"),
        ({"options": {"shard": [1, 2]}}, "are both shard 1/2"),
        ({"options": {}}, "is not a shard"),
    ],
)
def test_shards_of_different_runs_are_refused(tmp_path: Path, facts: dict[str, Any], message: str) -> None:
    """The message names both runs and what differs; nothing is written."""
    [first, _] = shards(tmp_path, [[verdict("add", 0)], []], data={"sums.json": "1"})
    second = {
        "data": {"sums.json": "1"},
        "options": {"shard": [2, 2]},
        "models": {"model": {"spec": "model"}},
        **facts,
    }
    other = recorded(tmp_path / "other", [verdict("add", 1)], **second)
    with pytest.raises(UsageError, match=message):
        merged([first, other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_items_of_another_shard_and_changed_records_are_refused(tmp_path: Path) -> None:
    folders = shards(tmp_path, [[verdict("add", 0)], [verdict("add", 0)]])
    with pytest.raises(DataError, match="has items of another shard"):
        merged(folders, tmp_path / "out")
    path = folders[0] / "verdicts.jsonl"
    path.write_text(path.read_text().replace("correct", "wrong"))
    with pytest.raises(DataError, match="restore the file or measure again"):
        merged(folders, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_version_of_a_merged_model_is_the_known_one() -> None:
    """A part that made no call knows no version; if both parts know one, it is that of the later part."""
    known, later, none = (ModelMetadata("m", identity=identity) for identity in ({"v": 1}, {"v": 2}, None))
    for one, other, merged in ((known, none, {"v": 1}), (none, known, {"v": 1}), (known, later, {"v": 2})):
        assert merged_models({"m": one}, {"m": other})["m"].identity == merged
