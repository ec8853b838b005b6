"""A benchmark from outside has the same features as the five built-in ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.reports.page.content import report_on
from pytest_llmprops.reports.terminal import list_lines
from pytest_llmprops.runs.catalog import Listed
from pytest_llmprops.runs.reader import read_run
from tests.support.commands import output
from tests.support.runs import SUMS, Runner


def write_rows(folder: Path, *numbers: int) -> None:
    """Write items into a file of a folder."""
    folder.mkdir(exist_ok=True)
    rows = [{"id": f"sums/{n}", "n": n} for n in numbers]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_source_selects_the_items(run: Runner) -> None:
    """``llm_source`` selects the items next to the class, those of --llm-data, or both."""
    run.sums(3)
    options = ("--model", run.adder, "--llm-data", "pulled", "-n", "2")
    (run.folder / "pulled").mkdir()
    done = run(*options, "-o", "llm_source=all")
    # Items that need no file are measured once, and the summary says that the source changes nothing.
    assert len(done.verdicts) == 3
    assert "sums reads no data files, so --llm-data does not change its items" in done.output
    facts = 'name = "sums"\n    title = "Small sums"\n    accuracy_targets = {"add": 0.5}'
    run.change("test_sums.py", 'name = "sums"', facts)
    read = """[
            Item(row["id"], "add", "en", files.source, fields=row) for row in files.jsonl("sums.jsonl")
        ]"""
    items = '[Item(f"sums/{n:04d}", "add", "en", fields={"n": n}) for n in range(3)]'
    run.change("test_sums.py", items, read)
    write_rows(run.folder, 1, 2, 3)
    write_rows(run.folder / "pulled", 6, 7)
    for source, numbers in (("builtin", "123"), ("published", "67"), ("all", "12367")):
        done = run(*options, "-o", f"llm_source={source}")
        assert done.code == 0, done.output
        assert sorted(done.verdicts) == [f"sums/{n}" for n in numbers]
        sources = {"builtin", "published"} if source == "all" else {source}
        assert {v["source"] for v in done.verdicts.values()} == sources
        facts_of_run = done.run["benchmarks"]["sums"]
        files = sorted(f"{source}:sums/sums.jsonl" for source in sources)
        assert sorted(done.run["data"]) == sorted(facts_of_run["data"]) == files
        assert (facts_of_run["title"], facts_of_run["accuracy_targets"]) == ("Small sums", {"add": 0.5})


#: changes of the sums: each is asked as a hard and as an easy one, of which the latter are controls
CONTROLLED = (
    ("import pytest\n", "import pytest\nwith open('loads.txt', 'a') as loads:\n    loads.write('x')\n"),
    ("Item, Verdict", "Item, Verdict, by_place, rate"),
    ('name = "sums"\n', """name = "controlled"
    title = "Controlled sums"
    controls = frozenset({"easy"})
    metric_directions = {"short_rate": "higher"}
    evaluated = 0

    def metrics(self, records):
        for place, members in by_place(records).items():
            yield rate(place, "short_rate", [len(r.given) < 3 for r in members], "higher")

    def remarks(self, records):
        return [f"evaluated {self.evaluated}"]
