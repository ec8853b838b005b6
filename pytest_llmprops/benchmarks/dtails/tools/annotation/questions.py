"""The questions of DTAiLS's annotation studies and the format of answers (Barua et al., figures 3 and 4).

A sheet is a table with one question per line, of one of two tasks:

- ``selection`` (study 2, section 2.2): which variation translates the concept in this English sentence, and how
  sure are you? The sheet shows only sentences and variations.
- ``rules`` (study 1, sections 2.1 and 3), for each concept: is a key variation missing, which variations do not
  mean the concept, and for each variation: is its rule correct?

Options are numbered from 1 in the order in which the annotator sees them. An answer is a number or the option's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_llmprops.benchmarks.dtails.rows import Row
from pytest_llmprops.benchmarks.dtails.rules import RulesFile
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.strict_json import short
from pytest_llmprops.core.texts import folded, one_line

SELECTION, RULES = "selection", "rules"
TASKS = (SELECTION, RULES)
SELECT, MISSING, WRONG, RULE = "select", "missing", "wrong", "rule"
KINDS = {SELECTION: (SELECT,), RULES: (MISSING, WRONG, RULE)}
#: The answers about confidence (figure 4).
CONFIDENCE = ("Absolutely sure", "Likely but uncertain", "No idea")
YES, NO, NONE = "yes", "no", "none"
#: The text in the column ``ask`` for each kind of question of the task ``rules``.
ASK = {
    MISSING: "Is a commonly used variation missing among the options? Answer yes or no; if yes, you may say which.",
    WRONG: "Which options do not mean the concept? Answer none, or their numbers, as 1;3.",
    RULE: "Is the rule for this variation correct? Answer yes or no.",
}
#: The answer columns of each kind of question.
_COLUMNS = {
    SELECT: ("choice", "confidence"), MISSING: ("answer", "which"), WRONG: ("answer",), RULE: ("answer",),
}  # fmt: skip
_FIXED = {
    SELECTION: (("question", "concept", "language", "sentence"), _COLUMNS[SELECT]),
    RULES: (("question", "ask", "concept", "language", "variation", "rule"), _COLUMNS[MISSING]),
}
#: Maximum characters of a free-text answer.
LONGEST_NOTE = 1_000
_OPTION = re.compile(r"option_([1-9][0-9]?)")


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    :param kind: ``select``, ``missing``, ``wrong`` or ``rule``.
    :param text: The English sentence or the rule; empty for other kinds.
    :param options: Names of the variations, in the order shown.
    :param about: The variation that a rule describes.
    :param group: Questions of one group (one concept) are asked together.
    """

    kind: str
    concept: str
    options: tuple[str, ...]
    text: str = ""
    about: str = ""
    group: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a sheet with its answer."""
        return _COLUMNS[self.kind]

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that an answered question must have filled."""
        return tuple(column for column in self.columns if column != "which")

    def shown(self, order: Sequence[int]) -> Question:
        """Return the question with its options in another order: their indexes in ``order``."""
        return replace(self, options=tuple(self.options[place] for place in order))

    def same_as(self, other: Question) -> bool:
        """Return True if both questions are the same after folding. Editors change spaces and Unicode forms."""
        return self._texts() == other._texts()

    def _texts(self) -> list[str]:
        return [self.kind, *map(folded, (self.concept, self.text, self.about, *self.options))]


def selection_questions(rows: Iterable[Row]) -> dict[str, Question]:
    """Return one question per row, by ``r0001`` (the row's number); repeated rows are left out."""
    groups: dict[tuple[str, frozenset[str]], str] = {}
    questions = {}
    for row in rows:
        if row.repeats:
            continue
        names = tuple(variation.name for variation in row.variations)
        group = groups.setdefault((row.concept, frozenset(names)), f"c{len(groups) + 1:03d}")
        questions[f"r{row.number:04d}"] = Question(SELECT, row.concept, names, row.sentence, group=group)
    return questions


def rules_questions(file: RulesFile) -> dict[str, Question]:
    """Return the questions on a rules file, by ``c001 missing``, ``c001 wrong``, ``c001 rule 1`` ..."""
    questions = {}
    for number, entry in enumerate(file.concepts, 1):
        group = f"c{number:03d}"
        names = tuple(rule.variation for rule in entry.rules)
        for kind in (MISSING, WRONG):
            questions[f"{group} {kind}"] = Question(kind, entry.concept, names, group=group)
        for place, rule in enumerate(entry.rules, 1):
            questions[f"{group} {RULE} {place}"] = Question(
                RULE, entry.concept, names, rule.text, rule.variation, group
            )
    return questions


def arranged(
    questions: Mapping[str, Question], *, seed: int, annotator: int
) -> list[tuple[str, tuple[int, ...]]]:
    """Return the order of one annotator's sheet as (question, indexes of its options in the order shown).

    Concepts, sentences of a concept, and variations are shuffled (section 2.2). The variations of a concept have the
    same order in all its questions, to avoid mistakes. Its rules come in that order.
    """
    random = generator(seed, "dtails annotate", annotator)
    groups: dict[str, list[str]] = {}
    for name, question in questions.items():
        groups.setdefault(question.group, []).append(name)
    arrangement = []
    for group in random.sample(sorted(groups), len(groups)):
        names = random.sample(sorted(groups[group]), len(groups[group]))
        options = sorted(questions[names[0]].options)
        random.shuffle(options)

        def rank(name: str, options: list[str] = options) -> tuple[int, int]:
            kind, about = questions[name].kind, questions[name].about
            return list(_COLUMNS).index(kind), options.index(about) if kind == RULE else 0

        for name in sorted(names, key=rank):  # The sort is stable, so sentences stay shuffled.
            places = questions[name].options
            arrangement.append((name, tuple(places.index(option) for option in options)))
    return arrangement


