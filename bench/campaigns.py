"""Print the calls, disk, memory, time and price of large campaigns: ``python -m bench.campaigns [--model NAME]``.

Sizes and tokens per call are measured: a run of built-in items of the suite with a fake model, whose replies have one
character. Everything else is calculated from the number of calls. Tokens are counted as one per four ASCII characters
and one per other character. The price counts the longest replies that the requests allow.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.process import PLAIN, ROOT, environment, measure, parsed
from pytest_llmprops.core.requests import BATCH_DISCOUNT, Usage
from pytest_llmprops.models.api.prices import price
from pytest_llmprops.runs.replies import read_requests

#: name, suite whose calls are measured, number of calls
CAMPAIGNS = (
    ("ERAS, 203,944 pairs, 4 models", "eras", 815_776),
    ("oracle", "oracle", 200_670),
    ("10 million H-TEST prompts", "htest", 10_000_000),
)
IN_FLIGHT, SECONDS_PER_CALL = 1_000, 1.0
#: memory of a process without cases in GB, and of each case in kB; see ``bench/scale.py``
GB_BASE, KB_PER_CASE = 0.12, 1.78


@dataclass(frozen=True)
class PerCall:
    """Measured means per call: tokens, and bytes of the record and the store."""

    calls: int
    prompt_tokens: float
    reply_tokens: float
    requests: float
    verdicts: float
    store: float


def tokens(text: str) -> float:
    """Return the estimated number of tokens."""
    wide = sum(not character.isascii() for character in text)
    return (len(text) - wide) / 4 + wide


def per_call(suite: str, limit: int) -> PerCall:
    """Measure a run of the suite's built-in items, at most ``limit`` per task."""
    with tempfile.TemporaryDirectory(prefix="llmprops-campaigns-") as name:
        folder = Path(name)
        run, store = folder / "run", folder / "store.sqlite"
        command = [
            sys.executable, "-m", "pytest", str(ROOT / "suites" / f"test_{suite}.py"), *PLAIN, "-q", "--tb=no",
            "-p", "no:cacheprovider", "--model", "fake:constant?text=A", "--llm-run", str(run),
            "--llm-store", str(store), "--llm-limit", str(limit), "-k", "not search",
        ]  # fmt: skip
        done = measure(command, cwd=folder, env=environment(folder))
        assert (run / "run.json").is_file(), done.output[-2000:]
        calls = json.loads((run / "run.json").read_text(encoding="utf-8"))["calls"]["sent"]
        asked = [request for request in read_requests(run).values() if request.kind == "chat"]
        prompt = sum(tokens(content) for request in asked for _, content in request.messages)
        reply = sum(request.request.get("max_tokens") or 0 for request in asked)
        requests, verdicts = (
            path.stat().st_size / calls for path in (run / "requests.jsonl", run / "verdicts.jsonl")
        )
        # The store writes ahead into a second file, which is empty when it is closed.
        stored = store.stat().st_size / calls
        return PerCall(calls, prompt / len(asked), reply / len(asked), requests, verdicts, stored)


def main() -> None:
    """Print the measured means and the table."""
    options = parsed(
        __doc__,
        model=("gpt-4o", "the model whose listed price is used"),
        limit=(100, "items per task that are measured"),
    )
    listed = price(options.model, {})
    assert listed is not None, f"{options.model} has no listed price"
    means = {suite: per_call(suite, options.limit) for suite in dict.fromkeys(c[1] for c in CAMPAIGNS)}
    print(
        "| suite | calls measured | prompt tokens | reply tokens, at most | requests.jsonl | verdicts.jsonl | store |"
    )
    print("|---|---|---|---|---|---|---|")
    for suite, mean in means.items():
        print(
            f"| {suite} | {mean.calls:,} | {mean.prompt_tokens:.0f} | {mean.reply_tokens:.0f} | {mean.requests:.0f} B"
            f" | {mean.verdicts:.0f} B | {mean.store:.0f} B |"
        )
    print(f"\n{options.model}: {listed.source}\n")
    print("| campaign | calls | record | store | memory, -n 0 | wall time | price online | in batches |")
    print("|---|---|---|---|---|---|---|---|")
    for name, suite, calls in CAMPAIGNS:
        mean = means[suite]
        usd = calls * listed.of(Usage(round(mean.prompt_tokens), round(mean.reply_tokens)))
        print(
            f"| {name} | {calls:,} | {calls * (mean.requests + mean.verdicts) / 1e9:.1f} GB"
            f" | {calls * mean.store / 1e9:.1f} GB | {GB_BASE + calls * KB_PER_CASE / 1e6:.1f} GB"
            f" | {calls / IN_FLIGHT * SECONDS_PER_CALL / 3600:.1f} h | {usd:,.0f} USD"
            f" | {usd * BATCH_DISCOUNT:,.0f} USD |"
        )


if __name__ == "__main__":
    main()
