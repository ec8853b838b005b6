"""``stanza``: words, lemmas, tags, dependencies and trees from Stanza (Qi et al. 2020), with models on this machine.

Parameters: ``dir`` (the folder of models; by default Stanza's own), ``package`` (``default``, ``default_fast`` ...) and
``device`` (``auto``, ``cpu`` or ``cuda``). A language's models are loaded at its first text. Nothing is downloaded: if
a model is missing, the reply has the command that downloads it.

``stanza.download`` creates the folder. ``resources.json`` lists the packages of each language's processors, and
each package is the file ``LANGUAGE/PROCESSOR/PACKAGE.pt``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import platformdirs

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.faults import fault_text
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.parsers.base import Parser, Value, missing, word
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec, files_sha256, torch_device

#: the processors that an analysis needs in addition to the tokenizer
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "words": (),
    "dependency": ("pos", "lemma", "depparse"),
    "constituency": ("pos", "constituency"),
}
_ORDER = ("tokenize", "mwt", "pos", "lemma", "depparse", "constituency")
#: the package for languages without a lemmatizer, where the lemma is the word; it has no file
IDENTITY = "identity"


def default_folder() -> Path:
    """Return Stanza's default folder: ``STANZA_RESOURCES_DIR``, otherwise that of the installed version.

    :raises UsageError: if the user has no home directory.
    """
    setting = os.environ.get("STANZA_RESOURCES_DIR")
    if setting:
        return Path(setting).expanduser()
    package = importlib.util.find_spec("stanza")
    source = Path(package.origin or "").with_name("_version.py") if package else Path()
    match = re.search(r"__resources_version__\s*=\s*['\"]([^'\"]+)", source.read_text(encoding="utf-8"))
    version = match[1] if match else importlib.metadata.version("stanza")
    try:
        return Path(platformdirs.user_cache_dir("stanza", "StanfordNLP", version)) / "resources"
    except RuntimeError:
        raise UsageError("Stanza: the user has no home directory; set HOME or STANZA_RESOURCES_DIR") from None


@dataclass(frozen=True)
class StanzaFolder:
    """A folder of Stanza models, and the analyses that they can make.

    :param path: the folder.
    :param package: which of a language's packages to use: ``default``, ``default_fast`` ...
    """

    path: Path
    package: str = "default"

    @cached_property
    def resources(self) -> Mapping[str, Any]:
        """The content of ``resources.json``.

        :raises UsageError: if the file is missing or damaged.
        """
        file = self.path / "resources.json"
        try:
            content = parsed_json(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(
                f"{self.path} has no resources.json, so there are no Stanza models: {self.download('LANGUAGE')}"
            ) from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{file} cannot be read: {error}") from None
        if not isinstance(content, dict):
            raise UsageError(f"{file} is not a JSON object; {self.download('LANGUAGE')} replaces it")
        return content

    def has_models(self) -> bool:
        """Return True if the folder has a tokenizer of any language."""
        return (self.path / "resources.json").is_file() and any(self.path.glob("*/tokenize/*.pt"))

    def plan(self, language: str, analysis: str) -> dict[str, str] | str:
        """Return the package of each processor of an analysis, or one phrase that says what is missing.

        Tags and lemmas are added to ``words`` and ``constituency`` if their models are in the folder.
        """
        packages = self._packages(language)
        if packages is None:
            lack = f"no package '{self.package}'" if self._listed(language) else "no models"
            return f"Stanza has {lack} of the language '{language}' ({self.path / 'resources.json'})"
        required = ["tokenize", *(["mwt"] if "mwt" in packages else []), *_REQUIRED[analysis]]
        unknown = [processor for processor in required if processor not in packages]
        if unknown:
            names = ", ".join(unknown)
            return f"Stanza's package '{self.package}' of the language '{language}' has no {names}"
        absent = [p for p in required if not self._is_complete(language, p, packages[p])]
        if absent:
            known = [p for p in _ORDER if p in packages and (p in required or p in ("pos", "lemma"))]
            return (
                f"no Stanza model of the language '{language}' ({', '.join(absent)}) in {self.path}:"
                f" {self.download(language, known)}"
            )
        processors = list(required)
        # Only the lemmatizer needs the tags. Without a lemmatizer, tags for plain words would be wasted time.
        if analysis != "dependency" and packages.get("lemma", IDENTITY) != IDENTITY:
            more = [p for p in ("pos", "lemma") if p not in required]
            if all(p in packages and self._is_complete(language, p, packages[p]) for p in more):
                processors += more
        return {processor: packages[processor] for processor in _ORDER if processor in processors}

    def hashes(self) -> dict[str, str]:
        """Return language -> sha256 over those of its model files that analyses use."""
        digests = {}
        for language in self.resources:
            packages = self._packages(language) if self._code(language) == language else None
            files = {
                self._file(language, kind, name)
                for processor, package in (packages or {}).items()
                if processor in _ORDER
                for kind, name in self._models(language, processor, package)
            }
            existing = [file for file in files if file.is_file()]
            if existing:
                digests[language] = files_sha256(existing, self.path)
        return digests

    def _code(self, language: str) -> str:
        """Return the name of a language's folder: that of Chinese (``zh``) is ``zh-hans``."""
        entry = self.resources.get(language)
        alias = entry.get("alias") if isinstance(entry, dict) else None
        return str(alias or language)

    def _listed(self, language: str) -> Mapping[str, Any] | None:
        entry = self.resources.get(self._code(language))
        return entry if isinstance(entry, dict) else None

    def _packages(self, language: str) -> dict[str, str] | None:
        processors = (self._listed(language) or {}).get("packages", {}).get(self.package)
        if not isinstance(processors, dict):
            return None
        with_optional = processors | processors.get("optional", {})
        return {processor: name for processor, name in with_optional.items() if isinstance(name, str)}

    def _entry(self, language: str, kind: str, name: str) -> Mapping[str, Any]:
        entry: Mapping[str, Any] = self.resources[self._code(language)].get(kind, {}).get(name, {})
        return entry

    def _models(self, language: str, processor: str, package: str) -> Iterator[tuple[str, str]]:
        """Yield (kind, name) of a processor's model and of those that it uses: word vectors, character models."""
        if package == IDENTITY:
            return
        yield processor, package
        for part in self._entry(language, processor, package).get("dependencies", ()):
            yield part["model"], part["package"]

    def _file(self, language: str, kind: str, name: str) -> Path:
        return self.path / self._code(language) / kind / f"{name}.pt"

    def _is_complete(self, language: str, processor: str, package: str) -> bool:
        return all(
            self._file(language, *model).is_file() for model in self._models(language, processor, package)
        )

    def download(self, language: str, processors: Sequence[str] = ()) -> str:
        """Return the command that downloads a language's models."""
        options = [f"'{language}'"]
        if self.path != default_folder():
            options.append(f"model_dir='{self.path}'")
        if self.package != "default":
            options.append(f"package='{self.package}'")
        if processors:
            options.append(f"processors='{','.join(processors)}'")
        return f'python -c "import stanza; stanza.download({", ".join(options)})"'


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
                text = (
                    f"the models of '{language}' in {self._folder.path} cannot be loaded: {fault_text(error)}"
                )
                fix = f"remove them and run {self._folder.download(language)}"
                raise BackendError(f"{self._name}: {text}; {fix}", kind="model", fatal=True) from None
            self._shared = self.pipelines[key].foundation_cache
        return self.pipelines[key]

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


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("dir", "package", "device")
    spec.require("stanza", extra="oracle")
    folder = _folder(spec)
    try:
        _ = folder.resources  # for its messages
    except UsageError as error:
        raise spec.error(f"{error}") from None
    # "auto" needs torch, whose import takes a second: the device is then chosen when the model is created.
    device = torch_device(spec) if spec.params.get("device", "auto") != "auto" else options.device

    def make() -> StanzaParser:
        chosen = device or torch_device(spec)
        identity = {
            "backend": "stanza",
            "version": importlib.metadata.version("stanza"),
            "package": folder.package,
            "device": chosen,
            "models_sha256": folder.hashes(),
        }
        return StanzaParser(folder, device=chosen, name=spec.label, identity=identity)

    return make


def _ready(spec: ModelSpec) -> bool:
    try:
        return importlib.util.find_spec("stanza") is not None and _folder(spec).has_models()
    except UsageError:
        return False


BACKEND = Backend(_check, always("parse"), ready=_ready, has_gpu=True)
