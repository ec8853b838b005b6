"""How recorded runs become sections, tables and notes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_llmprops import benchmark_registry
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.numbers import with_interval
from pytest_llmprops.core.registration import BenchmarkMetadata, Registration
from pytest_llmprops.records.files import plain
from pytest_llmprops.reports.kit.blocks import Figure, Note, Report, Section, Table
from pytest_llmprops.reports.kit.series import Measured, series_of
from pytest_llmprops.reports.page.items import command_again
from pytest_llmprops.reports.terminal import show_lines
from pytest_llmprops.runs.export import table
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.statistics.intervals import mean_interval
from tests.support.gates import repeated
from tests.support.records import exchange, metric, recorded, verdict, verdicts
from tests.support.report_items import CALLS, LEFT_OUT, ids_of, rows_of, unpacked
from tests.support.report_sections import Shown

HOMOPHONES = {"benchmark": "homophones"}
HTEST = {"benchmark": "htest"}


def report(*folders: Path) -> Report:
    """Return the report on recorded runs."""
    return Shown(*folders).report


def protocol(k: int, cot: bool = False) -> dict[str, Any]:
    """Return the recorded protocol of an H-TEST run."""
    return {"htest": {"name": "quick", "settings": {"k": k, "cot": cot}, "gives_up": "36 examples"}}


def htest_run(folder: Path, correct: int, k: int, cot: bool = False) -> Path:
    """Return a run of two tasks and Letter Geometry."""
    tasks = {"rhyme": correct, "uppercase": correct, "letter_geometry": correct // 2}
    records = [v for task, n in tasks.items() for v in verdicts(task, n, 20 - n, **HTEST)]
    return recorded(folder, records, protocols=protocol(k, cot))


def test_series_of_one_model_are_labelled_by_what_differs(tmp_path: Path) -> None:
    """Series of one model are labelled by the settings that differ, as in the grid, or by the ids of their runs."""
    equal = [htest_run(tmp_path / name, 12, 14) for name in ("monday", "tuesday")]
    assert report(*equal).series == ("model · monday", "model · tuesday")


def test_the_grid_has_a_column_for_each_setting(tmp_path: Path) -> None:
    """Tasks are rows; k ascends, no chain of thought comes first, and the paper's best has a column."""
    settings = ((50, False, 15), (4, False, 10), (4, True, 12))
    runs = [htest_run(tmp_path / f"{k}{cot}", correct, k, cot) for k, cot, correct in settings]
    rows = Shown(*runs).table("Task by number of examples")
    first = list(rows[0].items())
    assert [name for name, _ in first] == [
        "Task", "model · k 4", "model · k 50", "model · k 4 · with CoT",
        "Best of the paper, k = 4", "Best of the paper, k = 50",
    ]  # fmt: skip
    assert [row["Task"] for row in rows] == ["rhyme", "uppercase", "all 2 tasks"]
    assert [cell.split("%")[0] for _, cell in first[1:4]] == ["50.0", "75.0", "60.0"]
    assert first[5][1] == "Claude V1 89.5"


def test_grid_counts_unreadable_replies(tmp_path: Path) -> None:
    """Accuracy counts unreadable replies; with enough readable ones, the adjusted accuracy is next to it."""
    records = [*verdicts("rhyme", 6, 2, **HTEST), *(verdict("rhyme", n, "unparsed", **HTEST) for n in (8, 9))]
    for task in ("uppercase", "letter_geometry"):
        records += [verdict(task, n, "unparsed" if n else "correct", **HTEST) for n in range(104)]
    shown = Shown(recorded(tmp_path / "run", records, protocols=protocol(14)))
    rhyme, uppercase, _ = ([*row.values()] for row in shown.table("Task by number of examples"))
    assert rhyme[1].startswith("60.0%")
    assert rhyme[1].endswith("; † 75.0% of 8")
    # Of one readable reply, nothing can be said, also not in the table with Letter Geometry.
    for cell in (uppercase[1], shown.table("Ten tasks and Letter Geometry")[0]["Letter Geometry"]):
        assert cell.startswith("1.0% (")
        assert "†" not in cell


