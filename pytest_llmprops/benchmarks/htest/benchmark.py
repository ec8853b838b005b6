"""The H-TEST benchmark: load the items, send the questions, judge the replies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

from pytest_llmprops.benchmarks.htest.reading import LABELS, read_label, read_option
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric, by_place, rate
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.reading import stated
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Chat, Completion, Kind, Likelihood, Reply, Scores, is_base
from pytest_llmprops.core.verdicts import OTHER_READING, READ_ALIKE, READ_BY, Verdict

# The prompts of the paper (section 3, appendices B, D and G) in the wording of its published code.

Example = tuple[str, str]


def few_shot(examples: Sequence[Example], k: int) -> tuple[Example, ...]:
    """Return the first k / 2 examples of each label, alternating A, B (appendix G).

    :param examples: (text, label) pairs.
    :raises ValueError: if a label has fewer than k / 2 examples.
    """
    half = k // 2
    chosen = [[e for e in examples if e[1] == label][:half] for label in ("A", "B")]
    if min(map(len, chosen)) < half:
        raise ValueError(
            f"k = {k} needs {half} examples of each label, but there are {len(chosen[0])} A and {len(chosen[1])} B"
        )
    return tuple(example for pair in zip(*chosen, strict=True) for example in pair)


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


#: Keys of the text. The authors' ``start_vowel_dev.jsonl`` has ``question``, their other files have ``centerpiece``.
TEXT_KEYS = ("centerpiece", "question")


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One line of an H-TEST file.

    :param answer: Index of the correct option.
    :param id: Empty in published files.
    """

    text: str
    options: list[str]
    answer: int
    id: str = ""


def text_of(row: Mapping[str, Any], place: str) -> str:
    """Return the text of a row.

    :param place: File and row, for messages.
    :raises DataError: If the row has no text.
    """
    key = next((key for key in TEXT_KEYS if key in row), None)
    if key is None:
        keys = " or ".join(map(repr, TEXT_KEYS))
        raise DataError(f"{place}: no {keys}; every line needs {keys}, 'options' and 'correct_options'")
    text = row[key]
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{place}: {key} must be a non-empty string")
    return text


def read_rows(files: DataFiles, path: str, *, options: int) -> list[ItemRow]:
    """Read a file and check its rows.

    :param options: Number of options: 2 for the labels A and B.
    :raises DataError: With the file, the row and the fix.
    """
    rows = []
    for number, row in enumerate(files.jsonl(path), 1):
        place = f"{path}: row {number}"
        text, choices, correct = text_of(row, place), row.get("options"), row.get("correct_options")
        if not _are_options(choices, options) or not (
            # isinstance(…, int) would accept true.
            isinstance(correct, list)
            and len(correct) == 1
            and type(correct[0]) is int
            and correct[0] in range(options)
        ):
            expected = "the options A and B" if options == 2 else f"{options} different options"
            raise DataError(
                f"{place}: needs {expected}, and correct_options with the index of the correct one"
            )
        rows.append(ItemRow(text, choices, correct[0], str(row.get("id", ""))))
    return rows


def _are_options(value: object, count: int) -> TypeGuard[list[str]]:
    if count == 2:
        return value == list(LABELS)
    if not isinstance(value, list) or not all(isinstance(option, str) for option in value):
        return False
    return len(value) == len(set(value)) == count


#: The ten tasks, with the names of the published files (paper, table 1).
TASKS = (
    "uppercase",
    "start_vowel",
    "end_punctuation",
    "palindrome",
    "end_ly",
    "spelled_math",
    "spelled_number",
    "rhyme",
    "repeated_word",
    "hyphenated_word",
)
GEOMETRY = "letter_geometry"
#: Maximum number of characters of a chain of thought in a verdict.
MAX_THOUGHT = 300
#: With a smaller share of readable replies, the accuracy of these says little about the model.
FEWEST_READ = 0.3
_ID_PREFIXES = {"published": "p", "generated": "g"}


