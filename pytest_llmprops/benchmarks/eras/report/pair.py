"""Choose one ERAS pair as an example from the verdicts of one or several segmenters."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmprops.core.records import VerdictRecord

#: Separates the test sentence from its control in a verdict (benchmarks/eras/judging.py).
_NEXT = " / "


def chosen_pair(records: Sequence[Sequence[VerdictRecord]]) -> str | None:
    """Return the id of the pair that most segmenters get wrong in the test sentence and right in the control.

    The first of several such pairs is chosen. If there is none, it is the first pair with a wrong test
    sentence, otherwise the first pair; None without records.

    :param records: The explicit verdicts of each segmenter.
    """
    votes: dict[str, int] = {}
    for members in records:
        for record in members:
            values = record.values
            if "test" in values:
                missed = 2 * (not values["test"] and bool(values["control"])) + (not values["test"])
                votes[record.id] = votes.get(record.id, 0) + missed
    return max(votes, key=lambda name: votes[name], default=None)


def segmentations(record: VerdictRecord) -> tuple[str, str]:
    """Return a verdict's test and control sentence, with word boundaries and the canary word in brackets."""
    test, _, control = record.given.partition(_NEXT)
    return test, control
