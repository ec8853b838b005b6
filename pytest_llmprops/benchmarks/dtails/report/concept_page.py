"""What a DTAiLS concept's page holds: plain values for ``assets/concept.html.jinja``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.report.choices import SELECT, Told
from pytest_llmprops.benchmarks.dtails.report.lines import Line
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.reports.kit.text import joined

#: sets of rules that a page shows
MOST_RULES = 30
GLYPHS = {"correct": "✓", "wrong": "✗", "refused": "⊘", "unparsed": "?", "error": "!", "none": "?"}
WORDS = {"correct": "right", "none": "no choice read"}


@dataclass(frozen=True, slots=True)
class Pick:
    """One run's choice. :param status: ``correct``, ``wrong`` or ``none``. :param position: from 1, None: none.

    :param shown: the variations in the order shown; empty where the record does not tell.
    """

    status: str
    position: int | None
    shown: tuple[str, ...] = ()
    retried: bool = False

    @property
    def label(self) -> str:
        """``✗ wrong, position 2``; the glyph and the words say what the colour does."""
        position = f", position {self.position}" if self.position else ""
        retry = ", after a retry" if self.retried else ""
        return f"{GLYPHS[self.status]} {WORDS.get(self.status, self.status)}{position}{retry}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one model did with one sentence. ``given`` only where the orders shown are not known."""

    series: int
    name: str
    status: str
    picks: tuple[Pick, ...]
    given: str
    reason: str
    translation: str
    translates: bool

    @property
    def label(self) -> str:
        """The status with its glyph."""
        return f"{GLYPHS.get(self.status, '?')} {WORDS.get(self.status, self.status)}"


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a concept; ``text`` is empty where the record does not tell it."""

    id: str
    text: str
    expected: str
    outcomes: tuple[Outcome, ...]

    @property
    def runs(self) -> int:
        """Columns that its table needs for choices."""
        return max([1, *(len(outcome.picks) for outcome in self.outcomes)])


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that were in prompts: (variation, rule, sentences or None), or why there are none."""

    who: str
    sentences: str
    rules: tuple[tuple[str, str, int | None], ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Concept:
    """The page. ``variations`` are (name, sentences in which it is right); ``count`` is how many there are.

    :param left_out: sentences that are not shown. :param before, after: the neighbours' files, or empty.
    """

    word: str
    language: str
    code: str
    source: str
    variations: tuple[tuple[str, int], ...]
    count: int
    rules: tuple[Rules, ...]
    sentences: tuple[Sentence, ...]
    left_out: int
    notes: tuple[str, ...]
    before: str
    after: str


def rules_of(members: Iterable[tuple[Line, Sequence[tuple[VerdictRecord, Told]]]]) -> tuple[Rules, ...]:
    """The rules that each model was given or wrote; what several had stands there once, with their names."""
    found: dict[Rules, list[str]] = {}
    for line, records in members:
        if line.task != SELECT or line.rules == "none":
            continue
        for record, one in records:
            rules = tuple((name, text, one.by_variation.get(name)) for name, text in one.rules.items())
            problem = record["reason"] if one.rules_read is False else ""
            if rules or problem:
                found.setdefault(Rules(_source(line), _counted(one), rules, problem), []).append(line.model)
    return tuple(
        Rules(
            f"{rules.who} {joined(list(dict.fromkeys(names)))}", rules.sentences, rules.rules, rules.problem
        )
        for rules, names in list(found.items())[:MOST_RULES]
    )


def _source(line: Line) -> str:
    return "Own rules of" if line.rules == "own" else f"Rules of {line.rules}, given to"


def _counted(one: Told) -> str:
    """How many example sentences stood in the prompt that asked for the rules."""
    if one.sentences is None:
        return ""
    if not one.sentences:
        return "sentences: 0 (no examples were shown to whoever wrote them)"
    return f"sentences: {one.sentences:,}"
