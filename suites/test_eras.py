"""ERAS: Chinese garden paths for segmenters, sentiment models and chat models."""

import pytest


@pytest.mark.llmprops("eras")
def test_eras(verdict):
    """The words are cut as the sentence means them, or the wrong cut leaves its sentiment alone."""
    assert verdict
