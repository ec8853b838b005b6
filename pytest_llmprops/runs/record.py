"""Writing a run record: ``run.json`` and ``verdicts.jsonl``."""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import os
import platform
import re
import stat
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.verdicts import VerdictKey, VerdictRecord
from pytest_llmprops.data.whole_files import replacing
from pytest_llmprops.records.files import FILES, from_plain, line, plain
from pytest_llmprops.records.rows import SearchCounts, SearchRecord
from pytest_llmprops.records.run import GitState, RunMetadata
from pytest_llmprops.runs.integrity import REQUESTS, SEARCHES, VERDICTS, file_hashes, problems, run_json
from pytest_llmprops.runs.json_lines import JsonLines, append_whole, lock_file, open_record_file

#: remark on a counterexample that more calls might have made smaller
CUT_SHORT = "; the calls were spent before it was shrunk further"


def counterexample_text(record: SearchRecord) -> str:
    """Return what the counterexample of a search shows, how often it repeats, and whether it was cut short.

    Without a counterexample, it is what was not repeated.
    """
    text = record.why
    if record.repeats:
        text += f"; repeats in {record.repeats}"
    if record.not_repeated is not None:
        text = f"not repeated: {text}"
    return text + (CUT_SHORT if record.spent else "")


def search_counts(records: Iterable[SearchRecord]) -> tuple[SearchCounts, ...]:
    """Count the searches of each benchmark, model and property."""
    counts: dict[tuple[str, str, str], SearchCounts] = {}
    for record in records:
        key = record.benchmark, record.model, record.property
        before = counts.get(key, SearchCounts(*key))
        failed = bool(record.error)
        counts[key] = replace(
            before,
            searched=before.searched + (not failed),
            counterexamples=before.counterexamples + (record.counterexample is not None),
            not_repeated=before.not_repeated + (record.not_repeated is not None),
            examples=before.examples + record.examples,
            calls=before.calls + record.calls,
            spent=before.spent + record.spent,
            errors=before.errors + failed,
        )
    return tuple(counts.values())


DEFAULT_ROOT = Path("reports") / "runs"
RECORD_FILES = ("run.json", VERDICTS, REQUESTS)


def new_run_folder(requested: str | None, models: Sequence[str], root: Path) -> Path:
    """Create the folder of a new run: ``requested``, or ``reports/runs/<UTC time>-<model>`` under ``root``.

    :raises UsageError: if the folder cannot be created or already has a run.
    """
    if requested:
        _check_free(requested)
        candidates = [Path(requested)]
    else:
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"{stamp}-{re.sub(r'[^A-Za-z0-9._=-]+', '_', '+'.join(models))[:60]}"
        candidates = [root / DEFAULT_ROOT / (name if n == 1 else f"{name}-{n}") for n in range(1, 100)]
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=bool(requested))
            return folder
        except FileExistsError:
            if requested:
                raise UsageError(f"--llm-run {requested}: is not a folder") from None
        except OSError as error:
            raise unusable(folder, error) from None
    raise UsageError(f"run record {candidates[0]}: too many runs in one second")


def check_run_folder(requested: str | None, root: Path) -> None:
    """Check that :func:`new_run_folder` can create the folder of a new run, without creating it.

    :raises UsageError: as :func:`new_run_folder`.
    """
    folder = Path(requested) if requested else root / DEFAULT_ROOT
    try:
        if requested:
            _check_free(requested)
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    except OSError as error:
        raise unusable(folder, error) from None
    if not existing.is_dir():
        raise UsageError(f"--llm-run {folder}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(
            f"run record {folder}: no permission to write; give a writable folder with --llm-run DIR"
        )


def _check_free(requested: str) -> None:
    folder = Path(requested)
    check_no_record(folder)
    check_no_links(folder)
    for path in (folder / name for name in (VERDICTS, REQUESTS, SEARCHES)):
        # A run that was killed before its first run.json leaves empty files. The same command then runs.
        if path.is_dir() or (path.exists() and path.stat().st_size):
            raise UsageError(
                f"--llm-run {requested}: has {path.name} but no run.json, so no run can go on there; give a new folder"
            )


