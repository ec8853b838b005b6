"""Mistakes in a benchmark, a search or a model from outside: one clear line each, and no verdict is lost."""

from __future__ import annotations

import re
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.runs import Finished, Runner

#: what becomes of the benchmark: its items are errors; it is measured and the summary has a note; it is refused before
#: the first call, in a case of its own or as an error of collection; it is measured as if nothing was wrong; its test
#: function fails; its searches are errors; or its plan is wrong
ITEMS, NOTE, UNREADABLE, REFUSED, FINE, FAILED = "items", "note", "unreadable", "refused", "fine", "failed"
SEARCHED, PLANNED = "searched", "planned"

_HEAD = """
import asyncio, collections, dataclasses, datetime, decimal, enum, math, os, pathlib, sys, threading, time, unittest
import numpy as np
import pytest
from pytest_llmprops import (
    BackendError, Benchmark, Chat, DataError, Item, Loaded, Metric, NamedSettings, Reply, Verdict, rate
)
from pytest_llmprops.core.benchmark import Counterexample
"""
_CLASS = """

class NAME(Benchmark):
    name = "ID"

    def load(self, files):
        return [Item(f"ID/{n}", "add", "en", fields={"n": n}) for n in range(3)]

    async def evaluate(self, item, context, ask, protocol):
        reply = await ask(Chat.user(f"ID {item['n']}", temperature=0.0))
EVALUATE
        return Verdict.check(True, expected="x", given=reply.text)
BODY
"""
_TEST = """

@pytest.mark.llmprops(benchmark=NAME)
def test_ID(verdict):
    assert verdict
"""
#: methods of a class that is searched, and its second test function; the property has a counterexample for each item
_SEARCH = """
def searches(self, item, settings, name): return True

async def search(self, item, context, ask, protocol, measured, name): return Property()
"""
_PROPERTY = """
class Zero:
    size, bad = 3, None

    async def holds(self, n):
        self.bad = n or self.bad
        return not n

    async def counterexample(self):
        return self.bad and Counterexample("is not 0", {"n": self.bad})


class Property(Zero):
    CHANGED
"""
_SEARCH_TEST = """

@pytest.mark.llmprops(benchmark=NAME)
def test_ID_search(search):
    from hypothesis import given, strategies

    @given(strategies.integers(0, search.size))
    def is_zero(n):
        assert search.holds(n)

    search.run(is_zero)
"""


@dataclass(frozen=True)
class Mistake:
    """One mistake.

    :param name: name of the benchmark. :param effect: what becomes of it. :param said: part of the line about it.
    :param evaluate: lines of ``evaluate`` after its call. :param body: lines of the class.
    :param test: the test function; default: ``assert verdict``. :param before: lines before the class.
    :param changed: lines of the property that is searched; None if nothing is searched.
    """

    name: str
    effect: str
    said: str = ""
    evaluate: str = ""
    body: str = ""
    test: str = _TEST
    before: str = ""
    changed: str | None = None

    @property
    def file(self) -> str:
        """The text of the test file."""
        body, before, test = self.body, self.before, self.test
        if self.changed is not None:
            body, test = f"{_SEARCH}\n{body}", test + _SEARCH_TEST
            before += _PROPERTY.replace("CHANGED", self.changed or "pass")
        text = _CLASS.replace("EVALUATE", textwrap.indent(self.evaluate.strip("\n"), " " * 8))
        text = _HEAD + before + text.replace("BODY", textwrap.indent(body.strip("\n"), " " * 4)) + test
        class_name = "".join(part.capitalize() for part in self.name.split("_"))
        return text.replace("NAME", class_name).replace("ID", self.name)


#: the mistakes of the file beside this one
_ALL = [
    Mistake(name, effect, **table)
    for effect, members in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
    for name, table in members.items()
]
#: those of a measurement, and those that only a plan shows
MISTAKES = [mistake for mistake in _ALL if mistake.effect != PLANNED]
PLANS = [mistake for mistake in _ALL if mistake.effect == PLANNED]


