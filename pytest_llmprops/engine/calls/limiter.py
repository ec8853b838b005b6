"""The pace of the calls to one model: it follows what the server serves, refuses and asks for.

A server that refuses a call because of a limit (429, 498, 503, 529) says nothing about the call itself. All calls of
the model then pause together, and go on at the rate that was served. The rate grows again with each reply. A server
that does not answer at all is the other reason to pause: one call at a time tries it until it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.numbers import count, counted, duration
from pytest_llmprops.engine.config import BrokerConfig

#: refusals because of a limit: of the account, of a flexible tier (Groq), of the provider's capacity (Anthropic)
_CAPACITY = ("status 498", "status 529")
LIMITED = ("status 429", "status 503", *_CAPACITY)
#: the server, or a gateway's own server, does not answer; 520 to 524 are Cloudflare's
_SILENT = (
    "connection",
    "timeout",
    "status 502",
    "status 504",
    *(f"status {number}" for number in range(520, 525)),
)
_UNREACHABLE = "unreachable"
#: calls without an answer, and without a reply to another one, that show that the server is away
_AWAY_FOR = 3
#: seconds of a pause that the server does not state; twice as long after each pause in which no call succeeds
FIRST_PAUSE = 0.5
#: as in the SDKs of OpenAI and Anthropic
LONGEST_PAUSE = 8.0
#: the longest one when all calls that wait were refused before
LAST_PAUSE = 1.0
#: seconds without a reply after which refusals stop the run, and the longest wait that a server may ask for
PATIENCE = 300.0
#: refusals of one call after which it fails
MOST_REFUSALS = 12
#: replies between refusals from which the rate is known, and stays near what was served
_KNOWN_AFTER = 10
#: the rate doubles with this many replies, or with all calls in flight, until it is known
_DOUBLED_BY = 8
#: growth of a known rate with each reply, per reply since the last refusal: 6% in 50 replies, 28% in 100
_GROWTH = 5e-5
#: share of the served rate at which calls go on, if the server says how long to wait
_WITH_HINT = 0.97
#: share of the rate at which calls go on, if it does not
_WITHOUT_HINT = 0.88
#: calls per second at which calls go on at least, while some have replies: a provider without capacity refuses calls at
#: any rate, and without a hint, a pause may be longer than needed
_LEAST_OF_CAPACITY, _LEAST_WITHOUT_HINT = 8.0, 2.0
#: replies per refusal that make the rate right
_FEW = 12
#: no limit that a run meets: calls per second
_UNLIMITED = 1e4
#: a server's clock and the network need a moment more than it says
_MARGIN = 0.05
#: seconds of a stated pause whose calls are made up for: a budget of tokens fills meanwhile
_MADE_UP = 2.0


@dataclass(slots=True, eq=False)
class Turn:
    """A call: when it was last sent, and what became of its attempts.

    :param period: number of the period between two pauses. :param answered: replies to the model's calls before it.
    :param refusals: attempts refused because of a limit.
    :param was_lost: an attempt ended because the server seemed to be away; a second one counts as a failure.
    """

    period: int = -1
    answered: int = 0
    refusals: int = 0
    was_lost: bool = False
    was_sent: bool = False


class Limiter:
    """Says when a call to one model may be sent, and learns from its result.

    All methods run in one event loop and use its clock.

    :param name: the label of the model. :param stop: stops the run for a reason.
    """

    def __init__(self, name: str, config: BrokerConfig, stop: Callable[[str], RunStopped]) -> None:
        self._name, self._timeout, self._stop = name, config.calls.timeout, stop
        self._most = config.rpm / 60 if config.rpm else None
        self._has_worked = name in config.proven
        self._line = asyncio.Lock()
        #: calls in the line that were never sent
        self._new = 0
        self._changed = asyncio.Event()
        self._over = ""
        #: calls refused because of a limit; the end of the first pause, and the replies until then
        self.refused = 0
        self._limit_met, self._free = -1.0, 0
        #: calls per second; None while nothing limits them
        self._rate = self._most
        self._is_limited = self._is_known = False
        #: calls per second below which no refusal sets the rate
        self._least = 0.0
        #: when the next call is due, how many seconds of missed turns it may make up for, and the end of the pause
        self._due = self._made_up = self._paused_until = 0.0
        #: the period between two pauses: number, start, replies that arrived in it, and when a refusal ended it
        self._period, self._began, self._served, self._ended = 0, -1.0, 0, -1.0
        self._refused_now = 0
        #: replies, refusals and seconds of the periods so far; each counts twice as much as the one before
        self._replies = self._refusals = self._seconds = 0.0
        #: pauses in a row without a reply, and when the first of them began
        self._fruitless = 0
        self._limited_since: float | None = None
        #: calls that may be sent before the first reply of a period, while no rate is known
        self._window = self._left = config.calls.concurrency
        #: replies so far and the time of the last one, and calls in flight
        self._answered, self._last_reply, self._open = 0, 0.0, 0
        #: calls that were lost since the last reply
        self._lost: set[Turn] = set()
        self._away_since, self._problem, self._is_unreachable = -1.0, "", False
        self._probe: Turn | None = None
        #: seconds that the run has waited for the server
        self.away = 0.0

    @property
    def _is_away(self) -> bool:
        return self._away_since >= 0

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    async def wait(self, turn: Turn) -> None:
        """Wait until a call may be sent.

        :raises RunStopped: if the run is stopped, also because the server stays away.
        """
        if self._rate is None and self._seconds_to_wait() <= 0:
            self._take(turn)
            return
        self._new += not turn.was_sent
        try:
            await self._wait_in_line(turn)
        finally:
            self._new -= not turn.was_sent

    async def _wait_in_line(self, turn: Turn) -> None:
        # The lock is fair: calls are sent in the order in which they came.
        async with self._line:
            if self._is_away and turn.was_lost and not self._is_unreachable and self._probe is None:
                # No new call is left to try the server with.
                self._come_back()
            while (seconds := self._seconds_to_wait()) > 0:
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._changed.wait()
            self._take(turn)

    def start(self, turn: Turn) -> bool:
        """Note that a call is sent; return False if the calls were paused after it got its turn."""
        # A refusal of a call in flight does not keep the one that tries the server.
        if turn is not self._probe and (self._is_away or turn.period != self._period):
            return False
        turn.answered, turn.was_sent = self._answered, True
        self._open += 1
        return True

    def end(self, reason: str) -> None:
        """Let the waiting calls end with the reason for which the run is stopped."""
        self._over = reason
        self._changed.set()

    def _seconds_to_wait(self) -> float:
        """Return the seconds until a call may be sent, 0 or less for now.

        :raises RunStopped: if the run is stopped, or the server has been away for too long.
        """
        if self._over:
            raise RunStopped(self._over)
        now = self._now()
        if self._is_away:
            left = self._away_since + self._timeout - now
            if left <= 0:
                waited = duration(self._timeout)
                raise self._stop(
                    f"{self._name} has not answered for {waited} (--llm-timeout): {self._problem}"
                )
            return left if self._probe is not None else min(left, self._paused_until - now)
        if self._rate is None:
            if self._left <= 0 and not self._served and self._ended < 0:
                # All calls of this period are in flight.
                return PATIENCE
            return self._paused_until - now
        return max(self._paused_until, self._due) - now

    def _take(self, turn: Turn) -> None:
        now = self._now()
        if self._began < 0:
            self._began = now
        if self._ended >= 0:
            self._begin_period(now)
        turn.period = self._period
        self._left -= 1
        if self._is_away:
            self._probe = turn
        elif self._rate is not None:
            self._due = max(self._due, now - self._made_up) + 1 / self._rate

    def _begin_period(self, now: float) -> None:
        """Set the rate from what was served in the period that ends with this pause."""
        if self._limit_met < 0:
            self._limit_met, self._free = now, self._answered
        whole = max(now - self._began, 1e-3)
        served, rate = self._served, self._rate
        if self._is_limited:
            self._replies, self._refusals = self._replies / 2 + served, self._refusals / 2 + self._refused_now
        if not served:
            if rate is None:
                self._window = max(1, self._window // 2)
            elif self._fruitless > 1:
                self._rate, self._is_known = rate / 2, False
        elif rate is None or not self._is_limited:
            self._rate, self._is_limited = self._at_most(max(served / whole, self._least)), True
        elif self._made_up:
            self._seconds = self._seconds / 2 + whole
            self._is_known |= self._replies >= _KNOWN_AFTER
            # One of several servers may refuse its share of the calls at any rate: do not slow down for a few.
            least = rate if self._replies >= _FEW * self._refusals else 0.0
            self._rate = self._at_most(_WITH_HINT * max(self._replies / self._seconds, least))
        else:
            self._is_known |= served >= _KNOWN_AFTER
            lower = rate if self._is_known else min(rate, served / whole)
            self._rate = max(_WITHOUT_HINT * lower, min(rate, self._least))
        self._began, self._ended, self._left = now, -1.0, self._window
        self._served = self._refused_now = 0

    def _at_most(self, rate: float) -> float:
        return min(rate, self._most or _UNLIMITED)

    def succeeded(self) -> None:
        """Note a reply."""
        self._open -= 1
        self._answered += 1
        self._served += 1
        self._fruitless, self._limited_since, self._last_reply = 0, None, self._now()
        self._lost.clear()
        if self._is_away:
            self._come_back()
        if self._rate is not None and self._is_limited and self._line.locked():
            # Calls wait for their turn, so that this rate is the one that is served.
            fast = 2 ** (1 / max(_DOUBLED_BY, self._open))
            growth = 1 + self._served * _GROWTH if self._is_known else fast
            self._rate = self._at_most(self._rate * growth)
        if self._served == 1:
            self._changed.set()

    def failed(self, turn: Turn, error: BackendError) -> bool:
        """Note a failed attempt; return True if the call is to be sent again, at no cost.

        :raises RunStopped: if the server asks for a longer wait than ``PATIENCE``, or gave no reply for so long.
        """
        self._open -= 1
        were_answered = turn.answered != self._answered
        if error.transient and error.kind in LIMITED:
            turn.refusals += 1
            self._refuse(turn, error)
            says_limit = error.kind != "status 503" or error.retry_after is not None
            return (says_limit or not were_answered) and turn.refusals < MOST_REFUSALS
        if error.kind == _UNREACHABLE or error.kind in _SILENT:
            return self._lose(turn, error, were_answered=were_answered)
        self._release(turn)
        return False

    def dropped(self, turn: Turn) -> None:
        """Note that a call ended without a reply, for a reason that says nothing about others."""
        self._open -= 1
        self._release(turn)

    def _release(self, turn: Turn) -> None:
        if turn is self._probe:
            self._come_back()
        if turn.period == self._period:
            self._left += 1
            self._changed.set()

    def _refuse(self, turn: Turn, error: BackendError) -> None:
        now, hint = self._now(), error.retry_after
        self.refused += 1
        self._refused_now += 1
        if turn is self._probe:
            self._come_back()
        if hint is not None and hint > PATIENCE:
            raise self._stop(f"{self._name}: the server asks to wait {duration(hint)}: {error.message}")
        if turn.period == self._period:
            self._fruitless = 0 if self._served else self._fruitless + 1
            if self._limited_since is None:
                self._limited_since = now
            if now - self._limited_since > PATIENCE:
                raise self._stop(f"{self._name}: no reply for {duration(PATIENCE)}: {error.message}")
            self._period, self._ended = self._period + 1, now
            self._made_up = 0.0 if hint is None else _MADE_UP
            self._least = 0.0
            if hint is None and (error.kind in _CAPACITY or not self._is_limited):
                self._least = _LEAST_OF_CAPACITY if error.kind in _CAPACITY else _LEAST_WITHOUT_HINT
        elif hint is None:
            # It was sent before the pause.
            return
        own = self._own_pause()
        self._paused_until = max(self._paused_until, now + (own if hint is None else hint + _MARGIN))
        # One call may be sent when the stated wait is over, and those whose turns it took beyond that.
        gap = 1 / self._rate if self._rate else _MADE_UP
        self._due = self._paused_until - max(0.0, min(self._made_up, hint or 0.0) - gap)
        self._changed.set()

    def _own_pause(self) -> float:
        # If no new call waits, it may be the prompts that are refused.
        longest = LONGEST_PAUSE if self._new else LAST_PAUSE
        return min(FIRST_PAUSE * 2.0 ** min(self._fruitless, 10), longest)

    def _lose(self, turn: Turn, error: BackendError, *, were_answered: bool) -> bool:
        """Note that a call got no answer; return True if the server, and not the call, seems to be the reason."""
        now, is_probe, is_unreachable = self._now(), turn is self._probe, error.kind == _UNREACHABLE
        was_lost, turn.was_lost = turn.was_lost, True
        if was_lost and not is_unreachable:
            # The server may be well, and this prompt the reason. Each call without an answer may be billed.
            error.transient &= error.kind != "timeout"
            self._release(turn)
            return False
        if not self._is_away:
            self._lost.add(turn)
            if error.kind == "timeout":
                # Others may have been answered when it was sent.
                were_answered = now - self._last_reply < self._timeout / 2
            # A prompt may take too long by itself, whereas no prompt closes the server's port.
            is_enough = is_unreachable or len(self._lost) >= _AWAY_FOR
            if were_answered or not is_enough or not (self._answered or self._has_worked):
                self._release(turn)
                return False
            self._away_since, self._fruitless = now, 0
            # The run waits for as long as a call: the first one that tries the server is sent at once.
            self._paused_until = now if error.kind == "timeout" else now + FIRST_PAUSE
        self._problem, self._is_unreachable = error.message, is_unreachable
        if is_probe:
            self._probe = None
            self._fruitless += 1
            self._paused_until = now + self._own_pause()
        self._changed.set()
        return True

    def _come_back(self) -> None:
        self.away += self._now() - self._away_since
        self._away_since, self._probe, self._paused_until = -1.0, None, 0.0
        self._left = self._window
        self._changed.set()

    def _found(self) -> int | None:
        """Return the calls per minute that were served since the first pause; None for too few to say."""
        served, seconds = self._answered - self._free, self._last_reply - self._limit_met - self.away
        return round(60 * served / seconds) if served >= _KNOWN_AFTER and seconds > 0 else None

    def status(self) -> str:
        """Return what the calls wait for, as a phrase; empty if they do not wait."""
        if self._is_away:
            return f"waiting for {self._name}, which does not answer"
        if not self._is_limited:
            return ""
        found = self._found()
        pace = f": {count(found)} calls a minute" if found else ""
        return f"waiting for the rate limit of {self._name}{pace}"

    def notes(self) -> list[str]:
        """Return lines for the summary: the limit that was found, and how long the server was away."""
        notes = []
        if self.refused:
            found = self._found()
            pace = f"; about {count(found)} calls a minute were served (llm_rpm = {found})" if found else ""
            notes.append(f"{self._name}: the rate limit refused {counted(self.refused, 'call')}{pace}")
        if self.away >= 1:
            notes.append(f"{self._name}: the server did not answer for {duration(self.away)}; the run waited")
        return notes
