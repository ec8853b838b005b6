"""Everything this project raises on purpose.

    LLMPropsError
    ├── UsageError           an option, a setting or a model name that cannot be used
    │   └── MissingExtra     a backend whose package is not installed
    ├── DataError            a data file that cannot be read as what it should be
    ├── StoreError           the reply store cannot be opened or written
    ├── RunStopped           the run cannot go on: wrong key, unknown model, spent budget
    └── BackendError         one call that could not be made; never a wrong answer

Every message is one line: what, where, how to fix it.
"""

from __future__ import annotations

from typing import Any


class LLMPropsError(Exception):
    """Root of the hierarchy."""


class UsageError(LLMPropsError, ValueError):
    """An option, a setting or a model name is invalid."""


class MissingExtra(UsageError):
    """A backend whose package is not installed; ``extra`` is empty for what every install should have."""

    def __init__(self, what: str, *, package: str, extra: str) -> None:
        name = f"pytest-llmprops[{extra}]" if extra else package
        super().__init__(f"{what} needs the package '{package}': pip install '{name}'")


class DataError(LLMPropsError, ValueError):
    """A data file is missing or invalid."""


class StoreError(LLMPropsError):
    """The reply store cannot be opened, read or written."""


class RunStopped(LLMPropsError):
    """The run cannot go on; cases without a verdict stay open."""


class BackendError(LLMPropsError):
    """A call could not be made.

    Models may also return it as a result instead of a reply.

    :param kind: ``status 500``, ``timeout``, ``connection``, ``key``, ``model``, ``request``, ``empty`` ...
    :param transient: a retry may succeed.
    :param fatal: no further call of this run can succeed (wrong key, unknown model).
    :param retry_after: seconds the server asked to wait, if it did.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "backend",
        transient: bool = False,
        fatal: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.transient = transient
        self.fatal = fatal
        self.retry_after = retry_after

    def to_json(self) -> dict[str, Any]:
        """Return the error as plain values, for another process."""
        return {
            "message": self.message,
            "kind": self.kind,
            "transient": self.transient,
            "fatal": self.fatal,
            "retry_after": self.retry_after,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> BackendError:
        """Return the error that :meth:`to_json` was called on."""
        message = str(data["message"])
        return cls(
            message,
            kind=str(data["kind"]),
            transient=bool(data["transient"]),
            fatal=bool(data["fatal"]),
            retry_after=data["retry_after"],
        )
