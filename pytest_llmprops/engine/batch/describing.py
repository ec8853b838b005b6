"""Batches in words."""

from __future__ import annotations

import time

from pytest_llmprops.core.broker_report import OpenBatches


def described(batches: OpenBatches) -> str:
    """Return how far the open batches are, in one phrase."""
    noun = "batch" if batches.batches == 1 else "batches"
    text = f"{batches.batches} {noun} open, {batches.done:,} of {batches.lines:,} lines done"
    return f"{text}, expires {moment(batches.expires)}" if batches.expires else text


def moment(seconds: float) -> str:
    """Return a Unix time as text, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
