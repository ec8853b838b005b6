"""How far a training is: by steps, or by time if there is a time limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


class Progress:
    """The share of a training that is done, from 0 to 1, and the learning rate and evaluations that follow from it.

    Without a time limit it depends on the number of steps only, so that a resumed training equals an uninterrupted one.

    :param seconds: time limit; None without one.
    :param clock: returns the current time in seconds.
    """

    def __init__(self, *, seconds: float | None, warmup: float, clock: Callable[[], float]) -> None:
        self._limit, self._warmup, self._clock = seconds, warmup, clock
        self.max_steps = 1
        self._start = clock()

    def resume(self, seconds: float) -> None:
        """Count ``seconds`` of an earlier process."""
        self._start = self._clock() - seconds

    @property
    def elapsed(self) -> float:
        """Seconds of training, including those of earlier processes."""
        return self._clock() - self._start

    def share(self, step: int) -> float:
        """Return the share that is done after ``step`` steps."""
        by_steps = step / self.max_steps
        by_time = 0.0 if self._limit is None else self.elapsed / self._limit
        return min(1.0, max(by_steps, by_time))

    def learning_rate_factor(self, step: int) -> float:
        """Return the factor of the learning rate: a linear rise to 1 and a linear fall to 0."""
        # The step that comes next would have a rate of 0 at the start.
        share = max(self.share(step), 0.5 / self.max_steps)
        if share < self._warmup:
            return share / self._warmup
        return (1.0 - share) / (1.0 - self._warmup) if self._warmup < 1 else 1.0


def elapsed_in(history: Sequence[Mapping[str, float]]) -> float:
    """Return the seconds of training of the last entry of a training's history."""
    return max((float(entry.get("seconds", 0.0)) for entry in history), default=0.0)


def is_stuck(history: Sequence[Mapping[str, float]], metric: str, patience: int) -> bool:
    """Return whether the last ``patience`` evaluations are not better than an earlier one."""
    values = [entry[metric] for entry in history if metric in entry]
    return 0 < patience < len(values) and max(values[-patience:]) <= max(values[:-patience])
