"""Architectures that only this project has."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import MissingExtra
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.hf.backend import kind_of
from pytest_llmprops.models.hf.loading import OWN_ARCHITECTURES, own_network
from pytest_llmprops.models.registry import find_backend, parse_spec


def test_own_architectures_segment() -> None:
    """They serve requests for segmentation; all others are left to transformers."""
    assert {kind_of({"architectures": [name]}) for name in OWN_ARCHITECTURES} == {"segment"}
    assert own_network({"architectures": ["BertForTokenClassification"]}) is None
    assert own_network(None) is None


def test_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pytorch-crf, a model with a CRF says what to install, before anything is loaded."""
    find: Any = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torchcrf" else find(name))
    (tmp_path / "config.json").write_text(
        '{"architectures": ["BertCrfForTokenClassification"], "id2label": {"0": "B", "1": "I"}}',
        encoding="utf-8",
    )
    spec = parse_spec(f"hf:{tmp_path}")
    with pytest.raises(MissingExtra, match=r"--model hf:.*pytorch-crf.*pytest-llmprops\[train\]"):
        find_backend("hf").check(spec, BackendOptions())
