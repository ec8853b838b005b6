"""ERAS: Chinese garden paths for segmenters, sentiment models and chat models."""

import pytest


@pytest.mark.llmprops("eras")
def test_eras(verdict):
    """The segmentation is right, or a tempting wrong segmentation does not change the sentiment."""
    assert verdict


@pytest.mark.llmprops("eras")
def test_eras_search(search):
    """The segmentation stays right with other slot words of the paradigm."""
    # Imported here, because the case is skipped without a model or without hypothesis.
    from hypothesis import given
    from pytest_llmprops.fixtures.strategies import choices

    @given(choices(search.size))
    def right(point):
        assert search.holds(*point)

    search.run(right)
