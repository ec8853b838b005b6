"""`llmprops compare`: text, Markdown and JSON output."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_llmprops.core.requests import Chat, Reply
from pytest_llmprops.engine.broker.request_log import RequestLog
from tests.support.commands import one_error, output
from tests.support.recorded import verdict, verdicts
from tests.support.records import recorded

Capture = pytest.CaptureFixture[str]
HOSTILE = "<script>alert(1)</script> `x` | **b** [a](http://evil.example) ![i](x) www.evil.example @me #1 \x1b[31m\x07"
pytestmark = pytest.mark.usefixtures("working_folder")


def compared(capsys: Capture, *words: str) -> str:
    """Return the output of `llmprops compare`."""
    return output(capsys, "compare", *words)


def row(text: str, start: str) -> list[str]:
    """Return the cells of the only table row that begins with ``start``."""
    [line] = [line for line in text.splitlines() if line.split()[: len(start.split())] == start.split()]
    return re.split(r"\s{2,}", line.strip())


def test_accuracy_of_every_run(capsys: Capture) -> None:
    """The first table has one column per run with accuracy, interval and errors; the second counts what has no pair.

    Runs with different settings are compared, and one line names the difference. --markdown writes the tables and the
    flipped items to a file, in addition to the terminal output.
    """
    for name, rows, k in (("a", verdicts("ccwe"), 1), ("b", verdicts("cwww", model="new"), 2)):
        protocol = {"name": "quick", "settings": {"k": k}, "seed": 0}
        recorded(Path(name), rows, protocols={"sums": protocol})
    text = compared(capsys, "a", "b", "--markdown", "c.md")
    assert row(text, "task lang") == ["task", "lang", "source", "A old", "B new"]
    assert row(text, "add en") == [
        "add", "en", "builtin", "66.7% of 3 (9.4 to 99.2), 1 error", "25.0% of 4 (0.6 to 80.6)",
    ]  # fmt: skip
    assert dict(zip(row(text, "benchmark"), row(text, "sums add"), strict=True)) | {"95% interval": ""} == {
        "benchmark": "sums", "task": "add", "lang": "en", "source": "builtin", "pairs": "3", "lost": "1",
        "gained": "0", "difference": "−33.3", "95% interval": "", "p": "1.000", "finding": "no clear difference",
        "errors": "1",
    }  # fmt: skip
    [line] = [x for x in text.splitlines() if "not measured in the same way" in x]
    assert "k 1 → 2" in line
    lines = Path("c.md").read_text(encoding="utf-8").splitlines()
    assert "| add | en | builtin | 66.7% of 3 (9.4 to 99.2), 1 error | 25.0% of 4 (0.6 to 80.6) |" in lines
    assert "### lost, right in A and not in B: 1" in lines
    assert "| sums/0001 | 4 | correct: 4 | wrong: 5 |" in lines
    assert "none does not exist" in one_error(capsys, "compare", "a", "b", "--markdown", "none/c.md")
    same = compared(capsys, "a", "a")
    assert "not measured in the same way" not in same


def test_flipped_items_with_both_replies(capsys: Capture) -> None:
    """Lost and gained items are listed with the expected answer and the reply of each run."""
    folder = recorded(Path("a"), [verdict("x", requests=["k"]), verdict("y", "wrong", given="5")])
    log = RequestLog(folder)
    log.add("subject", Chat.user("2 + 2 ="), Reply("Two and two\nmake four.", key="k"))
    log.close()
    recorded(Path("b"), [verdict("x", "refused", given="I cannot."), verdict("y", given="four")])
    text = compared(capsys, "a", "b")
    lost, gained = text[text.index("lost, right") :].split("gained, right")
    assert [line.strip() for line in lost.splitlines()[1:4]] == [
        "sums/x: expected 4",
        "A correct: Two and two make four.",
        "B refused: I cannot.",
    ]
    assert [line.strip() for line in gained.splitlines()[1:4]] == [
        "sums/y: expected 4",
        "A wrong: 5",
        "B correct: four",
    ]
    full = compared(capsys, "a", "b", "--full")
    assert "        Two and two\n        make four.\n" in full


def test_hostile_replies_stay_text(capsys: Capture) -> None:
    """Control characters in a reply are not printed, and its Markdown has neither HTML nor links."""
    recorded(Path("a"), [verdict("x", given=HOSTILE, expected=HOSTILE, model=HOSTILE)])
    recorded(Path("b"), [verdict("x", "wrong", given=HOSTILE, expected=HOSTILE)])
    for words in ((), ("--full",), ("--json",)):
        printed = compared(capsys, "a", "b", *words, "--markdown", "c.md")
        text = Path("c.md").read_text(encoding="utf-8")
        assert all(line.isprintable() for line in [*printed.splitlines(), *text.splitlines()])
        unescaped = re.sub(r"\\.", "", text)
        for bad in ("<script", "`x`", "**b**", "](", "://", "www.", "@me", "#1 "):
            assert bad not in unescaped
    [cells] = [x for x in text.splitlines() if x.startswith("| sums/x")]
    assert cells.replace("\\|", "").count("|") == 5


def test_json_has_every_flipped_item(capsys: Capture) -> None:
    """--json prints every flipped item in full, whatever --limit is, and only numbers that JSON allows.

    The text lists 20 flipped items of each direction, or as many as --limit says; the heading has the total.
    """
    long = "猫 " * 500
    recorded(Path("a"), verdicts("c" * 25, given=long))
    recorded(Path("b"), verdicts("w" * 25))

    def refuse(name: str) -> None:
        raise AssertionError(name)

    for words, shown in (((), 20), (("--limit", "3"), 3), (("--limit", "99"), 25)):
        assert compared(capsys, "a", "b", *words).count(": expected 4") == shown
    assert "lost, right in A and not in B: 25, the first 20" in compared(capsys, "a", "b")
    assert "--limit -1" in one_error(capsys, "compare", "a", "b", "--limit", "-1")
    result = json.loads(compared(capsys, "a", "b", "--json", "--limit", "1"), parse_constant=refuse)
    assert [c["letter"] for c in result["columns"]] == ["A", "B"]
    [contrast] = result["contrasts"]
    assert len(contrast["lost"]) == 25
    assert contrast["lost"][3]["baseline"]["reply"] == long
    assert contrast["lost"][3]["key"]["id"] == "sums/0003"
    assert contrast["changes"][0]["result"]["word"] == "worse"
    assert result["table"][0]["columns"]["B"]["accuracy"] == 0.0
    few = json.loads(compared(capsys, "a", "a", "--json"), parse_constant=refuse)
    assert few["contrasts"][0]["changes"][0]["lost"] == 0
