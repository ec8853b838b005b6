"""The authors' files, if available, and small files in the same formats otherwise."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.homophones.benchmark import Homophones
from pytest_llmprops.benchmarks.homophones.items import masked
from pytest_llmprops.benchmarks.htest.benchmark import GEOMETRY, TASKS, HTest
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.items import Item, check_unique
from pytest_llmprops.data.files import DataFolder, builtin_data, read_manifest

#: the fixture of this folder's conftest.py
Measure = Callable[..., Any]


def items_of(benchmark: Benchmark, root: Path, source: str = "published") -> tuple[Item, ...]:
    loaded: Any = benchmark.load(DataFolder(root, source))
    items: tuple[Item, ...] = loaded.items
    return items


# The authors' files


def test_every_published_htest_file_loads(published: Path) -> None:
    """Each available task has 200 items, 100 per group, and 50 examples; Letter Geometry has 90 items."""
    folder = DataFolder(published, "published")
    loaded = HTest().load(folder)
    there = {path.name.removesuffix("_test.jsonl") for path in (published / "htest").glob("*_test.jsonl")}
    sizes = Counter(item.task for item in loaded.items)
    assert there
    assert sizes == {task: 90 if task == GEOMETRY else 200 for task in there}
    for task in there - {GEOMETRY}:
        assert Counter(i["answer"] for i in loaded.items if i.task == task) == {0: 100, 1: 100}
        assert Counter(label for _, label in loaded.context[task]) == {"A": 25, "B": 25}
    assert folder.verify(read_manifest()) == []


def test_published_letter_geometry_has_four_options(published: Path) -> None:
    """Every published Letter Geometry question has four different options and one answer among them."""
    geometry = [i for i in items_of(HTest(), published) if i.task == GEOMETRY]
    if not geometry:
        pytest.skip("letter_geometry_test.jsonl is not in the folder")
    assert {len(set(i["options"])) for i in geometry} == {4}
    assert {i["answer"] for i in geometry} == {0, 1, 2, 3}


def test_published_homophones_load(published: Path) -> None:
    """The published homophone files, including their byte-order mark, have 100 items per language."""
    raw = [path.read_bytes() for path in (published / "homophones").glob("testset_*.csv")]
    assert raw
    assert all(data.startswith(codecs.BOM_UTF8) for data in raw)
    folder = DataFolder(published, "published")
    asked = Counter(i.language for i in Homophones().load(folder).items if i.task == "asked")
    assert set(asked.values()) == {100}
    assert len(asked) == len(raw)
    assert folder.verify(read_manifest()) == []


def test_published_words_with_another_spelling_in_the_sentence(published: Path) -> None:
    """Of 28 English words that do not occur literally in their sentence, case explains all except two."""
    if not (published / "homophones" / "testset_english.csv").is_file():
        pytest.skip("testset_english.csv is not in the folder")
    english = [i for i in items_of(Homophones(), published) if i.language == "en"]
    asked = [i for i in english if i.task == "asked"]
    assert sum(i["word"] not in i["sentence"] for i in asked) == 28
    lost = {i.id for i in asked if masked(i["sentence"], i["word"]) is None}
    assert lost == {i.id for i in asked if i["word"].lower() not in i["sentence"].lower()}
    assert len(lost) == 2
    with_blank = {i.base_id for i in english if i.task == "context_only"}
    assert with_blank == {i.id for i in asked} - lost
    assert sum(i.task == "word_only" for i in english) == 100


def test_published_masks_hide_the_word(published: Path) -> None:
    """No masked published sentence contains its word in any case."""
    controls = [i for i in items_of(Homophones(), published) if i.task == "context_only"]
    assert controls
    for item in controls:
        shown = f" {masked(item['sentence'], item['word'])} ".casefold().replace("____", " ____ ")
        word = item["word"].casefold()
        assert (word if item.language == "zh" else f" {word} ") not in shown, item.id


@pytest.mark.parametrize("benchmark", [HTest(), Homophones()], ids=lambda b: b.name)
def test_ids_are_unique_over_all_sources(benchmark: Benchmark, published: Path) -> None:
    """With `--llm-source all` no published item has a built-in item's id."""
    both = [*items_of(benchmark, builtin_data(), "builtin"), *items_of(benchmark, published)]
    check_unique(both, benchmark.name)
    assert {i.source for i in both} == {"builtin", "published"}


# Files in the documented formats that are not in every data folder


