"""DTAiLS through pytest: rules that the model writes and rules from a file."""

from __future__ import annotations

import hashlib

import pytest

from tests.support.dtails import (
    NONSENSE,
    SELECT,
    asked,
    rules_file,
    said_in_one_line,
    two_languages,
    write_chooser,
)
from tests.support.runs import Runner


@pytest.fixture
def data(run: Runner) -> tuple[str, ...]:
    """Options that select two languages written by the test."""
    return two_languages(run.folder)


@pytest.mark.parametrize(("workers", "cache"), [("0", "reuse"), ("0", "off"), ("2", "reuse"), ("2", "off")])
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
    assert done.run["protocols"]["dtails"]["settings"]["rules"] == "self"


def test_own_rules_of_two_models(run: Runner, data: tuple[str, ...]) -> None:
    """Each model writes its own rules, and no model sees those of another."""
    one = write_chooser(run.folder)
    text = (run.folder / "chooser.py").read_text(encoding="utf-8")
    run.write("other.py", text.replace("when <b>it</b>", "if ever it"))
    other = f"fake:call?file={run.folder / 'other.py'}"
    run(
        *data,
        "--model",
        one,
        "--model",
        other,
        "--llm-set",
        "dtails.rules=self",
        "-k",
        "dtails/af and not translate",
    )
    assert len(asked(run.folder, rules=True)) == 2
    choices = asked(run.folder, rules=False)
    assert sorted("if ever" in prompt for prompt in choices) == [False] * 3 + [True] * 3


def test_rules_that_cannot_be_read(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """Selections without readable rules are unparsed after three calls per concept; translations continue."""
    model = write_chooser(run.folder, NONSENSE)
    done = run(*data, "--model", model, "--llm-set", "dtails.rules=self", "-n", workers, "-q")
    assert len(asked(run.folder, rules=True)) == 6
    assert {v["task"]: v["status"] for v in done.verdicts.values()} == {
        "select": "unparsed",
        "translate": "wrong",
    }
    lines = [line.split() for line in done.output.splitlines()]
    at, head = next(
        (n, line) for n, line in enumerate(lines) if line[:1] == ["select"] and "rules_failed_rate" in line
    )
    rates = {row[0]: row[head.index("rules_failed_rate")] for row in lines[at + 1 : at + 3]}
    assert rates == {"af": "1", "hy": "1"}
    assert "could not be read in 3 tries" in done.output


def test_a_plan_of_own_rules(run: Runner, data: tuple[str, ...]) -> None:
    """A plan counts at most three calls per concept and two per choice; a smaller budget does not start."""
    model = write_chooser(run.folder)
    settings = ("--llm-set", "dtails.rules=self", *SELECT)
    done = run(*data, "--model", model, *settings, "--llm-plan")
    assert "16 calls" in done.output
    assert not asked(run.folder, rules=True)
    refused = run(*data, "--model", model, *settings, "--llm-max-calls", "15")
    said_in_one_line(refused, "the plan needs 16 calls")


def test_rules_of_a_file(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """A file's rules are in every prompt of its language, and its hash is in the record."""
    file = rules_file(run.folder / "af.json", live={"woon": "to dwell", "leef/lewe": "to be alive"})
    settings = ("--llm-set", f"dtails.rules={file}", "-n", workers, "-q")
    done = run(*data, "--model", write_chooser(run.folder), *settings, "-k", "dtails/af and not translate")
    choices = asked(run.folder, rules=False)
    assert len(choices) == 3
    assert all('Afrikaans:{"woon": "to dwell", "leef/lewe": "to be alive"}\n' in prompt for prompt in choices)
    assert done.run["data"][f"given:{file}"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert {v["values"]["sentences"] for v in done.verdicts.values()} == {0.0}


def test_rules_of_two_files(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """Two files joined by a comma, relative to the current folder, cover the items of their two languages."""
    rules_file(run.folder / "af.json", live={"woon": "to dwell", "leef/lewe": "to be alive"})
    rules_file(run.folder / "hy.json", "hy", live={"ապրել": "a", "բնակվել": "b"})
    settings = ("--llm-set", "dtails.rules=hy.json,af.json", "-n", workers, *SELECT, "-q")
    done = run(*data, "--model", write_chooser(run.folder), *settings)
    assert len(done.verdicts) == 5
    assert {name for name in done.run["data"] if name.startswith("given:")} == {
        "given:af.json",
        "given:hy.json",
    }
    assert sum('{"ապրել": "a", "բնակվել": "b"}' in p for p in asked(run.folder, rules=False)) == 2


@pytest.mark.parametrize(
    ("language", "concept", "variations", "workers", "said"),
    [
        ("hy", "live", ("woon", "leef/lewe"), "0", ("rules for hy, not for 'af'", "-k dtails/hy")),
        ("hy", "live", ("woon", "leef/lewe"), "2", ("rules for hy, not for 'af'", "-k dtails/hy")),
        (
            "af",
            "love",
            ("woon", "leef/lewe"),
            "2",
            ("'live' ('leef/lewe, woon') is not in this file", "--lang af"),
        ),
        (
            "af",
            "live",
            ("woon", "leef"),
            "0",
            ("'live' ('leef/lewe, woon') has other variations in this file",),
        ),
    ],
)
def test_rules_that_do_not_fit_the_items(
    run: Runner, data: tuple[str, ...], language: str, concept: str, variations: tuple[str, ...], workers: str,
    said: tuple[str, ...],
) -> None:  # fmt: skip
    """Rules for another language or other concepts are refused in one line before any request."""
    rules_file(run.folder / "rules.json", language, **{concept: dict.fromkeys(variations, "a rule")})
    settings = ("--llm-set", "dtails.rules=rules.json", "-n", workers, "-q")
    done = run(*data, "--model", write_chooser(run.folder), *settings)
    assert done.code == 4, done.output
    said_in_one_line(done, "rules.json: ", *said)
    assert not (run.folder / "asked.jsonl").exists()
    assert not done.folder.exists()


@pytest.mark.parametrize(
    ("text", "workers", "said"),
    [
        (None, "0", "rules.json: No such file"),
        ("{", "2", "rules.json: not JSON"),
        (
            '{"format": "dtails-rules 1", "language": "af", "model": "m", "concepts": []}',
            "0",
            "there are no concepts",
        ),
    ],
)
def test_file_that_is_not_a_rules_file(
    run: Runner, data: tuple[str, ...], text: str | None, workers: str, said: str
) -> None:
    """A missing or damaged rules file gives a one-line message before any request."""
    if text is not None:
        run.write("rules.json", text)
    settings = ("--llm-set", "dtails.rules=rules.json", "-n", workers, "-q")
    done = run(*data, "--model", write_chooser(run.folder), *settings)
    said_in_one_line(done, "rules.json: ", said)
    assert not (run.folder / "asked.jsonl").exists()


def test_a_plan_checks_the_rules(run: Runner, data: tuple[str, ...]) -> None:
    """A plan refuses rules that do not cover the planned items; --collect-only does not check them."""
    rules_file(run.folder / "rules.json", "hy", live={"ապրել": "a", "բնակվել": "b"})
    settings = ("--model", "fake:echo", "--llm-set", "dtails.rules=rules.json")
    assert run(*data, *settings, "--llm-plan").code == 4
    assert run(*data, *settings, "--collect-only", "-q").code == 0
