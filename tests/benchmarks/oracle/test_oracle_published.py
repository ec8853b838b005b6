"""The published data, if available, is read completely, and the built-in data is not taken from it."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.items import MSRP, REDOCRED, items, occurs_in
from pytest_llmprops.benchmarks.oracle.redocred import Detokenised, detokenised
from pytest_llmprops.core.items import Item, check_unique
from pytest_llmprops.data.files import DataFolder, builtin_data

#: file -> pairs labelled equivalent, and not (Dolan & Brockett, 2005)
PAIRS = {MSRP[0]: (2753, 1323), MSRP[1]: (1147, 578)}
#: file -> documents (Tan et al., 2022)
DOCUMENTS = {REDOCRED["d"]: 500, REDOCRED["t"]: 500, REDOCRED["r"]: 3053}


@pytest.fixture
def files(published: Path) -> DataFolder:
    """Return the published data files, or skip the test if neither corpus is available."""
    result = DataFolder(published, "published")
    if not any(map(result.exists, (*PAIRS, *DOCUMENTS))):
        pytest.skip("needs MSRP or Re-DocRED")
    return result


@pytest.fixture
def corpora(files: DataFolder) -> list[str]:
    """Return the available files of Re-DocRED."""
    result = [path for path in DOCUMENTS if files.exists(path)]
    return result or pytest.skip("needs Re-DocRED")


def without_spaces(texts: Iterable[str]) -> str:
    return "".join("".join(texts).split())


def sentences(documents: Any) -> Iterator[tuple[list[str], Detokenised, list[list[int]]]]:
    """Return the tokens, text and mention spans of every sentence."""
    for document in documents:
        quoted = False
        for index, tokens in enumerate(document["sents"]):
            text = detokenised(tokens, quoted=quoted)
            quoted = text.quoted
            result = [m["pos"] for entity in document["vertexSet"] for m in entity if m["sent_id"] == index]
            yield tokens, text, result


def test_pairs_are_complete(files: DataFolder) -> None:
    """Every pair of the corpus is read with its label."""
    there = [path for path in PAIRS if files.exists(path)]
    tasks = Counter(item.task for item in items(files))
    assert (tasks["yes"], tasks["no"]) == tuple(sum(PAIRS[path][n] for path in there) for n in (0, 1))


def test_items_are_fast_and_unique(files: DataFolder) -> None:
    """Ids are unique, also among the built-in ones, and a thousand items are read in less than a second."""
    start = time.perf_counter()
    loaded = list(items(files))
    assert time.perf_counter() - start < max(1.0, len(loaded) / 1000)
    check_unique([*loaded, *items(DataFolder(builtin_data(), "builtin"))], "oracle")


def test_documents_are_complete(files: DataFolder, corpora: list[str]) -> None:
    """Every document is a cluster, and every sentence with a visible character is an item."""
    loaded = [item for item in items(files) if item.task == "linearity" and item["domain"] == "published"]
    assert len({item.cluster for item in loaded}) == sum(DOCUMENTS[path] for path in corpora)
    expected = sum(
        bool(without_spaces(tokens)) for path in corpora for d in files.json(path) for tokens in d["sents"]
    )
    assert expected == len(loaded)


def test_mentions_occur_at_their_spans(files: DataFolder, corpora: list[str]) -> None:
    """Every labelled mention is in the text at its span, with its own characters and as whole words."""
    total = cut = 0
    for path in corpora:
        for tokens, (text, spans, _), mentions in sentences(files.json(path)):
            for first, stop in mentions:
                name = text[spans[first][0] : spans[stop - 1][1]].strip()
                assert without_spaces([name]) == without_spaces(tokens[first:stop]), text
                total += 1
                cut += not occurs_in(name, text)
    assert total > 10_000
    assert cut <= total / 1000


def test_labels_match_the_mentions(files: DataFolder, corpora: list[str]) -> None:
    """An item's entities are the distinct texts of its sentence's mentions, and occur literally in it."""
    loaded = iter([i for i in items(files) if i.task == "linearity" and i["domain"] == "published"])
    for path in corpora:
        for _, (text, spans, _), mentions in sentences(files.json(path)):
            if text:
                item = next(loaded)
                names = {text[spans[a][0] : spans[b - 1][1]].strip() for a, b in mentions} - {""}
                assert item["text"] == text
                assert {name for name, _ in item["entities"]} == names
                assert all(name in text for name in names)


def test_text_has_all_characters_and_good_spacing(files: DataFolder, corpora: list[str]) -> None:
    """No character is lost, and very few spaces precede a closing mark or follow an opening bracket."""
    total, wrong = 0, []
    for path in corpora:
        for tokens, (text, _, _), _ in sentences(files.json(path)):
            assert without_spaces([text]) == without_spaces(tokens)
            total += 1
            if re.search(r"\s[,;:.!?)\]](?:\s|\Z)|[(\[]\s|\s(?:'s|n't)\b", text):
                wrong.append(text)
    assert len(wrong) <= total / 1000, wrong


def own_texts(result: Iterable[Item]) -> list[str]:
    return [item[key] for item in result for key in ("text", "first", "second") if key in item.fields]


def shingles(text: str, n: int = 8) -> set[tuple[str, ...]]:
    """Return all runs of ``n`` words, or the whole text if it is shorter."""
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[k : k + n]) for k in range(max(1, len(words) - n + 1))}


def test_builtin_sentences_are_not_the_authors(files: DataFolder) -> None:
    """No built-in sentence shares eight consecutive words with a published one."""
    theirs = {run for text in own_texts(items(files)) for run in shingles(text)}
    ours = own_texts(items(DataFolder(builtin_data(), "builtin")))
    assert [text for text in ours if shingles(text) & theirs] == []
