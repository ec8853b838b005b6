"""ERAS paradigms: two templates that differ in three characters (Li & Hao, sections 2.1 and 2.3, table 3).

A paradigm's test template contains the *test site* x1x2x3, in which both x1x2 and x2x3 are words. In a
left-branching paradigm x1x2 is the true word and x2x3 the canary word; in a right-branching one, the reverse.
The control template has three other, unambiguous characters in place of the site.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast

from pytest_llmprops.core.errors import DataError

Branching = Literal["left", "right"]
_TRUE_CLASSES, _CANARY_CLASSES = ("+", "-"), ("+", "-", "0")


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a template, filled with a word from the word list ``name``."""

    name: str


Parts = tuple[str | Slot, ...]
"""A parsed template: literal text and slots, in order."""


@dataclass(frozen=True, slots=True)
class Paradigm:
    """One minimal pair paradigm.

    :param id: ``01`` to ``39``. :param test_frame: The test template as written in its source.
    :param site: The test site, three characters. :param control_site: The control's characters in its place.
    :param branching: ``left`` or ``right``. :param true_class: ``+`` or ``-``.
    :param canary_class: ``+``, ``-`` or ``0``; never the true class.
    :param test_parts: The parsed test template. :param control_parts: The parsed control template, with the
        same slots in the same order and text of the same lengths between them.
    :param site_part: Index of the part that contains the site. :param site_offset: The site's index in it.
    :param across_edge: Dictionary words that intentionally cross an edge of the test site (机房 does so in
        the true reading of 留心机房). :param control_across_edge: The same for the control site.
    :param gloss: English translation of the test sentence.
    :param first_number: Number of the first pair. A changed frame does not use the numbers of earlier pairs again.
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
    first_number: int = 0

    @property
    def true_word(self) -> str:
        """Return the word in the site according to the only grammatical reading."""
        return self.site[:2] if self.branching == "left" else self.site[1:]

    @property
    def canary_word(self) -> str:
        """Return the word that results only from a wrong segmentation of the site."""
        return self.site[1:] if self.branching == "left" else self.site[:2]

    @property
    def sentiment(self) -> str:
        """Return "true class/canary class": ``+/-``, ``+/0``, ``-/0`` or ``-/+``."""
        return f"{self.true_class}/{self.canary_class}"

    @property
    def slots(self) -> tuple[str, ...]:
        """Return the names of the slots, in order; a name may occur twice."""
        return tuple(part.name for part in self.test_parts if isinstance(part, Slot))


def checked_paradigm(where: str, **fields: Any) -> Paradigm:
    """Return a paradigm with these fields; ``control_site`` is read from the control template.

    :raises DataError: if the site, the classes and the two templates are inconsistent.
    """
    test, control = fields["test_parts"], fields["control_parts"]
    part, offset = fields["site_part"], fields["site_offset"]
    if fields["branching"] not in ("left", "right"):
        fail(where, f"branching is {fields['branching']!r}, not 'left' or 'right'")
    fields["branching"] = cast(Branching, fields["branching"])
    true, canary = fields["true_class"], fields["canary_class"]
    if true not in _TRUE_CLASSES or canary not in _CANARY_CLASSES or true == canary:
        fail(
            where,
            f"classes {true!r}, {canary!r}: the true class is + or -, the canary class another of + - 0",
        )
    if not any(isinstance(p, Slot) for p in test):
        fail(where, "the template has no slot")
    for piece in (*test, *control):
        if isinstance(piece, str) and not is_chinese(piece.rstrip("。")) and piece != "。":
            fail(where, f"{piece!r} is not Chinese text")
    if [_shape(p) for p in test] != [_shape(p) for p in control]:
        fail(where, "test and control template differ in more than characters: slots or lengths differ")
    fields["control_site"] = str(control[part])[offset : offset + 3]
    for site in (fields["site"], fields["control_site"]):
        if len(site) != 3 or not is_chinese(site):
            fail(where, f"the site {site!r} is not three Chinese characters")
    for parts, site in ((test, fields["site"]), (control, fields["control_site"])):
        if sum(_occurrences(piece, site) for piece in parts if isinstance(piece, str)) != 1:
            fail(where, f"the template contains its site {site!r} twice")
    _check_difference(test, control, part, offset, where)
    return Paradigm(**fields)


def _check_difference(test: Parts, control: Parts, part: int, offset: int, where: str) -> None:
    for number, (left, right) in enumerate(zip(test, control, strict=True)):
        if left == right:
            if number == part:
                fail(where, "test and control template do not differ in the site")
            continue
        if number != part or not isinstance(left, str) or not isinstance(right, str):
            fail(where, "test and control template differ away from the site")
        places = [i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b]
        inside = [i for i in places if offset <= i < offset + 3]
        if not inside or places[0] < offset - 1 or places[-1] > offset + 3:
            fail(where, "test and control template differ away from the site: the location does not fit")


def _occurrences(text: str, site: str) -> int:
    return sum(text.startswith(site, start) for start in range(len(text)))


def _shape(part: str | Slot) -> int | str:
    return len(part) if isinstance(part, str) else part.name


def is_chinese(text: str) -> bool:
    """Return whether a text consists of Chinese characters only."""
    return bool(text) and all("一" <= character <= "鿿" for character in text)


def fail(where: str, problem: str) -> NoReturn:
    """Raise a :class:`DataError` for a problem in a file."""
    raise DataError(f"{where}: {problem}; correct it or get the file again")
