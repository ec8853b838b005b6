"""The metrics of the oracle-checker, computed only from the values of verdicts (Zeng et al., section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_llmprops.benchmarks.oracle.documents import document_metrics
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, YES
from pytest_llmprops.benchmarks.oracle.linearity_remarks import linearity_remarks
from pytest_llmprops.benchmarks.oracle.metric_names import PAIRS
from pytest_llmprops.benchmarks.oracle.pair_metrics import (
    all_pairs_metrics,
    no_metrics,
    pair_remarks,
    sanity_metrics,
    yes_metrics,
)
from pytest_llmprops.benchmarks.oracle.sentence_metrics import sentence_metrics
from pytest_llmprops.core.metrics import Metric, by_place
from pytest_llmprops.core.records import VerdictRecord


def metric_rows(records: Sequence[VerdictRecord]) -> Iterator[Metric]:
    """Yield the metrics of every task, language and source, and those of pairs over both answers."""
    pairs: dict[tuple[str, str], list[VerdictRecord]] = {}
    for place, members in by_place(records).items():
        task, language, source = place
        if task == LINEARITY:
            yield from sentence_metrics(place, members)
            yield from document_metrics(place, members)
        elif task in (YES, NO):
            pairs.setdefault((language, source), []).extend(members)
            yield from (yes_metrics if task == YES else no_metrics)(place, [r.values for r in members])
        else:
            yield from sanity_metrics(place, [r.values for r in members])
    for (language, source), members in pairs.items():
        yield from all_pairs_metrics((PAIRS, language, source), [r.values for r in members])


def remarks(records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield the bound of an acceptance, and a note that a rejected answer is not turned into its opposite."""
    yield from linearity_remarks([r for r in records if r.task == LINEARITY])
    pairs = {task: [r.values for r in records if r.task == task] for task in (YES, NO)}
    yield from pair_remarks([*pairs[YES], *pairs[NO]], pairs[NO])
    if any(r.task in (YES, NO) for r in records):
        yield "a rejected answer is not trusted; it is never turned into its opposite"
