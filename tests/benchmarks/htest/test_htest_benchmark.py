"""H-TEST as a benchmark: prompts, protocols, chain of thought, statuses, metrics, invalid rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.htest.benchmark import HTest
from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.data.files import DataFolder
from tests.support.records import only_numbers

#: the fixture of tests/benchmarks/conftest.py
Measure = Callable[..., Any]
H = HTest()
FILTERED = Reply("", finish_reason="content_filter")


def dev_of(size: int) -> list[dict[str, Any]]:
    return [row(f"text {n}", n % 2) for n in range(size)]


def load_rhymes(folder: Path, *, dev: list[dict[str, Any]]) -> Loaded:
    write(folder, "rhyme_dev", dev)
    write(folder, "rhyme_test", [row("sea tea", 0)])
    return H.load(DataFolder(folder, "published"))


def row(text: str, answer: int, **more: Any) -> dict[str, Any]:
    return {"centerpiece": text, "options": ["A", "B"], "correct_options": [answer]} | more


def write(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    (folder / "htest").mkdir(exist_ok=True)
    text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
    (folder / "htest" / f"{name}.jsonl").write_text(text, encoding="utf-8")


#: Four rows of group B come first, so the order of the file differs from that of the prompt.
DEV = [
    *(row(f"low {n}", 1) for n in range(4)),
    *(row(f"High {n}", 0) for n in range(7)),
    *(row(f"low {n}", 1) for n in range(4, 7)),
]
GEOMETRY = row('What is "Z" on its side?', 1, options=["E", "N", "O", "Ɛ"])


@pytest.fixture
def small(tmp_path: Path) -> Loaded:
    """Return two items of one task with 14 examples, and a Letter Geometry question."""
    write(tmp_path, "uppercase_dev", DEV)
    write(tmp_path, "uppercase_test", [row("Tall tree", 0), row("small tree", 1)])
    write(tmp_path, "letter_geometry_test", [GEOMETRY])
    return H.load(DataFolder(tmp_path, "published"))


def test_prompt_with_examples(small: Loaded, measure: Measure) -> None:
    """The prompt equals the paper's, with A and B examples alternating for any file order."""
    seen = measure(H, small.items[0], small.context, "A", k=4)
    assert seen.prompt == (
        'Input: "High 0" Label: A\n'
        'Input: "low 0" Label: B\n'
        'Input: "High 1" Label: A\n'
        'Input: "low 1" Label: B\n'
        "\n"
        'Input: "Tall tree" Label: \n'
        "A \n"
        "B (Respond in one letter and nothing else)"
    )
    # Items of a task share all before their text.
    other = measure(H, small.items[1], small.context, "A", k=4).prompt
    assert other == seen.prompt.replace("Tall tree", "small tree")
    lines = measure(H, small.items[1], small.context, "A", k=14).prompt.split("\n")[:14]
    assert [line.split('"')[1] for line in lines] == [
        f"{text} {n}" for n in range(7) for text in ("High", "low")
    ]
    assert [line[-1] for line in lines] == ["A", "B"] * 7


def test_settings_that_cannot_be_used() -> None:
    """Only the paper's four values of k are accepted, and a chain of thought cannot be scored by likelihood."""
    for settings, says in (
        ({"k": "15"}, r"--llm-set htest\.k=.*4, 14, 28, 50"),
        ({"cot": "true", "answer": "likelihood"}, "cot needs answer = text"),
        ({"max_tokens": "0"}, "at least 1"),
    ):
        with pytest.raises(UsageError, match=says):
            resolve("htest", H.protocols, "quick", settings, 0)


def test_letter_geometry_prompt(small: Loaded, measure: Measure) -> None:
    """A Letter Geometry question has no examples, and is followed by its options."""
    seen = measure(H, small.items[2], small.context, "N")
    assert seen.prompt == ('What is "Z" on its side?\nE\nN\nO\nƐ(Respond in one letter and nothing else)')
    assert seen.verdict.status == "correct"
    # It has no chain of thought.
    assert measure(H, small.items[2], small.context, "N", k=4, cot=True).verdict.status == "correct"


def test_paper_protocol(tmp_path: Path, measure: Measure) -> None:
    """`paper` sends one request with 50 examples, temperature 0.7 and 5 tokens, and sets nothing else.

    The authors' ``start_vowel_dev.jsonl`` has another key for the text.
    """
    dev = [{"question" if key == "centerpiece" else key: row[key] for key in row} for row in dev_of(50)]
    data = load_rhymes(tmp_path, dev=dev)
    seen = measure(H, data.items[0], data.context, "A", protocol="paper")
    ((role, request),) = seen.calls
    assert role == "subject"
    assert request == Chat.user(seen.prompt, temperature=0.7, max_tokens=5)
    assert [seen.prompt.count(text) for text in ("Input: ", "Label: A\n", "Label: B\n")] == [51, 25, 25]


