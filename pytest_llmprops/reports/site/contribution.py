"""What one run adds to a site: its accuracies and the status of each item, without prompts and replies."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import accumulate, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

from pytest_llmprops.core.records import RECORD_STATUSES, VerdictRecord
from pytest_llmprops.reports.kit.series import Measured, Share, series_of
from pytest_llmprops.runs.integrity import REQUESTS, VERDICTS
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.reviews import FILE as REVIEWS

DISTRIBUTION = "pytest-llmprops"
#: changed with every change of the files below, which are then written again
FORMAT = 1
#: the fields of a record that name its item
ITEM = ("benchmark", "task", "language", "source", "id", "cluster")
LETTERS = {status: status[0] for status in RECORD_STATUSES}
STATUSES = {letter: status for status, letter in LETTERS.items()}


def record_key(folder: Path) -> str:
    """Return the key of a finished record, which changes with it.

    ``run.json`` has the sha256 of the verdicts and requests, so that they are not read; only their sizes are checked.

    :raises OSError: if there is no ``run.json``.
    """
    sizes = [path.stat().st_size if (path := folder / name).exists() else -1 for name in (VERDICTS, REQUESTS)]
    digest = hashlib.sha256(f"{version(DISTRIBUTION)} {FORMAT} {sizes} ".encode())
    digest.update((folder / "run.json").read_bytes())
    with contextlib.suppress(FileNotFoundError):
        digest.update((folder / REVIEWS).read_bytes())
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
    score = None if status == "error" else float(status == "correct")
    benchmark, task, language, source, name, cluster = verdicts.items[place]
    label = verdicts.labels[model]
    return VerdictRecord(
        label, benchmark, task, language, source, name, cluster, sample, status, score, "", "", ""
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
            share = measured.accuracy(s, measured.headline_tasks)
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
