"""Plain words from Unicode properties, and several parsers combined into one."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Parse, Reply
from pytest_llmprops.core.texts import TOKENIZER, unicode_words
from pytest_llmprops.models.base import kinds_of
from pytest_llmprops.models.parsers.base import FirstOf, missing
from pytest_llmprops.models.registry import parse_spec, together
from tests.support.backends import error, make, parses, ready, refuse, reply, values


class Own:
    """A parser for ``languages`` that fails on the text ``fail``."""

    blocking = True

    def __init__(self, name: str, languages: str, *, max_batch: int = 100, pinned: bool = True) -> None:
        self.identity = {"backend": name}
        self.name, self.languages, self.max_batch, self.pinned = name, languages.split(), max_batch, pinned
        self.batches: list[list[str]] = []
        self.closed = False

    def parse(self, requests: Sequence[Parse]) -> list[Any]:
        """Return words, a failure, or the reason why the analysis is missing."""
        self.batches.append([request.text for request in requests])
        return [self._one(request) for request in requests]

    def _one(self, request: Parse) -> Any:
        if request.language not in self.languages:
            return Reply(value=missing(f"{self.name} lacks {request.language}"))
        if request.text == "fail":
            return BackendError("it fails", kind="backend")
        return Reply(value={"words": [], "by": self.name}, served_model=self.name)

    def deviations(self) -> Sequence[str]:
        """Return one deviation."""
        return [f"as {self.name} does"]

    def close(self) -> None:
        """Record that the model is closed."""
        self.closed = True


def first_of(*parts: Any) -> FirstOf:
    return FirstOf(parts)


def test_first_capable_part_is_used() -> None:
    """Each text is analysed by the first part that supports it; results keep the order of the texts."""
    first, second = Own("one", "af"), Own("two", "af en")
    analyses = parses(first_of(first, second), Parse("a", "en"), Parse("b", "af"), Parse("c", "en"))
    assert [value["by"] for value in analyses] == ["two", "one", "two"]
    assert (first.batches, second.batches) == ([["a", "b", "c"]], [["a", "c"]])


def test_analysis_that_all_parts_lack_is_missing() -> None:
    """If no part can analyse a text, the reply has each part's reason and no served model."""
    [result] = first_of(Own("one", "af"), Own("two", "en"), Own("one", "")).parse([Parse("a", "ja")])
    assert reply(result).value == {"words": None, "by": "", "missing": "one lacks ja; two lacks ja"}
    assert reply(result).served_model == ""


def test_failure_of_a_part_is_the_result() -> None:
    """If a part fails, its error is the result; the next part does not get the text."""
    second = Own("two", "en")
    [result] = first_of(Own("one", "en"), second).parse([Parse("fail", "en")])
    error(result)
    assert second.batches == []


def test_identity_names_all_parts() -> None:
    """The identity names all parts and is pinned only if all are; deviations and closing cover all."""
    parts = [Own("one", "en"), Own("two", "en", pinned=False)]
    model = first_of(*parts)
    assert model.identity == {"backend": "first-of", "parts": [{"backend": "one"}, {"backend": "two"}]}
    assert not model.pinned
    assert list(model.deviations()) == ["as one does", "as two does"]
    model.close()
    assert all(part.closed for part in parts)


def test_specification() -> None:
    """Parts are separated by commas and may have parameters; a single part is returned as it is."""
    text = "first-of:words,stanza?dir=/nowhere"
    parts = [parse_spec("words"), parse_spec("stanza?dir=/nowhere")]
    assert together(parts) == parse_spec(text)
    assert (together(parts).text, together(parts).parts) == (text, tuple(parts))
    assert together(parts[:1]) == parts[0]
    assert ready(text)
    assert not ready("first-of:stanza?dir=/nowhere,spacy:nosuch_model")
    model = make("first-of:words,words")
    assert kinds_of(model) == {"parse"}
    [value] = parses(model, Parse("Die hond", "af", "words"))
    assert [word[0] for word in value["words"]] == ["die", "hond"]
    model.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("first-of:words", "write first-of:PARSER,PARSER"),
        ("first-of:words,fake:echo", "fake:echo is not a parser"),
        ("first-of:words,spacy:nosuch_model", "neither the folder of a spaCy model"),
        ("words:af", "write words"),
    ],
)
def test_bad_specification(text: str, said: str) -> None:
    """Too few parts, a part that is not a parser or is missing, and names and parameters of words are refused."""
    refuse(text, said)


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("af", "Die Hond, slaap!", ["die", "hond", "slaap"]),
        ("fa", "می\u200cخوابد.", ["میخوابد"]),
        ("xx", "", []),
    ],
)
def test_words(language: str, text: str, words: list[str]) -> None:
    """Every run of letters, marks and digits is a word and its lemma, case-folded; other fields are empty."""
    [value] = parses(make("words"), Parse(text, language, "words"))
    assert value == {
        "words": [[unicodedata.normalize("NFKC", word)] * 2 + ["", -1, ""] for word in words],
        "by": TOKENIZER,
    }
    assert [word[0] for word in value["words"]] == unicode_words(text)


def test_only_words_are_supported() -> None:
    """Dependencies and trees are missing, and the message says so; an unknown analysis is an error."""
    analyses = ("words", "dependency", "constituency", "semantics")
    *known, unknown = make("words").parse([Parse("a b", "af", analysis) for analysis in analyses])
    words, *missing = values(known)
    assert len(words["words"]) == 2
    assert [value["words"] for value in missing] == [None, None]
    for value, analysis in zip(missing, analyses[1:], strict=False):
        assert f"plain words have no {analysis}" in value["missing"]
    assert (error(unknown).kind, unknown.fatal) == ("request", False)
