"""A site of many runs: one static folder, or pages that this machine serves with the progress of running runs."""

from __future__ import annotations

import importlib.util

#: what serving needs of the extra ``report``
PACKAGES = ("starlette", "uvicorn")


def missing_package() -> str:
    """Return the first package that serving needs and that is not installed; empty if all are. Imports none of them."""
    return next((name for name in PACKAGES if importlib.util.find_spec(name) is None), "")
