"""``llmprops runs list`` and ``runs show``: recorded runs as lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_llmprops.core.numbers import percent
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.texts import one_line, terminal_line
from pytest_llmprops.records.rows import SummaryRow
from pytest_llmprops.records.run import ModelMetadata, ProtocolMetadata
from pytest_llmprops.reports.tables import UNLIMITED, aligned_table, wrapped
from pytest_llmprops.reports.terminal import search_lines, summary_lines
from pytest_llmprops.runs.benchmark_metadata import headline
from pytest_llmprops.runs.catalog import BASELINES, Listed
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.summary import pooled_accuracy

HEADER = ("run", "started (UTC)", "models", "benchmarks", "items", "accuracy", "state", "gate")


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
    summary = run.facts.summary
    gate = run.facts.gate
    return (
        name,
        run.facts.started[:16].replace("T", " ") or "-",
        ", ".join(run.facts.models) or "-",
        ", ".join(dict.fromkeys(row.benchmark for row in summary)) or "-",
        str(sum(row.items for row in summary)),
        ", ".join(_accuracies(run.facts.models, headline(summary, run.facts))) or "-",
        run.state,
        gate.decision if gate is not None else "",
    )


def _accuracies(models: Iterable[str], summary: Sequence[SummaryRow]) -> list[str]:
    pooled = [pooled_accuracy(row for row in summary if row.model == model) for model in models]
    return ["-" if share is None else percent(share) for share in pooled]


def show_lines(run: Run, width: int = UNLIMITED) -> list[str]:
    """Return the facts of one run, then its final summary.

    :param width: columns to wrap to.
    """
    facts = run.facts
    lines = [f"{run.run_id} ({run.state})"]
    lines.append(f"  started {facts.started or '?'}, finished {facts.finished or '-'}")
    if facts.promoted_from:
        lines.append(f"  promoted from {facts.promoted_from} at {facts.promoted_at or '?'}")
    lines += [f"  model {label}: {_model(model)}" for label, model in facts.models.items()]
    lines += [f"  helper {role}: {_model(helper)}" for role, helper in facts.helpers.items()]
    command = facts.options.get("command")
    if isinstance(command, list):
        lines.append(f"  command: pytest {' '.join(map(str, command))}")
    lines += [f"  protocol of {name}: {_protocol(p)}" for name, p in facts.measured_protocols.items()]
    lines += [f"  deviation of {m}: {text}" for m, texts in facts.deviations.items() for text in texts]
    lines.append("  versions: " + ", ".join(f"{name} {v}" for name, v in facts.versions.items()))
    if facts.git is not None:
        dirty = " with uncommitted changes" if facts.git.dirty else ""
        lines.append(f"  git: {facts.git.commit}{dirty}")
    lines += _data(facts.data)
    if facts.gate is not None:
        lines.append(f"  gate: {facts.gate.line}")
    lines += [f"  a gate does not judge this record: {line}" for line in run.problems]
    # The reader's notes say what is missing; they also cover killed runs.
    shown = replace(facts, complete=True)
    summary = summary_lines(shown, run.records, run.folder, [*facts.notes, *run.notes], width)
    lines = [part for line in lines for part in wrapped(terminal_line(line), width)]
    return lines + summary + search_lines(facts.searches, run.searches)


def _model(model: ModelMetadata) -> str:
    parts = [model.spec or "?"]
    if model.imported:
        parts.append("imported")
    if model.identity:
        parts.append(_identity(model.identity) + ("" if model.pinned else " (not pinned)"))
    if model.served_as:
        parts.append(f"served as {', '.join(model.served_as)}")
    return ", ".join(parts)


def _identity(identity: JSON) -> str:
    if not isinstance(identity, Mapping):
        return one_line(str(identity), 90)
    return ", ".join(f"{name} {one_line(str(value), 40)}" for name, value in identity.items())


def _data(files: Mapping[str, str]) -> list[str]:
    """Return one line per folder, with the beginning of each file's sha256."""
    folders: dict[str, list[str]] = {}
    for name, digest in files.items():
        folder, _, file = name.rpartition("/")
        folders.setdefault(folder, []).append(f"{file} {digest[:8]}")
    return [f"  data of {folder or '.'}: {', '.join(entries)}" for folder, entries in folders.items()]


def _protocol(protocol: ProtocolMetadata) -> str:
    changed = f", changed: {', '.join(protocol.overrides)}" if protocol.overrides else ""
    return f"{protocol.name}, seed {protocol.seed}{changed}"
