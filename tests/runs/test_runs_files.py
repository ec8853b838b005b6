"""Files of a record: what was appended, requests and their replies, and the verdicts that are written."""

from __future__ import annotations

import json
import resource
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.field_types import TEXT
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import Chat, Reply, Segment
from pytest_llmprops.core.verdicts import Verdict, VerdictRecord, record_of
from pytest_llmprops.engine.broker.request_log import RequestLog
from pytest_llmprops.records.files import from_plain, plain
from pytest_llmprops.records.run import RunMetadata
from pytest_llmprops.runs.json_lines import AppendedLines
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.record import RunRecord, check_run_folder, new_run_folder
from pytest_llmprops.runs.replies import read_requests, reply_of
from pytest_llmprops.runs.summary import summary_rows
from tests.support.recorded import verdict


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file that is not there yet."""
    return tmp_path / "verdicts.jsonl"


def add(path: Path, text: str) -> None:
    """Append to the file."""
    with path.open("a") as file:
        file.write(text)


def test_only_new_complete_lines_are_returned(path: Path) -> None:
    """Every line comes once; an incomplete last line comes when its end was written."""
    lines = AppendedLines(path)
    assert lines.read(100) == ([], False, False)
    add(path, "one\ntw")
    assert lines.read(100).lines == [b"one"]
    assert lines.read(100) == ([], False, False)
    add(path, "o\nthree\n")
    assert lines.read(100) == ([b"two", b"three"], False, False)
    # A large file comes in parts, and a line above the limit is returned whole.
    add(path, "a\nb\n" + "x" * 1000 + "\nc\n")
    assert lines.read(4) == ([b"a", b"b"], False, True)
    assert lines.read(4).lines[0] == b"x" * 1000
    assert lines.read(4).lines in ([b"c"], [])
    assert lines.offset == path.stat().st_size


@pytest.mark.parametrize("text", ["ONE\nTWO\nTHREE\n", "one\n"], ids=["written anew", "cut"])
def test_another_content_begins_again(path: Path, text: str) -> None:
    """A file that was written anew in place or cut is read from its beginning, and this is said."""
    lines = AppendedLines(path)
    add(path, "one\ntwo\n")
    lines.read(100)
    path.write_text(text)
    assert lines.read(100)[:2] == (text.encode().split(), True)
    add(path, "new\n")
    assert lines.read(100) == ([b"new"], False, False)


def test_requests_stay_in_the_file(tmp_path: Path) -> None:
    """Of 3,000 requests with prompts of 2,000 characters, their keys and 100 common heads are in memory."""
    log = RequestLog(tmp_path)
    for n in range(3_000):
        head = f"Task {n // 30}\n" + "x" * 1_990 + "\n"
        log.add("subject", Chat.user(f"{head}question {n}"), Reply(f"reply {n}", key=f"key {n}"))
    log.close()
    tracemalloc.start()
    try:
        requests = read_requests(tmp_path)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 3_000 * 250 + 100 * 2_200
    assert len(requests) == 3_000
    # also in another order than that of the file
    for n in (2_999, 31, 0, 1_500, 30):
        assert requests[f"key {n}"].messages == [("user", f"Task {n // 30}\n{'x' * 1_990}\nquestion {n}")]
    assert [record.key for record in requests.each()] == list(requests)
    assert "key 3000" not in requests
    with pytest.raises(KeyError):
        requests["key 3000"]


def test_the_last_request_with_a_key_counts(tmp_path: Path) -> None:
    """A resumed run may log a request again; it is one request, with its last reply."""
    for reply in ("first", "second"):
        log = RequestLog(tmp_path)
        for key in ("a", "b"):
            log.add("subject", Chat.user(key), Reply(f"{reply} {key}", key=key))
        log.close()
    requests = read_requests(tmp_path)
    assert len(requests) == 2
    assert [record.reply.text for record in requests.each()] == ["second a", "second b"]
    assert requests["a"].reply.text == "second a"


def test_truncated_file(tmp_path: Path) -> None:
    """Wherever the file is cut off, all requests before are read correctly."""
    log, examples = RequestLog(tmp_path), "".join(f"Input: sentence number {n}\n" for n in range(20))
    for n in range(3):
        log.add("subject", Chat.user(f"{examples}question {n}"), Reply(f"reply {n}", key=f"k{n}"))
    log.close()
    path = tmp_path / "requests.jsonl"
    raw = path.read_bytes()
    whole = read_requests(tmp_path)
    for cut in range(0, len(raw), 41):
        path.write_bytes(raw[:cut])
        requests = read_requests(tmp_path)
        assert requests == {key: whole[key] for key in requests}
        assert len(requests) >= raw[:cut].count(b"\n") - 1


def test_the_models_last_reply_counts(tmp_path: Path) -> None:
    """The last call of the model under test is its reply, even if a helper's call follows; without it, the answer is.

    A list of words is shown as JSON with unescaped non-ASCII characters.
    """
    log = RequestLog(tmp_path)
    log.add("subject", Chat.user("a"), Reply("first", key="a"))
    log.add("subject", Chat.user("b"), Reply("second", key="b"))
    log.add("reader", Chat.user("c"), Reply("A", key="c"))
    log.add("subject", Segment("小猫"), Reply("", value=["小", "猫"], key="s"))
    log.close()
    requests = read_requests(tmp_path)
    assert reply_of(verdict(requests=["a", "b", "c"]), requests) == "second"
    assert reply_of(verdict(requests=["c"]), requests) == "A"
    assert json.loads(reply_of(verdict(requests=["s"]), requests)) == ["小", "猫"]
    for keys in ([], ["gone"]):
        assert reply_of(verdict(given="lamp", requests=keys), requests) == "lamp"


ONE = VerdictRecord("m", "b", "t", "en", "given", "1", "1", "correct", 1.0, "a", "a", "as expected", {}, ())


def test_verdicts_that_were_not_written_do_not_count(tmp_path: Path) -> None:
    """On a full disk, the record has only what was written before: no part of a line, and nothing in memory."""
    record = RunRecord(tmp_path, RunMetadata("run", expected=3))
    record.add(ONE)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "verdicts.jsonl").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            record.add(replace(ONE, id="2"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (record.records, record.count) == ([ONE], 1)
    record.add(replace(ONE, id="3"))
    record.finish(replace(record.facts, complete=True, summary=summary_rows(record.records)))
    assert [one.id for one in read_run(tmp_path).records] == ["1", "3"]


def test_a_verdict_that_is_reported_again_is_found_in_the_file(tmp_path: Path) -> None:
    """The same one is not repeated, another one is the latest, whatever else has a key with the same hash."""
    record = RunRecord(tmp_path, RunMetadata("run"))
    many = [replace(ONE, id=str(n), reason="x" * 40 * n) for n in range(1000)]
    for one in many:
        record.add(one)
    for one in many[::-100]:
        record.add(one)
    changed = replace(ONE, id="999", status="wrong", score=0.0)
    record.add(changed)
    record.add(changed)
    assert record.records == [*many[:-1], changed]
    assert (record.count, record.repeated) == (1000, [many[-1].key])
    assert (tmp_path / "verdicts.jsonl").read_text().count("\n") == 1001
    record.close()


def test_a_folder_without_run_json_is_free_if_its_files_are_empty(tmp_path: Path) -> None:
    """Empty files, which a killed run leaves before its first run.json, do not take a folder; files with data do."""
    for name in ("requests.jsonl", "verdicts.jsonl"):
        folder = tmp_path / name.removesuffix(".jsonl")
        folder.mkdir()
        (folder / name).touch()
        check_run_folder(str(folder), tmp_path)
        assert new_run_folder(str(folder), ["m"], tmp_path) == folder
        (folder / name).write_text("{}\n", encoding="utf-8")
        for use in (
            lambda at: check_run_folder(at, tmp_path),
            lambda at: new_run_folder(at, ["m"], tmp_path),
        ):
            with pytest.raises(UsageError, match=f"has {name} but no run.json"):
                use(str(folder))
        assert (folder / name).read_text(encoding="utf-8") == "{}\n"


def test_long_texts_are_shortened_so_that_they_can_be_read(tmp_path: Path) -> None:
    """A reply of 2 million characters as the answer is cut to the limit of the schema, with an ellipsis."""
    long = "x" * (2 * TEXT)
    made = record_of(Item("i", "t", "en"), "b", "m", Verdict("wrong", given=long, reason=long), requests=[])
    record = RunRecord(tmp_path, RunMetadata("run"))
    record.add(made)
    record.finish(record.facts)
    [read] = read_run(tmp_path).records
    assert (len(read.given), read.reason[-2:]) == (TEXT, "x…")
    with pytest.raises(
        ValueError, match="has a 'given' that is not a string of at most 1,000,000 characters"
    ):
        from_plain(VerdictRecord, {**plain(read), "given": long})
