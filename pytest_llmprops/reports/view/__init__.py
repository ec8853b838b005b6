"""The page of a site on this machine, with the progress of running runs, reports and review marks."""

from __future__ import annotations

import importlib.util

#: the packages of the extra ``view``
PACKAGES = ("starlette", "uvicorn")


def missing_package() -> str:
    """Return the first package of the extra ``view`` that is not installed; empty if all are. Imports none of them."""
    return next((name for name in PACKAGES if importlib.util.find_spec(name) is None), "")
