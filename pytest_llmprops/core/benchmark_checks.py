"""Checks of a benchmark's class and items before the first call, and of its metrics and remarks after the last."""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.benchmark import Benchmark, Counterexample, DataFiles, Loaded, Searched
from pytest_llmprops.core.contracts import (
    fault_text,
    is_number,
    json_problem,
    number_shown,
    raised,
    returned,
    shown,
    type_name,
)
from pytest_llmprops.core.errors import ContractError, LLMPropsError, UsageError
from pytest_llmprops.core.items import LIMITED_SIZES, WEIGHTINGS, Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.protocols import NamedSettings
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import KINDS
from pytest_llmprops.core.texts import one_line

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z")
_DIRECTION = re.compile(r"(higher|lower|none|target:[-+.\deE]+)\Z")
#: the target of a metric in the class, where it may depend on the row
_DECLARED = re.compile(_DIRECTION.pattern + r"|target:1/[a-z]\Z")
_TEXTS = ("title", "about", "noun", "verb", "printed_task")
_SETS = ("controls", "side_tasks", "presentation", "tasks_by_answer", "kinds", "roles", "properties")
_encode = json.JSONEncoder(allow_nan=False).encode


# ---- the class


def checked_class(benchmark: type[Benchmark]) -> type[Benchmark]:
    """Return a benchmark's class whose attributes can be recorded.

    :raises UsageError: with the first problem, in one line.
    """
    problem = _class_problem(benchmark)
    if problem:
        raise UsageError(f"benchmark {benchmark.__name__}: {problem}")
    return benchmark


def _class_problem(benchmark: type[Benchmark]) -> str:
    name: object = getattr(benchmark, "name", None)
    if name is None:
        return 'it has no name; add a line such as name = "sums" to the class'
    if not isinstance(name, str) or not _NAME.match(name):
        return (
            f"the name {shown(name)} is not usable in options and files; use ASCII letters, digits, _ and -"
        )
    if benchmark.load is Benchmark.load:
        return "it does not define load(self, files)"
    if benchmark.evaluate is Benchmark.evaluate and benchmark.evaluate_all is Benchmark.evaluate_all:
        return "it does not define evaluate(self, item, context, ask, protocol)"
    return _attribute_problem(benchmark) or _protocols_problem(benchmark.protocols)


def _attribute_problem(benchmark: type[Benchmark]) -> str:
    for name in _TEXTS:
        text = getattr(benchmark, name)
        if not isinstance(text, str):
            return f"{name} is {type_name(text)}; use a string"
    for name in _SETS:
        values = getattr(benchmark, name)
        if not _are_texts(values) and not (values is None and name == "roles"):
            return f'{name} is {shown(values)}; use a set of strings, such as frozenset({{"easy"}})'
    for name in ("chance", "accuracy_targets"):
        values = getattr(benchmark, name)
        if not _is_table(values) or not all(is_number(v) and 0 <= v <= 1 for v in values.values()):
            return f'{name} is {shown(values)}; use a dict from tasks to numbers from 0 to 1, such as {{"": 0.5}}'
    for name in ("task_about", "metric_directions", "bounded_metrics", "unranked"):
        values = getattr(benchmark, name)
        if not _is_table(values) or not all(isinstance(v, str) for v in values.values()):
            return f"{name} is {shown(values)}; use a dict from strings to strings"
    for name, direction in benchmark.metric_directions.items():
        if not _DECLARED.match(direction):
            return (
                f"metric_directions[{shown(name)}] is {shown(direction)}; use higher, lower, none or target:X"
            )
    if not _is_table(benchmark.sizes) or not all(map(_is_size, benchmark.sizes.items())):
        return (
            f"sizes is {shown(benchmark.sizes)}; use a dict from small and standard to dicts from tasks to whole"
            ' numbers, such as {"small": {"easy": 30}}'
        )
    unknown = sorted(set(benchmark.kinds) - set(KINDS))
    if unknown or not benchmark.kinds:
        return f"kinds has {shown(unknown) if unknown else 'no kind'}; the kinds are {', '.join(KINDS)}"
    if benchmark.weighting not in WEIGHTINGS:
        return f"weighting is {shown(benchmark.weighting)}; use {' or '.join(WEIGHTINGS)}"
    return ""


