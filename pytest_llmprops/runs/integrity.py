"""Whether a run record is consistent. A gate does not judge a record that is not.

``run.json`` has the sha256 of the files next to it, and of its own content. These hashes show that a record was changed
or damaged after the run. They do not show who wrote it: who changes a record can compute them again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.field_types import COUNTS
from pytest_llmprops.core.texts import first_names
from pytest_llmprops.core.verdicts import VerdictKey, VerdictRecord
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.json_lines import open_record_file
from pytest_llmprops.runs.summary import summary_rows

VERDICTS, REQUESTS, SEARCHES = "verdicts.jsonl", "requests.jsonl", "searches.jsonl"
#: the key of ``run.json`` with the hash of its other content
CONTENT = "content_sha256"
AGAIN = "restore the file or measure again"

UNFINISHED = 'run.json has no time in "finished", so the run was killed or is not over; measure again'
NO_HASHES = 'run.json has no hashes in "files", so that a change could not be seen; measure again'
NO_HASHES_IN_SCHEMA_1 = (
    "run.json is of schema 1, which has no hashes, so that a change could not be seen;"
    " 'llmprops runs promote RUN NAME' makes a baseline with hashes of it"
)


def file_hashes(folder: Path, names: Sequence[str] = (VERDICTS, REQUESTS)) -> dict[str, str]:
    """Return the sha256 of the verdicts and of the requests of a record, by file name; missing files are left out.

    :param names: the files to read.
    :raises DataError: if a file cannot be read.
    """
    hashes = {}
    for name in names:
        try:
            with open_record_file(folder / name) as file:
                hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DataError(f"{folder / name}: {error.strerror}") from None
    return hashes


def run_json(facts: Mapping[str, Any]) -> str:
    """Return the text of ``run.json``, with the hash of its content if it has the hashes of the files."""
    plain = dict(facts)
    plain.pop(CONTENT, None)
    if plain.get("files"):
        plain[CONTENT] = content_hash(plain)
    return json.dumps(plain, ensure_ascii=False, indent=1) + "\n"


def content_hash(facts: Mapping[str, Any]) -> str:
    """Return the sha256 of the content of ``run.json`` without its own hash: as JSON with sorted keys, in UTF-8."""
    # Keys that are not texts become texts, as in the file.
    plain = json.loads(json.dumps({name: value for name, value in facts.items() if name != CONTENT}))
    text = json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def problems(
    facts: RunMetadata,
    repeated: Sequence[VerdictKey],
    records: Sequence[VerdictRecord],
    hashes: Mapping[str, str],
) -> list[str]:
    """Return what is inconsistent in the record of a run that has ended, one line each; the most specific first.

    :param facts: ``run.json`` as written. :param repeated: keys that several lines of ``verdicts.jsonl`` have.
    :param records: the last line of each key. :param hashes: the :func:`file_hashes` of the record.
    """
    inconsistencies = [_repeated(repeated)] if repeated else []
    inconsistencies += _foreign(facts, records)
    if facts.finished is None:
        return [*inconsistencies, UNFINISHED]
    inconsistencies += [*summary_problems(facts, records), *_missing(facts, records), *_samples(records)]
    return [*inconsistencies, *_files(facts, hashes)]


def changed_content(facts: Mapping[str, Any]) -> list[str]:
    """Return one line if the content of ``run.json`` does not fit its hash.

    :param facts: the file as JSON.
    """
    # Schema 1 has no hashes. A record that says so and has one was of schema 2.
    has_hash = facts.get("files") or (facts.get("schema") == 1 and CONTENT in facts)
    if not has_hash or facts.get(CONTENT) == content_hash(facts):
        return []
    return [f"run.json was changed after the run: its content does not fit its {CONTENT}; {AGAIN}"]


def added_hashes(facts: RunMetadata) -> list[str]:
    """Return one line if the hashes of a record of schema 1 were added when it was promoted."""
    if facts.schema > 1 or not facts.files:
        return []
    return [
        f"its hashes were added when it was promoted ({facts.promoted_at[:10]}), so that an earlier change is not seen"
    ]


def _repeated(keys: Iterable[VerdictKey]) -> str:
    ids = [key.id for key in dict.fromkeys(keys)]
    return f"{VERDICTS} has several verdicts on {len(ids)} items or samples ({first_names(ids)}); {AGAIN}"


def _foreign(facts: RunMetadata, records: Iterable[VerdictRecord]) -> Iterator[str]:
    foreign = sorted({record.model for record in records} - facts.models.keys())
    if foreign:
        yield f"{VERDICTS} has verdicts of {', '.join(foreign)}, which run.json does not name as a model; {AGAIN}"


def summary_problems(facts: RunMetadata, records: Sequence[VerdictRecord]) -> Iterator[str]:
    """Yield one line for each group whose counts or accuracies in ``run.json`` are not those of the verdicts.

    Intervals are not compared: versions compute them in different ways, and no rule reads them from the summary.
    """
    rows = {row.group: row for row in facts.summary}
    if len(rows) < len(facts.summary):
        yield f"run.json has several summary rows for the same group; {AGAIN}"
    weighted = {row.benchmark for row in facts.summary if row.cluster_accuracy is not None}
    counted = {row.group: row for row in summary_rows(records, weighted.__contains__, intervals=False)}
    for group in dict.fromkeys([*rows, *counted]):
        place, row = "/".join(group[1:]), counted.get(group)
        if group not in rows:
            yield f"run.json has no summary of {place}, and {VERDICTS} has {row and row.samples} verdicts; {AGAIN}"
            continue
        for name in _COMPARED:
            recorded, value = getattr(rows[group], name), getattr(row, name, 0)
            if not is_equal(recorded, value):
                there = f"{VERDICTS} has {shown_value(value)}"
                yield f"run.json has {name} {shown_value(recorded)} of {place}, {there}; {AGAIN}"
                break


_COMPARED = (*COUNTS, "items", "samples", "clusters", "accuracy", "cluster_accuracy")


def is_equal(one: float | None, other: float | None) -> bool:
    """Return True if two values of a record are the same, up to the rounding of another order of sums."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(one) and math.isnan(other))


