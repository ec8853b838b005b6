"""Annotation studies of DTAiLS: sheets for people, their answers, agreement, and the expert set (Barua et al.).

A sheet is a table with one question per line, of one of two tasks:

- ``selection`` (study 2, section 2.2, figure 4): which variation translates the concept in this English sentence, and
  how sure are you? The sheet shows only sentences and variations.
- ``rules`` (study 1, sections 2.1 and 3, figure 3), for each concept: is a key variation missing, which variations do
  not mean the concept, and for each variation: is its rule correct?

``annotator_1.csv`` ... are for annotators. ``key.json`` is for the researcher: it has the questions, the original
translation's variation, and for each sheet the question on each line and the order of its options.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.dtails.items import COLUMNS, expert_rows
from pytest_llmprops.benchmarks.dtails.rules import parse_rules_file
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.items import grouped
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.strict_json import short, strict_json
from pytest_llmprops.core.texts import folded, one_line
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.data.sheet_files import numbered_lines, sheet_text, text_of, write_new
from pytest_llmprops.data.whole_files import write_text, writing

SELECTION, RULES = "selection", "rules"
SELECT, MISSING, WRONG, RULE = "select", "missing", "wrong", "rule"
#: The answers about confidence (figure 4).
CONFIDENCE = ("Absolutely sure", "Likely but uncertain", "No idea")
#: The text in the column ``ask`` for each kind of question of the task ``rules``.
ASK = {
    MISSING: "Is a commonly used variation missing among the options? Answer yes or no; if yes, you may say which.",
    WRONG: "Which options do not mean the concept? Answer none, or their numbers, as 1;3.",
    RULE: "Is the rule for this variation correct? Answer yes or no.",
}
#: The columns of answers for each kind of question; ``which`` may stay empty.
_ANSWERS = {
    SELECT: ("choice", "confidence"), MISSING: ("answer", "which"), WRONG: ("answer",), RULE: ("answer",),
}  # fmt: skip
_COLUMNS = {
    SELECTION: (("question", "concept", "language", "sentence"), ("choice", "confidence")),
    RULES: (("question", "ask", "concept", "language", "variation", "rule"), ("answer", "which")),
}
_YES_NO = {"y": True, "yes": True, "n": False, "no": False}
#: Maximum characters of a word that an annotator calls missing.
_LONGEST = 1_000
_KEY, _SHEETS = "key.json", "annotator_*.csv"

#: An answer by column: the index of a variation, a confidence, True or False, indexes of variations, or a text.
Answers = Mapping[str, Any]
#: The lines of a sheet: the question, and the indexes of its options in the order shown.
Order = Sequence[tuple[str, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Question:
    """One question on a concept.

    :param options: Names of the variations. :param text: The English sentence or the rule.
    :param about: The variation that a rule describes.
    :param label: The index of the variation in the original translation ``target`` (kind ``select``).
    """

    kind: str
    concept: str
    pos: str
    options: tuple[str, ...]
    text: str = ""
    about: str = ""
    label: int = 0
    target: str = ""

    @property
    def group(self) -> tuple[str, ...]:
        """What questions that are asked together have in common."""
        return self.concept, self.pos, *sorted(self.options)

    def cells(self, language: str, order: Sequence[int]) -> dict[str, str]:
        """Return what a sheet shows, by column, with the options in this order."""
        texts = {"concept": self.concept, "language": language}
        if self.kind == SELECT:
            texts["sentence"] = self.text
        else:
            texts |= {"ask": ASK[self.kind], "variation": self.about, "rule": self.text}
        return texts | {f"option_{n}": self.options[place] for n, place in enumerate(order, 1)}


@dataclass(frozen=True, slots=True)
class Study:
    """The questions of a study, its sheets, and the annotators' answers by sheet and question.

    :param of: The model whose rules were judged, or the source of the sentences.
    """

    task: str
    language: str
    of: str
    questions: Mapping[str, Question]
    sheets: Mapping[str, Order] = field(default_factory=dict)
    answers: Mapping[str, Mapping[str, Answers]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its sheets."""
        first, last = _COLUMNS[self.task]
        width = max(len(question.options) for question in self.questions.values())
        return (*first, *(f"option_{n}" for n in range(1, width + 1)), *last)


