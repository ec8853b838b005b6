"""The order of the options that select items: --llm-size, pytest's selection, --llm-limit, --llm-shard."""

from __future__ import annotations

import re

import pytest

from tests.support.cuts import write_cuts
from tests.support.runs import SUMS, Runner

#: items 0 to 399; the size leaves 300 of them; -k leaves those of 100 to 199 in the size
OPTIONS = ("--llm-size", "small", "-k", "sums/01", "--llm-limit", "20")
#: every item of the benchmark above is searched, too
SEARCHED = """

Sums.searches = lambda self, item, settings, name: True

@pytest.mark.llmprops(benchmark=Sums)
def test_search(search):
    pass
"""
ONLY_FROM_100 = """
def pytest_collection_modifyitems(config, items):
    config.hook.pytest_deselected(items=[item for item in items if "sums/00" in item.name])
    items[:] = [item for item in items if "sums/00" not in item.name]
"""


def write_sums(run: Runner, items: int = 400) -> None:
    """Write a benchmark of sums whose size ``small`` has three quarters of the items."""
    run.sums()
    sizes = f'name = "sums"\n    sizes = {{"small": {{"add": {items * 3 // 4}}}}}'
    run.write("test_sums.py", SUMS.replace("ITEMS", str(items)).replace('name = "sums"', sizes))


def ids(run: Runner, *options: str) -> list[str]:
    """Return the ids of the items that pytest collects, in order."""
    output = run("--model", run.adder, *options, "--collect-only", "-q").output
    return re.findall(r"^test_sums\.py::\w+\[.*-(sums/\d+)\]$", output, re.MULTILINE)


def test_limit_and_shard_come_after_the_selection(run: Runner, workers: str) -> None:
    """The limit counts what -k keeps of the size, and two shards are the limited run."""
    write_sums(run)
    of_size = ids(run, "--llm-size", "small", "-k", "sums/01")
    assert 60 < len(of_size) < 90
    done = run("--model", run.adder, *OPTIONS, "-n", workers)
    assert len(done.verdicts) == 20
    assert set(done.verdicts) <= set(of_size)
    assert done.run["selection"] == {"sums": {"items": 20, "of": 400}}
    parts = [set(ids(run, *OPTIONS, "--llm-shard", f"{n}/2")) for n in (1, 2)]
    assert parts[0] | parts[1] == set(done.verdicts)
    assert parts[0]
    assert not parts[0] & parts[1]


@pytest.mark.parametrize("items", [40, 400])
def test_every_way_to_select_comes_before_the_limit(run: Runner, items: int) -> None:
    """Node ids, --deselect and the hook of a conftest.py select first, of ordinary and of light cases."""
    write_sums(run, items)
    names = [f"sums/{n:04d}" for n in range(5, 9)]
    label = "fake-call-file=" + re.sub(r"[^\w.-]", "_", str(run.folder / "adder.py"))
    named = ids(run, *(f"test_sums.py::test_sums[{label}-{name}]" for name in names), "--llm-limit", "3")
    assert len(named) == 3
    assert set(named) < set(names)
    limited = ids(run, "--llm-limit", "10")
    others = ids(run, "--llm-limit", "10", "--deselect", f"test_sums.py::test_sums[{label}-{limited[0]}]")
    assert (len(limited), len(others), len({*limited, *others})) == (10, 10, 11)
    run.write("conftest.py", ONLY_FROM_100)
    assert len(ids(run, "--llm-limit", "10")) == (10 if items > 100 else 0)


def test_plan_and_gate_have_the_limited_selection(run: Runner) -> None:
    """The plan, the limit of calls and a gate's notes count the same items as the run."""
    write_sums(run)
    assert re.search(r"sums +\S+ +20 +20 ", run("--model", run.adder, *OPTIONS, "--llm-plan").output)
    gate = str(run.write("gate.toml", '[[rule]]\nbenchmark = "sums"\nmin_accuracy = 0.1\nmin_items = 20\n'))
    done = run("--model", run.adder, *OPTIONS, "--llm-gate", gate, "--llm-max-calls", "20")
    assert done.code == 0
    assert re.search(r"1\d of 20", done.output)
    refused = run("--model", run.adder, *OPTIONS, "--llm-max-calls", "19", "--llm-cache", "off")
    assert "20 calls" in refused.output
    assert refused.code == 2


def test_limit_counts_the_items_that_a_search_selects(run: Runner) -> None:
    """A limit chooses among the searched items, and the same ones among measured and searched items."""
    write_sums(run, 30)
    run.write("test_sums.py", (run.folder / "test_sums.py").read_text(encoding="utf-8") + SEARCHED)
    assert len(ids(run, "-k", "test_search", "--llm-limit", "4")) == 4
    both = ids(run, "-k", "sums/000", "--llm-limit", "4")
    assert both[:4] == both[4:]
    assert len(both) == 8


def test_group_keeps_the_items_within_the_limit(run: Runner) -> None:
    """A limit after -k counts items of groups, which stay in their cases; all repeats of an item stay."""
    cutter = write_cuts(run, case="ten")
    done = run("--model", cutter, "-k", "cuts/1 or cuts/2", "--llm-limit", "7")
    assert len(done.verdicts) == 7
    assert {v["cluster"] for v in done.verdicts.values()} <= {"c1", "c2"}
    write_sums(run, 30)
    (run.folder / "test_cuts.py").unlink()
    repeated = run("--model", run.adder, "-k", "sums/000", "--llm-limit", "3", "--llm-repeats", "2")
    assert (len(repeated.verdicts), repeated.run["expected"]) == (3, 6)
