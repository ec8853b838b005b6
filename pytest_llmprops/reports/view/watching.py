"""The state of all runs that the page shows, brought up to date step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pytest_llmprops.core.numbers import MISSING
from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.reports.kit.series import Share
from pytest_llmprops.reports.view.following import Follower, Part
from pytest_llmprops.reports.view.rows import Row, row_of
from pytest_llmprops.runs.catalog import Listed, RunIndex, broken

#: bytes of each file of a run that one step reads
STEP_BYTES = 2_000_000
#: The time after which a step reads no further ``run.json`` or record. The page is shown before all runs were read.
STEP_SECONDS = 0.4

_NO_SHARES: Mapping[Part, Share] = {}


class Changes(NamedTuple):
    """What one step changed: the rows that are new or different, and the ids of those that are gone."""

    rows: list[Row]
    gone: list[str]


class Watch:
    """The rows of all runs. Only :meth:`step` reads files; it writes none.

    Steps are taken one after the other, from any thread.

    :param places: folders whose subfolders are runs. :param clock: in seconds.
    """

    def __init__(self, places: Iterable[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._index, self._clock = RunIndex(places), clock
        self._followers: dict[Path, tuple[str, Follower]] = {}
        self._shares: dict[Path, tuple[object, Mapping[Part, Share]]] = {}
        self._finished: dict[Path, tuple[RunMetadata, Mapping[Part, Share], Row]] = {}
        #: by id
        self.rows: dict[str, Row] = {}
        self.runs: dict[str, Listed] = {}
        #: everything was read at least once
        self.is_current = False

    def step(self) -> Changes:
        """Read what changed; return the rows that are different from those of the last step."""
        begun = self._clock()
        listed, is_current = self._index.refresh(STEP_SECONDS)
        rows, runs = {}, {}
        for run in listed:
            try:
                follower = self._follower(run)
                if follower is not None and not self._read(run, follower, begun):
                    is_current = False
                row = self._row(run, follower)
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                # A field has a type that no version writes. The other runs are shown.
                unreadable = broken(run.folder, error)
                row = row_of(unreadable, None, _NO_SHARES, begun)
            rows[row["id"]], runs[row["id"]] = row, run
        listed_folders = {run.folder for run in listed}
        for folder in self._followers.keys() - listed_folders:
            del self._followers[folder]
        changed = [row for key, row in rows.items() if (old := self.rows.get(key)) is not row and old != row]
        self._finished = {folder: self._finished[folder] for folder in listed_folders & self._finished.keys()}
        gone = [key for key in self.rows if key not in rows]
        self.rows, self.runs, self.is_current = rows, runs, is_current
        return Changes(changed, gone)

    def _row(self, run: Listed, follower: Follower | None) -> Row:
        """Return the row of a run; that of a finished run is made once."""
        shares = self._shares_of(run)
        if follower is not None or run.facts is None:
            return row_of(run, follower, shares, self._clock())
        made = self._finished.get(run.folder)
        if made is None or made[0] is not run.facts or made[1] is not shares:
            made = self._finished[run.folder] = (run.facts, shares, row_of(run, None, shares, self._clock()))
        return made[2]

    def _follower(self, run: Listed) -> Follower | None:
        """Return the follower of a run that has not finished, or that finished while it was followed."""
        if run.facts is None:
            return None
        began = f"{run.facts.run_id} {run.facts.started} {run.facts.expected}"
        known = self._followers.get(run.folder)
        if known is not None and known[0] == began:
            return known[1]
        if run.facts.finished is not None:
            self._followers.pop(run.folder, None)
            return None
        follower = Follower(run.folder, run.facts)
        self._followers[run.folder] = (began, follower)
        return follower

    def _read(self, run: Listed, follower: Follower, begun: float) -> bool:
        """Read on in a record; return whether all of it was read."""
        try:
            while self._clock() - begun < STEP_SECONDS:
                if not follower.advance(STEP_BYTES, self._clock()):
                    return True
        except OSError as error:
            follower.problem = follower.problem or str(error.strerror)
            return True
        return False

    def _shares_of(self, run: Listed) -> Mapping[Part, Share]:
        known = self._shares.get(run.folder)
        # The facts of a run are another object after its run.json was read again.
        return known[1] if known is not None and known[0] is run.facts else _NO_SHARES

    def add_shares(self, run: Listed, shares: Mapping[Part, Share]) -> None:
        """Keep the accuracies of a run over several tasks, until its ``run.json`` changes."""
        self._shares[run.folder] = (run.facts, shares)

    def without_shares(self) -> list[Listed]:
        """Return the finished runs with an accuracy over several tasks that is not known yet, the newest first."""
        return [
            run
            for key, run in self.runs.items()
            if run.facts is not None
            and run.facts.finished is not None
            and any(not part["interval"] and part["accuracy"] != MISSING for part in self.rows[key]["parts"])
            and not (run.folder in self._shares and self._shares[run.folder][0] is run.facts)
        ]
