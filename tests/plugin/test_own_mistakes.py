"""Mistakes in a benchmark, a search or a model from outside: one clear line each, and no verdict is lost."""

from __future__ import annotations

import re

import pytest

from tests.support.benchmark_mistakes import FAILED, FINE, ITEMS, MISTAKES, NOTE, REFUSED, UNREADABLE, Mistake
from tests.support.runs import Finished, Runner


@pytest.fixture(scope="module", params=["0", "2"], ids=["n0", "n2"])
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Return one run that measures all benchmarks with a mistake together."""
    run = Runner(tmp_path_factory.mktemp("mistakes"))
    for mistake in MISTAKES:
        run.write(f"test_{mistake.name}.py", mistake.file)
    model = ("--model", "fake:constant?text=x", "-n", request.param)
    return run("--continue-on-collection-errors", "-q", *model)


def test_run_is_complete(done: Finished) -> None:
    """The run ends as usual, with a summary and a record, which lacks the benchmarks that cannot be loaded."""
    assert "INTERNALERROR" not in done.output
    assert done.code == 1
    assert not done.run["complete"]
    assert "run record:" in done.output
    measured = [m.name for m in MISTAKES if m.effect in (ITEMS, NOTE, FINE, FAILED)]
    assert sorted(done.run["benchmarks"]) == sorted(measured)
    assert len(done.verdicts) == 3 * len(measured)


def test_each_mistake_in_a_benchmark_has_one_line(done: Finished) -> None:
    """The output has a line that says what is wrong, and the record has what could be measured."""
    assert {mistake.name: problem for mistake in MISTAKES if (problem := _problem(done, mistake))} == {}


def _problem(done: Finished, mistake: Mistake) -> str:
    """Return what the run says wrongly about a mistake; empty if nothing."""
    output = done.output.splitlines()
    lines = [line for line in output if mistake.said in line]
    verdicts = [v for v in done.verdicts.values() if v["benchmark"] == mistake.name]
    statuses = {v["status"] for v in verdicts}
    expected = {ITEMS: {"error"}, NOTE: {"correct"}, FINE: {"correct"}, FAILED: {"correct"}}
    if not lines or any(len(line) >= 600 for line in lines):
        return f"no short line with {mistake.said}"
    if statuses != expected.get(mistake.effect, set()):
        return f"statuses {statuses}"
    if mistake.effect == ITEMS and not all(mistake.said[:80] in v["reason"] for v in verdicts):
        return "another reason in the record"
    if mistake.effect in (NOTE, UNREADABLE) and not any(mistake.said in note for note in done.run["notes"]):
        return "no note in the record"
    if mistake.effect in (REFUSED, FAILED) and not any(
        mistake.name in line for line in output if "ERROR" in line or "FAILED" in line
    ):
        return "no error or failure with its name"
    return ""


FILE = """
import asyncio, math, sys
import pytest
from hypothesis import given, strategies
from pytest_llmprops import Benchmark, Item, Verdict
from pytest_llmprops.core.benchmark import Counterexample


class Zero:
    size, bad = 3, None

    async def holds(self, n):
        self.bad = n or self.bad
        return not n

    async def counterexample(self):
        return self.bad and Counterexample("is not 0", {"n": self.bad})


class Property(Zero):
    PROPERTY


class CLASS(Benchmark):
    name = "ID"

    def load(self, files):
        return [Item("ID/1", "add", "en")]

    async def evaluate(self, item, context, ask, protocol):
        return Verdict("correct")

    def searches(self, item, settings, name):
        return True

    async def search(self, item, context, ask, protocol, measured, name):
        return Property()

    BODY


@pytest.mark.llmprops(benchmark=CLASS)
def test_ID(verdict):
    assert verdict


@pytest.mark.llmprops(benchmark=CLASS)
def test_ID_search(search):
    @given(strategies.integers(0, search.size))
    def is_zero(n):
        assert search.holds(n)

    search.run(is_zero)
