"""The pairs of items that two runs have, and whether the runs are comparable."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.items import Placed, PlacedItem
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.texts import first_names
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.benchmark_metadata import (
    IsWeighted,
    TasksByAnswer,
    facts_of,
    tasks_by_answer,
)
from pytest_llmprops.runs.caveats import deviations_of
from pytest_llmprops.runs.gate.file import Gate, Rule
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.statistics.bounded_mean import cluster_means

if TYPE_CHECKING:
    from pytest_llmprops.statistics.paired import Pairs


class TaskKey(NamedTuple):
    """One benchmark, task, language and source."""

    benchmark: str
    task: str
    language: str
    source: str


class ItemKey(NamedTuple):
    """One item: records of two runs with the same key are paired."""

    benchmark: str
    task: str
    language: str
    source: str
    id: str

    @property
    def task_key(self) -> TaskKey:
        """The key of the item's task."""
        return TaskKey(*self[:4])


@dataclass(frozen=True, slots=True)
class Pair:
    """One item with an answer in both runs; scores are the share of its samples that are correct."""

    key: ItemKey
    cluster: str
    baseline: float
    candidate: float


@dataclass(frozen=True, slots=True)
class Paired:
    """The items of two runs.

    :param pairs: items that both runs have an answer to.
    :param missing: items of the baseline that the candidate has no record of.
    :param added: items of the candidate that the baseline has no record of.
    :param errors: items that both runs have, with an error in at least one.
    """

    pairs: list[Pair]
    missing: list[ItemKey]
    added: list[ItemKey]
    errors: list[ItemKey]

    def of_tasks(self, task_keys: Collection[TaskKey]) -> Paired:
        """Return the items of these tasks."""
        return Paired(
            [pair for pair in self.pairs if pair.key.task_key in task_keys],
            *(
                [key for key in keys if key.task_key in task_keys]
                for keys in (self.missing, self.added, self.errors)
            ),
        )


def with_tasks_of(
    records: Iterable[VerdictRecord], others: Iterable[PlacedItem], decided: TasksByAnswer | None = None
) -> list[VerdictRecord]:
    """Return ``records``, each with the task that the same item has in ``others``.

    If a task depends on the answer (``Benchmark.tasks_by_answer``), an item may have different tasks for two models.
    The task of other items does not change.

    :param others: records or cases.
    :param decided: the tasks that depend on the answer, by benchmark; by default those of the installed benchmarks.
    """
    decided = decided or tasks_by_answer()
    records = list(records)
    # A gate calls this for each rule, mostly without such a benchmark.
    names = {name for name in {r.benchmark for r in records} if decided(name)}
    if not names:
        return records
    tasks = {_without_task(r): r.task for r in others if r.benchmark in names}
    moved = []
    for record in records:
        task = tasks.get(_without_task(record), record.task)
        if task != record.task and {task, record.task} <= set(decided(record.benchmark)):
            record = replace(record, task=task)
        moved.append(record)
    return moved


def with_one_task(
    records: Iterable[VerdictRecord], decided: TasksByAnswer | None = None
) -> list[VerdictRecord]:
    """Return ``records``, in which all samples of an item have the same task.

    If a task depends on the answer, samples of an item may have different tasks. The most frequent one counts; of
    equally frequent ones, that of the first sample.

    :param decided: as for :func:`with_tasks_of`.
    """
    records = list(records)
    if all(r.sample == 0 for r in records):
        return records
    tasks: dict[tuple[str, ...], Counter[str]] = {}
    for r in records:
        tasks.setdefault((r.model, *_without_task(r)), Counter())[r.task] += 1
    most = {key: counts.most_common(1)[0][0] for key, counts in tasks.items() if len(counts) > 1}
    decided = decided or tasks_by_answer()
    return [
        replace(r, task=task)
        if (task := most.get((r.model, *_without_task(r)))) and {task, r.task} <= set(decided(r.benchmark))
        else r
        for r in records
    ]


def _without_task(record: PlacedItem) -> tuple[str, str, str, str]:
    return record.benchmark, record.language, record.source, record.id