@dataclass(frozen=True, slots=True)
class HTestSettings:
    """How an item is measured.

    :param k: Number of few-shot examples, half of them A.
    :param cot: Ask for a chain of thought; a second model, the helper ``reader``, reads the answer (appendix D).
    :param max_tokens: Maximum tokens of an A/B answer.
    :param geometry_max_tokens: Maximum tokens of a Letter Geometry answer.
    :param match: How a reply is read. ``letter``: the label or option that it chooses, in any wording, by a rule that
        treats all options alike. ``paper``: by the rule for the published results (``reading.read_label``); for Letter
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
        """Load the tasks whose files exist; the context maps each task to its (text, label) examples."""
        items: list[Item] = []
        examples: dict[str, tuple[Example, ...]] = {}
        for task in TASKS:
            if files.exists(f"htest/{task}_test.jsonl"):
                items += _items(files, task, options=2)
                rows = read_rows(files, f"htest/{task}_dev.jsonl", options=2)
                examples[task] = tuple((row.text, LABELS[row.answer]) for row in rows)
        if files.exists(f"htest/{GEOMETRY}_test.jsonl"):
            items += _items(files, GEOMETRY, options=4)
        if not items:
            # Raises the error that names the missing file and how to get it.
            files.text(f"htest/{TASKS[0]}_test.jsonl")
        return Loaded(tuple(items), examples)

    async def evaluate(
        self,
        item: Item,
        context: Mapping[str, Sequence[Example]],
        ask: Ask,
        protocol: Protocol[HTestSettings],
    ) -> Verdict:
        settings = protocol.settings
        if item.task == GEOMETRY:
            return await _geometry(item, ask, settings)
        return await _classified(item, item["text"], _examples(item, context, settings), ask, settings)

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


def _examples(
    item: Item, context: Mapping[str, Sequence[Example]], settings: HTestSettings
) -> tuple[Example, ...]:
    try:
        return few_shot(context[item.task], settings.k)
    except ValueError as error:
        raise DataError(
            f"htest/{item.task}_dev.jsonl: {error}; choose a smaller k with --llm-set htest.k=N"
        ) from None


async def _classified(
    item: Item, text: str, examples: Sequence[Example], ask: Ask, settings: HTestSettings
) -> Verdict:
    """Ask for the label of ``text`` after ``examples``, and judge the reply by the label of ``item``."""
    if is_base(ask.kinds):
        prompt = continuation(examples, text)
    else:
        prompt = classification(examples, text, cot=settings.cot)
    if settings.answer == "likelihood":
        return await _most_likely(item, ask, prompt, LABELS)
    if is_base(ask.kinds):
        reply = await ask(
            Completion(prompt, settings.temperature, max_tokens=settings.max_tokens, stop=("\n",))
        )
        return _judge(item, reply, settings, {})
    if not settings.cot:
        reply = await ask(Chat.user(prompt, temperature=settings.temperature, max_tokens=settings.max_tokens))
        return _judge(item, reply, settings, {})
    thought = await ask(Chat.user(prompt, temperature=settings.temperature))
    if thought.finish_reason == "content_filter" or not thought.text.strip():
        return _judge(item, thought, settings, {})
    question = Chat.user(reader(thought.text), temperature=settings.temperature, max_tokens=5)
    reply = await ask(question, role="reader")
    return _judge(item, reply, settings, {"chain_of_thought": _end(thought.text)})


def _end(thought: str) -> str:
    """Return the end of a chain of thought, which has the answer; ``requests.jsonl`` has the full text."""
    return thought if len(thought) <= MAX_THOUGHT else f"…{thought[1 - MAX_THOUGHT :]}"


async def _most_likely(item: Item, ask: Ask, prompt: str, options: Sequence[str]) -> Verdict:
    """Return the verdict on the option with the highest log-likelihood after ``prompt``."""
    space = " " if is_base(ask.kinds) else ""
    request = Likelihood(prompt, tuple(space + option for option in options))
    scores = Scores.of(request, await ask(request))
    expected, values = options[item["answer"]], scores.values(item["answer"])
    if scores.best is None:
        return Verdict("unparsed", expected, "", "the most likely options are equally likely", values=values)
    return Verdict.check(
        scores.best == item["answer"],
        expected=expected,
        given=options[scores.best],
        reason=f"most likely: {options[scores.best]}",
        values=values,
    )


async def _geometry(item: Item, ask: Ask, settings: HTestSettings) -> Verdict:
    options: Sequence[str] = item["options"]
    if settings.answer == "likelihood" and is_base(ask.kinds):
        return await _most_likely(item, ask, "\n".join([item["text"], *options, "Answer:"]), options)
    prompt = geometry(item["text"], options)
    if settings.answer == "likelihood":
        return await _most_likely(item, ask, prompt, options)
    reply = await ask(
        Chat.user(prompt, temperature=settings.temperature, max_tokens=settings.geometry_max_tokens)
    )
    return _verdict(item, reply, options, settings, read_option(reply.text, options))


def _judge(item: Item, reply: Reply, settings: HTestSettings, evidence: Mapping[str, str]) -> Verdict:
    label = read_label(reply.text)
    return _verdict(item, reply, LABELS, settings, None if label is None else LABELS.index(label), evidence)


def _verdict(
    item: Item,
    reply: Reply,
    options: Sequence[str],
    settings: HTestSettings,
    by_paper: int | None,
    evidence: Mapping[str, str] | None = None,
) -> Verdict:
    """Return the verdict by the rule of the settings. ``values`` say whether both rules read the same."""
    by_letter = stated(reply.text, [(option,) for option in options])
    chosen, other, rule = by_letter, by_paper, "stated choice"
    if settings.match == "paper":
        chosen, other, rule = by_paper, by_letter, "the paper's rule"
    expected = options[item["answer"]]
    if reply.finish_reason == "content_filter":
        values = {"parsed": 0.0, "format": 0.0}
        return _unread(reply, expected, values, evidence)
    values = {"parsed": float(chosen is not None), "format": float(reply.text.strip() in options)}
    values[READ_ALIKE] = float(chosen == other)
    evidence = {**(evidence or {}), READ_BY: rule}
    if chosen != other:
        evidence[OTHER_READING] = "none" if other is None else options[other]
    if chosen is None:
        return _unread(reply, expected, values, evidence)
    reason = f"read as {options[chosen]}"
    if chosen != item["answer"] and len(options) == 2:
        reason += ", which is the other group"
    return Verdict.check(
        chosen == item["answer"],
        expected=expected,
        given=options[chosen],
        reason=reason,
        values=values,
        evidence=evidence,
    )


def _unread(
    reply: Reply, expected: str, values: Mapping[str, float], evidence: Mapping[str, str] | None = None
) -> Verdict:
    given = reply.text.strip()
    if reply.finish_reason == "content_filter":
        return Verdict(
            "refused", expected, given, "a content filter refused", values=values, evidence=evidence or {}
        )
    if not given:
        reason = "the reply is empty"
    elif reply.finish_reason == "length":
        reason = "the reply was cut off before an answer"
    else:
        reason = "no answer could be read"
    return Verdict("unparsed", expected, given, reason, values=values, evidence=evidence or {})


def _items(files: DataFiles, task: str, *, options: int) -> Iterator[Item]:
    prefix = _ID_PREFIXES.get(files.source, "")
    for number, row in enumerate(read_rows(files, f"htest/{task}_test.jsonl", options=options), 1):
        name = f"{prefix}{row.id or format(number, '04d')}"
        fields = {"text": row.text, "options": row.options, "answer": row.answer}
        yield Item(f"htest/{task}/{name}", task, "en", files.source, fields=fields)
