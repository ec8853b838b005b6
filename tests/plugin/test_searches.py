"""Searches for counterexamples through pytest: results, counts, records and unchanged measurements."""

from __future__ import annotations

import json
import re
import signal
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.allure import category, results, texts
from tests.support.commands import until
from tests.support.runs import DEFAULT_PLUGINS, Finished, Runner

#: item ``sums/K`` is ``K + 1``; its property is that the model adds K, or 1, to all numbers up to 100
SUITE = """
import pytest
from pytest_llmprops import Benchmark, Chat, Item, Verdict
from pytest_llmprops.core.benchmark import Counterexample


class Sum:
    size, bad = 100, None

    def __init__(self, ask, other):
        self.ask, self.other = ask, other

    async def holds(self, n):
        held = (await self.ask(Chat.user(f"{n} {self.other}"))).text == str(n + self.other)
        self.bad = self.bad if held else min(n, self.bad or n)
        return held

    async def counterexample(self):
        return self.bad and Counterexample(f"{self.bad} and {self.other}", {"n": self.bad})


class Sums(Benchmark):
    name = "sums"

    def load(self, files):
        return [Item(f"sums/{k}", "add", "en", fields={"k": k}) for k in (1, 2)]

    async def evaluate(self, item, context, ask, protocol):
        reply = await ask(Chat.user(f"{item['k']} 1"))
        return Verdict.check(reply.text == str(item["k"] + 1), expected="", given=reply.text)

    def searches(self, item, settings, name):
        return name != "two" or item.id == "sums/2"

    async def search(self, item, context, ask, protocol, measured, name):
        return Sum(ask, 1 if name == "one" else item["k"]) if (await measured()) else "it cannot add one"


def run(search):
    from hypothesis import given, strategies

    @given(strategies.integers(0, search.size))
    def added(n):
        assert search.holds(n)

    search.run(added)


@pytest.mark.llmprops(benchmark=Sums)
def test_measured(verdict):
    assert verdict


@pytest.mark.llmprops(benchmark=Sums)
def test_one(search):
    run(search)
"""
#: the same with two properties, which have names
TWO = SUITE.replace('name = "sums"\n', 'name = "sums"\n    properties = ("one", "two")\n')
TWO = TWO.replace("(benchmark=Sums)\ndef test_one", '(benchmark=Sums, search="one")\ndef test_one')
TWO += '\n\n@pytest.mark.llmprops(benchmark=Sums, search="two")\ndef test_two(search):\n    run(search)\n'
#: from 37 on, only sums with 1 are right; notes each request
ADDER = """
from pathlib import Path
from pytest_llmprops import BackendError


def reply(chat):
    with Path(__file__).with_name("asked.txt").open("a") as asked:
        asked.write(f"{chat.prompt}, sample {chat.sample}\\n")
    a, b = map(int, chat.prompt.split())
    if FAILS:
        return BackendError("the server broke", kind="status 400")
    return str(a + b if (a < 37 or b == 1) and not WRONG else 0)
"""


def sums(run: Runner, suite: str, *more: str, fails: str = "False", wrong: str = "False") -> Finished:
    """Run a suite of sums on the adder."""
    run.write("adder.py", ADDER.replace("FAILS", fails).replace("WRONG", wrong))
    run.write("test_sums.py", suite)
    return run("--model", run.adder, *more)


def asked(run: Runner) -> list[str]:
    """Return the requests that reached the model, and forget them."""
    file = run.folder / "asked.txt"
    lines = file.read_text(encoding="utf-8").splitlines()
    file.unlink()
    return lines


def searches(done: Finished) -> dict[tuple[str, str], dict[str, Any]]:
    """Return ``searches.jsonl`` by property and item."""
    lines = (done.folder / "searches.jsonl").read_text(encoding="utf-8").splitlines()
    return {(row["property"], row["id"]): row for row in map(json.loads, lines)}