def _protocols_problem(protocols: object) -> str:
    if not isinstance(protocols, Mapping) or not protocols:
        return "protocols is not a dict from paper and quick to NamedSettings"
    for name, named in protocols.items():
        where = f"protocols[{shown(name)}]"
        if not isinstance(named, NamedSettings):
            return f"{where} is {type_name(named)}; use NamedSettings(MySettings())"
        settings: Any = named.settings
        if isinstance(settings, type):
            return f"{where} has the class {settings.__name__}; use an object, {settings.__name__}()"
        parameters: Any = getattr(settings, "__dataclass_params__", None)
        if parameters is None or not parameters.frozen:
            return f"{where} has settings that are {type_name(settings)}; use a class with @dataclass(frozen=True)"
        if not _are_texts(named.assumed) or not isinstance(named.gives_up, str):
            return f"{where}: assumed must be a tuple of strings, and gives_up a string"
        try:
            typing.get_type_hints(type(settings))
            _encode(dataclasses.asdict(settings))
        except (NameError, TypeError, ValueError, RecursionError) as error:
            return f"{where} has settings that cannot be recorded; use numbers, strings, lists ({fault_text(error)})"
    return ""


def is_direction(text: object) -> bool:
    """Return True if a text is the direction of a metric: ``higher``, ``lower``, ``none`` or ``target:X``."""
    return isinstance(text, str) and bool(_DIRECTION.match(text))


def _are_texts(values: object) -> bool:
    is_collection = isinstance(values, Collection) and not isinstance(values, str | bytes | Mapping)
    return is_collection and all(
        isinstance(value, str) for value in typing.cast("Collection[object]", values)
    )


def _is_table(values: object) -> bool:
    return isinstance(values, Mapping) and all(isinstance(key, str) for key in values)


def _is_size(size: tuple[object, object]) -> bool:
    """Return True if one entry of ``sizes`` has the name of a size and the maximum items per task."""
    name, most = size
    if name not in LIMITED_SIZES or not _is_table(most):
        return False
    counts = typing.cast("Mapping[str, object]", most).values()
    return all(isinstance(count, int) and count >= 0 for count in counts)


# ---- items


def loaded(benchmark: Benchmark, files: DataFiles) -> Loaded:
    """Return the result of ``benchmark.load``, which may also return items only.

    :raises ContractError: if it is not usable, or an exception of the benchmark's own was raised.
    """
    try:
        result: object = benchmark.load(files)
        return _checked(benchmark, "load", result)
    except (LLMPropsError, KeyboardInterrupt):
        raise
    except BaseException as fault:
        raise raised(benchmark, "load", fault) from None


def prepared(benchmark: Benchmark, part: Loaded, files: DataFiles, settings: object) -> Loaded:
    """Return the result of ``benchmark.prepared``.

    :raises ContractError: if it is not usable.
    """
    result: object = benchmark.prepared(part, files, settings)
    if result is part:
        return part
    if not isinstance(result, Loaded):
        raise returned(benchmark, "prepared", f"{type_name(result)}; return a Loaded")
    return _checked(benchmark, "prepared", result)


def _checked(benchmark: Benchmark, method: str, result: object) -> Loaded:
    items = result.items if isinstance(result, Loaded) else result
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
        _close(items)
        raise returned(benchmark, method, f"{type_name(items)}; return a list of Item")
    # A generator raises its exceptions here.
    members = items if isinstance(items, tuple) else tuple(items)
    for number, item in enumerate(members, 1):
        if not isinstance(item, Item):
            raise returned(benchmark, method, f"{type_name(item)} as item {number}; return a list of Item")
    context = result.context if isinstance(result, Loaded) else None
    return result if isinstance(result, Loaded) and members is result.items else Loaded(members, context)


