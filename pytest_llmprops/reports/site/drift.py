"""Drift: did a model change whose name stayed the same? Each run is compared with the runs before it, item by item.

A run is tested against up to :data:`WINDOW` earlier ones, which show how much the answers of an unchanged model vary. A
single earlier run does not: a drop of 10 points among 200 items would often be missed. The window starts again after
each change that is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from pytest_llmprops.core.judgement import Change
from pytest_llmprops.core.metrics import items_of
from pytest_llmprops.core.numbers import percent
from pytest_llmprops.core.paired import Pairs, latest_drop
from pytest_llmprops.reports.kit.blocks import point_range, points, visible
from pytest_llmprops.reports.kit.series import Measured
from pytest_llmprops.reports.page.findings import difference
from pytest_llmprops.reports.site.measurements import Measurement, SiteRun, comparable
from pytest_llmprops.runs.benchmark_metadata import tasks_by_answer
from pytest_llmprops.runs.pairs import by_item, with_one_task
from pytest_llmprops.runs.reader import Run

#: most earlier runs that a run is tested against
WINDOW = 8
#: a site with weekly runs of unchanged models shows a change in at most 5% of years
RUNS_A_YEAR = 52
#: a run with a larger share of stored replies is not added to earlier runs: it may repeat their replies
MOST_STORED = 0.1


class _Score(NamedTuple):
    """The share of correct samples of an item, its cluster, and whether its task is a headline task."""

    share: float
    cluster: str
    is_headline: bool


class Comparisons:
    """Compares measurements on the headline tasks of their benchmark, as reports do.

    :param known: :meth:`to_json` of an earlier build. :param read: returns a run with its verdicts.
    """

    def __init__(self, known: Mapping[str, Any], read: Callable[[SiteRun], Run]) -> None:
        self._known, self._read = known, read
        self._used: dict[str, Any] = {}
        self._scores = lru_cache(maxsize=WINDOW + 1)(self._read_scores)

    def result(self, first: Measurement, second: Measurement) -> Change | None:
        """Compare the second with the first; None without common answered items."""
        return self._kept("", [first, second], self._compare)

    def change(self, earlier: Sequence[Measurement], after: Measurement) -> Change | None:
        """Compare a run with the mean of earlier ones, on the items that all have answered; None without any.

        The p-values are those of :func:`~pytest_llmprops.core.paired.latest_drop`. Losses and gains are those since
        the last one of the earlier runs.
        """
        return self._kept("change|", [*earlier, after], self._change)

    def _kept(
        self, kind: str, members: Sequence[Measurement], compare: Callable[..., Change | None]
    ) -> Change | None:
        sides = [f"{m.run.key}/{m.model}" for m in members]
        key = kind + "|".join([*sides, members[-1].benchmark])
        if key not in self._used:
            if key in self._known:
                self._used[key] = self._known[key]
            else:
                result = compare(*members)
                self._used[key] = None if result is None else asdict(result)
        fields = self._used[key]
        return None if fields is None else Change(**fields)

    def _compare(self, first: Measurement, second: Measurement) -> Change | None:
        one, other = first.series(0, self._read), second.series(1, self._read)
        measured = Measured(second.benchmark, (one, other))
        return difference(measured, one, other, measured.headline_tasks)

    def _change(self, *members: Measurement) -> Change | None:
        import numpy as np

        *earlier, after = (self._scores(m) for m in members)
        items = [
            key
            for key, score in after.items()
            if score.is_headline and all(key in scores for scores in earlier)
        ]
        if not items:
            return None
        scores = np.array([[runs[key].share for runs in (*earlier, after)] for key in items])
        lost, gained = ((sign * (scores[:, -2] - scores[:, -1]) > 0).sum() for sign in (1, -1))
        labels, places = np.unique([after[key].cluster for key in items], return_inverse=True)
        sums = np.zeros((len(labels), len(members)))
        np.add.at(sums, places, scores)
        is_weighted = Measured(members[-1].benchmark, (members[-1].series(0),)).is_cluster_weighted
        if is_weighted:
            scores = sums = sums / np.bincount(places)[:, None]
            places = np.arange(len(labels))
        pairs = Pairs(
            tuple(scores[:, :-1].mean(axis=1).tolist()),
            tuple(scores[:, -1].tolist()),
            tuple(labels[places].tolist()),
            "cluster" if is_weighted else "pair",
        )
        sign = 1 if pairs.difference < 0 else -1
        change = Change.of(pairs, latest_drop(sign * sums), "exchange of runs")
        return replace(change, lost=int(lost), gained=int(gained))

    def _read_scores(self, m: Measurement) -> dict[tuple[str, ...], _Score]:
        """Return the score of each answered item. Tasks that depend on the answer do not distinguish items."""
        series = m.series(0, self._read)
        measured, decided = Measured(m.benchmark, (series,)), tasks_by_answer(m.facts)
        headline, by_answer = set(measured.headline_tasks), set(decided(m.benchmark))
        scores: dict[tuple[str, ...], _Score] = {}
        for key, samples in by_item(with_one_task(measured.records(series), decided)).items():
            [item] = items_of(samples)
            if item.correct:
                task = "" if key.task in by_answer else key.task
                score = _Score(item.share, item.cluster, key.task in headline)
                scores[task, key.language, key.source, key.id] = score
        return scores

    def to_json(self) -> dict[str, Any]:
        """Return the results that were used, sorted."""
        return dict(sorted(self._used.items()))


@dataclass(frozen=True, slots=True)
class Step:
    """A run of one model on one benchmark, compared with earlier ones.

    :param before: the last of the earlier runs. :param earlier: number of earlier runs.
    :param result: None if they have no item in common, or the later one did not ask again.
    :param conclusion: in the words of reports.
    :param served: the model names that the server reported, if they changed or are several; otherwise empty.
    :param identity: how the recorded version changed; empty if it did not.
    :param stored: share of the later run's replies that the store answered.
    """

    before: Measurement
    after: Measurement
    earlier: int
    title: str
    result: Change | None
    conclusion: str
    change: str
    served: str
    identity: str
    stored: str

    @property
    def is_change(self) -> bool:
        """True if a test shows a change."""
        return self.result is not None and self.result.is_clear


@dataclass(frozen=True, slots=True)
class Drift:
    """The steps of one model, newest first."""

    model: str
    steps: tuple[Step, ...]


def drift_of(by_benchmark: Mapping[str, Sequence[Measurement]], comparisons: Comparisons) -> list[Drift]:
    """Return the steps of every model with two comparable runs of a benchmark. Models are sorted by name."""
    groups = [
        group
        for measurements in by_benchmark.values()
        for model in sorted({m.model for m in measurements})
        for group in comparable([m for m in measurements if m.model == model], deviations=True)
        if len(group) > 1
    ]
    models: dict[str, list[Step]] = {}
    steps = [step for group in groups for step in _steps(group, comparisons, len(groups))]
    for step in sorted(steps, key=lambda s: (s.after.order, s.title), reverse=True):
        models.setdefault(step.after.model, []).append(step)
    return [Drift(visible(model), tuple(models[model])) for model in sorted(models)]


def _steps(group: Sequence[Measurement], comparisons: Comparisons, groups: int) -> Iterator[Step]:
    """Return the steps of comparable runs of a model, oldest first.

    Each p-value is corrected (Bonferroni) for weekly runs of all ``groups`` during a year, and both directions.
    """
    tests = 2 * RUNS_A_YEAR * groups
    earlier = [group[0]]
    for after in group[1:]:
        step = _step(earlier, after, comparisons, tests)
        yield step
        if _stored(after) < 1:
            is_new = step.is_change or _stored(after) > MOST_STORED
            earlier = [after] if is_new else [*earlier, after][-WINDOW:]


def _stored(m: Measurement) -> float:
    """Return the share of a run's replies that are from the store."""
    calls = m.facts.calls
    return calls.cache_hits / calls.requests if calls.requests else 0.0