def shown_value(value: float | None) -> str:
    """Return a value of a record for a message."""
    return "no value" if value is None else f"{value:.6g}"


def _missing(facts: RunMetadata, records: Sequence[VerdictRecord]) -> Iterator[str]:
    if facts.complete and facts.expected is not None and len(records) != facts.expected:
        yield (
            f"run.json says that the run is complete with {facts.expected} verdicts, and {VERDICTS} has {len(records)};"
            f" {AGAIN}"
        )


def _samples(records: Sequence[VerdictRecord]) -> Iterator[str]:
    if not any(record.sample for record in records):
        return
    # A model may have one sample of the items of one benchmark and several of another.
    repeats: dict[tuple[str, str], int] = {}
    for record in records:
        group = (record.model, record.benchmark)
        repeats[group] = max(repeats.get(group, 1), 1 + record.sample)
    items = Counter(record.key._replace(sample=0) for record in records)
    fewer = [item for item, samples in items.items() if samples < repeats[item.model, item.benchmark]]
    if fewer:
        number = max(repeats[item.model, item.benchmark] for item in fewer)
        yield (
            f"{VERDICTS} has fewer than {number} samples of {len(fewer)} items"
            f" ({first_names(item.id for item in fewer)}); measure again: the missing samples may be those that failed"
        )


def _files(facts: RunMetadata, hashes: Mapping[str, str]) -> Iterator[str]:
    if facts.schema == 1 and facts.benchmarks:
        yield f'run.json says schema 1 but has "benchmarks", which only schema 2 has: it was changed; {AGAIN}'
    if VERDICTS not in facts.files:
        yield NO_HASHES if facts.schema > 1 or facts.files else NO_HASHES_IN_SCHEMA_1
        return
    for name in sorted({*facts.files, *hashes}):
        if name not in hashes:
            yield f"{name} is missing, and run.json has its hash; {AGAIN}"
        elif name not in facts.files:
            yield f"{name} was added after the run: run.json has no hash of it; remove the file or measure again"
        elif hashes[name] != facts.files[name]:
            yield f"{name} was changed after the run: it does not fit its hash in run.json; {AGAIN}"
