"""Whether two recorded runs measured the same thing, and if not, what differs (DESIGN, "Gate": invalid)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from pytest_llmprops.core.run_facts import RunFacts
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.runs.benchmark_facts import facts_of
from pytest_llmprops.runs.gate_file import Gate
from pytest_llmprops.runs.reader import Run


def unfit(gate: Gate, facts: RunFacts, baseline: Run | None) -> list[str]:
    """Why no rule of the gate can be held against this run and its baseline, a line each; none for most.

    Whether this run is complete is left to the caller, as a sequential gate may have ended it.
    """
    runs: list[tuple[str, RunFacts]] = [("this run", facts)]
    if baseline is not None and gate.needs_baseline:
        runs.append((f"baseline {baseline.run_id}", baseline.facts))
    found = [line for what, those in runs for line in _not_one_model(what, those)]
    if baseline is not None and gate.needs_baseline:
        if not baseline.facts.complete:
            found.append(f"baseline {baseline.run_id} is {baseline.state}; compare with a complete run")
        names = [name for name in facts.protocols if _compared(gate, name)]
        found += differences(baseline.facts, facts, names, deviations=not gate.allow_deviations)
    if not gate.allow_mixed:
        found += [line for what, those in runs for line in _mixed(what, those)]
    return found


def _compared(gate: Gate, benchmark: str) -> bool:
    return any(
        rule.paired and fnmatchcase(benchmark, rule.where.get("benchmark", "*")) for rule in gate.rules
    )


def _not_one_model(what: str, facts: RunFacts) -> list[str]:
    models = list(facts.models)
    if len(models) == 1:
        return []
    return [
        f"{what} holds {len(models)} models ({', '.join(models)}); a gate judges one: record a run for each"
    ]


def _mixed(what: str, facts: RunFacts) -> list[str]:
    return [
        f"{what} mixes replies of {len(served)} served models ({', '.join(served)});"
        " measure again, or say allow_mixed = true"
        for model in facts.models.values()
        if len(served := model.served_as or ()) > 1
    ]


def differences(
    baseline: RunFacts, candidate: RunFacts, benchmarks: Iterable[str], *, deviations: bool = True
) -> list[str]:
    """What makes the two runs (their ``run.json``) not comparable on these benchmarks, a line each.

    Compared are each benchmark's protocol (settings and seed), the request parameters laid over it, the
    helper models, the data files that both read, and what the models' APIs forced. A baseline older than a
    change of data or protocol is named as such. How many items each run has is not compared here.
    """
    benchmarks = list(benchmarks)
    found = [line for name in benchmarks for line in _protocol(baseline, candidate, name)]
    found += _named("request parameter", _params(baseline), _params(candidate))
    found += _named("helper model", _helpers(baseline), _helpers(candidate))
    found += _data(baseline, candidate, benchmarks)
    if deviations:
        ours, theirs = _deviations(candidate), _deviations(baseline)
        found += [f"deviation only of the baseline: {text}" for text in sorted(theirs - ours)]
        found += [f"deviation only of this run: {text}" for text in sorted(ours - theirs)]
    return found


def age(baseline: RunFacts, candidate: RunFacts) -> str:
    """How to speak of a baseline in a difference: by its name, and that it is the older one where it is."""
    name = f"baseline {baseline.run_id}"
    if baseline.started and baseline.started < candidate.started:
        return f"{name} of {baseline.started[:10]} is older than"
    return f"{name} is not of"


def _protocol(baseline: RunFacts, candidate: RunFacts, benchmark: str) -> list[str]:
    theirs, ours = (f.protocols.get(benchmark) for f in (baseline, candidate))
    if theirs is None or ours is None:
        # Without records of the benchmark nothing is paired: its rules say so.
        return []
    changes = []
    if theirs.name != ours.name:
        changes.append(f"protocol {theirs.name} → {ours.name}")
    if theirs.seed != ours.seed:
        changes.append(f"seed {theirs.seed} → {ours.seed}")
    before, after = theirs.settings, ours.settings
    known = facts_of(benchmark, candidate, baseline)
    shown = () if known is None else known.presentation
    changes += [
        f"{name} {before.get(name, '(none)')} → {after.get(name, '(none)')}"
        for name in dict.fromkeys([*before, *after])
        if name not in shown and before.get(name) != after.get(name)
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


def _params(facts: RunFacts) -> Mapping[str, JSON]:
    params = facts.options.get("params")
    return params if isinstance(params, Mapping) else {}


def _helpers(facts: RunFacts) -> Mapping[str, JSON]:
    # An unpinned model's identity does not tell versions apart, but its name always counts.
    return {role: helper.identity or helper.spec for role, helper in facts.helpers.items()}


def _data(baseline: RunFacts, candidate: RunFacts, benchmarks: list[str]) -> list[str]:
    theirs, ours = baseline.data, candidate.data
    concerned = _concerned((baseline, candidate), benchmarks)
    changed = [name for name in theirs if name in ours and theirs[name] != ours[name] and concerned(name)]
    if not changed:
        return []
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return [f"{age(baseline, candidate)} this run's data: {', '.join(changed[:3])}{more} changed"]


def _concerned(runs: Sequence[RunFacts], benchmarks: Iterable[str]) -> Callable[[str], bool]:
    """Return whether a file of ``data`` was read by one of the benchmarks.

    Records of before schema 2 do not say who read a file: there it is the benchmark that its first folder names, and
    where it names none, any.
    """
    read: set[str] = set()
    others: set[str] = set()
    names = set(benchmarks)
    for facts in runs:
        for name, known in facts.benchmarks.items():
            if name in facts.protocols:
                (read if name in names else others).update(known.data)

    def concerned(file: str) -> bool:
        if file in read or file in others:
            return file in read
        folder = file.partition(":")[2].partition("/")[0]
        return folder in names or not any(folder in facts.protocols for facts in runs)

    return concerned


def _deviations(facts: RunFacts) -> set[str]:
    # The same bound under its newer name measures the same thing.
    return {
        text
        for texts in facts.deviations.values()
        for text in texts
        if not text.startswith(("max_tokens sent as", "max_completion_tokens sent as"))
    }
