"""The checker in docs/oracle.md runs unchanged, has under 40 lines, and does what the page says."""

from __future__ import annotations

import asyncio
import json
import random
import re
import types
from dataclasses import fields
from typing import Any

import pytest
from scipy.stats import binomtest

from pytest_llmprops import Oracle, Reply
from pytest_llmprops.benchmarks.oracle.metric_names import DIRECTIONS
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings
from pytest_llmprops.core.requests import Chat
from tests.support.runs import ROOT, Runner

PAGE = (ROOT / "docs" / "oracle.md").read_text("utf-8")
EXAMPLE, SEARCHED = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
LENGTHS = ["Nile", "Amur", "Congo", "Volga", "Indus", "Rhine", "Tagus", "Ebro", "Thames"]

MODELS = {
    # by length, with one word too many
    "knows": "return 'The ' + min(re.findall(r'[A-Z][a-z]+(?= or|\\?)', text), key={lengths}.index) + '.'",
    # always the first one named, which makes cycles
    "first": "return re.search(r': (\\w+) or', text)[1]",
    "silent": "return 'It depends.'",
}


def model(run: Runner, name: str) -> str:
    """Return the specification of one of the models."""
    body = MODELS[name].format(lengths=LENGTHS) if name == "knows" else MODELS[name]
    file = run.write(f"{name}.py", f"import re\n\ndef reply(chat):\n    text = chat.prompt\n    {body}\n")
    return f"fake:call?file={file}"


def test_example_checker_has_fewer_than_40_lines() -> None:
    """The checker, benchmark and test together are as short as the page claims."""
    assert 20 < len(EXAMPLE.splitlines()) < 40


@pytest.mark.parametrize(
    ("name", "status", "reason", "code"),
    [
        ("knows", "correct", "0 of 3 triples are cycles", 0),
        ("first", "wrong", "3 of 3 triples are cycles", 1),
        ("silent", "unparsed", "a reply names none of the two, or both", 1),
    ],
)
def test_example_checker_runs_unchanged(run: Runner, name: str, status: str, reason: str, code: int) -> None:
    """A model with an order is accepted, one that picks the first is not, and no answer is undecided."""
    run.write("test_rivers.py", EXAMPLE)
    done = run("--model", model(run, name), "-q")
    assert done.code == code, done.output
    verdict = done.verdicts["rivers/0001"]
    assert (verdict["status"], verdict["reason"], verdict["task"]) == (status, reason, "length")
    assert len(verdict["requests"]) == 9


@pytest.mark.parametrize(("counts", "code"), [(12, 1), (60, 0)])
def test_example_search_runs_unchanged(run: Runner, counts: int, code: int) -> None:
    """A model that counts to 12 miscounts 13 letters, and one that counts to 60 has no counterexample."""
    run.write("test_letters.py", SEARCHED)
    body = f"n = chat.prompt.split()[4].count('a')\n    return str(n if n <= {counts} else {counts})"
    file = run.write("counter.py", f"def reply(chat):\n    {body}\n")
    done = run("--model", f"fake:call?file={file}", "-q")
    assert done.code == code, done.output
    assert done.verdicts["letters/a"]["status"] == "correct"
    [result] = [json.loads(line) for line in (done.folder / "searches.jsonl").read_text("utf-8").splitlines()]
    if code:
        assert result["counterexample"] == {
            "why": "miscounts 13 letters", "letters": 13, "evidence": {"reply": "12"},
        }  # fmt: skip
        assert "  letters/a: miscounts 13 letters" in done.output
    else:
        assert result["counterexample"] is None
        assert result["examples"] > 30


def test_coin_is_accepted_as_often_as_the_bound_says() -> None:
    """A fair coin makes no cycle in three triples with probability 0.75 cubed."""
    module = types.ModuleType("rivers")
    exec(compile(EXAMPLE, "docs/oracle.md", "exec"), module.__dict__)
    rng = random.Random(4)

    async def coin(chat: Chat) -> Reply:
        two = re.search(r": (\w+) or (\w+)\?", chat.prompt)
        assert two
        return Reply(two[rng.randint(1, 2)])

    async def trials(count: int) -> list[Any]:
        [item] = module.Rivers().load(None)
        return [await module.Order().check(item, Oracle(coin), rng) for _ in range(count)]

    result = asyncio.run(trials(2000))
    assert {f.bound.probability for f in result} == {0.75**3}
    assert binomtest(sum(f.accepted for f in result), 2000, 0.75**3).pvalue > 0.001


def test_page_lists_the_existing_metrics_and_settings() -> None:
    """The page lists every metric, only existing metrics and settings, and the number of built-in items."""
    section = PAGE[PAGE.index("## Metrics") : PAGE.index("```toml")]
    named = {name for row in re.findall(r"^\| .*", section, re.M) for name in re.findall(r"`([a-z_]+)`", row)}
    groups = {"linearity", "accepted", "general", "technical", "yes", "no", "pairs", "or", "and"}
    assert named - groups == set(DIRECTIONS)
    settings = {field.name for field in fields(OracleSettings)}
    assert set(re.findall(r"oracle\.([a-z_]+)=", PAGE)) <= settings
    tables = PAGE[PAGE.index("## Settings") : PAGE.index("## Metrics")]
    values = {
        "paper",
        "quick",
        "any",
        "majority",
        "or",
        "asked",
        "potential",
        "uniform",
        "informative",
        "even",
        "indifferentiable",
        "covering",
        "printed",
        "bar",
        "allow",
    }
    assert set(re.findall(r"`([a-z_]+)`", tables)) - values <= settings
    for name, what in (("general", "general"), ("technical", "technical"), ("pairs", "labelled pairs")):
        rows = len((ROOT / "data" / "oracle" / f"{name}.jsonl").read_text("utf-8").splitlines())
        assert re.search(rf"\b{rows} {what}", PAGE), (rows, what)
