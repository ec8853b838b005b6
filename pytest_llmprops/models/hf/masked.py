"""Encoders that embed texts or fill masks."""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Embed, FillMask, Reply, Usage
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.hf.encoder import MASK, WORD_START, HfEncoder, Row
from pytest_llmprops.models.hf.loading import tokenized

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Span = tuple[int, int]
_MAIN = threading.main_thread()


class _Text(NamedTuple):
    """A text's tokens, the indices in ``ids`` of the non-special ones, and the characters that these cover."""

    ids: Row
    places: list[int]
    spans: list[Span]


class HfEmbedModel(HfEncoder):
    """An encoder (BERT, XLM-R, multilingual BERT, MiniLM ...) that turns tokens into vectors.

    A text's vector is the mean over its non-special tokens; it is not normalised. A text that is too long for
    the model is an error. Vectors are 32-bit floats. They are not stored: a sentence's token vectors take
    50 kB and are computed in a few milliseconds.

    :param layer: Which hidden states to use: 0 for the embeddings, n for layer n, None for the last layer.
    """

    stored = False

    def __init__(self, load: Callable[[], tuple[Any, Any]], *, layer: int | None, **settings: Any) -> None:
        super().__init__(load, **settings)
        self._layer = layer

    def embed(self, requests: Sequence[Embed]) -> Sequence[Result]:
        """Return one result per request, in order.

        ``Reply.value`` is the text's vector. With ``tokens`` it is ``{"tokens", "spans", "vectors"}`` with one
        entry per token: its form in the vocabulary, its [start, end) in characters of the text, and its row of
        the array ``vectors`` (tokens, size).
        """

        def compute(rows: list[tuple[_Text, Embed]]) -> list[Result]:
            self._compute_alone()
            vectors = self._vectors([text for text, _ in rows])
            return [self._reply(*row, found) for row, found in zip(rows, vectors, strict=True)]

        return self._served(
            requests, lambda request: (self._text(request.text, spans=request.tokens), request), compute
        )

    def _reply(self, text: _Text, request: Embed, vectors: Vectors | BackendError) -> Result:
        if isinstance(vectors, BackendError):
            return vectors
        value = self._value(text, vectors) if request.tokens else vectors.mean(axis=0).tolist()
        return Reply(value=value, usage=Usage(len(text.ids), 0))

    def _compute_alone(self) -> None:
        """Limit torch to one thread in the broker's thread of this model; other threads keep their number.

        Sentences come in small batches, on which torch's threads spend more time waiting for each other than
        computing, especially next to pytest's workers. Bulk work (:meth:`token_vectors`) and other models use
        all threads.
        """
        torch: Any = importlib.import_module("torch")
        threads = torch.get_num_threads()
        if threads > 1 and self.network.device.type == "cpu" and threading.current_thread() is not _MAIN:
            torch.set_num_threads(1)
            # The setting belongs to this thread, but new threads start with the last value set: restore it there.
            other = threading.Thread(target=torch.set_num_threads, args=(threads,))
            other.start()
            other.join()

    def token_vectors(self, texts: Sequence[str]) -> list[tuple[list[Span], Vectors]]:
        """Return, for each text, its tokens' [start, end) in characters and their vectors (tokens, size).

        Use this for many texts in one process: they are evaluated in batches of similar length. All vectors are
        held in memory (3 KB per token for multilingual BERT), so pass a corpus in parts of a few thousand texts.

        :raises BackendError: if one of the texts cannot be embedded; the message says which one.
        """
        done: list[tuple[list[Span], Vectors]] = []
        for number, result in enumerate(self.embed([Embed(text, tokens=True) for text in texts]), 1):
            if isinstance(result, BackendError):
                message = f"text {number} of {len(texts)}: {result.message}"
                raise BackendError(message, kind=result.kind, fatal=result.fatal)
            done.append(([(start, end) for start, end in result.value["spans"]], result.value["vectors"]))
        return done

    def _text(self, text: str, *, spans: bool) -> _Text:
        if not text.strip():
            raise self._error("the text is empty")
        if spans and not getattr(self.tokenizer, "is_fast", False):
            raise self._error(
                "its tokenizer does not say which characters a token covers; token vectors need"
                " a model with a tokenizer.json (a fast tokenizer)",
                kind="model",
                fatal=True,
            )
        encoded = tokenized(
            self.tokenizer,
            text,
            self._name,
            truncation=False,
            return_special_tokens_mask=True,
            return_offsets_mapping=spans,
        )
        ids = [int(i) for i in encoded["input_ids"]]
        self._check_length(len(ids))
        places = [i for i, special in enumerate(encoded["special_tokens_mask"]) if not special]
        if not places:
            raise self._error("the text has no tokens")
        return _Text(ids, places, self._spans(text, ids, places, encoded["offset_mapping"]) if spans else [])

    def _spans(self, text: str, ids: Row, places: list[int], offsets: Sequence[Span]) -> list[Span]:
        """Return the span in ``text`` of each token at ``places``; a lone word-start mark has an empty span."""
        names = self.tokenizer.convert_ids_to_tokens([ids[i] for i in places])
        spans = []
        for name, place in zip(names, places, strict=True):
            start, end = _without_space(text, *offsets[place])
            # The library reports that a lone word-start mark covers the next character.
            alone = name == WORD_START and text[start:end] != WORD_START
            spans.append((start, start if alone else end))
        return spans

    def _vectors(self, texts: Sequence[_Text]) -> list[Vectors | BackendError]:
        """Return the vectors of each text's non-special tokens."""

        def read(states: Any, indices: list[int]) -> list[Vectors | BackendError]:
            results: list[Vectors | BackendError] = []
            for state, index in zip(states.float().cpu().numpy(), indices, strict=True):
                vectors = state[texts[index].places]
                if not bool((abs(vectors) < float("inf")).all()):
                    vectors = self._error("returns values that are not numbers", kind="model")
                results.append(vectors)
            return results

        rows = [text.ids for text in texts]
        return self._in_batches([len(row) for row in rows], lambda indices: self._read(rows, indices, read))

    def outputs(self, ids: Any, mask: Any) -> Any:
        """Return the hidden states of the chosen layer, shape (rows, tokens, width)."""
        if self._layer is None:
            return self.network(input_ids=ids, attention_mask=mask).last_hidden_state
        states = self.network(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        if self._layer >= len(states):
            raise self._error(
                f"the model has {len(states) - 1} layers; layer={self._layer} does not exist",
                kind="model",
                fatal=True,
            )
        return states[self._layer]

    def _value(self, text: _Text, vectors: Vectors) -> dict[str, Any]:
        return {
            "tokens": self.tokenizer.convert_ids_to_tokens([text.ids[i] for i in text.places]),
            "spans": [list(span) for span in text.spans],
            "vectors": vectors,
        }


def _without_space(text: str, start: int, end: int) -> Span:
    """Return a token's span without the leading space that some vocabularies include."""
    while start < end and text[start].isspace():
        start += 1
    return start, end


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
        return self._served(requests, lambda request: request, lambda rows: list(map(self._filled, rows)))

    def _filled(self, request: FillMask) -> Result:
        try:
            if not request.candidates:
                raise self._error("the request names no candidates")
            scores = self._candidate_scores(request.text, request.candidates)
        except BackendError as error:
            return error
        value = {word: math.exp(score) for word, score in zip(request.candidates, scores, strict=True)}
        return Reply(value=value, usage=Usage(len(request.text), 0))

    def _candidate_scores(self, text: str, candidates: Sequence[str]) -> list[float]:
        """Return the log probability of each candidate in the blank.

        The blank gets as many masks as the candidate has tokens, and all are predicted at once. Candidates with
        different numbers of tokens are not comparable: longer ones are less probable.

        :raises BackendError: if the text has no blank, or a candidate has unknown characters.
        """
        left, right, tokens = self._split(text, candidates)
        mask = self.tokenizer.mask_token_id
        # All candidates with the same number of tokens share one row.
        asks: dict[int, _Ask] = {}
        places: list[tuple[int, int]] = []
        for word in tokens:
            ask = asks.get(len(word), _Ask(left + [mask] * len(word) + right, ()))
            pairs = tuple((len(left) + i, token) for i, token in enumerate(word))
            places.append((len(word), len(ask.scores)))
            asks[len(word)] = ask._replace(scores=(*ask.scores, pairs))
        sums = dict(zip(asks, self._sums(list(asks.values())), strict=True))
        return [sums[length][i] for length, i in places]

    def context_scores(self, text: str, candidates: Sequence[str]) -> list[float]:
        """Return the sum of the surrounding tokens' log probabilities with each candidate in the blank.

        The surrounding tokens are not masked, each candidate takes one pass, and no separator follows the text, as
        in the published code of the authors of ERAS. Special tokens, further masks and the candidate itself do
        not count.

        :raises BackendError: if the text has no blank, or a candidate has unknown characters.
        """
        with self._lock:
            self._loaded()
            left, right, tokens = self._split(text, candidates)
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

    def _split(self, text: str, candidates: Sequence[str]) -> tuple[Row, Row, list[Row]]:
        """Return the tokens before and after the blank, including special tokens, and those of each candidate."""
        if MASK not in text:
            raise self._error(f"the text has no {MASK} to fill")
        if getattr(self.tokenizer, "mask_token_id", None) is None:
            raise self._error(
                "its tokenizer has no mask token; use a masked language model", kind="model", fatal=True
            )
        ids = self._ids(text)
        place = ids.index(self.tokenizer.mask_token_id)
        tokens = [self._candidate(word) for word in candidates]
        self._check_length(len(ids) - 1 + max(map(len, tokens), default=0))
        return ids[:place], ids[place + 1 :], tokens

    def _candidate(self, word: str) -> Row:
        ids = [int(i) for i in self.tokenizer(word, add_special_tokens=False)["input_ids"]]
        if not ids or self.tokenizer.unk_token_id in ids:
            raise self._error(f"its vocabulary has no tokens for the candidate {word!r}")
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
