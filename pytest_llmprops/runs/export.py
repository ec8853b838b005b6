"""Recorded runs as one table, in Parquet or CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.texts import visible
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.data.sheet_files import escaped
from pytest_llmprops.data.whole_files import replacing
from pytest_llmprops.records.files import plain
from pytest_llmprops.records.requests import RequestRecord
from pytest_llmprops.records.rows import SearchRecord
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.replies import read_requests

if TYPE_CHECKING:
    import pandas as pd

Table = Literal["verdicts", "summary", "metrics", "requests", "searches"]
T = TypeVar("T")
#: rows of a table that are in memory at once
MOST_ROWS = 10_000
TABLES: tuple[Table, ...] = get_args(Table)
#: columns of the longer tables, so that an empty table has them too
VERDICTS = ("run_id", *(field.name for field in fields(VerdictRecord) if field.name != "values"))
REQUESTS = (
    "run_id", "key", "role", "kind", "request", "reply", "reasoning", "reply_value", "finish_reason", "served_model",
    "prompt_tokens", "completion_tokens", "reasoning_tokens", "cached", "seconds",
)  # fmt: skip
SEARCHES = (
    "run_id", "model", "benchmark", "task", "language", "source", "id", "property", "examples", "requests",
    "calls", "spent", "error", "has_counterexample", "why", "counterexample",
    "not_repeated",
)  # fmt: skip


def table(runs: Sequence[Run], name: Table = "verdicts") -> pd.DataFrame:
    """Return one table of all ``runs`` with all its rows; see :func:`tables`."""
    parts = list(tables(runs, name))
    if len(parts) == 1:
        return parts[0]
    import pandas as pd

    return pd.concat(parts, ignore_index=True)


def tables(runs: Sequence[Run], name: Table = "verdicts") -> Iterator[pd.DataFrame]:
    """Yield one table of all ``runs`` in parts of at most ``MOST_ROWS`` rows; its first column is ``run_id``.

    There is at least one part, and all have the same columns and types. Lone surrogates, which UTF-8 files cannot
    contain, become question marks.

    - ``verdicts``: ``values`` become float columns ``value_<name>``, empty if a benchmark has no such number;
      ``requests`` is a list of texts, and ``evidence`` is JSON text, null if it is empty.
    - ``summary`` and ``metrics``: the rows of ``run.json``.
    - ``requests``: prompts as JSON text, replies and thoughts as text; ``reasoning`` is null without thoughts.
    - ``searches``: ``found`` says whether there is a counterexample, ``why`` describes it, and ``counterexample`` has
      all of it as JSON text.

    :raises MissingExtra: without pandas. :raises UsageError: if two runs have the same run_id.
    """
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("a table of runs", package="pandas", extra="report") from None
    ids = [run.run_id for run in runs]
    repeated = next((i for i in ids if ids.count(i) > 1), None)
    if repeated is not None:
        raise UsageError(f"two of the runs are called '{repeated}': their rows could not be distinguished")
    if name == "verdicts":
        records = [record for run in runs for record in run.records]
        names = list(dict.fromkeys(name for record in records for name in record.values))
        pairs = ((run.run_id, record) for run in runs for record in run.records)
        return (_verdicts(pd, part, names) for part in _parts(pairs))
    if name == "requests":
        rows = (_request(run.run_id, record) for run in runs for record in read_requests(run.folder).each())
        # pandas gives a column without any text no type, and one whose numbers are all whole another one.
        types = dict.fromkeys(("reply", "reasoning", "reply_value"), "string") | {"seconds": "float64"}
        return (pd.DataFrame(part, columns=list(REQUESTS)).astype(types) for part in _parts(rows))
    if name == "searches":
        rows = (_search(run.run_id, record) for run in runs for record in run.searches)
        texts = dict.fromkeys(("why", "counterexample", "not_repeated"), "string")
        return (pd.DataFrame(part, columns=list(SEARCHES)).astype(texts) for part in _parts(rows))
    return iter([_facts(pd, runs, name)])


def _parts(rows: Iterable[T]) -> Iterator[list[T]]:
    """Yield the rows in lists of at most ``MOST_ROWS``; one empty list if there are none."""
    remaining = iter(rows)
    part = list(islice(remaining, MOST_ROWS))
    yield part
    while part := list(islice(remaining, MOST_ROWS)):
        yield part


def _facts(pd: Any, runs: Sequence[Run], name: Table) -> pd.DataFrame:
    rows = [{"run_id": run.run_id, **asdict(row)} for run in runs for row in getattr(run.facts, name)]
    frame = pd.DataFrame(map(_unicode, rows))
    for column in ("accuracy", "value", "ci_low", "ci_high", "between_items", "within_items"):
        if column in frame:
            # A column that has only nulls would otherwise have the type object.
            frame[column] = frame[column].astype("float64")
    return frame


def _verdicts(pd: Any, pairs: Sequence[tuple[str, VerdictRecord]], names: Sequence[str]) -> pd.DataFrame:
    """Return the verdicts of ``pairs`` of a run's id and a record, with a column for each of ``names``."""
    rows = [_unicode({"run_id": run_id, **plain(record)}) for run_id, record in pairs]
    frame = pd.DataFrame(rows, columns=list(VERDICTS))
    # Every benchmark has its own keys, and Parquet needs one type per column.
    texts = [_unicode(_json(row["evidence"])) if row["evidence"] else None for row in rows]
    frame["evidence"] = pd.Series(texts, index=frame.index, dtype="string")
    frame["score"] = frame["score"].astype("float64")
    frame["requests"] = pd.Series([row["requests"] for row in rows], index=frame.index, dtype="object")
    values = {f"value_{_unicode(n)}": [float(r.values.get(n, "nan")) for _, r in pairs] for n in names}
    return pd.concat([frame, pd.DataFrame(values, index=frame.index, dtype="float64")], axis=1)