def _close(value: object) -> None:
    """Close a coroutine, about which Python would warn later."""
    close = getattr(value, "close", None)
    if hasattr(value, "__await__") and close is not None:
        close()


def checked_kinds(benchmark: Benchmark, task: str, settings: Any) -> frozenset[str]:
    """Return the kinds of request that ``benchmark.kinds_of`` returned for a task.

    :raises ContractError: if one of them is not a kind: no model would serve the task.
    """
    kinds = checked_texts(benchmark, "kinds_of", benchmark.kinds_of(task, settings))
    unknown = next((kind for kind in kinds if kind not in KINDS), None)
    if unknown is not None:
        raise returned(benchmark, "kinds_of", f"{shown(unknown)}; the kinds are {', '.join(KINDS)}")
    return frozenset(kinds)


def checked_case_names(benchmark: Benchmark, names: object, count: int) -> Sequence[str] | None:
    """Return the names of cases that ``benchmark.case_names`` returned; None if each item is a case.

    :param count: number of items.
    :raises ContractError: if they are not one string per item, in the order of the items.
    """
    if names is None:
        return None
    # A set has no order, so its names would belong to other items in each process.
    if not isinstance(names, Sequence):
        problem = type_name(names)
    elif not _are_texts(names):
        problem = shown(names)
    elif len(names) != count:
        problem = f"{len(names)} names for {count} items"
    else:
        return tuple(names)
    _close(names)
    raise returned(benchmark, "case_names", f"{problem}; return a list with one name per item")


def checked_texts(benchmark: Benchmark, method: str, values: object) -> tuple[str, ...]:
    """Return the strings that a method of the benchmark returned.

    :raises ContractError: if they are something else, such as one string.
    """
    if not _are_texts(values):
        raise returned(benchmark, method, f"{shown(values)}; return a set or tuple of strings")
    return tuple(typing.cast("Collection[str]", values))


# ---- metrics and remarks


def checked_metrics(
    benchmark: Benchmark, records: Sequence[VerdictRecord]
) -> tuple[list[Metric], list[ContractError]]:
    """Return the metrics of ``benchmark`` that can be recorded, and why others cannot."""
    rows, problems = _members(benchmark, "metrics", "Metric", records)
    metrics: dict[tuple[str, ...], Metric] = {}
    for row in rows:
        problem = _metric_problem(row)
        if not problem:
            assert isinstance(row, Metric)
            key = (row.task, row.language, row.source, row.name, row.group)
            if key not in metrics:
                metrics[key] = row
                continue
            problem = (
                f"two metrics {shown(row.name)} with the same task, language, source and group; keep one"
            )
        problems.append(returned(benchmark, "metrics", problem))
    return list(metrics.values()), problems


def checked_remarks(
    benchmark: Benchmark, records: Sequence[VerdictRecord]
) -> tuple[list[str], list[ContractError]]:
    """Return the remarks of ``benchmark``, one line each, and why others cannot be recorded."""
    return _remarks(benchmark, "remarks", records)


def checked_plan_remarks(
    benchmark: Benchmark, items: Sequence[Item], settings: object
) -> tuple[list[str], list[ContractError]]:
    """Return the remarks of ``benchmark`` on the plan, one line each, and why others cannot be shown."""
    return _remarks(benchmark, "plan_remarks", items, settings)


def _remarks(benchmark: Benchmark, method: str, *arguments: object) -> tuple[list[str], list[ContractError]]:
    rows, problems = _members(benchmark, method, "strings", *arguments)
    remarks = [one_line(row) for row in rows if isinstance(row, str)]
    problems += [
        returned(benchmark, method, f"{type_name(row)}; return a list of strings")
        for row in rows
        if not isinstance(row, str)
    ][:1]
    return remarks, problems


