"""Measure what a case costs as runs grow: ``python -m bench.scale [--cases N ...] [--workers 0 2]``.

Each run has one benchmark of N items, one call each, and a fake model that answers at once, so that the time is that of
pytest and this plugin. Prints the CPU time per case of all processes, their memory, and both per added case.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bench.process import PLAIN, Measured, environment, measure

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


class Scale:
    """Runs of generated benchmarks in a folder."""

    def __init__(self, folder: Path, options: tuple[str, ...] = ()) -> None:
        self.folder, self._options, self._runs = folder, options, 0
        self.env = environment(folder)
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    def run(self, cases: int, workers: int) -> Measured:
        """Run ``cases`` cases once, and check that every verdict is recorded."""
        self._runs += 1
        suite, run = self.folder / f"test_{cases}.py", self.folder / f"run-{self._runs}"
        suite.write_text(SUITE.format(cases=cases), encoding="utf-8")
        store = self.folder / f"store-{self._runs}"
        command = [
            sys.executable, "-m", "pytest", suite.name, *PLAIN, "-q", "-p", "no:cacheprovider", "-n", str(workers),
            "--model", "fake:constant?text=A", "--llm-run", str(run), "--llm-store", str(store), *self._options,
        ]  # fmt: skip
        done = measure(command, cwd=self.folder, env=self.env)
        assert done.code == 0, done.output[-2000:]
        facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
        assert facts["complete"], done.output[-2000:]
        assert facts["summary"][0]["correct"] == cases, done.output[-2000:]
        return done


def main() -> None:
    """Print one line per run."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--cases", type=int, nargs="+", default=[50_000, 100_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument(
        "--option", action="append", default=[], help="an option of the runs, such as --llm-cache=off"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="llmprops-scale-") as folder:
        scale = Scale(Path(folder), tuple(options.option))
        for workers in options.workers:
            before: tuple[int, Measured] | None = None
            for cases in options.cases:
                done = scale.run(cases, workers)
                line = f"{cases:>9,} cases, -n {workers}: wall {done.wall:6.1f} s, CPU {done.cpu:6.1f} s,"
                line += f" {done.peak_mb:6.0f} MB"
                if before is not None:
                    added, less = cases - before[0], before[1]
                    line += f"; each added case: {(done.wall - less.wall) / added * 1e6:.0f} us wall,"
                    line += f" {(done.cpu - less.cpu) / added * 1e6:.0f} us CPU,"
                    line += f" {(done.peak_mb - less.peak_mb) / added * 1e3:.2f} kB"
                before = (cases, done)
                print(line, flush=True)


if __name__ == "__main__":
    main()