def _request(run_id: str, record: RequestRecord) -> Any:
    line = plain(record)
    value = record.reply.value
    return _unicode(
        {
            **line,
            **line["usage"],
            "run_id": run_id,
            "request": _json(line["request"]),
            "reply": record.reply.text,
            "reasoning": record.reply.reasoning or None,
            "reply_value": None if value is None else _json(value),
        }
    )


def _search(run_id: str, record: SearchRecord) -> Any:
    counterexample, not_repeated = record.counterexample, record.not_repeated
    return _unicode(
        {
            **plain(record),
            "run_id": run_id,
            "has_counterexample": counterexample is not None,
            "why": record.why or None,
            "counterexample": None if counterexample is None else _json(counterexample),
            "not_repeated": None if not_repeated is None else _json(not_repeated),
        }
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _unicode(value: Any) -> Any:
    """Return a row, or a cell, whose texts are valid Unicode. JSON may have halves of surrogate pairs."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: cell if name == "evidence" else _unicode(cell) for name, cell in value.items()}
    return [_unicode(member) for member in value] if isinstance(value, list) else value


def _has_keys(frame: pd.DataFrame) -> bool:
    """Return True if ``requests`` has lists of keys; in the table of searches it is a number."""
    return "requests" in frame and frame["requests"].dtype == "object"


def write_parquet(parts: Iterable[pd.DataFrame], path: Path) -> None:
    """Write the parts of a table as Parquet, each as a row group, atomically.

    :raises MissingExtra: without pyarrow. :raises UsageError: if the folder does not exist.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("writing Parquet", package="pyarrow", extra="report") from None

    def write(new: Path) -> None:
        writer = None
        try:
            for frame in parts:
                if writer is None:
                    schema = pa.Schema.from_pandas(frame, preserve_index=False)
                    if _has_keys(frame):
                        # If no record has a request, pyarrow cannot infer the type.
                        index = schema.get_field_index("requests")
                        schema = schema.set(index, pa.field("requests", pa.list_(pa.string())))
                    writer = pq.ParquetWriter(new, schema, compression="zstd")
                writer.write_table(pa.Table.from_pandas(frame, schema=writer.schema, preserve_index=False))
        finally:
            if writer is not None:
                writer.close()

    write_whole(path, write)


def write_csv(parts: Iterable[pd.DataFrame], path: Path) -> None:
    """Write the parts of a table as CSV, atomically; lists become JSON.

    A text that a spreadsheet would read as a formula begins with an apostrophe (OWASP, "CSV Injection"): one whose
    first character is ``=``, ``+``, ``-``, ``@``, a tab or a line end. Carriage returns become line feeds, and other
    control characters visible symbols, because ``cat`` would execute them. Parquet has the texts as they are.

    :raises UsageError: if the folder does not exist.
    """

    def write(new: Path) -> None:
        with open(new, "w", encoding="utf-8", newline="") as file:
            for number, part in enumerate(parts):
                frame = part
                if _has_keys(part):
                    frame = part.assign(requests=[json.dumps(keys) for keys in part["requests"]])
                frame.rename(columns=_csv_cell).map(_csv_cell).to_csv(file, index=False, header=number == 0)

    write_whole(path, write)


def _csv_cell(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    # Python's csv module does not quote a carriage return, which then ends the row.
    return escaped(visible(cell.replace("\r\n", "\n").replace("\r", "\n")))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a new file next to ``path``, then replace ``path`` by it atomically.

    :raises UsageError: if the folder does not exist, or if ``path`` is a folder.
    """
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; name a file")
    with replacing(path) as draft:
        write(draft)
