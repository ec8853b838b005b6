"""The readers of sentences and pairs: built-in, of MSRP, of Re-DocRED and of the user, and the files they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.items import (
    LONGEST,
    OWN_FILE,
    REDOCRED,
    detokenised,
    items,
)
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.files import DataFolder

SENTENCE = {"id": "001", "text": "Ann left Oslo.", "entities": [{"name": "Oslo", "kind": "city"}]}
PAIR = {"id": "001", "first": "A came.", "second": "B came.", "label": 0, "level": "subtle"}
HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"


DOCUMENT: dict[str, Any] = {
    "title": "Ada",
    "sents": [
        ["Ada", '"', "Countess", '"', "Byron", "(", "1815", "-", "52", ")", "knew", "Ada", "."],
        [" ", "\xa0"],
        ["Byron", "'s", "Anglo", "-", "Irish", "friend", "left", "."],
    ],
    "vertexSet": [
        [
            {"name": "Byron", "type": "PER", "sent_id": 2, "pos": [0, 1]},
            {"name": "x", "type": "PER", "sent_id": 0, "pos": [0, 5]},
            {"name": "Ada", "type": "PER", "sent_id": 0, "pos": [11, 12]},
            {"name": "Ada", "type": "MISC", "sent_id": 0, "pos": [0, 1]},
        ],
        [{"name": "1815-52", "type": "TIME", "sent_id": 0, "pos": [6, 9]}],
        [{"name": "Irish", "type": "LOC", "sent_id": 2, "pos": [4, 5]}],
        [{"name": " ", "type": "LAW", "sent_id": 1, "pos": [0, 2]}],
        [{"name": "friend", "type": "ROLE", "sent_id": 2, "pos": [5, 6]}],
    ],
}


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


def own(root: Path, text: str) -> DataFolder:
    """Return a folder with a user's sentences."""
    put(root, OWN_FILE, text)
    return DataFolder(root, "generated")


def redocred(root: Path, documents: Any, name: str = "dev") -> DataFolder:
    """Return a folder with a file of Re-DocRED."""
    put(root, f"redocred/{name}_revised.json", json.dumps(documents))
    return DataFolder(root, "published")


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


WRONG = {"type": "PER", "pos": [0, 1], "sent_id": 0}


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (msrp, ["1\t1\t2\tA.\tB.", "2\t3\t4\tA.\tB."], "row 2: the Quality is '2'"),
        (msrp, ["1\t1\t2\tA."], "line 2 has 4 fields"),
        (msrp, [], "has no rows"),
        (own, ["\n\u2003\n"], "has no sentences"),
        (own, ["Fine.\nA \x1b[31m one.\n"], "line 2: has control characters"),
        (own, ["Fine.\r\r" + "x" * (LONGEST + 1)], f"line 3: {LONGEST + 1} characters"),
        (redocred, [{"a": 1}], "is not a list of documents"),
        (redocred, [[]], "is not a list of documents"),
        (redocred, [[DOCUMENT, "x"]], "document 2: is not one of Re-DocRED (TypeError"),
        (redocred, [[{"vertexSet": []}]], "document 1: is not one of Re-DocRED (KeyError: 'sents')"),
        (redocred, [[{**DOCUMENT, "sents": [[1, 2]]}]], "document 1: is not one of Re-DocRED (AttributeError"),
        (redocred, [[{**DOCUMENT, "vertexSet": [[{**WRONG, "sent_id": 9}]]}]], "(IndexError"),
        (redocred, [[{**DOCUMENT, "vertexSet": [[{**WRONG, "pos": [0]}]]}]], "(ValueError"),
    ],
)  # fmt: skip
def test_bad_files(file: Callable[..., DataFolder], content: list[Any], said: str, tmp_path: Path) -> None:
    """An error about an invalid row or document is one line with its file, its place, the problem and a fix."""
    with pytest.raises(DataError) as caught:
        list(items(file(tmp_path, *content)))
    message = str(caught.value)
    paths = {msrp: "msrp/msr_paraphrase_train.txt", redocred: "redocred/dev_revised.json", own: OWN_FILE}
    assert paths[file] in message
    assert said in message
    assert "; " in message
    assert "\n" not in message


def test_own_sentences(tmp_path: Path) -> None:
    """Each sentence of a user's file becomes an item without labels, marked as generated.

    In an unmarked folder the file is read together with published data; in a marked one, alone.
    """
    own(tmp_path, "\ufeffThe first  one.\r\n\r\n  Über die Brücke.  \r\n")
    msrp(tmp_path, "1\t1\t2\tA.\tB.")
    *loaded, pair = items(DataFolder(tmp_path, "published"))
    put(tmp_path, "oracle/SOURCE.json", '{"source": "generated"}')
    alone = DataFolder(tmp_path, DataFolder(tmp_path, "published").source_for("oracle"))
    assert (list(items(alone)), pair.id, pair.source) == (loaded, "oracle/pair/1-2", "published")
    assert [(i.id, i["text"], i["entities"], i["domain"], i.source, i.task) for i in loaded] == [
        ("oracle/own/0001", "The first one.", (), "own", "generated", "linearity"),
        ("oracle/own/0002", "Über die Brücke.", (), "own", "generated", "linearity"),
    ]


