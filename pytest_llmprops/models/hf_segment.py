"""Word segmentation by a token classifier of the transformers library that labels characters."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Reply, Segment, Usage
from pytest_llmprops.core.segmentation import with_whitespace
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.hf_encoder import WORD_START, HfEncoder, Row
from pytest_llmprops.models.hf_sentiment import labels_of

# Begin, single (also written unit) and outside start a word; end (also last), single and outside end one.
_STARTS = frozenset("BSUO")
_ENDS = frozenset("ESULO")
_KNOWN = frozenset("BMESIOLU")
_INSIDE = frozenset("IMEL")
#: a text without words of its own, to see which special tokens a tokenizer puts around one
_PROBE = "的"


def label_letters(config: Mapping[str, Any]) -> str:
    """The letter B, M, E, S, I or O (also L and U) of each label of a token classifier, by index.

    A label is a letter, in any case, alone or with something that a hyphen or underscore splits off:
    ``B``, ``b-NOUN``, ``NOUN_B``.

    :param config: the model's ``config.json``.
    :raises UsageError: for labels that are something else, or that cannot say where a word begins.
    """
    labels = labels_of(config)
    letters = [_letter(label) for label in labels]
    if all(letters) and "B" in letters and _INSIDE & set(letters):
        return "".join(letters)
    names = ", ".join(labels[:8]) + (" …" if len(labels) > 8 else "")
    raise UsageError(
        f"its labels ({names}) are not understood; a segmenter labels characters with B, M, E, S or B, I(, O),"
        " named so in id2label of config.json"
    )


def _letter(label: str) -> str:
    for part in (label, *re.split(r"[-_]", label)):
        if part.strip().upper() in _KNOWN:
            return part.strip().upper()
    return ""


def cut_by_labels(text: str, letters: Sequence[str]) -> list[str]:
    """The words of ``text`` by one letter a character.

    A boundary stands before a character that starts a word and after one that ends one, whatever the
    order of the letters, which a classifier need not keep consistent.
    """
    words: list[str] = []
    start = 0
    for place in range(1, len(text)):
        if letters[place] in _STARTS or letters[place - 1] in _ENDS:
            words.append(text[start:place])
            start = place
    return [*words, text[start:]] if text else words


class HfSegmentModel(HfEncoder):
    """A token classifier that labels characters, such as a BERT of Chinese trained on segmented text.

    Each character is put to the tokenizer on its own, so that no two share a token; one of several tokens
    has its first token's label, one that the tokenizer has nothing for is its unknown token. Whitespace is
    not shown to the model and is a word of its own.

    :param letters: what :func:`label_letters` gives.
    """

    def __init__(self, load: Callable[[], tuple[Any, Any]], *, letters: str, **settings: Any) -> None:
        super().__init__(load, **settings)
        self._letters = letters
        self._tokens: dict[str, Row] = {}
        self._around: tuple[Row, Row] = ([], [])

    def segment(self, requests: Sequence[Segment]) -> Sequence[Result]:
        """One reply a request, in order; ``value`` is the list of words."""
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
                        row, first = self._row(text)
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
            for (index, row), first, text, found in zip(rows.items(), firsts, texts, labels, strict=True):
                words = cut_by_labels(text, [self._letters[found[k]] for k in first])
                results[index] = Reply(
                    value=with_whitespace(words, requests[index].text),
                    served_model=self._name,
                    usage=Usage(len(row), 0),
                    seconds=seconds,
                )
            return [results[i] for i in range(len(requests))]

    def _loaded(self) -> bool:
        if not super()._loaded():
            return False
        self._tokens.clear()
        self._around = self._special()
        return True

    def _special(self) -> tuple[Row, Row]:
        """The special tokens before and after a text."""
        bare = self._encoded(_PROBE, special=False)
        full = self._encoded(_PROBE, special=True)
        for start in range(len(full) - len(bare) + 1):
            if full[start : start + len(bare)] == bare:
                return full[:start], full[start + len(bare) :]
        raise BackendError(
            f"{self._name}: its tokenizer changes a text's tokens when it adds special ones",
            kind="model",
            fatal=True,
        )

    def _encoded(self, text: str, *, special: bool) -> Row:
        try:
            return [int(i) for i in self._tokenizer(text, add_special_tokens=special)["input_ids"]]
        except Exception as error:
            line = " ".join(str(error).split())[:300]
            raise BackendError(f"{self._name}: the tokenizer fails: {line}", kind="request") from None

    def _of_character(self, character: str) -> Row:
        """The tokens of one character, at least one."""
        tokens = self._tokens.get(character)
        if tokens is None:
            tokens = self._encoded(character, special=False)
            if len(tokens) > 1 and self._tokenizer.convert_ids_to_tokens(tokens[0]) == WORD_START:
                tokens = tokens[1:]
            if not tokens:
                unknown = self._tokenizer.unk_token_id
                if unknown is None:
                    raise BackendError(
                        f"{self._name}: the tokenizer drops {character!r} and has no unknown token",
                        kind="request",
                    )
                tokens = [int(unknown)]
            self._tokens[character] = tokens
        return tokens

    def _row(self, text: str) -> tuple[Row, list[int]]:
        """The tokens of a text with the special ones, and where each character's first token stands."""
        if not text:
            raise BackendError(f"{self._name}: the text is empty", kind="request")
        before, after = self._around
        row, first = list(before), []
        for character in text:
            first.append(len(row))
            row += self._of_character(character)
        row += after
        self._check_length(len(row))
        return row, first

    def _best(self, logits: Any, indices: list[int]) -> list[list[int]]:
        """The most probable label of every token."""
        if logits.ndim != 3 or logits.shape[-1] != len(self._letters):
            shape = "x".join(map(str, logits.shape))
            raise BackendError(
                f"{self._name}: gives {shape} numbers, not {len(self._letters)} a token", kind="model"
            )
        if not logits.isfinite().all():
            raise BackendError(f"{self._name}: gives values that are no numbers", kind="model")
        labels: list[list[int]] = logits.argmax(-1).tolist()
        return labels
