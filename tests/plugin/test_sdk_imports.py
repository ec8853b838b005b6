"""When a run imports the SDK of its model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.stub_server import RunningStub
from fixtures.runs import Runner

CONFTEST = """
import sys
import threading


def pytest_collection_modifyitems(items):
    for thread in threading.enumerate():
        if thread.name == "llmprops-imports":
            thread.join()
    with open("imported.txt", "w") as file:
        file.write(str("openai" in sys.modules))
"""


@pytest.mark.parametrize(
    ("stored", "args", "imported"),
    [
        (False, (), True),
        (True, (), False),
        (True, ("--llm-cache", "refresh"), True),
        (False, ("--collect-only",), False),
        (False, ("--llm-plan",), False),
        (False, ("--llm-cache", "only"), False),
    ],
    ids=["new", "stored", "refresh", "collect-only", "plan", "only"],
)
def test_sdk_is_imported_while_pytest_collects(
    run: Runner, start_stub: Callable[..., RunningStub], stored: bool, args: tuple[str, ...], imported: bool
) -> None:
    """The SDK is imported during collection, unless the store has replies of the model or no call is made."""
    run.sums(3)
    stub = start_stub(delay=0.01)
    model = ("--model", "openai:stub", "--llm-base-url", stub.url)
    if stored:
        run(*model)
    run.write("conftest.py", CONFTEST)
    run(*model, *args)
    assert (run.folder / "imported.txt").read_text(encoding="utf-8") == str(imported)