def pair_records(
    baseline: Iterable[VerdictRecord],
    candidate: Iterable[VerdictRecord],
    decided: TasksByAnswer | None = None,
) -> Paired:
    """Pair the records of two models by benchmark, task (the candidate's), language, source and id.

    Samples of an item are averaged first, without errors and untested ones. An item without an answer in one of the
    runs counts as an error if a sample is one; otherwise it is untested, and left out. The results are in the
    baseline's order.

    :param decided: as for :func:`with_tasks_of`.
    """
    candidate = with_one_task(candidate, decided)
    before, after = by_item(with_tasks_of(baseline, candidate, decided)), by_item(candidate)
    paired = Paired([], [], [key for key in after if key not in before], [])
    for key, records in before.items():
        others = after.get(key)
        if others is None:
            paired.missing.append(key)
            continue
        old, new = _share(records), _share(others)
        if old is not None and new is not None:
            paired.pairs.append(Pair(key, records[0].cluster, old, new))
        elif any(r.status == "error" for r in (*records, *others)):
            paired.errors.append(key)
    return paired


def by_item(records: Iterable[VerdictRecord]) -> dict[ItemKey, list[VerdictRecord]]:
    """Group records by item; a group has an item's samples."""
    items: dict[ItemKey, list[VerdictRecord]] = {}
    for r in records:
        key = ItemKey(r.benchmark, r.task, r.language, r.source, r.id)
        items.setdefault(key, []).append(r)
    return items


def _share(records: Sequence[VerdictRecord]) -> float | None:
    answered = [r.status == "correct" for r in records if r.status not in UNANSWERED]
    return sum(answered) / len(answered) if answered else None


def task_key_of(row: Placed) -> TaskKey:
    """Benchmark, task, language and source of a summary row or a record."""
    return TaskKey(row.benchmark, row.task, row.language, row.source)


def cluster_label(benchmark: str, source: str, cluster: str) -> str:
    """Return a name of a cluster that no cluster of another benchmark or source has."""
    return f"{benchmark} {source} {cluster}"


def score_pairs(pairs: Sequence[Pair], is_weighted: IsWeighted) -> Pairs:
    """Return the scores and clusters of the pairs, as the functions of ``core`` need them.

    If the clusters of a benchmark count once, its pairs are one per cluster, with the mean scores of its items.

    :param is_weighted: says so for a benchmark (:func:`~pytest_llmprops.runs.benchmark_metadata.cluster_weighted`).
    """
    from pytest_llmprops.statistics.paired import Pairs

    averaged = [p for p in pairs if is_weighted(p.key.benchmark)]
    items = [p for p in pairs if not is_weighted(p.key.benchmark)]
    labels = [cluster_label(p.key.benchmark, p.key.source, p.cluster) for p in averaged]
    baseline, clusters = cluster_means([p.baseline for p in averaged], labels)
    candidate, _ = cluster_means([p.candidate for p in averaged], labels)
    return Pairs(
        (*(p.baseline for p in items), *baseline),
        (*(p.candidate for p in items), *candidate),
        (*(cluster_label(p.key.benchmark, p.key.source, p.cluster) for p in items), *clusters),
        "cluster" if averaged and not items else "pair",
    )


def why_not_comparable(
    gate: Gate,
    facts: RunMetadata,
    records: Sequence[VerdictRecord],
    baseline: Run | None,
    problems: Sequence[str] = (),
) -> list[str]:
    """Return the reasons why the gate cannot judge this run against its baseline, one line each.

    The caller checks whether this run is complete.

    :param records: the verdicts of this run. :param problems: what is inconsistent in its record.
    """
    reasons = [f"this run: {line}" for line in problems]
    is_paired = baseline is not None and gate.needs_baseline
    reasons += [*unfit_baseline(gate, baseline), *_unfit("this run", facts, gate)]
    # A promoted copy keeps the id. Runs in a folder that is used again have the same id, but another start.
    if baseline is not None and (baseline.run_id, baseline.facts.started) == (facts.run_id, facts.started):
        reasons.append(f"this run is its own baseline {baseline.run_id}; compare it with another run")
    elif is_paired and baseline is not None and _has_replies_of(baseline, facts, records):
        reasons.append(
            f"all replies of this run are those of baseline {baseline.run_id}, so nothing was measured; name another"
            " candidate, or ask the same one again with --llm-cache refresh"
        )
    if is_paired and baseline is not None:
        paired = [rule for rule in gate.rules if rule.paired]
        names = [name for name in facts.protocols if any(rule.concerns(name) for rule in paired)]
        reasons += differences(baseline.facts, facts, names)
    return reasons


