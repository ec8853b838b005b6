"""Print the engine's performance figures: ``make bench``, or ``python -m bench [NAME ...]``.

Most parts send 1,000 distinct H-TEST prompts to the stub server, which has a delay of 200 ms, with a concurrency of 64.
They measure whole processes from start to exit. Each figure is the median of ``--runs`` runs; runs to be compared
alternate.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.process import PLAIN, ROOT, TRIVIAL, Bench, Measured, measure
from bench.readers import fuzz, know_nothing, score
from bench.stub_server import running_stub

#: seconds of 1,000 calls of 200 ms, 64 at a time
IDEAL = 1000 / 64 * 0.2


def speed(bench: Bench) -> None:
    """Measure a thousand calls, in one process and with eight workers."""
    for workers, limit in (("0", 5.5), ("8", 9.0)):
        runs, flights = [], []
        for _ in range(bench.runs):
            with running_stub(delay=0.2) as stub:
                runs.append(bench.suite(stub, "-n", workers))
                stats = stub.stats()
            assert stats["answered"] == 1000, (stats, runs[-1].output[-2000:])
            flights.append(stats["peak_in_flight"])
        name = f"1,000 calls, -n {workers}"
        bench.median(f"{name}: wall", [one.wall for one in runs], limit)
        bench.median(f"{name}: CPU of all processes", [one.cpu for one in runs])
        is_full = all(62 <= f <= 66 for f in flights)
        bench.line(f"{name}: peak in flight", f"{min(flights)}-{max(flights)}", "64 +- 2", is_full)
        most, memory = 250 if workers == "0" else None, [one.peak_mb for one in runs]
        bench.median(f"{name}: memory, RSS of all processes", memory, most, " MB")


def mission(bench: Bench) -> None:
    """Measure the command of the README on all suites, with hypothesis, Allure's plugin and pytest-xdist loaded.

    The CPU seconds of all processes count, too: on a machine with other load, only their ratios are meaningful.
    """
    single = bench.folder / "test_single.py"
    single.write_text("def test_single():\n    pass\n", encoding="utf-8")
    start = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    place = ["--llm-concurrency", "64", "--llm-limit", "100", "-k", "htest and not letter_geometry"]
    alone = ["-c", os.devnull, "-p", "no:llmprops", str(single)]
    every = {
        "pytest --collect-only, one test": ["--collect-only", *alone],
        "pytest suites/ --collect-only": ["--collect-only", "suites/", "--model", "fake:echo"],
        "pytest suites/test_htest.py, 1,000 calls, -n 0": ["suites/test_htest.py", "-n", "0", *place],
        "pytest suites/ -n 8, the same calls": ["suites/", "-n", "8", *place],
    }
    done: dict[str, list[Measured]] = {name: [] for name in every}
    with running_stub(delay=0.2) as stub:
        for _ in range(bench.runs):
            for name, command in every.items():
                if "--collect-only" not in command:
                    folders = ["--llm-store", str(bench.fresh("store")), "--llm-run", str(bench.fresh("run"))]
                    command = [*command, "--model", "openai:stub", "--llm-base-url", stub.url, *folders]
                done[name].append(measure([*start, *command], cwd=ROOT, env=bench.env, memory=False))
        assert stub.stats()["answered"] == 2000 * bench.runs, done[name][-1].output[-2000:]
    walls = [statistics.median(one.wall for one in runs) for runs in done.values()]
    cpus = [statistics.median(one.cpu for one in runs) for runs in done.values()]
    for name, wall, cpu in zip(done, walls, cpus, strict=True):
        bench.line(f"{name}: wall, CPU", f"{wall:.2f} s, {cpu:.2f} s")
    bench.median("collection of all suites / pytest: CPU", [cpus[1] / cpus[0]], 1.3, "")
    bench.median("1,000 calls, -n 0 / ideal: wall", [walls[2] / IDEAL], 1.35, "")
    bench.median("suites/ -n 8 / one suite, -n 0: wall", [walls[3] / walls[2]], 1.6, "")
    bench.median("suites/ -n 8 / one suite, -n 0: CPU", [cpus[3] / cpus[2]], unit="")


def stored(bench: Bench) -> None:
    """Compare a run whose replies are all stored with plain pytest on 1,000 trivial cases."""
    trivial = bench.folder / "test_trivial.py"
    trivial.write_text(TRIVIAL.format(n=1000), encoding="utf-8")
    off = ["-p", "no:llmprops", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *PLAIN, *off, "-q", str(trivial)]
    store = bench.fresh("store")
    ours, theirs = [], []
    with running_stub(delay=0.0) as stub:
        bench.suite(stub, store=store)
        for _ in range(max(3, bench.runs)):
            ours.append(bench.suite(stub, store=store).wall)
            theirs.append(measure(command, cwd=bench.folder, env=bench.env).wall)
        assert stub.stats()["requests"] == 1000
    bench.median("1,000 stored replies: wall", ours)
    bench.median("plain pytest, 1,000 trivial cases: wall", theirs)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    bench.median("1,000 stored replies / plain pytest", ratios, 1.5, "")


def one(bench: Bench) -> None:
    """Measure a run with one item."""
    item = "suites/test_htest.py::test_htest[stub-htest/rhyme/0201]"
    walls = []
    with running_stub(delay=0.2) as stub:
        for _ in range(max(5, bench.runs)):
            command = bench.command(stub, "-k", "rhyme")
            command[command.index("suites/test_htest.py")] = item
            done = measure(command, cwd=ROOT, env=bench.env, memory=False)
            assert "1 passed" in done.output or "1 failed" in done.output, done.output
            walls.append(done.wall)
    bench.median("one item: wall", walls, 1.0)


PARTS: dict[str, Callable[[Bench], None]] = {
    "mission": mission,
    "speed": speed,
    "stored": stored,
    "one": one,
    "readers": fuzz,
    "labelled": score,
    "know_nothing": know_nothing,
}


def main() -> None:
    """Run the named parts, or all parts."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="NAME", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}, {options.runs} runs"
    )
    with tempfile.TemporaryDirectory(prefix="llmprops-bench-") as folder:
        bench = Bench(options.runs, Path(folder))
        for name in options.parts or PARTS:
            PARTS[name](bench)


if __name__ == "__main__":
    main()
