"""Which items become cases: data folders, kinds of models, ``-k``, sizes, limits and shards, in this order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_llmprops.benchmark_registry import find_registration
from pytest_llmprops.cli.main import main
from pytest_llmprops.models.registry import available_default
from pytest_llmprops.plugin import options
from pytest_llmprops.plugin.options import SMALL_CALLS
from tests.support.cuts import write_cuts
from tests.support.runs import ROOT, SUMS, WORD_HELPERS, Finished, Runner

#: tasks of the cuts, and what each is asked with
TASKS = """kinds = frozenset({"segment", "chat"})

    def kinds_of(self, task, settings):
        return frozenset({"segment"}) if task == "cut" else frozenset({"chat", "sentiment"})
"""
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
SUITES = [str(ROOT / "suites" / f"test_{name}.py") for name in ("dtails", "homophones", "htest")]


@pytest.fixture
def fresh(run: Runner) -> Path:
    """Return a folder with new items of H-TEST only."""
    folder = run.folder / "fresh"
    assert main(["lab", "htest", "generate", "--task", "rhyme", "--n", "4", "--out", str(folder)]) == 0
    return folder


def _on(run: Runner, folder: Path, *args: str, source: str = "published") -> Finished:
    """Run suites on the data in a folder."""
    options = ("--rootdir", str(run.folder), "--model", "fake:constant?text=A")
    return run(*options, "-o", f"llm_source={source}", "--llm-data", str(folder), *args)


def test_suites_without_files_are_skipped(run: Runner, fresh: Path) -> None:
    """All suites run on a folder with items of one benchmark: it is measured, the others are named and skipped.

    With `llm_source = all`, the others have their built-in items. If nothing of the selection is in the folder, one
    line names the missing file. A benchmark whose folder exists and cannot be read stays an error.
    """
    done = _on(run, fresh, *SUITES, "-n", "2", "-rs")
    assert done.code == 1, done.output
    assert [verdict["benchmark"] for verdict in done.verdicts.values()] == ["htest"] * 4
    for name in ("dtails", "homophones"):
        assert f"note: {name}: skipped, {fresh} has no files of it" in done.output
        assert f": no files of {name}" in done.output
    selected = (*SUITES[1:], "-k", "rhyme or homophones/es", "--llm-limit", "1")
    done = _on(run, fresh, *selected, source="all")
    sources = {(verdict["benchmark"], verdict["source"]) for verdict in done.verdicts.values()}
    assert sources == {("homophones", "builtin"), ("htest", "builtin"), ("htest", "generated")}
    _on(run, fresh, SUITES[0]).refused(str(fresh), "no such file")
    (fresh / "homophones").mkdir()
    done = _on(run, fresh, *SUITES[1:])
    assert done.code == 1
    [note] = [x for x in done.output.splitlines() if x.startswith("note: homophones: not measured: ")]
    assert "testset_english.csv: no such file" in note


def test_data_are_measured_unless_a_source_is_given(run: Runner, fresh: Path) -> None:
    """``--llm-data`` is enough to measure a folder's items; a source in the ini file counts."""
    options = ("--rootdir", str(run.folder), "-c", "pytest.ini", "--model", "fake:constant?text=A")
    for ini, source in (("", "generated"), ("llm_source = builtin\n", "builtin")):
        run.write("pytest.ini", f"[pytest]\n{ini}")
        done = run(SUITES[2], *options, "--llm-data", fresh.name, "--llm-limit", "1")
        assert {verdict["source"] for verdict in done.verdicts.values()} == {source}, done.output


def test_only_served_tasks_are_cases(run: Runner) -> None:
    """Items of a task that the model cannot serve are counted as not served; a model that serves none is skipped.

    Two models in a session each have the tasks that they serve; ask.kinds has the kinds in common.
    """
    model = write_cuts(run, 8)
    run.change("test_cuts.py", 'kinds = frozenset({"segment", "chat"})\n', TASKS)
    run.change("test_cuts.py", '"cut", "zh"', '("cut", "talk")[n % 2], "zh"')
    run.change("test_cuts.py", '(await ask(Chat.user(item["text"]))).text', '",".join(sorted(ask.kinds))')
    done = run("--model", model, "-n", "2")
    assert set(done.verdicts) == {f"cuts/0/{n:04d}" for n in (0, 2, 4, 6)}
    assert done.run["not_served"] == {"cuts": {next(iter(done.run["models"])): 4}}
    assert "not served: 4 cuts items" in done.output
    assert done.run["complete"] is True
    both = run("--model", model, "--model", "fake:echo")
    assert {(r["task"], r["items"]) for r in both.run["summary"]} == {("cut", 4), ("talk", 4)}
    assert {v["given"] for v in both.verdicts.values() if v["task"] == "talk"} == {"chat"}
    run.change("test_cuts.py", '("cut", "talk")[n % 2]', '"talk"')
    skipped = run("-rs", "--model", model, "-n", "2")
    assert skipped.code == 5
    assert "cannot answer chat/sentiment requests" in skipped.output


