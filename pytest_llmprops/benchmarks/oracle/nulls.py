"""Null oracles: how often a pair's checker accepts answers without any understanding, and those of a perfect judge.

They answer the same pair in process, without a call. A model's acceptance means something only between the null
oracles (the floor) and the perfect judge (the ceiling). The paraphrase of a sentence is the sentence after a fixed
phrase, because there is no model to paraphrase it; its source is known, so a perfect judge needs no language.

Values of a verdict, 1 accepted and 0 not; a value is missing if the pair cannot be tested:

- ``null_yes``, ``null_no``: always the same answer
- ``null_coin``: a fair coin for each question
- ``null_overlap``: yes if the Jaccard index of the words is at least ``OVERLAP``
- ``null_judge``: the label of the pair; only for pairs with a label
- ``self_aligned``: whether the prover aligns the first sentence with itself
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace

from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker
from pytest_llmprops.benchmarks.oracle.paraphrase_prompts import (
    PARAPHRASES,
    PARAPHRASES_SYSTEM,
    PHRASES_SYSTEM,
)
from pytest_llmprops.benchmarks.oracle.paraphrase_record import Pair, holds
from pytest_llmprops.benchmarks.oracle.scheme import Oracle
from pytest_llmprops.core.requests import Chat, Reply

#: answers whether two texts are equivalent
Judge = Callable[[str, str], bool]
#: minimum Jaccard index of two texts that the null oracle ``overlap`` calls equivalent
OVERLAP = 0.5
#: in front of a sentence that stands for its own paraphrase
MARK = "In other words: "
#: value -> name in tables
NAMES = {
    "null_yes": "constant yes",
    "null_no": "constant no",
    "null_coin": "coin",
    "null_overlap": "word overlap",
    "null_judge": "perfect judge",
}
_TWO = re.compile(r"^1\. '(.*)' 2\. '(.*)'\nAnswer", re.MULTILINE | re.DOTALL)
_ONE = re.compile(re.escape(PARAPHRASES).replace(re.escape("{sentence}"), "(.*)"), re.DOTALL)
_WORDS = re.compile(r"\w+")


async def null_values(x: Pair, checker: ParaphraseChecker, rng: random.Random) -> dict[str, float]:
    """Return the values of the null oracles for a pair.

    :raises BackendError: if the parser or the encoder could not be called.
    """
    # The draw of a source needs no alignment of paraphrases: the answers do not depend on it.
    settings = replace(checker.settings, indifferentiable="random", reference=False)
    played = ParaphraseChecker(settings, checker.align)
    judges: dict[str, Judge] = {
        "null_yes": lambda first, second: True,
        "null_no": lambda first, second: False,
        "null_coin": lambda first, second: rng.random() < 0.5,
        "null_overlap": lambda first, second: overlap(first, second) >= OVERLAP,
    }
    if x.label is not None:
        judges["null_judge"] = _perfect(x)
    values = {}
    for name, judge in judges.items():
        acceptance = await played.check(x, null_oracle(judge), rng)
        if acceptance.outcome != "untested":
            values[name] = float(acceptance.accepted)
    itself = await checker.align(x.first, x.first)
    return values if itself.missing else values | {"self_aligned": float(holds(itself.rho, settings.phi))}


def null_oracle(judge: Judge) -> Oracle:
    """Return an oracle that answers prompts 5 and 6 by ``judge``, and prompt 7 with the marked sentence."""

    async def reply(chat: Chat) -> Reply:
        system, human = chat.messages[0].content, chat.messages[1].content
        if system == PARAPHRASES_SYSTEM:
            match = _ONE.search(human)
            return Reply(json.dumps({"paraphrases": [MARK + match[1]]} if match else {}))
        match = _TWO.search(human)
        said = match is not None and judge(*match.groups())
        about = "phrases" if system == PHRASES_SYSTEM else "sentences"
        return Reply(
            json.dumps({"answer": "yes" if said else "no", "explanation": f"a null oracle on {about}"})
        )

    return Oracle(reply)


def overlap(first: str, second: str) -> float:
    """Return the Jaccard index of the words of two texts, without case; 0 if neither has a word."""
    one, two = ({word.casefold() for word in _WORDS.findall(text)} for text in (first, second))
    return len(one & two) / len(one | two) if one | two else 0.0


def _perfect(x: Pair) -> Judge:
    """Return a judge that knows the label of the sentences, and calls all phrases of an alignment equivalent."""

    def same(first: str, second: str) -> bool:
        sentences = [text.removeprefix(MARK) for text in (first, second)]
        if sentences[0] == sentences[1] or not set(sentences) <= {x.first, x.second}:
            return True
        return bool(x.label)

    return same
