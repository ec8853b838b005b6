"""Where runs lie: found by name, listed, and promoted to baselines."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.run_facts import RunFacts
from pytest_llmprops.runs.reader import is_being_written, read_facts, read_run, state_of
from pytest_llmprops.runs.record import DEFAULT_ROOT, utc_now
from pytest_llmprops.runs.searches import FILE as SEARCHES

#: promoted runs, meant to be committed or kept by CI
BASELINES = Path("baselines")
#: runs named in the message about one that is not there
NEWEST = 5


@dataclass(frozen=True)
class Listed:
    """One folder of a listing: its facts and state, or the problem that keeps it from being read."""

    folder: Path
    facts: RunFacts | None
    state: str
    problem: str = ""


def find_run(text: str, root: Path = Path()) -> Path:
    """The folder of RUN: a folder that holds a run, a name under ``reports/runs``, or a baseline's name.

    :param root: where ``reports/runs`` and ``baselines`` lie; a folder is taken as it stands.
    :raises UsageError: when there is none; the newest few are named.
    """
    given = Path(text).expanduser()
    if given.name == "run.json":
        given = given.parent
    places = [given] if text else []
    if text and text == Path(text).name:
        places += [root / DEFAULT_ROOT / text, root / BASELINES / text]
    for folder in places:
        if (folder / "run.json").is_file():
            return folder
    newest = [f.name for f in _folders(root)][:NEWEST]
    there = f"the newest are {', '.join(newest)}" if newest else "none is recorded here yet"
    raise UsageError(
        f"no run '{text}': RUN is a folder with a run.json, or a name under {DEFAULT_ROOT} or {BASELINES}; {there}"
    )


def list_runs(root: Path = Path()) -> list[Listed]:
    """All runs and baselines under ``root``, newest first; unreadable ones with their problem, last.

    Verdicts are read only of runs that have not finished, so that a long history lists at once.
    """
    found = [_listed(folder) for folder in _folders(root)]
    found.sort(key=lambda run: run.facts.started if run.facts else "", reverse=True)
    return found


def _folders(root: Path) -> list[Path]:
    """Folders that hold a run.json, the last written first."""
    found = [
        (path.stat().st_mtime, path.parent)
        for place in (DEFAULT_ROOT, BASELINES)
        for path in (root / place).glob("*/run.json")
        if path.is_file() and not path.parent.name.startswith(".")
    ]
    return [folder for _, folder in sorted(found, reverse=True)]


def _listed(folder: Path) -> Listed:
    try:
        facts = read_facts(folder)
        if facts.finished is not None:
            return Listed(folder, facts, state_of(facts, is_being_written(folder)))
        run = read_run(folder)
        return Listed(folder, run.facts, run.state)
    except DataError as error:
        return Listed(folder, None, "unreadable", str(error))


def promote(
    folder: Path,
    name: str,
    root: Path = Path(),
    *,
    replace: bool = False,
    replies: bool = True,
    allow_incomplete: bool = False,
) -> Path:
    """Copy a run to ``baselines/NAME`` under ``root``; the new folder.

    The copy keeps its run_id, and its ``run.json`` says where it came from and when. It appears whole or
    not at all.

    :param replies: copy ``requests.jsonl`` and ``searches.jsonl``, too.
    :raises UsageError: for a name that is no plain name, is taken, or is a run's; for a run that is being
        written, or incomplete unless a gate ended it.
    :raises DataError: when the run cannot be read.
    """
    if name in ("", ".", "..") or set(name) & set("/\\\0") or name.startswith(".") or not name.isprintable():
        raise UsageError(f"'{name}': a baseline needs a plain name, such as gpt-4o-2026")
    if (root / DEFAULT_ROOT / name / "run.json").exists():
        raise UsageError(f"'{name}' is the name of a run under {DEFAULT_ROOT}; give the baseline another one")
    target = root / BASELINES / name
    if target.exists() and not replace:
        raise UsageError(f"{target}: is taken; choose another name, or replace it with --replace")
    if target.exists() and not (target / "run.json").is_file():
        raise UsageError(f"{target}: holds no run and will not be replaced")
    if target.exists() and target.samefile(folder):
        raise UsageError(f"{target}: is this baseline already")
    run = read_run(folder)
    if run.writing:
        raise UsageError(f"{folder}: is still being written; promote it when it has finished")
    if not (run.facts.complete or run.facts.stopped_by_gate or allow_incomplete):
        raise UsageError(f"{folder}: is incomplete, a poor baseline; finish it, or give --allow-incomplete")
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.parent / f".{name}.{os.getpid()}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    try:
        for file in ("verdicts.jsonl", *(("requests.jsonl", SEARCHES) if replies else ())):
            if (folder / file).exists():
                shutil.copyfile(folder / file, new / file)
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        facts |= {"run_id": run.run_id, "promoted_from": folder.resolve().name, "promoted_at": utc_now()}
        text = json.dumps(facts, ensure_ascii=False, indent=1) + "\n"
        (new / "run.json").write_text(text, encoding="utf-8", errors="replace")
        _put(new, target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return target


def _put(new: Path, target: Path) -> None:
    """Rename ``new`` to ``target``; what stood there is kept until the new one is in place."""
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
