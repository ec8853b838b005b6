"""Measure ``report.html`` at 12,000 and 200,000 items: ``python -m bench.report_page [--items N,N] [--opened N]``.

Each page has two runs of half the items, with a prompt of 150 and a reply of 510 characters per item. It is opened from
disk in headless Chromium. First view: the time until the list shows its first items. The largest of the openings
counts.
"""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.process import parsed
from pytest_llmprops.core.field_types import RecordStatus
from pytest_llmprops.reports.page.build import write_report
from tests.support.browser import chromium
from tests.support.records import exchange, recorded, verdict

WORDS = [
    "the", "owl", "and", "the", "knight", "sold", "flour", "to", "a", "porter", "under", "stars", "while", "rain",
    "fell", "on", "their", "quiet", "old", "town",
]  # fmt: skip
#: seconds until the first items are visible, and the number of elements
MOST_SECONDS, MOST_NODES = 1.5, 3_000
SEARCH = """async () => {
  const search = document.getElementById("search"), count = document.getElementById("count");
  const begun = performance.now();
  search.value = "zebra";
  search.dispatchEvent(new Event("input"));
  while (!/^0 of/.test(count.textContent)) await new Promise((done) => setTimeout(done, 5));
  return (performance.now() - begun) / 1000;
}"""


def run(folder: Path, model: str, items: int, seed: int) -> Path:
    """Write a run of ``items`` items, of which one in ten is wrong."""
    chosen = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(chosen.choices(WORDS, k=words))

    def status() -> RecordStatus:
        return "wrong" if chosen.random() < 0.1 else "correct"

    def requests() -> Iterator[dict[str, Any]]:
        for n in range(items):
            usage = {"prompt_tokens": 40, "completion_tokens": 120}
            yield exchange(f"k{n}", text(34), text(112), usage=usage, seconds=chosen.random())

    records = (
        verdict(f"task_{n % 10}", n, status(), model=model, given=text(3), requests=[f"k{n}"])
        for n in range(items)
    )
    return recorded(folder / model, records, requests=requests())


def opened(browser: Any, path: Path) -> dict[str, float]:
    """Open the page once; return seconds and numbers of elements."""
    page = browser.new_page()
    begun = time.perf_counter()
    page.goto(path.as_uri(), wait_until="commit")
    page.locator("#list tbody .open").first.wait_for(timeout=60_000)
    view = time.perf_counter() - begun
    page.locator("html[data-ready]").wait_for(state="attached")
    paint = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000")
    page.wait_for_load_state("load")
    nodes = page.evaluate("() => document.querySelectorAll('*').length")
    begun = time.perf_counter()
    page.locator("#tab-lost").click()
    page.locator("#list.paired tbody .open").first.wait_for()
    tab = time.perf_counter() - begun
    page.locator("#tab-all").click()
    found = {"paint": paint, "view": view, "nodes": nodes, "tab": tab, "search": page.evaluate(SEARCH)}
    page.close()
    return found


def main() -> None:
    """Measure and print one line per size."""
    options = parsed(
        __doc__,
        items=("12000,200000", "numbers of items, separated by commas"),
        opened=(3, "number of openings of each page"),
    )
    names = ("first paint", "first view", "tab", "search of every text")
    print(
        f"{'items':>8} {'written (CPU)':>14} {'peak MB':>8} {'page MB':>8} {'elements':>9}", *names, sep="  "
    )
    for items in map(int, options.items.split(",")):
        with tempfile.TemporaryDirectory() as name:
            folders = [run(Path(name), model, items // 2, seed) for seed, model in enumerate(("old", "new"))]
            cpu = time.process_time()
            path = write_report(folders, Path(name) / "out")[0]
            cpu = time.process_time() - cpu
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            with chromium() as browser:
                measured = [opened(browser, path) for _ in range(options.opened)]
            most = {key: max(one[key] for one in measured) for key in measured[0]}
            good = most["view"] <= MOST_SECONDS and most["nodes"] <= MOST_NODES
            seconds = "  ".join(f"{most[key]:.2f} s" for key in ("paint", "view", "tab", "search"))
            size = path.stat().st_size / 1e6
            verdict_ = "" if good else f"  above {MOST_SECONDS} s or {MOST_NODES:,} elements"
            print(
                f"{items:>8,} {cpu:>12.1f} s {peak:>8.0f} {size:>8.1f} {most['nodes']:>9,.0f}  {seconds}{verdict_}"
            )


if __name__ == "__main__":
    main()
