"""Binary classifiers through ``hf:``: trained weights end to end, labels, masks, lengths, precision."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Sentiment
from pytest_llmprops.models.hf.classifiers import positive_index, probability
from tests.support.backends import LIBRARIES, error, fatal, make, needs, refuse, reply, values
from tests.support.sentiment_models import config_of, tokenizer_of

pytestmark = [LIBRARIES, needs("torch", "transformers", extra="hf")]
CHARACTERS = list("学生留心机处理友人计谋意动的好坏书很不")
TEXTS = ["很好", "学生留心机处理友人", "不好", "学生留[MASK]机动的友人", "坏", "很不好的书很不好的书"]


def ask(model: Any, *texts: str) -> list[Any]:
    return list(model.sentiment([Sentiment(text) for text in texts]))


def save_classifier(folder: Path, *, mask: bool = True, **config: Any) -> Path:
    """Save a classifier with random weights, large enough that its logits differ clearly."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(3)
    tokenizer = tokenizer_of(CHARACTERS, mask=mask, longest=16)
    settings = {"initializer_range": 0.5, **config}
    BertForSequenceClassification(config_of(len(tokenizer), **settings)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[Any]:
    classifier = make(f"hf:{folder}?batch=2&device=cpu")
    yield classifier
    classifier.close()


def reference(folder: Path, text: str) -> Any:
    """Return the library's own logits of one text alone."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    loaded = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return loaded(**tokenizer(text, return_tensors="pt")).logits[0].double()


def test_batches_give_what_single_texts_give(folder: Path, model: Any) -> None:
    """Sorting and padding change only rounding, and replies keep the order of the requests."""
    scores = values(ask(model, *TEXTS))
    for text, score in zip(TEXTS, scores, strict=True):
        negative, positive = reference(folder, text).tolist()
        assert score["log_odds"] == pytest.approx(positive - negative, abs=1e-4)
        assert score["positive"] == pytest.approx(probability(positive - negative), abs=1e-5)
    assert len({round(score["log_odds"], 4) for score in scores}) == len(TEXTS)


def with_bias(saved: Path, bias: Any) -> Path:
    """Change the bias of a saved classifier."""
    import torch
    from transformers import AutoModelForSequenceClassification

    loaded = AutoModelForSequenceClassification.from_pretrained(saved)
    with torch.no_grad():
        loaded.classifier.bias[:] = torch.tensor(bias)
    loaded.save_pretrained(saved)
    return saved


def test_extreme_numbers(tmp_path: Path) -> None:
    """If both probabilities are 1.0, the log odds still differ; a NaN from the model is an error."""
    saved = save_classifier(tmp_path)
    first, second = values(ask(make(f"hf:{with_bias(saved, [-100.0, 100.0])}"), "很好", "不好"))
    assert first["positive"] == second["positive"] == 1.0
    assert first["log_odds"] != second["log_odds"]
    error(ask(make(f"hf:{with_bias(saved, float('nan'))}"), "很好")[0], "not a number")


def test_single_logit_is_a_sigmoid(tmp_path: Path) -> None:
    """A model with one output gives its sigmoid."""
    saved = save_classifier(tmp_path, num_labels=1)
    [score] = values(ask(make(f"hf:{saved}"), "很好"))
    [logit] = reference(saved, "很好").tolist()
    assert score["log_odds"] == pytest.approx(logit, abs=1e-5)
    assert score["positive"] == pytest.approx(probability(logit))


def test_positive_label_negates_the_scores(folder: Path) -> None:
    """Choosing the other class as positive negates the log odds and changes the identity."""
    one, other = make(f"hf:{folder}"), make(f"hf:{folder}?positive_label=LABEL_0")
    [a], [b] = ask(one, "很好"), ask(other, "很好")
    assert a.value["log_odds"] == pytest.approx(-b.value["log_odds"])
    assert one.identity != other.identity


def test_mask_is_the_models_own(tmp_path: Path, model: Any) -> None:
    """[MASK] becomes the model's mask token; a model without one asks for a substitute, which is then used."""
    [masked] = ask(model, "很[MASK]")
    assert reply(masked).usage.prompt_tokens == 4
    without_mask = save_classifier(tmp_path, mask=False)
    fatal(ask(make(f"hf:{without_mask}"), "很[MASK]")[0], "no mask token", "?mask=")
    substituted = values(ask(make(f"hf:{without_mask}?mask=人"), "很[MASK]"))
    assert substituted == values(ask(make(f"hf:{without_mask}"), "很人"))


def test_bad_texts_do_not_affect_the_others(model: Any) -> None:
    """A text that is overlong, empty or mostly of unknown tokens is an error, and never cut; the others are scored."""
    half = "学生留心机友天地玄黄"
    long, empty, mostly, longest, *others = ask(
        model, "好" * 15, " ", "学生天地玄黄宇宙", "好" * 14, half, "天地"
    )
    error(long, "17 tokens, the model takes 16")
    error(empty, "empty")
    assert error(mostly).message.endswith(
        "6 of the text's 10 tokens are unknown to its tokenizer; give a model for the language and script of the text"
    )
    assert reply(longest).usage.prompt_tokens == 16
    assert len([reply(other) for other in others]) == 2


def test_unknown_labels_are_refused_before_loading(tmp_path: Path) -> None:
    """The error names the labels and the parameter; other kinds refuse the parameter."""
    config = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "甲", "1": "乙"}}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    refuse(f"hf:{tmp_path}", "'甲' and '乙'.*positive_label=")
    make(f"hf:{tmp_path}?positive_label=乙")
    refuse(f"hf:{tmp_path}?positive_label=乙&kind=fill-mask", "parameter of kind=sentiment")


def labels(*names: str, **more: Any) -> dict[str, Any]:
    return {"id2label": {str(i): name for i, name in enumerate(names)}, **more}


@pytest.mark.parametrize(
    ("config", "stated", "index"),
    [
        ({}, None, 1),
        (labels("POS", "NEG"), None, 0),
        (labels("1", "0"), None, 0),
        ({"num_labels": 1}, None, 0),
        (labels("甲", "乙"), "乙", 1),
        (labels("1", "0"), "0", 1),
    ],
)
def test_positive_class(config: dict[str, Any], stated: str | None, index: int) -> None:
    """The positive class follows from the class names or the user's setting (name before index)."""
    assert positive_index(config, stated) == index


@pytest.mark.parametrize(
    ("config", "stated", "says"),
    [
        (labels("a", "b"), None, "positive_label="),
        (labels("negative", "neutral", "positive"), None, "3 classes"),
        (labels("a", "b"), "c", "0 (a), 1 (b)"),
        (labels("LABEL_0", problem_type="regression"), None, "regression"),
        ({"id2label": {"0": "a", "2": "b"}}, None, "id2label"),
    ],
)
def test_unknown_labels_are_refused(config: dict[str, Any], stated: str | None, says: str) -> None:
    """Any other labels are a one-line error."""
    with pytest.raises(UsageError, match=re.escape(says)):
        positive_index(config, stated)


def test_probability_does_not_overflow() -> None:
    """Log odds of any size have a probability."""
    assert [probability(x) for x in (-2000.0, 0.0, 2000.0)] == [0.0, 0.5, 1.0]
    assert 1 - probability(30.0) == pytest.approx(probability(-30.0), rel=1e-2)
