"""The ERAS benchmark: its items, generated sets, and the pairs in a pytest case."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmark_registry import find_benchmark
from pytest_llmprops.benchmarks.eras.benchmark import MAX_PAIR_CASES
from pytest_llmprops.benchmarks.eras.settings import ErasSettings
from pytest_llmprops.benchmarks.eras.tools.generation import load_templates, make_pairs, write_set
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import check_unique
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.eras_cases import BENCHMARK


def test_the_builtin_set(part: Any) -> None:
    """The built-in set has 20 pairs per paradigm and task, reproducible, with unique ids, clustered by paradigm."""
    check_unique(part.items, "eras")
    assert Counter(i.task for i in part.items) == {"explicit": 780, "implicit": 780}
    assert set(Counter((i.task, i.cluster) for i in part.items).values()) == {20}
    assert part.items[0].id == "eras/explicit/01/00020"
    assert part.items[0].cluster == "eras/01"
    again = loaded(find_benchmark("eras"), DataFolder(builtin_data(), "builtin"))
    assert [(i.id, i["pair"].test) for i in again.items] == [(i.id, i["pair"].test) for i in part.items]


def test_a_damaged_set_is_one_line(tmp_path: Path) -> None:
    """A malformed line of a generated set is a one-line error that names it."""
    paradigms, words = load_templates()
    write_set(tmp_path, make_pairs(paradigms, words, seed=3, pairs=1), paradigms, source={})
    file = tmp_path / "eras" / "pairs.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    changes = ({"test": "学生回家。"}, {"start": "1"}, {"id": "99/00000"}, {"id": "02/x"})
    for line in ("[]", *(json.dumps(json.loads(lines[1]) | change) for change in changes)):
        file.write_text("\n".join([lines[0], line, *lines[2:]]), encoding="utf-8")
        with pytest.raises(
            DataError, match=r"^[^\n]*pairs.jsonl, row 2: needs [^\n]*generate the set again$"
        ):
            loaded(BENCHMARK, DataFolder(tmp_path, "generated"))


def test_size_of_a_pytest_case(part: Any) -> None:
    """A case is one pair in small sets and one paradigm in larger sets; eras.case forces either."""
    items = [i for i in part.items if i.task == "explicit"]
    many = [items[0]] * (MAX_PAIR_CASES + 1)
    expectations: list[tuple[Any, Any, dict[str, int]]] = [
        (items, "auto", {}),
        (items, "pair", {}),
        (items, "paradigm", {f"eras/explicit/{n:02d}": 20 for n in range(1, 40)}),
        (many, "auto", {"eras/explicit/01": len(many)}),
        (many[1:], "auto", {}),
        (many, "pair", {}),
    ]
    for cases, setting, expected in expectations:
        assert Counter(BENCHMARK.case_names(cases, ErasSettings(case=setting)) or ()) == expected