def test_letter_geometry_is_plotted_with_the_papers_models(tmp_path: Path) -> None:
    """The plot has the run's numbers, those of every model for which the paper prints both, and the best fit."""
    shown = Shown(htest_run(tmp_path / "run", 12, 14))
    first, *printed = rows = [[*row.values()] for row in shown.table("Ten tasks and Letter Geometry")]
    assert [cell.split("%")[0] for cell in first[:3]] == ["model", "60.0", "30.0"]
    assert ["Claude V1", "66.5%", "40.0%", "paper, k = 50"] in printed
    # The paper's figures at 50 examples are in doubt.
    assert ["Command", "54.3%", "14.4%", "paper, k = 28"] in printed
    # As in Figure 5, a line of least squares goes through all points, from the lowest to the highest accuracy.
    xs, ys = ([float(row[column].split("%")[0]) / 100 for row in rows] for column in (1, 2))
    slope, start = np.polyfit(xs, ys, 1)
    [figure] = shown.figures("htest-geometry")
    lines = [line.get_xydata() for line in figure.draw().axes[0].lines]
    ends = [(x, start + slope * x) for x in (min(xs), max(xs))]
    assert any(line.shape == (2, 2) and np.allclose(line, ends, atol=1e-3) for line in lines)


def test_clues_are_compared_in_one_table(tmp_path: Path) -> None:
    """Each language shows asked, both controls and the gain from sound, with the paper's models next to asked."""
    clues = {"asked": 9, "context_only": 4, "word_only": 1}
    records = [v for task, n in clues.items() for v in verdicts(task, n, 10 - n, **HOMOPHONES)]
    records += verdicts("asked", 2, 8, **HOMOPHONES, language="es")
    english, spanish = Shown(recorded(tmp_path / "run", records)).table("By language and clue")
    heads = ["Asked", "Context only", "Word only", "Sound adds", "Published, asked"]
    assert list(english)[2:] == heads
    assert [english[head].split("%")[0] for head in heads[:4]] == ["90.0", "40.0", "10.0", "+50.0"]
    assert english["Published, asked"].startswith("GPT-4 90.0, Ernie-4.0 83.0")
    assert [spanish[head] for head in heads[1:4]] == ["–", "–", "–"]


def test_custom_benchmark_has_a_section(tmp_path: Path) -> None:
    """A custom benchmark gets accuracy, counts, metrics and protocol without any report code."""
    row = metric("carry_rate", 0.25, model="model", n=8, ci_low=0.1, ci_high=0.5, direction="lower")
    run = recorded(
        tmp_path / "run",
        [*verdicts("add", 7, 1), verdict("add", 9, "refused"), verdict("add", 10, "error")],
        metrics=[row, {**row, "group": "small"}, {**row, "task": "of no item"}],
        protocols={"sums": {"name": "paper", "settings": {"digits": 3}, "assumed": ["base ten"]}},
    )
    shown = Shown(run)
    assert shown.report.table is not None
    assert shown.report.table.rows[0][-1].text == "1 refused, 1 error"
    assert shown.table("Results") == [{
        "Task": "add", "Language": "English", "Items from": "builtin", "Items": "10",
        "Accuracy": "77.8% (40.0 to 97.2)", "Wrong": "1", "Refused": "1", "Unparsed": "0", "Errors": "1",
    }]  # fmt: skip
    assert [*shown.table("Metrics")[0].values()] == [
        "carry rate", "add", "English", "", "25.0% (10.0 to 50.0)", "8", "lower",
    ]  # fmt: skip
    # A metric of a group is not about all items of its task.
    [metrics] = [block for block in shown.every(Table) if block.title == "Metrics"]
    place = {"benchmark": "sums", "task": "add", "language": "en", "source": "builtin", "series": "0"}
    assert [row[4].items for row in metrics.rows] == [place, {}, {}]
    assert "Protocol paper: digits 3." in " ".join(shown.notes)
    assert "base ten" in " ".join(shown.notes)


class Sums(Benchmark):
    """A benchmark with one task and one control."""

    name = "sums"
    title = "Sums & more"
    about = "Can it add?"
    noun = "all sums"
    controls = frozenset({"warm_up"})
    chance = {"": 0.1}


