"""Mistakes in the search of an own benchmark: one clear line each, and every verdict is kept."""

from __future__ import annotations

import re

import pytest

from tests.support.runs import Finished, Runner

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
MISTAKES = {
    "fine": ("", "", "counterexample: is not 0 (n = 1)"),
    "search_none": ("", SEARCH + "return None", "search of SearchNone returned None; return an object with size"),
    "search_plain": ("", SEARCH[6:] + "return Zero()", "without async; write 'async def search'"),
    "search_raises": ("", SEARCH + "{}['q']", "search of SearchRaises raised KeyError: 'q' (test_search_raises.py"),
    "search_parameters": ("", "async def search(self, item): return Zero()", "SearchParameters raised TypeError"),
    "no_size": ("", SEARCH + "return Counterexample('x')", "return an object with size, holds and counterexample"),
    "holds_plain": (HOLDS[6:] + "return True", "", "holds of HoldsPlain returned bool without async"),
    "holds_text": (HOLDS + "return 'yes'", "", "holds of HoldsText returned str; return True, False or None"),
    "holds_raises": (HOLDS + "{}['q']", "", "holds of HoldsRaises raised KeyError: 'q' (test_holds_raises.py, line"),
    "counter_dict": (COUNTER + "return {}", "", "returned dict; return a Counterexample or None"),
    "counter_raises": (COUNTER + "{}['q']", "", "counterexample of CounterRaises raised KeyError: 'q'"),
    "counter_nan": (COUNTER + "return Counterexample('x', {'a': math.nan})", "", "values['a'] is nan"),
    "counter_count": (COUNTER + "return Counterexample('x', {}, {}, 'many')", "", "replications is 'many'"),
}  # fmt: skip
REFUSED = {
    "searches_raises": ("def searches(self, item, settings, name): {}['q']", "SearchesRaises raised KeyError"),
    "odd_properties": ("properties = ('a', 3)", "properties is ('a', 3); use a set of strings"),
}  # fmt: skip


@pytest.fixture(scope="module", params=["0", "2"], ids=["n0", "n2"])
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Return one run that searches in all benchmarks."""
    run = Runner(tmp_path_factory.mktemp("mistakes"))
    refused = {name: ("", *rest) for name, rest in REFUSED.items()}
    for name, (of_property, body, _) in (MISTAKES | refused).items():
        text = FILE.replace("PROPERTY", of_property or "pass").replace("BODY", body)
        title = "".join(part.capitalize() for part in name.split("_"))
        run.write(f"test_{name}.py", text.replace("CLASS", title).replace("ID", name))
    return run("--continue-on-collection-errors", "--model", "fake:echo", "-n", request.param)


def test_every_verdict_is_kept(done: Finished) -> None:
    """The run ends with all verdicts and a record; only the search without a mistake is counted."""
    assert "INTERNALERROR" not in done.output
    assert (done.code, done.run["complete"]) == (1, True)
    assert {v["benchmark"]: v["status"] for v in done.verdicts.values()} == dict.fromkeys(MISTAKES, "correct")
    assert [(row["benchmark"], row["counterexamples"]) for row in done.run["searches"]] == [("fine", 1)]


def test_each_mistake_in_a_search_has_one_line(done: Finished) -> None:
    """The search is an error, whose line says what is wrong; a class that cannot be searched is refused."""
    for name in sorted({*MISTAKES, *REFUSED} - {"fine"}):
        said = (REFUSED.get(name) or MISTAKES[name])[-1]
        lines = [line for line in done.output.splitlines() if said in line]
        assert lines, name
        assert all(len(line) < 300 for line in lines), name
        shown = re.search(rf"_ .*test_{name}(?:\.py|_search\[\S*) _+\n(.*\n.*)", done.output)
        assert shown is not None, name
        assert said in shown[1], name


def test_mistakes_in_a_plan_have_one_line(run: Runner) -> None:
    """--llm-plan prints the plan of all benchmarks and fails, with a line for each method that is wrong."""
    mistakes = {
        "plan_number": ("def plan_remarks(self, items, settings): return 3", "plan_remarks of PlanNumber returned int"),
        "plan_exits": ("def plan_remarks(self, items, settings): sys.exit(4)", "PlanExits raised SystemExit: 4"),
        "plan_partly": (
            "def plan_remarks(self, items, settings): yield 'one remark'; yield 2",
            "plan_remarks of PlanPartly returned int; return a list of strings",
        ),
        "calls_text": (
            "def search_calls(self, settings, name): return 'many'",
            "search_calls of CallsText returned 'many'; return a whole number or None",
        ),
        "calls_raise": ("def search_calls(self, settings, name): {}['q']", "CallsRaise raised KeyError: 'q'"),
        "fine": ("def search_calls(self, settings, name): return 7", ""),
    }  # fmt: skip
    for name, (body, _) in mistakes.items():
        title = "".join(part.capitalize() for part in name.split("_"))
        text = FILE.replace("PROPERTY", "pass").replace("BODY", body)
        run.write(f"test_{name}.py", text.replace("CLASS", title).replace("ID", name))
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
    assert any("take at most 7 requests each" in line for line in lines)
