"""``--llm-gate``: the exit status, gates refused before the first call, and the same decision afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_llmprops import NEEDS_MODEL
from tests.support.gated_runs import baseline, calls, gate, model, recorded_gate
from tests.support.runs import ROOT, Runner
from tests.support.stores import make_older

ITEMS = 40
HTEST = str(ROOT / "suites" / "test_htest.py")
#: items answered wrong, for an accuracy of 0.875
SOME = range(0, ITEMS, 8)


@pytest.mark.parametrize(
    ("wrong", "errors", "rule", "decision", "code", "workers"),
    [
        (SOME, (), {"min_accuracy": 0.7}, "pass", 0, "0"),
        (range(20), (), {"min_accuracy": 0.9}, "fail", 1, "2"),
        (SOME, (), {"min_accuracy": 0.85}, "inconclusive", 6, "0"),
        ((1,), (3, 20), {"min_accuracy": 0.7, "max_errors": 0.1}, "pass", 0, "2"),
        ((1,), (3, 20), {"min_accuracy": 0.7, "max_errors": 0.02}, "invalid", 7, "0"),
    ],
)
def test_gate_decides_the_exit_status(
    run: Runner,
    wrong: range,
    errors: tuple[int, ...],
    rule: dict[str, Any],
    decision: str,
    code: int,
    workers: str,
) -> None:
    """Wrong answers, and errors up to the gate's limit, fail the session only if the gate does not pass.

    Other tests may pass or skip.
    """
    run.sums(ITEMS)
    run.write("test_other.py", "import pytest\ndef test_good(): pass\ndef test_skipped(): pytest.skip('x')\n")
    done = run(
        "--model", model(run, wrong, errors=errors), "-n", workers, "--llm-gate", str(gate(run, **rule))
    )
    assert (done.run["gate"]["decision"], done.code) == (decision, code), done.output
    assert f"\n{decision.upper()}: " in done.output
    assert (" xfailed" in done.output, "2 errors" in done.output) == (True, bool(errors))
    assert ("2 in error (sums/0003, sums/0020)" in done.output) == (code == 7)


FIXTURE = "import pytest\n@pytest.fixture(autouse=True)\n"


@pytest.mark.parametrize(
    ("name", "text", "workers"),
    [
        ("test_other.py", "def test_bad():\n    assert 1 == 2\n", "2"),
        ("test_other.py", f"{FIXTURE}def broken():\n    raise OSError('x')\ndef test_bad(): pass\n", "2"),
        ("test_other.py", "import nosuchmodule\n", "2"),
        ("test_sums.py", "assert not verdict or 1 == 2", "2"),
        ("test_sums.py", "{}['no'] if not verdict else 0", "0"),
        (
            "conftest.py",
            f"{FIXTURE}def after(request):\n    yield\n    assert 'sums/0008' not in request.node.name\n", "2",
        ),
        ("conftest.py", f"{FIXTURE}def other(verdict):\n    assert verdict.expected != '9'\n", "0"),
    ],
    ids=["fails", "set-up", "collection", "besides", "exception", "teardown", "fixture"],
)  # fmt: skip
def test_only_wrong_verdicts_are_excused(run: Runner, name: str, text: str, workers: str) -> None:
    """A test or a case that fails for any reason except its verdict fails the session, even if the gate passes."""
    run.sums(ITEMS)
    if name == "test_sums.py":
        run.change(name, "assert verdict", text)
    else:
        run.write(name, text)
    gated = ("-n", workers, "--llm-gate", str(gate(run, min_accuracy=0.7)))
    done = run("--model", model(run, SOME), *gated)
    assert (done.run["gate"]["decision"], done.code) == ("pass", 1), done.output


def test_a_collection_error_ends_a_run_without_workers(run: Runner) -> None:
    """As pytest does: nothing is sent, and nothing is recorded."""
    run.sums(ITEMS)
    run.write("test_other.py", "import nosuchmodule\n")
    done = run("--model", model(run, SOME), "--llm-gate", str(gate(run, min_accuracy=0.7)))
    assert (done.code, calls(run), done.folder.exists()) == (2, [], False), done.output


RULE = '[[rule]]\nbenchmark = "sums"\n'
DROP = RULE + "max_drop = 0.5"
#: a rule on a metric of H-TEST, and the options that select some of its items
RHYME = '[[rule]]\nbenchmark = "htest"\nmetric = "{}"\nmin = 0.1\n'
SMALL = (HTEST, "--llm-size", "small", "-k", "rhyme")
QUICK = {
    "sums": {"name": "quick", "seed": 0, "settings": {}, "assumed": [], "gives_up": "", "overrides": {}}
}  # fmt: skip
#: number of items, and facts of the runs that a gate compares with
BASELINES: dict[str, tuple[int, dict[str, Any]]] = {
    "newer": (ITEMS, {"schema": 3}),
    "damaged": (ITEMS, {}),
    "changed": (ITEMS, {}),
    "incomplete": (ITEMS, {"complete": False}),
    "all": (ITEMS, {"options": {"limit": None}}),
    "few": (10, {"options": {"limit": None}}),
    "warm": (ITEMS, {"options": {"params": {"top_p": 0.9}, "seed": 0}, "protocols": QUICK}),
    "alone": (ITEMS, {"options": {"helpers": {}}, "protocols": QUICK}),
    "old": (ITEMS, {"options": {}, "protocols": QUICK}),
}
#: text of the gate file, baseline, other options, and what the line says
REFUSED = [
    ("[[rule", "", ("-n", "2"), "gate.toml: not TOML"),
    (DROP, "", (), "needs a baseline; give one with --llm-baseline"),
    (DROP, "nosuch", (), "no run 'nosuch'"),
    (DROP, "newer", (), "schema 3"),
    (DROP, "damaged", (), "verdicts.jsonl"),
    (DROP, "incomplete", (), "the gate would be invalid: baseline incomplete is incomplete; choose a complete run"),
    (DROP, "changed", (), "the gate would be invalid: baseline changed: run.json has correct 40 of sums/add/en"),
    (RULE + "min_accuracy = 0.5", "", ("--model", "fake:echo"), "one model"),
    ('[[rule]]\nbenchmark = "sumz"\nmin_accuracy = 0.5', "", ("-n", "2"), "'sumz' matches nothing"),
    (RULE + "min_accuracy = 0.5", "", ("-k", "other"), "matches nothing"),
    ("", "damaged", (), "--llm-baseline: needs --llm-gate"),
    (
        DROP, "all", ("--llm-limit", "10"),
        "has 40 items of sums, and 10 are selected; the baseline has --llm-limit (none), not 10: use",
    ),
    (DROP, "few", ("-n", "2"), "and 40 are selected; measure the baseline again, with the items and"),
    (
        DROP, "warm", ("--llm-seed", "1"),
        "the baseline has --llm-param top_p=0.9, not (none); --llm-seed 0, not 1: use its options",
    ),
    (
        DROP, "alone", ("--llm-helper", "reader=fake:echo"),
        "reader: (none) in the baseline, fake:echo in this run; the baseline has --llm-helper (none), not",
    ),
    (DROP, "old", ("--llm-seed", "7"), "not measured with this run's protocol of sums: seed 0 → 7; "),
    (RULE + "max_drop = 0.05", "all", (), "40 pairs of the benchmark are too few to decide; max_drop = 0.09 can be"),
    (RULE + "min_accuracy = 0.95", "", ("--llm-plan",), "too few to decide; min_accuracy = 0.91 can be met"),
    (RULE + "max_refused = 0.5", "", ("--llm-limit", "20"), "20 answered items are fewer than min_items = 30"),
    (RHYME.format("nosuch"), "", SMALL, "no metric 'nosuch'; there are adjusted_accuracy, "),
    # A reply can tell the reader model of H-TEST to answer "none".
    (RHYME.format("adjusted_accuracy"), "", SMALL, "so add a rule for the same selection"),
]  # fmt: skip


def test_a_gate_that_cannot_decide_is_refused_before_the_first_call(run: Runner) -> None:
    """One line with status 4 says what is wrong with the file, the baseline, the selection or the options."""
    run.sums(ITEMS)
    run.change("test_sums.py", 'name = "sums"', 'name = "sums"\n    roles = frozenset({"reader"})')
    run.write("test_other.py", "def test_other():\n    pass\n")
    for name, (items, facts) in BASELINES.items():
        baseline(run, "c" * items, name, **facts)
    run.change("changed/verdicts.jsonl", '"correct"', '"wrong"', 1)
    run.write("damaged/verdicts.jsonl", "{\n" * 3)
    for text, name, options, said in REFUSED:
        gated = ("--llm-gate", str(gate(run, text))) if text else ()
        against = ("--llm-baseline", name) if name else ()
        done = run("--model", model(run), *gated, *against, *options)
        assert calls(run) == []
        done.refused(said)


#: a plugin that makes every session pass
LENIENT = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session):
    yield
    session.exitstatus = 0
"""


