"""What the tests of a sentence cost if they run until a bound is reached, for a plan."""

from __future__ import annotations

from pytest_llmprops.benchmarks.oracle.entities import MOST_ENTITIES
from pytest_llmprops.benchmarks.oracle.linear_tests import PARAPHRASE_TRIES
from pytest_llmprops.benchmarks.oracle.linearity import SUPPOSED_ENTITIES
from pytest_llmprops.benchmarks.oracle.linearity_settings import LinearitySettings
from pytest_llmprops.core.linearity import expected_vectors, needed_tests


def expected_calls(settings: LinearitySettings, m: int) -> float:
    """Return the expected number of calls for the tests of an accepted sentence with m entities.

    A vector is asked about once. A sentence that is rejected needs fewer calls.

    :raises ValueError: if the settings have no ``epsilon`` and ``delta``.
    """
    per_vector = settings.samples + settings.paraphrase
    return expected_vectors(m, _tests(settings, m)) * per_vector


def most_calls(settings: LinearitySettings, m: int) -> int:
    """Return the highest number of calls for the tests of a sentence with m entities.

    :raises ValueError: if the settings have no ``epsilon`` and ``delta``.
    """
    per_vector = settings.samples + PARAPHRASE_TRIES * settings.paraphrase
    return min(3 * _tests(settings, m), (1 << m) - 1) * per_vector


def _tests(settings: LinearitySettings, m: int) -> int:
    if settings.target is None:
        raise ValueError("epsilon and delta are not set")
    return needed_tests(m, *settings.target)


def plan_remark(settings: LinearitySettings, sentences: int) -> str:
    """Return the expected and the highest number of calls for the tests of ``sentences`` sentences, in one line."""
    expected = expected_calls(settings, SUPPOSED_ENTITIES)
    most = max(most_calls(settings, m) for m in range(2, MOST_ENTITIES + 1))
    return (
        f"tests of linearity take {expected:.0f} calls per accepted sentence with {SUPPOSED_ENTITIES} entities, which"
        f" the plan expects, fewer if rejected, and at most {most} with up to {MOST_ENTITIES} entities; {sentences:,}"
        f" sentences: {sentences * expected:,.0f} expected, {sentences * most:,} at most"
    )
