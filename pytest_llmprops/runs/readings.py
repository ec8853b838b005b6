"""How the replies of a run were read: by which rules, why some were not, and what people say about it.

People's marks are in ``review.jsonl`` beside the run's record.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from pytest_llmprops.core.benchmark import Benchmark
from pytest_llmprops.core.field_types import UNANSWERED
from pytest_llmprops.core.items import grouped
from pytest_llmprops.core.numbers import count, counted, percent
from pytest_llmprops.core.registration import BenchmarkMetadata
from pytest_llmprops.core.texts import one_line, visible
from pytest_llmprops.core.verdicts import READ_ALIKE, READ_BY, VerdictKey, VerdictRecord, text_in
from pytest_llmprops.records.files import from_plain, line, plain
from pytest_llmprops.records.rows import Review
from pytest_llmprops.runs.json_lines import JsonLines, append_whole, lock_file, open_record_file
from pytest_llmprops.statistics.intervals import wilson

REVIEWS = "review.jsonl"
#: With a larger share of unread replies, or of replies that two rules read differently, a remark warns.
MANY = 0.05
#: With at least this share of equal answers to different questions, a remark warns.
SAME = 0.9
#: Minimum number of answers for a remark on equal ones.
FEWEST = 20
#: Number of replies of a benchmark that a person is asked to check.
SAMPLE = 40
#: Minimum number of replies of each stratum in a sample.
LEAST = 3


class Stratum(NamedTuple):
    """The replies that were read alike: the same status by the same rule.

    :param rule: the rule, or why the reply could not be read; empty if the benchmark names no rules.
    :param differs: whether the rule of the other protocol reads something else.
    """

    status: str
    rule: str
    differs: bool

    @classmethod
    def of(cls, record: VerdictRecord) -> Stratum:
        """Return the stratum of a verdict."""
        rule = cause_of(record) if is_unread(record) else text_in(record.evidence, READ_BY)
        return cls(record.status, rule, record.values.get(READ_ALIKE) == 0)

    def __str__(self) -> str:
        rule = f" ({self.rule})" if self.rule else ""
        return f"{self.status}{rule}{', the other rule differs' if self.differs else ''}"


def is_unread(record: VerdictRecord) -> bool:
    """Return True if no answer could be read. Some benchmarks count such a reply as wrong, as their papers do."""
    return record.status == "unparsed" or (record.status == "wrong" and record.values.get("parsed") == 0)


def cause_of(record: VerdictRecord) -> str:
    """Return why a reply could not be read, without details of the reply."""
    return text_in(record.evidence, READ_BY) or record.reason.partition(":")[0]


@dataclass(frozen=True)
class Readings:
    """The verdicts of one model on one benchmark, without errors."""

    model: str
    benchmark: str
    records: tuple[VerdictRecord, ...]

    @cached_property
    def strata(self) -> dict[Stratum, list[VerdictRecord]]:
        """The verdicts by stratum, the largest first."""
        strata = grouped(self.records, Stratum.of)
        return dict(sorted(strata.items(), key=lambda entry: (-len(entry[1]), entry[0])))

    @cached_property
    def unread(self) -> Counter[str]:
        """The number of unread replies by cause."""
        return Counter(cause_of(record) for record in self.records if is_unread(record))

    @property
    def unread_share(self) -> float:
        """The share of unread replies."""
        return self.unread.total() / len(self.records) if self.records else 0.0

    @cached_property
    def differing(self) -> tuple[int, int]:
        """The number of replies that the rules of both protocols read differently, and of all with both readings."""
        both = [record.values[READ_ALIKE] for record in self.records if READ_ALIKE in record.values]
        return both.count(0.0), len(both)

    def sample(self, size: int = SAMPLE) -> list[VerdictRecord]:
        """Return verdicts for a person to check, by stratum (:meth:`sampled`)."""
        return [record for chosen in self.sampled(size).values() for record in chosen]

    def sampled(self, size: int = SAMPLE) -> dict[Stratum, list[VerdictRecord]]:
        """Return some verdicts of every stratum to check, further ones in proportion to its size.

        The choice depends on the ids alone, so a second call gives the same verdicts.
        """
        sizes = {stratum: len(members) for stratum, members in self.strata.items()}
        wanted = {stratum: min(LEAST, n) for stratum, n in sizes.items()}
        rest = size - sum(wanted.values())
        if rest > 0:
            more = {stratum: rest * n / len(self.records) for stratum, n in sizes.items()}
            wanted = {
                stratum: min(sizes[stratum], n + math.floor(more[stratum])) for stratum, n in wanted.items()
            }
        return {s: sorted(members, key=_shuffled)[: wanted[s]] for s, members in self.strata.items()}

    def corrected(self, reviews: Mapping[VerdictKey, Review]) -> Corrected | None:
        """Return the accuracy that a person's marks on the sample imply; None without such a mark.

        Marks on other replies do not count: people mark what they find wrong. Each stratum has the share of correct
        replies among its marked ones, weighted by its size; one without marks counts as it was read. The interval
        combines Wilson's intervals of the strata (Zou and Donner 2008, "Construction of confidence limits about effect
        measures"), which shrink as a stratum is marked completely. It is conservative, because the strata with few
        marks have wide intervals: it covers the accuracy in 99% of cases or more. It is about the readings of these
        replies, not about other items.
        """
        value = below = above = 0.0
        marked = misread = unmarked = 0
        for stratum, chosen in self.sampled().items():
            members = self.strata[stratum]
            weight = len(members) / len(self.records)
            own = [
                (r, review)
                for r in chosen
                if (review := reviews.get(r.key)) is not None and review.says_status
            ]
            if not own:
                unmarked += len(members)
                value += weight * (stratum.status == "correct")
                continue
            right = sum(review.status_for(record.status) == "correct" for record, review in own)
            marked += len(own)
            misread += sum(review.status_for(record.status) != record.status for record, review in own)
            share = right / len(own)
            low, high = wilson(right, len(own))
            left = math.sqrt((len(members) - len(own)) / max(1, len(members) - 1))
            value += weight * share
            below += (weight * (share - low) * left) ** 2
            above += (weight * (high - share) * left) ** 2
        if not marked:
            return None
        low, high = max(0.0, value - math.sqrt(below)), min(1.0, value + math.sqrt(above))
        return Corrected(value, low, high, marked, misread, unmarked)


class Corrected(NamedTuple):
    """An accuracy corrected by marks, and its conservative 95% interval.

    :param marked: number of marked replies. :param misread: number of those that a person reads differently.
    :param unmarked: number of replies in strata without a mark, which count as they were read.
    """

    value: float
    low: float
    high: float
    marked: int
    misread: int
    unmarked: int


def _shuffled(record: VerdictRecord) -> str:
    return hashlib.sha256("\0".join(map(str, record.key)).encode("utf-8", "replace")).hexdigest()


def readings_of(records: Iterable[VerdictRecord]) -> list[Readings]:
    """Return the readings of each model and benchmark, in order of first appearance."""
    answered = (record for record in records if record.status not in UNANSWERED)
    groups = grouped(answered, lambda record: (record.model, record.benchmark))
    return [Readings(*names, tuple(members)) for names, members in groups.items()]


def reading_remarks(benchmark: Benchmark, records: Sequence[VerdictRecord]) -> list[str]:
    """Return warnings on how a model's replies were read, one line each: unread, read differently, all the same.

    :param records: of one model; the tasks of the headline count, or all if there are no others.
    """
    own = [r for r in records if r.status not in UNANSWERED]
    headline = BenchmarkMetadata.of(type(benchmark)).headline_tasks(r.task for r in own)
    own = [r for r in own if r.task in headline]
    if not own:
        return []
    readings = Readings(own[0].model, benchmark.name, tuple(own))
    lines = []
    if readings.unread_share > MANY:
        causes = ", ".join(f"{one_line(cause, 60)} {count(n)}" for cause, n in readings.unread.most_common(3))
        lines.append(
            f"{percent(readings.unread_share)} of the replies could not be read: format, not ability, may be measured"
            f" ({causes})"
        )
    different, compared = readings.differing
    if different > MANY * compared:
        lines.append(
            f"the rules of quick and paper read {percent(different / compared)} of the replies differently"
            f" ({count(different)} of {count(compared)}); llmprops readings lists them"
        )
    read = [record for record in own if not is_unread(record)]
    if len(read) >= FEWEST and len({record.expected for record in read}) > 1:
        [(answer, times)] = Counter(record.given for record in read).most_common(1)
        if times >= SAME * len(read):
            lines.append(
                f"{percent(times / len(read))} of the answers are the same: {one_line(answer, 40)!r}"
            )
    return [*lines, *_no_better_than_chance(benchmark, own)]


def _no_better_than_chance(benchmark: Benchmark, records: Sequence[VerdictRecord]) -> list[str]:
    levels = [benchmark.chance.get(r.task, benchmark.chance.get("")) for r in records]
    known = [level for level in levels if level is not None]
    if len(known) < len(records) or len(records) < FEWEST:
        return []
    chance = sum(known) / len(known)
    right = sum(record.status == "correct" for record in records)
    low, _ = wilson(right, len(records))
    if low > chance:
        return []
    share = percent(right / len(records))
    return [
        f"{share} of {counted(len(records), 'answer')} are correct, which is not above chance ({percent(chance)})"
    ]


def shown_review(review: Review) -> dict[str, Any]:
    """Return a mark as pages have it: control characters in its texts are spelled out."""
    return {k: visible(v) if isinstance(v, str) else v for k, v in plain(review).items()}


def read_reviews(folder: Path, run_id: str) -> dict[VerdictKey, Review]:
    """Return the marks on a run by verdict; empty without ``review.jsonl``.

    Lines on other runs are ignored, and so is a truncated last line. A mark without opinion and note deletes an
    earlier one.

    :raises DataError: for a damaged line that is not the last.
    """
    marks = JsonLines(folder / REVIEWS, partial(from_plain, Review))
    latest = {review.key: review for review in marks if review.run == run_id}
    return {key: review for key, review in latest.items() if review.says_status or review.note}


def append_review(folder: Path, review: Review) -> None:
    """Append a mark to ``review.jsonl`` beside a run, and return when it is on the disk. Several processes may append.

    :raises OSError: if the mark cannot be written, for example on a full disk. The file then has its earlier lines.
        Also if the file is a link or is not a regular file.
    """
    with open_record_file(folder / REVIEWS, "a+b", buffering=0) as file:
        lock_file(file, seconds=math.inf)
        file.seek(0)
        text = file.read()
        size = text.rfind(b"\n") + 1
        if _is_json(text[size:]):
            # A person wrote the last line without a line end.
            file.write(b"\n")
            size = len(text) + 1
        elif size < len(text):
            # A process was killed while it wrote.
            file.truncate(size)
        append_whole(file, line(review), size)
        try:
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