def header(task: str, width: int) -> tuple[str, ...]:
    """Return the columns of a task's sheet with up to ``width`` options."""
    first, last = _FIXED[task]
    return (*first, *(f"option_{place}" for place in range(1, width + 1)), *last)


def task_of(columns: Sequence[str]) -> str:
    """Return the task whose sheet has these columns. :raises DataError: A column is missing."""
    task = RULES if "ask" in columns else SELECTION
    missing = [column for column in header(task, 2) if column not in columns]
    if missing:
        raise DataError(f"no column '{missing[0]}'; restore the header that `llmprops dtails annotate` wrote")
    return task


def cells(number: int, language: str, question: Question) -> dict[str, str]:
    """Return a question as the cells of its line, without answers."""
    texts = {"question": str(number), "concept": question.concept, "language": language}
    if question.kind == SELECT:
        texts["sentence"] = question.text
    else:
        texts |= {"ask": ASK[question.kind], "variation": question.about, "rule": question.text}
    return texts | {f"option_{place}": name for place, name in enumerate(question.options, 1)}


def question_of(row: Mapping[str, str], task: str) -> Question:
    """Read the question from a line's cells by column. :raises DataError: The line is not a valid question."""
    places = sorted(int(match[1]) for column in row if (match := _OPTION.fullmatch(column)))
    options = [row[f"option_{place}"].strip() for place in places]
    while options and not options[-1]:
        options.pop()
    if len(options) < 2 or not all(options):
        raise DataError("fewer than two options, or a gap between them; restore them")
    concept = row["concept"].strip()
    if not concept:
        raise DataError("the concept is empty; restore it")
    if task == SELECTION:
        return Question(SELECT, concept, tuple(options), _required_cell(row, "sentence"))
    ask = folded(row["ask"])
    kind = next((kind for kind, text in ASK.items() if folded(text) == ask), "")
    if not kind:
        raise DataError(f"ask is {short(row['ask'])}; restore the question's text")
    texts = (_required_cell(row, "rule"), _required_cell(row, "variation")) if kind == RULE else ()
    return Question(kind, concept, tuple(options), *texts)


def read_answer(question: Question, column: str, text: str) -> str:
    """Return an answer in canonical form: ``2``, ``1;3``, ``none``, ``yes``, ``no``, a confidence, or a note.

    :param column: One of the question's columns. :param text: A cell; an empty cell gives an empty answer.
    :raises DataError: The text is not an answer to this question; the message says what to write.
    """
    text = text.strip()
    if not text:
        return ""
    if column == "which":
        return _note(text)
    if column == "confidence":
        return CONFIDENCE[_place(column, text, CONFIDENCE, f"one of {', '.join(CONFIDENCE)}") - 1]
    numbers = f"1 to {len(question.options)}"
    if question.kind == SELECT:
        return str(_place(column, text, question.options, f"{numbers}, or the option's text"))
    plain = folded(text)
    if question.kind != WRONG:
        if plain not in ("y", YES, "n", NO):
            raise _answer_error(column, text, "yes or no")
        return YES if plain in ("y", YES) else NO
    if plain == NONE:
        return NONE
    has_numbers = re.fullmatch(r"[\d\s,;]+", plain)
    parts = re.split(r"[\s,;]+", plain) if has_numbers else text.split(";")
    expected = f"none, or numbers of options ({numbers}) such as 1;3"
    places = {_place(column, part, question.options, expected) for part in parts if part.strip()}
    if not places:
        raise _answer_error(column, text, expected)
    return ";".join(map(str, sorted(places)))


def is_answered(question: Question, answers: Mapping[str, str]) -> bool:
    """Return True if every required column is filled."""
    return all(answers.get(column) for column in question.required)


def places_of(answer: str) -> tuple[int, ...]:
    """Return the indexes of the options that a canonical answer names: ``1;3`` is (0, 2), ``none`` is ()."""
    return () if answer in ("", NONE) else tuple(int(part) - 1 for part in answer.split(";"))


def unshuffled(question: Question, answers: Mapping[str, str], order: Sequence[int]) -> dict[str, str]:
    """Return answers to a question shown in ``order`` as answers to the question in its own order."""
    result = dict(answers)
    column = question.columns[0]
    if question.kind in (SELECT, WRONG) and answers[column] not in ("", NONE):
        places = sorted(order[place] + 1 for place in places_of(answers[column]))
        result[column] = ";".join(map(str, places))
    return result


def _required_cell(row: Mapping[str, str], column: str) -> str:
    text = row[column].strip()
    if not text:
        raise DataError(f"the {column} is empty; restore it")
    return text


def _place(column: str, text: str, options: Sequence[str], expected: str) -> int:
    """Return the number, from 1, of an option that ``text`` names by number or by its text."""
    text = text.strip()
    plain = folded(text)  # Folding turns digits of any script into ASCII digits.
    if plain.isdecimal() and 1 <= int(plain) <= len(options):
        return int(plain)
    # Exact matches come first, because two variations may be equal after folding.
    for normalise in (str, folded):
        fitting = [place for place, option in enumerate(options, 1) if normalise(option) == normalise(text)]
        if len(fitting) == 1:
            return fitting[0]
    raise _answer_error(column, text, expected)


def _note(text: str) -> str:
    text = one_line(text)
    if len(text) > LONGEST_NOTE:
        raise DataError(f"which has {len(text)} characters; write at most {LONGEST_NOTE}")
    return text


def _answer_error(column: str, text: str, expected: str) -> DataError:
    return DataError(f"{column} is {short(text)}; write {expected}")