@pytest.fixture(scope="module", params=["0", "2"], ids=["n0", "n2"])
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Return one run that measures all benchmarks with a mistake together."""
    run = Runner(tmp_path_factory.mktemp("mistakes"))
    for mistake in MISTAKES:
        run.write(f"test_{mistake.name}.py", mistake.file)
    model = ("--model", "fake:constant?text=x", "-n", request.param)
    return run("--continue-on-collection-errors", "-q", *model)


def test_each_mistake_in_a_benchmark_has_one_line(done: Finished) -> None:
    """The output has a line that says what is wrong, and the record has what could be measured.

    The run ends as usual, with a summary and a record, which lacks the benchmarks that cannot be loaded. Only the
    search without a mistake is counted.
    """
    assert "INTERNALERROR" not in done.output
    assert done.code == 1
    assert not done.run["complete"]
    assert "run record:" in done.output
    measured = [m.name for m in MISTAKES if m.effect in (ITEMS, NOTE, FINE, FAILED, SEARCHED)]
    assert {v["benchmark"] for v in done.verdicts.values()} == {*measured}
    assert len(done.verdicts) == 3 * len(measured)
    searched = [(row["benchmark"], row["counterexamples"]) for row in done.run["searches"]]
    assert searched == [("not_zero", 3)]
    assert {mistake.name: problem for mistake in MISTAKES if (problem := _problem(done, mistake))} == {}


def _problem(done: Finished, mistake: Mistake) -> str:
    """Return what the run says wrongly about a mistake; empty if nothing."""
    output = done.output.splitlines()
    lines = [line for line in output if mistake.said in line]
    verdicts = [v for v in done.verdicts.values() if v["benchmark"] == mistake.name]
    statuses = {v["status"] for v in verdicts}
    expected = {ITEMS: {"error"}, UNREADABLE: set(), REFUSED: set()}
    if not lines or any(len(line) >= 600 for line in lines):
        return f"no short line with {mistake.said}"
    if statuses != expected.get(mistake.effect, {"correct"}):
        return f"statuses {statuses}"
    if mistake.effect == ITEMS and not all(mistake.said[:80] in v["reason"] for v in verdicts):
        return "another reason in the record"
    if mistake.effect in (NOTE, UNREADABLE) and not any(mistake.said in note for note in done.run["notes"]):
        return "no note in the record"
    if mistake.effect in (REFUSED, FAILED) and not any(
        mistake.name in line for line in output if "ERROR" in line or "FAILED" in line
    ):
        return "no error or failure with its name"
    shown = re.search(rf"_ .*test_{mistake.name}_search\[\S* _+\n(.*\n.*)", done.output)
    if mistake.effect == SEARCHED and not (shown and mistake.said in shown[1]):
        return "not in the section of its search"
    return ""


def test_mistakes_in_a_plan_have_one_line(run: Runner) -> None:
    """--llm-plan prints the plan of all benchmarks and fails, with a line for each method that is wrong."""
    for mistake in PLANS:
        run.write(f"test_{mistake.name}.py", mistake.file)
    done = run("--model", "fake:echo", "--llm-plan")
    assert done.code == 1
    assert "INTERNALERROR" not in done.output
    lines = done.output.splitlines()
    for mistake in PLANS:
        assert any(line.startswith(f"  {mistake.name} ") for line in lines)
        assert len([line for line in lines if line.startswith("ERROR: ") and mistake.said in line]) == 1
    assert "  plan_partly: one remark" in lines
    assert any("searches for" in line and "an unknown number of calls" in line for line in lines)


def test_class_made_in_a_function_is_refused_with_workers(run: Runner) -> None:
    """Another process cannot find it; without workers it is measured."""
    run.sums(2)
    run.change("test_sums.py", "benchmark=Sums", "benchmark=made()")
    made = "def made():\n    class Local(Sums):\n        pass\n\n    return Local\n\n\n@pytest.mark"
    run.change("test_sums.py", "@pytest.mark", made)
    assert len(run("--model", run.adder).verdicts) == 2
    done = run("--model", run.adder, "-n", "2")
    assert "made.<locals>.Local is made in a function, where workers" in done.output


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
