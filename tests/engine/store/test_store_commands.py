"""`llmprops store`: what a store has, and `--prune`."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmprops.engine.store.location import default_store, open_store
from tests.support.commands import one_error, output
from tests.support.stores import REPLY, put

DAY = 86400.0


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a store with replies of two models, of today and of ten days ago."""
    path = str(tmp_path / "replies.sqlite")
    now = time.time()
    with closing(open_store(path)) as store:
        for key, age, model in (("a", 0.0, "m1"), ("b", 10.0, "m1"), ("c", 10.0, "m2")):
            put(store, key, replace(REPLY, stored=now - age * DAY), model=model)
    return path


def test_info_counts_replies_by_model(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """Each model has its number of replies and their days."""
    first, *lines = output(capsys, "store", path).splitlines()
    assert first.startswith(f"{path}: version 1, 0.0 MB")
    today, then = (time.strftime("%Y-%m-%d", time.gmtime(time.time() - days * DAY)) for days in (0, 10))
    assert lines == [
        f"  m1: 2 replies, {then} to {today}",
        f"  m2: 1 replies, {then} to {then}",
    ]


def test_info_shows_the_default_store(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name, the store is the one that pytest uses; if there is none, one line says so."""
    assert f"{default_store()}: no such file" in one_error(capsys, "store")
    open_store(str(default_store())).close()
    assert output(capsys, "store").splitlines()[1] == "  no replies"


def test_prune_deletes_what_it_is_told(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """Replies are deleted by age, by model or by both, and never all of them by default."""
    assert "add --prune DAYS" in one_error(capsys, "store", path, "--model", "m1")
    assert "at least 0" in one_error(capsys, "store", path, "--prune=-1")
    assert output(capsys, "store", path, "--prune", "9", "--model", "m2") == f"{path}: 1 replies deleted\n"
    assert output(capsys, "store", path, "--prune", "11") == f"{path}: 0 replies deleted\n"
    assert output(capsys, "store", path, "--prune", "0", "--model", "m1") == f"{path}: 2 replies deleted\n"


def test_wrong_places_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A missing source and a wrong URL are one line; nothing is created, and no password is shown."""
    missing = tmp_path / "missing.sqlite"
    assert f"{missing}: no such file" in one_error(capsys, "store", str(missing))
    assert not missing.exists()
    assert "geheim" not in one_error(capsys, "store", "postgresql://u:ge heim@h/geheim")
    hidden = "postgresql://u:***@h/db"
    assert f"{hidden}: has *** in place of a password" in one_error(capsys, "store", hidden, "--prune", "0")
