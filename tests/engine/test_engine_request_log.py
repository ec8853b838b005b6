"""requests.jsonl: common prefixes stored once, everything restored exactly."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmprops.core.requests import Chat, Message, Reply
from pytest_llmprops.engine.broker.request_log import MIN_PREFIX, RequestLog
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.requests import RequestRecord

EXAMPLES = "".join(f'Input: "sentence number {n}" Label: {"AB"[n % 2]}\n' for n in range(20))
OTHER = "".join(f"Frage {n}: 词 {n * n}\n" for n in range(40))


def written(folder: Path, *chats: Chat, role: str = "subject") -> list[str]:
    """Write the log of ``chats`` and return its lines; keys are positions."""
    log = RequestLog(folder)
    for number, chat in enumerate(chats):
        log.add(role, chat, Reply("r", key=str(number)))
    log.close()
    return (folder / "requests.jsonl").read_text(encoding="utf-8").split("\n")[:-1]


def restored(lines: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Return messages by key, restored by reading the lines in order."""
    prefixes: dict[str, str] = {}
    by_key: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        row: dict[str, Any] = json.loads(line)
        if "prefix_id" in row:
            prefixes[row["prefix_id"]] = row["text"]
        else:
            by_key[row["key"]] = from_plain(RequestRecord, row).in_full(prefixes).messages
    return by_key


CONTENTS = st.builds(
    lambda beginning, cut, rest: beginning[:cut] + rest,
    st.sampled_from([EXAMPLES, OTHER, ""]),
    st.integers(0, 2000),
    st.text(max_size=30),
)
MESSAGES = st.builds(Message, st.sampled_from(["system", "user", "assistant"]), CONTENTS)
CHATS = st.lists(MESSAGES, min_size=1, max_size=3).map(lambda messages: Chat(tuple(messages)))


@settings(max_examples=30)
@given(st.lists(CHATS, max_size=8))
def test_every_message_is_restored_exactly(chats: list[Chat]) -> None:
    """All texts are restored exactly for any shared prefixes and any order."""
    with tempfile.TemporaryDirectory() as folder:
        by_key = restored(written(Path(folder), *chats))
    assert by_key == {str(n): [(m.role, m.content) for m in c.messages] for n, c in enumerate(chats)}


def test_long_common_prefix_is_stored_once(tmp_path: Path) -> None:
    """Two hundred prompts with the same examples take one definition and little more than their differences."""
    chats = [Chat.user(f"{EXAMPLES}Input: question {n} Label: ") for n in range(200)]
    lines = written(tmp_path, *chats)
    assert sum("prefix_id" in line for line in lines) == 1
    # The first prompt is written whole, because no common prefix is known yet.
    assert sum(json.dumps(EXAMPLES)[1:-1] in line for line in lines) == 2
    assert restored(lines)["137"] == [("user", chats[137].messages[0].content)]


def test_prefixes_of_two_tasks_are_both_kept(tmp_path: Path) -> None:
    """Alternating prompts of two tasks still use their prefixes."""
    chats = [Chat.user(f"{text}{n}") for text in (EXAMPLES, OTHER) for n in range(3)]
    chats += [Chat.user(f"{(EXAMPLES, OTHER)[n % 2]}again {n}") for n in range(10)]
    lines = written(tmp_path, *chats)
    assert sum("prefix_id" in line for line in lines) == 2
    later = [json.loads(line)["request"]["messages"][0][1] for line in lines[-10:]]
    assert [content["rest"] for content in later] == [f"again {n}" for n in range(10)]


def test_short_prefixes_are_written_in_place(tmp_path: Path) -> None:
    """A prefix shorter than the limit, or without a whole shared line, is written in place."""
    short = "a line\n" * (MIN_PREFIX // 7)
    no_line = "x" * 2 * MIN_PREFIX
    lines = written(tmp_path, *(Chat.user(f"{p}{n}") for p in (short, no_line) for n in range(3)))
    assert not any("prefix_id" in line for line in lines)


def test_a_key_is_written_once_and_flushed(tmp_path: Path) -> None:
    """A repeated request adds no second line; the line can be read while the log is open, so a killed run keeps it.

    Line separators, control characters and lone surrogates stay within one line of valid UTF-8.
    """
    log = RequestLog(tmp_path)
    for _ in range(3):
        log.add("subject", Chat.user("\u2028\x85\r\n\x00"), Reply("\r\n\u2029\ud800", key="k"))
    log.flush()
    text = (tmp_path / "requests.jsonl").read_bytes().decode("utf-8")
    assert text.count("\n") == 1
    assert restored([text]) == {"k": [("user", "\u2028\x85\r\n\x00")]}
    log.close()
