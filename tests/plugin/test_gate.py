"""``--llm-gate``: the exit status, gates refused before the first call, and the same decision afterwards."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from fixtures.apis import Answer, Call, serving
from pytest_llmprops.models.base import CallOptions
from tests.support.gated_runs import baseline, calls, command, gate, gate_lines, model, recorded_gate
from tests.support.runs import ROOT, Finished, Runner

ITEMS = 40
HTEST = str(ROOT / "suites" / "test_htest.py")
#: items answered wrong, for an accuracy of 0.875
SOME = range(0, ITEMS, 8)
#: changes a line of the record after the 30th case
CHANGING = """
from pathlib import Path
finished = []

def pytest_runtest_logfinish(nodeid):
    finished.append(nodeid)
    if len(finished) == 30:
        path = Path("run-1/verdicts.jsonl")
        path.write_bytes(path.read_bytes().replace(b'"wrong"', b'"refused"', 1))
"""


@pytest.mark.parametrize(
    ("required", "code", "decision", "workers"),
    [(0.7, 0, "pass", "0"), (0.7, 0, "pass", "2"), (0.9, 1, "fail", "2"), (0.85, 6, "inconclusive", "0")],
)
def test_gate_decides_the_exit_status(
    run: Runner, workers: str, required: float, code: int, decision: str
) -> None:
    """Wrong answers fail the session only if the gate does not pass."""
    run.sums(ITEMS)
    wrong = model(run, SOME if decision != "fail" else range(20))
    done = run("--model", wrong, "-n", workers, "--llm-gate", str(gate(run, min_accuracy=required)))
    assert (done.run["gate"]["decision"], done.code) == (decision, code), done.output
    assert f"\n{decision.upper()}: " in done.output
    assert " xfailed in " in done.output


@pytest.mark.parametrize(
    ("text", "code", "workers"),
    [
        ("def test_bad():\n    assert 1 == 2\n", 1, "2"),
        ("def test_good():\n    pass\n", 0, "0"),
        ("@pytest.fixture\ndef broken():\n    raise OSError('x')\ndef test_bad(broken):\n    pass\n", 1, "2"),
        ("def test_skipped():\n    pytest.skip('x')\n", 0, "0"),
        ("import nosuchmodule\n", 2, "0"),
        ("import nosuchmodule\n", 2, "2"),
    ],
    ids=["fails", "passes", "set-up", "skips", "collection", "collection in workers"],
)
def test_other_failures_still_fail_the_session(run: Runner, workers: str, text: str, code: int) -> None:
    """A passing gate excuses wrong answers only; other failures and collection errors still count."""
    run.sums(ITEMS)
    run.write("test_other.py", f"import pytest\n{text}")
    done = run("--model", model(run, SOME), "-n", workers, "--llm-gate", str(gate(run, min_accuracy=0.7)))
    if code == 2 and workers == "0":
        assert (done.code, calls(run)) == (2, []), done.output
        assert not done.folder.exists()
    else:
        assert done.code == min(code, 1), done.output
        assert done.run["gate"]["decision"] == "pass"


@pytest.mark.parametrize(
    ("body", "conftest", "code", "workers"),
    [
        ("assert verdict", "", 0, "2"),
        ("assert verdict.status == 'wrong'", "", 1, "0"),
        ("assert not verdict or 1 == 2", "", 1, "2"),
        ("{}['no'] if not verdict else 0", "", 1, "0"),
        (
            "assert verdict",
            "def _after(request):\n    yield\n    assert 'sums/0008' not in request.node.name\n",
            1,
            "2",
        ),
        ("assert verdict", "def _other(verdict):\n    assert verdict.expected != '9'\n", 1, "0"),
    ],
    ids=["verdict", "status", "besides", "exception", "teardown", "fixture"],
)
def test_only_wrong_verdicts_are_excused(
    run: Runner, workers: str, body: str, conftest: str, code: int
) -> None:
    """A case that fails for any reason except its verdict fails the session, even if the gate passes."""
    run.sums(ITEMS)
    run.change("test_sums.py", "    assert verdict\n", f"    {body}\n")
    if conftest:
        run.write("conftest.py", f"import pytest\n@pytest.fixture(autouse=True)\n{conftest}")
    done = run("--model", model(run, SOME), "-n", workers, "--llm-gate", str(gate(run, min_accuracy=0.7)))
    assert (done.run["gate"]["decision"], done.code) == ("pass", code), done.output


@pytest.mark.parametrize(
    ("most", "decision", "code", "workers"), [(0.1, "pass", 0, "2"), (0.02, "invalid", 7, "0")]
)
def test_backend_errors_are_excused_up_to_the_limit(
    run: Runner, workers: str, most: float, decision: str, code: int
) -> None:
    """Items in error fail the session only above the gate's max_errors; then the gate is invalid."""
    run.sums(ITEMS)
    file = gate(run, min_accuracy=0.7, max_errors=most)
    done = run("--model", model(run, errors=[3, 20]), "-n", workers, "--llm-gate", str(file))
    assert "2 errors" in done.output
    assert (done.run["gate"]["decision"], done.code) == (decision, code), done.output
    if code:
        assert "2 in error (sums/0003, sums/0020)" in done.output


