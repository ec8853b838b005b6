"""The schema of a run record: the fields of its files, with types and limits.

:func:`check` checks a line, or ``run.json``, against it. ``runs/record.schema.json`` is the same schema as JSON Schema
(:func:`json_schema`). Fields that are not listed here are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal, NamedTuple, get_args

from pytest_llmprops.core.texts import one_line

RecordStatus = Literal["correct", "wrong", "refused", "unparsed", "untested", "error"]
RECORD_STATUSES: tuple[RecordStatus, ...] = get_args(RecordStatus)
#: the counts of a summary row, in the order of statuses that every table keeps
COUNTS = ("correct", "wrong", "refused", "unparsed", "untested", "errors")
#: the statuses that are no answer, and in no denominator
UNANSWERED: frozenset[str] = frozenset({"untested", "error"})
#: what is the same for all samples of one item in a run; the first five are the group of a summary row
_GROUP = ("model", "benchmark", "task", "language", "source")

#: characters of a name: of a model, an item, a file
NAME = 10_000
#: characters of any other text. Writers shorten longer ones.
TEXT = 1_000_000
#: characters of a prompt and of a reply, which can be a body of 64 MB
REPLY = 1 << 27
#: The largest number. Statistics of larger ones could overflow.
LARGEST = 1e100
#: the largest count; JavaScript and JSON readers keep it exactly
MOST = 2**53 - 1
#: the highest number of a repeat, counted from 0
LAST_SAMPLE = 99_999
#: members of a list or an object
MEMBERS = 1_000_000
#: levels of lists and objects in each other
DEEPEST = 100


# A verdict is checked in 2 µs: these are not made in each call.
_NUMBERS, _LISTS, _SCALARS = (int, float), (list, tuple), frozenset((str, int, float, bool, type(None)))


def _not(what: str, place: str) -> str:
    return f"has a '{one_line(place, 120)}' that is not {what}" if place else f"is not {what}"


class Shape:
    """What a value may be; ``what`` is the same in words."""

    what: str

    def fits(self, value: Any) -> bool:
        """Return True if the value has this shape."""
        raise NotImplementedError

    def problem(self, value: Any, place: str) -> str:
        """Return why a value that does not fit is wrong, as a phrase that names the field.

        :param place: where the value is; empty for a whole line.
        """
        return _not(self.what, place)

    def schema(self) -> dict[str, Any]:
        """Return the shape as JSON Schema."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Text(Shape):
    """A string.

    :param most: number of characters. :param one_of: the only strings that are allowed; empty for any string.
    """

    most: int = NAME
    one_of: tuple[str, ...] = ()

    @property
    def what(self) -> str:  # type: ignore[override]
        return f"one of {', '.join(filter(None, self.one_of))}" if self.one_of else "a string"

    def fits(self, value: Any) -> bool:
        return type(value) is str and len(value) <= self.most and (not self.one_of or value in self.one_of)

    def problem(self, value: Any, place: str) -> str:
        if isinstance(value, str) and len(value) > self.most:
            return _not(f"a string of at most {self.most:,} characters", place)
        return _not(self.what, place)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.one_of)} if self.one_of else {"type": "string", "maxLength": self.most}


@dataclass(frozen=True, slots=True)
class Whole(Shape):
    """An integer."""

    least: int = 0
    most: int = MOST

    @property
    def what(self) -> str:  # type: ignore[override]
        return f"a whole number of at least {self.least} and at most {self.most:,}"

    def fits(self, value: Any) -> bool:
        return type(value) is int and self.least <= value <= self.most

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Number(Shape):
    """A finite number. Python also counts true and false as numbers, and so do records."""

    least: float = -LARGEST
    most: float = LARGEST

    @property
    def what(self) -> str:  # type: ignore[override]
        return f"a number from {self.least:g} to {self.most:g}"

    def fits(self, value: Any) -> bool:
        # Nothing is true of NaN.
        return isinstance(value, _NUMBERS) and self.least <= value <= self.most

    def schema(self) -> dict[str, Any]:
        return {"type": ["number", "boolean"], "minimum": self.least, "maximum": self.most}


