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
from pytest_llmprops.core.registration import BenchmarkMetadata, Registration
from pytest_llmprops.records.files import plain
from pytest_llmprops.reports.kit.blocks import Figure, Note, Report, Section, Table
from pytest_llmprops.reports.kit.series import Measured, series_of
from pytest_llmprops.reports.page.build import unfolded
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.page.items import command_again
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.replies import read_requests
from tests.support.records import exchange, recorded, verdict, verdicts
from tests.support.report_items import CALLS, LEFT_OUT, ids_of, rows_of, unpacked

HOMOPHONES = {"benchmark": "homophones"}
HTEST = {"benchmark": "htest"}


def report(*folders: Path) -> Report:
    """Return the report on recorded runs."""
    runs = [read_run(folder) for folder in folders]
    return report_on(runs, {id(run): read_requests(run.folder) for run in runs})


def table_block(section: Section, title: str) -> Table:
    """Return a table."""
    return next(b for b in unfolded(section.blocks) if isinstance(b, Table) and b.title == title)


def table(section: Section, title: str) -> list[list[str]]:
    """Return a table's headings and rows as text."""
    block = table_block(section, title)
    return [[name for name, _ in block.columns], *([cell.text for cell in row] for row in block.rows)]


def protocol(k: int, cot: bool = False) -> dict[str, Any]:
    """Return the recorded protocol of an H-TEST run."""
    return {"htest": {"name": "quick", "settings": {"k": k, "cot": cot}, "gives_up": "36 examples"}}