def unfit_baseline(gate: Gate, baseline: Run | None) -> list[str]:
    """Return why no run can be compared with this baseline, one line each; nothing if the gate needs none."""
    if baseline is None or not gate.needs_baseline:
        return []
    name = f"baseline {baseline.run_id}"
    reasons = [f"{name}: {line}" for line in baseline.problems]
    if not baseline.facts.complete:
        reasons.append(f"{name} is {baseline.state}; choose a complete run")
    return reasons + _unfit(name, baseline.facts, gate)


def _unfit(what: str, facts: RunMetadata, gate: Gate) -> list[str]:
    return [*_not_one_model(what, facts), *([] if gate.allow_mixed else _mixed(what, facts))]


def _has_replies_of(baseline: Run, facts: RunMetadata, records: Sequence[VerdictRecord]) -> bool:
    """Return True if each reply of a run was received for its baseline: the same requests, and none asked later.

    The key of a request has the identity of its model, so another model has no key of the baseline.
    """
    newest = [
        [model.newest_reply for model in run.models.values() if model.newest_reply is not None]
        for run in (facts, baseline.facts)
    ]
    if not all(newest) or max(newest[0]) > max(newest[1]):
        return False
    asked = {key for record in records for key in record.requests}
    return bool(asked) and asked <= {key for record in baseline.records for key in record.requests}


def _not_one_model(what: str, facts: RunMetadata) -> list[str]:
    models = list(facts.models)
    if len(models) == 1:
        return []
    return [
        f"{what} holds {len(models)} models ({', '.join(models)}); a gate judges one: record a run for each"
    ]


def _mixed(what: str, facts: RunMetadata) -> list[str]:
    return [
        f"{what} mixes replies of {len(served)} served models ({', '.join(served)});"
        " measure again, or set allow_mixed = true"
        for model in facts.models.values()
        if len(served := model.served_as or ()) > 1
    ]


def differences(baseline: RunMetadata, candidate: RunMetadata, benchmarks: Iterable[str]) -> list[str]:
    """Return the differences that make two runs incomparable on these benchmarks, one line each.

    These are compared: each benchmark's protocol (settings and seed), the request parameters that override it, the
    helper models, and the data files that both runs read. A line says if the baseline is older than a change of data
    or protocol. The numbers of items are not compared, and neither is what the models' APIs forced
    (:func:`~pytest_llmprops.runs.caveats.caveats`).

    :param baseline: ``run.json`` of the baseline. :param candidate: ``run.json`` of this run.
    """
    benchmarks = list(benchmarks)
    lines = [line for name in benchmarks for line in _protocol(baseline, candidate, name)]
    lines += _named("request parameter", _params(baseline), _params(candidate))
    lines += _named("helper model", *_compared_helpers(baseline, candidate))
    return lines + _data(baseline, candidate, benchmarks)


#: entries of ``versions`` that do not affect verdicts
_WITHOUT_EFFECT = frozenset({"python", "platform", "pytest", "pytest-xdist"})


