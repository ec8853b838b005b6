"""Tasks of a benchmark: their kinds of models, and their selection with ``-k``."""

from __future__ import annotations

import pytest

from tests.support.cuts import write_cuts
from tests.support.runs import ROOT, Runner

TASKS = """
import pytest
from pytest_llmprops import Benchmark, Chat, Item, Verdict
from pytest_llmprops.core.requests import Segment


class Two(Benchmark):
    name = "two"

    def load(self, files):
        return [Item(f"two/{t}/{n}", t, "zh", fields={"t": t}) for t in ("cut", "talk") for n in range(4)]

    def kinds_of(self, task):
        return frozenset({"segment"}) if task == "cut" else frozenset({"chat", "sentiment"})

    async def evaluate(self, item, context, ask, protocol):
        request = Segment("北京大学") if item["t"] == "cut" else Chat.user("?")
        await ask(request)
        return Verdict.check(True, expected="", given=",".join(sorted(ask.kinds)))


@pytest.mark.llmprops(benchmark=Two)
def test_two(verdict):
    assert verdict
"""


def test_only_served_tasks_are_cases(run: Runner, workers: str) -> None:
    """Items of a task that the model cannot serve are counted as not served and are not cases."""
    model = write_cuts(run)
    run.write("test_two.py", TASKS)
    done = run("test_two.py", "--model", model, "-n", workers)
    assert done.code == 0
    assert set(done.verdicts) == {f"two/cut/{n}" for n in range(4)}
    assert done.run["not_served"] == {"two": {next(iter(done.run["models"])): 4}}
    assert "not served: 4 two items" in done.output
    assert done.run["complete"] is True


def test_each_model_has_its_own_tasks(run: Runner) -> None:
    """Two models in a session each have the tasks that they serve; ask.kinds has the kinds in common."""
    model = write_cuts(run)
    run.write("test_two.py", TASKS)
    done = run("test_two.py", "--model", model, "--model", "fake:echo")
    assert {(r["task"], r["items"]) for r in done.run["summary"]} == {("cut", 4), ("talk", 4)}
    assert {v["task"]: v["given"] for v in done.verdicts.values()} == {"cut": "segment", "talk": "chat"}


def test_skip_names_the_missing_kinds(run: Runner) -> None:
    """If a model serves no task, the skipped case names the kinds that the tasks need."""
    run.write("test_two.py", TASKS.replace('("cut", "talk")', '("talk",)'))
    done = run("test_two.py", "-rs", "--model", write_cuts(run))
    assert "serves no chat/sentiment" in done.output


def test_gate_on_a_task_not_served_is_invalid(run: Runner) -> None:
    model = write_cuts(run)
    run.write("test_two.py", TASKS)
    gate = '[[rule]]\nname = "talk"\ntask = "talk"\nmin_accuracy = 0.5\nmin_items = 1\n'
    done = run("test_two.py", "--model", model, "--llm-gate", str(run.write("gate.toml", gate)))
    assert done.code == 1
    assert done.run["gate"]["decision"] == "invalid"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("asked", {"asked"}),
        ("context_only or rhyme", {"context_only", "rhyme"}),
        ("homophones/asked and homophones/zh", {"asked"}),
        ("htest/end_ly", {"end_ly"}),
        ("dtails/translate and dtails/af", {"translate"}),
        ("implicit", {"implicit"}),
        ("linearity", {"linearity"}),
        # Whether a pair's answer is checked as a yes or a no is known only after the first reply.
        ("oracle/no", {"yes", "no"}),
        ("oracle/own_paraphrase", {"own_paraphrase"}),
    ],
)
def test_tasks_are_selected_by_keyword(run: Runner, expression: str, expected: set[str]) -> None:
    """-k selects the built-in benchmarks' items by task, also if the node id does not name it."""
    done = run(str(ROOT / "suites"), "--model", "fake:echo", "--llm-limit", "1", "-k", expression)
    tasks = {verdict["task"] for verdict in done.verdicts.values()}
    assert tasks == expected, done.output


def write_unnamed(run: Runner, items: int) -> None:
    """Write the benchmark with ``items`` items per task, whose ids do not name the task."""
    text = TASKS.replace("range(4)", f"range({items})").replace('f"two/{t}/{n}"', 'f"two/{n}{t[0]}"')
    run.write("test_two.py", text.replace('frozenset({"segment"}) if task == "cut" else ', ""))


def test_tasks_are_selected_in_workers(run: Runner, workers: str) -> None:
    """-k selects the same items with and without workers."""
    write_unnamed(run, 4)
    done = run("test_two.py", "--model", "fake:echo", "-k", "two/talk", "-n", workers)
    assert set(done.verdicts) == {f"two/{n}t" for n in range(4)}


def test_tasks_of_very_many_cases_are_selected_by_keyword(run: Runner) -> None:
    """-k selects by task among small items, too."""
    write_unnamed(run, 10_001)
    done = run("test_two.py", "--model", "fake:echo", "-k", "talk", "--collect-only", "-q")
    assert "10001/20002 tests collected (10001 deselected)" in done.output
