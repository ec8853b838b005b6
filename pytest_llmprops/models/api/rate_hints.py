"""How long a server that refuses a call asks to wait: in headers, in the body of the error, or in its text.

Sources: RFC 9110 (``Retry-After``), and the documentation of rate limits by OpenAI, Azure, Anthropic, Groq, Google
(``RetryInfo``), OpenRouter and the LiteLLM proxy, which passes on a provider's headers as ``llm_provider-NAME``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

#: the header of another server behind a gateway
_BEHIND = "llm_provider-"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = (
    r"(?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d)\b\s*)"
)
#: ``1m26.4s`` has no boundary after its minutes
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h|d)", re.IGNORECASE)
_COMPACT = r"(?:\d+(?:\.\d+)?(?:ms|[dhms]))+"
_IN_TEXT = re.compile(
    rf"(?:(?:try|retry)(?: again)?|wait|available)\b[^\d\n]{{0,40}}({_COMPACT}\b|{_DURATION}+)", re.IGNORECASE
)
_RETRY_DELAY = re.compile(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')
#: larger numbers are Unix times: in seconds, in milliseconds
_UNIX, _UNIX_MS = 1e9, 1e12
_LONGEST_TEXT = 10_000


def seconds_to_wait(headers: Mapping[str, str], body: Any = None, message: str = "") -> float | None:
    """Return how many seconds the server asks to wait before the next call; None if it does not say.

    The first of these decides: ``retry-after-ms``, ``Retry-After``, the delay in the body, that in the text, and the
    reset of the limit that is used up.

    :param headers: with lower-case names. :param body: the parsed body of the error. :param message: its text.
    """
    for seconds in _hints(headers, body, message[:_LONGEST_TEXT]):
        if seconds is not None and seconds < float("inf"):
            return max(0.0, seconds)
    return None


def _hints(headers: Mapping[str, str], body: Any, message: str) -> Iterator[float | None]:
    now = _server_time(headers)
    for prefix in ("", _BEHIND):
        milliseconds = _number(headers.get(f"{prefix}retry-after-ms", ""))
        yield None if milliseconds is None else milliseconds / 1000
        yield _moment(headers.get(f"{prefix}retry-after", ""), now)
    delay = _RETRY_DELAY.search(json.dumps(body)[:_LONGEST_TEXT]) if isinstance(body, dict | list) else None
    yield float(delay[1]) if delay else None
    said = _IN_TEXT.search(message)
    yield _duration(said[1]) if said else None
    yield _reset(headers, now)


def _reset(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until the limit with the smallest share left is reset."""
    resets = []
    for name, value in headers.items():
        if "ratelimit" not in name.replace("-", "") or "reset" not in name:
            continue
        seconds = _moment(value, now)
        if seconds is not None:
            left = _number(headers.get(name.replace("reset", "remaining"), ""))
            most = _number(headers.get(name.replace("reset", "limit"), ""))
            resets.append(((left or 0.0) / (most or 1.0), -seconds))
    return -min(resets)[1] if resets else None


def _moment(text: str, now: float) -> float | None:
    """Return the seconds until a time, or in a duration: ``20``, ``6m0s``, a Unix time, a date of HTTP or ISO 8601."""
    number = _number(text)
    if number is not None:
        if number >= _UNIX:
            return (number / 1000 if number >= _UNIX_MS else number) - now
        return number
    if re.fullmatch(_COMPACT, text.strip(), re.IGNORECASE):
        return _duration(text)
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            return parse(text).timestamp() - now
        except (ValueError, TypeError, OverflowError, OSError):
            continue
    return None


def _server_time(headers: Mapping[str, str]) -> float:
    """Return the time by the server's clock, if it says the time: the clock of this machine may be wrong."""
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return time.time()


def _duration(text: str) -> float:
    parts = _PART.findall(text)
    return sum(float(n) * _SECONDS["ms" if unit.lower() == "milli" else unit.lower()] for n, unit in parts)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