def test_chain_of_thought_is_read_by_the_reader(small: Loaded, measure: Measure) -> None:
    """With `cot` the model reasons without a token limit, and the role `reader` gets the paper's question."""
    seen = measure(H, small.items[1], small.context, "I hear B.", "B", protocol="paper", k=4, cot=True)
    (first_role, first), (second_role, second) = seen.calls
    assert (first_role, second_role) == ("subject", "reader")
    assert first.messages[0].content.endswith(
        'Input: "low 1" Label: B\n'
        "\n"
        "Now, think out loud step by step and assign label. \n"
        'Input: "small tree" Label: \n'
        "A \n"
        "B"
    )
    assert (first.temperature, first.max_tokens) == (0.7, None)
    assert len(second.messages) == 1
    assert second.messages[0].content == (
        "Assistant: I hear B. \n\n What does the Assistant think the sentence belongs to?\n"
        "A\nB\nNone (Respond in one word and nothing else)"
    )
    assert (second.temperature, second.max_tokens) == (0.7, 5)
    assert (seen.verdict.status, seen.verdict.given) == ("correct", "B")
    assert "I hear B." in seen.verdict.evidence.values()
    # The verdict depends on the reader's reply, not on the chain of thought.
    for read, status in (("A", "wrong"), ("B", "correct"), ("None", "unparsed"), ("", "unparsed")):
        seen = measure(H, small.items[1], small.context, "Label: A, clearly", read, k=4, cot=True)
        assert seen.verdict.status == status


def test_reader_that_is_missing(small: Loaded, measure: Measure) -> None:
    """An empty or filtered chain of thought needs no reader; without one, the error names the role and the option."""
    for thought, status in ((Reply(" \n"), "unparsed"), (FILTERED, "refused")):
        seen = measure(H, small.items[0], small.context, thought, k=4, cot=True)
        assert (len(seen.calls), seen.verdict.status, seen.verdict.values["parsed"]) == (1, status, 0.0)
    seen = measure(H, small.items[0], small.context, "Hm", helpers=(), k=4, cot=True)
    assert seen.record.status == "error"
    assert "--llm-helper reader=SPEC" in seen.record.reason
    for cot, roles in (("true", ("reader",)), ("false", ())):
        assert H.helpers(resolve("htest", H.protocols, "quick", {"cot": cot}, 0).settings) == roles


STATUSES = [
    (Reply("A"), "correct", 1.0, 1.0),
    (Reply("B"), "wrong", 1.0, 1.0),
    (Reply("The answer is A"), "correct", 1.0, 0.0),
    (Reply("A", finish_reason="length"), "correct", 1.0, 1.0),
    (Reply("None of them", finish_reason="length"), "unparsed", 0.0, 0.0),
    (Reply("Banana"), "unparsed", 0.0, 0.0),
    (Reply(""), "unparsed", 0.0, 0.0),
    (Reply(" \n"), "unparsed", 0.0, 0.0),
    (FILTERED, "refused", 0.0, 0.0),
    (Reply("A", finish_reason="content_filter"), "refused", 0.0, 0.0),
]


def test_statuses(small: Loaded, measure: Measure) -> None:
    """A readable reply is right or wrong, a filter's refusal is refused, and any other reply is unparsed."""
    for reply, status, parsed, obeys in STATUSES:
        verdict = measure(H, small.items[0], small.context, reply, k=4).verdict
        assert (verdict.status, verdict.score, verdict.expected) == (status, float(status == "correct"), "A")
        assert (verdict.values["parsed"], verdict.values["format"]) == (parsed, obeys)
        assert verdict.reason
        assert "\n" not in verdict.reason


def test_the_setting_match_chooses_the_rule(small: Loaded, measure: Measure) -> None:
    """Both rules read every reply: the setting's rule decides, and the values say whether the other one agrees."""
    for place, match, reply, status, alike in (
        (0, "letter", "Answer: A", "correct", 1.0),
        (0, "letter", "Answer: B", "wrong", 0.0),
        (0, "paper", "Answer: B", "unparsed", 0.0),
        (0, "letter", "I am not sure", "unparsed", 0.0),
        (0, "paper", "I am not sure", "correct", 0.0),
        (2, "letter", "n", "unparsed", 1.0),
        (2, "letter", "(N)", "correct", 0.0),
        (2, "paper", "(N)", "unparsed", 0.0),
    ):
        verdict = measure(H, small.items[place], small.context, reply, k=4, match=match).verdict
        assert (verdict.status, verdict.values["read_alike"]) == (status, alike), reply
        assert ("other_reading" in verdict.evidence) == (not alike)


