"""The homophones benchmark: send the questions, judge the replies, compute the metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.homophones.items import ASKED, CONTEXT_ONLY, MASK, WORD_ONLY, items, masked
from pytest_llmprops.benchmarks.homophones.reading import REQUEST, judge
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric, by_place, rate
from pytest_llmprops.core.numbers import percent
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.core.verdicts import Verdict, VerdictRecord

#: Traditional characters, each followed by its simplified form: every character of Big5 that OpenCC (Apache-2.0,
#: configuration ``t2s``) converts to one character of GB 2312. An optional library would make a verdict depend on
#: what is installed.
TRADITIONAL = "homophones/traditional.txt"
#: The groups of items with an accuracy of their own: name, value of the verdict, and what it is.
_GROUPS = (
    ("function_words", "function_word", 1.0),
    ("content_words", "function_word", 0.0),
    ("seseo_or_yeismo", "dialect", 1.0),
    ("all_dialects", "dialect", 0.0),
)
#: Minimum number of replies for a warning about all of them.
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class HomophonesSettings:
    """How an item is measured.

    :param match: What makes a reply correct. ``contains`` is the paper's rule (section 6.4): the answer occurs anywhere
        in it, as a part of another word, too; case is ignored. It finds "a" in nearly every reply. ``line``: the
        question asks for a last line "ANSWER: word", which is read; without this line, the reply must have the answer
        as words, in any regular form, and not reject it.
    :param asks: Maximum number of questions to a model that refuses, in the same conversation (section 9.1).
    """

    match: Literal["contains", "line"] = "line"
    asks: int = 1
    temperature: float | None = 0.0
    max_tokens: int | None = 256

    def __post_init__(self) -> None:
        if not 1 <= self.asks <= 10:
            raise ValueError("asks must be from 1 to 10")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1, or none")


class Homophones(Benchmark):
    """Find the word that is meant by a homophone in a sentence. Two controls give only one of the clues."""

    judges_filtered = True
    name = "homophones"
    title = "Homophones"
    noun = "homophones"
    about = "Does the model understand a word that was replaced by one that sounds the same?"
    task_about = {
        ASKED: "The sentence with the homophone: both sound and context are clues.",
        CONTEXT_ONLY: "Control: the word is left out, so the context is the only clue.",
        WORD_ONLY: "Control: the word without its sentence, so its sound is the only clue.",
    }
    controls = frozenset({CONTEXT_ONLY, WORD_ONLY})
    roles = frozenset()
    sizes = {"small": dict.fromkeys(task_about, 30), "standard": dict.fromkeys(task_about, 100)}
    metric_directions = {
        "several_answers_rate": "lower",
        "first_ask_accuracy": "higher",
        "accuracy": "higher",
    }
    protocols = {
        "paper": NamedSettings(
            HomophonesSettings(match="contains", temperature=None, max_tokens=None),
            assumed=(
                "temperature and length at the server's defaults; the paper used chat web pages",
                "no system prompt",
                "a repetition of the question in the reply is searched, too",
                'the "to" of a translated verb may be missing in the reply',
            ),
        ),
        "quick": NamedSettings(
            HomophonesSettings(),
            gives_up="the paper's question (it also asks for a last line with the answer, which is read), replies"
            " longer than 256 tokens, and sampling",
        ),
    }

    def load(self, files: DataFiles) -> Loaded:
        characters = "".join(files.builtin.text(TRADITIONAL).split())
        simplified = dict(zip(map(ord, characters[::2]), characters[1::2], strict=True))
        return Loaded(tuple(items(files)), simplified)

    async def evaluate(
        self, item: Item, context: Mapping[int, str], ask: Ask, protocol: Protocol[HomophonesSettings]
    ) -> Verdict:
        return await _asked(item, context, ask, protocol.settings)

    def caption(self, item: Item) -> str:
        return f"{item['word']} → {item['answers'][0]}"

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Yield ``several_answers_rate``, first-ask accuracy, and the accuracy on groups of items."""
        for place, members in by_place(records).items():
            values = [r.values for r in members]
            # Imported verdicts have no replies, so they lack both values.
            several = [bool(v["several"]) for v in values if "several" in v]
            if several:
                yield rate(place, "several_answers_rate", several, "lower")
            if any(v.get("asks", 1) > 1 for v in values):
                first = [bool(v["first_correct"]) for v in values if "first_correct" in v]
                yield rate(place, "first_ask_accuracy", first, "higher")
            if place[0] != ASKED:
                continue
            for group, key, flag in _GROUPS:
                hits = [r.status == "correct" for r in members if r.values.get(key) == flag]
                if hits:
                    yield rate(place, "accuracy", hits, "higher", group=group)

    def remarks(self, records: Sequence[VerdictRecord]) -> Iterable[str]:
        """Yield how many replies had no last line, and a warning if most name several answers."""
        asked = [r for r in records if r.task == ASKED]
        lines = [bool(r.values["line"]) for r in asked if "line" in r.values]
        if missing := lines.count(False):
            yield (
                f"{missing} of {len(lines)} replies have no line 'ANSWER: word'; they are correct if they contain the"
                " answer and do not reject it"
            )
        several = [bool(r.values["several"]) for r in asked if "several" in r.values]
        if len(several) >= _FEWEST and 2 * sum(several) >= len(several):
            yield f"warning: {percent(sum(several) / len(several))} of the replies name several answers"


async def _asked(
    item: Item, simplified: Mapping[int, str], ask: Ask, settings: HomophonesSettings
) -> Verdict:
    """Ask about an item, again if the model refuses, and judge the reply."""
    question = ask_about(item)
    if settings.match == "line":
        question = f"{question}\n{REQUEST}"
    chat = Chat.user(question, temperature=settings.temperature, max_tokens=settings.max_tokens)
    reply = await ask(chat)
    verdict = judge(item, reply, simplified, settings.match, question=question, asks=1)
    first = verdict
    for number in range(2, settings.asks + 1):
        if verdict.status != "refused" or "content filter" in verdict.reason:
            break
        # The paper forces an answer by repeating the question in the same conversation.
        chat = chat.then(reply.text, question)
        reply = await ask(chat)
        verdict = judge(item, reply, simplified, settings.match, question=question, asks=number)
    return replace(verdict, values={**verdict.values, "first_correct": float(first.status == "correct")})


def ask_about(item: Item) -> str:
    """Return the paper's question (section 6.3), or a control question without one of the clues."""
    if item.task == ASKED:
        return (
            f"In the sentence '{item['sentence']}', the word '{item['word']}' is a homophone word,"
            " can you tell its true meaning?"
        )
    if item.task == CONTEXT_ONLY:
        blanked = masked(item["sentence"], item["word"])
        return (
            f"In the sentence '{blanked}', one word was left out and '{MASK}' stands in its place,"
            " can you tell which word it is?"
        )
    return f"The word '{item['word']}' is a homophone word, can you tell its true meaning?"