class Flag(Shape):
    """True or false."""

    what = "true or false"

    def fits(self, value: Any) -> bool:
        return isinstance(value, bool)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Anything(Shape):
    """Any JSON of at most :data:`DEEPEST` levels. Deeper values end in a RecursionError where they are written."""

    what = f"JSON of at most {DEEPEST} levels"

    def fits(self, value: Any) -> bool:
        if type(value) in _SCALARS:
            return True
        level = [value]
        for _ in range(DEEPEST):
            members = [m for outer in level for m in (outer.values() if isinstance(outer, dict) else outer)]
            level = [member for member in members if type(member) not in _SCALARS]
            if not level:
                return True
        return False

    def schema(self) -> dict[str, Any]:
        return {}


ANYTHING = Anything()


@dataclass(frozen=True, slots=True)
class OrNull(Shape):
    """A value, or null."""

    of: Shape

    @property
    def what(self) -> str:  # type: ignore[override]
        return f"{self.of.what}, or null"

    def fits(self, value: Any) -> bool:
        return value is None or self.of.fits(value)

    def problem(self, value: Any, place: str) -> str:
        problem = self.of.problem(value, place)
        return f"{problem}, or null" if problem == _not(self.of.what, place) else problem

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.of.schema(), {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class Several(Shape):
    """A list."""

    of: Shape
    most: int = MEMBERS
    what = "a list"

    def fits(self, value: Any) -> bool:
        return isinstance(value, _LISTS) and len(value) <= self.most and all(map(self.of.fits, value))

    def problem(self, value: Any, place: str) -> str:
        if not isinstance(value, _LISTS) or len(value) > self.most:
            return _not(
                f"{self.what} of at most {self.most:,}" if isinstance(value, list) else self.what, place
            )
        number = next(n for n, member in enumerate(value) if not self.of.fits(member))
        return self.of.problem(value[number], f"{place}[{number}]")

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.of.schema(), "maxItems": self.most}


@dataclass(frozen=True, slots=True)
class Table(Shape):
    """An object whose keys are names, with one shape for all values."""

    of: Shape
    most: int = MEMBERS
    what = "an object"
    # Most tables of a verdict have one of these shapes, which are checked without a call for each value.
    is_number: bool = field(init=False)
    is_any: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_number", self.of == Number())
        object.__setattr__(self, "is_any", isinstance(self.of, Anything))

    def fits(self, value: Any) -> bool:
        if not isinstance(value, dict) or len(value) > self.most:
            return False
        members = value.values()
        if self.is_number:
            for number in members:
                if type(number) is not float or not -LARGEST <= number <= LARGEST:
                    break
            else:
                return True
        elif self.is_any and _SCALARS.issuperset(map(type, members)):
            return True
        return all(map(self.of.fits, members))

    def problem(self, value: Any, place: str) -> str:
        if not isinstance(value, dict) or len(value) > self.most:
            is_long = isinstance(value, dict)
            return _not(f"{self.what} of at most {self.most:,} members" if is_long else self.what, place)
        name = next(name for name, member in value.items() if not self.of.fits(member))
        return self.of.problem(value[name], f"{place}.{name}")

    def schema(self) -> dict[str, Any]:
        schema = {"type": "object", "maxProperties": self.most}
        of = self.of.schema()
        return {**schema, "additionalProperties": of} if of else schema