def write_csv(path: Path, rows: list[list[str]]) -> None:
    """Write a CSV file with a byte-order mark, like the authors' files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path.write_bytes(codecs.BOM_UTF8 + text.getvalue().encode())


@pytest.fixture
def spanish(tmp_path: Path) -> Path:
    """Write a folder with a Spanish file in the published format, including verdict columns."""
    header = [
        "sentence",
        "word",
        "answer_english",
        "answer_spanish",
        "GPT-3.5",
        "GPT-4",
        "Ernie-3.5",
        "Ernie-4.0",
    ]
    rows = [
        ["La bacca da leche", "bacca", "cow", "vaca", "Y", "Y", "N", "N"],
        ["Vamos ha la playa, dijo él", "ha", "to", "a", "N", "Y", "N", "N"],
        ["Kierro pan", "Kierro", "want", "quiero", "N", "Y", "N", "Y"],
        ["El avuelo duerme", "abuello", "grandfather", "abuelo", "Y", "Y", "N", "N"],
    ]
    write_csv(tmp_path / "homophones" / "testset_espanol.csv", [header, *rows])
    return tmp_path


def test_spanish_file(spanish: Path) -> None:
    """The Spanish file's answer columns may be in any order; controls and function-word flags are derived."""
    items = items_of(Homophones(), spanish)
    asked = [i for i in items if i.task == "asked"]
    assert [i.id for i in asked] == [f"homophones/es/p000{n}" for n in (1, 2, 3, 4)]
    assert {i.language for i in items} == {"es"}
    assert [set(i["answers"]) for i in asked] == [
        {"vaca", "cow"},
        {"a", "to"},
        {"quiero", "want"},
        {"abuelo", "grandfather"},
    ]
    assert [masked(i["sentence"], i["word"]) for i in asked] == [
        "La ____ da leche",
        "Vamos ____ la playa, dijo él",
        "____ pan",
        None,
    ]
    assert [i["function_word"] for i in asked] == [False, True, False, False]
    assert Counter(i.task for i in items) == {"asked": 4, "context_only": 3, "word_only": 4}


@pytest.mark.parametrize(
    ("reply", "status"),
    [("Significa 'vaca'.", "correct"), ("It means a cow.", "correct"), ("'baca'", "wrong")],
)
def test_spanish_item_is_judged(reply: str, status: str, spanish: Path, measure: Measure) -> None:
    """A Spanish item accepts answers in Spanish and in English."""
    loaded = Homophones().load(DataFolder(spanish, "published"))
    assert measure(Homophones(), loaded.items[0], loaded.context, reply).verdict.status == status


def test_spanish_file_needs_its_columns(tmp_path: Path) -> None:
    """A Spanish file without the Spanish answers is a one-line error with the column's name."""
    write_csv(
        tmp_path / "homophones" / "testset_espanol.csv",
        [["sentence", "word", "answer_english"], ["La bacca", "bacca", "cow"]],
    )
    with pytest.raises(ValueError, match=r"testset_espanol\.csv: no column 'answer_spanish'") as caught:
        items_of(Homophones(), tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("task", TASKS)
def test_htest_file_of_any_task(task: str, tmp_path: Path, measure: Measure) -> None:
    """Each of the ten tasks loads from published-format files alone, with quotes and accents unchanged."""
    texts = ['Ann said "yes"', "Zoë's naïve plan", "3 < 4", "dot.dot...", "ta-ta", "x\u2028y"]
    rows = [
        {"centerpiece": text, "options": ["A", "B"], "correct_options": [n % 2]}
        for n, text in enumerate(texts)
    ]
    (tmp_path / "htest").mkdir()
    for part, ascii_only in (("dev", True), ("test", False)):
        text = "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows)
        (tmp_path / "htest" / f"{task}_{part}.jsonl").write_text(text, encoding="utf-8")
    loaded = HTest().load(DataFolder(tmp_path, "published"))
    assert [i.id for i in loaded.items] == [f"htest/{task}/p000{n}" for n in range(1, 7)]
    assert [i["text"] for i in loaded.items] == texts
    assert {i.task for i in loaded.items} == {task}
    measured = measure(HTest(), loaded.items[3], loaded.context, "B", k=4)
    assert measured.prompt.endswith(
        '\n\nInput: "dot.dot..." Label: \nA \nB (Respond in one letter and nothing else)'
    )
    assert measured.prompt.startswith(
        'Input: "Ann said "yes"" Label: A\nInput: "Zoë\'s naïve plan" Label: B\n'
    )
    assert measured.verdict.status == "correct"
