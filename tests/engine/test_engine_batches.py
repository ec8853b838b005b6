"""Requests of a broker with ``--llm-engine batch`` are answered by batches, and each line is paid for once."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.batch import batches
from pytest_llmprops.engine.batch.ledger import ledger_path
from pytest_llmprops.engine.batch.submit import BatchedModel
from pytest_llmprops.engine.store.location import open_store
from pytest_llmprops.models.api.anthropic import AnthropicBatches
from pytest_llmprops.models.api.openai import OpenAIBatches
from pytest_llmprops.runs.merge import logged_calls
from tests.support.batch_runs import BatchRun, sums
from tests.support.batch_server import BatchServer, Line
from tests.support.message_batches import MessageBatchServer

Start = Callable[..., BatchServer]


pytestmark = pytest.mark.usefixtures("fast_batches")


@pytest.fixture(params=[BatchServer, MessageBatchServer], ids=["openai", "anthropic"])
def start_any(request: pytest.FixtureRequest, start_batch_server: Start) -> Start:
    """Return a function that starts a server of each provider."""
    return partial(start_batch_server, request.param)


def right(count: int) -> list[str]:
    """Return the stub's answers to :func:`sums`."""
    return [str(n + 1 if n % 5 else n) for n in range(count)]


def test_no_reply_of_a_batch_shows_a_secret(
    start_batch_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies of batches are cleaned as those of calls."""
    monkeypatch.setenv("OTHER_API_KEY", "echo-1-secret-2")
    server = start_batch_server(answer="echo")
    prompts = [f"{n} ECHO-1-secret-2" for n in range(3)]
    run = BatchRun(server, tmp_path, [Chat.user(prompt, max_tokens=8) for prompt in prompts])
    assert run.texts == ["0 [key]", "1 [key]", "2 [key]"]
    assert [reply.via for reply in run.results] == ["", "batch", "batch"]


def test_requests_are_one_call_and_one_batch_at_half_the_price(start_any: Start, tmp_path: Path) -> None:
    """The first request of a shape is a call, all others are one batch; a second run takes all from the store."""
    server = start_any()
    run = BatchRun(server, tmp_path, sums(12))
    assert run.texts == right(12)
    assert server.sizes == [11]
    assert sum(server.calls.values()) == 1
    assert set(server.paid.values()) == {1}
    called, *batched = run.results
    assert [reply.via for reply in run.results] == ["", *["batch"] * 11]
    assert called.cost_usd == pytest.approx(2 * batched[0].cost_usd)
    assert run.report["counters"]["cost_usd"] == pytest.approx(sum(reply.cost_usd for reply in run.results))
    assert run.report["counters"]["sent"] == 12
    again = BatchRun(server, tmp_path, sums(12))
    assert again.texts == right(12)
    assert [again.results[1].via, again.report["counters"]["sent"]] == ["batch", 0]
    assert set(server.paid.values()) == {1}


def test_a_reply_that_is_cut_in_a_batch_is_paid_for(start_batch_server: Start, tmp_path: Path) -> None:
    """It goes into another batch with more tokens; the tokens and the cost of both are counted."""
    cut: list[dict[str, int]] = []

    def change(done: list[Line], errors: list[Line]) -> tuple[list[Line], list[Line]]:
        if not cut:
            body = done[0]["response"]["body"]
            body["choices"] = [{"finish_reason": "length", "message": {"content": ""}}]
            cut.append(body["usage"])
        return done, errors

    server = start_batch_server(change=change)
    run = BatchRun(server, tmp_path, sums(12), run_dir=str(tmp_path))
    assert (run.texts, server.sizes) == (right(12), [11, 1])
    [usage] = cut
    discarded = (usage["prompt_tokens"] * 10 + usage["completion_tokens"] * 20) / 1e6 / 2
    counters = run.report["counters"]
    assert counters["cost_usd"] == pytest.approx(sum(reply.cost_usd for reply in run.results) + discarded)
    tokens = sum(reply.usage.prompt_tokens for reply in run.results) + usage["prompt_tokens"]
    assert counters["prompt_tokens"] == tokens
    log = logged_calls(tmp_path)
    assert log.cost_usd == pytest.approx(counters["cost_usd"])
    assert log.prompt_tokens == tokens


def test_expired_lines_are_submitted_again(start_any: Start, tmp_path: Path) -> None:
    """The output file of an expired batch is read, only its expired lines are sent again, and none stays reserved."""
    server = start_any(expired=0.3)
    run = BatchRun(server, tmp_path, sums(40))
    assert run.texts == right(40)
    assert server.sizes[0] == 39
    assert 0 < server.sizes[1] < 30
    assert set(server.paid.values()) == {1}
    with closing(sqlite3.connect(tmp_path / "replies.sqlite.batches")) as ledger:
        assert ledger.execute("SELECT COUNT(*) FROM lines").fetchone() == (0,)
        states = ledger.execute("SELECT state, status FROM batches ORDER BY created").fetchall()
    assert states == [("over", "expired"), ("over", "completed")]


def test_a_batch_above_the_token_limit_is_divided(start_batch_server: Start, tmp_path: Path) -> None:
    """A batch that fails with ``token_limit_exceeded`` is halved, and the parts are submitted one after another."""
    server = start_batch_server(most_open=12, polls=1)
    run = BatchRun(server, tmp_path, sums(41))
    assert run.texts == right(41)
    assert server.sizes == [40, 20, 10, 10, 10, 10]
    assert set(server.paid.values()) == {1}


def test_result_lines_may_be_repeated_unknown_unreadable_and_missing(
    start_any: Start, tmp_path: Path
) -> None:
    """Lines that cannot be used are ignored; a request without a result is submitted again."""

    def change(done: list[Line], errors: list[Line]) -> tuple[list[Line], list[Line]]:
        if len(server.batches) > 1:
            return done, errors
        unknown = {**done[0], "custom_id": "f" * 64}
        no_id = {"id": "batch_req_1", "response": {"status_code": 200, "body": {}}}
        return [unknown, no_id, *done[1:], *done[1:4]], errors

    server = start_any(change=change)
    run = BatchRun(server, tmp_path, sums(20))
    assert run.texts == right(20)
    assert server.sizes == [19, 1]
    assert len(set(run.texts)) > 10


def test_refused_lines_are_errors_of_their_items(start_batch_server: Start, tmp_path: Path) -> None:
    """A line with status 400 is an error at once, one with status 500 after three batches; no error is stored."""
    server = start_batch_server(failing={"3 + 1 =": 400, "4 + 1 =": 500})
    run = BatchRun(server, tmp_path, sums(8))
    errors = {n: str(r) for n, r in enumerate(run.results) if isinstance(r, BackendError)}
    assert errors.keys() == {3, 4}
    assert "refuses the request (status 400): refused" in errors[3]
    assert "status 500" in errors[4]
    assert server.sizes == [7, 1, 1]
    server.failing.clear()
    assert BatchRun(server, tmp_path, sums(8)).texts == right(8)


def test_a_batch_that_failed_stops_the_run(start_batch_server: Start, tmp_path: Path) -> None:
    """The run ends with one line, and the same run submits the requests again."""
    server = start_batch_server(ends="failed")
    run = BatchRun(server, tmp_path, sums(8))
    assert "failed: The file is not valid." in run.stopped
    server.ends = "completed"
    assert BatchRun(server, tmp_path, sums(8)).texts == right(8)
    assert set(server.paid.values()) == {1}


def test_samples_of_a_prompt_are_one_line(start_batch_server: Start, tmp_path: Path) -> None:
    """The samples of a prompt are requested with ``n``, and each is stored under its own key."""
    server = start_batch_server(answer="sample")
    requests = [request for sample in range(3) for request in sums(4, sample=sample)]
    run = BatchRun(server, tmp_path, requests)
    assert run.texts == [str(sample) for sample in range(3) for _ in range(4)]
    assert server.sizes == [3]
    assert {body["n"] for body in server.bodies} == {3}
    assert len({reply.key for reply in run.results}) == 12
    again = BatchRun(server, tmp_path, requests)
    assert again.texts == run.texts
    assert server.sizes == [3]


def test_a_server_that_returns_fewer_samples_is_asked_again(
    start_batch_server: Start, tmp_path: Path
) -> None:
    """Samples that are missing in a line get lines of their own."""
    server = start_batch_server(answer="sample")
    requests = [request for sample in range(3) for request in sums(2, sample=sample)]
    run = BatchRun(server, tmp_path, requests, spec="openai:few-of-n")
    assert all(isinstance(result, Reply) for result in run.results)
    assert {body.get("n") for body in server.bodies} == {3, None}


def test_each_wave_has_the_requests_that_the_last_replies_led_to(
    start_batch_server: Start, tmp_path: Path
) -> None:
    """Requests that depend on replies form the next wave: a chain of three is three waves."""

    async def chain(ask: Any, number: int) -> str:
        text = ""
        for _ in range(3):
            text = (await ask("m", "subject", Chat.user(f"{number}{text} + 1 =", temperature=0.0))).text
        return text

    server = start_batch_server()
    run = BatchRun(server, tmp_path, range(1, 9), case=chain)
    expected = [""] * 8
    for _ in range(3):
        numbers = [int(f"{number}{text}") for number, text in enumerate(expected, 1)]
        expected = [str(n + 1 if n % 5 else n) for n in numbers]
    assert run.results == expected
    # The case of the first call is one reply ahead of the others.
    assert server.sizes == [8, 8, 7]


def test_replies_of_a_run_that_has_ended_are_counted(start_batch_server: Start, tmp_path: Path) -> None:
    """Each request of a run that goes on with the batches of another one is in exactly one count."""
    server = start_batch_server(polls=8)
    first = BatchRun(server, tmp_path, sums(40), batch_wait=0.0)
    assert "run the same command again to continue" in first.stopped
    assert [first.report["counters"][name] for name in ("sent", "adopted", "answered")] == [40, 0, 1]
    again = BatchRun(server, tmp_path, sums(50))
    assert again.texts == right(50)
    counts = again.report["counters"]
    # The first request of a shape is a call, whose reply is stored; a later run makes one again.
    assert [counts[name] for name in ("requests", "adopted", "cache_hits", "sent")] == [50, 39, 1, 10]
    assert counts["answered"] == 49
    assert set(server.paid.values()) == {1}


def test_labels_of_one_model_share_its_batches(start_batch_server: Start, tmp_path: Path) -> None:
    """A model under test that is also a helper has one batch; each reply is stored under its own label."""

    async def alternating(ask: Any, request: Chat) -> Reply:
        reply: Reply = await ask("mh"[int(request.prompt[0]) % 2], "subject", request)
        return reply

    server = start_batch_server()
    assert BatchRun(server, tmp_path, sums(8), case=alternating, labels="mh").texts == right(8)
    assert server.sizes == [7]
    with closing(open_store(str(tmp_path / "replies.sqlite"))) as store:
        assert [(one.model, one.replies) for one in store.info().models] == [("h", 4), ("m", 4)]


def test_a_wave_is_divided_at_the_limits_of_a_batch(
    start_batch_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has at most as many lines and bytes as the provider accepts."""
    monkeypatch.setattr(OpenAIBatches, "most_lines", 4)
    monkeypatch.setattr(AnthropicBatches, "most_bytes", 700)
    for kind in (BatchServer, MessageBatchServer):
        server = start_batch_server(kind)
        assert BatchRun(server, tmp_path / kind.__name__, sums(11)).texts == right(11)
        assert sum(server.sizes) == 10
        assert max(server.sizes) in (3, 4)
    assert max(map(len, server.files.values())) < 3000


def test_each_format_of_replies_is_tried_as_a_call(start_batch_server: Start, tmp_path: Path) -> None:
    """Servers refuse formats: one request of each is called before its lines are written."""
    server = start_batch_server()
    formatted = [replace(request, response_format="json_object") for request in sums(4)]
    run = BatchRun(server, tmp_path, [*sums(4), *formatted])
    assert run.texts == right(4) * 2
    assert [reply.via for reply in run.results] == ["", *["batch"] * 3] * 2


def test_the_lines_have_what_the_first_call_learned(start_batch_server: Start, tmp_path: Path) -> None:
    """A parameter that the first call had to leave out is in no line, and every reply names the deviation."""
    server = start_batch_server(polls=-1)
    run = BatchRun(server, tmp_path, sums(8), spec="openai:reasoner", batch_wait=0)
    assert "1 batch open, 0 of 7 lines done" in run.stopped
    first_calls = server.calls.copy()
    server.polls = 0
    run = BatchRun(server, tmp_path, sums(8), spec="openai:reasoner")
    assert "temperature left out" in run.results[5].deviations
    assert server.sizes == [7]
    assert all("temperature" not in body for body in server.bodies[-7:])
    # The second run makes no first call, because all of its requests are in the open batch.
    assert server.calls == first_calls
    assert set(server.batched.values()) == {1}


TOO_LONG = "20 calls in a row failed, the last with: the API refuses the request"


def test_a_wave_that_cannot_succeed_is_not_submitted(start_batch_server: Start, tmp_path: Path) -> None:
    """A refused parameter, calls that all fail, and a budget below the wave stop the run at its first calls."""
    server = start_batch_server()
    waves: list[tuple[list[Chat], dict[str, Any], str]] = [
        (sums(8, extra=(("top_k", 3),)), {"spec": "openai:strict"}, "the API refuses --llm-param top_k"),
        (sums(30), {"spec": "openai:too-long"}, TOO_LONG),
        (sums(8), {"max_calls": 7}, "--llm-max-calls 7 is spent"),
    ]
    for number, (requests, settings, reason) in enumerate(waves):
        assert reason in BatchRun(server, tmp_path / str(number), requests, **settings).stopped
        assert [server.sizes, server.files] == [[], {}]


# A line is estimated at 2 prompt and 8 completion tokens, at half of 10 and 20 USD per million: 0.0000888 USD.
def test_a_wave_above_the_limit_of_costs_is_not_submitted(start_batch_server: Start, tmp_path: Path) -> None:
    """A wave whose estimate at half the price exceeds ``--llm-max-cost`` costs nothing; a smaller one is sent."""
    server = start_batch_server()
    run = BatchRun(server, tmp_path, sums(10), max_cost=0.0008)
    assert run.stopped.startswith(
        "--llm-max-cost 0.0008: the next 10 requests would cost about 0.0009 USD in batches; raise the limit"
    )
    assert [server.sizes, sum(server.calls.values())] == [[], 0]
    assert BatchRun(server, tmp_path, sums(10), max_cost=0.001).texts == right(10)


def test_open_batches_count_for_the_limit_of_costs(start_batch_server: Start, tmp_path: Path) -> None:
    """A wave is also refused if it exceeds the limit together with the replies and the open batches so far."""
    server = start_batch_server(polls=-1)
    BatchRun(server, tmp_path, sums(10), batch_wait=0)
    run = BatchRun(server, tmp_path, sums(14), max_cost=0.001)
    assert "the next 4 requests would cost about 0.0004 USD in batches after 0.0008 USD so far" in run.stopped
    assert server.sizes == [9]


@pytest.mark.parametrize("polls", [0, 3])
def test_a_batch_whose_creation_was_not_confirmed_is_found(
    start_batch_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polls: int
) -> None:
    """If the answer to the creation is lost, the batch is found and not created twice."""
    for kind, api in ((BatchServer, OpenAIBatches), (MessageBatchServer, AnthropicBatches)):
        create, marks = api.create, list[str]()

        async def losing(self: Any, lines: Any, mark: str, create: Any = create, marks: Any = marks) -> Any:
            await create(self, lines, mark)
            marks.append(mark)
            raise BackendError("connection lost", kind="connection", transient=True)

        monkeypatch.setattr(api, "create", losing)
        server = start_batch_server(kind, polls=polls)
        assert BatchRun(server, tmp_path / kind.__name__, sums(8)).texts == right(8)
        assert [server.sizes, len(marks)] == [[7], 1]
        if kind is BatchServer:
            assert [batch["metadata"] for batch in server.batches.values()] == [{"llmprops": marks[0]}]


async def failing_create(self: Any, lines: Any, mark: str) -> Any:
    """Fail as a provider that creates no batch."""
    raise BackendError("status 500", kind="status 500", transient=True)


def test_a_provider_that_creates_no_batch_stops_the_run(
    start_batch_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are not sent for ever; the next run submits them."""
    server = start_batch_server()
    with monkeypatch.context() as patched:
        patched.setattr(OpenAIBatches, "create", failing_create)
        run = BatchRun(server, tmp_path, sums(8), retries=2)
    assert run.stopped == "m: no batch was created, 3 times: status 500"
    assert BatchRun(server, tmp_path, sums(8)).texts == right(8)


def test_a_ledger_on_a_full_disk_stops_the_run_in_one_line(start_batch_server: Start, tmp_path: Path) -> None:
    """A batch whose intent cannot be written is not submitted; the line names the ledger and the fix."""
    server, store = start_batch_server(), str(tmp_path / "replies.sqlite")
    connect = sqlite3.connect

    def small(path: Any, *args: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(path, *args, **options)
        if Path(path) == ledger_path(store):
            db.execute("PRAGMA max_page_count=12")
        return db

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sqlite3, "connect", small)
        run = BatchRun(server, tmp_path, sums(400))
    assert run.stopped == (
        f"batches: ledger of batches {ledger_path(store)}: database or disk is full; free disk space and run again"
    )
    assert server.sizes == []


@pytest.mark.parametrize("polls", [0, 3])
def test_a_batch_of_another_program_costs_nothing(
    start_batch_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polls: int
) -> None:
    """Without a mark, a batch of the same size may be taken for a lost one; its results are recognised as others."""

    server = start_batch_server(MessageBatchServer, polls=polls)
    BatchRun(server, tmp_path / "other", sums(18)[10:])
    assert server.sizes == [7]
    if polls:
        [batch] = server.batches.values()
        batch |= {"status": "validating", "polls": 0}
    with monkeypatch.context() as patched:
        patched.setattr(AnthropicBatches, "create", failing_create)
        BatchRun(server, tmp_path, sums(8), batch_wait=0)
    assert BatchRun(server, tmp_path, sums(8)).texts == right(8)
    # Both runs made a first call.
    assert server.sizes == [7, 6]


def test_the_ledger_of_a_database_is_named_without_its_password() -> None:
    """The ledger is next to a store's file; for a database, its name does not depend on the password."""
    assert ledger_path("/tmp/replies.sqlite") == Path("/tmp/replies.sqlite.batches")
    first, second = (ledger_path(f"postgresql://me:{word}@host/db") for word in ("one", "two"))
    assert first == second != ledger_path("postgresql://me:one@host/other")


def test_lines_that_cannot_be_written_stop_the_run(
    start_batch_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk stops the run with one line; the next run submits the lines."""

    def full(self: BatchedModel, *values: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    server = start_batch_server()
    with monkeypatch.context() as patched:
        patched.setattr(BatchedModel, "_write", full)
        run = BatchRun(server, tmp_path, sums(8))
    assert run.stopped == "batches: the lines cannot be written: No space left on device"
    assert server.sizes == []
    assert BatchRun(server, tmp_path, sums(8)).texts == right(8)
    assert set(server.paid.values()) == {1}


def test_one_run_at_a_time_uses_the_batches_of_a_model(start_batch_server: Start, tmp_path: Path) -> None:
    """Of two runs with the same store, one ends with one line and submits nothing; with another model, it goes on."""
    server = start_batch_server(polls=3)
    runs = [
        BatchRun(server, tmp_path, sums(12), is_begun=False, spec=spec)
        for spec in (server.spec, server.spec, "openai:other")
    ]

    async def all_runs() -> list[list[Any]]:
        return await asyncio.gather(*(run.work() for run in runs))

    *same, other = asyncio.run(asyncio.wait_for(all_runs(), 60))
    done, refused = sorted(same, key=lambda results: isinstance(results[0], RunStopped))
    assert [reply.text for reply in done] == [reply.text for reply in other] == right(12)
    assert {str(result) for result in refused} == {
        "m: another run with this reply store uses the model's batches; wait until it has ended"
    }
    assert set(server.batched.values()) == {2}


def test_a_run_does_not_leave_while_a_batch_is_undecided(
    start_batch_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``llm_batch_wait = 0``, a run polls on until it is known whether a killed run has created a batch."""
    server = start_batch_server(polls=-1)
    with monkeypatch.context() as patched:
        patched.setattr(OpenAIBatches, "create", failing_create)
        patched.setattr(batches, "LIST_DELAY", 60.0)
        BatchRun(server, tmp_path, sums(8), retries=0)
    monkeypatch.setattr(batches, "LIST_DELAY", 0.3)
    run = BatchRun(server, tmp_path, sums(8), batch_wait=0)
    # Both runs made a first call.
    assert "1 batch open, 0 of 6 lines done" in run.stopped
    assert server.sizes == [6]
