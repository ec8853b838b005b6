"""A check that a tokenizer knows the characters of a file, which finds traditional text for a simplified base."""

from __future__ import annotations

from collections import Counter

from pytest_llmprops.benchmarks.eras.tools.training.corpus import Corpus
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.models.character_tokens import CharacterTokens

#: Largest share of unknown characters. In a text of the right script it is far below 1%; about a third of the
#: characters of a traditional text do not exist in simplified ones.
MOST = 0.05


def check_characters(corpus: Corpus, characters: CharacterTokens, base: str) -> None:
    """Check that few characters of a file are unknown to the tokenizer.

    :param base: what the characters are unknown to, for the message.
    :raises DataError: if more than :data:`MOST` are. The message names the first one.
    """
    counts = Counter(character for words in corpus.lines for word in words for character in word)
    unknown = {character for character in counts if characters.is_unknown(character)}
    share = sum(counts[character] for character in unknown) / max(1, counts.total())
    if share <= MOST:
        return
    place, first = next(
        (number, character)
        for number, words in zip(corpus.numbers, corpus.lines, strict=True)
        for character in "".join(words)
        if character in unknown
    )
    raise DataError(
        f"{corpus.name}, line {place}: {first} and {share:.0%} of the file's characters are unknown to {base};"
        " convert the file to the script of the base (opencc -c t2s or s2t), or choose a base of its script"
    )
