"""The contributions of all runs. They are kept under the site, so that a run is read once."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from itertools import accumulate, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.field_types import RECORD_STATUSES, UNANSWERED
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.run_metadata import RunMetadata
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.kit.generic import protocol_lines, published_beside
from pytest_llmprops.reports.kit.series import Measured, Share, series_of
from pytest_llmprops.reports.site.drift import same_models
from pytest_llmprops.reports.site.files import SiteFiles
from pytest_llmprops.reports.site.measurements import (
    ModelIndexes,
    SiteRun,
    comparable,
    decisions_of,
    details,
    measured_of,
    measurements_of,
)
from pytest_llmprops.reports.site.trends import trends_of
from pytest_llmprops.runs.integrity import NO_HASHES_IN_SCHEMA_1, REQUESTS, VERDICTS
from pytest_llmprops.runs.json_lines import read_record_file
from pytest_llmprops.runs.reader import Run, read_facts, read_run
from pytest_llmprops.runs.reviews import FILE as REVIEWS

# What one run adds to a site: its accuracies and the status of each item, without prompts and replies.

DISTRIBUTION = "pytest-llmprops"
#: changed with every change of the files below, which are then written again
FORMAT = 2
#: the fields of a record that name its item
ITEM = ("benchmark", "task", "language", "source", "id", "cluster")
LETTERS = {status: "t" if status == "untested" else status[0] for status in RECORD_STATUSES}
STATUSES = {letter: status for status, letter in LETTERS.items()}


def record_key(folder: Path) -> str:
    """Return the key of a finished record, which changes with it.

    ``run.json`` has the sha256 of the verdicts and requests, so that they are not read; only their sizes are checked.

    :raises OSError: if there is no ``run.json``.
    """
    sizes = [
        path.lstat().st_size if os.path.lexists(path := folder / name) else -1
        for name in (VERDICTS, REQUESTS)
    ]
    digest = hashlib.sha256(f"{version(DISTRIBUTION)} {FORMAT} {sizes} ".encode())
    digest.update(read_record_file(folder / "run.json"))
    with contextlib.suppress(FileNotFoundError):
        digest.update(read_record_file(folder / REVIEWS))
    return digest.hexdigest()[:16]


Items = list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts of a run in the order of its record, one column per field.

    :param items: the fields :data:`ITEM` of every item. :param order: the place of each verdict's item in ``items``.
    :param statuses: one letter of :data:`LETTERS` per verdict.
    :param labels: the models. :param models: the place of each verdict's model in ``labels``; empty for one model.
    :param samples: number of the repeat; empty without repeats.
    """

    items: Items
    order: tuple[int, ...]
    statuses: str
    labels: tuple[str, ...]
    models: tuple[int, ...] = ()
    samples: tuple[int, ...] = ()

    @classmethod
    def of(cls, run: Run) -> Verdicts:
        """Return the verdicts of a run. Its items are sorted, so that runs of the same items have the same list."""
        rows = [_item(r) for r in run.records]
        items = sorted(set(rows))
        places = {row: place for place, row in enumerate(items)}
        labels = tuple(run.models)
        numbers = {label: number for number, label in enumerate(labels)}
        return cls(
            items,
            tuple(places[row] for row in rows),
            "".join(LETTERS[r.status] for r in run.records),
            labels,
            tuple(numbers[r.model] for r in run.records) if len(labels) > 1 else (),
            tuple(r.sample for r in run.records) if any(r.sample for r in run.records) else (),
        )

    def records(self) -> tuple[VerdictRecord, ...]:
        """Return records with empty texts: with all that comparisons and accuracies depend on."""
        count = len(self.order)
        columns = (self.order, self.statuses, self.models or (0,) * count, self.samples or (0,) * count)
        with without_collection():
            return tuple(_record(self, *row) for row in zip(*columns, strict=True))


_item = attrgetter(*ITEM)


def _record(verdicts: Verdicts, place: int, letter: str, model: int, sample: int) -> VerdictRecord:
    status = STATUSES[letter]
    score = None if status in UNANSWERED else float(status == "correct")
    benchmark, task, language, source, name, cluster = verdicts.items[place]
    label = verdicts.labels[model]
    return VerdictRecord(
        label,
        benchmark,
        task,
        language,
        source,
        name,
        cluster,
        status,
        score,
        "",
        "",
        "",
        {},
        (),
        sample=sample,
    )


@dataclass(frozen=True, slots=True)
class Contribution:
    """What the tables need of a run in addition to ``run.json``.

    :param problem: why the run does not count; empty if it does.
    :param shares: accuracy over the headline tasks by model and benchmark.
    """

    problem: str = ""
    shares: Mapping[tuple[str, str], Share] = field(default_factory=dict)


def shares_of(run: Run) -> dict[tuple[str, str], Share]:
    """Return the accuracies as the report on this run computes them."""
    series = series_of([run])
    shares = {}
    for name in dict.fromkeys(benchmark for s in series for benchmark in s.benchmarks):
        measured = Measured(name, tuple(s for s in series if name in s.benchmarks))
        for s in measured.series:
            share = measured.headline(s)
            if share is not None:
                shares[s.model, name] = share
    return shares


def packed(value: Any) -> bytes:
    """Return JSON, compressed."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 6)


def unpacked(content: bytes) -> Any:
    """Return the value of :func:`packed`.

    :raises ValueError: if the content is damaged.
    """
    try:
        return json.loads(zlib.decompress(content).decode("utf-8", "surrogatepass"))
    except zlib.error as error:
        raise ValueError(str(error)) from None


def name_of(content: bytes) -> str:
    """Return a file name that depends on the content, without a suffix."""
    return hashlib.sha256(content).hexdigest()[:16]


def to_bytes(contribution: Contribution, verdicts: Verdicts | None, items: str) -> bytes:
    """Return the content of a run's file.

    :param verdicts: None for a run that does not count. :param items: name of the file with the items.
    """
    shares = [[*key, *asdict(share).values()] for key, share in contribution.shares.items()]
    columns: dict[str, Any] = {}
    if verdicts is not None:
        # Differences of neighbours compress well: verdicts are nearly in the order of the items.
        steps = [b - a for a, b in pairwise((0, *verdicts.order))]
        columns = {name: getattr(verdicts, name) for name in ("statuses", "labels", "models", "samples")}
        columns["order"] = steps
    return packed({"problem": contribution.problem, "shares": shares, "items": items, "columns": columns})


def contribution_from(content: bytes) -> tuple[Contribution, str]:
    """Return the contribution in a run's file, and the name of the file with its items.

    :raises ValueError: if it is damaged.
    """
    fields = unpacked(content)
    shares = {(model, benchmark): Share(*numbers) for model, benchmark, *numbers in fields["shares"]}
    return Contribution(fields["problem"], shares), fields["items"]


def verdicts_from(content: bytes, items: Items) -> Verdicts:
    """Return the verdicts in the file of a run that counts.

    :param items: the content of its list of items.
    """
    columns = unpacked(content)["columns"]
    order = tuple(accumulate(columns.pop("order")))
    lists = (tuple(columns[name]) for name in ("labels", "models", "samples"))
    return Verdicts(items, order, columns["statuses"], *lists)


def items_from(content: bytes) -> Items:
    """Return a list of items from its file."""
    # Equal texts once.
    texts: dict[str, str] = {}
    return [tuple(texts.setdefault(name, name) for name in row) for row in unpacked(content)]


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Run a block that makes many lasting objects without garbage collection, which visits all of them each time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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

    A record's hashes do not show that: who writes a record can compute them.

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
