"""The final summary on the terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_llmprops.core.numbers import MISSING, cost, count, counted, duration, interval, number, percent
from pytest_llmprops.core.records import SummaryRow, VerdictRecord
from pytest_llmprops.core.repeats import DIRECTIONS
from pytest_llmprops.core.run_facts import OldReplies, ProtocolFacts, RunFacts
from pytest_llmprops.core.texts import one_line, terminal_line
from pytest_llmprops.reports.published import beside
from pytest_llmprops.runs.benchmark_facts import headline

#: wrong answers shown per benchmark; all of them are in the run record
SHOWN = 5
#: minimum width of a wrapped last column
_LAST_COLUMN = 24
HEADER = (
    "task",
    "lang",
    "source",
    "items",
    "samples",
    "accuracy",
    "95% interval",
    "wrong",
    "refused",
    "unparsed",
    "errors",
    "var items",
    "var samples",
)
#: columns of tables with repeats only
OF_REPEATS = ("samples", "var items", "var samples")


def summary_lines(
    facts: RunFacts, records: Sequence[VerdictRecord], folder: Path, notes: Iterable[str]
) -> list[str]:
    """Return the lines of the summary of a run; ``facts`` is its ``run.json``."""
    lines: list[str] = []
    for model in facts.models:
        for benchmark in dict.fromkeys(r.benchmark for r in facts.summary if r.model == model):
            lines += _benchmark(facts, records, model, benchmark)
    for benchmark, models in facts.not_served.items():
        lines += [
            f"not served: {count(n)} {benchmark} items ({model} serves no such request, or a helper is missing)"
            for model, n in models.items()
        ]
    if not facts.summary:
        lines.append("no case has a verdict, so there is no score")
    lines += _calls(facts)
    lines += _stored_samples(facts)
    lines += [f"note: {note}" for note in notes]
    if facts.stopped:
        lines.append(f"stopped: {facts.stopped}")
    expected = facts.expected or 0
    unit = "sample" if any(row.has_repeats for row in facts.summary) else "case"
    if facts.stopped_by_gate:
        lines.append(
            f"stopped early: the gate was decided after {count(len(records))} of {counted(expected, unit)}"
        )
    elif not facts.complete:
        missing = f"{count(expected - len(records))} of {counted(expected, unit)}"
        lines.append(f"INCOMPLETE: {missing} have no verdict; complete it: llmprops retry {folder}")
    lines.append(f"run record: {folder}")
    return [terminal_line(line) for line in lines]


def _benchmark(facts: RunFacts, records: Sequence[VerdictRecord], model: str, benchmark: str) -> list[str]:
    rows = [r for r in facts.summary if (r.model, r.benchmark) == (model, benchmark)]
    protocol = facts.protocols.get(benchmark, ProtocolFacts())
    star = "*" if facts.deviations.get(model) else ""
    settings = ", ".join(f"{k} {v}" for k, v in protocol.settings.items())
    old = "".join(f" · {phrase}" for phrase in old_replies(facts.models[model].old_replies))
    lines = ["", f"{benchmark} · {model}{star} · protocol {protocol.name} ({settings}){old}"]
    published = [beside(row, protocol) for row in rows]
    table = [(*HEADER, "published"), *((*_cells(row), p) for row, p in zip(rows, published, strict=True))]
    averaged = headline(rows, facts)
    if len(rows) > 1:
        table.append((*_total(rows, averaged), ""))
    if not any(published):
        table = [row[:-1] for row in table]
    if not any(row.has_repeats for row in rows):
        kept = [n for n, name in enumerate(table[0]) if name not in OF_REPEATS]
        table = [tuple(row[n] for n in kept) for row in table]
    lines += aligned_table(table)
    if len(averaged) < len(rows):
        apart = dict.fromkeys(row.task for row in rows if row not in averaged)
        lines.append(f"  the mean is without {', '.join(apart)}")
    if any(published) and any(r.source != "published" for r in rows):
        lines.append(
            "  published: the papers' figures, on the authors' items; items of another source are this project's"
        )
    lines += _metrics(facts, model, benchmark)
    lines += [
        f"  {model}: {row.text}" for row in facts.remarks if (row.model, row.benchmark) == (model, benchmark)
    ]
    if star:
        lines.append(f"  * the API forced: {'; '.join(facts.deviations[model])}")
    if protocol.gives_up:
        lines.append(f"  {protocol.name} gives up {protocol.gives_up}")
    lines += [f"  assumed: {text}" for text in protocol.assumed]
    return lines + _failures(records, model, benchmark)


def _cells(row: SummaryRow) -> tuple[str, ...]:
    if row.estimate is None:
        accuracy, limits = "-", "-"
    else:
        value, low, high = row.estimate
        accuracy, limits = percent(value), interval(low, high)
        if row.cluster_accuracy is not None or (row.ci_method and "cluster" in row.ci_method):
            limits += " (clusters)"
    counts = (count(getattr(row, name)) for name in ("wrong", "refused", "unparsed", "errors"))
    items, samples = count(row.items), count(row.samples)
    return (row.task, row.language, row.source, items, samples, accuracy, limits, *counts, *_variance(row))


def _variance(row: SummaryRow) -> tuple[str, str]:
    """Return the variance of a sample's score between items and within items."""
    if row.between_items is None or row.within_items is None:
        return "-", "-"
    return f"{row.between_items:.3f}", f"{row.within_items:.3f}"


