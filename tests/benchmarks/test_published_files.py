"""The authors' files, if available, and small files in the same formats otherwise."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmark_registry import find_benchmark, find_registration
from pytest_llmprops.benchmarks.dtails.benchmark import Dtails
from pytest_llmprops.benchmarks.dtails.items import expert_rows, parse_words, train_rows
from pytest_llmprops.benchmarks.eras.paradigms import parse_published
from pytest_llmprops.benchmarks.eras.tools.corpora import read_reviews, read_segmented
from pytest_llmprops.benchmarks.homophones.benchmark import Homophones
from pytest_llmprops.benchmarks.homophones.items import masked
from pytest_llmprops.benchmarks.htest.benchmark import HTest
from pytest_llmprops.benchmarks.htest.items import GEOMETRY, read_rows
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.items import Item, check_unique
from pytest_llmprops.data.files import DataFolder, builtin_data, read_manifest
from pytest_llmprops.models.segmenters import read_words
from tests.support.published_shapes import published_shapes


def items_of(benchmark: Benchmark, root: Path, source: str = "published") -> tuple[Item, ...]:
    loaded: Any = benchmark.load(DataFolder(root, source))
    items: tuple[Item, ...] = loaded.items
    return items


# The authors' files


def test_every_published_htest_file_loads(published: Path) -> None:
    """Each available task has 200 items, 100 per group, and 50 examples; Letter Geometry has 90 items.

    A question of Letter Geometry has four different options and one answer among them.
    """
    folder = DataFolder(published, "published")
    loaded = HTest().load(folder)
    there = {path.name.removesuffix("_test.jsonl") for path in (published / "htest").glob("*_test.jsonl")}
    sizes = Counter(item.task for item in loaded.items)
    assert there
    assert sizes == {task: 90 if task == GEOMETRY else 200 for task in there}
    for task in there - {GEOMETRY}:
        assert Counter(i["answer"] for i in loaded.items if i.task == task) == {0: 100, 1: 100}
        assert Counter(label for _, label in loaded.context[task]) == {"A": 25, "B": 25}
    geometry = [i for i in loaded.items if i.task == GEOMETRY]
    assert {len(set(i["options"])) for i in geometry} <= {4}
    assert {i["answer"] for i in geometry} in (set(), {0, 1, 2, 3})
    assert folder.verify(read_manifest()) == []


def test_published_homophones_load(published: Path) -> None:
    """The published homophone files, including their byte-order mark, have 100 items per language.

    No masked sentence contains its word in any case.
    """
    raw = [path.read_bytes() for path in (published / "homophones").glob("testset_*.csv")]
    assert raw
    assert all(data.startswith(codecs.BOM_UTF8) for data in raw)
    folder = DataFolder(published, "published")
    all_items = items_of(Homophones(), published)
    asked = Counter(i.language for i in all_items if i.task == "asked")
    assert (set(asked.values()), len(asked)) == ({100}, len(raw))
    for item in (i for i in all_items if i.task == "context_only"):
        shown = f" {masked(item['sentence'], item['word'])} ".casefold().replace("____", " ____ ")
        word = item["word"].casefold()
        assert (word if item.language == "zh" else f" {word} ") not in shown, item.id
    assert folder.verify(read_manifest()) == []


def test_published_words_with_another_spelling_in_the_sentence(published: Path) -> None:
    """Of 28 English words that do not occur literally in their sentence, case explains all except two."""
    if not (published / "homophones" / "testset_english.csv").is_file():
        pytest.skip("testset_english.csv is not in the folder")
    english = [i for i in items_of(Homophones(), published) if i.language == "en"]
    asked = [i for i in english if i.task == "asked"]
    assert sum(i["word"] not in i["sentence"] for i in asked) == 28
    lost = {i.id for i in asked if i["word"].lower() not in i["sentence"].lower()}
    assert len(lost) == 2
    assert {i.base_id for i in english if i.task == "context_only"} == {i.id for i in asked} - lost


@pytest.mark.parametrize("benchmark", [HTest(), Homophones(), Dtails()], ids=lambda b: b.name)
def test_ids_are_unique_over_all_sources(benchmark: Benchmark, published: Path) -> None:
    """With `llm_source = all` no published item has a built-in item's id."""
    both = [*items_of(benchmark, builtin_data(), "builtin"), *items_of(benchmark, published)]
    check_unique(both, benchmark.name)
    assert {i.source for i in both} == {"builtin", "published"}


# Every file of the manifest can be read: small files in its format, and the authors' own where available


