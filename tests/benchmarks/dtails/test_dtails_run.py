"""DTAiLS through pytest: choices, rules, translations, their parser, and invalid input, with and without workers."""

from __future__ import annotations

import hashlib

import pytest

from tests.support.dtails import SELECT, asked, rules_file, two_languages, write_chooser
from tests.support.dtails_cases import fenced, measured, prepared, prompt_of, says
from tests.support.runs import Runner


@pytest.fixture
def data(run: Runner) -> tuple[str, ...]:
    """Options that select two languages written by the test."""
    return two_languages(run.folder)


def test_both_tasks(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """A chat model chooses and translates, and the record has summary, values and metrics of both tasks.

    Another process, and whatever number of them, shows the lists in the orders that the seed gives here.
    """
    done = run(*data, "--model", write_chooser(run.folder), "-n", workers, "-q", "--llm-seed", "5")
    assert done.code == 1
    assert done.run["complete"] is True
    rows = [(r["task"], r["language"], r["items"], r["clusters"], r["errors"]) for r in done.run["summary"]]
    assert sorted(rows) == [
        ("select", "af", 3, 1, 0), ("select", "hy", 2, 1, 0),
        ("translate", "af", 3, 1, 0), ("translate", "hy", 2, 1, 0),
    ]  # fmt: skip
    assert {r["source"] for r in done.run["summary"]} == {"generated"}
    metrics = {(m["task"], m["language"], m["name"], m["group"]): m for m in done.run["metrics"]}
    assert metrics["select", "af", "frequency_baseline", ""]["value"] == 1.0
    # The model takes the first variation of every list.
    first = metrics["select", "all", "position_rate", "1of2"]
    assert (first["value"], first["n"], first["direction"]) == (1.0, 5, "target:0.5")
    verdict = done.verdicts["dtails/af/live/g02"]
    assert (verdict["cluster"], verdict["values"]["run1_position"]) == ("dtails/af/live", 1.0)
    part = prepared(run.folder)
    items = [item for item in part.items if item.task == "select"]
    expected, others = (
        {prompt_of(measured(i, says(fenced("x")), case_context=part.context, seed=seed)[1][0]) for i in items}
        for seed in (5, 0)
    )
    choices = [prompt for prompt in asked(run.folder, rules=False) if "following list" in prompt]
    assert (set(choices), len(choices)) == (expected, 5)
    assert expected != others


@pytest.mark.parametrize(("workers", "cache"), [("0", "reuse"), ("2", "off")])
def test_own_rules_are_requested_once(run: Runner, data: tuple[str, ...], workers: str, cache: str) -> None:
    """With rules=self each concept makes one request for rules, and the prompts contain the reply."""
    model = write_chooser(run.folder)
    settings = ("--llm-set", "dtails.rules=self", "--llm-cache", cache, "-n", workers, *SELECT, "-q")
    done = run(*data, "--model", model, *settings)
    wanted = asked(run.folder, rules=True)
    assert len(wanted) == len(set(wanted)) == 2
    assert sum("Here are sentences" in prompt for prompt in wanted) == 1, "Armenian has no train rows"
    assert not any("house 1" in prompt for prompt in wanted), "a test row's sentence"
    choices = asked(run.folder, rules=False)
    assert len(choices) == 5
    assert all(p.startswith("Here are rules for how to translate") for p in choices)
    counts = {v["language"]: v["values"]["sentences"] for v in done.verdicts.values()}
    assert counts == {"af": 1.0, "hy": 0.0}
    assert done.run["calls"]["sent"] == 7
    assert done.run["calls"]["requests"] == 10
    assert any("train_dataset.csv" in name for name in done.run["data"])


def test_rules_of_files(run: Runner, data: tuple[str, ...]) -> None:
    """Files joined by a comma, relative to the current folder, are in every prompt; the record has their hashes.

    A plan refuses rules that do not cover the planned items; --collect-only does not check them.
    """
    live = {"woon": "to dwell", "lewe/leef": "to be alive"}
    files = {
        "af.json": rules_file(run.folder / "af.json", {"live": live}),
        "hy.json": rules_file(run.folder / "hy.json", {"live": {"ապրել": "a", "բնակվել": "b"}}, "hy"),
    }
    settings = ("--llm-set", "dtails.rules=hy.json, af.json", "-n", "0", *SELECT, "-q")
    done = run(*data, "--model", write_chooser(run.folder), *settings)
    values = [(v["values"]["rules_read"], v["values"]["sentences"]) for v in done.verdicts.values()]
    assert values == [(1.0, 0.0)] * 5
    choices = asked(run.folder, rules=False)
    assert sum('Afrikaans:{"woon": "to dwell", "lewe/leef": "to be alive"}\n' in p for p in choices) == 3
    assert sum('Armenian:{"ապրել": "a", "բնակվել": "b"}\n' in p for p in choices) == 2
    hashes = {name: value for name, value in done.run["data"].items() if name.startswith("given:")}
    assert hashes == {
        f"given:{name}": hashlib.sha256(f.read_bytes()).hexdigest() for name, f in files.items()
    }
    without = ("--model", "fake:echo", "--llm-set", "dtails.rules=hy.json", "-q")
    assert run(*data, *without, "--llm-plan").code == 4
    assert run(*data, *without, "--collect-only").code == 0


def test_a_translation_model(run: Runner, data: tuple[str, ...]) -> None:
    """A translation-only model gets translation requests, and its selections are counted as not served."""
    model = "fake:constant?text=Hulle woon ապրել.&kinds=translate"
    done = run(*data, "--model", model, "-n", "0", "-q")
    assert done.code == 0, done.output
    assert {v["task"] for v in done.verdicts.values()} == {"translate"}
    assert len(done.verdicts) == 5
    assert [list(served.values()) for served in done.run["not_served"].values()] == [[5]]
    assert {r["request"]["text"] for r in done.requests} == {f"They live in house {n}." for n in range(3)}
