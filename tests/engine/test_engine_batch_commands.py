"""``llmprops batch`` shows and cancels the batches of a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.models.spec import basic
from tests.support.batch_runs import BatchRun, sums
from tests.support.batch_server import BatchServer
from tests.support.message_batches import MessageBatchServer

Start = Callable[..., BatchServer]


@pytest.fixture
def server(
    request: pytest.FixtureRequest, start_batch_server: Start, tmp_path: Path, fast_batches: None
) -> BatchServer:
    """Return a server, OpenAI's by default, with an open batch of 7 lines, and its run's store in ``tmp_path``."""
    server = start_batch_server(getattr(request, "param", BatchServer), polls=-1)
    BatchRun(server, tmp_path, sums(8), batch_wait=0)
    return server


def batch(tmp_path: Path, *options: str) -> int:
    """Run the command on the store."""
    return main(["batch", "--llm-store", str(tmp_path / "replies.sqlite"), *options])


def test_open_batches_are_shown(
    server: BatchServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command shows how far open batches are, also without their store, as they still cost money."""
    assert batch(tmp_path) == 0
    shown = capsys.readouterr().out
    assert "m: in_progress, 0 of 7 lines done, expires 2" in shown
    for path in (tmp_path / f"replies.sqlite{suffix}" for suffix in ("", "-wal", "-shm")):
        path.unlink(missing_ok=True)
    assert batch(tmp_path) == 0
    assert capsys.readouterr().out == shown
    server.polls = 0
    assert len(BatchRun(server, tmp_path, sums(8)).texts) == 8
    assert batch(tmp_path) == 0
    assert capsys.readouterr().out == "no open batches\n"
    assert len(server.batches) == 1


@pytest.mark.parametrize("server", [BatchServer, MessageBatchServer], indirect=True)
def test_cancelled_batches_are_submitted_again_by_the_run(
    server: BatchServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``cancel`` cancels open batches; the next run collects what was run, and the run after it submits the rest."""
    assert batch(tmp_path, "--cancel") == 0
    assert "m: cancelled, 0 of 7 lines done" in capsys.readouterr().out
    server.polls = 0
    assert "was cancelled; run the same command to submit" in BatchRun(server, tmp_path, sums(8)).stopped
    assert len(BatchRun(server, tmp_path, sums(8)).texts) == 8
    assert server.sizes == [7, 6]
    assert set(server.paid.values()) == {1}


class Private(BatchServer):
    """A server behind a proxy with user and password."""

    def post(self, path: str, body: bytes, authorization: str) -> tuple[int, Any] | None:
        """Refuse a request without them."""
        if authorization != basic("me:secret"):
            return 401, {"error": {"message": "Who are you?"}}
        return super().post(path, body, authorization)


def test_an_address_with_a_password_is_given_again(
    start_batch_server: Start, tmp_path: Path, fast_batches: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ledger has no password, so the commands take the whole address."""
    server = start_batch_server(Private, polls=-1)
    plain, server.url = server.url, server.url.replace("//", "//me:secret@")
    BatchRun(server, tmp_path, sums(8), batch_wait=0)
    assert b"secret" not in (tmp_path / "replies.sqlite.batches").read_bytes()
    for address in ((), ("--llm-base-url", plain)):
        assert batch(tmp_path, "--cancel", *address) == 2
        assert "the API refuses the key (status 401)" in capsys.readouterr().err
    assert batch(tmp_path, "--cancel", "--llm-base-url", server.url) == 0
    assert "m: cancelled, 0 of 7 lines done" in capsys.readouterr().out


@pytest.mark.parametrize("options", [(), ("--cancel",)])
def test_a_missing_store_is_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    """A mistyped store is one line, and no file; so that nobody believes that it has no open batch."""
    assert batch(tmp_path, *options) == 2
    assert f"{tmp_path / 'replies.sqlite'}: no such file; name the reply store" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
