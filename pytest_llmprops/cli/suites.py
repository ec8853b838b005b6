"""``llmprops suites``: the installed benchmarks, their items and their calls."""

from __future__ import annotations

import argparse

from pytest_llmprops.benchmark_registry import benchmark_names, find_registration, registrations
from pytest_llmprops.cli.kit import Groups, Suggested
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.benchmark_checks import loaded
from pytest_llmprops.core.items import sized
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.registration import Registration
from pytest_llmprops.core.requests import Kind
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.location import data_folder
from pytest_llmprops.engine.evaluator import Case
from pytest_llmprops.engine.planning import plan
from pytest_llmprops.reports.tables import aligned_table, terminal_width

_MODEL = "model"
_CHAT: frozenset[Kind] = frozenset({"chat"})


def add(groups: Groups) -> None:
    """Add ``suites``."""
    suites = groups.add_parser(
        "suites",
        help="the installed benchmarks, their items and calls",
        description="List the installed benchmarks: their built-in items, and the calls that a chat model gets for all"
        " of them with the protocol quick, and with --llm-size small and standard, without stored replies; for"
        " benchmarks that are named, also those with the protocol paper. pytest --llm-plan counts the calls of one"
        " selection.",
    )
    suites.add_argument(
        "benchmarks",
        nargs="*",
        metavar="BENCHMARK",
        choices=Suggested(benchmark_names()),
        help="name of an installed benchmark (default: all)",
    )
    suites.set_defaults(command=_suites)


def _suites(options: argparse.Namespace) -> int:
    chosen = [find_registration(name) for name in options.benchmarks] or registrations()
    # The calls of paper take three times as long to count as the others.
    protocols = ("quick", "paper") if options.benchmarks else ("quick",)
    columns = [f"calls {name}" for name in protocols]
    table: list[tuple[str, ...]] = [("benchmark", "items", *columns, "small", "standard", "what it measures")]
    for registration in chosen:
        benchmark = registration.load_class()()
        quick, *others = (_cases(registration, benchmark, name) for name in protocols)
        small, standard = (_of_size(benchmark, quick, size) for size in ("small", "standard"))
        calls = (f"{_calls(cases):,}" for cases in (quick, *others, small, standard))
        table.append((benchmark.name, f"{len(quick):,}", *calls, benchmark.about))
    print("\n".join(line.removeprefix("  ") for line in aligned_table(table, terminal_width() + 2)))
    return 0


def _cases(registration: Registration, benchmark: Benchmark, name: str) -> list[Case]:
    """Return the cases of a chat model, with a helper for every role."""
    folder = DataFolder(data_folder(registration), "builtin", registration.tools)
    protocol = resolve(benchmark.name, benchmark.protocols, name, {}, seed=0)
    part = benchmark.prepared(loaded(benchmark, folder), folder, protocol.settings)
    roles = {role for item in part.items for role in benchmark.roles_of(item.task)}
    helpers = {role: role for role in roles | set(benchmark.helpers(protocol.settings))}
    return [
        Case(benchmark, item, part.context, protocol, _MODEL, helpers=helpers, kinds=_CHAT)
        for item in part.items
        if _CHAT & benchmark.kinds_of(item.task)
    ]


def _of_size(benchmark: Benchmark, cases: list[Case], size: str) -> list[Case]:
    kept = {item.id for item in sized([case.item for case in cases], benchmark.sizes.get(size, {}))}
    return [case for case in cases if case.item.id in kept]


def _calls(cases: list[Case]) -> int:
    """Return the number of different requests to the model under test, if every reply is empty."""
    labels: list[str] = []
    plan(cases, lambda label, request: labels.append(label))
    return labels.count(_MODEL)
