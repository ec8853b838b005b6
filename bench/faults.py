"""Run a table of faults, and print it: ``python -m bench.faults [--rows TEXT ...] [--seconds N]``.

Each row runs a command with one fault, then the same command again until its record is complete, at most twice more. It
holds if every verdict is that of an undisturbed run, no more calls are repeated than were in flight, no line of a batch
is paid for twice, no process is left behind, no command lasts longer than ``--limit``, and none prints a traceback.

The rows: SIGKILL of each kind of process at random times, the faults of ``bench/server_faults.py``, other signals,
SIGSTOP, disks that are full (tmpfs), steps of the clock (a preloaded library changes CLOCK_REALTIME), restarts of
PostgreSQL, and crashes around batches. A row whose means are missing (a C compiler, PostgreSQL, Ray, the right to
mount) is skipped and listed.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

from bench.process import parsed
from bench.server_faults import Fault, FaultServer, server_faults
from tests.support.batch_server import BatchServer, running_batch_server
from tests.support.message_batches import MessageBatchServer
from tests.support.postgres import PostgresServer
from tests.support.programs import GCC, POSTGRES
from tests.support.ray_cluster import ADDER, RayMachines
from tests.support.runs import Finished, Runner
from tests.support.view_server import ask

CONCURRENCY = 8
ITEMS = 60
#: seconds that processes may take to notice that their controller is gone
ORPHAN_SECONDS = 30.0
#: longest timeout of a call in the rows with server faults, in seconds
SERVER_TIMEOUT = 10.0
#: tracebacks of execnet, if a worker or its controller is killed before they have met
LOST_AT_START = (
    "EOFError: expected 1 bytes, got 0",
    '  File "<string>", line 5, in <module>\nBrokenPipeError',
)


#: what is wrong with a run, or nothing
Check = Callable[[Finished], str]


class Skipped(Exception):
    """This machine cannot run the row."""


@dataclass(frozen=True)
class Settings:
    """The settings of all rows.

    :param limit: seconds that a command may take. :param stop: seconds of a SIGSTOP.
    """

    limit: float = 180.0
    stop: float = 90.0


@dataclass(frozen=True)
class Row:
    """One row: what happens, and the function that does it and checks what must hold."""

    group: str
    name: str
    play: Callable[[Trial], None]

    @property
    def label(self) -> str:
        """The row's name in messages."""
        return f"{self.group}: {self.name}"