def check_no_links(folder: Path) -> None:
    """Check that the files that a run writes in its folder are regular files, if they exist.

    :raises UsageError: with the first link, pipe or device.
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            is_own = entry.name.startswith((*FILES, "replies.sqlite", "."))
            mode = entry.stat(follow_symlinks=False).st_mode
            if is_own and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise UsageError(
                    f"--llm-run {folder}: {entry.name} is not a regular file, so a run does not write it; remove it, or"
                    " give a new folder"
                )


def check_no_record(folder: Path) -> None:
    """Check that no process has begun a record in ``folder``.

    :raises UsageError: if it has a ``run.json``.
    """
    if os.path.lexists(folder / "run.json"):
        raise UsageError(f"--llm-run {folder}: already holds a run; give a new folder")


def unusable(folder: Path, error: OSError) -> UsageError:
    """Return the error of a run that cannot begin because ``folder`` cannot be written."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    fix = "free disk space, or give a folder on another disk" if is_full else "give a writable folder"
    return UsageError(f"run record {folder}: {error.strerror or error}; {fix} with --llm-run DIR")


class RunRecord:
    """The record of a run in progress. Verdicts are flushed one by one; ``run.json`` is replaced atomically.

    The verdicts are not kept in memory, only a hash of the last line of each item and sample.
    """

    def __init__(
        self,
        folder: Path,
        facts: RunMetadata,
        kept: Sequence[VerdictRecord] | None = None,
        kept_searches: Sequence[SearchRecord] = (),
    ) -> None:
        """Begin the record.

        :param kept: the verdicts that stay in the record of a resumed run; None for a new run.
        :param kept_searches: the searches that stay.
        """
        self.folder = folder
        self.facts = facts
        #: items and samples with a second, different verdict; a gate does not judge such a record
        self.repeated: list[VerdictKey] = []
        self._latest: dict[VerdictKey, int] = {}
        self._search_file: IO[bytes] | None = None
        self._searches = {search.key: search for search in kept_searches}
        self._digest = hashlib.sha256()
        #: bytes of the file that have complete lines
        self._size = 0
        # First, so that a resumed run that is killed here leaves a record that can be resumed again.
        self.write_facts()
        if kept is not None:
            raw = b"".join(map(line, kept))
            with replacing(folder / VERDICTS, sync=True) as draft:
                draft.write_bytes(raw)
            self._note_all(kept, raw)
            if kept_searches or os.path.lexists(folder / SEARCHES):
                with replacing(folder / SEARCHES, sync=True) as draft:
                    draft.write_bytes(b"".join(map(line, kept_searches)))
        self._verdicts = open_record_file(folder / VERDICTS, "a+b", buffering=0)
        # Without file locks, a run that is being written looks like one that was killed.
        lock_file(self._verdicts)

    @property
    def count(self) -> int:
        """Number of items and samples that have a verdict."""
        return len(self._latest)

    @property
    def records(self) -> list[VerdictRecord]:
        """The verdicts so far, read from the file; of several on the same item and sample, the last.

        :raises DataError: if another process has changed the file.
        """
        lines = JsonLines(self.folder / VERDICTS, partial(from_plain, VerdictRecord))
        return list({record.key: record for record in lines}.values())

    @property
    def searches(self) -> list[SearchRecord]:
        """The searches so far, one per item and property."""
        return list(self._searches.values())

    @property
    def is_changed(self) -> bool:
        """True if the file has other lines than those that were added."""
        try:
            return file_hashes(self.folder, [VERDICTS]).get(VERDICTS) != self._digest.hexdigest()
        except DataError:
            return True

    def add(self, record: VerdictRecord) -> None:
        """Append a verdict. A case that is reported again with the same verdict is not repeated.

        :raises OSError: on a full disk; earlier lines are complete.
        """
        raw, key = line(record), record.key
        if key in self._latest:
            if self._latest[key] == hash(raw):
                return
            self.repeated.append(key)
        append_whole(self._verdicts, raw, self._size)
        self._note(key, raw)

    def add_search(self, search: SearchRecord) -> None:
        """Append a search.

        :raises OSError: on a full disk; earlier lines are complete.
        """
        self._searches[search.key] = search
        if self._search_file is None:
            self._search_file = open_record_file(self.folder / SEARCHES, "ab")
        self._search_file.write(line(search))
        self._search_file.flush()

    def add_lines(self, lines: str, records: Sequence[VerdictRecord] | None = None) -> None:
        """Append the verdicts of a case that has many.

        :param lines: the lines as they are written. :param records: the same verdicts, if the caller has them.
        :raises OSError: on a full disk; earlier lines are complete.
        """
        if records is None:
            rows = json.loads("[" + lines.rstrip("\n").replace("\n", ",") + "]")
            records = [from_plain(VerdictRecord, row) for row in rows]
        if any(record.key in self._latest for record in records):
            for record in records:
                self.add(record)
            return
        raw = lines.encode("utf-8", "replace")
        append_whole(self._verdicts, raw, self._size)
        self._note_all(records, raw)

    def _note_all(self, records: Sequence[VerdictRecord], raw: bytes) -> None:
        for record, own in zip(records, raw.splitlines(keepends=True), strict=True):
            self._note(record.key, own)

    def _note(self, key: VerdictKey, raw: bytes) -> None:
        self._latest[key] = hash(raw)
        self._size += len(raw)
        self._digest.update(raw)

    def finished(self, facts: RunMetadata) -> RunMetadata:
        """Return ``facts`` with the current time and the hashes of the record's files, which no one writes any more.

        The hash of the verdicts is that of the lines that were added, so that a change of the file is seen.
        """
        files = {VERDICTS: self._digest.hexdigest(), **file_hashes(self.folder, [REQUESTS])}
        # The clock may have been set back during the run.
        return replace(facts, finished=max(utc_now(), facts.started or ""), files=files)

    def problems(self, facts: RunMetadata, records: Sequence[VerdictRecord]) -> list[str]:
        """Return what is inconsistent in the record of these :meth:`finished` facts and :attr:`records`."""
        return problems(facts, self.repeated, records, file_hashes(self.folder))

    def write_facts(self) -> None:
        """Replace ``run.json`` atomically."""
        with replacing(self.folder / "run.json") as draft:
            draft.write_text(run_json(plain(self.facts)), encoding="utf-8", errors="replace")

    def close(self) -> None:
        """Close the files, which releases the lock; safe to call twice."""
        if self._search_file is not None:
            self._search_file.close()
        self._verdicts.close()

    def finish(self, facts: RunMetadata) -> None:
        """Write the final facts with the current time and the hashes of the files, and close the files."""
        self.facts = self.finished(facts)
        try:
            self.write_facts()
        finally:
            # Last, because closing releases the lock. A reader then sees either a locked or a finished record.
            self.close()


