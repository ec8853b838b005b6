"""What each run adds to a site. It is kept under the site, so that a finished run is read once."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.reports.kit.series import Measured, Series, Share, benchmarks_of, series_of
from pytest_llmprops.reports.page.build import write_file
from pytest_llmprops.reports.page.findings import finding
from pytest_llmprops.reports.site.measurements import Measurement, SiteRun
from pytest_llmprops.runs.integrity import NO_HASHES_IN_SCHEMA_1, REQUESTS, VERDICTS
from pytest_llmprops.runs.json_lines import read_record_file
from pytest_llmprops.runs.pairs import Member
from pytest_llmprops.runs.reader import Run, read_facts, read_run
from pytest_llmprops.runs.readings import REVIEWS
from pytest_llmprops.statistics.judgement import Change

DISTRIBUTION = "pytest-llmprops"
#: changed with every change of what is kept, which is then made again
FORMAT = 4


def record_key(folder: Path) -> str:
    """Return the key of a finished record, which changes with it.

    ``run.json`` has the sha256 of the verdicts and requests, so that they are not read; only their sizes are checked.

    :raises OSError: if there is no ``run.json``.
    """
    paths = [folder / name for name in (VERDICTS, REQUESTS)]
    sizes = [path.lstat().st_size if os.path.lexists(path) else -1 for path in paths]
    digest = hashlib.sha256(f"{version(DISTRIBUTION)} {FORMAT} {sizes} ".encode())
    digest.update(read_record_file(folder / "run.json"))
    if (folder / REVIEWS).exists():
        digest.update(read_record_file(folder / REVIEWS))
    return digest.hexdigest()[:16]


def shares_of(run: Run) -> dict[tuple[str, str], Share]:
    """Return the accuracies by model and benchmark as the report on this run computes them."""
    measured = benchmarks_of(series_of([run]))
    shares = {(s.model, m.benchmark): m.headline(s) for m in measured for s in m.series}
    return {key: share for key, share in shares.items() if share is not None}


class Contributions:
    """Reads runs, and keeps accuracies, problems and comparisons in one file. At most two runs' verdicts are in memory.

    :param path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        known = self._read_known()
        self._known_runs, self._known_results = known.get("runs", {}), known.get("results", {})
        self._runs: dict[str, Any] = {}
        self._results: dict[str, Any] = {}
        self._read = lru_cache(maxsize=2)(read_run)
        self._judgement = lru_cache(maxsize=1)(self._judge)

    def run(self, run: SiteRun) -> Run:
        """Return a run with its verdicts."""
        return self._read(run.folder)

    def _read_known(self) -> dict[str, Any]:
        """Return what an earlier build kept; empty without one, or if it is damaged."""
        try:
            known = json.loads(zlib.decompress(self._path.read_bytes()))
        except (OSError, ValueError, zlib.error):
            return {}
        return known if isinstance(known, dict) else {}

    def save(self) -> None:
        """Keep what this build used for the next one."""
        known = {"runs": self._runs, "results": dict(sorted(self._results.items()))}
        write_file(self._path, zlib.compress(json.dumps(known, sort_keys=True).encode(), 6))

    def runs(self, folders: Sequence[Path]) -> list[SiteRun]:
        """Return the runs in these folders, newest first; those that cannot be read come last, with the problem."""
        runs = _without_copies([self._site_run(folder) for folder in folders])
        runs.sort(key=lambda run: (run.started, run.run_id, run.key), reverse=True)
        return runs

    def result(self, first: Measurement, second: Measurement) -> Change | None:
        """Return the change on the headline tasks from the first measurement to the second; None without any pair."""

        def compute() -> dict[str, Any] | None:
            judged = self._judgement(first.run, first.model, second.run, second.model)
            change = judged.get(Member(second.benchmark, "benchmark", second.benchmark))
            return None if change is None else asdict(change)

        fields = self._kept([first, second], compute)
        return None if fields is None else Change(**fields)

    def finding(self, m: Measurement) -> str:
        """Return the sentence of a report on one measurement."""
        text: str = self._kept([m], lambda: finding(Measured(m.benchmark, (m.series(0, self.run(m.run)),))))
        return text

    def _kept(self, members: Sequence[Measurement], compute: Callable[[], Any]) -> Any:
        """Return what an earlier build computed on these measurements of one benchmark, or compute it."""
        key = json.dumps([members[0].benchmark, *([m.run.key, m.model] for m in members)])
        if key not in self._results:
            known = key in self._known_results
            self._results[key] = self._known_results[key] if known else compute()
        return self._results[key]

    def _judge(
        self, first: SiteRun, baseline: str, second: SiteRun, candidate: str
    ) -> Mapping[Member, Change]:
        """Return the judgement of a model of the second run, with a model of the first as the baseline."""
        before, after = Series(0, "", baseline, self.run(first)), Series(1, "", candidate, self.run(second))
        return before.judgement(after)

    def _site_run(self, folder: Path) -> SiteRun:
        name = os.fsencode(folder.name)
        key, facts = hashlib.sha256(name).hexdigest()[:16], None
        try:
            facts = read_facts(folder)
            key = record_key(folder)
            return self._contribution(SiteRun(folder, key, facts), facts)
        except DataError as error:
            return SiteRun(folder, key, facts, _problem(folder, str(error)))
        except OSError as error:
            return SiteRun(folder, key, facts, str(error.strerror))

    def _contribution(self, run: SiteRun, facts: RunMetadata) -> SiteRun:
        """Return the run with its accuracies, or with the problem for which it does not count."""
        # Without hashes in run.json, the verdicts may change while it stays the same.
        is_final = facts.finished is not None and VERDICTS in facts.files
        kept = self._known_runs.get(run.key) if is_final else None
        if kept is None:
            record = self.run(run)
            problem = _problem(run.folder, problem_of(record))
            shares = {} if problem else shares_of(record)
            kept = {"problem": problem, "shares": [[*key, *asdict(s).values()] for key, s in shares.items()]}
        self._runs[run.key] = kept
        found = {(model, benchmark): Share(*numbers) for model, benchmark, *numbers in kept["shares"]}
        return replace(run, problem=kept["problem"], shares=found)


def problem_of(run: Run) -> str:
    """Return why a run does not count in tables; empty if it does."""
    if run.writing:
        return "is still being written"
    if not run.facts.complete:
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
    groups: dict[object, list[SiteRun]] = {}
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
