"""DTAiLS: choose the right translation of an ambiguous word."""

import pytest


@pytest.mark.llmprops("dtails")
def test_dtails(verdict):
    """The model selects the right translation, or uses it when it translates the sentence."""
    assert verdict
