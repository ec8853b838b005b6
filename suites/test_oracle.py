"""The oracle-checker: do the model's own answers survive a checker?"""

import pytest


@pytest.mark.llmprops("oracle")
def test_oracle(verdict):
    """The answer is accepted: linear in its entities, proved, or trusted."""
    assert verdict
