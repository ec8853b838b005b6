"""Checks of what the code of a benchmark returns or raises.

A benchmark may come from anyone. A value that cannot be recorded must become one clear line at the item that it belongs
to, and must never reach the record, where it would cost the verdicts of the other items.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from math import isfinite
from types import TracebackType
from typing import Any

from pytest_llmprops.core.errors import ContractError, LLMPropsError
from pytest_llmprops.core.field_types import DEEPEST, LARGEST
from pytest_llmprops.core.texts import one_line, shortened
from pytest_llmprops.core.verdicts import STATUSES, Verdict

#: characters of an exception in a line
_MOST = 300
_TEXTS = ("expected", "given", "reason", "task")
_NUMBER = (int, float)
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_PACKAGE, _BENCHMARKS = "pytest_llmprops.", "pytest_llmprops.benchmarks."
_INSTALLED = ("site-packages", "dist-packages")
#: packages whose frames are above those of a benchmark, or below them as in ``pytest.skip()``
_PYTEST = ("_pytest", "pluggy", "xdist")


def type_name(value: object) -> str:
    """Return the type of a value for a message: ``None``, ``bool``, ``numpy.float32``."""
    if value is None:
        return "None"
    cls = type(value)
    is_known = cls.__module__.partition(".")[0] in ("builtins", "pytest_llmprops")
    return cls.__qualname__ if is_known else f"{cls.__module__}.{cls.__qualname__}"


# ---- exceptions


def fault_text(fault: BaseException) -> str:
    """Return an exception as one short line; a message of this project stands for itself."""
    try:
        text = one_line(str(fault), _MOST)
    except Exception:
        text = "its message cannot be shown"
    if isinstance(fault, LLMPropsError) and text:
        return text
    name = type(fault).__name__
    line = shortened(f"{name}: {text}", _MOST) if text else name
    is_unawaited = isinstance(fault, AttributeError | TypeError) and "'coroutine'" in text
    return f"{line}; write 'await' before the call" if is_unawaited else line


def own_traceback(fault: BaseException) -> TracebackType | None:
    """Return the traceback of an exception from the first frame outside of this project; None without one."""
    trace = fault.__traceback__
    while trace is not None and not _is_foreign(trace):
        trace = trace.tb_next
    return trace


def place_of(fault: BaseException) -> str:
    """Return the last line of the benchmark's code that an exception passed: ``test_sums.py, line 14``."""
    trace, last, installed = fault.__traceback__, None, None
    while trace is not None:
        if _is_foreign(trace):
            # A benchmark may be installed, too, but an installed package is more likely one that it calls.
            if any(name in _file(trace) for name in _INSTALLED):
                installed = trace
            else:
                last = trace
        trace = trace.tb_next
    last = last or installed
    if last is None:
        return ""
    return f"{_file(last).replace(chr(92), '/').rpartition('/')[2]}, line {last.tb_lineno}"


def _is_foreign(trace: TracebackType) -> bool:
    """Return True if a frame belongs neither to this project, except its benchmarks, nor to Python or pytest."""
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    if module.startswith(_PACKAGE):
        return module.startswith(_BENCHMARKS)
    package = module.partition(".")[0]
    return package not in sys.stdlib_module_names and package not in _PYTEST


def _file(trace: TracebackType) -> str:
    return trace.tb_frame.f_code.co_filename


def fault_line(fault: BaseException) -> str:
    """Return an exception with its place, in one line; a message of this project stands for itself."""
    place = "" if isinstance(fault, LLMPropsError) else place_of(fault)
    return f"{fault_text(fault)} ({place})" if place else fault_text(fault)


#: the beginning of the line on a model that could not be closed
NOT_CLOSED = "not closed: "


def not_closed(label: str, fault: BaseException) -> str:
    """Return the line on a model whose ``close`` raised an exception after the last call."""
    return (
        f"{NOT_CLOSED}{label}: its close raised {one_line(fault_line(fault), 300)}; no result depends on it"
    )


def raised(benchmark: object, method: str, fault: BaseException) -> ContractError:
    """Return the error for an exception that a method of a benchmark raised."""
    return ContractError(f"{method} of {_name(benchmark)} raised {fault_line(fault)}")


def returned(benchmark: object, method: str, problem: str) -> ContractError:
    """Return the error for a value that a method of a benchmark returned; ``problem`` is a phrase."""
    return ContractError(f"{method} of {_name(benchmark)} returned {problem}")


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


def _name(benchmark: object) -> str:
    return benchmark.__name__ if isinstance(benchmark, type) else type(benchmark).__name__


# ---- verdicts