def test_a_benchmark_can_bring_its_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered section is used; title, noun, controls and chance come from the class, or from the record."""

    def section(measured: Measured) -> Section:
        return Section((Note(f"{len(measured.places)} places"),))

    records = [*verdicts("add", 7, 1), *verdicts("warm_up", 0, 8)]
    facts = {"sums": plain(BenchmarkMetadata.of(Sums))}
    of_record = report(recorded(tmp_path / "recorded", records, benchmarks=facts))
    run = recorded(tmp_path / "run", records)
    assert report(run).title.startswith("model answers 43.8% of sums")
    registration = Registration(name="sums", benchmark=Sums, section=section)
    monkeypatch.setattr(benchmark_registry, "registered", {"sums": registration})
    of_class = report(run)
    for content in (of_class, of_record):
        assert content.title.startswith("model answers 87.5% of all sums")
        assert (content.sections[0].title, content.sections[1].title) == ("Sums & more", "Readings")
        assert content.table is not None
        assert content.table.rows[0][3].text == "10%"
    shown = of_class.sections[0]
    assert (shown.key, shown.about, shown.blocks) == ("sums", "Can it add?", (Note("2 places"),))
    wrong = {"sums": replace(registration, section=lambda measured: "text")}
    monkeypatch.setattr(benchmark_registry, "registered", wrong)
    with pytest.raises(UsageError, match="benchmark sums, section: returns 'text', not a Section"):
        report(run)


def test_items_and_samples_are_counted(tmp_path: Path) -> None:
    """The page, ``runs show`` and the export have both numbers and every sample; a note explains the accuracy."""
    correct = (3, 3, 2, 2, 1, 0, 3, 3, 3, 3)
    run = read_run(recorded(tmp_path / "repeated", repeated(correct, 3)))
    shown = Shown(run.folder)
    [cells] = shown.table("Results")
    assert (cells["Items"], cells["Samples"], cells["Wrong"]) == ("10", "30", "7")
    low, high, *_ = mean_interval([n / 3 for n in correct], [str(n) for n in range(10)])
    assert cells["Accuracy"] == with_interval(23 / 30, low, high)
    measured = Measured("sums", series_of([run]))
    assert [r.sample for r in measured.first_samples(measured.series[0])] == [0] * 10
    assert any("Items have 3 samples." in note for note in shown.notes)
    ids = ids_of(shown.report.items)
    assert (len(ids), len(set(ids))) == (30, 10)
    assert ("sums/0004", 2) in zip(ids, unpacked(shown.report.items.index)["rows"]["sample"], strict=True)
    assert shown.report.table is not None
    [[_, share, number, *_]] = shown.report.table.rows
    assert (share.value, number.value) == pytest.approx((23 / 30, 10))
    text = "\n".join(show_lines(run))
    assert "recorded more than once" not in text
    [row] = [line.split() for line in text.splitlines() if line.startswith("  add ")]
    assert row[3:5] == ["10", "30"]
    assert not table([run], "verdicts").duplicated(["run_id", "model", "id", "sample"]).any()
    assert table([run], "summary").loc[0, "samples"] == len(table([run], "verdicts")) == 30


def test_differing_runs_are_named_as_such(tmp_path: Path) -> None:
    """A comparison of runs with different protocols says what differs; one setting has no line over k to draw."""
    runs = [htest_run(tmp_path / str(k), 12, k) for k in (4, 14)]
    both, one = Shown(*runs), Shown(runs[0])
    assert any("k 4 → 14" in line for line in both.report.warnings)
    assert not any("differ" in line for line in one.report.warnings)
    assert [len(shown.figures("htest-grid")) for shown in (both, one)] == [1, 0]


def test_deviations_and_faults_of_a_run_are_listed(tmp_path: Path) -> None:
    """A forced deviation is a star, which is explained; incomplete and stopped runs, errors, unserved items and the
    record's own notes are listed.
    """
    run = recorded(
        tmp_path / "run",
        [*verdicts("add", 3, 1), verdict("add", 9, "error"), verdict("add", 10, "error")],
        complete=False,
        stopped="the key is wrong",
        not_served={"eras": {"model": 3}},
        notes=["imported"],
        deviations={"model": ["no temperature"]},
    )
    shown = Shown(run)
    said = "\n".join(shown.report.warnings)
    for words in (
        "incomplete",
        "the key is wrong",
        "3 items of eras",
        "imported",
        "2 calls could not be made",
    ):
        assert words in said
    assert shown.report.title.startswith("model* answers")
    assert shown.report.series == ("model*",)
    warnings = [note.text for note in shown.every(Note) if note.tone == "warn"]
    assert warnings == ["* model: the API forced no temperature."]


def test_runs_without_calls_have_no_cost(tmp_path: Path) -> None:
    """The cost is that of the runs that made calls; an imported run made none."""
    calls = {
        "a": {"cost_usd": 0.0},
        "b": {"cost_usd": 0.0},
        "c": {"requests": 4, "cost_usd": 1.5},
        "d": {"requests": 4},
    }
    *imported, asked, unknown = (
        recorded(tmp_path / name, verdicts("add", 3, 1, model=name), calls=made)
        for name, made in calls.items()
    )
    assert "Cost" not in dict(report(*imported).facts)
    assert dict(report(*imported, asked).facts)["Cost"] == "1.50 USD"
    assert dict(report(*imported, unknown).facts)["Cost"] == "cost unknown"
    both = report(*imported, asked, unknown)
    assert dict(both.facts)["Cost"] == "1.50 USD for 1 of 2 runs with calls"
    costs = [dict(facts)["Cost"] for _, facts in both.runs]
    assert costs == ["no calls", "no calls", "1.50 USD", "cost unknown"]


def test_facts_of_a_run_are_kept(tmp_path: Path) -> None:
    """Model, revision, date, calls, cost, protocol, versions and data are on the page."""
    run = recorded(
        tmp_path / "run",
        verdicts("add", 3, 1),
        calls={"requests": 4, "cost_usd": 0.125, "prompt_tokens": 12_345},
        data={"builtin:sums.csv": "abc"},
        protocols={"sums": {"name": "quick", "settings": {"k": 1}}},
        helpers={"reader": {"spec": "gpt-x", "identity": {"revision": "r1"}}},
    )
    content = report(run)
    assert {
        "Model model": "spec model",
        "Helper reader": "spec gpt-x, identity (revision r1)",
        "Protocol of sums": "name quick, settings (k 1)",
        "Calls": "requests 4, prompt_tokens 12,345, cost_usd 0.125",
        "Cost": "0.1250 USD",
        "Data of .": "builtin:sums.csv abc",
    }.items() <= dict(content.runs[0][1]).items()
    assert dict(content.facts)["Measured"] == "2026-01-02"


def test_prompts_on_the_page(tmp_path: Path) -> None:
    """A prefix that all prompts of a task share is stored once and can be restored; other requests are JSON."""
    shared = "\n".join(f"Input: example {n} Label: A" for n in range(20)) + "\n\n"
    prompts = [f"{shared}Input: item {n}" for n in range(3)]
    asked = [exchange(f"k{n}", p, f"reply {n}", finish_reason="length") for n, p in enumerate(prompts)]
    asked += [exchange("k3", "", "", kind="segment", request={"text": "abc"}, reply={"value": ["a", "bc"]})]
    records = [verdict("add" if n < 3 else "cut", n, requests=[f"k{n}"]) for n in range(4)]
    [chunk] = map(unpacked, report(recorded(tmp_path / "run", records, requests=asked)).items.chunks)
    assert len(chunk["prefixes"]) == 1
    *calls, (_, [[kind, (_, text)]], value, _, _) = [row[CALLS][0] for row in chunk["rows"]]
    for (role, [[who, (prefix, rest)]], reply, remark, _), prompt in zip(calls, prompts, strict=True):
        assert (role, who, remark) == ("subject", "user", "ended by length")
        assert chunk["prefixes"][prefix] + rest == prompt
        assert reply.startswith("reply")
    assert (kind, '"abc"' in text, '"bc"' in value) == ("segment", True, True)


def test_calls_of_an_item_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item with many calls shows the first ones, helpers' calls last, and says how many are left out."""
    roles = ["subject", "reader", "subject", "reader", "subject", "subject"]
    calls = [exchange(f"k{n}", f"p{n}", f"r{n}", role=role) for n, role in enumerate(roles)]
    records = [verdict("add", 0, requests=[f"k{n}" for n in range(6)]), verdict("add", 1, requests=["k0"])]
    run = recorded(tmp_path / "run", records, requests=calls)

    def shown(most: int) -> list[tuple[list[str], int]]:
        monkeypatch.setattr("pytest_llmprops.reports.page.items.MOST_CALLS", most)
        return [([call[2] for call in row[CALLS]], row[LEFT_OUT]) for row in rows_of(report(run).items)]

    assert shown(7) == [(["r0", "r1", "r2", "r3", "r4", "r5"], 0), (["r0"], 0)]
    assert shown(6) == [(["r0", "r2", "r4"], 3), (["r0"], 0)]
    assert shown(1) == [(["r0"], 5), (["r0"], 0)]


