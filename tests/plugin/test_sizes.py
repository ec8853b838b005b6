"""The sizes of a run: --llm-size small, standard and full."""

from __future__ import annotations

import re

from tests.support.runs import ROOT, SUMS, Runner


def test_calls_of_the_small_size_are_those_of_the_docs(run: Runner) -> None:
    """The plan of all suites has about 1,500 calls, as the table of docs/index.md says, suite by suite."""
    output = run(str(ROOT / "suites"), "--model", "gpt-4o", "--llm-size", "small", "--llm-plan").output
    planned = {
        line.split()[0]: int(line.split()[3].replace(",", ""))
        for line in output.splitlines()
        if line.startswith("  ") and " gpt-4o " in line
    }
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\w+)[^|]* \| ([\d,]+) \| [\d,]+ \| [\d,]+ \|$", page, re.M)
    documented = {suite: int(calls.replace(",", "")) for suite, calls in listed}
    assert sum(calls for suite, calls in documented.items() if suite != "all") == documented["all"]
    # The calls of oracle depend on the default helpers of the machine.
    assert [suite for suite in planned if planned[suite] != documented[suite] and suite != "oracle"] == []
    assert len(planned) == 5
    assert 1_300 <= sum(planned.values()) <= 1_700


def test_size_of_an_own_benchmark_is_recorded(run: Runner, workers: str) -> None:
    """A class declares its sizes; the record has the size, and how many items there are; a limit selects from it."""
    run.sums()
    sizes = SUMS.replace("ITEMS", "12").replace(
        'name = "sums"', 'name = "sums"\n    sizes = {"small": {"add": 4}, "standard": {"add": 7}}'
    )
    run.write("test_sums.py", sizes)
    done = {
        size: run("--model", run.adder, "--llm-size", size, "-n", workers)
        for size in ("small", "standard", "full")
    }
    items = {size: set(one.verdicts) for size, one in done.items()}
    assert items["small"] < items["standard"] < items["full"]
    assert [len(ids) for ids in items.values()] == [4, 7, 12]
    assert done["small"].run["options"]["size"] == "small"
    assert done["small"].run["selection"] == {"sums": {"items": 4, "of": 12}}
    limited = run("--model", run.adder, "--llm-size", "small", "--llm-limit", "2", "--llm-seed", "3")
    assert set(limited.verdicts) < items["small"]
    assert "size small" in limited.output
