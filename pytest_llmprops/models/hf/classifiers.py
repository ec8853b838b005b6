"""Encoders with a classifier: segmenters and sentiment classifiers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Reply, Segment, Sentiment, Usage
from pytest_llmprops.core.segmentation import with_whitespace
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.hf.encoder import CharacterTokens, HfEncoder, Row

# Class names that classifiers of Chinese and English reviews use.
_POSITIVE = re.compile(r"(positive|pos|1|\+|正面|正向|正|积极|积极的|好评|喜欢)(\s*\(.*\))?")
_NEGATIVE = re.compile(r"(negative|neg|0|-1|-|负面|负向|负|消极|消极的|差评|不喜欢)(\s*\(.*\))?")


def labels_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the class names of a ``config.json`` by index; LABEL_0, LABEL_1, ... if it has none.

    :raises UsageError: if ``id2label`` does not map 0, 1, 2, ... to names.
    """
    stated = config.get("id2label")
    if stated is None:
        count = config.get("num_labels", config.get("_num_labels", 2))
        return tuple(f"LABEL_{i}" for i in range(int(count)))
    try:
        named = {int(index): str(label) for index, label in stated.items()}
        return tuple(named[i] for i in range(len(named)))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UsageError("id2label in config.json must map 0, 1, ... to the names of the classes") from None


def positive_index(config: Mapping[str, Any], stated: str | None = None) -> int:
    """Return the index of the positive class; 0 for a model with a single output.

    :param config: The model's ``config.json``.
    :param stated: The positive class's name or index from the user. Without it, the class names must be
        recognisable (positive/negative, LABEL_1/LABEL_0, ...).
    :raises UsageError: if the model is not binary or its class names are not recognised.
    """
    labels = labels_of(config)
    if config.get("problem_type") == "regression":
        raise UsageError("it is a regression model, not a classifier; sentiment needs a binary classifier")
    if len(labels) not in (1, 2):
        names = ", ".join(labels[:8])
        raise UsageError(f"it has {len(labels)} classes ({names}); sentiment needs a binary classifier")
    if stated is not None:
        return _stated_index(labels, stated)
    if len(labels) == 1:
        return 0
    plain = tuple(label.strip().casefold().removeprefix("label_") for label in labels)
    for index, other in ((1, 0), (0, 1)):
        if _POSITIVE.fullmatch(plain[index]) and _NEGATIVE.fullmatch(plain[other]):
            return index
    raise UsageError(
        f"its classes {labels[0]!r} and {labels[1]!r} do not say which is the positive one;"
        " add positive_label=NAME or positive_label=0|1"
    )


def _stated_index(labels: Sequence[str], stated: str) -> int:
    folded = [label.casefold() for label in labels]
    if folded.count(stated.casefold()) == 1:
        return folded.index(stated.casefold())
    if stated.isdecimal() and int(stated) < len(labels):
        return int(stated)
    known = ", ".join(f"{i} ({label})" for i, label in enumerate(labels))
    raise UsageError(f"positive_label={stated} is not one of its classes: {known}")


def probability(log_odds: float) -> float:
    """Return the probability for natural log odds, without overflow."""
    if log_odds >= 0:
        return 1 / (1 + math.exp(-log_odds))
    return math.exp(log_odds) / (1 + math.exp(log_odds))


#: Texts with fewer tokens are not checked for unknown ones.
_LEAST_CHECKED = 8


class HfSentimentModel(HfEncoder):
    """A binary classifier with two logits, or with one logit for the positive class.

    ``Reply.value`` is ``{"positive": p, "log_odds": x}`` with x = ln(p / (1 - p)), computed in 64 bits from the
    logits: close to 0 or 1, p can no longer order two sentences, but x can. ``[MASK]`` in a text is replaced
    by the model's own mask token. A text that is too long for the model is an error, and so is one whose tokens are
    mostly unknown.

    :param positive: Index of the positive class, from :func:`positive_index`.
    """

    def __init__(self, load: Callable[[], tuple[Any, Any]], *, positive: int, **settings: Any) -> None:
        super().__init__(load, **settings)
        self._positive = positive

    def sentiment(self, requests: Sequence[Sentiment]) -> Sequence[Result]:
        """Return one result per request, in order."""
        return self._served(requests, lambda request: self._known_ids(request.text), self._replies)

    def _replies(self, rows: list[Row]) -> list[Result]:
        return [
            self._reply(score, len(row))
            for row, score in zip(rows, self._evaluate(rows, self._log_odds), strict=True)
        ]

    def _known_ids(self, text: str) -> list[int]:
        """Return the token ids of a text; a text whose tokens are mostly unknown is an error.

        A model that knows no token gives every text of one length the same score, which would pass for a measurement.
        """
        ids = self._ids(text)
        unknown = 0 if self.tokenizer.unk_token_id is None else ids.count(self.tokenizer.unk_token_id)
        # A few emoji are no sign of the wrong language.
        if len(ids) >= _LEAST_CHECKED and 2 * unknown > len(ids):
            raise self._error(
                f"{unknown} of the text's {len(ids)} tokens are unknown to its tokenizer; give a model"
                " for the language and script of the text"
            )
        return ids

    def _log_odds(self, logits: Any, indices: list[int]) -> list[float]:
        wide = logits.double().cpu()
        if wide.ndim != 2 or wide.shape[1] not in (1, 2):
            shape = "x".join(map(str, wide.shape))
            raise self._error(f"returns {shape} numbers, not one or two per text", kind="model")
        if wide.shape[1] == 1:
            log_odds: list[float] = wide[:, 0].tolist()
        else:
            log_odds = (wide[:, self._positive] - wide[:, 1 - self._positive]).tolist()
        return log_odds

    def _reply(self, log_odds: float, tokens: int) -> Result:
        if not math.isfinite(log_odds):
            return self._error(f"returns {log_odds} for a text, not a number", kind="model")
        value = {"positive": probability(log_odds), "log_odds": log_odds}
        return Reply(value=value, usage=Usage(tokens, 0))


