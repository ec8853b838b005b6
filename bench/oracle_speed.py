"""Measure the calls of the oracle-checker: 40 sentences in the paper's protocol, 40 x 165 = 6,600 requests and more.

    python -m bench oracle

Each sentence has twelve names, so that its 15 transformed sentences differ and no request is saved. The stub's
extractor is ideal; every sentence is accepted. The first run has an empty store; its stages overlap: extraction of the
original, synonyms, tests. The second run has the extraction and the synonyms in the store, so only the 6,600 requests
of the tests are left. Both are measured with ``n`` off and on.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.process import PLAIN, ROOT, Measured, measure
from bench.stub_server import RunningStub, running_stub
from bench.suite import Bench

SENTENCES, NAMES, PER_SENTENCE = 40, 12, 165
DELAY, CONCURRENCY = 0.2, 64
MAX_RATIO = 1.5
_FIRST = ("Ab", "Bel", "Cas", "Dor", "Em", "Fan", "Gil", "Hes", "Ir", "Jor")
_LAST = ("bury", "dale", "ford", "ham", "mere", "minster", "port", "stead", "thorpe", "wick", "worth", "wold")


def sentences() -> list[str]:
    """Return the sentences to measure, with twelve invented names each."""
    texts = []
    for number in range(SENTENCES):
        names = [f"{_FIRST[(number + k) % 10]}{'aeio'[number // 10]}{_LAST[k]}" for k in range(NAMES)]
        texts.append(f"{', '.join(names[:-1])} and {names[-1]} were drawn on the same map.")
    return texts


def command(bench: Bench, url: str, model: str, data: Path, store: Path, run: Path) -> list[str]:
    """Return the command that runs the suite on the sentences."""
    return [
        sys.executable, "-m", "pytest", "suites/test_oracle.py::test_oracle", *PLAIN, "-q", "-p", "no:cacheprovider",
        "--model", model, "--llm-base-url", url, "--llm-concurrency", str(CONCURRENCY),
        "--llm-data", str(data), "--llm-protocol", "paper",
        "--llm-set", "oracle.search=none", "--llm-store", str(store), "--llm-run", str(run),
    ]  # fmt: skip


def requests(run: Path) -> list[dict[str, Any]]:
    """Return a run's requests, in order: ``key``, ``cached`` and ``stage`` of the check."""
    own = set(sentences())
    rows, prefixes = [], {}
    with (run / "requests.jsonl").open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if "prefix_id" in line:
                prefixes[line["prefix_id"]] = line["text"]
                continue
            content = line["request"]["messages"][-1][1]
            if isinstance(content, dict):
                content = prefixes[content["prefix"]] + content["rest"]
            stage = "synonyms"
            if content.startswith("Please perform entity recognition"):
                text = content[content.index('"') + 1 : content.index('"\n')]
                stage = "first extraction" if text in own else "tests"
            rows.append({"key": line["key"], "cached": line["cached"], "stage": stage})
    return rows


def without_tests(store: Path, run: Path, copy: Path) -> None:
    """Copy the store without the replies of the run's tests."""
    with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        keys = [(row["key"],) for row in requests(run) if row["stage"] == "tests"]
        target.executemany("DELETE FROM replies WHERE key = ?", keys)
        target.commit()


def stages(store: Path, run: Path) -> str:
    """Return when the replies of each stage arrived, in seconds after the first reply."""
    with closing(sqlite3.connect(store)) as db:
        times = dict(db.execute("SELECT key, stored FROM replies"))
    rows = [(row["stage"], times[row["key"]]) for row in requests(run)]
    begin = min(time for _, time in rows)
    texts = []
    for stage in ("first extraction", "synonyms", "tests"):
        of = [time - begin for name, time in rows if name == stage]
        texts.append(f"{stage} {len(of):,}: {min(of):.1f}-{max(of):.1f} s")
    return ", ".join(texts)


def oracle(bench: Bench) -> None:
    """Measure runs with an empty store and with stored synonyms, with one call per sample and one call per prompt."""
    data = bench.fresh("data")
    (data / "oracle").mkdir(parents=True)
    (data / "oracle" / "sentences.txt").write_text("".join(f"{s}\n" for s in sentences()), encoding="utf-8")
    for n, label in (("off", "n off"), ("on", "n on")):
        # One server for all runs, because its address is part of the keys of stored replies.
        with running_stub(delay=DELAY, answer="oracle") as stub:
            store, run = bench.fresh("store"), bench.fresh("run")

            def measured(
                store: Path, run: Path, n: str = n, stub: RunningStub = stub
            ) -> tuple[Measured, int]:
                stub.reset()
                model = f"openai:stub?n={n}"
                done = measure(command(bench, stub.url, model, data, store, run), cwd=ROOT, env=bench.env)
                assert f"{SENTENCES} passed" in done.output, done.output[-2000:]
                return done, stub.stats()["answered"]

            cold, calls = measured(store, run)
            ideal = f"(ideal {DELAY * calls / CONCURRENCY:.1f} s)"
            bench.line(f"oracle, {label}, cold: wall, calls", f"{cold.wall:.1f} s, {calls:,}", ideal)
            print(f"  {stages(store, run)}", flush=True)
            warm = []
            for _ in range(bench.runs):
                half = bench.fresh("store")
                without_tests(store, run, half)
                warm.append(measured(half, bench.fresh("run")))
        _report(bench, label, warm)


def _report(bench: Bench, label: str, warm: Sequence[tuple[Measured, int]]) -> None:
    calls = max(sent for _, sent in warm)
    ideal = DELAY * calls / CONCURRENCY
    walls = [done.wall for done, _ in warm]
    limit = MAX_RATIO * ideal if label == "n off" else None
    wall = statistics.median(walls)
    bench.line(
        f"oracle, {label}, synonyms stored: wall, calls",
        f"{wall:.1f} s ({min(walls):.1f}-{max(walls):.1f}), {calls:,}",
        f"<= {limit:.1f} s ({MAX_RATIO} x ideal)" if limit else f"(ideal {ideal:.1f} s)",
        None if limit is None else wall <= limit,
    )
    cpu = statistics.median(done.cpu for done, _ in warm)
    bench.line(f"oracle, {label}, synonyms stored: CPU", f"{cpu:.1f} s")
