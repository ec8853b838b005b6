"""The built-in H-TEST files, generated sets and chat files for fine-tuning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.htest.items import TASKS
from pytest_llmprops.benchmarks.htest.tools.generation import (
    EXAMPLES,
    export_train,
    generate,
    generate_set,
    item_key,
    numbered,
)
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.pronunciation import load_cmudict
from tests.support.htest_rules import decide

BUILTIN_SEED = 414213
BUILTIN = Path(__file__).parents[4] / "data" / "htest"


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def keys(task: str, rows: list[dict[str, Any]]) -> set[str]:
    """Return the key that identifies each row's item."""
    return {item_key(task, row["centerpiece"]) for row in rows}


def test_builtin_files_match_the_generator() -> None:
    """Generating the built-in set reproduces the committed texts."""
    for task in TASKS:
        both = generate(task, n=250, seed=BUILTIN_SEED, lexicon=load_cmudict())
        for part, texts in (("test", both[EXAMPLES:]), ("dev", both[:EXAMPLES])):
            rows = read(BUILTIN / f"{task}_{part}.jsonl")
            assert [row["centerpiece"] for row in rows] == texts
            assert list(rows[0]) == list(numbered(texts)[0])


def test_builtin_sentences_are_not_the_published_ones(published: Path) -> None:
    """No built-in sentence or Letter Geometry question is in the published files."""
    theirs, own = (
        {row["centerpiece"].casefold() for file in folder.glob("*.jsonl") for row in read(file)}
        for folder in (published / "htest", BUILTIN)
    )
    assert theirs
    assert not theirs & own


def test_a_fresh_set_has_its_files_and_its_source(tmp_path: Path) -> None:
    """A generated set has n test and 50 example rows per task, disjoint and correct, and describes its source."""
    written = generate_set(tmp_path, seed=7, n=30)
    names = {f"{task}_{part}.jsonl" for task in TASKS for part in ("test", "dev")}
    names |= {"letter_geometry_test.jsonl", "SOURCE.json"}
    assert names == {path.name for path in (tmp_path / "htest").iterdir()} == {path.name for path in written}
    for task in TASKS:
        test = read(tmp_path / "htest" / f"{task}_test.jsonl")
        examples = read(tmp_path / "htest" / f"{task}_dev.jsonl")
        assert (len(test), len(examples)) == (30, 50)
        assert len(keys(task, test) | keys(task, examples)) == 80
        decided = [decide(task, row["centerpiece"], load_cmudict()) for row in test + examples]
        assert decided == ["A", "B"] * 40
    source = json.loads((tmp_path / "htest" / "SOURCE.json").read_text("utf-8"))
    assert source == {"source": "generated", "generator": "htest", "seed": 7, "n": 30, "version": 4}


def test_a_fresh_set_has_no_builtin_item(tmp_path: Path) -> None:
    """No item or example of a new set is a built-in one, even with the built-in seed; nor one of an earlier new set."""

    def rows(folder: Path, task: str) -> list[dict[str, Any]]:
        return read(folder / f"{task}_test.jsonl") + read(folder / f"{task}_dev.jsonl")

    first, second = tmp_path / "first" / "htest", tmp_path / "second" / "htest"
    generate_set(first.parent, seed=BUILTIN_SEED, n=200)
    earlier = [row["centerpiece"] for task in TASKS for row in rows(first, task)]
    generate_set(second.parent, seed=BUILTIN_SEED, n=200, exclude=earlier)
    for task in TASKS:
        one, two, builtin = (keys(task, rows(folder, task)) for folder in (first, second, BUILTIN))
        assert not one & builtin, task
        assert not two & (one | builtin), task


def test_errors_are_one_line(tmp_path: Path) -> None:
    """A bad n or task writes no file; a folder that cannot be created, and one with other data, name the fix."""
    requests: tuple[tuple[dict[str, Any], str], ...] = (
        ({"n": 3}, "even number"),
        ({"n": 9000, "tasks": ["end_ly", "rhyme"]}, "htest/rhyme: .* smaller n"),
        ({"n": 4, "tasks": ["rime"]}, "unknown H-TEST task 'rime'"),
    )
    for options, says in requests:
        with pytest.raises(ValueError, match=f"^[^\n]*{says}[^\n]*$"):
            generate_set(tmp_path / "out", seed=1, **options)
    with pytest.raises(UsageError, match="even number"):
        export_train(tmp_path / "out", seed=1, n=3)
    assert not (tmp_path / "out").exists()
    (tmp_path / "htest").mkdir()
    (tmp_path / "htest" / "end_ly_test.jsonl").write_text("x", "utf-8")
    with pytest.raises(UsageError, match="not generated; choose another --out"):
        generate_set(tmp_path, seed=1, n=2, tasks=["end_ly"])
    (tmp_path / "taken").write_text("x", "utf-8")
    with pytest.raises(UsageError, match=r"taken.*: cannot be written .*; .*choose another place"):
        generate_set(tmp_path / "taken", seed=1, n=2, tasks=["end_ly"])


def test_training_files_are_disjoint_from_every_other_item(tmp_path: Path) -> None:
    """Each task has n chat rows, half A and half B, and none is built-in or excluded."""
    start, end = 'Input: "', '" Label: \nA \nB (Respond in one letter and nothing else)'

    def texts(folder: Path, task: str) -> list[str]:
        actual = []
        for number, row in enumerate(read(folder / f"{task}_train.jsonl")):
            user, assistant = row["messages"]
            assert (list(row), user["role"], assistant["role"]) == (["messages"], "user", "assistant")
            text = user["content"].removeprefix(start).removesuffix(end)
            assert user["content"] == f"{start}{text}{end}"
            assert assistant["content"] == "AB"[number % 2]
            actual.append(text)
        assert [decide(task, text, load_cmudict()) for text in actual[:50]] == ["A", "B"] * 25
        return actual

    export_train(tmp_path / "one", n=1000, seed=3)
    first = {task: texts(tmp_path / "one", task) for task in TASKS}
    export_train(tmp_path / "two", n=200, seed=3, exclude=[text for some in first.values() for text in some])
    for task in TASKS:
        own, again = (
            {item_key(task, t) for t in some} for some in (first[task], texts(tmp_path / "two", task))
        )
        builtin = read(BUILTIN / f"{task}_test.jsonl") + read(BUILTIN / f"{task}_dev.jsonl")
        assert (len(own), len(again)) == (1000, 200)
        assert not (own | again) & keys(task, builtin)
        assert not own & again
