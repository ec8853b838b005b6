"""The authors' files, if available. The tests of each reader have the quirks of their formats."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from pytest_llmprops.benchmark_registry import find_benchmark, find_registration
from pytest_llmprops.benchmarks.dtails.benchmark import Dtails
from pytest_llmprops.benchmarks.dtails.items import train_rows
from pytest_llmprops.benchmarks.eras.tools.corpora import read_reviews, read_segmented
from pytest_llmprops.benchmarks.homophones.benchmark import Homophones
from pytest_llmprops.benchmarks.homophones.items import masked
from pytest_llmprops.benchmarks.htest.benchmark import HTest
from pytest_llmprops.benchmarks.htest.items import GEOMETRY
from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.items import check_unique
from pytest_llmprops.data.files import DataFolder, builtin_data, read_manifest
from pytest_llmprops.models.segmenters import read_words


def test_every_published_htest_file_loads(published: Path) -> None:
    """Each available task has 200 items, 100 per group, and 50 examples; Letter Geometry has 90 items.

    A question of Letter Geometry has four different options and one answer among them.
    """
    part = loaded(HTest(), DataFolder(published, "published"))
    there = {path.name.removesuffix("_test.jsonl") for path in (published / "htest").glob("*_test.jsonl")}
    sizes = Counter(item.task for item in part.items)
    assert there
    assert sizes == {task: 90 if task == GEOMETRY else 200 for task in there}
    for task in there - {GEOMETRY}:
        assert Counter(i["answer"] for i in part.items if i.task == task) == {0: 100, 1: 100}
        assert Counter(label for _, label in part.context[task]) == {"A": 25, "B": 25}
    geometry = [i for i in part.items if i.task == GEOMETRY]
    assert {len(set(i["options"])) for i in geometry} <= {4}
    assert {i["answer"] for i in geometry} in (set(), {0, 1, 2, 3})


def test_published_homophones_load(published: Path) -> None:
    """The published homophone files, including their byte-order mark, have 100 items per language.

    No masked sentence contains its word in any case. Two English sentences have their word in another spelling only.
    """
    raw = [path.read_bytes() for path in (published / "homophones").glob("testset_*.csv")]
    assert raw
    assert all(data.startswith(codecs.BOM_UTF8) for data in raw)
    all_items = loaded(Homophones(), DataFolder(published, "published")).items
    counts = Counter((i.task, i.language) for i in all_items)
    assert [n for (task, _), n in counts.items() if task == "asked"] == [100] * len(raw)
    english = [i for i in all_items if (i.task, i.language) == ("asked", "en")]
    assert sum(i["word"] not in i["sentence"] for i in english) in (0, 28)
    assert counts["context_only", "en"] in (0, 98)
    for item in (i for i in all_items if i.task == "context_only"):
        shown = f" {masked(item['sentence'], item['word'])} ".casefold().replace("____", " ____ ")
        word = item["word"].casefold()
        assert (word if item.language == "zh" else f" {word} ") not in shown, item.id


@pytest.mark.parametrize("benchmark", [HTest(), Homophones(), Dtails()], ids=lambda b: b.name)
def test_ids_are_unique_over_all_sources(benchmark: Benchmark, published: Path) -> None:
    """With `llm_source = all` no published item has a built-in item's id."""
    folders = DataFolder(builtin_data(), "builtin"), DataFolder(published, "published")
    both = [item for folder in folders for item in loaded(benchmark, folder).items]
    check_unique(both, benchmark.name)
    assert {i.source for i in both} == {"builtin", "published"}


#: pattern of files that no benchmark loads -> function that reads one and returns its number of rows
READERS: dict[str, Callable[[Path], int]] = {
    "dtails/*/train_dataset.csv": lambda path: len(
        train_rows(DataFolder(path.parents[2], "published"), path.parent.name.removeprefix("en-"))
    ),
    "training/sighan2005/*": lambda path: len(read_segmented(path).lines),
    "training/*": lambda path: len(read_reviews(path).reviews),
    "icwb2/*_words.utf8": lambda path: len(read_words(path)),
}


@pytest.mark.parametrize("name", ["htest", "homophones", "eras", "dtails", "oracle"])
def test_benchmarks_load_published_data(name: str, published: Path) -> None:
    """Each benchmark loads the published data."""
    if not (published / {"oracle": "msrp"}.get(name, name)).is_dir():
        pytest.skip(f"{name} is not in the folder")
    folder = DataFolder(published, "published", find_registration(name).tools)
    items = loaded(find_benchmark(name), folder).items
    assert items
    assert not {item.source for item in items} & {"builtin", "generated"}


def test_other_published_files_are_read(published: Path) -> None:
    """Every file that no benchmark loads can be read, and the available files are those of the manifest."""
    folder = DataFolder(published, "published")
    for name in (entry.file for entry in read_manifest() if folder.exists(entry.file)):
        folder.text(name)
        # The first pattern that fits is the narrowest.
        for reader in [reader for pattern, reader in READERS.items() if fnmatchcase(name, pattern)][:1]:
            assert reader(published / name) >= 1, name
    assert folder.verify(read_manifest()) == []
