"""How far people agree (Barua et al., appendix A.3), and what their choices make of the data (tables 1 to 3).

Ratings are one sequence a question, with one answer an annotator; every question has the same number of answers,
at least two. Shares are fractions in [0, 1].
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.core.errors import DataError

Answer = Hashable
Ratings = Sequence[Sequence[Answer]]


def ratings_of(answers: Iterable[tuple[str, str, Answer]]) -> dict[str, tuple[Answer, ...]]:
    """Ratings by question from (question, annotator, answer), annotators in alphabetical order.

    :raises DataError: a question that an annotator answered twice, or that one of them left out.
    """
    table: dict[str, dict[str, Answer]] = {}
    for question, annotator, answer in answers:
        given = table.setdefault(question, {})
        if annotator in given:
            raise DataError(f"question '{question}': annotator '{annotator}' answers twice; drop one")
        given[annotator] = answer
    annotators = sorted({name for given in table.values() for name in given})
    for question, given in table.items():
        missing = [name for name in annotators if name not in given]
        if missing:
            raise DataError(f"question '{question}': no answer of annotator '{missing[0]}'; finish the sheet")
    return {question: tuple(given[name] for name in annotators) for question, given in table.items()}


def total_agreement(ratings: Ratings) -> float:
    """Share of questions on which all annotators agree; NaN without questions.

    :raises DataError: questions with different numbers of answers, or with one answer only.
    """
    _check(ratings)
    if not ratings:
        return math.nan
    return sum(len(set(answers)) == 1 for answers in ratings) / len(ratings)


def fleiss_kappa(ratings: Ratings) -> float:
    """Return Fleiss' kappa (1971); NaN if all answers are the same, or there are none: chance always agrees then.

    :raises DataError: as :func:`total_agreement`.
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
    """Prevalence-adjusted bias-adjusted kappa (Byrt et al. 1993): ``(k p - 1) / (k - 1)``; NaN without questions.

    p is the total agreement, as tables 4 to 6 have it (0.975 gives 0.950), and k the number of possible answers.

    :raises DataError: as :func:`total_agreement`; fewer categories than two, or than there are answers.
    """
    found = {answer for answers in ratings for answer in answers}
    if categories < max(2, len(found)):
        raise DataError(
            f"pabak: {categories} categories, {len(found)} different answers; give the number asked for"
        )
    return (categories * total_agreement(ratings) - 1) / (categories - 1)


@dataclass(frozen=True, slots=True)
class Agreement:
    """A row of tables 4 to 6: the three statistics over so many questions, NaN where they are undefined."""

    questions: int
    total: float
    kappa: float
    pabak: float


def agreement(ratings: Ratings) -> Agreement:
    """The three statistics for questions of two possible answers; all NaN where there is one annotator only.

    :raises DataError: as :func:`total_agreement`.
    """
    if ratings and all(len(answers) == 1 for answers in ratings):
        return Agreement(len(ratings), math.nan, math.nan, math.nan)
    return Agreement(len(ratings), total_agreement(ratings), fleiss_kappa(ratings), pabak(ratings))


def judged_share(ratings: Sequence[Sequence[bool]]) -> float:
    """Share of all judgements that say yes, every annotator's alike; NaN without judgements.

    Of "does this variation mean the concept?" it is the *precision*, of "are all key variations there?", asked
    once a concept, the *recall* (section 2.1, table 1), and of "is the rule correct?" the *accuracy* of rules
    (table 3). That judgements are pooled, and not put to a vote, follows from the printed values: Farsi's
    recall of 72.3% is no share of 100 concepts, but 217 of 300 judgements.
    """
    judgements = [judgement for answers in ratings for judgement in answers]
    return sum(judgements) / len(judgements) if judgements else math.nan


def variation_precision(
    wrong: Mapping[str, Sequence[Iterable[str]]], variations: Mapping[str, Sequence[str]]
) -> float:
    """Precision of variations from sheets that name the wrong ones; NaN without judgements.

    :param wrong: for each concept, what each annotator selected as not meaning it.
    :param variations: each concept's variations. :raises DataError: a selected word that is none of them.
    """
    ratings = []
    for concept, selections in wrong.items():
        chosen = [set(selection) for selection in selections]
        for selection in chosen:
            unknown = sorted(selection - set(variations[concept]))
            if unknown:
                raise DataError(
                    f"concept '{concept}': {unknown[0]!r} is none of its variations; correct the sheet"
                )
        ratings += [[variation not in selection for selection in chosen] for variation in variations[concept]]
    return judged_share(ratings)


def majority(answers: Sequence[Answer]) -> Answer | None:
    """The answer of more than half of the annotators; None where there is none."""
    if not answers:
        return None
    answer, count = Counter(answers).most_common(1)[0]
    return answer if 2 * count > len(answers) else None


def expert_set(choices: Mapping[str, Sequence[Answer]], originals: Mapping[str, Answer]) -> tuple[str, ...]:
    """Rows whose majority chose the variation of the original translation (section 2.2), in order.

    :param choices: each row's answers. :param originals: the variation in each row's translation.
    :raises DataError: a row without an original.
    """
    for row in choices:
        if row not in originals:
            raise DataError(f"row '{row}': no original variation; give the sheet of the same rows")
    return tuple(row for row, answers in choices.items() if answers and majority(answers) == originals[row])


def sufficient_context_share(
    choices: Mapping[str, Sequence[Answer]], originals: Mapping[str, Answer]
) -> float:
    """Share of the annotated sentences that are in the expert set (table 2); NaN without sentences.

    :raises DataError: as :func:`expert_set`.
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