def test_session_without_cases_does_not_pass(run: Runner) -> None:
    """The exit status is pytest's 5 if no test is selected."""
    run.sums(ITEMS)
    args = ("--model", model(run), "--llm-gate", str(gate(run, min_accuracy=0.7)))
    assert run(*args, "-k", "nosuch").code == 5


def test_stopped_run_is_invalid(run: Runner) -> None:
    """A run that stops early on an error is invalid, however good its answers were."""
    run.sums(ITEMS)
    spec = model(run, errors=[38])
    run.change("model.py", 'kind="status 400"', 'kind="replica", fatal=True')
    file = gate(run, min_accuracy=0.1)
    done = run("--model", spec, "--llm-concurrency", "1", "-n", "2", "--llm-gate", str(file))
    assert done.code in (1, 2), done.output
    assert done.run["gate"]["decision"] == "invalid"
    assert "this run is incomplete: " in done.output
    assert "no such thing" in done.run["gate"]["line"]


RULE = '[[rule]]\nbenchmark = "sums"\n'
REFUSED = {
    "no file": (None, (), ("nosuch.toml",)),
    "not TOML": ("[[rule", (), ("gate.toml", "not TOML")),
    "no baseline": (RULE + "max_drop = 0.1", (), ("--llm-baseline",)),
    "unknown baseline": (RULE + "max_drop = 0.1", ("--llm-baseline", "nosuch"), ("no run 'nosuch'",)),
    "newer baseline": (RULE + "max_drop = 0.1", ("--llm-baseline", "newer"), ("newer version", "schema 3")),
    "damaged baseline": (RULE + "max_drop = 0.1", ("--llm-baseline", "damaged"), ("damaged", "verdicts.jsonl")),
    "two models": (RULE + "min_accuracy = 0.5", ("--model", "fake:echo"), ("one model", "2")),
    "no match": ('[[rule]]\nbenchmark = "sumz"\nmin_accuracy = 0.5', (), ("'sumz' matches nothing", "sums")),
    "deselected": (RULE + "min_accuracy = 0.5", ("-k", "other"), ("matches nothing",)),
    "other file": (RULE + "min_accuracy = 0.5", ("test_other.py",), ("matches nothing",)),
    "no gate": (None, ("--llm-baseline", "damaged"), ("--llm-baseline: needs --llm-gate",)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "workers"), [*((name, "0") for name in REFUSED), ("not TOML", "2"), ("no match", "2")]
)
def test_unusable_gate_is_refused_before_the_first_call(run: Runner, workers: str, problem: str) -> None:
    """A gate that cannot decide is refused in one line with status 4, before any call or record."""
    text, args, said = REFUSED[problem]
    run.sums(ITEMS)
    run.write("test_other.py", "def test_other():\n    pass\n")
    for name in ("newer", "damaged"):
        baseline(run, "c" * ITEMS, name)
    facts = json.loads((run.folder / "newer" / "run.json").read_text(encoding="utf-8"))
    run.write("newer/run.json", json.dumps(facts | {"schema": 3}))
    run.write("damaged/verdicts.jsonl", "{\n" * 3)
    file = run.folder / "nosuch.toml" if text is None else gate(run, text)
    gated = () if problem == "no gate" else ("--llm-gate", str(file))
    done = run("--model", model(run), "-n", workers, *gated, *args)
    assert done.code == 4, done.output
    assert "INTERNALERROR" not in done.output
    assert "Traceback" not in done.output
    [line] = [line for line in done.output.splitlines() if line.startswith("ERROR: ")]
    assert all(part in line for part in said), line
    assert calls(run) == []
    assert not done.folder.exists()
    assert "passed" not in done.output


