"""When the code of a benchmark fails at every item, the run stops."""

from __future__ import annotations

from pytest_llmprops.core.contracts import fault_line, place_of
from pytest_llmprops.core.errors import BackendError, ContractError

#: equal faults in a row after which a run stops
MOST_FAULTS = 20


class Faults:
    """Counts the equal faults in a row, over the cases of one process."""

    def __init__(self) -> None:
        self._last: tuple[str, str, str] | None = None
        self._count = 0

    def add(self, benchmark: str, failure: Exception | None) -> str | None:
        """Count a case; return why the run should stop, None if it should go on.

        :param failure: why the case is an error; None if it has a verdict.
        """
        # Limits and retries are for the failures of calls. A missing helper is missing for every item.
        if failure is None or (isinstance(failure, BackendError) and failure.kind != "helper"):
            self._last = None
            return None
        # The message of an exception may name the item; its place in the code does not.
        is_message = isinstance(failure, ContractError | BackendError)
        what = str(failure) if is_message else place_of(failure) or str(failure)
        key = (benchmark, type(failure).__name__, what)
        self._count = self._count + 1 if key == self._last else 1
        self._last = key
        if self._count < MOST_FAULTS:
            return None
        return (
            f"{MOST_FAULTS} items of {benchmark} in a row failed in the same way: {fault_line(failure)}; correct it and"
            " run again, the store has the replies so far"
        )
