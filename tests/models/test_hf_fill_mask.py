"""Masked language models through ``hf:``: multi-token candidates, and the probability of the context."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.requests import FillMask
from pytest_llmprops.models.base import kinds_of
from tests.support.backends import LIBRARIES, error, make, needs, values
from tests.support.sentiment_models import config_of, tokenizer_of

pytestmark = [LIBRARIES, needs("torch", "transformers", extra="hf")]
CHARACTERS = list("学生留心机处理友人计谋意动的老师")
TEXT = "[MASK]留心机动的[MASK][MASK]"
CANDIDATES = ("学生", "人", "老师", "友人")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from transformers import BertForMaskedLM

    torch.manual_seed(5)
    saved = tmp_path_factory.mktemp("masked")
    tokenizer = tokenizer_of(CHARACTERS, longest=16)
    BertForMaskedLM(config_of(len(tokenizer), initializer_range=0.5)).save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    return saved


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[Any]:
    masked = make(f"hf:{folder}?batch=2&device=cpu")
    yield masked
    masked.close()


def log_probabilities(folder: Path, text: str, *, separator: bool = True) -> tuple[list[int], Any]:
    """Return (tokens, log probabilities of all tokens at each position) computed by the library.

    :param separator: Whether the text is followed by ``[SEP]``.
    """
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    loaded = AutoModelForMaskedLM.from_pretrained(folder).eval()
    row = tokenizer(text, return_tensors="pt")
    if not separator:
        row = {name: values[:, :-1] for name, values in row.items()}
    with torch.inference_mode():
        return row["input_ids"][0].tolist(), loaded(**row).logits[0].double().log_softmax(-1)


def test_candidates_of_several_characters(folder: Path, model: Any) -> None:
    """A candidate's probability is the product over one mask per character, all predicted at once."""
    assert kinds_of(model) == {"fill-mask"}
    [probabilities] = values(model.fill_mask([FillMask(TEXT, CANDIDATES)]))
    assert list(probabilities) == list(CANDIDATES)
    for word, probability in probabilities.items():
        _, logs = log_probabilities(folder, "[MASK]" * len(word) + TEXT.removeprefix("[MASK]"))
        expected = sum(float(logs[1 + i, 5 + CHARACTERS.index(c)]) for i, c in enumerate(word))
        assert probability == pytest.approx(math.exp(expected), rel=1e-4)
    assert len({round(math.log(p), 4) for p in probabilities.values()}) == len(CANDIDATES)


@pytest.mark.parametrize(("text", "words"), [(TEXT, CANDIDATES), ("老师[MASK]心机", ("留",))])
def test_context_scores(text: str, words: tuple[str, ...], folder: Path, model: Any) -> None:
    """The score sums over the characters around the blank, without candidate, masks and special tokens."""
    blank, count = text.index("[MASK]"), len(text.replace("[MASK]", ""))
    for word, score in zip(words, model.context_scores(text, words), strict=True):
        ids, logs = log_probabilities(folder, text.replace("[MASK]", word, 1), separator=False)
        places = [1 + i + (len(word) if i >= blank else 0) for i in range(count)]
        assert score == pytest.approx(sum(float(logs[i, ids[i]]) for i in places), abs=1e-4)
    # Without any, it is one, the empty product.
    assert model.context_scores("[MASK]", ["人", "学生"]) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "candidates", "says"),
    [
        ("学生留心", ("人",), r"no \[MASK\]"),
        ("[MASK]留心", (), "names no candidates"),
        ("[MASK]留心", ("人", "猫"), "'猫'"),
        ("[MASK]" + "人" * 14, ("人",), "17 tokens, the model takes 16"),
    ],
)
def test_bad_requests_do_not_affect_the_others(
    model: Any, text: str, candidates: tuple[str, ...], says: str
) -> None:
    """A request that cannot be scored is a one-line error; the others are scored."""
    bad, good = model.fill_mask([FillMask(text, candidates), FillMask("[MASK]", ("人",))])
    assert re.search(says, error(bad).message)
    assert list(good.value) == ["人"]
