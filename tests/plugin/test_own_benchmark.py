"""A benchmark from outside has the same features as the five built-in ones."""

from __future__ import annotations

import json
from pathlib import Path

from fixtures.runs import Runner

CITIES = """
import pytest
from pytest_llmprops import Benchmark, Chat, Item, Verdict


class Cities(Benchmark):
    name = "cities"
    title = "Big cities"
    accuracy_targets = {"coin": 0.5}

    def load(self, files):
        rows = files.jsonl("cities.jsonl")
        return [Item(row["id"], row["task"], "en", files.source, fields=row) for row in rows]

    async def evaluate(self, item, context, ask, protocol):
        reply = await ask(Chat.user(item["question"]))
        return Verdict.check(reply.text == "yes", expected="yes", given=reply.text)


@pytest.mark.llmprops(benchmark=Cities)
def test_cities(verdict):
    assert verdict
"""


def rows(folder: Path, mark: str) -> None:
    """Write three items into a folder."""
    folder.mkdir(exist_ok=True)
    items = [{"id": f"cities/{mark}{n}", "task": "coin", "question": f"{mark}{n}?"} for n in range(3)]
    (folder / "cities.jsonl").write_text("".join(json.dumps(row) + "\n" for row in items), encoding="utf-8")


def test_source_selects_the_items(run: Runner, workers: str) -> None:
    """--llm-source selects the items next to the class, those of --llm-data, or both."""
    run.write("test_cities.py", CITIES)
    rows(run.folder, "b")
    rows(run.folder / "pulled", "p")
    options = ("test_cities.py", "--model", "fake:constant?text=yes", "--llm-data", "pulled", "-n", workers)
    for source, marks in (("builtin", "b"), ("published", "p"), ("all", "bp")):
        done = run(*options, "--llm-source", source)
        assert done.code == 0, done.output
        assert sorted(done.verdicts) == [f"cities/{mark}{n}" for mark in marks for n in range(3)]
        sources = {{"b": "builtin", "p": "published"}[mark] for mark in marks}
        assert {v["source"] for v in done.verdicts.values()} == sources
        facts = done.run["benchmarks"]["cities"]
        assert (
            sorted(done.run["data"])
            == sorted(facts["data"])
            == sorted(f"{s}:cities/cities.jsonl" for s in sources)
        )
        assert (facts["title"], facts["accuracy_targets"]) == ("Big cities", {"coin": 0.5})


def test_benchmark_in_a_package_of_tests(run: Runner, workers: str) -> None:
    """A class that is not in the test file may use relative imports, with workers too."""
    package = run.folder / "suite"
    package.mkdir()
    head, _, test = CITIES.partition("@pytest")
    run.write("suite/__init__.py", "")
    run.write("suite/answers.py", "YES = 'yes'\n")
    run.write(
        "suite/cities.py", head.replace("import pytest", "from .answers import YES").replace('"yes"', "YES")
    )
    run.write("suite/test_cities.py", f"import pytest\nfrom .cities import Cities\n@pytest{test}")
    rows(package, "b")
    done = run("suite/test_cities.py", "--model", "fake:constant?text=yes", "-n", workers)
    assert done.code == 0, done.output
    assert (done.run["complete"], len(done.verdicts)) == (True, 3)


def test_published_source_needs_a_data_folder(run: Runner) -> None:
    """--llm-source published without --llm-data stops the run with one line that names the option."""
    run.write("test_cities.py", CITIES)
    done = run("test_cities.py", "--model", "fake:constant?text=yes", "--llm-source", "published")
    assert done.code == 2
    assert "--llm-source published: give the folder of the data with --llm-data DIR" in done.output


def test_source_is_ignored_without_data_files(run: Runner) -> None:
    """Items that need no file are measured once, and the summary says that the source changes nothing."""
    run.sums(3)
    (run.folder / "pulled").mkdir()
    done = run("test_sums.py", "--model", run.adder, "--llm-source", "all", "--llm-data", "pulled")
    assert len(done.verdicts) == 3
    assert "sums reads no data files, so --llm-source does not change its items" in done.output


def test_gate_refuses_a_minimum_where_accuracy_has_a_target(run: Runner) -> None:
    """A rule that requires a minimum accuracy on a task with a target is refused."""
    run.write("test_cities.py", CITIES)
    rows(run.folder, "b")
    gate = run.write("gate.toml", '[[rule]]\nbenchmark = "cities"\nmin_accuracy = 0.4\n')
    done = run("test_cities.py", "--model", "fake:constant?text=yes", "--llm-gate", str(gate))
    assert done.code == 4
    assert "min_accuracy on cities coin, whose accuracy is best at 0.5" in done.output
