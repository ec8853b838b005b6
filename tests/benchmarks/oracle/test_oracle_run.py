"""The oracle-checker through pytest: tasks by the answer, helpers, gates and comparisons of
different runs.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.gated_runs import command, gate_lines
from tests.support.runs import Finished, Runner

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
HELPERS = ("--llm-helper", "parse=wordpairs", "--llm-helper", "embed=wordpairs")
PAIRS = ("-k", "oracle/pair and not +")
#: all texts are equivalent; only a text and its own paraphrase are; no texts are
YES, HONEST, NO = "True", "sorted(first.split()) == sorted(second.split())", "False"


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


def test_the_answer_decides_the_task(run: Runner, workers: str) -> None:
    """Summary and metrics are by the model's answer, and the number of pairs is by the label."""
    limited = (*PAIRS, "--llm-limit", "4", "-n", workers)
    said_yes, honest = ask(run, YES, *limited), ask(run, HONEST, *limited, name="other")
    assert tasks(said_yes) == {"yes": 8}
    assert set(said_yes.verdicts) == set(honest.verdicts)
    assert [(r["task"], r["items"], r["errors"]) for r in said_yes.run["summary"]] == [("yes", 8, 0)]
    measured = list(honest.verdicts.values())
    assert tasks(honest)["no"] > 4, "labels of both kinds are called not equivalent"
    assert all(v["task"] == ("yes" if v["values"]["said_yes"] else "no") for v in measured)
    metrics = {(m["task"], m["name"], m["group"]): m["value"] for m in honest.run["metrics"]}
    agreed = [v["values"]["said_yes"] == v["values"]["label"] for v in measured]
    assert metrics["pairs", "label_agreement", ""] == sum(agreed) / 8
    assert metrics["no", "acceptance_rate", ""] == 1.0
    helpers = said_yes.run["helpers"]
    assert {role: helpers[role]["identity"]["backend"] for role in helpers} == {
        "parse": "wordpairs",
        "embed": "wordpairs",
    }
    assert "a rejected answer is not trusted; it is never turned into its opposite" in honest.output
    assert "passes 1 test with probability at most 0.5" in honest.output


def test_sentences_need_no_helper(run: Runner) -> None:
    """Linearity is measured without a helper, and the summary has the bound."""
    run.write("test_oracle.py", SUITE)
    done = run("--model", model(run, NO), "-k", "oracle/general", "--llm-limit", "3", "-q")
    assert tasks(done) == {"linearity": 3}
    assert done.run["helpers"] == {}
    assert (
        "an extractor 0.1-far from linear would have been rejected with probability at least 0.561"
        in done.output
    )
    assert all(v["values"]["rule"] == 1 for v in done.verdicts.values() if v["values"].get("tests"))


def test_own_sentences(run: Runner) -> None:
    """`llmprops oracle sentences` turns a text file into items, and only these are measured."""
    run.write("mine.txt", "Then Oslo wrote to Lima.\nThen Lima wrote to Oslo.\n")
    assert command(run, "oracle", "sentences", "mine.txt", "--out", "mine").code == 0
    run.write("test_oracle.py", SUITE)
    done = run(
        "--model", model(run, NO), "--llm-source", "published", "--llm-data", str(run.folder / "mine"), "-q"
    )
    assert sorted(done.verdicts) == ["oracle/own/0001", "oracle/own/0002"], done.output
    assert {v["source"] for v in done.verdicts.values()} == {"generated"}
    assert done.code == 0


# ---- gates


@pytest.mark.parametrize("sequential", [False, True])
def test_gate_pairs_items_with_different_answers(run: Runner, sequential: bool, workers: str) -> None:
    """If the baseline says "no" and the model "yes", the gate judges all pairs, with none missing or new."""
    before = ask(run, HONEST, *PAIRS, "--llm-limit", "40")
    file = rule(run, "max_drop = 0.2", "sequential = true" if sequential else "")
    limited = (*PAIRS, "--llm-limit", "40", "-n", workers, "--llm-concurrency", "16")
    gated = (*limited, "--llm-gate", file, "--llm-baseline", str(before.folder))
    done = ask(run, YES, *gated, name="other")
    decided = done.run["gate"]
    assert tasks(done).keys() == {"yes"}, gate_lines(done.output)
    assert decided["decision"] == "fail", gate_lines(done.output)
    assert "missing" not in " ".join([*decided["reasons"], *decided["notes"]]), decided
    assert decided["items_of"] == 80
    assert (decided["items_used"] < 80) == sequential
    again = command(run, "gate", str(done.folder), "--gate", file, "--baseline", str(before.folder))
    assert "gate decision: fail" in again.output
    assert again.code == 1


