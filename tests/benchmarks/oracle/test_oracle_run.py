"""The oracle-checker through pytest: tasks by the answer, helpers, gates, comparisons, and searches on pairs."""

from __future__ import annotations

import json
from collections import Counter

from tests.support.gated_runs import command, gate_lines
from tests.support.runs import ROOT, Finished, Runner

SUITE = """
import pytest


@pytest.mark.llmprops("oracle")
def test_oracle(verdict):
    assert verdict
"""
CONFTEST = """
from tests.support.oracle_runs import Helper
from pytest_llmprops import register_model

register_model("wordpairs", lambda spec, options: Helper(), kinds=("parse", "embed"))
"""
MODEL = """
from tests.support.oracle_runs import Subject


def turned(text):
    words = text.split()
    return [" ".join([*words[2:], *words[:2]])]


subject = Subject(same=lambda first, second: {same}, paraphrases=turned)


def reply(chat):
    with open("asked", "a") as file:
        file.write(".")
    return subject(chat)
"""
#: the helper aligns equal words only, so paraphrases have the words of their sentence
HELPERS = (
    "--llm-helper", "parse=wordpairs", "--llm-helper", "embed=wordpairs", "--llm-set", "oracle.distance=0",
)  # fmt: skip
PAIRS = ("-k", "oracle/pair and not +")
#: only a text and its own paraphrase are equivalent; no texts are
HONEST, NO = "sorted(first.split()) == sorted(second.split())", "False"


def model(run: Runner, same: str, name: str = "model") -> str:
    """Return a model that judges by this expression."""
    return f"fake:call?file={run.write(f'{name}.py', MODEL.format(same=same))}"


def ask(run: Runner, same: str, *more: str, name: str = "model") -> Finished:
    """Run the suite on built-in pairs."""
    run.write("test_oracle.py", SUITE)
    run.write("conftest.py", CONFTEST)
    return run("--model", model(run, same, name), *HELPERS, *more, "-q")


def tasks(done: Finished) -> dict[str, int]:
    """Return the verdicts by task."""
    return dict(Counter(v["task"] for v in done.verdicts.values()))


def rule(run: Runner, text: str, head: str = "") -> str:
    """Write a gate file with one rule for the oracle-checker."""
    return str(run.write("gate.toml", f'{head}\n[[rule]]\nbenchmark = "oracle"\nmin_items = 1\n{text}\n'))


def test_the_answer_decides_the_task(run: Runner) -> None:
    """Summary and metrics are by the model's answer, and the number of pairs is by the label."""
    honest = ask(run, HONEST, *PAIRS, "--llm-limit", "4", "-n", "0")
    measured = list(honest.verdicts.values())
    assert [v["values"]["label"] for v in measured].count(1) == 4
    assert tasks(honest)["no"] > 4, "labels of both kinds are called not equivalent"
    assert all(v["task"] == ("yes" if v["values"]["said_yes"] else "no") for v in measured)
    assert {r["task"]: r["items"] for r in honest.run["summary"]} == tasks(honest)
    metrics = {(m["task"], m["name"], m["group"]): m["value"] for m in honest.run["metrics"]}
    agreed = [v["values"]["said_yes"] == v["values"]["label"] for v in measured]
    assert metrics["pairs", "label_agreement", ""] == sum(agreed) / 8
    assert metrics["no", "acceptance_rate", ""] == 1.0
    helpers = honest.run["helpers"]
    assert {role: helpers[role]["identity"]["backend"] for role in helpers} == dict.fromkeys(
        ("parse", "embed"), "wordpairs"
    )
    assert "a rejected answer is not trusted; it is never turned into its opposite" in honest.output
    assert "passes its test with probability at most 0.5" in honest.output


def extracted(run: Runner, name: str, *more: str) -> Finished:
    """Measure an extractor of ``tests/support/oracle_fakes.py`` on built-in sentences."""
    run.write("test_oracle.py", SUITE)
    model = f"fake:call?file={ROOT / 'tests' / 'support' / 'oracle_fakes.py'}&function={name}"
    return run("--model", model, "-k", "oracle/general", "--llm-limit", "60", *more, "-q")


