"""Following one run that has not finished: counts, calls and cost from what was appended to its record."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pytest_llmprops.core.numbers import usd
from pytest_llmprops.core.requests import Usage, is_finite
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.run import ModelMetadata, RunMetadata
from pytest_llmprops.runs.integrity import REQUESTS, VERDICTS
from pytest_llmprops.runs.json_lines import AppendedLines

#: Rates are those of the last seconds.
WINDOW_SECONDS = 30.0
#: no estimate of the time left before this time has been observed
ESTIMATE_SECONDS = 3.0


class Part(NamedTuple):
    """One model on one benchmark."""

    model: str
    benchmark: str


@dataclass(slots=True)
class Counts:
    """What was counted of a run or of one part: verdicts by status, calls, and their cost.

    :param tasks: the verdicts of each task by status; empty for a run.
    :param unpriced: number of calls whose price is unknown. :param estimated: of those whose tokens are estimated.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    tasks: dict[str, Counter[str]] = field(default_factory=dict)
    calls: int = 0
    cost: float = 0.0
    unpriced: int = 0
    estimated: int = 0

    @property
    def done(self) -> int:
        """The number of verdicts, with errors."""
        return self.statuses.total()

    @property
    def usd(self) -> float | None:
        """The cost in USD; None if the price of a call is unknown."""
        return None if self.unpriced else self.cost

    @property
    def cost_text(self) -> str:
        """The cost: ``0.0123 USD``, ``≈0.0123 USD`` if tokens are estimated, ``unknown``; empty without calls."""
        if not self.calls:
            return ""
        return "unknown" if self.usd is None else f"{'≈' if self.estimated else ''}{usd(self.usd)}"


class _Call(NamedTuple):
    """A call; with ``cost``, what the run paid is known without the price of the model."""

    role: str
    usage: Usage
    via: str
    cost: float | None