def test_every_item_is_on_the_page_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run is cut into chunks of rows, incorrect items first, and no item is left out."""
    monkeypatch.setattr("pytest_llmprops.reports.page.items.CHUNK", 8)
    monkeypatch.setattr("pytest_llmprops.reports.page.items.MOST_CHUNKS", 5)
    items = report(recorded(tmp_path / "run", verdicts("add", 90, 20))).items
    index = unpacked(items.index)
    assert [len(unpacked(chunk)["rows"]) for chunk in items.chunks] == [index["per_chunk"]] * 5 == [22] * 5
    statuses = [index["status"][status] for status in index["rows"]["status"]]
    assert statuses == ["wrong"] * 20 + ["correct"] * 90
    assert len(set(ids_of(items))) == 110


def priced(folder: Path, model: str, price: float | None) -> Path:
    """Return a run of two items with three calls: one is shared, one came in a batch at half the price."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    seconds = {"shared": 1.0, "one": 2.0, "two": 4.0}
    requests = [exchange(key, "p", "r", usage=usage, seconds=time) for key, time in seconds.items()]
    requests[2]["via"] = "batch"
    records = [
        verdict("add", 0, model=model, requests=["shared", "one"]),
        verdict("add", 1, "wrong", model=model, requests=["shared", "two"]),
    ]
    known = {} if price is None else {"price": {"input": price, "output": 10 * price, "source": "2026-01-01"}}
    return recorded(folder / model, records, requests=requests, models={model: {"spec": model, **known}})


