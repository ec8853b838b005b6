"""Programs that only some tests need: found, or skipped with the line that installs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.programs import PROGRAMS, Program


def test_a_missing_program_skips_with_the_line_that_installs_it() -> None:
    """A test names the package."""
    with pytest.raises(pytest.skip.Exception, match=r"needs smell \(Debian: apt-get install smell\)"):
        Program(("no-such-program",), "smell", ("/no/*/such/place",)).path()


def test_a_program_is_found_on_the_path_first_and_then_in_its_latest_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 15 is later than version 9."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("9/initdb", "15/initdb", "createdb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch(0o755)
    places = (f"{tmp_path}/*/initdb",)
    assert Program(("initdb",), "postgresql", places).find() == tmp_path / "15" / "initdb"
    assert Program(("initdb", "createdb"), "postgresql", places).find() == tmp_path / "createdb"


def test_the_script_prints_the_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs before anything is installed, with the machine's Python alone."""
    monkeypatch.setenv("PATH", "")
    done = subprocess.run(
        [sys.executable, "-I", "-S", programs.__file__], capture_output=True, text=True, check=True
    )
    missing = [program.package for program in PROGRAMS if program.find() is None]
    assert done.stdout.split() == missing
    assert "espeak-ng" in missing
