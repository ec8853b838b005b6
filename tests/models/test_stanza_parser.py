"""Stanza's analyses with tiny models trained by Stanza: available, missing and damaged models."""

from __future__ import annotations

import json
import logging
import runpy
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.requests import Parse
from pytest_llmprops.models.parsers.stanza import StanzaFolder, default_folder
from tests.support.backends import (
    LIBRARIES,
    error,
    fatal,
    make,
    needs,
    parses,
    printed,
    refuse,
    reply,
)
from tests.support.stanza_models import SENTENCES, text_of

pytestmark = [LIBRARIES, needs("stanza", "torch", extra="oracle")]
TEXTS = [text_of(sentence) for sentence in SENTENCES]


@pytest.fixture(scope="module")
def model(stanza_models: Path) -> Iterator[Any]:
    parser = make(f"stanza?dir={stanza_models}&device=cpu")
    yield parser
    parser.close()


@pytest.fixture
def own_copy(stanza_models: Path, tmp_path: Path) -> Path:
    """Return a copy of the models that a test may damage."""
    return Path(shutil.copytree(stanza_models, tmp_path / "copy"))


def stanzas_own(folder: Path, language: str, processors: dict[str, str], text: str) -> list[list[Any]]:
    """Return Stanza's own analysis of one text: (text, lemma, tag, head in its sentence, relation) per word."""
    import stanza

    pipeline = stanza.Pipeline(
        language, dir=str(folder), package=None, processors=processors, download_method=None, verbose=False
    )
    words = [word for sentence in pipeline(text).sentences for word in sentence.words]
    return [[w.text, w.lemma or "", w.upos or "", w.head, w.deprel or ""] for w in words]


def test_dependencies_of_known_sentences(model: Any) -> None:
    """Each word is as the models were trained on; heads are positions in the text, which may have several sentences."""
    *single, whole = parses(model, *(Parse(text, "af", "dependency") for text in (*TEXTS, " ".join(TEXTS))))
    assert [value["words"] for value in single] == [[list(word) for word in s] for s in SENTENCES]
    starts = [sum(map(len, SENTENCES[:n])) for n in range(len(SENTENCES))]
    assert whole["words"] == [
        [*word[:3], word[3] and start + word[3], word[4]]
        for start, sentence in zip(starts, SENTENCES, strict=True)
        for word in sentence
    ]


def test_parts_of_an_analysis(model: Any) -> None:
    """``words`` has lemmas and tags if their models are installed, and no heads; dependencies need no lemmatizer."""
    words, dependencies = parses(model, Parse(TEXTS[2], "af", "words"), Parse(TEXTS[2], "te", "dependency"))
    assert words["words"] == [[word, lemma, tag, -1, ""] for word, lemma, tag, _, _ in SENTENCES[2]]
    assert words["by"].startswith("stanza ")
    assert words["by"].endswith(" af")
    assert dependencies["words"] == [[word, "", *rest] for word, _, *rest in SENTENCES[2]]


def test_a_batch_of_languages_equals_stanza_alone(model: Any, stanza_models: Path) -> None:
    """A batch of several languages and analyses gives Stanza's results for each text alone, in order."""
    everything = dict.fromkeys(("tokenize", "pos", "lemma", "depparse"), "tiny")
    cut = dict.fromkeys(("tokenize", "mwt"), "tiny")
    texts = [*TEXTS, "Die kat slaap. Hond sien.\n\nKatte.", "sien die slaap"]
    requests, expected = [], []
    for text in texts:
        requests.append(Parse(text, "af", "dependency"))
        expected.append(stanzas_own(stanza_models, "af", everything, text))
        requests.append(Parse(text, "gl", "words"))
        expected.append(stanzas_own(stanza_models, "gl", cut, text))
    values = [value["words"] for value in parses(model, *requests)]
    assert [[word[:3] for word in words] for words in values] == [
        [w[:3] for w in words] for words in expected
    ]
    for one, (words, own) in zip(requests, zip(values, expected, strict=True), strict=True):
        assert len(set(map(tuple, words))) > 1
        if one.analysis == "dependency":
            assert [word[4] for word in words] == [word[4] for word in own]


