"""What filled sheets of DTAiLS amount to: tables 1 to 6 of Barua et al., and the expert set of section 2.2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.benchmarks.dtails.tools.annotation import agreement as statistics
from pytest_llmprops.benchmarks.dtails.tools.annotation import questions as asked
from pytest_llmprops.benchmarks.dtails.tools.annotation.agreement import Agreement
from pytest_llmprops.benchmarks.dtails.tools.annotation.study import Study
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.data.published_results import find


@dataclass(frozen=True, slots=True)
class Judged:
    """Yes or no questions: the share of yes among all judgements (a fraction), and how far people agree."""

    share: float
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class RulesResult:
    """Study 1. ``accuracy`` is table 3 and 4, ``precision`` tables 1 and 5, ``recall`` tables 1 and 6.

    :param named: what annotators name as missing: (concept, text).
    :param refused: rules and variations that a majority refuses: (concept, variation, ``rule`` or ``wrong``).
    """

    concepts: int
    accuracy: Judged
    precision: Judged
    recall: Judged
    named: tuple[tuple[str, str], ...]
    refused: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class SelectionResult:
    """Study 2.

    :param expert: questions whose majority chose the variation of the original translation.
    :param sufficient: their share (table 2). :param total: share of sentences on which all chose the same.
    :param original: whether the original's variation was chosen: share over all judgements, and agreement.
    :param confidence: share of each phrase. :param annotators: share of original variations of each sheet.
    """

    concepts: int
    expert: tuple[str, ...]
    sufficient: float
    total: float
    original: Judged
    confidence: Mapping[str, float]
    annotators: Mapping[str, float]


def rules_result(study: Study) -> RulesResult:
    """The result of a study of the task ``rules``."""
    rules: list[list[bool]] = []
    meanings: list[list[bool]] = []
    complete: list[list[bool]] = []
    named: list[tuple[str, str]] = []
    refused: list[tuple[str, str, str]] = []
    for name, question in study.questions.items():
        given = [sheet[name] for sheet in study.answers.values()]
        if question.kind == asked.WRONG:
            wrong = [asked.places_of(answers["answer"]) for answers in given]
            for place, option in enumerate(question.options):
                meanings.append([place not in places for places in wrong])
                if statistics.majority(meanings[-1]) is False:
                    refused.append((question.concept, option, asked.WRONG))
            continue
        yes = [answers["answer"] == asked.YES for answers in given]
        if question.kind == asked.MISSING:
            complete.append([not missing for missing in yes])
            named += [(question.concept, answers["which"]) for answers in given if answers["which"]]
        else:
            rules.append(yes)
            if statistics.majority(yes) is False:
                refused.append((question.concept, question.about, asked.RULE))
    return RulesResult(
        len(complete), _judged(rules), _judged(meanings), _judged(complete), tuple(named), tuple(refused)
    )


def selection_result(study: Study) -> SelectionResult:
    """The result of a study of the task ``selection``."""
    choices = {
        name: [asked.places_of(sheet[name]["choice"])[0] for sheet in study.answers.values()]
        for name in study.questions
    }
    labels = {name: original.label for name, original in study.originals.items()}
    right = {name: [choice == labels[name] for choice in chosen] for name, chosen in choices.items()}
    said = Counter(answers["confidence"] for sheet in study.answers.values() for answers in sheet.values())
    several = len(study.answers) > 1
    return SelectionResult(
        concepts=len({question.group for question in study.questions.values()}),
        expert=statistics.expert_set(choices, labels),
        sufficient=statistics.sufficient_context_share(choices, labels),
        total=statistics.total_agreement(list(choices.values())) if several else float("nan"),
        original=_judged(list(right.values())),
        confidence={phrase: said[phrase] / said.total() for phrase in asked.CONFIDENCE},
        annotators={
            name: sum(answers[place] for answers in right.values()) / len(right)
            for place, name in enumerate(study.answers)
        },
    )


def _judged(ratings: Sequence[Sequence[bool]]) -> Judged:
    return Judged(statistics.judged_share(ratings), statistics.agreement(ratings))


def result_lines(study: Study) -> list[str]:
    """The result as text; the paper's own figures of the language stand beside it."""
    return _rules_lines(study) if study.task == asked.RULES else _selection_lines(study)