def _total(rows: Sequence[SummaryRow], averaged: Sequence[SummaryRow]) -> tuple[str, ...]:
    """Return the last row of a table: the counts of all ``rows``, and the mean accuracy of the ``averaged`` ones."""
    sums = {
        name: sum(getattr(r, name) for r in rows)
        for name in ("items", "samples", "wrong", "refused", "unparsed", "errors")
    }
    counts = (count(sums[name]) for name in ("wrong", "refused", "unparsed", "errors"))
    accuracies = [r.estimate[0] for r in averaged if r.estimate is not None]
    mean = f"{percent(sum(accuracies) / len(accuracies))} mean" if accuracies else "-"
    return ("all", "", "", count(sums["items"]), count(sums["samples"]), mean, "", *counts, "", "")


def _metrics(facts: RunFacts, model: str, benchmark: str) -> list[str]:
    values_by_name: dict[str, list[str]] = {}
    rows = [r for r in facts.metrics if (r.model, r.benchmark) == (model, benchmark)]
    last = {(r.name, r.task, r.language, r.source): r for r in rows if r.name in DIRECTIONS}
    over_all = {(r.name, r.task, r.source) for r in rows if r.language == "all"}
    for row in rows:
        # Single paradigms (ERAS), single documents (oracle), and single languages if there is a row over all (DTAiLS)
        # would fill the screen. Of pass@k, only the largest k is shown. All are in run.json and in the report.
        single = row.group.startswith(("paradigm ", "document "))
        single |= row.name in DIRECTIONS and last[row.name, row.task, row.language, row.source] is not row
        covered = (row.name, row.task, row.source) in over_all and row.language != "all"
        if not single and not covered:
            place = "/".join(filter(None, (row.task, row.language, row.group)))
            values_by_name.setdefault(row.name, []).append(f"{place} {number(row.value)}")
    return [f"  {name}: {', '.join(values)}" for name, values in values_by_name.items()]


def _failures(records: Sequence[VerdictRecord], model: str, benchmark: str) -> list[str]:
    own = [r for r in records if (r.model, r.benchmark) == (model, benchmark)]
    samples = Counter(r.id for r in own)
    not_correct = Counter(r.id for r in own if r.status != "correct")
    #: the first sample of each item that is not correct
    bad = list({r.id: r for r in reversed(own) if r.status != "correct"}.values())[::-1]
    lines = []
    for record in bad[:SHOWN]:
        given = f", given {one_line(record.given, 90)!r}" if record.given else ""
        expected = f": expected {one_line(record.expected, 90)!r}{given}" if record.expected else ""
        of = f" ({not_correct[record.id]} of {samples[record.id]} samples not correct)"
        which = f"{record.id}{of if samples[record.id] > 1 else ''}"
        lines.append(f"  {record.status} {which}{expected} ({one_line(record.reason, 90)})")
    if len(bad) > SHOWN:
        items = " items" if samples.total() > len(samples) else ""
        lines.append(f"  … and {count(len(bad) - SHOWN)} more{items} in verdicts.jsonl")
    return lines


