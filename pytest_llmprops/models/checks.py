"""Checks of models and of what they return. A model may come from anyone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_llmprops.core.contracts import fault_text, json_problem, type_name
from pytest_llmprops.core.errors import BackendError, ContractError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.models.base import METHODS, Model, Result

_REQUIRED = ("identity", "pinned", "max_batch", "blocking", "deviations", "close")


def checked_model(model: Any) -> Model:
    """Return a model that has all attributes of :class:`~pytest_llmprops.models.base.Model`.

    :raises ContractError: with the first problem; nothing was paid for so far.
    """
    problem = _model_problem(model)
    if problem:
        raise ContractError(
            f"the model that its factory returned {problem}; see 'Write a model' in docs/models.md"
        )
    checked: Model = model
    return checked


def _model_problem(model: Any) -> str:
    if model is None:
        return "is None"
    name = type_name(model)
    missing = [attribute for attribute in _REQUIRED if not hasattr(model, attribute)]
    if missing:
        return f"({name}) has no {', '.join(missing)}"
    if not any(hasattr(model, method) for method in METHODS.values()):
        return f"({name}) has no method {', '.join(METHODS.values())}"
    problem = json_problem(model.identity, "identity")
    if problem:
        return f"({name}) is not usable: {problem}"
    if not isinstance(model.max_batch, int) or model.max_batch < 1:
        return f"({name}) has a max_batch that is not a whole number of at least 1"
    deviations = model.deviations()
    if isinstance(deviations, str) or not isinstance(deviations, Sequence):
        return f"({name}) has a method deviations that returned {type_name(deviations)} instead of a list of strings"
    return ""


def checked_results(results: object, count: int) -> list[Result]:
    """Return the results of a model, one per request.

    A value that is neither a reply nor an error becomes the error of its request.
    """
    if not isinstance(results, list):
        if not isinstance(results, Iterable) or isinstance(results, str | Mapping):
            return [_error(f"the model returned {type_name(results)} instead of a list of Reply")] * count
        results = list(results)
    if len(results) != count:
        return [_error(f"the model returned {len(results)} results for {count} requests")] * count
    return [checked_result(result) for result in results]


def checked_result(result: object) -> Result:
    """Return a result of a model; a value that is neither a reply nor an error becomes an error."""
    if isinstance(result, Reply):
        text: Any = result.text
        if isinstance(text, str):
            return result
        return _error(f"the model returned a Reply whose text is {type_name(text)} instead of a string")
    if isinstance(result, BackendError):
        return result
    return _error(f"the model returned {type_name(result)} instead of a Reply")


def unexpected(error: BaseException) -> BackendError:
    """Return the error of the requests in which a model raised an unexpected exception."""
    name = type(error).__name__
    text = fault_text(error)
    return _error(text if text.startswith(name) else f"{name}: {text}")


def _error(message: str) -> BackendError:
    return BackendError(message, kind="backend")
