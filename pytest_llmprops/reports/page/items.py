"""The data of the page's list of items: an index of all rows, and their texts in compressed chunks.

A prefix that the prompts of a chunk share is stored once.
"""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pytest_llmprops.benchmark_registry import suites_of
from pytest_llmprops.core.requests import BATCH_DISCOUNT
from pytest_llmprops.core.texts import shell_line
from pytest_llmprops.core.verdicts import OTHER_READING, READ_BY, STATUSES, VerdictRecord, text_in
from pytest_llmprops.records.requests import RequestRecord
from pytest_llmprops.records.rows import Review
from pytest_llmprops.reports.kit.blocks import Failures, ItemData, visible
from pytest_llmprops.reports.kit.series import Series
from pytest_llmprops.runs.benchmark_metadata import tasks_by_answer
from pytest_llmprops.runs.readings import readings_of, shown_review
from pytest_llmprops.runs.recorded_command import Part, parts_of

#: options that the command does not repeat: what selects models and cases, decides, or is about stored replies
_DROPPED = (
    "-k", "-m", "-n", "--numprocesses", "--dist", "llm-model", "llm-gate", "llm-baseline", "llm-engine",
    "llm-batch-wait", "llm-shard", "llm-cache", "llm-store",
)  # fmt: skip
#: an address or a file that the record names, which whoever copies the command should choose
_REACHING = re.compile(r"://|%3a%2f%2f|\bfile=", re.IGNORECASE)


def command_again(series: Series) -> str:
    """Return the run's pytest command for this model alone, with new replies, to which ``-k ITEM`` is added.

    Someone else may have written the record: options that load code are left out, and capitals stand for addresses,
    files of models and headers. Empty if the run has no command, for example because it was imported.
    """
    command = series.run.facts.options.get("command")
    model = series.run.facts.models.get(series.model)
    if not isinstance(command, list) or model is None or not model.spec:
        return ""
    suites = suites_of()
    recorded = parts_of(list(map(str, command)), suites)
    kept = [_chosen(part).word for part in recorded.parts if part.name not in _DROPPED]
    spec = _chosen(Part("llm-model", model.spec)).word
    modules = ["--pyargs"] if any(suite.partition("::")[0] in suites for suite in recorded.suites) else []
    return shell_line("pytest", *modules, *kept, spec, "--llm-cache=refresh")


def _chosen(part: Part) -> Part:
    """Return a part of a recorded command, with capitals for what its reader should choose."""
    if part.name == "":
        path = Path(part.value)
        return part if not path.is_absolute() and ".." not in path.parts else Part("", "SUITES")
    is_reaching = part.name == "llm-header" or _REACHING.search(part.value)
    return part._replace(value="VALUE") if is_reaching else part


def default_pair(series: Sequence[Series]) -> tuple[int, int]:
    """Return the series that are baseline and candidate when the page opens: the first of the first run, and the same
    model of another run, if there is one.
    """
    others = [s for s in series if s.run is not series[0].run]
    same = [s for s in others if s.model == series[0].model]
    return (0, [*same, *others, *series[1:], *series][0].index) if series else (0, 0)


#: maximum characters of one text on the page
MOST = 20_000
#: minimum length of a shared prefix that is stored once
SHORTEST_PREFIX = 120

#: the group in which prompts share prefixes, the row's texts, and its calls with tokens, seconds and cost
Texts = tuple[tuple[Any, ...], list[Any], list[tuple[RequestRecord, list[Any]]]]


