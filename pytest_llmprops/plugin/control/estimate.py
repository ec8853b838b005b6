"""The calls of a run that has not begun, and their cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.faults import fault_line
from pytest_llmprops.core.requests import (
    BATCH_DISCOUNT,
    Chat,
    Completion,
    Likelihood,
    Price,
    Request,
    Usage,
    request_from_json,
    request_to_json,
    sizes,
)
from pytest_llmprops.engine.evaluation.planning import plan
from pytest_llmprops.engine.session import Engine
from pytest_llmprops.models.api.prices import CHARACTERS_PER_TOKEN, FREE, price
from pytest_llmprops.models.registry import find_backend
from pytest_llmprops.plugin.cases.cases import HELPER, Cases
from pytest_llmprops.plugin.collection import Collection
from pytest_llmprops.plugin.evaluation import Evaluation


def prices_of(cases: Cases) -> dict[str, Price]:
    """Return the known prices by label; helpers that are not called over a network are free."""
    prices, factor = {}, BATCH_DISCOUNT if cases.settings.engine == "batch" else 1.0
    for label, spec in cases.model_specs().items():
        backend = find_backend(spec.backend)
        if (listed := price(spec.name, spec.params, cases.settings.prices)) is not None:
            prices[label] = listed.scaled(factor)
        elif backend.is_free or (label.startswith(HELPER) and not backend.remote):
            prices[label] = FREE
    return prices


def price_note(prices: Mapping[str, Price]) -> str:
    """Return where the prices are from, with their date; empty if nothing has a price."""
    sources = dict.fromkeys(known.source for known in prices.values() if known.source)
    return f"prices: {', '.join(sources)}" if sources else ""


#: prompts of which one must have a reply before the run begins: a gateway may block one of them
TRIALS = 3
#: a request that one call checks a model with
Trial = Chat | Completion | Likelihood


@dataclass(slots=True)
class ModelCalls:
    """The calls to one model.

    :param stored: number of requests that stored replies answer.
    :param completion_tokens: the most tokens that the replies may have, without thoughts.
    :param thinking_tokens: tokens of the thoughts before each reply, as in the call before the run.
    :param trials: the shortest different prompts without a stored reply, for the call before the run.
    """

    calls: int = 0
    stored: int = 0
    prompt_characters: int = 0
    completion_tokens: int = 0
    thinking_tokens: int = 0
    trials: list[Trial] = field(default_factory=list)

    def add(self, request: Request) -> None:
        """Count a request that needs a call."""
        self.calls += 1
        characters, tokens = sizes(request)
        self.prompt_characters += characters
        self.completion_tokens += tokens
        if isinstance(request, Trial) and all(request.prompt != other.prompt for other in self.trials):
            self.trials = sorted([*self.trials, request], key=_cost_of_trial)[:TRIALS]

    def cost(self, price: Price) -> float:
        """Return the estimated cost in USD."""
        tokens = round(self.prompt_characters / CHARACTERS_PER_TOKEN)
        return price.of(Usage(tokens, self.completion_tokens + self.calls * self.thinking_tokens))

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with which a worker tells its controller."""
        return {**dataclasses.asdict(self), "trials": [request_to_json(trial) for trial in self.trials]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelCalls:
        """Read the values that :meth:`to_json` returns."""
        return cls(**{**data, "trials": [request_from_json(trial) for trial in data["trials"]]})


#: number of requests that are looked up in the store at once; their prompts are in memory
_COUNTED = 1_000
#: model label -> its calls
Forecast = Mapping[str, ModelCalls]


def _cost_of_trial(request: Trial) -> tuple[bool, int]:
    """Return what to minimize. One sample of a prompt at a temperature leaves the others to a second call."""
    return not isinstance(request, Likelihood) and request.temperature != 0, len(request.prompt)


def forecast_of(collection: Collection, evaluation: Evaluation, engine: Engine) -> Forecast:
    """Return the calls of the collected cases that are still to be measured."""
    calls: dict[str, ModelCalls] = {}
    asked: list[tuple[str, Request]] = []

    def add(label: str, request: Request) -> None:
        asked.append((label, request))
        if len(asked) == _COUNTED:
            look_up()

    def look_up() -> None:
        for (label, request), is_known in zip(asked, engine.are_known(asked), strict=True):
            own = calls.setdefault(label, ModelCalls())
            if is_known:
                own.stored += 1
            else:
                own.add(request)
        asked.clear()

    in_process = evaluation.in_process_labels
    plan((case for case in collection.remaining if case.model not in in_process), add)
    look_up()
    return calls


def forecast_in_worker(collection: Collection, evaluation: Evaluation) -> Forecast:
    """Return the calls of a run with workers, all of which collect the same cases.

    :raises LLMPropsError: if the calls cannot be counted.
    """
    config = dataclasses.replace(evaluation.broker_config(), run_dir=None, engine="local")
    engine = Engine(config=config, window=1)
    try:
        return forecast_of(collection, evaluation, engine)
    except LLMPropsError:
        raise
    except Exception as fault:
        raise UsageError(f"the calls of the run could not be counted: {fault_line(fault)}") from None
    finally:
        engine.close()
