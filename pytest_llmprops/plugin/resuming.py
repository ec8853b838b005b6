"""``--llm-resume``: which verdicts of an earlier run stay, and whether this session is the same run."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO

from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.texts import first_names
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.whole_files import replacing
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.plugin.options import RunOptions, changed_options
from pytest_llmprops.records.messages import AlreadyMeasured, CollectionMetadata
from pytest_llmprops.records.rows import SearchRecord
from pytest_llmprops.records.run import CallFacts, RunMetadata
from pytest_llmprops.runs.integrity import REQUESTS, UNFINISHED
from pytest_llmprops.runs.json_lines import open_record_file
from pytest_llmprops.runs.merge import (
    SAME_OPTIONS,
    logged_calls,
    merged_deviations,
    merged_models,
    merged_problem,
    summed_calls,
)
from pytest_llmprops.runs.reader import Run, read_facts, read_run
from pytest_llmprops.runs.record import check_no_links, lock_verdicts, utc_now, versions

RESUMED = "resumed at "


def resumes_batches(settings: RunOptions) -> bool:
    """Return True if the folder of ``--llm-run`` has a run that waits for batches, which the same command continues."""
    if settings.run is None or settings.resume or not (Path(settings.run) / "run.json").is_file():
        return False
    try:
        return not read_facts(Path(settings.run)).complete
    except LLMPropsError:
        return False


@dataclass(frozen=True)
class PreviousRun:
    """The record that a session resumes.

    :param lock: the open file that keeps other processes from writing the record.
    :param calls: the calls so far, also those of a session that was killed.
    """

    run: Run
    lock: IO[bytes]
    calls: CallFacts = field(default_factory=CallFacts)

    @cached_property
    def kept(self) -> AlreadyMeasured:
        """What is not measured again."""
        return AlreadyMeasured(
            frozenset((r.benchmark, r.model, r.id, r.sample) for r in self.kept_verdicts),
            frozenset(search.key for search in self.kept_searches),
        )

    @property
    def facts(self) -> RunMetadata:
        """The facts of the record, as its first run left them."""
        return self.run.facts

    @property
    def started(self) -> float | None:
        """The Unix time at which the run began; None if the record does not have it."""
        started = self.facts.started
        return None if started is None else datetime.datetime.fromisoformat(started).timestamp()

    @property
    def kept_verdicts(self) -> list[VerdictRecord]:
        """The verdicts that stay."""
        return [record for record in self.run.records if record.status != "error"]

    @property
    def kept_searches(self) -> list[SearchRecord]:
        """The searches that stay."""
        return [search for search in self.run.searches if not search.error]

    def first_facts(self, now: RunMetadata) -> RunMetadata:
        """Return the facts to begin with: those of the record, for the cases and with the versions of this session."""
        return replace(
            now,
            run_id=self.facts.run_id,
            started=self.facts.started or now.started,
            models=self.facts.models,
            helpers={**now.helpers, **self.facts.helpers},
            options=self.facts.options,
            # A session that is killed leaves this file.
            calls=self.calls,
        )

    def notes(self) -> list[str]:
        """Return the notes on this and earlier parts of the run."""
        facts = self.facts
        notes = [note for note in facts.notes if note.startswith(RESUMED)]
        of = len(self.run.records) - len(self.kept.cases)
        notes.append(
            f"{RESUMED}{utc_now()}: {len(self.kept.cases)} verdicts kept, {of} errors measured again"
        )
        changed = [
            f"{name} {version} then, {facts_now} now"
            for name, version in facts.versions.items()
            if (facts_now := versions().get(name, "none")) != version
        ]
        if changed:
            notes.append(f"resumed with other versions: {'; '.join(changed)}")
        return notes

    def merged(self, facts: RunMetadata) -> RunMetadata:
        """Return the facts of the whole run from those of this session."""
        before = self.facts
        return replace(
            facts,
            calls=summed_calls(self.calls, facts.calls),
            models=merged_models(before.models, facts.models),
            helpers=merged_models(before.helpers, facts.helpers),
            deviations=merged_deviations(before.deviations, facts.deviations),
        )

    def changed_models(self, facts: RunMetadata) -> list[str]:
        """Return one line for each model whose version changed since the record was begun."""
        return [
            f"{label} is not the version that gave the earlier verdicts; measure again with a new --llm-run"
            for label, model in facts.models.items()
            if (before := self.facts.models.get(label)) is not None
            and None not in (before.identity, model.identity)
            and before.identity != model.identity
        ]

    def close(self) -> None:
        """Release the record; safe to call twice."""
        self.lock.close()


def read_earlier(
    settings: RunOptions, models: Mapping[str, ModelSpec], helpers: Mapping[str, ModelSpec]
) -> PreviousRun:
    """Read the record of ``--llm-run``, and keep others from writing it.

    :param models: the models under test by label. :param helpers: by role.
    :raises UsageError: if there is nothing to resume, or the options are not those of the record.
    :raises DataError: if the record is damaged.
    """
    if settings.run is None:
        raise UsageError("--llm-resume: name the run to resume: --llm-run DIR")
    folder = Path(settings.run)
    where = _where(folder)
    if not os.path.lexists(folder / "run.json"):
        raise UsageError(f"{where}: has no run.json, so it is not a run; leave out --llm-resume to begin one")
    check_no_links(folder)
    lock = lock_verdicts(folder)
    try:
        run = read_run(folder)
        if problem := merged_problem(run.facts):
            raise UsageError(f"{where}: {problem}")
        before = {label: model.spec for label, model in run.facts.models.items()}
        now = {label: spec.text for label, spec in models.items()}
        if before != now:
            raise UsageError(
                f"{where}: measures {', '.join(before.values())}, not {', '.join(now.values())}; name the same"
                " models, or use a new folder"
            )
        for role, helper in run.facts.helpers.items():
            text = helpers[role].text if role in helpers else "none"
            if text != helper.spec:
                raise UsageError(
                    f"{where}: its helper for {role} is {helper.spec}, not {text}; name the same helpers, or use a new"
                    " folder"
                )
        options = {**SAME_OPTIONS, "shard": "--llm-shard"}
        for changed in changed_options(run.facts.options, settings, options):
            raise UsageError(f"{where}: has {changed}; use the same options, or a new folder")
        if run.facts.complete and not run.has_errors:
            raise UsageError(f"{where}: is complete and has no errors, so there is nothing to run")
        if run.facts.promoted_from:
            raise UsageError(f"{where}: is a baseline; resume the run {run.facts.promoted_from}")
        for problem in run.problems:
            if problem != UNFINISHED and not _is_mended(problem):
                raise UsageError(f"{where}: {problem}")
        _cut_incomplete_line(folder / REQUESTS)
        calls = _calls_of(run)
    except BaseException:
        lock.close()
        raise
    return PreviousRun(run, lock, calls)


def _calls_of(run: Run) -> CallFacts:
    """Return the calls so far; those of a session that was killed are read from its log."""
    log, calls = run.folder / REQUESTS, run.facts.calls
    if run.facts.finished is None:
        calls = summed_calls(calls, logged_calls(run.folder, calls.counted_bytes))
    return replace(calls, counted_bytes=log.stat().st_size if log.exists() else 0)


def check_cases(
    folder: Path, facts: RunMetadata, kept: AlreadyMeasured, collection: CollectionMetadata
) -> None:
    """Check that the collected cases are those of the record.

    :param facts: the facts of the record. :param kept: what it keeps.
    :raises UsageError: if protocol, data or selection differ.
    """
    where = _where(folder)
    for name, protocol in collection.protocols.items():
        if name in facts.protocols and facts.protocols[name] != protocol:
            raise UsageError(
                f"{where}: its protocol of {name} differs; use the same options, or a new folder"
            )
    changed = [name for name, digest in facts.data.items() if collection.data.get(name, digest) != digest]
    if changed:
        raise UsageError(
            f"{where}: the data changed since then ({first_names(changed)}); restore the files, or use a new folder"
        )
    unselected = len(kept.cases) - collection.kept
    expected = facts.expected if facts.expected else collection.cases
    if unselected or expected != collection.cases:
        why = (
            f"{unselected} of its verdicts are on items that are not selected now"
            if unselected
            else f"it selected {expected} cases, and {collection.cases} are selected now"
        )
        raise UsageError(f"{where}: {why}; select the same tests, or use a new folder")


def _where(folder: Path) -> str:
    return f"--llm-resume {folder}"


def _is_mended(problem: str) -> bool:
    """Return True if the record has several verdicts on an item, of which the last one stays."""
    return "has several verdicts on" in problem


def _cut_incomplete_line(path: Path) -> None:
    """Remove the last line of a killed run's file if it is incomplete, so that lines can be appended."""
    try:
        with open_record_file(path) as file:
            raw = file.read()
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    whole = raw[: raw.rfind(b"\n") + 1]
    if len(whole) < len(raw):
        with replacing(path) as draft:
            draft.write_bytes(whole)
