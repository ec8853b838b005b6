"""The findings of a report, in one or two sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.verdicts import VerdictRecord
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
from pytest_llmprops.reports.kit.generic import compare
from pytest_llmprops.reports.kit.series import Measured, Series, Share, accuracy
from pytest_llmprops.runs.judgement import Member
from pytest_llmprops.runs.readings import MANY

if TYPE_CHECKING:
    from pytest_llmprops.records.gate import GateResult
    from pytest_llmprops.statistics.judgement import Change


def findings(parts: Sequence[Measured], series: Sequence[Series]) -> list[str]:
    """Return one sentence per benchmark; the gate's decision comes first.

    A sentence says how good a single model is, whether the second of two is better, or which of several is best.
    Only differences that a test shows are named.
    """
    sentences = [s for part in parts for s in dict.fromkeys((finding(part), unranked(part))) if s]
    runs = list({id(s.run): s.run for s in series}.values())
    lines = [_gate(gate) for run in runs if (gate := run.facts.gate) is not None] + sentences
    return lines or ["No case has a verdict, so there is nothing to report"]


def _gate(gate: GateResult) -> str:
    """Return the line of the decision, which older records begin in small letters."""
    line = gate.line or gate.decision
    if not line.startswith(gate.decision):
        return line
    return gate.decision.upper() + line.removeprefix(gate.decision)


def finding(measured: Measured) -> str:
    """Return the sentence on one benchmark, without a full stop."""
    facts, tasks = measured.facts, measured.headline_tasks
    if not facts.is_ranked(tasks):
        return unranked(measured)
    shares = [(s, share) for s in measured.series if (share := measured.headline(s))]
    if not shares:
        return f"No item of {facts.title} was answered"
    if all(task in facts.accuracy_targets for task in tasks):
        text = targeted(facts.noun, shares, facts.accuracy_targets[tasks[0]])
        return text + without_readable(measured, shares, tasks)
    if len(shares) == 1:
        return _one(measured, *shares[0], tasks)
    groups = _with_common_items(measured, shares, tasks)
    compared = max(groups, key=len)
    if len(compared) == 1:
        return f"{joined([s.starred for s, _ in shares])} have no item of {facts.title} in common"
    if len(compared) == 2:
        text = _two(measured, compared[0][0], compared[1][0], tasks)
    else:
        text = _several(measured, compared, tasks)
    others = [s.starred for group in groups if group is not compared for s, _ in group]
    if others:
        text += f"; {joined(others)} {'was' if len(others) == 1 else 'were'} measured on other items"
    return text + without_readable(measured, shares, tasks)


def _with_common_items(
    measured: Measured, shares: Sequence[tuple[Series, Share]], tasks: list[str]
) -> list[list[tuple[Series, Share]]]:
    """Return the series in groups; only those of a group have items in common, directly or through another one."""
    groups: list[tuple[list[tuple[Series, Share]], set[tuple[str, ...]]]] = []
    for pair in shares:
        items: set[tuple[str, ...]] = {
            (r.language, r.source, r.id)
            for r in measured.records(pair[0], tasks)
            if r.status not in UNANSWERED
        }
        members, apart = [pair], []
        for group, known in groups:
            if known & items:
                members, items = [*group, *members], known | items
            else:
                apart.append((group, known))
        groups = [*apart, (members, items)]
    return [sorted(members, key=lambda pair: pair[0].index) for members, _ in groups]


class _Unread(NamedTuple):
    """The numbers of replies that could not be read, of refusals, and of all answers."""

    part: int
    refused: int
    of: int


def _unread(measured: Measured, series: Series, tasks: list[str]) -> _Unread:
    rows = [row for row in measured.rows(series) if row.task in tasks]
    answered = sum(row.samples - row.errors - row.untested for row in rows)
    return _Unread(sum(row.unparsed for row in rows), sum(row.refused for row in rows), answered)


def without_readable(measured: Measured, shares: Iterable[tuple[Series, Share]], tasks: list[str]) -> str:
    """Return a clause that names the series of which many replies could not be read; empty without any."""
    counts = {s.starred: _unread(measured, s, tasks) for s, _ in shares}
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
        remarks = (
            r.text for r in s.run.facts.remarks if (r.model, r.benchmark) == (s.model, measured.benchmark)
        )
        text = next((text for text in remarks if text.partition(":")[0] in words), "no conclusion")
        found.append(f"{s.starred}: {visible(text)}")
    return "; ".join(found)


def targeted(noun: str, shares: list[tuple[Series, Share]], target: float) -> str:
    """Return a sentence on tasks with an accuracy target: the accuracy of each series and the target."""
    accuracies = [
        f"{s.starred} {percent(share.value)} ({interval(share.low, share.high)})" for s, share in shares
    ]
    return f"Right by the sign on {noun}, where {percent(target)} is best: {joined(accuracies)}"


def weak_spot(measured: Measured, series: Series, tasks: list[str]) -> str:
    """Return the weakest task or language: ``on rhyme``, ``in Chinese``.

    Its interval is entirely below the accuracy on the others; empty if there is none.
    """
    records = measured.records(series, tasks)
    groups: dict[tuple[str, str], list[VerdictRecord]] = {}
    for record in records:
        groups.setdefault((record.task, record.language), []).append(record)
    worst: tuple[float, str] | None = None
    for (task, code), members in groups.items():
        own = accuracy(members, by_cluster=measured.is_cluster_weighted)
        others = [r for key, rest in groups.items() if key != (task, code) for r in rest]
        rest = accuracy(others, by_cluster=measured.is_cluster_weighted)
        if own and rest and own.high < rest.value and (worst is None or own.value < worst[0]):
            where = f"on {words(task)}" if len({key[0] for key in groups}) > 1 else ""
            place = f"in {language(code)}" if len({key[1] for key in groups}) > 1 else ""
            worst = own.value, " ".join(filter(None, (where, place)))
    return worst[1] if worst else ""


def difference(measured: Measured, first: Series, second: Series, tasks: list[str]) -> Change | None:
    """Compare the second series with the first on the items of ``tasks``; None without a common answered item."""
    before = [r for r in measured.aligned(first, second) if r.task in tasks]
    return compare(before, measured.records(second, tasks), by_cluster=measured.is_cluster_weighted)


def is_ahead(result: Change | None, models: int) -> bool:
    """Return True if the best of several models is clearly ahead of another one.

    The best one was chosen by its accuracy. Bonferroni's correction is over the tests of every model against every
    other one, so that it holds for any choice: with 95% probability, no model is called behind one that is not better.

    :param result: the comparison of the best one with the other one; None without common items.
    :param models: number of all models.
    """
    from pytest_llmprops.statistics.judgement import LEVEL

    if result is None or result.difference <= 0:
        return False
    return result.one_sided_p * models * (models - 1) <= LEVEL


def _two(measured: Measured, first: Series, second: Series, tasks: list[str]) -> str:
    result = first.judgement(second).get(Member(measured.benchmark, "benchmark", measured.benchmark))
    result = result or difference(measured, first, second, tasks)
    if result is None:
        return f"{first.starred} and {second.starred} have no item of {measured.facts.title} in common"
    by = f"{points(result.difference)} points, {point_range(result.low, result.high)}"
    if result.is_clear:
        return f"{second.starred} does {result.word} than {first.starred} on {measured.facts.noun} ({by})"
    names = f"{second.starred} and {first.starred}"
    return f"{names} do not clearly differ on {measured.facts.noun} ({by})"


def _several(measured: Measured, shares: list[tuple[Series, Share]], tasks: list[str]) -> str:
    (best, share), *rest = sorted(shares, key=lambda pair: -pair[1].value)
    close = [
        other.starred
        for other, _ in rest
        if not is_ahead(difference(measured, other, best, tasks), len(shares))
    ]
    # One model measured under several settings is not several models.
    noun = "model" if len({s.model for s, _ in shares}) == len(shares) else "measurement"
    others = [other.starred for other, _ in rest]
    return best_of_several(best.starred, share, close, others, measured.facts.noun, noun)


def best_of_several(
    best: str, share: Share, close: Sequence[str], others: Sequence[str], items: str, noun: str = "model"
) -> str:
    """Return the sentence that names the best series, or says that none is clearly best.

    :param best: label of the series with the highest accuracy. :param close: labels of those that it is not clearly
        ahead of. :param others: labels of all others. :param items: what the benchmark's items are called.
    """
    by = f"{percent(share.value)} ({interval(share.low, share.high)})"
    if not close:
        named = others[0] if len(others) == 1 else "the others"
        return f"{best} does best on {items}: {by}, clearly ahead of {named}"
    named = joined(list(close)) if len(close) <= 2 else f"{len(close)} of the {len(others)} others"
    if len(close) == len(others) > 2:
        named = f"any of the {len(others)} others"
    return f"No {noun} is clearly best on {items}: {best} has {by}, not clearly ahead of {named}"
