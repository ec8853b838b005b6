"""Packages whose ``__init__`` runs when the first name is asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_llmprops.models.lazy_packages import lazy_packages


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package ``heavy_llmprops_test`` whose ``__init__`` writes a file when it runs."""
    folder = tmp_path / "heavy_llmprops_test"
    folder.mkdir()
    ran = tmp_path / "ran"
    (folder / "__init__.py").write_text(
        f"with open({str(ran)!r}, 'a') as file:\n    file.write('x')\nfrom .part import value\n"
    )
    (folder / "part.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield ran
    for name in [n for n in sys.modules if n.startswith("heavy_llmprops_test")]:
        del sys.modules[name]


def test_init_runs_once_at_the_first_name(package: Path) -> None:
    """Importing the package and a submodule runs nothing; the first name runs the ``__init__``, once."""
    with lazy_packages("heavy_llmprops_test"):
        heavy = importlib.import_module("heavy_llmprops_test")
        part = importlib.import_module("heavy_llmprops_test.part")
    assert part.value == 7
    assert not package.exists()
    assert heavy.value == 7
    assert "value" in dir(heavy)
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = heavy.other
    assert package.read_text() == "x"


def test_submodule_imported_later_finds_its_siblings(package: Path) -> None:
    """A submodule that imports a sibling through the package works afterwards, and is imported once."""
    folder = package.parent / "heavy_llmprops_test"
    (folder / "__init__.py").write_text("from .whole import Whole\nfrom .half import Half\n")
    (folder / "whole.py").write_text("from . import half\nclass Whole:\n    half = half.Half\n")
    (folder / "half.py").write_text("class Half: ...\n")
    with lazy_packages("heavy_llmprops_test"):
        heavy = importlib.import_module("heavy_llmprops_test")
    whole = importlib.import_module("heavy_llmprops_test.whole")
    assert whole.Whole is heavy.Whole
    assert whole.Whole.half is importlib.import_module("heavy_llmprops_test.half").Half is heavy.Half


def test_from_import_runs_the_init(package: Path) -> None:
    """``from package import name`` gives the name, as without laziness."""
    with lazy_packages("heavy_llmprops_test"):
        scope: dict[str, object] = {}
        exec("from heavy_llmprops_test import value", scope)
    assert scope["value"] == 7
    assert package.exists()


def test_other_imports_are_as_ever(package: Path) -> None:
    """A package that was not named runs its ``__init__`` at once, and the hook is gone afterwards."""
    with lazy_packages("nothing.at.all"):
        pass  # what wakes lazy packages stays in place from the first use on
    finders = list(sys.meta_path)
    with lazy_packages("something.else"):
        importlib.import_module("heavy_llmprops_test")
    assert package.exists()
    assert sys.meta_path == finders


def test_sdk_is_complete_after_the_lazy_import() -> None:
    """After our import the SDK has all its types, and its own calls parse answers into them."""
    code = (
        "import sys, pytest_llmprops.models.openai_client, openai\n"
        "few = len(sys.modules)\n"
        "from openai.types.chat import ChatCompletion\n"
        "from openai.types import Batch, ResponseFormatText\n"
        "from openai.types.responses import Response, ResponseUsage\n"
        "assert openai.types.Batch is Batch and len(dir(openai.types)) > 50\n"
        "assert openai.types.responses.Response is Response and Response.model_fields\n"
        "assert openai.OpenAI(api_key='k').responses and openai.OpenAI(api_key='k').chat.completions\n"
        "assert Response.model_json_schema() and ChatCompletion.model_json_schema()\n"
        "assert few < len(sys.modules) - 100, (few, len(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
