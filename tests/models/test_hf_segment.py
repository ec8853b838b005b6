"""Token classifiers that segment: labels, alignment of characters, batches, invalid input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.core.requests import Segment
from pytest_llmprops.models.hf.classifiers import cut_by_labels, label_letters
from tests.support.backends import LIBRARIES, error, make, needs, refuse, reply, values
from tests.support.sentiment_models import config_of

pytestmark = [LIBRARIES, needs("torch", "transformers", extra="hf")]
CHARACTERS = "学生留心机动的书老师有信可以进攻。"
TEXTS = ["学生留心机动的书。", "老师", "有信心机动的老师可以进攻学生的书。", "书", "可以进攻"]


def save_model(folder: Path, labels: tuple[str, ...] = ("B", "M", "E", "S"), *, positions: int = 64) -> Path:
    """Save a small BERT with random weights and a vocabulary of characters, as transformers does."""
    import torch
    from transformers import BertForTokenClassification, BertTokenizer

    torch.manual_seed(2)
    folder.mkdir()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *CHARACTERS, "ab", "##c", "a", "b", "c"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    config = config_of(
        len(tokens),
        layers=2,
        width=32,
        max_position_embeddings=positions,
        initializer_range=0.5,  # makes the logits of random weights differ clearly
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
    )
    BertForTokenClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("hf") / "tiny")


def words(model: Any, *texts: str) -> list[list[str]]:
    return values(model.segment([Segment(text) for text in texts]))


def by_hand(folder: Path, text: str) -> list[str]:
    """Return the words of one sentence, computed with the library directly from the labels B, M, E, S."""
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForTokenClassification.from_pretrained(folder).eval()
    ids = tokenizer.convert_tokens_to_ids(["[CLS]", *text, "[SEP]"])
    with torch.no_grad():
        best = model(input_ids=torch.tensor([ids])).logits[0].argmax(-1).tolist()[1:-1]
    labels = [model.config.id2label[i] for i in best]
    marked = "".join(
        (" " if i and (labels[i] in "BS" or labels[i - 1] in "ES") else "") + c for i, c in enumerate(text)
    )
    return marked.split(" ")


def test_words_are_those_of_the_model(folder: Path) -> None:
    """The words are the same in batches of any size as for each sentence alone."""
    expected = [by_hand(folder, text) for text in TEXTS]
    assert len({len(words_cut) for words_cut in expected}) > 1
    for batch in (1, 2, 8):
        assert words(make(f"hf:{folder}?device=cpu&batch={batch}"), *TEXTS) == expected


def test_every_character_is_kept(folder: Path) -> None:
    """Whitespace and characters that the tokenizer drops, joins or does not know are preserved."""
    texts = ["学生 abc 的", "\t老师\u3000有书", "学\u200b生", "a\x00书", "𠮷abab", "É学\u0301生", " 书 "]
    assert ["".join(words_cut) for words_cut in words(make(f"hf:{folder}?device=cpu"), *texts)] == texts


def test_dropped_character_has_a_token(folder: Path) -> None:
    """A character that the tokenizer drops gets the unknown token, or is an error if there is no such token."""
    segmenter = make(f"hf:{folder}?device=cpu")
    assert words(segmenter, "学生")
    row, first = segmenter.row("学\u200b生")
    assert (len(row), first, row[2]) == (5, [1, 2, 3], segmenter.tokenizer.unk_token_id)
    segmenter.tokenizer.unk_token = None
    segmenter.characters.tokens_of.clear()
    dropped, served = segmenter.segment([Segment("学\u200b生"), Segment("学生")])
    error(dropped, "drops '\\u200b' and has no unknown token")
    assert reply(served)


def test_slow_tokenizers_and_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokenizers that mark the start of a word, or split a character into several tokens, are aligned."""
    segmenter = make(f"hf:{folder}?device=cpu")
    expected = words(segmenter, *TEXTS)
    inner = segmenter.tokenizer

    class Marked:
        """Like SentencePiece: a mark before every word (token 4), and two tokens for one character."""

        pad_token_id, unk_token_id, model_max_length = 0, 1, 512

        def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
            ids = inner(text, add_special_tokens=False)["input_ids"]
            ids = [4, *ids, *([4] if text == "书" else [])]
            return {"input_ids": [2, *ids, 3] if add_special_tokens else ids}

        def convert_ids_to_tokens(self, token: int) -> str:
            return "\u2581" if token == 4 else str(inner.convert_ids_to_tokens(token))

    segmenter = make(f"hf:{folder}?device=cpu")
    monkeypatch.setattr(segmenter, "load", lambda load=segmenter.load: (load()[0], Marked()))
    cuts = words(segmenter, *TEXTS)
    assert [f for f, t in zip(cuts, TEXTS, strict=True) if "书" not in t] == [
        f for f, t in zip(expected, TEXTS, strict=True) if "书" not in t
    ]
    assert ["".join(f) for f in cuts] == TEXTS
    row, first = segmenter.row("的书师")
    assert len(row) == 2 + 3 + 1
    assert first == [1, 2, 4]


def test_bad_sentences_do_not_affect_the_others(tmp_path: Path) -> None:
    """An empty sentence and an overlong one are errors; the others are served."""
    segmenter = make(f"hf:{save_model(tmp_path / 'short', positions=16)}?device=cpu")
    sentences = [Segment(text) for text in ("学生", " ", "书" * 15, "书" * 14)]
    first, empty, long, last = segmenter.segment(sentences)
    assert values([first, last])
    error(empty, "empty")
    assert not error(long, "17 tokens, the model takes 16").fatal
    segmenter.close()
    error(segmenter.segment(sentences)[0], "closed")


@pytest.mark.parametrize(
    ("labels", "letters"),
    [
        (("O", "B-X", "I-X"), "OBI"),
        (("NOUN_B", "noun_i", "VERB_B", "verb_i"), "BIBI"),
    ],
)
def test_known_labels(labels: tuple[str, ...], letters: str) -> None:
    """Labels are letters in any case, alone or separated by a hyphen or underscore."""
    assert label_letters({"id2label": {str(i): label for i, label in enumerate(labels)}}) == letters


@pytest.mark.parametrize("labels", [("B", "E", "X"), ("B", "S"), None])
def test_unknown_labels_are_refused(labels: tuple[str, ...] | None, tmp_path: Path) -> None:
    """Other labels are refused before weights are read, in one line that names them."""
    config: dict[str, Any] = {"architectures": ["BertForTokenClassification"]}
    if labels is not None:
        config["id2label"] = dict(enumerate(labels))
    (tmp_path / "config.json").write_text(json.dumps(config))
    names = ", ".join(labels or ("LABEL_0", "LABEL_1"))
    refuse(f"hf:{tmp_path}", rf"labels \({names}\) are not recognised; .*B, M, E, S")


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("BMES", ["甲乙丙", "丁"]),
        ("SSBE", ["甲", "乙", "丙丁"]),
        ("OBIO", ["甲", "乙丙", "丁"]),
        # Label orders that are not valid segmentations.
        ("EMES", ["甲", "乙丙", "丁"]),
    ],
)
def test_words_by_labels(letters: str, expected: list[str]) -> None:
    """There is a boundary before a label that starts a word and after one that ends a word."""
    assert cut_by_labels("甲乙丙丁", letters) == expected
