"""Imports go down only, and an always-loaded plugin stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_llmprops

PACKAGE = Path(pytest_llmprops.__file__).parent
LAYERS = ("core", "benchmarks", "models", "engine", "data", "runs", "reports", "plugin", "cli")
#: what each layer may import of the package; beside itself
ALLOWED = {
    "core": set(),
    "benchmarks": {"core"},
    "models": {"core"},
    "engine": {"core", "models"},
    "data": {"core", "benchmarks"},
    "runs": {"core", "benchmarks", "data"},
    "reports": {"core", "data", "runs"},
    "plugin": {"core", "benchmarks", "models", "engine", "data", "runs", "reports"},
    "cli": {"core", "benchmarks", "models", "engine", "data", "runs", "reports"},
}
THIRD_PARTY = {
    "core": {"numpy", "scipy", "statsmodels"},
    "benchmarks": {"numpy", "scipy", "statsmodels"},
}


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            found.add(node.module or "")
    return found


def _modules() -> list[Path]:
    return [p for p in sorted(PACKAGE.rglob("*.py")) if p.parent != PACKAGE and "_data" not in p.parts]


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    """A module imports only layers below its own, and the lowest two hardly anything else."""
    layer = path.relative_to(PACKAGE).parts[0]
    for name in _imports(path):
        top, *rest = name.split(".")
        if top == "pytest_llmprops":
            target = rest[0] if rest else ""
            public = layer in ("plugin", "cli") and not rest
            assert public or target == layer or target in ALLOWED[layer], f"{layer} imports {name}"
        elif layer in THIRD_PARTY:
            assert top in sys.stdlib_module_names | THIRD_PARTY[layer], f"{layer} imports {name}"
        assert top != "_pytest", f"{path} imports {name}"
        if top in ("pytest", "xdist"):
            assert layer == "plugin", f"{layer} imports {name}"


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_core_and_benchmarks_do_no_io(path: Path) -> None:
    """Core and benchmarks open no file, read no clock and no environment."""
    if path.relative_to(PACKAGE).parts[0] not in ("core", "benchmarks"):
        return
    forbidden = {
        "os",
        "io",
        "pathlib",
        "subprocess",
        "socket",
        "time",
        "datetime",
        "tempfile",
        "sqlite3",
        "urllib",
    }
    assert not forbidden & {name.split(".")[0] for name in _imports(path)}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "print", "input", "eval", "exec")


def test_every_layer_is_listed() -> None:
    """The table of layers names every folder of the package."""
    folders = {p.parent.relative_to(PACKAGE).parts[0] for p in _modules()}
    assert folders == set(LAYERS) == set(ALLOWED)


def test_plugin_without_a_model_imports_nothing_heavy() -> None:
    """Loading the plugin imports pytest and a handful of our own small modules."""
    code = (
        "import sys, pytest; a = {*sys.modules}; import pytest_llmprops.plugin; print(*({*sys.modules} - a))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"pytest_llmprops", "pytest_llmprops.plugin"}


def test_public_names_are_sorted_and_importable() -> None:
    """Every public name can be imported; the list is sorted and complete."""
    assert pytest_llmprops.__all__ == sorted(pytest_llmprops.__all__)
    for name in pytest_llmprops.__all__:
        assert getattr(pytest_llmprops, name) is not None
    with pytest.raises(AttributeError, match="nosuch"):
        pytest_llmprops.nosuch  # noqa: B018


def test_public_functions_have_docstrings() -> None:
    """Every public class and function says what it does."""
    missing = []
    for path in _modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if not named or node.name.startswith(("_", "pytest_")):
                continue
            # An overload is a signature; the function that it is of has the docstring.
            overload = any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
            if not overload and not ast.get_docstring(node):
                missing.append(f"{path.relative_to(PACKAGE)}: {node.name}")
        assert ast.get_docstring(tree), path
    assert not missing
