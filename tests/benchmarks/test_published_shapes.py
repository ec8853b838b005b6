"""Every file of the manifest can be read: small files in its format, and the authors' own where available."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from pytest_llmprops.benchmark_registry import find_benchmark, find_registration
from pytest_llmprops.benchmarks.dtails.items import expert_rows, train_rows
from pytest_llmprops.benchmarks.dtails.rows import parse_words
from pytest_llmprops.benchmarks.eras.paradigms import parse_published
from pytest_llmprops.benchmarks.htest.benchmark import read_rows
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.benchmark_checks import loaded
from pytest_llmprops.data.files import DataFolder, read_manifest
from pytest_llmprops.models.segmenters.maxmatch import read_words
from tests.support.published_shapes import published_shapes, shape_of

SHAPES = published_shapes()


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


@pytest.mark.parametrize("file", SHAPES)
def test_shape_is_read(file: str, shapes: DataFolder) -> None:
    """The readers accept the format of every published file."""
    assert read(shapes, file) >= 1


@pytest.mark.parametrize("name", ["htest", "homophones", "eras", "dtails", "oracle"])
def test_benchmark_loads_all_shapes(name: str, shapes: DataFolder) -> None:
    """Each benchmark loads the complete published data."""
    tools = find_registration(name).tools
    items = loaded(find_benchmark(name), DataFolder(shapes.root, "published", tools)).items
    assert not {item.source for item in items} & {"builtin", "generated"}
    tasks = {"htest": 11, "homophones": 3, "eras": 1, "dtails": 2, "oracle": 3}
    assert len({item.task for item in items}) >= tasks[name]


def test_training_files_exclude_every_published_text(shapes: DataFolder, tmp_path: Path) -> None:
    """`htest export-train --data` reads all published H-TEST files, whatever their key of the text."""
    out = str(tmp_path / "train")
    assert main(["htest", "export-train", "--n", "2", "--out", out, "--data", str(shapes.root)]) == 0


@pytest.mark.parametrize("file", SHAPES)
def test_published_file_is_read(file: str, published: Path) -> None:
    """The readers accept every published file that is available."""
    if not (published / file).is_file():
        pytest.skip(f"{file} is not in the folder")
    assert read(DataFolder(published, "published"), file) >= 1


@pytest.mark.parametrize("file", SHAPES)
def test_shape_is_that_of_the_published_file(file: str, published: Path) -> None:
    """The small file has the byte-order mark, line ends, columns, keys and types of the published one."""
    if not (published / file).is_file():
        pytest.skip(f"{file} is not in the folder")
    assert shape_of(file, SHAPES[file]) == shape_of(file, (published / file).read_bytes())