WITHOUT_MODEL = [
    ("--llm-gate", "gate.toml", "--llm-baseline", "base"),
    ("--llm-baseline", "base"),
    ("--llm-max-calls", "9"),
    ("--llm-limit", "2"),
]


@pytest.mark.parametrize(
    ("options", "workers"), [*((options, "0") for options in WITHOUT_MODEL), (WITHOUT_MODEL[0], "2")]
)
def test_without_a_model_a_gate_or_a_limit_is_a_usage_error(
    run: Runner, options: tuple[str, ...], workers: str
) -> None:
    """A forgotten --model must not pass in CI: nothing starts, with status 4."""
    run.sums(ITEMS)
    gate(run, min_accuracy=0.5)
    done = run(*options, "-n", workers)
    assert done.code == 4, done.output
    assert f"ERROR: {options[0]}: no model chosen: pass --model SPEC" in done.output
    assert "skipped" not in done.output


#: a plugin that makes every session pass
LENIENT = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session):
    yield
    session.exitstatus = 0
"""


@pytest.mark.parametrize(
    ("tests", "workers"), [("test_sums.py", "0"), ("test_sums.py", "2"), ("test_other.py", "0")]
)
def test_without_a_model_a_gate_of_the_ini_file_fails_skipped_suites(
    run: Runner, workers: str, tests: str
) -> None:
    """The same for a gate in the ini file if a suite was skipped; a session of other tests passes."""
    run.sums(ITEMS)
    run.write("conftest.py", LENIENT)
    run.write("test_other.py", "def test_other():\n    pass\n")
    run.write("pytest.ini", f"[pytest]\nllm_gate = {gate(run, min_accuracy=0.5)}\n")
    done = run(tests, "-n", workers)
    assert done.code == (4 if tests == "test_sums.py" else 0), done.output
    assert ("ERROR: llm_gate" in done.output) is (tests == "test_sums.py")


def test_without_a_model_workers_report_it(run: Runner) -> None:
    """Without a gate, the suites are skipped with one line, which the controller prints if workers skip them."""
    run.sums(ITEMS)
    done = run("-n", "2")
    assert done.code == 0
    assert done.output.count("llmprops: no model chosen: pass --model SPEC") == 1


SEGMENTS = """

class Segments(Benchmark):
    name = "segments"
    kinds = frozenset({"segment"})

    def load(self, files):
        return [Item(f"segments/{n}", "cut", "zh") for n in range(35)]

    async def evaluate(self, item, context, ask, protocol):
        raise AssertionError


@pytest.mark.llmprops(benchmark=Segments)
def test_segments(verdict):
    assert verdict
"""


@pytest.mark.parametrize(("alone", "workers"), [(False, "0"), (True, "2")])
def test_rule_on_items_not_served_is_invalid(run: Runner, workers: str, alone: bool) -> None:
    """A rule on items that the model does not serve makes the gate invalid."""
    run.sums(ITEMS)
    run.change("test_sums.py", "\n\nclass Sums", f"{SEGMENTS}\n\nclass Sums")
    text = '[[rule]]\nbenchmark = "segments"\nmin_accuracy = 0.5\n'
    if not alone:
        text += RULE + "min_accuracy = 0.5\n"
    selected = ("-k", "test_segments") if alone else ()
    done = run("--model", model(run), "-n", workers, "--llm-gate", str(gate(run, text)), *selected)
    assert done.code == 7, done.output
    assert done.run["gate"]["decision"] == "invalid"
    verdicts = {rule["name"]: rule["verdict"] for rule in done.run["gate"]["rules"]}
    assert verdicts["segments"] == "invalid"
    assert "not served: 35 segments items" in done.output


def test_llmprops_gate_prints_the_same_decision(run: Runner) -> None:
    """`llmprops gate` prints the decision of the run from its record."""
    run.sums(400)
    file = gate(run, min_accuracy=0.6, max_drop=0.1, max_unparsed=0.2)
    base = baseline(run, "ccccw" * 80)
    spec = model(run, range(0, 400, 50), empty=[1])
    done = run("--model", spec, "-n", "2", "--llm-gate", str(file), "--llm-baseline", "base")
    assert done.code == 0, done.output
    again = recorded_gate(run, done, file, base)
    assert again.code == 0
    assert gate_lines(again.output) == gate_lines(done.output)
    result = done.run["gate"]
    assert result["line"] in gate_lines(done.output)[0]
    assert result["baseline"] == "base"


def test_promoted_baseline_is_selected_by_name(run: Runner) -> None:
    """A promoted run is a baseline by name, wherever in pytest's root folder the tests are."""
    run.sums(ITEMS)
    base = run("--model", model(run, SOME))
    promoted = command(run, "runs", "promote", str(base.folder), "stable")
    assert promoted.code == 0, promoted.output
    (run.folder / "sub").mkdir()
    (run.folder / "test_sums.py").rename(run.folder / "sub" / "test_sums.py")
    file = gate(run, max_drop=0.3)
    args = ("--model", model(run), "--llm-gate", str(file), "--llm-baseline", "stable")
    done = run(*args)
    assert done.code == 0, done.output
    assert "against baseline" in done.output
    worse = run("--model", model(run, range(30), name="worse"), *args[2:])
    assert (worse.run["gate"]["decision"], worse.code) == ("fail", 1)


