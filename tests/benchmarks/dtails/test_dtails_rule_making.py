"""Rules that the model under test writes (dtails.rules=self): prompts, repairs and example sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails import prompts
from pytest_llmprops.benchmarks.dtails.rules import choose_sentences, english_tokens
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Reply, Request
from pytest_llmprops.core.verdicts import Verdict
from pytest_llmprops.engine.evaluation.evaluator import Case, Outcome
from pytest_llmprops.engine.evaluation.planning import plan
from tests.support.dtails import row, write_language
from tests.support.dtails_cases import (
    BENCHMARK,
    LIVE,
    context,
    fenced,
    is_about_rules,
    item,
    measured,
    prepared,
    prompt_of,
)
from tests.support.scripted import CHAT, Answer

#: The authors' code appends this and the problem to the prompt.
REPAIR = " Please avoid the following error in your output: "
SENTENCES = {"leef/lewe": ("All men live.",), "woon": ()}


SELF_CONTEXT = context(sentences={"dtails/af/live": SENTENCES})


def with_own_rules(answer: Answer, **more: Any) -> tuple[Outcome, list[Request]]:
    """Measure an item on a model that writes its own rules."""
    more = {"case_context": SELF_CONTEXT, "rules": "self", **more}
    return measured(item(), answer, **more)


def writer(*replies: str | Reply | BackendError) -> Answer:
    """A model that replies to rule requests with these texts, repeating the last one, and always chooses."""
    left = list(replies)

    def answer(request: Request) -> str | Reply | BackendError:
        if not is_about_rules(request):
            return fenced("woon")
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def judged_rules(answer: Answer, **more: Any) -> tuple[Verdict, list[Request]]:
    """Measure an item, whose verdict must not be an error, on a model that writes its own rules."""
    outcome, requests = with_own_rules(answer, **more)
    assert outcome.verdict is not None
    return outcome.verdict, requests


#: rules with quotes, newlines and marks, which stay inside the JSON of a prompt
TEXTS = {"leef/lewe": 'to "be"\n\nIgnore this: ```woon``` \u202e', "woon": "to dwell"}
GOOD = json.dumps(TEXTS, ensure_ascii=False)


def test_prompts_of_figures_8_and_9() -> None:
    """The model gets figure 9 to write its rules and figure 8, with its own rules, to choose."""
    verdict, [first, second] = judged_rules(writer(GOOD))
    assert isinstance(first, Chat)
    assert first.messages == prompts.rule_generation("live", LIVE, "Afrikaans", SENTENCES)
    assert (first.temperature, first.max_tokens, first.sample) == (0.0, 2048, 0)
    system, _, user = prompt_of(second).partition("\n")
    assert system == f'Here are rules for how to translate "live" in Afrikaans:{GOOD}'
    assert user.startswith("Based on the provided rules, please select the best translation of")
    assert verdict.status == "correct"
    assert (verdict.values["rules_read"], verdict.values["sentences"]) == (1.0, 1.0)
    right: dict[str, Any] = {"variation": "woon", "rule": "to dwell"}
    assert verdict.evidence["rules"] == [right]
    # The rules of the right and of the chosen variation are kept.
    verdict, _ = judged_rules(lambda request: GOOD if is_about_rules(request) else fenced("lewe"))
    wrong = {"variation": "leef/lewe", "rule": TEXTS["leef/lewe"], "sentences": 1}
    assert verdict.evidence["rules"] == [wrong, right]


def test_a_helper_writes_the_rules() -> None:
    """With rules=helper, the helper gets figure 9, and the model under test only figure 8 with the helper's rules."""
    asked: list[Request] = []

    def helper(request: Request) -> str:
        asked.append(request)
        return GOOD

    outcome, [choice] = with_own_rules(writer(GOOD), rules="helper", helpers={"rules": helper})
    [request] = asked
    assert isinstance(request, Chat)
    assert request.messages == prompts.rule_generation("live", LIVE, "Afrikaans", SENTENCES)
    assert GOOD in prompt_of(choice)
    assert outcome.verdict is not None
    assert outcome.verdict.status == "correct"
    for rules in ("helper", "self"):
        settings = resolve("dtails", BENCHMARK.protocols, "paper", {"rules": rules}, 0).settings
        assert bool(BENCHMARK.helpers(settings)) == (rules == "helper")
    # The model under test is not blamed for a helper that writes no rules: the item is an error.
    more: dict[str, Any] = {"rules": "helper", "helpers": {"rules": lambda request: "Rules?"}}
    failed, requests = with_own_rules(writer(GOOD), **more)
    assert (failed.verdict, requests) == (None, [])
    assert failed.error is not None
    assert "--llm-helper rules=SPEC" in failed.error.message


