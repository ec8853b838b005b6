"""Edits of a homophone item that keep its answer: another spelling of the same sound, and another sentence around it.

- **Spelling.** The homophone is replaced by another spelling, made like those of ``llmprops generate homophones``. By
  the letter-to-sound rules (English, Spanish) it sounds exactly like the answer; in Chinese, it has the same syllables,
  and the same tones where characters exist. So the answer is still the word that is meant. Items whose answer is not a
  single word have no other spelling.
- **Sentence.** Somebody says, or somebody read, the same sentence (:data:`FRAMES`). The sentence itself is unchanged,
  so the context of the homophone is, too. An English sentence may also get neutral edits
  (:mod:`~pytest_llmprops.core.neutral_edits`), which keep what it says, and leave the homophone alone.

No edit puts the answer into the question, where a reply might repeat it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from pytest_llmprops.benchmarks.homophones.items import is_in
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.neutral_edits import edited, neutral_edits
from pytest_llmprops.core.searches import Edits, Point, Variant
from pytest_llmprops.core.verdicts import Verdict

#: sentences that quote another one
FRAMES: Mapping[str, tuple[str, ...]] = {
    "en": ('Anna said: "{}"', "This is what I read: {}"),
    "es": ("Ana dijo: «{}»", "Esto es lo que leí: {}"),
    "zh": ("小明说：“{}”", "我读到一句话：{}"),
}


def with_word(sentence: str, word: str, new: str) -> str:
    """Return the sentence with ``new`` in place of ``word``, which keeps the capital at its beginning."""

    def written(match: re.Match[str]) -> str:
        return new[0].upper() + new[1:] if match[0][0].isupper() else new

    for pattern in (rf"(?<!\w){re.escape(word)}(?!\w)", re.escape(word)):
        changed, places = re.subn(pattern, written, sentence, flags=re.IGNORECASE)
        if places:
            return changed
    return sentence


class HomophoneEdits(Edits):
    """A point: the spelling, the frame, and whether each neutral edit is made; 0 leaves each as it is.

    :param spellings: of the answer's sound. :param ask_about: asks about an item and judges the reply.
    """

    def __init__(
        self, item: Item, spellings: Sequence[str], ask_about: Callable[[Item, Ask], Awaitable[Verdict]]
    ) -> None:
        self._item, self._ask_about = item, ask_about
        sentence, word = item["sentence"], item["word"]
        frames = FRAMES.get(item.language, ())
        usable = (one for one in spellings if self._adds_no_answer(with_word(sentence, word, one)))
        self._words = (word, *usable) if is_in(sentence, word) else (word,)
        self._frames = ("{}", *(one for one in frames if self._adds_no_answer(one.format(sentence))))

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The names of the neutral edits."""
        if self._item.language != "en":
            return ()
        sentence, word = self._item["sentence"], self._item["word"]
        places = _count(sentence, word)
        return tuple(
            name
            for name, text in neutral_edits(sentence).items()
            if _count(text, word) == places and self._adds_no_answer(text)
        )

    @property
    def size(self) -> Point:
        return len(self._words), len(self._frames), *(2 for _ in self._names)

    def variant(self, point: Point) -> Variant:
        spelling, frame, *choices = point
        names = [name for name, choice in zip(self._names, choices, strict=True) if choice]
        sentence = edited(self._item["sentence"], names)
        word = self._words[spelling]
        edits = [f"neutral edit: {name}" for name in names]
        if spelling:
            sentence = with_word(sentence, self._item["word"], word)
            edits.insert(0, f'spelled "{word}"')
        if frame:
            edits.append(f"quoted: {self._frames[frame].format('…')}")
        sentence = self._frames[frame].format(sentence)
        return Variant((sentence, word), tuple(edits), shown={"sentence": sentence, "word": word})

    async def judge(self, variant: Variant, ask: Ask) -> Verdict:
        sentence, word = variant.content
        item = replace(self._item, fields={**self._item.fields, "sentence": sentence, "word": word})
        return await self._ask_about(item, ask)

    def _adds_no_answer(self, text: str) -> bool:
        """Return True if a text has the answers no more often than the sentence. Some published sentences have one."""
        before, after = ("", "") if self._item.language == "zh" else (r"(?<!\w)", r"(?!\w)")
        answers = "|".join(f"{before}{re.escape(answer)}{after}" for answer in self._item["answers"])
        counts = [len(re.findall(answers, one, re.IGNORECASE)) for one in (text, self._item["sentence"])]
        return counts[0] <= counts[1]


def _count(sentence: str, word: str) -> int:
    return sentence.casefold().count(word.casefold())
