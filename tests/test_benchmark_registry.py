"""Benchmarks are registered by entry points or in a ``conftest.py``."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from pytest_llmprops import benchmark_registry
from pytest_llmprops.benchmark_registry import (
    find_benchmark,
    find_registration,
    register_benchmark,
    registrations,
)
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.registration import BenchmarkMetadata, Registration
from pytest_llmprops.records.files import plain, run_metadata


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo a test's registrations after the test."""
    monkeypatch.setattr(benchmark_registry, "registered", {})


def points(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Install these entry points and no others."""
    entry_points = {
        name: EntryPoint(name, value, benchmark_registry.ENTRY_POINTS) for name, value in values.items()
    }
    monkeypatch.setattr(benchmark_registry, "installed_entry_points", lambda: entry_points)
    # Entry points are read once per process.
    benchmark_registry.installed.cache_clear()


class Sums(Benchmark):
    """A benchmark from outside."""

    name = "sums"
    accuracy_targets = {"guess": 0.5}


@pytest.mark.parametrize("name", ["dtails", "eras", "homophones", "htest", "oracle"])
def test_entry_points_name_the_benchmarks(name: str) -> None:
    """Each built-in benchmark is found by its name, which its class has, too; its facts survive run.json."""
    registration = find_registration(name)
    assert (registration.name, registration.load_class().name) == (name, name)
    assert isinstance(find_benchmark(name), registration.load_class())
    assert registration.load("section") is not None
    facts = BenchmarkMetadata.of(registration.load_class(), data=["builtin:x/y.csv"])
    assert run_metadata({"benchmarks": {name: plain(facts)}}, "run").benchmarks == {name: facts}


def test_listing_imports_no_benchmark() -> None:
    """All registrations can be read without importing a benchmark, a report or numpy."""
    code = (
        "import sys; from pytest_llmprops.benchmark_registry import registrations; registrations();"
        "print(*(m for m in sys.modules if m.endswith('.benchmark') or '.report' in m or m == 'numpy'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pytest_llmprops.core.benchmark"]


def test_unknown_benchmark_names_the_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the group of entry points and the known benchmarks."""
    with pytest.raises(
        UsageError, match=r"'x': no installed package registers it .* Known names: dtails, eras"
    ):
        find_registration("x")
    points(monkeypatch)
    with pytest.raises(UsageError, match=r"'htest'.* No benchmark is installed: reinstall pytest-llmprops"):
        find_registration("htest")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module:X", "cannot be imported"),
        ("pytest_llmprops.core.benchmark:NoSuch", "cannot be imported"),
        ("pytest_llmprops.core.benchmark:Benchmark", "is not a Registration with the name 'sums'"),
        ("pytest_llmprops.benchmarks.eras:REGISTRATION", "with the name 'sums'"),
    ],
)
def test_wrong_entry_point_is_named(monkeypatch: pytest.MonkeyPatch, value: str, said: str) -> None:
    """An entry point that cannot be loaded, or is not the registration of its name, is an error."""
    points(monkeypatch, sums=value)
    with pytest.raises(UsageError, match=f"entry point sums of .*{said}"):
        registrations()


def test_registration_overrides_an_entry_point() -> None:
    """A registered benchmark takes precedence over an installed one of the same name."""
    register_benchmark(Registration(name="sums", benchmark=Sums))
    assert isinstance(find_benchmark("sums"), Sums)
    register_benchmark(Registration(name="htest", benchmark=Sums))
    with pytest.raises(UsageError, match="benchmark htest: the class Sums has the name 'sums'"):
        find_benchmark("htest")


def test_facts_of_another_version() -> None:
    """Unknown fields are ignored, missing ones have defaults, and a wrong type is an error that names it."""
    read = run_metadata({"benchmarks": {"two_sums": {"later": 1, "controls": ["a"]}}}, "run").benchmarks[
        "two_sums"
    ]
    assert (read.title, read.noun, read.controls, read.verb) == ("Two sums", "two_sums", ("a",), "answers")
    wrong: list[object] = [[], {"controls": "a"}, {"controls": [1]}, {"chance": []}, {"title": 3}]
    for value in [*wrong, {"chance": {"": "x"}}]:
        with pytest.raises(ValueError, match=r"has a 'benchmarks\.sums"):
            run_metadata({"benchmarks": {"sums": value}}, "run")
