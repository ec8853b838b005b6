"""The exceptions of this project.

    LLMPropsError
    ├── UsageError           an option, a setting or a model name is invalid
    │   └── MissingExtra     the package of a backend is not installed
    ├── DataError            a data file is missing or invalid
    ├── StoreError           the reply store cannot be opened, read or written
    ├── ContractError        the code of a benchmark or a model returned a value that cannot be used
    ├── RunStopped           the run cannot continue: wrong key, unknown model, budget used up
    └── BackendError         one call failed; never a wrong answer

Every message is one line: what happened, where, how to fix it.
"""

from __future__ import annotations

from typing import Any


class LLMPropsError(Exception):
    """Root of the hierarchy."""


class UsageError(LLMPropsError, ValueError):
    """An option, a setting or a model name is invalid."""


class MissingExtra(UsageError):
    """The package of a backend is not installed.

    :param extra: the extra of this project that installs it.
    """

    def __init__(self, what: str, *, package: str, extra: str) -> None:
        #: the command that installs it
        self.fix = f"pip install 'pytest-llmprops[{extra}]'"
        super().__init__(f"{what} needs the package '{package}': {self.fix}")


class DataError(LLMPropsError, ValueError):
    """A data file is missing or invalid."""


class StoreError(LLMPropsError):
    """The reply store cannot be opened, read or written."""


class ContractError(LLMPropsError):
    """The code of a benchmark or a model returned a value that cannot be used, or raised an exception."""


class RunStopped(LLMPropsError):
    """The run cannot continue; cases without a verdict stay open."""


class BackendError(LLMPropsError):
    """A call failed. Models may also return it as a result in place of a reply.

    :param kind: ``status 500``, ``timeout``, ``connection``, ``key``, ``model``, ``request``, ``empty`` ...
    :param transient: a retry may succeed.
    :param fatal: no further call of this run can succeed (wrong key, unknown model).
    :param retry_after: seconds that the server asks to wait before the next call; None if it does not say.
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
        # A benchmark may raise it with something else than a text.
        self.message = str(message)
        self.kind = kind
        self.transient = transient
        self.fatal = fatal
        self.retry_after = retry_after
        #: what the provider bills for the call nevertheless, as a ``Reply``; None for nothing
        self.billed: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the error as plain values, for another process."""
        return {
            name: getattr(self, name) for name in ("message", "kind", "transient", "fatal", "retry_after")
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> BackendError:
        """Return the error that :meth:`to_json` was called on."""
        return cls(**data)