@dataclass(frozen=True)
class Fields(Shape):
    """An object with known fields.

    :param optional: the fields that may be missing.
    """

    required: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict)
    what = "an object"

    def __post_init__(self) -> None:
        # Most fields of a verdict are strings, which are checked here without a call each.
        texts = [n for n, s in self.required.items() if isinstance(s, Text) and not s.one_of]
        others = [(name, shape.fits) for name, shape in self.required.items() if name not in texts]
        get = itemgetter(*texts) if len(texts) > 1 else None
        shapes = {name: self.required[name] for name in texts}
        most = min((shape.most for shape in shapes.values() if isinstance(shape, Text)), default=0)
        if get is None:
            others += [(name, shape.fits) for name, shape in shapes.items()]
        optional = [(name, shape.fits) for name, shape in self.optional.items()]
        object.__setattr__(self, "_fast", (get, most, shapes, tuple(others), tuple(optional)))

    def fits(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        get, most, shapes, others, optional = self._fast  # type: ignore[attr-defined]
        try:
            if get is not None:
                # Joining checks the types of all strings at once. A short text has no part that is too long.
                is_short = len("".join(get(value))) <= most
                if not is_short and not all(shape.fits(value[name]) for name, shape in shapes.items()):
                    return False
            for name, fits in others:
                if not fits(value[name]):
                    return False
        except (KeyError, TypeError):
            return False
        return all(name not in value or fits(value[name]) for name, fits in optional)

    def problem(self, value: Any, place: str) -> str:
        if not isinstance(value, dict):
            return _not(self.what if place else "a JSON object", place)
        for name, shape in {**self.required, **self.optional}.items():
            inner = f"{place}.{name}" if place else name
            if name not in value:
                if name in self.required:
                    return f"has no '{one_line(inner, 120)}'"
            elif not shape.fits(value[name]):
                return shape.problem(value[name], inner)
        raise AssertionError("the value fits")

    def schema(self) -> dict[str, Any]:
        members = {name: shape.schema() for name, shape in {**self.required, **self.optional}.items()}
        schema: dict[str, Any] = {"type": "object", "properties": members}
        return {**schema, "required": list(self.required)} if self.required else schema


def check(value: Any, shape: Shape) -> None:
    """Check a line of a file, or a part of ``run.json``.

    :raises ValueError: with a phrase that completes "line 7 …" and names the first wrong field.
    """
    if not shape.fits(value):
        raise ValueError(shape.problem(value, ""))


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


def _all(names: Sequence[str], shape: Shape) -> dict[str, Shape]:
    return dict.fromkeys(names, shape)


_NAME, _TEXT, _COUNT, _NUMBER, _FLAG, _ANY = Text(), Text(TEXT), Whole(), Number(), Flag(), ANYTHING
_OBJECT, _NAMES = Table(_ANY), Several(_NAME)
#: any integer that a person gives
_SEED = Whole(-(10**100), 10**100)

VERDICT = Fields(
    {
        **_all((*_GROUP, "id", "cluster"), _NAME),
        "status": Text(one_of=RECORD_STATUSES),
        **_all(("expected", "given", "reason"), _TEXT),
        "score": OrNull(Number(0, 1)),
        "values": Table(_NUMBER),
        "requests": _NAMES,
    },
    # Schema 1 has no evidence, and records without repeats have no sample.
    {"evidence": _OBJECT, "sample": Whole(most=LAST_SAMPLE)},
)

_SHOWN = OrNull(Fields({"why": _TEXT}, {"evidence": _OBJECT, **_all(("replications", "replicated"), _COUNT)}))
SEARCH = Fields(
    {
        **_all((*_GROUP, "id"), _NAME),
        **_all(("examples", "requests", "calls"), _COUNT),
        "spent": _FLAG,
        "error": _TEXT,
        "counterexample": _SHOWN,
    },
    {"property": _NAME, "not_repeated": _SHOWN},
)

_REPLY = Text(REPLY)
_SHORTENED = Fields({"prefix": _NAME, "rest": _REPLY})


class _Prompt(Shape):
    """A text, or a text that begins with a prefix of an earlier line."""

    what = "a string, or an object with the strings 'prefix' and 'rest'"

    def fits(self, value: Any) -> bool:
        return _SHORTENED.fits(value) if isinstance(value, dict) else _REPLY.fits(value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [_REPLY.schema(), _SHORTENED.schema()]}


_PROMPT = _Prompt()


class _Message(Shape):
    """A message of a chat: its role and its content."""

    what = "a pair of role and content"

    def fits(self, value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) == 2
            and isinstance(value[0], str)
            and _PROMPT.fits(value[1])
        )

    def schema(self) -> dict[str, Any]:
        pair = [{"type": "string"}, _PROMPT.schema()]
        return {"type": "array", "prefixItems": pair, "minItems": 2, "maxItems": 2}


_USAGE = Fields(
    {},
    {
        **_all(
            ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens", "cache_write_tokens"),
            _NUMBER,
        ),
        "estimated": _FLAG,
    },
)
#: what each paid reply has
_PAID = {**_all(("via", "request_id", "service_tier", "model"), _NAME), "cost_usd": OrNull(_NUMBER)}
REQUEST = Fields(
    {"key": _NAME, "request": Fields({}, {"messages": Several(_Message()), "text": _PROMPT})},
    {
        **_all(("role", "kind"), _NAME),
        **_PAID,
        # A server sends these. No limit is below that of its replies.
        **_all(("finish_reason", "served_model"), _REPLY),
        "reply": Fields(
            {},
            {
                **_all(("text", "reasoning", "note"), OrNull(_REPLY)),
                "value": _ANY,
                "logprobs": OrNull(Several(_OBJECT)),
            },
        ),
        "usage": _USAGE,
        "cached": _FLAG,
        "seconds": _NUMBER,
    },
)
#: a reply that the run paid for and does not use
DISCARDED = Fields({"discarded": _FLAG, "usage": _USAGE}, _PAID)
PREFIX = Fields({"prefix_id": _NAME, "text": _REPLY})

