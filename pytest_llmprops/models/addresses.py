"""Base URLs with a user and a password: ``http://USER:PASSWORD@HOST``. Only the Authorization header may have them."""

from __future__ import annotations

import base64
import re
from urllib.parse import unquote, urlsplit, urlunsplit

# The first form also covers a password with / or @, which a URL must not have. %3A, %2F and %40 occur in parameters.
_USER = re.compile(
    r"(?i)(https?://)"
    r"(?:[^\s/?#@:,]*:(?!\d+(?:[/?#,]|$))(?:(?!,https?://)\S)*|[^\s/?#]*)(?:@|%40)"
    r"|(https?%3a%2f%2f)(?:(?!%2f|[\s&])\S)*(?:@|%40)"
)


def without_user(text: str) -> str:
    """Return a text, such as an argument of a command, without users and passwords of the web addresses in it."""
    return _USER.sub(lambda match: match[1] or match[2], text)


def split_user(url: str) -> tuple[str, str]:
    """Return (URL without user and password, ``USER:PASSWORD``); the second is empty if the URL has none."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    name, _, password = user.partition(":")
    return urlunsplit(parts._replace(netloc=host)), f"{unquote(name)}:{unquote(password)}"


def basic(user: str) -> str:
    """Return the value of an Authorization header for ``USER:PASSWORD`` (RFC 7617)."""
    return f"Basic {base64.b64encode(user.encode()).decode('ascii')}"


def secrets_of(user: str) -> tuple[str, ...]:
    """Return the texts by which ``USER:PASSWORD`` could be recognised: the password, and the header's value."""
    password = user.partition(":")[2]
    return tuple(filter(None, (password, basic(user).removeprefix("Basic ") if user else "")))
