"""Find runs by name, list them, promote them to baselines, and keep an index of many up to date."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.texts import did_you_mean
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.integrity import (
    NO_HASHES_IN_SCHEMA_1,
    REQUESTS,
    SEARCHES,
    UNFINISHED,
    VERDICTS,
    file_hashes,
    run_json,
)
from pytest_llmprops.runs.json_lines import open_record_file
from pytest_llmprops.runs.reader import is_being_written, read_facts, read_run, read_run_json, state_of
from pytest_llmprops.runs.record import DEFAULT_ROOT, utc_now

RUN_JSON = "run.json"
#: the files of a record that reports read
FILES = (RUN_JSON, VERDICTS, REQUESTS, SEARCHES)
#: promoted runs, meant to be committed or kept by CI
BASELINES = Path("baselines")
#: in bytes; file systems allow 255, and the copy has a longer name while it is written
LONGEST_NAME = 200
#: recent runs named in the message about an unknown run
NEWEST = 5
#: what distinguishes a file from any later one of its name, without reading it; the time of its change is first
FileIdentity: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Listed:
    """One folder of a listing: its facts and state, or why it cannot be read."""

    folder: Path
    facts: RunMetadata | None
    state: str
    problem: str = ""


def find_run(text: str, root: Path = Path()) -> Path:
    """Return the folder of RUN: the name of a run under ``reports/runs`` or of a baseline, or a folder with a run.

    A plain name (``gpt-4``) is looked up under ``reports/runs`` and ``baselines`` first, so that a folder of this name
    in the current folder does not hide a baseline. ``./gpt-4`` is that folder.

    :param root: the folder that contains ``reports/runs`` and ``baselines``; not used if RUN is a folder.
    :raises UsageError: if no such run is known, with the newest runs; if the name is that of a run and of a baseline.
    """
    path = Path(text).expanduser()
    if path.name == "run.json":
        path = path.parent
    if text and text == path.name:
        named = [f for place in (DEFAULT_ROOT, BASELINES) if _is_run(f := root / place / text)]
        if len(named) > 1:
            raise UsageError(
                f"'{text}' is the name of a run and of a baseline; give the folder: {' or '.join(map(str, named))}"
            )
        if named:
            return named[0]
    if text and _is_run(path):
        return path
    names = [folder.name for folder in _by_time(_places(root))]
    newest = names[:NEWEST]
    if newest and text.casefold() in ("latest", "last", "newest"):
        raise UsageError(f"no run '{text}': a run is named by its folder; the newest is {newest[0]}")
    known = f"the newest are {', '.join(newest)}" if newest else "no run is recorded here yet"
    raise UsageError(
        f"no run '{text}': RUN is a folder with a run.json, or a name under {DEFAULT_ROOT} or {BASELINES}; {known}"
        + did_you_mean(text, names)
    )


def _is_run(folder: Path) -> bool:
    # A link or a pipe of this name is refused where it is read, with its own message.
    return os.path.lexists(folder / "run.json")


def list_runs(root: Path = Path()) -> list[Listed]:
    """Return all runs and baselines under ``root``, newest first; unreadable ones come last, with their problem.

    Verdicts are read only for runs that have not finished, so that a long history is listed quickly.
    """
    listed = []
    for run in RunIndex(_places(root)).refresh()[0]:
        is_open = run.facts is not None and run.facts.finished is None
        listed.append(_read(run.folder, whole=True) if is_open else run)
    listed.sort(key=lambda run: run.facts.started if run.facts else "", reverse=True)
    return listed


def _places(root: Path) -> tuple[Path, ...]:
    return root / DEFAULT_ROOT, root / BASELINES


def run_folders(places: Iterable[Path]) -> list[Path]:
    """Return the folders with a record in ``places``, at any depth, sorted; a place may be a record itself.

    A folder with verdicts but without ``run.json`` is a damaged record. Hidden folders and links are left out.

    :raises UsageError: if a place is not a folder.
    """
    found: set[Path] = set()
    for place in places:
        if not place.is_dir():
            raise UsageError(
                f"{place}: is not a folder; give folders with run records, such as {DEFAULT_ROOT}"
            )
        for folder, subfolders, files in os.walk(place.resolve()):
            if {"run.json", VERDICTS} & set(files):
                found.add(Path(folder))
                subfolders.clear()
            subfolders[:] = [name for name in subfolders if not name.startswith(".")]
    return sorted(found)


def _by_time(places: Iterable[Path]) -> dict[Path, FileIdentity]:
    """Return the folders with a record, the last written first, and the identity of their ``run.json``."""
    known: dict[Path, FileIdentity] = {}
    for place in places:
        with suppress(OSError):
            for folder in place.iterdir():
                identity = file_identity(folder / RUN_JSON)
                if identity is not None and not folder.name.startswith("."):
                    known[folder] = identity
    return dict(sorted(known.items(), key=lambda entry: (-entry[1][0], str(entry[0]))))


def promote(
    folder: Path,
    name: str,
    root: Path = Path(),
    *,
    replace: bool = False,
    replies: bool = True,
    allow_incomplete: bool = False,
) -> Path:
    """Copy a run to ``baselines/NAME`` under ``root`` and return the new folder.

    The copy keeps its run_id. Its ``run.json`` has the name of the original and the time, and the hashes of the copied
    files, which a record of schema 1 gets here. The copy is atomic.

    :param replies: also copy ``requests.jsonl`` and ``searches.jsonl``.
    :param allow_incomplete: also copy an incomplete or killed run. A gate does not accept it as a baseline.
    :raises UsageError: if the name is not a plain name, is taken, or is the name of a run; if the run is being
        written, or is incomplete and no gate ended it.
    :raises DataError: if the run cannot be read, is inconsistent or has no answer.
    """
    if name in ("", ".", "..") or set(name) & set("/\\\0") or name.startswith(".") or not name.isprintable():
        raise UsageError(f"'{name}': a baseline needs a plain name, such as gpt-4o-2026")
    if len(os.fsencode(name)) > LONGEST_NAME:
        raise UsageError(
            f"'{name[:20]}…': is longer than {LONGEST_NAME} bytes; give the baseline a shorter name"
        )
    if _is_run(root / DEFAULT_ROOT / name):
        raise UsageError(f"'{name}' is the name of a run under {DEFAULT_ROOT}; give the baseline another one")
    target = root / BASELINES / name
    if (root / BASELINES).exists() and not (root / BASELINES).is_dir():
        raise UsageError(f"{root / BASELINES}: is not a folder, so no baseline can be kept there; rename it")
    if target.is_symlink() and not target.exists():
        raise UsageError(f"{target}: is a link to a missing folder; remove it, or choose another name")
    if target.exists() and not replace:
        raise UsageError(f"{target}: is taken; choose another name, or replace it with --replace")
    if target.exists() and not (target / "run.json").is_file():
        raise UsageError(f"{target}: has no run and will not be replaced")
    if target.exists() and target.samefile(folder):
        raise UsageError(f"{target}: is this baseline already")
    run = read_run(folder)
    if run.writing:
        raise UsageError(f"{folder}: is still being written; promote it when it has finished")
    if not (run.facts.complete or allow_incomplete):
        raise UsageError(f"{folder}: is incomplete; finish the run, or give --allow-incomplete")
    accepted = {NO_HASHES_IN_SCHEMA_1, *((UNFINISHED,) if allow_incomplete else ())}
    inconsistent = [line for line in run.problems if line not in accepted]
    if inconsistent:
        raise DataError(f"{folder}: {inconsistent[0]}")
    if all(record.status == "error" for record in run.records):
        raise DataError(
            f"{folder}: has no answer to compare with: all {len(run.records)} verdicts are errors; measure again"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.parent / f".{name}.{os.getpid()}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    try:
        for file in (VERDICTS, *((REQUESTS, SEARCHES) if replies else ())):
            if os.path.lexists(folder / file):
                with open_record_file(folder / file) as original, open(new / file, "wb") as copy:
                    shutil.copyfileobj(original, copy, 1 << 20)
        facts = read_run_json(folder)
        facts |= {"run_id": run.run_id, "promoted_from": folder.resolve().name, "promoted_at": utc_now()}
        if run.facts.finished is not None:
            facts["files"] = file_hashes(new)
        (new / "run.json").write_text(run_json(facts), encoding="utf-8", errors="replace")
        _put(new, target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return target


def _put(new: Path, target: Path) -> None:
    """Rename ``new`` to ``target``; the old ``target`` is kept until the new one is in place."""
    if not target.exists():
        new.rename(target)
        return
    old = target.parent / f".{target.name}.{os.getpid()}.old"
    target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old)


def file_identity(path: Path) -> FileIdentity | None:
    """Return the identity of a file; None if it is missing or not accessible."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_dev, status.st_ino, status.st_size


