"""Stored replies that a model might give no longer are named in its headline."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.models.api.openai import model_list
from tests.support.runs import Finished, Runner
from tests.support.servers import JsonHandler, serving

AGE = "stored replies of an unpinned model, up to 3.0 days old: "
CHANGED = "stored replies from before the server's list of models changed: "


class Server:
    """A server with OpenAI's chat API that lists ``models``; None means that it has no such page."""

    def __init__(self) -> None:
        self.models: list[dict[str, Any]] | None = [{"id": "mine", "created": 1}]
        self.chats = self.lists = 0
        outer = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                outer.lists += 1
                self.send_json({"data": outer.models}, 404 if outer.models is None else 200)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.chats += 1
                message = {"role": "assistant", "content": "1"}
                self.send_json({"model": "mine", "choices": [{"message": message, "finish_reason": "stop"}]})

        self.handler = Handler
        self.url = ""


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a running server."""
    server = Server()
    with serving(server.handler) as server.url:
        yield server


@pytest.fixture
def measure(run: Runner, server: Server) -> Callable[..., Finished]:
    """Return a function that measures three sums on a model of the server."""
    run.sums(3)

    def measure(*options: str, name: str = "mine") -> Finished:
        return run("--model", f"openai:{name}", "--llm-base-url", server.url, *options)

    return measure


def headline(done: Finished) -> str:
    """Return the line of a run's output that names benchmark, model and protocol."""
    [line] = [line for line in done.output.splitlines() if line.startswith("sums · ")]
    return line


def make_older(store: Path, days: float) -> None:
    """Make all stored replies and lists older."""
    with closing(sqlite3.connect(store)) as db, db:
        for key, text in db.execute("SELECT key, reply FROM replies").fetchall():
            stored = time.time() - days * 86400
            row = (stored, json.dumps(json.loads(text) | {"stored": stored}), key)
            db.execute("UPDATE replies SET stored = ?, reply = ? WHERE key = ?", row)


def test_old_replies_of_an_unpinned_model_are_in_the_headline(
    run: Runner, measure: Callable[..., Finished], workers: str
) -> None:
    """Replies of less than a day are not named; older ones are, in headline, record and `--llm-cache only`."""
    assert AGE not in headline(measure("-n", workers))
    assert AGE not in headline(measure("-n", workers))
    make_older(run.store, 3)
    for options in ((), ("--llm-cache", "only")):
        done = measure("-n", workers, *options)
        assert headline(done).endswith(f" · {AGE}3")
        assert done.run["models"]["mine"]["old_replies"]["older_than_a_day"] == 3


def test_old_replies_of_a_pinned_model_are_not_named(run: Runner, measure: Callable[..., Finished]) -> None:
    """A name with a date is one exact model; its list is not asked for."""
    measure(name="mine-2024-05-13")
    make_older(run.store, 3)
    done = measure(name="mine-2024-05-13")
    assert "stored replies" not in headline(done)
    assert not any(done.run["models"]["mine-2024-05-13"]["old_replies"].values())


def test_replies_from_before_a_change_of_the_server_are_in_the_headline(
    server: Server, measure: Callable[..., Finished]
) -> None:
    """The list of models is compared with that of earlier runs; later runs still name older replies."""
    measure()
    assert CHANGED not in headline(measure())
    assert server.models is not None
    server.models[0]["created"] = 2
    for _ in range(2):
        done = measure()
        assert headline(done).endswith(f" · {CHANGED}3")
        assert done.run["models"]["mine"]["old_replies"]["before_list_change"] == 3
    assert server.chats == 3
    assert CHANGED not in headline(measure("--llm-cache", "refresh"))
    assert CHANGED not in headline(measure())
    assert server.chats == 6


def test_replay_reaches_no_server(server: Server, measure: Callable[..., Finished]) -> None:
    """`--llm-cache only` does not ask for the list; other runs ask once. A server without a list changes nothing."""
    measure()
    measure("--llm-cache", "only")
    assert server.lists == 1
    server.models = None
    assert CHANGED not in headline(measure())


@pytest.mark.parametrize("listed", [None, [], [3], "text", {"a": 1}])
def test_answer_that_is_no_list_is_unknown(server: Server, listed: Any) -> None:
    """Such an answer, or a closed port, gives no hash, and no exception."""
    server.models = listed
    assert model_list(server.url, "none") == model_list("http://127.0.0.1:9/v1", "none") == ""


def test_list_is_compared_by_content(server: Server) -> None:
    """Order and a creation at the time of the request do not count; names, files and creation times do."""
    now = int(time.time())
    lists: list[list[dict[str, Any]]] = [
        [{"id": "a", "created": 1}, {"id": "b", "root": "x"}],
        [{"id": "b", "root": "x"}, {"id": "a", "created": 1}],
        [{"id": "a", "created": 2}, {"id": "b", "root": "x"}],
        [{"id": "a", "created": 1}, {"id": "b", "root": "y"}],
        [{"id": "a", "created": now}],
        [{"id": "a", "created": now - 9}],
    ]
    hashes = []
    for server.models in lists:
        hashes.append(model_list(server.url, "none"))
    assert hashes[0] == hashes[1]
    assert hashes[4] == hashes[5]
    assert len(set(hashes)) == 4
