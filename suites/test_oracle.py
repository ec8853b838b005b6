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


@pytest.mark.llmprops("oracle", search="yes")
def test_oracle_yes_search(search):
    """Two sentences that are called equivalent stay equivalent after edits that do not change what they say."""
    _search(search)


@pytest.mark.llmprops("oracle", search="symmetry")
def test_oracle_symmetry_search(search):
    """The answer about two sentences is the same in the other order."""
    _search(search)


@pytest.mark.llmprops("oracle", search="transitivity")
def test_oracle_transitivity_search(search):
    """Of three sentences, the first and the last are equivalent if both are equivalent to the second."""
    _search(search)


@pytest.mark.llmprops("oracle", search="edit")
def test_oracle_edit_search(search):
    """A sentence is not equivalent to itself with another number, swapped roles or a negation."""
    _search(search)


@pytest.mark.llmprops("oracle", search="self")
def test_oracle_self_search(search):
    """A sentence is equivalent to itself after a neutral edit, and to the model's own paraphrase of it."""
    _search(search)


def _search(search: Any) -> None:
    from hypothesis import given
    from pytest_llmprops.fixtures.strategies import choices

    @given(choices(search.size))
    def consistent(point):
        assert search.holds(*point)

    search.run(consistent)
