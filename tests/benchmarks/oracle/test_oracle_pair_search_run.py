"""Searches on pairs through pytest: cases, records, lines and unchanged measurements."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.runs import ROOT, Finished, Runner

CONFTEST = """
from tests.support.oracle_runs import Helper
from pytest_llmprops import register_model

register_model("wordpairs", lambda spec, options: Helper(), kinds=("parse", "embed"))
"""
MODEL = """
from tests.support.oracle_runs import Subject


def turned(text):
    return ["Rain fell.", " ".join(text.split()[:6])]


def words(*texts):
    return [{word.strip(".,").lower() for word in text.split()} for text in texts]


def overlap(first, second):
    one, two = words(first, second)
    return len(one & two) / len(one | two)


reply = Subject(same=lambda first, second: JUDGE, paraphrases=turned)
"""
THEATRE = "The theatre will reopen on 12 {} after a renovation that took three years."
NOVEMBER, DECEMBER = THEATRE.format("November"), THEATRE.format("December")


def search(
    run: Runner, judge: str, *more: str, items: str = "oracle/pair/004", which: str = "all"
) -> Finished:
    """Run the suite on some of the built-in pairs, with a model that judges by this expression."""
    run.write("conftest.py", CONFTEST)
    suite = run.write("test_oracle.py", (ROOT / "suites" / "test_oracle.py").read_text(encoding="utf-8"))
    model = f"fake:call?file={run.write('model.py', MODEL.replace('JUDGE', judge))}"
    return run(
        str(suite), "--model", model, "--llm-helper", "parse=wordpairs", "--llm-helper", "embed=wordpairs",
        "-k", f"({items}) and not +", "--llm-set", f"oracle.search={which}", *more, "-q", "-rs",
    )  # fmt: skip


def searches(done: Finished) -> dict[str, dict[str, Any]]:
    """Return ``searches.jsonl`` by property; one item is searched."""
    lines = (done.folder / "searches.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["property"]: row for row in map(json.loads, lines)}


def test_each_property_is_a_search(run: Runner, workers: str) -> None:
    """A model that only compares the last characters: a yes is flipped by a full stop; nothing else is found."""
    done = search(run, "first[-1] == second[-1]", "-n", workers)
    assert done.code == 1
    rows = searches(done)
    assert {name: bool(row["counterexample"]) for name, row in rows.items()} == {
        "yes": True, "symmetry": False, "transitivity": False,
    }  # fmt: skip
    assert "not searched: its answer is yes" in done.output
    said = rows["yes"]["counterexample"]
    assert said["edits"] == ["full stop"]
    assert len(said["sentences"]) == 3
    assert {*said["sentences"]} > {NOVEMBER, DECEMBER}
    assert [answer["answer"] for answer in said["answers"]] == ["yes", "no"]
    assert [answer["answer"] for answer in said["evidence"]["answers"]] == ["yes", "no"]
    assert "search (yes): 1 item searched, 1 counterexample" in done.output
    assert "search (symmetry): 1 item searched, 0 counterexamples" in done.output
    assert f"  oracle/pair/004: {said['why']}" in done.output
    assert "Traceback" not in done.output
    assert {row["property"] for row in done.run["searches"]} == {"yes", "symmetry", "transitivity"}


def test_a_no_that_contradicts_itself(run: Runner, workers: str) -> None:
    """A model that compares words says no to the pair, and yes to a paraphrase with both sentences."""
    done = search(run, "overlap(first, second) >= 0.9 or 'Rain' in first", "-n", workers)
    rows = searches(done)
    assert [*rows["no"]["counterexample"]["sentences"][:2]] == [NOVEMBER, DECEMBER]
    assert rows["no"]["counterexample"]["sentences"][2] == "Rain fell."
    assert [(a["first"], a["second"], a["answer"]) for a in rows["no"]["counterexample"]["answers"]] == [
        (1, 2, "no"), (3, 2, "yes"), (3, 1, "yes"),
    ]  # fmt: skip
    assert "not searched: its answer is no" in done.output


def test_an_asymmetric_model(run: Runner) -> None:
    """The answer that depends on the order is shown in both orders."""
    done = search(run, "len(first) < len(second)", items="oracle/pair/007")
    said = searches(done)["symmetry"]["counterexample"]
    assert {answer["answer"] for answer in said["answers"]} == {"yes", "no"}
    assert said["why"].endswith("to the same sentences in the other order")


def test_measurement_decides_what_is_searched(run: Runner) -> None:
    """By default, pairs are searched that the measurement rejected; none with oracle.search=none."""
    judge = "first[-1] == second[-1]"
    done = search(run, judge, which="rejected", items="oracle/pair/004 or oracle/pair/003 or oracle/pair/005")
    rejected = {name for name, row in done.verdicts.items() if row["given"] == "rejected"}
    lines = (done.folder / "searches.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["id"] for line in lines} == rejected != set()
    none = search(run, judge, which="none", items="oracle/pair/004 or oracle/pair/003 or oracle/pair/005")
    assert not (none.folder / "searches.jsonl").exists()
    for name in ("expected", "complete", "summary", "metrics", "remarks"):
        assert done.run[name] == none.run[name]


@pytest.mark.parametrize("most", [1, 9])
def test_calls_are_limited(run: Runner, most: int) -> None:
    """A search stops at oracle.shrink_calls and says so."""
    limits = ("--llm-set", f"oracle.shrink_calls={most}", "--llm-set", "oracle.replications=0")
    done = search(run, "first[-1] == second[-1]", *limits)
    rows = searches(done)
    assert rows["yes"]["spent"]
    assert all(row["requests"] <= most for row in rows.values())
    assert "stopped when their calls were spent" in done.output


def test_a_repeated_search_gives_the_same_result(run: Runner) -> None:
    """With stored replies only, the same points are tried and nothing is sent."""
    first, again = (
        search(run, "overlap(first, second) >= 0.86", *more) for more in ((), ("--llm-cache", "only"))
    )
    assert again.run["calls"]["sent"] == 0
    rows = [{name: {**row, "calls": 0} for name, row in searches(done).items()} for done in (first, again)]
    assert rows[0] == rows[1]