def test_multi_word_tokens_are_split_into_words(model: Any) -> None:
    """A contraction is split into its words, since lemmas and dependencies belong to them."""
    [value] = parses(model, Parse("a casa do can.", "gl", "words"))
    assert [word[0] for word in value["words"]] == ["a", "casa", "de", "o", "can", "."]


@pytest.mark.parametrize(
    ("language", "analysis", "said"),
    [
        ("hy", "words", "no Stanza model of the language 'hy' (tokenize) in DIR: ...processors='tokenize,pos,lemma')"),
        ("gl", "dependency", "(pos, lemma, depparse) in DIR: ...stanza.download('gl', model_dir='DIR', processors="),
        ("zh", "dependency", "Stanza's package 'default' of the language 'zh' has no pos, lemma, depparse"),
        ("xx", "words", "Stanza has no models of the language 'xx'"),
    ],
)  # fmt: skip
def test_missing_models(model: Any, stanza_models: Path, language: str, analysis: str, said: str) -> None:
    """A missing model is a one-line value with the command to download it; other texts are served."""
    missing, there = parses(model, Parse("a.", language, analysis), Parse(TEXTS[0], "af", "words"))
    assert (missing["words"], missing["by"]) == (None, "")
    for part in said.replace("DIR", str(stanza_models)).split("..."):
        assert part in missing["missing"]
    assert "\n" not in missing["missing"]
    assert there["words"]


def test_word_vectors_are_part_of_a_model(own_copy: Path) -> None:
    """A tagger whose word vectors are missing counts as missing."""
    (own_copy / "af" / "pretrain" / "tiny.pt").unlink()
    model = make(f"stanza?dir={own_copy}&device=cpu")
    words, missing = parses(model, Parse(TEXTS[0], "af", "words"), Parse(TEXTS[0], "af", "dependency"))
    assert {word[1] for word in words["words"]} == {""}
    assert "(pos, depparse)" in missing["missing"]


def test_identity_follows_the_models(own_copy: Path) -> None:
    """A reply stored without a model, or with another one, is not used for the current models."""

    def identity() -> Any:
        return make(f"stanza?dir={own_copy}&device=cpu").identity

    before = identity()
    assert identity() == before
    assert set(before["models_sha256"]) == {"af", "gl", "te", "zh-hans"}
    (own_copy / "af" / "lemma" / "tiny.pt").rename(own_copy / "aside")
    without = identity()
    shutil.copytree(own_copy / "af" / "tokenize", own_copy / "hy" / "tokenize")
    more = identity()
    with (own_copy / "hy" / "tokenize" / "tiny.pt").open("ab") as stream:
        stream.write(b"x")
    seen = [before, without, more, identity()]
    assert all(seen.count(one) == 1 for one in seen)