def test_tasks_are_selected_by_keyword(run: Runner) -> None:
    """-k selects the built-in benchmarks' items by task, also if the node id does not name it."""
    parts = ("(homophones/asked and homophones/zh)", "(dtails/translate and dtails/af)", "rhyme", "oracle/no")
    done = run(
        str(ROOT / "suites"), "--model", "fake:echo", "--llm-size", "small", "--llm-limit", "1",
        "-k", " or ".join(parts), *WORD_HELPERS,
    )  # fmt: skip
    tasks = {verdict["task"] for verdict in done.verdicts.values()}
    # Whether a pair's answer is checked as a yes or a no is known only after the first reply.
    assert tasks == {"asked", "translate", "rhyme", "yes", "no"}, done.output


def test_calls_of_the_small_size_are_one_number(run: Runner) -> None:
    """The calls that the plan counts, suite by suite, are those of docs/index.md; the option's help has their sum."""
    output = run(str(ROOT / "suites"), "--model", "gpt-4o", "--llm-size", "small", "--llm-plan").output
    planned = {
        line.split()[0]: int(line.split()[3].replace(",", ""))
        for line in output.splitlines()
        if line.startswith("  ") and " gpt-4o " in line
    }
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\w+)[^|]* \| ([\d,]+) \| [\d,]+ \| [\d,]+ \|$", page, re.M)
    documented = {suite: int(calls.replace(",", "")) for suite, calls in listed}
    if not all(map(available_default, find_registration("oracle").default_helpers.values())):
        # Without its default helpers, most items of this suite are not served.
        planned["oracle"] = documented["oracle"]
    assert planned | {"all": sum(planned.values())} == documented
    assert sum(planned.values()) == SMALL_CALLS
    assert f"{SMALL_CALLS:,} calls" in next(o.help for o in options.OPTIONS if o.name == "llm-size")


def write_sums(run: Runner, items: int = 400) -> None:
    """Write a benchmark of sums whose size ``small`` has three quarters of the items."""
    run.sums()
    sizes = f'name = "sums"\n    sizes = {{"small": {{"add": {items * 3 // 4}}}}}'
    run.write("test_sums.py", SUMS.replace("ITEMS", str(items)).replace('name = "sums"', sizes))


def ids(run: Runner, *options: str) -> list[str]:
    """Return the ids of the items that pytest collects, in order."""
    output = run("--model", run.adder, *options, "--collect-only", "-q").output
    return re.findall(r"^test_sums\.py::\w+\[.*-(sums/\d+)\]$", output, re.MULTILINE)


def test_limit_and_shard_come_after_the_selection(run: Runner) -> None:
    """The limit counts what -k keeps of the size, and two shards are the limited run.

    The plan, the limit of calls and a gate's notes count the same items as the run.
    """
    write_sums(run)
    of_size = ids(run, "--llm-size", "small", "-k", "sums/01")
    assert 60 < len(of_size) < 90
    assert re.search(r"sums +\S+ +20 +20 ", run("--model", run.adder, *OPTIONS, "--llm-plan").output)
    gate = str(run.write("gate.toml", '[[rule]]\nbenchmark = "sums"\nmin_accuracy = 0.1\nmin_items = 20\n'))
    gated = ("--llm-gate", gate, "--llm-max-calls", "20")
    done = run("--model", run.adder, *OPTIONS, "-n", "2", *gated)
    assert (done.code, len(done.verdicts)) == (0, 20), done.output
    assert re.search(r"1\d of 20", done.output)
    assert set(done.verdicts) <= set(of_size)
    assert done.run["selection"] == {"sums": {"items": 20, "of": 400}}
    parts = [set(ids(run, *OPTIONS, "--llm-shard", f"{n}/2")) for n in (1, 2)]
    assert parts[0] | parts[1] == set(done.verdicts)
    assert parts[0]
    assert not parts[0] & parts[1]
    refused = run("--model", run.adder, *OPTIONS, "--llm-max-calls", "19", "--llm-cache", "off")
    assert (refused.code, "20 calls" in refused.output) == (2, True)


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


def test_limit_counts_the_items_that_a_search_selects(run: Runner) -> None:
    """A limit chooses among the searched items, and the same ones among measured and searched items."""
    write_sums(run, 30)
    run.change("test_sums.py", "assert verdict\n", f"assert verdict\n{SEARCHED}")
    assert len(ids(run, "-k", "test_search", "--llm-limit", "4")) == 4
    both = ids(run, "-k", "sums/000", "--llm-limit", "4")
    assert both[:4] == both[4:]
    assert len(both) == 8


def test_group_keeps_the_items_within_the_limit(run: Runner) -> None:
    """A limit after -k counts items of groups, which stay in their cases; all repeats of an item stay.

    A segmenter always gives the same reply, so it is measured once, and a note says so.
    """
    cutter = write_cuts(run, case="ten")
    done = run(
        "--model", cutter, "-k", "cuts/1 or cuts/2", "--llm-limit", "7", "--llm-repeats", "3", "-n", "2"
    )
    assert (len(done.verdicts), done.run["expected"]) == (7, 7)
    assert "always gives the same reply: one sample of each cuts item is measured" in done.output
    assert {v["cluster"] for v in done.verdicts.values()} <= {"c1", "c2"}
    write_sums(run, 30)
    (run.folder / "test_cuts.py").unlink()
    repeated = run("--model", run.adder, "-k", "sums/000", "--llm-limit", "3", "--llm-repeats", "2")
    assert (len(repeated.verdicts), repeated.run["expected"]) == (3, 6)
