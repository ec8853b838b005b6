"""Review marks from the page: checked against the record, then saved beside the run."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.records import VerdictKey, VerdictRecord
from pytest_llmprops.core.texts import visible
from pytest_llmprops.runs.catalog import FileIdentity, file_identity
from pytest_llmprops.runs.integrity import VERDICTS
from pytest_llmprops.runs.json_lines import JsonLines
from pytest_llmprops.runs.reader import read_facts
from pytest_llmprops.runs.record import utc_now
from pytest_llmprops.runs.reviews import Review, append_review, read_reviews

#: the longest note, in characters; the page's field has the same limit
LONGEST_NOTE = 2000
#: runs whose verdicts' keys are kept: 30 bytes per verdict
_KEPT = 8


def saved_marks(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the marks beside these runs, as the page has them.

    :raises DataError: if a record or its marks cannot be read.
    """
    return [
        review.shown()
        for folder in folders
        for review in read_reviews(folder, read_facts(folder).run_id).values()
    ]


class Marks:
    """Saves marks on verdicts that exist. All calls may be made from several threads."""

    def __init__(self) -> None:
        self._keys: dict[tuple[Path, FileIdentity | None], _Keys] = {}
        self._one = threading.Lock()

    def save(self, line: Mapping[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
        """Append the mark ``line`` of the page to ``review.jsonl`` of the run it is on, one of those in ``folders``.

        The time of the mark is the current one. Return it as the page has it.

        :raises UsageError: if it is no mark, or is on none of their verdicts. :raises DataError: if a record cannot be
            read. :raises OSError: if it cannot be written.
        """
        try:
            review = Review.from_json(line)
        except ValueError as error:
            raise UsageError(f"the mark {error}") from None
        if len(review.note) > LONGEST_NOTE:
            raise UsageError(f"the note has {len(review.note):,} characters; the limit is {LONGEST_NOTE:,}")
        with self._one:
            for folder in folders:
                run_id = read_facts(folder).run_id
                key = self._keys_of(folder).find(review.key) if visible(run_id) == review.run else None
                if key is not None:
                    review = replace(review, **key._asdict(), run=run_id, time=utc_now())
                    append_review(folder, review)
                    return review.shown()
        raise UsageError("the mark is on a verdict that no run of this report has; build the report again")

    def _keys_of(self, folder: Path) -> _Keys:
        place = (folder, file_identity(folder / VERDICTS))
        keys = self._keys.pop(place, None) or _Keys(folder)
        self._keys = {**self._keys, place: keys}
        while len(self._keys) > _KEPT:
            del self._keys[next(iter(self._keys))]
        return keys


class _Keys:
    """The verdicts of a run. The page names them by their visible texts, which may differ from those of the record."""

    def __init__(self, folder: Path) -> None:
        self._plain: set[int] = set()
        self._others: dict[VerdictKey, VerdictKey] = {}
        for record in JsonLines(folder / VERDICTS, VerdictRecord.from_json):
            key = record.key
            model, benchmark, source, item = map(visible, key[:4])
            seen = VerdictKey(model, benchmark, source, item, key.sample)
            if seen == key:
                self._plain.add(hash(key))
            else:
                self._others[seen] = key

    def find(self, seen: VerdictKey) -> VerdictKey | None:
        """Return the record's key of the verdict with this visible key; None if there is none."""
        return self._others.get(seen) or (seen if hash(seen) in self._plain else None)