class Follower:
    """The counts of one run. They are complete up to the last complete lines that were read.

    A verdict that is recorded again replaces the earlier one. A file that is replaced, cut or deleted is counted again
    from its beginning.
    """

    def __init__(self, folder: Path, facts: RunMetadata) -> None:
        self._folder, self._facts = folder, facts
        self._begin()

    def _begin(self) -> None:
        self._verdicts = AppendedLines(self._folder / VERDICTS)
        self._requests = AppendedLines(self._folder / REQUESTS)
        #: all verdicts and calls; the calls of each part are known when its verdicts are
        self.total = Counts()
        self.parts: dict[Part, Counts] = {}
        #: lines that cannot be read, with the first problem
        self.damaged = 0
        self.problem = ""
        #: part, task and status of each verdict, by the hash of its key
        self._status: dict[int, tuple[Part, str, str]] = {}
        # Calls and verdicts name each other by a key, of which the hash is kept: 1e-8 collisions in 200,000.
        self._calls: dict[int, _Call] = {}
        self._owners: dict[int, Part] = {}
        self._history: deque[tuple[float, int, int]] = deque()
        #: everything so far was read
        self.is_current = False
        #: when verdicts or calls were last seen to be added
        self.progress_at: float | None = None

    def advance(self, most: int, now: float) -> bool:
        """Read what was appended, at most about ``most`` bytes of each file; return whether there is more.

        :param now: a clock in seconds, for the rates.
        :raises OSError: if a file cannot be read.
        """
        verdicts = self._verdicts.read(most)
        if verdicts.is_new:
            self._begin()
            verdicts = self._verdicts.read(most)
        for line in verdicts.lines:
            self._read(line, self._add_verdict)
        requests = self._requests.read(most)
        if requests.is_new:
            self._begin()
            return True
        for line in requests.lines:
            self._read(line, self._add_request)
        has_more = verdicts.has_more or requests.has_more
        self.is_current = self.is_current or not has_more
        if verdicts.lines or requests.lines or self.progress_at is None:
            self.progress_at = now
        # What was recorded before this run was followed says nothing about its speed.
        if self.is_current:
            self._history.append((now, self.total.done, self.total.calls))
            while len(self._history) > 2 and self._history[1][0] <= now - WINDOW_SECONDS:
                self._history.popleft()
        return has_more

    def _read(self, line: bytes, add: Any) -> None:
        if not line.strip():
            return
        try:
            row = parsed_json(line)
            if not isinstance(row, dict):
                raise ValueError("is not a JSON object")
            add(row)
        except (ValueError, RecursionError) as error:
            self.damaged += 1
            self.problem = self.problem or str(error)

    def _add_verdict(self, row: dict[str, Any]) -> None:
        record = from_plain(VerdictRecord, row)
        part, key = Part(record.model, record.benchmark), hash(record.key)
        before = self._status.get(key)
        if before is not None:
            self._count(*before, -1)
        self._status[key] = (part, record.task, record.status)
        self._count(part, record.task, record.status, 1)
        for request in record.requests:
            call = self._calls.pop(hash(request), None)
            if call is None:
                self._owners.setdefault(hash(request), part)
            else:
                self._spend(part, call)

    def _count(self, part: Part, task: str, status: str, change: int) -> None:
        counts = self.parts.setdefault(part, Counts())
        for statuses in (self.total.statuses, counts.statuses, counts.tasks.setdefault(task, Counter())):
            statuses[status] += change

    def _add_request(self, row: dict[str, Any]) -> None:
        # A stored reply was not paid for by this run. A line without a key defines a prefix.
        if row.get("cached") is True or row.keys().isdisjoint(("key", "discarded")):
            return
        role, via, usage, cost = (
            row.get("role", ""),
            row.get("via", ""),
            row.get("usage"),
            row.get("cost_usd"),
        )
        if not isinstance(role, str) or not isinstance(usage, dict):
            raise ValueError("has no texts 'role' and 'usage'")
        known = Usage.from_json(usage)
        if not all(isinstance(tokens, int) for tokens in known.counts.values()):
            raise ValueError("has a 'usage' of the wrong type")
        call = _Call(role, known, str(via), cost if is_finite(cost) else None)
        self.total.calls += 1
        if "key" not in row:
            # A reply that is not used belongs to no verdict.
            _pay(self.total, ModelMetadata(), call)
            return
        if (model := self._model_of(call, None)) is not None:
            _pay(self.total, model, call)
        owner = self._owners.pop(hash(row["key"]), None)
        if owner is None:
            self._calls[hash(row["key"])] = call
        else:
            self._spend(owner, call)

    def _spend(self, part: Part, call: _Call) -> None:
        """Count the call of a verdict for its part, and its cost in total if this was not known before."""
        counts = self.parts.setdefault(part, Counts())
        counts.calls += 1
        model = self._model_of(call, part)
        if model is None:
            return
        _pay(counts, model, call)
        if self._model_of(call, None) is None:
            _pay(self.total, model, call)

    def _model_of(self, call: _Call, part: Part | None) -> ModelMetadata | None:
        """Return who answered a call; None as long as it may be one of several models."""
        models: Mapping[str, ModelMetadata] = self._facts.models
        if call.cost is not None:
            return ModelMetadata()
        if call.role != "subject":
            return self._facts.helpers.get(call.role) or ModelMetadata()
        if len(models) == 1:
            return next(iter(models.values()))
        return None if part is None else models.get(part.model) or ModelMetadata()

    def _rate(self, place: int) -> float | None:
        """Return verdicts (1) or calls (2) per second; None while too little was observed."""
        if len(self._history) < 2:
            return None
        first, last = self._history[0], self._history[-1]
        seconds = last[0] - first[0]
        return (last[place] - first[place]) / seconds if seconds >= ESTIMATE_SECONDS else None

    @property
    def calls_per_second(self) -> float | None:
        """The calls per second of the last seconds; None while too few seconds were observed."""
        return self._rate(2)

    @property
    def seconds_left(self) -> float | None:
        """The time that the other cases take at the current rate; None if it cannot be estimated."""
        rate, expected = self._rate(1), self._facts.expected
        if not rate or rate < 0 or not isinstance(expected, int):
            return None
        return max(0, expected - self.total.done) / rate


def _pay(counts: Counts, model: ModelMetadata, call: _Call) -> None:
    counts.estimated += bool(call.usage.estimated)
    if call.cost is not None:
        counts.cost += call.cost
    elif model.price is None:
        counts.unpriced += 1
    else:
        counts.cost += model.price.of(call.usage, call.via)