def test_without_a_model_a_gate_or_a_limit_is_a_usage_error(run: Runner) -> None:
    """A forgotten --model must not pass in CI: nothing starts, with status 4.

    The same for a gate in the ini file if a suite was skipped; a session of other tests passes.
    """
    run.sums(ITEMS)
    gate(run, min_accuracy=0.5)
    for options in (
        ("--llm-gate", "gate.toml", "--llm-baseline", "base", "-n", "2"),
        ("--llm-baseline", "base"),
        ("--llm-max-calls", "9"),
        ("--llm-limit", "2"),
    ):
        run(*options).refused(f"ERROR: {options[0]}: no model chosen: pass --model SPEC")
    # Without a gate, the suites are skipped with one line, which the controller prints if workers skip them.
    done = run("test_sums.py", "-n", "2")
    assert done.code == 0
    assert done.output.count("llmprops: no model chosen: pass --model SPEC") == 1
    # `llmprops run` sets this variable.
    assert run("test_sums.py", env={NEEDS_MODEL: "1"}).code == 4
    run.write("conftest.py", LENIENT)
    run.write("test_other.py", "def test_other():\n    pass\n")
    run.write("pytest.ini", "[pytest]\nllm_gate = gate.toml\n")
    for tests, workers, code in (
        ("test_sums.py", "0", 4),
        ("test_sums.py", "2", 4),
        ("test_other.py", "0", 0),
    ):
        done = run(tests, "-n", workers)
        assert done.code == code, done.output
        assert ("ERROR: llm_gate" in done.output) is (code == 4)


