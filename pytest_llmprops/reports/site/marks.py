"""Saving the review marks that a page sends, beside the run that they are on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import visible
from pytest_llmprops.core.verdicts import VerdictKey, VerdictRecord
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.rows import Review
from pytest_llmprops.runs.integrity import VERDICTS
from pytest_llmprops.runs.json_lines import JsonLines
from pytest_llmprops.runs.reader import read_facts
from pytest_llmprops.runs.readings import append_review, read_reviews, shown_review
from pytest_llmprops.runs.record import utc_now

#: the longest note, in characters; the page's field has the same limit
LONGEST_NOTE = 2000


def saved_marks(folder: Path) -> list[dict[str, Any]]:
    """Return the marks beside a run, as the page has them.

    :raises DataError: if the record or its marks cannot be read.
    """
    return [shown_review(review) for review in read_reviews(folder, read_facts(folder).run_id).values()]


def save_mark(line: Any, folder: Path) -> dict[str, Any]:
    """Append the mark ``line`` of the page to ``review.jsonl`` of the run; from any thread.

    The time of the mark is the current one. Return it as the page has it.

    :raises UsageError: if it is not a mark, or is on no verdict of this run.
    :raises DataError: if a record cannot be read. :raises OSError: if it cannot be written.
    """
    try:
        review = from_plain(Review, line)
    except ValueError as error:
        raise UsageError(f"the mark {error}") from None
    if len(review.note) > LONGEST_NOTE:
        raise UsageError(f"the note has {len(review.note):,} characters; the limit is {LONGEST_NOTE:,}")
    run_id = read_facts(folder).run_id
    key = _marked(review.key, folder) if visible(run_id) == review.run else None
    if key is None:
        raise UsageError("the mark is on a verdict that this run does not have; load the report again")
    review = replace(review, **key._asdict(), run=run_id, time=utc_now())
    append_review(folder, review)
    return shown_review(review)


def _marked(shown: VerdictKey, folder: Path) -> VerdictKey | None:
    """Return the record's key of the verdict whose key the page shows with visible texts; None if there is none."""
    for record in JsonLines(folder / VERDICTS, partial(from_plain, VerdictRecord)):
        key = record.key
        if key.sample == shown.sample and (*map(visible, key[:4]), key.sample) == shown:
            return key
    return None