def test_damaged_model(own_copy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A damaged file stops the run with one line, and nothing else is printed."""
    file = own_copy / "af" / "pos" / "tiny.pt"
    file.write_bytes(file.read_bytes()[:1000])
    model = make(f"stanza?dir={own_copy}&device=cpu")
    [result] = model.parse([Parse(TEXTS[0], "af", "words")])
    assert fatal(result, "the models of 'af'", "cannot be loaded: ", "stanza.download('af'").kind == "model"
    assert capfd.readouterr() == ("", "")


def test_quiet_and_offline(
    stanza_models: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Loading and parsing open no connection, print nothing and do not change Stanza's log level."""

    def connect(*args: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(logging.getLogger("stanza"), "level", logging.DEBUG)
    model = make(f"stanza?dir={stanza_models}&device=cpu")
    requests = [Parse(text, lang, "dependency") for text in TEXTS for lang in ("af", "te", "hy", "xx")]
    assert len(parses(model, *requests)) == len(requests)
    assert logging.getLogger("stanza").level == logging.DEBUG
    assert capfd.readouterr() == ("", "")


def test_failing_text_does_not_affect_the_others(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the library fails on one text of a batch, that text is an error and the others are served."""
    parses(model, Parse("a.", "af", "words"))
    pipeline = next(p for key, p in model.pipelines.items() if key == ("af", "tokenize", "pos", "lemma"))
    original = pipeline.bulk_process

    def bulk_process(texts: list[str]) -> Any:
        if "bad" in texts:
            raise RuntimeError("out of\nmemory")
        return original(texts)

    monkeypatch.setattr(pipeline, "bulk_process", bulk_process)
    first, bad, last = model.parse([Parse(text, "af", "words") for text in (TEXTS[0], "bad", TEXTS[1])])
    assert reply(first).value["words"]
    assert reply(last).value["words"]
    assert error(bad).message.endswith("fails: RuntimeError: out of memory")
    assert not bad.fatal


def test_constituency(model: Any, stanza_models: Path) -> None:
    """A tree in brackets is returned per sentence, over the same words."""
    if not (stanza_models / "af" / "constituency" / "tiny.pt").is_file():
        pytest.skip("this version of Stanza builds no untrained constituency parser as the fixture does")
    [value] = parses(model, Parse(" ".join(TEXTS[:2]), "af", "constituency"))
    tree = value["tree"]
    assert tree.count("(ROOT") == 2
    leaves = [part.rstrip(")") for part in tree.split() if not part.startswith("(")]
    assert leaves == [word[0] for word in value["words"]]
    assert "(DET Die)" in tree
    assert [word[1] for word in value["words"]] == [word[1] for s in SENTENCES[:2] for word in s]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("stanza?dir=NONE", "has no resources.json.*stanza.download"),
        ("stanza?dir=DAMAGED", "cannot be read"),
        ("stanza:af", "write stanza or stanza\\?key=value"),
        ("stanza?dir=DIR&device=tpu", "device must be auto, cpu, cuda"),
        ("stanza?dir=DIR&device=cuda", "no CUDA device"),
    ],
)
def test_bad_specification(
    stanza_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, said: str
) -> None:
    """A folder without Stanza's files, and unknown parameters and devices, are refused in one line at the start."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "resources.json").write_text("{")
    for name, folder in (("NONE", tmp_path), ("DAMAGED", tmp_path / "damaged"), ("DIR", stanza_models)):
        spec = spec.replace(name, str(folder))
    refuse(spec, said)
    assert make(f"stanza?dir={stanza_models}").identity["device"] == "cpu"


def test_ready_is_cheap(stanza_models: Path, tmp_path: Path) -> None:
    """Readiness and identity are known without importing Stanza or torch."""
    (tmp_path / "resources.json").write_text("{}")
    code = f"""
import sys
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import find_backend, parse_spec
ready = lambda text: find_backend("stanza").ready(parse_spec(text))
spec = "stanza?device=cpu&dir={stanza_models}"
find_backend("stanza").factory(parse_spec(spec), CallOptions())
print(ready(spec), ready("stanza?dir={tmp_path}"), ready("stanza?dir={tmp_path}/none"), ready("stanza"))
print({{"stanza", "torch", "numpy"}} & {{*sys.modules}})
"""
    assert printed(code, env={"STANZA_RESOURCES_DIR": str(stanza_models)}) == "True False False True\nset()"


def test_default_folder_is_stanzas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``dir`` the folder is the default of the installed Stanza, which commands do not name."""
    from stanza.resources import common

    def stanzas() -> Path:
        # Stanza reads its setting when it is imported.
        return Path(runpy.run_path(common.__file__)["DEFAULT_MODEL_DIR"])

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("STANZA_RESOURCES_DIR", raising=False)
    assert default_folder() == stanzas() != tmp_path
    monkeypatch.setenv("STANZA_RESOURCES_DIR", str(tmp_path))
    assert default_folder() == stanzas() == tmp_path
    listed = {"af": {"packages": {"default": {"tokenize": "tiny"}}}}
    (tmp_path / "resources.json").write_text(json.dumps(listed))
    said = StanzaFolder(default_folder()).plan("af", "words")
    assert isinstance(said, str)
    assert "stanza.download('af', processors='tokenize')" in said
