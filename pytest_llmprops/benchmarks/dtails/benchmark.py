"""The DTAiLS benchmark: what it loads, asks, judges and counts (Barua et al., appendices B.2 and B.3)."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from pytest_llmprops.benchmarks.dtails.items import (
    SELECT,
    TRANSLATE,
    Baseline,
    Slot,
    frequency_baseline,
    items,
    slots,
    train_rows,
)
from pytest_llmprops.benchmarks.dtails.metrics import metric_rows, remarks
from pytest_llmprops.benchmarks.dtails.prompts import (
    Prompt,
    language_name,
    retried,
    scored_selection,
    selection,
    shown_order,
    shown_rules,
    translation,
    variation_name,
)
from pytest_llmprops.benchmarks.dtails.reading import (
    FENCE,
    Reading,
    declines,
    paper_selection,
    paper_translation,
    read_selection,
    read_translation,
)
from pytest_llmprops.benchmarks.dtails.rules import (
    TRIES,
    ConceptRules,
    RulesFile,
    RulesOutcome,
    concept_sentences,
    make_rules,
    parse_rules_file,
)
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded
from pytest_llmprops.core.errors import BackendError, RunStopped, UsageError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.requests import Chat, Kind, Likelihood, Parse, Reply, Scores, Translate, is_base
from pytest_llmprops.core.strict_json import JSON, short
from pytest_llmprops.core.texts import TOKENIZER, shortened, unicode_words
from pytest_llmprops.core.verdicts import (
    OTHER_READING,
    READ_ALIKE,
    READ_BY,
    Evidence,
    Status,
    Verdict,
    VerdictRecord,
    without_empty,
)

#: values of the setting ``rules``; all others are files
NONE, SELF, HELPER = "none", "self", "helper"


@dataclass(frozen=True, slots=True)
class DtailsSettings:
    """How an item is measured.

    :param rules: ``none``; ``self``: the model under test writes the rules; ``helper``: the helper ``rules`` writes
        them for every model; or rules files by another model or a person, one per language, separated by commas
        (section 4).
    :param runs: Number of times each choice is asked for, each time in another order (appendix B.4).
    :param max_tokens: Limit for a choice or a chat model's translation. :param rule_max_tokens: Limit for rules.
    :param tokenizer: How translations are split into words. ``stanza`` uses the helper ``parse``, ``unicode`` the
        Unicode rules, and ``auto`` the helper if it has a model of the language and Unicode otherwise.
    :param answer: ``text``: the model writes its choice. ``likelihood``: its choice is the variation with the highest
        log-likelihood. Translations are always text.
    :param match: How a reply is read. ``paper``: by the authors' plain rule. ``word``: by this project's rule, which
        understands remarks, other spellings and notes (:mod:`~pytest_llmprops.benchmarks.dtails.reading`).
    """

    rules: str = NONE
    runs: int = 1
    temperature: float = 0.0
    max_tokens: int = 1024
    rule_max_tokens: int = 2048
    tokenizer: Literal["auto", "stanza", "unicode"] = "auto"
    answer: Literal["text", "likelihood"] = "text"
    match: Literal["paper", "word"] = "word"

    def __post_init__(self) -> None:
        if not 1 <= self.runs <= 20:
            raise ValueError("runs must be from 1 to 20")
        if self.max_tokens < 1 or self.rule_max_tokens < 1 or not 0 <= self.temperature < math.inf:
            raise ValueError("max_tokens and rule_max_tokens must be at least 1 and temperature at least 0")
        if self.answer == "likelihood" and self.rules == SELF:
            raise ValueError("rules = self needs answer = text, because the model writes the rules")
        if not all(path.strip() for path in self.rules.split(",")):
            raise ValueError("rules must be none, self, helper, or rules files separated by commas")


@dataclass(frozen=True, slots=True)
class Context:
    """The data shared by all items of one data folder.

    :param baselines: By language, over its whole file.
    :param sentences: Example sentences for rules by variation name, by cluster; only if a model writes the rules.
    :param rules: The rules files of the setting ``rules``, by language.
    :param slots: By item id; they balance the orders of variations.
    """

    baselines: Mapping[str, Baseline]
    sentences: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    rules: Mapping[str, RulesFile] = field(default_factory=dict)
    slots: Mapping[str, Slot] = field(default_factory=dict)

    def rules_of(self, item: Item) -> ConceptRules | None:
        """Return the rules of a file for the item's concept; None if no file has them."""
        file = self.rules.get(item.language)
        return None if file is None else file.find(item["concept"], item["variations"], item["pos"])


