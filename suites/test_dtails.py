"""DTAiLS: choose the right translation of an ambiguous word."""

import pytest


@pytest.mark.llmprops("dtails")
def test_dtails(verdict):
    """The model selects the right translation, or uses it when it translates the sentence."""
    assert verdict


@pytest.mark.llmprops("dtails")
def test_dtails_search(search):
    """The choice stays right when the words are listed in another order or the sentence is edited neutrally."""
    # Imported here, because the case is skipped without a model or without hypothesis.
    from hypothesis import given
    from pytest_llmprops.fixtures.strategies import choices

    @given(choices(search.size))
    def right(point):
        assert search.holds(*point)

    search.run(right)
