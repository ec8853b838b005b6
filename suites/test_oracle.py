"""Oracle-checker: check whether the model's own answers pass a checker."""

from typing import Any

import pytest


@pytest.mark.llmprops("oracle")
def test_oracle(verdict):
    """The checker accepts the answer: it is linear in its entities, proved, or trusted."""
    assert verdict


@pytest.mark.llmprops("oracle", search="linearity")
def test_oracle_search(search):
    """The extraction is linear for every set of replaced entities; hypothesis searches for a counterexample."""
    # Imported here, because the case is skipped without a model or without hypothesis.
    from hypothesis import given
    from pytest_llmprops.fixtures.strategies import replacements

    @given(replacements(search.size))
    def linear(vectors):
        assert search.holds(*vectors)

    search.run(linear)


@pytest.mark.llmprops("oracle", search="no")
def test_oracle_no_search(search):
    """No paraphrase is called equivalent to two sentences that are called not equivalent."""
    _search(search)


@pytest.mark.llmprops("oracle", search="symmetry")
def test_oracle_symmetry_search(search):
    """The answer about two sentences is the same in the other order."""
    _search(search)


def _search(search: Any) -> None:
    from hypothesis import given
    from pytest_llmprops.fixtures.strategies import choices

    @given(choices(search.size))
    def consistent(point):
        assert search.holds(*point)

    search.run(consistent)