def test_rule_on_items_not_served_is_invalid(run: Runner) -> None:
    """A rule on items that the model does not serve makes the gate invalid."""
    run.sums(ITEMS)
    suite = (run.folder / "test_sums.py").read_text(encoding="utf-8").replace("sums", "segments")
    run.write(
        "test_segments.py",
        suite.replace('"segments"\n', '"segments"\n    kinds = frozenset({"segment"})\n', 1),
    )
    text = '[[rule]]\nbenchmark = "segments"\nmin_accuracy = 0.5\n'
    for words in ((), ("-n", "2", "-k", "test_segments")):
        done = run("--model", model(run), "--llm-gate", str(gate(run, text)), *words)
        assert (done.code, done.run["gate"]["decision"]) == (7, "invalid"), done.output
        assert [rule["verdict"] for rule in done.run["gate"]["rules"]] == ["invalid"]
        assert "not served: 40 segments items" in done.output


def test_a_run_measures_the_items_of_its_baseline(run: Runner) -> None:
    """Without options that select items, a run has those of its baseline, and the header says so."""
    run.sums(ITEMS)
    before = run("--model", model(run, SOME), "--llm-limit", "35", "--llm-seed", "3", "-n", "2")
    args = ("--llm-gate", str(gate(run, max_drop=0.3)), "--llm-baseline", str(before.folder), "-n", "2")
    new = ("--model", model(run, name="other"))
    done = run(*new, *args)
    assert (done.code, done.run["gate"]["decision"]) == (0, "pass"), done.output
    assert done.verdicts.keys() == before.verdicts.keys()
    assert "against run-1 on its items (--llm-limit 35 --llm-seed 3)" in done.output
    assert (done.run["options"]["limit"], done.run["options"]["seed"]) == (35, 3)
    assert done.run["options"]["command"][-2:] == ["--llm-limit=35", "--llm-seed=3"]
    # The broker appends to the requests until it is closed; their hash is computed afterwards.
    assert set(done.run["files"]) == {"verdicts.jsonl", "requests.jsonl"}
    calls(run)
    own = run(*new, *args, "--llm-limit", "40")
    own.refused("35 items of sums, and 40 are selected; the baseline has --llm-limit 35, not 40: use")
    assert calls(run) == []
    # The record of someone else cannot make an option invalid.
    odd = {"size": "huge", "limit": -1, "seed": "x", "source": ["builtin"]}
    done = run(*new, *args, "--llm-baseline", str(baseline(run, "c" * ITEMS, options=odd)))
    assert done.code == 0, done.output


