"""``list``: the installed benchmarks, and the models that can be measured."""

from __future__ import annotations

import argparse
import datetime
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_llmprops.benchmark_registry import find_registration, registrations
from pytest_llmprops.cli.kit import Groups, print_table, wrote
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.contracts import prepared
from pytest_llmprops.core.errors import LLMPropsError, MissingExtra, UsageError
from pytest_llmprops.core.items import sized
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.registration import Registration
from pytest_llmprops.core.requests import Kind
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.data.files import DataFolder, data_folder
from pytest_llmprops.data.whole_files import write_text
from pytest_llmprops.engine.evaluation.evaluator import Case
from pytest_llmprops.engine.evaluation.planning import plan
from pytest_llmprops.models.api.prices import SHIPPED, price, read_table, renewed_table
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import ALIASES, backend_names, find_backend, parse_spec

_MODEL = "model"
_CHAT: frozenset[Kind] = frozenset({"chat"})
#: what is listed besides the benchmarks that are named
_SUITES, _MODELS = "suites", "models"


def add_list(groups: Groups) -> None:
    """Add ``list``."""
    command = groups.add_parser(
        "list",
        help="the installed benchmarks with their items, and the models with what each needs",
        description="List the installed benchmarks with their built-in items, of all and of --llm-size small and"
        " standard; for benchmarks that are named, with the calls that a chat model gets with the protocols quick and"
        " paper, without stored replies. pytest --llm-plan counts the calls of one selection. Then list what --model"
        " accepts: an example of each backend and alias, the requests that it serves, the packages that are missing,"
        " and the environment variables with its keys (never their values).",
    )
    command.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="suites, models, or the name of an installed benchmark (default: suites and models)",
    )
    command.add_argument(
        "--prices", action="store_true", help="list the prices of common models instead, with their date"
    )
    command.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="with --prices: write the prices of the installed litellm to FILE",
    )
    command.set_defaults(command=_list)


def _list(options: argparse.Namespace) -> int:
    if options.out is not None:
        if not options.prices:
            raise UsageError("--out FILE writes the prices: add --prices")
        write_text(options.out, renewed_table(datetime.datetime.now(datetime.UTC).date().isoformat()))
        return wrote([options.out])
    if options.prices:
        return _prices()
    names = options.names or [_SUITES, _MODELS]
    benchmarks = [name for name in names if name not in (_SUITES, _MODELS)]
    if benchmarks or _SUITES in names:
        _suites(benchmarks)
    if _MODELS in names:
        if len(names) > 1:
            print()
        print_table([("name", "example", "serves", "needs"), *_backends(), *_aliases()])
    return 0


def _suites(names: Sequence[str]) -> None:
    """Print the items and calls of the named benchmarks, or of all."""
    # Counting the calls of all benchmarks takes half a minute.
    columns = (
        ("calls quick", "calls paper", "calls small", "calls standard") if names else ("small", "standard")
    )
    table: list[tuple[str, ...]] = [("benchmark", "items", *columns, "what it measures")]
    for registration in [find_registration(name) for name in names] or registrations():
        benchmark = registration.load_class()()
        quick = _cases(registration, benchmark, "quick")
        sizes = []
        for size in ("small", "standard"):
            kept = {item.id for item in sized([case.item for case in quick], benchmark.sizes.get(size, {}))}
            sizes.append([case for case in quick if case.item.id in kept])
        if names:
            numbers = [_calls(cases) for cases in (quick, _cases(registration, benchmark, "paper"), *sizes)]
        else:
            numbers = [len(cases) for cases in sizes]
        table.append((benchmark.name, f"{len(quick):,}", *(f"{n:,}" for n in numbers), benchmark.about))
    print_table(table)


def _cases(registration: Registration, benchmark: Benchmark, name: str) -> list[Case]:
    """Return the cases of a chat model, with a helper for every role."""
    folder = DataFolder(data_folder(registration), "builtin", registration.tools)
    protocol = resolve(benchmark.name, benchmark.protocols, name, {}, seed=0)
    part = prepared(benchmark, folder, protocol.settings)
    roles = {role for item in part.items for role in benchmark.roles_of(item.task)}
    helpers = {role: role for role in roles | set(benchmark.helpers(protocol.settings))}
    return [
        Case(benchmark, item, part.context, protocol, _MODEL, helpers=helpers, kinds=_CHAT)
        for item in part.items
        if _CHAT & benchmark.kinds_of(item.task, protocol.settings)
    ]


def _calls(cases: list[Case]) -> int:
    """Return the number of different requests to the model under test, if every reply is empty."""
    labels: list[str] = []
    plan(cases, lambda label, request: labels.append(label))
    return labels.count(_MODEL)


def _prices() -> int:
    """Print the prices that apply: those of ``LLMPROPS_PRICES``, and of the tables."""
    file = os.environ.get("LLMPROPS_PRICES")
    own = read_table(Path(file)) if file else ()
    rows = [("model", "USD per million input tokens", "cached input tokens", "output tokens", "prices")]
    for name in dict.fromkeys([*own, *read_table(SHIPPED)]):
        known = price(name, {}, file)
        if known is not None:
            cached = "unknown" if known.cached is None else f"{known.cached:g}"
            rows.append((name, f"{known.input:g}", cached, f"{known.output:g}", known.source))
    print_table(rows)
    origin = json.loads(SHIPPED.read_text(encoding="utf-8"))["source"]
    print(f"The table of this package is from {origin}. The table of an installed litellm is used first.")
    return 0


def _backends() -> Iterator[tuple[str, str, str, str]]:
    for name in backend_names():
        example = _own_example(name)
        try:
            backend = find_backend(name)
            example = backend.example or example
            served = backend.serves or ", ".join(sorted(backend.kinds(parse_spec(example))))
            yield name, example, served, _needs(example, backend.keys)
        except Exception as error:
            # Code of another package; the other models can be listed.
            yield name, example, "", terminal_line(f"does not work: {type(error).__name__}: {error}")


def _aliases() -> Iterator[tuple[str, str, str, str]]:
    for name, alias in ALIASES.items():
        example = f"{name}:{alias.example}"
        needs = f"a server at {alias.url}" if alias.url else _needs(example, alias.keys)
        yield name, example, "chat", needs


def _own_example(name: str) -> str:
    """Return the shortest specification of a backend: its name, if it has one model."""
    try:
        return parse_spec(name).text
    except LLMPropsError:
        return f"{name}:MODEL"


def _needs(example: str, keys: Sequence[str]) -> str:
    spec = parse_spec(example)
    needs = []
    try:
        find_backend(spec.backend).check(spec, CallOptions())
    except MissingExtra as error:
        needs.append(error.fix)
    except LLMPropsError as error:
        # Otherwise the example's file does not exist, which says nothing.
        if spec.text == spec.name:
            needs.append(str(error).removeprefix(f"--model {spec.text}: ").partition("; ")[0])
    needs += [f"{key} ({'set' if os.environ.get(key, '').strip() else 'not set'})" for key in keys]
    return "; ".join(needs) or "nothing more"
