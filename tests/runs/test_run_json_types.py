"""Every value of run.json replaced by one of another type: the record is refused in one line, or can be shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_llmprops.core.gate_results import Check, GateResult, RulePlan, RuleResult, SequentialPlan
from pytest_llmprops.core.records import Remark
from pytest_llmprops.core.run_metadata import (
    GitState,
    ModelMetadata,
    OldReplies,
    PriceFacts,
    ProtocolMetadata,
    RunMetadata,
)
from pytest_llmprops.reports.runs_table import list_lines, show_lines
from pytest_llmprops.runs.catalog import Listed
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.reader import read_run
from tests.support.recorded import verdicts, write_run

OTHERS: tuple[Any, ...] = (5, "x", [1], {"a": 1}, None)


def rich_record(folder: Path) -> RunMetadata:
    """Return the facts of a run that have every optional part."""
    run = read_run(write_run(folder, verdicts("cwcwc")))
    [model] = run.facts.models
    check = Check("metric", "0.5", "0.6", "met", value=0.6)
    return replace(
        run.facts,
        models={
            model: ModelMetadata("gpt", False, {"name": "gpt"}, False, ("gpt-1",), OldReplies(1, 90000.0, 1),
                              PriceFacts(1.0, 2.0, "the table")),
        },
        protocols={"sums": ProtocolMetadata("quick", {"shots": 1}, 0, ("the seed",), "speed", {"shots": 2})},
        git=GitState("abc", dirty=True),
        data={"data/sums.jsonl": "f" * 64},
        versions={"python": "3.11"},
        deviations={model: ("temperature left out",)},
        not_served={"sums": {model: 3}},
        selection={"sums": {"items": 5, "of": 9}},
        remarks=(Remark(model, "sums", "a line"),),
        sequential=SequentialPlan("g", "b", 1, True, {"sums": RulePlan(5, 5.0, {"missing": ["sums/1"]}, 5, 5.0)}),
        gate=GateResult("pass", True, "the line", rules=(RuleResult("sums", "met", 5, (check,)),)),
        notes=("a note",),
    )  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every member of ``value``, and of the first element of every list, at any depth."""
    members = (
        value if isinstance(value, dict) else range(min(1, len(value))) if isinstance(value, list) else ()
    )
    for member in members:
        yield (*path, member)
        yield from places(value[member], (*path, member))


def test_a_value_of_another_type_is_refused_or_shown(tmp_path: Path) -> None:
    """Whatever is read can be listed, shown and compared."""
    good = read_run(write_run(tmp_path / "good", verdicts("cwcwc")))
    facts = json.loads(json.dumps(rich_record(tmp_path / "rich").to_json()))
    assert json.loads(json.dumps(RunMetadata.from_json(facts, "rich").to_json())) == facts
    refused: list[str] = []
    for *place, name in places(facts):
        for other in OTHERS:
            changed = deepcopy(facts)
            table = changed
            for part in place:
                table = table[part]
            if type(table[name]) is type(other):
                continue
            table[name] = other
            try:
                read = RunMetadata.from_json(changed, "rich")
            except ValueError as error:
                refused.append(str(error))
                continue
            run = replace(good, folder=tmp_path / "other", facts=read)
            assert show_lines(run, 80)
            assert list_lines(
                [Listed(run.folder, read, "complete"), Listed(good.folder, good.facts, "complete")], 80
            )
            assert compare([good, run])
    assert len(refused) > 100
    assert not [line for line in refused if "\n" in line]