#: Helper roles: splits translations into words; writes rules for every model under test.
PARSE, RULES = "parse", "rules"
#: The reading of a reply by each value of the setting ``match``.
Readings = Mapping[Literal["paper", "word"], Reading]
#: Maximum characters of a translation in the evidence; ``requests.jsonl`` has the whole reply.
LONGEST = 1_000


async def translate(item: Item, ask: Ask, settings: DtailsSettings, more: dict[str, float]) -> Verdict:
    """Have the sentence translated and search the translation for a variation.

    :param more: Further values of the verdict.
    :raises RunStopped: The tokenizer is ``stanza``, and no model of the language is available.
    """
    if "translate" in ask.kinds:
        reply = await ask(Translate(item["sentence"], "en", item.language))
    else:
        prompt = translation(item["sentence"], language_name(item.language))
        reply = await ask(_chat(prompt, settings))
    readings, name = _translation_readings(item, reply.text, ()), ""
    if any(reading.index is None for reading in readings.values()) and reply.text.strip():
        words, is_parsed, tokenizer = await _words(reply.text, item.language, ask, settings.tokenizer)
        # The words may be needed for the comparison only.
        if readings[settings.match].index is None:
            name = tokenizer
            more |= {"parser": float(is_parsed)}
        readings = _translation_readings(item, reply.text, words)
    reading = readings[settings.match]
    other = _other_reading(readings, settings, item["variations"])
    variations: Sequence[tuple[str, ...]] = item["variations"]
    chosen = None if reading.index is None else variations[reading.index]
    status, reason = _judged_translation(item, reply, reading, chosen)
    if reading.how == "word":
        reason += f" (similar word, ratio {reading.ratio:.2f}; words by {name})"
    elif reading.how == "inflected":
        reason += f" (an inflected form of {reading.form})"
    elif chosen is None and name:
        reason += f" (words by {name})"
    values = {
        "variations": float(len(variations)),
        **more,
        # A translation without a variation is wrong, as in the paper, but nothing was read.
        "parsed": float(chosen is not None),
        READ_ALIKE: float(not other),
        "chosen": 0.0 if reading.index is None else float(reading.index + 1),
        "substring": float(reading.how == "substring"),
        "ratio": round(reading.ratio, 4),
    }
    evidence = without_empty(
        {
            "concept": item["concept"],
            "sentence": item["sentence"],
            "translation": shortened(reply.text, LONGEST),
            "reference": item["target"],
            "tokenizer": name,
            READ_BY: _how_read(reading),
            OTHER_READING: other,
        }
    )
    answer = reply.text if chosen is None else variation_name(chosen)
    score = float(status == "correct")
    return Verdict(status, variation_name(item["label"]), answer, reason, score, values, evidence)


def _translation_readings(item: Item, text: str, words: Sequence[str]) -> Readings:
    variations: Sequence[tuple[str, ...]] = item["variations"]
    return {
        "paper": paper_translation(text, variations, words),
        "word": read_translation(text, variations, words, source=item["sentence"], concept=item["concept"]),
    }


def _other_reading(readings: Readings, settings: DtailsSettings, shown: Sequence[tuple[str, ...]]) -> str:
    """Return what the rule of the other protocol reads; empty if both read the same variation or none."""
    own = readings[settings.match].index
    other = next(one.index for match, one in readings.items() if match != settings.match)
    return "" if own == other else "none" if other is None else variation_name(shown[other])


def _how_read(reading: Reading) -> str:
    """Return how a reply was read, or why no variation was."""
    return reading.how if reading.index is not None else reading.problem.partition(":")[0]


def _chat(prompt: Prompt, settings: DtailsSettings, run: int = 0) -> Chat:
    return Chat(prompt, temperature=settings.temperature, max_tokens=settings.max_tokens, sample=run)


async def _words(text: str, language: str, ask: Ask, tokenizer: str) -> tuple[list[str], bool, str]:
    """Return the words of a translation, with lemmas from a parser; whether a parser split it; and its name."""
    missing = "no model for the role 'parse': --llm-helper parse=stanza"
    if tokenizer != "unicode" and PARSE in ask.roles:
        value = (await ask(Parse(text, language, "words"), role=PARSE)).value
        if value["words"] is not None:
            # The authors compare every word and its lemma.
            return [text for word in value["words"] for text in word[:2]], True, str(value["by"])
        missing = str(value.get("missing", "its parser has no model of the language"))
    if tokenizer == "stanza":
        raise RunStopped(f"dtails.tokenizer=stanza: {missing}; or use dtails.tokenizer=auto")
    return unicode_words(text), False, TOKENIZER


