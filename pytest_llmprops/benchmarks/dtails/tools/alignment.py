"""Word alignment with the vectors of a multilingual encoder, as the AWESOME aligner does (Dou and Neubig, EACL 2021).

The dot products of token vectors pass a softmax over each row and one over each column. Tokens are linked if both are
above a threshold, and words if any of their tokens are linked. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.models.base import CallOptions, Model
from pytest_llmprops.models.registry import find_backend, parse_spec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Span = tuple[int, int]
#: A text's tokens: their spans in characters, and their vectors of shape (tokens, size).
Tokens = tuple[Sequence[Span], "NDArray[np.float32]"]
Links = list[tuple[int, int]]
#: The authors' encoder, with the layer that aligns best.
ENCODER = "hf:google-bert/bert-base-multilingual-cased?layer=8"
_THRESHOLD = 0.001
#: Pairs whose texts are embedded together.
_BATCH = 64


def model_of(option: str, text: str) -> Model:
    """Return the model that an option names. :raises UsageError: It does not exist; the message names the option."""
    try:
        spec = parse_spec(text)
        return find_backend(spec.backend).factory(spec, CallOptions())
    except UsageError as error:
        # The registry's messages name --model.
        raise UsageError(str(error).replace(f"--model {text}", f"{option} {text}", 1)) from None


class Encoder:
    """The token vectors of a model. Texts that it does not accept, such as too long ones, count in ``failed``.

    :param option: The option that names the model, for messages.
    :param token_vectors: Returns the tokens of each text. It raises :class:`BackendError` if one cannot be embedded.
    """

    def __init__(
        self,
        option: str,
        token_vectors: Callable[[Sequence[str]], Sequence[Tokens]],
        identity: Mapping[str, Any],
    ) -> None:
        self._option, self._vectors = option, token_vectors
        self.identity = dict(identity)
        self.failed = 0

    @classmethod
    def load(cls, option: str, text: str) -> tuple[Encoder, Model]:
        """Return the encoder that an option names, and its model. :raises UsageError: There is no such encoder."""
        kind = (
            f"{'&' if '?' in text else '?'}kind=embed"
            if text.startswith("hf:") and "kind=" not in text
            else ""
        )
        model: Any = model_of(option, text + kind)
        if not hasattr(model, "token_vectors"):
            model.close()
            raise UsageError(f"{option} {text}: not an encoder; use hf:MODEL")
        return cls(option, model.token_vectors, model.identity), model

    def tokens(self, texts: Sequence[str]) -> list[Tokens | None]:
        """Return the tokens of each text; None for a text that the model does not accept.

        :raises UsageError: The model cannot be used at all.
        """
        try:
            return list(self._vectors(texts)) if texts else []
        except BackendError as error:
            if error.fatal:
                raise UsageError(f"{self._option}: {error}") from None
            if len(texts) == 1:
                self.failed += 1
                return [None]
        # One text caused the error: halve the batch until only this text fails.
        middle = len(texts) // 2
        return self.tokens(texts[:middle]) + self.tokens(texts[middle:])


def align(
    encoder: Encoder, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> Iterator[Links]:
    """Yield the links (source word, target word) of each pair; none if a side has no words or is too long."""
    for start in range(0, len(sources), _BATCH):
        batch = slice(start, start + _BATCH)
        sides = [joined(words) for words in (*sources[batch], *targets[batch])]
        tokens = encoder.tokens([text or "." for text, _ in sides])
        half = len(sides) // 2
        for place in range(half):
            source, target = tokens[place], tokens[half + place]
            if source is None or target is None or not (len(source[0]) and len(target[0])):
                yield []
                continue
            products = source[1].astype("float64") @ target[1].astype("float64").T
            links = {
                (i, j)
                for a, b in awesome_links(products)
                for i in overlapping(sides[place][1], source[0][a])
                for j in overlapping(sides[half + place][1], target[0][b])
            }
            yield sorted(links)


def awesome_links(products: NDArray[np.float64], threshold: float = _THRESHOLD) -> Links:
    """Return the token links whose softmax over targets and over sources are both above ``threshold``.

    :param products: Dot products of shape (source tokens, target tokens).
    """
    import numpy as np

    def softmax(axis: int) -> NDArray[np.float64]:
        raised = np.exp(products - products.max(axis=axis, keepdims=True))
        return np.asarray(raised / raised.sum(axis=axis, keepdims=True))

    linked = (softmax(1) > threshold) & (softmax(0) > threshold)
    return [(int(i), int(j)) for i, j in zip(*linked.nonzero(), strict=True)]


def joined(words: Sequence[str]) -> tuple[str, list[Span]]:
    """Return the words joined by spaces, and each word's span."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), spans


def overlapping(spans: Sequence[Span], span: Span) -> list[int]:
    """Return the indexes of the spans that overlap ``span``."""
    return [index for index, (start, end) in enumerate(spans) if start < span[1] and end > span[0]]
