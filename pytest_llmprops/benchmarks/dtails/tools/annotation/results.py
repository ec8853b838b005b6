"""Results of DTAiLS's annotation studies: tables 1 to 6 of Barua et al., and the expert set of section 2.2."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.dtails.rows import COLUMNS, SENTENCE, TARGET, parse_rows, parse_words
from pytest_llmprops.benchmarks.dtails.tools.annotation.questions import (
    CONFIDENCE,
    MISSING,
    RULE,
    RULES,
    SELECTION,
    WRONG,
    YES,
    places_of,
)
from pytest_llmprops.benchmarks.dtails.tools.annotation.study import Study
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.published_results import find
from pytest_llmprops.data.whole_files import write_text

# Agreement between annotators (appendix A.3), and shares from their answers (tables 1 to 3).
#
# Ratings have one sequence per question with one answer per annotator. Every question has the same number of answers,
# at least two. Shares are in [0, 1].

Answer = Hashable
Ratings = Sequence[Sequence[Answer]]


def total_agreement(ratings: Ratings) -> float:
    """Return the share of questions on which all annotators agree; NaN without questions.

    :raises DataError: Questions have different numbers of answers, or only one answer.
    """
    _check(ratings)
    if not ratings:
        return math.nan
    return sum(len(set(answers)) == 1 for answers in ratings) / len(ratings)


def fleiss_kappa(ratings: Ratings) -> float:
    """Return Fleiss' kappa (1971); NaN without answers, or if all are the same (chance agreement is then 1).

    :raises DataError: See :func:`total_agreement`.
    """
    _check(ratings)
    totals = Counter(answer for answers in ratings for answer in answers)
    if len(totals) < 2:
        return math.nan
    size = len(ratings[0])
    agreeing = sum(n * (n - 1) for answers in ratings for n in Counter(answers).values())
    observed = agreeing / (len(ratings) * size * (size - 1))
    chance = sum(n * n for n in totals.values()) / totals.total() ** 2
    return (observed - chance) / (1 - chance)


def pabak(ratings: Ratings, *, categories: int = 2) -> float:
    """Return the prevalence-adjusted bias-adjusted kappa (Byrt et al. 1993): ``(k p - 1) / (k - 1)``.

    p is the total agreement, as in tables 4 to 6 (0.975 gives 0.950), and k is the number of possible answers. NaN
    without questions.

    :raises DataError: See :func:`total_agreement`; or there are fewer than two categories, or more different answers
        than categories.
    """
    distinct = {answer for answers in ratings for answer in answers}
    if categories < max(2, len(distinct)):
        raise DataError(
            f"pabak: {len(distinct)} different answers, but {categories} categories; use the number of possible answers"
        )
    return (categories * total_agreement(ratings) - 1) / (categories - 1)


@dataclass(frozen=True, slots=True)
class Agreement:
    """A row of tables 4 to 6: the number of questions and three statistics, NaN if undefined."""

    questions: int
    total: float
    kappa: float
    pabak: float


def agreement(ratings: Ratings) -> Agreement:
    """Return the three statistics for questions with two possible answers; all NaN for one annotator.

    :raises DataError: See :func:`total_agreement`.
    """
    if ratings and all(len(answers) == 1 for answers in ratings):
        return Agreement(len(ratings), math.nan, math.nan, math.nan)
    return Agreement(len(ratings), total_agreement(ratings), fleiss_kappa(ratings), pabak(ratings))


def judged_share(ratings: Sequence[Sequence[bool]]) -> float:
    """Return the share of yes over the judgements of all annotators; NaN without judgements.

    For "does this variation mean the concept?", this is the *precision*. For "are all key variations there?", asked
    once per concept, it is the *recall* (section 2.1, table 1). For "is the rule correct?", it is the *accuracy* of
    rules (table 3). The printed values show that judgements are pooled, without a vote: Farsi's recall of 72.3% cannot
    be a share of 100 concepts, but it is 217 of 300 judgements.
    """
    judgements = [judgement for answers in ratings for judgement in answers]
    return sum(judgements) / len(judgements) if judgements else math.nan


def majority(answers: Sequence[Answer]) -> Answer | None:
    """Return the answer of more than half of the annotators; None without a majority."""
    if not answers:
        return None
    answer, count = Counter(answers).most_common(1)[0]
    return answer if 2 * count > len(answers) else None


def expert_set(choices: Mapping[str, Sequence[Answer]], originals: Mapping[str, Answer]) -> tuple[str, ...]:
    """Return the rows for which a majority chose the original translation's variation (section 2.2), in order.

    :param choices: Each row's answers. :param originals: The variation in each row's translation.
    :raises DataError: A row has no original.
    """
    for row in choices:
        if row not in originals:
            raise DataError(f"row '{row}': no original variation; use the sheet of the same rows")
    return tuple(row for row, answers in choices.items() if answers and majority(answers) == originals[row])


def sufficient_context_share(
    choices: Mapping[str, Sequence[Answer]], originals: Mapping[str, Answer]
) -> float:
    """Return the share of the annotated sentences in the expert set (table 2); NaN without sentences.

    :raises DataError: See :func:`expert_set`.
    """
    return len(expert_set(choices, originals)) / len(choices) if choices else math.nan


def _check(ratings: Ratings) -> None:
    sizes = {len(answers) for answers in ratings}
    if len(sizes) > 1:
        raise DataError(
            f"questions have {min(sizes)} to {max(sizes)} answers; every annotator answers each question"
        )
    if sizes and min(sizes) < 2:
        raise DataError("agreement needs at least two annotators; add their sheets")


@dataclass(frozen=True, slots=True)
class Judged:
    """Yes-no questions: the share of yes over all judgements in [0, 1], and the annotators' agreement."""

    share: float
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class RulesResult:
    """Study 1. ``accuracy`` is for tables 3 and 4, ``precision`` for 1 and 5, ``recall`` for 1 and 6.

    :param missing: What annotators name as missing: (concept, text).
    :param rejected: Rules and variations that a majority rejects: (concept, variation, ``rule`` or ``wrong``).
    """

    concepts: int
    accuracy: Judged
    precision: Judged
    recall: Judged
    missing: tuple[tuple[str, str], ...]
    rejected: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class SelectionResult:
    """Study 2.

    :param expert: Questions for which a majority chose the original translation's variation.
    :param sufficient: Their share (table 2). :param total: Share of sentences on which all annotators agree.
    :param original: Whether the original's variation was chosen: share over all judgements, and agreement.
    :param confidence: Share of each answer. :param annotators: Share of original variations in each sheet.
    """

    concepts: int
    expert: tuple[str, ...]
    sufficient: float
    total: float
    original: Judged
    confidence: Mapping[str, float]
    annotators: Mapping[str, float]


