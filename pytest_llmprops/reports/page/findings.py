"""The finding on a benchmark, in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.items import grouped
from pytest_llmprops.reports.kit.blocks import (
    counted,
    interval,
    joined,
    language,
    percent,
    point_range,
    points,
    visible,
    words,
)
from pytest_llmprops.reports.kit.series import Measured, Series, Share, accuracy_of, scores_of
from pytest_llmprops.runs.pairs import Member
from pytest_llmprops.runs.readings import MANY
from pytest_llmprops.statistics.bounded_mean import cluster_means

if TYPE_CHECKING:
    from pytest_llmprops.statistics.judgement import Change


def finding(measured: Measured) -> str:
    """Return the sentence on one benchmark, without a full stop."""
    facts, tasks = measured.facts, measured.headline_tasks
    if not facts.is_ranked(tasks):
        return unranked(measured)
    shares = [(s, share) for s in measured.series if (share := measured.headline(s))]
    if not shares:
        return f"No item of {facts.title} was answered"
    if len(shares) == 1 and _target(measured) is None:
        return _one(measured, *shares[0], tasks)
    first = _reference(measured, [s for s, _ in shares], tasks)
    member = Member(measured.benchmark, "benchmark", measured.benchmark)
    rest = (s for s, _ in shares if s is not first)
    changes = {s.index: change for s in rest if (change := first.judgement(s).get(member)) is not None}
    return finding_on(measured, shares, first, changes)


def finding_on(
    measured: Measured, shares: Sequence[tuple[Series, Share]], first: Series, changes: Mapping[int, Change]
) -> str:
    """Return the sentence on several series, or on a target.

    :param shares: the accuracies on the headline tasks. :param first: what the others are compared with.
    :param changes: from the first series to each other one that has items in common with it, by index.
    """
    facts, target = measured.facts, _target(measured)
    if target is not None:
        text = targeted(facts.noun, shares, target)
    elif not changes:
        return f"{joined([s.starred for s, _ in shares])} have no item of {facts.title} in common"
    else:
        text = compared(
            facts.noun, first.starred, {s.starred: changes[s.index] for s, _ in shares if s.index in changes}
        )
        others = [s.starred for s, _ in shares if s is not first and s.index not in changes]
        if others:
            text += f"; {joined(others)} {'was' if len(others) == 1 else 'were'} measured on other items"
    return text + _without_readable(measured, shares)


def _target(measured: Measured) -> float | None:
    """Return the accuracy that is best on all headline tasks, if it is not 1."""
    targets = [measured.facts.accuracy_targets.get(task) for task in measured.headline_tasks]
    return None if None in targets else targets[0]


def _reference(measured: Measured, series: Sequence[Series], tasks: list[str]) -> Series:
    """Return the series that the others are compared with: the first one, unless another has items of more of them."""
    items: dict[int, set[tuple[str, ...]]] = {}
    for s in series:
        answered = (r for r in measured.records(s, tasks) if r.status not in UNANSWERED)
        items[s.index] = {(r.language, r.source, r.id) for r in answered}
    return max(series, key=lambda s: sum(bool(items[s.index] & others) for others in items.values()))


class _Unread(NamedTuple):
    """The numbers of replies that could not be read, of refusals, and of all answers."""

    part: int
    refused: int
    of: int


def _unread(measured: Measured, series: Series, tasks: list[str]) -> _Unread:
    rows = [row for row in measured.rows(series) if row.task in tasks]
    answered = sum(row.samples - row.errors - row.untested for row in rows)
    return _Unread(sum(row.unparsed for row in rows), sum(row.refused for row in rows), answered)


def _without_readable(measured: Measured, shares: Iterable[tuple[Series, Share]]) -> str:
    """Return a clause that names the series of which many replies could not be read; empty without any."""
    counts = {s.starred: _unread(measured, s, measured.headline_tasks) for s, _ in shares}
    none = [name for name, c in counts.items() if c.part == c.of]
    some = [
        f"{percent(c.part / c.of)} of those of {name}"
        for name, c in counts.items()
        if MANY * c.of < c.part < c.of
    ]
    text = f"; no reply of {joined(none)} could be read" if none else ""
    if some:
        text += (
            f"; not all replies could be read ({joined(some)} not), so format, not ability, may be measured"
        )
    return text


def _one(measured: Measured, series: Series, share: Share, tasks: list[str]) -> str:
    facts, unread = measured.facts, _unread(measured, series, tasks)
    if unread.part == unread.of:
        return f"No reply of {series.starred} on {facts.noun} could be read ({counted(unread.of, 'reply', 'replies')})"
    if unread.refused == unread.of:
        return f"{series.starred} refuses all of {facts.noun} ({counted(unread.of, 'reply', 'replies')})"
    mean = ", as a mean over clusters" if measured.is_cluster_weighted else ""
    text = f"{series.starred} {facts.verb} {percent(share.value)} of {facts.noun}{mean}"
    text += f" ({interval(share.low, share.high)})"
    if unread.part > MANY * unread.of:
        unread_share = percent(unread.part / unread.of)
        return f"{text}; {unread_share} of the replies could not be read, so this may measure format, not ability"
    chance = facts.chance_of()
    if chance is not None and share.low <= chance <= share.high:
        return f"{text}, no better than guessing"
    if chance is not None and share.high < chance:
        text += ", fewer than guessing would"
    weakest = weak_spot(measured, series, tasks)
    return f"{text} and loses most {weakest}" if weakest else text


def unranked(measured: Measured) -> str:
    """Return the remark on each series about the tasks whose accuracy says nothing by itself; empty without them."""
    words = {measured.facts.unranked.get(task) for task, _, _ in measured.places} - {None}
    found = []
    for s in measured.series if words else ():
        remarks = (r.text for r in measured.remarks(s))
        text = next((text for text in remarks if text.partition(":")[0] in words), "no conclusion")
        found.append(f"{s.starred}: {visible(text)}")
    return "; ".join(found)


def targeted(noun: str, shares: Sequence[tuple[Series, Share]], target: float) -> str:
    """Return a sentence on tasks with an accuracy target: the accuracy of each series and the target."""
    accuracies = [
        f"{s.starred} {percent(share.value)} ({interval(share.low, share.high)})" for s, share in shares
    ]
    return f"Right by the sign on {noun}, where {percent(target)} is best: {joined(accuracies)}"


def weak_spot(measured: Measured, series: Series, tasks: list[str]) -> str:
    """Return the weakest task or language: ``on rhyme``, ``in Chinese``.

    Its interval is entirely below the accuracy on the others; empty if there is none.
    """
    groups = grouped(measured.records(series, tasks), lambda record: (record.task, record.language))
    by_cluster = measured.is_cluster_weighted
    scores = {place: scores_of(members) for place, members in groups.items()}
    worst: tuple[float, str] | None = None
    for (task, code), items in scores.items():
        own = accuracy_of(items, by_cluster=by_cluster)
        others = [pair for place, pairs in scores.items() if place != (task, code) for pair in pairs]
        rest: list[float] = [score for score, _ in others]
        if by_cluster and others:
            rest, _ = cluster_means(rest, [cluster for _, cluster in others])
        if own and rest and own.high < fmean(rest) and (worst is None or own.value < worst[0]):
            where = f"on {words(task)}" if len({key[0] for key in groups}) > 1 else ""
            place = f"in {language(code)}" if len({key[1] for key in groups}) > 1 else ""
            worst = own.value, " ".join(filter(None, (where, place)))
    return worst[1] if worst else ""


def compared(items: str, first: str, changes: Mapping[str, Change]) -> str:
    """Return how other models do, each compared with the first one.

    Each word is that of the judgement of two runs, so that ``llmprops compare`` and a gate say the same of them.

    :param items: what the benchmark's items are called. :param first: label of the first model.
    :param changes: the change from the first model to each other one, by its label; at least one.
    """
    if len(changes) == 1:
        [(name, change)] = changes.items()
        by = f"({points(change.difference)} points, {point_range(change.low, change.high)})"
        if change.is_clear:
            return f"{name} does {change.word} than {first} on {items} {by}"
        return f"{name} and {first} do not clearly differ on {items} {by}"
    if not any(change.is_clear for change in changes.values()):
        return f"Compared with {first} on {items}: no other clearly differs"
    clauses = []
    for word in ("worse", "better", "no clear difference"):
        alike = {name: change for name, change in changes.items() if change.word == word}
        if alike:
            names = joined(list(alike)) if len(alike) <= 2 else f"{len(alike)} others"
            verb = "does" if len(alike) == 1 else "do"
            is_clear = word != "no clear difference"
            how = f"{word} ({_largest(alike)} points)" if is_clear else "not clearly differ"
            clauses.append(f"{names} {verb} {how}")
    return f"Compared with {first} on {items}: {'; '.join(clauses)}"


def _largest(changes: Mapping[str, Change]) -> str:
    name = max(changes, key=lambda name: abs(changes[name].difference))
    size = points(changes[name].difference)
    return size if len(changes) == 1 else f"{name} most: {size}"
