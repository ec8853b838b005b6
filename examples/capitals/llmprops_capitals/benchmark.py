"""Requests and judging: pure code that reaches models only through ``ask`` and files only through ``files``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmprops import (
    Ask,
    Benchmark,
    Chat,
    DataFiles,
    Item,
    Metric,
    NamedSettings,
    Protocol,
    Verdict,
    VerdictRecord,
    by_place,
    rate,
)

ASKED, EASY = "asked", "easy"


@dataclass(frozen=True, slots=True)
class CapitalsSettings:
    """How an item is measured.

    :param max_tokens: maximum length of the model's answer.
    """

    max_tokens: int = 60


class Capitals(Benchmark):
    """Two calls per item: the model answers freely, and the helper ``reader`` extracts the city from the answer."""

    name = "capitals"
    title = "Capitals"
    about = "Does the model know the capital of a country, even if another city is larger?"
    noun = "capitals"
    task_about = {
        ASKED: "The country's largest city is not its capital.",
        EASY: "Control: the capital is the largest city.",
    }
    controls = frozenset({EASY})
    metric_directions = {"largest_city_rate": "lower"}
    protocols = {
        "paper": NamedSettings(CapitalsSettings(max_tokens=200)),
        "quick": NamedSettings(CapitalsSettings(), gives_up="answers longer than 60 tokens"),
    }

    def load(self, files: DataFiles) -> Iterable[Item]:
        for row in files.jsonl("cities.jsonl", required=("id", "country", "capital", "largest")):
            task = EASY if row["capital"] == row["largest"] else ASKED
            yield Item(f"capitals/{task}/{row['id']}", task, "en", files.source, fields=row)

    def helpers(self, settings: Any) -> tuple[str, ...]:
        return ("reader",)

    async def evaluate(
        self, item: Item, context: Any, ask: Ask, protocol: Protocol[CapitalsSettings]
    ) -> Verdict:
        question = f"Which city is the capital of {item['country']}?"
        answer = await ask(Chat.user(question, temperature=0.0, max_tokens=protocol.settings.max_tokens))
        if not answer.text.strip():
            return Verdict("unparsed", item["capital"], "", "the reply is empty")
        prompt = f"Question: {question}\nAnswer: {answer.text}\nWhich one city does the answer give? Only its name."
        named = await ask(Chat.user(prompt, temperature=0.0, max_tokens=20), role="reader")
        city = named.text.strip().rstrip(".")
        return Verdict.check(
            city.casefold() == item["capital"].casefold(),
            expected=item["capital"],
            given=city,
            values={"largest": float(city.casefold() == item["largest"].casefold())},
        )

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Return how often the model names the largest city in place of the capital."""
        for place, members in by_place(records).items():
            if place[0] == ASKED:
                hits = [record.values.get("largest") == 1.0 for record in members]
                yield rate(place, "largest_city_rate", hits, "lower")
