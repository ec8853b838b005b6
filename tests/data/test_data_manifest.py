"""The manifest of published data, and the folder of built-in data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data import files
from pytest_llmprops.data.files import COLUMNS, builtin_data, is_inside, read_manifest

GOOD = {
    "file": "htest/a.jsonl",
    "repository": "owner/name",
    "commit": "0123456789abcdef" * 2 + "01234567",
    "upstream_path": "data/a.jsonl",
    "bytes": "12",
    "sha256": "ab" * 32,
    "licence": "MIT",
}


def write(path: Path, *rows: dict[str, str]) -> Path:
    lines = ["\t".join(COLUMNS)] + ["\t".join(row[column] for column in COLUMNS) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_committed_manifest() -> None:
    """The committed manifest pins 64 files in seven benchmarks' folders to eight commits."""
    entries = read_manifest()
    assert dict(Counter(entry.benchmark for entry in entries)) == {
        "dtails": 20, "eras": 2, "homophones": 3, "htest": 22, "icwb2": 12, "msrp": 2, "redocred": 3,
    }  # fmt: skip
    assert len({entry.repository for entry in entries}) == 7
    assert len({entry.commit for entry in entries}) == 8
    rhyme = next(entry for entry in entries if entry.file == "htest/rhyme_test.jsonl")
    assert (rhyme.repository, rhyme.bytes) == ("brucewlee/h-test", 15428)
    assert rhyme.sha256.startswith("4919f888d0527d86")


def test_rows_become_entries(tmp_path: Path) -> None:
    """A row's values are parsed to their types."""
    (entry,) = read_manifest(write(tmp_path / "m.tsv", GOOD))
    assert (entry.file, entry.benchmark, entry.bytes) == ("htest/a.jsonl", "htest", 12)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("commit", "main", "commit 'main' is not 40 hexadecimal digits"),
        ("sha256", "AB" * 32, "is not 64 hexadecimal digits"),
        ("repository", "owner", "repository 'owner' is not owner/name"),
        ("repository", "../x", "repository '../x' is not owner/name"),
        ("repository", "x/..", "repository 'x/..' is not owner/name"),
        ("bytes", "-1", "bytes '-1' is not a whole number"),
        ("bytes", "9" * 5_000, "is not a whole number of at most 15 digits"),
        ("bytes", "²", "bytes '²' is not a whole number"),
        ("file", "../a", "file '../a' is not a relative path"),
        ("file", "/etc/passwd", "file '/etc/passwd'"),
        ("file", "C:/a", "file 'C:/a'"),
        ("file", "a\\..\\b", "is not a relative path"),
        ("file", "", "is not a relative path"),
        ("upstream_path", "a/../../b", "upstream_path 'a/../../b'"),
    ],
)
def test_malformed_value(tmp_path: Path, column: str, value: str, said: str) -> None:
    """A value that is not a commit, hash, size or safe path is an error with file, row and column."""
    path = write(tmp_path / "m.tsv", GOOD, GOOD | {"file": "htest/b.jsonl"} | {column: value})
    with pytest.raises(DataError) as caught:
        read_manifest(path)
    assert f"{path}, row 3: " in str(caught.value)
    assert said in str(caught.value)


def test_file_listed_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"htest/a\.jsonl is listed twice"):
        read_manifest(write(tmp_path / "m.tsv", GOOD, GOOD))


def test_missing_column(tmp_path: Path) -> None:
    """A manifest that lacks a column is refused with the column's name."""
    path = tmp_path / "m.tsv"
    path.write_text("file\trepository\nx\ty\n", encoding="utf-8")
    with pytest.raises(DataError, match="no column 'commit'"):
        read_manifest(path)


@pytest.mark.parametrize(
    ("path", "inside"),
    [("a/b.txt", True), ("a", True), ("./a", False), ("a//b", False), ("..", False), ("a/", False)],
)
def test_is_inside(path: str, inside: bool) -> None:
    """Only plain relative paths are inside the folder."""
    assert is_inside(path) is inside


def test_builtin_data_of_the_checkout() -> None:
    """In a checkout the built-in data is its data folder, with the manifest and the published results."""
    folder = builtin_data()
    assert (folder / "manifest.tsv").is_file()
    assert (folder / "published_results" / "htest.csv").is_file()


def test_packaged_copy_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package uses its own copy, not a folder named data next to it."""
    package = tmp_path / "site-packages" / "pytest_llmprops"
    for folder in (package / "_data", package.parent / "data"):
        folder.mkdir(parents=True)
        (folder / "manifest.tsv").write_text("x", encoding="utf-8")
    (package / "data").mkdir()
    monkeypatch.setattr(files, "__file__", str(package / "data" / "location.py"))
    builtin_data.cache_clear()
    try:
        assert builtin_data() == package / "_data"
        (package / "_data" / "manifest.tsv").unlink()
        builtin_data.cache_clear()
        assert builtin_data() == package.parent / "data"
        (package.parent / "data" / "manifest.tsv").unlink()
        builtin_data.cache_clear()
        with pytest.raises(DataError, match="reinstall pytest-llmprops"):
            builtin_data()
    finally:
        builtin_data.cache_clear()
