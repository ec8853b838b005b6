"""`--llm-data` and `--llm-source`: folders with the items of some benchmarks only."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from tests.support.runs import ROOT, Runner

SUITES = [str(ROOT / "suites" / f"test_{name}.py") for name in ("dtails", "homophones", "htest")]


@pytest.fixture
def fresh(run: Runner) -> Path:
    """Return a folder with new items of H-TEST only."""
    folder = run.folder / "fresh"
    assert main(["generate", "htest", "--task", "rhyme", "--n", "4", "--out", str(folder)]) == 0
    return folder


def test_suites_without_files_are_not_served(run: Runner, fresh: Path, workers: str) -> None:
    """All suites run on a folder with items of one benchmark: it is measured, the others are named and skipped."""
    done = run(
        *SUITES, "--rootdir", str(run.folder), "--model", "fake:constant?text=A", "--llm-source", "published",
        "--llm-data", str(fresh), "-n", workers, "-rs", "--llm-failures", "xfail",
    )  # fmt: skip
    assert done.code == 0, done.output
    assert {verdict["benchmark"] for verdict in done.verdicts.values()} == {"htest"}
    assert len(done.verdicts) == 4
    for name in ("dtails", "homophones"):
        assert f"note: {name}: not served, {fresh} has no files of it" in done.output
        assert f"not served: no files of {name}" in done.output


def test_items_of_both_sources_need_no_files_of_every_benchmark(run: Runner, fresh: Path) -> None:
    """With `--llm-source all`, a benchmark without files in the folder has its built-in items."""
    done = run(
        *SUITES[1:], "--rootdir", str(run.folder), "--model", "fake:constant?text=A", "--llm-source", "all",
        "--llm-data", str(fresh), "-k", "rhyme or homophones/es", "--llm-limit", "1",
    )  # fmt: skip
    sources = {(verdict["benchmark"], verdict["source"]) for verdict in done.verdicts.values()}
    assert sources == {("homophones", "builtin"), ("htest", "builtin"), ("htest", "generated")}


@pytest.mark.parametrize("suite", SUITES[:2])
def test_folder_without_files_of_any_suite_is_an_error(run: Runner, fresh: Path, suite: str) -> None:
    """If nothing of the selection is in the folder, one line names the missing file and the fix."""
    done = run(
        suite, "--rootdir", str(run.folder), "--model", "fake:echo", "--llm-source", "published",
        "--llm-data", str(fresh),
    )  # fmt: skip
    assert done.code == 4, done.output
    [line] = [line for line in done.output.splitlines() if line.startswith("ERROR: ")]
    assert str(fresh) in line
    assert "no such file" in line
    assert not done.folder.exists()


def test_damaged_file_is_not_a_missing_one(run: Runner, fresh: Path) -> None:
    """A benchmark whose folder exists and cannot be read stays an error."""
    (fresh / "homophones").mkdir()
    done = run(
        *SUITES[1:], "--rootdir", str(run.folder), "--model", "fake:constant?text=A", "--llm-source", "published",
        "--llm-data", str(fresh), "--llm-failures", "xfail",
    )  # fmt: skip
    assert done.code == 1
    [note] = [
        line for line in done.output.splitlines() if line.startswith("note: homophones: not measured: ")
    ]
    assert "testset_english.csv: no such file" in note


@pytest.mark.parametrize(("ini", "code"), [("", 4), ("llm_source = published\n", 0)])
def test_data_without_a_source_is_refused(run: Runner, fresh: Path, ini: str, code: int) -> None:
    """The message names the fix; a source in the ini file counts."""
    run.write("pytest.ini", f"[pytest]\n{ini}")
    done = run(
        SUITES[2], "--rootdir", str(run.folder), "-c", "pytest.ini", "--model", "fake:constant?text=A",
        "--llm-data", "fresh", "--llm-failures", "xfail",
    )  # fmt: skip
    assert done.code == code, done.output
    assert ("--llm-data fresh: " in done.output) == (code == 4)
    assert ("add --llm-source published" in done.output) == (code == 4)
