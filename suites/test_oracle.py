"""Oracle-checker: check whether the model's own answers pass a checker."""

import pytest


@pytest.mark.llmprops("oracle")
def test_oracle(verdict):
    """The checker accepts the answer: it is linear in its entities, proved, or trusted."""
    assert verdict


@pytest.mark.llmprops("oracle")
def test_oracle_search(search):
    """The extraction is linear for every set of replaced entities; hypothesis searches for a counterexample."""
    # Imported here, because the case is skipped without a model or without hypothesis.
    from hypothesis import given

    from fixtures.strategies import replacements

    @given(replacements(search.size))
    def linear(vectors):
        assert search.holds(*vectors)

    search.run(linear)
