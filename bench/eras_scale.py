"""Measure ERAS with jieba at the paper's size, 203,944 pairs: ``python -m bench.eras_scale``.

Compares jieba alone on the 407,888 sentences with whole pytest processes: ``suites/test_eras.py`` with one case per
paradigm, with one case per pair, and plain pytest on as many trivial cases. The runs alternate, ``--runs`` times,
because only ratios from the same session are comparable. Prints medians and ranges.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.process import PLAIN, ROOT, TRIVIAL, Measured, environment, measure, spread

PAIRS = 203_944
ALONE = """
import json, logging, sys, jieba
jieba.setLogLevel(logging.ERROR)
words = 0
for line in open(sys.argv[1], encoding="utf-8"):
    row = json.loads(line)
    words += len(list(jieba.cut(row["test"]))) + len(list(jieba.cut(row["control"])))
print(words)
"""
QUIET = [*PLAIN, "-p", "no:cacheprovider", "-q"]


class Scale:
    """A generated set and the processes that are measured on it."""

    def __init__(self, folder: Path, pairs: int) -> None:
        self.folder, self.pairs, self._runs = folder, pairs, 0
        self.env = environment(folder)
        command = ["-m", "pytest_llmprops.cli.main", "lab", "eras", "generate", "--total", str(pairs)]
        subprocess.run([sys.executable, *command, "--out", str(folder / "set")], check=True, env=self.env)
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        (folder / "test_trivial.py").write_text(TRIVIAL.format(n=pairs), encoding="utf-8")
        suite = (ROOT / "suites" / "test_eras.py").read_text(encoding="utf-8")
        (folder / "test_eras.py").write_text(suite, encoding="utf-8")

    def alone(self) -> Measured:
        """Run jieba in a loop that reads the set, cuts every sentence and stores nothing."""
        pairs = str(self.folder / "set" / "eras" / "pairs.jsonl")
        return self._checked([sys.executable, "-c", ALONE, pairs])

    def suite(self, case: str, workers: str = "0") -> Measured:
        """Run the suite, which records every verdict."""
        self._runs += 1
        run = self.folder / f"run-{self._runs}"
        done = self._checked(
            [
                sys.executable, "-m", "pytest", "test_eras.py", *QUIET, "-n", workers, "--tb=no",
                "--model", "jieba", "--llm-data", str(self.folder / "set"),
                "--llm-set", f"eras.case={case}", "--llm-run", str(run),
            ]
        )  # fmt: skip
        facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
        assert facts["complete"], done.output[-2000:]
        with open(run / "verdicts.jsonl", encoding="utf-8") as lines:
            assert sum(1 for _ in lines) == self.pairs
        return done

    def trivial(self) -> Measured:
        """Run plain pytest on as many parametrized cases that do nothing."""
        return self._checked([sys.executable, "-m", "pytest", "test_trivial.py", *QUIET, "-p", "no:llmprops"])

    def _checked(self, command: Sequence[str]) -> Measured:
        done = measure(command, cwd=self.folder, env=self.env)
        assert done.code in (0, 1), done.output[-2000:]
        assert done.output, done.output[-2000:]
        return done


def main() -> None:
    """Print one line per figure."""
    parser = argparse.ArgumentParser(prog="python -m bench.eras_scale", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--skip", nargs="*", default=[], metavar="NAME", help="pair, trivial, workers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="llmprops-eras-") as folder:
        scale = Scale(Path(folder), options.pairs)
        processes = {
            "jieba alone": scale.alone,
            "paradigm cases": lambda: scale.suite("paradigm"),
            "paradigm cases, -n 2": lambda: scale.suite("paradigm", "2"),
            "pair cases": lambda: scale.suite("pair"),
            "plain pytest": scale.trivial,
        }
        skipped = {"pair": "pair cases", "trivial": "plain pytest", "workers": "paradigm cases, -n 2"}
        for name in options.skip:
            del processes[skipped[name]]
        results: dict[str, list[Measured]] = {name: [] for name in processes}
        for _ in range(options.runs):
            for name, run in processes.items():
                results[name].append(run())
                print(f"  {name}: {results[name][-1].wall:.1f} s", file=sys.stderr, flush=True)
        print(f"{options.pairs:,} pairs, load {os.getloadavg()[0]:.1f}, {options.runs} runs")
        for name, done in results.items():
            ratios = [a.wall / b.wall for a, b in zip(done, results["jieba alone"], strict=True)]
            columns = (
                spread([d.wall for d in done], " s"),
                spread([d.peak_mb / 1000 for d in done], " GB"),
                spread(ratios, " x jieba"),
            )
            print(f"{name:<22} " + "  ".join(f"{column:>26}" for column in columns), flush=True)


if __name__ == "__main__":
    main()