def remove_record(folder: Path) -> None:
    """Delete the files of a run that did not begin, and the folder if it is then empty."""
    for name in RECORD_FILES:
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def lock_verdicts(folder: Path) -> IO[bytes]:
    """Open the verdicts of a record and lock them until the file is closed, so that no other process resumes it.

    :raises UsageError: if a process is writing the record, or the file cannot be written.
    """
    path = folder / VERDICTS
    try:
        file = open_record_file(path, "ab")
        # A process that resumes the run has replaced the file that it locked.
        if lock_file(file) and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    file.close()
    raise UsageError(f"{folder}: another process is writing this run; wait until it ends")


def first_facts(folder: Path, **facts: Any) -> RunMetadata:
    """Return the facts of a run that starts now in ``folder``; ``facts`` are fields of :class:`RunMetadata`."""
    return replace(RunMetadata(folder.name, started=utc_now(), versions=versions()), **facts)


def utc_now() -> str:
    """Return the current time in ISO 8601, UTC, in seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results, and the platform. Imports none of them."""
    from importlib.metadata import PackageNotFoundError, version

    result = {"python": platform.python_version(), "platform": sys.platform}
    for package in (
        "pytest-llmprops",
        "pytest",
        "pytest-xdist",
        "openai",
        "litellm",
        "transformers",
        "xllamacpp",
    ):
        with suppress(PackageNotFoundError):
            result[package] = version(package)
    return result


def git_state(folder: Path) -> GitState | None:
    """Return the commit of the repository at ``folder`` and whether it has changes; None outside a repository."""
    command = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch"]
    try:
        status = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    commit = re.search(r"^# branch\.oid ([0-9a-f]+)$", status.stdout, re.MULTILINE)
    is_dirty = any(not line.startswith("#") for line in status.stdout.splitlines())
    return None if commit is None else GitState(commit[1], is_dirty)
