"""The data of a concept's page: ``concept.html.jinja`` shows it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.evidence import SelectionEvidence, TranslationEvidence
from pytest_llmprops.benchmarks.dtails.items import TRANSLATE
from pytest_llmprops.benchmarks.dtails.report.lines import Line
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.reports.kit.blocks import outcome_label

#: Source, language and cluster, which identify a concept.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Member:
    """One verdict on one sentence of a concept, with its evidence; the evidence of a schema 1 record is empty."""

    line: Line
    record: VerdictRecord
    evidence: SelectionEvidence | TranslationEvidence

    @classmethod
    def of(cls, line: Line, record: VerdictRecord) -> Member:
        """Return the verdict of ``line`` with its evidence read."""
        kind = TranslationEvidence if line.task == TRANSLATE else SelectionEvidence
        return cls(line, record, kind.from_json(record.evidence))

    @property
    def key(self) -> Key:
        """The concept."""
        return self.record.source, self.record.language, self.record.cluster

    @property
    def base(self) -> str:
        """The item's id without its task."""
        return self.record.id.partition("+")[0]

    @property
    def selection(self) -> SelectionEvidence:
        """The evidence of a choice; empty for a translation."""
        return self.evidence if isinstance(self.evidence, SelectionEvidence) else SelectionEvidence()


@dataclass(frozen=True, slots=True)
class Pick:
    """One run's choice.

    :param status: ``correct``, ``wrong`` or ``none``. :param position: From 1; None without a choice.
    :param shown: The variations in the order shown; empty if the record does not have it.
    """

    status: str
    position: int | None
    shown: tuple[str, ...] = ()
    retried: bool = False

    @property
    def label(self) -> str:
        """A text such as ``✗ wrong, position 2``, which says the same as the colour."""
        position = f", position {self.position}" if self.position else ""
        retry = ", after a retry" if self.retried else ""
        label = "? no choice read" if self.status == "none" else outcome_label(self.status)
        return f"{label}{position}{retry}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one model did with one sentence.

    :param answer: What the model chose; empty if the orders shown are known.
    """

    series: int
    name: str
    status: str
    picks: tuple[Pick, ...]
    answer: str
    reason: str
    translation: str
    is_translation: bool

    @property
    def label(self) -> str:
        """The status with its glyph."""
        return outcome_label(self.status)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a concept; ``text`` is empty if the record does not have it."""

    id: str
    text: str
    expected: str
    outcomes: tuple[Outcome, ...]

    @property
    def runs(self) -> int:
        """The number of columns for choices in its table."""
        return max([1, *(len(outcome.picks) for outcome in self.outcomes)])


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules in prompts as (variation, rule, number of its example sentences), or the problem that prevented them.

    :param sentences: The number of examples in the prompt for the rules, in words. Without examples, the numbers of
        the rules are None.
    """

    who: str
    sentences: str
    rules: tuple[tuple[str, str, int | None], ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Concept:
    """A concept's page and its row in the report.

    :param variations: (name, number of sentences in which it is right). :param count: Number of variations.
    :param total: Number of sentences, including those not shown.
    :param shares: Each line's mean score; None if the concept was not asked.
    """

    word: str
    language: str
    code: str
    source: str
    variations: tuple[tuple[str, int], ...]
    count: int
    rules: tuple[Rules, ...]
    sentences: tuple[Sentence, ...]
    total: int
    shares: tuple[float | None, ...]
    notes: tuple[str, ...]
