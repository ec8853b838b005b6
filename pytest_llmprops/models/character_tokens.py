"""The tokens of each character of a text, as segmenters of the transformers library are trained and asked."""

from __future__ import annotations

from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.folding import fold_width

#: SentencePiece's word-start mark; a separate token before a character that has no token combined with it.
WORD_START = "\u2581"
#: A sample text that shows which special tokens a tokenizer adds.
_PROBE = "的"


class CharacterTokens:
    """A tokenizer applied to one character at a time, so no two characters share a token.

    A character of several tokens is represented by its first one; a character that the tokenizer drops becomes the
    unknown token.

    :param name: The model's name, for messages.
    :param fold: Whether full-width digits and letters are read as ASCII (``core/folding.py``).
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
        try:
            return [int(i) for i in self.tokenizer(text, add_special_tokens=special)["input_ids"]]
        except Exception as error:
            line = " ".join(str(error).split())[:300]
            raise BackendError(f"{self._name}: the tokenizer fails: {line}", kind="request") from None

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

    def is_unknown(self, character: str) -> bool:
        """Return whether a character is represented by the unknown token."""
        return self.of_character(character) == [self.tokenizer.unk_token_id]

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
