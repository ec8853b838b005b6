"""Letter Geometry: letters turned, mirrored, added and removed (Lee & Lim, section 4, table 4).

Every operation is tried on every glyph. If the result looks like exactly one character, it becomes a question. The
correct option is therefore correct by construction, and the others are wrong: they are characters with other glyphs.

A glyph is a set of undirected unit steps between points of a 4 x 4 grid (x to the right, y up), which makes turning,
mirroring, adding and removing exact set operations. Two glyphs look the same if they are equal after they are moved and
stretched to the same box. Curves are drawn with cut corners.
"""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import gcd
from typing import Any

from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import DataFolder, builtin_data

Point = tuple[int, int]
Step = frozenset[Point]
Glyph = frozenset[Step]
Shape = frozenset[tuple[int, ...]]

GLYPHS = "htest/glyphs.txt"
_UNIT = 840  # Side length of a shape's box, divisible by every width and height up to eight.

# Characters that look similar in print, or differ only in round and angular strokes. The options of a question
# never contain two characters of a group.
LOOKALIKES: tuple[frozenset[str], ...] = tuple(
    frozenset(group)
    for group in (
        "∩ПnΛ", "UuV", "C⊂[<", "Ɔ⊃]>", "O□D◇Q", "⊕⊞", "⊖⊟", "3Ǝ", "ƐEΣ", "69", "eə", "bh", "ɥq", "ΓF", "7⅂",
        "J⅃", "RK", "SƧZ", "6b", "9q",
    )
)  # fmt: skip


def parse_strokes(text: str) -> Glyph:
    """Parse a glyph such as ``"00 24 40, 12 32"``: comma-separated strokes of connected points, x and y."""
    steps: set[Step] = set()
    for stroke in text.split(","):
        for (x0, y0), (x1, y1) in pairwise((int(xy[0]), int(xy[1])) for xy in stroke.split()):
            count = gcd(x1 - x0, y1 - y0)
            dx, dy = (x1 - x0) // count, (y1 - y0) // count
            points = [(x0 + i * dx, y0 + i * dy) for i in range(count + 1)]
            steps.update(map(frozenset, pairwise(points)))
    return frozenset(steps)


@cache
def drawings() -> dict[str, tuple[Glyph, ...]]:
    """Return the ways to draw each character: a line of ``data/htest/glyphs.txt`` has a character and its strokes."""
    drawn: dict[str, tuple[Glyph, ...]] = {}
    for line in DataFolder(builtin_data(), "builtin").text(GLYPHS).splitlines():
        character, _, strokes = line.partition(" ")
        drawn[character] = (*drawn.get(character, ()), parse_strokes(strokes))
    return drawn


# Ways to turn or mirror a glyph: the four numbers of a matrix ((a, b), (c, d)).
TRANSFORMS: dict[str, tuple[int, int, int, int]] = {
    "right": (0, 1, -1, 0),
    "left": (0, -1, 1, 0),
    "half": (-1, 0, 0, -1),
    "mirror": (-1, 0, 0, 1),
    "flip": (1, 0, 0, -1),
}


@cache
def _box(glyph: Glyph) -> tuple[int, int, int, int]:
    points = [point for step in glyph for point in step]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return min(xs), min(ys), max(xs), max(ys)


def _moved(glyph: Glyph, dx: int, dy: int) -> Glyph:
    return frozenset(frozenset((x + dx, y + dy) for x, y in step) for step in glyph)


@cache
def transform(glyph: Glyph, name: str) -> Glyph:
    """Return the glyph turned or mirrored within its 4 x 4 frame."""
    a, b, c, d = TRANSFORMS[name]
    return frozenset(
        frozenset((a * (x - 2) + b * (y - 2) + 2, c * (x - 2) + d * (y - 2) + 2) for x, y in step)
        for step in glyph
    )


def beside(left: Glyph, right: Glyph) -> Glyph:
    """Return two glyphs side by side, touching, in frames of the same height."""
    return left | _moved(right, _box(left)[2] - _box(right)[0], 0)


def above(top: Glyph, bottom: Glyph) -> Glyph:
    """Return one glyph on top of another, touching, in frames of the same width."""
    return _moved(top, 0, _box(bottom)[3] - _box(top)[1]) | bottom


