"""Runs on the terminal: the summary of one, ``llmprops runs list`` and ``runs show``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_llmprops.core.metrics import DIRECTIONS
from pytest_llmprops.core.numbers import count, counted, duration, interval, number, percent
from pytest_llmprops.core.texts import one_line, shell_line, terminal_line
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.published_results import beside
from pytest_llmprops.records.files import plain
from pytest_llmprops.records.rows import SearchCounts, SearchRecord, SummaryRow
from pytest_llmprops.records.run import OldReplies, ProtocolMetadata, RunMetadata
from pytest_llmprops.reports import PAGES, SERVER, missing_package
from pytest_llmprops.reports.tables import (
    UNLIMITED,
    Table,
    aligned_table,
    columns_of,
    fitted,
    without,
    wrapped,
)
from pytest_llmprops.runs.benchmark_metadata import facts_of, headline
from pytest_llmprops.runs.catalog import BASELINES, Listed
from pytest_llmprops.runs.integrity import SEARCHES
from pytest_llmprops.runs.merge import shard_steps
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.record import counterexample_text
from pytest_llmprops.runs.recorded_command import resume_command
from pytest_llmprops.runs.summary import pooled_accuracy

#: maximum number of counterexamples per model, benchmark and property
SHOWN = 5
#: maximum number of items that are not correct, per model and benchmark
ITEMS_SHOWN = 10
#: says that an interval is of the clusters' means
_BY_CLUSTERS = " (clusters)"
HEADER = ("run", "started (UTC)", "models", "benchmarks", "items", "accuracy", "state", "gate")


def metric_lines(facts: RunMetadata, model: str, benchmark: str, width: int) -> list[str]:
    """Return the metrics: a table for the metrics of the same tasks, languages and groups."""
    values: dict[str, dict[tuple[str, ...], str]] = {}
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
            places = values.setdefault(row.name, {})
            place = (row.task, row.language, row.group)
            # Two sources may have the same place.
            places[place if place not in places else (*place, row.source)] = number(row.value)
    names_of: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name, places in values.items():
        names_of.setdefault(tuple(places), []).append(name)
    lines = [line for shared, names in names_of.items() for line in _table(shared, names, values, width)]
    return ["", *lines] if lines else []


def _table(
    places: Sequence[tuple[str, ...]],
    names: Sequence[str],
    values: Mapping[str, Mapping[tuple[str, ...], str]],
    width: int,
) -> list[str]:
    """Return the table of metrics with values for the same tasks, languages and groups, in the shape that fits best."""
    same = [len(set(parts)) == 1 and len(places) > 1 for parts in zip(*places, strict=False)]
    shared = "/".join(part for part, is_same in zip(places[0], same, strict=False) if is_same and part)
    labels = [
        "/".join(p for n, p in enumerate(place) if p and not (n < len(same) and same[n])) for place in places
    ]
    rows = [(name, *(values[name][place] for place in places)) for name in names]
    by_name = [(shared or "metric", *labels), *rows]
    by_place = [(shared or "metric", *names), *zip(labels, *(row[1:] for row in rows), strict=True)]
    shapes = [one for one in (by_name, by_place) if max(map(len, aligned_table(one))) <= width]
    if shapes:
        return aligned_table(min(shapes, key=len))
    if len(names) == 1:
        return fitted(width, by_place)
    half = len(names) // 2
    return [line for part in (names[:half], names[half:]) for line in _table(places, part, values, width)]


def search_lines(searched: Sequence[SearchCounts], rows: Sequence[SearchRecord]) -> list[str]:
    """Return lines with the counts of searches and some of the counterexamples.

    :param searched: ``searches`` of ``run.json``.
    :param rows: lines of ``searches.jsonl``, one per item and property.
    """
    lines = []
    has_models = len({(counts.benchmark, counts.model) for counts in searched}) > 1
    for counts in searched:
        key = counts.benchmark, counts.model, counts.property
        own = [r for r in rows if (r.benchmark, r.model, r.property) == key]
        of = f" of {counts.model}" if has_models else ""
        of += f" ({counts.property})" if counts.property else ""
        names = (("counterexamples", "counterexample"), ("examples", "example"), ("calls", "call"))
        amounts = (counted(getattr(counts, name), noun) for name, noun in names)
        line = f"search{of}: {counted(counts.searched, 'item')} searched, {', '.join(amounts)}"
        if counts.not_repeated:
            line += f"; {counts.not_repeated} not repeated"
        if counts.spent:
            line += f"; {counts.spent} stopped when their calls were spent"
        if counts.errors:
            line += f"; {counts.errors} ended by a backend error"
        lines.append(line)
        bad = [row for row in own if row.why]
        bad.sort(key=lambda row: row.counterexample is None)
        lines += [f"  {r.id}: {counterexample_text(r)}" for r in bad[:SHOWN]]
        if len(bad) > SHOWN:
            lines.append(f"  … and {len(bad) - SHOWN} more in {SEARCHES}")
    return [terminal_line(line) for line in lines]


def summary_lines(
    facts: RunMetadata,
    records: Sequence[VerdictRecord],
    folder: Path,
    notes: Iterable[str],
    width: int = UNLIMITED,
    *,
    with_metrics: bool = True,
) -> list[str]:
    """Return the lines of the summary of a run; ``facts`` is its ``run.json``.

    The tables of all benchmarks come first, then the items that are not correct, and the calls.

    :param width: columns to wrap to. :param with_metrics: add each benchmark's metrics to its table.
    """
    notes = list(notes)
    measured = dict.fromkeys(
        (r.model, r.benchmark) for m in facts.models for r in facts.summary if r.model == m
    )
    lines: list[str] = []
    for model, benchmark in measured:
        lines += _benchmark(facts, model, benchmark, width, with_metrics=with_metrics)
    lines += _not_served(facts, notes)
    if not facts.summary:
        lines.append("no case has a verdict, so there is no score")
    for model, benchmark in measured:
        lines += _not_correct(facts, records, model, benchmark)
    lines += _calls(facts)
    lines += _stored_samples(facts)
    lines += [f"note: {note}" for note in notes]
    if facts.stopped:
        lines.append(f"stopped: {facts.stopped}")
    expected = facts.expected or 0
    unit = "sample" if any(row.has_repeats for row in facts.summary) else "case"
    if not facts.complete:
        # A merged run without all shards does not know the number.
        missing = f"{count(expected - len(records))} of {counted(expected, unit)}" if expected else "cases"
        steps = shard_steps(facts) or resume_command(folder)
        lines.append(f"INCOMPLETE: {missing} have no verdict; complete it: {steps}")
    lines.append(f"run record: {folder}")
    return [part for line in lines for part in wrapped(terminal_line(line), width)]


def next_command(folder: Path, *, resumes: bool = False) -> str:
    """Return what to run after a run: the last line of its output.

    :param resumes: the run lost cases that it can measure when it is resumed.
    """
    words: tuple[str, ...] = ("view", str(folder))
    if resumes:
        words = ("run", "--resume", str(folder))
    elif missing_package(PAGES):
        words = ("readings", str(folder))
    elif missing_package(SERVER):
        words = ("report", str(folder), "--out", "report")
    return f"next: {shell_line('llmprops', *words)}"


def _not_served(facts: RunMetadata, notes: Sequence[str]) -> list[str]:
    lines = []
    for benchmark, models in facts.not_served.items():
        reason = ": they need another kind of model"
        if facts.protocols.get(benchmark, ProtocolMetadata()).is_by_likelihood:
            reason = f" does not score likelihoods; leave out --llm-set {benchmark}.answer=likelihood"
        elif any(note.startswith(f"{benchmark}: ") and "not served" in note for note in notes):
            # The note says which helper is missing, and how to get it.
            reason = ": see the note on helpers"
        lines += [
            f"not served: {count(n)} {benchmark} items ({model}{reason})" for model, n in models.items()
        ]
    return lines


def _benchmark(
    facts: RunMetadata, model: str, benchmark: str, width: int, *, with_metrics: bool
) -> list[str]:
    rows = [r for r in facts.summary if (r.model, r.benchmark) == (model, benchmark)]
    protocol = facts.protocols.get(benchmark, ProtocolMetadata())
    star = "*" if facts.deviations.get(model) else ""
    known = facts_of(benchmark, facts)
    # Settings that change no verdict are in the record.
    unseen = known.presentation if known is not None else ()
    settings = ", ".join(f"{k} {v}" for k, v in protocol.settings.items() if k not in unseen)
    old = "".join(f" · {phrase}" for phrase in old_replies(facts.models[model].old_replies))
    remarks = [row for row in facts.remarks if (row.model, row.benchmark) == (model, benchmark)]
    # The first warning belongs to the headline: the numbers below may not mean what they seem to.
    warnings = [f"  WARNING: {row.text}" for row in remarks if row.warning]
    lines = ["", f"{benchmark} · {model}{star} · protocol {protocol.name} ({settings}){old}", *warnings]
    published = [beside(row, protocol) for row in rows]
    # If all tasks are controls, they are the headline of other reports, but no mean of the benchmark.
    averaged = [row for row in headline(rows, facts) if known is None or row.task not in known.controls]
    shown = _fitted(_results(rows, averaged), published, width)
    lines += shown
    if 0 < len(averaged) < len(rows):
        apart = dict.fromkeys(row.task for row in rows if row not in averaged)
        lines.append(f"  the mean is without {', '.join(apart)}")
    if any(published) and "published" not in shown[0]:
        lines.append("  the papers' figures, which do not fit here, are in the report")
    elif any(published) and any(r.source != "published" for r in rows):
        lines.append(
            "  published: the papers' figures, on the authors' items; items of another source are this project's"
        )
    if with_metrics:
        lines += metric_lines(facts, model, benchmark, width)
    lines += [f"  {model}: {row.text}" for row in remarks if not row.warning]
    if protocol.is_by_likelihood:
        lines.append(
            "  by likelihood: an answer is the most likely option; not comparable with answers read from text"
        )
    if star:
        lines.append(f"  * the API forced: {'; '.join(facts.deviations[model])}")
    if protocol.gives_up:
        lines.append(f"  {protocol.name} leaves out, compared with the paper: {protocol.gives_up}")
    return [*lines, *(f"  assumed: {text}" for text in protocol.assumed)]


def _fitted(table: Table, published: Sequence[str], width: int) -> list[str]:
    """Return the table of a benchmark with as many of the published figures as fit.

    A narrow table has no column of zeros, and says once which language and source all rows have.
    """
    narrow, places = without(table, ("lang", "source"))
    narrow[0] = (f"task ({', '.join(places)})" if places else "task", *narrow[0][1:])
    narrow, _ = without(narrow, narrow[0][1:], values=("0",))
    best = [text.partition(", ")[0] for text in published]
    column = narrow[0].index("95% interval")
    if all(row[column].endswith(_BY_CLUSTERS) for row in narrow[1:] if row[column]):
        texts = ("95% by clusters", *(row[column].removesuffix(_BY_CLUSTERS) for row in narrow[1:]))
        narrow = [(*r[:column], text, *r[column + 1 :]) for r, text in zip(narrow, texts, strict=True)]
    tables = [_with_published(table, published), table, _with_published(narrow, best), narrow]
    if not any(published):
        tables = [table, narrow]
    return fitted(width, *tables)


def _with_published(table: Table, published: Sequence[str]) -> Table:
    texts = ("published", *published, *[""] * (len(table) - 1 - len(published)))
    return [(*row, text) for row, text in zip(table, texts, strict=True)]


def _results(rows: Sequence[SummaryRow], averaged: Sequence[SummaryRow]) -> Table:
    """Return the table of ``rows``; if there are several, the last row has their counts and the mean accuracy.

    :param averaged: the rows whose accuracies the mean is of.
    """
    sizes, others = columns_of("terminal", rows)

    def line(
        place: Sequence[str], members: Sequence[SummaryRow], *accuracy: str, missing: str
    ) -> tuple[str, ...]:
        left, right = ([c.cell(members, missing) for c in columns] for columns in (sizes, others))
        return (*place, *left, *accuracy, *right)

    names = [[column.key for column in columns] for columns in (sizes, others)]
    table = [("task", "lang", "source", *names[0], "accuracy", "95% interval", *names[1])]
    table += [line((row.task, row.language, row.source), [row], *_accuracy(row), missing="-") for row in rows]
    if len(rows) > 1:
        accuracies = [r.estimate[0] for r in averaged if r.estimate is not None]
        mean = f"{percent(sum(accuracies) / len(accuracies))} mean" if accuracies else "-"
        table.append(line(("all", "", ""), rows, mean, "", missing=""))
    return table


def _accuracy(row: SummaryRow) -> tuple[str, str]:
    if row.estimate is None:
        return "-", "-"
    value, low, high = row.estimate
    is_by_clusters = row.cluster_accuracy is not None or (row.ci_method and "cluster" in row.ci_method)
    return percent(value), interval(low, high) + (_BY_CLUSTERS if is_by_clusters else "")


def _not_correct(
    facts: RunMetadata, records: Sequence[VerdictRecord], model: str, benchmark: str
) -> list[str]:
    """Return some items that are not correct, with a heading; controls, which must not be solved, are left out."""
    known = facts_of(benchmark, facts)
    controls = known.controls if known is not None else ()
    own = [r for r in records if (r.model, r.benchmark) == (model, benchmark) and r.task not in controls]
    samples = Counter(r.id for r in own)
    not_correct = Counter(r.id for r in own if r.status != "correct")
    #: the first sample of each item that is not correct
    bad = list({r.id: r for r in reversed(own) if r.status != "correct"}.values())[::-1]
    if not bad:
        return []
    lines = ["", f"not correct: {counted(len(bad), 'item')} of {benchmark} · {model}"]
    # Evenly spaced, so that they are of many tasks.
    step = max(1, len(bad) / ITEMS_SHOWN)
    for record in (bad[int(n * step)] for n in range(min(len(bad), ITEMS_SHOWN))):
        given = f", given {one_line(record.given, 90)!r}" if record.given else ""
        expected = f": expected {one_line(record.expected, 90)!r}{given}" if record.expected else ""
        of = f" ({not_correct[record.id]} of {samples[record.id]} samples not correct)"
        which = f"{record.id}{of if samples[record.id] > 1 else ''}"
        reason = f" ({one_line(record.reason, 90)})" if record.reason else ""
        lines.append(f"  {record.status} {which}{expected}{reason}")
    if len(bad) > ITEMS_SHOWN:
        lines.append(
            f"  … and {count(len(bad) - ITEMS_SHOWN)} more in verdicts.jsonl (pytest -rfx lists all)"
        )
    return lines


def _calls(facts: RunMetadata) -> list[str]:
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
        *([f"{count(calls.adopted)} from batches of another run"] if calls.adopted else []),
        *([f"{count(calls.joined)} joined to an equal one"] if calls.joined else []),
        counted(calls.retries, "retry", "retries"),
        *([f"{count(calls.refused)} refused by a rate limit"] if calls.refused else []),
        f"{'≈' if calls.estimated else ''}{count(calls.prompt_tokens)}+{count(calls.completion_tokens)} tokens"
        + (f" ({count(calls.cached_tokens)} cached)" if calls.cached_tokens else ""),
    ]
    if calls.sent:
        parts.append(f"{facts.cost_text}{price_sources([facts])}")
    if calls.cache_hits and calls.oldest_seconds:
        parts.append(f"oldest stored reply {duration(calls.oldest_seconds)} old")
    return [*(in_process or [""]), "calls: " + ", ".join(parts)]


def old_replies(old: OldReplies) -> list[str]:
    """Return what the headline of a model says about stored replies that it might give no longer."""
    if not old.older_than_a_day:
        return []
    age = duration(old.oldest_seconds)
    return [f"stored replies of an unpinned model, up to {age} old: {count(old.older_than_a_day)}"]


def _stored_samples(facts: RunMetadata) -> list[str]:
    """Return a note on samples that cannot differ: those of an earlier run, and repeats at temperature 0."""
    calls = facts.calls
    note = ""
    if calls.requests and not calls.sampled and any(row.has_repeats for row in facts.summary):
        note = (
            "note: every request had temperature 0, so the samples of an item differ only as far as the server is not"
            " deterministic; --llm-param temperature=0.7 samples at another temperature"
        )
    elif calls.sampled_earlier:
        share = percent(calls.sampled_earlier / calls.sampled)
        note = (
            f"note: {count(calls.sampled_earlier)} of {count(calls.sampled)} ({share}) replies at a temperature above"
            " 0, or the model's default, are stored ones of an earlier run, so this part repeats its results;"
            " --llm-cache refresh samples again, --llm-repeats N takes N samples per item"
        )
    return [note] if note else []


def list_lines(runs: Sequence[Listed], width: int) -> list[str]:
    """Return one row per run, or two lines per run if the table is wider than ``width``.

    Accuracy is the share of a model's correct items among all answered items, over all tasks except controls. If
    clusters of a benchmark count once, each is one item with the mean score of its items.
    """
    rows = [tuple(map(terminal_line, _cells(run))) for run in runs]
    lines = aligned_table([HEADER, *rows])
    if max(map(len, lines)) > width:
        lines = []
        for name, *cells in rows:
            items = f"{cells[3]} items"
            gate = f"gate {cells[6]}" if cells[6] else ""
            shown = [c for c in (*cells[:3], items, *cells[4:6], gate) if c and not c.startswith("-")]
            lines += [f"  {name}", "    " + " · ".join(shown)]
    problems = [f"  {run.folder.name}: {run.problem}" for run in runs if run.problem]
    return lines + ([""] + [terminal_line(p) for p in problems] if problems else [])


def _cells(run: Listed) -> tuple[str, ...]:
    baseline = run.folder.parent.name == BASELINES.name
    name = f"{BASELINES}/{run.folder.name}" if baseline else run.folder.name
    if run.facts is None:
        return (name, "-", "-", "-", "-", "-", run.state, "")
    summary, gate = run.facts.summary, run.facts.gate
    counted = headline(summary, run.facts)
    pooled = (pooled_accuracy(row for row in counted if row.model == model) for model in run.facts.models)
    accuracies = ["-" if share is None else percent(share) for share in pooled]
    return (
        name,
        run.facts.started[:16].replace("T", " ") or "-",
        ", ".join(run.facts.models) or "-",
        ", ".join(dict.fromkeys(row.benchmark for row in summary)) or "-",
        str(sum(row.items for row in summary)),
        ", ".join(accuracies) or "-",
        run.state,
        gate.decision if gate is not None else "",
    )


def show_lines(run: Run, width: int = UNLIMITED) -> list[str]:
    """Return the facts of one run, then its final summary.

    :param width: columns to wrap to.
    """
    facts = run.facts
    lines = [f"{run.run_id} ({run.state})"]
    # The first two are in this heading.
    lines += [f"  {name}: {value}" for name, value in run_facts(run)[2:]]
    command = facts.options.get("command")
    if isinstance(command, list):
        lines.append(f"  Command: pytest {' '.join(map(str, command))}")
    if facts.gate is not None:
        lines.append(f"  Gate: {facts.gate.line}")
    lines += [f"  A gate does not judge this record: {line}" for line in run.problems]
    # The reader's notes say what is missing; they also cover killed runs.
    shown = replace(facts, complete=True)
    summary = summary_lines(shown, run.records, run.folder, [*facts.notes, *run.notes], width)
    lines = [part for line in lines for part in wrapped(terminal_line(line), width)]
    return lines + summary + search_lines(facts.searches, run.searches)


def price_sources(runs: Iterable[RunMetadata]) -> str:
    """Return where the prices of the runs are from, in brackets; empty without prices."""
    sources = dict.fromkeys(source for facts in runs if facts.calls.amount for source in facts.price_sources)
    return f" (prices: {'; '.join(sources)})" if sources else ""


def run_facts(run: Run) -> list[tuple[str, str]]:
    """Return how a run was made, as (name, value) pairs."""
    facts = run.facts
    rows = [("Run", run.run_id), ("State", run.state), ("Started", facts.started)]
    rows += [("Finished", facts.finished)] if facts.finished else []
    rows += (
        [("Promoted from", f"{facts.promoted_from} at {facts.promoted_at}")] if facts.promoted_from else []
    )
    models = [(f"Model {label}", model) for label, model in facts.models.items()]
    models += [(f"Helper {role}", helper) for role, helper in facts.helpers.items()]
    rows += [(name, _flat({"spec": one.spec, **plain(one)}, zeros=False)) for name, one in models]
    rows += [
        (f"Deviations of {label}", "; ".join(texts)) for label, texts in facts.deviations.items() if texts
    ]
    recorded = {r.benchmark for r in run.records}
    rows += [(f"Protocol of {n}", _flat(plain(p))) for n, p in facts.protocols.items() if n in recorded]
    rows.append(("Calls", _flat(plain(facts.calls), zeros=False) or "none"))
    rows.append(("Cost", facts.cost_text + price_sources([facts])))
    options = {
        k: v for k, v in facts.options.items() if v not in (None, [], {}, False, "") and k != "command"
    }
    rows += [("Options", _flat(options))] if options else []
    rows += [("Versions", _flat(facts.versions))] if facts.versions else []
    rows += [("Commit", _flat(plain(facts.git)))] if facts.git is not None else []
    folders: dict[str, list[str]] = {}
    for path, digest in facts.data.items():
        folder, _, file = path.rpartition("/")
        folders.setdefault(folder or ".", []).append(f"{file} {digest[:12]}")
    rows += [(f"Data of {folder}", ", ".join(files)) for folder, files in folders.items()]
    return [(one_line(name, 200), one_line(value, 4000)) for name, value in rows]


def _flat(value: Any, *, zeros: bool = True) -> str:
    """Return nested values on one line: ``name quick, settings (k 14, cot no)``; empty ones are left out.

    :param zeros: also 0 and false.
    """
    if isinstance(value, Mapping):
        texts = {name: _flat(member, zeros=zeros) for name, member in value.items()}
        nested = {name for name, member in value.items() if isinstance(member, Mapping)}
        return ", ".join(
            f"{n} ({text})" if n in nested else f"{n} {text}" for n, text in texts.items() if text
        )
    if isinstance(value, list | tuple):
        return "; ".join(_flat(member) for member in value)
    if value is None or (value == 0 and not zeros):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)