def values(done: Finished) -> dict[tuple[str, str], float]:
    """Return the metrics of a run by name and group."""
    return {(row["name"], row["group"]): row["value"] for row in done.run["metrics"]}


def test_acceptance_decides_no_gate(run: Runner) -> None:
    """A rule on pairs without a named metric is refused before the first call: knowing nothing could meet it."""
    before = ask(run, NO, *PAIRS, "--llm-limit", "2")
    calls = len((run.folder / "asked").read_text())
    compared = ("--baseline", str(before.folder))
    for text in ('task = "no"\nmin_accuracy = 0.1', 'task = "*"\nmax_drop = 0.1', "max_drop = 0.5"):
        file = rule(run, text)
        again = command(run, "gate", str(before.folder), "--gate", file, *compared)
        assert "INVALID" in again.output
        done = ask(
            run, NO, *PAIRS, "--llm-limit", "2", "--llm-gate", file, "--llm-baseline", str(before.folder)
        )
        assert done.code == 4, done.output
        assert "whose accuracy says nothing by itself: name another task, or a metric" in done.output
    assert len((run.folder / "asked").read_text()) == calls


def test_precision_and_coverage_decide_a_gate(run: Runner) -> None:
    """A model that says no to all pairs and knows its own paraphrases is accepted each time, but fails the gate."""
    text = 'metric = "accepted_precision"\nmin = 0.9\n\n[[rule]]\nbenchmark = "oracle"\nmetric = "coverage"\nmin = 0.5'
    done = ask(run, HONEST, *PAIRS, "--llm-limit", "30", "--llm-gate", rule(run, text))
    metrics = {(m["task"], m["name"], m["group"]): m["value"] for m in done.run["metrics"]}
    assert metrics["pairs", "coverage", ""] > 0.9
    assert metrics["pairs", "accepted_precision", ""] < 0.6
    assert done.run["gate"]["decision"] == "fail", gate_lines(done.output)
    assert [check["verdict"] for r in done.run["gate"]["rules"] for check in r["checks"] if check["kind"] == "min"] == [
        "failed", "met",
    ]  # fmt: skip
    assert "WARNING: pairs: no conclusion: " in done.output
    assert "the mean" not in done.output


def test_a_gate_refuses_an_extractor_that_is_blind_after_a_change(run: Runner) -> None:
    """Linear answers that miss every replaced name are wrong, whatever the rule of the gate is about."""
    perfect, blind = (extracted(run, name) for name in ("perfect", "blind_after_a_change"))
    assert values(blind)["acceptance_rate", ""] == 1
    assert values(blind)["faithful_acceptance_rate", ""] == 0
    file = rule(run, 'task = "linearity"\nmax_drop = 0.05')
    decided = command(run, "gate", str(blind.folder), "--gate", file, "--baseline", str(perfect.folder))
    assert (decided.code, "FAIL: " in decided.output) == (1, True)


JUDGE = """
from tests.support.oracle_runs import Subject

reply = Subject(
    same=lambda first, second: first in second or second in first,
    paraphrases=lambda text: [f"It is said, {text}", f"They say that {text}"],
)
"""


def test_accepted_pairs_are_searched(run: Runner) -> None:
    """A search is made on accepted pairs only, for one of the two properties."""
    run.write("conftest.py", CONFTEST)
    suite = run.write("test_oracle.py", (ROOT / "suites" / "test_oracle.py").read_text(encoding="utf-8"))
    model = f"fake:call?file={run.write('model.py', JUDGE)}"
    done = run(str(suite), "--model", model, *HELPERS, *PAIRS, "--llm-limit", "4", "-q")
    lines = [json.loads(line) for line in (done.folder / "searches.jsonl").read_text("utf-8").splitlines()]
    accepted = {name for name, row in done.verdicts.items() if row["status"] == "correct"}
    assert {line["id"] for line in lines} == accepted != set()
    assert {line["property"] for line in lines} <= {"no", "symmetry"}
    assert all(line["counterexample"] is None for line in lines)
