"""The example benchmark works as a separate distribution, and its record can be judged without it."""

from __future__ import annotations

import pytest

from pytest_llmprops.benchmark_registry import benchmark_names
from tests.support.installed import EXAMPLE, Environment
from tests.support.runs import Finished

#: a model that names the capital, or the largest city for two countries
KNOWS = """
import json

ROWS = [json.loads(line) for line in open({cities!r}, encoding="utf-8")]


def reply(chat):
    row = next(row for row in ROWS if row["country"] in chat.messages[-1].content)
    return f"It is {{row['largest' if row['id'] in ('br', 'au') else 'capital']}}."
"""
#: a reader that returns the city in the answer
READS = """
import re


def reply(chat):
    return re.search("Answer: It is (.*)[.]", chat.messages[-1].content)[1]
"""


# Not of the module: a process may leave a module and come back to it, and the folder is that of the session.
@pytest.fixture(scope="session")
def measured(installed: Environment) -> Finished:
    """Run the example with a gate and two workers."""
    cities = EXAMPLE / "llmprops_capitals" / "cities.jsonl"
    for name, text in (("knows.py", KNOWS.format(cities=str(cities))), ("reads.py", READS)):
        (installed.folder / name).write_text(text, encoding="utf-8")
    run = installed.folder / "run"
    output = installed(
        "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:allure_pytest", "--pyargs", "llmprops_capitals.suite",
        "-n", "2", "--model", "fake:call?file=knows.py", "--llm-helper", "reader=fake:call?file=reads.py",
        "--llm-gate", str(EXAMPLE / "gate.toml"), "--llm-run", str(run),
    )  # fmt: skip
    return Finished(0, output, run)


def test_example_is_measured_and_gated(measured: Finished) -> None:
    """The record has two calls per item, and the example's metric, facts and data file; the gate passes."""
    assert measured.run["gate"]["decision"] == "pass"
    assert len(measured.verdicts) == 30
    assert {len(verdict["requests"]) for verdict in measured.verdicts.values()} == {2}
    assert {row["role"] for row in measured.requests} == {"subject", "reader"}
    (metric,) = measured.run["metrics"]
    assert (metric["name"], metric["value"], metric["n"]) == ("largest_city_rate", pytest.approx(2 / 15), 15)
    facts = measured.run["benchmarks"]["capitals"]
    assert (facts["controls"], facts["metric_directions"]) == (["easy"], {"largest_city_rate": "lower"})
    assert list(measured.run["data"]) == facts["data"] == ["builtin:capitals/cities.jsonl"]


def test_example_adds_a_command(installed: Environment) -> None:
    """`llmprops lab capitals list` works in the new environment; here, the benchmark is unknown."""
    lines = installed("-m", "pytest_llmprops.cli.main", "lab", "capitals", "list", "--different").splitlines()
    assert len(lines) == 15
    assert lines[0] == "Brazil\tBrasília\tSão Paulo"
    assert "capitals" not in benchmark_names()


def test_report_has_the_section_of_the_example(installed: Environment, measured: Finished) -> None:
    """The page has the example's title, table and figure."""
    pytest.importorskip("matplotlib")
    folder = installed.folder / "report"
    installed("-m", "pytest_llmprops.cli.main", "report", str(measured.folder), "--out", str(folder))
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "86.7% of capitals" in page
    assert "Cities named" in page
    assert "The city that the model names" in page
    assert (folder / "figures" / "capitals-cities.svg").stat().st_size > 1000