@pytest.mark.parametrize(
    ("items", "option", "workers"), [("40", ("--llm-limit", "10"), "0"), ("10", (), "2")]
)
def test_selection_other_than_the_baselines_is_refused(
    run: Runner, workers: str, items: str, option: tuple[str, ...]
) -> None:
    """A run on too few or too many items for its baseline is refused before the first call, with the fix."""
    run.sums(ITEMS)
    old = baseline(run, "c" * int(items), options={"limit": None})
    words = ("--llm-gate", str(gate(run, max_drop=0.5)), "--llm-baseline", str(old))
    done = run("--model", model(run), *option, "-n", workers, *words)
    assert done.code == 4, done.output
    selected = "10" if option else "40"
    assert f"baseline base has {items} items of sums, and {selected} are selected; " in done.output
    fix = (
        "; the baseline has --llm-limit (none), not 10: use"
        if option
        else "; measure the baseline again, with the items and"
    )
    assert done.output.count(fix) == 1
    assert calls(run) == []
    assert not (done.folder / "run.json").exists()


def test_a_run_measures_the_items_of_its_baseline(run: Runner, workers: str) -> None:
    """Without options that select items, a run has those of its baseline, and the header says so."""
    run.sums(ITEMS)
    before = run("--model", model(run, SOME), "--llm-limit", "35", "--llm-seed", "3", "-n", workers)
    args = ("--llm-gate", str(gate(run, max_drop=0.3)), "--llm-baseline", str(before.folder), "-n", workers)
    new = ("--model", model(run, name="other"))
    done = run(*new, *args)
    assert (done.code, done.run["gate"]["decision"]) == (0, "pass"), done.output
    assert done.verdicts.keys() == before.verdicts.keys()
    assert "against run-1 on its items (--llm-limit 35 --llm-seed 3)" in done.output
    assert (done.run["options"]["limit"], done.run["options"]["seed"]) == (35, 3)
    assert done.run["options"]["command"][-2:] == ["--llm-limit=35", "--llm-seed=3"]
    calls(run)
    own = run(*new, *args, "--llm-limit", "40")
    assert own.code == 4, own.output
    assert (
        "35 items of sums, and 40 are selected; the baseline has --llm-limit 35, not 40: use its options"
        in own.output
    )
    assert calls(run) == []


