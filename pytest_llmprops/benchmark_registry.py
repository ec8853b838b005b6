"""The registry of benchmarks, from installed distributions and from ``conftest.py`` files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.registration import BenchmarkMetadata, Registration
from pytest_llmprops.core.texts import did_you_mean

ENTRY_POINTS = "pytest_llmprops.benchmarks"
registered: dict[str, Registration] = {}


def register_benchmark(registration: Registration) -> None:
    """Register a benchmark, or replace the one with the same name. Call it in a ``conftest.py``.

    Packages use an entry point of the group ``pytest_llmprops.benchmarks`` instead.
    """
    registered[registration.name] = registration


def benchmark_names() -> list[str]:
    """Return the names of all registered benchmarks, sorted. Imports nothing."""
    return sorted({*registered, *installed_entry_points()})


def find_registration(name: str) -> Registration:
    """Return the registration of the benchmark ``name``.

    :raises UsageError: if no benchmark has this name, or its entry point is not a registration.
    """
    registration = registered.get(name) or installed(name)
    if registration is None:
        known = benchmark_names()
        raise UsageError(
            f"unknown benchmark '{name}': no installed package registers it (entry points {ENTRY_POINTS})."
            + (
                f" Known names: {', '.join(known)}{did_you_mean(name, known)}"
                if known
                else " No benchmark is installed: reinstall pytest-llmprops"
            )
        )
    return registration


def registrations() -> list[Registration]:
    """Return all registrations, sorted by name. Does not import the benchmarks' classes.

    :raises UsageError: if an entry point is not a registration.
    """
    return [find_registration(name) for name in benchmark_names()]


def suites_of(names: Iterable[str] = ()) -> list[str]:
    """Return the suites of benchmarks, or of all that have one if none is named, as arguments of pytest.

    :raises UsageError: if a benchmark is unknown or has no suite.
    """
    chosen = list(map(find_registration, dict.fromkeys(names)))
    for one in chosen:
        if not one.suite:
            raise UsageError(
                f"benchmark {one.name} has no suite: its registration does not name one; run its test file with pytest"
            )
    return [one.suite for one in chosen or registrations() if one.suite]


def find_benchmark(name: str) -> Benchmark:
    """Return a new benchmark of this name.

    :raises UsageError: if no benchmark has this name.
    """
    return find_registration(name).load_class()()


def installed_benchmarks(names: Iterable[str]) -> dict[str, Benchmark]:
    """Return new benchmarks of these names, without those that are unknown here, next to their suites."""
    found = {}
    for name in names:
        with suppress(UsageError):
            found[name] = find_benchmark(name)
    return found


def is_registered(benchmark: type[Benchmark]) -> bool:
    """Return True if this class is registered. Another class may be registered under its name."""
    name = benchmark.name
    known = name in registered or name in installed_entry_points()
    return known and find_registration(name).load_class() is benchmark


def registration_of(benchmark: type[Benchmark]) -> Registration:
    """Return the registration of a class; for an unregistered class, a new one with only name and class."""
    if is_registered(benchmark):
        return find_registration(benchmark.name)
    return Registration(name=benchmark.name, benchmark=benchmark)


def installed_facts(name: str) -> BenchmarkMetadata | None:
    """Return the facts of a registered benchmark; None if it is unknown or cannot be imported."""
    if name not in registered and name not in installed_entry_points():
        return None
    try:
        return BenchmarkMetadata.of(find_registration(name).load_class())
    except (ImportError, UsageError):
        return None


@cache
def installed_entry_points() -> dict[str, EntryPoint]:
    """Return the entry points of installed benchmarks by name."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


@cache
def installed(name: str) -> Registration | None:
    """Load and return an installed benchmark's registration, or None; read once per process."""
    point = installed_entry_points().get(name)
    if point is None:
        return None
    source = f"entry point {name} of {point.dist.name if point.dist else 'an unknown distribution'}"
    try:
        loaded = point.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{source}: {point.value} cannot be imported: {error}") from None
    if not isinstance(loaded, Registration) or loaded.name != name:
        raise UsageError(f"{source}: {point.value} is not a Registration with the name '{name}'")
    return loaded