@pytest.mark.parametrize("source", ["published", "generated"])
def test_folder_without_files(source: str, tmp_path: Path) -> None:
    """If there is no file to read, the error names the missing file and how to get it."""
    with pytest.raises(DataError, match=r"no such file.*; ") as caught:
        list(items(DataFolder(tmp_path, source)))
    assert ("data pull" in str(caught.value)) is (source == "published")


def test_sentences_and_names(tmp_path: Path) -> None:
    """A document gives its sentences as text, each with its labelled names by position, longest first."""
    first, second = items(redocred(tmp_path, [DOCUMENT]))
    assert first["text"] == 'Ada "Countess" Byron (1815-52) knew Ada.'
    assert first["entities"] == (('Ada "Countess" Byron', "person"), ("Ada", "other"), ("1815-52", "date"))
    assert (second["text"], second.id) == ("Byron's Anglo-Irish friend left.", "oracle/p/d0001-03")
    assert second["entities"] == (("Byron", "person"), ("Irish", "location"), ("friend", "role"))


def test_mention_with_white_space_at_its_ends(tmp_path: Path) -> None:
    """The span of a mention excludes white-space tokens at its ends."""
    document = {
        "sents": [["About", "\xa0", "20", "\xa0", "km", " ", "off"]],
        "vertexSet": [[{"name": "20 km", "type": "NUM", "sent_id": 0, "pos": [1, 6]}]],
    }
    [item] = items(redocred(tmp_path, [document]))
    assert (item["text"], item["entities"]) == ("About 20 km off", (("20 km", "number"),))


def test_items_of_a_file(tmp_path: Path) -> None:
    """An item id has the file's letter and the document's and item's numbers; a document is a cluster."""
    for name in ("dev", "test", "train"):
        redocred(tmp_path, [DOCUMENT, DOCUMENT], name)
    loaded = list(items(DataFolder(tmp_path, "published")))
    numbers = ("d0001-01", "d0001-03", "d0002-01", "d0002-03")
    assert sorted(i.id for i in loaded) == sorted(
        f"oracle/p/{file}{n[1:]}" for file in REDOCRED for n in numbers
    )
    assert {i.cluster == i.id[:-3] for i in loaded} == {True}
    assert {(i.task, i.language, i.source, i["domain"]) for i in loaded} == {
        ("linearity", "en", "published", "published")
    }


#: tokens, separated by spaces -> the expected text
CASES = {
    "Sales rose 5.2 % to $ 7 million ( US$ 7 ) .": "Sales rose 5.2% to $7 million (US$7).",
    "Tyche (; from , Túkhē ) was a goddess .": "Tyche (; from, Túkhē) was a goddess.",
    "It is part [ she said ] of it : all of it ; yes !": "It is part [she said] of it: all of it; yes!",
    "Anna 's dog did n't bite ; we 're glad .": "Anna's dog didn't bite; we're glad.",
    "The city ’s walls do n’t stand .": "The city’s walls don’t stand.",
    "a well - known two - and - a - half year plan": "a well-known two-and-a-half year plan",
    "in 1985 - 86 and 1740 – 76": "in 1985-86 and 1740–76",
    "5 April 1815 in Paris - 21 March 1851": "5 April 1815 in Paris - 21 March 1851",
    "The name — a joke — stayed": "The name—a joke—stayed",
    "the States — 91 of them": "the States — 91 of them",
    "Google I / O and LP / CD": "Google I/O and LP/CD",
    'The album , " Home , " was out ( " Early " ) .': 'The album, "Home," was out ("Early").',
    '" We are late , she said .': '"We are late, she said.',
    "They saw “ the end ” of ‘ it ’ .": "They saw “the end” of ‘it’.",
    "the boys ' team and Huysmans ' other novel": "the boys' team and Huysmans' other novel",
    "It is known as ' Bolt ' since then": "It is known as 'Bolt' since then",
    "known as ' Bolt ' in the boys ' team": "known as 'Bolt' in the boys' team",
    "Barnes & Noble and R&B": "Barnes & Noble and R&B",
}  # fmt: skip


def test_spaces() -> None:
    """Punctuation, brackets, quotation marks, hyphens, dashes and possessives are spaced as in normal text."""
    assert {tokens: detokenised(tokens.split())[0] for tokens in CASES} == CASES


TOKENS = st.lists(
    st.one_of(st.text(max_size=4), st.sampled_from(["-", "–", "—", '"', "'", "(", ")", ",", "/", " "])),
    max_size=12,
)  # fmt: skip


@given(TOKENS)
def test_tokens_are_at_their_spans(tokens: list[str]) -> None:
    """For any tokens, each one is at its span, in order, with at most single spaces in between."""
    text, spans = detokenised(tokens)
    assert [" ".join(token.split()) for token in tokens] == [text[a:b] for a, b in spans]
    assert text == " ".join(text.split())
    end = 0
    for start, stop in spans:
        assert text[end:start] in ("", " ")
        end = max(end, stop)
    assert end == len(text)
