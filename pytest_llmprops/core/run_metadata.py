"""The content of ``run.json``: what is recorded about a run as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_llmprops.core.numbers import cost, counted, usd
from pytest_llmprops.core.record_schema import RUN, check
from pytest_llmprops.core.record_schema import SCHEMA as SCHEMA
from pytest_llmprops.core.records import MetricRow, Remark, SearchCounts, SummaryRow
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.requests import BATCH_DISCOUNT, Usage
from pytest_llmprops.core.strict_json import JSON

if TYPE_CHECKING:  # runs without a gate do not need it
    from pytest_llmprops.core.gate_results import GateResult

#: in the note on a benchmark that could not be loaded, between its name and the reason
NOT_MEASURED = ": not measured: "
#: service tiers that cost more than the listed price
_HIGHER_PRICED = {"priority", "fast"}
#: stored replies of an unpinned model are old after this time, in seconds
DAY = 86400.0
T = TypeVar("T")


@dataclass(slots=True)
class OldReplies:
    """Stored replies of a model whose version is unknown, which another model of the same name may have given.

    :param older_than_a_day: number of replies older than 24 hours.
    :param oldest_seconds: the age of the oldest of these.
    :param before_list_change: number of replies from before the server's list of models changed.
    """

    older_than_a_day: int = 0
    oldest_seconds: float = 0.0
    before_list_change: int = 0

    @classmethod
    def from_json(cls, counts: Mapping[str, Any]) -> OldReplies:
        """Read ``old_replies`` of a model; fields of later versions are ignored."""
        return cls(**{f.name: counts[f.name] for f in fields(cls) if f.name in counts})

    def add(self, age: float, *, before_list_change: bool) -> None:
        """Count a stored reply of this age, in seconds."""
        if age > DAY:
            self.older_than_a_day += 1
            self.oldest_seconds = max(self.oldest_seconds, age)
        self.before_list_change += before_list_change

    def __bool__(self) -> bool:
        return bool(self.older_than_a_day or self.before_list_change)


@dataclass(frozen=True, slots=True)
class PriceFacts:
    """The price of a model, in USD per million tokens.

    :param source: the date of the table, or where else the price is from.
    :param cached: of input read from the provider's cache. :param written: of input written into it. None if unknown.
    """

    input: float
    output: float
    source: str
    cached: float | None = None
    written: float | None = None

    @classmethod
    def from_json(cls, price: Mapping[str, Any]) -> PriceFacts:
        """Read ``price`` of a model in a checked ``run.json``."""
        return cls(
            price["input"], price["output"], price["source"], price.get("cached"), price.get("written")
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, without the prices that are unknown."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def of(self, usage: Usage, via: str = "") -> float:
        """Return the cost of a call in USD.

        :param via: as in :class:`~pytest_llmprops.core.requests.Reply`; a batch has a discount.
        """
        cost = usage.cost(self.input, self.output, self.cached, self.written) / 1e6
        return cost * (BATCH_DISCOUNT if via == "batch" else 1)


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """One model or helper of a run.

    :param imported: the verdicts were imported, not measured.
    :param identity: revision, file hash or other values that identify the version; None until the model is used.
    :param pinned: the identity names one exact version.
    :param served_as: the model names that the server reported.
    :param served_counts: number of replies by these names.
    :param service_tiers: the provider's tiers with a price of their own that answered.
    :param old_replies: stored replies of an unpinned model that may be outdated.
    :param price: USD per million input and output tokens, and the date of the prices; None if it is unknown.
    :param newest_reply: Unix time at which the newest of its replies was received; None without one.
    """

    spec: str = ""
    imported: bool = False
    identity: JSON = None
    pinned: bool | None = None
    served_as: tuple[str, ...] | None = None
    served_counts: Mapping[str, int] = field(default_factory=dict)
    old_replies: OldReplies = field(default_factory=OldReplies)
    price: PriceFacts | None = None
    newest_reply: float | None = None
    service_tiers: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, model: Mapping[str, Any]) -> ModelMetadata:
        """Read one member of ``models`` or ``helpers`` of a checked ``run.json``."""
        served, price = model.get("served_as"), model.get("price")
        return cls(
            spec=model.get("spec", ""),
            imported=model.get("imported", False),
            identity=model.get("identity"),
            pinned=model.get("pinned"),
            served_as=None if served is None else tuple(served),
            served_counts=model.get("served_counts", {}),
            old_replies=OldReplies.from_json(model.get("old_replies") or {}),
            newest_reply=model.get("newest_reply"),
            service_tiers=tuple(model.get("service_tiers") or ()),
            price=None if price is None else PriceFacts.from_json(price),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, without the fields that are not known yet."""
        known: dict[str, Any] = {"spec": self.spec}
        if self.imported:
            known["imported"] = True
        if self.identity is not None:
            known["identity"] = self.identity
        if self.pinned is not None:
            known["pinned"] = self.pinned
        if self.served_as is not None:
            known["served_as"] = list(self.served_as)
        if self.served_counts:
            known["served_counts"] = dict(self.served_counts)
        if self.service_tiers:
            known["service_tiers"] = list(self.service_tiers)
        if self.old_replies:
            known["old_replies"] = asdict(self.old_replies)
        if self.newest_reply is not None:
            known["newest_reply"] = self.newest_reply
        if self.price is not None:
            known["price"] = self.price.to_json()
        return known


