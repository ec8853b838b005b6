"""Fixtures that the suites and the tests of this checkout share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def published() -> Path:
    """Return the folder of published data, or skip with a reason that says how to get it."""
    folder = os.environ.get("LLMPROPS_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs published data: set LLMPROPS_DATA (see 'llmprops data pull')")
    return Path(folder).resolve()