def remarks_on_baseline(
    baseline: RunMetadata, candidate: RunMetadata, benchmarks: Iterable[str]
) -> list[str]:
    """Return what a reader of a decision should know about its baseline, one line each.

    A baseline that is newer than the candidate, other package versions, and protocols and data files that only one of
    the records names do not make two runs incomparable.
    """
    name, lines = f"baseline {baseline.run_id}", []
    if candidate.started and baseline.started > candidate.started:
        lines.append(f"{name} of {baseline.started[:10]} is newer than this run of {candidate.started[:10]}")
    theirs, ours = baseline.versions, candidate.versions
    packages = [
        f"{package} {theirs[package]} → {ours[package]}"
        for package in theirs
        if package not in _WITHOUT_EFFECT and ours.get(package, theirs[package]) != theirs[package]
    ]
    if packages:
        lines.append(f"{name} was measured with other versions: {', '.join(packages)}")
    measured = [{row.benchmark for row in run.summary} for run in (baseline, candidate)]
    both = [benchmark for benchmark in benchmarks if all(benchmark in names for names in measured)]
    concerned = _concerned((baseline, candidate), both)
    for what, one, other, members in (
        ("protocol of", baseline.protocols, candidate.protocols, both),
        ("hash of", baseline.data, candidate.data, filter(concerned, {**baseline.data, **candidate.data})),
    ):
        alone = [member for member in members if (member in one) is not (member in other)]
        if alone:
            side = "this run" if alone[0] in other else name
            lines.append(f"only {side} has the {what} {first_names(alone)}, which was not compared")
    return lines


def comparable_groups(runs: Sequence[RunMetadata], benchmark: str, *, deviations: bool = True) -> list[int]:
    """Return the number of each run's group, from 0. The runs of a group have no :func:`differences` on a benchmark.

    A run joins the first group that it fits, in the order of ``runs``.

    :param deviations: the runs of a group also have the same deviations.
    """

    def fits(one: RunMetadata, other: RunMetadata) -> bool:
        alike = not deviations or deviations_of(one).keys() == deviations_of(other).keys()
        return alike and not differences(one, other, [benchmark])

    numbers: dict[str, int] = {}
    groups: list[list[RunMetadata]] = []
    for facts in runs:
        key = _settings_key(facts, benchmark)
        if key not in numbers:
            fitting = (
                number
                for number, members in enumerate(groups)
                if all(fits(member, facts) for member in members)
            )
            numbers[key] = next(fitting, len(groups))
            groups += [[]] * (numbers[key] == len(groups))
            groups[numbers[key]] = [*groups[numbers[key]], facts]
    return [numbers[_settings_key(facts, benchmark)] for facts in runs]


def _settings_key(facts: RunMetadata, benchmark: str) -> str:
    """Return a text that is different for runs that differ. Equal runs may have different texts."""
    protocol = facts.protocols.get(benchmark)
    read = {name: [*known.data, *known.presentation] for name, known in facts.benchmarks.items()}
    parts = [
        None if protocol is None else asdict(protocol), dict(_params(facts)), dict(_helpers(facts)),
        dict(facts.data), sorted(deviations_of(facts)), read, sorted(facts.protocols),
    ]  # fmt: skip
    return json.dumps(parts, sort_keys=True, default=str)


def unlike_items(rule: Rule, baseline: RunMetadata, selected: Iterable[PlacedItem]) -> str:
    """Return why too many items of a rule that compares cannot be paired; empty if enough may be.

    It compares the numbers of items by task, so it needs no verdicts of the baseline.

    :param selected: the items of the run; an item may occur several times.
    """
    decided = tasks_by_answer(baseline)
    benchmarks = {row.benchmark for row in baseline.summary}
    if "task" in rule.where and any(rule.concerns(name) and decided(name) for name in benchmarks):
        # Only the answers decide which items are the rule's.
        return ""

    def group(place: Placed) -> tuple[str, ...]:
        task = "" if decided(place.benchmark) else place.task
        return place.benchmark, task, place.language, place.source

    ours, theirs = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    items = {(group(place), place.id) for place in rule.select(selected)}
    ours.update(where for where, _ in items)
    for row in baseline.summary:
        if rule.matches(row):
            theirs[group(row)] += row.items
    missing, added = (theirs - ours).total(), (ours - theirs).total()
    # The gate itself says why a rule has no items, for example because no model serves them.
    if not ours or missing + added <= rule.max_errors * (ours | theirs).total():
        return ""
    return f"baseline {baseline.run_id} has {theirs.total():,} items of {rule.name}, and {ours.total():,} are selected"


