"""H-TEST: ten A/B tasks about what text looks and sounds like, and Letter Geometry."""

import pytest


@pytest.mark.llmprops("htest")
def test_htest(verdict):
    """The model returns the correct label, or selects the correct shape."""
    assert verdict
