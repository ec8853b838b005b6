"""The H-TEST benchmark: send the questions, judge the replies.

The prompts of the paper (section 3, appendices B, D and G) have the wording of its published code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.htest.items import GEOMETRY, LABELS, Example, Label, few_shot, load_items
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric, by_place, rate
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.reading import stated
from pytest_llmprops.core.requests import Chat, Completion, Kind, Likelihood, Reply, Scores, is_base
from pytest_llmprops.core.verdicts import OTHER_READING, READ_ALIKE, READ_BY, Verdict, VerdictRecord


def classification(examples: Sequence[Example], text: str, *, cot: bool = False) -> str:
    """Return the A/B question after its examples. All items of a task share the text before ``text``."""
    lines = [f'Input: "{example}" Label: {label}' for example, label in examples]
    if cot:
        lines.append(f'\nNow, think out loud step by step and assign label. \nInput: "{text}" Label: \nA \nB')
    else:
        lines.append(f'\nInput: "{text}" Label: \nA \nB (Respond in one letter and nothing else)')
    return "\n".join(lines)


def continuation(examples: Sequence[Example], text: str) -> str:
    """Return the A/B question for a base model: the examples, and one more of which only the label is missing.

    The wording is this project's: the paper has chat models only.
    """
    lines = [f'Input: "{example}" Label: {label}' for example, label in examples]
    return "\n".join([*lines, f'Input: "{text}" Label:'])


def geometry(question: str, options: Sequence[str]) -> str:
    """Return a Letter Geometry question (section 4), followed by one option per line."""
    return question + "\n" + "\n".join(options) + "(Respond in one letter and nothing else)"


def reader(reply: str) -> str:
    """Return the question to the second model about a chain of thought (appendix D)."""
    return (
        f"Assistant: {reply} \n\n What does the Assistant think the sentence belongs to?"
        "\nA\nB\nNone (Respond in one word and nothing else)"
    )


#: Maximum number of characters of a chain of thought in a verdict.
MAX_THOUGHT = 300
#: With a smaller share of readable replies, the accuracy of these says little about the model.
FEWEST_READ = 0.3


@dataclass(frozen=True, slots=True)
class HTestSettings:
    """How an item is measured.

    :param k: Number of few-shot examples, half of them A.
    :param cot: Ask for a chain of thought; a second model, the helper ``reader``, reads the answer (appendix D).
    :param max_tokens: Maximum tokens of an A/B answer.
    :param geometry_max_tokens: Maximum tokens of a Letter Geometry answer.
    :param match: How a reply is read. ``letter``: the label or option that it chooses, in any wording, by a rule that
        treats all options alike. ``paper``: by the rule for the published results (:func:`read_label`); for Letter
        Geometry, the reply is the bare character.
    :param answer: ``text``: the model writes its answer. ``likelihood``: its answer is the option with the highest
        log-likelihood.
    """

    k: Literal[4, 14, 28, 50] = 14
    cot: bool = False
    temperature: float = 0.0
    max_tokens: int = 5
    geometry_max_tokens: int = 5
    match: Literal["letter", "paper"] = "letter"
    answer: Literal["text", "likelihood"] = "text"

    def __post_init__(self) -> None:
        if self.cot and self.answer == "likelihood":
            raise ValueError("cot needs answer = text, because a chain of thought is text")
        if min(self.max_tokens, self.geometry_max_tokens) < 1 or self.temperature < 0:
            raise ValueError("max_tokens must be at least 1 and temperature at least 0")


class HTest(Benchmark):
    """Ten A/B tasks that are easy for anyone who can see and hear text, and Letter Geometry."""

    judges_filtered = True
    name = "htest"
    title = "H-TEST"
    noun = "H-TEST"
    side_tasks = frozenset({GEOMETRY})
    roles = frozenset({"reader"})
    chance = {"": 0.5, GEOMETRY: 0.25}
    printed_task = "average"
    about = "Does the model learn from a few labelled examples what text looks and sounds like?"
    task_about = {
        "uppercase": "A: at least one letter is a capital. B: no letter is a capital.",
        "start_vowel": "A: the text begins with a vowel letter. B: it does not.",
        "end_punctuation": "A: the text ends in a punctuation mark. B: it does not.",
        "palindrome": "A: the letters read the same in both directions. B: they do not.",
        "end_ly": 'A: the last word ends in "ly". B: it does not.',
        "spelled_math": "A: the operator is written as a word. B: as a symbol.",
        "spelled_number": "A: the number is written as a word. B: in digits.",
        "rhyme": "A: the two words rhyme. B: they do not.",
        "repeated_word": "A: a word occurs twice in a row. B: no word does.",
        "hyphenated_word": "A: a hyphen joins two words. B: there is no hyphen.",
        GEOMETRY: "What does a letter look like when it is turned, mirrored or combined with another letter?",
    }
    sizes = {"small": dict.fromkeys(task_about, 30), "standard": dict.fromkeys(task_about, 100)}
    metric_directions = {
        "adjusted_accuracy": "higher",
        "read_rate": "higher",
        "format_rate": "higher",
        "normalised_accuracy": "higher",
    }
    bounded_metrics = {"adjusted_accuracy": "read_rate"}
    kinds = frozenset({"chat", "completion", "likelihood"})
    protocols = {
        "paper": NamedSettings(
            HTestSettings(k=50, temperature=0.7, max_tokens=5, geometry_max_tokens=1, match="paper"),
            assumed=(
                "one user message without a system prompt, as in the published code",
                "Letter Geometry without examples, with one token and exact match, as in the published code",
                "top_p and penalties at the server's defaults",
            ),
        ),
        "quick": NamedSettings(
            HTestSettings(),
            gives_up="36 of the 50 examples, sampling at temperature 0.7 (temperature 0 instead), and the paper's rule"
            " for reading a reply (a rule that treats A and B alike instead)",
        ),
    }

    def helpers(self, settings: HTestSettings) -> tuple[str, ...]:
        return ("reader",) if settings.cot else ()

    def kinds_of(self, task: str, settings: HTestSettings) -> frozenset[Kind]:
        if settings.answer == "likelihood":
            return frozenset({"likelihood"})
        # The question of Letter Geometry and a chain of thought are instructions, which no base model follows.
        return frozenset({"chat"} if task == GEOMETRY or settings.cot else {"chat", "completion"})

    def load(self, files: DataFiles) -> Loaded:
        return load_items(files)

    async def evaluate(
        self,
        item: Item,
        context: Mapping[str, Sequence[Example]],
        ask: Ask,
        protocol: Protocol[HTestSettings],
    ) -> Verdict:
        settings, has_base = protocol.settings, is_base(ask.kinds)
        prompt = _prompt(item, context, settings, has_base)
        if settings.answer == "likelihood":
            return await _most_likely(item, ask, prompt, has_base)
        temperature, evidence = settings.temperature, {}
        if has_base:
            reply = await ask(Completion(prompt, temperature, max_tokens=settings.max_tokens, stop=("\n",)))
        elif item.task == GEOMETRY:
            limit = settings.geometry_max_tokens
            reply = await ask(Chat.user(prompt, temperature=temperature, max_tokens=limit))
        elif not settings.cot:
            reply = await ask(Chat.user(prompt, temperature=temperature, max_tokens=settings.max_tokens))
        else:
            reply = await ask(Chat.user(prompt, temperature=temperature))
            if reply.finish_reason != "content_filter" and reply.text.strip():
                evidence = {"chain_of_thought": _end(reply.text)}
                question = Chat.user(reader(reply.text), temperature=temperature, max_tokens=5)
                reply = await ask(question, role="reader")
        return _verdict(item, reply, settings, evidence)

    def caption(self, item: Item) -> str:
        return f"{item['text']} → {item['options'][item['answer']]}"

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Yield ``adjusted_accuracy`` (without unreadable replies, appendix D) and the rates of replies per task.

        Adjusted accuracy is undefined where fewer than 30% of the replies could be read. Where the answers are the most
        likely options, yield ``normalised_accuracy`` instead.
        """
        for place, members in by_place(records).items():
            normalised = [
                bool(r.values["normalised_right"]) for r in members if "normalised_right" in r.values
            ]
            if normalised:
                yield rate(place, "normalised_accuracy", normalised, "higher")
                continue
            parsed = [r for r in members if r.values.get("parsed")]
            adjusted = rate(place, "adjusted_accuracy", [r.status == "correct" for r in parsed], "higher")
            if len(parsed) < FEWEST_READ * len(members):
                adjusted = replace(adjusted, value=None, ci_low=None, ci_high=None)
            yield adjusted
            yield rate(place, "read_rate", [bool(r.values.get("parsed")) for r in members], "higher")
            formatted = [bool(r.values.get("format")) for r in members]
            yield rate(place, "format_rate", formatted, "higher")


