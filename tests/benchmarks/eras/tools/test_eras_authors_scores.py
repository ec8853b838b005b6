"""`llmprops eras table2`: the authors' score files, as small invented files in the real files' shape."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.tools import authors_scores
from pytest_llmprops.benchmarks.eras.tools.authors_scores import authors_table, json_lists
from pytest_llmprops.cli.main import main

Rows = list[list[Any]]
USED = [*range(18), *range(18, 60, 2)]


def invented(seed: int = 0) -> tuple[Rows, Rows]:
    """Return scores and occlusion values of 60 templates: two rows per pair, and one list of one number per pair."""
    chosen = random.Random(seed)
    scores, occlusion = [], []
    for _ in range(60):
        pairs = chosen.randrange(1, 9)
        positive = [round(chosen.random(), 3) for _ in range(2 * pairs)]
        # Some ties, and some values of exactly 0.
        positive[:2] = [positive[0], positive[0]] if chosen.random() < 0.4 else positive[:2]
        scores.append([[1 - p, p] for p in positive])
        occlusion.append([[round(chosen.uniform(-0.5, 0.5), 1)] for _ in range(pairs)])
    return scores, occlusion


def write(folder: Path, scores: Any, occlusion: Any = None, name: str = "Erlangshen") -> Path:
    file = folder / f"{name}_result.json"
    file.write_text(json.dumps(scores), encoding="utf-8")
    if occlusion is not None:
        (folder / f"{name}_occu.json").write_text(json.dumps(occlusion), encoding="utf-8")
    return file


def by_hand(scores: Rows, occlusion: Rows) -> tuple[float, float, float, float]:
    """Return accuracy, necessity, sufficiency and GPER, pair by pair."""
    accuracies, errors, hits, both = [], 0, 0, 0
    for place, template in enumerate(USED):
        # Classes of the 39 paradigms: +/- and -/+ in turn, then -/0, then +/0.
        positive = place % 2 == 0 if place < 18 else place >= 29
        right = 0
        for number, [value] in enumerate(occlusion[template]):
            test, control = (scores[template][2 * number + i][1 if positive else 0] for i in (0, 1))
            right += control <= test
            errors += control >= test
            hits += value >= 0
            both += control >= test and value >= 0
        accuracies.append(right / len(occlusion[template]))
    accuracy = sum(accuracies) / 39
    return accuracy, both / errors, both / hits, (1 - accuracy) * both / errors


@pytest.mark.parametrize("seed", range(5))
def test_table_2_by_hand(tmp_path: Path, seed: int) -> None:
    """Accuracy, necessity, sufficiency and GPER are those of a plain count over 39 of the 60 lists."""
    scores, occlusion = invented(seed)
    table = authors_table(write(tmp_path, scores, occlusion), tmp_path / "Erlangshen_occu.json")
    values = (table.values.accuracy, table.values.necessity, table.values.sufficiency, table.values.gper)
    assert values == pytest.approx(by_hand(scores, occlusion))
    assert table.all_pairs == sum(map(len, occlusion))
    assert table.pairs == sum(len(occlusion[i]) for i in USED)
    first = [scores[i] for i in range(0, 18, 2)]
    means = [
        sum(rows[i + 1][1] - rows[i][1] for i in range(0, len(rows), 2)) / (len(rows) / 2) for rows in first
    ]
    assert table.differences["+/-"] == pytest.approx(sum(means) / 9)


def test_values_may_stand_alone(tmp_path: Path) -> None:
    """An occlusion value may be a number instead of a list of one number, as the authors' code allows."""
    scores, occlusion = invented()
    file = write(tmp_path, scores, occlusion)
    expected = authors_table(file, tmp_path / "Erlangshen_occu.json")
    write(tmp_path, scores, [[value for [value] in rows] for rows in occlusion])
    assert authors_table(file, tmp_path / "Erlangshen_occu.json") == expected


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`eras table2 --scores FILE` prints the file's row and table 2's, and finds the occlusion file beside it."""
    scores, occlusion = invented()
    file = write(tmp_path, scores, occlusion)
    assert main(["eras", "table2", "--scores", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    accuracy, necessity, sufficiency, gper = (f"{100 * x:.1f}" for x in by_hand(scores, occlusion))
    assert lines[1].split()[:5] == ["Erlangshen_result.json", gper, accuracy, necessity, sufficiency]
    [paper] = [line for line in lines if line.startswith("RoBERTa-110M")]
    assert paper.split() == [
        "RoBERTa-110M", "(paper)", "45.4", "41.7", "77.9", "89.4", "6.3", "4.9", "2.3", "-18.7",
    ]  # fmt: skip
    assert f"{sum(len(occlusion[i]) for i in USED)} pairs of the 39 paradigms" in lines[-2]


def test_scores_alone_give_the_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without occlusion values, the other quantities are dashes, and a line names the missing file."""
    scores, occlusion = invented()
    assert main(["eras", "table2", "--scores", str(write(tmp_path, scores))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[1:5] == ["–", f"{100 * by_hand(scores, occlusion)[0]:.1f}", "–", "–"]
    assert "_occu.json" in lines[-1]


def test_lists_are_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lists do not depend on where the file is cut into chunks, and the first comes before the file is read."""
    scores, _ = invented()
    file = write(tmp_path, scores)
    for size in (1, 7, 100, 1 << 20):
        monkeypatch.setattr(authors_scores, "_CHUNK", size)
        assert list(json_lists(file)) == scores
    monkeypatch.setattr(authors_scores, "_CHUNK", 16)
    file.write_text(file.read_text()[:400], encoding="utf-8")
    assert next(json_lists(file)) == scores[0]


def changed(scores: Rows, template: int, rows: Any) -> Rows:
    return [*scores[:template], rows, *scores[template + 1 :]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s[:39], "has 39 lists, not one for each of the 60 templates"),
        (lambda s: changed(s, 3, [[0.5, 0.5]]), "list 4 is not two rows"),
        (lambda s: changed(s, 3, []), "list 4 is not two rows"),
        (lambda s: changed(s, 3, [[0.5, 0.5], [0.1]]), "list 4 has a row that is not two numbers"),
        (lambda s: changed(s, 3, [["x", 0.5], [0.1, 0.9]]), "list 4 has a row that is not two numbers"),
        (lambda s: changed(s, 3, [[0.5, 0.5], [0.3, 0.9]]), "list 4, row 2 is not [p(negative)"),
        (lambda s: changed(s, 3, [[0.5, 0.5], [float("nan"), 0.9]]), "list 4, row 2 is not [p(negative)"),
        (lambda s: {"scores": s}, "is not one complete JSON array"),
        (lambda s: 7, "is not one complete JSON array"),
    ],
)
def test_another_shape_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, said: str
) -> None:
    """A score file of another shape is a one-line error that names the list and the row."""
    scores, occlusion = invented()
    file = write(tmp_path, change(scores), occlusion)
    (tmp_path / "Erlangshen_occu.json").unlink()
    assert main(["eras", "table2", "--scores", str(file)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert str(file) in line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda o: changed(o, 2, []), "list 3 has 0 values, but the score file has"),
        (lambda o: changed(o, 2, [["x"] for _ in o[2]]), "list 3 has a value that is not a number"),
        (lambda o: changed(o, 2, [[] for _ in o[2]]), "list 3 has a value that is not a number"),
        (lambda o: changed(o, 2, [[float("inf")] for _ in o[2]]), "list 3 has a value that is not a number"),
        (lambda o: o[:50], "list 51 has no values"),
        (lambda o: [*o, [[0.1]]], "has 61 lists"),
    ],
)
def test_occlusion_values_must_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, said: str
) -> None:
    """Occlusion values that do not belong to the scores are a one-line error that names the list."""
    scores, occlusion = invented()
    file = write(tmp_path, scores, change(occlusion))
    assert main(["eras", "table2", "--scores", str(file)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert "_occu.json" in line


@pytest.mark.parametrize(
    "content", [b"[[[0.5, 0.5]", b"[[[0.5, 0.5],, [0.5, 0.5]]]", b"\xff\xfe[", b"[[" * 5000]
)
def test_damaged_files_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """A file that is cut off, not JSON, not UTF-8 or absent is a one-line error."""
    file = tmp_path / "scores.json"
    file.write_bytes(content)
    assert main(["eras", "table2", "--scores", str(file)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert main(["eras", "table2", "--scores", str(tmp_path / "absent.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err
