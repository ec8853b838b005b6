"""The search for the root of a function."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable

import pytest
from scipy.optimize import brentq

from pytest_llmprops.core.roots import root

#: function, and two points around its root: straight, curved, flat at the root, steep, with a step, and with ends far
#: apart
FUNCTIONS: dict[str, tuple[Callable[[float], float], float, float]] = {
    "straight": (lambda x: 3 * x - 1, -1.0, 4.0),
    "cosine": (lambda x: math.cos(x) - x, 0.0, 1.0),
    "flat": (lambda x: (x - 0.3) ** 9, 0.0, 1.0),
    "steep": (lambda x: math.atan(1e6 * (x - 0.7)), 0.0, 1.0),
    "falling": (lambda x: math.exp(-5 * x) - 0.01, 0.0, 3.0),
    "step": (lambda x: 1.0 if x > 0.123 else -1.0, 0.0, 1.0),
    "small": (lambda x: x**3 - 1e-15, 0.0, 1e3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("is_mirrored", [False, True], ids=["", "mirrored"])
def test_root_is_that_of_brents_method(name: str, is_mirrored: bool) -> None:
    """The root lies within the tolerance of scipy's, with either sign and order of the ends."""
    function, low, high = FUNCTIONS[name]
    calls = []

    def counted(x: float) -> float:
        calls.append(x)
        return -function(x) if is_mirrored else function(x)

    found = root(counted, *((high, low) if is_mirrored else (low, high)), tolerance=1e-12)
    assert len(calls) < 120
    exact = 0.3 if name == "flat" else brentq(function, low, high, xtol=1e-14)
    assert found == pytest.approx(exact, abs=2e-12)
    assert all(low <= x <= high for x in calls)


def test_smooth_functions_need_few_evaluations() -> None:
    """The search of a smooth root needs no more evaluations than Brent's method, on average."""
    draw = random.Random(1)
    ours = theirs = 0
    for _ in range(200):
        shape, value = draw.uniform(0.5, 8), draw.uniform(0.01, 0.99)
        calls: list[float] = []

        def function(
            x: float, shape: float = shape, value: float = value, calls: list[float] = calls
        ) -> float:
            calls.append(x)
            return math.expm1(shape * x) / math.expm1(shape) - value

        root(function, 0.0, 1.0, tolerance=1e-12)
        ours += len(calls)
        theirs += brentq(function, 0.0, 1.0, xtol=1e-12, full_output=True)[1].function_calls
    assert ours <= theirs


@pytest.mark.parametrize(("low", "high", "expected"), [(0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
def test_an_end_may_be_the_root(low: float, high: float, expected: float) -> None:
    assert root(lambda x: x, low, high, tolerance=1e-12) == expected


def test_ends_with_the_same_sign_are_refused() -> None:
    """Without a change of sign there may be no root."""
    with pytest.raises(ValueError, match=r"the same sign at 1\.0 and 2\.0"):
        root(lambda x: x, 1.0, 2.0, tolerance=1e-12)


def test_limits_over_clusters_import_no_scipy() -> None:
    """The limits of a run's metrics are computed without scipy, whose import would take longer than a small run."""
    code = (
        "import sys\nfrom pytest_llmprops.core.bounded_mean import ClusterSample\n"
        "sample = ClusterSample((1.0, 3.0, 2.0), (2.0, 3.0, 4.0), (1.0, 1.0, 1.0))\n"
        "assert sample.lower_limit(0.025, least=0) < sample.upper_limit(0.025, most=1)\n"
        "assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
