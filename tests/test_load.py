"""A busy machine fails no test."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=1)
@given(st.none())
def test_a_slow_example_is_not_wrong(example: None) -> None:
    """Hypothesis has no deadline, which by default is 0.2 seconds."""
    time.sleep(0.3)
