"""Letters as strokes on a grid, and operations on them.

A glyph is a set of undirected unit steps between points of a 4 x 4 grid (x to the right, y up). This makes
turning, mirroring, adding and removing exact set operations. Two glyphs look the same if they are equal after
they are moved and stretched to the same box. Curves are drawn with cut corners.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from math import gcd

Point = tuple[int, int]
Step = frozenset[Point]
Glyph = frozenset[Step]
Shape = frozenset[tuple[int, ...]]

_UNIT = 840  # Side length of a shape's box, divisible by every width and height up to eight.

# Character -> one or several ways to draw it. Each is a list of strokes, and a stroke is a list of points "xy".
_STROKES: dict[str, tuple[str, ...]] = {
    "A": ("00 24 40, 12 32",), "∀": ("04 20 44, 12 32",), "Λ": ("00 24 40",), "V": ("04 20 44",),
    "<": ("44 02 40",), ">": ("04 42 00",), "△": ("00 24 40 00",), "▽": ("04 20 44 04",),
    "◁": ("44 02 40 44",), "▷": ("04 42 00 04",), "◇": ("02 24 42 20 02",), "□": ("00 04 44 40 00",),
    "B": ("00 04 34 43 32 41 30 00, 02 32",), "D": ("00 04 34 43 41 30 00",),
    "C": ("43 34 14 03 01 10 30 41",), "Ɔ": ("03 14 34 43 41 30 10 01",),
    "O": ("10 30 41 43 34 14 03 01 10",), "Q": ("10 30 41 43 34 14 03 01 10, 22 40",),
    "E": ("44 04 00 40, 02 42",), "Ǝ": ("04 44 40 00, 02 42",), "Ш": ("04 00 40 44, 20 24",),
    "F": ("44 04 00, 02 42",), "Ⅎ": ("00 40 44, 02 42",),
    "H": ("00 04, 40 44, 02 42",), "工": ("04 44, 00 40, 20 24",),
    "K": ("00 04, 44 02 40",), "L": ("04 00 40",), "⅃": ("44 40 00",), "Γ": ("00 04 44",), "⅂": ("04 44 40",),
    "M": ("00 04 22 44 40", "00 04 20 44 40", "00 14 20 34 40"),
    "W": ("04 00 22 40 44", "04 00 24 40 44", "04 10 24 30 44"),
    "Σ": ("44 04 22 00 40", "44 04 42 00 40"),
    "N": ("00 04 40 44",), "И": ("04 00 44 40",), "Z": ("04 44 00 40",),
    "P": ("00 04 34 43 32 02",), "b": ("04 00 30 41 32 02",), "d": ("44 40 10 01 12 42",),
    "q": ("40 44 14 03 12 42",), "R": ("00 04 34 43 32 02, 22 40",), "Я": ("40 44 14 03 12 42, 22 00",),
    "S": ("43 34 14 03 12 32 41 30 10 01",), "Ƨ": ("03 14 34 43 32 12 01 10 30 41",),
    "T": ("04 44, 24 20",), "⊥": ("00 40, 24 20",), "⊢": ("00 04, 02 42",), "⊣": ("40 44, 02 42",),
    "U": ("04 01 10 30 41 44",), "∩": ("00 03 14 34 43 40",), "⊂": ("44 14 03 01 10 40",),
    "⊃": ("04 34 43 41 30 00",), "П": ("00 04 44 40",), "[": ("44 04 00 40",), "]": ("04 44 40 00",),
    "X": ("00 44, 04 40",), "Y": ("04 22 44, 22 20",), "⅄": ("00 22 40, 22 24",),
    "Ж": ("00 44, 04 40, 20 24",),
    "+": ("02 42, 20 24",), "=": ("01 41, 03 43",), "—": ("02 42",), "|": ("20 24",), "/": ("00 44",),
    "\\": ("04 40",), "⋈": ("00 04 40 44 00",), "⧖": ("04 44 00 40 04",),
    "⊞": ("00 04 44 40 00, 02 42, 20 24",), "⊟": ("00 04 44 40 00, 02 42",),
    "⊠": ("00 04 44 40 00, 00 44, 04 40",), "⊕": ("10 30 41 43 34 14 03 01 10, 02 42, 20 24",),
    "⊖": ("10 30 41 43 34 14 03 01 10, 02 42",),
    "h": ("00 04, 01 12 32 41 40",), "ɥ": ("44 40, 43 32 12 03 04",),
    "n": ("00 04, 03 14 34 43 40",), "u": ("44 40, 41 30 10 01 04",),
    "e": ("02 42 43 34 14 03 01 10 30 41",), "ə": ("42 02 01 10 30 41 43 34 14 03",),
    "3": ("03 14 34 43 32 41 30 10 01, 22 32",), "Ɛ": ("43 34 14 03 12 01 10 30 41, 12 22",),
    "6": ("43 34 14 03 01 10 30 41 32 12 01",), "9": ("01 10 30 41 43 34 14 03 12 32 43",),
    "7": ("04 44 10",), "J": ("44 41 30 10 01",),
}  # fmt: skip

# Characters that look similar in print, or differ only in round and angular strokes. The options of a question
# never contain two characters of a group.
LOOKALIKES: tuple[frozenset[str], ...] = tuple(
    frozenset(group)
    for group in (
        "∩ПnΛ", "UuV", "C⊂[<", "Ɔ⊃]>", "O□D◇Q", "⊕⊞", "⊖⊟", "3Ǝ", "ƐEΣ", "69", "eə", "bh", "ɥq", "ΓF", "7⅂",
        "J⅃", "RK", "SƧZ", "6b", "9q",
    )
)  # fmt: skip


def draw(strokes: Iterable[Iterable[Point]]) -> Glyph:
    """Return a glyph from strokes, each a list of connected points."""
    steps: set[Step] = set()
    for stroke in strokes:
        points = list(stroke)
        for (x0, y0), (x1, y1) in pairwise(points):
            count = gcd(x1 - x0, y1 - y0)
            dx, dy = (x1 - x0) // count, (y1 - y0) // count
            steps.update(
                frozenset({(x0 + i * dx, y0 + i * dy), (x0 + (i + 1) * dx, y0 + (i + 1) * dy)})
                for i in range(count)
            )
    return frozenset(steps)


def parse_strokes(text: str) -> Glyph:
    """Parse a glyph such as ``"00 24 40, 12 32"``: comma-separated strokes of points with two digits, x and y."""
    return draw([(int(xy[0]), int(xy[1])) for xy in stroke.split()] for stroke in text.split(","))


GLYPHS: dict[str, tuple[Glyph, ...]] = {
    character: tuple(parse_strokes(text) for text in variants) for character, variants in _STROKES.items()
}

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


def move(glyph: Glyph, dx: int, dy: int) -> Glyph:
    """Return the glyph, moved by ``dx`` and ``dy``."""
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
    return left | move(right, _box(left)[2] - _box(right)[0], 0)


def above(top: Glyph, bottom: Glyph) -> Glyph:
    """Return one glyph on top of another, touching, in frames of the same width."""
    return move(top, 0, _box(bottom)[3] - _box(top)[1]) | bottom


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
def _characters() -> dict[Shape, frozenset[str]]:
    characters: dict[Shape, frozenset[str]] = {}
    for character, glyphs in GLYPHS.items():
        for glyph in glyphs:
            characters[shape(glyph)] = characters.get(shape(glyph), frozenset()) | {character}
    return characters


def recognise(glyphs: Iterable[Glyph]) -> frozenset[str]:
    """Return the characters that look like at least one of ``glyphs``."""
    known = _characters()
    return frozenset().union(*(known.get(shape(glyph), frozenset()) for glyph in glyphs if glyph))


def lookalikes(character: str) -> frozenset[str]:
    """Return the characters that can be confused with ``character``, including itself."""
    return frozenset({character}).union(*(group for group in LOOKALIKES if character in group))