def selection_study(language: str, data: Path | None = None) -> Study:
    """Return study 2 on the built-in sentences, or on published or generated ones; repeated rows are asked once.

    :raises DataError: See ``expert_rows``.
    """
    files = DataFolder(builtin_data(), "builtin")
    if data is not None:
        files = DataFolder(data, DataFolder(data, "published").source_for("dtails"))
    questions = {}
    for row in expert_rows(files, language):
        if not row.repeats:
            names = tuple(variation.name for variation in row.variations)
            questions[f"r{row.number:04d}"] = Question(
                SELECT, row.concept, row.pos, names, row.sentence, label=row.label, target=row.target
            )
    return Study(SELECTION, language, files.source, questions)


def rules_study(language: str, path: Path) -> Study:
    """Return study 1 on the rules of a file.

    :raises DataError: See ``parse_rules_file``. :raises UsageError: The rules are for another language.
    """
    file = parse_rules_file(text_of(path, "use a file by `llmprops lab dtails rules`"), str(path))
    if file.language != language:
        raise UsageError(f"{path}: rules for '{file.language}'; use the file for '{language}'")
    questions = {}
    for number, entry in enumerate(file.concepts, 1):
        names = tuple(rule.variation for rule in entry.rules)
        for kind in (MISSING, WRONG):
            questions[f"c{number:03d} {kind}"] = Question(kind, entry.concept, entry.pos, names)
        for place, rule in enumerate(entry.rules, 1):
            question = Question(RULE, entry.concept, entry.pos, names, rule.text, rule.variation)
            questions[f"c{number:03d} {RULE} {place}"] = question
    return Study(RULES, language, file.model, questions)


def arranged(questions: Mapping[str, Question], *, seed: int, annotator: int) -> Order:
    """Return the lines of one annotator's sheet.

    Concepts, sentences of a concept, and variations are shuffled (section 2.2). The variations of a concept have the
    same order in all its questions, to avoid mistakes. Its rules come in that order.
    """
    random = generator(seed, "dtails annotate", annotator)
    groups = grouped(questions, lambda name: questions[name].group)
    lines = []
    for names in random.sample(list(groups.values()), len(groups)):
        options = random.sample(sorted(questions[names[0]].options), len(questions[names[0]].options))
        if questions[names[0]].kind == SELECT:
            names = random.sample(names, len(names))
        rules = {questions[name].about: name for name in names if questions[name].kind == RULE}
        others = [name for name in names if name not in rules.values()]
        for name in [*others, *(rules[option] for option in options if option in rules)]:
            lines.append((name, [questions[name].options.index(option) for option in options]))
    return lines


def write_sheets(
    out: Path, study: Study, *, annotators: int = 3, seed: int = 0, delimiter: str = ","
) -> list[Path]:
    """Write the sheets of a study and their key; return the files, the key last.

    :raises UsageError: There are no annotators, or the folder has sheets or cannot be written.
    """
    if annotators < 1:
        raise UsageError("--annotators must be at least 1")
    orders: dict[str, Order] = {}
    files: dict[str, str] = {}
    for annotator in range(1, annotators + 1):
        name = _SHEETS.replace("*", str(annotator))
        orders[name] = arranged(study.questions, seed=seed, annotator=annotator)
        records = []
        for number, (question, places) in enumerate(orders[name], 1):
            cells = study.questions[question].cells(study.language, places)
            records.append({"question": str(number), **cells})
        files[name] = sheet_text(study.columns, records, delimiter)
    # Answers are outside of the key, in the sheets.
    key = asdict(replace(study, sheets=orders))
    files[_KEY] = json.dumps({"sha256": _digest(key), **key}, ensure_ascii=False) + "\n"
    return write_new(out, files, taken=(_KEY, _SHEETS))


