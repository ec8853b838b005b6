"""Capitals: one case per country and model."""

import pytest


@pytest.mark.llmprops("capitals")
def test_capitals(verdict):
    """The model names the capital."""
    assert verdict
