"""The import of this package's modules, without pytest's rewriting of assertions.

Pytest rewrites the assertions of every module in a distribution that has a plugin. It keeps compiled files of its own
and does not use those that pip has made. Where it may not write (``PYTHONDONTWRITEBYTECODE``, a read-only disk), each
process would therefore compile the whole package again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_PACKAGE = __name__.partition(".")[0] + "."
#: test files, whose assertions pytest explains
_SUITES = _PACKAGE + "suites"


class OwnModules:
    """A finder of modules that comes before the one of pytest."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of this package that is not a test file; None for others."""
        if name.startswith(_PACKAGE) and not name.startswith(_SUITES):
            return PathFinder.find_spec(name, path, target)
        return None


def import_as_compiled() -> None:
    """Import the modules of this package as Python compiles them, from now on."""
    if OwnModules not in sys.meta_path:
        sys.meta_path.insert(0, OwnModules)