def test_values_of_a_record_that_no_option_has_are_ignored(run: Runner) -> None:
    """The record of someone else cannot make an option invalid."""
    run.sums(ITEMS)
    odd = {"size": "huge", "limit": -1, "seed": "x", "source": ["builtin"]}
    args = ("--llm-gate", str(gate(run, max_drop=0.5)))
    done = run("--model", model(run), *args, "--llm-baseline", str(baseline(run, "c" * ITEMS, options=odd)))
    assert done.code == 0, done.output


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        (
            {"params": {"top_p": 0.9}, "seed": 0},
            ("--llm-seed", "1"),
            "; the baseline has --llm-param top_p=0.9, not (none); --llm-seed 0, not 1: use its options",
        ),
        (
            {"params": {}},
            ("--llm-param", "top_p=0.5"),
            "; the baseline has --llm-param (none), not top_p=0.5: use its options",
        ),
        (
            {"helpers": {}},
            ("--llm-helper", "reader=fake:echo"),
            (
                "helper model reader: (none) in the baseline, fake:echo in this run; the baseline has --llm-helper"
                " (none), not reader=fake"
            ),
        ),
        (
            {},
            ("--llm-seed", "7"),
            "baseline base was not measured with this run's protocol of sums: seed 0 → 7; ",
        ),
    ],
    ids=["set", "leave out", "helper", "protocol"],
)
def test_other_settings_are_refused_before_the_first_call(
    run: Runner, theirs: dict[str, object], ours: tuple[str, ...], said: str
) -> None:
    """What the user set differently is one line with the options of the baseline."""
    run.sums(ITEMS)
    run.change("test_sums.py", 'name = "sums"', 'name = "sums"\n    roles = frozenset({"reader"})')
    protocol = {"name": "quick", "seed": 0, "settings": {}, "assumed": [], "gives_up": "", "overrides": {}}
    old = baseline(run, "c" * ITEMS, options=theirs, protocols={"sums": protocol})
    words = ("--llm-gate", str(gate(run, max_drop=0.5)), "--llm-baseline", str(old))
    done = run("--model", model(run), *ours, *words)
    assert done.code == 4, done.output
    assert said in done.output
    assert calls(run) == []
    assert not (done.folder / "run.json").exists()


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"complete": False}, "baseline base is incomplete; choose a complete run"),
        ({"models": {"old": {}, "second": {}}}, "baseline base holds 2 models"),
        ({"models": {"old": {"served_as": ["a", "b"]}}}, "baseline base mixes replies of 2 served models"),
        ({}, "baseline base: run.json has correct 40 of sums/add/en/builtin"),
    ],
    ids=["incomplete", "models", "served models", "contradiction"],
)
def test_a_baseline_that_no_gate_can_use_is_refused(run: Runner, facts: dict[str, Any], said: str) -> None:
    """What makes every decision invalid is found before the first call."""
    run.sums(ITEMS)
    old = baseline(run, "c" * ITEMS, **facts)
    if not facts:
        run.change("base/verdicts.jsonl", '"correct"', '"wrong"', 1)
    done = run("--model", model(run), "--llm-gate", str(gate(run, max_drop=0.5)), "--llm-baseline", str(old))
    assert done.code == 4, done.output
    assert f"--llm-baseline {old}: the gate would be invalid: {said}" in done.output
    assert calls(run) == []
    assert not (done.folder / "run.json").exists()


def test_a_header_may_choose_the_model(run: Runner) -> None:
    """A gateway that routes by a header serves another model under the same name, which is asked and judged."""
    run.sums(ITEMS)

    def respond(call: Call) -> Answer:
        number = int(call.prompt.split()[0]) + (call.headers["x-route"] == "a")
        message = {"role": "assistant", "content": str(number)}
        return 200, {}, {"model": "m", "choices": [{"finish_reason": "stop", "message": message}]}

    def routed(route: str, url: str, *args: str) -> Finished:
        headers = ("--llm-header", f"X-Route={route}", "--llm-header", f"X-Key={route}")
        return run("--model", "m", "--llm-base-url", f"{url}/v1", "-n", "2", *headers, *args)

    with serving(respond) as url:
        before = routed("a", url)
        gated = ("--llm-gate", str(gate(run, max_drop=0.3)), "--llm-baseline", str(before.folder))
        done = routed("b", url, *gated)
    assert (done.code, done.run["gate"]["decision"]) == (1, "fail"), done.output
    assert done.run["calls"]["sent"] == ITEMS
    [one], [other] = (list(facts["models"].values()) for facts in (before.run, done.run))
    assert one["identity"].keys() == other["identity"].keys()
    assert list(one["identity"]["headers"]) == list(other["identity"]["headers"]) == ["x-route"]
    assert one["identity"]["headers"] != other["identity"]["headers"]


@pytest.mark.parametrize(("route", "code"), [("a", 0), ("b", 4)])
def test_a_header_also_chooses_a_helper(run: Runner, route: str, code: int) -> None:
    """A helper that another route may serve is found before the first call."""
    run.sums(ITEMS)
    run.change("test_sums.py", 'name = "sums"', 'name = "sums"\n    roles = frozenset({"reader"})')
    hashes = CallOptions(headers={"X-Route": "a"}).header_hashes
    identity = {"backend": "openai", "name": "m", "base_url": "http://gateway/v1", "headers": hashes}
    old = baseline(run, "c" * ITEMS, helpers={"reader": {"spec": "openai:m", "identity": identity}})
    done = run(
        "--model", model(run), "--llm-helper", "reader=openai:m", "--llm-base-url", "http://gateway/v1",
        "--llm-header", f"X-Route={route}", "--llm-gate", str(gate(run, max_drop=0.5)), "--llm-baseline", str(old),
        "--collect-only",
    )  # fmt: skip
    assert done.code == (code or 7), done.output
    assert ("the gate would be invalid: helper model reader: " in done.output) == (code == 4)


