"""Which model answered, as the server says: a gateway may have passed a call on to another one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pytest_llmprops.core.numbers import count, counted
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.records.run import ModelMetadata

#: what follows the name of a model in one of its versions: ``-2024-08-06``, ``-20241022``, ``@20240620``, ``-0613``,
#: ``-002``, ``-preview-05-06``, ``-v1:0`` (Bedrock), ``:latest`` (Ollama)
_VERSION = re.compile(
    r"(?:[-:@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{3}|latest|stable|preview(?:-\d{2}-\d{2,4})?|v\d+(?::\d+)?))+$"
)
#: what precedes it: the path of a provider or a router, a region and a vendor of Bedrock
_VENDOR = re.compile(
    r"^(?:(?:us|eu|apac|global)\.)?(?:anthropic|amazon|cohere|deepseek|meta|mistral|openai)\."
)
_MOST_NAMES = 3


def is_same_model(asked: str, served: str) -> bool:
    """Return True if a server's name of a model is the name that was asked for, or names a version of it.

    Providers' prefixes and capital letters do not count. Of two dated versions, the dates must be equal.
    """
    (name, version), (other, other_version) = _parts(asked), _parts(served)
    return name == other and (
        version == other_version or not (_is_dated(version) and _is_dated(other_version))
    )


def _parts(name: str) -> tuple[str, str]:
    """Return the name of a model without its provider, and its version."""
    plain = _VENDOR.sub("", name.strip().lower().rpartition("/")[2])
    version = _VERSION.search(plain)
    return (plain, "") if version is None else (plain[: version.start()], version[0])


def _is_dated(version: str) -> bool:
    return any(character.isdigit() for character in version)


def fallback_notes(models: Iterable[ModelMetadata]) -> list[str]:
    """Return one line for each model of an API some of whose replies another model gave, as the server says."""
    notes = []
    for model in models:
        # Only the identity of a model of an API has an address.
        identity = model.identity if isinstance(model.identity, Mapping) else {}
        if "base_url" not in identity:
            continue
        asked, total = str(identity["name"]), sum(model.served_counts.values())
        others = {name: n for name, n in model.served_counts.items() if not is_same_model(asked, name)}
        first = sorted(others.items(), key=lambda pair: -pair[1])[:_MOST_NAMES]
        shown = [
            f"{one_line(name, 80)} ({count(n)} of {counted(total, 'reply', 'replies')})" for name, n in first
        ]
        if len(others) > _MOST_NAMES:
            shown.append(f"{count(len(others) - _MOST_NAMES)} others")
        if shown:
            notes.append(f"{asked} was served as {', '.join(shown)}")
    return notes
