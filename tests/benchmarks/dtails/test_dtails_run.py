"""DTAiLS through pytest: choices and their positions, invalid input, with and without workers."""

from __future__ import annotations

import json
import re

import pytest

from pytest_llmprops.core.texts import terminal_line
from tests.support.dtails import (
    DTAILS,
    SELECT,
    asked,
    row,
    said_in_one_line,
    sentences,
    two_languages,
    write_chooser,
    write_language,
)
from tests.support.runs import Runner


@pytest.fixture
def data(run: Runner) -> tuple[str, ...]:
    """Options that select two languages written by the test."""
    return two_languages(run.folder)


def test_both_tasks(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """A chat model chooses and translates, and the record has summary, values and metrics of both tasks."""
    done = run(*data, "--model", write_chooser(run.folder), "-n", workers, "-q")
    assert done.code == 1
    assert done.run["complete"] is True
    rows = {(r["task"], r["language"]): r for r in done.run["summary"]}
    assert {place: (r["items"], r["source"], r["clusters"]) for place, r in rows.items()} == {
        ("select", "af"): (3, "generated", 1), ("translate", "af"): (3, "generated", 1),
        ("select", "hy"): (2, "generated", 1), ("translate", "hy"): (2, "generated", 1),
    }  # fmt: skip
    assert all(r["errors"] == 0 for r in rows.values())
    metrics = {(m["task"], m["language"], m["name"], m["group"]): m for m in done.run["metrics"]}
    assert metrics["select", "af", "frequency_baseline", ""]["value"] == 1.0
    # The model takes the first variation of every list.
    first = metrics["select", "all", "position_rate", "1of2"]
    assert (first["value"], first["n"], first["direction"]) == (1.0, 5, "target:0.5")
    assert re.search(
        r"^  select/all +1of2 +2of2\n(  .*\n)*?  position_rate +1 +0$", done.output, re.MULTILINE
    )
    verdict = done.verdicts["dtails/af/live/g02"]
    assert verdict["cluster"] == "dtails/af/live"
    assert verdict["values"]["run1_position"] == 1.0


def test_order_dependent_model_is_named(run: Runner, workers: str) -> None:
    """The summary names a model whose choice depends on the order, and the record has the remark."""
    write_language(run.folder, "af", sentences(20))
    options = ("--llm-source", "published", "--llm-data", str(run.folder), *SELECT, "-n", workers, "-q")
    done = run(DTAILS, "--model", write_chooser(run.folder), *options)
    [remark] = done.run["remarks"]
    [label] = done.run["models"]
    assert (remark["model"], remark["benchmark"]) == (label, "dtails")
    assert remark["text"].endswith("of 2 variations: 100%, 0% of 20 choices")
    assert f"  {label}: {remark['text']}" in done.output.splitlines()
    always = run(DTAILS, "--model", "fake:constant?text=```woon```", *options)
    assert always.code == 0
    assert always.run["remarks"] == []
    assert "order-invariant:" not in always.output


def test_orders_are_the_same_for_all_models_and_workers(run: Runner, data: tuple[str, ...]) -> None:
    """Two models, with one process or two, see each item in one order; another seed gives others."""
    shown = []
    write_chooser(run.folder)
    other = run.write("other.py", (run.folder / "chooser.py").read_text(encoding="utf-8") + "\n# another\n")
    for file, more in ((run.folder / "chooser.py", "0"), (other, "2")):
        run(*data, "--model", f"fake:call?file={file}", "-n", more, *SELECT, "--llm-cache", "off")
        shown.append(sorted(asked(run.folder, rules=False)))
        (run.folder / "asked.jsonl").unlink()
    assert shown[0] == shown[1]
    assert len(shown[0]) == 5
    run(*data, "--model", f"fake:call?file={other}", *SELECT, "--llm-cache", "off", "--llm-seed", "5")
    assert sorted(asked(run.folder, rules=False)) != shown[0]


def test_a_gate_on_positions(run: Runner) -> None:
    """A gate can limit the distance of positions from 1/k with "within", but not with min or max."""
    write_language(run.folder, "af", sentences(60))
    rule = '[[rule]]\nbenchmark = "dtails"\nmetric = "position_rate"\ngroup = "1of2"\nmin_items = 1\n'
    data = ("--llm-source", "published", "--llm-data", str(run.folder), *SELECT, "-q")
    for model, code in ((write_chooser(run.folder), 1), ("fake:constant?text=```woon```", 0)):
        gate = str(run.write("gate.toml", rule + "within = 0.25\n"))
        done = run(DTAILS, "--model", model, *data, "--llm-gate", gate)
        assert done.code == code, done.output
        assert done.run["gate"]["decision"] == ("fail" if code else "pass")
    wrong = run(
        DTAILS, "--model", "fake:echo", *data, "--llm-gate", str(run.write("gate.toml", rule + "min = 0.4\n"))
    )
    said_in_one_line(wrong, "position_rate is best at 1/k: use within, not min or max")


# invalid input


@pytest.mark.parametrize(
    ("change", "workers", "said"),
    [
        (
            {"variations": "leef;woon"},
            "0",
            "variations 'leef;woon' are not a list; write ['one', 'other/form']",
        ),
        ({"variations": "leef;woon"}, "2", "variations 'leef;woon' are not a list"),
        ({"variations": "__import__('os').getcwd()"}, "0", "are not a list"),
        ({"label": "bly"}, "0", "label 'bly' is not one of the variations 'leef/lewe, woon'"),
        ({"variations": "['woon']"}, "2", "concept 'live' has 1 variation(s); write at least two"),
        ({"label": "\x1b[2J"}, "0", r"label '\x1b[2J' is not one of the variations"),
    ],
)
def test_damaged_rows(run: Runner, change: dict[str, str], workers: str, said: str) -> None:
    """An invalid row gives one line with file, row and language, and no request is made."""
    write_language(run.folder, "af", [row(), row(**{"sentence": "Another.", **change})])
    data = ("--llm-source", "published", "--llm-data", str(run.folder), "-n", workers, "-q")
    done = run(DTAILS, "--model", write_chooser(run.folder), *data)
    said_in_one_line(done, "expert_dataset.csv: row 2 (af): ", said)
    assert not (run.folder / "asked.jsonl").exists()


ZWNJ, ZWJ = "\u200c", "\u200d"


def test_joiners_and_right_to_left_text(run: Runner, workers: str) -> None:
    """Zero-width joiners, right-to-left text and decomposed letters reach prompts and record unchanged."""
    best, other = f"مهم{ZWNJ}ترین", f"بیش{ZWJ}تر/بیشترین"
    variations = json.dumps([best, other])
    sentence, target = "\u202bThe most\u202c important e\u0301.", f"این {best} است"
    cells = row(sentence=sentence, target=target, variations=variations, label=other)
    write_language(run.folder, "fa", [cells])
    data = ("--llm-source", "published", "--llm-data", str(run.folder), "-n", workers, "-q")
    run.write(
        "best.py",
        f"def reply(chat):\n    return {f'```{best}```'!a} if '3 back' not in chat.prompt else ''\n",
    )
    done = run(DTAILS, "--model", f"fake:call?file={run.folder / 'best.py'}", *data)
    verdict = done.verdicts["dtails/fa/live/g01"]
    assert (verdict["status"], verdict["given"], verdict["expected"]) == ("wrong", best, other)
    assert verdict["reason"] == f"chose {best}"
    raw = (done.folder / "verdicts.jsonl").read_text(encoding="utf-8")
    assert best in raw
    assert other in raw
    prompts = [r["request"]["messages"][0][1] for r in done.requests]
    assert any(sentence in prompt and best in prompt and other in prompt for prompt in prompts), prompts
    assert "\u202b" not in done.output, "what reorders a line is kept from the terminal"
    assert f"(chose {best})" in done.output, "joiners are part of the word"


def test_joiners_stay_in_pytests_own_line() -> None:
    """Pytest's line for a failed case keeps joiners and has no terminal control characters."""
    word = f"مهم{ZWNJ}ترین"
    assert terminal_line(f"chose {word}\x1b[2J\u202e") == f"chose {word}␛[2J[U+202E]"


def test_replies_are_shown_as_text(run: Runner, data: tuple[str, ...]) -> None:
    """Escapes and markup in a reply are recorded unchanged and shown as visible marks in the terminal."""
    run.write("evil.py", "def reply(chat):\n    return '```\\x1b[2J<script>alert(1)</script>```'\n")
    done = run(*data, "--model", f"fake:call?file={run.folder / 'evil.py'}", "-q")
    assert done.code == 1
    assert "\x1b[2J" not in done.output
    translation = done.verdicts["dtails/af/live/g01+translate"]
    assert translation["given"] == "```\x1b[2J<script>alert(1)</script>```"
    assert translation["status"] == "wrong"


def test_a_limit_is_per_concept(run: Runner) -> None:
    """--llm-limit 1 selects one row per concept, the same for both tasks."""
    done = run(DTAILS, "--model", "fake:echo", "--llm-limit", "1", "-k", "dtails/af", "-q")
    bases = [name.removesuffix("+translate") for name in done.verdicts]
    assert len(bases) == 14
    assert len(set(bases)) == 7 == len({v["cluster"] for v in done.verdicts.values()})


def test_settings(run: Runner) -> None:
    """Settings outside their limits give a one-line message."""
    for text, said in (
        ("runs=0", "runs must be from 1 to 20"),
        ("tokenizer=spaces", "auto, stanza, unicode"),
    ):
        done = run(DTAILS, "--model", "fake:echo", "--llm-set", f"dtails.{text}")
        said_in_one_line(done, said)
