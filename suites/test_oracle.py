"""The oracle-checker: do the model's own answers survive a checker?"""

import pytest


@pytest.mark.llmprops("oracle")
def test_oracle(verdict):
    """The answer is accepted: linear in its entities, proved, or trusted."""
    assert verdict


@pytest.mark.llmprops("oracle")
def test_oracle_search(search):
    """Whichever entities are replaced, the extraction is linear; else hypothesis finds the fewest that show it."""
    # Imported here: without a model, or without hypothesis, this case is skipped.
    from hypothesis import given

    from fixtures.strategies import replacements

    @given(replacements(search.size))
    def linear(vectors):
        assert search.holds(*vectors)

    search.run(linear)