def test_a_rule_on_a_task_counts_the_answers(run: Runner) -> None:
    """A rule on "no" judges all pairs that the model calls not equivalent, including those labelled "yes"."""
    file = rule(run, 'task = "no"\nmin_accuracy = 0.8')
    done = ask(run, HONEST, *PAIRS, "--llm-limit", "30", "--llm-gate", file)
    assert done.run["gate"]["decision"] == "pass", gate_lines(done.output)
    assert done.code == 0, gate_lines(done.output)
    assert done.run["gate"]["rules"][0]["items"] == tasks(done)["no"] > 30


def test_rule_may_name_any_possible_answer(run: Runner) -> None:
    """A rule on "no" is accepted if all pairs are labelled "yes", but a rule on another task is not."""
    labelled_yes = ("-k", "oracle/pair/001] or oracle/pair/005]")
    done = ask(run, NO, *labelled_yes, "--llm-gate", rule(run, 'task = "no"\nmin_accuracy = 0.1'))
    assert tasks(done).keys() == {"no"}, done.output
    assert "gate decision: " in done.output, done.output
    other = ask(run, NO, *labelled_yes, "--llm-gate", rule(run, 'task = "linearity"\nmin_accuracy = 0.1'))
    assert other.code == 4
    assert "matches nothing" in other.output


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_sequential_rule_cannot_name_an_answer(run: Runner, workers: str) -> None:
    """A sequential rule on "no" is refused in one line, because the answers are unknown before the
    requests.
    """
    file = rule(run, 'task = "n*"\nmin_accuracy = 0.5', "sequential = true")
    done = ask(run, HONEST, "-k", "oracle", "--llm-limit", "3", "-n", workers, "--llm-gate", file)
    assert done.code == 4, done.output
    [line] = [text for text in done.output.splitlines() if "only the answers of oracle" in text][:1]
    assert "decide which items are no or yes" in line
    assert "remove the rule's task or sequential = true" in line
    assert not (run.folder / "asked").exists()


@pytest.mark.parametrize("task", ["linearity", "*", "[ny]*"])
def test_other_sequential_rules_are_accepted(run: Runner, task: str) -> None:
    """A sequential rule on another task, or on both answers together, is accepted."""
    file = rule(run, f'task = "{task}"\nmin_accuracy = 0.05', "sequential = true")
    done = ask(run, HONEST, "-k", "oracle/pair or oracle/general", "--llm-limit", "6", "--llm-gate", file)
    assert done.run["gate"]["decision"] in ("pass", "fail", "inconclusive"), done.output


def test_two_runs_are_compared(run: Runner) -> None:
    """`llmprops compare` shows the flipped pairs under the newer answer, and `report` writes its page."""
    before = ask(run, YES, *PAIRS, "--llm-limit", "4")
    after = ask(run, HONEST, *PAIRS, "--llm-limit", "4", name="other")
    flipped = [n for n, v in before.verdicts.items() if v["status"] != after.verdicts[n]["status"]]
    done = command(run, "compare", str(before.folder), str(after.folder))
    assert done.code == 0, done.output
    assert flipped, done.output
    assert all(name in done.output for name in flipped)
    written = command(run, "report", str(before.folder), str(after.folder), "--out", "out")
    assert written.code == 0, written.output
    page = (run.folder / "out" / "report.md").read_text(encoding="utf-8")
    assert "## Oracle-checker" in page
    assert "Answers of no that are accepted (Table 5)" in page


def test_plan_of_tests_until_a_bound(run: Runner) -> None:
    """The plan prints the expected and the highest number of calls for the tests, and sends nothing."""
    run.write("test_oracle.py", SUITE)
    selected = ("-k", "oracle/general", "--llm-limit", "3", "--llm-plan", "-q")
    bound = ("--llm-set", "oracle.epsilon=0.1", "--llm-set", "oracle.delta=0.05")
    done = run("--model", model(run, NO), *selected, *bound)
    assert "  oracle: tests of linearity take 37 calls per accepted sentence with 4 entities" in done.output
    assert "3 sentences: 111 expected, 297 at most" in done.output
    plain = run("--model", model(run, NO), *selected)
    assert "tests of linearity" not in plain.output
    assert not (run.folder / "asked").exists()
