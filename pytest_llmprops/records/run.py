"""The content of ``run.json``: what is recorded about a run as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from annotated_types import Ge

from pytest_llmprops.core.field_types import (
    Count,
    Flag,
    FreeObject,
    Members,
    Name,
    Number,
    ReplyText,
    Seed,
    Text,
)
from pytest_llmprops.core.metrics import MetricRow
from pytest_llmprops.core.numbers import cost, counted, usd
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.requests import Price
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.records.rows import Remark, SearchCounts, SummaryRow

#: the highest schema of a record; schema 1 can also be read
SCHEMA = 2
#: in the note on a benchmark that could not be loaded, between its name and the reason
NOT_MEASURED = ": not measured: "
#: service tiers that cost more than the listed price
_HIGHER_PRICED = {"priority", "fast"}
#: stored replies of an unpinned model are old after this time, in seconds
DAY = 86400.0


@dataclass(slots=True)
class OldReplies:
    """Stored replies of a model whose version is unknown, which another model of the same name may have given.

    :param older_than_a_day: number of replies older than 24 hours.
    :param oldest_seconds: the age of the oldest of these.
    """

    older_than_a_day: Count = 0
    oldest_seconds: Number = 0.0

    def add(self, age: float) -> None:
        """Count a stored reply of this age, in seconds."""
        if age > DAY:
            self.older_than_a_day += 1
            self.oldest_seconds = max(self.oldest_seconds, age)

    def __bool__(self) -> bool:
        return bool(self.older_than_a_day)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How one model or helper was served.

    :param identity: revision, file hash or other values that identify the version; None until the model is used.
    :param pinned: the identity names one exact version; None if that is unknown.
    :param served_as: the model names that the server reported; None until the model is used.
    :param served_counts: number of replies by these names.
    :param old_replies: stored replies of an unpinned model that may be outdated.
    :param newest_reply: Unix time at which the newest of its replies was received; None without one.
    :param service_tiers: the provider's tiers with a price of their own that answered.
    """

    identity: Any = None
    pinned: Flag | None = None
    served_as: tuple[ReplyText, ...] | None = None
    served_counts: Mapping[str, Count] = field(default_factory=dict)
    old_replies: OldReplies = field(default_factory=OldReplies)
    newest_reply: Number | None = None
    service_tiers: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelMetadata(Served):
    """One model or helper of a run, and how it was served.

    :param imported: the verdicts were imported, not measured.
    :param price: USD per million input and output tokens, and the date of the prices; None if it is unknown.
    """

    spec: Name = ""
    imported: Flag = False
    price: Price | None = None

    def used(self, use: Served | None) -> ModelMetadata:
        """Return the model with the facts of its use; None stands for a model without one."""
        facts = {} if use is None else {f.name: getattr(use, f.name) for f in fields(Served)}
        return replace(self, **facts)


@dataclass(frozen=True, slots=True)
class ProtocolMetadata:
    """The protocol of one benchmark, in plain values."""

    name: Name = ""
    settings: FreeObject = field(default_factory=dict)
    seed: Seed | None = None
    assumed: tuple[Text, ...] = ()
    gives_up: Text = ""
    overrides: FreeObject = field(default_factory=dict)

    @property
    def is_by_likelihood(self) -> bool:
        """True if answers are the most likely options: the setting ``answer`` of the benchmark is ``likelihood``."""
        return self.settings.get("answer") == "likelihood"


@dataclass(slots=True)
class CallCounts:
    """Counts of requests and calls.

    A call for several samples counts once in ``sent``, ``retries`` and ``failed``. ``requests`` and ``answered`` count
    each sample.

    :param sampled: requests to the models under test whose reply may differ from call to call: with a temperature above
        0, or with the model's default.
    :param sampled_earlier: those of them that a stored reply of an earlier run answered.
    :param joined: requests that shared the call of an equal request.
    :param adopted: replies from batches that another run submitted, such as one that was killed.
    :param refused: attempts that a limit of the server refused, and that were made again.
    :param cached_tokens: those of the prompt tokens that providers read from their caches.
    :param unpriced: replies whose price is unknown.
    :param estimated: replies whose tokens and cost are estimated, because the server reported none.
    """

    requests: Count = 0
    cache_hits: Count = 0
    sampled: Count = 0
    sampled_earlier: Count = 0
    joined: Count = 0
    adopted: Count = 0
    sent: Count = 0
    answered: Count = 0
    retries: Count = 0
    refused: Count = 0
    failed: Count = 0
    in_flight: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cached_tokens: Count = 0
    unpriced: Count = 0
    estimated: Count = 0
    seconds: Number = 0.0
    oldest_seconds: Number = 0.0


