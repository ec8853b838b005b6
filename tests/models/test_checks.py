"""Checks of a model from outside, and of what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.core.errors import BackendError, ContractError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.models.base import checked_model, checked_results
from tests.support.backends import error


class Parrot:
    """A usable model."""

    identity: Any = {"backend": "parrot"}
    pinned, blocking = True, True
    max_batch: Any = 4

    def chat(self, requests: Sequence[object]) -> list[Reply]:
        return [Reply("x") for _ in requests]

    def deviations(self) -> Any:
        return ("temperature left out",)

    def close(self) -> None:
        pass


def _changed(**attributes: Any) -> Parrot:
    cls: type[Parrot] = type("Changed", (Parrot,), attributes)
    return cls()


class Mute:
    """A model that serves no kind of request."""

    identity, pinned, blocking, max_batch = Parrot.identity, True, True, 1
    deviations, close = Parrot.deviations, Parrot.close


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (None, "returned is None"),
        (Mute(), "has no method chat, completion, likelihood, segment, sentiment, translate, fill_mask, embed, parse"),
        (_changed(identity={"file": {1, 2}}), "is not usable: identity['file'] is {1, 2}"),
        (_changed(identity="parrot"), "identity is 'parrot'; use a dict"),
        (_changed(max_batch=0), "has a max_batch that is not a whole number of at least 1"),
        (_changed(deviations=lambda self: "none"), "deviations that returned str instead of a list of strings"),
    ],
)  # fmt: skip
def test_unusable_model_is_one_line(model: object, said: str) -> None:
    """What is wrong with a model is said before its first call, with the page that describes models."""
    usable = Parrot()
    assert checked_model(usable) is usable
    with pytest.raises(ContractError) as caught:
        checked_model(model)
    message = str(caught.value)
    assert said in message
    assert message.startswith("the model that its factory returned ")
    assert message.endswith("; see docs/models.md")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (None, "the model returned None instead of a list of Reply"),
        ({"a": Reply("x"), "b": Reply("y")}, "the model returned dict instead of a list of Reply"),
        ([], "the model returned 0 results for 2 requests"),
        (["x", "y"], "the model returned str instead of a Reply"),
        ([Reply(np.str_("x").encode())] * 2, "the model returned a Reply whose text is bytes instead of a string"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_unusable_results_are_errors_of_their_requests(results: object, said: str) -> None:
    """Each request gets an error that is neither retried nor ends the run."""
    checked = [error(result) for result in checked_results(results, 2)]
    assert [(str(one), one.kind, one.fatal) for one in checked] == [(said, "backend", False)] * 2


def test_usable_results_of_a_batch_are_kept() -> None:
    """One unusable result costs only its own request; a generator is read once."""
    busy = BackendError("busy", kind="server", transient=True)
    first, second, third = checked_results((result for result in (Reply("x"), None, busy)), 3)
    assert (first, third) == (Reply("x"), busy)
    error(second)