@dataclass(frozen=True, slots=True)
class ProtocolMetadata:
    """The protocol of one benchmark, in plain values."""

    name: str = ""
    settings: Mapping[str, JSON] = field(default_factory=dict)
    seed: int | None = None
    assumed: tuple[str, ...] = ()
    gives_up: str = ""
    overrides: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def is_by_likelihood(self) -> bool:
        """True if answers are the most likely options: the setting ``answer`` of the benchmark is ``likelihood``."""
        return self.settings.get("answer") == "likelihood"

    @classmethod
    def from_json(cls, protocol: Mapping[str, Any]) -> ProtocolMetadata:
        """Read one member of ``protocols`` of a checked ``run.json``."""
        return cls(
            name=protocol.get("name", ""),
            settings=protocol.get("settings") or {},
            seed=protocol.get("seed"),
            assumed=tuple(protocol.get("assumed") or ()),
            gives_up=protocol.get("gives_up") or "",
            overrides=protocol.get("overrides") or {},
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"assumed": list(self.assumed)}


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

    requests: int = 0
    cache_hits: int = 0
    sampled: int = 0
    sampled_earlier: int = 0
    joined: int = 0
    adopted: int = 0
    sent: int = 0
    answered: int = 0
    retries: int = 0
    refused: int = 0
    failed: int = 0
    in_flight: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    unpriced: int = 0
    estimated: int = 0
    seconds: float = 0.0
    oldest_seconds: float = 0.0


@dataclass(slots=True)
class CallFacts(CallCounts):
    """The calls of a run: ``calls`` in ``run.json``.

    :param cost_usd: None if the price of a call is unknown, or its tokens are only estimated.
    :param estimated_usd: the cost with that of the estimated tokens; None if the price of a call is unknown.
    :param counted_bytes: of a resumed run in progress: these counts have the calls in so many bytes of
        ``requests.jsonl``, and the rest is of this session.
    :param in_process: requests to models inside the pytest processes; None if there are no such models.
    """

    cost_usd: float | None = None
    estimated_usd: float | None = None
    counted_bytes: int = 0
    in_process: int | None = None
    in_process_seconds: float | None = None

    @classmethod
    def from_json(cls, calls: Mapping[str, Any]) -> CallFacts:
        """Read ``calls`` of a checked ``run.json``."""
        return cls(**{column.name: calls[column.name] for column in fields(cls) if column.name in calls})

    def to_json(self) -> dict[str, Any]:
        counters = asdict(self)
        if self.in_process is None:
            del counters["in_process"], counters["in_process_seconds"]
        for name in ("estimated_usd", "counted_bytes"):
            if not counters[name]:
                del counters[name]
        return counters

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
            self,
            cost_usd=None if is_estimate else amount,
            estimated_usd=amount if is_estimate else None,
        )


