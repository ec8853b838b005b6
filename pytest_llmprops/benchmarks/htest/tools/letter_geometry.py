"""Letter Geometry: letters turned, mirrored, added and taken away (Lee & Lim, section 4, table 4).

Questions are found, not written: every operation is tried on every drawing of ``letter_glyphs``; where the
result looks like exactly one character, there is a question. The right option is therefore right by
construction, and no wrong option can be, since it is a character whose drawing is another one.
"""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

from pytest_llmprops.benchmarks.htest.tools.letter_glyphs import (
    GLYPHS,
    Drawing,
    above,
    beside,
    lookalikes,
    parse_strokes,
    recognise,
    transform,
)
from pytest_llmprops.core.seeds import generator

TYPES = ("rotation", "flipping", "add_subtract", "composite")
QUOTAS = {"rotation": 26, "flipping": 24, "add_subtract": 30, "composite": 24}
_SAME_ANSWER = 2  # questions of a type that may share their answer
_UNCHANGED = 3  # questions of a type whose answer is the letter itself

STROKES: dict[str, Drawing] = {
    "a horizontal bar along its top edge": parse_strokes("04 44"),
    "a horizontal bar across its middle": parse_strokes("02 42"),
    "a horizontal bar along its bottom edge": parse_strokes("00 40"),
    "a vertical bar down its left edge": parse_strokes("04 00"),
    "a vertical bar down its centre": parse_strokes("24 20"),
    "a vertical bar down its right edge": parse_strokes("44 40"),
    "a diagonal from its top left to its bottom right corner": parse_strokes("04 40"),
    "a diagonal from its bottom left to its top right corner": parse_strokes("00 44"),
    "a short bar across its middle, from leg to leg": parse_strokes("12 32"),
}
_TURNS = {
    "right": ("Turn {} a quarter turn clockwise (90 degrees).", "is turned 90 degrees clockwise"),
    "left": (
        "Turn {} a quarter turn counterclockwise (90 degrees).",
        "is turned 90 degrees counterclockwise",
    ),
    "half": ("Turn {} upside down by half a turn (180 degrees).", "is turned by 180 degrees"),
}
_FLIPS = {
    "mirror": ("Hold {} up to a mirror, so that left and right change places.", "is mirrored left to right"),
    "flip": (
        "Flip {} over a horizontal line, so that top and bottom change places.",
        "is flipped top to bottom",
    ),
}
_JOINS: dict[str, tuple[str, Callable[[Drawing, Drawing], Drawing]]] = {
    "beside": ("Put {} directly to the left of {}, so that the two touch.", beside),
    "above": ("Put {} directly on top of {}, one above the other, so that the two touch.", above),
    "over": (
        "Lay {} exactly over {}, at the same size and in the same place.",
        lambda one, other: one | other,
    ),
}
# Stroke fonts in which the drawing, not the operation, would decide are kept out of joins.
_JOINED = "ΛV<>△▽◁▷CƆEFHLΓ⅃⅂TΣMW⊢⊣⊥П[]□+—|/\\XYPb"


