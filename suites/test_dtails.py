"""DTAiLS: the right one of several translations of a word."""

import pytest


@pytest.mark.llmprops("dtails")
def test_dtails(verdict):
    """The model chooses, or translates with, the word that the sentence demands."""
    assert verdict