@dataclass(frozen=True, slots=True)
class GitState:
    """The commit from which a run was started.

    :param dirty: the work tree had uncommitted changes.
    """

    commit: str
    dirty: bool = False


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

    run_id: str
    schema: int = SCHEMA
    started: str = ""
    finished: str | None = None
    complete: bool = False
    models: Mapping[str, ModelMetadata] = field(default_factory=dict)
    helpers: Mapping[str, ModelMetadata] = field(default_factory=dict)
    protocols: Mapping[str, ProtocolMetadata] = field(default_factory=dict)
    options: Mapping[str, JSON] = field(default_factory=dict)
    benchmarks: Mapping[str, BenchmarkMetadata] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    git: GitState | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    deviations: Mapping[str, Sequence[str]] = field(default_factory=dict)
    calls: CallFacts = field(default_factory=CallFacts)
    summary: tuple[SummaryRow, ...] = ()
    metrics: tuple[MetricRow, ...] = ()
    expected: int | None = None
    not_served: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    selection: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    searches: tuple[SearchCounts, ...] = ()
    stopped: str | None = None
    notes: tuple[str, ...] = ()
    gate: GateResult | None = None
    promoted_from: str = ""
    promoted_at: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

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
        text, tiers = cost(calls.requests, calls.cost_usd), self._service_tiers
        reasons = [f"service tier {', '.join(tiers)}"] if tiers else []
        if calls.cached_tokens and any(model.price and model.price.cached is None for model in self._called):
            reasons.append("no price of cached tokens")
        if not calls.cost_usd or not reasons:
            return text
        bound = "at least" if _HIGHER_PRICED.intersection(tiers) else "at most"
        return f"{bound} {text} ({'; '.join(reasons)})"

    @property
    def _service_tiers(self) -> list[str]:
        return sorted({tier for model in self._called for tier in model.service_tiers})

    @property
    def selected_items(self) -> dict[str, tuple[int, int]]:
        """Benchmark -> number of selected items and of all items; empty for a record without them."""
        return {name: (counts["items"], counts["of"]) for name, counts in self.selection.items()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any], run_id: str) -> RunMetadata:
        """Read ``run.json`` of schema 1 or 2; missing fields are empty.

        :param run_id: the id for a file without one.
        :raises ValueError: with one phrase that names the problem.
        """
        # The reader refuses another schema with a message of its own.
        check({**facts, "schema": SCHEMA}, RUN)
        facts = {"run_id": run_id, **{name: value for name, value in facts.items() if value is not None}}
        git, decision = facts.get("git"), facts.get("gate")
        gate: GateResult | None = None
        if decision:
            from pytest_llmprops.core.gate_results import GateResult

            gate = GateResult.from_json(decision)
        known: dict[str, Any] = {name: facts[name] for name in _AS_WRITTEN if name in facts}
        known |= {name: tuple(map(read, facts.get(name, ()))) for name, read in _TABLES.items()}
        return cls(
            **known,
            models={label: ModelMetadata.from_json(m) for label, m in facts.get("models", {}).items()},
            helpers={role: ModelMetadata.from_json(m) for role, m in facts.get("helpers", {}).items()},
            protocols={name: ProtocolMetadata.from_json(p) for name, p in facts.get("protocols", {}).items()},
            benchmarks={n: BenchmarkMetadata.from_json(n, b) for n, b in facts.get("benchmarks", {}).items()},
            git=GitState(git["commit"], git.get("dirty", False)) if git and "commit" in git else None,
            calls=CallFacts.from_json(facts.get("calls", {})),
            notes=tuple(facts.get("notes", ())),
            gate=gate,
        )

    def to_json(self) -> dict[str, Any]:
        written: dict[str, Any] = {name: _plain(getattr(self, name)) for name in _ORDER}
        for name in ("searches", "gate", "promoted_from", "promoted_at", "selection", "files"):
            if value := getattr(self, name):
                written[name] = _plain(value)
        return written


_TABLES: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "summary": SummaryRow.from_json,
    "metrics": MetricRow.from_json,
    "searches": SearchCounts.from_json,
    "remarks": Remark.from_json,
}
_AS_WRITTEN = (
    "run_id", "schema", "started", "finished", "complete", "options", "versions", "data", "deviations", "expected",
    "not_served", "stopped", "promoted_from", "promoted_at", "files",
    "selection",
)  # fmt: skip
_ORDER = (
    "schema", "run_id", "started", "finished", "complete", "models", "helpers", "protocols", "options", "versions",
    "git", "data", "deviations", "calls", "summary", "metrics", "benchmarks", "expected",
    "not_served", "remarks", "stopped", "notes",
)  # fmt: skip


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, GitState):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list | tuple) else value
