"""Checks of what the code of a benchmark returns or raises.

A benchmark may come from anyone. A value that cannot be recorded must become one clear line at the item that it belongs
to, and must never reach the record, where it would cost the verdicts of the other items.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from pytest_llmprops.core.benchmark import Benchmark, Counterexample, DataFiles, Loaded
from pytest_llmprops.core.errors import ContractError, LLMPropsError, UsageError
from pytest_llmprops.core.faults import fault_line, shown, type_name
from pytest_llmprops.core.field_types import LARGEST
from pytest_llmprops.core.items import LIMITED_SIZES, WEIGHTINGS, Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.protocols import NamedSettings
from pytest_llmprops.core.requests import KINDS
from pytest_llmprops.core.strict_json import json_problem
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.core.verdicts import STATUSES, Verdict, VerdictRecord

#: returns what is wrong with a value, as it follows the value's name in a sentence; empty if nothing is
Form: TypeAlias = Callable[[Any], str]


def _form(accepts: Callable[[Any], bool], use: str) -> Form:
    return lambda value: "" if accepts(value) else f" is {shown(value)}; use {use}"


def _one_of(names: Sequence[str]) -> Form:
    use = f"{', '.join(names[:-1])} or {names[-1]}"
    return _form(lambda value: isinstance(value, str) and value in names, use)


def _number(least: float, most: float, use: str) -> Form:
    # Nothing is true of NaN.
    return _form(lambda value: isinstance(value, int | float) and least <= value <= most, use)


def _or_none(form: Form) -> Form:
    return lambda value: "" if value is None else (problem := form(value)) and f"{problem}, or None"


def _not_empty(form: Form) -> Form:
    return lambda value: form(value) or ("" if value else " is empty")


def _dict(member: Form, key: Form | None = None) -> Form:
    """Return the form of a dict, which may be any mapping."""

    def problem(value: Any) -> str:
        if not isinstance(value, Mapping):
            return f" is {shown(value)}; use a dict"
        for name, one in value.items():
            if why := (key or _TEXT)(name):
                return f" has a key that{why}"
            if why := member(one):
                return f"[{shown(name)}]{why}"
        return ""

    return problem


def _object(cls: type, attributes: Mapping[str, Form], name: Callable[[Any], str] | None = None) -> Form:
    """Return the form of an object of the package's own class, whose attributes have forms.

    :param name: returns what the object is called in a message.
    """

    def problem(value: Any) -> str:
        if not isinstance(value, cls):
            return f" is {shown(value)}; use a {cls.__name__}"
        why = _attribute_problem(value, attributes)
        return f" is {name(value) if name else f'a {cls.__name__}'} whose {why}" if why else ""

    return problem


def _attribute_problem(value: object, attributes: Mapping[str, Form]) -> str:
    problems = (f"{name}{why}" for name, form in attributes.items() if (why := form(getattr(value, name))))
    return next(problems, "")


def _are_texts(values: object) -> bool:
    if not isinstance(values, Collection) or isinstance(values, str | bytes | Mapping):
        return False
    return all(isinstance(value, str) for value in values)


def _protocol(named: Any) -> str:
    """Return what is wrong with the settings of a protocol, as a :data:`Form`."""
    if not isinstance(named, NamedSettings):
        return f" is {shown(named)}; use NamedSettings(MySettings())"
    settings: Any = named.settings
    parameters: Any = getattr(settings, "__dataclass_params__", None)
    if isinstance(settings, type) or parameters is None or not parameters.frozen:
        return (
            f" has settings that are {shown(settings)}; use an object of a class with @dataclass(frozen=True)"
        )
    if not _are_texts(named.assumed) or not isinstance(named.gives_up, str):
        return ": assumed must be a tuple of strings, and gives_up a string"
    try:
        typing.get_type_hints(type(settings))
        problem = json_problem(dataclasses.asdict(settings))
    except (NameError, TypeError, ValueError, RecursionError) as error:
        problem = f" cannot be read ({fault_line(error)})"
    return f" has settings that cannot be recorded: it{problem}" if problem else ""


_DIRECTION = r"(higher|lower|none|target:[-+.\deE]+)\Z"
#: the target of a metric in the class may depend on the row
_DECLARED = _DIRECTION + r"|target:1/[a-z]\Z"


def _direction(pattern: str) -> Form:
    match = re.compile(pattern).match
    return _form(
        lambda value: isinstance(value, str) and bool(match(value)), "higher, lower, none or target:X"
    )


_TEXT = _form(lambda value: isinstance(value, str), "a string")
_LINE = _form(lambda value: isinstance(value, str) and value.isprintable(), "a string in one line")
_TEXTS = _form(_are_texts, 'a set of strings, such as frozenset({"easy"})')
_KINDS = _form(lambda value: _are_texts(value) and set(value) <= set(KINDS), f"a set of {', '.join(KINDS)}")
_COUNT = _form(lambda value: isinstance(value, int) and value >= 0, "a whole number")
_NUMBER = _number(-LARGEST, LARGEST, f"a number from {-LARGEST:g} to {LARGEST:g}")
_SHARE = _number(0, 1, "a number from 0 to 1")
_CLASS: Mapping[str, Form] = {
    **dict.fromkeys(("title", "about", "noun", "verb", "printed_task"), _TEXT),
    **dict.fromkeys(("controls", "side_tasks", "presentation", "tasks_by_answer", "properties"), _TEXTS),
    **dict.fromkeys(("chance", "accuracy_targets"), _dict(_SHARE)),
    **dict.fromkeys(("task_about", "bounded_metrics", "unranked"), _dict(_TEXT)),
    "kinds": _not_empty(_KINDS),
    "roles": _or_none(_TEXTS),
    "metric_directions": _dict(_direction(_DECLARED)),
    "sizes": _dict(_dict(_COUNT), key=_one_of(LIMITED_SIZES)),
    "weighting": _one_of(WEIGHTINGS),
    "protocols": _not_empty(_dict(_protocol)),
}
_VERDICT = _object(
    Verdict,
    {
        "status": _one_of(STATUSES),
        **dict.fromkeys(("expected", "given", "reason", "task"), _TEXT),
        "score": _SHARE,
        "values": _dict(_NUMBER),
        "evidence": json_problem,
    },
)
_METRIC = _object(
    Metric,
    {
        **dict.fromkeys(("task", "language", "source", "name", "group"), _LINE),
        **dict.fromkeys(("value", "ci_low", "ci_high"), _or_none(_NUMBER)),
        "n": _COUNT,
        "direction": _direction(_DIRECTION),
    },
    lambda metric: f"the metric {shown(metric.name)} of {shown(metric.task)}",
)
_COUNTEREXAMPLE = _object(
    Counterexample,
    {
        "why": _TEXT,
        **dict.fromkeys(("values", "evidence"), json_problem),
        **dict.fromkeys(("replications", "replicated"), _COUNT),
    },
)
_MEMBERS = ("size", "holds", "counterexample")
#: method -> what it returns
_RESULTS: Mapping[str, Form] = {
    "helpers": _TEXTS,
    "roles_of": _TEXTS,
    "kinds_of": _KINDS,
    "prepared": _form(lambda value: isinstance(value, Loaded), "a Loaded"),
    "evaluate": _VERDICT,
    "search": _form(
        lambda value: isinstance(value, str) or all(hasattr(value, name) for name in _MEMBERS),
        "an object with size, holds and counterexample, or a string",
    ),
    "holds": _form(lambda value: value is None or isinstance(value, bool), "True, False or None"),
    "counterexample": _or_none(_COUNTEREXAMPLE),
    "search_calls": _or_none(_COUNT),
}
_CLASS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z")


def raised(benchmark: object, method: str, fault: BaseException) -> ContractError:
    """Return the error for an exception that a method of a benchmark raised."""
    return ContractError(f"{method} of {_name(benchmark)} raised {fault_line(fault)}")


def returned(benchmark: object, method: str, problem: str) -> ContractError:
    """Return the error for a value that a method of a benchmark returned; ``problem`` is a phrase."""
    return ContractError(f"{method} of {_name(benchmark)} returned {problem}")


def _name(benchmark: object) -> str:
    return benchmark.__name__ if isinstance(benchmark, type) else type(benchmark).__name__


async def awaited(benchmark: object, method: str, call: Callable[[], object]) -> object:
    """Call an async method of a benchmark and return its result.

    :raises LLMPropsError: the method's own; a :class:`ContractError` if it is not async, or raised anything else.
    """
    try:
        work = call()
        if not hasattr(work, "__await__"):
            raise returned(benchmark, method, f"{type_name(work)} without async; write 'async def {method}'")
        result: object = await work
    except LLMPropsError:
        raise
    except BaseException as fault:
        task = asyncio.current_task()
        if isinstance(fault, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise raised(benchmark, method, fault) from None
    return result


def checked(benchmark: object, method: str, result: object, form: Form | None = None) -> Any:
    """Return what a method of a benchmark returned, if it can be used and recorded.

    :param form: what the method returns, if that depends on its arguments.
    :raises ContractError: with the first problem.
    """
    try:
        problem = (form or _RESULTS[method])(result)
    except Exception as fault:
        # A subclass may lack an attribute, or have properties.
        problem = f" is a {type_name(result)} that cannot be read: {fault_line(fault)}"
    if not problem:
        return result
    # Python would warn later about a coroutine that is neither awaited nor closed.
    if hasattr(result, "__await__") and hasattr(result, "close"):
        result.close()
    raise returned(benchmark, method, problem[4:] if problem.startswith(" is ") else f"a value that{problem}")


def checked_verdict(benchmark: Benchmark, item: Item, verdict: object) -> Verdict:
    """Return the verdict of ``evaluate`` on an item if it can be recorded and read again.

    :raises ContractError: with the first problem.
    """
    good: Verdict = checked(benchmark, "evaluate", verdict)
    if good.task and good.task not in (*benchmark.tasks_by_answer, item.task):
        problem = f"a Verdict whose task is {shown(good.task)}, which is not in tasks_by_answer of the class"
        raise returned(benchmark, "evaluate", problem)
    return good


def checked_class(benchmark: type[Benchmark]) -> type[Benchmark]:
    """Return a benchmark's class whose attributes can be recorded.

    :raises UsageError: with the first problem, in one line.
    """
    name: object = getattr(benchmark, "name", None)
    if name is None:
        problem = 'it has no name; add a line such as name = "sums" to the class'
    elif not isinstance(name, str) or not _CLASS_NAME.match(name):
        use = "use ASCII letters, digits, _ and -"
        problem = f"the name {shown(name)} is not usable in options and files; {use}"
    elif benchmark.load is Benchmark.load:
        problem = "it does not define load(self, files)"
    elif benchmark.evaluate is Benchmark.evaluate:
        problem = "it does not define evaluate(self, item, context, ask, protocol)"
    else:
        problem = _attribute_problem(benchmark, _CLASS)
    if problem:
        raise UsageError(f"benchmark {benchmark.__name__}: {problem}")
    return benchmark


@contextmanager
def calling(benchmark: Benchmark, method: str) -> Iterator[None]:
    """Turn an exception of a benchmark's method into one line that names the method.

    :raises LLMPropsError: the method's own, as it is; a :class:`ContractError` for any other.
    """
    try:
        yield
    except (LLMPropsError, KeyboardInterrupt):
        raise
    except BaseException as fault:
        raise raised(benchmark, method, fault) from None


def loaded(benchmark: Benchmark, files: DataFiles) -> Loaded:
    """Return the result of ``benchmark.load``, which may also return items only.

    :raises LLMPropsError: if it is not usable, or an exception was raised.
    """
    with calling(benchmark, "load"):
        return _with_items(benchmark, "load", benchmark.load(files))


def prepared(benchmark: Benchmark, files: DataFiles, settings: object) -> Loaded:
    """Return the result of ``benchmark.prepared`` for what it :func:`loaded`.

    :raises LLMPropsError: if one of them is not usable, or an exception was raised.
    """
    part = loaded(benchmark, files)
    with calling(benchmark, "prepared"):
        result = checked(benchmark, "prepared", benchmark.prepared(part, files, settings))
        return part if result is part else _with_items(benchmark, "prepared", result)


def _with_items(benchmark: Benchmark, method: str, result: object) -> Loaded:
    items, context = (result.items, result.context) if isinstance(result, Loaded) else (result, None)
    # A generator raises its exceptions here.
    members = tuple(checked(benchmark, method, items, _list_of("Item")))
    for number, item in enumerate(members, 1):
        if not isinstance(item, Item):
            raise returned(benchmark, method, f"{shown(item)} as item {number}; use a list of Item")
    return Loaded(members, context)


def _list_of(name: str) -> Form:
    """Return the form of what a method may also yield."""
    return _form(
        lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping),
        f"a list of {name}",
    )


def checked_case_names(benchmark: Benchmark, names: object, n: int) -> Sequence[str] | None:
    """Return the names of cases that ``benchmark.case_names`` returned; None if each item is a case.

    :param n: number of items.
    :raises ContractError: if they are not one string per item, in the order of the items.
    """
    # A set has no order, so its names would belong to other items in each process.
    form = _form(
        lambda value: isinstance(value, Sequence) and _are_texts(value) and len(value) == n,
        f"a list of {n} strings, one name per item",
    )
    good: Sequence[str] | None = checked(benchmark, "case_names", names, _or_none(form))
    return good


def checked_metrics(
    benchmark: Benchmark, records: Sequence[VerdictRecord]
) -> tuple[list[Metric], list[ContractError]]:
    """Return the metrics of ``benchmark`` that can be recorded, and why others cannot."""
    rows, problems = _members(benchmark, "metrics", "Metric", _METRIC, records)
    metrics: dict[tuple[str, ...], Metric] = {}
    for row in rows:
        key = (row.task, row.language, row.source, row.name, row.group)
        if metrics.setdefault(key, row) is not row:
            problem = (
                f"two metrics {shown(row.name)} with the same task, language, source and group; keep one"
            )
            problems.append(returned(benchmark, "metrics", problem))
    return list(metrics.values()), problems


def checked_remarks(
    benchmark: Benchmark, method: str, *arguments: object
) -> tuple[list[str], list[ContractError]]:
    """Return the remarks that a method of ``benchmark`` returned, one line each, and why others cannot be shown."""
    rows, problems = _members(benchmark, method, "strings", _TEXT, *arguments)
    return list(map(one_line, rows)), problems


def _members(
    benchmark: Benchmark, method: str, name: str, form: Form, *arguments: object
) -> tuple[list[Any], list[ContractError]]:
    """Return the usable members of what a method returned or yielded until it raised an exception, and the problems."""
    rows: list[Any] = []
    problems: list[ContractError] = []
    try:
        for row in checked(benchmark, method, getattr(benchmark, method)(*arguments), _list_of(name)):
            try:
                rows.append(checked(benchmark, method, row, form))
            except ContractError as problem:
                problems.append(problem)
    except KeyboardInterrupt:
        raise
    except BaseException as fault:
        problems.append(fault if isinstance(fault, ContractError) else raised(benchmark, method, fault))
    return rows, problems