@dataclass(slots=True)
class CallFacts(CallCounts):
    """The calls of a run: ``calls`` in ``run.json``.

    :param cost_usd: None if the price of a call is unknown, or its tokens are only estimated.
    :param estimated_usd: the cost with that of the estimated tokens; None if the price of a call is unknown.
    :param counted_bytes: of a resumed run in progress: these counts have the calls in so many bytes of
        ``requests.jsonl``, and the rest is of this session.
    :param in_process: requests to models inside the pytest processes; None if there are no such models.
    """

    cost_usd: Number | None = None
    estimated_usd: Number | None = None
    counted_bytes: Count = 0
    in_process: Count | None = None
    in_process_seconds: Number | None = None

    @property
    def amount(self) -> float | None:
        """The cost in USD, estimated where it must be; None if it is unknown. No calls cost nothing."""
        if not self.requests and not self.sent:
            return 0.0
        return self.estimated_usd if self.cost_usd is None else self.cost_usd

    def with_amount(self, amount: float | None) -> CallFacts:
        """Return the counts with this cost in USD, which is unknown if it has the price of estimated tokens."""
        is_estimate = bool(self.estimated and amount)
        return replace(
            self, cost_usd=None if is_estimate else amount, estimated_usd=amount if is_estimate else None
        )


@dataclass(frozen=True, slots=True)
class GitState:
    """The commit from which a run was started.

    :param dirty: the work tree had uncommitted changes.
    """

    commit: Name
    dirty: Flag = False


#: the number of items of a benchmark that were selected for the models, and of all of its items
Selection = Annotated[Mapping[str, int], Members({"items": Count, "of": Count})]


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """The content of ``run.json``.

    :param deviations: label of a model -> changes to requests that its API forced.
    :param expected: number of cases of the run; None until it is known.
    :param not_served: benchmark -> model -> number of items.
    :param stopped: why the run ended before its last case.
    :param notes: notes for the user, one line each.
    :param selection: benchmark -> ``items``, the number of items selected for the models, and ``of``, the number that
        there are without ``--llm-limit`` and pytest's selection.
    :param files: sha256 of the record's other files, by name; empty until the run has finished.
    :param promoted_from: for a baseline, the folder it was copied from.
    """

    run_id: Name
    schema: Annotated[Count, Ge(1)] = SCHEMA
    started: Name = ""
    finished: Name | None = None
    complete: Flag = False
    models: Mapping[str, ModelMetadata] = field(default_factory=dict)
    helpers: Mapping[str, ModelMetadata] = field(default_factory=dict)
    protocols: Mapping[str, ProtocolMetadata] = field(default_factory=dict)
    options: FreeObject = field(default_factory=dict)
    versions: Mapping[str, Name] = field(default_factory=dict)
    git: GitState | None = None
    data: Mapping[str, Name] = field(default_factory=dict)
    deviations: Mapping[str, tuple[Text, ...]] = field(default_factory=dict)
    calls: CallFacts = field(default_factory=CallFacts)
    summary: tuple[SummaryRow, ...] = ()
    metrics: tuple[MetricRow, ...] = ()
    benchmarks: Mapping[str, BenchmarkMetadata] = field(default_factory=dict)
    expected: Count | None = None
    not_served: Mapping[str, Mapping[str, Count]] = field(default_factory=dict)
    selection: Mapping[str, Selection] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    searches: tuple[SearchCounts, ...] = ()
    stopped: Text | None = None
    notes: tuple[Text, ...] = ()
    gate: GateResult | None = None
    promoted_from: Name = ""
    promoted_at: Name = ""
    files: Mapping[str, Name] = field(default_factory=dict)

    @property
    def measured_protocols(self) -> dict[str, ProtocolMetadata]:
        """The protocols of the benchmarks with a verdict or a search, without those that ``-k`` deselected.

        If there are none, the protocols of all collected benchmarks.
        """
        measured = {row.benchmark for row in self.summary} | {row.benchmark for row in self.searches}
        measured |= self.not_served.keys()
        return {n: p for n, p in self.protocols.items() if n in measured} or dict(self.protocols)

    def marked(self, model: str) -> str:
        """Return a model's name for tables, with the benchmarks whose answers are the most likely options."""
        scored = [name for name, protocol in self.measured_protocols.items() if protocol.is_by_likelihood]
        return f"{model} ({', '.join(scored)} by likelihood)" if scored else model

    @property
    def _called(self) -> list[ModelMetadata]:
        return [*self.models.values(), *self.helpers.values()]

    @property
    def price_sources(self) -> list[str]:
        """Where the prices of the models and helpers are from."""
        return list(dict.fromkeys(model.price.source for model in self._called if model.price))

    @property
    def cost_text(self) -> str:
        """The cost of the calls, as far as it is known: ``0.0123 USD``, ``at most 0.0123 USD (service tier flex)``."""
        calls = self.calls
        if calls.estimated_usd is not None:
            replies = counted(calls.estimated, "reply", "replies")
            return f"cost unknown, ≈{usd(calls.estimated_usd)} ({replies} without usage)"
        text = cost(calls.requests, calls.cost_usd)
        tiers = sorted({tier for model in self._called for tier in model.service_tiers})
        reasons = [f"service tier {', '.join(tiers)}"] if tiers else []
        if calls.cached_tokens and any(model.price and model.price.cached is None for model in self._called):
            reasons.append("no price of cached tokens")
        if not calls.cost_usd or not reasons:
            return text
        bound = "at least" if _HIGHER_PRICED.intersection(tiers) else "at most"
        return f"{bound} {text} ({'; '.join(reasons)})"

    @property
    def selected_items(self) -> dict[str, tuple[int, int]]:
        """Benchmark -> number of selected items and of all items; empty for a record without them."""
        return {name: (counts["items"], counts["of"]) for name, counts in self.selection.items()}