def _prompt(
    item: Item, context: Mapping[str, Sequence[Example]], settings: HTestSettings, has_base: bool
) -> str:
    if item.task == GEOMETRY:
        # A base model is asked for likelihoods only.
        shown = [item["text"], *item["options"], "Answer:"]
        return "\n".join(shown) if has_base else geometry(item["text"], item["options"])
    try:
        examples = few_shot(context[item.task], settings.k)
    except ValueError as error:
        raise DataError(
            f"htest/{item.task}_dev.jsonl: {error}; choose a smaller k with --llm-set htest.k=N"
        ) from None
    if has_base:
        return continuation(examples, item["text"])
    return classification(examples, item["text"], cot=settings.cot)


def _end(thought: str) -> str:
    """Return the end of a chain of thought, which has the answer; ``requests.jsonl`` has the full text."""
    return thought if len(thought) <= MAX_THOUGHT else f"…{thought[1 - MAX_THOUGHT :]}"


async def _most_likely(item: Item, ask: Ask, prompt: str, has_base: bool) -> Verdict:
    """Return the verdict on the option with the highest log-likelihood after ``prompt``."""
    options = item["options"]
    request = Likelihood(prompt, tuple(f" {option}" if has_base else option for option in options))
    scores = Scores.of(request, await ask(request))
    expected, values = options[item["answer"]], scores.values(item["answer"])
    if scores.best is None:
        return Verdict("unparsed", expected, "", "the most likely options are equally likely", values=values)
    chosen = options[scores.best]
    return Verdict.check(
        chosen == expected, expected=expected, given=chosen, reason=f"most likely: {chosen}", values=values
    )


