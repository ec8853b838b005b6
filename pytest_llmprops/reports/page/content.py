"""Computing the content of a report from recorded runs, without input or output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_llmprops.core.numbers import cost, usd
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.request_records import RequestRecord
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.kit.benchmarks import section_of
from pytest_llmprops.reports.kit.blocks import Headline, Report
from pytest_llmprops.reports.kit.series import Measured, Series, series_of
from pytest_llmprops.reports.kit.text import counted, joined
from pytest_llmprops.reports.page.costs import cost_section
from pytest_llmprops.reports.page.findings import findings
from pytest_llmprops.reports.page.items import items_of
from pytest_llmprops.reports.page.upgrade import upgrade_of
from pytest_llmprops.reports.published import ranked
from pytest_llmprops.reports.terminal import old_replies
from pytest_llmprops.runs.pairs import differences
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.reviews import Review

SOURCES = {
    "builtin": "builtin (the benchmark's own)",
    "published": "published (the authors')",
    "generated": "generated",
}


def report_on(
    runs: Sequence[Run],
    requests: Mapping[int, Mapping[str, RequestRecord]],
    marks: Sequence[Review] = (),
) -> Report:
    """Return the report of one or several runs. Each model of each run is a series.

    :param requests: the logged requests of each run by ``id(run)``.
    :param marks: the review marks beside the runs.
    """
    series = series_of(runs)
    names = list(dict.fromkeys(benchmark for s in series for benchmark in s.benchmarks))
    parts = [Measured(name, tuple(s for s in series if name in s.benchmarks)) for name in names]
    sentences = [_sentence(text) for text in findings(parts, series)]
    items, spending = items_of(series, requests, marks)
    costs = cost_section(parts, series, spending.by_task)
    return Report(
        title=sentences[0],
        findings=tuple(sentences[1:]),
        facts=tuple(_facts(runs, series)),
        gates=tuple((run.run_id, gate) for run in runs if (gate := run.facts.gate) is not None),
        warnings=tuple(_warnings(runs, series, names)),
        overview=tuple(h for part in parts for h in _headlines(part)),
        series=tuple(s.starred for s in series),
        sections=(*(section_of(part) for part in parts), *([costs] if costs else [])),
        runs=tuple((run.run_id, run_facts(run)) for run in runs),
        items=items,
        upgrade=upgrade_of(series),
    )


def _sentence(text: str) -> str:
    """Return the text with a full stop."""
    return text if text.endswith(".") else f"{text}."


def _headlines(measured: Measured) -> list[Headline]:
    tasks = measured.headline_tasks
    headlines = []
    for s in measured.series:
        share = measured.accuracy(s, tasks)
        if share is None:
            continue
        best = _best(measured, s, tasks)
        headlines.append(
            Headline(
                measured.benchmark,
                measured.facts.title,
                s.index,
                s.starred,
                share.value,
                share.low,
                share.high,
                share.n,
                measured.facts.chance_of(),
                best,
                _rest_of(measured.records(s, tasks)),
            )
        )
    return headlines


def _rest_of(records: Sequence[VerdictRecord]) -> str:
    """Return the counts of other statuses: ``3 refused, 2 unparsed, 1 error``; empty without any."""
    counts = {name: sum(r.status == name for r in records) for name in ("refused", "unparsed", "error")}
    return ", ".join(
        f"{n:,} {name}{'s' if name == 'error' and n > 1 else ''}" for name, n in counts.items() if n
    )


def _best(measured: Measured, series: Series, tasks: list[str]) -> tuple[str, float] | None:
    """Return model and value of the best published figure for the headline; None if the paper has none."""
    languages = {code for task, code, _ in measured.places if task in tasks}
    printed_task = measured.facts.printed_task
    if not printed_task or len(languages) != 1:
        return None
    protocol = series.protocol(measured.benchmark)
    printed = ranked(measured.benchmark, printed_task, languages.pop(), protocol)
    return (printed[0].model, printed[0].value) if printed else None


def _facts(runs: Sequence[Run], series: Sequence[Series]) -> list[tuple[str, str]]:
    items = sum(len(run.records) for run in runs)
    dates = sorted({run.facts.started[:10] for run in runs if run.facts.started})
    sources = list(dict.fromkeys(r.source for run in runs for r in run.records))
    facts = [("Models", joined(list(dict.fromkeys(s.model for s in series))) or "none")]
    facts.append(("Items", f"{items:,} verdicts in {counted(len(runs), 'run')}"))
    if sources:
        facts.append(("Items from", joined([SOURCES.get(name, name) for name in sources])))
    if dates:
        facts.append(("Measured", dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"))
    # Imported runs made no calls.
    costs = [run.facts.calls.cost_usd for run in runs if run.facts.calls.requests]
    if costs:
        known = [c for c in costs if c is not None]
        facts.append(
            (
                "Cost",
                f"{usd(sum(known))}{_rest(len(known), len(costs))}{price_sources(runs)}"
                if known
                else "cost unknown",
            )
        )
    return facts


def price_sources(runs: Sequence[Run]) -> str:
    """Return where the prices of the runs are from, in brackets; empty without prices."""
    sources = dict.fromkeys(s for run in runs if run.facts.calls.cost_usd for s in run.facts.price_sources)
    return f" (prices: {joined(list(sources))})" if sources else ""


def _rest(known: int, every: int) -> str:
    return "" if known == every else f" for {known} of {every} runs with calls"


def _warnings(runs: Sequence[Run], series: Sequence[Series], names: Sequence[str]) -> list[str]:
    ids_by_line: dict[str, list[str]] = {}
    for run in runs:
        for line in _notes(run):
            ids_by_line.setdefault(line, []).append(run.run_id)
    lines = [line if len(ids) == len(runs) else f"{joined(ids)}: {line}" for line, ids in ids_by_line.items()]
    for s in series:
        errors = sum(r.status == "error" for r in s.run.records if r.model == s.model)
        if errors:
            lines.append(
                f"{s.label}: {counted(errors, 'call')} could not be made; they count as errors and are not scored"
            )
    if len(series) == 2 and series[0].run is not series[1].run:
        first, second = (s.run.facts for s in series)
        common = [n for n in names if all(n in s.benchmarks for s in series)]
        lines += [f"The two runs differ: {line}" for line in differences(first, second, common)]
    return [one_line(line, 400) for line in lines]


def _notes(run: Run) -> list[str]:
    """Return the problems of a run that affect its numbers."""
    notes = list(run.notes)
    if run.facts.stopped:
        notes.append(f"stopped: {run.facts.stopped}")
    if not run.facts.complete and not run.notes:
        expected = "?" if run.facts.expected is None else run.facts.expected
        notes.append(f"incomplete: {len(run.records)} of {expected} cases have a verdict")
    for label, model in run.facts.models.items():
        notes += [f"{label}: {phrase}" for phrase in old_replies(model.old_replies)]
    gate = run.facts.gate
    if gate is not None and gate.stopped_early:
        notes.append(f"the gate ended the run early: its estimates are of {gate.items_used} items")
    for benchmark, models in run.facts.not_served.items():
        notes += [f"{n} items of {benchmark} were not served by {model}" for model, n in models.items()]
    return list(dict.fromkeys([*notes, *run.facts.notes]))


def run_facts(run: Run) -> list[tuple[str, str]]:
    """Return how a run was made, as (name, value) pairs."""
    facts = run.facts
    rows = [("Run", run.run_id), ("State", run.state), ("Started", facts.started)]
    rows += [("Finished", facts.finished)] if facts.finished else []
    for label, model in facts.models.items():
        rows.append((f"Model {label}", _flat(model.to_json())))
    for role, helper in facts.helpers.items():
        rows.append((f"Helper {role}", _flat(helper.to_json())))
    for label, deviations in facts.deviations.items():
        if deviations:
            rows.append((f"Deviations of {label}", "; ".join(map(str, deviations))))
    recorded = {r.benchmark for r in run.records}
    for name, protocol in facts.protocols.items():
        if name in recorded:
            rows.append((f"Protocol of {name}", _flat(protocol.to_json())))
    calls = {k: v for k, v in facts.calls.to_json().items() if v not in (None, 0)}
    rows.append(("Calls", _flat(calls) or "none"))
    rows.append(("Cost", cost(facts.calls.requests, facts.calls.cost_usd) + price_sources([run])))
    options = {
        k: v for k, v in facts.options.items() if v not in (None, [], {}, False, "") and k != "command"
    }
    rows += [("Options", _flat(options))] if options else []
    rows += [("Versions", _flat(facts.versions))] if facts.versions else []
    rows += [("Commit", _flat(asdict(facts.git)))] if facts.git is not None else []
    rows += [(f"Data {path}", digest) for path, digest in facts.data.items()]
    return [(one_line(name, 200), one_line(value, 4000)) for name, value in rows]


def _flat(value: Any) -> str:
    """Return nested values on one line: ``name quick, settings (k 14, cot no)``."""
    if isinstance(value, Mapping):
        parts = [f"{k} {_nested(v)}" for k, v in value.items() if v not in (None, "", [], {})]
        return ", ".join(parts)
    if isinstance(value, list | tuple):
        return "; ".join(_flat(v) for v in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _nested(value: Any) -> str:
    return f"({_flat(value)})" if isinstance(value, Mapping) else _flat(value)
