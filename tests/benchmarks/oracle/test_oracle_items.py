"""The readers of sentences and pairs: what they accept, and what they refuse in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.items import LONGEST, OWN_FILE, items, own_sentences
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.files import DataFolder

SENTENCE = {"id": "001", "text": "Ann left Oslo.", "entities": [{"name": "Oslo", "kind": "city"}]}
PAIR = {"id": "001", "first": "A came.", "second": "B came.", "label": 0, "level": "subtle"}
HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def builtin(root: Path, *pairs: Any) -> DataFolder:
    """Return a folder of built-in data with one sentence per domain."""
    for name in ("general", "technical", "hardware"):
        put(root, f"oracle/{name}.jsonl", json.dumps(SENTENCE) + "\n")
    put(root, "oracle/pairs.jsonl", "".join(json.dumps(row) + "\n" for row in pairs))
    return DataFolder(root, "builtin")


def msrp(root: Path, *rows: str, name: str = "train", header: str = HEADER) -> DataFolder:
    """Return a folder with a file in the MSRP layout: byte-order mark and CRLF."""
    put(root, f"msrp/msr_paraphrase_{name}.txt", "\ufeff" + "".join(f"{row}\r\n" for row in (header, *rows)))
    return DataFolder(root, "published")


def refusal(files: DataFolder) -> str:
    with pytest.raises(DataError) as caught:
        list(items(files))
    message = str(caught.value)
    assert "\n" not in message
    assert "; " in message
    return message


def test_builtin_items(tmp_path: Path) -> None:
    """Sentences become linearity items with their entities, and pairs become items of their label's task."""
    yes = PAIR | {"id": "b", "label": 1}
    general, technical, hardware, no, other = items(builtin(tmp_path, PAIR, yes))
    assert [i.id for i in (general, technical, hardware, no, other)] == [
        "oracle/general/001", "oracle/technical/001", "oracle/hardware/001", "oracle/pair/001", "oracle/pair/b"
    ]  # fmt: skip
    assert general.fields == {"text": "Ann left Oslo.", "entities": (("Oslo", "city"),), "domain": "general"}
    assert (technical["domain"], hardware["domain"]) == ("technical", "hardware")
    assert general.cluster == general.id
    assert (no.task, no.fields) == (
        "no", {"first": "A came.", "second": "B came.", "label": False, "level": "subtle"}
    )  # fmt: skip
    assert other.task == "yes"
    assert other["label"] is True


def test_published_pairs(tmp_path: Path) -> None:
    """Pairs of both MSRP files are read with their ids, and quotation marks are part of the text."""
    msrp(tmp_path, '1\t12\t34\tHe said "no".\t"No", he said. ', "0\t34\t56\tA.\tB.")
    files = msrp(tmp_path, '1\t7\t8\t"A quote begins\tand does not end.', name="test")
    loaded = list(items(files))
    assert [(i.id, i.task, i.source) for i in loaded] == [
        ("oracle/pair/12-34", "yes", "published"),
        ("oracle/pair/34-56", "no", "published"),
        ("oracle/pair/7-8", "yes", "published"),
    ]
    assert (loaded[0]["first"], loaded[0]["second"]) == ('He said "no".', '"No", he said.')
    assert loaded[2]["first"] == '"A quote begins'
    assert loaded[2]["level"] == ""


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["1\t1\t2\tA.\tB.", "2\t3\t4\tA.\tB."], "row 2: the Quality is '2'"),
        (["1\t1\t2\tA."], "line 2 has 4 fields"),
        ([], "has no rows"),
    ],
)  # fmt: skip
def test_bad_published_pairs(rows: list[str], said: str, tmp_path: Path) -> None:
    """An error about an invalid MSRP row names its file and line."""
    message = refusal(msrp(tmp_path, *rows))
    assert "msrp/msr_paraphrase_train.txt" in message
    assert said in message


def test_own_sentences_are_items(tmp_path: Path) -> None:
    """Each sentence of a user's file becomes an item without labels, marked as generated."""
    put(tmp_path, OWN_FILE, "\ufeffThe first  one.\r\n\r\n  Über die Brücke.  \r\n")
    put(tmp_path, "oracle/SOURCE.json", '{"source": "generated"}')
    files = DataFolder(tmp_path, DataFolder(tmp_path, "published").source_for("oracle"))
    assert [(i.id, i["text"], i["entities"], i["domain"], i.source, i.task) for i in items(files)] == [
        ("oracle/own/0001", "The first one.", (), "own", "generated", "linearity"),
        ("oracle/own/0002", "Über die Brücke.", (), "own", "generated", "linearity"),
    ]


def test_own_sentences_next_to_published_pairs(tmp_path: Path) -> None:
    """In an unmarked folder a user's file is read together with published data; in a marked one, alone."""
    put(tmp_path, OWN_FILE, "One.\n")
    msrp(tmp_path, "1\t1\t2\tA.\tB.")
    loaded = {source: [(i.id, i.source) for i in items(DataFolder(tmp_path, source))]
             for source in ("published", "generated")}  # fmt: skip
    own = ("oracle/own/0001", "generated")
    assert loaded == {"published": [own, ("oracle/pair/1-2", "published")], "generated": [own]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n \n", "has no sentences"),
        ("Fine.\nA \x1b[31m one.\n", "line 2: has control characters"),
        ("Fine.\r\r" + "x" * (LONGEST + 1), f"line 3: {LONGEST + 1} characters"),
    ],
)
def test_bad_own_sentences(text: str, said: str) -> None:
    """A file without sentences, or with lines that cannot be sentences, is refused."""
    with pytest.raises(DataError, match="; write") as caught:
        own_sentences(text, "mine.txt")
    assert str(caught.value).startswith("mine.txt")
    assert said in str(caught.value)


@pytest.mark.parametrize("source", ["published", "generated"])
def test_folder_without_files(source: str, tmp_path: Path) -> None:
    """If there is no file to read, the error names the missing file and how to get it."""
    message = refusal(DataFolder(tmp_path, source))
    assert "no such file" in message
    assert ("data pull" in message) is (source == "published")