def _digest(key: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()


def read_study(folder: Path) -> Study:
    """Read the key in ``folder`` and all of its sheets that are there.

    :raises DataError: The key or a sheet is damaged, no sheet is there, or a question is missing or not answered.
    """
    study = _read_key(folder / _KEY)
    there = [name for name in study.sheets if (folder / name).exists()]
    if not there:
        raise DataError(f"{folder}: none of {', '.join(study.sheets)} is here; add the filled sheets")
    answers = {name: _read_sheet(folder / name, study, study.sheets[name]) for name in there}
    return replace(study, answers=answers)


def _read_key(where: Path) -> Study:
    text = text_of(where, "use the folder with the filled sheets and their key")
    try:
        key: dict[str, Any] = strict_json(text)
        if key.pop("sha256") != _digest(key):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(
            f"{where}: not a key by `llmprops lab dtails annotate`, or changed; restore it"
        ) from None
    questions = {
        name: Question(**(fields | {"options": tuple(fields["options"])}))
        for name, fields in key["questions"].items()
    }
    return Study(**(key | {"questions": questions}))


def _read_sheet(path: Path, study: Study, order: Order) -> dict[str, Answers]:
    """Return the answers of one sheet by question."""
    answers: dict[str, Answers] = {}
    unanswered = []
    for place, number, cells in numbered_lines(path, "question", len(order)):
        name, places = order[number - 1]
        question = study.questions[name]
        shown = question.cells(study.language, places)
        for column in study.columns:
            is_text = column != "question" and column not in _COLUMNS[study.task][1]
            # Editors change spaces, case and Unicode forms.
            if is_text and folded(cells.get(column, "")) != folded(shown.get(column, "")):
                raise DataError(f"{place}: {column} was changed; copy the line from an unfilled sheet")
        try:
            answers[name] = {
                column: read_answer(question, places, column, cells.get(column, ""))
                for column in _ANSWERS[question.kind]
            }
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
        empty = [c for c, answer in answers[name].items() if answer is None and c != "which"]
        unanswered += [f"{place}: {empty[0]} is empty"] if empty else []
    if unanswered:
        what = f"{len(unanswered)} of {len(order)} questions are open"
        raise DataError(f"{unanswered[0]} ({what}); finish the sheet")
    return answers


def read_answer(question: Question, order: Sequence[int], column: str, text: str) -> Any:
    """Return an answer as in :data:`Answers`; None for an empty cell.

    :param order: The indexes of the question's options in the order shown. An option is named by its number, from 1,
        or by its text.
    :raises DataError: The text is not an answer to this question; the message says what to write.
    """
    answer: Any
    text, plain = text.strip(), folded(text)
    shown = [question.options[place] for place in order]
    if not text or column == "which":
        return one_line(text, _LONGEST) or None
    if column == "confidence":
        place = _place(text, CONFIDENCE)
        answer, expected = None if place is None else CONFIDENCE[place], f"one of {', '.join(CONFIDENCE)}"
    elif question.kind == SELECT:
        place = _place(text, shown)
        answer, expected = None if place is None else order[place], f"1 to {len(shown)}, or the option's text"
    elif question.kind == WRONG:
        has_numbers = re.fullmatch(r"[\d\s,;]+", plain)
        parts = re.split(r"[\s,;]+", plain) if has_numbers else text.split(";")
        places = {_place(part, shown) for part in parts if part.strip() and plain != "none"}
        is_valid = None not in places and (places or plain == "none")
        answer = frozenset(order[place] for place in places if place is not None) if is_valid else None
        expected = f"none, or numbers of options (1 to {len(shown)}) such as 1;3"
    else:
        answer, expected = _YES_NO.get(plain), "yes or no"
    if answer is None:
        raise DataError(f"{column} is {short(text)}; write {expected}")
    return answer


def _place(text: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that ``text`` names by number or by its text; None if it names none."""
    plain = folded(text)  # Folding turns digits of any script into ASCII digits.
    if plain.isdecimal() and 1 <= int(plain) <= len(options):
        return int(plain) - 1
    # Exact matches come first, because two variations may be equal after folding.
    for normalise in (str.strip, folded):
        fitting = [place for place, option in enumerate(options) if normalise(option) == normalise(text)]
        if len(fitting) == 1:
            return fitting[0]
    return None


@dataclass(frozen=True, slots=True)
class Judged:
    """Yes-no questions: the share of yes over all judgements in [0, 1], and the agreement of tables 4 to 6.

    The printed shares show that judgements are pooled, without a vote: Farsi's recall of 72.3% cannot be a share of
    100 concepts, but it is 217 of 300 judgements.
    """

    questions: int
    share: float
    total: float
    kappa: float
    pabak: float

    @classmethod
    def of(cls, ratings: Sequence[Sequence[bool]]) -> Judged:
        """Count the answers; agreement is NaN for one annotator."""
        judgements = [judgement for answers in ratings for judgement in answers]
        share = sum(judgements) / len(judgements) if judgements else math.nan
        # With two possible answers, PABAK (Byrt et al. 1993) is twice the total agreement minus one.
        total = total_agreement(ratings)
        return cls(len(ratings), share, total, fleiss_kappa(ratings), 2 * total - 1)


def total_agreement(ratings: Sequence[Sequence[Hashable]]) -> float:
    """Return the share of questions on which all annotators agree (appendix A.3).

    :param ratings: One sequence per question with one answer per annotator. NaN for one annotator.
    """
    if not ratings or len(ratings[0]) < 2:
        return math.nan
    return sum(len(set(answers)) == 1 for answers in ratings) / len(ratings)


def fleiss_kappa(ratings: Sequence[Sequence[Hashable]]) -> float:
    """Return Fleiss' kappa (1971); NaN also if all answers are the same (chance agreement is then 1).

    :param ratings: See :func:`total_agreement`.
    """
    totals = Counter(answer for answers in ratings for answer in answers)
    if len(totals) < 2 or len(ratings[0]) < 2:
        return math.nan
    size = len(ratings[0])
    agreeing = sum(n * (n - 1) for answers in ratings for n in Counter(answers).values())
    observed = agreeing / (len(ratings) * size * (size - 1))
    chance = sum(n * n for n in totals.values()) / totals.total() ** 2
    return (observed - chance) / (1 - chance)


def majority(answers: Sequence[Hashable]) -> Hashable | None:
    """Return the answer of more than half of the annotators; None without a majority."""
    answer, count = Counter(answers).most_common(1)[0]
    return answer if 2 * count > len(answers) else None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a study.

    :param judged: ``accuracy`` (is the rule correct?, tables 3 and 4), ``precision`` (does the variation mean the
        concept?, tables 1 and 5) and ``recall`` (is no key variation missing?, tables 1 and 6); or ``original`` (was
        the original translation's variation chosen?).
    :param expert: Questions for which a majority chose the original translation's variation (section 2.2, table 2).
    :param remarks: Lines on what annotators reject or miss; or on their confidence and each sheet.
    """

    judged: Mapping[str, Judged]
    expert: tuple[str, ...]
    remarks: tuple[str, ...]


def rules_result(study: Study) -> Result:
    """Return the result of study 1."""
    ratings: dict[str, list[list[bool]]] = {"accuracy": [], "precision": [], "recall": []}
    remarks = []
    for name, question in study.questions.items():
        answers = [sheet[name] for sheet in study.answers.values()]
        concept = one_line(question.concept)
        if question.kind == MISSING:
            ratings["recall"].append([not answer["answer"] for answer in answers])
            notes = [answer["which"] for answer in answers if answer["which"]]
            remarks += [f"named as missing: {concept}: {note}" for note in notes]
            continue
        measure, what, yes = "accuracy", "the rule is not correct", {}
        if question.kind == RULE:
            yes[question.about] = [answer["answer"] for answer in answers]
        else:
            measure, what = "precision", "does not mean it"
            for place, option in enumerate(question.options):
                yes[option] = [place not in answer["answer"] for answer in answers]
        ratings[measure] += yes.values()
        rejected = [option for option, judgements in yes.items() if majority(judgements) is False]
        remarks += [f"a majority: {concept}, {one_line(option)}: {what}" for option in rejected]
    return Result({name: Judged.of(rows) for name, rows in ratings.items()}, (), tuple(remarks))


def selection_result(study: Study) -> Result:
    """Return the result of study 2."""
    labels = {name: question.label for name, question in study.questions.items()}
    choices = {name: [sheet[name]["choice"] for sheet in study.answers.values()] for name in labels}
    right = [[choice == labels[name] for choice in chosen] for name, chosen in choices.items()]
    expert = tuple(name for name, chosen in choices.items() if majority(chosen) == labels[name])
    sure = Counter(answer["confidence"] for sheet in study.answers.values() for answer in sheet.values())
    shares = ", ".join(f"{phrase} {sure[phrase] / sure.total():.1%}" for phrase in CONFIDENCE)
    remarks = [
        f"same variation      {total_agreement(list(choices.values())):>8.1%}".replace("nan", "NaN"),
        f"confidence: {shares}",
    ]
    for sheet, judgements in zip(study.answers, zip(*right, strict=True), strict=True):
        remarks.append(f"{sheet}: the original's variation in {sum(judgements) / len(right):.1%}")
    return Result({"original": Judged.of(right)}, expert, tuple(remarks))


def result_lines(study: Study) -> list[str]:
    """Return the result as lines of text."""
    result = rules_result(study) if study.task == RULES else selection_result(study)
    total = len(study.questions)
    concepts = len({question.group for question in study.questions.values()})
    of = f"{'rules' if study.task == RULES else 'sentences'} of {one_line(study.of)}, {study.language}"
    annotators = f"annotators {len(study.answers)} of {len(study.sheets)}"
    lines = [
        f"{of}: concepts {concepts}, questions {total}, {annotators}",
        f"{'share of yes':<20}{'':>8}{'questions':>11}{'agreement':>11}{'Fleiss kappa':>14}{'PABAK':>8}",
    ]
    for name, stats in result.judged.items():
        figures = f"{stats.total:>11.3f}{stats.kappa:>14.3f}{stats.pabak:>8.3f}".replace("nan", "NaN")
        lines.append(f"{name:<20}{stats.share:>8.1%}{stats.questions:>11}{figures}")
    if study.task == SELECTION:
        kept = f"for {len(result.expert)} of {total} the majority chose the original's variation"
        lines.append(f"sufficient context  {len(result.expert) / total:>8.1%}: {kept}")
    return [*lines, *result.remarks]


def write_expert_set(path: Path, study: Study) -> list[Path]:
    """Write the rows for which a majority chose the original as ``expert_dataset.csv`` (section 2.2).

    :raises UsageError: The sheets are of the other task, the set is empty, or the file cannot be written.
    """
    if study.task != SELECTION:
        raise UsageError("--write needs sheets of --task selection; these are of --task rules")
    expert = [study.questions[name] for name in selection_result(study).expert]
    if not expert:
        raise UsageError(
            "--write: a majority chose the original's variation for no sentence; nothing to write"
        )
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for question in expert:
        # The authors' lists are Python literals with escapes for invisible characters.
        variations, label = repr(list(question.options)), question.options[question.label]
        writer.writerow((question.concept, question.text, question.target, variations, label))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, buffer.getvalue())
    return [path]