def checked_verdict(benchmark: object, method: str, verdict: object, tasks: Collection[str] = ()) -> Verdict:
    """Return a verdict that can be recorded and read again.

    :param tasks: the tasks that the verdict may name.
    :raises ContractError: with the first problem.
    """
    try:
        problem = _verdict_problem(verdict, tasks)
    except Exception as fault:
        # A subclass may lack an attribute, or have properties.
        problem = f"a Verdict that cannot be read: {fault_line(fault)}"
    if problem:
        raise returned(benchmark, method, problem)
    assert isinstance(verdict, Verdict)
    return verdict


def _verdict_problem(verdict: object, tasks: Collection[str]) -> str:
    if not isinstance(verdict, Verdict):
        return f"{type_name(verdict)}; return a Verdict"
    status: object = verdict.status
    if not isinstance(status, str) or status not in STATUSES:
        return f"a Verdict with the status {shown(status)}; use {', '.join(STATUSES[:-1])} or {STATUSES[-1]}"
    for name in _TEXTS:
        text = getattr(verdict, name)
        if not isinstance(text, str):
            return f"a Verdict whose {name} is {type_name(text)}; use a string"
    if verdict.task and verdict.task not in tasks:
        return f"a Verdict with the task {shown(verdict.task)}, which is not in tasks_by_answer of the class"
    if not is_number(verdict.score) or not 0 <= verdict.score <= 1:
        return f"a Verdict whose score is {number_shown(verdict.score)}; use a float from 0 to 1"
    problem = _values_problem(verdict.values) or json_problem(verdict.evidence, "evidence")
    if problem:
        return f"a Verdict whose {problem}"
    if verdict.evidence and _is_too_deep(verdict.evidence):
        return f"a Verdict whose evidence has more than {DEEPEST} lists and dicts in each other"
    large = next((name for name, value in verdict.values.items() if not -LARGEST <= value <= LARGEST), None)
    return "" if large is None else f"a Verdict whose values[{shown(large)}] is larger than {LARGEST:g}"


def _is_too_deep(value: object) -> bool:
    """Return True for JSON with more levels of lists and dicts than a record may have."""
    level = [value]
    for _ in range(DEEPEST):
        inner = [m for outer in level for m in (outer.values() if isinstance(outer, Mapping) else outer)]  # type: ignore[attr-defined]
        level = [member for member in inner if isinstance(member, Mapping | list | tuple)]
        if not level:
            return False
    return True


def _values_problem(values: object) -> str:
    if type(values) is not dict and not isinstance(values, Mapping):
        return f"values are {type_name(values)}; use a dict of numbers"
    for name, value in values.items():
        if type(name) is str and type(value) is float and isfinite(value):
            continue
        if not isinstance(name, str):
            return f"values have the key {shown(name)}; use strings as keys"
        if not is_number(value):
            return f"values[{shown(name)}] is {number_shown(value)}; use a finite int or float"
    return ""


def json_problem(value: object, name: str) -> str:
    """Return why a dict cannot be recorded, as a phrase that begins with its ``name``; empty if it can."""
    if type(value) is not dict and not isinstance(value, Mapping):
        return f"{name} is {type_name(value)}; use a dict"
    if not value:
        return ""
    try:
        _encode(value if type(value) is dict else dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        what = _not_json(value, name, depth=50)
        what = what or f"{name} cannot be written as JSON ({fault_text(error)})"
        return f"{what}; use dicts, lists, strings, finite numbers, booleans and None"
    return ""


def _not_json(value: object, place: str, depth: int) -> str:
    """Return the first value in ``value`` that JSON cannot hold, as a phrase; an empty text if none is found."""
    if value is None or isinstance(value, str):
        return ""
    if isinstance(value, int | float):
        return "" if is_number(value) else f"{place} is {number_shown(value)}"
    members: Iterable[tuple[object, object]]
    if isinstance(value, dict) or ("[" not in place and isinstance(value, Mapping)):
        bad = next((key for key in value if not isinstance(key, str | int | float | None)), None)
        if bad is not None:
            return f"{place} has the key {shown(bad)}"
        members = value.items()
    elif isinstance(value, list | tuple):
        members = enumerate(value)
    else:
        return f"{place} is {type_name(value)}"
    if not depth:
        return f"{place[:60]}… is nested too deeply or contains itself"
    parts = (_not_json(member, f"{place}[{shown(key)}]", depth - 1) for key, member in members)
    return next(filter(None, parts), "")


def is_number(value: Any) -> bool:
    """Return True if a value is a finite int or float."""
    if not isinstance(value, _NUMBER):
        return False
    try:
        return isfinite(value)
    except OverflowError:
        return False


def number_shown(value: object) -> str:
    """Return a value that is not a usable number, for a message."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**20 else "an integer too large for a float"
    return type_name(value)


def shown(value: object) -> str:
    """Return a value for a message."""
    try:
        return one_line(repr(value), 60)
    except Exception:
        return type_name(value)