def test_cost_and_time_by_task(tmp_path: Path) -> None:
    """A call that items share counts once, a batch costs half, and an unknown price is a dash.

    The figure of accuracy against cost has the series with a known price, if there are at least two.
    """
    found = report(priced(tmp_path, "a", 5.0), priced(tmp_path, "b", None)).sections[-1]
    [table] = found.blocks
    assert isinstance(table, Table)
    assert [name for name, _ in table.columns] == [
        "Task", "Model", "Calls", "Prompt tokens", "Reply tokens", "p50, s", "p95, s", "USD", "USD per 1,000 items",
    ]  # fmt: skip
    rows = [[cell.text for cell in row] for row in table.rows]
    assert rows[0] == ["add", "a", "3", "3,000", "300", "2.00", "4.00", "0.025", "12.50"]
    assert rows[1] == ["add", "b", "3", "3,000", "300", "2.00", "4.00", "–", "–"]
    assert table.rows[0][0].items == {"benchmark": "sums", "task": "add", "series": "0"}
    assert found.about == "6 recorded calls."
    both = report(tmp_path / "a", priced(tmp_path, "c", 1.0)).sections[-1].blocks
    assert [block.name for block in both if isinstance(block, Figure)] == ["sums-cost"]
    # An imported run shows nothing about cost.
    assert report(recorded(tmp_path / "run", [verdict("add", 0)])).sections[-1].title != "Cost and time"


AGAIN = "--model=gpt-4o --llm-cache=refresh"
COMMANDS = {
    "suites --model gpt-4o --model=gpt-5 -n8": f"pytest suites {AGAIN}",
    "suites -k rhyme -n 4 --llm-run out --llm-gate=g.toml": f"pytest suites {AGAIN}",
    "suites --llm-resume --llm-set htest.k=4": f"pytest suites --llm-set=htest.k=4 {AGAIN}",
    "'my suites/$(rm)' -p evil -cevil.ini": f"pytest 'my suites/$(rm)' {AGAIN}",
    "/tmp/evil.py ../evil.py::test_a": f"pytest SUITES SUITES {AGAIN}",
    "suites --llm-base-url http://evil/v1": f"pytest suites --llm-base-url=VALUE {AGAIN}",
    "suites --llm-header 'x=$HOME'": f"pytest suites --llm-header=VALUE {AGAIN}",
    "--llm-helper=reader=fake:call?file=evil.py": f"pytest --llm-helper=VALUE {AGAIN}",
    "--pyargs pytest_llmprops.suites.test_eras": f"pytest --pyargs pytest_llmprops.suites.test_eras {AGAIN}",
    "a\u202eb": f"pytest 'a[U+202E]b' {AGAIN}",
}


def test_what_selects_and_writes_is_left_out(tmp_path: Path) -> None:
    """The command measures one model with new replies, writes its own record, and is quoted for a shell."""
    models = {"gpt-4o": {"spec": "gpt-4o"}}
    run = read_run(recorded(tmp_path / "run", [verdict("add", 0, model="gpt-4o")], models=models))
    for command, again in COMMANDS.items():
        facts = replace(run.facts, options={"command": shlex.split(command)})
        assert command_again(series_of([replace(run, facts=facts)])[0]) == again
    # An imported run has no command.
    assert command_again(series_of([run])[0]) == ""
