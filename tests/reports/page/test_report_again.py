"""The command that measures a case of a recorded run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.reports.kit.series import series_of
from pytest_llmprops.reports.page.items import command_again
from pytest_llmprops.runs.reader import read_run
from tests.support.records import recorded, verdict

AGAIN = "--model gpt-4o --llm-cache refresh"


@pytest.mark.parametrize(
    ("command", "again"),
    [
        (["suites", "--model", "gpt-4o", "--model=gpt-5", "-n8"], f"pytest suites {AGAIN}"),
        (
            ["suites", "-k", "rhyme", "-n", "4", "--llm-run", "out", "--llm-gate=g.toml"],
            f"pytest suites {AGAIN}",
        ),
        (["suites", "--llm-resume", "--llm-set", "htest.k=4"], f"pytest suites --llm-set htest.k=4 {AGAIN}"),
        (["my suites/$(rm)", "-p", "no:x"], f"pytest 'my suites/$(rm)' -p no:x {AGAIN}"),
        (["a\u202eb"], f"pytest 'a[U+202E]b' {AGAIN}"),
    ],
)
def test_what_selects_and_writes_is_left_out(tmp_path: Path, command: list[str], again: str) -> None:
    """The command measures one model with new replies, writes its own record, and is quoted for a shell."""
    models = {"gpt-4o": {"spec": "gpt-4o"}}
    run = recorded(
        tmp_path / "run", [verdict("add", 0, model="gpt-4o")], models=models, options={"command": command}
    )
    assert command_again(series_of([read_run(run)])[0]) == again


def test_an_imported_run_has_no_command(tmp_path: Path) -> None:
    """A record without a pytest command gives none."""
    assert command_again(series_of([read_run(recorded(tmp_path / "run", [verdict("add", 0)]))])[0]) == ""