def test_replies_of_the_baseline_are_not_judged(run: Runner) -> None:
    """A candidate whose replies are all stored ones of its baseline was not measured; one that is asked again was."""
    run.sums(ITEMS)
    same = ("--model", model(run, SOME))
    before = run(*same)
    gated = ("--llm-gate", str(gate(run, max_drop=0.3)), "--llm-baseline", str(before.folder))
    calls(run)
    done = run(*same, *gated)
    assert calls(run) == []
    assert (done.code, done.run["gate"]["decision"]) == (7, "invalid"), done.output
    said = "\nINVALID: all replies of this run are those of baseline run-1, so nothing was measured"
    assert said in done.output
    again = run(*same, *gated, "--llm-cache", "refresh")
    assert (again.code, again.run["gate"]["decision"]) == (0, "pass"), again.output
    assert recorded_gate(run, done, run.folder / "gate.toml", before.folder).code == 7


def test_gate_asks_again_for_replies_older_than_a_day(run: Runner) -> None:
    """Under a gate, stored replies of an unpinned model expire after 24 hours, or ``llm_cache_age``.

    Without one, they are used, and the headline and the record say so.
    """
    run.sums(35)
    run.write(
        "conftest.py",
        "from pytest_llmprops import FakeModel, register_model\n"
        "def make(spec, options):\n"
        "    model = FakeModel(lambda chat: '1')\n"
        "    model.pinned = False\n"
        "    model.identity = {'backend': 'drifting'}\n"
        "    return model\n"
        "register_model('drifting', make)\n",
    )
    gated = ("--llm-gate", str(gate(run, max_errors=0.5)))
    args = ("--model", "drifting")
    assert run(*args).run["calls"]["sent"] == 35
    make_older(run.store, hours=23)
    assert run(*args, *gated).run["calls"]["sent"] == 0
    make_older(run.store, hours=2)
    ungated = run(*args)
    assert ungated.run["calls"]["sent"] == 0
    [headline] = [line for line in ungated.output.splitlines() if line.startswith("sums · ")]
    assert headline.endswith(" · stored replies of an unpinned model, up to 1.0 days old: 35")
    assert ungated.run["models"]["drifting"]["old_replies"]["older_than_a_day"] == 35
    assert run(*args, *gated, "-o", "llm_cache_age=7d").run["calls"]["sent"] == 0
    assert run(*args, *gated).run["calls"]["sent"] == 35


@pytest.mark.parametrize(
    ("option", "workers", "shown"),
    [
        ("--llm-plan", "2", "no call is made"),
        ("--collect-only", "0", "sums/0001"),
        ("--fixtures", "2", "verdict --"),
    ],
)
def test_what_runs_no_case_is_not_decided(run: Runner, workers: str, option: str, shown: str) -> None:
    """Options that only show something make no call, say that nothing is decided, and are no passed gate."""
    run.sums(ITEMS)
    file = gate(run, min_accuracy=0.5)
    args = ("--model", model(run), "-n", workers, option, "-q")
    done = run(*args, "--llm-gate", str(file))
    assert done.code == 7, done.output
    assert f"\nNOT DECIDED: {option} runs no case; leave it out to measure" in done.output
    assert "PASS: " not in done.output
    assert not done.folder.exists()
    assert calls(run) == []
    assert shown in done.output
    assert run(*args).code == 0
    wrong = run(*args, "--llm-gate", str(gate(run, '[[rule]]\nbenchmark = "x"\nmin_accuracy = 0.5')))
    assert (wrong.code, "matches nothing" in wrong.output) == (4, True)


def test_header_warns_of_single_samples(run: Runner) -> None:
    """Before the first call, a gate says that it compares single samples of a model that samples its replies."""
    words = (
        HTEST, f"--rootdir={run.folder}", "--llm-limit", "40", "-k", "rhyme", "--model", "fake:constant?text=A",
        "--llm-set", "htest.temperature=0.7",
    )  # fmt: skip
    file = run.write("gate.toml", '[[rule]]\nbenchmark = "htest"\nmax_drop = 0.5\n')
    before = str(run(*words, "--llm-repeats", "2").folder)
    for repeats, warns in (("1", True), ("2", False)):
        gated = ("--llm-repeats", repeats, "--llm-gate", str(file), "--llm-baseline", before, "--llm-plan")
        shown = " ".join(run(*words, *gated).output.split())
        assert ("htest: one sample per item at a temperature above 0" in shown) == warns