def test_metrics_by_hand(small: Loaded, measure: Measure) -> None:
    """Adjusted accuracy excludes unread replies, format rate includes them, and both exclude errors."""
    records = [measure(H, small.items[0], small.context, reply, k=4).record for reply, *_ in STATUSES]
    errors = measure(H, small.items[0], small.context, "Hm", helpers=(), k=4, cot=True).record
    actual = {m.name: m for m in H.metrics([errors, *records, errors])}
    assert set(actual) == {"adjusted_accuracy", "read_rate", "format_rate"}
    records += [measure(H, small.items[2], small.context, reply).record for reply in ("N", "E", "", "n")]
    # Status and values alone, read back from JSON, give the same metrics.
    assert list(H.metrics(only_numbers(records))) == list(H.metrics(records))
    adjusted, obeyed = actual["adjusted_accuracy"], actual["format_rate"]
    # Read replies: A, B, "The answer is A", cut-off A. Three of these four are right; three of ten are one letter.
    assert (adjusted.value, adjusted.n, adjusted.direction) == (3 / 4, 4, "higher")
    assert (obeyed.value, obeyed.n) == (3 / 10, 10)
    assert (actual["read_rate"].value, actual["read_rate"].n) == (4 / 10, 10)
    assert (adjusted.task, adjusted.language, adjusted.source) == ("uppercase", "en", "published")
    # Clopper and Pearson's 95% interval of 3 of 4
    assert adjusted.ci_low == pytest.approx(0.19412, abs=1e-5)
    assert adjusted.ci_high == pytest.approx(0.99369, abs=1e-5)


def test_adjusted_accuracy_of_few_readable_replies(small: Loaded, measure: Measure) -> None:
    """With fewer than 30% readable replies, or none, the adjusted accuracy is undefined; their number is kept."""
    replies = ["A", "A", "A", *[""] * 7]
    records = [measure(H, small.items[0], small.context, reply, k=4).record for reply in replies]
    expected = {10: (1.0, 3), 9: (None, 2), 7: (None, 0)}
    for count, (value, read) in expected.items():
        metric = next(m for m in H.metrics(records[-count:]) if m.name == "adjusted_accuracy")
        assert (metric.value, metric.n, metric.ci_low is None) == (value, read, value is None)


def test_bad_files_are_one_line(tmp_path: Path, measure: Measure) -> None:
    """A missing file, an invalid row and too few examples for k are one line with the file and the fix."""

    def refused(message: str) -> None:
        with pytest.raises(DataError, match=rf"^[^\n]*htest/{message}[^\n]*$"):
            H.load(DataFolder(tmp_path, "published"))

    refused(r"\w+_test\.jsonl: no such file; .*llmprops data pull")
    write(tmp_path, "rhyme_test", [row("sea tea", 0)])
    refused(r"rhyme_dev\.jsonl: no such file; .*llmprops data pull")
    load_rhymes(tmp_path, dev=dev_of(14))
    changes: dict[str, list[dict[str, Any]]] = {
        "rhyme_test": [
            {"options": "AB"}, {"options": ["B", "A"]}, {"correct_options": [2]}, {"correct_options": [-1]},
            {"correct_options": [1.0]}, {"correct_options": [True]}, {"correct_options": [0, 1]},
            {"correct_options": 0}, {"centerpiece": " "}, {"centerpiece": 5},
        ],
        "letter_geometry_test": [
            {"options": ["E", "N", "O"]}, {"options": [1, 2, 3, 4]}, {"correct_options": [4]},
            {"options": ["E", "N", "N", "O"]},
        ],
        "rhyme_dev": [{"options": ["A", "B", "C"]}],
    }  # fmt: skip
    for part, some in changes.items():
        good = GEOMETRY if part.startswith("letter") else row("sea tea", 0)
        for change in some:
            write(tmp_path, part, [good, good | change, good])
            refused(rf"{part}\.jsonl: row 2: \S+")
        write(tmp_path, part, [good])
    for dev, k, counts in ((dev_of(13), 14, "7 A and 6 B"), ([row("x", 0)] * 9, 4, "2 A and 0 B")):
        data = load_rhymes(tmp_path, dev=dev)
        with pytest.raises(DataError, match=rf"^[^\n]*rhyme_dev\.jsonl: .*{counts}.*--llm-set htest\.k="):
            measure(H, data.items[0], data.context, "A", k=k)
