"""A run's values of the figures that a paper prints, and in which respects they are not the paper's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from pytest_llmprops.core.texts import visible
from pytest_llmprops.data.published_results import PaperTable, PublishedResult
from pytest_llmprops.records.rows import SummaryRow
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.reader import Run

#: the end of a metric's name if the paper prints a lower bound of it
AT_LEAST = "_lower_bound"
#: number of A/B tasks of H-TEST, which an average needs
_TASKS = 10


def own_results(table: PaperTable, run: Run) -> Iterator[PublishedResult]:
    """Yield a run's values of the table's figures, for each of its models.

    Only tables whose rows are models have them; the report's tables show the others.
    """
    if not table.rows.startswith("model"):
        return
    protocol = run.facts.protocols.get(table.paper)
    k = protocol.settings.get("k") if protocol else None
    chosen = [
        f", {name}={visible(str(protocol.settings[name]))}"
        for name in _chosen_settings(table)
        if protocol and name in protocol.settings
    ]
    wanted = dict.fromkeys((r.task, r.language, r.metric, r.setting) for r in table.results)
    for model in run.models:
        label = f"{visible(run.facts.marked(model))}{''.join(chosen)} (yours)"
        for task, language, metric, setting in wanted:
            value, n = _own_value(run, model, table.paper, task, language, metric, setting)
            if value is not None:
                yield PublishedResult(
                    paper=table.paper, table=table.stored, model=label, task=task,
                    metric=metric, value=value, n=n, note="", language=language, k=k if isinstance(k, int) else None,
                    setting=setting,
                )  # fmt: skip


def _chosen_settings(table: PaperTable) -> list[str]:
    """Return the settings in which a table's commands differ, except ``k``, which printed figures have, too."""
    settings = [
        set(re.findall(rf" {table.paper}\.(\w+=\S+)", command)) for command in table.command.split(" && ")
    ]
    differing = set[str]().union(*settings) - set.intersection(*settings)
    return sorted({setting.partition("=")[0] for setting in differing} - {"k"})


def _own_value(
    run: Run, model: str, paper: str, task: str, language: str, metric: str, setting: str
) -> tuple[float | None, int | None]:
    facts = run.facts
    controls = facts.benchmarks[paper].controls if paper in facts.benchmarks else ()
    rows = [
        row
        for row in facts.summary
        if (row.model, row.benchmark) == (model, paper) and language in ("", row.language)
    ]
    if task == "average":
        rows = [row for row in rows if row.task != "letter_geometry" and row.task not in controls]
        if len({row.task for row in rows}) < _TASKS:
            return None, None
    else:
        rows = [row for row in rows if row.task == task]
    name = metric.replace(AT_LEAST, "")
    if name in ("accuracy_min", "accuracy_max"):
        return _extreme_accuracy(facts, rows, max if name == "accuracy_max" else min)
    measured = [row for row in rows if row.accuracy is not None]
    if name in ("accuracy", "standard_error", "unparsed_rate") and not setting:
        if not measured or len({row.source for row in measured}) > 1:
            return None, None
        n = sum(row.answered for row in measured)
        accuracy = fmean(row.accuracy for row in measured if row.accuracy is not None)
        if name == "accuracy":
            return accuracy, n
        if name == "standard_error":
            return (accuracy * (1 - accuracy) / n) ** 0.5, n
        counted = sum(row.samples - row.errors - row.untested for row in measured)
        return sum(row.unparsed for row in measured) / counted, n
    names = [f"authors_{name}", name, f"sentiment_{name}"]
    group = setting.replace("overall", "")
    metrics = [
        row
        for row in facts.metrics
        if (row.model, row.benchmark) == (model, paper)
        and row.task in ("", task)
        and language in ("", row.language)
        and row.name in names
        and row.group.replace("overall", "") == group
    ]
    metrics.sort(key=lambda row: names.index(row.name))
    return (metrics[0].value, metrics[0].n) if metrics else (None, None)


def _extreme_accuracy(
    facts: RunMetadata, rows: Sequence[SummaryRow], choose: Callable[[list[float]], float]
) -> tuple[float | None, int | None]:
    """Return the lowest or highest accuracy of a model's languages, and the number of items.

    The accuracy of a language is its mean over runs, if items had several runs.
    """
    means = {
        (m.model, m.benchmark, m.task, m.language, m.source): m.value
        for m in facts.metrics
        if m.name == "accuracy_mean"
    }
    values = [
        value
        for row in rows
        if (value := means.get((row.model, row.benchmark, row.task, row.language, row.source), row.accuracy))
        is not None
    ]
    return (choose(values), sum(row.answered for row in rows)) if values else (None, None)


def run_notes(table: PaperTable, run: Run) -> Iterator[str]:
    """Say in which respects a run's figures are not the paper's."""
    protocol = run.facts.protocols.get(table.paper)
    if table.paper not in {row.benchmark for row in run.facts.summary}:
        yield f"{run.run_id}: has no {table.paper}."
        return
    if protocol is None:
        yield f"{run.run_id}: imported from a file that does not say the protocol."
    elif protocol.name != "paper":
        yield f"{run.run_id}: protocol {visible(protocol.name)}, not paper."
    if protocol is not None and protocol.is_by_likelihood:
        yield f"{run.run_id}: scored by likelihood; the paper's figures are read from text."
    sources = {row.source for row in run.facts.summary if row.benchmark == table.paper}
    if others := sorted(source for source in sources if not source.startswith("published")):
        yield f"{run.run_id}: items of the source {', '.join(map(visible, others))}; the paper's are the authors'."
    if run.state != "complete":
        yield f"{run.run_id}: {run.state}."
    if errors := sum(row.errors for row in run.facts.summary if row.benchmark == table.paper):
        yield f"{run.run_id}: errors in {errors} verdicts, which are left out."
    selection = run.facts.selection.get(table.paper, {})
    if selection.get("items") != selection.get("of"):
        yield f"{run.run_id}: {selection.get('items')} of {selection.get('of')} items."
