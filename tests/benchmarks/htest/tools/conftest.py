"""Shared by the tests of H-TEST's data."""

from __future__ import annotations

import pytest

from pytest_llmprops.benchmarks.htest.tools.matched_words import Lexicon
from pytest_llmprops.data.pronunciation import load_cmudict


@pytest.fixture(scope="session")
def lexicon() -> Lexicon:
    """The pronunciation dictionary, loaded once."""
    return load_cmudict()