def pack(value: Any) -> str:
    """Return JSON, compressed (zlib) and in base64; the page decodes it with ``DecompressionStream``."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 6)).decode("ascii")


def packed_rows(rows: Iterable[Texts], size: int) -> Iterator[str]:
    """Yield chunks of ``size`` rows: ``{"prefixes": […], "rows": [[expected, given, reason, reading, values, calls left
    out, calls], …]}``.
    """
    waiting = iter(rows)
    while chunk := list(islice(waiting, size)):
        prefixes = _Prefixes()
        packed = [
            [*texts, [_call(call, usage, group, prefixes) for call, usage in calls]]
            for group, texts, calls in chunk
        ]
        yield pack({"prefixes": prefixes.finish(), "rows": packed})


def cut(text: str) -> str:
    """Return a text for the page: control characters spelled out, a long text cut with a note."""
    if len(text) <= MOST:
        return visible(text)
    return f"{visible(text[:MOST])}… ({len(text) - MOST:,} characters more in the run record)"


class _Prefixes:
    """Stores the common prefix of texts of the same kind (few-shot examples) once."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Any, ...], list[list[Any]]] = {}

    def hold(self, text: str, group: tuple[Any, ...]) -> list[Any]:
        """Add a text; return a list that :meth:`finish` turns into ``[number of the prefix or -1, rest]``."""
        held = [-1, cut(text)]
        self._groups.setdefault(group, []).append(held)
        return held

    def finish(self) -> list[str]:
        """Remove the common prefixes from the texts, and return the prefixes."""
        stored: dict[str, int] = {}
        for held in self._groups.values():
            texts = [text for _, text in held]
            common = os.path.commonprefix((min(texts), max(texts)))  # noqa: RUF071 - characters are meant
            common = common[: common.rfind("\n") + 1]
            if len(common) < SHORTEST_PREFIX or len(held) < 2:
                continue
            number = stored.setdefault(common, len(stored))
            for one in held:
                one[:] = [number, one[1][len(common) :]]
        return list(stored)


def _call(call: RequestRecord, usage: list[Any], place: tuple[Any, ...], prefixes: _Prefixes) -> list[Any]:
    """Return ``[role, [[speaker, text], …], reply, remarks, usage, thoughts]``.

    Thoughts are ``[length, text]``, left out if there are none. A request other than a chat is shown as JSON.
    """
    messages = call.messages
    if "messages" not in call.request:
        # The text of a base model is long and has the prefix of its neighbours, so it is shown as it is.
        shown = ("text",) if call.kind in ("completion", "likelihood") else ()
        fields = {
            n: value for n, value in call.request.items() if value not in (None, [], {}) and n not in shown
        }
        messages = [(call.kind, str(call.request.get(name, ""))) for name in shown]
        messages += [("options" if shown else call.kind, _plain(fields))] if fields else []
    texts = [
        [speaker, prefixes.hold(text, (*place, call.role, number))]
        for number, (speaker, text) in enumerate(messages)
    ]
    reply = call.reply.text or ("" if call.reply.value is None else _plain(call.reply.value))
    remarks = []
    if call.finish_reason not in ("", "stop"):
        remarks.append(f"ended by {call.finish_reason}")
    if call.cached:
        remarks.append("from the store")
    thoughts = [[len(thought), cut(thought)]] if (thought := call.reply.reasoning) else []
    return [call.role, texts, cut(reply), ", ".join(map(visible, remarks)), usage, *thoughts]


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


class TaskOfSeries(NamedTuple):
    """One task of one series."""

    series: int
    benchmark: str
    task: str


@dataclass(slots=True)
class Spent:
    """What the calls of one task needed. A call that several items share counts once.

    :param items: number of verdicts. :param seconds: the duration of each call, when it was made.
    :param cost: USD at the recorded prices; None if the price of a called model is unknown.
    """

    items: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: list[float] = field(default_factory=list)
    cost: float | None = 0.0


class Spending:
    """Adds up what calls needed, by series and task."""

    def __init__(self, series: Sequence[Series]) -> None:
        self.by_task: dict[TaskOfSeries, Spent] = {}
        self._seen: dict[int, set[int]] = {id(s.run): set() for s in series}

    def add(self, series: Series, record: VerdictRecord, calls: Sequence[RequestRecord]) -> None:
        """Count the calls of one verdict."""
        place = TaskOfSeries(series.index, record.benchmark, record.task)
        spent = self.by_task.setdefault(place, Spent())
        spent.items += 1
        seen = self._seen[id(series.run)]
        for call in calls:
            if (key := hash(call.key)) in seen:
                continue
            seen.add(key)
            spent.calls += 1
            spent.prompt_tokens += call.usage.prompt_tokens
            spent.completion_tokens += call.usage.completion_tokens
            if call.seconds:
                spent.seconds.append(call.seconds)
            cost = cost_of(series, call)
            spent.cost = None if cost is None or spent.cost is None else spent.cost + cost


def usage_of(series: Series, call: RequestRecord) -> list[Any]:
    """Return ``[prompt tokens, completion tokens, seconds, USD or None]`` of a call."""
    cost = cost_of(series, call)
    tokens = [call.usage.prompt_tokens, call.usage.completion_tokens]
    return [*tokens, round(call.seconds, 3), None if cost is None else float(f"{cost:.4g}")]


