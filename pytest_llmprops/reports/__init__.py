"""Reports of runs: on the terminal, as pages, and as results of Allure."""

import importlib.util
from collections.abc import Iterable

from pytest_llmprops.core.errors import MissingExtra

#: the packages of the extra ``report`` that pages need, and those that serving them needs as well
PAGES, SERVER = ("jinja2", "matplotlib"), ("starlette", "uvicorn")


def missing_package(packages: Iterable[str]) -> str:
    """Return the first package that is not installed; empty if all are. Imports none of them."""
    return next((name for name in packages if importlib.util.find_spec(name) is None), "")


def check_packages(command: str, packages: Iterable[str] = PAGES) -> None:
    """Check that packages of the extra ``report`` are installed.

    :raises MissingExtra: naming the command that needs them.
    """
    if package := missing_package(packages):
        raise MissingExtra(command, package=package, extra="report")
