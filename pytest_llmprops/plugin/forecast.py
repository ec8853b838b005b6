"""The calls that a run needs: counted before its first call, in this process or in a child of it."""

from __future__ import annotations

import dataclasses
import gc
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_llmprops.core.contracts import fault_line
from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.core.requests import Chat, Request, Usage
from pytest_llmprops.engine.planning import CHARACTERS_PER_TOKEN, plan
from pytest_llmprops.engine.session import Engine
from pytest_llmprops.models.prices import Price
from pytest_llmprops.plugin.session import LLMSession

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


@dataclass(slots=True)
class ModelCalls:
    """The calls to one model.

    :param stored: number of requests that stored replies answer.
    :param completion_tokens: the most tokens that the replies may have.
    :param shortest: the shortest prompt without a stored reply.
    """

    calls: int = 0
    stored: int = 0
    prompt_characters: int = 0
    completion_tokens: int = 0
    shortest: Chat | None = None

    def add(self, request: Request) -> None:
        """Count a request that needs a call."""
        self.calls += 1
        if isinstance(request, Chat):
            self.prompt_characters += len(request.prompt)
            self.completion_tokens += request.max_tokens or 0
            if self.shortest is None or _cost_of_trial(request) < _cost_of_trial(self.shortest):
                self.shortest = request

    def cost(self, price: Price) -> float:
        """Return the estimated cost in USD."""
        tokens = round(self.prompt_characters / CHARACTERS_PER_TOKEN)
        return price.of(Usage(tokens, self.completion_tokens))


#: number of requests that are looked up in the store at once; their prompts are in memory
_COUNTED = 1_000
_FAILED = "the calls of the run could not be counted:"
#: model label -> its calls
Forecast = Mapping[str, ModelCalls]


def _cost_of_trial(request: Chat) -> tuple[bool, int]:
    """Return what to minimize. One sample of a prompt at a temperature leaves the others to a second call."""
    return request.temperature != 0, len(request.prompt)


def forecast_of(session: LLMSession, engine: Engine) -> Forecast:
    """Return the calls of the collected cases that are still to be measured."""
    calls: dict[str, ModelCalls] = {}
    asked: list[tuple[str, Request]] = []

    def count() -> None:
        for (label, request), is_known in zip(asked, engine.are_known(asked), strict=True):
            own = calls.setdefault(label, ModelCalls())
            if is_known:
                own.stored += 1
            else:
                own.add(request)
        asked.clear()

    def add(label: str, request: Request) -> None:
        asked.append((label, request))
        if len(asked) == _COUNTED:
            count()

    in_process = session.evaluation.in_process_labels
    plan((case for case in session.collection.remaining if case.model not in in_process), add)
    count()
    return calls


def forecast_in_child(session: LLMSession, pytest_session: pytest.Session) -> Forecast | None:
    """Collect in a fork of this process, and return the calls; None if no case will be run.

    With workers, the controller collects nothing. If it did, pytest would report everything twice. A fork needs no
    second import of pytest, and nothing remains of it.

    :raises pytest.UsageError: if an option does not fit the items, or the child fails.
    """
    # A run without workers needs no child.
    import multiprocessing

    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_collect, args=(sending, session, pytest_session))
    process.start()
    sending.close()
    try:
        result = receiving.recv()
    except EOFError:
        process.join()
        result = [f"{_FAILED} the process that collects ended with status {process.exitcode}; use -n 0"]
    except BaseException:
        process.kill()
        raise
    finally:
        receiving.close()
        process.join()
    if isinstance(result, list):
        raise pytest.UsageError(*result)
    calls: Forecast | None = result
    return calls


def _collect(channel: Connection, session: LLMSession, pytest_session: pytest.Session) -> None:
    _silence(session.config)
    gc.disable()
    result: Forecast | list[str] | None = None
    try:
        pytest_session.perform_collect()
        # Workers run what can be collected, also after collection errors.
        if session.collection.remaining:
            config = dataclasses.replace(session.evaluation.broker_config(), run_dir=None, engine="local")
            engine = Engine(config=config, window=1)
            result = forecast_of(session, engine)
            engine.close()
    except pytest.UsageError as error:
        result = list(map(str, error.args))
    except LLMPropsError as error:
        result = [str(error)]
    except BaseException as fault:
        result = [f"{_FAILED} {fault_line(fault)}"]
    channel.send(result)
    # Without the handlers of the controller's exit.
    os._exit(0)


def _silence(config: pytest.Config) -> None:
    """Send the output of this process nowhere, also that of pytest's terminal reporter."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is not None:
        # Its files are those of the controller.
        capture.stop_global_capturing()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    if capture is not None:
        capture.start_global_capturing()
        capture.suspend_global_capture()
