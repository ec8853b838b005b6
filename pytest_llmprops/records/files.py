"""The files of a run record: the values of their lines, which pydantic reads, writes and makes the JSON Schema of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from pytest_llmprops.core.field_types import DEEPEST
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.requests import DiscardedReply, Prefix, RequestRecord
from pytest_llmprops.records.rows import Review, SearchRecord
from pytest_llmprops.records.run import SCHEMA, RunMetadata

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
_MB = 1 << 20


class File(NamedTuple):
    """What one file of a record may be.

    :param kinds: of ``run.json``, or of each line, by name. A line is of one of them.
    :param most: bytes of the file. :param line: bytes of a line, or of ``run.json``.
    """

    kinds: Mapping[str, type]
    most: int
    line: int


FILES: Mapping[str, File] = {
    "run.json": File({"run": RunMetadata}, 64 * _MB, 64 * _MB),
    "verdicts.jsonl": File({"verdict": VerdictRecord}, 4096 * _MB, 64 * _MB),
    "requests.jsonl": File(
        {"request": RequestRecord, "discarded": DiscardedReply, "prefix": Prefix}, 16384 * _MB, 256 * _MB
    ),
    "searches.jsonl": File({"search": SearchRecord}, 1024 * _MB, 64 * _MB),
    "review.jsonl": File({"review": Review}, 64 * _MB, 4 * _MB),
}


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        # A process that neither reads nor writes a record does without pydantic.
        from pydantic import TypeAdapter

        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def from_plain(kind: type[T], value: Mapping[str, Any]) -> T:
    """Return the value of a line. Fields that are not of its kind are ignored.

    :raises ValueError: with a phrase that completes "line 7 …" and names the first wrong field.
    """
    try:
        return cast("T", _adapter(kind).validate_python(value))
    except ValueError as error:
        raise ValueError(_problem(error)) from None


def run_metadata(facts: Mapping[str, Any], run_id: str) -> RunMetadata:
    """Return ``run.json``; what is null or missing has its default.

    :param facts: the file as JSON. :param run_id: the id for a file without one.
    :raises ValueError: with a phrase that names the problem.
    """
    known: dict[str, Any] = {"run_id": run_id, **_without_nulls(facts)}
    for name in ("models", "helpers", "protocols", "benchmarks"):
        if isinstance(members := known.get(name), Mapping):
            known[name] = {label: _without_nulls(member) for label, member in members.items()}
    if isinstance(benchmarks := known.get("benchmarks"), Mapping):
        known["benchmarks"] = {
            name: {**plain(BenchmarkMetadata.unknown(name)), **own} if isinstance(own, Mapping) else own
            for name, own in benchmarks.items()
        }
    return from_plain(RunMetadata, known)


def _without_nulls(value: Any) -> Any:
    return {k: v for k, v in value.items() if v is not None} if isinstance(value, Mapping) else value


def plain(value: Any) -> dict[str, Any]:
    """Return a value as plain JSON."""
    return cast("dict[str, Any]", _adapter(type(value)).dump_python(value, mode="json", warnings=False))


def line(value: Any) -> bytes:
    """Return a value as a line of a file, with its end. Halves of surrogate pairs, which UTF-8 lacks, become "?"."""
    try:
        return _adapter(type(value)).dump_json(value, warnings=False) + b"\n"
    except ValueError:
        text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace") + b"\n"


def text(message: Any) -> str:
    """Return a message to another process as JSON."""
    return line(message).decode()


def from_text(kind: type[T], text: str) -> T:
    """Return the message of which another process sent the :func:`text`."""
    return cast("T", _adapter(kind).validate_json(text))


#: an error's type -> what the field must be
_KINDS = {
    "string_type": "a string",
    "string_too_long": "a string of at most {max_length:,} characters",
    "string_unicode": "a string of valid Unicode",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "greater_than_equal": "a whole number of at least {ge}",
    "less_than_equal": "a whole number of at most {le:,}",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "too_long": "at most {max_length:,} members long",
    "dict_type": "an object",
    "mapping_type": "an object",
    "dataclass_type": "an object",
    "dataclass_exact_type": "an object",
    "value_error": "{error}",
}


def _problem(error: Any) -> str:
    [first, *_] = error.errors(include_url=False, include_input=False)
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    place = one_line(place.removeprefix("."), 120)
    if first["type"] == "missing":
        return f"has no '{place}'"
    if first["type"] == "literal_error":
        names = [name for name in first["ctx"]["expected"].split("'")[1::2] if name]
        return f"has a '{place}' that is not one of {', '.join(names)}"
    kind = _KINDS.get(first["type"], first["msg"]).format(**first.get("ctx", {}))
    return f"has a '{place}' that is not {kind}" if place else f"is not {kind}"


def is_too_deep(raw: bytes) -> bool:
    """Return True if a JSON document has more than :data:`DEEPEST` levels of lists and objects in each other."""
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    depth = 0
    for mark in _BRACKETS.sub(b"", raw):
        depth += 1 if mark in b"[{" else -1
        if depth > DEEPEST:
            return True
    return False


#: everything in a JSON document except its brackets
_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^][{}"]++', re.DOTALL)


def json_schema() -> dict[str, Any]:
    """Return the schema of all files as one JSON Schema: ``$defs`` has ``run``, and a line of each other file."""
    from pydantic import TypeAdapter

    kinds = [(name, kind) for file in FILES.values() for name, kind in file.kinds.items()]
    references, schema = TypeAdapter.json_schemas(
        [(name, "validation", _adapter(kind)) for name, kind in kinds]
    )
    limits = "; ".join(
        f"{name}: {', '.join(file.kinds)}, at most {file.most // _MB:,} MiB"
        + ("" if file.most == file.line else f" with at most {file.line // _MB:,} MiB per line")
        for name, file in FILES.items()
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Run record of pytest-llmprops, schema {SCHEMA}",
        "description": limits,
        "$defs": {**schema["$defs"], **{name: reference for (name, _), reference in references.items()}},
    }
