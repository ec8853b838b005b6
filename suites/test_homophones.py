"""Homophones: a word was swapped for one that sounds the same; which word is meant?"""

import pytest


@pytest.mark.llmprops("homophones")
def test_homophones(verdict):
    """The reply names the word that was meant."""
    assert verdict