def _calls(facts: RunFacts) -> list[str]:
    calls = facts.calls
    in_process = []
    if calls.in_process:
        seconds = calls.in_process_seconds or 0.0
        in_process = [
            "",
            f"in-process: {counted(calls.in_process, 'sentence')} served without calls, {seconds:.1f} s",
        ]
    if not calls.requests:
        return in_process
    parts = [
        counted(calls.requests, "request"),
        counted(calls.sent, "call"),
        f"{count(calls.cache_hits)} from the store",
        *([f"{count(calls.joined)} joined to an equal one"] if calls.joined else []),
        counted(calls.retries, "retry", "retries"),
        f"{count(calls.prompt_tokens)}+{count(calls.completion_tokens)} tokens",
    ]
    if calls.sent:
        parts.append(f"{cost(calls.sent, calls.cost_usd)}{_prices(facts)}")
    if calls.cache_hits and calls.oldest_seconds:
        parts.append(f"oldest stored reply {duration(calls.oldest_seconds)} old")
    return [*(in_process or [""]), "calls: " + ", ".join(parts)]


def _prices(facts: RunFacts) -> str:
    sources = facts.price_sources if facts.calls.cost_usd else []
    return f" (prices: {'; '.join(sources)})" if sources else ""


def old_replies(old: OldReplies) -> list[str]:
    """Return what the headline of a model says about stored replies that it might give no longer."""
    phrases = []
    if old.older_than_a_day:
        age = duration(old.oldest_seconds)
        phrases.append(f"stored replies of an unpinned model, up to {age} old: {count(old.older_than_a_day)}")
    if old.before_list_change:
        phrases.append(
            f"stored replies from before the server's list of models changed: {count(old.before_list_change)}"
        )
    return phrases


def _stored_samples(facts: RunFacts) -> list[str]:
    """Return a note on samples that cannot differ: those of an earlier run, and repeats at temperature 0."""
    calls = facts.calls
    if calls.requests and not calls.sampled and any(row.has_repeats for row in facts.summary):
        note = (
            "note: every request had temperature 0, so the samples of an item differ only as far as the server is not"
            " deterministic; --llm-param temperature=0.7 samples at another temperature"
        )
        return [note]
    if not calls.sampled_earlier:
        return []
    earlier, sampled = calls.sampled_earlier, calls.sampled
    share = f"{count(earlier)} of {count(sampled)} ({percent(earlier / sampled)})"
    note = (
        f"note: {share} replies at a temperature above 0, or the model's default, are stored ones of an earlier run, so"
        " this part repeats its results; --llm-cache refresh samples again, --llm-repeats N takes N samples per item"
    )
    return [note]


def aligned_table(table: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Return the lines of a table with padded columns; columns of numbers are aligned to the right.

    :param width: wrap the text of the last column within this number of columns; None: do not wrap.
    """
    if width is not None and max(map(len, aligned_table(table))) > width:
        return _wrapped_table(table, width)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    right = [all(_numeric(cell) for cell in column[1:]) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _wrapped_table(table: Sequence[Sequence[str]], width: int) -> list[str]:
    *columns, texts = zip(*table, strict=True)
    room = width - 2 - sum(max(map(len, column)) + 2 for column in columns)
    lines: list[str] = []
    if room >= _LAST_COLUMN:
        wrapped = [textwrap.wrap(text, room) or [""] for text in texts]
        heads = aligned_table(list(zip(*columns, [parts[0] for parts in wrapped], strict=True)))
        for head, parts in zip(heads, wrapped, strict=True):
            lines += [head, *(" " * (width - room) + part for part in parts[1:])]
        return lines
    # Too narrow for another column: the text is below.
    for head, text in zip(aligned_table(list(zip(*columns, strict=True))), texts, strict=True):
        lines += [head, *textwrap.wrap(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)]
    return lines


def _numeric(cell: str) -> bool:
    return not cell or cell in ("-", MISSING, "?", "unknown") or cell.lstrip("~<=+−- ")[:1].isdigit()
