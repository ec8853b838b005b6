"""Which value a failed assertion is about."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache


def asserts(error: AssertionError, value: object) -> bool:
    """Return whether ``error`` comes from ``assert NAME``, where ``value`` has this name.

    If the source cannot be read, the answer is yes.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return True
    frame = trace.tb_frame
    asserted = _asserted_names(frame.f_code.co_filename)
    if asserted is None:
        return True
    name = asserted.get(trace.tb_lineno)
    return name is not None and frame.f_locals.get(name, frame.f_globals.get(name)) is value


@lru_cache(maxsize=64)
def _asserted_names(file: str) -> dict[int, str] | None:
    """Return line -> name of each assertion of one name in a file; None if the file cannot be read."""
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return None
    if not lines:
        return None
    return {
        line: node.test.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Name)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
