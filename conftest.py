"""What the suites and the tests of this checkout share: fixtures, and the profile of hypothesis."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let hypothesis wait for slow examples: on a busy machine, an example is slow, not wrong."""
    # A run of the suites imports hypothesis only when its first search begins, and that search has no deadline either.
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is not None:
        hypothesis.settings.register_profile("llmprops", deadline=None)
        hypothesis.settings.load_profile("llmprops")


@pytest.fixture(scope="session")
def published() -> Path:
    """Return the folder of published data, or skip with a reason that says how to get it."""
    folder = os.environ.get("LLMPROPS_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs published data: set LLMPROPS_DATA (see 'llmprops data pull')")
    return Path(folder).resolve()
