"""Letter Geometry: every answer is right and every other option is wrong."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import cache
from typing import Any

from pytest_llmprops.benchmarks.htest.tools.letter_geometry import (
    QUOTAS,
    STROKES,
    Glyph,
    Question,
    build_letter_geometry,
    choose_questions,
    drawings,
    lookalikes,
    recognise,
    transform,
)
from pytest_llmprops.data.files import DataFolder, builtin_data

BUILTIN_SEED = 414213
Points = Any  # numpy array of shape (n, 2): points on the strokes, x to the right, y up

# The test's own operations work on points instead of strokes.
TURN = {
    "right": lambda p: p[:, ::-1] * (1, -1),
    "left": lambda p: p[:, ::-1] * (-1, 1),
    "half": lambda p: -p,
    "mirror": lambda p: p * (-1, 1),
    "flip": lambda p: p * (1, -1),
}


def ink(drawing: Glyph) -> Points:
    """Return points along the strokes of a drawing whose frame is centred on the origin."""
    import numpy as np

    steps = np.array([sorted(step) for step in drawing], dtype=float) - 2
    along = np.linspace(0, 1, 17)[None, :, None]
    return (steps[:, :1] * (1 - along) + steps[:, 1:] * along).reshape(-1, 2)


def erase(points: Points, stroke: Glyph) -> Points:
    """Return the points that are not on the stroke; a joint is removed too, which leaves a gap of a few
    hundredths.
    """
    import numpy as np

    return points[np.abs(points[:, None] - ink(stroke)[None]).max(-1).min(1) > 1e-9]


def join(first: Points, second: Points, how: str) -> Points:
    """Join two inks."""
    import numpy as np

    if how == "beside":
        second = np.add(second, (first[:, 0].max() - second[:, 0].min(), 0))
    if how == "above":
        first = np.add(first, (0, second[:, 1].max() - first[:, 1].min()))
    return np.concatenate([first, second])


def distance(one: Points, other: Points) -> float:
    """Return the largest gap between two inks, each scaled to a 1 by 1 box (Hausdorff distance)."""
    from scipy.spatial.distance import directed_hausdorff

    def boxed(points: Points) -> Points:
        size = points.max(0) - points.min(0)
        size[size < 1e-9] = 1
        return (points - points.min(0)) / size

    one, other = boxed(one), boxed(other)
    gap: float = max(directed_hausdorff(one, other)[0], directed_hausdorff(other, one)[0])
    return gap


def results(question: Question) -> list[Points]:
    """Return the result of a question's steps: one ink for each way to draw its letters."""
    first, *steps = question.steps
    outcomes = []
    for drawing in drawings()[first]:
        inks = [ink(drawing)]
        for step in steps:
            operation, _, what = step.partition(":")
            if not what:
                inks = [TURN[operation](points) for points in inks]
            elif operation == "add":
                inks = [join(points, ink(STROKES[what]), "over") for points in inks]
            elif operation == "erase":
                inks = [erase(points, STROKES[what]) for points in inks]
            elif what in TURN:
                inks = [join(points, TURN[what](points), operation) for points in inks]
            else:
                inks = [join(points, ink(other), operation) for points in inks for other in drawings()[what]]
        outcomes += inks
    return outcomes


@cache
def rows_and_questions() -> list[tuple[dict[str, Any], Question]]:
    """Return the built-in rows with their questions."""
    rows = DataFolder(builtin_data(), "builtin").jsonl("htest/letter_geometry_test.jsonl")
    return list(zip(rows, choose_questions(BUILTIN_SEED), strict=True))


def test_builtin_and_new_sets() -> None:
    """Generating the built-in set reproduces the committed rows, whose first ids are taken.

    Excluded questions do not return, and as many others take their place.
    """
    rows = [row for row, _ in rows_and_questions()]
    made = build_letter_geometry(seed=BUILTIN_SEED)
    assert rows == [{**row, "id": f"{number:04d}"} for number, row in enumerate(made, 104)]
    known = {row["centerpiece"] for row in rows}
    texts = {row["centerpiece"] for row in build_letter_geometry(seed=BUILTIN_SEED, exclude=known)}
    assert len(texts) == len(known) == 104
    assert not texts & known


def test_every_answer_is_right_and_no_other_option_is() -> None:
    """With points instead of strokes, each question gives its answer and no other option."""
    for row, question in rows_and_questions():
        outcomes = results(question)
        for place, option in enumerate(row["options"]):
            gap = min(distance(points, ink(drawing)) for points in outcomes for drawing in drawings()[option])
            if [place] == row["correct_options"]:
                assert gap < 0.05, (row["centerpiece"], option)
            else:
                assert gap > 0.15, (row["centerpiece"], option)


def test_questions_are_balanced_and_distinct() -> None:
    """104 questions of four types have four options that look different; every place has the answer equally often."""
    rows = [row for row, _ in rows_and_questions()]
    assert Counter(row["type"] for row in rows) == QUOTAS
    assert {place: len(rows) // 4 for place in range(4)} == Counter(row["correct_options"][0] for row in rows)
    assert len(rows) == len({row["centerpiece"] for row in rows}) == len({row["id"] for row in rows})
    assert all(list(row) == ["id", "centerpiece", "options", "correct_options", "type"] for row in rows)
    for options in (row["options"] for row in rows):
        assert len(set(options)) == 4
        assert not any((lookalikes(option) - {option}) & set(options) for option in options), options


def test_turned_and_reversed_letters_match_unicode() -> None:
    """Characters named TURNED or REVERSED equal their letter's drawing turned or mirrored."""
    checked = 0
    for character in drawings():
        # Each shape belongs to one character only, so an answer is never ambiguous.
        assert all(frozenset(character) == recognise([drawing]) for drawing in drawings()[character])
        name = unicodedata.name(character)
        base = unicodedata.normalize("NFKD", name.rpartition(" ")[2])
        if base not in drawings() or len(base) != 1:
            continue
        drawn = base.lower() if "SMALL" in name else base
        operation = "half" if "TURNED" in name else "mirror" if "REVERSED" in name else ""
        if operation and drawn in drawings():
            checked += 1
            turned = [transform(drawing, operation) for drawing in drawings()[drawn]]
            assert character in recognise(turned), name
    assert checked >= 6
