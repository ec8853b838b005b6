"""A resumed run first stores the replies that its store did not take, so that none is paid for twice."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.engine.store.location import open_store
from tests.support.runs import Finished, Runner
from tests.support.stores import change


@pytest.fixture
def stopped(run: Runner) -> Finished:
    """Return a run without verdicts, whose 12 replies are in its folder and not in the store."""
    run.sums()
    first = run("--model", run.adder)
    # A killed run has not counted its calls; its log has them.
    calls = dict.fromkeys(first.run["calls"], 0)
    facts = first.run | {
        "finished": None,
        "complete": False,
        "files": {},
        "summary": [],
        "metrics": [],
        "calls": calls,
    }
    (first.folder / "run.json").write_text(json.dumps(facts))
    (first.folder / "verdicts.jsonl").write_text("")
    run.store.replace(first.folder / "replies.sqlite")
    return first


def _resume(run: Runner, stopped: Finished, *args: str) -> Finished:
    done = run("--model", run.adder, "--llm-run", str(stopped.folder), "--llm-resume", *args)
    return Finished(done.code, done.output, stopped.folder)


def _replies(path: Path) -> int:
    with closing(open_store(str(path))) as store:
        return len(store.page("", 100))


def _sent(done: Finished) -> int:
    return int(done.run["calls"]["sent"])


@pytest.mark.parametrize(("mode", "workers"), [("reuse", "2"), ("refresh", "0")])
def test_a_resumed_run_stores_them(run: Runner, stopped: Finished, workers: str, mode: str) -> None:
    """Nothing is sent again, except as --llm-cache refresh asks for it; a note says where the replies are now."""
    before = 12
    done = _resume(run, stopped, "-n", workers, "--llm-cache", mode)
    assert _sent(done) - before == (0 if mode == "reuse" else 12)
    assert len(done.verdicts) == _replies(run.store) == 12
    aside = stopped.folder / "replies.sqlite"
    assert f"12 replies of {aside} were stored in {run.store}" in done.run["notes"]
    assert not list(stopped.folder.glob("replies.sqlite*"))


def test_newer_replies_of_the_store_stay(run: Runner, stopped: Finished) -> None:
    """A reply that another run has stored since is not replaced."""
    aside = stopped.folder / "replies.sqlite"
    assert main(["store", "copy", str(aside), str(run.store)]) == 0
    change(str(run.store), "UPDATE replies SET stored = stored + 1, model = 'newer'")
    done = _resume(run, stopped)
    assert f"0 replies of {aside} were stored in {run.store}, which had 12 more" in done.run["notes"]
    with closing(open_store(str(run.store))) as store:
        assert {row.model for row in store.page("", 100)} == {"newer"}


def test_a_store_that_takes_none_loses_none(run: Runner, stopped: Finished, workers: str) -> None:
    """The run is refused in one line before it sends anything, and the replies stay in its folder."""
    open_store(str(run.store)).close()
    change(
        str(run.store),
        "CREATE TRIGGER full BEFORE INSERT ON replies BEGIN SELECT RAISE(FAIL, 'disk is full'); END",
    )
    aside, before = stopped.folder / "replies.sqlite", stopped.run
    done = _resume(run, stopped, "-n", workers)
    assert done.code == 4
    [line] = [line for line in done.output.splitlines() if "disk is full" in line]
    assert (
        f"disk is full; {aside} has replies of this run that are not stored yet: repeat the command" in line
    )
    assert done.run == before
    assert _replies(aside) == 12


def test_a_store_in_the_folder_stays(run: Runner, stopped: Finished) -> None:
    """The file is not removed if it is the store of the resumed run."""
    aside, before = stopped.folder / "replies.sqlite", 12
    done = _resume(run, stopped, "--llm-store", str(aside))
    assert _sent(done) == before
    assert _replies(aside) == 12
