"""Stored replies that a model might give no longer are named in its headline."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fixtures.apis import completion, serving
from tests.support.runs import Finished, Runner
from tests.support.stores import make_older

AGE = "stored replies of an unpinned model, up to 3.0 days old: "


@pytest.fixture
def measure(run: Runner) -> Iterator[Callable[..., Finished]]:
    """Return a function that measures three sums on a model of a running server."""
    run.sums(3)

    def measure(*options: str, name: str = "mine") -> Finished:
        return run("--model", f"openai:{name}", "--llm-base-url", f"{url}/v1", *options)

    with serving(completion) as url:
        yield measure


def headline(done: Finished) -> str:
    """Return the line of a run's output that names benchmark, model and protocol."""
    [line] = [line for line in done.output.splitlines() if line.startswith("sums · ")]
    return line


def test_old_replies_of_an_unpinned_model_are_in_the_headline(
    run: Runner, measure: Callable[..., Finished]
) -> None:
    """Replies of less than a day are not named; older ones are, in headline, record and `--llm-cache only`.

    A name with a date is one exact model, whose replies do not age.
    """
    for name in ("mine", "mine", "mine-2024-05-13"):
        assert AGE not in headline(measure(name=name))
    make_older(run.store, hours=72)
    for options in ((), ("--llm-cache", "only")):
        done = measure(*options)
        assert headline(done).endswith(f" · {AGE}3")
        assert done.run["models"]["mine"]["old_replies"]["older_than_a_day"] == 3
    pinned = measure(name="mine-2024-05-13")
    assert "stored replies" not in headline(pinned)
    assert not any(pinned.run["models"]["mine-2024-05-13"]["old_replies"].values())
