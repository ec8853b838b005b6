"""Searches for edits that change a right answer, through the suites: counterexamples, records, counts, and none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.runs import DEFAULT_PLUGINS, ROOT, Finished, Runner

#: which items are measured and searched, a model that has learnt the property, and one that has not
HTEST = """
def reply(chat):
    text = chat.messages[-1].content.rpartition('Input: "')[2].partition('" Label')[0]
    return "A" if any(c.isupper() for c in READ) else "B"
"""
HOMOPHONES = """
def reply(chat):
    return 'It means "fridge".' if READ in chat.messages[-1].content else 'It means "cheese".'
"""
DTAILS = """
import re

def reply(chat):
    listed = re.findall(r"'([^']*)'", chat.messages[-1].content.rpartition("list: [")[2])
    return f"```{READ}```"
"""
ERAS = """
def twos(text):
    return [text[n : n + 2] for n in range(0, len(text), 2)]

def reply(chat):
    text = chat.messages[-1].content.rpartition("\\n")[2]
    before, site, after = text.partition("信心机")
    cut = ["信心", "机"] if READ in text else ["信", "心机"]
    return " ".join([*twos(before), *(cut if site else []), *twos(after)])
"""


@dataclass(frozen=True)
class Suite:
    """A suite, its items for ``-k``, and a model.

    :param right: what the model reads if its answers do not depend on edits. :param wrong: what it reads otherwise.
    :param edit: how the smallest counterexample begins.
    """

    name: str
    items: str
    model: str
    right: str
    wrong: str
    edit: str


#: The items are right for both models: one text begins with its only capital, "weet" is listed first.
SUITES = [
    Suite("htest", "uppercase/0088", HTEST, "text", "text.split()[0]", '"Apricot" and '),
    Suite("homophones", "en/0001 and asked", HOMOPHONES, "'In'", "'phrydge'", "spelled "),
    Suite("dtails", "af/know/02 and not translate", DTAILS, "'weet'", "listed[0]", "listed as ken, weet"),
    Suite("eras", "explicit/01/00028", ERAS, "''", "'演员'", " for 演员"),
]


def search(run: Runner, suite: Suite, read: str, *more: str, which: str = "correct") -> Finished:
    """Run the suite with a model."""
    run.plugins = (*DEFAULT_PLUGINS, "hypothesispytest")
    text = (ROOT / "suites" / f"test_{suite.name}.py").read_text(encoding="utf-8")
    file = run.write(f"test_{suite.name}.py", text)
    model = run.write("model.py", suite.model.replace("READ", read))
    chosen = ("-k", suite.items) if suite.items else ()
    setting = ("--llm-set", f"{suite.name}.search={which}")
    return run(str(file), "--model", f"fake:call?file={model}", *chosen, *setting, "-q", "-rs", *more)


def searches(done: Finished) -> list[dict[str, Any]]:
    lines = (done.folder / "searches.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_smallest_edit_is_found(run: Runner, suite: Suite) -> None:
    """A model whose answer depends on the edit fails the case with the smallest one; the verdict stays correct."""
    done = search(run, suite, suite.wrong)
    assert done.code == 1, done.output
    [row] = searches(done)
    found = row["counterexample"]
    assert found is not None, done.output
    [edit] = found["edits"]
    assert suite.edit in edit
    assert found["why"].startswith(f"{edit}: ")
    assert (found["replications"], found["replicated"]) == (5, 5)
    assert "search: 1 item searched, 1 counterexample" in done.output
    assert f"  {row['id']}: {found['why']}; repeats in 5 of 5" in done.output
    [verdict] = done.verdicts.values()
    assert verdict["status"] == "correct"
    assert "edit_right" not in verdict["values"]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_model_that_ignores_edits_has_none(run: Runner, suite: Suite) -> None:
    """A model whose answer does not depend on edits has no counterexample, within the limit of calls."""
    done = search(run, suite, suite.right, "--llm-set", f"{suite.name}.shrink_calls=30")
    assert done.code == 0, done.output
    [row] = searches(done)
    assert row["counterexample"] is None
    assert row["not_repeated"] is None
    assert 0 < row["requests"] <= 30
    assert "search: 1 item searched, 0 counterexamples" in done.output


def test_measured_edits_change_nothing_else(run: Runner) -> None:
    """With htest.edits=true, summary and verdicts are those without; two metrics and a remark are new."""
    suite = Suite("htest", "uppercase/005", HTEST, "", "text.split()[0]", "")
    plain, edited = (
        search(run, suite, suite.wrong, "--llm-set", f"htest.edits={on}", "-n", "2", which="none")
        for on in ("false", "true")
    )
    assert plain.run["summary"] == edited.run["summary"]
    names = {m["name"] for m in edited.run["metrics"]} - {m["name"] for m in plain.run["metrics"]}
    assert names == {"edit_violation_rate", "edit_accuracy"}
    rows = edited.verdicts.values()
    rate = next(m for m in edited.run["metrics"] if m["name"] == "edit_violation_rate")
    right = [row for row in rows if row["status"] == "correct"]
    wrong = [row for row in right if row["values"]["edit_right"] == 0]
    assert (rate["n"], rate["value"]) == (len(right), len(wrong) / len(right))
    assert 0 < len(wrong) < len(right)
    assert f"edits: {len(wrong)} of {len(right)} correct answers become wrong" in edited.output
    for name, row in plain.verdicts.items():
        kept = {key: value for key, value in row["values"].items() if not key.startswith("edit_")}
        assert row["values"] == kept
        assert {**edited.verdicts[name], "values": kept, "evidence": row["evidence"], "requests": 0} == {
            **row,
            "requests": 0,
        }


def test_nothing_is_searched_by_default(run: Runner) -> None:
    """A run without the setting has no case of a search; one that names a search says why it is skipped."""
    suite = Suite("htest", "", HTEST, "text", "", "")
    limit = ("--llm-limit", "1")
    done = search(run, suite, suite.right, *limit, which="none")
    assert len(done.verdicts) == 11
    assert "skipped" not in done.output
    assert not (done.folder / "searches.jsonl").exists()
    named = search(run, suite, suite.right, *limit, "-k", "search", which="none")
    assert "not searched: htest has no item to search under these settings" in named.output


def test_plan_has_edits_and_names_the_limit_of_searches(run: Runner) -> None:
    """The plan counts the question about the edit, and the most requests of a search."""
    suite = SUITES[0]
    done = search(run, suite, suite.right, "--llm-plan", "--llm-set", "htest.edits=true")
    assert "2 calls" in done.output
    assert "the searches of 1 items" in done.output.replace("1 item,", "1 items,")
    assert "at most 210 requests each" in done.output


def test_gate_does_not_see_a_counterexample(run: Runner) -> None:
    """A gate reads verdicts only, so it passes a run with a counterexample."""
    gate = run.write("gate.toml", '[[rule]]\nbenchmark = "htest"\nmax_refused = 0.5\nmin_items = 1\n')
    done = search(run, SUITES[0], SUITES[0].wrong, "--llm-gate", str(gate))
    assert searches(done)[0]["counterexample"] is not None
    assert done.code == 0, done.output
