"""Models that the pytest processes serve themselves: no broker, no store, no calls."""

from __future__ import annotations

from tests.support.cuts import write_cuts
from tests.support.runs import Runner

#: registers a segmenter that the pytest process serves itself
UNLOADED = """
from pytest_llmprops import BackendError, register_model


class Own:
    identity = {"backend": "own"}
    pinned, max_batch, blocking = True, 4, True

    def segment(self, requests):
        return [BackendError("no such dictionary", kind="model", fatal=True)] * len(requests)

    def deviations(self):
        return ()

    def close(self):
        pass


register_model("own", lambda spec, options: Own(), kinds=["segment"], in_worker=True)
"""


def test_segmenter_needs_no_broker(run: Runner, workers: str) -> None:
    """A segmenter's run has a complete record, without calls, a store or a request log; no limit of calls stops it."""
    model = write_cuts(run)
    assert "0 calls" in run("--model", model, "--llm-plan").output
    done = run("--model", model, "-n", workers, "--llm-max-calls", "1", "--llm-max-cost", "0.01")
    assert done.code == 1
    record = done.run
    assert record["complete"] is True
    [facts] = record["models"].values()
    assert (facts["identity"]["backend"], facts["pinned"]) == ("maxmatch", True)
    assert facts["served_as"] == list(record["models"])
    calls = record["calls"]
    assert (calls["requests"], calls["sent"], calls["in_process"]) == (0, 0, 30)
    assert "30 sentences served without calls" in done.output
    assert "0 calls" not in done.output
    wrong = {i for i, v in done.verdicts.items() if v["status"] == "wrong"}
    assert wrong == {"cuts/0/0004", "cuts/1/0014", "cuts/2/0024"}
    assert not run.store.exists()
    assert not (done.folder / "requests.jsonl").exists()


def test_model_that_cannot_be_loaded_stops_the_run(run: Runner, workers: str) -> None:
    """A fatal error ends the session with one line and no verdict."""
    write_cuts(run)
    run.write("conftest.py", UNLOADED)
    done = run("--model", "own", "-n", workers)
    assert (done.code, done.verdicts) == (2, {})
    assert "stopped: own: no such dictionary" in done.output
    assert (done.run["complete"], done.run["stopped"]) == (False, "own: no such dictionary")


def test_segmenter_and_chat_model_share_a_session(run: Runner) -> None:
    """In one session, a segmenter is served in process and a chat model through the broker.

    A helper that was never called is recorded without an identity, and the record is complete.
    """
    model = write_cuts(run, 6)
    helper = ("--llm-helper", f"segment={model}")
    done = run("--model", model, "--model", "fake:constant?text=no", *helper, "-n", "2")
    assert done.run["complete"] is True, done.output
    facts = done.run["helpers"]["segment"]
    assert (facts["identity"], facts["pinned"], facts["served_as"]) == (None, None, [])
    calls = done.run["calls"]
    # Only three of the six prompts are distinct.
    assert (calls["in_process"], calls["requests"], calls["sent"]) == (6, 6, 3)
    assert [row["items"] for row in done.run["summary"]] == [6, 6]
