"""How the replies of a run were read: the section of the report, and what ``llmprops readings`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_llmprops.core.numbers import MISSING, count, counted, interval, percent
from pytest_llmprops.core.texts import one_line, shell_line, terminal_line
from pytest_llmprops.core.verdicts import OTHER_READING, VerdictKey, VerdictRecord, text_in
from pytest_llmprops.records.requests import RequestRecord
from pytest_llmprops.records.rows import Review
from pytest_llmprops.reports.kit.blocks import Cell, Section, Table
from pytest_llmprops.reports.kit.series import Measured, Series
from pytest_llmprops.reports.tables import aligned_table, wrapped
from pytest_llmprops.runs.reader import Run
from pytest_llmprops.runs.readings import Readings, Stratum, readings_of
from pytest_llmprops.runs.replies import reply_of

#: maximum number of rows of a table of rules, per model and benchmark
MOST_RULES = 12
NOTE = (
    "A rule is how a reply was read, or why it could not be read. To find out how often the rules are wrong, open the"
    " sample with a number of replies, and mark its items. The list of items then shows the corrected accuracy."
)
#: characters of a reply on the terminal
LONGEST_SHOWN = 300


def readings_section(parts: Sequence[Measured], series: Sequence[Series]) -> list[Section]:
    """Return the section of the report; none if no reply was read."""
    rows: list[tuple[Cell, ...]] = []
    for s in series:
        for part in parts:
            link = {"benchmark": part.benchmark, "series": str(s.index), "check": "sample"}
            for readings in readings_of(part.records(s)):
                for stratum, share, n in _rules(readings):
                    texts = (
                        stratum.status,
                        one_line(stratum.rule, 80) or MISSING,
                        _differs(readings, stratum),
                    )
                    cells = map(Cell, (part.facts.title, s.starred, *texts))
                    rows.append((*cells, Cell(count(n), n, items=link), Cell(percent(share), share)))
    if not rows:
        return []
    first = 0 if len(parts) * len(series) > 1 else 2
    names = ("Benchmark", "Model", "Status", "Rule", "Other rule differs")
    columns = (*((name, False) for name in names), ("Replies", True), ("Share", True))
    table = Table("Replies by rule", columns[first:], tuple(row[first:] for row in rows), NOTE)
    return [Section((table,), title="Readings", about="How the replies were read.")]


def _rules(readings: Readings) -> Iterator[tuple[Stratum, float, int]]:
    """Yield the largest strata with their share of the replies and their number."""
    for stratum, members in list(readings.strata.items())[:MOST_RULES]:
        yield stratum, len(members) / len(readings.records), len(members)


def _differs(readings: Readings, stratum: Stratum) -> str:
    return "yes" if stratum.differs else "no" if readings.differing[1] else MISSING


def reading_lines(
    run: Run,
    requests: Mapping[str, RequestRecord],
    reviews: Mapping[VerdictKey, Review],
    sample: int,
    width: int,
) -> list[str]:
    """Return the lines of ``llmprops readings``: for each suite and model the rules, the corrected accuracy, a sample.

    :param requests: the logged requests of the run. :param reviews: a person's marks.
    :param sample: number of replies to show per suite and model.
    """
    lines: list[str] = []
    for readings in readings_of(run.records):
        replies = counted(len(readings.records), "reply", "replies")
        lines += ["", f"{readings.benchmark} · {readings.model} · {replies}"]
        rows = [("status", "replies", "share", "other rule differs", "rule")]
        for stratum, share, n in _rules(readings):
            rule = one_line(stratum.rule, 80) or "-"
            rows.append((stratum.status, count(n), percent(share), _differs(readings, stratum), rule))
        lines += aligned_table(rows, width)
        if (more := len(readings.strata) - MOST_RULES) > 0:
            lines.append(f"  … and {more} more rules")
        lines.append(f"  unread: {percent(readings.unread_share)}")
        different, compared = readings.differing
        if compared:
            share_apart = percent(different / compared)
            lines.append(f"  read differently by the rules of quick and paper: {share_apart}")
        lines.append(_corrected(readings, reviews))
        for record in readings.sample(sample) if sample else ():
            lines += _shown(record, requests)
    if not lines:
        lines.append("no reply was read: the run has no verdict, or only errors")
    mark = f"to mark the sample: {shell_line('llmprops', 'view', str(run.folder))}, Readings"
    return [part for line in [*lines, "", mark] for part in wrapped(terminal_line(line), width)]


def _corrected(readings: Readings, reviews: Mapping[VerdictKey, Review]) -> str:
    corrected = readings.corrected(reviews)
    as_read = percent(sum(r.status == "correct" for r in readings.records) / len(readings.records))
    if corrected is None:
        return f"  correct as read: {as_read}; no reply of the sample is marked"
    unmarked = counted(corrected.unmarked, "reply", "replies")
    rest = f"; {unmarked} read by rules without a mark" if corrected.unmarked else ""
    return (
        f"  correct as read: {as_read}; corrected by marks: {percent(corrected.value)}"
        f" ({interval(corrected.low, corrected.high)}, conservative),"
        f" {corrected.misread} of {corrected.marked} misread{rest}"
    )


def _shown(record: VerdictRecord, requests: Mapping[str, RequestRecord]) -> Iterator[str]:
    """Yield the lines on one reply: how it was read, and the reply."""
    other = text_in(record.evidence, OTHER_READING)
    differs = f"; the other rule reads {one_line(other, 60)!r}" if other else ""
    given = f", given {one_line(record.given, 60)!r}" if record.given else ""
    expected = f", expected {one_line(record.expected, 60)!r}" if record.expected else ""
    yield f"  {record.id}: {Stratum.of(record)}{given}{expected}{differs}"
    yield f"    {one_line(reply_of(record, requests), LONGEST_SHOWN) or '(empty)'}"