def rules_result(study: Study) -> RulesResult:
    """Return the result of a study of the task ``rules``."""
    rules: list[list[bool]] = []
    meanings: list[list[bool]] = []
    complete: list[list[bool]] = []
    named_missing: list[tuple[str, str]] = []
    rejected: list[tuple[str, str, str]] = []
    for name, question in study.questions.items():
        sheet_answers = [sheet[name] for sheet in study.answers.values()]
        if question.kind == WRONG:
            wrong = [places_of(answers["answer"]) for answers in sheet_answers]
            for place, option in enumerate(question.options):
                meanings.append([place not in places for places in wrong])
                if majority(meanings[-1]) is False:
                    rejected.append((question.concept, option, WRONG))
            continue
        yes = [answers["answer"] == YES for answers in sheet_answers]
        if question.kind == MISSING:
            complete.append([not missing for missing in yes])
            named_missing += [
                (question.concept, answers["which"]) for answers in sheet_answers if answers["which"]
            ]
        else:
            rules.append(yes)
            if majority(yes) is False:
                rejected.append((question.concept, question.about, RULE))
    return RulesResult(
        len(complete),
        _judged(rules),
        _judged(meanings),
        _judged(complete),
        tuple(named_missing),
        tuple(rejected),
    )


def selection_result(study: Study) -> SelectionResult:
    """Return the result of a study of the task ``selection``."""
    choices = {
        name: [places_of(sheet[name]["choice"])[0] for sheet in study.answers.values()]
        for name in study.questions
    }
    labels = {name: original.label for name, original in study.originals.items()}
    right = {name: [choice == labels[name] for choice in chosen] for name, chosen in choices.items()}
    confidence = Counter(
        answers["confidence"] for sheet in study.answers.values() for answers in sheet.values()
    )
    several = len(study.answers) > 1
    return SelectionResult(
        concepts=len({question.group for question in study.questions.values()}),
        expert=expert_set(choices, labels),
        sufficient=sufficient_context_share(choices, labels),
        total=total_agreement(list(choices.values())) if several else float("nan"),
        original=_judged(list(right.values())),
        confidence={phrase: confidence[phrase] / confidence.total() for phrase in CONFIDENCE},
        annotators={
            name: sum(answers[place] for answers in right.values()) / len(right)
            for place, name in enumerate(study.answers)
        },
    )


