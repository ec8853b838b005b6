"""What a record and its logged requests tell of each DTAiLS item."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.dtails_runs import Answer, items, knows, measure, takes, with_rules
from fixtures.runs import Runner
from pytest_llmprops.benchmarks.dtails.report.choices import Told, concept_of, told
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.replies import read_requests

NAMES = ("weet", "ken/kan")
KNOW = items("know", NAMES, ["weet", "ken/kan", "weet"])
TRANSLATED = items("know", NAMES, ["weet", "ken/kan", "weet"], tasks=("translate",))
SENTENCES = {"dtails/af/know": {"weet": ("I know that.", "They know."), "ken/kan": ()}}


def tell(folder: Path) -> list[tuple[dict[str, Any], Told]]:
    """Every record of a run with what is told of it."""
    requests = read_requests(folder)
    return [(record, told(record, requests)) for record in read_run(folder).records]


def stumbles(answer: Answer) -> Answer:
    """The same model, that keeps to the template only when it is asked again."""
    return lambda request: answer(request) if "with 3 back ticks" in request.prompt else "Well."  # type: ignore[union-attr]


def test_the_order_of_every_run_and_what_was_chosen(tmp_path: Path) -> None:
    """Concept, sentence and the order of each run come back; a model that takes the first position took the first."""
    for record, one in tell(measure(tmp_path / "run", KNOW, {"m": takes(1)}, runs=5)):
        assert (one.concept, one.sentence.split(",")[0].split()[-1], one.count) == ("know", "know", 2)
        assert [set(choice.shown) for choice in one.choices] == [set(NAMES)] * 5
        assert [choice.position for choice in one.choices] == [1] * 5
        assert [choice.name for choice in one.choices] == [choice.shown[0] for choice in one.choices]
        assert [choice.right for choice in one.choices] == [c.name == record["expected"] for c in one.choices]
        assert concept_of(record) == ("builtin", "af", "dtails/af/know")
    orders = {choice.shown for _, one in tell(tmp_path / "run") for choice in one.choices}
    assert len(orders) == 2


def test_a_retry_shows_the_same_order(tmp_path: Path) -> None:
    """A choice that needed the second prompt says so, and has the order of both."""
    [(_, one), *_] = tell(measure(tmp_path / "run", KNOW, {"m": stumbles(takes(2))}, runs=2))
    assert [(choice.retried, choice.position, len(choice.shown)) for choice in one.choices] == [
        (True, 2, 2)
    ] * 2


def test_where_no_choice_was_read(tmp_path: Path) -> None:
    """A reply without a variation has no position and no name, but the order that was shown."""
    [(_, one), *_] = tell(measure(tmp_path / "run", KNOW, {"m": lambda request: "Well."}))
    [choice] = one.choices
    assert (choice.position, choice.name, choice.right, set(choice.shown)) == (None, "", False, set(NAMES))


def test_own_rules_with_their_sentences(tmp_path: Path) -> None:
    """Rules that the model wrote come back by variation, with the example sentences that it was shown."""
    folder = measure(
        tmp_path / "run", KNOW, {"m": with_rules(knows(KNOW))}, rules="self", sentences=SENTENCES
    )
    for _, one in tell(folder):
        assert one.rules == {name: f"when it is {name}" for name in NAMES}
        assert (one.rules_read, one.sentences, one.by_variation) == (True, 2, {"weet": 2, "ken/kan": 0})


def test_rules_of_a_file(tmp_path: Path) -> None:
    """Rules that were given come back; how many sentences each was made from is not in the record."""
    for _, one in tell(measure(tmp_path / "run", KNOW, {"m": knows(KNOW)}, rules="some.json")):
        assert one.rules == {"weet": "by hand: weet", "ken/kan": "by hand: ken"}
        assert (one.rules_read, one.sentences, one.by_variation) == (True, 14, {})


def test_no_rules_are_told_as_none(tmp_path: Path) -> None:
    """A run without rules has neither rules nor a number of sentences."""
    for _, one in tell(measure(tmp_path / "run", KNOW, {"m": knows(KNOW)})):
        assert (one.rules, one.rules_read, one.sentences) == ({}, None, None)


def test_rules_that_could_not_be_read(tmp_path: Path) -> None:
    """The concept is known from the prompt for rules; there is no choice, and no rule."""
    broken = with_rules(knows(KNOW), "")
    for record, one in tell(
        measure(tmp_path / "run", KNOW, {"m": broken}, rules="self", sentences=SENTENCES)
    ):
        assert record["status"] == "unparsed"
        assert (one.concept, set(one.names), one.rules, one.rules_read) == ("know", set(NAMES), {}, False)
        assert one.choices == ()


def test_without_requests_the_verdict_is_what_is_known(tmp_path: Path) -> None:
    """Positions and outcomes are told; names, order, sentence and rules are not made up."""
    folder = measure(
        tmp_path / "run", KNOW, {"m": with_rules(takes(2))}, rules="self", runs=2, replies=False
    )  # fmt: skip
    for _, one in tell(folder):
        assert (one.concept, one.sentence, one.names, one.rules) == ("", "", (), {})
        assert (one.count, one.sentences) == (2, 0)
        assert [(choice.position, choice.shown, choice.name) for choice in one.choices] == [(2, (), "")] * 2


def test_cut_requests_leave_out_one_run(tmp_path: Path) -> None:
    """Where the log lacks one run's prompt, only that run's order is unknown."""
    folder = measure(tmp_path / "run", KNOW[:1], {"m": takes(1)}, runs=3)
    [record] = read_run(folder).records
    requests = read_requests(folder)
    del requests[next(key for key, row in requests.items() if row["request"]["sample"] == 1)]
    assert [bool(choice.shown) for choice in told(record, requests).choices] == [True, False, True]


@pytest.mark.parametrize("kind", ["chat", "translate"])
def test_translations(tmp_path: Path, kind: Any) -> None:
    """A chat model's and a translation system's sentence and translation come back."""

    def translate(request: Request) -> str:
        return "Ek weet dit."

    for record, one in tell(measure(tmp_path / "run", TRANSLATED, {"m": translate}, kinds=frozenset({kind}))):
        assert one.sentence.startswith("Sentence ")
        assert one.translation == "Ek weet dit."
        assert (record["given"], one.choices) == ("weet", ())


def test_a_translation_without_requests(tmp_path: Path) -> None:
    """The verdict has the whole translation where no variation was found in it, and else only the variation."""
    texts = {1: "Ek weet dit.", 2: "Niks hier nie."}
    answer = lambda request: texts[1 if "Sentence 1" in request.text else 2]  # noqa: E731
    folder = measure(
        tmp_path / "run", TRANSLATED[:2], {"m": answer}, kinds=frozenset({"translate"}), replies=False
    )  # fmt: skip
    assert [one.translation for _, one in tell(folder)] == [None, "Niks hier nie."]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run1_position", "x"),
        ("run1_position", -3),
        ("variations", None),
        ("sentences", 1e300),
        ("run1_position", 9),
    ],
)
def test_values_that_are_no_counts(tmp_path: Path, name: str, value: object) -> None:
    """A record changed by hand is told as far as it goes."""
    folder = measure(tmp_path / "run", KNOW[:1], {"m": takes(1)})
    [record] = read_run(folder).records
    record["values"][name] = value
    one = told(record, read_requests(folder))
    assert one.choices[0].name in ("", *NAMES)
    assert one.choices[0].position in (None, 1, 9)


def test_a_whole_run_of_pytest(run: Runner) -> None:
    """After a run as users make it, every choice that is told is the one that the verdict calls right or wrong."""
    run.write(
        "first.py",
        "import ast, json\n"
        "def names(text, mark):\n"
        "    start = text.index(mark) + len(mark)\n"
        "    return ast.literal_eval(text[start : text.index(']', start) + 1])\n"
        "def reply(chat):\n"
        "    if 'only return a json' in chat.prompt:\n"
        "        return json.dumps({name: f'rule for {name}' for name in names(chat.prompt, 'following keys ')})\n"
        "    return f\"```{names(chat.prompt, 'following list: ')[0]}```\"\n",
    )
    done = run(
        str(Path(__file__).parents[4] / "suites" / "test_dtails.py"), "--rootdir", str(run.folder),
        "--model", f"fake:call?file={run.folder / 'first.py'}", "-k", "(dtails/fa or dtails/te) and not translate",
        "--llm-set", "dtails.rules=self", "--llm-set", "dtails.runs=2", "--llm-limit", "2",
    )  # fmt: skip
    found = tell(done.folder)
    assert len(found) > 20, done.output
    for record, one in found:
        assert one.sentence
        assert len(one.names) == one.count == len(one.rules)
        assert [choice.position for choice in one.choices] == [1, 1]
        assert [choice.name == record["expected"] for choice in one.choices] == [c.right for c in one.choices]
    assert json.loads((done.folder / "run.json").read_text(encoding="utf-8"))["complete"]


def test_the_helpers_replies_are_not_the_models(tmp_path: Path) -> None:
    """What a helper was asked is no question to the model under test."""
    folder = measure(tmp_path / "run", TRANSLATED[:1], {"m": lambda request: Reply("Ek weet.")})
    [record] = read_run(folder).records
    requests = read_requests(folder)
    other = {**next(iter(requests.values())), "key": "h", "role": "parse", "reply": {"text": "parsed"}}
    record = replace(record, requests=(*record.requests, "h"))
    assert told(record, requests | {"h": other}).translation == "Ek weet."
