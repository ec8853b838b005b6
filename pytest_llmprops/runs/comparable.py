"""Whether runs are comparable: what they measured and how, and what the APIs of their models forced."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict

from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.benchmark_metadata import facts_of


def differences(baseline: RunMetadata, candidate: RunMetadata, benchmarks: Iterable[str]) -> list[str]:
    """Return the differences that make two runs incomparable on these benchmarks, one line each.

    These are compared: each benchmark's protocol (settings and seed), the request parameters that override it, the
    helper models, and the data files that both runs read. A line says if the baseline is older than a change of data
    or protocol. The numbers of items are not compared, and neither is what the models' APIs forced
    (:func:`caveats`).

    :param baseline: ``run.json`` of the baseline. :param candidate: ``run.json`` of this run.
    """
    benchmarks = list(benchmarks)
    lines = [line for name in benchmarks for line in _protocol(baseline, candidate, name)]
    lines += _named("request parameter", _params(baseline), _params(candidate))
    lines += _named("helper model", *_compared_helpers(baseline, candidate))
    return lines + _data(baseline, candidate, benchmarks)


#: entries of ``versions`` that do not affect verdicts
_WITHOUT_EFFECT = frozenset({"python", "platform", "pytest", "pytest-xdist"})


def remarks_on_baseline(baseline: RunMetadata, candidate: RunMetadata) -> list[str]:
    """Return what a reader of a decision should know about its baseline, one line each.

    A baseline that is newer than the candidate, and other package versions, do not make two runs incomparable.
    """
    name, lines = f"baseline {baseline.run_id}", []
    # An imported run starts when it is imported.
    is_imported = any(model.imported for model in baseline.models.values())
    if candidate.started and baseline.started > candidate.started and not is_imported:
        lines.append(f"{name} of {baseline.started[:10]} is newer than this run of {candidate.started[:10]}")
    theirs, ours = baseline.versions, candidate.versions
    packages = [
        f"{package} {theirs[package]} → {ours[package]}"
        for package in theirs
        if package not in _WITHOUT_EFFECT and ours.get(package, theirs[package]) != theirs[package]
    ]
    if packages:
        lines.append(f"{name} was measured with other versions: {', '.join(packages)}")
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


#: what a recorded deviation begins with, or ends with, and the words for it
_BEGINNINGS = {
    "temperature left out": "takes no temperature: sampled at its default",
    "temperature from ": "takes only a temperature from ",
    "token budget raised by ": "thinks before it answers: token limits raised by ",
}
_LEFT_OUT = " left out"
#: both names limit the same number of tokens
_SAME = ("max_tokens sent as", "max_completion_tokens sent as")
_HELPER = "helper:"
#: key of ``options`` of an imported run: what its file does not say
UNSAID = "unsaid"


def in_words(label: str, deviation: str) -> str:
    """Return a deviation of a model as a sentence.

    :param label: as in ``deviations`` of ``run.json``: the model's, or ``helper:ROLE``.
    """
    who = f"the helper {label.removeprefix(_HELPER)}" if label.startswith(_HELPER) else label
    for beginning, words in _BEGINNINGS.items():
        if deviation.startswith(beginning):
            return f"{who} {words}{deviation.removeprefix(beginning)}"
    if deviation.endswith(_LEFT_OUT):
        return f"{who} takes no {deviation.removesuffix(_LEFT_OUT)}: left out"
    return f"{who}: {deviation}"


def deviations_of(facts: RunMetadata) -> dict[tuple[str, str], str]:
    """Return the deviations that may change replies: (helper or empty, deviation) -> the sentence.

    That an imported run does not say how it was measured is one, with the key ``(UNSAID, …)``.
    """
    listed = facts.options.get(UNSAID)
    unsaid = ", ".join(map(str, listed)) if isinstance(listed, list | tuple) else ""
    sentence = f"{', '.join(facts.models)}: imported from a file that does not say, so not compared: {unsaid}"
    return ({(UNSAID, unsaid): sentence} if unsaid else {}) | {
        (label if label.startswith(_HELPER) else "", text): in_words(label, text)
        for label, texts in facts.deviations.items()
        for text in texts
        if not text.startswith(_SAME)
    }


def caveats(runs: Iterable[RunMetadata]) -> list[str]:
    """Return the deviations that not all of the runs have, or those of the only run, one sentence each.

    What imported runs do not say is never left out: they may differ in it.

    An API that takes no temperature is not the user's mistake, so runs that differ only in this are comparable.
    """
    found = [deviations_of(facts) for facts in runs]
    shared = set.intersection(*map(set, found)) if len(found) > 1 else set()
    return [
        sentence for own in found for key, sentence in own.items() if key not in shared or key[0] == UNSAID
    ]
