"""Agreement between annotators (Barua et al., appendix A.3), and shares from their answers (tables 1 to 3).

Ratings have one sequence per question with one answer per annotator. Every question has the same number of answers, at
least two. Shares are in [0, 1].
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmprops.core.errors import DataError

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
