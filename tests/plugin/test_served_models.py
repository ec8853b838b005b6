"""A gateway that answers with another model than the one that was asked for."""

from __future__ import annotations

from fixtures.apis import Answer, Call, serving
from tests.support.runs import Runner

ITEMS = 6


def fallback(call: Call) -> Answer:
    """Answer a sum; even ones by the model that was asked for, if it has ``part`` in its name.

    LiteLLM's proxy with ``fallbacks``: the answer names the deployment that was called
    (https://docs.litellm.ai/docs/proxy/reliability).
    """
    number, asked = int(call.prompt.split()[0]), call.body["model"]
    served = asked if "part" in asked and number % 2 == 0 else "gpt-3.5-turbo"
    message = {"role": "assistant", "content": str(number + 1)}
    return 200, {}, {"model": served, "choices": [{"message": message, "finish_reason": "stop"}]}


def test_fallback_model_is_said_with_its_replies(run: Runner) -> None:
    """The summary, the record and a gate say which model gave how many replies, also if they are stored ones."""
    run.sums(ITEMS)
    gate = run.write("gate.toml", "[[rule]]\nmin_accuracy = 0.1\nmin_items = 5\n")
    line = f"gpt-4o was served as gpt-3.5-turbo ({ITEMS} of {ITEMS} replies)"
    with serving(fallback) as url:
        options = ("--llm-base-url", f"{url}/v1", "-n", "2")
        for more in ((), ("--llm-gate", str(gate))):
            done = run("--model", "openai:gpt-4o", *options, *more)
            assert f"note: {line}" in " ".join(done.output.split())
            assert line in done.run["notes"]
            [model] = done.run["models"].values()
            assert model["served_as"] == ["gpt-3.5-turbo"]
            assert model["served_counts"] == {"gpt-3.5-turbo": ITEMS}
        # A fallback for some of the calls has their number.
        part = run("--model", "openai:part", *options)
    assert done.run["calls"]["sent"] == 0
    assert done.run["gate"]["decision"] == "pass"
    assert f"run {done.run['run_id']}: {line}" in done.run["gate"]["notes"]
    assert f"part was served as gpt-3.5-turbo (3 of {ITEMS} replies)" in " ".join(part.output.split())