def _judged(ratings: Sequence[Sequence[bool]]) -> Judged:
    return Judged(judged_share(ratings), agreement(ratings))


def result_lines(study: Study) -> list[str]:
    """Return the result as lines of text, with the paper's figures for the language."""
    return _rules_lines(study) if study.task == RULES else _selection_lines(study)


def _rules_lines(study: Study) -> list[str]:
    result = rules_result(study)
    printed = partial(_printed, study.language)
    # Question, its share, the tables of agreement and share, and what they call it.
    rows = (
        ("rule is correct", "accuracy", "4", "rules", ("3", "rules", "rule_accuracy")),
        ("variation means it", "precision", "5", "precision", ("1", "concepts", "precision")),
        ("none is missing", "recall", "6", "recall", ("1", "concepts", "recall")),
    )
    head = f"rules of {one_line(study.of)}, {study.language}: {_counted(result.concepts, 'concept')}"
    lines = [
        f"{head}, {_counted(len(study.answers), 'annotator')}",
        f"{'question':<20}{'n':>5}  {'share of yes':<32}{'agreement':<20}{'Fleiss kappa':<22}PABAK",
    ]
    for label, name, table, task, share in rows:
        judged: Judged = getattr(result, name)
        stats = judged.agreement
        cells = (
            f"{name} {_percent(judged.share)}{_paper(printed(*share), _percent)}",
            f"{_decimal(stats.total)}{_paper(printed(table, task, 'total_agreement'))}",
            f"{_decimal(stats.kappa)}{_paper(printed(table, task, 'fleiss_kappa'))}",
            f"{_decimal(stats.pabak)}{_paper(printed(table, task, 'pabak'))}",
        )
        lines.append(f"{label:<20}{stats.questions:>5}  {cells[0]:<32}{cells[1]:<20}{cells[2]:<22}{cells[3]}")
    for concept, variation, kind in result.rejected:
        what = "the rule is not correct" if kind == RULE else "does not mean it"
        lines.append(f"a majority: {one_line(concept)}, {one_line(variation)}: {what}")
    lines += [f"named as missing: {one_line(concept)}: {one_line(text)}" for concept, text in result.missing]
    return lines


def _selection_lines(study: Study) -> list[str]:
    result = selection_result(study)
    share = _printed(study.language, "2", "dataset", "sufficient_context_rate")
    stats = result.original.agreement
    confidence = ", ".join(f"{phrase} {_percent(value)}" for phrase, value in result.confidence.items())
    numbers = {"sentence": len(study.questions), "concept": result.concepts, "annotator": len(study.answers)}
    sizes = ", ".join(_counted(number, name) for name, number in numbers.items())
    kept = f"{len(result.expert)} of {len(study.questions)}"
    agreed = f"{_decimal(stats.total)}, Fleiss kappa {_decimal(stats.kappa)}, PABAK {_decimal(stats.pabak)}"
    context = f"{_percent(result.sufficient)}{_paper(share, _percent)}"
    lines = [
        f"data {one_line(study.of)}, {study.language}: {sizes}",
        f"sufficient context  {context}: for {kept} the majority chose the original's variation",
        f"total agreement     {_decimal(result.total)} on the variation",
        f"original or not     agreement {agreed}",
        f"confidence          {confidence}",
    ]
    for name, value in result.annotators.items():
        lines.append(f"{name}: the original's variation in {_percent(value)}")
    return lines


