"""Imports only go to lower parts and make no cycle, and the always-loaded plugin stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pytest_llmprops

PACKAGE = Path(pytest_llmprops.__file__).parent
#: The parts of the package that each part may import. ``benchmark`` is the top folder of one benchmark; its ``tools``,
#: ``report`` and ``cli`` may also import it and each other downwards, but never another benchmark.
ALLOWED = {
    "statistics": set(),
    "core": {"statistics"},
    "records": {"statistics", "core"},
    "registry": {"statistics", "core"},
    "benchmark": {"statistics", "core"},
    "models": {"statistics", "core"},
    "engine": {"statistics", "core", "records", "models"},
    "data": {"statistics", "core", "records", "registry"},
    "runs": {"statistics", "core", "records", "registry", "data"},
    "reports": {"statistics", "core", "records", "registry", "data", "runs"},
    "training": {"statistics", "core", "records", "data", "runs"},
    "tools": {"statistics", "core", "records", "registry", "models", "data", "runs", "training", "benchmark"},
    "report": {"statistics", "core", "records", "data", "runs", "reports", "benchmark"},
    "report_kit": {"statistics", "core", "reports"},
    "notebook": {"statistics", "core", "records", "registry", "models", "data", "runs", "reports"},
    "plugin": {"statistics", "core", "records", "registry", "models", "engine", "data", "runs", "reports", "public"},
    "cli": {
        "statistics", "core", "records", "registry", "models", "engine", "data", "runs", "training", "reports",
        "public", "tools", "report", "benchmark",
    },
}  # fmt: skip
#: The parts that do no input or output, and what they may import from outside the package.
#: Type checkers know typing_extensions without the package.
PURE = {
    "statistics": {"numpy", "scipy"},
    "core": {"annotated_types", "numpy", "pydantic_core", "scipy", "typing_extensions"},
    "benchmark": {"numpy", "scipy", "rapidfuzz"},
}
IMPURE_MODULES = {
    "os", "io", "pathlib", "subprocess", "socket", "time", "datetime", "tempfile", "sqlite3", "urllib"
}  # fmt: skip
IMPURE_FUNCTIONS = {"open", "print", "input", "eval", "exec"}


def _part(module: str) -> tuple[str, str]:
    """Return the part of the package that a module belongs to, and its benchmark (empty outside of benchmarks)."""
    names = module.split(".")[1:]
    if not names:
        return "public", ""
    if names[0] == "benchmark_registry":
        return "registry", ""
    if names[0] != "benchmarks":
        return names[0], ""
    if len(names) == 1:
        return "benchmark", ""
    folder = names[2] if len(names) > 2 else ""
    return (folder if folder in ("tools", "report", "cli") else "benchmark"), names[1]


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(p): p for p in sorted(PACKAGE.rglob("*.py")) if "_data" not in p.relative_to(PACKAGE).parts}


@cache
def _tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


@cache
def _imports(name: str) -> set[str]:
    """Return all modules that a module imports; ``from a import b`` counts as ``a.b`` if that is a module."""
    imported: set[str] = set()
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: write imports in full"
            base = node.module or ""
            for alias in node.names:
                full = f"{base}.{alias.name}"
                imported.add(full if full in MODULES else base)
    return imported


def test_imports_follow_the_layers() -> None:
    """A module imports its own part and the parts below it; no benchmark imports another."""
    wrong = []
    for name in MODULES:
        part, benchmark = _part(name)
        if part == "public":
            continue
        for imported in _imports(name):
            top = imported.split(".")[0]
            if top == "pytest_llmprops":
                target, target_benchmark = _part(imported)
                is_allowed = (target == part or target in ALLOWED[part]) and (
                    not (benchmark and target_benchmark) or benchmark == target_benchmark
                )
            elif top in ("pytest", "xdist"):
                is_allowed = part == "plugin"
            else:
                is_allowed = top != "_pytest" and (
                    part not in PURE or top in sys.stdlib_module_names | PURE[part]
                )
            if not is_allowed:
                wrong.append(f"{name} imports {imported}")
    assert not wrong


def test_no_import_cycles() -> None:
    """No module imports itself through others, not even inside a function or for types only."""
    graph = {name: {i for i in _imports(name) if i in MODULES and i != name} for name in MODULES}
    # The public interface imports its names lazily, from anywhere.
    del graph["pytest_llmprops"]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("circle of imports: " + " -> ".join(error.args[1]))


def test_core_and_benchmarks_do_no_io() -> None:
    """Core and the judging of benchmarks open no file and read neither clock nor environment."""
    for name in MODULES:
        if _part(name)[0] in PURE:
            assert not IMPURE_MODULES & {imported.split(".")[0] for imported in _imports(name)}, name
            calls = [node.func for node in ast.walk(_tree(name)) if isinstance(node, ast.Call)]
            called = {function.id for function in calls if isinstance(function, ast.Name)}
            assert not IMPURE_FUNCTIONS & called, name


def test_plugin_without_a_model_imports_nothing_heavy() -> None:
    """Importing the plugin after pytest loads two small modules."""
    code = (
        "import sys, pytest; a = {*sys.modules}; import pytest_llmprops.plugin; print(*({*sys.modules} - a))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"pytest_llmprops", "pytest_llmprops.plugin"}


def test_public_names_are_sorted_and_importable() -> None:
    """``__all__`` is sorted, and each of its names can be imported."""
    assert pytest_llmprops.__all__ == sorted(pytest_llmprops.__all__)
    for name in pytest_llmprops.__all__:
        assert getattr(pytest_llmprops, name) is not None
    with pytest.raises(AttributeError, match="nosuch"):
        pytest_llmprops.nosuch  # noqa: B018
