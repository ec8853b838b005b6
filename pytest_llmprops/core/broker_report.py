"""The broker's report: its counters, and how each model was served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_llmprops.core.run_facts import CallFacts, OldReplies
from pytest_llmprops.core.strict_json import JSON


@dataclass(frozen=True, slots=True)
class ModelUse:
    """How one model was served.

    :param identity: what pins the model's output, for example a revision; None if it is unknown.
    :param pinned: the identity names an exact version; None if it is unknown.
    :param served_as: the model names in the replies.
    :param deviations: one line for each request parameter that the API did not accept.
    :param old_replies: its stored replies that may be outdated.
    """

    identity: JSON = None
    pinned: bool | None = None
    served_as: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    old_replies: OldReplies = field(default_factory=OldReplies)


@dataclass(frozen=True, slots=True)
class OpenBatches:
    """The batches that a run waits for.

    :param lines: their requests. :param done: those with a result.
    :param expires: Unix time at which the first of them gives up its open lines; 0 if it is unknown.
    :param is_unfinished: the run ended while they were open, so that the same command goes on.
    """

    batches: int = 0
    lines: int = 0
    done: int = 0
    expires: float = 0.0
    is_unfinished: bool = False


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """What a broker reports while a run goes on, and at its end.

    :param stopped: why the broker stopped the run; None if it did not.
    :param notes: lines for the summary.
    :param models: use of each model that served a request, by label.
    :param batches: None without ``--llm-engine batch``.
    """

    counters: CallFacts = field(default_factory=CallFacts)
    stopped: str | None = None
    notes: tuple[str, ...] = ()
    models: Mapping[str, ModelUse] = field(default_factory=dict)
    batches: OpenBatches | None = None

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> BrokerReport:
        """Read the plain values that a broker sends."""
        return cls(
            CallFacts.from_json(report["counters"]),
            report["stopped"],
            tuple(report["notes"]),
            {
                label: ModelUse(
                    model["identity"],
                    model["pinned"],
                    tuple(model["served_as"]),
                    tuple(model["deviations"]),
                    OldReplies.from_json(model["old_replies"]),
                )
                for label, model in report["models"].items()
            },
            OpenBatches(**report["batches"]) if report.get("batches") else None,
        )