def _printed(language: str, table: str, task: str, metric: str) -> float | None:
    """Return the paper's figure for a language; None if the paper has none."""
    results = find(paper="dtails", table=table, task=task, metric=metric, language=language)
    return results[0].value if results else None


def _percent(value: float) -> str:
    return "NaN" if value != value else f"{100 * value:.1f}%"


def _decimal(value: float) -> str:
    return "NaN" if value != value else f"{value:.3f}"


def _paper(value: float | None, show: Callable[[float], str] = _decimal) -> str:
    return "" if value is None else f" (paper {show(value)})"


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


# Write the expert set of DTAiLS (Barua et al., section 2.2): rows for which a majority chose the original.

VERSION = 1


def write_expert_set(out: Path, study: Study) -> list[Path]:
    """Write the expert set in the authors' layout, for ``--llm-source published --llm-data OUT``.

    The files are ``dtails/en-xx/expert_dataset.csv``, ``dtails/en-xx/xx.words`` (concepts with a known part of speech)
    and ``dtails/SOURCE.json``, which marks the data as generated. Several languages can share a folder.

    :raises UsageError: The sheets are of the other task, the set is empty, or the folder has other data or cannot be
        written.
    """
    if study.task != SELECTION:
        raise UsageError(
            "--write: the expert set needs sheets of --task selection; these are of --task rules"
        )
    result = selection_result(study)
    if not result.expert:
        raise UsageError(
            "--write: for no sentence, a majority chose the original's variation; there is nothing to write"
        )
    folder = out / "dtails"
    place = folder / f"en-{study.language}"
    facts = _facts(folder, place)
    facts["languages"][study.language] = {
        "from": study.of,
        "annotators": len(study.answers),
        "sentences": len(study.questions),
        "kept": len(result.expert),
    }
    words = _words(study, result.expert)
    files = {place / "expert_dataset.csv": _dataset(study, result.expert)}
    files |= {place / f"{study.language}.words": words} if words else {}
    files[folder / "SOURCE.json"] = json.dumps(facts, ensure_ascii=False) + "\n"
    try:
        place.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            write_text(path, text)
    except OSError as error:
        raise UsageError(
            f"{out}: cannot be written ({error.strerror or error}); choose another folder"
        ) from None
    return list(files)


def _facts(folder: Path, place: Path) -> dict[str, Any]:
    """Return the content of SOURCE.json. :raises UsageError: The folder has data that would be overwritten."""
    fresh = {"source": "generated", "generator": "dtails agreement", "version": VERSION, "languages": {}}
    if place.exists() and any(place.iterdir()):
        raise UsageError(f"--write: {place} already has files; choose another folder")
    if not (folder / "SOURCE.json").is_file():
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"--write: {folder} has data from another source; choose another folder")
        return fresh
    source = DataFolder(folder, "generated").json("SOURCE.json")
    if not isinstance(source, dict) or source.get("generator") != fresh["generator"]:
        raise UsageError(f"--write: {folder} has data from another source; choose another folder")
    return fresh | {"languages": dict(source.get("languages", {}))}


def _dataset(study: Study, expert: Iterable[str]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    rows = []
    for name in expert:
        question, original = study.questions[name], study.originals[name]
        # The authors' lists are Python literals with escapes for invisible characters.
        rows.append(
            {
                "concept": question.concept,
                SENTENCE: question.text,
                TARGET: original.target,
                "variations": repr(list(question.options)),
                "label": question.options[original.label],
            }
        )
    writer.writerows(rows)
    parse_rows(rows, study.language, "published", "expert_dataset.csv")  # Check that the file can be read.
    return buffer.getvalue()


def _words(study: Study, expert: Iterable[str]) -> str:
    """Return the ``.words`` file, without concepts that have no part of speech or do not fit its syntax."""
    lines: dict[tuple[str, str], str] = {}
    for name in expert:
        question, pos = study.questions[name], study.originals[name].pos
        line = f"{question.concept},{pos},{';'.join(question.options)}"
        try:
            (entry,) = parse_words(line, "words")
        except (DataError, ValueError):
            continue
        if tuple(variation.name for variation in entry.variations) == question.options:
            lines.setdefault((question.concept, pos), line)
    return "".join(f"{line}\n" for line in lines.values())
