"""Selecting a variation: what the model sees, how its reply is read, retries and repeated runs."""

from __future__ import annotations

import json

import pytest

from pytest_llmprops.benchmarks.dtails.prompts import shown_order
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Reply
from tests.support.dtails_cases import (
    BENCHMARK,
    LIVE,
    context,
    fenced,
    item,
    measured,
    prompt_of,
    says,
    shown,
    verdict_of,
)

RETRY = " Please enclose your selected translation from {} with 3 back ticks."
THREE = (("a1",), ("b1", "b2"), ("c1",))


def test_prompt_matches_the_paper() -> None:
    """Figure 7 word for word, as one user turn at temperature 0 with at most 1,024 tokens."""
    _, [request] = measured(item(), lambda r: fenced("woon"))
    assert isinstance(request, Chat)
    names = (
        "['leef/lewe', 'woon']"
        if shown_order(2, 0, "dtails/af/live/01") == (0, 1)
        else "['woon', 'leef/lewe']"
    )
    assert prompt_of(request) == (
        'Please select the best translation of "live" in "They live here." from the following list:'
        f" {names}. Carefully explain your reasoning first and then enclose your final answer like this ```answer```."
    )
    assert (request.temperature, request.max_tokens, request.sample) == (0.0, 1024, 0)


def test_the_model_sees_neither_target_nor_label() -> None:
    """Items that differ only in label, translation, clue and part of speech make the same request."""
    one = item(label=LIVE[0], target="Hulle lewe hier.", clue=("here",), pos="NOUN")
    requests = [measured(i, lambda r: fenced("woon"), runs=3)[1] for i in (one, item())]
    assert requests[0] == requests[1]
    assert len(requests[0]) == 3


def test_orders_follow_from_seed_item_and_run() -> None:
    """Each run shows the shuffle of its seed, item and number, whatever the rules; items and seeds differ."""
    shown_orders = {}
    for seed in (0, 1):
        for number in range(1, 21):
            subject = item(variations=THREE, number=number)
            _, requests = measured(subject, lambda r: fenced("a1"), seed=seed, runs=3)
            orders = [tuple(shown(prompt_of(r))) for r in requests]
            for run, names in enumerate(orders):
                order = shown_order(3, seed, subject.id, run)
                assert names == tuple("/".join(THREE[i]) for i in order)
            shown_orders[seed, number] = orders
    assert len({tuple(orders) for orders in shown_orders.values()}) == 6, (
        "the first order sets those of later runs"
    )
    assert {name for names in shown_orders.values() for name in names[0]} == {"a1", "b1/b2", "c1"}


def test_the_order_is_the_same_under_rules_and_protocols() -> None:
    """The first run shows the same order under quick, under paper and with rules, whatever the replies."""
    from pytest_llmprops.benchmarks.dtails.rules import ConceptRules, Rule, RulesFile

    rules = (Rule("a1", "x"), Rule("b1/b2", "y"), Rule("c1", "z"))
    file = RulesFile("af", "m", (ConceptRules("live", "VERB", rules),))
    for number in range(1, 9):
        subject = item(variations=THREE, number=number)
        with_rules = context(rules_setting="f.json", rules={"af": file})
        shows = [
            shown(prompt_of(measured(subject, lambda r: fenced("c1"))[1][0])),
            shown(prompt_of(measured(subject, lambda r: fenced("a1"), protocol="paper")[1][0])),
            shown(
                prompt_of(
                    measured(subject, lambda r: fenced("a1"), case_context=with_rules, rules="f.json")[1][0]
                )
            ),
        ]
        assert shows[0] == shows[1] == shows[2]


@pytest.mark.parametrize(
    ("answer", "status", "choice"),
    [
        ("woon", "correct", "woon"),
        ("Lewe!", "wrong", "leef/lewe"),
        ("bly", "wrong", ""),
        ("wooon", "correct", "woon"),
    ],
)
def test_fenced_reply_is_judged_at_once(answer: str, status: str, choice: str) -> None:
    """A fenced answer is judged at once; a word that is not in the list is wrong and is not retried."""
    verdict = verdict_of(item(), says(fenced(answer)))
    assert (verdict.status, verdict.given, verdict.expected) == (status, choice, "woon")
    assert verdict.score == (status == "correct")
    assert verdict.values["run1_retried"] == 0.0


