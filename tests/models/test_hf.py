"""Transformers models in this process: batches, the shared prefix, invalid input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import MissingExtra
from pytest_llmprops.core.requests import Chat, Completion, Likelihood, Message
from pytest_llmprops.models.base import kinds_of
from pytest_llmprops.models.hf.chat import HfBaseModel, HfChatModel, group_by_prefix
from pytest_llmprops.models.registry import find_backend, parse_spec
from tests.support.backends import (
    LIBRARIES,
    error,
    fatal,
    hide,
    make,
    needs,
    refuse,
    reply,
    save_chat_model,
    texts,
)

pytestmark = [LIBRARIES, needs("torch", "transformers", extra="hf")]
SHARED = "What follows has one beginning for all of them, long enough to be worth keeping. "
QUESTIONS = ["a", "Is it so?", "Why not a much longer question than the others?", "a", "no", "Say yes."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_chat_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[Any]:
    chat_model = make(f"hf:{folder}?batch=4&device=cpu")
    yield chat_model
    chat_model.close()


def asked(**settings: Any) -> list[Chat]:
    return [Chat.user(SHARED + q, **({"temperature": 0.0, "max_tokens": 9} | settings)) for q in QUESTIONS]


def continued(network: Any, tokenizer: Any, text: str, most: int, **options: Any) -> str:
    """Return the library's own greedy continuation of one text by at most so many tokens."""
    ids = tokenizer(text, return_tensors="pt", **options)
    out = network.generate(**ids, do_sample=False, max_new_tokens=most, pad_token_id=1, eos_token_id=1)
    new = out[0, ids["input_ids"].shape[1] :]
    return str(tokenizer.decode(new, skip_special_tokens=True)).rstrip("\ufffd")


@cache
def loaded(folder: Path) -> tuple[Any, Any]:
    """Return the library's own tokenizer and network of a folder."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    return AutoTokenizer.from_pretrained(folder), network


def reference(folder: Path, requests: list[Chat]) -> list[str]:
    """Return the library's own greedy replies, one prompt at a time."""
    tokenizer, network = loaded(folder)
    replies = []
    for request in requests:
        turns = [{"role": m.role, "content": m.content} for m in request.messages]
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        assert request.max_tokens is not None
        replies.append(continued(network, tokenizer, text, request.max_tokens, add_special_tokens=False))
    return replies


#: Gemma-1.1's chat template (tokenizer_config.json of google/gemma-1.1-7b-it), shortened
NO_SYSTEM = (
    "<s>{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{{ message['role'] + '\\n' + message['content'] | trim + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}model\n{% endif %}"
)


def test_a_template_without_a_system_role(tmp_path: Path) -> None:
    """The system message is put before the user message, and the model says so."""
    model = make(f"hf:{save_chat_model(tmp_path / 'gemma', template=NO_SYSTEM)}?device=cpu")
    try:
        separate = Chat((Message("system", "Be brief."), Message("user", "Why?")), max_tokens=9)
        [reply] = model.chat([separate])
        assert list(model.deviations()) == ["system message put before the first user message"]
        [merged] = model.chat([Chat.user("Be brief.\n\nWhy?", max_tokens=9)])
        assert reply.text == merged.text
    finally:
        model.close()


def test_batches_equal_single_prompts(model: Any, folder: Path) -> None:
    """Greedy replies of shared-prefix batches equal the library's own for each prompt alone."""
    requests = [*asked(), Chat.user("Other beginning", max_tokens=9), asked()[0].then("b", "And now?")]
    expected = reference(folder, requests)
    assert len(set(expected)) > 4
    model.prepare()
    model.prefix_cache.forget()
    assert expected == texts(model.chat(requests))
    assert expected == texts(model.chat(requests))
    assert expected[::-1] == texts(model.chat(requests[::-1]))


