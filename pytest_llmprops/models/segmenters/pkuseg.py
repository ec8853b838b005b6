"""``pkuseg``: the conditional random field of PKUSEG (Luo et al. 2019), from the package spacy-pkuseg.

Parameter: ``model``, the folder of a model (``weights.npz`` with ``features.msgpack`` or ``features.pkl``). The default
is the folder ``default`` in ``$PKUSEG_HOME`` or ``~/.pkuseg``. Nothing is downloaded: spacy-pkuseg would download
models that it knows by name, so it only gets folders that exist. The default model of 2019 is in the wheel of pkuseg
0.0.25, which no longer installs; the commands in :data:`HOW` extract it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import io
import os
import pickle
from pathlib import Path
from typing import Any, NoReturn

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.segmentation import with_whitespace
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.segmenters.base import Cut, WordSegmenter
from pytest_llmprops.models.spec import ModelSpec, file_sha256, files_sha256

#: shell commands that download the default model into the default folder
HOW = (
    "pip download pkuseg==0.0.25 --no-deps --only-binary=:all: --python-version 3.7"
    " --platform manylinux1_x86_64 && unzip -j pkuseg-0.0.25-*.whl 'pkuseg/models/default/*' -d ~/.pkuseg/default"
)
#: sha256 of ``features.pkl`` in that wheel
_KNOWN_PICKLES = frozenset({"265dcf5534a11d6429776f7e7450a9eef8e075b1a4bedb82ef996994d9c721ac"})


class _PlainUnpickler(pickle.Unpickler):
    """Reads pickles of lists, dictionaries, texts and numbers only; any other object could run code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _check_pickle(file: Path) -> None:
    """Refuse a pickle that could run code when spacy-pkuseg loads it."""
    if file_sha256(file) in _KNOWN_PICKLES:
        return
    with file.open("rb") as stream:
        try:
            _PlainUnpickler(stream).load()
        except pickle.UnpicklingError as error:
            raise ValueError(f"{file.name} is not loaded, because it is not plain data: {error}") from None


def _load(folder: Path) -> Cut:
    if not (folder / "features.msgpack").is_file():
        _check_pickle(folder / "features.pkl")
    library: Any = importlib.import_module("spacy_pkuseg")
    # spacy-pkuseg warns on standard error that the features are a pickle.
    with contextlib.redirect_stderr(io.StringIO()):
        segmenter = library.pkuseg(str(folder))

    def cut(text: str) -> list[str]:
        words: list[str] = segmenter.cut(text)
        # spacy-pkuseg splits at whitespace and drops it.
        return words if text.split() == [text] else with_whitespace(words, text)

    return cut


def find_model(spec: ModelSpec) -> Path:
    """Return the folder of the model that ``spec`` asks for.

    :raises UsageError: if there is no model; the message says how to get the default model.
    """
    home = Path(os.environ.get("PKUSEG_HOME", "~/.pkuseg")).expanduser()
    stated = spec.params.get("model")
    if stated is None:
        folder = home / "default"
        if not folder.is_dir():
            raise UsageError(
                f"--model {spec.text}: no model in {folder} (models are not downloaded automatically); give"
                f" pkuseg?model=FOLDER, or get the default model of 2019: {HOW}"
            )
    else:
        folder = Path(stated).expanduser()
        if not folder.is_dir():
            raise UsageError(
                f"--model {spec.text}: no such folder: {folder} (models are not downloaded automatically); give the"
                " folder of an unpacked PKUSEG model"
            )
    features = any((folder / name).is_file() for name in ("features.msgpack", "features.pkl"))
    if not features or not (folder / "weights.npz").is_file():
        raise UsageError(
            f"--model {spec.text}: {folder} is not a PKUSEG model; it needs weights.npz and"
            " features.msgpack or features.pkl"
        )
    return folder.resolve()


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("model")
    if spec.name != "pkuseg":
        raise UsageError(f"--model {spec.text}: write pkuseg or pkuseg?model=FOLDER")
    package = importlib.util.find_spec("spacy_pkuseg")
    if package is None or package.origin is None:
        raise MissingExtra(f"--model {spec.text}", package="spacy-pkuseg", extra="zh")
    dictionary = Path(package.origin).parent / "dicts" / "default.pkl"
    folder = find_model(spec)
    names = ("weights.npz", "features.msgpack", "features.pkl")
    files = [folder / name for name in names if (folder / name).is_file()]
    return lambda: WordSegmenter(
        lambda: _load(folder),
        name=spec.label,
        identity={
            "backend": "pkuseg",
            "version": importlib.metadata.version("spacy-pkuseg"),
            "model_sha256": files_sha256(files),
            # spacy-pkuseg joins words with this dictionary, after the model.
            "dictionary_sha256": file_sha256(dictionary),
        },
    )


BACKEND = Backend(_check, always("segment"), in_worker=True)
