"""``spacy:PACKAGE_OR_FOLDER``: words, lemmas, tags, dependencies and trees from a spaCy pipeline.

The pipeline is an installed package or a folder. It has one language; texts in other languages get "missing". Named
entities are not recognised (``ner`` is not loaded). Lemmas, tags and dependencies are present if the pipeline has the
components. Relations have the names of the pipeline's own scheme: the English models' ``dobj`` and ``prt`` are
Universal Dependencies' ``obj`` and ``compound:prt``.

Trees (``constituency``) are derived from the dependencies (``models/parsers/phrases.py``), and ``by`` says so. Schemes
without the relation ``nsubj`` (the German models') have no trees.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.faults import fault_text
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.parsers.base import Parser, Value, missing, word
from pytest_llmprops.models.parsers.phrases import VERSION, Token, bracketed
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec, files_sha256


class SpacyParser(Parser):
    """A parser with one spaCy pipeline, which is loaded at the first text of its language.

    :param folder: of the pipeline's files.
    :param meta: the pipeline's ``meta.json``.
    """

    def __init__(
        self, folder: Path, meta: Mapping[str, Any], *, name: str, identity: Mapping[str, Any]
    ) -> None:
        super().__init__(name=name, identity=identity)
        self._folder, self._meta = folder, meta
        self.pipeline: Any = None

    def _analyse(self, texts: Sequence[str], language: str, analysis: str) -> list[Value]:
        own = self._meta["lang"]
        if language != own:
            reason = (
                f"{self._name} is a spaCy model of '{own}', not of '{language}' (Stanza has more languages)"
            )
            return [missing(reason)] * len(texts)
        if self.pipeline is None:
            self.pipeline = self._load()
        if analysis == "constituency" and "nsubj" not in self.pipeline.pipe_labels.get("parser", ()):
            reason = "no dependency parser with a subject relation (nsubj), which trees are derived from"
            return [missing(f"{self._name} has {reason}")] * len(texts)
        title = f"{own}_{self._meta['name']} {self._meta['version']}"
        by = f"spacy {self.identity['version']} {title}"
        if analysis == "constituency":
            by += ", trees from its dependencies"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            documents = list(self.pipeline.pipe(texts))
        return [self.value(document, analysis, by) for document in documents]

    def _load(self) -> Any:
        try:
            # spaCy warns about models trained with another version, even if their metadata allow this version.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                spacy: Any = importlib.import_module("spacy")
                return spacy.load(self._folder, exclude=["ner"])
        except Exception as error:
            text = f"{self._name} cannot be loaded: {fault_text(error)}"
            raise BackendError(text, kind="model", fatal=True) from None

    def value(self, document: Any, analysis: str, by: str) -> Value:
        """Return one document's value, or a missing value if the pipeline lacks the analysis."""
        parsed = document.has_annotation("DEP")
        tokens = [token for token in document if not token.is_space]
        if analysis == "dependency" and tokens and not parsed:
            return missing(f"{self._name} has no dependency parser")
        # Runs of whitespace are tokens in spaCy but not words here, so positions are counted without them.
        place = {token.i: number for number, token in enumerate(tokens, start=1)}
        words = []
        for token in tokens:
            head, relation = -1, ""
            if analysis == "dependency":
                head, relation = _head(token, place), token.dep_
            words.append(word(token.text, token.lemma_, token.pos_, head, relation))
        value: Value = {"words": words, "by": by}
        if analysis == "constituency":
            value["tree"] = bracketed(
                [Token(t.text, t.tag_, t.pos_, _head(t, place) - 1, t.dep_) for t in tokens]
            )
        return value

    def _free(self) -> None:
        self.pipeline = None


def _head(token: Any, place: Mapping[int, int]) -> int:
    """Return the position of a token's head, or of the head's head if the head is whitespace; 0 for a root."""
    above = token.head
    while above.i not in place and above.head.i != above.i:
        above = above.head
    return 0 if above.i == token.i else place.get(above.i, 0)


def _read_meta(folder: Path) -> Mapping[str, Any] | None:
    """Return ``meta.json`` of a pipeline or of its package, or None if it lacks a language, name or version."""
    try:
        meta = parsed_json((folder / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_complete = isinstance(meta, dict) and all(
        isinstance(meta.get(key), str) for key in ("lang", "name", "version")
    )
    return meta if is_complete else None


def _data_of(folder: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """Return the folder with a pipeline's files, which may be inside ``folder``, and its ``meta.json``."""
    meta = _read_meta(folder)
    if meta is None:
        return None
    inner = folder / f"{meta['lang']}_{meta['name']}-{meta['version']}"
    for candidate in (folder, inner):
        if (candidate / "config.cfg").is_file():
            return candidate, meta
    return None


def _find(name: str) -> tuple[Path, Mapping[str, Any]] | None:
    """Return the folder with the files of a folder or an installed package, and its ``meta.json``."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _data_of(folder)
    package = name.replace("-", "_")
    module = importlib.util.find_spec(package) if package.isidentifier() else None
    return None if module is None or module.origin is None else _data_of(Path(module.origin).parent)


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only()
    spec.require("spacy", extra="oracle")
    pipeline = _find(spec.name)
    if pipeline is None:
        raise spec.error(
            f"'{spec.name}' is neither the folder of a spaCy model (config.cfg, meta.json) nor an"
            " installed package of one; python -m spacy download NAME installs one"
        )
    folder, meta = pipeline
    files = [f for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    return lambda: SpacyParser(
        folder.resolve(),
        meta,
        name=spec.label,
        identity={
            "backend": "spacy",
            "version": importlib.metadata.version("spacy"),
            "model": f"{meta['lang']}_{meta['name']} {meta['version']}",
            "files_sha256": files_sha256(files, folder),
            "trees": VERSION,
        },
    )


def _ready(spec: ModelSpec) -> bool:
    return importlib.util.find_spec("spacy") is not None and _find(spec.name) is not None


BACKEND = Backend(_check, always("parse"), ready=_ready, example="spacy:en_core_web_sm")