def cost_of(series: Series, call: RequestRecord) -> float | None:
    """Return the cost of a call in USD when it was made, at the run's recorded price; None if that is unknown."""
    if call.cost_usd is not None:
        return call.cost_usd
    facts = series.run.facts
    model = facts.models.get(series.model) if call.role == "subject" else facts.helpers.get(call.role)
    if model is None or model.price is None:
        return None
    return model.price.of(call.usage) * (BATCH_DISCOUNT if call.via == "batch" else 1)


#: maximum number of calls on the page; with more, each item has an equal part of them
MOST_CALLS = 100_000
#: number of incorrect items of a benchmark that ``report.md`` lists
LISTED = 20
#: rows per chunk, and the number of chunks above which chunks grow
CHUNK, MOST_CHUNKS = 200, 250
ORDER = ("error", *(s for s in STATUSES if s != "correct"), "correct")

#: the names that rows and items refer to by number
NAMES = ("benchmark", "task", "language", "source")


def items_of(
    series: Sequence[Series],
    requests: Mapping[int, Mapping[str, RequestRecord]],
    marks: Iterable[Review] = (),
) -> tuple[ItemData, Spending]:
    """Return the data of the list of items, and what the calls of each task needed.

    Rows of one item are neighbours. Items with errors and incorrect answers come first.

    :param requests: the logged requests of each run by ``id(run)`` (see ``read_requests``).
    :param marks: review marks on the runs.
    """
    groups = _by_item(series)
    spending = Spending(series)
    rows = [row for group in groups for row in group]
    logged = {id(s.run): requests.get(id(s.run), {}) for s in series}
    calls = sum(key in logged[id(s.run)] for s, record in rows for key in record.requests)
    most = calls if calls <= MOST_CALLS else max(1, MOST_CALLS // len(rows))
    per_chunk = max(CHUNK, -(-len(rows) // MOST_CHUNKS))
    texts = _texts(rows, logged, most, spending)
    chunks = tuple(packed_rows(texts, per_chunk))
    index = pack({**_index(series, groups, marks), "per_chunk": per_chunk, "pair": default_pair(series)})
    return ItemData(index, chunks, _failures(series)), spending


def _by_item(series: Sequence[Series]) -> list[list[tuple[Series, VerdictRecord]]]:
    """Return the records of each item with their series, incorrect ones first.

    Records are of one item if ``pair_items`` pairs them: tasks that depend on the answer may be different.
    """
    decided = tasks_by_answer(*(s.run.facts for s in series))
    items: dict[tuple[str, ...], list[tuple[Series, VerdictRecord]]] = {}
    for s in series:
        for benchmark in s.benchmarks:
            for r in s.by_benchmark[benchmark]:
                task = "" if r.task in decided(benchmark) else r.task
                items.setdefault((benchmark, task, r.language, r.source, r.id), []).append((s, r))
    for rows in items.values():
        rows.sort(key=lambda row: (row[0].index, row[1].sample))
    return sorted(items.values(), key=lambda rows: min(ORDER.index(r.status) for _, r in rows))


def _index(
    series: Sequence[Series],
    groups: Sequence[Sequence[tuple[Series, VerdictRecord]]],
    marks: Iterable[Review],
) -> dict[str, Any]:
    """Return the columns of rows and items, with numbers for names."""
    numbers: dict[str, dict[str, int]] = {name: {} for name in NAMES}

    def number(name: str, record: VerdictRecord) -> int:
        known = numbers[name]
        return known.setdefault(getattr(record, name), len(known))

    firsts = [rows[0][1] for rows in groups]
    records = [record for rows in groups for _, record in rows]
    items = {name: [number(name, first) for first in firsts] for name in ("benchmark", "language", "source")}
    return {
        "items": {
            "id": [visible(first.id) for first in firsts],
            "rows": [len(rows) for rows in groups],
            **items,
        },
        "rows": {
            "series": [s.index for rows in groups for s, _ in rows],
            "task": [number("task", record) for record in records],
            "status": [ORDER.index(record.status) for record in records],
            "sample": [r.sample for r in records] if any(r.sample for r in records) else [],
        },
        **{name: [visible(text) for text in known] for name, known in numbers.items()},
        "series": [s.label for s in series],
        "runs": [s.run.run_id for s in series],
        "models": [visible(s.model) for s in series],
        "reviews": [shown_review(mark) for mark in marks],
        "commands": [command_again(s) for s in series],
        "readings": _readings(series, groups, numbers["benchmark"]),
        "values": _ranges(records, numbers),
        "status": ORDER,
    }


def _ranges(
    records: Iterable[VerdictRecord], numbers: Mapping[str, Mapping[str, int]]
) -> dict[str, list[Any]]:
    """Return the lowest and highest number of each name in ``values``, whether all are 0 or 1, and where it occurs:
    ``{name: [lowest, highest, is a flag, [[benchmark, task], …]]}``.
    """
    ranges: dict[str, list[Any]] = {}
    for record in records:
        place = (numbers["benchmark"][record.benchmark], numbers["task"][record.task])
        for name, number in record.values.items():
            known = ranges.setdefault(name, [number, number, True, {}])
            known[:3] = min(known[0], number), max(known[1], number), known[2] and number in (0, 1)
            known[3][place] = None
    return {visible(name): [*known, list(places)] for name, (*known, places) in sorted(ranges.items())}


def _readings(
    series: Sequence[Series],
    groups: Sequence[Sequence[tuple[Series, VerdictRecord]]],
    benchmarks: Mapping[str, int],
) -> dict[str, Any]:
    """Return the strata, ``[series, benchmark, status, number of replies]``, and the sample, ``[row, stratum]``."""
    places = {
        (s.index, record.key): n for n, (s, record) in enumerate(row for rows in groups for row in rows)
    }
    strata: list[list[int]] = []
    sample: list[tuple[int, int]] = []
    for s in series:
        for readings in readings_of(r for rows in s.by_benchmark.values() for r in rows):
            for stratum, chosen in readings.sampled().items():
                sample += ((places[s.index, r.key], len(strata)) for r in chosen)
                size = len(readings.strata[stratum])
                strata.append([s.index, benchmarks[readings.benchmark], ORDER.index(stratum.status), size])
    return {"strata": strata, "sample": sample}


def _texts(
    rows: Iterable[tuple[Series, VerdictRecord]],
    requests: Mapping[int, Mapping[str, RequestRecord]],
    most: int,
    spending: Spending,
) -> Iterator[Texts]:
    """Yield the group in which the prompts of a row share prefixes, its texts, and its calls with their usage.

    The calls of a row are read when it is its turn: together they may be larger than the memory.
    """
    for s, record in rows:
        logged = requests[id(s.run)]
        calls = [logged[key] for key in record.requests if key in logged]
        spending.add(s, record, calls)
        texts = [cut(getattr(record, name)) for name in ("expected", "given", "reason")]
        texts.append(_reading(record))
        shown = [(call, usage_of(s, call)) for call in _foremost(calls, most)]
        group = (s.index, record.benchmark, record.task)
        values = {visible(name): number for name, number in record.values.items()}
        yield group, [*texts, values or 0, max(0, len(calls) - most)], shown


def _reading(record: VerdictRecord) -> str:
    """Return the rule that read the reply, and what the rule of the other protocol reads if that differs."""
    other = text_in(record.evidence, OTHER_READING)
    return cut("; the other rule reads: ".join(filter(None, (text_in(record.evidence, READ_BY), other))))


def _foremost(calls: list[RequestRecord], most: int) -> list[RequestRecord]:
    """Return at most ``most`` of an item's calls, in order; calls to the model under test have priority."""
    if len(calls) <= most:
        return calls
    first = sorted(range(len(calls)), key=lambda n: (calls[n].role != "subject", n))[:most]
    return [calls[n] for n in sorted(first)]


def _failures(series: Sequence[Series]) -> dict[str, Failures]:
    """Return the number of incorrect items of each benchmark, and the first ones."""
    failures: dict[str, Failures] = {}
    for s in series:
        for benchmark, records in s.by_benchmark.items():
            wrong = [record for record in records if record.status != "correct"]
            known = failures.get(benchmark, Failures(0, ()))
            listed = [(s.label, record) for record in wrong[: LISTED - len(known.first)]]
            failures[benchmark] = Failures(known.total + len(wrong), (*known.first, *listed))
    return failures


def row_id(record: VerdictRecord) -> str:
    """Return the id of a row: the item's, with the number of the repeat."""
    text = visible(record.id)
    return f"{text} #{record.sample}" if record.sample else text
