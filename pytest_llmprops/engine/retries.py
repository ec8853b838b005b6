"""The retry policy: which failed calls are repeated, how often, and after what wait.

``models/errors.py`` classifies the errors of servers: it sets ``transient`` and ``retry_after`` of a
:class:`~pytest_llmprops.core.errors.BackendError`. ``engine/calls.py`` makes the calls and repeats them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.engine.limits import Sleep

if TYPE_CHECKING:  # imported only when a call fails
    from tenacity import AsyncRetrying

#: seconds before the first retry; each further wait is twice as long, up to the longest
FIRST_WAIT = 0.2
LONGEST_WAIT = 60.0
#: If a server asks for a longer wait, the call is not retried: the item is an error, which another run can repeat.
LONGEST_RETRY_AFTER = 300.0


def worth_retrying(error: BaseException) -> bool:
    """Return whether a retry may succeed, and soon enough."""
    if not isinstance(error, BackendError) or not error.transient:
        return False
    return error.retry_after is None or error.retry_after <= LONGEST_RETRY_AFTER


def retrying(
    retries: int, sleep: Sleep, worth: Callable[[BaseException], bool] = worth_retrying
) -> AsyncRetrying:
    """Return tenacity's loop for a call whose first attempt has failed, with up to ``retries`` more attempts.

    A wait is at least the server's Retry-After, if there is one. Otherwise waits grow exponentially from
    ``FIRST_WAIT``. Random jitter prevents failed calls from returning all at once.

    :param worth: whether to retry after an error.
    """
    from tenacity import (
        AsyncRetrying,
        RetryCallState,
        retry_if_exception,
        stop_after_attempt,
        wait_exponential,
        wait_random,
    )

    backoff = wait_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT) + wait_random(0, FIRST_WAIT / 2)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        retry_after = getattr(error, "retry_after", None)
        return backoff(state) if retry_after is None else float(retry_after) + random.uniform(0, 0.1)

    # The failed first attempt is the loop's first attempt.
    return AsyncRetrying(
        retry=retry_if_exception(worth),
        wait=wait,
        stop=stop_after_attempt(retries + 1),
        reraise=True,
        sleep=sleep,
    )
