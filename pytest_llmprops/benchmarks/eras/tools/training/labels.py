"""Labels of characters: B, M, E, S (begin, middle, end of a word; a word of one character)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_llmprops.benchmarks.eras.tools.training.corpus import Words
from pytest_llmprops.benchmarks.eras.tools.training.rows import IGNORED, Row
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.models.character_tokens import CharacterTokens

LABELS = ("B", "M", "E", "S")
_B, _M, _E, _S = range(4)
#: Where a long line is divided, best first: after the end of a sentence, after other punctuation.
_ENDS = ("。！？!?；;", "，、,：:）)》」』”")


def character_labels(words: Words) -> list[int]:
    """Return the index in :data:`LABELS` of the label of each character."""
    labels: list[int] = []
    for word in words:
        labels += [_S] if len(word) == 1 else [_B, *[_M] * (len(word) - 2), _E]
    return labels


def parts(text: str, longest: int) -> Iterator[str]:
    """Divide a text into parts of at most ``longest`` characters, if possible after punctuation."""
    while len(text) > longest:
        cut = next(
            (place for ends in _ENDS if (place := max(text.rfind(c, 0, longest) for c in ends) + 1)), longest
        )
        yield text[:cut]
        text = text[cut:]
    if text:
        yield text


def labelled_rows(
    lines: Sequence[Words], characters: CharacterTokens, *, window: int, source: int = 0
) -> list[Row]:
    """Return the rows of segmented lines.

    Only the first token of a character has a label. Special tokens and further tokens have none.

    :param window: maximum number of tokens of a row, with special tokens. Longer lines are divided after punctuation.
    :raises UsageError: if the window is too small for a character.
    """
    rows: list[Row] = []
    for words in lines:
        labels, start = character_labels(words), 0
        for part in fitting("".join(words), characters, window=window):
            ids, first = characters.row(part)
            aligned = [IGNORED] * len(ids)
            for place, label in zip(first, labels[start : start + len(part)], strict=True):
                aligned[place] = label
            start += len(part)
            rows.append(Row(ids, aligned, source))
    return rows


def fitting(text: str, characters: CharacterTokens, *, window: int) -> Iterator[str]:
    """Divide a text into parts of at most ``window`` tokens, including special tokens.

    :raises UsageError: if the window is too small for a character.
    """
    longest = window - characters.specials
    widest = max((len(characters.of_character(c)) for c in set(text)), default=1)
    if widest > longest:
        raise UsageError(
            f"--window {window} is too small: one character needs {widest + characters.specials} tokens"
        )
    for part in parts(text, longest):
        if sum(len(characters.of_character(c)) for c in part) <= longest:
            yield part
        else:  # characters of several tokens: a bound that always holds
            yield from parts(part, max(1, longest // widest))