"""
SEARCH = "async def search(self, item, context, ask, protocol, measured, name): "
HOLDS = "async def holds(self, n): "
COUNTER = "async def counterexample(self): "
#: name -> (lines of the property, lines of the benchmark, what the line about it says)
SEARCH_MISTAKES = {
    "fine": ("", "", "counterexample: is not 0 (n = 1)"),
    "search_none": ("", SEARCH + "return None", "search of SearchNone returned None; use an object with size"),
    "search_plain": ("", SEARCH[6:] + "return Zero()", "without async; write 'async def search'"),
    "search_raises": ("", SEARCH + "{}['q']", "search of SearchRaises raised KeyError: 'q' (test_search_raises.py"),
    "search_parameters": ("", "async def search(self, item): return Zero()", "SearchParameters raised TypeError"),
    "no_size": ("", SEARCH + "return Counterexample('x')", "use an object with size, holds and counterexample"),
    "holds_plain": (HOLDS[6:] + "return True", "", "holds of HoldsPlain returned bool without async"),
    "holds_text": (HOLDS + "return 'yes'", "", "holds of HoldsText returned 'yes'; use True, False or None"),
    "holds_raises": (HOLDS + "{}['q']", "", "holds of HoldsRaises raised KeyError: 'q' (test_holds_raises.py, line"),
    "counter_dict": (COUNTER + "return {}", "", "returned {}; use a Counterexample, or None"),
    "counter_raises": (COUNTER + "{}['q']", "", "counterexample of CounterRaises raised KeyError: 'q'"),
    "counter_nan": (COUNTER + "return Counterexample('x', {'a': math.nan})", "", "values['a'] is nan"),
    "counter_count": (COUNTER + "return Counterexample('x', {}, {}, 'many')", "", "replications is 'many'"),
}  # fmt: skip
REFUSED_SEARCHES = {
    "searches_raises": ("def searches(self, item, settings, name): {}['q']", "SearchesRaises raised KeyError"),
    "odd_properties": ("properties = ('a', 3)", "properties is ('a', 3); use a set of strings"),
}  # fmt: skip


def write_searched(run: Runner, name: str, body: str, of_property: str = "pass") -> None:
    """Write a benchmark that is searched, with a mistake in its class or its property."""
    text = FILE.replace("PROPERTY", of_property or "pass").replace("BODY", body)
    title = "".join(part.capitalize() for part in name.split("_"))
    run.write(f"test_{name}.py", text.replace("CLASS", title).replace("ID", name))


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Return one run that searches in all benchmarks."""
    run = Runner(tmp_path_factory.mktemp("mistakes"))
    refused = {name: ("", *rest) for name, rest in REFUSED_SEARCHES.items()}
    for name, (of_property, body, _) in (SEARCH_MISTAKES | refused).items():
        write_searched(run, name, body, of_property)
    return run("--continue-on-collection-errors", "--model", "fake:echo", "-n", "2")


def test_each_mistake_in_a_search_has_one_line(searched: Finished) -> None:
    """The search is an error, whose line says what is wrong; a class that cannot be searched is refused.

    The run ends with all verdicts and a record; only the search without a mistake is counted.
    """
    assert "INTERNALERROR" not in searched.output
    assert (searched.code, searched.run["complete"]) == (1, True)
    statuses = {v["benchmark"]: v["status"] for v in searched.verdicts.values()}
    assert statuses == dict.fromkeys(SEARCH_MISTAKES, "correct")
    assert [(row["benchmark"], row["counterexamples"]) for row in searched.run["searches"]] == [("fine", 1)]
    for name in sorted({*SEARCH_MISTAKES, *REFUSED_SEARCHES} - {"fine"}):
        said = (REFUSED_SEARCHES.get(name) or SEARCH_MISTAKES[name])[-1]
        lines = [line for line in searched.output.splitlines() if said in line]
        assert lines, name
        assert all(len(line) < 300 for line in lines), name
        shown = re.search(rf"_ .*test_{name}(?:\.py|_search\[\S*) _+\n(.*\n.*)", searched.output)
        assert shown is not None, name
        assert said in shown[1], name


def test_mistakes_in_a_plan_have_one_line(run: Runner) -> None:
    """--llm-plan prints the plan of all benchmarks and fails, with a line for each method that is wrong."""
    mistakes = {
        "plan_number": ("def plan_remarks(self, items, settings): return 3", "plan_remarks of PlanNumber returned 3"),
        "plan_exits": ("def plan_remarks(self, items, settings): sys.exit(4)", "PlanExits raised SystemExit: 4"),
        "plan_partly": (
            "def plan_remarks(self, items, settings): yield 'one remark'; yield 2",
            "plan_remarks of PlanPartly returned 2; use a string",
        ),
        "calls_text": (
            "def search_calls(self, settings, name): return 'many'",
            "search_calls of CallsText returned 'many'; use a whole number, or None",
        ),
        "calls_raise": ("def search_calls(self, settings, name): {}['q']", "CallsRaise raised KeyError: 'q'"),
        "fine": ("def search_calls(self, settings, name): return 7", ""),
    }  # fmt: skip
    for name, (body, _) in mistakes.items():
        write_searched(run, name, body)
    done = run("--model", "fake:echo", "--llm-plan")
    assert done.code == 1
    assert "INTERNALERROR" not in done.output
    lines = done.output.splitlines()
    for name, (_, said) in mistakes.items():
        assert any(line.startswith(f"  {name} ") for line in lines)
        assert len([line for line in lines if line.startswith("ERROR: ") and said in line]) == (
            1 if said else 5
        )
    assert "  plan_partly: one remark" in lines
    assert any("6 searches for" in line and "an unknown number of calls" in line for line in lines)


def test_model_that_cannot_be_closed(run: Runner) -> None:
    """The summary, the record and the exit code are those of the verdicts; a note names the model."""
    run.sums(4)
    run.write("conftest.py", MODEL)
    done = run("--model", "mistaken", "-n", "2")
    [note] = [line for line in done.output.splitlines() if "not closed: mistaken: its close raised" in line]
    assert note.startswith("note: ")
    assert (done.code, done.run["complete"]) == (1, True)
    assert {row["status"] for row in done.verdicts.values()} == {"wrong"}
    assert "run record:" in done.output


MODEL = """
import sys
from pytest_llmprops import FakeModel, register_model


class Mistaken(FakeModel):
    def close(self):
        sys.exit(0)


register_model("mistaken", lambda spec, options: Mistaken(lambda chat: "no sum", name="m"), kinds=("chat",))
"""
