"""Recorded runs as one table, in Parquet or CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.records import SearchRecord
from pytest_llmprops.core.request_records import RequestRecord
from pytest_llmprops.data.whole_files import replacing
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.replies import read_requests

if TYPE_CHECKING:
    import pandas as pd

Table = Literal["verdicts", "summary", "metrics", "requests", "searches"]
TABLES: tuple[Table, ...] = get_args(Table)
#: columns of the longer tables, so that an empty table has them too
VERDICTS = (
    "run_id", "model", "benchmark", "task", "language", "source", "id", "cluster", "sample", "status",
    "score", "expected", "given", "reason", "evidence", "requests",
)  # fmt: skip
REQUESTS = (
    "run_id", "key", "role", "kind", "request", "reply", "reply_value", "finish_reason", "served_model",
    "prompt_tokens", "completion_tokens", "reasoning_tokens", "cached", "seconds",
)  # fmt: skip
SEARCHES = (
    "run_id", "model", "benchmark", "task", "language", "source", "id", "property", "examples", "requests",
    "calls", "spent", "error", "has_counterexample", "why", "counterexample",
)  # fmt: skip


def table(runs: Sequence[Run], name: Table = "verdicts") -> pd.DataFrame:
    """Return one table of all ``runs``; its first column is ``run_id``.

    - ``verdicts``: ``values`` become float columns ``value_<name>``, empty if a benchmark has no such number;
      ``requests`` is a list of texts, and ``evidence`` is JSON text, null if it is empty.
    - ``summary`` and ``metrics``: the rows of ``run.json``.
    - ``requests``: prompts as JSON text, replies as text.
    - ``searches``: ``found`` says whether there is a counterexample, ``why`` describes it, and ``counterexample`` has
      all of it as JSON text.

    :raises MissingExtra: without pandas. :raises UsageError: if two runs have the same run_id.
    """
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("exporting runs", package="pandas", extra="report") from None
    ids = [run.run_id for run in runs]
    repeated = next((i for i in ids if ids.count(i) > 1), None)
    if repeated is not None:
        raise UsageError(f"two of the runs are called '{repeated}': their rows could not be distinguished")
    if name == "verdicts":
        return _verdicts(pd, runs)
    if name == "requests":
        rows = [_request(run.run_id, record) for run in runs for record in read_requests(run.folder).values()]
        # pandas gives a column without any text no type.
        texts = dict.fromkeys(("reply", "reply_value"), "string")
        return pd.DataFrame(rows, columns=list(REQUESTS)).astype(texts)
    if name == "searches":
        rows = [_search(run.run_id, record) for run in runs for record in run.searches]
        texts = dict.fromkeys(("why", "counterexample"), "string")
        return pd.DataFrame(rows, columns=list(SEARCHES)).astype(texts)
    rows = [{"run_id": run.run_id, **row.to_json()} for run in runs for row in getattr(run.facts, name)]
    frame = pd.DataFrame(rows)
    for column in ("accuracy", "value", "ci_low", "ci_high", "between_items", "within_items"):
        if column in frame:
            # A column that has only nulls would otherwise have the type object.
            frame[column] = frame[column].astype("float64")
    return frame


def _verdicts(pd: Any, runs: Sequence[Run]) -> pd.DataFrame:
    rows = [{"run_id": run.run_id, **record.to_json()} for run in runs for record in run.records]
    frame = pd.DataFrame(rows, columns=list(VERDICTS))
    # Every benchmark has its own keys, and Parquet needs one type per column.
    texts = [json.dumps(row["evidence"], ensure_ascii=False) if row["evidence"] else None for row in rows]
    frame["evidence"] = pd.Series(texts, index=frame.index, dtype="string")
    frame["score"] = frame["score"].astype("float64")
    keys = [[str(key) for key in row["requests"]] for row in rows]
    frame["requests"] = pd.Series(keys, index=frame.index, dtype="object")
    numbers = [{k: v for k, v in row["values"].items() if isinstance(v, int | float)} for row in rows]
    names = list(dict.fromkeys(name for values in numbers for name in values))
    values = {f"value_{n}": [float(v.get(n, "nan")) for v in numbers] for n in names}
    return pd.concat([frame, pd.DataFrame(values, index=frame.index, dtype="float64")], axis=1)


def _request(run_id: str, record: RequestRecord) -> dict[str, Any]:
    line = record.to_json()
    value = record.reply_value
    return {
        **line,
        **line["usage"],
        "run_id": run_id,
        "request": json.dumps(line["request"], ensure_ascii=False),
        "reply": record.reply,
        "reply_value": None if value is None else json.dumps(value, ensure_ascii=False),
    }


def _search(run_id: str, record: SearchRecord) -> dict[str, Any]:
    counterexample = record.counterexample
    return {
        **record.to_json(),
        "run_id": run_id,
        "has_counterexample": counterexample is not None,
        "why": None if counterexample is None else record.why,
        "counterexample": None if counterexample is None else json.dumps(counterexample, ensure_ascii=False),
    }


def _has_keys(frame: pd.DataFrame) -> bool:
    """Whether ``requests`` has lists of keys; in the table of searches it is a number."""
    return "requests" in frame and frame["requests"].dtype == "object"


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write ``frame`` as Parquet, atomically.

    :raises MissingExtra: without pyarrow. :raises UsageError: if the folder does not exist.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("writing Parquet", package="pyarrow", extra="report") from None
    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    if _has_keys(frame):
        # If no record has a request, pyarrow cannot infer the type.
        index = schema.get_field_index("requests")
        schema = schema.set(index, pa.field("requests", pa.list_(pa.string())))
    data = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    write_whole(path, lambda new: pq.write_table(data, new, compression="zstd"))


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write ``frame`` as CSV, atomically; lists become JSON.

    :raises UsageError: if the folder does not exist.
    """
    if _has_keys(frame):
        frame = frame.assign(requests=[json.dumps(keys) for keys in frame["requests"]])
    write_whole(path, lambda new: frame.to_csv(new, index=False, encoding="utf-8"))


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
