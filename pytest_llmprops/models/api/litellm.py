"""Models of every other provider, through litellm: ``litellm:PROVIDER/NAME``.

litellm is imported at the first call, which takes seconds. Its network look-ups at import, its reading of ``.env``
files and its own retries are off. It reads each provider's key from that provider's environment variable.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.api.client import ChatApiModel, check_prices, most_samples
from pytest_llmprops.models.api.deviations import Deviations
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec, basic, normalised_url, split_query, split_user

#: litellm reads these at import: use the packaged copies of its tables, and do not read ``.env``
_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_MODE": "PRODUCTION",
}


class LiteLLMModel(ChatApiModel):
    """One model of a provider that litellm knows."""

    def __init__(self, spec: ModelSpec, options: CallOptions) -> None:
        url = normalised_url(options.base_url) if options.base_url else ""
        super().__init__(spec, options, "litellm", url or spec.name, Deviations(), base_url=url)
        self._complete: Any = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._complete is not None:
            litellm: Any = importlib.import_module("litellm")
            await litellm.close_litellm_async_clients()

    def _open(self) -> BackendError | None:
        """Import litellm at the first call."""
        if self._complete is None:
            self._complete = load_litellm().acompletion
            self._prepare()
        return None

    async def _post(self, body: dict[str, Any]) -> Mapping[str, Any] | BackendError:
        settings: dict[str, Any] = {"timeout": self._options.timeout, "num_retries": 0, "max_retries": 0}
        headers = dict(self._options.headers)
        if self._options.base_url:
            url, user = split_user(self._options.base_url)
            settings["api_base"], query = split_query(url)
            if user:
                headers = {"Authorization": basic(user), **headers}
            if query:
                settings["extra_query"] = query
        if headers:
            settings["extra_headers"] = headers
        response = await self._complete(**body, **settings)
        answer: dict[str, Any] = response.model_dump()
        hidden = getattr(response, "_hidden_params", None)
        hidden = hidden if isinstance(hidden, dict) else {}
        if isinstance(hidden.get("response_cost"), int | float):
            answer["cost_usd"] = hidden["response_cost"]
        headers = {
            str(name).removeprefix("llm_provider-"): str(value)
            for name, value in (hidden.get("additional_headers") or {}).items()
        }
        answer["request_id"] = errors.request_id(headers)
        return answer


def load_litellm() -> Any:
    """Import litellm without network access, ``.env`` files, printed advice and telemetry."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.set_verbose = False
    litellm.telemetry = False
    return litellm


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("price_in", "price_out", "n")
    most_samples(spec)
    check_prices(spec, options)
    spec.require("litellm", extra="litellm")
    if options.base_url:
        normalised_url(options.base_url)
    return lambda: LiteLLMModel(spec, options)


BACKEND = Backend(_check, always("chat"), remote=True, example="litellm:PROVIDER/NAME")