def test_replies_of_the_baseline_are_not_judged(run: Runner, workers: str) -> None:
    """A candidate whose replies are all stored ones of its baseline was not measured; one that is asked again was."""
    run.sums(ITEMS)
    same = ("--model", model(run, SOME), "-n", workers)
    before = run(*same)
    gated = ("--llm-gate", str(gate(run, max_drop=0.3)), "--llm-baseline", str(before.folder))
    calls(run)
    done = run(*same, *gated)
    assert calls(run) == []
    assert (done.code, done.run["gate"]["decision"]) == (7, "invalid"), done.output
    assert (
        "\nINVALID: all replies of this run are those of baseline run-1, so nothing was measured"
        in done.output
    )
    again = run(*same, *gated, "--llm-cache", "refresh")
    assert (again.code, again.run["gate"]["decision"]) == (0, "pass"), again.output
    assert recorded_gate(run, done, run.folder / "gate.toml", before.folder).code == 7


@pytest.mark.parametrize(
    ("rule", "limit", "message", "plan"),
    [
        ("max_drop = 0.05", (), "the 40 pairs of the benchmark are too few to decide; max_drop = 0.09 can be met", ()),
        (
            "min_accuracy = 0.95",
            (),
            "40 items of the benchmark are too few to decide; min_accuracy = 0.91 can be met",
            ("--llm-plan",),
        ),
        (
            "max_drop = 0.1\nmin_items = 20", ("--llm-limit", "20"),
            "36 pairs would decide; max_drop = 0.17 can be met", (),
        ),
        (
            "max_refused = 0.5", ("--llm-limit", "20"), "20 answered items are fewer than min_items = 30",
            ("--llm-plan",),
        ),
    ],
    ids=["margin", "accuracy", "drop", "items"],
)  # fmt: skip
def test_rule_that_cannot_be_met_is_refused(
    run: Runner, rule: str, limit: tuple[str, ...], message: str, plan: tuple[str, ...]
) -> None:
    """A rule that no answers could meet is refused before the first call; the line says which number would do."""
    run.sums(ITEMS)
    words = ["--llm-gate", str(gate(run, f"{RULE}{rule}\n"))]
    if rule.startswith("max_drop"):
        words += ["--llm-baseline", str(baseline(run, "c" * (20 if limit else ITEMS)))]
    done = run("--model", model(run), *limit, *words, *plan)
    assert done.code == 4, done.output
    assert "rule 'sums' cannot be met by the selected items, whatever the answers: " in done.output
    assert message in done.output
    assert calls(run) == []
    assert not (done.folder / "run.json").exists()


def test_gate_asks_again_for_replies_older_than_a_day(run: Runner) -> None:
    """Under a gate, stored replies of an unpinned model expire after 24 hours, or ``llm_cache_age``."""
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
    args = ("--model", "drifting", "-n", "2")
    assert run(*args).run["calls"]["sent"] == 35
    _make_older(run, hours=23)
    assert run(*args, *gated).run["calls"]["sent"] == 0
    _make_older(run, hours=2)
    assert run(*args).run["calls"]["sent"] == 0
    assert run(*args, *gated, "-o", "llm_cache_age=7d").run["calls"]["sent"] == 0
    assert run(*args, *gated).run["calls"]["sent"] == 35


def _make_older(run: Runner, hours: float) -> None:
    with sqlite3.connect(run.store) as db:
        reply = "json_set(reply, '$.stored', reply ->> '$.stored' - :s)"
        earlier = f"UPDATE replies SET stored = stored - :s, reply = {reply}"
        assert db.execute(earlier, {"s": hours * 3600}).rowcount == 35


