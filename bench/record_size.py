"""Measure the size of a run record of 10,000 items and the time to write it: ``python -m bench.record_size``.

Built-in items of three benchmarks are judged once, with scripted replies; then 10,000 records with their requests are
written. On the same machine, a record of schema 1 had 12.85 MB and took 0.30 s to write. A record of schema 2, which
has evidence, had 13.80 MB and took 0.28 to 0.32 s.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

from pytest_llmprops.benchmark_registry import find_benchmark
from pytest_llmprops.core.benchmark_checks import loaded
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Reply, Request, Usage
from pytest_llmprops.core.run_metadata import ModelMetadata
from pytest_llmprops.data.files import DataFolder, builtin_data
from pytest_llmprops.engine.evaluator import Case, Outcome, evaluate
from pytest_llmprops.engine.request_log import RequestLog
from pytest_llmprops.runs.record import RunRecord, first_facts
from pytest_llmprops.runs.summary import summary_rows

BENCHMARKS = ("htest", "homophones", "dtails")
FILES = ("verdicts.jsonl", "requests.jsonl", "run.json")
#: number of items judged per benchmark; the records repeat them with other ids
JUDGED = 200


def outcomes(benchmark_name: str) -> list[Outcome]:
    """Judge the first items of a benchmark, each with a reply that names the expected answer."""
    benchmark = find_benchmark(benchmark_name)
    protocol = resolve(benchmark_name, benchmark.protocols, "quick", {}, 0)
    files = DataFolder(builtin_data(), "builtin")
    part = loaded(benchmark, files)
    part = benchmark.prepared(part, files, protocol.settings)

    async def judge(case: Case, text: str) -> Outcome:
        async def ask(model: str, role: str, request: Request) -> Reply:
            return Reply(text, key="0" * 64, served_model=model, usage=Usage(200, 20), seconds=0.5)

        return await evaluate(case, ask)

    async def judge_all() -> list[Outcome]:
        items = [item for item in part.items if benchmark.kinds_of(item.task) >= {"chat"}]
        cases = [
            Case(benchmark, item, part.context, protocol, "model", kinds=frozenset({"chat"}))
            for item in items[:JUDGED]
        ]
        first = [await judge(case, "?") for case in cases]
        expected = [outcome.verdict.expected if outcome.verdict else "" for outcome in first]
        return [await judge(case, f"So: ```{text}```") for case, text in zip(cases, expected, strict=True)]

    return asyncio.run(judge_all())


def write(folder: Path, judged: list[Outcome], items: int) -> float:
    """Write a run of ``items`` items into ``folder``; return the seconds it takes."""
    numbered = []
    for number, outcome in enumerate(islice(cycle(judged), items)):
        item = replace(outcome.case.item, id=f"{outcome.case.item.id[:80]}.{number:05d}")
        calls = [
            replace(call, reply=call.reply and replace(call.reply, key=f"{number:032x}{index:032x}"))
            for index, call in enumerate(outcome.calls)
        ]
        numbered.append(replace(outcome, case=replace(outcome.case, item=item), calls=calls))
    begin = time.perf_counter()
    run = RunRecord(folder, first_facts(folder, models={"model": ModelMetadata("model")}))
    log = RequestLog(folder)
    for outcome in numbered:
        for call in outcome.calls:
            if call.reply is not None:
                log.add(call.role, call.request, call.reply)
        run.add(outcome.record())
    log.close()
    run.finish(replace(run.facts, complete=True, expected=items, summary=summary_rows(run.records)))
    return time.perf_counter() - begin


def main() -> None:
    """Print the size and the time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    judged = [outcome for name in BENCHMARKS for outcome in outcomes(name)]
    seconds = []
    for _ in range(arguments.runs):
        with tempfile.TemporaryDirectory() as name:
            seconds.append(write(Path(name), judged, arguments.items))
            sizes = {file: (Path(name) / file).stat().st_size for file in FILES}
    print(f"{arguments.items} items: {sum(sizes.values()) / 1e6:.2f} MB", end=" ")
    print(f"({', '.join(f'{file} {size / 1e6:.2f}' for file, size in sizes.items())})")
    print(f"written in {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")


if __name__ == "__main__":
    main()
