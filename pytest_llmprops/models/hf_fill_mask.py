"""Probabilities of candidate words for a blank, from a masked language model of the transformers library."""

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
    """One row to evaluate, and for each score the (position, token) pairs whose log probabilities are summed."""

    row: Row
    scores: tuple[tuple[tuple[int, int], ...], ...]


class HfFillMaskModel(HfEncoder):
    """A masked language model that scores candidate words.

    The first ``[MASK]`` of a text is the blank, for candidates of any number of tokens. Each further ``[MASK]``
    stays one masked token. A candidate's tokens are those of the word tokenized alone: characters for Chinese
    BERT models. Scores are natural logarithms, summed in 64 bits.
    """

    def fill_mask(self, requests: Sequence[FillMask]) -> Sequence[Result]:
        """Return one reply per request; ``Reply.value`` maps each candidate to its probability."""
        return [self._one(request) for request in requests]

    def candidate_scores(self, text: str, candidates: Sequence[str]) -> list[float]:
        """Return the log probability of each candidate in the blank.

        The blank gets as many masks as the candidate has tokens, and all are predicted at once. Candidates with
        different numbers of tokens are not comparable: longer ones are less probable.

        :raises BackendError: if the text has no blank, or a candidate has unknown characters.
        """
        with self._lock:
            self._loaded()
            left, right = self._around(text)
            tokens = [self._candidate(word) for word in candidates]
            self._check_length(len(left) + len(right) + max(map(len, tokens), default=0))
            mask = self.tokenizer.mask_token_id
            # All candidates with the same number of tokens share one row.
            asks: dict[int, _Ask] = {}
            places: list[tuple[int, int]] = []
            for word in tokens:
                row = left + [mask] * len(word) + right
                ask = asks.get(len(word), _Ask(row, ()))
                pairs = tuple((len(left) + i, token) for i, token in enumerate(word))
                places.append((len(word), len(ask.scores)))
                asks[len(word)] = _Ask(row, (*ask.scores, pairs))
            sums = dict(zip(asks, self._sums(list(asks.values())), strict=True))
            return [sums[length][i] for length, i in places]

    def context_scores(self, text: str, candidates: Sequence[str]) -> list[float]:
        """Return the sum of the surrounding tokens' log probabilities with each candidate in the blank.

        The surrounding tokens are not masked, each candidate takes one pass, and no separator follows the text, as
        in the published code of the authors of ERAS. Special tokens, further masks and the candidate itself do
        not count.

        :raises BackendError: see :meth:`candidate_scores`.
        """
        with self._lock:
            self._loaded()
            left, right = self._around(text)
            tokens = [self._candidate(word) for word in candidates]
            self._check_length(len(left) + len(right) + max(map(len, tokens), default=0))
            tokenizer = self.tokenizer
            names = ("cls", "sep", "bos", "eos", "pad", "mask")
            skipped = {getattr(tokenizer, f"{name}_token_id", None) for name in names}
            ends = {tokenizer.sep_token_id, tokenizer.eos_token_id}
            while right and right[-1] in ends:
                right = right[:-1]
            asks = []
            for word in tokens:
                row = left + word + right
                inside = range(len(left), len(left) + len(word))
                pairs = tuple((i, t) for i, t in enumerate(row) if i not in inside and t not in skipped)
                asks.append(_Ask(row, (pairs,)))
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
        """Return the tokens before and after the blank, including special tokens."""
        if MASK not in text:
            raise BackendError(f"{self._name}: the text has no {MASK} to fill", kind="request")
        if getattr(self.tokenizer, "mask_token_id", None) is None:
            raise BackendError(
                f"{self._name}: its tokenizer has no mask token; use a masked language model",
                kind="model",
                fatal=True,
            )
        ids = self._ids(text)
        place = ids.index(self.tokenizer.mask_token_id)
        return ids[:place], ids[place + 1 :]

    def _candidate(self, word: str) -> Row:
        ids = [int(i) for i in self.tokenizer(word, add_special_tokens=False)["input_ids"]]
        if not ids or self.tokenizer.unk_token_id in ids:
            raise BackendError(
                f"{self._name}: its vocabulary has no tokens for the candidate {word!r}", kind="request"
            )
        return ids

    def _sums(self, asks: Sequence[_Ask]) -> list[list[float]]:
        torch: Any = importlib.import_module("torch")

        def read(logits: Any, indices: list[int]) -> list[list[float]]:
            results = []
            for logit, index in zip(logits, indices, strict=True):
                places = sorted({place for pairs in asks[index].scores for place, _ in pairs})
                line = {place: i for i, place in enumerate(places)}
                logs = torch.log_softmax(logit[places].double(), dim=-1)
                cells = [(line[place], token) for pairs in asks[index].scores for place, token in pairs]
                rows, columns = [r for r, _ in cells], [c for _, c in cells]
                values = iter(logs[rows, columns].tolist())
                results.append([math.fsum(next(values) for _ in pairs) for pairs in asks[index].scores])
            return results

        return self._evaluate([ask.row for ask in asks], read)
