"""Exceptions that are cheap to render. The file is small because pytest parses the file of every frame it renders."""

from __future__ import annotations


def with_one_frame(error: BaseException) -> BaseException:
    """Return ``error`` with a traceback of one frame, and without cause or context."""
    try:
        raise error.with_traceback(None) from None
    except type(error) as caught:
        return caught
