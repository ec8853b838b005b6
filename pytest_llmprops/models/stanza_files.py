"""A folder of Stanza models, read without importing Stanza (which takes seconds).

Stanza's own ``stanza.download`` fills such a folder: ``resources.json`` names the packages that a language's processors
are made of, and each lies in ``LANGUAGE/PROCESSOR/PACKAGE.pt``. Nothing is downloaded here.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import platformdirs

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.models.parsing import relative_sha256

#: what an analysis needs beside the tokenizer
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "words": (),
    "dependency": ("pos", "lemma", "depparse"),
    "constituency": ("pos", "constituency"),
}
_ORDER = ("tokenize", "mwt", "pos", "lemma", "depparse", "constituency")
#: the package that stands for "the lemma is the word", for languages without a lemmatizer; it has no file
IDENTITY = "identity"


def default_folder() -> Path:
    """Stanza's own folder: ``STANZA_RESOURCES_DIR``, else as the installed version has it."""
    stated = os.environ.get("STANZA_RESOURCES_DIR")
    if stated:
        return Path(stated).expanduser()
    found = importlib.util.find_spec("stanza")
    source = Path(found.origin or "").with_name("_version.py") if found else Path()
    stated_version = re.search(
        r"__resources_version__\s*=\s*['\"]([^'\"]+)", source.read_text(encoding="utf-8")
    )
    version = stated_version[1] if stated_version else importlib.metadata.version("stanza")
    return Path(platformdirs.user_cache_dir("stanza", "StanfordNLP", version)) / "resources"


@dataclass(frozen=True)
class StanzaFolder:
    """Which analyses the models of a folder can make.

    :param path: the folder. :param package: which of a language's packages: ``default``, ``default_fast`` ...
    """

    path: Path
    package: str = "default"

    @cached_property
    def resources(self) -> Mapping[str, Any]:
        """``resources.json``.

        :raises UsageError: where it is missing or damaged.
        """
        file = self.path / "resources.json"
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(
                f"{self.path} has no resources.json, so there are no Stanza models: {self._download('LANGUAGE')}"
            ) from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{file} cannot be read: {error}") from None
        if not isinstance(found, dict):
            raise UsageError(f"{file} is not a JSON object; {self._download('LANGUAGE')} writes it anew")
        return found

    def has_a_model(self) -> bool:
        """Whether there is a tokenizer of any language."""
        return (self.path / "resources.json").is_file() and any(self.path.glob("*/tokenize/*.pt"))

    def plan(self, language: str, analysis: str) -> dict[str, str] | str:
        """The processors of an analysis and the package of each; or one phrase on what is missing.

        For ``words``, tags and lemmas are made where their models are there.
        """
        packages = self._packages(language)
        if packages is None:
            what = f"no package '{self.package}'" if self._listed(language) else "no models"
            return f"Stanza has {what} of the language '{language}' ({self.path / 'resources.json'})"
        wanted = ["tokenize", *(["mwt"] if "mwt" in packages else []), *_NEEDED[analysis]]
        unknown = [processor for processor in wanted if processor not in packages]
        if unknown:
            names = ", ".join(unknown)
            return f"Stanza's package '{self.package}' of the language '{language}' has no {names}"
        absent = [p for p in wanted if not self._complete(language, p, packages[p])]
        if absent:
            known = [p for p in _ORDER if p in packages and (p in wanted or p in ("pos", "lemma"))]
            return (
                f"no Stanza model of the language '{language}' ({', '.join(absent)}) in {self.path}:"
                f" {self._download(language, known)}"
            )
        # The lemmatizer reads the tags; without one, tags of plain words would be made for nothing.
        if analysis != "dependency" and packages.get("lemma", IDENTITY) != IDENTITY:
            more = [p for p in ("pos", "lemma") if p not in wanted]
            if all(p in packages and self._complete(language, p, packages[p]) for p in more):
                wanted += more
        return {processor: packages[processor] for processor in _ORDER if processor in wanted}

    def damaged(self, language: str, processors: Mapping[str, str]) -> list[Path]:
        """Files of these processors whose md5 is not the one that ``resources.json`` states."""
        found = []
        for processor, package in processors.items():
            for kind, name in self._parts(language, processor, package):
                file = self._file(language, kind, name)
                stated = self._entry(language, kind, name).get("md5")
                actual = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
                if stated is not None and stated != actual:
                    found.append(file)
        return found

    def hashes(self) -> dict[str, str]:
        """sha256 of each language's model files, as far as analyses use them."""
        found = {}
        for language in self.resources:
            packages = self._packages(language) if self._code(language) == language else None
            files = {
                self._file(language, kind, name)
                for processor, package in (packages or {}).items()
                if processor in _ORDER
                for kind, name in self._parts(language, processor, package)
            }
            there = [file for file in files if file.is_file()]
            if there:
                found[language] = relative_sha256(self.path, there)
        return found

    def _code(self, language: str) -> str:
        """The name of a language's folder: Chinese ``zh`` is ``zh-hans``."""
        entry = self.resources.get(language)
        alias = entry.get("alias") if isinstance(entry, dict) else None
        return str(alias or language)

    def _listed(self, language: str) -> Mapping[str, Any] | None:
        entry = self.resources.get(self._code(language))
        return entry if isinstance(entry, dict) else None

    def _packages(self, language: str) -> dict[str, str] | None:
        stated = (self._listed(language) or {}).get("packages", {}).get(self.package)
        if not isinstance(stated, dict):
            return None
        everything = stated | stated.get("optional", {})
        return {processor: name for processor, name in everything.items() if isinstance(name, str)}

    def _entry(self, language: str, kind: str, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.resources[self._code(language)].get(kind, {}).get(name, {})
        return found

    def _parts(self, language: str, processor: str, package: str) -> Iterator[tuple[str, str]]:
        """The model of a processor and those that it builds on: word vectors, character models."""
        if package == IDENTITY:
            return
        yield processor, package
        for part in self._entry(language, processor, package).get("dependencies", ()):
            yield part["model"], part["package"]

    def _file(self, language: str, kind: str, name: str) -> Path:
        return self.path / self._code(language) / kind / f"{name}.pt"

    def _complete(self, language: str, processor: str, package: str) -> bool:
        return all(
            self._file(language, *part).is_file() for part in self._parts(language, processor, package)
        )

    def _download(self, language: str, processors: Sequence[str] = ()) -> str:
        """The command that gets a language's models."""
        options = [f"'{language}'"]
        if self.path != default_folder():
            options.append(f"model_dir='{self.path}'")
        if self.package != "default":
            options.append(f"package='{self.package}'")
        if processors:
            options.append(f"processors='{','.join(processors)}'")
        return f'python -c "import stanza; stanza.download({", ".join(options)})"'
