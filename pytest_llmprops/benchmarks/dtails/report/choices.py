"""What a run record tells of each DTAiLS item: the question, the orders shown, the rules given, the choices.

``verdicts.jsonl`` has what was chosen and whether it was right; concept, sentence, order and rules stand only in
the prompts of ``requests.jsonl``. Where that file is missing or cut, or a prompt is not in this version's wording,
those parts are empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_llmprops.benchmarks.dtails.asked import (
    RuleGeneration,
    Selection,
    read_rule_generation,
    read_selection,
    read_translation,
)
from pytest_llmprops.benchmarks.dtails.items import SELECT, TRANSLATE
from pytest_llmprops.benchmarks.dtails.metrics import ALL
from pytest_llmprops.benchmarks.dtails.positions import FEWEST, RULE, runs_of
from pytest_llmprops.core.records import VerdictRecord

__all__ = ["ALL", "FEWEST", "RULE", "SELECT", "TRANSLATE", "Choice", "Told", "concept_of", "told"]

Requests = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Choice:
    """One run's choice on one item.

    :param position: place chosen, from 1; None where no variation was read in the reply.
    :param shown: the variations in the order shown; empty where the record does not tell.
    """

    position: int | None
    right: bool
    shown: tuple[str, ...] = ()
    retried: bool = False

    @property
    def name(self) -> str:
        """The variation chosen; empty where it is not known or there is none."""
        return self.shown[self.position - 1] if self.position and self.position <= len(self.shown) else ""


@dataclass(frozen=True, slots=True)
class Told:
    """What the record tells of one item.

    :param concept, sentence: empty where it does not. :param names: the variations, in no order that means
        anything; empty where it does not tell. :param count: how many they are; 0 where even that is not told.
    :param rules: rule by variation, as the prompt had them. :param rules_read: False where a model's own rules
        could not be read; None without rules.
    :param sentences: example sentences behind the rules; None without rules.
    :param by_variation: the same by variation; only where the prompt that asked for rules is in the record.
    :param choices: one a run, in order. :param translation: of ``translate``; None where it is not told.
    """

    concept: str = ""
    sentence: str = ""
    names: tuple[str, ...] = ()
    count: int = 0
    rules: Mapping[str, str] = field(default_factory=dict)
    rules_read: bool | None = None
    sentences: int | None = None
    by_variation: Mapping[str, int] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    translation: str | None = None


def concept_of(record: VerdictRecord) -> tuple[str, str, str]:
    """Source, language and cluster: what tells a concept from every other."""
    return record["source"], record["language"], record["cluster"]


def told(record: VerdictRecord, requests: Requests) -> Told:
    """What the record and its run's logged requests tell of an item.

    :param record: a line of ``verdicts.jsonl``. :param requests: as ``runs.replies.read_requests`` gives them.
    """
    logged = [requests[key] for key in record["requests"] if key in requests]
    own = [row for row in logged if row.get("role") == "subject"]
    return _translated(record, own) if record["task"] == TRANSLATE else _selected(record, own)


def _selected(record: VerdictRecord, logged: list[Mapping[str, Any]]) -> Told:
    values = record["values"]
    asked: dict[int, Selection] = {}
    made: RuleGeneration | None = None
    for row in logged:
        prompt = _prompt(row)
        found = read_selection(prompt)
        if found is not None:
            # A retry shows the same order as the prompt before it.
            asked[_sample(row)] = found
        elif made is None:
            made = read_rule_generation(prompt)
    choices = []
    # Without rules that could be read nothing was asked, and every run counts as not right.
    for run in range(runs_of(values) if values.get("rules_read", 1.0) else 0):
        mark = f"run{run + 1}_"
        choices.append(
            Choice(
                _count(values, f"{mark}position") or None,
                bool(values[f"{mark}right"]),
                asked[run].names if run in asked else (),
                bool(values.get(f"{mark}retried")),
            )
        )
    first = next(iter(asked.values()), None)
    return Told(
        concept=first.concept if first else made.concept if made else "",
        sentence=first.sentence if first else "",
        names=first.names if first else made.names if made else (),
        count=_count(values, "variations"),
        rules=first.rules if first else {},
        rules_read=bool(values["rules_read"]) if "rules_read" in values else None,
        sentences=_count(values, "sentences") if "sentences" in values else None,
        by_variation={name: len(texts) for name, texts in made.sentences.items()} if made else {},
        choices=tuple(choices),
    )


def _translated(record: VerdictRecord, logged: list[Mapping[str, Any]]) -> Told:
    values = record["values"]
    count = _count(values, "variations")
    row = logged[-1] if logged else {}
    request, reply = _part(row, "request"), _part(row, "reply")
    sentence = request.get("text") if row.get("kind") == TRANSLATE else read_translation(_prompt(row))
    translation = reply.get("text")
    if not isinstance(translation, str):
        # A verdict without a variation has the translation itself as what was given.
        unread = "chosen" in values and not values["chosen"]
        translation = record["given"] if unread else None
    return Told(sentence=sentence if isinstance(sentence, str) else "", count=count, translation=translation)


def _prompt(row: Mapping[str, Any]) -> str:
    """The last turn of a logged conversation; empty where there is none."""
    messages = _part(row, "request").get("messages")
    text = messages[-1][1] if messages else ""
    return text if isinstance(text, str) else ""


def _sample(row: Mapping[str, Any]) -> int:
    """Which of the repeated askings it was, from 0."""
    sample = _part(row, "request").get("sample")
    return sample if isinstance(sample, int) else 0


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = row.get(name)
    return found if isinstance(found, Mapping) else {}


def _count(values: Mapping[str, Any], name: str) -> int:
    """A value that counts something; 0 where a record holds none, or something else."""
    found = values.get(name)
    return int(found) if isinstance(found, int | float) and 0 <= found < 1e9 else 0
