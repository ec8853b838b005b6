"""The contributions of all runs. They are kept under the site, so that a run is read once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.kit.generic import protocol_lines, published_beside
from pytest_llmprops.reports.site.contribution import (
    Contribution,
    Items,
    Verdicts,
    contribution_from,
    items_from,
    name_of,
    packed,
    record_key,
    shares_of,
    to_bytes,
    verdicts_from,
)
from pytest_llmprops.reports.site.decisions import decisions_of, details
from pytest_llmprops.reports.site.drift import same_models
from pytest_llmprops.reports.site.files import SiteFiles
from pytest_llmprops.reports.site.measurements import (
    ModelIndexes,
    SiteRun,
    comparable,
    measured_of,
    measurements_of,
)
from pytest_llmprops.reports.site.trends import trends_of
from pytest_llmprops.runs.integrity import NO_HASHES_IN_SCHEMA_1, VERDICTS
from pytest_llmprops.runs.reader import Run, read_facts, read_run

#: errors of a record in which a value has a type that no version writes
DAMAGED = (TypeError, LookupError, AttributeError, ValueError, OSError)
#: consecutive comparisons share a run; runs of the same items share a list
_KEPT_RUNS, _KEPT_LISTS = 2, 4


class Contributions:
    """Reads runs once and keeps what they add in ``data/runs`` and ``data/items`` of the site.

    At most two runs' verdicts are in memory.
    """

    def __init__(self, files: SiteFiles) -> None:
        self._files = files
        self._items: dict[str, str] = {}
        self.run = lru_cache(maxsize=_KEPT_RUNS)(self._run)
        self._list = lru_cache(maxsize=_KEPT_LISTS)(self._read_list)

    def runs(self, folders: Sequence[Path]) -> list[SiteRun]:
        """Return the runs in these folders, newest first; those that cannot be read come last, with the problem."""
        runs = _without_copies([self._site_run(folder) for folder in folders])
        runs.sort(key=lambda run: (run.started, run.run_id, run.key), reverse=True)
        return runs

    def _site_run(self, folder: Path) -> SiteRun:
        key, facts = name_of(str(folder.name).encode("utf-8", "surrogateescape")), None
        try:
            facts = read_facts(folder)
            key = record_key(folder)
            contribution = self._contribution(folder, key, facts)
            run = SiteRun(folder, key, facts, contribution.problem, contribution.shares)
            check_values(run)
        except DataError as error:
            return SiteRun(folder, key, facts, _problem(folder, str(error)))
        except DAMAGED as error:
            problem = f"the record is damaged ({type(error).__name__}: {error})"
            return SiteRun(folder, key, None, _problem(folder, problem))
        return run

    def _contribution(self, folder: Path, key: str, facts: RunMetadata) -> Contribution:
        # Without hashes in run.json, the verdicts may change while it stays the same.
        is_final = facts.finished is not None and VERDICTS in facts.files
        path = self._path(key)
        if is_final and (content := self._files.read(path)) is not None:
            try:
                contribution, items = contribution_from(content)
            except ValueError:
                pass
            else:
                if not items or self._files.has(f"data/items/{items}"):
                    return self._keep(key, contribution, items)
        run = read_run(folder)
        problem = problem_of(run)
        if problem:
            contribution, verdicts, items = Contribution(_problem(folder, problem)), None, ""
        else:
            contribution, verdicts = Contribution("", shares_of(run)), Verdicts.of(run)
            list_content = packed(verdicts.items)
            items = name_of(list_content)
            self._files.put(f"data/items/{items}", list_content)
        self._files.put(path, to_bytes(contribution, verdicts, items))
        return self._keep(key, contribution, items)

    def _keep(self, key: str, contribution: Contribution, items: str) -> Contribution:
        self._items[key] = items
        self._files.keep(self._path(key))
        if items:
            self._files.keep(f"data/items/{items}")
        return contribution

    @staticmethod
    def _path(key: str) -> str:
        return f"data/runs/{key}"

    def verdicts(self, run: SiteRun) -> Verdicts:
        """Return the verdicts of a run that counts."""
        content = self._files.read(self._path(run.key))
        assert content is not None
        return verdicts_from(content, self._list(self._items[run.key]))

    def _run(self, run: SiteRun) -> Run:
        """Return a run with its verdicts, without texts."""
        assert run.facts is not None
        return Run(run.folder, run.facts, self.verdicts(run).records())

    def _read_list(self, name: str) -> Items:
        content = self._files.read(f"data/items/{name}")
        if content is None or name_of(content) != name:
            raise UsageError(
                f"{self._files.out}: data/items/{name} is damaged; delete the folder and build again"
            )
        return items_from(content)


def check_values(run: SiteRun) -> None:
    """Check that no value of ``run.json`` has a type with which the pages cannot be written.

    A record's hashes do not show that: whoever writes it can compute them.

    :raises Exception: one of :data:`DAMAGED`.
    """
    assert run.facts is not None
    facts = run.facts
    if not all(isinstance(text, str) for text in (facts.run_id, facts.started)):
        raise TypeError("a name or time is not a text")
    details(decisions_of([run]))
    for members in measurements_of([run]).values():
        comparable(members, deviations=True)
        measured = measured_of(members)
        for m, series in zip(members, measured.series, strict=True):
            protocol_lines(series, m.benchmark)
            published_beside(measured, measured.places[0])
            same_models(m, m)
        trends_of(members, ModelIndexes.of(facts.models), {run.key: 0})


def problem_of(run: Run) -> str:
    """Return why a run does not count in tables; empty if it does."""
    if run.writing:
        return "is still being written"
    if run.facts.stopped_by_gate or not run.facts.complete:
        return next(iter(run.notes), "is incomplete")
    # Older records have no hashes. Everything else that is inconsistent may change the numbers.
    return next((line for line in run.problems if line != NO_HASHES_IN_SCHEMA_1), "")


def _problem(folder: Path, text: str) -> str:
    """Return a problem on one line without the folder: paths are private."""
    for place in (folder, folder.resolve()):
        text = text.replace(f"{place}/", "").replace(f"{place}: ", "")
    return one_line(text, 400)


def _without_copies(runs: Iterable[SiteRun]) -> list[SiteRun]:
    """Return each record once: a promoted copy has the id and the verdicts of its original."""
    groups: dict[Any, list[SiteRun]] = {}
    for run in runs:
        facts = run.facts
        digest = "" if facts is None else facts.files.get(VERDICTS, "")
        groups.setdefault((run.run_id, digest) if digest else str(run.folder), []).append(run)
    kept = []
    for members in groups.values():
        members.sort(
            key=lambda run: (bool(run.facts and run.facts.promoted_from), bool(run.problem), run.folder)
        )
        copies = tuple(sorted({run.folder.name for run in members[1:]} - {members[0].folder.name}))
        kept.append(replace(members[0], copies=copies))
    return kept
