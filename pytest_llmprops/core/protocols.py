"""Measurement protocols: the parameters that define how an item is measured. They never select items."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Generic

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import did_you_mean

if TYPE_CHECKING:
    # Type checkers know this module without the package. Before Python 3.13, typing has no default.
    from typing_extensions import TypeVar

    #: The type of a benchmark's settings. ``Protocol`` alone is ``Protocol[Any]``, also for ``mypy --strict``.
    S = TypeVar("S", default=Any)
else:
    from typing import TypeVar

    S = TypeVar("S")


def generator(*key: int | str) -> random.Random:
    """Return a random generator seeded by ``key``, for example (seed, item id, test index).

    The same key gives the same numbers in every process; different keys give unrelated ones.
    """
    digest = hashlib.sha256("\0".join(map(str, key)).encode()).digest()
    return random.Random(int.from_bytes(digest[:16], "big"))


@dataclass(frozen=True, slots=True)
class NamedSettings(Generic[S]):
    """The settings of a protocol, ``paper`` or ``quick``.

    :param settings: a frozen dataclass.
    :param assumed: what the paper leaves open and these settings assume; printed and recorded.
    :param gives_up: what a cheaper protocol loses; printed and recorded.
    """

    settings: S
    assumed: tuple[str, ...] = ()
    gives_up: str = ""


@dataclass(frozen=True, slots=True)
class Protocol(Generic[S]):
    """The protocol of one benchmark in one run.

    :param name: ``paper`` or ``quick``.
    :param settings: the settings, with the changes of ``--llm-set``.
    :param seed: the value of ``--llm-seed``.
    :param assumed: what the paper leaves open and these settings assume.
    :param gives_up: what a cheaper protocol loses.
    :param overrides: the settings that ``--llm-set`` changed.
    """

    name: str
    settings: S
    seed: int = 0
    assumed: tuple[str, ...] = ()
    gives_up: str = ""
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def rng(self, item_id: str, index: int = 0) -> random.Random:
        """Return the random generator of an item, seeded by seed, item id and ``index``."""
        return generator(self.seed, item_id, index)

    def to_json(self) -> dict[str, Any]:
        """Return the value for the run record: everything that must be equal for two runs to be comparable."""
        return {
            "name": self.name,
            "settings": dataclasses.asdict(typing.cast(Any, self.settings)),
            "seed": self.seed,
            "assumed": list(self.assumed),
            "gives_up": self.gives_up,
            "overrides": dict(self.overrides),
        }


def resolve(
    benchmark: str, named: Mapping[str, NamedSettings[S]], name: str, overrides: Mapping[str, str], seed: int
) -> Protocol[S]:
    """Return the named protocol with ``--llm-set BENCHMARK.FIELD=VALUE`` applied.

    :raises UsageError: if the protocol or a field is unknown, or a value has the wrong type.
    """
    if name not in named:
        raise UsageError(f"--llm-protocol {name}: {benchmark} has {', '.join(sorted(named))}")
    base = named[name]
    values = typed_values(base.settings, overrides, f"--llm-set {benchmark}.")
    try:
        settings = dataclasses.replace(typing.cast(Any, base.settings), **values)
    except ValueError as error:
        raise UsageError(f"--llm-set {benchmark}: {error}") from None
    return Protocol(name, settings, seed, base.assumed, base.gives_up, values)


def typed_values(settings: Any, texts: Mapping[str, str], option: str) -> dict[str, Any]:
    """Return values that a command line gives as text, with the types of the fields of a dataclass.

    :param texts: the texts by the name of their field. :param option: what stands before the name, for messages.
    :raises UsageError: if a field is unknown, or a value has the wrong type.
    """
    hints = typing.get_type_hints(type(settings))
    fields = {f.name: hints[f.name] for f in dataclasses.fields(settings)}
    values = {}
    for name, text in texts.items():
        if name not in fields:
            known = ", ".join(fields) or "(none)"
            raise UsageError(f"{option}{name}={text}: the settings are {known}{did_you_mean(name, fields)}")
        values[name] = _typed(text, fields[name], f"{option}{name}={text}")
    return values


def _typed(text: str, expected: Any, where: str) -> Any:
    origin = typing.get_origin(expected)
    if origin is tuple:
        return tuple(text.split(","))
    if origin is typing.Literal:
        for choice in typing.get_args(expected):
            if text == str(choice):
                return choice
        raise UsageError(f"{where}: must be one of {', '.join(map(str, typing.get_args(expected)))}")
    if origin in (typing.Union, types.UnionType):
        if text.lower() == "none" and type(None) in typing.get_args(expected):
            return None
        expected = next(a for a in typing.get_args(expected) if a is not type(None))
    if expected is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.lower() not in words:
            raise UsageError(f"{where}: must be true or false")
        return words[text.lower()]
    try:
        value = expected(text)
    except (TypeError, ValueError):
        raise UsageError(f"{where}: must be of type {expected.__name__}") from None
    if isinstance(value, float) and not isfinite(value):
        raise UsageError(f"{where}: must be a finite number")
    return value
