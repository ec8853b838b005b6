"""Fakes for tests of the paraphrase side: oracles that read prompts 5 to 7, and sentences with trees and vectors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, Array, align
from pytest_llmprops.benchmarks.oracle.paraphrase_prompts import PARAPHRASES_SYSTEM, PHRASES_SYSTEM
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.benchmarks.oracle.trees import Parsed
from pytest_llmprops.core.requests import Chat, Reply

#: yes or no, or a raw reply
Said = bool | str
_TWO = re.compile(r"^1\. '(.*)' 2\. '(.*)'$", re.MULTILINE | re.DOTALL)
_ONE = re.compile(r"sentence: '(.*)'\nOutput", re.DOTALL)


class FakeOracle:
    """Answers each prompt by a function; ``log`` has (``sentences`` | ``phrases`` | ``paraphrases``, its texts)."""

    def __init__(
        self,
        sentences: Callable[[str, str], Said] = lambda first, second: True,
        phrases: Callable[[str, str], Said] = lambda first, second: True,
        paraphrases: Callable[[str], Sequence[str] | str] = lambda sentence: [],
    ) -> None:
        self.sentences, self.phrases, self.paraphrases = sentences, phrases, paraphrases
        self.log: list[tuple[str, tuple[str, ...]]] = []
        self.chats: list[Chat] = []
        self.oracle = Oracle(self._reply)

    def asked(self, kind: str) -> list[tuple[str, ...]]:
        """The texts of all questions of a kind, in order."""
        return [texts for name, texts in self.log if name == kind]

    async def _reply(self, chat: Chat) -> Reply:
        self.chats.append(chat)
        system, human = chat.messages[0].content, chat.messages[1].content
        if system == PARAPHRASES_SYSTEM:
            (sentence,) = _ONE.search(human).groups()  # type: ignore[union-attr]
            self.log.append(("paraphrases", (sentence,)))
            given = self.paraphrases(sentence)
            return Reply(given if isinstance(given, str) else json.dumps({"paraphrases": list(given)}))
        kind = "phrases" if system == PHRASES_SYSTEM else "sentences"
        first, second = _TWO.search(human).groups()  # type: ignore[union-attr]
        self.log.append((kind, (first, second)))
        said = (self.phrases if kind == "phrases" else self.sentences)(first, second)
        return Reply(said if isinstance(said, str) else answer(said))


def answer(said: bool) -> str:
    """A reply in the form asked for."""
    return json.dumps({"answer": "yes" if said else "no", "explanation": "as it is"})


def vectors(meanings: str) -> Array:
    """A vector a token: tokens of the same meaning, a word of ``meanings``, have the same, others a right angle."""
    words = meanings.split()
    found = np.zeros((len(words), 64))
    for row, word in enumerate(words):
        found[row, _axis(word)] = 1.0
    return found


_AXES: dict[str, int] = {}


def _axis(word: str) -> int:
    return _AXES.setdefault(word, len(_AXES))


def parsed(brackets: str) -> Parsed:
    """A sentence whose tokens are set apart by spaces."""
    tokens = re.findall(r"([^\s()]+)\)", brackets)
    return Parsed.of(" ".join(tokens), brackets)


def aligned(first: str, second: str, first_meanings: str, second_meanings: str) -> Alignments:
    """Alignments of two trees in brackets whose tokens have these meanings."""
    return align(parsed(first), parsed(second), vectors(first_meanings), vectors(second_meanings))


class World:
    """Sentences with trees and meanings, and an ``align`` over them; a sentence that is not here has no tree.

    :param known: text -> (brackets, meanings of its tokens).
    """

    def __init__(self, known: Mapping[str, tuple[str, str]]) -> None:
        self.known = dict(known)
        self.asked: list[tuple[str, str]] = []

    async def align(self, first: str, second: str) -> Alignments:
        """As a benchmark would make them from a parser and an encoder."""
        self.asked.append((first, second))
        for text in (first, second):
            if text not in self.known:
                return Alignments.without_trees(f"the parser gave no tree for {text!r}")
        made = [
            (Parsed.of(text, self.known[text][0]), vectors(self.known[text][1])) for text in (first, second)
        ]
        return align(made[0][0], made[1][0], made[0][1], made[1][1])
