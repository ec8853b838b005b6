"""Reading parallel corpora: every format, and a one-line message for each fault."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.tools.mining.corpus import LONGEST, Pair, open_corpus, read_pairs
from pytest_llmprops.core.errors import DataError

SOURCE, TARGET = "One cat.\nTwo dogs.\n", "Een kat.\nTwee honde.\n"
PAIRS = [Pair(1, "One cat.", "Een kat."), Pair(2, "Two dogs.", "Twee honde.")]


def put(path: Path, text: str | bytes) -> Path:
    raw = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def test_every_format_gives_the_same_pairs(tmp_path: Path) -> None:
    """Two files, gzipped files, a Moses pair and a TSV file give the same pairs and fingerprint."""
    two = [put(tmp_path / "a.txt", SOURCE), put(tmp_path / "b.txt", TARGET)]
    zipped = [put(tmp_path / "a.gz", SOURCE), put(tmp_path / "b.gz", TARGET)]
    put(tmp_path / "ted.en", SOURCE), put(tmp_path / "ted.af", TARGET)
    put(tmp_path / "subs.en.gz", SOURCE), put(tmp_path / "subs.af.gz", TARGET)
    table = put(tmp_path / "c.tsv", "One cat.\tEen kat.\r\nTwo dogs.\tTwee honde.")
    ways = [two, zipped, [tmp_path / "ted"], [tmp_path / "subs"], [table]]
    corpora = [open_corpus(way, "af") for way in ways]
    assert [list(corpus.pairs()) for corpus in corpora] == [PAIRS] * 5
    assert len({corpus.sha256 for corpus in corpora}) == 1
    assert list(read_pairs(*two)) == [pair[1:] for pair in PAIRS]


def test_pairs_with_an_empty_side_are_excluded_and_counted(tmp_path: Path) -> None:
    """Pairs with an empty or too long side are excluded and counted; the others keep their line numbers."""
    source = put(tmp_path / "a", f"\nTwo dogs.\n  \nFour.\n{'x' * (LONGEST + 1)}\nSix\tand\x00a half.\n")
    target = put(tmp_path / "b", "Een.\nTwee honde.\n \n\nVyf.\nSes\u2028en 'n half.\n")
    corpus = open_corpus([source, target], "af")
    assert (corpus.lines, corpus.empty, corpus.long, corpus.size) == (6, 3, 1, 2)
    # A Unicode line separator does not end a line, and control characters become spaces.
    assert list(corpus.pairs()) == [PAIRS[1], Pair(6, "Six and a half.", "Ses\u2028en 'n half.")]


def test_fingerprint_depends_on_the_text(tmp_path: Path) -> None:
    """One changed letter gives another fingerprint."""
    first = [put(tmp_path / "a", SOURCE), put(tmp_path / "b", TARGET)]
    second = [first[0], put(tmp_path / "c", TARGET.replace("kat", "kot"))]
    assert open_corpus(first, "af").sha256 != open_corpus(second, "af").sha256


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\nc\n", "a\nb\n", r"b has 2 lines, .*a 3; both sides"),
        ("a\n", "a\nb\nc\nd\n", r"a has 1 lines, .*b 4; both sides"),
        (b"a\ncaf\xe9\n", "a\nb\n", r"a: line 2: not UTF-8"),
        ("a\n", b"\xff\xfea\x00\n\x00", r"b: line 1: not UTF-8.*UTF-16"),
        ("", "", r"a and .*b: no lines"),
        ("\n \n", "a\nb\n", r"none of the 2 pairs has two sides"),
    ],
)
def test_invalid_pairs_of_files(
    tmp_path: Path, source: str | bytes, target: str | bytes, message: str
) -> None:
    """Files of different lengths, other encodings and empty files are reported in one line."""
    files = [put(tmp_path / "a", source), put(tmp_path / "b", target)]
    with pytest.raises(DataError, match=message) as error:
        open_corpus(files, "af")
    assert "\n" not in str(error.value)


def test_invalid_single_files(tmp_path: Path) -> None:
    """A missing file, a folder, TSV without two columns, a cut-off gzip file and three files are refused."""
    whole = gzip.compress(SOURCE.encode() * 500)
    damaged = tmp_path / "d.gz"
    damaged.write_bytes(whole[:-20])
    plain = tmp_path / "e.gz"
    plain.write_bytes(b"no gzip")
    table = put(tmp_path / "f.tsv", "a\tb\none side\n")
    cases = {
        r"nosuch: no such file, and no nosuch.en with nosuch.af": [tmp_path / "nosuch"],
        r"nosuch: no such file; check": [table, tmp_path / "nosuch"],
        r"cannot be read": [table, tmp_path],
        r"line 2 has 1 columns": [table],
        r"d.gz: damaged gzip file": [damaged, table],
        r"e.gz: damaged gzip file": [plain, table],
        r"not 3 files": [table, table, table],
    }
    for message, files in cases.items():
        with pytest.raises(DataError, match=message):
            open_corpus(files, "af")


def test_byte_order_mark_is_removed(tmp_path: Path) -> None:
    """A byte order mark at the start of a file is removed."""
    files = [put(tmp_path / "a", b"\xef\xbb\xbfOne cat.\n"), put(tmp_path / "b", "Een kat.\n")]
    assert list(open_corpus(files, "af").pairs()) == PAIRS[:1]