def _judged_translation(
    item: Item, reply: Reply, reading: Reading, chosen: tuple[str, ...] | None
) -> tuple[Status, str]:
    if chosen is not None:
        right = not set(chosen).isdisjoint(item["label"])
        return ("correct" if right else "wrong"), f"translated with {variation_name(chosen)}"
    if reply.finish_reason == "content_filter":
        return "refused", "a content filter refused"
    if not reply.text.strip():
        return "unparsed", "the translation is empty"
    if declines(reply.text, item["variations"], item["sentence"]):
        return "refused", "declined to translate"
    if reply.finish_reason == "length":
        return "unparsed", "cut off before any variation"
    return "wrong", reading.problem


@dataclass(frozen=True, slots=True)
class Choice:
    """One run's outcome on one item.

    :param order: The index of the variation at each position shown.
    :param reading: Its ``index`` is a position shown.
    :param retried: The outcome is from the second reply, because the first did not follow the template.
    :param scores: The log-likelihoods of the variations, in the order shown; None if the choice was written.
    :param other: What the rule of the other protocol reads, if it differs.
    """

    status: Status
    order: tuple[int, ...]
    reading: Reading
    reason: str
    retried: bool
    scores: Scores | None = None
    other: str = ""

    @property
    def chosen(self) -> int | None:
        """The index of the chosen variation in the item's own order."""
        return None if self.reading.index is None else self.order[self.reading.index]


async def choose(
    item: Item, ask: Ask, settings: DtailsSettings, order: tuple[int, ...], *, run: int, rules: str
) -> Choice:
    """Ask for one choice, and ask again if the reply does not follow the template.

    :param order: Of the variations. :param run: From 0. :param rules: In the prompt; may be empty.
    """
    shown = [item["variations"][index] for index in order]
    language = language_name(item.language)
    if settings.answer == "likelihood":
        return await _most_likely(item, ask, order, shown, language=language, rules=rules)
    prompt = selection(item["concept"], item["sentence"], shown, language=language, rules=rules)
    reply = await ask(_chat(prompt, settings, run))
    readings = _selection_readings(reply.text, shown)
    reading = readings[settings.match]
    again = not reading.obeyed and reply.finish_reason != "content_filter"
    if again:
        prompt = retried(prompt, shown)
        reply = await ask(_chat(prompt, settings, run))
        readings = _selection_readings(reply.text, shown)
        reading = readings[settings.match]
    status, reason = _judged(item, shown, reading, reply)
    return Choice(status, order, reading, reason, again, other=_other_reading(readings, settings, shown))


def _selection_readings(text: str, shown: Sequence[tuple[str, ...]]) -> Readings:
    return {"paper": paper_selection(text, shown), "word": read_selection(text, shown)}


async def _most_likely(
    item: Item,
    ask: Ask,
    order: tuple[int, ...],
    shown: Sequence[tuple[str, ...]],
    *,
    language: str,
    rules: str,
) -> Choice:
    """Return the choice of the variation with the highest log-likelihood."""
    is_text = is_base(ask.kinds)
    prompt = scored_selection(
        item["concept"], item["sentence"], shown, language=language, rules=rules, is_base=is_text
    )
    names = [variation_name(forms) for forms in shown]
    request = Likelihood(prompt, tuple(f" {name}" if is_text else name for name in names))
    reply = await ask(request)
    scores = Scores.of(request, reply)
    if scores.best is None:
        problem = "the most likely variations are equally likely"
        return Choice("unparsed", order, Reading(problem=problem), problem, retried=False, scores=scores)
    reading = Reading(scores.best, names[scores.best], 1.0, how="equal")
    status, reason = _judged(item, shown, reading, reply)
    return Choice(status, order, reading, reason, retried=False, scores=scores)


def _judged(
    item: Item, shown: Sequence[tuple[str, ...]], reading: Reading, reply: Reply
) -> tuple[Status, str]:
    if reply.finish_reason == "content_filter" and reading.index is None:
        return "refused", "a content filter refused"
    if reading.index is not None:
        chosen = shown[reading.index]
        # Compared unfolded: two Tamil variations are the same word in two Unicode forms.
        right = not set(chosen).isdisjoint(item["label"])
        return ("correct" if right else "wrong"), f"chose {variation_name(chosen)}"
    if reading.obeyed:
        return "wrong", reading.problem
    # A reply without fences may choose, and say what it cannot do.
    if declines(reply.text) and read_selection(f"{FENCE}{reply.text}{FENCE}", shown).index is None:
        return "refused", "declined, after one retry"
    cut = ", cut off" if reply.finish_reason == "length" else ""
    return "unparsed", f"{reading.problem}{cut}, after one retry"


