"""H-TEST: ten A/B tasks about what text looks and sounds like, and Letter Geometry."""

import pytest


@pytest.mark.llmprops("htest")
def test_htest(verdict):
    """The model returns the correct label, or selects the correct shape."""
    assert verdict


@pytest.mark.llmprops("htest")
def test_htest_search(search):
    """The label stays the same when words without a cue or the examples change places; hypothesis searches."""
    # Imported here, because the case is skipped without a model or without hypothesis.
    from hypothesis import given
    from pytest_llmprops.fixtures.strategies import choices

    @given(choices(search.size))
    def right(point):
        assert search.holds(*point)

    search.run(right)
