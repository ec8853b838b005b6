"""``stanza``: words, lemmas, tags, dependencies and trees from Stanza (Qi et al. 2020), with models on this machine.

Parameters: ``dir`` (the folder of models; by default Stanza's own), ``package`` (``default``, ``default_fast`` ...) and
``device`` (``auto``, ``cpu`` or ``cuda``). A language's models are loaded at its first text. Nothing is downloaded: if
a model is missing, the reply has the command that downloads it.
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
    """Silence Stanza, which logs the models it loads and the errors it raises to standard error."""
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
    """A parser with one Stanza pipeline per language and set of processors; the pipelines share word vectors.

    The texts of a batch are analysed together. Multi-word tokens are split into their words, which therefore may not
    occur in the text. Rounding depends on the batch, so that analyses may differ in rare ties.

    :param device: ``cpu`` or ``cuda``.
    """

    def __init__(self, folder: StanzaFolder, *, device: str, name: str, identity: Mapping[str, Any]) -> None:
        super().__init__(name=name, identity=identity)
        self._folder, self._device = folder, device
        self.pipelines: dict[tuple[str, ...], Any] = {}
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
        if key not in self.pipelines:
            try:
                stanza: Any = importlib.import_module("stanza")
                self.pipelines[key] = stanza.Pipeline(
                    language,
                    dir=str(self._folder.path),
                    package=None,
                    processors=dict(plan),
                    download_method=None,
                    device=self._device,
                    foundation_cache=self._shared,
                )
            except Exception as error:
                message = self._load_error(language, plan, error)
                raise BackendError(message, kind="model", fatal=True) from None
            self._shared = self.pipelines[key].foundation_cache
        return self.pipelines[key]

    def _load_error(self, language: str, plan: Mapping[str, str], error: Exception) -> str:
        with contextlib.suppress(OSError):
            damaged = self._folder.damaged_files(language, plan)
            if damaged:
                return (
                    f"{self._name}: {damaged[0]} is damaged (its md5 differs from that in resources.json);"
                    f" remove it and run stanza.download('{language}', model_dir='{self._folder.path}')"
                )
        return f"{self._name}: the models of '{language}' in {self._folder.path} cannot be loaded: {one_line(error)}"

    def _free(self) -> None:
        self.pipelines.clear()
        self._shared = None


def _value(document: Any, analysis: str, lemmas: bool, by: str) -> Value:
    """Return a Stanza document as plain values."""
    words: list[list[Any]] = []
    for sentence in document.sentences:
        offset = len(words)
        for token in sentence.words:
            # Stanza's lemma is an underscore if it is unknown.
            lemma = token.lemma if lemmas and (token.lemma != "_" or token.text == "_") else None
            head, relation = -1, None
            if analysis == "dependency":
                head, relation = (offset + token.head if token.head else 0), token.deprel
            words.append(word(token.text, lemma or "", token.upos or "", head, relation or ""))
    value: Value = {"words": words, "by": by}
    if analysis == "constituency":
        value["tree"] = " ".join(str(sentence.constituency) for sentence in document.sentences)
    return value


def _folder(spec: ModelSpec) -> StanzaFolder:
    setting = spec.params.get("dir")
    path = Path(setting).expanduser() if setting else default_folder()
    return StanzaFolder(path, spec.params.get("package", "default"))


def _device(spec: ModelSpec) -> str:
    device = spec.params.get("device", "auto")
    if device not in DEVICES:
        raise UsageError(f"--model {spec.text}: device must be one of {', '.join(DEVICES)}")
    if device == "cpu":
        return device
    torch: Any = importlib.import_module("torch")
    available = bool(torch.cuda.is_available())
    if device == "cuda" and not available:
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
        _ = folder.resources  # for its messages
    except UsageError as error:
        raise UsageError(f"--model {spec.text}: {error}") from None
    # "auto" needs torch, whose import takes a second: the device is then chosen when the model is created.
    device = _device(spec) if spec.params.get("device", "auto") != "auto" else options.device
    return lambda: _make(spec, folder, device or _device(spec))


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
    try:
        return importlib.util.find_spec("stanza") is not None and _folder(spec).has_models()
    except UsageError:
        return False


BACKEND = Backend(_check, always("parse"), ready=_ready, has_gpu=True)