def test_groups_are_yielded_one_by_one(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replies of a group come before the next one is generated: a run that ends keeps the complete groups."""
    sizes, generate = [], HfChatModel.generate

    def recorded(self: HfChatModel, rows: list[Any]) -> None:
        sizes.append(len(rows))
        generate(self, rows)

    monkeypatch.setattr(HfChatModel, "generate", recorded)
    replies = model.chat(asked(max_tokens=1))
    assert reply(next(replies))
    assert sizes == [4]
    assert len(texts(replies)) == 5
    assert sizes == [4, 2]


def test_models_without_shareable_layers(tmp_path: Path) -> None:
    """A model with a sliding window keeps no prefix, and its batches are still correct."""
    saved = save_chat_model(tmp_path / "mistral", sliding=True)
    chat_model = make(f"hf:{saved}?device=cpu")
    assert reference(saved, asked()) == texts(chat_model.chat(asked()))
    assert not chat_model.prefix_cache.works


def test_the_prefix_is_evaluated_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches after the first evaluate only the tokens after the common prefix."""
    model.prefix_cache.forget()
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


def test_unusable_models(tmp_path: Path) -> None:
    """Without a chat template, or with weights that cannot be read, the run stops with one line."""
    base = save_chat_model(tmp_path / "base", template=None)
    [result, *_] = make(f"hf:{base}?device=cpu&kind=chat").chat(asked())
    assert fatal(result, "no chat template").kind == "model"
    saved = save_chat_model(tmp_path / "damaged")
    (saved / "model.safetensors").write_bytes(b"\xff" * 100)
    [result, *_] = make(f"hf:{saved}").chat(asked())
    fatal(result, "damaged cannot be loaded")


def test_identity(folder: Path, tmp_path: Path) -> None:
    """A folder is pinned by the hash of its files; other weights give another identity."""
    chat_model = make(f"hf:{folder}")
    assert chat_model.pinned
    assert kinds_of(chat_model) == {"chat", "likelihood"}
    assert chat_model.identity == make(f"hf:{folder}").identity
    other = save_chat_model(tmp_path / "other", sliding=True)
    assert chat_model.identity["files_sha256"] != make(f"hf:{other}").identity["files_sha256"]


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("LlamaForCausalLM", "completion"),
        ("BertForSequenceClassification", "sentiment"),
        ("MarianMTModel", "translate"),
        ("T5ForConditionalGeneration", "translate"),
        ("BertModel", "embed"),
        ("Gemma3ForConditionalGeneration", "completion"),
    ],
)
def test_kind_of_architecture(architecture: str, kind: str, tmp_path: Path) -> None:
    """The architecture in config.json decides the kind, unless a kind is stated."""
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    kinds = find_backend("hf").kinds
    assert kinds(parse_spec(f"hf:{tmp_path}")) - {"likelihood"} == {kind}
    assert ("likelihood" in kinds(parse_spec(f"hf:{tmp_path}"))) == (kind == "completion")
    assert kinds(parse_spec(f"hf:{tmp_path}?kind=embed")) == {"embed"}
    assert kinds(parse_spec("hf:unheard-of/model")) == {"chat", "likelihood"}
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    assert kinds(parse_spec(f"hf:{tmp_path}")) - {"likelihood"} == {"chat" if kind == "completion" else kind}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("hf:DIR?typ=chat", "'typ' is not a parameter"),
        ("hf:DIR?kind=poem", "kind must be one of chat"),
        ("hf:DIR?device=tpux", "device must be"),
        ("hf:EMPTY", "no config.json"),
        ("hf:unheard-of/model", "'unheard-of/model' .*offline.*hf:FOLDER"),
    ],
)
def test_bad_specification(
    spec: str, words: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A specification that cannot be used is a one-line error with the reason, and possible fixes."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    refuse(spec.replace("DIR", str(folder)).replace("EMPTY", str(tmp_path)), words)


def test_groups_follow_the_prefix() -> None:
    """Prompts with the same prefix are batched up to the limit; another prefix or length starts a new batch."""
    first = [[1] * 100 + [i, 5] for i in range(6)]
    second = [[2] * 100 + [i, 5] for i in range(2)]
    assert group_by_prefix(first + second, 4) == [range(4), range(4, 6), range(6, 8)]
    assert group_by_prefix([[1, 2, 3], [1] + [4] * 500], 4) == [range(1), range(1, 2)]
    assert group_by_prefix([[1] * 30 + [3] * n for n in (5, 7, 6)], 4) == [range(3)]
    assert group_by_prefix([], 4) == []


@pytest.fixture(scope="module")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_chat_model(tmp_path_factory.mktemp("base"), template=None)


def log_likelihood(folder: Path, before: str, option: str) -> float:
    """Return the log-likelihood of an option by the library alone, one text at a time."""
    import torch

    tokenizer, network = loaded(folder)
    ids = tokenizer(before + option, return_tensors="pt")["input_ids"]
    start = len(tokenizer(before)["input_ids"])
    with torch.inference_mode():
        logprobs = network(ids).logits[0].log_softmax(-1)
    return sum(float(logprobs[place - 1, ids[0, place]]) for place in range(start, ids.shape[1]))


OPTIONS = (" A", " B", " a longer one", " \u4e2d\u6587")


def test_likelihoods_equal_the_librarys(base_folder: Path) -> None:
    """Log-likelihoods in shared-prefix batches equal those of each text alone; tokens are bytes here."""
    base = make(f"hf:{base_folder}?batch=3&device=cpu")
    assert kinds_of(base) == {"completion", "likelihood"}
    requests = [Likelihood(SHARED + question, OPTIONS) for question in QUESTIONS]
    results = [reply.value["options"] for reply in base.likelihood(requests)]
    for request, options in zip(requests, results, strict=True):
        expected = [log_likelihood(base_folder, request.text, option) for option in OPTIONS]
        assert [option["logprob"] for option in options] == pytest.approx(expected, abs=1e-3)
        assert [option["tokens"] for option in options] == [len(option.encode()) for option in OPTIONS]


def test_likelihood_of_an_option_that_changes_a_token(tmp_path: Path) -> None:
    """Where a token spans the border, the option's log-likelihood is that of the whole minus that of the text."""
    saved = save_chat_model(tmp_path / "merging", template=None)
    file = saved / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    # "ab" becomes one token in place of another, so the text "a" and its continuation "b" share it.
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["ab"] = vocabulary.pop("~")
    tokenizer["model"]["merges"] = [["a", "b"]]
    file.write_text(json.dumps(tokenizer))
    assert len(loaded(saved)[0]("xab")["input_ids"]) == 2
    [reply] = make(f"hf:{saved}?device=cpu").likelihood([Likelihood("xa", ("b",))])
    [option] = reply.value["options"]
    whole, before = log_likelihood(saved, "x", "ab"), log_likelihood(saved, "x", "a")
    assert option["logprob"] == pytest.approx(whole - before, abs=1e-3)


def test_chat_models_score_replies(model: Any, folder: Path) -> None:
    """A chat model scores the option as its reply: after the chat template's beginning of one."""
    [reply] = model.likelihood([Likelihood("Which?", ("A", "B"))])
    rendered = "<s>user: Which?\nassistant: "
    expected = [log_likelihood(folder, rendered, option) for option in ("A", "B")]
    assert [option["logprob"] for option in reply.value["options"]] == pytest.approx(expected, abs=1e-3)


def test_base_models_continue_texts(base_folder: Path, folder: Path) -> None:
    """A model without a chat template continues texts; the kind can be forced on a model that has one."""
    requests = [Completion(SHARED + question, 0.0, max_tokens=9) for question in QUESTIONS]
    base = make(f"hf:{base_folder}?device=cpu&batch=4")
    assert isinstance(base, HfBaseModel)
    assert base.deviations()
    replies = texts(base.completion(requests))
    chats = make(f"hf:{base_folder}?device=cpu&kind=completion")
    assert texts(chats.completion(requests)) == replies
    tokenizer, network = loaded(base_folder)
    assert replies[1] == continued(network, tokenizer, requests[1].text, 9)
    assert kinds_of(make(f"hf:{folder}?kind=completion")) == {"completion", "likelihood"}


def test_options_that_cannot_be_scored(base_folder: Path) -> None:
    """A text without tokens and one that is too long are errors of their requests only."""
    base = make(f"hf:{base_folder}?device=cpu")
    requests = [Likelihood("", (" A",)), Likelihood("ok", (" A", " B")), Likelihood("x" * 300, (" A",))]
    first, second, third = base.likelihood(requests)
    assert "no token before it" in first.message
    assert len(second.value["options"]) == 2
    assert "the model takes 256" in third.message


def save_adapter(base: Path, folder: Path) -> list[str]:
    """Save an adapter with random weights; return the replies of peft's own network to the questions."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(2)
    network: Any = AutoModelForCausalLM.from_pretrained(base, dtype="float32")
    config = peft.LoraConfig(
        task_type="CAUSAL_LM", r=4, lora_alpha=64, target_modules="all-linear", init_lora_weights=False
    )
    adapted: Any = peft.get_peft_model(network, config).eval()
    adapted.save_pretrained(folder, save_embedding_layers=False)
    tokenizer = AutoTokenizer.from_pretrained(base)
    prompts = [f"<s>user: {request.messages[0].content}\nassistant: " for request in asked()]
    return [continued(adapted, tokenizer, prompt, 9, add_special_tokens=False) for prompt in prompts]


@needs("peft", extra="research")
def test_a_folder_with_an_adapter(folder: Path, tmp_path: Path, model: Any) -> None:
    """The base with its adapter replies as peft's own network does; its identity has the files of both."""
    expected = save_adapter(folder, tmp_path / "adapter")
    spec = f"hf:{tmp_path / 'adapter'}?batch=4&device=cpu"
    assert kinds_of(make(spec)) == {"chat", "likelihood"}
    adapted = make(spec)
    assert texts(adapted.chat(asked())) == expected != reference(folder, asked())
    assert adapted.identity["files_sha256"] == model.identity["files_sha256"]
    first = adapted.identity["adapter_sha256"]
    save_adapter(folder, tmp_path / "other")
    (tmp_path / "other" / "adapter_config.json").write_text(
        (tmp_path / "other" / "adapter_config.json").read_text().replace('"r": 4', '"r": 5')
    )
    assert make(f"hf:{tmp_path / 'other'}?device=cpu").identity["adapter_sha256"] != first


def test_an_adapter_that_cannot_be_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without peft, with a damaged file, without a base, and with one that is missing, one line says why."""
    file = tmp_path / "adapter" / "adapter_config.json"
    file.parent.mkdir()
    spec = f"hf:{file.parent}?device=cpu"
    file.write_text(json.dumps({"base_model_name_or_path": str(folder)}))
    with monkeypatch.context() as patch:
        hide(patch, "peft")
        with pytest.raises(MissingExtra, match="needs the package 'peft': pip install 'pytest-llmprops"):
            make(spec)
    hide(monkeypatch)
    for text, said in (
        ("{", "adapter_config.json cannot be read"),
        ("{}", "adapter_config.json does not name a base; give a folder saved by peft"),
        (json.dumps({"base_model_name_or_path": str(file.parent)}), "does not name a base"),
        (json.dumps({"base_model_name_or_path": str(tmp_path / "none")}), "no such folder: .*none"),
    ):
        file.write_text(text)
        refuse(spec, said)