@cache
def shape(glyph: Glyph) -> Shape:
    """Return the appearance of a glyph: its longest straight strokes, in a square box.

    Two glyphs look the same if and only if their shapes are equal. Position, size and the division of strokes
    into steps do not matter.
    """
    x0, y0, x1, y1 = _box(glyph)
    width, height = (x1 - x0) or 1, (y1 - y0) or 1
    lines: dict[tuple[int, int, int], list[tuple[Point, Point]]] = {}
    for step in glyph:
        start, end = sorted(((x - x0) * _UNIT // width, (y - y0) * _UNIT // height) for x, y in step)
        dx, dy = end[0] - start[0], end[1] - start[1]
        divisor = gcd(dx, dy)
        dx, dy = dx // divisor, dy // divisor
        # A line is identified by its direction and its distance from the origin.
        lines.setdefault((dx, dy, dx * start[1] - dy * start[0]), []).append((start, end))
    strokes: set[tuple[int, ...]] = set()
    for pieces in lines.values():
        pieces.sort()
        start, end = pieces[0]
        for piece_start, piece_end in pieces[1:]:
            if piece_start > end:
                strokes.add((*start, *end))
                start, end = piece_start, piece_end
            else:
                end = max(end, piece_end)
        strokes.add((*start, *end))
    return frozenset(strokes)


@cache
def _characters() -> dict[Shape, set[str]]:
    characters: dict[Shape, set[str]] = {}
    for character, glyphs in drawings().items():
        for glyph in glyphs:
            characters.setdefault(shape(glyph), set()).add(character)
    return characters


def recognise(glyphs: Iterable[Glyph]) -> frozenset[str]:
    """Return the characters that look like at least one of ``glyphs``."""
    return frozenset().union(*(_characters().get(shape(glyph), ()) for glyph in glyphs if glyph))


def lookalikes(character: str) -> frozenset[str]:
    """Return the characters that can be confused with ``character``, including itself."""
    return frozenset({character}).union(*(group for group in LOOKALIKES if character in group))


#: Number of questions of each type.
QUOTAS = {"rotation": 26, "flipping": 24, "add_subtract": 30, "composite": 24}
_SAME_ANSWER = 2  # Maximum number of questions of a type with the same answer.
_UNCHANGED = 3  # Maximum number of questions of a type whose answer is the letter itself.

STROKES: dict[str, Glyph] = {
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
#: Move -> the type of its questions, the order, and what it does to a copy.
_MOVES = {
    "right": (
        "rotation", "Turn {} a quarter turn clockwise (90 degrees).", "is turned 90 degrees clockwise",
    ),
    "left": (
        "rotation", "Turn {} a quarter turn counterclockwise (90 degrees).",
        "is turned 90 degrees counterclockwise",
    ),
    "half": ("rotation", "Turn {} upside down by half a turn (180 degrees).", "is turned by 180 degrees"),
    "mirror": (
        "flipping", "Hold {} up to a mirror, so that left and right change places.",
        "is mirrored left to right",
    ),
    "flip": (
        "flipping", "Flip {} over a horizontal line, so that top and bottom change places.",
        "is flipped top to bottom",
    ),
}  # fmt: skip
_JOINS: dict[str, tuple[str, Callable[[Glyph, Glyph], Glyph]]] = {
    "beside": ("Put {} directly to the left of {}, so that the two touch.", beside),
    "above": ("Put {} directly on top of {}, one above the other, so that the two touch.", above),
    "over": (
        "Lay {} exactly over {}, at the same size and in the same place.",
        lambda one, other: one | other,
    ),
}
# Characters allowed in joins. For the others the answer would depend on the way they are drawn.
_JOINED = "ΛV<>△▽◁▷CƆEFHLΓ⅃⅂TΣMW⊢⊣⊥П[]□+—|/\\XYPb"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer.

    :param sources: The characters in the question.
    :param steps: The operations, for example ``("F", "add:a horizontal bar along its bottom edge")``.
    """

    type: str
    text: str
    sources: tuple[str, ...]
    steps: tuple[str, ...]
    answer: str


def _described(character: str) -> str:
    category = unicodedata.category(character)
    kind = "digit" if category == "Nd" else "letter" if category in ("Lu", "Ll") else "symbol"
    return f'the {kind} "{character}"'


def _question(
    type_: str, text: str, sources: tuple[str, ...], steps: tuple[str, ...], results: list[Glyph]
) -> Iterator[Question]:
    """Yield the question if its result looks like the same character, whichever way the letters are drawn."""
    characters = recognise(results)
    if len(characters) == 1 and all(recognise([result]) == characters for result in results):
        yield Question(type_, text, sources, steps, next(iter(characters)))


def _turned_and_flipped() -> Iterator[Question]:
    for name, (type_, order, _) in _MOVES.items():
        for character, glyphs in drawings().items():
            text = f"{order.format(_described(character))} Which character does it look like now?"
            results = [transform(glyph, name) for glyph in glyphs]
            yield from _question(type_, text, (character,), (character, name), results)


def _with_strokes(glyphs: Sequence[Glyph]) -> Iterator[tuple[str, str, list[Glyph]]]:
    """Yield a step, the order for it, and the glyphs with a stroke added or removed, which changes each of them."""
    for name, stroke in STROKES.items():
        if not any(stroke <= glyph for glyph in glyphs):
            yield f"add:{name}", f"add {name}", [glyph | stroke for glyph in glyphs]
    for name, stroke in STROKES.items():
        if all(stroke < glyph for glyph in glyphs):
            order = f"take away the {name.partition(' ')[2]}"
            yield f"erase:{name}", order, [glyph - stroke for glyph in glyphs]


def _added_and_removed() -> Iterator[Question]:
    for character, glyphs in drawings().items():
        for step, order, results in _with_strokes(glyphs):
            text = f"Start from {_described(character)} and {order}. Which character does that make?"
            yield from _question("add_subtract", text, (character,), (character, step), results)
    for first in _JOINED:
        for second in _JOINED:
            for name, (order, join) in _JOINS.items():
                if name == "over" and first >= second:
                    continue
                results = [join(one, other) for one in drawings()[first] for other in drawings()[second]]
                if recognise(results) & {first, second}:
                    continue  # The result looks like one of the two characters.
                placed = order.format(_described(first), _described(second))
                text = f"{placed} Which character do they make together?"
                steps = (first, f"{name}:{second}")
                yield from _question("add_subtract", text, (first, second), steps, results)


def _composite() -> Iterator[Question]:
    for character, glyphs in drawings().items():
        description = _described(character)
        for move, (_, order, passive) in _MOVES.items():
            moved = [transform(glyph, move) for glyph in glyphs]
            if character in recognise(moved):
                continue
            for step, then, results in _with_strokes(moved):
                text = f"{order.format(description)} Then {then}. Which character is the result?"
                yield from _question("composite", text, (character,), (character, move, step), results)
            for name, (place, join) in _JOINS.items() if character in _JOINED else ():
                results = [join(one, other) for one, other in zip(glyphs, moved, strict=True)]
                joined = place.format("the original", "the changed copy")
                text = (
                    f"Write {description}, and next to it a copy that {passive}. {joined}"
                    " Which character do they make together?"
                )
                yield from _question("composite", text, (character,), (character, f"{name}:{move}"), results)


def _options(question: Question, rng: random.Random, answers: list[str]) -> list[str]:
    """Return three wrong options: variants of the letters in the question, then answers of other questions."""
    glyphs = [glyph for source in question.sources for glyph in drawings()[source]]
    near = sorted(
        {*question.sources, *recognise(transform(glyph, move) for glyph in glyphs for move in _MOVES)}
    )
    rng.shuffle(near)
    far = list(answers)
    rng.shuffle(far)
    options: list[str] = []
    excluded = set(lookalikes(question.answer))
    for candidate in near[:2] + far:
        if candidate not in excluded:
            options.append(candidate)
            excluded |= lookalikes(candidate)
        if len(options) == 3:
            break
    return options


def choose_questions(seed: int, exclude: Collection[str] = ()) -> list[Question]:
    """Return the questions of a set: the :data:`QUOTAS`, with few equal answers.

    :param exclude: Texts of questions that are not new.
    """
    every = (*_turned_and_flipped(), *_added_and_removed(), *_composite())
    questions = [question for question in every if question.text not in exclude]
    chosen: list[Question] = []
    for type_ in QUOTAS:
        rng = generator(seed, "htest", "letter_geometry", type_)
        candidates = [question for question in questions if question.type == type_]
        rng.shuffle(candidates)
        answers: Counter[str] = Counter()
        unchanged = count = 0
        for question in candidates:
            same = question.answer in question.sources
            if count == QUOTAS[type_] or answers[question.answer] == _SAME_ANSWER:
                continue
            if same and unchanged == _UNCHANGED:
                continue
            answers[question.answer] += 1
            unchanged += same
            count += 1
            chosen.append(question)
    return chosen


def build_letter_geometry(*, seed: int, exclude: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return Letter Geometry rows with four options; the correct one is equally often at each position.

    The rows are the same in every process, and ordered by :data:`QUOTAS`.

    :param exclude: Texts of questions that are not new.
    """
    questions = choose_questions(seed, exclude)
    rng = generator(seed, "htest", "letter_geometry", "options")
    answers = sorted(question.answer for question in questions)
    places = [index % 4 for index in range(len(questions))]
    rng.shuffle(places)
    rows: list[dict[str, Any]] = []
    for index, (question, place) in enumerate(zip(questions, places, strict=True)):
        options = _options(question, rng, answers)
        options.insert(place, question.answer)
        row = {"id": f"{index:04d}", "centerpiece": question.text, "options": options}
        rows.append({**row, "correct_options": [place], "type": question.type})
    return rows
