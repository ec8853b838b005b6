"""Model specifications: ``NAME[?key=value&...]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any
from urllib.parse import parse_qsl

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.models.addresses import without_user


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A parsed model specification.

    :param text: the specification as the user wrote it, without users and passwords of web addresses.
    :param backend: the backend's name in the registry.
    :param name: the backend's name for the model (repository, file, API name).
    :param params: the parameters after ``?``.
    :param parts: the combined models, if the backend combines several.
    """

    text: str
    backend: str
    name: str
    params: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[ModelSpec, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelSpec:
        """Return the specification from its :func:`dataclasses.asdict` form."""
        return cls(**{**data, "parts": tuple(map(cls.from_json, data["parts"]))})

    @property
    def label(self) -> str:
        """The short ASCII name of the model for node ids, folders and tables."""
        base = self.name.rstrip("/").rsplit("/", 1)[-1] or self.backend
        if self.parts or base.startswith("ft:"):
            # The last parser, and the id of a fine-tuned model: ft:BASE:ORG::ID.
            base = base.rsplit(":", 1)[-1] or self.backend
        if self.backend in ("llamacpp", "maxmatch"):
            base = base.rsplit(".", 1)[0]
        if self.backend == "fake":
            base = f"fake-{base}"
        base += "".join(f"-{k}={v}" for k, v in sorted(self.params.items()) if k not in ("base_url", "as"))
        return re.sub(r"[^A-Za-z0-9._=-]+", "_", base)

    def number(self, key: str) -> float | None:
        """Return a numeric parameter, or None if it is absent.

        :raises UsageError: if it is not a finite number.
        """
        if key not in self.params:
            return None
        try:
            value = float(self.params[key])
        except ValueError:
            value = nan
        if not isfinite(value):
            raise UsageError(f"--model {self.text}: {key} must be a number")
        return value

    def only(self, *known: str) -> None:
        """Check that all parameters are in ``known``.

        :raises UsageError: if one is not.
        """
        for key in self.params:
            if key not in known:
                raise UsageError(
                    f"--model {self.text}: '{key}' is not a parameter of {self.backend};"
                    f" it takes {', '.join(known) or 'none'}"
                )


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME?key=value`` into (NAME, {key: value}).

    :raises UsageError: if the name is missing or the parameters are malformed.
    """
    name, mark, query = text.partition("?")
    if not name:
        raise UsageError(f"--model {text!r}: a model name is missing before '?'")
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=False)
    if mark and (not query or any("=" not in part for part in query.split("&"))):
        raise UsageError(f"--model {without_user(text)}: write parameters as NAME?key=value&key=value")
    return name, dict(pairs)
