"""The broker's calls: joining, limits, retries and stops."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.broker.local import LocalBroker
from pytest_llmprops.models.fake import FakeModel, FakeReply
from pytest_llmprops.models.spec import ModelSpec
from tests.support.engine_models import MakeBroker, ask_all, config_of, failing, final, kinds, transient


def test_cancelled_caller_does_not_cancel_the_shared_call(make_broker: MakeBroker) -> None:
    """If one of two callers of a shared call is cancelled, the other still gets the reply, from one call."""
    model = FakeModel({"": "x"}, delay=0.05)

    async def work() -> Reply:
        broker = make_broker(model)
        first, second = (asyncio.create_task(broker.ask("m", "subject", Chat.user("q"))) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        reply = await second
        await broker.close()
        return reply

    assert asyncio.run(work()).text == "x"
    assert len(model.requests) == 1


def test_retries_end(make_broker: MakeBroker) -> None:
    """After the last retry the item has the error with its message; ``retries=0`` means one attempt."""
    model = FakeModel(failing(3, transient))
    assert ask_all(make_broker(model, retries=3), ["b"]).texts == ["B"]
    model = FakeModel(lambda chat: transient())
    asked = ask_all(make_broker(model, retries=3), ["a"])
    assert kinds(asked.results) == ["error"]
    assert str(asked.results[0]) == "transient status 500"
    assert (len(model.requests), asked.counters.retries, asked.counters.failed) == (4, 3, 1)
    assert kinds(ask_all(make_broker(model, retries=0), ["a"]).results) == ["error"]
    assert len(model.requests) == 5


def test_permanent_errors_are_neither_retried_nor_stored(make_broker: MakeBroker) -> None:
    """A permanent error costs one call, and the next run sends the request again."""
    model = FakeModel(failing(1, final))
    assert kinds(ask_all(make_broker(model), ["a"]).results) == ["error"]
    assert len(model.requests) == 1
    assert ask_all(make_broker(model), ["a"]).texts == ["A"]


def test_a_blocked_prompt_is_sent_once_more(make_broker: MakeBroker) -> None:
    """A gateway may refuse a call for a moment: a model that has worked gets the prompt a second time."""
    blocked = BackendError("forbidden", kind="forbidden", fatal=True)
    once = failing(1, lambda: blocked)
    replies: dict[str, FakeReply] = {"a": "x", "c": blocked}
    model = FakeModel(lambda chat: replies.get(chat.prompt) or once(chat))
    asked = ask_all(make_broker(model, concurrency=1), ["a", "b", "c"])
    assert kinds(asked.results) == ["reply", "reply", "error"]
    assert [r.prompt for r in model.requests] == ["a", "b", "c", "b", "c"]


def test_retry_waits_as_the_server_asks(make_broker: MakeBroker) -> None:
    """The retry is sent when the server asked for it, not earlier and not much later."""
    times: list[float] = []

    def respond(chat: Chat) -> FakeReply:
        times.append(time.monotonic())
        return "x" if len(times) > 1 else transient("status 429", retry_after=0.12)

    assert ask_all(make_broker(FakeModel(respond)), ["a"]).texts == ["x"]
    assert 0.12 <= times[1] - times[0] < 10


def test_waiting_for_a_retry_holds_no_slot(make_broker: MakeBroker) -> None:
    """While one call waits for its retry, others use its slot."""
    answer = failing(1, lambda: transient(retry_after=0.1))
    model = FakeModel(lambda chat: answer(chat) if chat.prompt == "a" else "x")
    assert ask_all(make_broker(model, concurrency=1), ["a", "b", "c"]).texts == ["A", "x", "x"]
    assert [r.prompt for r in model.requests] == ["a", "b", "c", "a"]


def test_a_fatal_error_stops_everything(make_broker: MakeBroker) -> None:
    """After an invalid key nothing more is sent, and all requests fail with the same reason."""
    model = FakeModel(lambda chat: BackendError("wrong\nkey", kind="key", fatal=True))
    asked = ask_all(make_broker(model, concurrency=1), map(str, range(10)))
    assert kinds(asked.results) == ["stopped"] * 10
    assert {str(r) for r in asked.results} == {"m: wrong key"}
    assert len(model.requests) == 1
    assert asked.broker.stopped == "m: wrong key"


def test_a_stop_reaches_calls_that_wait_for_a_retry(make_broker: MakeBroker) -> None:
    """A call waiting for a long Retry-After ends as soon as the run stops."""

    def respond(chat: Chat) -> FakeReply:
        if chat.prompt == "patient":
            return transient("status 500", retry_after=200.0)
        return BackendError("wrong key", fatal=True)

    assert kinds(ask_all(make_broker(FakeModel(respond)), ["patient", "fatal"]).results) == ["stopped"] * 2


def test_replies_in_flight_at_a_stop_are_kept(make_broker: MakeBroker) -> None:
    """A call in progress when the run stops is completed and stored, because it is paid for."""

    async def respond(chat: Chat) -> FakeReply:
        await asyncio.sleep(0.05 if chat.prompt == "slow" else 0)
        return "x" if chat.prompt == "slow" else BackendError("over", fatal=True)

    model = FakeModel(respond)
    asked = ask_all(make_broker(model), ["slow", "bad"])
    assert kinds(asked.results) == ["reply", "stopped"]
    assert ask_all(make_broker(model), ["slow"]).texts == ["x"]
    assert len(model.requests) == 2


def test_twenty_empty_replies_in_a_row_stop_the_run(make_broker: MakeBroker) -> None:
    """The twentieth empty reply in a row is the last call, and the reason says what to check."""
    model = FakeModel(lambda chat: "")
    asked = ask_all(make_broker(model, concurrency=1), map(str, range(30)))
    assert kinds(asked.results) == ["reply"] * 20 + ["stopped"] * 10
    assert len(model.requests) == 20
    assert asked.broker.stopped
    assert "20 empty replies in a row" in asked.broker.stopped


def test_a_value_without_text_is_not_empty(make_broker: MakeBroker) -> None:
    """Kinds that return values without text never count as empty."""
    model = FakeModel(lambda chat: Reply(value=[]))
    assert kinds(ask_all(make_broker(model), map(str, range(30))).results) == ["reply"] * 30


def test_failed_attempts_count_before_the_first_success(make_broker: MakeBroker) -> None:
    """Failed attempts reveal a dead server before the first item has failed finally."""
    model = FakeModel(lambda chat: transient())
    asked = ask_all(make_broker(model, retries=50, concurrency=1), "abcdefg")
    assert kinds(asked.results) == ["stopped"] * 7
    assert len(model.requests) == 20


def test_an_unknown_backend_stops_the_run() -> None:
    """A model that cannot be loaded gives the same one-line error for all requests, without a traceback."""
    broken = LocalBroker(config_of({"m": ModelSpec("nowhere:m", "nowhere", "m")}, cache="off"))
    asked = ask_all(broken, ["a", "b"])
    assert kinds(asked.results) == ["stopped"] * 2
    assert "unknown backend 'nowhere'" in str(asked.results[0])


def test_a_record_that_cannot_be_written_stops_the_run(make_broker: MakeBroker, tmp_path: Path) -> None:
    """On a full disk the run stops with one line that names the file, and closing the broker raises nothing."""
    (tmp_path / "requests.jsonl").symlink_to("/dev/full")
    asked = ask_all(make_broker(FakeModel(lambda chat: "x"), run_dir=str(tmp_path)), ["a", "b"])
    assert asked.broker.stopped == "requests.jsonl cannot be written: No space left on device"
