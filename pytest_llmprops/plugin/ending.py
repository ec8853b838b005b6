"""Tells :func:`pytest_llmprops.measure` why a run ended early; loaded by the variable ``PYTEST_PLUGINS``."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

#: the variable with the file for the reason; workers do not inherit it
FILE = "LLMPROPS_ENDING"
_file = os.environ.pop(FILE, "")


def _write(reason: str) -> None:
    if _file and reason:
        Path(_file).write_text(reason, encoding="utf-8", errors="replace")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Generator[None, object, object]:
    try:
        result = yield
    except pytest.UsageError as error:
        _write(str(error))
        raise
    unknown = [word for word in parser.parse_known_and_unknown_args(args)[1] if word.startswith("-")]
    _write(f"unrecognized arguments: {' '.join(unknown)}" if unknown else "")
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main() -> Generator[None, object, object]:
    try:
        return (yield)
    except pytest.UsageError as error:
        _write(str(error))
        raise


def pytest_internalerror(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    _write(excinfo.exconly())


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    if isinstance(excinfo.value, pytest.exit.Exception):
        _write(str(excinfo.value.msg).removeprefix("llmprops: "))


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    controller: Any = config.pluginmanager.get_plugin("llmprops-controller")
    if controller is not None:
        _write(controller.reason)
