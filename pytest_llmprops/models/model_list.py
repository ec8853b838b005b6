"""The list of models of a server with OpenAI's API (``GET /models``), which changes with its weights."""

from __future__ import annotations

import hashlib
import json
import time
import urllib.error
import urllib.request
from typing import Any

from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.models.addresses import basic, split_user

#: An unreachable server must not delay a run whose replies are all stored.
SECONDS = 3.0
_LARGEST = 1_000_000
#: Some servers (vLLM) give the time of the request as the time at which each model was created.
_JUST_NOW = 300.0


def model_list(url: str, key: str) -> str:
    """Return a hash of the models that the server at the base URL lists; an empty text if it does not answer with one.

    Names, the files behind them and the times of their creation count.
    """
    url, user = split_user(url)
    headers = {"Authorization": basic(user) if user else f"Bearer {key}"}
    request = urllib.request.Request(f"{url}/models", headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            listed = parsed_json(answer.read(_LARGEST))
        models = sorted(map(_entry, listed["data"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, urllib.error.URLError):
        return ""
    return hashlib.sha256(json.dumps(models).encode()).hexdigest() if models else ""


def _entry(model: dict[str, Any]) -> list[str]:
    created = model.get("created")
    if not isinstance(created, int | float) or abs(time.time() - created) < _JUST_NOW:
        created = ""
    return [str(model["id"]), str(model.get("root", "")), str(created)]
