"""A sequential gate in a run: which calls it makes, which it skips, and how it ends after an error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gated_runs import baseline, calls, gate, model
from tests.support.recorded import verdicts, write_run
from tests.support.runs import Finished, Runner

#: more than three blocks of 64, which is the concurrency
ITEMS = 240
#: items answered wrong: at an accuracy of 0.8, a limit near it stays undecided almost to the end
FIFTH = range(0, ITEMS, 5)
SETTLED: dict[str, Any] = {"min_accuracy": 0.6}
OPEN: dict[str, Any] = {"min_accuracy": 0.78}


def _gated(run: Runner, spec: str, *args: str, text: str = "", **rule: Any) -> Finished:
    file = gate(run, f"sequential = true\n{text}", **rule)
    return run("--model", spec, "--llm-gate", str(file), "-rs", *args)


def _decision(done: Finished) -> dict[str, Any]:
    """Return the gate's result from the record."""
    result: dict[str, Any] = done.run["gate"]
    return result


def _skipped(done: Finished) -> int:
    [line] = [x for x in done.output.splitlines() if x.endswith("gate decided") and "SKIPPED" in x]
    return int(line.partition("[")[2].partition("]")[0])


# ---- what is asked


@pytest.mark.parametrize(
    ("wrong", "decision", "code", "workers"),
    [((), "pass", 0, "2"), (range(0, ITEMS, 2), "fail", 1, "0")],
    ids=["pass", "fail"],
)
def test_clear_decision_needs_few_calls(
    run: Runner, workers: str, wrong: range | tuple[()], decision: str, code: int
) -> None:
    """A clear pass and a clear fail end the run early; the rest is skipped, and the record says so."""
    run.sums(ITEMS)
    required: dict[str, Any] = {"min_accuracy": 0.6} if decision == "pass" else {"min_accuracy": 0.9}
    done = _gated(run, model(run, wrong), "-n", workers, **required)
    assert (_decision(done)["decision"], done.code) == (decision, code), done.output
    asked = calls(run)
    assert len(asked) == len(set(asked)) == len(done.verdicts) <= ITEMS / 2
    assert _skipped(done) == ITEMS - len(asked)
    assert _decision(done)["stopped_early"] is True
    assert done.run["complete"] is False
    assert done.run["sequential"]["ended"] is True
    assert f"the gate was decided after {len(asked)} of {ITEMS} cases" in done.output
    assert "INCOMPLETE" not in done.output


def test_undecided_gate_asks_all_items(run: Runner, workers: str) -> None:
    """A gate that is not decided early asks all items, and the run is complete."""
    run.sums(ITEMS)
    done = _gated(run, model(run, FIFTH), "-n", workers, min_accuracy=0.8)
    assert sorted(calls(run)) == list(range(ITEMS))
    assert (_decision(done)["decision"], done.code) == ("inconclusive", 1)
    assert _decision(done)["stopped_early"] is False
    assert done.run["complete"] is True
    assert done.run["sequential"]["ended"] is False
    assert "gate decided" not in done.output


