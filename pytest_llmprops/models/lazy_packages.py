"""Importing a library without the parts of it that only its type checker needs.

``import openai`` spends two thirds of its time on ``openai.types.responses``: 250 modules of response
classes for an API that is not called here. :func:`lazy_packages` puts off the ``__init__`` of named
packages until something asks for a name in them. Nothing is replaced and nothing goes missing: the first
name asked for, or the first submodule imported afterwards, runs the ``__init__``, as the standard library's
``importlib.util.LazyLoader`` does for plain modules (it cannot for packages, whose submodules are
imported before any name is asked for).
"""

from __future__ import annotations

import importlib.machinery
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from types import ModuleType
from typing import Any

_lock = threading.RLock()


class _LazyPackage(ModuleType):
    """A package whose ``__init__`` runs when the first name is asked for."""

    def __getattr__(self, name: str) -> Any:
        # The import system asks for dunder names of its own; those are set already, or not there.
        if (not name.startswith("__") or name == "__all__") and self._run_init():
            return getattr(self, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> Iterable[str]:
        self._run_init()
        return super().__dir__()

    def _run_init(self) -> bool:
        """Run the ``__init__``, once; whether this call did."""
        with _lock:
            loader = self.__spec__.loader if self.__spec__ else None
            if not isinstance(loader, _LazyLoader) or loader.done:
                return False
            loader.done = True
            try:
                loader.inner.exec_module(self)
            except BaseException:
                loader.done = False
                raise
            return True


class _LazyLoader(Loader):
    """Makes the package and leaves its ``__init__`` for later."""

    def __init__(self, inner: Loader) -> None:
        self.inner, self.done = inner, False

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _LazyPackage(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet."""

    def __getattr__(self, name: str) -> Any:
        # get_source, get_data, get_resource_reader ...: what tracebacks and resources ask of a loader.
        return getattr(self.inner, name)


class _Finder:
    """Finds the named packages and nothing else."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None and spec.submodule_search_locations is not None:
            spec.loader = _LazyLoader(spec.loader)
        return spec


class _Existing(Loader):
    """Hands out a module that is imported already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _Waker:
    """Runs the ``__init__`` of a lazy package before a submodule of it is imported.

    Without it, a submodule that imports its siblings through the package would start the ``__init__``
    halfway through itself, which fails as a circular import. Stays in place for good.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.open = 0

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if self.open:
            return None
        woken = False
        # From the outer package to the inner, as an import that is not lazy runs them.
        for package in sorted(self.names):
            module = sys.modules.get(package)
            if name.startswith(f"{package}.") and isinstance(module, _LazyPackage):
                woken = module._run_init() or woken
        if not woken or name not in sys.modules:
            return None
        existing = sys.modules[name]
        spec = importlib.machinery.ModuleSpec(name, _Existing(existing))
        # The import system prefers the spec of a module that appeared meanwhile, and would run it again.
        existing.__spec__ = spec
        return spec


_waker = _Waker()


@contextmanager
def lazy_packages(*names: str) -> Iterator[None]:
    """While this is open, the packages ``names`` are imported lazily; they stay so afterwards."""
    finder = _Finder(frozenset(names))
    _waker.names |= {name for name in names if name not in sys.modules}
    if _waker not in sys.meta_path:
        sys.meta_path.insert(0, _waker)
    sys.meta_path.insert(0, finder)
    _waker.open += 1
    try:
        yield
    finally:
        _waker.open -= 1
        sys.meta_path.remove(finder)