def test_a_search_changes_no_measurement(run: Runner) -> None:
    """The marker names the property: each has its own cases, record, counts and line, and verdicts stay.

    Nothing is asked twice. A second run uses the store, tries the same examples and finds the same counterexample.
    """
    unsearched = sums(run, TWO, "--llm-cache", "off", "-k", "test_measured")
    assert asked(run) == ["1 1, sample 0", "2 1, sample 0"]
    assert not (unsearched.folder / "searches.jsonl").exists()
    done = sums(run, TWO, "-n", "2")
    assert "1 failed, 4 passed" in done.output
    assert "Traceback" not in done.output
    assert "Falsifying example" not in done.output
    rows = searches(done)
    assert {key: row["counterexample"] for key, row in rows.items()} == {
        ("one", "sums/1"): None,
        ("one", "sums/2"): None,
        ("two", "sums/2"): {"why": "37 and 2", "n": 37, "evidence": {}},
    }
    counted = [(row["property"], row["searched"], row["counterexamples"]) for row in done.run["searches"]]
    assert sorted(counted) == [("one", 2, 0), ("two", 1, 1)]
    examples, calls = (rows["two", "sums/2"][name] for name in ("examples", "calls"))
    said = f"search (two): 1 item searched, 1 counterexample, {examples} examples, {calls} calls"
    assert said in done.output
    for name in ("expected", "complete", "summary", "metrics", "remarks"):
        assert done.run[name] == unsearched.run[name]
    assert done.verdicts == unsearched.verdicts
    sent = asked(run)
    assert len(sent) == len(set(sent)) == done.run["calls"]["sent"]
    again = sums(run, TWO, "--llm-cache", "only")
    assert (again.code, again.run["calls"]["sent"], again.run["complete"]) == (1, 0, True)
    assert searches(again) == {key: row | {"calls": 0} for key, row in rows.items()}


def test_the_measurement_decides_what_is_searched(run: Runner) -> None:
    """A benchmark may decline to search an item, and an item in error is not searched.

    In a run with repeats, each item is searched once, after its first sample.
    """
    done = sums(run, SUITE, "-rs", wrong="(a, b) == (1, 1)", fails="(a, b) == (2, 1)")
    assert "1 failed, 2 skipped, 1 error" in done.output
    assert "not searched: it cannot add one" in done.output
    assert "not searched: the item's case is an error" in done.output
    asked(run)
    done = sums(run, SUITE, "--llm-repeats", "2")
    assert (done.run["summary"][0]["samples"], len(searches(done))) == (4, 2)
    sent = asked(run)
    assert len(sent) == len(set(sent))


def test_gates_ignore_searches(run: Runner) -> None:
    """A gate ignores counterexamples and failed searches; a failed call is a one-line error of its search."""
    rule = "[[rule]]\nbenchmark = 'sums'\nmin_items = 1\nmin_accuracy = 0.1\n"
    gate = ("--llm-gate", str(run.write("gate.toml", rule)))
    done = sums(run, SUITE, *gate, "-n", "2")
    assert (done.code, done.run["gate"]["decision"]) == (0, "pass"), done.output
    assert done.run["searches"][0]["counterexamples"] == 1
    asked(run)
    failed = sums(run, SUITE, *gate, fails="a > 5")
    assert (failed.code, failed.run["complete"]) == (0, True), failed.output
    assert "2 passed, 2 errors" in failed.output
    assert "backend error: the server broke" in failed.output
    assert "Traceback" not in failed.output
    assert "2 ended by a backend error" in failed.output
    for row in searches(failed).values():
        assert (row["error"], row["counterexample"]) == ("the server broke", None)
    # Hypothesis tries no further point after an error.
    assert len(asked(run)) <= 2 * (6 + 1)


def test_what_is_not_repeated_is_no_counterexample(run: Runner) -> None:
    """A violation that does not repeat is counted apart and shown with its rate, and fails no case.

    A search whose calls are spent says so.
    """
    few = "        self.size -= 1\n        if self.size < 20:\n            return None\n        held = ("
    suite = SUITE.replace('{"n": self.bad}', '{"n": self.bad}, {}, 2, 0').replace("        held = (", few)
    done = sums(run, suite, "--junitxml", "out.xml")
    row = searches(done)["", "sums/2"]
    assert (row["counterexample"], searches(done)["", "sums/1"]["spent"]) == (None, True)
    assert (row["not_repeated"]["replicated"], row["not_repeated"]["replications"]) == (0, 2)
    assert "4 passed" in done.output
    assert "0 counterexamples, " in done.output
    assert "; 1 not repeated" in done.output
    assert re.search(r"; \d stopped when their calls were spent", done.output)
    assert re.search("^  sums/2: not repeated: .*; repeats in 0 of 2", done.output, re.MULTILINE)
    report = (run.folder / "out.xml").read_text(encoding="utf-8")
    assert ("llmprops.search.not_repeated" in report, "search.counterexample" in report) == (True, False)
    counts = done.run["searches"][0]
    assert (counts["counterexamples"], counts["not_repeated"]) == (0, 1)


def test_budget_of_the_run_ends_a_search(run: Runner) -> None:
    """A search that uses up --llm-max-calls stops the run, and the next run continues from the store."""
    done = sums(run, SUITE, "--llm-max-calls", "12")
    assert (done.code, len(done.verdicts)) == (2, 2)
    assert "RunStopped" not in done.output
    assert "--llm-max-calls 12 is spent" in done.output
    assert len(searches(sums(run, SUITE))) == 2


