"""Ask a chat model which variation fits the sentence, and judge its choice (Barua et al., appendix B.3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.evidence import SelectionEvidence
from pytest_llmprops.benchmarks.dtails.orders import Slot
from pytest_llmprops.benchmarks.dtails.positions import run_values
from pytest_llmprops.benchmarks.dtails.prompts import (
    retried,
    selection,
    shown_order,
    shown_rules,
    variation_name,
)
from pytest_llmprops.benchmarks.dtails.reading import Reading, declines, read_selection
from pytest_llmprops.benchmarks.dtails.rules import ConceptRules
from pytest_llmprops.core.benchmark import Ask
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.core.verdicts import Status, Verdict


@dataclass(frozen=True, slots=True)
class Choice:
    """One run's outcome on one item.

    :param order: The index of the variation at each position shown.
    :param reading: Its ``index`` is a position shown.
    :param retried: The outcome is from the second reply, because the first did not follow the template.
    """

    status: Status
    order: tuple[int, ...]
    reading: Reading
    reason: str
    retried: bool

    @property
    def chosen(self) -> int | None:
        """The index of the chosen variation in the item's own order."""
        return None if self.reading.index is None else self.order[self.reading.index]


async def choose(
    item: Item,
    ask: Ask,
    *,
    run: int,
    seed: int,
    temperature: float,
    max_tokens: int,
    rules: str,
    language: str,
    slot: Slot | None = None,
) -> Choice:
    """Ask for one choice, and ask again if the reply does not follow the template.

    :param run: From 0; with ``slot``, sets the order of the variations. :param rules: In the prompt; may be empty.
    """
    variations: Sequence[tuple[str, ...]] = item["variations"]
    order = shown_order(len(variations), seed, item.base_id, run, slot)
    shown = [variations[index] for index in order]
    prompt = selection(item["concept"], item["sentence"], shown, language=language, rules=rules)
    reply = await ask(Chat.user(prompt, temperature=temperature, max_tokens=max_tokens, sample=run))
    reading = read_selection(reply.text, shown)
    again = not reading.obeyed and reply.finish_reason != "content_filter"
    if again:
        prompt = retried(prompt, shown)
        reply = await ask(Chat.user(prompt, temperature=temperature, max_tokens=max_tokens, sample=run))
        reading = read_selection(reply.text, shown)
    status, reason = _judged(item, shown, reading, reply)
    return Choice(status, order, reading, reason, again)


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
    if declines(reply.text):
        return "refused", "declined, after one retry"
    cut = ", cut off" if reply.finish_reason == "length" else ""
    return "unparsed", f"{reading.problem}{cut}, after one retry"


async def select_in_runs(
    item: Item,
    ask: Ask,
    *,
    runs: int,
    seed: int,
    temperature: float,
    max_tokens: int,
    rules: ConceptRules | None,
    language: str,
    slot: Slot | None,
    more: dict[str, float],
) -> Verdict:
    """Ask for all runs of an item and return its verdict.

    :param rules: The rules in the prompt; None without rules. :param slot: Balances the order over items, if known.
    :param more: Further values of the verdict.
    """
    text = "" if rules is None else shown_rules(rules.texts())
    choices = await asyncio.gather(
        *(
            choose(
                item,
                ask,
                run=run,
                seed=seed,
                temperature=temperature,
                max_tokens=max_tokens,
                rules=text,
                language=language,
                slot=slot,
            )
            for run in range(runs)
        )
    )
    return judge_choices(item, choices, rules, more)


def judge_choices(
    item: Item, choices: Sequence[Choice], rules: ConceptRules | None, more: dict[str, float]
) -> Verdict:
    """Return one verdict for all runs: correct if more than half are correct; the score is their share."""
    right = sum(choice.status == "correct" for choice in choices)
    values = {"variations": float(len(item["variations"])), **more}
    for run, choice in enumerate(choices, 1):
        values |= _values(run, choice)
    failed = [choice for choice in choices if choice.status != "correct"]
    status: Status = "correct" if 2 * right > len(choices) else _most_common(failed)
    first = next(choice for choice in choices if choice.status == status)
    reason = first.reason if len(choices) == 1 else f"right in {right} of {len(choices)} runs: {first.reason}"
    return Verdict(
        status,
        variation_name(item["label"]),
        _answer(item, choices),
        reason,
        right / len(choices),
        values,
        SelectionEvidence.of(
            item,
            [choice.order for choice in choices],
            [choice.chosen for choice in choices if choice.chosen is not None],
            rules,
        ).to_json(),
    )


def runs_without_choice(runs: int) -> dict[str, float]:
    """Return the values of runs in which nothing could be asked: no run is right or has a position."""
    return {
        name: value for run in range(1, runs + 1) for name, value in _reading_values(run, Reading()).items()
    }


def _values(run: int, choice: Choice) -> dict[str, float]:
    outcome = run_values(run, choice.reading.index, choice.status == "correct")
    return _reading_values(run, choice.reading) | outcome | {f"run{run}_retried": float(choice.retried)}


def _reading_values(run: int, reading: Reading) -> dict[str, float]:
    leftmost = 0 if reading.leftmost is None else reading.leftmost + 1
    return run_values(run, reading.index, right=False) | {
        f"run{run}_ratio": round(reading.ratio, 4),
        f"run{run}_start": float(reading.start),
        f"run{run}_length": float(len(reading.form)),
        f"run{run}_leftmost": float(leftmost),
        f"run{run}_retried": 0.0,
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
