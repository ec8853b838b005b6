"""ERAS paradigms: two templates that differ in three characters (Li & Hao, sections 2.1 and 2.3, table 3).

A paradigm's test template holds the *test site* x1x2x3, of which x1x2 and x2x3 are both words. Left-branching:
x1x2 is the true word and x2x3 the canary word; right-branching: the other way round. The control template
has three other characters, without the ambiguity, in the site's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast

from pytest_llmprops.core.errors import DataError

Branching = Literal["left", "right"]
_TRUE_CLASSES, _CANARY_CLASSES = ("+", "-"), ("+", "-", "0")


@dataclass(frozen=True, slots=True)
class Slot:
    """A place of a template that a word of the list ``name`` fills."""

    name: str


Parts = tuple[str | Slot, ...]
"""A template: literal text and slots, in order."""


@dataclass(frozen=True, slots=True)
class Paradigm:
    """One minimal pair paradigm.

    :param id: ``01`` to ``39``. :param test_frame: the test template as its source writes it.
    :param site: the test site, three characters. :param control_site: what the control has there.
    :param branching: ``left`` or ``right``. :param true_class: ``+`` or ``-``.
    :param canary_class: ``+``, ``-`` or ``0``; never the true class.
    :param test_parts: the parsed test template. :param control_parts: the parsed control template, with the
        same slots in the same order and text of the same lengths between them.
    :param site_part: which part the site begins and ends in. :param site_offset: its place there.
    :param across_edge: dictionary words that are meant to reach over an edge of the test site (in the true
        reading of 留心机房, the word 机房). :param control_across_edge: the same of the control site.
    :param gloss: what the test sentence says, in English.
    """

    id: str
    test_frame: str
    control_frame: str
    site: str
    control_site: str
    branching: Branching
    true_class: str
    canary_class: str
    test_parts: Parts
    control_parts: Parts
    site_part: int
    site_offset: int
    across_edge: tuple[str, ...] = ()
    control_across_edge: tuple[str, ...] = ()
    gloss: str = ""

    @property
    def true_word(self) -> str:
        """The word of the site in the only grammatical reading."""
        return self.site[:2] if self.branching == "left" else self.site[1:]

    @property
    def canary_word(self) -> str:
        """The word that is found only by cutting the site wrongly."""
        return self.site[1:] if self.branching == "left" else self.site[:2]

    @property
    def sentiment(self) -> str:
        """True class/canary class: ``+/-``, ``+/0``, ``-/0`` or ``-/+``."""
        return f"{self.true_class}/{self.canary_class}"

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the slots, in order; a name may occur twice."""
        return tuple(part.name for part in self.test_parts if isinstance(part, Slot))


def checked_paradigm(where: str, **fields: Any) -> Paradigm:
    """A paradigm of these fields, ``control_site`` apart, which follows from the control template.

    :raises DataError: when site, classes or the two templates do not fit together.
    """
    test, control = fields["test_parts"], fields["control_parts"]
    part, offset = fields["site_part"], fields["site_offset"]
    if fields["branching"] not in ("left", "right"):
        fail(where, f"branching is {fields['branching']!r}, not 'left' or 'right'")
    fields["branching"] = cast(Branching, fields["branching"])
    true, canary = fields["true_class"], fields["canary_class"]
    if true not in _TRUE_CLASSES or canary not in _CANARY_CLASSES or true == canary:
        fail(where, f"classes {true!r} and {canary!r}: the true one is + or -, the canary's another of + - 0")
    if not any(isinstance(p, Slot) for p in test):
        fail(where, "the template has no slot")
    for one in (*test, *control):
        if isinstance(one, str) and not is_chinese(one.rstrip("。")) and one != "。":
            fail(where, f"{one!r} is not Chinese text")
    if [_shape(p) for p in test] != [_shape(p) for p in control]:
        fail(where, "test and control template differ in more than characters: slots or lengths differ")
    fields["control_site"] = str(control[part])[offset : offset + 3]
    for site in (fields["site"], fields["control_site"]):
        if len(site) != 3 or not is_chinese(site):
            fail(where, f"the site {site!r} is not three Chinese characters")
    for parts, site in ((test, fields["site"]), (control, fields["control_site"])):
        if sum(_occurrences(one, site) for one in parts if isinstance(one, str)) != 1:
            fail(where, f"the template holds its site {site!r} twice")
    _check_difference(test, control, part, offset, where)
    return Paradigm(**fields)


def _check_difference(test: Parts, control: Parts, part: int, offset: int, where: str) -> None:
    for number, (one, other) in enumerate(zip(test, control, strict=True)):
        if one == other:
            if number == part:
                fail(where, "test and control template do not differ in the site")
            continue
        if number != part or not isinstance(one, str) or not isinstance(other, str):
            fail(where, "test and control template differ away from the site")
        places = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
        inside = [i for i in places if offset <= i < offset + 3]
        if not inside or places[0] < offset - 1 or places[-1] > offset + 3:
            fail(where, "test and control template differ away from the site: the location does not fit")


def _occurrences(text: str, site: str) -> int:
    return sum(text.startswith(site, start) for start in range(len(text)))


def _shape(part: str | Slot) -> int | str:
    return len(part) if isinstance(part, str) else part.name


def is_chinese(text: str) -> bool:
    """Whether a text is Chinese characters and nothing else."""
    return bool(text) and all("一" <= character <= "鿿" for character in text)


def fail(where: str, what: str) -> NoReturn:
    """Raise the :class:`DataError` for a fault in a file."""
    raise DataError(f"{where}: {what}; correct it or get the file again")
