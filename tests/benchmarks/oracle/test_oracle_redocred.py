"""The reader of Re-DocRED files: the sentences with their labelled names, and the files it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.oracle.items import REDOCRED, detokenised, items
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.files import DataFolder

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


def put(root: Path, documents: Any, name: str = "dev_revised.json") -> DataFolder:
    path = root / "redocred" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(documents), encoding="utf-8")
    return DataFolder(root, "published")


def test_sentences_and_names(tmp_path: Path) -> None:
    """A document gives its sentences as text, each with its labelled names by position, longest first."""
    first, second = items(put(tmp_path, [DOCUMENT]))
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
    [item] = items(put(tmp_path, [document]))
    assert (item["text"], item["entities"]) == ("About 20 km off", (("20 km", "number"),))


def test_items_of_a_file(tmp_path: Path) -> None:
    """An item id has the file's letter and the document's and item's numbers; a document is a cluster."""
    for name in ("dev", "test", "train"):
        put(tmp_path, [DOCUMENT, DOCUMENT], f"{name}_revised.json")
    loaded = list(items(DataFolder(tmp_path, "published")))
    assert [i.id for i in loaded[:4]] == ["oracle/p/d0001-01", "oracle/p/d0001-03", "oracle/p/d0002-01",
                                         "oracle/p/d0002-03"]  # fmt: skip
    assert [i.cluster for i in loaded[:4]] == ["oracle/p/d0001"] * 2 + ["oracle/p/d0002"] * 2
    assert [i.id[9] for i in loaded[::4]] == list(REDOCRED)
    assert len({i.id for i in loaded}) == 12
    assert {(i.task, i.language, i.source, i["domain"]) for i in loaded} == {
        ("linearity", "en", "published", "published")
    }


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ({"a": 1}, "is not a list of documents"),
        ([], "is not a list of documents"),
        ([DOCUMENT, "x"], "document 2: is not one of Re-DocRED (TypeError"),
        ([{"vertexSet": []}], "document 1: is not one of Re-DocRED (KeyError: 'sents')"),
        ([{**DOCUMENT, "sents": [[1, 2]]}], "document 1: is not one of Re-DocRED (AttributeError"),
        ([{**DOCUMENT, "vertexSet": [[{"type": "PER", "pos": [0, 1], "sent_id": 9}]]}], "(IndexError"),
        ([{**DOCUMENT, "vertexSet": [[{"type": "PER", "pos": [0], "sent_id": 0}]]}], "(ValueError"),
    ],
    ids=str,
)
def test_bad_documents(documents: Any, said: str, tmp_path: Path) -> None:
    """An invalid document gives one line with the file, the document, the problem and a fix."""
    with pytest.raises(DataError) as caught:
        list(items(put(tmp_path, documents)))
    message = str(caught.value)
    assert message.startswith("redocred/dev_revised.json")
    assert said in message
    assert "\n" not in message


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


def test_white_space_tokens_are_spaces() -> None:
    """A white-space token becomes a space, and separates a dash from its neighbours."""
    text, spans = detokenised(["−5", "\xa0", "°", ",", "3", "\xa0", "km", "\xa0", "–", "far", " "])
    assert text == "−5 °, 3 km – far"
    assert [text[slice(*spans[i])] for i in (1, 2, 5, 6)] == ["", "°", "", "km"]


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
