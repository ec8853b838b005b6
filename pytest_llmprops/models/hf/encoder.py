"""The base of transformers models that read a whole text at once: token rows and padded batches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.texts import fold_width
from pytest_llmprops.models.hf.loading import HfModel, Out, tokenized

#: SentencePiece's word-start mark; a separate token before a character that has no token combined with it.
WORD_START = "\u2581"
#: A sample text that shows which special tokens a tokenizer adds.
_PROBE = "的"


class CharacterTokens:
    """A tokenizer applied to one character at a time, so no two characters share a token.

    A character of several tokens is represented by its first one; a character that the tokenizer drops becomes the
    unknown token.

    :param name: The model's name, for messages.
    :param fold: Whether full-width digits and letters are read as ASCII (``core/texts.py``).
    :raises BackendError: if the tokenizer changes a text's tokens when it adds special ones.
    """

    def __init__(self, tokenizer: Any, *, name: str, fold: bool = False) -> None:
        self.tokenizer, self._name, self._fold = tokenizer, name, fold
        #: character -> its tokens, at least one
        self.tokens_of: dict[str, list[int]] = {}
        self._around = self._special()

    def _special(self) -> tuple[list[int], list[int]]:
        """Return the special tokens before and after a text."""
        plain = self.encoded(_PROBE, special=False)
        full = self.encoded(_PROBE, special=True)
        for start in range(len(full) - len(plain) + 1):
            if full[start : start + len(plain)] == plain:
                return full[:start], full[start + len(plain) :]
        raise BackendError(
            f"{self._name}: its tokenizer changes a text's tokens when it adds special ones",
            kind="model",
            fatal=True,
        )

    def encoded(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a text; ``special`` adds those around it, such as [CLS] and [SEP]."""
        ids = tokenized(self.tokenizer, text, self._name, add_special_tokens=special)["input_ids"]
        return [int(i) for i in ids]

    def of_character(self, character: str) -> list[int]:
        """Return the tokens of one character, at least one."""
        tokens = self.tokens_of.get(character)
        if tokens is None:
            tokens = self.encoded(fold_width(character) if self._fold else character, special=False)
            if len(tokens) > 1 and self.tokenizer.convert_ids_to_tokens(tokens[0]) == WORD_START:
                tokens = tokens[1:]
            if not tokens:
                unknown = self.tokenizer.unk_token_id
                if unknown is None:
                    raise BackendError(
                        f"{self._name}: the tokenizer drops {character!r} and has no unknown token",
                        kind="request",
                    )
                tokens = [int(unknown)]
            self.tokens_of[character] = tokens
        return tokens

    def row(self, text: str) -> tuple[list[int], list[int]]:
        """Return the tokens of a text with special tokens, and the index of each character's first token.

        :raises BackendError: if the text is empty, or a character cannot be represented.
        """
        if not text:
            raise BackendError(f"{self._name}: the text is empty", kind="request")
        before, after = self._around
        row, first = list(before), []
        for character in text:
            first.append(len(row))
            row += self.of_character(character)
        return row + after, first

    @property
    def specials(self) -> int:
        """The number of special tokens around a text."""
        return sum(map(len, self._around))


#: The mask in a request; it is replaced by the model's own mask token.
MASK = "[MASK]"

Row = list[int]


class HfEncoder(HfModel):
    """Base of the models that turn rows of tokens into logits.

    Rows are evaluated in order of length, which keeps padding short. A row's logits depend on its batch by
    rounding only (about 1e-6).

    :param load: Returns (model, tokenizer); called at the first request.
    :param batch: Maximum rows per batch.
    :param mask: Replacement for ``[MASK]`` if the tokenizer has no mask token.
    """

    def __init__(self, load: Callable[[], tuple[Any, Any]], *, mask: str = "", **settings: Any) -> None:
        super().__init__(load, **settings)
        self.max_batch = 8 * self._batch
        self._stand_in = mask

    def _mask(self) -> str:
        """Return the model's own mask token, or the replacement for a model without one."""
        own = getattr(self.tokenizer, "mask_token", None) or self._stand_in
        if not own:
            raise self._error(
                "its tokenizer has no mask token; name a stand-in: hf:MODEL?mask=TEXT", fatal=True
            )
        return str(own)

    def _ids(self, text: str) -> Row:
        """Return the token ids of ``text``, including special tokens; a text that is too long is an error."""
        if not text.strip():
            raise self._error("the text is empty")
        masks = text.count(MASK)
        if masks:
            text = text.replace(MASK, self._mask())
        ids = [int(i) for i in tokenized(self.tokenizer, text, self._name, truncation=False)["input_ids"]]
        own = getattr(self.tokenizer, "mask_token_id", None)
        if masks and own is not None and ids.count(own) != masks:
            raise self._error("the tokenizer does not read its own mask token")
        self._check_length(len(ids))
        return ids

    def _evaluate(self, rows: Sequence[Row], read: Callable[[Any, list[int]], list[Out]]) -> list[Out]:
        """Call ``read(outputs, indices)`` for batches of rows; return its results in the rows' order.

        ``outputs`` comes from :meth:`outputs`; its first axis follows ``indices``.

        :raises BackendError: if any row fails.
        """
        results = self._in_batches(
            [len(row) for row in rows], lambda indices: self._read(rows, indices, read)
        )
        done: list[Out] = []
        for result in results:
            if isinstance(result, BackendError):
                raise result
            done.append(result)
        return done

    def _read(
        self, rows: Sequence[Row], indices: list[int], read: Callable[[Any, list[int]], list[Out]]
    ) -> list[Out]:
        torch: Any = importlib.import_module("torch")
        width = max(len(rows[i]) for i in indices)
        fill = self.tokenizer.pad_token_id or 0
        ids = [rows[i] + [fill] * (width - len(rows[i])) for i in indices]
        mask = [[1] * len(rows[i]) + [0] * (width - len(rows[i])) for i in indices]
        device = self.network.device
        outputs = self.outputs(torch.tensor(ids, device=device), torch.tensor(mask, device=device))
        return read(outputs, indices)

    def outputs(self, ids: Any, mask: Any) -> Any:
        """Return the model's logits on its device. ``ids`` and ``mask`` have the shape (rows, tokens)."""
        return self.network(input_ids=ids, attention_mask=mask).logits