"""),
    ("return [Item(f\"sums/{n:04d}\", \"add\", \"en\", fields={\"n\": n}) for n in range(12)]", """return [
            Item(f"controlled/{task}{n:02}", task, "en", fields={"n": n + (task == "easy")})
            for task in ("hard", "easy")
            for n in range(0, 150, 5)
        ]"""),
    ("        reply = await", "        self.evaluated += 1\n        reply = await"),
)  # fmt: skip


def test_own_benchmark_is_compared_reported_and_gated_like_ours(
    run: Runner, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands treat the record of a class in a test file like that of an installed benchmark.

    The class is used as it was imported, and its controls count neither in the mean nor in the report's heading.
    """
    monkeypatch.setenv("COLUMNS", "200")
    run.sums()
    for old, new in CONTROLLED:
        run.change("test_sums.py", old, new, 1)
    run.write("right.py", "def reply(chat):\n    return str(int(chat.messages[-1].content.split()[0]) + 1)\n")
    gate = run.write(
        "gate.toml",
        '[[rule]]\nname = "hard"\nbenchmark = "controlled"\ntask = "hard"\nmin_accuracy = 0.8\nmax_drop = 0.2\n'
        '[[rule]]\nname = "short"\nbenchmark = "controlled"\nmetric = "short_rate"\nmin = 0.1\n',
    )
    after = run("--model", run.adder)
    assert (run.folder / "loads.txt").read_text(encoding="utf-8") == "x"
    assert "evaluated 60" in after.output
    assert {row["task"]: row["accuracy"] for row in after.run["summary"]} == {"hard": 0.0, "easy": 1.0}
    [total] = [line for line in after.output.splitlines() if line.startswith("  all ")]
    assert "0.0% mean" in total
    assert "the mean is without easy" in after.output
    before = run("--model", f"fake:call?file={run.folder / 'right.py'}", "-n", "2")
    assert (before.code, after.code) == (0, 1)
    rows = {row["task"]: row for row in before.run["metrics"]}
    assert rows["hard"]["direction"] == "higher"
    folders = [str(before.folder), str(after.folder)]
    compared = output(capsys, "compare", *folders)
    [hard, easy] = [x for x in compared.splitlines() if x.split()[:1] == ["controlled"] and "en" in x]
    assert ("worse" in hard, "not judged" in easy) == (True, True)
    # Without the control, one task is left, of which there is no sum.
    assert not [line for line in compared.splitlines() if line.split()[:1] == ["all"]]
    assert "not installed" not in compared
    for (baseline, candidate), status in ((folders, 1), (folders[::-1], 0)):
        assert main(["gate", "--gate", str(gate), "--baseline", baseline, candidate]) == status
        decided = capsys.readouterr().out
        assert "not installed" not in decided
    first, second = read_run(before.folder), read_run(after.folder)
    report = report_on([first, second], {})
    assert [section.title for section in report.sections] == ["Controlled sums", "Readings"]
    assert "0.0% of controlled" in report_on([second], {}).title
    [listed] = list_lines([Listed(after.folder, second.facts, "complete")], 200)[1:]
    assert "0.0%" in listed
    run.change("test_sums.py", '{"easy"}', '{"easy", "hard"}')
    all_controls = run("--model", run.adder)
    [total] = [line for line in all_controls.output.splitlines() if line.startswith("  all ")]
    assert "mean" not in total
    # A control must not be solved: a wrong answer fails neither the case nor the session, and is in the table only.
    assert (all_controls.code, "30 passed, 30 xfailed" in all_controls.output) == (0, True)
    assert "\n  wrong " not in all_controls.output


def test_fault_at_every_item_stops_the_run(run: Runner) -> None:
    """A typo in evaluate stops the run after 20 items per process, whose traceback is shown once per process."""
    run.sums(2000)
    run.change("test_sums.py", "return Verdict.check", "item['m']\n        return Verdict.check")
    done = run("--model", run.adder, "-n", "2")
    assert (done.code, done.run["complete"]) == (2, False)
    [line] = [line for line in done.output.splitlines() if line.startswith("stopped: ")]
    assert "20 items of sums in a row failed in the same way: KeyError: 'm' (test_sums.py, line 16)" in line
    assert 20 <= len(done.verdicts) <= 40
    assert {v["reason"] for v in done.verdicts.values()} == {"KeyError: 'm' (test_sums.py, line 16)"}
    assert done.output.count("item['m']") <= 2
    # four lines an item, and a traceback per process
    assert len(done.output.splitlines()) < 50 + (20 * 4 + 30) * 2
    assert done.run["calls"]["sent"] <= 300


def test_a_name_that_is_taken_is_refused(run: Runner) -> None:
    """A class with the name of another one is an error of collection, not a benchmark that is never measured.

    So is one with the name of an installed benchmark, whose report section it would get, unless it replaces it.
    """
    run.sums(3)
    run.write("test_other.py", re.sub(r"\bSums\b", "Others", SUMS.replace("ITEMS", "3")))
    done = run("--model", run.adder)
    assert done.code == 2
    classes = "Others (test_other.py, line 6) and Sums (test_sums.py, line 6)"
    assert f"two benchmarks have the name 'sums': {classes}" in done.output
    (run.folder / "test_other.py").unlink()
    run.write("sums.py", SUMS.replace("ITEMS", "3").replace('"sums"', '"htest"'))
    run.write("test_sums.py", "from sums import *\n")
    done = run("--model", run.adder)
    assert done.code == 2
    assert "Sums (sums.py, line 6) has the name of an installed benchmark; give it another" in done.output
    replaced = "from pytest_llmprops import Registration, register_benchmark\nfrom sums import Sums\n"
    run.write("conftest.py", f'{replaced}register_benchmark(Registration(name="htest", benchmark=Sums))\n')
    done = run("--model", run.adder)
    assert (done.code, len(done.verdicts)) == (1, 3)