@pytest.mark.parametrize(
    ("temperature", "repeats", "warns"), [("0.7", "1", True), ("0", "1", False), ("0.7", "3", False)]
)
def test_header_warns_of_single_samples(run: Runner, temperature: str, repeats: str, warns: bool) -> None:
    """Before the first call, a gate says that it compares single samples of a model that samples its replies."""
    suite = (HTEST, f"--rootdir={run.folder}", "--llm-limit", "40", "-k", "rhyme")
    words = [*suite, "--model", "fake:constant?text=A", "--llm-set", f"htest.temperature={temperature}"]
    before = run(*words, "--llm-repeats", repeats).folder
    file = run.write("gate.toml", '[[rule]]\nbenchmark = "htest"\nmax_drop = 0.5\n')
    gated = ("--llm-gate", str(file), "--llm-baseline", str(before), "--llm-repeats", repeats, "--llm-plan")
    output = " ".join(run(*words, *gated).output.split())
    assert ("htest: one sample per item at a temperature above 0" in output) == warns
    assert "plan" in output


@pytest.mark.parametrize(
    ("option", "workers"),
    [
        ("--llm-plan", "2"),
        ("--collect-only", "0"),
        ("--fixtures", "2"),
        ("--fixtures-per-test", "0"),
        ("--setup-plan", "2"),
    ],
)
def test_what_runs_no_case_is_not_decided(run: Runner, workers: str, option: str) -> None:
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
    shown = {"--llm-plan": "no call is made", "--fixtures": "verdict --", "--fixtures-per-test": "verdict --"}
    assert shown.get(option, "sums/0001") in done.output
    assert run(*args).code == 0
    wrong = run(*args, "--llm-gate", str(gate(run, '[[rule]]\nbenchmark = "x"\nmin_accuracy = 0.5')))
    assert wrong.code == 4
    assert "matches nothing" in wrong.output


def test_record_that_is_changed_during_the_run_is_invalid(run: Runner) -> None:
    """The hashes are those of the verdicts that were reported, so the gate of the run and later ones see the change."""
    run.sums(ITEMS)
    run.write("conftest.py", CHANGING)
    file = gate(run, min_accuracy=0.1)
    done = run("--model", run.adder, "-n", "0", "--llm-gate", str(file))
    assert (done.run["gate"]["decision"], done.code) == ("invalid", 7), done.output
    reason = "this run: verdicts.jsonl was changed after the run"
    assert done.run["gate"]["reasons"][0].startswith(reason)
    again = recorded_gate(run, done, file)
    assert again.code == 7
    assert reason in again.output
    assert "verdicts.jsonl was changed by another program during the run" in done.run["notes"][-1]


def test_hash_of_the_requests_is_of_the_whole_file(run: Runner, workers: str) -> None:
    """The broker appends to the requests until it is closed; the hash is computed afterwards."""
    run.sums(ITEMS)
    file = gate(run, min_accuracy=0.1)
    done = run("--model", run.adder, "-n", workers, "--llm-gate", str(file))
    assert len(done.requests) == 40
    assert set(done.run["files"]) == {"verdicts.jsonl", "requests.jsonl"}
    again = recorded_gate(run, done, file)
    assert (again.code, done.code) == (0, 0), again.output
    facts = done.run
    facts["options"]["limit"] = 3
    (done.folder / "run.json").write_text(json.dumps(facts))
    again = recorded_gate(run, done, file)
    assert again.code == 7
    assert "INVALID: this run: run.json was changed after the run" in again.output


@pytest.mark.parametrize("bound", [False, True])
def test_adjusted_accuracy_needs_a_limit_on_the_replies_that_are_read(run: Runner, bound: bool) -> None:
    """Before the first call, and for a record: a reply can tell the reader model of H-TEST to answer "none"."""
    rules = '[[rule]]\nbenchmark = "htest"\nmetric = "adjusted_accuracy"\nmin = 0.1\n'
    rules += '[[rule]]\nbenchmark = "htest"\nmetric = "read_rate"\nmin = 0.1\n' * bound
    file = gate(run, rules)
    suite = (HTEST, f"--rootdir={ROOT}", "-k", "rhyme", "--llm-size", "small")
    done = run(*suite, "--model", "fake:constant?text=A", "--llm-gate", str(file))
    said = "a reply without an answer is left out of adjusted_accuracy, so add a rule for the same selection"
    assert (said in done.output) != bound
    assert (done.code == 4) != bound, done.output
    measured = run(*suite, "--model", "fake:constant?text=A")
    decided = recorded_gate(run, measured, file)
    assert (said in decided.output, "INVALID" in decided.output) == (not bound, not bound), decided.output
