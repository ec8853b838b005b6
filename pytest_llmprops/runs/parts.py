"""The facts of a run from those of its parts: the sessions of a resumed run, or shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.texts import first_names
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.requests import DiscardedReply, PaidReply, RequestRecord
from pytest_llmprops.records.run import CallFacts, ModelMetadata, OldReplies, RunMetadata
from pytest_llmprops.runs.integrity import REQUESTS
from pytest_llmprops.runs.json_lines import JsonLines

#: the entry of a merged run's options that names the shards to measure and to resume
MERGED = "merged"


def merged_option(missing: Sequence[str], unfinished: Sequence[Path]) -> dict[str, JSON]:
    """Return the entry of a merged run.

    :param missing: shards without a run, as ``I/N``.
    :param unfinished: folders of the shards that are incomplete or have errors.
    """
    steps: dict[str, JSON] = {"measure": list(missing), "retry": [str(folder) for folder in unfinished]}
    return {name: values for name, values in steps.items() if values}


def is_merged(facts: RunMetadata) -> bool:
    """Return True if a run was merged from shards, so that it cannot be resumed itself."""
    return isinstance(facts.options.get(MERGED), Mapping)


def shard_steps(facts: RunMetadata) -> str:
    """Return what completes a merged run; empty if nothing is missing."""
    merged = facts.options.get(MERGED)
    if not isinstance(merged, Mapping) or not merged:
        return ""
    steps = []
    if missing := _texts(merged.get("measure")):
        steps.append(f"measure the missing shards with --llm-shard ({first_names(missing)})")
    if unfinished := _texts(merged.get("retry")):
        steps.append(f"complete the others with 'llmprops run --resume RUN' ({first_names(unfinished)})")
    return f"{', '.join(steps)}, then merge all shards again with 'llmprops runs merge'"


def merged_problem(facts: RunMetadata) -> str:
    """Return why a merged run is not resumed, and what to do instead."""
    steps = shard_steps(facts)
    return f"was merged from shards; {steps or 'they are complete and have no errors, so there is nothing to run'}"


def _texts(values: object) -> list[str]:
    return list(map(str, values)) if isinstance(values, list) else []


#: the options that decide what is asked and how it is judged, and their names on the command line
SAME_OPTIONS: Mapping[str, str] = {
    "protocol": "--llm-protocol",
    "sets": "--llm-set",
    "params": "--llm-param",
    "source": "-o llm_source",
    "seed": "--llm-seed",
    "limit": "--llm-limit",
    "size": "--llm-size",
    "repeats": "--llm-repeats",
    "base_url": "--llm-base-url",
}
#: of these counters, the highest one counts; all others are added
_HIGHEST = ("oldest_seconds", "in_flight")
#: :meth:`CallFacts.with_amount` sets them; ``counted_bytes`` is of one session in progress
_OF_COST = ("cost_usd", "estimated_usd", "counted_bytes")


def summed_calls(one: CallFacts, other: CallFacts) -> CallFacts:
    """Return the calls of both parts; the cost is unknown if that of a part is."""
    total: dict[str, Any] = {}
    amounts = one.amount, other.amount
    for name in (field.name for field in fields(CallFacts)):
        if name in _OF_COST:
            continue
        first, second = getattr(one, name), getattr(other, name)
        if name in _HIGHEST:
            total[name] = max(first, second)
        elif None in (first, second):
            # A part without models in process has no requests to them.
            total[name] = first or second
        else:
            total[name] = round(first + second, 9)
    amount = None if None in amounts else round(sum(filter(None, amounts)), 9)
    return CallFacts(**total).with_amount(amount)


def logged_calls(folder: Path, after: int = 0) -> CallFacts:
    """Return the calls of a session that could not report them, because it was killed: those that its log has.

    Retries and failed calls are not in the log. Each sample counts as a call.

    :param after: number of bytes of ``requests.jsonl`` whose calls are counted already.
    :raises DataError: for a damaged line that is not the last.
    """
    calls, amount = CallFacts(), 0.0

    def count(row: dict[str, Any]) -> None:
        nonlocal amount
        if lines.offset < after or "prefix_id" in row:
            return
        is_discarded = "discarded" in row
        paid: PaidReply
        if is_discarded:
            paid = from_plain(DiscardedReply, row)
        else:
            paid = request = from_plain(RequestRecord, row)
            if request.reply.note:
                # Computed, not called.
                return
            calls.requests += 1
            if request.cached:
                calls.cache_hits += 1
                return
        usage = paid.usage
        calls.sent += 1
        calls.answered += not is_discarded
        calls.prompt_tokens += usage.prompt_tokens
        calls.completion_tokens += usage.completion_tokens
        calls.cached_tokens += usage.cached_tokens
        calls.estimated += usage.estimated
        calls.unpriced += paid.cost_usd is None
        amount += paid.cost_usd or 0.0

    lines: JsonLines[None] = JsonLines(folder / REQUESTS, count)
    for _ in lines:
        pass
    return calls.with_amount(None if calls.unpriced else amount)


def merged_models(
    one: Mapping[str, ModelMetadata], other: Mapping[str, ModelMetadata]
) -> dict[str, ModelMetadata]:
    """Return the models of both parts by label, with what both know about them; the version is that of ``other``."""
    merged = {**one, **other}
    for label in one.keys() & other.keys():
        first, second = one[label], other[label]
        served = tuple(dict.fromkeys([*(first.served_as or ()), *(second.served_as or ())]))
        merged[label] = replace(
            second,
            identity=first.identity if second.identity is None else second.identity,
            pinned=first.pinned if second.pinned is None else second.pinned,
            served_as=served if first.served_as is not None or second.served_as is not None else None,
            served_counts=dict(Counter(first.served_counts) + Counter(second.served_counts)),
            service_tiers=tuple(dict.fromkeys([*first.service_tiers, *second.service_tiers])),
            old_replies=OldReplies(
                first.old_replies.older_than_a_day + second.old_replies.older_than_a_day,
                max(first.old_replies.oldest_seconds, second.old_replies.oldest_seconds),
            ),
            newest_reply=max(filter(None, (first.newest_reply, second.newest_reply)), default=None),
        )
    return merged


def merged_deviations(
    one: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the deviations of both parts by label."""
    return {
        label: tuple(dict.fromkeys([*one.get(label, ()), *other.get(label, ())]))
        for label in {**one, **other}
    }
