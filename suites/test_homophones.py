"""Homophones: understand a word that was replaced by one that sounds the same."""

import pytest


@pytest.mark.llmprops("homophones")
def test_homophones(verdict):
    """The reply names the original word."""
    assert verdict


@pytest.mark.llmprops("homophones")
def test_homophones_search(search):
    """The reply still names the original word in another spelling of its sound or another sentence."""
    # Imported here, because the case is skipped without a model or without hypothesis.
    from hypothesis import given
    from pytest_llmprops.fixtures.strategies import choices

    @given(choices(search.size))
    def right(point):
        assert search.holds(*point)

    search.run(right)
