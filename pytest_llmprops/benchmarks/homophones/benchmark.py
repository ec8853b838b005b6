"""The homophones benchmark: send the questions, judge the replies, compute the metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.homophones.items import ASKED, CONTEXT_ONLY, MASK, WORD_ONLY, items, masked
from pytest_llmprops.benchmarks.homophones.reading_rules import Rules, parse_rules
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric, by_place, rate
from pytest_llmprops.core.numbers import percent
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Chat
from pytest_llmprops.core.verdicts import Verdict

RULES = "homophones/reading_rules.json"
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
        in it, as a part of another word, too; case is ignored. It finds "a" in nearly every reply. ``word``: the reply
        offers the answer, in any inflection, as what the homophone means. A mention that is denied, taken back, or only
        compared ("it sounds like X, but means Y") does not count. With both, an echo of the question is left out.
    :param asks: Maximum number of questions to a model that refuses, in the same conversation (section 9.1).
    """

    match: Literal["contains", "word"] = "word"
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
                "a repetition of the question in the reply is left out before the answer is searched",
                'the "to" of a translated verb may be missing in the reply',
            ),
        ),
        "quick": NamedSettings(
            HomophonesSettings(),
            gives_up="replies longer than 256 tokens, sampling, and the paper's rule (a reply must offer the answer)",
        ),
    }

    def load(self, files: DataFiles) -> Loaded:
        rules = read_rules(files)
        return Loaded(tuple(items(files, rules.words)), rules)

    async def evaluate(
        self, item: Item, context: Rules, ask: Ask, protocol: Protocol[HomophonesSettings]
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
        """Yield warnings: most replies name no answer, or several, so accuracy may say little."""
        asked = [r for r in records if r.task == ASKED and "answers_named" in r.values]
        if len(asked) < _FEWEST:
            return
        unnamed = sum(r.status != "correct" and not r.values["answers_named"] for r in asked)
        several = sum(bool(r.values["several"]) for r in asked)
        for number, what in ((unnamed, "no answer"), (several, "several answers")):
            if 2 * number >= len(asked):
                yield f"warning: {percent(number / len(asked))} of the replies name {what}"


async def _asked(item: Item, rules: Rules, ask: Ask, settings: HomophonesSettings) -> Verdict:
    """Ask about an item, again if the model refuses, and judge the reply."""
    # Few processes that collect the items judge their replies, and the rules take longest to import.
    from pytest_llmprops.benchmarks.homophones.reading import judge

    question = ask_about(item)
    chat = Chat.user(question, temperature=settings.temperature, max_tokens=settings.max_tokens)
    reply = await ask(chat)
    verdict = judge(item, reply, rules, settings.match, asks=1)
    first = verdict
    for number in range(2, settings.asks + 1):
        if verdict.status != "refused" or "content filter" in verdict.reason:
            break
        # The paper forces an answer by repeating the question in the same conversation.
        chat = chat.then(reply.text, question)
        reply = await ask(chat)
        verdict = judge(item, reply, rules, settings.match, asks=number)
    return replace(verdict, values={**verdict.values, "first_correct": float(first.status == "correct")})


def read_rules(files: DataFiles) -> Rules:
    """Return the reading rules of a data folder, or the built-in ones."""
    folder = files if files.exists(RULES) else files.builtin
    document, traditional = folder.json(RULES), files.builtin.text(TRADITIONAL)
    try:
        # The rules of this package are tested; those of the user may have errors.
        return parse_rules(document, traditional, compiles=folder.source != "builtin")
    except ValueError as error:
        raise DataError(f"{RULES}: {error}; correct it there") from None


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
