"""ERAS: Chinese garden paths for segmenters, sentiment models and chat models."""

import pytest


@pytest.mark.llmprops("eras")
def test_eras(verdict):
    """The segmentation is right, or a tempting wrong segmentation does not change the sentiment."""
    assert verdict
