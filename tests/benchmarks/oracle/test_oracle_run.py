"""The oracle-checker through pytest: tasks by the answer, helpers, gates, and searches on pairs."""

from __future__ import annotations

import json
from collections import Counter

from tests.support.gated_runs import gate_lines
from tests.support.runs import ROOT, WORD_HELPERS, Finished, Runner

MODEL = """
from tests.support.oracle_runs import Subject


def turned(text):
    words = text.split()
    return [" ".join([*words[2:], *words[:2]])]


# Only a text and its own paraphrase are equivalent.
reply = Subject(same=lambda first, second: sorted(first.split()) == sorted(second.split()), paraphrases=turned)
"""


def ask(run: Runner, *more: str, only: str = "oracle") -> Finished:
    """Run the suite on built-in pairs."""
    suite, file = str(ROOT / "suites" / "test_oracle.py"), run.write("model.py", MODEL)
    # The helper aligns equal words only, so paraphrases have the words of their sentence.
    options = (*WORD_HELPERS, "--llm-set", "oracle.distance=0", "-k", f"oracle/pair and not + and {only}")
    return run(suite, "--model", f"fake:call?file={file}", *options, *more, "-q")


def metrics(done: Finished) -> dict[tuple[str, str, str], float]:
    """Return the metrics of a run by task, name and group."""
    return {(m["task"], m["name"], m["group"]): m["value"] for m in done.run["metrics"]}


def test_the_answer_decides_the_task(run: Runner) -> None:
    """Summary and metrics are by the model's answer, and the number of pairs is by the label.

    A search is made on accepted pairs only, for one of the two properties.
    """
    honest = ask(run, "--llm-limit", "4", "-n", "0")
    measured = list(honest.verdicts.values())
    assert [v["values"]["label"] for v in measured].count(1) == 4
    tasks = Counter(v["task"] for v in measured)
    assert tasks["no"] > 4, "labels of both kinds are called not equivalent"
    assert all(v["task"] == ("yes" if v["values"]["said_yes"] else "no") for v in measured)
    assert {r["task"]: r["items"] for r in honest.run["summary"]} == tasks
    agreed = [v["values"]["said_yes"] == v["values"]["label"] for v in measured]
    assert metrics(honest)["pairs", "label_agreement", ""] == sum(agreed) / 8
    assert metrics(honest)["no", "acceptance_rate", ""] == 1.0
    helpers = {role: helper["identity"]["backend"] for role, helper in honest.run["helpers"].items()}
    assert helpers == dict.fromkeys(("parse", "embed"), "wordpairs")
    assert "a rejected answer is not trusted; it is never turned into its opposite" in honest.output
    assert "passes its test with probability at most 0.5" in honest.output
    lines = [json.loads(line) for line in (honest.folder / "searches.jsonl").read_text("utf-8").splitlines()]
    accepted = {name for name, row in honest.verdicts.items() if row["status"] == "correct"}
    assert {line["id"] for line in lines} == accepted != set()
    assert {line["property"] for line in lines} == {"no", "symmetry"}


GATE = """
[[rule]]
benchmark = "oracle"
min_items = 1
metric = "accepted_precision"
min = 0.9

[[rule]]
benchmark = "oracle"
metric = "coverage"
min = 0.5
"""


def test_precision_and_coverage_decide_a_gate(run: Runner) -> None:
    """A model that says no to all pairs and knows its own paraphrases is accepted each time, but fails the gate."""
    done = ask(run, "--llm-limit", "30", "--llm-gate", str(run.write("gate.toml", GATE)), only="not search")
    assert metrics(done)["pairs", "coverage", ""] > 0.9
    assert metrics(done)["pairs", "accepted_precision", ""] < 0.6
    assert done.run["gate"]["decision"] == "fail", gate_lines(done.output)
    checks = [check for rule in done.run["gate"]["rules"] for check in rule["checks"]]
    assert [check["verdict"] for check in checks if check["kind"] == "min"] == ["failed", "met"]
    assert "WARNING: pairs: no conclusion: " in done.output
    assert "the mean" not in done.output
