"""Measure the cost of Allure at 10,000 cases: ``python -m bench.allure_size [--cases N] [--runs N]``.

Compares plain allure-pytest, where all cases pass, with this plugin, where a fake model is wrong in one case in ten and
the prompts are as long as H-TEST's. The time per case is that of a run with ``--alluredir`` minus that of a run without
it, divided by the number of cases. Runs to be compared alternate, and the fastest of each kind counts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.process import ROOT, TRIVIAL, environment, measure, parsed
from tests.support.browser import chromium

PLAIN = ["-p", "no:hypothesispytest", "-p", "no:timeout", "-p", "no:cacheprovider", "-q", "--no-header"]
SITE = [sys.executable, "-m", "pytest_llmprops.reports.allure.site"]
OURS = """
import pytest
from pytest_llmprops import Benchmark, Chat, Item, Verdict

SHOTS = "".join(f"Input: {n} plus one\\nLabel: {n + 1}\\n\\n" for n in range(50))

class Sums(Benchmark):
    name = "sums"
    about = "Does the model add?"

    def load(self, files):
        return [Item(f"sums/{n:05d}", f"task {n % 10}", "en", fields={"n": n}) for n in range(CASES)]

    async def evaluate(self, item, context, ask, protocol):
        n = item["n"]
        reply = await ask(Chat.user(f"{SHOTS}Input: {n} plus one\\nLabel:", temperature=0.0, max_tokens=8))
        return Verdict.check(reply.text == str(n + 1), expected=str(n + 1), given=reply.text)

@pytest.mark.llmprops(benchmark=Sums)
def test_sums(verdict):
    assert verdict
"""
MODEL = """
def reply(chat):
    n = int(chat.messages[-1].content.rsplit("Input: ", 1)[1].split()[0])
    return str(n + 1 if n % 100 < 90 else n)
"""


class Kind:
    """A test file whose runs are measured with and without Allure."""

    def __init__(self, name: str, folder: Path, arguments: list[str]) -> None:
        self.name = name
        self.folder = folder
        self.arguments = arguments
        self.results = folder / "results"
        self.count = 0
        #: (seconds, seconds of CPU) of each run
        self.without: list[tuple[float, float]] = []
        self.with_allure: list[tuple[float, float]] = []

    def run(self, allure: bool) -> None:
        """Run the file once and store the seconds."""
        self.count += 1
        extra = ["--alluredir", str(self.results)] if allure else ["-p", "no:allure_pytest"]
        if self.name == "ours":
            extra += ["--llm-run", str(self.folder / f"run-{self.count}")]
        if allure:
            shutil.rmtree(self.results, ignore_errors=True)
        command = [sys.executable, "-m", "pytest", *PLAIN, *self.arguments, *extra]
        done = measure(command, cwd=self.folder, env=environment(self.folder), memory=False)
        (self.with_allure if allure else self.without).append((done.wall, done.cpu))

    def cost(self, index: int) -> float:
        """Return the seconds (``index`` 0) or CPU seconds (1) that Allure adds to the fastest run."""
        return min(t[index] for t in self.with_allure) - min(t[index] for t in self.without)


def kinds(folder: Path, cases: int) -> list[Kind]:
    """Write the two test files; return their kinds."""
    result = []
    for name, text in (("trivial", TRIVIAL.format(n=cases)), ("ours", OURS.replace("CASES", str(cases)))):
        subfolder = folder / name
        subfolder.mkdir()
        (subfolder / "pytest.ini").write_text("[pytest]\n")
        (subfolder / f"test_{name}.py").write_text(text)
        result.append(Kind(name, subfolder, []))
    (folder / "ours" / "model.py").write_text(MODEL)
    store = folder / "ours" / "store.sqlite"
    result[1].arguments = ["--model", "fake:call?file=model.py", "--llm-store", str(store)]
    return result


def size(folder: Path) -> tuple[int, float, float]:
    """Return (number of files, MB of their contents, MB on disk)."""
    stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return len(stats), sum(s.st_size for s in stats) / 1e6, sum(s.st_blocks * 512 for s in stats) / 1e6


def first_view(page_file: Path) -> float:
    """Return the seconds from opening the report until the tree of cases is visible."""
    with chromium() as browser:
        page = browser.new_page()
        start = time.perf_counter()
        page.goto(page_file.as_uri())
        page.locator("[data-testid=tree-leaf], [data-testid=tree-section]").first.wait_for()
        return time.perf_counter() - start


def main() -> None:
    """Measure and print one table."""
    options = parsed(__doc__, cases=10_000, runs=2)
    with tempfile.TemporaryDirectory() as name:
        both = kinds(Path(name), options.cases)
        both[1].run(False)  # fills the reply store
        both[1].without.clear()
        for _ in range(options.runs):
            for allure in (False, True):
                for kind in both:
                    kind.run(allure)
        print(
            f"{options.cases:<16} {'ms/case':>9} {'CPU ms':>7} {'files':>7} {'MB':>7} {'MB on disk':>11}"
            f" {'generated':>10} {'report MB':>10} {'first view':>11}"
        )
        for kind in both:
            wall, cpu = (1000 * kind.cost(index) / options.cases for index in (0, 1))
            files, content, disk = size(kind.results)
            page, history = kind.folder / "report.html", kind.folder / "history.jsonl"
            start = time.perf_counter()
            subprocess.run(
                [*SITE, "--results", str(kind.results), "--out", str(page), "--history", str(history)],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
                check=True,
            )
            generated = time.perf_counter() - start
            print(
                f"{kind.name:<16} {wall:9.2f} {cpu:7.2f} {files:7d} {content:7.1f} {disk:11.1f} {generated:8.1f} s"
                f" {page.stat().st_size / 1e6:10.1f} {first_view(page):9.1f} s   history"
                f" {history.stat().st_size / 1e6:.1f} MB"
            )


if __name__ == "__main__":
    main()
