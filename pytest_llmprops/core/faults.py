"""Exceptions and values of others' code (benchmarks, models, libraries), as one short line for a message."""

from __future__ import annotations

import sys
from types import TracebackType

from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.core.texts import one_line, shortened

#: characters of an exception in a line
_MOST = 300
#: types whose values a message shows; of other values, it has the type
_SHOWN = (str, bool, int, list, tuple, set, frozenset, dict)
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


def shown(value: object) -> str:
    """Return a value for a message, or its type if the value may be long or odd."""
    if isinstance(value, float):
        return f"{value:g}"
    try:
        return one_line(repr(value), 60) if type(value) in _SHOWN else type_name(value)
    except Exception:
        return type_name(value)


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
