"""Writing a run record (DESIGN, "Run record"): ``run.json`` and ``verdicts.jsonl``."""

from __future__ import annotations

import contextlib
import datetime
import json
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_facts import GitState, RunFacts
from pytest_llmprops.data.whole_files import replacing

_encode = json.JSONEncoder(ensure_ascii=False).encode
DEFAULT_ROOT = Path("reports") / "runs"


def new_run_folder(asked: str | None, models: Sequence[str], root: Path) -> Path:
    """Make the folder of a new run: ``asked``, or ``reports/runs/<UTC time>-<model>`` under ``root``.

    :raises UsageError: when the folder cannot be made or already holds a run.
    """
    if asked:
        folder = Path(asked)
        if (folder / "run.json").exists():
            raise UsageError(f"--llm-run {asked}: already holds a run; give a new folder")
        candidates = [folder]
    else:
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"{stamp}-{re.sub(r'[^A-Za-z0-9._=-]+', '_', '+'.join(models))[:60]}"
        candidates = [root / DEFAULT_ROOT / (name if n == 1 else f"{name}-{n}") for n in range(1, 100)]
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=bool(asked))
            return folder
        except FileExistsError:
            if asked:
                raise UsageError(f"--llm-run {asked}: is not a folder") from None
        except OSError as error:
            raise UsageError(
                f"run record {folder}: {error.strerror}; give a writable folder with --llm-run DIR"
            ) from None
    raise UsageError(f"run record {candidates[0]}: too many runs in one second")


class RunRecord:
    """One run on disk. Verdicts are appended and flushed as they come; ``run.json`` is replaced whole."""

    def __init__(self, folder: Path, facts: RunFacts) -> None:
        self.folder = folder
        self.facts = facts
        self.records: list[VerdictRecord] = []
        self.write_facts()
        self._verdicts = open(folder / "verdicts.jsonl", "a", encoding="utf-8", errors="replace")
        _lock(self._verdicts)

    def add(self, record: VerdictRecord) -> None:
        """Append a verdict, and keep it as it is.

        :raises OSError: on a full disk; the lines before are whole.
        """
        self._verdicts.write(_encode(record.to_json()) + "\n")
        self._verdicts.flush()
        self.records.append(record)

    def add_lines(self, lines: str, records: Sequence[VerdictRecord] | None = None) -> None:
        """Append the verdicts of a case that has many: ``lines`` as they are to stand in the file.

        :param records: the same as values, where the caller has them.
        :raises OSError: on a full disk; the lines before are whole.
        """
        self._verdicts.write(lines)
        self._verdicts.flush()
        if records is None:
            rows = json.loads("[" + lines.rstrip("\n").replace("\n", ",") + "]")
            records = [VerdictRecord.from_json(row) for row in rows]
        self.records += records

    def write_facts(self) -> None:
        """Replace ``run.json`` atomically."""
        text = json.dumps(self.facts.to_json(), ensure_ascii=False, indent=1) + "\n"
        with replacing(self.folder / "run.json") as draft:
            draft.write_text(text, encoding="utf-8", errors="replace")

    def discard(self) -> None:
        """Remove what was written, and the folder if nothing else is in it: the run never began."""
        self._verdicts.close()
        for name in ("run.json", "verdicts.jsonl", "requests.jsonl"):
            (self.folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def finish(self, facts: RunFacts) -> None:
        """Write the last facts, with the time, and close the files."""
        self.facts = replace(facts, finished=utc_now())
        try:
            self.write_facts()
        finally:
            # Last, since it frees the lock: a reader finds a record being written, or a finished one.
            self._verdicts.close()


def _lock(file: IO[str]) -> None:
    """Mark ``file`` as being written, until it is closed or this process ends, however it ends.

    Readers hold their shared lock for an instant only. Where there are no file locks a run that is being
    written looks like one that was killed.
    """
    try:
        import fcntl
    except ImportError:
        return
    for _ in range(10):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            return


def first_facts(folder: Path, **facts: Any) -> RunFacts:
    """Return the facts of a run that starts now in ``folder``; ``facts`` are fields of :class:`RunFacts`."""
    return replace(RunFacts(folder.name, started=utc_now(), versions=versions()), **facts)


def utc_now() -> str:
    """The time in ISO 8601, UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Python, platform and the packages that shape a result. Reads metadata, imports nothing."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "platform": sys.platform}
    for package in (
        "pytest-llmprops",
        "pytest",
        "pytest-xdist",
        "openai",
        "litellm",
        "llama-cpp-python",
        "transformers",
    ):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def git_state(folder: Path) -> GitState | None:
    """Commit and cleanness of the repository at ``folder``; None outside of one."""
    try:
        commit = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10
        )
        status = subprocess.run(
            ["git", "-C", str(folder), "status", "--porcelain"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if commit.returncode:
        return None
    return GitState(commit.stdout.strip(), dirty=bool(status.stdout.strip()))