REVIEW = Fields(
    _all(("run", "model", "benchmark", "source", "id"), _NAME),
    {
        "sample": Whole(most=LAST_SAMPLE),
        "judged_wrongly": _FLAG,
        "note": _TEXT,
        "time": _NAME,
        "status": Text(one_of=("", *RECORD_STATUSES[:-1])),
    },
)

SUMMARY = Fields(
    {
        **_all(_GROUP, _NAME),
        **_all(("items", "clusters", *(name for name in COUNTS if name != "untested")), _COUNT),
        **_all(("accuracy", "ci_low", "ci_high"), OrNull(_NUMBER)),
        "ci_method": OrNull(_NAME),
    },
    {
        **_all(("samples", "answered", "untested"), _COUNT),
        **_all(("between_items", "within_items"), OrNull(_NUMBER)),
        **_all(("cluster_accuracy", "cluster_ci_low", "cluster_ci_high"), OrNull(_NUMBER)),
    },
)
METRIC = Fields(
    {
        **_all((*_GROUP, "group", "name", "direction"), _NAME),
        **_all(("value", "ci_low", "ci_high"), OrNull(_NUMBER)),
        "n": OrNull(_COUNT),
    }
)
REMARK = Fields({**_all(("model", "benchmark"), _NAME), "text": _TEXT}, {"warning": _FLAG})
SEARCH_COUNTS = Fields(
    {
        **_all(("benchmark", "model"), _NAME),
        **_all(("searched", "counterexamples", "examples", "calls", "spent", "errors"), _COUNT),
    },
    {"property": _NAME, "not_repeated": _COUNT},
)

MODEL = Fields(
    {},
    {
        "spec": _NAME,
        "imported": _FLAG,
        "identity": _ANY,
        "pinned": OrNull(_FLAG),
        "served_as": OrNull(Several(_REPLY)),
        "served_counts": Table(_COUNT),
        "old_replies": OrNull(
            Fields(
                {}, {**_all(("older_than_a_day", "before_list_change"), _COUNT), "oldest_seconds": _NUMBER}
            )
        ),
        "newest_reply": OrNull(_NUMBER),
        "service_tiers": OrNull(Several(_NAME)),
        "price": OrNull(
            Fields(
                {**_all(("input", "output"), _NUMBER), "source": _NAME},
                _all(("cached", "written"), OrNull(_NUMBER)),
            )
        ),
    },
)
PROTOCOL = Fields(
    {},
    {
        "name": _NAME,
        **_all(("settings", "overrides"), OrNull(_OBJECT)),
        "seed": OrNull(_SEED),
        "assumed": OrNull(Several(_TEXT)),
        "gives_up": OrNull(_TEXT),
    },
)
CALLS = Fields(
    {},
    {
        **_all(
            (
                "requests", "cache_hits", "sampled", "sampled_earlier", "joined", "adopted", "sent", "answered",
                "retries", "refused", "failed", "in_flight", "prompt_tokens", "completion_tokens", "cached_tokens",
                "unpriced", "estimated", "counted_bytes",
            ),
            _COUNT,
        ),
        **_all(("seconds", "oldest_seconds"), _NUMBER),
        **_all(("cost_usd", "estimated_usd", "in_process_seconds"), OrNull(_NUMBER)),
        "in_process": OrNull(_COUNT),
    },
)  # fmt: skip
BENCHMARK = Fields(
    {},
    {
        **_all(("title", "noun", "verb", "printed_task"), OrNull(_NAME)),
        "about": OrNull(_TEXT),
        **_all(("task_about", "metric_directions", "bounded_metrics"), OrNull(Table(_TEXT))),
        **_all(("controls", "side_tasks", "presentation", "tasks_by_answer", "data"), OrNull(_NAMES)),
        **_all(("chance", "accuracy_targets"), OrNull(Table(_NUMBER))),
        "unranked": OrNull(Table(_NAME)),
        "weighting": OrNull(Text(one_of=("item", "cluster"))),
    },
)

