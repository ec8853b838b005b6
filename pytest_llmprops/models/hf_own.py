"""Architectures of this project that the transformers library does not have.

``llmprops eras train`` saves them as folders with ``config.json``, safetensors and a tokenizer. Their code is part of
this package (``models/networks.py``), so that no code in a folder is run.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

from pytest_llmprops.core.errors import MissingExtra

#: architecture in ``config.json`` -> module and package that its network needs; "" if none
OWN_ARCHITECTURES: Mapping[str, tuple[str, str]] = {
    "BertCrfForTokenClassification": ("torchcrf", "pytorch-crf"),
    "BiLstmForTokenClassification": ("", ""),
}


def check_packages(config: Mapping[str, Any] | None, what: str) -> None:
    """Check that the packages of an architecture are installed, without importing them.

    :param what: the model, for the message.
    :raises MissingExtra: if one is not installed.
    """
    for architecture in (config or {}).get("architectures") or ():
        module, package = OWN_ARCHITECTURES.get(architecture, ("", ""))
        if module and importlib.util.find_spec(module) is None:
            raise MissingExtra(what, package=package, extra="train")


def own_network(config: Mapping[str, Any] | None) -> Any:
    """Return the class of this project that loads a model with this ``config.json``, or None."""
    for architecture in (config or {}).get("architectures") or ():
        if architecture in OWN_ARCHITECTURES:
            networks: Any = importlib.import_module("pytest_llmprops.models.networks")
            return getattr(networks, architecture)
    return None
