"""The broker's configuration, as values that can be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_llmprops.core.requests import MAX_THINKING
from pytest_llmprops.engine.store.base import CacheMode
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.spec import ModelSpec, Replicas


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Models by label, and how to call them.

    :param models: specifications by label; helpers have the label ``helper:ROLE``.
    :param calls: what each call has.
    :param rpm: maximum calls per minute.
    :param retries: maximum retries per call.
    :param not_before: Unix time; older stored replies of unpinned models are requested again.
    :param run_dir: folder of the ``requests.jsonl`` that the broker appends to; None for no log.
    :param registrations: files whose import registers more models.
    :param engine: ``local`` for calls, ``batch`` for the provider's batches, ``ray`` or ``ray://HOST:PORT``.
    :param replicas: the models that a Ray cluster serves, by label; empty with the other engines.
    :param batch_wait: seconds to wait for batches; None to wait until all are done.
    :param max_thinking: tokens that a model may get for its thoughts beyond the limit of a request.
    :param proven: labels of the models of which an earlier run has replies.
    """

    models: Mapping[str, ModelSpec]
    calls: CallOptions = field(default_factory=CallOptions)
    rpm: float | None = None
    retries: int = 4
    cache: CacheMode = "reuse"
    not_before: float = 0.0
    # Its URL may have a password.
    store: str = field(default="", repr=False)
    max_calls: int | None = None
    max_cost: float | None = None
    run_dir: str | None = None
    registrations: tuple[str, ...] = field(default=())
    engine: str = "local"
    replicas: Mapping[str, Replicas] = field(default_factory=dict)
    batch_wait: float | None = None
    max_thinking: int = MAX_THINKING
    proven: tuple[str, ...] = field(default=())