def htest_run(folder: Path, correct: int, k: int, *, cot: bool = False, **more: Any) -> Path:
    """Return a run of two tasks and Letter Geometry."""
    records = [
        *verdicts("rhyme", correct, 20 - correct, **HTEST, **more),
        *verdicts("uppercase", correct, 20 - correct, **HTEST, **more),
        *verdicts("letter_geometry", correct // 2, 20 - correct // 2, **HTEST, **more),
    ]
    return recorded(folder, records, protocols=protocol(k, cot))


def test_series_of_one_model_are_labelled_by_what_differs(tmp_path: Path) -> None:
    """Series of one model are labelled only by the settings that differ, or by the ids of their runs."""
    runs = [htest_run(tmp_path / f"{k}{cot}", 12, k, cot=cot) for k in (4, 50) for cot in (False, True)]
    assert report(*runs).series == (
        "model · k 4", "model · k 4 · with CoT", "model · k 50", "model · k 50 · with CoT",
    )  # fmt: skip
    equal = [htest_run(tmp_path / name, 12, 14) for name in ("monday", "tuesday")]
    assert report(*equal).series == ("model · monday", "model · tuesday")


def test_the_grid_has_a_column_for_each_setting(tmp_path: Path) -> None:
    """Tasks are rows; k ascends, no chain of thought comes first, and the paper's best has a column."""
    runs = [htest_run(tmp_path / f"{k}{cot}", c, k, cot=cot) for k, cot, c in
            ((50, False, 15), (4, False, 10), (4, True, 12))]  # fmt: skip
    heading, *rows = table(report(*runs).sections[0], "Task by number of examples")
    assert heading == [
        "Task", "model · k 4", "model · k 50", "model · k 4 · with CoT",
        "Best of the paper, k = 4", "Best of the paper, k = 50",
    ]  # fmt: skip
    assert [row[0] for row in rows] == ["rhyme", "uppercase", "all 2 tasks"]
    assert [cell.split("%")[0] for cell in rows[0][1:4]] == ["50.0", "75.0", "60.0"]
    assert rows[0][5] == "Claude V1 89.5"


def test_grid_counts_unreadable_replies(tmp_path: Path) -> None:
    """Accuracy counts unreadable replies; with enough readable ones, the adjusted accuracy is next to it."""
    records = [*verdicts("rhyme", 6, 2, **HTEST), *(verdict("rhyme", n, "unparsed", **HTEST) for n in (8, 9))]
    for task in ("uppercase", "letter_geometry"):
        records += [verdict(task, n, "unparsed" if n else "correct", **HTEST) for n in range(104)]
    section = report(recorded(tmp_path / "run", records, protocols=protocol(14))).sections[0]
    _, rhyme, uppercase, _ = table(section, "Task by number of examples")
    assert rhyme[1].startswith("60.0%")
    assert rhyme[1].endswith("; † 75.0% of 8")
    # Of one readable reply, nothing can be said, also not in the table with Letter Geometry.
    _, row, *_ = table(section, "Ten tasks and Letter Geometry")
    for cell in (uppercase[1], row[2]):
        assert cell.startswith("1.0% (")
        assert "†" not in cell


def test_letter_geometry_is_plotted_with_the_papers_models(tmp_path: Path) -> None:
    """The plot has the run's numbers, those of every model for which the paper prints both, and the best fit."""
    shown = report(htest_run(tmp_path / "run", 12, 14)).sections[0]
    heading, *rows = table(shown, "Ten tasks and Letter Geometry")
    assert heading == ["Model", "Ten tasks", "Letter Geometry", "From"]
    assert rows[0][0] == "model"
    assert rows[0][1].startswith("60.0%")
    assert rows[0][2].startswith("30.0%")
    printed = {row[0]: row[1:] for row in rows[1:]}
    assert printed["Claude V1"] == ["66.5%", "40.0%", "paper, k = 50"]
    # The paper's figures at 50 examples are in doubt.
    assert printed["Command"] == ["54.3%", "14.4%", "paper, k = 28"]
    # As in Figure 5, a line of least squares goes through all points, from the lowest to the highest accuracy.
    xs, ys = ([float(row[column].split("%")[0]) / 100 for row in rows] for column in (1, 2))
    slope, start = np.polyfit(xs, ys, 1)
    [figure] = [b for b in unfolded(shown.blocks) if isinstance(b, Figure) and b.name == "htest-geometry"]
    lines = [line.get_xydata() for line in figure.draw().axes[0].lines]
    ends = [(x, start + slope * x) for x in (min(xs), max(xs))]
    assert any(line.shape == (2, 2) and np.allclose(line, ends, atol=1e-3) for line in lines)


def test_clues_are_compared_in_one_table(tmp_path: Path) -> None:
    """Each language shows asked, both controls and the gain from sound, with the paper's models next to asked."""
    records = [
        *verdicts("asked", 9, 1, **HOMOPHONES),
        *verdicts("context_only", 4, 6, **HOMOPHONES),
        *verdicts("word_only", 1, 9, **HOMOPHONES),
        *verdicts("asked", 2, 8, **HOMOPHONES, language="es"),
    ]
    heading, english, spanish = table(
        report(recorded(tmp_path / "run", records)).sections[0], "By language and clue"
    )
    assert heading[2:] == ["Asked", "Context only", "Word only", "Sound adds", "Published, asked"]
    assert [cell.split("%")[0] for cell in english[2:5]] == ["90.0", "40.0", "10.0"]
    assert english[5] == "+50.0"
    assert english[6].startswith("GPT-4 90.0, Ernie-4.0 83.0")
    assert spanish[3:6] == ["–", "–", "–"]


def test_custom_benchmark_has_a_section(tmp_path: Path) -> None:
    """A custom benchmark gets accuracy, counts, metrics and protocol without any report code."""
    metric = {
        "model": "model", "benchmark": "sums", "task": "add", "language": "en", "source": "builtin", "group": "",
        "name": "carry_rate", "value": 0.25, "n": 8, "ci_low": 0.1, "ci_high": 0.5, "direction": "lower",
    }  # fmt: skip
    run = recorded(
        tmp_path / "run",
        [*verdicts("add", 7, 1), verdict("add", 9, "refused"), verdict("add", 10, "error")],
        metrics=[metric, {**metric, "group": "small"}, {**metric, "task": "of no item"}],
        protocols={"sums": {"name": "paper", "settings": {"digits": 3}, "assumed": ["base ten"]}},
    )
    content = report(run)
    assert content.table is not None
    assert content.table.rows[0][-1].text == "1 refused, 1 error"
    section = content.sections[0]
    heading, row = table(section, "Results")
    assert dict(zip(heading, row, strict=True)) == {
        "Task": "add", "Language": "English", "Items from": "builtin", "Items": "10",
        "Accuracy": "77.8% (40.0 to 97.2)", "Wrong": "1", "Refused": "1", "Unparsed": "0", "Errors": "1",
    }  # fmt: skip
    assert table(section, "Metrics")[1] == [
        "carry rate", "add", "English", "", "25.0% (10.0 to 50.0)", "8", "lower",
    ]  # fmt: skip
    # A metric of a group is not about all items of its task.
    assert [row[4].items for row in table_block(section, "Metrics").rows] == [
        {"benchmark": "sums", "task": "add", "language": "en", "source": "builtin", "series": "0"},
        {},
        {},
    ]
    said = " ".join(b.text for b in unfolded(section.blocks) if isinstance(b, Note))
    assert "Protocol paper: digits 3." in said
    assert "base ten" in said


class Sums(Benchmark):
    """A benchmark with one task and one control."""

    name = "sums"
    title = "Sums & more"
    about = "Can it add?"
    noun = "all sums"
    controls = frozenset({"warm_up"})
    chance = {"": 0.1}


def test_a_benchmark_can_bring_its_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered section is used; title, noun, controls and chance come from the class."""

    def section(measured: Measured) -> Section:
        return Section((Note(f"{len(measured.places)} places"),))

    registration = Registration(name="sums", benchmark=Sums, section=section)
    monkeypatch.setattr(benchmark_registry, "registered", {"sums": registration})
    records = [*verdicts("add", 7, 1), *verdicts("warm_up", 0, 8)]
    content = report(recorded(tmp_path / "run", records))
    assert content.title.startswith("model answers 87.5% of all sums")
    shown, readings = content.sections
    assert readings.title == "Readings"
    assert (shown.key, shown.title, shown.about) == ("sums", "Sums & more", "Can it add?")
    assert shown.blocks == (Note("2 places"),)
    wrong = {"sums": replace(registration, section=lambda measured: "text")}
    monkeypatch.setattr(benchmark_registry, "registered", wrong)
    with pytest.raises(UsageError, match="benchmark sums, section: returns 'text', not a Section"):
        report(tmp_path / "run")
    assert content.table is not None
    assert content.table.rows[0][3].text == "10%"


def test_a_record_says_what_its_benchmark_is(tmp_path: Path) -> None:
    """If the benchmark is not installed, title, noun, controls and chance come from the record."""
    facts = {"sums": plain(BenchmarkMetadata.of(Sums))}
    records = [*verdicts("add", 7, 1), *verdicts("warm_up", 0, 8)]
    content = report(recorded(tmp_path / "run", records, benchmarks=facts))
    assert content.title.startswith("model answers 87.5% of all sums")
    assert content.sections[0].title == "Sums & more"
    assert content.table is not None
    assert content.table.rows[0][3].text == "10%"
    without = report(recorded(tmp_path / "old", records))
    assert without.title.startswith("model answers 43.8% of sums")


def test_two_runs_have_a_column_for_the_change(tmp_path: Path) -> None:
    """The comparison pairs the items in both runs and says whether the difference is significant."""
    first = recorded(tmp_path / "a", verdicts("add", 50, 50, model="a"))
    second = recorded(tmp_path / "b", verdicts("add", 80, 20, model="b"))
    heading, row = table(report(first, second).sections[0], "Comparison")
    assert heading[3:] == ["a", "b", "Change", "Lost", "Gained"]
    assert row[6:] == ["0", "30"]
    assert row[3].startswith("50.0%")
    assert row[4].startswith("80.0%")
    assert row[5].startswith("+30.0 (+")
    assert row[5].endswith(", better")


def test_differing_runs_are_named_as_such(tmp_path: Path) -> None:
    """A comparison of runs with different protocols says what differs."""
    runs = [htest_run(tmp_path / str(k), 12, k) for k in (4, 14)]
    both, one = report(*runs), report(runs[0])
    assert any("k 4 → 14" in line for line in both.warnings)
    assert not any("differ" in line for line in one.warnings)
    # A single setting has no line over k to draw.
    figures = [
        {b.name for b in unfolded(shown.sections[0].blocks) if isinstance(b, Figure)} for shown in (both, one)
    ]
    assert figures[0] - figures[1] == {"htest-grid"}


def test_deviations_are_starred(tmp_path: Path) -> None:
    """A model whose API forced a deviation has a star everywhere, and the star is explained."""
    run = recorded(tmp_path / "run", verdicts("add", 7, 1), deviations={"model": ["no temperature"]})
    content = report(run)
    assert content.title.startswith("model* answers")
    assert content.series == ("model*",)
    notes = [b for b in content.sections[0].blocks if isinstance(b, Note)]
    assert [n.text for n in notes if n.tone == "warn"] == ["* model: the API forced no temperature."]


def test_faults_of_a_run_are_listed(tmp_path: Path) -> None:
    """Incomplete and stopped runs, errors, unserved items and the record's own notes are listed."""
    run = recorded(
        tmp_path / "run",
        [*verdicts("add", 3, 1), verdict("add", 9, "error"), verdict("add", 10, "error")],
        complete=False,
        stopped="the key is wrong",
        not_served={"eras": {"model": 3}},
        notes=["imported"],
    )
    said = "\n".join(report(run).warnings)
    for words in (
        "incomplete",
        "the key is wrong",
        "3 items of eras",
        "imported",
        "2 calls could not be made",
    ):
        assert words in said


def test_runs_without_calls_have_no_cost(tmp_path: Path) -> None:
    """The cost is that of the runs that made calls; an imported run made none."""
    imported = [recorded(tmp_path / n, verdicts("add", 3, 1, model=n), calls={"cost_usd": 0.0}) for n in "ab"]
    asked = recorded(tmp_path / "c", verdicts("add", 3, 1, model="c"), calls={"requests": 4, "cost_usd": 1.5})
    unknown = recorded(tmp_path / "d", verdicts("add", 3, 1, model="d"), calls={"requests": 4})
    assert "Cost" not in dict(report(*imported).facts)
    assert dict(report(*imported, asked).facts)["Cost"] == "1.50 USD"
    assert dict(report(*imported, unknown).facts)["Cost"] == "cost unknown"
    both = report(*imported, asked, unknown)
    assert dict(both.facts)["Cost"] == "1.50 USD for 1 of 2 runs with calls"
    assert [dict(facts)["Cost"] for _, facts in both.runs] == [
        "no calls", "no calls", "1.50 USD", "cost unknown",
    ]  # fmt: skip


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
    facts = dict(content.runs[0][1])
    assert facts["Model model"] == "spec model"
    assert facts["Helper reader"] == "spec gpt-x, identity (revision r1)"
    assert facts["Protocol of sums"] == "name quick, settings (k 1)"
    assert facts["Calls"] == "requests 4, prompt_tokens 12,345, cost_usd 0.125"
    assert (facts["Cost"], facts["Data of ."]) == ("0.1250 USD", "builtin:sums.csv abc")
    assert dict(content.facts)["Measured"] == "2026-01-02"


def test_shared_prefixes_of_prompts_are_stored_once(tmp_path: Path) -> None:
    """A prefix that all prompts of a task share is stored once and can be restored."""
    shared = "\n".join(f"Input: example {n} Label: A" for n in range(20)) + "\n\n"
    prompts = [f"{shared}Input: item {n}" for n in range(3)]
    run = recorded(
        tmp_path / "run",
        [verdict("add", n, requests=[f"k{n}"]) for n in range(3)],
        requests=[
            exchange(f"k{n}", prompt, f"reply {n}", finish_reason="length")
            for n, prompt in enumerate(prompts)
        ],
    )
    [chunk] = map(unpacked, report(run).items.chunks)
    assert len(chunk["prefixes"]) == 1
    calls = [row[CALLS][0] for row in chunk["rows"]]
    for (role, [[who, (prefix, rest)]], reply, remark, _), prompt in zip(calls, prompts, strict=True):
        assert (role, who, remark) == ("subject", "user", "ended by length")
        assert chunk["prefixes"][prefix] + rest == prompt
        assert reply.startswith("reply")


def test_a_request_without_messages_is_shown_as_data(tmp_path: Path) -> None:
    """Requests other than chats are shown as JSON, with their replies."""
    run = recorded(
        tmp_path / "run",
        [verdict("add", 0, requests=["k"])],
        requests=[
            exchange("k", "", "", kind="segment", request={"text": "abc"}, reply={"value": ["a", "bc"]})
        ],
    )
    [row] = rows_of(report(run).items)
    [(_, [[kind, (_, asked)]], reply, _, _)] = row[CALLS]
    assert kind == "segment"
    assert '"abc"' in asked
    assert '"bc"' in reply


def test_calls_of_an_item_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item with many calls shows the first ones, helpers' calls last, and says how many are left out."""
    roles = ["subject", "reader", "subject", "reader", "subject", "subject"]
    calls = [exchange(f"k{n}", f"p{n}", f"r{n}", role=role) for n, role in enumerate(roles)]
    few = verdict("add", 1, requests=["k0"])
    run = recorded(
        tmp_path / "run", [verdict("add", 0, requests=[f"k{n}" for n in range(6)]), few], requests=calls
    )

    def shown(most: int) -> list[tuple[list[str], int]]:
        monkeypatch.setattr("pytest_llmprops.reports.page.items.MOST_CALLS", most)
        return [([call[2] for call in row[CALLS]], row[LEFT_OUT]) for row in rows_of(report(run).items)]

    everything = ["r0", "r1", "r2", "r3", "r4", "r5"]
    assert shown(7) == [(everything, 0), (["r0"], 0)]
    assert shown(6) == [(["r0", "r2", "r4"], 3), (["r0"], 0)]
    assert shown(1) == [(["r0"], 5), (["r0"], 0)]


def test_every_item_is_on_the_page_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run is cut into chunks of rows, incorrect items first, and no item is left out."""
    monkeypatch.setattr("pytest_llmprops.reports.page.items.CHUNK", 8)
    monkeypatch.setattr("pytest_llmprops.reports.page.items.MOST_CHUNKS", 5)
    items = report(recorded(tmp_path / "run", verdicts("add", 90, 20))).items
    index = unpacked(items.index)
    assert [len(unpacked(chunk)["rows"]) for chunk in items.chunks] == [22, 22, 22, 22, 22]
    assert index["per_chunk"] == 22
    statuses = [index["status"][status] for status in index["rows"]["status"]]
    assert statuses == ["wrong"] * 20 + ["correct"] * 90
    assert len(set(ids_of(items))) == 110


HEADINGS = [
    "Task", "Model", "Calls", "Prompt tokens", "Reply tokens", "p50, s", "p95, s", "USD", "USD per 1,000 items",
]  # fmt: skip


def priced(folder: Path, model: str, price: float | None) -> Path:
    """Return a run of two items with three calls: one is shared, one came in a batch at half the price."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    requests = [
        exchange("shared", "p", "r", usage=usage, seconds=1.0),
        exchange("one", "p", "r", usage=usage, seconds=2.0),
        exchange("two", "p", "r", usage=usage, seconds=4.0, via="batch"),
    ]
    records = [
        verdict("add", 0, model=model, requests=["shared", "one"]),
        verdict("add", 1, "wrong", model=model, requests=["shared", "two"]),
    ]
    known = {} if price is None else {"price": {"input": price, "output": 10 * price, "source": "2026-01-01"}}
    return recorded(folder / model, records, requests=requests, models={model: {"spec": model, **known}})


def test_cost_and_time_by_task(tmp_path: Path) -> None:
    """A call that items share counts once, a batch costs half, and an unknown price is a dash."""
    found = report(priced(tmp_path, "a", 5.0), priced(tmp_path, "b", None)).sections[-1]
    [table] = [block for block in found.blocks if isinstance(block, Table)]
    assert [name for name, _ in table.columns] == HEADINGS
    rows = [[cell.text for cell in row] for row in table.rows]
    assert rows[0] == ["add", "a", "3", "3,000", "300", "2.00", "4.00", "0.025", "12.50"]
    assert rows[1] == ["add", "b", "3", "3,000", "300", "2.00", "4.00", "–", "–"]
    assert table.rows[0][0].items == {"benchmark": "sums", "task": "add", "series": "0"}
    assert found.about == "6 recorded calls."


def test_accuracy_against_cost_needs_two_prices(tmp_path: Path) -> None:
    """The figure has the series with a known price, if there are at least two."""
    for price, names in ((1.0, ["sums-cost"]), (None, [])):
        folders = [priced(tmp_path / str(price), model, p) for model, p in (("a", 5.0), ("b", price))]
        shown = report(*folders).sections[-1].blocks
        assert [block.name for block in shown if isinstance(block, Figure)] == names
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