CheckVerdict = Literal["met", "failed", "inconclusive", "invalid"]
GateDecision = Literal["pass", "fail", "inconclusive", "invalid"]
_VERDICT = Text(one_of=get_args(CheckVerdict))
CHECK = Fields(
    {"kind": _NAME, **_all(("required", "measured"), _TEXT), "verdict": _VERDICT},
    {"reason": _TEXT, **_all(("value", "ci_low", "ci_high"), OrNull(_NUMBER))},
)
RULE = Fields({"name": _NAME, "verdict": _VERDICT, "items": _COUNT, "checks": Several(CHECK)}, {})
LOSS = Fields(
    {
        **_all(("benchmark", "title", "kind", "name"), _NAME),
        **_all(("drop", "ci_low", "ci_high", "p"), _NUMBER),
        **_all(("pairs", "lost", "gained"), _COUNT),
    }
)
GATE = Fields(
    {"decision": Text(one_of=get_args(GateDecision))},
    {
        **_all(("file", "sha256"), _NAME),
        "line": _TEXT,
        "baseline": OrNull(_NAME),
        **_all(("reasons", "caveats", "notes"), Several(_TEXT)),
        "rules": Several(RULE),
        "losses": Several(LOSS),
    },
)

#: the highest schema of a record; schema 1 can also be read
SCHEMA = 2
RUN = Fields(
    {"schema": Whole(1, SCHEMA)},
    {
        name: OrNull(shape)
        for name, shape in {
            **_all(("run_id", "started", "finished", "promoted_from", "promoted_at", "content_sha256"), _NAME),
            "complete": _FLAG,
            **_all(("models", "helpers"), Table(MODEL)),
            "protocols": Table(PROTOCOL),
            "options": _OBJECT,
            "benchmarks": Table(BENCHMARK),
            **_all(("versions", "data", "files"), Table(_NAME)),
            "git": Fields({}, {"commit": _NAME, "dirty": _FLAG}),
            "deviations": Table(Several(_TEXT)),
            "calls": CALLS,
            "summary": Several(SUMMARY),
            "metrics": Several(METRIC),
            "remarks": Several(REMARK),
            "searches": Several(SEARCH_COUNTS),
            "expected": _COUNT,
            "not_served": Table(Table(_COUNT)),
            "selection": Table(Fields(_all(("items", "of"), _COUNT))),
            "stopped": _TEXT,
            "notes": Several(_TEXT),
            "gate": GATE,
        }.items()
    },
)  # fmt: skip


class File(NamedTuple):
    """What one file of a record may be.

    :param shapes: of ``run.json``, or of each line. A line has one of them. :param most: bytes of the file.
    :param line: bytes of a line, or of ``run.json``.
    """

    shapes: Mapping[str, Fields]
    most: int
    line: int


_MB = 1 << 20
FILES: Mapping[str, File] = {
    "run.json": File({"run": RUN}, 64 * _MB, 64 * _MB),
    "verdicts.jsonl": File({"verdict": VERDICT}, 4096 * _MB, 64 * _MB),
    "requests.jsonl": File(
        {"request": REQUEST, "discarded": DISCARDED, "prefix": PREFIX}, 16384 * _MB, 256 * _MB
    ),
    "searches.jsonl": File({"search": SEARCH}, 1024 * _MB, 64 * _MB),
    "review.jsonl": File({"review": REVIEW}, 64 * _MB, 4 * _MB),
}


def json_schema() -> dict[str, Any]:
    """Return the schema of all files as one JSON Schema: ``$defs`` has ``run``, and a line of each other file."""
    limits = "; ".join(
        f"{name}: {', '.join(file.shapes)}, at most {file.most // _MB:,} MiB"
        + ("" if file.most == file.line else f" with at most {file.line // _MB:,} MiB per line")
        for name, file in FILES.items()
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Run record of pytest-llmprops, schema {SCHEMA}",
        "description": f"{limits}. Lists and objects have at most {DEEPEST} levels. All files are UTF-8.",
        "$defs": {name: shape.schema() for file in FILES.values() for name, shape in file.shapes.items()},
    }
