"""Homophones: understand a word that was replaced by one that sounds the same."""

import pytest


@pytest.mark.llmprops("homophones")
def test_homophones(verdict):
    """The reply names the original word."""
    assert verdict
