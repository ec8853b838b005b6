"""Measure a team's site: ``python -m bench.team_site [--runs N] [--items N] [--models N] [--reports latest|all|none]``.

The records are written by the real writer: a prompt of 150 and a reply of 510 characters per item; an item is easy or
hard for all models, and a fifth of the items varies from run to run. The site is built, built again without a change,
and again after one new run, each time in a new process. Then its page is opened from disk in headless Chromium.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.process import ROOT, measure
from bench.report_page import WORDS
from pytest_llmprops.core.field_types import RecordStatus
from tests.support.browser import chromium
from tests.support.records import exchange, recorded, verdict

TASKS = 10


def write_run(folder: Path, model: int, day: int, items: int) -> Path:
    """Write the run of a model on a day."""
    chosen, difficulty = random.Random(f"{model} {day}"), random.Random(0)
    lines = [" ".join(chosen.choices(WORDS, k=words)) for words in (34, 112) for _ in range(200)]

    def requests() -> Iterator[dict[str, Any]]:
        for n in range(items):
            usage = {"prompt_tokens": 40, "completion_tokens": 120}
            prompt, reply = f"{n} {lines[n % 200]}", lines[200 + chosen.randrange(200)]
            yield exchange(f"k{n}", prompt, reply, usage=usage, seconds=chosen.random())

    def status() -> RecordStatus:
        share = difficulty.choice([0.0, 1.0, 1.0, 1.0, 0.5 + 0.04 * model])
        return "correct" if chosen.random() < share else "wrong"

    given = " ".join(WORDS[:3])
    records = [
        verdict(f"task_{n % TASKS}", n, status(), model=f"model-{model}", given=given, requests=[f"k{n}"])
        for n in range(items)
    ]
    started = time.strftime("%Y-%m-%dT10:00:00+00:00", time.gmtime(1767225600 + 86400 * day))
    calls = {"requests": items, "cost_usd": 1.25}
    protocols = {"sums": {"name": "quick", "settings": {}, "seed": 0}}
    return recorded(folder, records, requests=requests(), started=started, calls=calls, protocols=protocols)


def size_of(folder: Path) -> str:
    """Return the size of a folder in MB, and its number of files."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return f"{sum(sizes) / 1e6:.1f} MB in {len(sizes):,} files"


def opened(site: Path, repeats: int) -> None:
    """Open the page; print the largest time and its number of elements."""
    views, nodes = [], 0
    with chromium() as browser:
        for _ in range(repeats):
            page = browser.new_page()
            begun = time.perf_counter()
            page.goto((site / "index.html").as_uri(), wait_until="commit")
            page.locator("h1").wait_for(timeout=60_000)
            views.append(time.perf_counter() - begun)
            nodes = page.evaluate("() => document.querySelectorAll('*').length")
            page.close()
    print(f"first view {max(views):.2f} s, {nodes:,} elements")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--items", type=int, default=10_000, help="items of a run")
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--reports", default="latest")
    parser.add_argument("--opened", type=int, default=3, help="number of openings of the page")
    parser.add_argument("--folder", type=Path, help="keep the records here, and use those that are there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = options.folder or Path(name)
        runs, site = root / "runs", Path(name) / "site"
        for n in range(options.runs - 1):
            if not (runs / f"run-{n:04d}" / "run.json").exists():
                write_run(runs / f"run-{n:04d}", n % options.models, n, options.items)
        command = [sys.executable, "-m", "pytest_llmprops.cli.main", "site", "--out", str(site)]
        command += ["--reports", options.reports, str(runs)]
        last = root / "last" / f"run-{options.runs - 1:04d}"
        if not (last / "run.json").exists():
            write_run(last, (options.runs - 1) % options.models, options.runs - 1, options.items)
        for what in ("first build", "without a change", "after a new run"):
            more = [str(last)] if what == "after a new run" else []
            run = measure([*command, *more], cwd=ROOT, env=os.environ)
            assert run.code == 0, run.output
            print(f"{what:>18}: {run.cpu:.1f} s CPU, {run.wall:.1f} s, {run.peak_mb:.0f} MB; {size_of(site)}")
        opened(site, options.opened)


if __name__ == "__main__":
    main()