# Begin, single (or unit) and outside start a word; end (or last), single and outside end one.
_STARTS = frozenset("BSUO")
_ENDS = frozenset("ESULO")
_KNOWN = frozenset("BMESIOLU")
_INSIDE = frozenset("IMEL")


def label_letters(config: Mapping[str, Any]) -> str:
    """Return the letter B, M, E, S, I, O, L or U of each label of a token classifier, by index.

    A label is a letter in either case, alone or joined to a tag by a hyphen or underscore: ``B``, ``b-NOUN``,
    ``NOUN_B``.

    :param config: The model's ``config.json``.
    :raises UsageError: if the labels are not of this form, or cannot mark where a word begins.
    """
    labels = labels_of(config)
    letters = [_letter(label) for label in labels]
    if all(letters) and "B" in letters and _INSIDE & set(letters):
        return "".join(letters)
    names = ", ".join(labels[:8]) + (" …" if len(labels) > 8 else "")
    raise UsageError(
        f"its labels ({names}) are not recognised; a segmenter labels characters with B, M, E, S or B, I(, O)"
        " in id2label of config.json"
    )


def _letter(label: str) -> str:
    for part in (label, *re.split(r"[-_]", label)):
        if part.strip().upper() in _KNOWN:
            return part.strip().upper()
    return ""


def cut_by_labels(text: str, letters: Sequence[str]) -> list[str]:
    """Return the words of ``text``, given one letter per character.

    A boundary comes before each character that starts a word and after each that ends one. The sequence of
    letters need not be consistent: classifiers do not guarantee it.
    """
    words: list[str] = []
    start = 0
    for place in range(1, len(text)):
        if letters[place] in _STARTS or letters[place - 1] in _ENDS:
            words.append(text[start:place])
            start = place
    return [*words, text[start:]] if text else words


class _Sentence(NamedTuple):
    """A sentence, its tokens, and the index of each character's first token, without white space."""

    text: str
    ids: Row
    firsts: list[int]


class HfSegmentModel(HfEncoder):
    """A token classifier that labels characters, such as a Chinese BERT trained on segmented text.

    Each character is tokenized separately (:class:`~pytest_llmprops.models.hf.encoder.CharacterTokens`). A
    character of several tokens gets the label of its first token. Whitespace is not sent to the model and becomes a
    word. If ``config.json`` says ``"fold_width": true``, the model reads full-width digits and letters as ASCII; the
    words keep the characters of the text.

    :param letters: One letter per label, from :func:`label_letters`.
    """

    def __init__(self, load: Callable[[], tuple[Any, Any]], *, letters: str, **settings: Any) -> None:
        super().__init__(load, **settings)
        self._letters = letters
        self.characters: CharacterTokens

    def segment(self, requests: Sequence[Segment]) -> Sequence[Result]:
        """Return one reply per request, in order; ``value`` is the list of words."""

        def compute(rows: list[_Sentence]) -> list[Result]:
            labels = self._evaluate([row.ids for row in rows], self._best)
            return [self._reply(row, best) for row, best in zip(rows, labels, strict=True)]

        return self._served(requests, lambda request: self._sentence(request.text), compute)

    def _sentence(self, text: str) -> _Sentence:
        return _Sentence(text, *self.row("".join(text.split())))

    def _reply(self, row: _Sentence, labels: Sequence[int]) -> Reply:
        words = cut_by_labels("".join(row.text.split()), [self._letters[labels[i]] for i in row.firsts])
        return Reply(value=with_whitespace(words, row.text), usage=Usage(len(row.ids), 0))

    def _loaded(self) -> bool:
        if not super()._loaded():
            return False
        # Set by `llmprops lab eras train`, which trains on folded characters.
        fold = bool(getattr(self.network.config, "fold_width", False))
        self.characters = CharacterTokens(self.tokenizer, name=self._name, fold=fold)
        return True

    def row(self, text: str) -> tuple[Row, list[int]]:
        """Return the tokens of a text with special tokens, and the index of each character's first token."""
        row, first = self.characters.row(text)
        self._check_length(len(row))
        return row, first

    def _best(self, logits: Any, indices: list[int]) -> list[list[int]]:
        """Return the most probable label of each token."""
        if logits.ndim != 3 or logits.shape[-1] != len(self._letters):
            shape = "x".join(map(str, logits.shape))
            raise self._error(f"returns {shape} numbers, not {len(self._letters)} per token", kind="model")
        if not logits.isfinite().all():
            raise self._error("returns values that are not numbers", kind="model")
        labels: list[list[int]] = logits.argmax(-1).tolist()
        return labels
