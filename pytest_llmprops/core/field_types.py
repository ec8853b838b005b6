"""The types of the fields of a run record, with their limits. ``records/files.py`` reads and writes values of them.

A record may be of another person: a limit keeps one field from filling the memory or overflowing a statistic.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Le, MaxLen

RecordStatus = Literal["correct", "wrong", "refused", "unparsed", "untested", "error"]
RECORD_STATUSES: tuple[RecordStatus, ...] = get_args(RecordStatus)
#: the counts of a summary row, in the order of statuses that every table keeps
COUNTS = ("correct", "wrong", "refused", "unparsed", "untested", "errors")
#: the statuses that are no answer, and in no denominator
UNANSWERED: frozenset[str] = frozenset({"untested", "error"})

#: characters of a name: of a model, an item, a file
NAME = 10_000
#: characters of any other text. Writers shorten longer ones.
TEXT = 1_000_000
#: characters of a prompt and of a reply, which can be a body of 64 MB
REPLY = 1 << 27
#: the largest number. Statistics of larger ones could overflow.
LARGEST = 1e100
#: the largest count; JavaScript and JSON readers keep it exactly
MOST = 2**53 - 1
#: the highest number of a repeat, counted from 0
LAST_SAMPLE = 99_999
#: members of a list or an object
MEMBERS = 1_000_000
#: levels of lists and objects in each other
DEEPEST = 100


class _Strict:
    """Marks a type whose values are not converted: the text "7" is not a number."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "strict": True}


class _Interned:
    """Marks a text that is the same in many lines: they share one object."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(sys.intern, handler(source))


@dataclass(frozen=True)
class _Numeric:
    """Marks a finite number, which stays an integer if it is one. Python also counts true and false as numbers."""

    least: float = -LARGEST
    most: float = LARGEST

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return {"type": ["number", "boolean"], "minimum": self.least, "maximum": self.most}

    def _checked(self, value: Any) -> float:
        # Nothing is true of NaN.
        if isinstance(value, int | float) and self.least <= value <= self.most:
            return value
        raise ValueError(f"a number from {self.least:g} to {self.most:g}")


@dataclass(frozen=True, eq=False)
class Members:
    """Marks an object with these members, and any others.

    :param required: name -> type of the members that are never missing. :param optional: of the others.
    """

    required: Mapping[str, Any]
    optional: Mapping[str, Any] = field(default_factory=dict)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        fields = {
            name: core_schema.typed_dict_field(handler.generate_schema(kind), required=name in self.required)
            for name, kind in {**self.required, **self.optional}.items()
        }
        return core_schema.typed_dict_schema(fields, extra_behavior="allow")


_STRICT = _Strict()
Name = Annotated[str, _STRICT, MaxLen(NAME)]
Text = Annotated[str, _STRICT, MaxLen(TEXT)]
ReplyText = Annotated[str, _STRICT, MaxLen(REPLY)]
#: a name that is the same in many lines
Shared = Annotated[str, _STRICT, MaxLen(NAME), _Interned()]
Flag = Annotated[bool, _STRICT]
Count = Annotated[int, _STRICT, Ge(0), Le(MOST)]
Sample = Annotated[int, _STRICT, Ge(0), Le(LAST_SAMPLE)]
#: any integer that a person gives
Seed = Annotated[int, _STRICT]
Number = Annotated[float, _Numeric()]
Score = Annotated[float, _Numeric(0, 1)]
FreeObject = Annotated[Mapping[str, Any], MaxLen(MEMBERS)]