@dataclass
class Trial:
    """One row being run in a folder of its own, and what was seen."""

    folder: Path
    settings: Settings
    random: random.Random
    problems: list[str] = field(default_factory=list)
    commands: int = 0
    #: calls beyond the first one of a prompt, and how many may be
    repeats: int = 0
    allowed_repeats: int = 0
    paid_twice: int = 0
    orphans: int = 0
    hangs: int = 0
    skipped: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.runner = Runner(self.folder)
        (self.folder / "tmp").mkdir()

    def expect(self, is_met: object, problem: str) -> None:
        """Note ``problem`` unless the condition is met."""
        if not is_met:
            self.problems.append(problem)

    def start(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        is_forked: bool = False,
        folder: Path | None = None,
    ) -> Command:
        """Start pytest on the suite in the folder."""
        self.commands += 1
        folder = folder or self.runner.next_folder()
        output = self.folder / f"output-{self.commands}.txt"
        env = {"TMPDIR": str(self.folder / "tmp"), **(env or {})}
        command = self.runner.command(*args, folder=folder)
        with open(output, "wb") as out, open(os.devnull) as null:
            process: Any
            if is_forked:
                files = [null.fileno(), out.fileno(), out.fileno()]
                process = self.runner.start_with(files, *args, folder=folder, env=env)
            else:
                process = subprocess.Popen(
                    command, cwd=self.folder, env=self.runner.environment(env), stdin=null, stdout=out, stderr=out,
                    start_new_session=True,
                )  # fmt: skip
        return Command(self, process, output, folder)

    def run(self, *args: str, env: Mapping[str, str] | None = None, **more: Any) -> Finished:
        """Run pytest to its end."""
        return self.start(*args, env=env, **more).end()

    def processes(self) -> list[int]:
        """Return the processes that work in the folder."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (entry / "cwd").readlink().is_relative_to(self.folder):
                    found.append(int(entry.name))
        return found

    def check_orphans(self) -> None:
        """Count and kill the processes that a command left behind."""
        until = time.monotonic() + ORPHAN_SECONDS
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.05)
        for pid in left:
            self.problems.append(f"left behind: {_command_line(pid)}")
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.orphans += len(left)

    def finish(
        self,
        first: Finished,
        args: Sequence[str],
        check: Check,
        *,
        env: Mapping[str, str] | None = None,
        resumes: bool = False,
        is_forked: bool = True,
    ) -> None:
        """Repeat the command until its record is complete and ``check`` finds no problem in it, at most twice.

        :param resumes: continue the first record where there is one, with ``--llm-resume``.
        """
        done, problem = first, check(first)
        for _ in range(2):
            if not problem:
                break
            more: list[str] = []
            if resumes and (done.folder / "run.json").exists():
                more = ["--llm-run", str(done.folder), "--llm-resume"]
            again = self.run(*args, *more, env=env, is_forked=is_forked)
            done = Finished(again.code, again.output, done.folder if more else again.folder)
            problem = check(done)
        if problem:
            self.problems.append(f"{problem}; status {done.code}: {_last_lines(done.output)}")

    @contextmanager
    def disturbed(
        self,
        workers: int,
        *more: str,
        items: int = ITEMS,
        allowed: int = CONCURRENCY,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
        resumes: bool = True,
        is_forked: tuple[bool, bool] = (False, True),
    ) -> Iterator[tuple[Command, FaultServer]]:
        """Yield a run that the block disturbs, and its server; then check it, and repeat it until it is complete.

        :param more: further options. :param allowed: calls that may be repeated.
        :param is_forked: whether the disturbed command is a copy of a process, and whether its repetitions are.
        """
        self.runner.sums(items)
        with serving() as server:
            options = [*against(server, workers), *more]
            command = self.start(*options, env=env, folder=folder, is_forked=is_forked[0])
            yield command, server
            self.check_verdicts(command.end(), items)
            complete = same_as_undisturbed(items)
            self.finish(command.end(), options, complete, env=env, resumes=resumes, is_forked=is_forked[1])
            self.count_repeats(server.attempts, allowed)

    def check_verdicts(self, done: Finished, items: int) -> None:
        """Check the verdicts of a run that was disturbed: right or an error."""
        right = answers(items)
        other = [name for name, row in _rows(done).items() if row != right[name] and row[0] != "error"]
        self.expect(not other, f"other verdicts in the disturbed run: {other[:3]}")

    def count_repeats(self, calls: Mapping[Any, int], allowed: int) -> None:
        """Compare the number of calls of each prompt with the number that may be repeated."""
        self.repeats, self.allowed_repeats = sum(calls.values()) - len(calls), allowed
        self.expect(self.repeats <= allowed, f"{self.repeats} calls repeated, {allowed} allowed")


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    return "?"


def _last_lines(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if re.search("error|stopped|INCOMPLETE|exceed", line, re.IGNORECASE)]
    return " | ".join((marked or lines)[-4:])[:700]


class Command:
    """A command that runs, in a process group of its own with its workers and its broker."""

    def __init__(self, trial: Trial, process: Any, output: Path, folder: Path) -> None:
        self.trial, self._process, self._output, self.folder = trial, process, output, folder
        self.pid: int = process.pid
        self._done: Finished | None = None

    def is_running(self) -> bool:
        """Return True until the process has ended."""
        return self._process.poll() is None

    def wait_for(self, condition: Callable[[], object]) -> bool:
        """Wait until the condition holds; return False if the command has ended first."""
        until = time.monotonic() + self.trial.settings.limit
        while not condition():
            if not self.is_running() or time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True

    def wait_for_answers(self, answered: set[int]) -> None:
        """Wait until a random number of calls is answered, but not all."""
        number = self.trial.random.randrange(1, ITEMS - CONCURRENCY)
        self.wait_for(lambda: len(answered) >= number)

    def process(self, kind: str) -> int:
        """Return the number of a process: ``controller``, ``broker`` or ``worker``; 0 if there is none."""
        if kind == "controller":
            return self.pid
        marks = {"broker": "pytest_llmprops.engine.broker.server", "worker": "exec(eval("}
        found = [pid for pid in self.trial.processes() if marks[kind] in _command_line(pid)]
        return self.trial.random.choice(found) if found else 0

    def send(self, number: int, kind: str = "controller") -> bool:
        """Send a signal to a process, or to ``all``; return False if there is no such process."""
        with suppress(ProcessLookupError):
            if kind == "all":
                os.killpg(self.pid, number)
                return True
            if pid := self.process(kind):
                os.kill(pid, number)
                return True
        return False

    def end(self) -> Finished:
        """Wait for the end; a command that exceeds the limit is counted as a hang, and killed."""
        if self._done is None:
            self._done = self._end()
        return self._done

    def _end(self) -> Finished:
        trial = self.trial
        try:
            code = int(self._process.wait(trial.settings.limit))
        except (TimeoutError, subprocess.TimeoutExpired):
            trial.hangs += 1
            trial.problems.append(f"a command still ran after {trial.settings.limit:.0f} s")
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            code = -signal.SIGKILL
        trial.check_orphans()
        output = self._output.read_text(encoding="utf-8", errors="replace")
        for mark in ("Traceback", "INTERNALERROR"):
            if mark in output and not any(text in output for text in LOST_AT_START):
                shown = [line for line in output.splitlines() if line.strip()][-3:]
                trial.problems.append(f"{mark} in the output: {' | '.join(shown)[:400]}")
        return Finished(code, output, self.folder)


def answers(items: int) -> dict[str, tuple[str, str]]:
    """Return status and answer of each item in an undisturbed run."""
    rows = {}
    for n in range(items):
        rows[f"sums/{n:04d}"] = ("correct", str(n + 1)) if n % 5 else ("wrong", str(n))
    return rows


def _rows(done: Finished) -> dict[str, tuple[str, str]]:
    with suppress(OSError, ValueError, KeyError):
        return {name: (row["status"], row["given"]) for name, row in done.verdicts.items()}
    return {}


def _is_complete(done: Finished) -> bool:
    with suppress(OSError, ValueError, KeyError):
        return done.run["complete"] is True
    return False


def same_as_undisturbed(items: int, allows: Callable[[str, str], object] = lambda *_: False) -> Check:
    """Return a check that a record is complete, with the verdicts of an undisturbed run.

    :param allows: whether an item may have another verdict, of this status.
    """
    right = answers(items)

    def check(done: Finished) -> str:
        rows = _rows(done)
        for name, row in rows.items():
            if row != right[name] and not allows(name, row[0]):
                return f"{name} is {row}"
        if len(rows) < items or not _is_complete(done):
            return f"{len(rows)} of {items} verdicts, complete: {_is_complete(done)}"
        return ""

    return check


@contextmanager
def serving(
    plan: Mapping[int, tuple[Fault, bool]] | None = None, delay: float = 0.1
) -> Iterator[FaultServer]:
    """Run a :class:`FaultServer`."""
    server = FaultServer(plan, delay)
    try:
        yield server
    finally:
        server.close()


def against(server: FaultServer, workers: int, *more: str) -> list[str]:
    """Return the options of a run with this server."""
    return [
        "--model", "openai:stub", "--llm-base-url", server.url, "--llm-concurrency", str(CONCURRENCY), "-n",
        str(workers), *more,
    ]  # fmt: skip


def fault_plan(faults: Sequence[Fault]) -> tuple[dict[int, tuple[Fault, bool]], int]:
    """Return a plan, and the number of items. One fault hits every fifth of 40 prompts, once or always.

    Several faults hit every second prompt: each fault one prompt once, and one always.
    """
    times, distance = (4, 5) if len(faults) == 1 else (1, 2)
    hits = [(fault, is_once) for is_once in (True, False) for fault in faults] * times
    return {3 + distance * place: hit for place, hit in enumerate(hits)}, 3 + distance * len(hits)


def server_row(faults: Sequence[Fault], workers: int) -> Row:
    """Return the row of a server with these faults."""
    name = faults[0].name if len(faults) == 1 else f"{faults[0].name} and {len(faults) - 1} more"

    def play(trial: Trial) -> None:
        plan, items = fault_plan(faults)
        trial.runner.sums(items)

        def allows(name: str, status: str, *, is_last: bool = True) -> bool:
            fault, is_once = plan.get(int(name[-4:]), (None, True))
            may_fail = not is_once or not is_last
            return fault is not None and (status in fault.allowed or (may_fail and status == "error"))

        with serving(plan, 0.0) as server:
            options = against(server, workers, "-o", "llm_retries=1", "--llm-timeout", str(SERVER_TIMEOUT))
            first = trial.run(*options, is_forked=True)
            problem = same_as_undisturbed(items, partial(allows, is_last=False))(first)
            trial.expect(not problem, f"{problem}: {_last_lines(first.output)}")
            trial.finish(first, options, same_as_undisturbed(items, allows))
            trial.repeats = server.repeats
            trial.expect(not trial.repeats, f"{trial.repeats} answered calls repeated")

    return Row("server", f"{name}, -n {workers}", play)


def _moment(trial: Trial, command: Command, server: FaultServer, number: int, kind: str) -> None:
    """Wait for a random moment: at a random answer for even numbers, otherwise at a random time of the process."""
    if kind != "controller":
        command.wait_for(lambda: command.process(kind))
    if number % 2 == 0:
        answered = trial.random.randrange(ITEMS)
        command.wait_for(lambda: len(server.answered) >= answered)
        time.sleep(trial.random.uniform(0, 0.05))
    else:
        time.sleep(trial.random.uniform(0, 3.0))


def kill_row(kind: str, workers: int, number: int) -> Row:
    """Return the row of a SIGKILL at a random time. Odd rows continue the record, even ones begin a new one."""

    def play(trial: Trial) -> None:
        with trial.disturbed(workers, resumes=number % 2 == 1) as (command, server):
            _moment(trial, command, server, number, kind)
            command.send(signal.SIGKILL, kind)

    return Row(f"SIGKILL {kind}", f"-n {workers}, {number}", play)


def signal_row(sent: signal.Signals, kind: str, workers: int) -> Row:
    """Return the row of a signal that ends a run in order; SIGQUIT ends it at once."""

    def play(trial: Trial) -> None:
        with trial.disturbed(workers) as (command, server):
            command.wait_for_answers(server.answered)
            was_running, is_late = command.is_running(), len(server.answered) == ITEMS
            command.send(sent, kind)
            if sent == signal.SIGQUIT or not was_running:
                return
            first = command.end()
            # A signal after the last case may come too late to change the status.
            is_right = first.code == 2 or (is_late and first.code == 1 and _is_complete(first))
            trial.expect(is_right, f"status {first.code}: {_last_lines(first.output)}")
            trial.expect("INCOMPLETE" in first.output or _is_complete(first), "no INCOMPLETE line")
            left = list((trial.folder / "tmp").glob("llmprops-*"))
            trial.expect(not left, f"folders left in TMPDIR: {len(left)}")

    return Row("signals", f"{sent.name} to {kind}, -n {workers}", play)


def stop_row(kind: str, workers: int, timeout: int) -> Row:
    """Return the row of a SIGSTOP, after which the run goes on."""

    def play(trial: Trial) -> None:
        with trial.disturbed(workers, "--llm-timeout", str(timeout), resumes=False) as (command, server):
            command.wait_for_answers(server.answered)
            trial.expect(command.send(signal.SIGSTOP, kind), f"no {kind} to stop")
            time.sleep(trial.settings.stop)
            for pid in trial.processes():
                os.kill(pid, signal.SIGCONT)

    return Row("SIGSTOP", f"{kind}, -n {workers}, --llm-timeout {timeout}", play)


def view_row(number: int) -> Row:
    """Return the row of a SIGKILL of ``llmprops view`` while it follows a run and saves review marks."""

    def play(trial: Trial) -> None:
        from pytest_llmprops.reports.site.pages import id_of

        runs = trial.folder / "runs"
        trial.runner.sums(ITEMS)
        old, live = runs / "old", runs / "live"
        with serving() as server:
            trial.run(*against(server, 0, "--llm-concurrency", "64"), folder=old, is_forked=True)
            command = trial.start(*against(server, 0, "--llm-cache", "off"), folder=live)
            page = _Page(trial, runs)
            saved: list[str] = []

            def mark() -> None:
                # http.client raises its own errors when the page is killed.
                with suppress(Exception):
                    report = page.report(id_of(old))
                    ask(f"{report}report.html")
                    for n in range(ITEMS):
                        saved.extend(page.mark(report, n))
                        time.sleep(0.005)

            thread = threading.Thread(target=mark)
            thread.start()
            time.sleep(trial.random.uniform(0, 2.0))
            page.kill()
            thread.join(60)
            trial.expect(not thread.is_alive(), "a request to the killed page did not end")
            done = command.end()
            trial.finish(done, against(server, 0), same_as_undisturbed(ITEMS))
            again = _Page(trial, runs)
            kept = {row["id"] for row in ask(f"{again.report(id_of(old))}reviews").json}
            trial.expect(kept >= set(saved), f"{len(set(saved) - kept)} of {len(saved)} saved marks are lost")
            again.kill(signal.SIGTERM)
            trial.check_orphans()

    return Row("SIGKILL view", f"{number}", play)


class _Page:
    """``llmprops view`` in a process."""

    def __init__(self, trial: Trial, runs: Path) -> None:
        trial.commands += 1
        self._output = trial.folder / f"output-{trial.commands}.txt"
        with open(self._output, "wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest_llmprops.cli.main", "view", str(runs), "--no-browser"],
                cwd=trial.folder, env=trial.runner.environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        until = time.monotonic() + 60
        while not (found := re.search(r"http://\S+/", self._output.read_text())):
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError(f"llmprops view did not start: {self._output.read_text()[-500:]}")
            time.sleep(0.02)
        self.address = found[0]
        self._origin = "/".join(self.address.split("/")[:3])

    def report(self, run: str) -> str:
        """Return the address of a report."""
        return f"{self.address}reports/{run}/run/"

    def mark(self, report: str, n: int) -> list[str]:
        """Save a mark; return its item, or nothing if it was refused."""
        place = {
            "run": "old",
            "model": "stub",
            "benchmark": "sums",
            "source": "builtin",
            "id": f"sums/{n:04d}",
        }
        line = {**place, "judged_wrongly": True, "note": f"note {n}", "sample": 0}
        answer = ask(f"{report}reviews", "POST", line, Origin=self._origin)
        return [place["id"]] if answer.status == 200 else []

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the process."""
        self._process.send_signal(number)
        self._process.wait(60)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a tmpfs of ``size`` kB."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "llmprops-faults", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skipped(f"no right to mount: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def disk_row(place: str, size: int, workers: int) -> Row:
    """Return the row of a disk that is too small for the store, the record or both; then it gets larger."""

    def play(trial: Trial) -> None:
        with small_disk(trial.folder / "disk", size) as disk:
            more = ["--llm-store", str(disk / "store.sqlite")] if place != "record" else []
            folder = disk / "record" if place != "store" else None
            # If there is no place for replies, those that arrive until the record stops the run are lost, too.
            allowed = CONCURRENCY * (2 if place == "store and record" else 1)
            settings: Any = {"items": 200, "folder": folder, "allowed": allowed, "is_forked": (True, True)}
            with trial.disturbed(workers, *more, **settings) as (command, _):
                command.end()
                subprocess.run(["mount", "-o", "remount,size=65536k", str(disk)], check=True)

    return Row("full disk", f"{size} kB for the {place}, -n {workers}", play)


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static int (*next)(clockid_t, struct timespec *);
static volatile long *step;
__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FAULT_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) step = found;
    close(file);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!next) next = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = next(clock, now);
    if (!failed && step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *step;
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec t;
    if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
    now->tv_sec = t.tv_sec, now->tv_usec = t.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
"""


class Clock:
    """A clock of processes, which can be set while they run."""

    def __init__(self, folder: Path) -> None:
        compiler = GCC.find()
        if compiler is None:
            raise Skipped(GCC.reason)
        library, source = folder / "clock.so", folder / "clock.c"
        source.write_text(CLOCK)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        self._file = folder / "clock"
        self._file.write_bytes(bytes(8))
        self.env = {"LD_PRELOAD": str(library), "FAULT_CLOCK": str(self._file)}
        self.set(10**6)
        code = [sys.executable, "-c", "import time; print(time.time())"]
        shown = float(subprocess.run(code, env=os.environ | self.env, capture_output=True, check=True).stdout)
        if abs(shown - time.time() - 10**6) > 60:
            raise Skipped("the preloaded library does not change the clock")
        self.set(0)

    def set(self, step: int) -> None:
        """Let the clock show ``step`` seconds more than that of the machine."""
        with open(self._file, "r+b") as file:
            file.write(step.to_bytes(8, sys.byteorder, signed=True))


def clock_row(step: int, workers: int) -> Row:
    """Return the row of a clock that is set while calls are in flight; 0 for one that jumps to and fro."""

    def play(trial: Trial) -> None:
        clock = Clock(trial.folder)
        with trial.disturbed(workers, env=clock.env, allowed=0, resumes=False, is_forked=(False, False)) as (
            command,
            server,
        ):
            for number in range(1 if step else 6):
                command.wait_for(lambda number=number: len(server.answered) >= 8 * (number + 1))  # type: ignore[misc]
                clock.set(step or (-1) ** number * 3600)
        trial.expect(trial.commands == 1, "the run needed another command")

    return Row("clock", f"{f'{step:+,} s' if step else '+-1 hour, six times'}, -n {workers}", play)


def postgres_row(outage: float, way: str, workers: int) -> Row:
    """Return the row of a database that crashes or is restarted while it is the store."""

    def play(trial: Trial) -> None:
        program = POSTGRES.find()
        if program is None or importlib.util.find_spec("psycopg") is None:
            raise Skipped(f"{POSTGRES.reason}; and the extra postgres")
        folder = Path(tempfile.mkdtemp(prefix="llmprops-pg-", dir="/tmp"))
        database = PostgresServer(folder, program.parent, {})
        try:
            database.start()
            store = ["--llm-store", database.url()]
            with trial.disturbed(workers, *store, is_forked=(False, False)) as (command, server):
                command.wait_for_answers(server.answered)
                assert database.process is not None
                database.process.send_signal(signal.SIGQUIT if way == "crash" else signal.SIGINT)
                database.process.wait(60)
                time.sleep(outage)
                database.start()
        finally:
            database.kill()
            shutil.rmtree(folder, ignore_errors=True)

    return Row("PostgreSQL", f"{way}, {outage:g} s, -n {workers}", play)


#: stores each reply at once, soon gives up a batch that the provider does not list, and names its process
FAST_BATCHES = """
import os, pathlib
from pytest_llmprops.engine.batch import batches
batches.CHUNK, batches.LIST_DELAY, batches.QUIET_SECONDS, batches.POLL_SECONDS = 1, 0.5, 0.2, 0.2
pathlib.Path("pid").write_text(str(os.getpid()))
"""
KEYS = {"OPENAI_API_KEY": "sk-test-000000", "ANTHROPIC_API_KEY": "sk-test-000000"}
PLACES = ("before create", "after create", "in progress", "half collected")


def batch_row(kind: type[BatchServer], place: str, number: int, expired: float) -> Row:
    """Return the row of a SIGKILL at a place of a batch, or twice at random times; some lines may expire."""
    items = 30

    def play(trial: Trial) -> None:
        trial.runner.sums(items)
        trial.runner.write("conftest.py", FAST_BATCHES)
        with running_batch_server(kind, expired=expired, polls=1, victim=trial.folder / "pid") as server:
            options = ["--model", server.spec, "--llm-base-url", server.url, "--llm-engine", "batch"]
            for _ in range(1 if place else 2):
                server.kill_at = place
                command = trial.start(*options, env=KEYS)
                if not place:
                    time.sleep(trial.random.uniform(0, 4.0))
                    command.send(signal.SIGKILL)
                first = command.end()
                trial.check_verdicts(first, items)
            server.kill_at = ""
            trial.finish(first, options, same_as_undisturbed(items), env=KEYS)
            trial.paid_twice = sum(count - 1 for count in server.batched.values())
            trial.expect(not trial.paid_twice, f"{trial.paid_twice} lines paid twice")
            # The first call of a run is no line of a batch.
            trial.count_repeats(server.paid, 1 if place else 2)

    provider = "Anthropic" if kind is MessageBatchServer else "OpenAI"
    name = f"{provider}, {place or f'two kills, {number}'}{', a third expires' if expired else ''}"
    return Row("SIGKILL batch submitter", name, play)


_RAY_LOCK = threading.Lock()


@cache
def _machines() -> RayMachines:
    """Start two machines of a Ray cluster when the first row needs them; they end with this process."""
    if importlib.util.find_spec("ray") is None:
        raise Skipped("Ray is not installed")
    machines = RayMachines(Path(tempfile.mkdtemp(prefix="faults-ray-")) / "ray.log")
    atexit.register(machines.close)
    machines.have(2)
    return machines


def replica_row(number: int) -> Row:
    """Return the row of a SIGKILL of a replica on one of two machines of a Ray cluster."""

    def play(trial: Trial) -> None:
        with _RAY_LOCK:
            machines = _machines()
            machines.log.unlink(missing_ok=True)
            trial.runner.sums(ITEMS)
            trial.runner.write("conftest.py", ADDER)
            env = {
                "RAY_ADDRESS": machines.address,
                "ADDER_LOG": str(machines.log),
                "TMPDIR": tempfile.gettempdir(),
            }
            options = ["--model", "adder?delay=0.05&replicas=2", "--llm-engine", "ray"]
            command = trial.start(*options, env=env)
            answered = trial.random.randrange(1, ITEMS - 4)
            command.wait_for(lambda: len(machines.asked) >= answered)
            replicas = {int(line.split()[0]) for line in machines.log.read_text().splitlines()}
            with suppress(ProcessLookupError):
                os.kill(trial.random.choice(sorted(replicas)), signal.SIGKILL)
            first = command.end()
            trial.check_verdicts(first, ITEMS)
            trial.finish(first, options, same_as_undisturbed(ITEMS), env=env, is_forked=False)
            # Two replicas have one batch of four each.
            trial.count_repeats(Counter(machines.asked), 8)

    return Row("SIGKILL Ray replica", f"{number}", play)


def table(times: int) -> list[Row]:
    """Return all rows; ``times`` is the number of random moments of each kind of process."""
    rows = [server_row([fault], workers) for fault in server_faults() for workers in (0, 2)]
    providers = (BatchServer, MessageBatchServer)
    for number in range(times):
        rows += [kill_row("controller", workers, number) for workers in (0, 2)]
        rows += [kill_row("worker", 2, number), kill_row("broker", 2, number), view_row(number)]
        rows += [batch_row(providers[number // 2 % 2], "", number, 0.3 * (number % 2)), replica_row(number)]
    rows += [batch_row(*case, 0, expired) for case in product(providers, PLACES) for expired in (0.0, 0.3)]
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    rows += [signal_row(*case) for case in product(signals, ("controller", "all"), (0, 2))]
    for timeout in (30, 120):
        rows += [stop_row("controller", 0, timeout)]
        rows += [stop_row(kind, 2, timeout) for kind in ("controller", "broker", "worker", "all")]
    places, steps = ("store", "record", "store and record"), (3600, 86_400, 10**9)
    rows += [disk_row(*case) for case in product(places, (16, 64, 128, 256, 512), (0, 2))]
    rows += [clock_row(*case) for case in product((*steps, *(-step for step in steps), 0), (0, 2))]
    rows += [postgres_row(*case) for case in product((0.5, 3.0, 8.0, 20.0), ("crash", "restart"), (0, 2))]
    return rows


def run_row(row: Row, folder: Path, settings: Settings, seed: int) -> Trial:
    """Run one row in a new folder, which is deleted unless the row does not hold."""
    folder.mkdir()
    trial = Trial(folder, settings, random.Random(f"{seed} {row.label}"))
    begun = time.monotonic()
    try:
        row.play(trial)
    except Skipped as why:
        trial.skipped = str(why)
    except BaseException as error:
        trial.problems.append(f"{type(error).__name__}: {error}"[:400] + traceback.format_exc()[-600:])
        trial.check_orphans()
        if not isinstance(error, Exception) and type(error).__module__ == "builtins":
            raise
    trial.seconds = time.monotonic() - begun
    if not trial.problems:
        shutil.rmtree(folder, ignore_errors=True)
    return trial


def markdown(groups: Mapping[str, Sequence[Trial]]) -> str:
    """Return the table of the groups of rows."""
    heads = (
        "fault",
        "rows held",
        "commands",
        "calls repeated (allowed)",
        "paid twice",
        "left behind",
        "hangs",
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, trials in groups.items():
        ran = [trial for trial in trials if not trial.skipped]
        held = sum(not trial.problems for trial in ran)
        repeats = f"{sum(t.repeats for t in ran):,} ({sum(t.allowed_repeats for t in ran):,})"
        counts = [sum(getattr(t, field) for t in ran) for field in ("paid_twice", "orphans", "hangs")]
        commands = f"{sum(t.commands for t in ran):,}"
        cells = [name, f"{held} of {len(ran)}", commands, repeats, *map(str, counts)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def run_table(
    rows: Sequence[Row], settings: Settings, *, jobs: int, seconds: float, seed: int, root: Path
) -> bool:
    """Run the rows in a random order, print those that do not hold and the table; return True if all hold."""
    groups: dict[str, list[Trial]] = {row.group: [] for row in rows}
    order = list(enumerate(rows))
    random.Random(seed).shuffle(order)
    until = time.monotonic() + seconds

    def one(numbered: tuple[int, Row]) -> None:
        number, row = numbered
        if time.monotonic() > until:
            return
        trial = run_row(row, root / f"row-{number}", settings, seed)
        groups[row.group].append(trial)
        mark = f"SKIPPED: {trial.skipped}" if trial.skipped else "; ".join(trial.problems) and "DOES NOT HOLD"
        lines = [f"{row.label} ({trial.seconds:.0f} s) {mark or 'holds'}", *trial.problems]
        print("\n    ".join(lines), flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, order))
    print(f"\n{markdown(groups)}")
    trials = [trial for group in groups.values() for trial in group]
    if len(trials) < len(rows):
        print(f"\n{len(rows) - len(trials)} rows were not run within {seconds:.0f} s")
    return not any(trial.problems for trial in trials)


def main() -> int:
    """Run the table; return 1 if a row does not hold."""
    options = parsed(
        __doc__,
        rows=([""], "run the rows whose names have one of these texts"),
        times=(20, "number of random moments of each kind of process"),
        seconds=(3600.0, "begin no row after this many seconds"),
        limit=(180.0, "seconds that one command may take"),
        stop=(90.0, "seconds of a SIGSTOP"),
        jobs=(4, "number of rows at the same time"),
        seed=(1, "seed of the random moments"),
        list=(0, "1: list the rows and run nothing"),
    )
    # A shell starts commands in the background with SIGINT ignored, which the runs would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    rows = [row for row in table(options.times) if any(text in row.label for text in options.rows)]
    if options.list:
        print("\n".join(row.label for row in rows))
        return 0
    settings = Settings(options.limit, options.stop)
    is_held = run_table(
        rows, settings, jobs=options.jobs, seconds=options.seconds, seed=options.seed, root=root
    )
    if not is_held:
        print(f"the folders of the rows that do not hold are kept: {root}")
        return 1
    shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