class GeometryRow(TypedDict):
    """One line of the Letter Geometry file."""

    id: str
    centerpiece: str
    options: list[str]
    correct_options: list[int]
    type: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its truth.

    :param sources: the characters it shows.
    :param steps: what is done, for example ``("F", "add:a horizontal bar along its bottom edge")``.
    """

    type: str
    text: str
    sources: tuple[str, ...]
    steps: tuple[str, ...]
    answer: str


def _called(character: str) -> str:
    category = unicodedata.category(character)
    kind = "digit" if category == "Nd" else "letter" if category in ("Lu", "Ll") else "symbol"
    return f'the {kind} "{character}"'


def _question(
    type_: str, text: str, sources: tuple[str, ...], steps: tuple[str, ...], results: list[Drawing]
) -> Iterator[Question]:
    """The question, if its result looks like exactly one character."""
    found = recognise(results)
    if len(found) == 1:
        yield Question(type_, text, sources, steps, next(iter(found)))


def _turned_and_flipped() -> Iterator[Question]:
    for type_, operations in (("rotation", _TURNS), ("flipping", _FLIPS)):
        for name, (order, _) in operations.items():
            for character, drawings in GLYPHS.items():
                text = f"{order.format(_called(character))} Which character does it look like now?"
                results = [transform(drawing, name) for drawing in drawings]
                yield from _question(type_, text, (character,), (character, name), results)


def _with_stroke(drawings: Sequence[Drawing], operation: str, stroke: Drawing) -> list[Drawing]:
    """The drawings with a stroke more or less; those where nothing would change are left out."""
    if operation == "add":
        return [drawing | stroke for drawing in drawings if not stroke <= drawing]
    return [drawing - stroke for drawing in drawings if stroke < drawing]


def _stroke_order(operation: str, name: str) -> str:
    return f"add {name}" if operation == "add" else f"take away the {name.partition(' ')[2]}"


def _added_and_taken() -> Iterator[Question]:
    for character, drawings in GLYPHS.items():
        for operation in ("add", "erase"):
            for name, stroke in STROKES.items():
                results = _with_stroke(drawings, operation, stroke)
                if len(results) < len(drawings):
                    continue  # the stroke is there in one way of drawing the letter and not in another
                order = _stroke_order(operation, name)
                text = f"Start from {_called(character)} and {order}. Which character does that make?"
                steps = (character, f"{operation}:{name}")
                yield from _question("add_subtract", text, (character,), steps, results)
    for first in _JOINED:
        for second in _JOINED:
            for name, (order, join) in _JOINS.items():
                if name == "over" and first >= second:
                    continue
                results = [join(one, other) for one in GLYPHS[first] for other in GLYPHS[second]]
                if recognise(results) & {first, second}:
                    continue  # adding changed nothing that can be seen
                placed = order.format(_called(first), _called(second))
                text = f"{placed} Which character do they make together?"
                steps = (first, f"{name}:{second}")
                yield from _question("add_subtract", text, (first, second), steps, results)


def _composite() -> Iterator[Question]:
    moves = _TURNS | _FLIPS
    for character, drawings in GLYPHS.items():
        called = _called(character)
        for move, (order, passive) in moves.items():
            moved = [transform(drawing, move) for drawing in drawings]
            if character in recognise(moved):
                continue
            for operation in ("add", "erase"):
                for name, stroke in STROKES.items():
                    steps = (character, move, f"{operation}:{name}")
                    results = _with_stroke(moved, operation, stroke)
                    if len(results) == len(moved):
                        then = _stroke_order(operation, name)
                        text = f"{order.format(called)} Then {then}. Which character is the result?"
                        yield from _question("composite", text, (character,), steps, results)
            for name, (place, join) in _JOINS.items():
                if character not in _JOINED:
                    continue
                results = [join(one, other) for one, other in zip(drawings, moved, strict=True)]
                joined = place.format("the original", "the changed copy")
                text = (
                    f"Write {called}, and next to it a copy that {passive}. {joined}"
                    " Which character do they make together?"
                )
                yield from _question("composite", text, (character,), (character, f"{name}:{move}"), results)


def _options(question: Question, rng: random.Random, answers: list[str]) -> list[str]:
    """Three wrong options: relatives of the letter shown, then characters that are answers elsewhere."""
    relatives = list(question.sources) + [
        found
        for source in question.sources
        for move in _TURNS | _FLIPS
        for found in sorted(recognise(transform(drawing, move) for drawing in GLYPHS[source]))
    ]
    near = sorted(set(relatives))
    rng.shuffle(near)
    far = list(answers)
    rng.shuffle(far)
    options: list[str] = []
    taken = set(lookalikes(question.answer))
    for candidate in near[:2] + far:
        if candidate not in taken:
            options.append(candidate)
            taken |= lookalikes(candidate)
        if len(options) == 3:
            break
    return options


def choose_questions(seed: int) -> list[Question]:
    """The questions of a set: :data:`QUOTAS` of each type, few of which share an answer."""
    found = [*_turned_and_flipped(), *_added_and_taken(), *_composite()]
    chosen: list[Question] = []
    for type_ in TYPES:
        rng = generator(seed, "htest", "letter_geometry", type_)
        candidates = [question for question in found if question.type == type_]
        rng.shuffle(candidates)
        answers: Counter[str] = Counter()
        unchanged = taken = 0
        for question in candidates:
            same = question.answer in question.sources
            if taken == QUOTAS[type_] or answers[question.answer] == _SAME_ANSWER:
                continue
            if same and unchanged == _UNCHANGED:
                continue
            answers[question.answer] += 1
            unchanged += same
            taken += 1
            chosen.append(question)
    return chosen


def build_letter_geometry(*, seed: int) -> list[GeometryRow]:
    """Letter Geometry questions with four options each; the right one stands equally often at each place.

    The same rows in every process. Types follow each other in the order of :data:`TYPES`.
    """
    questions = choose_questions(seed)
    rng = generator(seed, "htest", "letter_geometry", "options")
    answers = sorted(question.answer for question in questions)
    places = [index % 4 for index in range(len(questions))]
    rng.shuffle(places)
    rows: list[GeometryRow] = []
    for index, (question, place) in enumerate(zip(questions, places, strict=True)):
        options = _options(question, rng, answers)
        options.insert(place, question.answer)
        rows.append(
            {
                "id": f"{index:04d}",
                "centerpiece": question.text,
                "options": options,
                "correct_options": [place],
                "type": question.type,
            }
        )
    return rows