def test_rules_that_stay_unreadable() -> None:
    """After an unreadable reply the prompt is sent again with the problems so far; fenced JSON is accepted.

    After three tries, the item is unparsed, without a choice.
    """
    verdict, requests = judged_rules(writer('{"woon": "to dwell"}', f"```json\n{GOOD}\n```"))
    assert (verdict.status, len(requests)) == ("correct", 3)
    verdict, requests = judged_rules(writer("nonsense"))
    assert len(requests) == len(set(requests)) == 3
    assert all(map(is_about_rules, requests))
    split_prompts = [prompt_of(request).split(REPAIR) for request in requests]
    assert [len(parts) for parts in split_prompts] == [1, 2, 3]
    assert len({parts[0] for parts in split_prompts}) == 1
    assert all(split_prompts[2])
    assert (verdict.status, verdict.score) == ("unparsed", 0.0)
    assert "its rules for 'live' could not be read in 3 tries: it is not JSON" in verdict.reason
    values = verdict.values
    assert (values["rules_read"], values["run1_right"], values["run1_position"]) == (0.0, 0.0, 0.0)
    verdict, _ = judged_rules(writer(Reply('{"leef/lewe": "to be', finish_reason="length")))
    assert (verdict.status, verdict.reason.endswith(", cut off")) == ("unparsed", True)


def test_rules_without_a_second_try() -> None:
    """If a content filter withholds the rules, the item is refused; if the call fails, it is an error."""
    verdict, requests = judged_rules(writer(Reply("", finish_reason="content_filter")))
    assert len(requests) == 1
    assert (verdict.status, verdict.values["rules_read"]) == ("refused", 0.0)
    assert verdict.reason == "a content filter refused its rules for 'live'"
    outcome, _ = with_own_rules(writer(BackendError("down")))
    assert (outcome.verdict, str(outcome.error)) == (None, "down")


TRAIN = [
    row(sentence="Fish live in water.", label="leef/lewe"),
    row(sentence="We live in a very small town by the sea.", label="woon"),
    row(sentence="THEY LIVE HERE", label="woon"),
    row(sentence="They live, here!", label="leef/lewe"),
    row(concept="see", sentence="They live to see it.", variations="['sien', 'kyk']", label="sien"),
    row(sentence="Long " * 60 + "live.", label="woon"),
    row(sentence="Where do you live"),
    row(sentence="I live to see"),
    # A label of which one form is a variation's.
    row(sentence="Trees live for long.", variations="['lewe/bestaan', 'woon']", label="lewe/bestaan"),
    # Of equal sentences the first counts, and one without letters is no example.
    row(sentence="FISH live, in water", label="leef/lewe"),
    row(sentence="…"),
    # Of another English word, although with the same variations.
    row(concept="dwell", sentence="They dwell."),
]


def test_sentences_come_from_train_rows(tmp_path: Path) -> None:
    """The sentences are the concept's own train rows under 50 tokens that match no test row of any concept or label.

    Other settings do not read the train file, so a damaged one does not affect them.
    """
    test = [row(), row(sentence="Where do you live?", label="leef/lewe")]
    write_language(tmp_path, "af", [*test, row(concept="see", sentence="I live to see.")], TRAIN)
    sentences = prepared(tmp_path, "self").context.sentences
    assert sentences == {
        "dtails/af/live": {
            "leef/lewe": ("Trees live for long.", "Fish live in water."),
            "woon": ("We live in a very small town by the sea.",),
        },
        "dtails/af/see": {"leef/lewe": (), "woon": ()},
    }
    (tmp_path / "dtails" / "en-af" / "train_dataset.csv").write_text("nothing\n", encoding="utf-8")
    assert prepared(tmp_path).context.sentences == {}
    with pytest.raises(ValueError, match=r"train_dataset\.csv"):
        prepared(tmp_path, "self")


def test_a_plan_counts_rules_and_choices() -> None:
    """A plan assumes the maximum cost: three tries per concept, two per choice, rules in its prompt."""
    protocol = resolve("dtails", BENCHMARK.protocols, "quick", {"rules": "self"}, 0)
    items = [item(number=n, sentence=f"They live {n}.") for n in range(4)]
    cases = [Case(BENCHMARK, one, SELF_CONTEXT, protocol, "m", kinds=CHAT) for one in items]
    asked: list[Request] = []
    [planned] = plan(cases, lambda label, request: asked.append(request))
    assert (planned.items, planned.calls) == (4, 3 + 2 * 4)
    choices = [r.prompt for r in asked if isinstance(r, Chat) and not is_about_rules(r)]
    assert len(choices) == 8
    assert all(prompt.startswith("Here are rules") for prompt in choices)


def test_fifty_longest_sentences_are_chosen() -> None:
    """By default the 50 longest sentences with at most 49 tokens are chosen."""
    rows = [(" ".join(["w"] * n + [letter]), ("woon",)) for n in range(1, 60) for letter in "ab"]
    chosen = choose_sentences(rows, LIVE, [])["woon"]
    assert [english_tokens(sentence) for sentence in chosen] == [n for n in range(49, 24, -1) for _ in "ab"]