def record_identity(folder: Path) -> tuple[FileIdentity | None, ...]:
    """Return the identity of a record's files, in the order of :data:`FILES`. It changes with each change of one."""
    return tuple(file_identity(folder / name) for name in FILES)


class RunIndex:
    """The runs in some folders. Of a record, only ``run.json`` is read, and again only after it changed.

    :param places: folders whose subfolders are runs; they may be missing.
    """

    def __init__(self, places: Iterable[Path]) -> None:
        self._places = tuple(places)
        self._listed: dict[Path, tuple[FileIdentity, Listed]] = {}

    def refresh(self, seconds: float = float("inf")) -> tuple[list[Listed], bool]:
        """Return all runs, the last written first, and whether all of them were read in ``seconds``.

        A run that cannot be read is listed with its problem. The state of a run is ``complete``, ``incomplete`` or
        ``being written``; the summary of one that has not finished is that of ``run.json``, so usually empty.
        """
        begun = time.monotonic()
        listed: dict[Path, tuple[FileIdentity, Listed]] = {}
        is_complete = True
        for folder, identity in _by_time(self._places).items():
            known = self._listed.get(folder)
            if known is None or known[0] != identity:
                if time.monotonic() - begun < seconds:
                    known = (identity, _read(folder))
                else:
                    is_complete = False
            if known is not None:
                run = known[1]
                if run.facts is not None and run.facts.finished is None:
                    # It changes without a change of run.json if the run is killed.
                    run = Listed(folder, run.facts, state_of(run.facts, is_being_written(folder)))
                listed[folder] = (known[0], run)
        self._listed = listed
        return [run for _, run in listed.values()], is_complete


def _read(folder: Path, *, whole: bool = False) -> Listed:
    """Return what is listed of a run.

    :param whole: read the verdicts as well.
    """
    try:
        if whole:
            run = read_run(folder)
            return Listed(folder, run.facts, run.state)
        facts = read_facts(folder)
    except DataError as error:
        return Listed(folder, None, "unreadable", str(error))
    return Listed(folder, facts, state_of(facts, writing=False))