def judge_choices(
    item: Item, choices: Sequence[Choice], rules: ConceptRules | None, more: dict[str, float]
) -> Verdict:
    """Return one verdict for all runs: correct if more than half are correct; the score is their share."""
    right = sum(choice.status == "correct" for choice in choices)
    values = {"variations": float(len(item["variations"])), **more}
    if all(choice.scores is None for choice in choices):
        values[READ_ALIKE] = float(not any(choice.other for choice in choices))
        values["parsed"] = float(any(choice.chosen is not None for choice in choices))
    for run, choice in enumerate(choices, 1):
        values |= run_values(run, choice.reading, choice.status == "correct", choice.retried)
        if choice.scores is not None:
            shown = [item["variations"][index] for index in choice.order]
            right_place = next(n for n, forms in enumerate(shown) if not set(forms).isdisjoint(item["label"]))
            values |= choice.scores.values(right_place, f"run{run}_")
    failed = [choice for choice in choices if choice.status != "correct"]
    status: Status = "correct" if 2 * right > len(choices) else _most_common(failed)
    first = next(choice for choice in choices if choice.status == status)
    reason = first.reason if len(choices) == 1 else f"right in {right} of {len(choices)} runs: {first.reason}"
    chosen = [choice.chosen for choice in choices if choice.chosen is not None]
    other = next((choice.other for choice in choices if choice.other), "")
    said = without_empty({READ_BY: _how_read(first.reading), OTHER_READING: other})
    evidence = _evidence(item, [choice.order for choice in choices], chosen, rules)
    answer, score = _answer(item, choices), right / len(choices)
    return Verdict(status, variation_name(item["label"]), answer, reason, score, values, {**evidence, **said})


def _evidence(
    item: Item,
    orders: Sequence[Sequence[int]] = (),
    chosen: Sequence[int] = (),
    rules: ConceptRules | None = None,
) -> Evidence:
    """Return how a choice was asked for, without empty parts (``docs/record.md``).

    :param orders: For each run, the index of the variation at each position shown.
    :param chosen: Indexes of the variations chosen. The evidence has the rules of these and of the right one; all rules
        in every verdict would make a run's record half as large again.
    """
    names = [variation_name(forms) for forms in item["variations"]]
    kept = {variation_name(item["label"]), *(names[index] for index in chosen)}
    shown_rules: list[JSON] = [
        without_empty({"variation": rule.variation, "rule": rule.text, "sentences": rule.sentences or None})
        for rule in (rules.of(kept) if rules else ())
    ]
    return without_empty(
        {
            "concept": item["concept"],
            "sentence": item["sentence"],
            "variations": list(names),
            "shown": [[names[index] for index in order] for order in orders],
            "rules": shown_rules,
            "clue": list(item["clue"]),
        }
    )


def run_values(run: int, reading: Reading, right: bool, retried: bool) -> dict[str, float]:
    """Return a verdict's values of one run (from 1), such as ``run1_right``.

    ``run1_position`` counts from 1; 0 means that no variation could be read.
    """
    return {
        f"run{run}_right": float(right),
        f"run{run}_position": 0.0 if reading.index is None else float(reading.index + 1),
        f"run{run}_ratio": round(reading.ratio, 4),
        f"run{run}_retried": float(retried),
    }


def _most_common(failed: Sequence[Choice]) -> Status:
    counts = Counter(choice.status for choice in failed)
    order: tuple[Status, ...] = ("wrong", "unparsed", "refused")
    return max(order, key=lambda status: counts[status])


def _answer(item: Item, choices: Sequence[Choice]) -> str:
    """Return what was chosen, with counts if the runs differ; empty if no run chose anything."""
    names = [
        "nothing" if choice.chosen is None else variation_name(item["variations"][choice.chosen])
        for choice in choices
    ]
    counts = Counter(names)
    if len(counts) == 1:
        return "" if names[0] == "nothing" else names[0]
    return ", ".join(f"{name} ({count} of {len(names)})" for name, count in counts.most_common())


