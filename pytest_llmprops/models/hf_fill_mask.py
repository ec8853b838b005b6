"""Candidate words for a blank, by a masked language model of the transformers library."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import FillMask, Reply, Usage
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.hf_encoder import MASK, HfEncoder, Row


class _Ask(NamedTuple):
    """One row to evaluate, and the (place, token) pairs whose log probabilities are summed for each score."""

    row: Row
    scores: tuple[tuple[tuple[int, int], ...], ...]


class HfFillMaskModel(HfEncoder):
    """A masked language model that scores candidate words.

    The first ``[MASK]`` of a text is the blank, however many tokens a candidate has; any further ``[MASK]``
    is one masked token and stays so. The candidates' tokens are those that the tokenizer gives the word
    alone: characters for Chinese BERT models. Scores are natural logarithms, summed in 64 bits.
    """

    def fill_mask(self, requests: Sequence[FillMask]) -> Sequence[Result]:
        """``Reply.value`` maps each candidate to its probability, one reply a request."""
        return [self._one(request) for request in requests]

    def candidate_scores(self, text: str, candidates: Sequence[str]) -> list[float]:
        """Log probability of each candidate in the blank: as many masks as it has tokens, all filled at once.

        Candidates with different numbers of tokens are not comparable: longer ones are less probable.

        :raises BackendError: for a text without a blank, a candidate with unknown characters, no candidates.
        """
        with self._lock:
            self._loaded()
            left, right = self._around(text)
            tokens = [self._candidate(word) for word in candidates]
            self._check_length(len(left) + len(right) + max(map(len, tokens), default=0))
            mask = self._tokenizer.mask_token_id
            # One row serves all candidates of a length.
            asks: dict[int, _Ask] = {}
            places: list[tuple[int, int]] = []
            for word in tokens:
                row = left + [mask] * len(word) + right
                ask = asks.get(len(word), _Ask(row, ()))
                wanted = tuple((len(left) + i, token) for i, token in enumerate(word))
                places.append((len(word), len(ask.scores)))
                asks[len(word)] = _Ask(row, (*ask.scores, wanted))
            found = dict(zip(asks, self._sums(list(asks.values())), strict=True))
            return [found[length][i] for length, i in places]

    def context_scores(self, text: str, candidates: Sequence[str]) -> list[float]:
        """Log of the product of the surrounding tokens' probabilities with each candidate in the blank.

        The surrounding tokens are read unmasked, in one pass a candidate, as the authors of ERAS fill their
        slots (their published code); special tokens, further masks and the candidate itself do not count.

        :raises BackendError: as :meth:`candidate_scores`.
        """
        with self._lock:
            self._loaded()
            left, right = self._around(text)
            tokens = [self._candidate(word) for word in candidates]
            self._check_length(len(left) + len(right) + max(map(len, tokens), default=0))
            tokenizer = self._tokenizer
            names = ("cls", "sep", "bos", "eos", "pad", "mask")
            skipped = {getattr(tokenizer, f"{name}_token_id", None) for name in names}
            asks = []
            for word in tokens:
                row = left + word + right
                inside = range(len(left), len(left) + len(word))
                wanted = tuple((i, t) for i, t in enumerate(row) if i not in inside and t not in skipped)
                asks.append(_Ask(row, (wanted,)))
            return [scores[0] for scores in self._sums(asks)]

    def _one(self, request: FillMask) -> Result:
        start = time.perf_counter()
        try:
            if not request.candidates:
                raise BackendError(f"{self._name}: the request names no candidates", kind="request")
            scores = self.candidate_scores(request.text, request.candidates)
        except BackendError as error:
            return error
        return Reply(
            value={word: math.exp(score) for word, score in zip(request.candidates, scores, strict=True)},
            served_model=self._name,
            usage=Usage(len(request.text), 0),
            seconds=time.perf_counter() - start,
        )

    def _around(self, text: str) -> tuple[Row, Row]:
        """The tokens before and after the blank, special ones included."""
        if MASK not in text:
            raise BackendError(f"{self._name}: the text has no {MASK} to be filled", kind="request")
        if getattr(self._tokenizer, "mask_token_id", None) is None:
            raise BackendError(
                f"{self._name}: its tokenizer has no mask token; use a masked language model",
                kind="model",
                fatal=True,
            )
        ids = self._ids(text)
        place = ids.index(self._tokenizer.mask_token_id)
        return ids[:place], ids[place + 1 :]

    def _candidate(self, word: str) -> Row:
        ids = [int(i) for i in self._tokenizer(word, add_special_tokens=False)["input_ids"]]
        if not ids or self._tokenizer.unk_token_id in ids:
            raise BackendError(
                f"{self._name}: its vocabulary has no tokens for the candidate {word!r}", kind="request"
            )
        return ids

    def _sums(self, asks: Sequence[_Ask]) -> list[list[float]]:
        torch: Any = importlib.import_module("torch")

        def read(logits: Any, indices: list[int]) -> list[list[float]]:
            results = []
            for logit, index in zip(logits, indices, strict=True):
                places = sorted({place for wanted in asks[index].scores for place, _ in wanted})
                line = {place: i for i, place in enumerate(places)}
                logs = torch.log_softmax(logit[places].double(), dim=-1)
                pairs = [(line[place], token) for wanted in asks[index].scores for place, token in wanted]
                rows, columns = [r for r, _ in pairs], [c for _, c in pairs]
                values = iter(logs[rows, columns].tolist())
                results.append([math.fsum(next(values) for _ in wanted) for wanted in asks[index].scores])
            return results

        return self._evaluate([ask.row for ask in asks], read)
