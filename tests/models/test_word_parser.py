"""Words without a model, from Unicode properties, in any language."""

from __future__ import annotations

import unicodedata

import pytest

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Parse
from pytest_llmprops.core.texts import TOKENIZER, unicode_words
from pytest_llmprops.models.base import kinds_of
from pytest_llmprops.models.registry import Backend, always, find_backend, parse_spec
from tests.support.backends import make, ready


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("af", "Die Hond, slaap!", ["die", "hond", "slaap"]),
        ("fa", "می\u200cخوابد.", ["میخوابد"]),
        ("ta", "பூனை தூங்குகிறது", ["பூனை", "தூங்குகிறது"]),
        ("xx", "", []),
    ],
)
def test_words(language: str, text: str, words: list[str]) -> None:
    """Every run of letters, marks and digits is a word, case-folded; its lemma is the same, other fields are
    empty.
    """
    [reply] = make("words").parse([Parse(text, language, "words")])
    assert reply.value == {
        "words": [[unicodedata.normalize("NFKC", word)] * 2 + ["", -1, ""] for word in words],
        "by": TOKENIZER,
    }
    assert [word[0] for word in reply.value["words"]] == unicode_words(text)


def test_contract() -> None:
    """The parser is always ready, runs in the pytest process, and is pinned by the Unicode version."""
    model = make("words")
    assert ready("words")
    assert kinds_of(model) == {"parse"}
    assert (model.blocking, model.pinned, model.deviations()) == (True, True, ())
    assert model.identity["unicode"] == unicodedata.unidata_version


@pytest.mark.parametrize("analysis", ["dependency", "constituency"])
def test_only_words_are_supported(analysis: str) -> None:
    """Dependencies and trees are missing, and the message says which models have them."""
    words, missing = make("words").parse([Parse("a b", "af", "words"), Parse("a b", "af", analysis)])
    assert len(words.value["words"]) == 2
    assert missing.value["words"] is None
    assert f"plain words have no {analysis}" in missing.value["missing"]


def test_unknown_analysis() -> None:
    """An unknown analysis is the request's error."""
    [error] = make("words").parse([Parse("a", "af", "semantics")])
    assert isinstance(error, BackendError)
    assert (error.kind, error.fatal) == ("request", False)


def test_bad_specification() -> None:
    """Parameters and a name are refused."""
    with pytest.raises(UsageError, match="write words"):
        make("words:af")
    with pytest.raises(UsageError, match="'lang' is not a parameter of words"):
        make("words?lang=af")


def test_backends_are_ready_by_default() -> None:
    """A backend without a readiness function counts as ready."""
    spec = parse_spec("words")
    check = find_backend("words").check
    assert Backend(check, always("parse")).ready(spec)
    no = Backend(check, always("parse"), ready=lambda spec: False)
    assert not no.ready(spec)
    with pytest.raises(UsageError, match="unknown backend"):
        ready("nosuch:x")