def test_one_retry_with_the_papers_sentence() -> None:
    """A reply that breaks the template is retried once with appendix B.3's sentence and the same list."""
    subject = item()
    outcome, [first, second] = measured(subject, says("I think woon.", fenced("woon")))
    names = json.dumps(shown(prompt_of(first))).replace('"', "'")
    assert prompt_of(second) == prompt_of(first) + RETRY.format(names)
    verdict = outcome.verdict
    assert verdict is not None
    assert verdict.status == "correct"
    assert verdict.values["run1_retried"] == 1.0


@pytest.mark.parametrize(
    ("replies", "status", "reason"),
    [
        (
            ("woon", "woon"),
            "unparsed",
            "0 fences of three backticks instead of two, after one retry",
        ),
        (("``` ```", "```answer```"), "unparsed", "nothing between the fences, after one retry"),
        (("", ""), "unparsed", "0 fences"),
        (("woon", "I cannot help with that."), "refused", "declined, after one retry"),
        (("I can't assist.", fenced("leef")), "wrong", "chose leef/lewe"),
    ],
)
def test_a_second_failure_is_final(replies: tuple[str, str], status: str, reason: str) -> None:
    """Two replies that break the template are unparsed, or refused if the second declines."""
    verdict = verdict_of(item(), says(*replies))
    assert verdict.status == status
    assert reason in verdict.reason
    assert verdict.values["run1_retried"] == 1.0


def test_cut_off_replies() -> None:
    """A reply cut off before its answer is retried, then unparsed with a reason that says it was cut off."""
    cut = Reply("First, let us think", finish_reason="length")
    verdict = verdict_of(item(), says(cut, cut))
    assert verdict.status == "unparsed"
    assert "cut off, after one retry" in verdict.reason
    whole = Reply(fenced("woon"), finish_reason="length")
    assert verdict_of(item(), says(whole)).status == "correct"


def test_content_filters_refuse() -> None:
    """A reply withheld by a content filter is a refusal at once, on the first try or the retry."""
    kept = Reply("", finish_reason="content_filter")
    for replies in ((kept,), ("woon", kept)):
        verdict = verdict_of(item(), says(*replies))
        assert (verdict.status, verdict.reason) == ("refused", "a content filter refused")
        assert verdict.values["run1_position"] == 0.0


def test_failed_call_is_an_error() -> None:
    """A failed call, the first or the retry, is an error of the item."""
    for replies in ([BackendError("down")], ["woon", BackendError("down")]):
        left = list(replies)
        outcome, _ = measured(item(), lambda r, left=left: left.pop(0))  # type: ignore[misc]
        assert outcome.verdict is None
        assert str(outcome.error) == "down"


def test_three_runs() -> None:
    """Three samples have separate orders; the majority gives the verdict, the share right the score."""
    subject = item(variations=THREE, label=THREE[0], number=4)
    outcome, requests = measured(
        subject, lambda r: fenced("a1" if isinstance(r, Chat) and r.sample != 1 else "c1"), runs=3
    )
    verdict = outcome.verdict
    assert verdict is not None
    assert verdict.status == "correct"
    assert verdict.score == pytest.approx(2 / 3)
    assert verdict.reason == "right in 2 of 3 runs: chose a1"
    assert verdict.given == "a1 (2 of 3), c1 (1 of 3)"
    assert [r.sample for r in requests if isinstance(r, Chat)] == [0, 1, 2]
    values = verdict.values
    assert [values[f"run{n}_right"] for n in (1, 2, 3)] == [1.0, 0.0, 1.0]
    places = [shown_order(3, 0, subject.id, run).index(0 if run != 1 else 2) + 1 for run in range(3)]
    assert [values[f"run{n}_position"] for n in (1, 2, 3)] == places
    assert (values["variations"], values["frequency_baseline"], values["frequency_n"]) == (3.0, 0.75, 4.0)


