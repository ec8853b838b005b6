"""Exceptions that are cheap to render. A file of its own: pytest parses the file of every frame that it renders."""

from __future__ import annotations


def with_one_frame(error: BaseException) -> BaseException:
    """Return ``error`` with a traceback of one frame, and without cause or context."""
    try:
        raise error.with_traceback(None) from None
    except type(error) as caught:
        return caught
