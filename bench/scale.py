"""Measure what a case costs as runs grow, or with ``--eras`` ERAS with jieba: ``python -m bench.scale``.

Each run has one benchmark of N items, one call each, and a fake model that answers at once, so that the time is that of
pytest and this plugin. Prints the CPU time per case of all processes, their memory, and both per added case.

``--eras 203944`` is the paper's size. It compares jieba alone on the sentences of all pairs with whole pytest
processes: ``suites/test_eras.py`` with one case per paradigm, with one case per pair, and plain pytest on as many
trivial cases. The runs alternate, ``--runs`` times, because only ratios from the same session are comparable. Prints
medians and ranges.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.process import PLAIN, ROOT, TRIVIAL, Measured, environment, measure, parsed, spread

SUITE = """
import pytest
from pytest_llmprops import Benchmark, Chat, Item, Verdict

class Numbers(Benchmark):
    name = "numbers"

    def load(self, files):
        return [Item(f"numbers/{{n:07d}}", "copy", "en", cluster=f"c{{n // 100}}") for n in range({cases})]

    async def evaluate(self, item, context, ask, protocol):
        reply = await ask(Chat.user(f"Write the number {{item.id}}.", temperature=0.0, max_tokens=8))
        return Verdict.check(reply.text == "A", expected="A", given=reply.text)

@pytest.mark.llmprops(benchmark=Numbers)
def test_numbers(verdict):
    assert verdict
"""
ALONE = """
import json, logging, sys, jieba
jieba.setLogLevel(logging.ERROR)
words = 0
for line in open(sys.argv[1], encoding="utf-8"):
    row = json.loads(line)
    words += len(list(jieba.cut(row["test"]))) + len(list(jieba.cut(row["control"])))
print(words)
"""
PYTEST = ["-m", "pytest", *PLAIN, "-p", "no:cacheprovider", "-q"]


class Scale:
    """Processes in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._runs = folder, 0
        self.env = environment(folder)
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    def python(self, *command: str, codes: Sequence[int] = (0,)) -> Measured:
        """Run Python with these arguments.

        :param codes: exit statuses that are no error.
        """
        done = measure([sys.executable, *command], cwd=self.folder, env=self.env)
        assert done.code in codes, done.output[-2000:]
        return done

    def suite(self, name: str, verdicts: int, *options: str, codes: Sequence[int] = (0,)) -> Measured:
        """Run a suite once, and check that every verdict is recorded."""
        self._runs += 1
        run, store = (self.folder / f"{kind}-{self._runs}" for kind in ("run", "store"))
        place = ["--llm-run", str(run), "--llm-store", str(store)]
        done = self.python(*PYTEST, name, *place, *options, codes=codes)
        facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
        assert facts["complete"], done.output[-2000:]
        with open(run / "verdicts.jsonl", encoding="utf-8") as lines:
            assert sum(1 for _ in lines) == verdicts
        return done


def growing(scale: Scale, options: argparse.Namespace) -> None:
    """Print one line per run of generated benchmarks."""
    for workers in options.workers:
        before: tuple[int, Measured] | None = None
        for cases in options.cases:
            (scale.folder / "test_numbers.py").write_text(SUITE.format(cases=cases), encoding="utf-8")
            model = ["--model", "fake:constant?text=A", "-n", str(workers)]
            done = scale.suite("test_numbers.py", cases, *model, *options.option.split())
            line = f"{cases:>9,} cases, -n {workers}: wall {done.wall:6.1f} s, CPU {done.cpu:6.1f} s,"
            line += f" {done.peak_mb:6.0f} MB"
            if before is not None:
                added, less = cases - before[0], before[1]
                wall, cpu = ((a - b) / added * 1e6 for a, b in ((done.wall, less.wall), (done.cpu, less.cpu)))
                memory = (done.peak_mb - less.peak_mb) / added * 1e3
                line += f"; each added case: {wall:.0f} us wall, {cpu:.0f} us CPU, {memory:.2f} kB"
            before = (cases, done)
            print(line, flush=True)


def eras(scale: Scale, options: argparse.Namespace) -> None:
    """Print one line per process on a generated set of ERAS."""
    data, pairs = scale.folder / "set", options.eras
    generate = ["-m", "pytest_llmprops.cli.main", "lab", "eras", "generate", "--total", str(pairs)]
    scale.python(*generate, "--out", str(data))
    (scale.folder / "test_trivial.py").write_text(TRIVIAL.format(n=pairs), encoding="utf-8")
    suite = (ROOT / "suites" / "test_eras.py").read_text(encoding="utf-8")
    (scale.folder / "test_eras.py").write_text(suite, encoding="utf-8")

    def cases(kind: str, workers: str = "0") -> Measured:
        model = ["--model", "jieba", "--llm-data", str(data), "--llm-set", f"eras.case={kind}"]
        return scale.suite("test_eras.py", pairs, *model, "-n", workers, "--tb=no", codes=(0, 1))

    processes = {
        "jieba alone": partial(scale.python, "-c", ALONE, str(data / "eras" / "pairs.jsonl")),
        "paradigm cases": partial(cases, "paradigm"),
        "paradigm cases, -n 2": partial(cases, "paradigm", "2"),
        "pair cases": partial(cases, "pair"),
        "plain pytest": partial(scale.python, *PYTEST, "test_trivial.py", "-p", "no:llmprops"),
    }
    results: dict[str, list[Measured]] = {name: [] for name in processes if name not in options.skip}
    for _ in range(options.runs):
        for name, done in results.items():
            done.append(processes[name]())
            print(f"  {name}: {done[-1].wall:.1f} s", file=sys.stderr, flush=True)
    print(f"{pairs:,} pairs, load {os.getloadavg()[0]:.1f}, {options.runs} runs")
    for name, done in results.items():
        ratios = [a.wall / b.wall for a, b in zip(done, results["jieba alone"], strict=True)]
        columns = (
            spread([d.wall for d in done], " s"),
            spread([d.peak_mb / 1000 for d in done], " GB"),
            spread(ratios, " x jieba"),
        )
        print(f"{name:<22} " + "  ".join(f"{column:>26}" for column in columns), flush=True)


if __name__ == "__main__":
    chosen = parsed(
        __doc__,
        cases=[50_000, 100_000],
        workers=[0, 2],
        option=("", "options of the runs, such as --llm-cache=off"),
        eras=(0, "measure ERAS with so many pairs instead"),
        runs=3,
        skip=([""], "processes of ERAS to leave out, such as 'pair cases'"),
    )
    with tempfile.TemporaryDirectory(prefix="llmprops-scale-") as temporary:
        (eras if chosen.eras else growing)(Scale(Path(temporary)), chosen)
