"""What people are asked about DTAiLS, and how an answer is written (Barua et al., figures 3 and 4).

A sheet is a table with one question a line, of one of two tasks:

- ``selection`` (study 2, section 2.2): which variation translates the concept in this English sentence, and how
  sure are you? The sheet has nothing but sentences and variations.
- ``rules`` (study 1, sections 2.1 and 3), for each concept: is a key variation missing, which variations do not
  mean the concept, and for each variation: is its rule correct?

Options are numbered from 1 in the order in which this annotator sees them. An answer is a number, or the option
as it stands there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_llmprops.benchmarks.dtails.rows import Row
from pytest_llmprops.benchmarks.dtails.rules import RulesFile
from pytest_llmprops.benchmarks.dtails.text import folded
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.seeds import generator
from pytest_llmprops.core.strict_json import short
from pytest_llmprops.core.texts import one_line

SELECTION, RULES = "selection", "rules"
TASKS = (SELECTION, RULES)
SELECT, MISSING, WRONG, RULE = "select", "missing", "wrong", "rule"
KINDS = {SELECTION: (SELECT,), RULES: (MISSING, WRONG, RULE)}
#: figure 4
CONFIDENCE = ("Absolutely sure", "Likely but uncertain", "No idea")
YES, NO, NONE = "yes", "no", "none"
#: what the column ``ask`` says for each kind of question of the task ``rules``
ASK = {
    MISSING: "Is a commonly used variation missing among the options? Answer yes or no; if yes, you may say which.",
    WRONG: "Which options do not mean the concept? Answer none, or their numbers, as 1;3.",
    RULE: "Is the rule for this variation correct? Answer yes or no.",
}
#: the answer columns of each kind, the first ones required
_COLUMNS = {
    SELECT: ("choice", "confidence"),
    MISSING: ("answer", "which"),
    WRONG: ("answer",),
    RULE: ("answer",),
}
_FIXED = {
    SELECTION: (("question", "concept", "language", "sentence"), _COLUMNS[SELECT]),
    RULES: (("question", "ask", "concept", "language", "variation", "rule"), _COLUMNS[MISSING]),
}
#: most characters of a free answer
LONGEST_NOTE = 1_000
_OPTION = re.compile(r"option_([1-9][0-9]?)")


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    :param kind: ``select``, ``missing``, ``wrong`` or ``rule``.
    :param text: the English sentence, or the rule; empty for the others.
    :param options: names of the variations, in the order shown.
    :param about: the variation that a rule is of.
    :param group: questions of one group are asked together: those of one concept.
    """

    kind: str
    concept: str
    options: tuple[str, ...]
    text: str = ""
    about: str = ""
    group: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a sheet that hold its answer."""
        return _COLUMNS[self.kind]

    @property
    def required(self) -> tuple[str, ...]:
        """Those of :attr:`columns` without which it is not answered."""
        return tuple(column for column in self.columns if column != "which")

    def shown(self, order: Sequence[int]) -> Question:
        """The question with its options in another order: ``order`` holds their places, from 0."""
        return replace(self, options=tuple(self.options[place] for place in order))

    def same_as(self, other: Question) -> bool:
        """Whether both ask the same, whatever an editor did to spaces, case and Unicode forms of the texts."""
        return self._texts() == other._texts()

    def _texts(self) -> list[str]:
        return [self.kind, *map(folded, (self.concept, self.text, self.about, *self.options))]


def selection_questions(rows: Iterable[Row]) -> dict[str, Question]:
    """A question a row, by ``r0001`` (the row's number); rows that repeat an earlier one are left out."""
    groups: dict[tuple[str, frozenset[str]], str] = {}
    found = {}
    for row in rows:
        if row.repeats:
            continue
        names = tuple(variation.name for variation in row.variations)
        group = groups.setdefault((row.concept, frozenset(names)), f"c{len(groups) + 1:03d}")
        found[f"r{row.number:04d}"] = Question(SELECT, row.concept, names, row.sentence, group=group)
    return found


def rules_questions(file: RulesFile) -> dict[str, Question]:
    """The questions on every concept of a rules file, by ``c001 missing``, ``c001 wrong``, ``c001 rule 1`` ..."""
    found = {}
    for number, entry in enumerate(file.concepts, 1):
        group = f"c{number:03d}"
        names = tuple(rule.variation for rule in entry.rules)
        for kind in (MISSING, WRONG):
            found[f"{group} {kind}"] = Question(kind, entry.concept, names, group=group)
        for place, rule in enumerate(entry.rules, 1):
            found[f"{group} {RULE} {place}"] = Question(
                RULE, entry.concept, names, rule.text, rule.variation, group
            )
    return found


def arranged(
    questions: Mapping[str, Question], *, seed: int, annotator: int
) -> list[tuple[str, tuple[int, ...]]]:
    """The order of one annotator's sheet: (question, places of its options in the order shown).

    Concepts, the sentences of a concept, and variations are shuffled (section 2.2). The variations of a concept
    keep their order through its questions, so that nobody slips; rules are asked for in that order.
    """
    random = generator(seed, "dtails annotate", annotator)
    groups: dict[str, list[str]] = {}
    for name, question in questions.items():
        groups.setdefault(question.group, []).append(name)
    found = []
    for group in random.sample(sorted(groups), len(groups)):
        names = random.sample(sorted(groups[group]), len(groups[group]))
        options = sorted(questions[names[0]].options)
        random.shuffle(options)

        def rank(name: str, options: list[str] = options) -> tuple[int, int]:
            question = questions[name]
            return list(_COLUMNS).index(question.kind), (
                options.index(question.about) if question.kind == RULE else 0
            )

        for name in sorted(names, key=rank):  # stable: sentences stay shuffled
            places = questions[name].options
            found.append((name, tuple(places.index(option) for option in options)))
    return found


def header(task: str, width: int) -> tuple[str, ...]:
    """Columns of a task's sheet with ``width`` options at most."""
    first, last = _FIXED[task]
    return (*first, *(f"option_{place}" for place in range(1, width + 1)), *last)


def task_of(columns: Sequence[str]) -> str:
    """The task whose sheet has these columns. :raises DataError: neither task's; names what is missing."""
    task = RULES if "ask" in columns else SELECTION
    missing = [column for column in header(task, 2) if column not in columns]
    if missing:
        raise DataError(f"no column '{missing[0]}'; write the header as `llmprops dtails annotate` did")
    return task


def cells(number: int, language: str, question: Question) -> dict[str, str]:
    """A question as the cells of its line, answers left empty."""
    found = {"question": str(number), "concept": question.concept, "language": language}
    if question.kind == SELECT:
        found["sentence"] = question.text
    else:
        found |= {"ask": ASK[question.kind], "variation": question.about, "rule": question.text}
    return found | {f"option_{place}": name for place, name in enumerate(question.options, 1)}


def question_of(row: Mapping[str, str], task: str) -> Question:
    """The question of a line, from its cells by column. :raises DataError: one phrase, for no question."""
    places = sorted(int(match[1]) for column in row if (match := _OPTION.fullmatch(column)))
    options = [row[f"option_{place}"].strip() for place in places]
    while options and not options[-1]:
        options.pop()
    if len(options) < 2 or not all(options):
        raise DataError("fewer than two options, or a gap between them; put them back")
    concept = row["concept"].strip()
    if not concept:
        raise DataError("the concept is empty; put it back")
    if task == SELECTION:
        return Question(SELECT, concept, tuple(options), _needed(row, "sentence"))
    asked = folded(row["ask"])
    kind = next((kind for kind, text in ASK.items() if folded(text) == asked), "")
    if not kind:
        raise DataError(f"ask is {short(row['ask'])}; put the question back")
    if kind != RULE:
        return Question(kind, concept, tuple(options))
    return Question(kind, concept, tuple(options), _needed(row, "rule"), _needed(row, "variation"))


def read_answer(question: Question, column: str, text: str) -> str:
    """An answer in its one form: ``2``, ``1;3``, ``none``, ``yes``, ``no``, a phrase of :data:`CONFIDENCE`, a note.

    :param column: one of the question's. :param text: a cell; empty stays empty.
    :raises DataError: no answer to this question; one phrase with what to write.
    """
    text = text.strip()
    if not text:
        return ""
    if column == "which":
        return _note(text)
    if column == "confidence":
        return CONFIDENCE[_place(column, text, CONFIDENCE, f"one of {', '.join(CONFIDENCE)}") - 1]
    many = f"1 to {len(question.options)}"
    if question.kind == SELECT:
        return str(_place(column, text, question.options, f"{many}, or the option itself"))
    plain = folded(text)
    if question.kind != WRONG:
        if plain not in ("y", YES, "n", NO):
            raise _wrong(column, text, "yes or no")
        return YES if plain in ("y", YES) else NO
    if plain == NONE:
        return NONE
    numbers = re.fullmatch(r"[\d\s,;]+", plain)
    parts = re.split(r"[\s,;]+", plain) if numbers else text.split(";")
    wanted = f"none, or numbers of options ({many}) as 1;3"
    places = {_place(column, part, question.options, wanted) for part in parts if part.strip()}
    if not places:
        raise _wrong(column, text, wanted)
    return ";".join(map(str, sorted(places)))


def is_answered(question: Question, answers: Mapping[str, str]) -> bool:
    """Whether every required column holds something."""
    return all(answers.get(column) for column in question.required)


def places_of(answer: str) -> tuple[int, ...]:
    """The options that an answer in its one form names, from 0: ``1;3`` is (0, 2), ``none`` is ()."""
    return () if answer in ("", NONE) else tuple(int(part) - 1 for part in answer.split(";"))


def unshuffled(question: Question, answers: Mapping[str, str], order: Sequence[int]) -> dict[str, str]:
    """Answers to a question that was shown in ``order``, as answers to the question in its own order."""
    found = dict(answers)
    column = question.columns[0]
    if question.kind in (SELECT, WRONG) and answers[column] not in ("", NONE):
        places = sorted(order[place] + 1 for place in places_of(answers[column]))
        found[column] = ";".join(map(str, places))
    return found


def _needed(row: Mapping[str, str], column: str) -> str:
    text = row[column].strip()
    if not text:
        raise DataError(f"the {column} is empty; put it back")
    return text


def _place(column: str, text: str, options: Sequence[str], wanted: str) -> int:
    """The place from 1 of an option that is given by number or as itself."""
    text = text.strip()
    plain = folded(text)  # digits of any script
    if plain.isdecimal() and 1 <= int(plain) <= len(options):
        return int(plain)
    # As written first: two variations may be equal once folded.
    for alike in (str, folded):
        fitting = [place for place, option in enumerate(options, 1) if alike(option) == alike(text)]
        if len(fitting) == 1:
            return fitting[0]
    raise _wrong(column, text, wanted)


def _note(text: str) -> str:
    text = one_line(text)
    if len(text) > LONGEST_NOTE:
        raise DataError(f"which has {len(text)} characters; write {LONGEST_NOTE} at most")
    return text


def _wrong(column: str, text: str, wanted: str) -> DataError:
    return DataError(f"{column} is {short(text)}; write {wanted}")
