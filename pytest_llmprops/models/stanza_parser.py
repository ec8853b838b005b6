"""``stanza``: words, lemmas, tags, dependencies and trees by Stanza (Qi et al. 2020), from models on this machine.

Parameters: ``dir`` (the folder of models; Stanza's own without it), ``package`` (``default``, ``default_fast`` ...) and
``device`` (``auto``, ``cpu`` or ``cuda``). A language's models are loaded at its first text. Nothing is ever
downloaded: where a model is missing, the reply says which command gets it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import BackendError, MissingExtra, UsageError
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.parsing import Parser, Value, missing, one_line, word
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.models.stanza_files import IDENTITY, StanzaFolder, default_folder

DEVICES = ("auto", "cpu", "cuda")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Stanza logs what it loads, and the errors that it raises, on standard error."""
    logger = logging.getLogger("stanza")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


class StanzaParser(Parser):
    """Analyses by Stanza's pipelines, one for each language and set of processors; they share word vectors.

    Texts of a batch are analysed together. Multi-word tokens are told as their words, so that these need not stand
    in the text. Scores, and so in rare ties the analyses, differ by rounding with the batch.

    :param device: ``cpu`` or ``cuda``.
    """

    def __init__(self, folder: StanzaFolder, *, device: str, name: str, identity: Mapping[str, Any]) -> None:
        super().__init__(name=name, identity=identity)
        self._folder, self._device = folder, device
        self._pipelines: dict[tuple[str, ...], Any] = {}
        self._shared: Any = None

    def _analyse(self, texts: Sequence[str], language: str, analysis: str) -> list[Value]:
        plan = self._folder.plan(language, analysis)
        if isinstance(plan, str):
            return [missing(plan)] * len(texts)
        with _quiet():
            pipeline = self._pipeline(language, plan)
            documents = pipeline.bulk_process(list(texts))
        by = f"stanza {self.identity['version']} {language}"
        lemmas = plan.get("lemma", IDENTITY) != IDENTITY
        return [_value(document, analysis, lemmas, by) for document in documents]

    def _pipeline(self, language: str, plan: Mapping[str, str]) -> Any:
        key = (language, *plan)
        if key not in self._pipelines:
            try:
                stanza: Any = importlib.import_module("stanza")
                self._pipelines[key] = stanza.Pipeline(
                    language,
                    dir=str(self._folder.path),
                    package=None,
                    processors=dict(plan),
                    download_method=None,
                    device=self._device,
                    foundation_cache=self._shared,
                )
            except Exception as error:
                raise BackendError(self._why_not(language, plan, error), kind="model", fatal=True) from None
            self._shared = self._pipelines[key].foundation_cache
        return self._pipelines[key]

    def _why_not(self, language: str, plan: Mapping[str, str], error: Exception) -> str:
        with contextlib.suppress(OSError):
            damaged = self._folder.damaged(language, plan)
            if damaged:
                return (
                    f"{self._name}: {damaged[0]} is damaged (its md5 is not that of resources.json);"
                    f" remove it and run stanza.download('{language}', model_dir='{self._folder.path}')"
                )
        return f"{self._name}: the models of '{language}' in {self._folder.path} cannot be loaded: {one_line(error)}"

    def _free(self) -> None:
        self._pipelines.clear()
        self._shared = None


def _value(document: Any, analysis: str, lemmas: bool, by: str) -> Value:
    """An analysed document of Stanza as plain values."""
    words: list[list[Any]] = []
    for sentence in document.sentences:
        before = len(words)
        for found in sentence.words:
            # Stanza writes an underscore where it finds no lemma.
            lemma = found.lemma if lemmas and (found.lemma != "_" or found.text == "_") else None
            head, relation = -1, None
            if analysis == "dependency":
                head, relation = (before + found.head if found.head else 0), found.deprel
            words.append(word(found.text, lemma or "", found.upos or "", head, relation or ""))
    value: Value = {"words": words, "by": by}
    if analysis == "constituency":
        value["tree"] = " ".join(str(sentence.constituency) for sentence in document.sentences)
    return value


def _folder(spec: ModelSpec) -> StanzaFolder:
    stated = spec.params.get("dir")
    path = Path(stated).expanduser() if stated else default_folder()
    return StanzaFolder(path, spec.params.get("package", "default"))


def _device(spec: ModelSpec) -> str:
    wanted = spec.params.get("device", "auto")
    if wanted not in DEVICES:
        raise UsageError(f"--model {spec.text}: device must be one of {', '.join(DEVICES)}")
    if wanted == "cpu":
        return wanted
    torch: Any = importlib.import_module("torch")
    available = bool(torch.cuda.is_available())
    if wanted == "cuda" and not available:
        raise UsageError(f"--model {spec.text}: torch sees no CUDA device; use device=cpu")
    return "cuda" if available else "cpu"


def _check(spec: ModelSpec, options: BackendOptions) -> Maker:
    spec.only("dir", "package", "device")
    if spec.name != "stanza":
        raise UsageError(f"--model {spec.text}: write stanza or stanza?dir=FOLDER")
    if importlib.util.find_spec("stanza") is None:
        raise MissingExtra(f"--model {spec.text}", package="stanza", extra="parse")
    folder = _folder(spec)
    try:
        _ = folder.resources
    except UsageError as error:
        raise UsageError(f"--model {spec.text}: {error}") from None
    # Whether there is a GPU only torch knows, which takes a second to import.
    stated = _device(spec) if spec.params.get("device", "auto") != "auto" else None
    return lambda: _make(spec, folder, stated or _device(spec))


def _make(spec: ModelSpec, folder: StanzaFolder, device: str) -> StanzaParser:
    return StanzaParser(
        folder,
        device=device,
        name=spec.label,
        identity={
            "backend": "stanza",
            "version": importlib.metadata.version("stanza"),
            "package": folder.package,
            "device": device,
            "models_sha256": folder.hashes(),
        },
    )


def _ready(spec: ModelSpec) -> bool:
    return importlib.util.find_spec("stanza") is not None and _folder(spec).has_a_model()


BACKEND = Backend(_check, always("parse"), ready=_ready)