def test_workers_change_neither_items_nor_decision(run: Runner) -> None:
    """With any number of workers, the same items are asked and the gate decides the same."""
    run.sums(ITEMS)
    baseline(run, "ccccw" * (ITEMS // 5))
    outcomes = []
    for n in ("0", "2", "3"):
        spec = model(run, range(0, ITEMS, 50))
        done = _gated(run, spec, "-n", n, "--llm-cache", "off", "--llm-baseline", "base", max_drop=0.1)
        assert 0 < len(calls(run)) < ITEMS
        outcomes.append((set(done.verdicts), _decision(done), done.code, done.run["sequential"]))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_block_size_is_the_concurrency(run: Runner) -> None:
    """A block has as many items as calls may be in flight."""
    run.sums(ITEMS)
    done = _gated(run, model(run), "--llm-concurrency", "100", **SETTLED)
    assert len(done.verdicts) == 100


def test_items_under_no_rule_are_not_asked(run: Runner) -> None:
    _two_tasks(run)
    file = gate(run, 'sequential = true\n[[rule]]\ntask = "even"\nmin_accuracy = 0.78\n')
    done = run("--model", model(run, FIFTH), "--llm-gate", str(file), "-n", "2", "-rs")
    assert sorted(calls(run)) == list(range(0, ITEMS, 2))
    assert _skipped(done) == ITEMS / 2
    assert _decision(done)["stopped_early"] is False
    assert _decision(done)["decision"] == "inconclusive", done.output


def _two_tasks(run: Runner) -> None:
    run.sums(ITEMS)
    run.change("test_sums.py", '"add"', '"odd" if n % 2 else "even"')


def test_decided_rule_draws_no_more_items(run: Runner) -> None:
    """When one of two rules is decided, its items are no longer drawn, and the other rule continues."""
    _two_tasks(run)
    text = '[[rule]]\ntask = "even"\nmin_accuracy = 0.78\n[[rule]]\ntask = "odd"\nmin_accuracy = 0.5\n'
    done = _gated(run, model(run, range(0, ITEMS, 10)), "-n", "2", text=text)
    asked = calls(run)
    even, odd = ([n for n in asked if n % 2 == side] for side in (0, 1))
    assert len(even) == ITEMS / 2
    assert len(odd) < 100
    assert done.run["sequential"]["ended"] is True
    rules = {rule["name"]: rule for rule in _decision(done)["rules"]}
    assert (rules["odd"]["verdict"], rules["odd"]["partial"]) == ("met", True)
    assert rules["even"]["partial"] is False


def test_other_tests_always_run(run: Runner) -> None:
    """Tests that are not cases run even if the gate is decided, and still affect the exit status."""
    run.sums(ITEMS)
    run.write("test_a.py", "def test_fine():\n    pass\n\ndef test_bad():\n    assert 1 == 2\n")
    done = _gated(run, model(run), "-n", "2", **SETTLED)
    assert _decision(done)["decision"] == "pass"
    assert done.code == 1
    assert "1 failed, " in done.output
    assert "assert 1 == 2" in done.output
    assert done.run["sequential"]["ended"] is True


def test_two_functions_on_the_same_items_share_calls(run: Runner) -> None:
    """Two test functions on the same items both run, and each call is sent once."""
    run.sums(ITEMS)
    second = "@pytest.mark.llmprops(benchmark=Sums)\ndef test_again(verdict):\n    assert verdict\n\n"
    run.change("test_sums.py", "@pytest.mark", f"{second}@pytest.mark")
    done = _gated(run, model(run), "-n", "2", **SETTLED)
    asked = calls(run)
    assert len(asked) == len(set(asked)) == 64
    assert f"128 passed, {2 * ITEMS - 128} skipped" in done.output
    assert (_decision(done)["decision"], done.code) == ("pass", 0), done.output


# ---- invalid gates


DEVIATING = """
from pytest_llmprops import FakeModel, register_model

def make(spec, options):
    model = FakeModel(lambda chat: str(int(chat.messages[-1].content.split()[0]) + 1))
    model.deviations = lambda: ("temperature is not sent",)
    return model

register_model("deviating", make)
"""


@pytest.mark.parametrize("theirs", [["temperature is not sent"], ["another"], []])
def test_deviations_are_caveats(run: Runner, theirs: list[str]) -> None:
    """What an API forces is known only after the first replies; it neither prolongs the run nor makes it invalid."""
    run.sums(ITEMS)
    run.write("conftest.py", DEVIATING)
    baseline(run, "c" * ITEMS, deviations={"old": theirs} if theirs else {})
    done = _gated(run, "deviating", "--llm-baseline", "base", max_drop=0.1)
    assert 0 < len(done.verdicts) < ITEMS
    decision = _decision(done)
    assert (decision["decision"], done.code) == ("pass", 0), done.output
    is_shared = theirs == ["temperature is not sent"]
    assert ("deviating: temperature is not sent" in decision["caveats"]) is not is_shared


def test_too_many_errors_end_the_run(run: Runner) -> None:
    """Items in error are left out of the estimate; too many of them end the run early as invalid."""
    run.sums(ITEMS)
    few = _gated(run, model(run, errors=[7, 100, 200]), "-n", "2", **SETTLED)
    assert (_decision(few)["decision"], few.code) == ("pass", 0), few.output
    calls(run)
    many = _gated(run, model(run, errors=range(0, ITEMS, 4)), "-n", "2", **SETTLED)
    assert (_decision(many)["decision"], many.code) == ("invalid", 1), many.output
    assert len(calls(run)) < ITEMS / 2
    assert many.run["sequential"]["ended"] is True
    assert "in error" in _decision(many)["line"]


# ---- ends before the end

KILLER = """
import os, pathlib, signal
def pytest_runtest_setup(item):
    if {when} and "PYTEST_XDIST_WORKER" in os.environ:
        try:
            pathlib.Path("killed").touch(exist_ok=False)  # by one worker only
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)
"""

#: sets a member of the session after most cases
STOPPING = """
import pytest
@pytest.fixture(autouse=True)
def _stop(request):
    yield
    if request.session.items.index(request.node) >= 180:
        request.session.{how} = "enough"
"""

KILLED_TOGETHER = """
import os, signal
def pytest_runtest_setup(item):
    if os.environ.get("PYTEST_XDIST_WORKER") in ("gw0", "gw1"):
        os.kill(os.getpid(), signal.SIGKILL)
"""

KILLED_AFTER_COLLECTION = """
import os, signal, time
import pytest
@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw0":
        time.sleep(0.2)  # until the controller has read what was collected
        os.kill(os.getpid(), signal.SIGKILL)
def pytest_collection_modifyitems(items):
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
        time.sleep(1)
    elif os.environ.get("PYTEST_XDIST_WORKER") == "gw2":
        time.sleep(2)
"""


@pytest.mark.parametrize(
    ("when", "cache"), [("first", "off"), ("middle", "reuse"), ("middle", "off"), ("last", "reuse")]
)
def test_killed_worker_is_replaced(run: Runner, when: str, cache: str) -> None:
    """The replacement of a killed worker continues without a hang, and repeats at most the calls in flight."""
    run.sums(ITEMS)
    number = {"first": 0, "middle": 150, "last": ITEMS - 10}[when]
    run.write("conftest.py", KILLER.replace("{when}", f"item.session.items.index(item) >= {number}"))
    required = SETTLED if when == "first" else OPEN
    done = _gated(
        run, model(run, FIFTH), "-n", "2", "--llm-cache", cache, "--llm-concurrency", "16", **required
    )
    assert (run.folder / "killed").exists()
    assert "replacing crashed worker" in done.output, done.output
    # The replacement measures the case, which then counts once.
    assert done.code == (0 if when == "first" else 1), done.output
    asked = calls(run)
    if when == "first":
        assert _decision(done)["decision"] == "pass"
        assert done.run["sequential"]["ended"] is True
        assert len(set(asked)) < ITEMS
    else:
        assert set(asked) == set(range(ITEMS))
        assert len(done.verdicts) == ITEMS
        assert _decision(done)["decision"] == "inconclusive"
    if cache == "reuse":
        assert len(asked) == len(set(asked))
    assert len(asked) <= len(set(asked)) + 16


@pytest.mark.parametrize("killer", [KILLED_TOGETHER, KILLED_AFTER_COLLECTION], ids=["together", "collected"])
def test_replacements_get_cases_after_they_collected(run: Runner, killer: str) -> None:
    """A replacement gets cases only after its collection; pytest-xdist alone ends with an internal error."""
    run.sums(ITEMS)
    run.write("conftest.py", killer)
    done = _gated(run, model(run, FIFTH), "-n", "2", **OPEN)
    assert "INTERNALERROR" not in done.output, done.output
    assert set(calls(run)) == set(range(ITEMS))
    assert len(done.verdicts) == ITEMS
    assert _decision(done)["decision"] == "inconclusive"


def test_run_without_replacements_ends(run: Runner) -> None:
    """If killed workers are not replaced, the run ends and the gate is invalid."""
    run.sums(ITEMS)
    run.write("conftest.py", KILLER.replace("{when}", "item.session.items.index(item) >= 100"))
    done = _gated(run, model(run, FIFTH), "-n", "2", "--max-worker-restart", "0", **OPEN)
    assert done.code != 0
    assert _decision(done)["decision"] == "invalid"


@pytest.mark.parametrize(
    ("args", "workers"), [(("-x",), "2"), (("--maxfail", "3"), "0")], ids=["x", "maxfail"]
)
def test_maxfail_ends_the_run(run: Runner, workers: str, args: tuple[str, ...]) -> None:
    """-x and --maxfail end a sequential run early, and the gate is invalid."""
    run.sums(ITEMS)
    spec = f"{model(run, FIFTH)}&delay=0.3"
    done = _gated(run, spec, "-n", workers, *args, "--llm-concurrency", "16", **OPEN)
    assert done.code != 0
    assert _decision(done)["decision"] == "invalid", done.output
    assert done.run["sequential"]["ended"] is False
    assert len(done.verdicts) < 100


@pytest.mark.parametrize(("how", "workers"), [("shouldstop", "0"), ("shouldstop", "2"), ("shouldfail", "0")])
def test_interrupted_run_with_a_decided_rule_is_invalid(run: Runner, workers: str, how: str) -> None:
    """A run that is interrupted while a rule is undecided is invalid, even if another rule was decided."""
    _two_tasks(run)
    text = 'inconclusive = "pass"\n[[rule]]\ntask = "even"\nmin_accuracy = 0.96\n'
    text += '[[rule]]\ntask = "odd"\nmin_accuracy = 0.5\n'
    run.write("conftest.py", STOPPING.format(how=how))
    done = _gated(run, model(run, [222]), "-n", workers, "--llm-concurrency", "16", text=text)
    assert "gate decided" in done.output
    assert done.code != 0, done.output
    assert _decision(done)["decision"] == "invalid", done.output
    assert done.run["sequential"]["ended"] is False


# ---- other plugins

WRAPPER = (
    "@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_collection_modifyitems(items):\n    yield\n"
)
REORDERING = {
    "late hook": (
        "@pytest.hookimpl(trylast=True)\ndef pytest_collection_modifyitems(items):\n    items.reverse()\n"
    ),
    "after collection": (
        "@pytest.hookimpl(trylast=True)\ndef pytest_collection_finish(session):\n    session.items.reverse()\n"
    ),
    "wrapper": f"{WRAPPER}    items.reverse()\n",
    "deselecting wrapper": f"{WRAPPER}    del items[:40]\n",
}


@pytest.mark.parametrize(
    ("how", "workers"), [*((how, "0") for how in REORDERING), ("wrapper", "2"), ("deselecting wrapper", "2")]
)
def test_gate_draws_from_what_plugins_select(run: Runner, workers: str, how: str) -> None:
    """The gate draws, in its own order, from the cases that other plugins selected."""
    run.sums(ITEMS)
    plain = _gated(run, model(run), **SETTLED)
    calls(run)
    run.write("conftest.py", f"import pytest\n{REORDERING[how]}")
    done = _gated(run, model(run), "-n", workers, "--llm-cache", "off", **SETTLED)
    asked = calls(run)
    assert (_decision(done)["decision"], done.code) == ("pass", 0), done.output
    assert len(asked) == len(done.verdicts) == 64
    if how == "deselecting wrapper":
        assert _decision(done)["items_of"] == ITEMS - 40
        assert min(asked) >= 40
    else:
        assert done.verdicts.keys() == plain.verdicts.keys()
        assert _decision(done) == _decision(plain)


def test_last_failed_draws_from_failed_cases(run: Runner) -> None:
    """With --lf, the gate draws only from the cases that failed last."""
    run.sums(ITEMS)
    run("--model", model(run, range(0, ITEMS, 2)), "-p", "cacheprovider")
    calls(run)
    done = _gated(
        run, model(run, range(0, ITEMS, 2)), "-p", "cacheprovider", "--lf", "-n", "2", "--llm-cache", "off",
        min_accuracy=0.5,
    )  # fmt: skip
    asked = calls(run)
    assert asked
    assert not {n for n in asked if n % 2}
    assert _decision(done)["items_of"] == ITEMS / 2, done.output
    assert (_decision(done)["decision"], done.code) == ("fail", 1)


# ---- baselines


def test_baseline_without_half_of_the_items_is_invalid(run: Runner) -> None:
    """Items that the baseline lacks are not pairs; too many of them make the gate invalid."""
    run.sums(ITEMS)
    # As many items, or the run would not start.
    write_run(run.folder / "base", verdicts("c" * (ITEMS * 3 // 2))[ITEMS // 2 :])
    done = _gated(run, model(run), "-n", "2", "--llm-baseline", "base", max_drop=0.1)
    assert (_decision(done)["decision"], done.code) == ("invalid", 1), done.output
    assert "missing in the baseline" in done.output