def _rules_lines(study: Study) -> list[str]:
    result = rules_result(study)
    printed = _printed(study.language)
    rows = [
        ("rule is correct", "accuracy", result.accuracy, "rules", printed("3", "rules", "rule_accuracy")),
        (
            "variation means it",
            "precision",
            result.precision,
            "precision",
            printed("1", "concepts", "precision"),
        ),
        ("none is missing", "recall", result.recall, "recall", printed("1", "concepts", "recall")),
    ]
    tables = {"rules": "4", "precision": "5", "recall": "6"}
    head = f"rules of {one_line(study.of)}, {study.language}: {_counted(result.concepts, 'concept')}"
    lines = [
        f"{head}, {_counted(len(study.answers), 'annotator')}",
        f"{'question':<20}{'n':>5}  {'share of yes':<32}{'agreement':<20}{'Fleiss kappa':<22}PABAK",
    ]
    for label, name, judged, task, share in rows:
        found = judged.agreement
        cells = (
            f"{name} {_percent(judged.share)}{_beside(share, _percent)}",
            f"{_three(found.total)}{_beside(printed(tables[task], task, 'total_agreement'))}",
            f"{_three(found.kappa)}{_beside(printed(tables[task], task, 'fleiss_kappa'))}",
            f"{_three(found.pabak)}{_beside(printed(tables[task], task, 'pabak'))}",
        )
        lines.append(f"{label:<20}{found.questions:>5}  {cells[0]:<32}{cells[1]:<20}{cells[2]:<22}{cells[3]}")
    for concept, variation, kind in result.refused:
        what = "the rule is not correct" if kind == asked.RULE else "does not mean it"
        lines.append(f"a majority: {one_line(concept)}, {one_line(variation)}: {what}")
    lines += [f"named as missing: {one_line(concept)}: {one_line(text)}" for concept, text in result.named]
    return lines


def _selection_lines(study: Study) -> list[str]:
    result = selection_result(study)
    share = _printed(study.language)("2", "dataset", "sufficient_context_rate")
    found = result.original.agreement
    confidence = ", ".join(f"{phrase} {_percent(value)}" for phrase, value in result.confidence.items())
    asked_for = ", ".join(
        (
            _counted(len(study.questions), "sentence"),
            _counted(result.concepts, "concept"),
            _counted(len(study.answers), "annotator"),
        )
    )
    kept = f"{len(result.expert)} of {len(study.questions)}"
    three = f"{_three(found.total)}, Fleiss kappa {_three(found.kappa)}, PABAK {_three(found.pabak)}"
    context = f"{_percent(result.sufficient)}{_beside(share, _percent)}"
    lines = [
        f"data {one_line(study.of)}, {study.language}: {asked_for}",
        f"sufficient context  {context}: for {kept} the majority chose the original's variation",
        f"total agreement     {_three(result.total)} on the variation",
        f"original or not     agreement {three}",
        f"confidence          {confidence}",
    ]
    for name, value in result.annotators.items():
        lines.append(f"{name}: the original's variation in {_percent(value)}")
    return lines


def _printed(language: str) -> Callable[[str, str, str], float | None]:
    """The paper's figure of a table for this language, where it has one."""

    def look_up(table: str, task: str, metric: str) -> float | None:
        found = find(paper="dtails", table=table, task=task, metric=metric, language=language)
        return found[0].value if found else None

    return look_up


def _percent(value: float) -> str:
    return "NaN" if value != value else f"{100 * value:.1f}%"


def _three(value: float) -> str:
    return "NaN" if value != value else f"{value:.3f}"


def _beside(value: float | None, show: Callable[[float], str] = _three) -> str:
    return "" if value is None else f" (paper {show(value)})"


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