async def _rules_for(item: Item, context: Context, ask: Ask, settings: DtailsSettings) -> RulesOutcome:
    """Return the rules of a file, or have the model under test or the helper write them.

    :raises BackendError: The helper's rules cannot be read, which is no fault of the model under test.
    """
    if settings.rules not in (SELF, HELPER):
        # `Dtails.check_selected` has checked that a file has them.
        return RulesOutcome(context.rules_of(item))
    outcome = await make_rules(
        partial(ask, role=RULES) if settings.rules == HELPER else ask,
        item["concept"],
        item["pos"],
        item["variations"],
        item.language,
        context.sentences[item.cluster],
        temperature=settings.temperature,
        max_tokens=settings.rule_max_tokens,
    )
    if outcome.rules is None and settings.rules == HELPER:
        raise BackendError(
            f"the helper 'rules' wrote no rules for {item['concept']!r} that can be read ({outcome.problem}); give"
            " another model with --llm-helper rules=SPEC",
            kind="rules",
        )
    return outcome


def _without_rules(item: Item, outcome: RulesOutcome, more: dict[str, float], runs: int) -> Verdict:
    """Return the verdict for a model whose own rules cannot be read.

    ``rules = self`` measures choices with the model's own rules, so no run counts as right.
    """
    reason = f"its rules for {item['concept']!r} could not be read in {TRIES} tries: {outcome.problem}"
    if outcome.refused:
        reason = f"a content filter refused its rules for {item['concept']!r}"
    values = {"variations": float(len(item["variations"])), **more}
    for run in range(1, runs + 1):
        values |= run_values(run, Reading(), right=False, retried=False)
    return Verdict(
        "refused" if outcome.refused else "unparsed",
        variation_name(item["label"]),
        "",
        reason,
        values=values,
        evidence=_evidence(item),
    )


_ASSUMED = (
    "lists of variations, sentences and the prompt for rules are written as by the authors' code, without escapes",
    "similarity counts from 0.7 inclusive, as in the authors' code (the text says that it exceeds 0.7)",
    "of equally similar variations, the first in the list counts, as in the authors' code",
    "of several forms in a translation, the first in the list counts, as in the authors' code",
    "the answer is compared as a whole and split only at '/', as in the authors' code",
    "translations are compared in lower case, as in the authors' code",
    "without Stanza's model of the language, a translation is split by Unicode rules, without lemmas",
    "orders are balanced over the items and runs of a language",
    "the deviation over runs is the sample standard deviation (n - 1)",
    "the paper has no chat models as translators: their prompt is this project's",
)