def _step(earlier: Sequence[Measurement], after: Measurement, comparisons: Comparisons, tests: int) -> Step:
    before, stored = earlier[-1], _stored(after)
    # A run that only replays stored replies says nothing about the model today.
    is_replay = stored >= 1
    result = None if is_replay else comparisons.change(earlier, after)
    conclusion = "not asked again: every reply is from the store" if is_replay else "no common items"
    change = ""
    if result is not None:
        result = result.judged(min(1.0, tests * result.one_sided_p))
        conclusion = result.word
        change = f"{points(result.difference)} ({point_range(result.low, result.high)})"
    return Step(
        before, after, len(earlier), after.benchmark_facts.title, result, conclusion, change,
        *same_models(before, after), percent(stored) if stored else "",
    )  # fmt: skip


def same_models(before: Measurement, after: Measurement) -> tuple[str, str]:
    """Return how the served model and the recorded version changed; empty texts if they did not."""
    return _served(before, after), _identity(before, after)


def _served(before: Measurement, after: Measurement) -> str:
    names = [m.model_facts.served_as or () for m in (before, after)]
    if names[0] == names[1] and len(names[0]) < 2:
        return ""
    return visible(" → ".join(", ".join(part) or "not reported" for part in names))


def _identity(before: Measurement, after: Measurement) -> str:
    models = [m.model_facts for m in (before, after)]
    if models[0].identity == models[1].identity:
        return ""
    changed = [model.identity if isinstance(model.identity, Mapping) else {} for model in models]
    names = [n for n in {**changed[0], **changed[1]} if changed[0].get(n) != changed[1].get(n)]
    parts = [f"{n} {_short(changed[0].get(n))} → {_short(changed[1].get(n))}" for n in names]
    return visible(", ".join(parts)) or "another version"


def _short(value: object) -> str:
    return "(none)" if value is None else str(value)[:40]


def sentence(drifts: Sequence[Drift]) -> str:
    """Return the finding over all models, without a full stop."""
    steps = [step for drift in drifts for step in drift.steps]
    tested = [step for step in steps if step.result is not None]
    changed = [step for step in tested if step.is_change]
    if not steps:
        return "No model has two comparable runs yet"
    if not tested:
        return "No model was asked again"
    of = f"{len(tested):,} comparison{'' if len(tested) == 1 else 's'} with earlier runs"
    if not changed:
        return f"No clear change in {of}"
    models = sorted({visible(step.after.model) for step in changed})
    named = f"{', '.join(models[:-1])} and {models[-1]}" if len(models) > 1 else models[0]
    if len(models) > 3:
        named = f"{len(models)} models"
    return (
        f"{named} changed: {len(changed):,} of {of} show{'s' if len(changed) == 1 else ''} a clear difference"
    )
