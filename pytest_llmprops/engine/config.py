"""What the broker needs to know, in values that can cross a process boundary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_llmprops.engine.store import CacheMode
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Models by label, and how to call them.

    :param models: specifications by label, helpers under ``helper:ROLE``.
    :param not_before: stored replies of unpinned models older than this Unix time are asked again.
    :param run_dir: folder whose ``requests.jsonl`` the broker appends to; None records nothing.
    :param registrations: files whose import registers further models.
    :param replaced: a worker that is killed gets a replacement, for which the others wait a while.
    """

    models: Mapping[str, ModelSpec]
    base_url: str | None = None
    concurrency: int = 64
    rpm: float | None = None
    timeout: float = 120.0
    retries: int = 4
    cache: CacheMode = "reuse"
    not_before: float = 0.0
    store: str = ""
    max_calls: int | None = None
    max_cost: float | None = None
    run_dir: str | None = None
    registrations: tuple[str, ...] = field(default=())
    replaced: bool = True

    @property
    def options(self) -> BackendOptions:
        """Return how the models are called."""
        return BackendOptions(self.base_url, self.timeout, self.concurrency)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> BrokerConfig:
        """Inverse of :meth:`to_json`."""
        data: dict[str, Any] = json.loads(line)
        data["registrations"] = tuple(data["registrations"])
        data["models"] = {label: ModelSpec.from_json(spec) for label, spec in data["models"].items()}
        return cls(**data)
