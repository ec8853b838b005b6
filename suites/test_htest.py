"""H-TEST: ten A/B tasks about what text looks and sounds like, and Letter Geometry."""

import pytest


@pytest.mark.llmprops("htest")
def test_htest(verdict):
    """The model gives the item's label, or picks the right shape."""
    assert verdict
