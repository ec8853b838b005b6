"""Fixtures for the tests of H-TEST's data."""

from __future__ import annotations

import pytest

from pytest_llmprops.benchmarks.htest.tools.generation import Lexicon
from pytest_llmprops.data.pronunciation import load_cmudict


@pytest.fixture(scope="session")
def lexicon() -> Lexicon:
    """Return the pronunciation dictionary, loaded once per session."""
    return load_cmudict()