SHAPES = published_shapes()
#: folder of published files -> its files
PARTS = {part: [*files] for part, files in groupby(sorted(SHAPES), lambda file: file.split("/")[0])}


def _htest(folder: DataFolder, file: str) -> int:
    return len(read_rows(folder, file, options=4 if "letter_geometry" in file else 2))


def _eras(folder: DataFolder, file: str) -> int:
    return len(parse_published(*(folder.json(f"eras/{n}.json") for n in ("templates", "key_word_locations"))))


def _alone(benchmark: str) -> Callable[[DataFolder, str], int]:
    """Return a reader that loads a benchmark from a folder with only the one file."""

    def read(folder: DataFolder, file: str) -> int:
        return len(loaded(find_benchmark(benchmark), OneFile(folder, file)).items)

    return read


class OneFile(DataFolder):
    """A folder in which only one file exists."""

    def __init__(self, folder: DataFolder, file: str) -> None:
        super().__init__(folder.root, folder.source)
        self.file = file

    def exists(self, path: str) -> bool:
        return path == self.file


def _language(file: str) -> str:
    return file.split("/")[1].removeprefix("en-")


#: pattern of files -> function that reads one and returns its number of rows
READERS: dict[str, Callable[[DataFolder, str], int]] = {
    "*/LICENSE": lambda folder, file: len(folder.text(file)),
    "htest/*.jsonl": _htest,
    "homophones/*.csv": _alone("homophones"),
    "eras/*.json": _eras,
    "dtails/*/expert_dataset.csv": lambda folder, file: len(expert_rows(folder, _language(file))),
    "dtails/*/train_dataset.csv": lambda folder, file: len(train_rows(folder, _language(file))),
    "dtails/*/*.words": lambda folder, file: len(parse_words(folder.text(file), file)),
    "msrp/*.txt": _alone("oracle"),
    "redocred/*.json": _alone("oracle"),
    "training/sighan2005/*": lambda folder, file: len(read_segmented(folder.root / file).lines),
    "training/*": lambda folder, file: len(read_reviews(folder.root / file).reviews),
    "icwb2/*_words.utf8": lambda folder, file: len(read_words(folder.root / file)),
    "icwb2/*_gold.utf8": lambda folder, file: len(folder.text(file).split()),
    "icwb2/*_test.utf8": lambda folder, file: len(folder.text(file).split("\r\n")),
}


def read(folder: DataFolder, file: str) -> int:
    """Read a file of the manifest as its benchmark does; return the number of rows."""
    return next(reader for pattern, reader in READERS.items() if fnmatchcase(file, pattern))(folder, file)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    """Return a folder with a small file for each file of the manifest."""
    root = tmp_path_factory.mktemp("shapes")
    for file, content in SHAPES.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)
    return DataFolder(root, "published")


def test_every_file_of_the_manifest_has_a_shape() -> None:
    """The small files are those of the manifest, so that a new entry needs one."""
    assert set(SHAPES) == {entry.file for entry in read_manifest()}


@pytest.mark.parametrize("part", PARTS)
def test_shapes_are_read(part: str, shapes: DataFolder) -> None:
    """The readers accept the format of every published file."""
    for file in PARTS[part]:
        assert read(shapes, file) >= 1, file


@pytest.mark.parametrize("name", ["htest", "homophones", "eras", "dtails", "oracle"])
def test_benchmark_loads_all_shapes(name: str, shapes: DataFolder) -> None:
    """Each benchmark loads the complete published data."""
    tools = find_registration(name).tools
    items = loaded(find_benchmark(name), DataFolder(shapes.root, "published", tools)).items
    assert not {item.source for item in items} & {"builtin", "generated"}
    tasks = {"htest": 11, "homophones": 3, "eras": 1, "dtails": 2, "oracle": 3}
    assert len({item.task for item in items}) >= tasks[name]


def test_training_files_exclude_every_published_text(shapes: DataFolder, tmp_path: Path) -> None:
    """`htest generate --chat --data` reads all published H-TEST files, whatever their key of the text."""
    words = ("--chat", "--n", "2", "--out", str(tmp_path / "train"), "--data", str(shapes.root))
    assert main(["lab", "htest", "generate", *words]) == 0


@pytest.mark.parametrize("part", PARTS)
def test_published_files_are_read(part: str, published: Path) -> None:
    """Every available file is the one of the manifest and can be read."""
    files = [file for file in PARTS[part] if (published / file).is_file()]
    if not files:
        pytest.skip(f"{part} is not in the folder")
    folder = DataFolder(published, "published")
    for file in files:
        assert read(folder, file) >= 1, file
        folder.text(file)
    assert folder.verify(read_manifest()) == []
