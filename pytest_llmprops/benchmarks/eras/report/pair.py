"""One ERAS pair to look at, out of the verdicts of one or several segmenters."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmprops.core.records import VerdictRecord

#: how verdicts part the test sentence from its control (benchmarks/eras/judging.py)
_NEXT = " / "


def chosen_pair(records: Sequence[Sequence[VerdictRecord]]) -> str | None:
    """Id of the pair on which most segmenters go wrong at the test sentence and right at the control.

    :param records: the explicit verdicts of each segmenter. The first of several such pairs; where there is
        none, the first pair that is wrong, else the first at all.
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
    """Test and control sentence of a verdict, with boundaries drawn and the canary word in brackets."""
    test, _, control = record.given.partition(_NEXT)
    return test, control
