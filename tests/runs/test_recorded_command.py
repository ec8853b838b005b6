"""The command of a record is repeated as far as it cannot run or load anything that the user did not choose."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_llmprops.benchmark_registry import suites_of
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.plugin.options import OPTIONS
from pytest_llmprops.runs.recorded_command import INI_ONLY, NOT_REPEATED, REPEATED, repeated_words

SUITE = "pytest_llmprops.suites.test_htest"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with suites, and a record in ``reports/runs/one``."""
    for folder in ("suites", "reports/runs/one", "reports/allure", "reports/runs/other"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("suites/test_one.py", "reports/runs/other/test_other.py"):
        (tmp_path / name).write_text("")
    for name in ("one", "other"):
        (tmp_path / f"reports/runs/{name}/run.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def repeated(command: list[str], *own: str, folder: str = "reports/runs/one") -> tuple[list[str], list[str]]:
    """Return the words that are repeated and those that are left out."""
    words, parts = repeated_words(Path(folder), command, own, suites_of())
    return words, parts.left_out


def test_every_option_is_decided_about() -> None:
    """A new option is either repeated or not."""
    assert {option.name for option in OPTIONS} == REPEATED | NOT_REPEATED
    assert not REPEATED & NOT_REPEATED
    assert {option.name for option in OPTIONS if option.is_ini_only} == INI_ONLY


REPEATED_WORDS = [
    (["suites/", "--model", "m", "-n", "4"], ["suites/", "--model=m", "-n4"]),
    (["--pyargs", SUITE, "--llm-model=m"], ["--pyargs", SUITE, "--model=m"]),
    ([f"{SUITE}::test_htest[m-htest/rhyme/1]"], ["--pyargs", f"{SUITE}::test_htest[m-htest/rhyme/1]"]),
    (["suites/test_one.py::test_a[x]", "-k", "a or b"], ["suites/test_one.py::test_a[x]", "-ka or b"]),
    (["-qx", "-vv", "-ka", "-m", "@file", "--tb", "short"], ["-qx", "-vv", "-ka", "-m@file", "--tb=short"]),
    (["--llm-run", "x", "--llm-resume", "--llm-yes", "-ollm_confirm=off", "--llm-limit", "5"], ["--llm-limit=5"]),
    (["--llm-header", "a=$A", "--llm-param", "stop=[1]"], ["--llm-header=a=$A", "--llm-param=stop=[1]"]),
    (["-o", "llm_rpm=60", "-ollm_source=all"], ["--override-ini=llm_rpm=60", "--override-ini=llm_source=all"]),
    (["--override-ini", "llm_rpm=6", "-o", "llm_confirm=off", "-x"], ["--override-ini=llm_rpm=6", "-x"]),
    (["--deselect", "suites/test_one.py", "--ignore=x"], ["--deselect=suites/test_one.py", "--ignore=x"]),
]  # fmt: skip


def test_own_command_is_repeated(project: Path) -> None:
    """Suites, selection, display and the options of this package stay, each in one word."""
    for command, words in REPEATED_WORDS:
        assert repeated(command) == (words, [])
    # The word after an unknown option is its value, unless it is a suite.
    assert repeated(["--strict-markers", "suites/"]) == (["suites/"], ["--strict-markers"])
    assert repeated(["--flag", SUITE]) == (["--pyargs", SUITE], ["--flag"])
    # Next to a suite that is a module, a path is absolute, because pytest would look for a module of its name.
    assert repeated([SUITE, "suites"])[0] == ["--pyargs", SUITE, str(project / "suites")]


LEFT_OUT = [
    ["-p", "evil"], ["-c", "evil.ini"], ["-o", "addopts=-p evil"], ["-o", "llm_store=/evil"], ["--llm-rpm=1"],
    ["--rootdir", "/tmp"], ["@arguments.txt"], ["--junitxml", "suites/test_one.xml"], ["--alluredir", "reports/allure"],
    ["--basetemp", "suites"], ["--tb", "x;y"], ["-n", "100000"], ["--llm-unknown", "x"], ["--pdbcls", "evil:Evil"],
    ["-W", "error::evil.Evil"],
]  # fmt: skip


@pytest.mark.usefixtures("project")
def test_what_loads_or_writes_is_left_out() -> None:
    """Whatever stands around it, no word of it reaches pytest."""
    for left_out in LEFT_OUT:
        words, named = repeated(["suites/", *left_out, "--llm-limit", "5"])
        assert words == ["suites/", "--llm-limit=5"]
        assert "".join(named).replace("=", "") == "".join(left_out).replace("=", "")


@pytest.mark.usefixtures("project")
def test_folder_that_vanishes_while_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record may name ``/``, below which the folders of processes come and go."""

    def vanished(path: object) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "scandir", vanished)
    for folder in ("/", "suites"):
        assert repeated(["--unknown", folder]) == ([], ["--unknown", folder])


@pytest.mark.parametrize(
    "suite",
    [
        "reports/runs/one", "reports/runs/one/test_evil.py", "reports/runs/other/test_other.py", "..",
        "nosuch.py", "link/test_evil.py", "pytest_llmprops.cli.main", "suites/../reports/runs/other",
    ],
)  # fmt: skip
def test_suites_of_strangers_are_refused(
    project: Path, tmp_path_factory: pytest.TempPathFactory, suite: str
) -> None:
    """Suites are those of installed benchmarks, or files of the current folder that are in no record."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "test_evil.py").write_text("")
    (project / "link").symlink_to(elsewhere)
    with pytest.raises(
        UsageError, match=r"^reports/runs/one: its suite .* is not run; .*llmprops run --resume RUN suites/$"
    ):
        repeated(["--pyargs", suite])
    assert repeated([suite], "suites/")[0] == []


@pytest.mark.parametrize("name", ["conftest.py", "inner/evil.py", "pyproject.toml"])
def test_record_with_code_is_refused(project: Path, name: str) -> None:
    """pytest might load it, for example from a folder whose name begins with ``test``."""
    file = project / "reports/runs/one" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    with pytest.raises(UsageError, match=f"has {name}, which is not a file of a record"):
        repeated(["suites/"])


def test_record_of_the_current_folder_has_no_suites(project: Path) -> None:
    """If the current folder is a record, its files are those of a stranger; no command has a NUL."""
    for word in ("a\0b", "\ud800"):
        with pytest.raises(UsageError, match="the record is damaged"):
            repeated(["-k", word])
    (project / "run.json").write_text("{}")
    with pytest.raises(UsageError, match="is in the folder of a record"):
        repeated(["suites/"])


@pytest.mark.usefixtures("project")
def test_own_words_replace_recorded_ones() -> None:
    """An option that the user gives is not repeated; of NAME=VALUE, only the same name."""
    recorded = ["suites/", "--model", "a", "--llm-param", "x=1", "--llm-param", "y=2"]
    recorded += ["--llm-base-url", "http://a", "--deselect", "a"]
    own = ["--llm-model=b", "--llm-param=x=2", "--llm-base-url", "http://b", "-q", "--deselect=b"]
    assert repeated(recorded, *own)[0] == ["suites/", "--llm-param=y=2", "--deselect=a"]
