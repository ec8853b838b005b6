"""Word segmentation with a transformers token classifier that labels characters."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Reply, Segment, Usage
from pytest_llmprops.core.segmentation import with_whitespace
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.character_tokens import CharacterTokens
from pytest_llmprops.models.hf_encoder import HfEncoder, Row
from pytest_llmprops.models.hf_sentiment import labels_of

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


class HfSegmentModel(HfEncoder):
    """A token classifier that labels characters, such as a Chinese BERT trained on segmented text.

    Each character is tokenized separately (:class:`~pytest_llmprops.models.character_tokens.CharacterTokens`). A
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
        with self._lock:
            start = time.perf_counter()
            results: dict[int, Result] = {}
            rows: dict[int, Row] = {}
            firsts: list[list[int]] = []
            texts: list[str] = []
            try:
                self._loaded()
                for index, request in enumerate(requests):
                    text = "".join(request.text.split())
                    try:
                        row, first = self.row(text)
                    except BackendError as error:
                        results[index] = error
                        continue
                    rows[index] = row
                    firsts.append(first)
                    texts.append(text)
                labels = self._evaluate(list(rows.values()), self._best)
            except BackendError as error:
                return [results.get(i, error) for i in range(len(requests))]
            seconds = (time.perf_counter() - start) / max(len(rows), 1)
            for (index, row), first, text, best in zip(rows.items(), firsts, texts, labels, strict=True):
                words = cut_by_labels(text, [self._letters[best[k]] for k in first])
                results[index] = Reply(
                    value=with_whitespace(words, requests[index].text),
                    served_model=self._name,
                    usage=Usage(len(row), 0),
                    seconds=seconds,
                )
            return [results[i] for i in range(len(requests))]

    def prepare(self) -> None:
        """Load the model, which :attr:`characters` and :attr:`longest` need.

        :raises BackendError: if it cannot be loaded.
        """
        with self._lock:
            self._loaded()

    @property
    def longest(self) -> int:
        """The maximum number of tokens of a text, including special tokens."""
        return self._longest

    def _loaded(self) -> bool:
        if not super()._loaded():
            return False
        # Set by `llmprops eras train segmenter`, which trains on folded characters.
        fold = bool(getattr(self.network.config, "fold_width", False))
        self.characters = CharacterTokens(self.tokenizer, name=self._name, fold=fold)
        return True

    def row(self, text: str) -> tuple[Row, list[int]]:
        """Return the tokens of a text with special tokens, and the index of each character's first token."""
        row, first = self.characters.row(text)
        self._check_length(len(row))
        return row, first

    def outputs(self, ids: Any, mask: Any) -> Any:
        """Return the logits; of a network with a ``decode`` method (a CRF), 1 for the labels it chooses."""
        decode = getattr(self.network, "decode", None)
        return super().outputs(ids, mask) if decode is None else decode(ids, mask)

    def _best(self, logits: Any, indices: list[int]) -> list[list[int]]:
        """Return the most probable label of each token."""
        if logits.ndim != 3 or logits.shape[-1] != len(self._letters):
            shape = "x".join(map(str, logits.shape))
            raise BackendError(
                f"{self._name}: returns {shape} numbers, not {len(self._letters)} per token", kind="model"
            )
        if not logits.isfinite().all():
            raise BackendError(f"{self._name}: returns values that are not numbers", kind="model")
        labels: list[list[int]] = logits.argmax(-1).tolist()
        return labels