def test_interrupted(run: Runner) -> None:
    """Ctrl-C in a search ends the run, and every verdict and every finished search is recorded."""
    run.write("adder.py", ADDER.replace("FAILS", "False").replace("WRONG", "False"))
    run.write("test_sums.py", SUITE.replace("in (1, 2)]", "in range(1, 13)]"))
    started = run.start("--model", f"{run.adder}&delay=0.02")
    found = started.folder / "searches.jsonl"
    until(lambda: found.exists() and found.read_text("utf-8") != "")
    started.send(signal.SIGINT)
    done = started.end(60)
    assert (done.code, len(done.verdicts)) == (2, 12)
    assert 1 <= len(searches(done)) < 12
    for sign in ("Traceback", "never awaited", "was destroyed"):
        assert sign not in done.output


def test_searches_that_are_skipped_say_why(run: Runner) -> None:
    """A search that is selected has no item under these settings, or hypothesis is missing; the measurement runs."""
    none = SUITE.replace('return name != "two" or item.id == "sums/2"', "return False")
    done = sums(run, none, "-rs", "-k", "search")
    assert "not searched: sums has no item to search under these settings" in done.output
    run.write("conftest.py", "import sys\nsys.modules['hypothesis'] = None\n")
    run.plugins, run.fresh = DEFAULT_PLUGINS, True
    done = sums(run, SUITE, "-rs")
    assert "2 passed, 1 skipped" in done.output
    assert "pip install 'pytest-llmprops[oracle]'" in done.output
    assert done.run["complete"] is True


def test_allure_and_junit_show_the_counterexample(run: Runner) -> None:
    """A search has its own Allure result, with the item's name and labels and the counterexample attached.

    JUnit output has the examples, calls and counterexample as properties of the search's test case.
    """
    pytest.importorskip("allure_pytest")
    folder = run.folder / "allure"
    sums(run, SUITE, "--alluredir", str(folder), "--junitxml", "out.xml", "-n", "2")
    cases = ElementTree.parse(run.folder / "out.xml").getroot().iter("testcase")
    [own] = [c for c in cases if re.search("test_one.*sums/2]$", c.get("name", ""))]
    properties = {p.get("name"): p.get("value") for p in own.iter("property")}
    assert int(properties["llmprops.search.examples"] or 0) > 0
    assert "37 and 2" in (properties["llmprops.search.counterexample"] or "")
    by_name = results(folder)
    result = by_name["sums/2 · search"]
    assert result["status"] == "failed"
    assert "counterexample: 37 and 2" in result["statusDetails"]["message"]
    assert "37 and 2" in texts(folder, result)["counterexample"]
    searched, measured = (
        {label["value"] for label in by_name[name]["labels"] if label["name"] in ("epic", "feature", "story")}
        for name in ("sums/2 · search", "sums/2")
    )
    assert searched == measured != set()
    assert [name for name, one in by_name.items() if category(folder, one)] == ["sums/2 · search"]


def test_mistakes_of_a_search_are_no_counterexamples(run: Runner) -> None:
    """A marker without a property, or with an unknown one, is one line that lists the properties.

    An assertion of the test fails it in the usual way, and the search is not recorded.
    """
    listed = "no such property; the benchmark has one, two"
    for suite, said in (
        (TWO.replace('search="one"', 'search="three"'), f"llmprops(search='three'): {listed}"),
        (TWO.replace(', search="one"', ""), f"llmprops(search=''): {listed}"),
        (SUITE.replace("Sums)\ndef test_one", 'Sums, search="one")\ndef test_one'), "leave out search="),
    ):
        done = sums(run, suite)
        assert (done.code, said in done.output) == (2, True), done.output
    own = "        assert n < 20, 'mine'\n        assert search.holds"
    done = sums(run, SUITE.replace("        assert search.holds", own))
    assert (done.code, "2 failed, 2 passed" in done.output) == (1, True)
    assert "AssertionError: mine" in done.output
    assert not (done.folder / "searches.jsonl").exists()


def test_many_items(run: Runner) -> None:
    """More than a thousand searches run in one process without a RecursionError from nested settings.

    If its measurement is deselected, a search measures the item itself and records no verdict.
    """
    many = SUITE.replace("in (1, 2)]", "in range(1, 1101)]").replace("size, bad = 100", "size, bad = 1")
    done = sums(run, many, "-q", "-k", "test_one")
    assert "RecursionError" not in done.output
    assert "1100 passed" in done.output
    assert (done.folder / "verdicts.jsonl").read_text(encoding="utf-8") == ""
    assert (done.run["complete"], done.run["expected"], len(searches(done))) == (True, 0, 1100)