def checked_search_calls(benchmark: Benchmark, settings: object, name: str) -> int | None:
    """Return the maximum number of requests of a search.

    :raises ContractError: if it is neither a whole number nor None, or an exception was raised.
    """
    try:
        calls: object = benchmark.search_calls(settings, name)
    except KeyboardInterrupt:
        raise
    except BaseException as fault:
        raise raised(benchmark, "search_calls", fault) from None
    if calls is None or (isinstance(calls, int) and calls >= 0):
        return calls
    raise returned(benchmark, "search_calls", f"{shown(calls)}; return a whole number or None")


def _members(
    benchmark: Benchmark, method: str, what: str, *arguments: object
) -> tuple[list[object], list[ContractError]]:
    """Return what a method returned or yielded until it raised an exception, and the problem."""
    rows: list[object] = []
    try:
        result: object = getattr(benchmark, method)(*arguments)
        if not isinstance(result, Iterable) or isinstance(result, str | bytes | Mapping):
            _close(result)
            return rows, [returned(benchmark, method, f"{type_name(result)}; return a list of {what}")]
        rows.extend(result)
    except KeyboardInterrupt:
        raise
    except BaseException as fault:
        return rows, [raised(benchmark, method, fault)]
    return rows, []


def _metric_problem(metric: object) -> str:
    if not isinstance(metric, Metric):
        return f"{type_name(metric)}; return a list of Metric"
    for name in ("task", "language", "source", "name", "group"):
        text = getattr(metric, name)
        if not isinstance(text, str) or not text.isprintable():
            return f"a Metric whose {name} is {shown(text)}; use a string in one line"
    where = f"the metric {shown(metric.name)} of {shown(metric.task)}"
    for name in ("value", "ci_low", "ci_high"):
        value = getattr(metric, name)
        if value is not None and not is_number(value):
            return f"{where} whose {name} is {number_shown(value)}; use a finite int or float, or None"
    if not isinstance(metric.n, int) or metric.n < 0:
        return f"{where} whose n is {number_shown(metric.n)}; use the number of observations"
    if not is_direction(metric.direction):
        return f"{where} whose direction is {shown(metric.direction)}; use higher, lower, none or target:X"
    return ""


# ---- searches


def checked_search(benchmark: Benchmark, result: object) -> Searched | str:
    """Return the result of ``benchmark.search``.

    :raises ContractError: if it is neither a property nor a phrase.
    """
    if isinstance(result, str) or all(hasattr(result, name) for name in ("size", "holds", "counterexample")):
        return typing.cast("Searched | str", result)
    problem = f"{type_name(result)}; return an object with size, holds and counterexample, or a string"
    raise returned(benchmark, "search", problem)


def checked_holds(benchmark: Benchmark, result: object) -> bool | None:
    """Return the result of ``holds`` of a property.

    :raises ContractError: if it is neither a bool nor None.
    """
    if result is None or isinstance(result, bool):
        return result
    raise returned(benchmark, "holds", f"{type_name(result)}; return True, False or None")


def checked_counterexample(benchmark: Benchmark, result: object) -> Counterexample | None:
    """Return a counterexample that can be recorded.

    :raises ContractError: if it cannot.
    """
    if result is None:
        return None
    if not isinstance(result, Counterexample):
        raise returned(benchmark, "counterexample", f"{type_name(result)}; return a Counterexample or None")
    why: object = result.why
    if not isinstance(why, str):
        problem = f"a Counterexample whose why is {type_name(why)}; use a string"
        raise returned(benchmark, "counterexample", problem)
    for name in ("values", "evidence"):
        problem = json_problem(getattr(result, name), name)
        if problem:
            raise returned(benchmark, "counterexample", f"a Counterexample whose {problem}")
    for name in ("replications", "replicated"):
        count: object = getattr(result, name)
        if not isinstance(count, int) or count < 0:
            problem = f"{name} is {shown(count)}; use a whole number"
            raise returned(benchmark, "counterexample", f"a Counterexample whose {problem}")
    return result