def age(baseline: RunMetadata, candidate: RunMetadata) -> str:
    """Return the beginning of a line about a difference: the baseline's name, and whether it is older."""
    name = f"baseline {baseline.run_id}"
    if baseline.started and baseline.started < candidate.started:
        return f"{name} of {baseline.started[:10]} is older than"
    return f"{name} was not measured with"


def _protocol(baseline: RunMetadata, candidate: RunMetadata, benchmark: str) -> list[str]:
    theirs, ours = (f.protocols.get(benchmark) for f in (baseline, candidate))
    if theirs is None or ours is None:
        # Only one run measured the benchmark, so nothing is paired. The rules report that.
        return []
    changes = []
    if theirs.name != ours.name:
        changes.append(f"protocol {theirs.name} → {ours.name}")
    if theirs.seed != ours.seed:
        changes.append(f"seed {theirs.seed} → {ours.seed}")
    before, after = theirs.settings, ours.settings
    benchmark_facts = facts_of(benchmark, candidate, baseline)
    presentation = () if benchmark_facts is None else benchmark_facts.presentation
    changes += [
        f"{name} {before.get(name, '(none)')} → {after.get(name, '(none)')}"
        for name in dict.fromkeys([*before, *after])
        if name not in presentation and before.get(name) != after.get(name)
    ]
    if not changes:
        return []
    return [f"{age(baseline, candidate)} this run's protocol of {benchmark}: {', '.join(changes)}"]


def _named(what: str, theirs: Mapping[str, JSON], ours: Mapping[str, JSON]) -> list[str]:
    return [
        f"{what} {name}: {theirs.get(name, '(none)')} in the baseline, {ours.get(name, '(none)')} in this run"
        for name in dict.fromkeys([*theirs, *ours])
        if theirs.get(name) != ours.get(name)
    ]


def _params(facts: RunMetadata) -> Mapping[str, JSON]:
    params = facts.options.get("params")
    return params if isinstance(params, Mapping) else {}


def _helpers(facts: RunMetadata) -> Mapping[str, JSON]:
    # An unpinned model's identity does not tell versions apart, but its name always counts.
    return {role: helper.identity or helper.spec for role, helper in facts.helpers.items()}


def _compared_helpers(
    baseline: RunMetadata, candidate: RunMetadata
) -> tuple[Mapping[str, JSON], Mapping[str, JSON]]:
    """Return the helpers of both runs, without default ones for benchmarks that only one of the runs measured."""
    runs = (baseline, candidate)
    measured = [{row.benchmark for row in facts.summary} for facts in runs]
    given = {role for facts in runs if isinstance(of := facts.options.get("helpers"), Mapping) for role in of}

    def compared(one: int, other: int) -> dict[str, JSON]:
        has_more = not measured[one] <= measured[other]
        return {
            role: model
            for role, model in _helpers(runs[one]).items()
            if role in runs[other].helpers or role in given or not has_more
        }

    return compared(0, 1), compared(1, 0)


def _data(baseline: RunMetadata, candidate: RunMetadata, benchmarks: list[str]) -> list[str]:
    theirs, ours = baseline.data, candidate.data
    concerned = _concerned((baseline, candidate), benchmarks)
    changed = [name for name in theirs if name in ours and theirs[name] != ours[name] and concerned(name)]
    if not changed:
        return []
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return [f"{age(baseline, candidate)} this run's data: {', '.join(changed[:3])}{more} changed"]


def _concerned(runs: Sequence[RunMetadata], benchmarks: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tells whether one of the benchmarks read a file of ``data``.

    Schema 1 does not record which benchmark read a file. There, the first folder of the path names the benchmark; if
    it names none, any benchmark may have read the file.
    """
    read: set[str] = set()
    others: set[str] = set()
    names = set(benchmarks)
    for facts in runs:
        for name, benchmark_facts in facts.benchmarks.items():
            if name in facts.protocols:
                (read if name in names else others).update(benchmark_facts.data)

    def concerned(file: str) -> bool:
        if file in read or file in others:
            return file in read
        folder = file.partition(":")[2].partition("/")[0]
        return folder in names or not any(folder in facts.protocols for facts in runs)

    return concerned