def _verdict(item: Item, reply: Reply, settings: HTestSettings, evidence: Mapping[str, str]) -> Verdict:
    """Return the verdict by the rule of the settings. ``values`` say whether both rules read the same."""
    options: Sequence[str] = item["options"]
    expected, given = options[item["answer"]], reply.text.strip()
    if reply.finish_reason == "content_filter":
        values = {"parsed": 0.0, "format": 0.0}
        return Verdict(
            "refused", expected, given, "a content filter refused", values=values, evidence=evidence
        )
    by_letter = stated(reply.text, [(option,) for option in options])
    if item.task == GEOMETRY:
        by_paper = read_option(reply.text, options)
    else:
        label = read_label(reply.text)
        by_paper = None if label is None else LABELS.index(label)
    chosen, other, rule = by_letter, by_paper, "stated choice"
    if settings.match == "paper":
        chosen, other, rule = by_paper, by_letter, "the paper's rule"
    values = {"parsed": float(chosen is not None), "format": float(given in options)}
    values[READ_ALIKE] = float(chosen == other)
    evidence = {**evidence, READ_BY: rule}
    if chosen != other:
        evidence[OTHER_READING] = "none" if other is None else options[other]
    if chosen is None:
        reason = "no answer could be read" if given else "the reply is empty"
        if given and reply.finish_reason == "length":
            reason = "the reply was cut off before an answer"
        return Verdict("unparsed", expected, given, reason, values=values, evidence=evidence)
    return Verdict.check(
        chosen == item["answer"],
        expected=expected,
        given=options[chosen],
        reason=f"read as {options[chosen]}",
        values=values,
        evidence=evidence,
    )


def read_label(reply: str) -> Label | None:
    """Return A, B or None, by the rule for the published results, which treats the labels differently.

    A word with an "a" is read as A, so "Answer: A" is read and "Answer: B" is not. `core.reading.stated`, this
    project's rule, treats all options alike.

    The reply is stripped and lower-cased. It is A if it contains an "a" and no "b", or "label: a", or "is a"
    without "or b". Otherwise the same rule is applied for B.
    """
    text = reply.strip().lower()
    if ("a" in text and "b" not in text) or "label: a" in text or ("is a" in text and "or b" not in text):
        return "A"
    if ("b" in text and "a" not in text) or "label: b" in text or ("is b" in text and "or a" not in text):
        return "B"
    return None


def read_option(reply: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that equals the stripped reply (Letter Geometry, published code)."""
    text = reply.strip()
    return options.index(text) if text in options else None
