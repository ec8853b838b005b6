"""``--llm-engine ray``: what cannot have replicas, and what is missing, is one line before the run."""

from __future__ import annotations

import pytest

from tests.support.runs import Runner

RAY = ("--llm-engine", "ray")
#: Ray without a cluster
EMPTY_RAY = "import sys, types; sys.modules['ray'] = ray = types.ModuleType('ray'); ray.__spec__ = 1"


def test_only_stored_replies_need_no_cluster(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--llm-cache only`` reads the replies of a local run under the same label, without Ray.

    An asynchronous model ends the run with one line before a cluster is looked for.
    """
    run.sums()
    before = run("--model", run.adder)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    run.write("conftest.py", EMPTY_RAY)
    done = run("--model", f"{run.adder}&replicas=2", *RAY, "--llm-cache", "only")
    assert done.verdicts == before.verdicts
    assert done.run["models"] == before.run["models"]
    done = run("--model", run.adder, *RAY)
    assert done.code == 2, done.output
    assert "adder.py is not a model that computes in a process of its own, so it has no" in done.output


def test_what_cannot_have_replicas_is_refused(run: Runner) -> None:
    """The line says what does not fit, or is missing, and what to use instead; nothing is recorded."""
    run.sums()
    for options, message in (
        (
            ("--model", "fake:echo?replicas=2"),
            "--model fake:echo: ?replicas=, ?gpus= and ?cpus= need --llm-engine ray; add it, or leave them out",
        ),
        (
            ("--model", "gpt-4o", *RAY),
            "--llm-engine ray: gpt-4o is called over a network; Ray runs replicas of models that compute themselves",
        ),
        (
            ("--model", "fake:echo", "--llm-helper", "parse=words?replicas=2", *RAY),
            "--model words: runs in the processes of pytest (-n N), so it has no replicas",
        ),
        (
            ("--model", run.adder, *RAY),
            "--llm-engine ray needs the package 'ray': pip install 'pytest-llmprops[ray]'",
        ),
    ):
        if "needs the package" in message:
            run.write("conftest.py", "import sys; sys.modules['ray'] = None")
        run(*options).refused(message)
