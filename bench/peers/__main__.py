"""Compare this package with other evaluation tools on the same prompts: ``make bench-peers``.

Each tool sends every prompt once to a stub server that answers after 200 ms. Whole processes are measured, from start
to exit. A run counts only if the server received exactly these prompts, and if the tool's number of replies and of
correct ones are right.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.peers.tools import ROOT, TOOLS, Outcome, Prompts, Tool
from bench.process import Measured, measure
from bench.stub_server import running_stub
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.replies import read_requests

DELAY = 0.2
TASKS = 10
COLUMNS = ("tool", "version", "prompts", "in flight", "wall", "× ideal", "CPU", "memory")


def write_prompts(count: int, folder: Path, env: Mapping[str, str]) -> tuple[Prompts, Outcome]:
    """Generate ``count`` H-TEST items, and the prompts that the suite sends for them.

    :return: the prompts, and the counts that every tool must report with the stub server's answers.
    """
    items, run = folder / "items", folder / "run"
    generate = [
        sys.executable,
        "-m",
        "pytest_llmprops.cli.main",
        "lab",
        "htest",
        "generate",
        "--out",
        str(items),
    ]
    command = [*generate, "--n", str(count // TASKS)]
    subprocess.run(command, check=True, cwd=ROOT, env=dict(env), stdout=subprocess.DEVNULL)
    prompts = Prompts(items, folder / "prompts.jsonl")
    with running_stub(delay=0) as stub:
        done = measure(TOOLS[0].command(prompts, stub.url, 64, folder), cwd=ROOT, env=env)
    verdicts, requests = read_run(run).records, read_requests(run)
    if len(verdicts) != count:
        raise SystemExit(f"{len(verdicts)} verdicts instead of {count}:\n{done.output[-2000:]}")
    with prompts.file.open("w", encoding="utf-8") as file:
        for verdict in verdicts:
            [[_, prompt]] = requests[verdict.requests[0]].request["messages"]
            file.write(json.dumps({"prompt": prompt, "target": verdict.expected}) + "\n")
    return prompts, Outcome(count, sum(verdict.status == "correct" for verdict in verdicts))


def run_once(
    tool: Tool, prompts: Prompts, expected: Outcome, in_flight: int, folder: Path, env: Mapping[str, str]
) -> Measured:
    """Measure one run of a tool.

    :raises SystemExit: if the server did not receive each prompt once, or the tool's counts are not the expected ones.
    """
    folder.mkdir()
    with running_stub(delay=DELAY) as stub:
        command = tool.command(prompts, stub.url, in_flight, folder)
        done = measure(command, cwd=ROOT, env={**env, **tool.variables(folder)})
        stats = stub.stats(prompts=True)
    log = f"\n{done.output[-2000:]}"
    if stats["prompts"] != {row["prompt"]: 1 for row in prompts.rows()}:
        raise SystemExit(
            f"{tool.name}: the server received {stats['requests']} calls, not each prompt once{log}"
        )
    if (outcome := tool.outcome(folder)) != expected:
        raise SystemExit(f"{tool.name}: {outcome} instead of {expected}{log}")
    if stats["peak_in_flight"] > in_flight:
        raise SystemExit(f"{tool.name}: {stats['peak_in_flight']} calls were in flight, not {in_flight}")
    return done


def table_row(
    name: str, version: str, count: int, in_flight: int, runs: Sequence[Measured]
) -> tuple[str, ...]:
    """Return the cells of :data:`COLUMNS`: medians of the runs, the wall time with its range."""
    walls = [run.wall for run in runs]
    wall = statistics.median(walls)
    return (
        name,
        version,
        f"{count:,}",
        str(in_flight),
        f"{wall:.1f} s ({min(walls):.1f}-{max(walls):.1f})",
        f"{wall / (count / in_flight * DELAY):.2f}",
        f"{statistics.median(run.cpu for run in runs):.1f} s",
        f"{statistics.median(run.peak_mb for run in runs):,.0f} MB",
    )


def print_row(cells: Sequence[str]) -> None:
    """Print one row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the table; the tools take turns."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--prompts", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", help="tools whose name contains this text")
    options = parser.parse_args()
    tools = [tool for tool in TOOLS if (options.only or "") in tool.name]
    own = ("OPENAI_", "LLMPROPS_", "PYTEST_", "PYTHON", "PROMPTFOO_", "INSPECT_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    with tempfile.TemporaryDirectory(prefix="llmprops-peers-") as name:
        folder = Path(name)
        env |= {"XDG_CACHE_HOME": name, "XDG_DATA_HOME": name, "CI": "1"}
        versions = {tool: tool.version(env) for tool in tools}
        few, expected = write_prompts(2 * TASKS, folder / "few", env)
        for tool in tools:  # the first run compiles the modules
            run_once(tool, few, expected, 1, folder / f"first-{tools.index(tool)}", env)
        print_row(COLUMNS)
        print_row(["---"] * len(COLUMNS))
        for count in options.prompts:
            prompts, expected = write_prompts(count, folder / f"prompts-{count}", env)
            for in_flight in options.in_flight:
                runs: dict[Tool, list[Measured]] = {tool: [] for tool in tools}
                for round_ in range(options.runs):
                    for place, tool in enumerate(tools):
                        run_folder = folder / f"{count}-{in_flight}-{round_}-{place}"
                        runs[tool].append(run_once(tool, prompts, expected, in_flight, run_folder, env))
                        shutil.rmtree(run_folder)
                for tool, measured in runs.items():
                    print_row(table_row(tool.name, versions[tool], count, in_flight, measured))
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
