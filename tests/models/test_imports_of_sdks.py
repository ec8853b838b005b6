"""The SDK of a model is imported by one thread at a time."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from pytest_llmprops.models.base import import_sdk


def test_a_package_and_a_part_of_it_are_imported_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads that begin with a package and with a module of it both get complete ones."""
    package = tmp_path / "sdk_package"
    package.mkdir()
    begin = "import time\ntime.sleep(0.2)\n"
    (package / "__init__.py").write_text(f"{begin}from sdk_package.part import VALUE\n", encoding="utf-8")
    (package / "part.py").write_text(
        f"import sdk_package\n{begin}VALUE = sdk_package.__name__\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    values: list[object] = []

    def use(name: str) -> None:
        try:
            values.append(import_sdk(name).VALUE)
        except (ImportError, AttributeError) as error:
            values.append(error)

    threads = [threading.Thread(target=use, args=(name,)) for name in ("sdk_package", "sdk_package.part")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for name in ("sdk_package", "sdk_package.part"):
        sys.modules.pop(name, None)
    assert values == ["sdk_package", "sdk_package"]
