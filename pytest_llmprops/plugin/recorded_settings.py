"""Asks the user about what a repeated command takes from its record, and from no setting of the user's own.

Someone else may have written the record. Numbers, names and selections are harmless. Addresses could get keys, and
files and models could be anything.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import shell_line, terminal_line
from pytest_llmprops.engine.store.location import is_url
from pytest_llmprops.models.registry import find_backend, parse_spec
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.plugin.control.terminal import answer_of
from pytest_llmprops.plugin.options import RunOptions
from pytest_llmprops.runs.recorded_command import (
    FROM_RECORD,
    INI_ONLY,
    Part,
    is_in_record,
    is_outside,
    read_from_record,
)

_READ = ("llm-data", "llm-gate", "llm-prices")
#: the keys of a backend that does not say its own
_KEYS = ("_API_KEY", "_ACCESS_KEY")
#: a text that is neither an address nor a path, wherever it is put
_PLAIN = re.compile(r"[\w -]*")


#: what a record asks for, as a phrase, and the part of the command with which the user asks for it
Doubt = tuple[str, Part]


def confirm_recorded(config: pytest.Config, settings: RunOptions) -> None:
    """Return if the user's settings name all that a repeated command takes from its record, or the user confirms it.

    :raises pytest.UsageError: if nobody can be asked, with the options to add.
    """
    value = os.environ.pop(FROM_RECORD, "")
    if not value:
        return
    folder, recorded = read_from_record(value)
    doubts = list(_Recorded(config, settings, folder, recorded).doubts())
    if not doubts:
        return
    lines = [f"llmprops: {folder} was recorded with settings that are not your own:"]
    lines += [f"  {what}" for what, _ in doubts]
    answer = answer_of(config, "\n".join([*map(terminal_line, lines), "llmprops: continue? [y/N] "]))
    if answer is None:
        whats = "; ".join(what for what, _ in doubts)
        text = f"{folder}: {whats}; your own settings do not say so. If you want it, add "
        options = shell_line(*dict.fromkeys(part.word for _, part in doubts))
        raise pytest.UsageError(terminal_line(text) + options)
    if answer.strip().lower() not in ("y", "yes"):
        pytest.exit("llmprops: not confirmed; nothing was sent", returncode=pytest.ExitCode.INTERRUPTED)


class _Recorded:
    def __init__(
        self,
        config: pytest.Config,
        settings: RunOptions,
        folder: Path,
        recorded: dict[str, list[str]],
    ) -> None:
        self._config, self._settings, self._folder, self._recorded = config, settings, folder, recorded
        texts = [*settings.models, *settings.helpers.values()]
        self._specs = list(_specs(texts, settings.base_url))

    def doubts(self) -> Iterator[Doubt]:
        """Yield what the user's own settings do not name."""
        yield from self._models()
        yield from self._values_for_calls()
        yield from self._places()

    def _own(self, option: str) -> list[str]:
        """Return the values of an option that the ini file names."""
        value = self._config.getini(option.replace("-", "_"))
        return [] if value is None else list(map(str, value)) if isinstance(value, list) else [str(value)]

    def _values(self, option: str) -> list[Part]:
        """Return the values that only the record names."""
        # The record's value replaces that of the ini file.
        own = [] if option in INI_ONLY else self._own(option)
        return [Part(option, value) for value in self._recorded.get(option, ()) if value not in own]

    def _keys(self, specs: Iterable[ModelSpec]) -> str:
        """Return a phrase for the secrets that calls to these models have; empty if there are none."""
        names = {name for spec in specs for name in _key_names(spec) if os.environ.get(name, "").strip()}
        parts = [f"the key in {name}" for name in sorted(names)]
        parts += [f"the header {name}" for name in self._settings.headers]
        return ", ".join(parts)

    def _is_own(self, address: str) -> bool:
        """Return True if the ini file or a variable names an address."""
        own = (value for name in ("llm-base-url", "llm-model", "llm-helper") for value in self._own(name))
        known = (*own, *os.environ.values())
        wanted = address.strip().rstrip("/")
        return any(wanted == one.strip().rstrip("/") for text in known for one in text.split(","))

    def _models(self) -> Iterator[Doubt]:
        for part in self._values("llm-base-url"):
            keys = self._keys(spec for spec in self._specs if "base_url" not in spec.params)
            strange = [address for address in part.value.split(",") if not self._is_own(address)]
            if keys and strange:
                yield f"{keys} would go to {', '.join(strange)}", part
        for part in (*self._values("llm-model"), *self._values("llm-helper")):
            text = part.value if part.name == "llm-model" else part.value.partition("=")[2]
            spec = next(_specs([text], self._settings.base_url), None)
            address = (spec.params.get("base_url") if spec is not None else None) or unquote(text)
            keys = self._keys([] if spec is None else [spec])
            if "://" in unquote(text) and keys and not self._is_own(address):
                yield f"{keys} would go to {address}", part
            if spec is not None and any(self._is_strange_file(one) for one in (spec.parts or (spec,))):
                yield f"the model {text} would be loaded", part

    def _is_strange_file(self, spec: ModelSpec) -> bool:
        """Return True if a model in this process comes from a repository, or from files that are not the user's."""
        backend = find_backend(spec.backend)
        names = [value for value in spec.params.values() if "/" in value or Path(value).exists()]
        names += [spec.params["file"]] if "file" in spec.params else []
        if backend.remote:
            names = [name for name in names if "://" not in name]
        elif spec.name != spec.backend and spec.backend != "fake":
            names.append(spec.name)
        return any(
            is_outside(Path(name), self._folder)
            if Path(name).expanduser().exists()
            else "/" in name or spec.backend == "hf"
            for name in names
        )

    def _values_for_calls(self) -> Iterator[Doubt]:
        for part in self._values("llm-header"):
            name, _, text = part.value.partition("=")
            if text.startswith("$"):
                yield f"{text} would be sent as the header {name}", part
        for part in self._values("llm-param"):
            name, _, text = part.value.partition("=")
            # litellm takes addresses, files and regions by these names; the body of a call has only the others.
            is_body = name in ("stop", "temperature", "max_tokens") or _is_plain(text)
            if not is_body and any(spec.backend == "litellm" for spec in self._specs):
                yield f"litellm would get {part.value}", part
        for part in (*self._values("llm-max-calls"), *self._values("llm-max-cost")):
            with suppress(ValueError):
                if any(float(part.value) > float(own) for own in self._own(part.name)):
                    yield f"the limit would be {part.value}", part

    def _places(self) -> Iterator[Doubt]:
        for part in self._values("llm-engine"):
            if "://" in part.value and not self._is_own(part.value):
                yield f"the Ray cluster {part.value} would be joined", part
        for part in self._values("llm-store"):
            if is_url(part.value):
                if os.environ.get("PGPASSWORD") and not self._is_own(part.value):
                    yield f"the password in PGPASSWORD would go to {part.value}", part
            elif is_outside(Path(part.value), self._folder):
                # A file that is not a store would be set aside.
                yield f"replies would be kept in {part.value}", part
        for part in (part for option in _READ for part in self._values(option)):
            if is_in_record(Path(part.value), self._folder):
                yield f"{part.value} would be read, which is in the folder of a record", part


def _specs(texts: Iterable[str], base_url: str | None) -> Iterator[ModelSpec]:
    """Yield the specifications that can be read; the others end the run with their own message."""
    for text in texts:
        with suppress(UsageError):
            spec = parse_spec(text, base_url=base_url)
            find_backend(spec.backend)
            yield spec


def _key_names(spec: ModelSpec) -> Sequence[str]:
    backend = find_backend(spec.backend)
    if backend.keys or not backend.remote:
        return backend.keys
    return [name for name in os.environ if name.endswith(_KEYS)]


def _is_plain(text: str) -> bool:
    """Return True if a value of ``--llm-param`` has only numbers and words."""

    def is_plain(value: Any) -> bool:
        if isinstance(value, dict):
            return all(map(is_plain, (*value, *value.values())))
        if isinstance(value, list):
            return all(map(is_plain, value))
        return not isinstance(value, str) or _PLAIN.fullmatch(value) is not None

    try:
        return is_plain(json.loads(text))
    except (ValueError, RecursionError):
        return is_plain(text)