class Dtails(Benchmark):
    """Measures whether a model chooses the right one of several translations of a word in a sentence."""

    name = "dtails"
    title = "DTAiLS"
    noun = "DTAiLS items"
    side_tasks = frozenset({TRANSLATE})
    about = "Does the model choose the translation of a word that fits the sentence?"
    task_about = {
        SELECT: "Given the English sentence and a shuffled list of words, which word translates the concept?",
        TRANSLATE: "The model translates the sentence. Which of the words does its translation use?",
    }
    metric_directions = {
        "frequency_baseline": "none",
        # k is the number of variations; each row has its own.
        "position_rate": "target:1/k",
        "position_p": "none",
        "order_invariant": "higher",
        "accuracy_mean": "higher",
        "accuracy_sd": "none",
        "retry_rate": "lower",
        "rules_failed_rate": "lower",
        "found_rate": "higher",
        "substring_rate": "none",
        "parser_rate": "none",
        "normalised_accuracy": "higher",
    }
    judges_filtered = True
    kinds = frozenset({"chat", "likelihood", "translate"})
    roles = frozenset({"parse", "rules"})
    limit_per_cluster = True
    # About one item of each concept; standard has all items.
    sizes = {"small": {"select": 8, "translate": 8}}
    protocols = {
        "paper": NamedSettings(DtailsSettings(runs=3, match="paper"), assumed=_ASSUMED),
        "quick": NamedSettings(
            DtailsSettings(),
            gives_up=(
                "two of the three runs in different orders, so no deviation over runs, and the authors' plain reading"
                " of replies (remarks, spellings and notes are understood)"
            ),
        ),
    }

    def load(self, files: DataFiles) -> Loaded:
        """Load the items of every language, with each language's frequency baseline and the slots of its items."""
        every = tuple(items(files))
        selected = [item for item in every if item.task == SELECT]
        baselines = {
            language: frequency_baseline((i.cluster, i["label"]) for i in selected if i.language == language)
            for language in {item.language for item in selected}
        }
        return Loaded(every, Context(baselines, slots=slots(selected)))

    def prepared(self, part: Loaded, files: DataFiles, settings: DtailsSettings) -> Loaded:
        """Return ``part`` with the rules or sentences that the setting ``rules`` needs.

        :raises DataError: A file is invalid. :raises UsageError: Two files are for one language.
        """
        if settings.rules == NONE:
            return part
        if settings.rules in (SELF, HELPER):
            return Loaded(part.items, replace(part.context, sentences=_sentences(part.items, files)))
        rules: dict[str, RulesFile] = {}
        for path in (text.strip() for text in settings.rules.split(",")):
            file = parse_rules_file(files.given(path), path)
            if file.language in rules:
                raise UsageError(
                    f"dtails.rules={settings.rules}: two files for '{file.language}'; use one per language"
                )
            rules[file.language] = file
        return Loaded(part.items, replace(part.context, rules=rules))

    def check_selected(self, items: Sequence[Item], context: Context, settings: DtailsSettings) -> None:
        """Check that the rules files have the concepts of all items.

        :raises UsageError: A language or a concept is missing; the message names the first.
        """
        if settings.rules in (NONE, SELF, HELPER):
            return
        missing = [item for item in items if item.task == SELECT and context.rules_of(item) is None]
        if not missing:
            return
        first, where = missing[0], f"dtails.rules={settings.rules}"
        if first.language not in context.rules:
            known = sorted(context.rules)
            raise UsageError(
                f"{where}: rules for {', '.join(known)}, not for '{first.language}'; add that language's file (after a"
                f" comma), or select with -k dtails/{known[0]}"
            )
        names = ", ".join(map(variation_name, first["variations"]))
        others = len({item.cluster for item in missing}) - 1
        raise UsageError(
            f"{where}: no rules for {short(first['concept'])} with the variations {short(names)}"
            f"{f' and {others} more' if others else ''}; make them with `llmprops lab dtails rules --lang"
            f" {first.language}`"
        )

    def kinds_of(self, task: str, settings: DtailsSettings) -> frozenset[Kind]:
        if task != SELECT:
            return frozenset({"translate", "chat"})
        return frozenset({"likelihood" if settings.answer == "likelihood" else "chat"})

    def helpers(self, settings: DtailsSettings) -> tuple[str, ...]:
        return ("rules",) if settings.rules == HELPER else ()

    async def evaluate(
        self, item: Item, context: Context, ask: Ask, protocol: Protocol[DtailsSettings]
    ) -> Verdict:
        settings = protocol.settings
        baseline = context.baselines[item.language]
        more = {"frequency_baseline": round(baseline.accuracy, 6), "frequency_n": float(baseline.n)}
        if item.task == TRANSLATE:
            return await translate(item, ask, settings, more)
        rules: ConceptRules | None = None
        if settings.rules != NONE:
            outcome = await _rules_for(item, context, ask, settings)
            more["rules_read"] = float(outcome.rules is not None)
            if outcome.rules is None:
                return _without_rules(item, outcome, more, settings.runs)
            more["sentences"] = float(outcome.rules.sentences)
            rules = outcome.rules
        text = "" if rules is None else shown_rules(rules.texts())
        slot, count = context.slots.get(item.base_id), len(item["variations"])
        orders = [shown_order(count, protocol.seed, item.base_id, run, slot) for run in range(settings.runs)]
        runs = (choose(item, ask, settings, order, run=run, rules=text) for run, order in enumerate(orders))
        return judge_choices(item, await asyncio.gather(*runs), rules, more)

    def caption(self, item: Item) -> str:
        return f"{item['concept']} → {item['label'][0]}: {item['target'] or item['sentence']}"

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Yield positions chosen, baselines, means over runs, and how translations were read."""
        yield from metric_rows(records)

    def remarks(self, records: Sequence[VerdictRecord]) -> Iterable[str]:
        """Yield a remark for each list length at which the choice depends on the order."""
        yield from remarks(records)


def _sentences(every: Sequence[Item], files: DataFiles) -> dict[str, Mapping[str, tuple[str, ...]]]:
    """Return the example sentences for rules by variation name, by cluster."""
    sentences: dict[str, Mapping[str, tuple[str, ...]]] = {}
    for language in dict.fromkeys(item.language for item in every):
        own = [item for item in every if item.language == language and item.task == SELECT]
        concepts = {item.cluster: (item["concept"], item["variations"]) for item in own}
        test = [item["sentence"] for item in own]
        examples = concept_sentences(train_rows(files, language), concepts.values(), test)
        sentences |= zip(concepts, examples, strict=True)
    return sentences