@pytest.mark.parametrize(
    ("replies", "status", "score"),
    [
        (["woon", "woon", "leef"], "correct", 2 / 3),
        (["woon", "leef", "leef"], "wrong", 1 / 3),
        (["woon", "-", "-"], "unparsed", 1 / 3),
        (["leef", "-", "-"], "unparsed", 0),
        (["leef", "-", "woon", "woon"], "wrong", 1 / 2),
    ],
)
def test_majority_of_runs(replies: list[str], status: str, score: float) -> None:
    """More than half of the runs right means correct; otherwise the most frequent other status is used."""

    def answer(request: object) -> str:
        assert isinstance(request, Chat)
        word = replies[request.sample]
        return "no fences" if word == "-" else fenced(word)

    verdict = verdict_of(item(), answer, runs=len(replies))
    assert verdict.status == status
    assert verdict.score == pytest.approx(score)


def test_no_run_chose_a_variation() -> None:
    """If no run chose a variation, the verdict has no answer and no position is counted."""
    verdict = verdict_of(item(), lambda r: "never", runs=3)
    assert (verdict.status, verdict.given, verdict.score) == ("unparsed", "", 0.0)
    assert {verdict.values[f"run{n}_position"] for n in (1, 2, 3)} == {0.0}


def test_variations_that_differ_in_unicode_form_only() -> None:
    """Two Unicode forms of one Tamil word are separate choices, and only the label is right."""
    import unicodedata

    composed = "இப்போது"
    decomposed = unicodedata.normalize("NFD", composed)
    assert composed != decomposed
    for label in (composed, decomposed):
        subject = item(variations=((composed,), (decomposed,)), label=(label,), language="ta")
        assert verdict_of(subject, lambda r, x=label: fenced(x)).status == "correct"  # type: ignore[misc]
        other = decomposed if label == composed else composed
        wrong = verdict_of(subject, lambda r, x=other: fenced(x))  # type: ignore[misc]
        assert (wrong.status, wrong.given, wrong.expected) == ("wrong", other, label)


def test_variations_that_contain_each_other() -> None:
    """A form inside another does not count, and of two variations the one that is not rejected is chosen."""
    subject = item(variations=(("sien",), ("gesien",)), label=("gesien",))
    verdict = verdict_of(subject, lambda r: "```hy het dit gesien```")
    assert verdict.status == "correct"
    assert verdict.values["run1_length"] == 6.0
    verdict = verdict_of(subject, lambda r: "```not sien but gesien```")
    assert verdict.given == "gesien"
    assert verdict.values["run1_leftmost"] != verdict.values["run1_position"]
    verdict = verdict_of(subject, lambda r: "```sien of gesien```")
    assert verdict.status == "wrong"
    assert verdict.reason.startswith("several variations between the fences: ")


def test_evidence_shows_the_clue() -> None:
    """The evidence shows the deciding words if the row names them, and the prompt never does."""
    subject = item(clue=("here", "They"))
    outcome, requests = measured(subject, lambda r: fenced("woon"))
    assert outcome.verdict is not None
    assert outcome.verdict.evidence["clue"] == ["here", "They"]
    assert "here; They" not in prompt_of(requests[0])


@pytest.mark.parametrize("change", [
    {"runs": 0}, {"runs": 21}, {"max_tokens": 0}, {"rule_max_tokens": 0}, {"temperature": -1.0},
    {"temperature": float("nan")}, {"rules": ""}, {"rules": "a.json,,b.json"},
])  # fmt: skip
def test_invalid_settings(change: dict[str, object]) -> None:
    """Settings outside their limits are refused."""
    settings = type(BENCHMARK.protocols["quick"].settings)
    with pytest.raises(ValueError, match="must be"):
        settings(**change)
