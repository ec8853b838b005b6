"""The human evaluation: writing sheets, reading filled sheets, and computing the baseline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.items import SentencePair
from pytest_llmprops.benchmarks.eras.tools.generation import load_templates, make_pairs
from pytest_llmprops.benchmarks.eras.tools.sheets import (
    HumanResult,
    draw_groups,
    read_sheets,
    result_lines,
    triples_of,
    write_sheets,
)
from pytest_llmprops.core.errors import DataError, UsageError
from tests.support.annotation import read_cells, write_cells

PARADIGMS = [f"{n:02d}" for n in range(1, 40)]


@pytest.fixture(scope="module")
def pairs() -> list[SentencePair]:
    """Return twenty pairs of each paradigm, as in the paper."""
    return list(make_pairs(*load_templates(), seed=3, pairs=20))


def fill_sheet(file: Path, worth: Callable[[str, Sequence[str]], float]) -> None:
    """Rank each line's sentences by their value, highest first, with equal values tied."""
    rows = read_cells(file)
    for row in rows:
        sentences = [row[f"sentence_{x}"] for x in "abc"]
        values = [worth(sentence, sentences) for sentence in sentences]
        for letter, value in zip("abc", values, strict=True):
            row[f"rank_{letter}"] = str(1 + sum(other > value for other in values))
    write_cells(file, rows)


def kinds(folder: Path) -> dict[str, tuple[str, str, str]]:
    """Map each sentence to (pair, test or control, true class)."""
    described = json.loads((folder / "key.json").read_text(encoding="utf-8"))["pairs"].items()
    return {p[kind]: (name, kind, p["true_class"]) for name, p in described for kind in ("test", "control")}


def test_an_annotator_ranks_208_triples_of_156_pairs(pairs: list[SentencePair]) -> None:
    """There are 52 groups of three pairs of three paradigms, four pairs per paradigm, and no pair occurs twice."""
    everyone = draw_groups(pairs, seed=0)
    for groups in everyone:
        assert {len({pair.paradigm.id for pair in group}) for group in groups} == {3}
        assert Counter(pair.paradigm.id for group in groups for pair in group) == dict.fromkeys(PARADIGMS, 4)
        assert (len(groups), sum(len(triples_of(group)) for group in groups)) == (52, 208)
    ids = [pair.id for groups in everyone for group in groups for pair in group]
    assert len(ids) == len(set(ids)) == 5 * 4 * 39


def test_sheets_are_blind_and_shuffled(tmp_path: Path, pairs: list[SentencePair]) -> None:
    """A sheet has numbers, sentences and empty ranks; test sentences occur everywhere; seeds change the order."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_sheets(tmp_path / name, pairs, seed=seed)
    first, same, other = ((tmp_path / name / "annotator_1.csv").read_bytes() for name in "abc")
    assert first == same != other
    rows = read_cells(tmp_path / "a" / "annotator_1.csv")
    known = kinds(tmp_path / "a")
    assert [row["triple"] for row in rows] == [str(n) for n in range(1, 209)]
    assert {row[f"rank_{x}"] for row in rows for x in "abc"} == {""}
    assert set(rows[0]) == {"triple", *(f"{k}_{x}" for k in ("sentence", "rank") for x in "abc")}
    places = Counter(x for row in rows for x in "abc" if known[row[f"sentence_{x}"]][1] == "test")
    assert (sum(places.values()), len(places), min(places.values()) > 25) == (156, 3, True)


def test_shares_follow_the_rankings(tmp_path: Path, pairs: list[SentencePair]) -> None:
    """Accuracy and alike follow from five annotators' rankings, one of whom contradicts the true classes.

    Three see no difference: they rank every test sentence as its control. The lines may have any order.
    """
    files = write_sheets(tmp_path, pairs, seed=0)
    known = kinds(tmp_path)

    def against(sentence: str, sentences: Sequence[str]) -> float:
        _, kind, true_class = known[sentence]
        return 0.0 if kind == "control" else {"+": -1.0, "-": 1.0}[true_class]

    for file in files[:3]:
        fill_sheet(file, lambda s, _: hash(known[s][0]) % 1009)
        write_cells(file, read_cells(file)[::-1])
    fill_sheet(files[3], against)
    fill_sheet(files[4], lambda s, all_: -against(s, all_))
    result = read_sheets(tmp_path)
    assert result.annotators == {f"annotator_{n}.csv": float(n != 4) for n in range(1, 6)}
    assert (result.pairs, result.accuracy, result.same) == pytest.approx((780, 0.8, 0.6))
    assert result.baseline == pytest.approx((0.5, 0.2))
    assert "80.0" in result_lines(result)[1]
    # The shares in section 2.4 give the human row of table 2, to its printed decimals.
    assert HumanResult(780, 0.913, 0.815, {}).baseline == pytest.approx((0.506, 0.087), abs=0.00051)


def test_control_is_ranked_among_controls_only(tmp_path: Path, pairs: list[SentencePair]) -> None:
    """The rank of a control next to another pair's test sentence is ignored."""
    files = write_sheets(tmp_path, pairs, seed=0, annotators=1)
    known = kinds(tmp_path)

    def worth(sentence: str, sentences: Sequence[str]) -> float:
        controls = [s for s in sentences if known[s][1] == "control"]
        # Three controls tied; then a test sentence between its two controls.
        return 0.0 if len(controls) == 3 or sentence not in controls else 1 - 2 * controls.index(sentence)

    fill_sheet(files[0], worth)
    assert read_sheets(tmp_path).same == 1.0


def test_damaged_files_are_one_line(tmp_path: Path, pairs: list[SentencePair]) -> None:
    """A missing rank and a changed sentence are one line with sheet and triple; so is a key that is another file."""
    sheet = write_sheets(tmp_path, pairs, seed=0, annotators=1)[0]
    fill_sheet(sheet, lambda s, _: 0.0)
    rows = read_cells(sheet)
    for change, message in (
        ({"rank_b": ""}, "line 6: triple 5: rank_b is ''"),
        ({"sentence_c": "别的。"}, "line 6: triple 5: sentence_c was changed"),
    ):
        write_cells(sheet, [*rows[:4], rows[4] | change, *rows[5:]])
        with pytest.raises(DataError, match=rf"annotator_1\.csv: {message}[^\n]*$"):
            read_sheets(tmp_path)
    good: dict[str, Any] = json.loads((tmp_path / "key.json").read_text(encoding="utf-8"))
    others: list[Any] = [
        [],
        {},
        good | {"pairs": {}},
        good | {"sheets": {}},
        good | {"sheets": {sheet.name: 1}},
    ]
    for key in others:
        (tmp_path / "key.json").write_text(json.dumps(key), encoding="utf-8")
        with pytest.raises(DataError, match=r"key\.json"):
            read_sheets(tmp_path)
    (tmp_path / "key.json").unlink()
    with pytest.raises(UsageError, match="sheets already"):
        write_sheets(tmp_path, pairs, seed=0)


def test_unusable_requests_are_refused(pairs: list[SentencePair]) -> None:
    """Too few pairs, and a number of paradigms not divisible by three, are refused."""
    others = [pair for pair in pairs if pair.paradigm.id != "01"]
    for some, annotators, per_paradigm, message in (
        (pairs, 6, 4, "24 are needed"), (others, 5, 4, "multiple of three"), (pairs, 5, 0, "at least 1"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            draw_groups(some, seed=0, annotators=annotators, per_paradigm=per_paradigm)
