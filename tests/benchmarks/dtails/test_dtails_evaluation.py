"""The paper's prompts, choices and translations: what a model sees, how its reply is judged, the evidence kept."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails import prompts
from pytest_llmprops.benchmarks.dtails.benchmark import LONGEST
from pytest_llmprops.benchmarks.dtails.prompts import shown_order
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Kind, Message, Parse, Reply, Request, Translate
from tests.support.dtails_cases import (
    BENCHMARK,
    LIVE,
    TRANSLATOR,
    fenced,
    item,
    judged,
    measured,
    prompt_of,
    says,
    shown,
    verdict_of,
)
from tests.support.scripted import Answer

NAMED = (("woon",), ("leef", "lewe"))


def test_selection_with_rules() -> None:
    """Figure 8: the rules come directly after a colon, as the system prompt; the question refers to them.

    The retry is the prompt followed by the paper's sentence; the system prompt stays.
    """
    rules = prompts.shown_rules({"leef/lewe": "to be alive", "woon": "to dwell"})
    prompt = prompts.selection("live", "They live here.", NAMED, language="Afrikaans", rules=rules)
    assert [message.role for message in prompt] == ["system", "user"]
    system, user = (message.content for message in prompt)
    assert system == (
        'Here are rules for how to translate "live" in Afrikaans:'
        '{"leef/lewe": "to be alive", "woon": "to dwell"}'
    )
    assert user.startswith(
        'Based on the provided rules, please select the best translation of "live" in "They'
    )
    assert user.endswith("```answer```.")
    first, again = prompts.retried(prompt, NAMED)
    sentence = " Please enclose your selected translation from ['woon', 'leef/lewe'] with 3 back ticks."
    assert (first.content, again.content) == (system, user + sentence)


def test_rule_generation() -> None:
    """Figure 9, with and without sentences; without them its last sentence is omitted."""
    system, user = prompts.rule_generation("live", NAMED, "Afrikaans")
    assert (system.role, user.role) == ("system", "user")
    assert system.content == (
        "Please only return a json with the following keys ['woon', 'leef/lewe'] and no other text. For each key"
        " the value should be a string in English explaining how the meaning and usage of that Afrikaans word is"
        " different from the others. The string should also include a brief example in Afrikaans of the word"
        " being used with an English translation. Please include the transliteration from Afrikaans to Latin"
        " characters if necessary."
    )
    assert user.content == (
        'When translating the concept "live" from English to Afrikaans, what is the difference in meaning between'
        ' "woon" and "leef/lewe" and in which contexts should they be used?'
    )
    empty = prompts.rule_generation("live", NAMED, "Afrikaans", {"woon": (), "leef/lewe": ()})
    assert empty == (system, user)
    full = prompts.rule_generation("live", NAMED, "Afrikaans", {"woon": ("We live in 'Paris'.",)})
    assert full[1].content == (
        user.content + " Here are sentences where each word is used in context to help you:"
        " {'woon': [\"We live in 'Paris'.\"], 'leef/lewe': []}"
    )
    # Names are joined by commas and "and"; a sentence with both kinds of quotes is escaped as in Python.
    [_, user] = prompts.rule_generation("x", [["a"], ["b"], ["c"]], "Afrikaans", {"a": ['It\'s "a".']})
    assert ' between "a", "b", and "c" and in which contexts' in user.content
    assert user.content.endswith(""" to help you: {'a': ['It\\'s "a".'], 'b': [], 'c': []}""")


THREE = (("a1",), ("b1", "b2"), ("c1",))


def test_prompt_matches_the_paper() -> None:
    """Figure 7's prompt is one user turn of at most 1,024 tokens at temperature 0: reasoning, then three backticks."""
    _, [request] = measured(item(), lambda r: fenced("woon"))
    assert isinstance(request, Chat)
    names = ["/".join(LIVE[index]) for index in shown_order(2, 0, "dtails/af/live/01")]
    text = (
        'Please select the best translation of "live" in "They live here." from the following list:'
        f" ['{names[0]}', '{names[1]}']. Carefully explain your reasoning first and then enclose your final answer like"
        " this ```answer```."
    )
    assert request.messages == (Message("user", text),)
    assert (request.temperature, request.max_tokens, request.sample) == (0.0, 1024, 0)


def test_the_model_sees_neither_target_nor_label() -> None:
    """Items that differ only in label, translation, clue and part of speech make the same request.

    The evidence shows the deciding words.
    """
    one = item(label=LIVE[0], target="Hulle lewe hier.", clue=("here", "They"), pos="NOUN")
    verdict, requests = judged(one, lambda r: fenced("woon"), runs=3)
    assert requests == judged(item(), lambda r: fenced("woon"), runs=3)[1]
    assert len(requests) == 3
    assert verdict.evidence["clue"] == ["here", "They"]


CUT = Reply("First, let us think", finish_reason="length")
WITHHELD = Reply("", finish_reason="content_filter")
AFTER = Reply(fenced("woon"), finish_reason="length")


@pytest.mark.parametrize(
    ("replies", "status", "reason"),
    [
        (("I think woon.", "Maybe woon."), "unparsed",
         "0 fences of three backticks instead of two, after one retry"),
        (("``` ```", "```answer```"), "unparsed", "nothing between the fences, after one retry"),
        (("I think woon.", "I cannot help with that."), "refused", "declined, after one retry"),
        (("I think woon.", "I can't choose leef, so it is woon."), "correct", "chose woon"),
        ((CUT, CUT), "unparsed", "cut off, after one retry"),
        ((AFTER,), "correct", "chose woon"),
        ((WITHHELD,), "refused", "a content filter refused"),
        (("I think woon.", WITHHELD), "refused", "a content filter refused"),
    ],
)  # fmt: skip
def test_a_second_failure_is_final(replies: tuple[str | Reply, ...], status: str, reason: str) -> None:
    """Two replies that break the template are unparsed, or refused if the second declines or a filter withholds one."""
    verdict = verdict_of(item(), says(*replies))
    assert verdict.status == status
    assert reason in verdict.reason
    assert verdict.values["run1_retried"] == len(replies) - 1
    assert bool(verdict.values["run1_position"]) == verdict.reason.startswith("chose")


def test_failed_call_is_an_error() -> None:
    """A failed call, the first or the retry, is an error of the item."""
    for replies in ([BackendError("down")], ["I think woon.", BackendError("down")]):
        outcome, _ = measured(item(), says(*replies))
        assert outcome.verdict is None
        assert str(outcome.error) == "down"


def test_three_runs() -> None:
    """Three samples have separate orders; the majority gives the verdict, the share right the score."""
    subject = item(variations=THREE, label=THREE[0], number=4)
    verdict, requests = judged(
        subject, lambda r: fenced("a1" if isinstance(r, Chat) and r.sample != 1 else "c1"), runs=3
    )
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
        (["woon", "leef", "leef"], "wrong", 1 / 3), (["woon", "-", "-"], "unparsed", 1 / 3),
        (["leef", "-", "woon", "woon"], "wrong", 1 / 2), (["-", "-", "-"], "unparsed", 0),
    ],
)  # fmt: skip
def test_majority_of_runs(replies: list[str], status: str, score: float) -> None:
    """More than half of the runs right means correct; otherwise the most frequent other status is used."""

    def answer(request: object) -> str:
        assert isinstance(request, Chat)
        word = replies[request.sample]
        return "no fences" if word == "-" else fenced(word)

    verdict = verdict_of(item(), answer, runs=len(replies))
    assert verdict.status == status
    assert verdict.score == pytest.approx(score)
    assert bool(verdict.given) == (set(replies) != {"-"})
    for number, word in enumerate(replies, 1):
        assert bool(verdict.values[f"run{number}_position"]) == (word != "-")


@pytest.mark.parametrize(
    ("answer", "match", "status", "given", "alike"),
    [
        ("woon", "paper", "correct", "woon", 1.0),
        ("woon (leef is to be alive)", "word", "correct", "woon", 0.0),
        ("woon (leef is to be alive)", "paper", "wrong", "", 0.0),
        ("niks", "word", "wrong", "", 1.0), ("Lewe!", "word", "wrong", "leef/lewe", 0.0),
        # With the authors' rule, only a reply without two fences, or with the word "answer", is asked again.
        (" ", "paper", "wrong", "", 1.0),
    ],
)  # fmt: skip
def test_rules_of_reading_choices(answer: str, match: str, status: str, given: str, alike: float) -> None:
    """The setting decides which rule counts, and the verdict says whether both agree. Nothing is asked again."""
    verdict = verdict_of(item(), says(f"```{answer}```"), match=match)
    assert (verdict.status, verdict.values["read_alike"]) == (status, alike)
    assert (verdict.expected, verdict.given) == ("woon", given)
    assert (verdict.score, verdict.values["run1_retried"]) == (status == "correct", 0.0)


def test_rules_of_several_replies() -> None:
    """The rules agree on an item only if they agree in each run; the plain rule asks again after "answer"."""
    verdict = verdict_of(item(), says("```woon```", "```woon (leef is to be alive)```"), runs=2)
    assert (verdict.status, verdict.values["read_alike"]) == ("correct", 0.0)
    assert verdict_of(item(), says("```answer```", fenced("woon")), match="paper").status == "correct"
    assert [BENCHMARK.protocols[name].settings.match for name in ("paper", "quick")] == ["paper", "word"]


def test_invalid_settings() -> None:
    """Settings outside their limits are refused."""
    settings: Any = type(BENCHMARK.protocols["quick"].settings)
    for change in (
        {"runs": 0}, {"runs": 21}, {"max_tokens": 0}, {"rule_max_tokens": 0}, {"temperature": -1.0},
        {"temperature": float("nan")}, {"rules": "a.json,,b.json"}, {"rules": "self", "answer": "likelihood"},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(change))):
            settings(**change)


SUBJECT = item("translate", variations=(("lewe",), ("woonagtig",)), label=("woonagtig",))


def parser(*words: str) -> Any:
    """Return a helper that splits every text into these words."""
    value = {"words": [[word, "", "", -1, ""] for word in words], "by": "stanza 1.0 af"}
    return lambda request: Reply(value=value)


def translated(text: str | Reply, **more: Any) -> Any:
    return verdict_of(SUBJECT, lambda r: text, kinds=TRANSLATOR, **more)


def test_what_a_model_is_asked_to_translate() -> None:
    """A translation model, also one that serves chats too, gets the sentence and both language codes in one call.

    A chat model is asked for the translation and nothing else.
    """
    kinds: frozenset[Kind] = frozenset({"chat", "translate"})
    verdict, requests = judged(SUBJECT, lambda r: "Hulle is hier woonagtig.", kinds=kinds, runs=3)
    assert requests == [Translate("They live here.", "en", "af")]
    assert verdict.status == "correct"
    _, [request] = measured(SUBJECT, lambda r: "Hulle lewe hier.")
    assert isinstance(request, Chat)
    assert (request.temperature, request.max_tokens) == (0.0, 1024)
    assert request.prompt == (
        "Please translate the following sentence from English to Afrikaans. Return only the translation and no"
        " other text.\nThey live here."
    )


def unasked(request: object) -> Reply:
    """Fail the test if the parser is asked."""
    raise AssertionError("the parser was asked")


def test_a_form_in_the_translation() -> None:
    """An exact form decides, also inside a longer word, without splitting words or calling the parser.

    Sentence, reference and translation are kept, the translation up to a length limit.
    """
    text = "Hulle belewe hier."
    for answer, kept in ((text, text), (text + LONGEST * "a", text + (LONGEST - len(text) - 1) * "a" + "…")):
        verdict = translated(answer, helpers={"parse": unasked})
        assert (verdict.status, verdict.given, verdict.reason) == ("wrong", "lewe", "translated with lewe")
        values = verdict.values
        assert (values["substring"], values["chosen"], values["ratio"]) == (1.0, 1.0, 1.0)
        assert "parser" not in values
        facts = {"concept": "live", "sentence": "They live here.", "reference": "Hulle woon hier."}
        assert {**facts, "translation": kept}.items() <= verdict.evidence.items()
        assert "tokenizer" not in verdict.evidence


def test_a_similar_word() -> None:
    """The words of the parser are compared, or without one the Unicode words; values, reason and evidence say which."""
    parsed = {"parse": parser("Hulle", "is", "woonagtog", "hier")}
    cases: list[tuple[str, dict[str, Answer], str]] = [
        ("Hulle is hier woonagtog.", {}, "unicode-words"),
        ("Hulle iswoonagtoghier.", parsed, "stanza 1.0 af"),
    ]
    for text, helpers, by in cases:
        verdict = translated(text, helpers=helpers)
        assert verdict.status == "correct"
        assert verdict.reason == f"translated with woonagtig (similar word, ratio 0.89; words by {by})"
        values = verdict.values
        assert (values["substring"], values["chosen"], values["parser"]) == (0.0, 2.0, float(bool(helpers)))
        assert values["ratio"] == pytest.approx(16 / 18, abs=1e-4)
        assert verdict.evidence["tokenizer"] == by
    assert translated("Hulle iswoonagtoghier.").status == "wrong", "as one Unicode word it is like nothing"


def test_request_to_the_parser() -> None:
    """The parser gets the translation, its language and the analysis into words; 'unicode' makes no call.

    If it returns no words, Unicode words are not used; if it fails, the item is an error.
    """
    asked = []

    def record(request: Any) -> Reply:
        asked.append(request)
        return parser()(request)  # type: ignore[no-any-return]

    verdict = translated("woonagtog", helpers={"parse": record})
    assert (verdict.status, verdict.values["parser"]) == ("wrong", 1.0)
    assert asked == [Parse("woonagtog", "af", "words")]
    assert translated("Niks.", helpers={"parse": unasked}, tokenizer="unicode").values["parser"] == 0.0
    failing = {"parse": lambda r: BackendError("no parser")}
    outcome, _ = measured(SUBJECT, lambda r: "Niks.", kinds=TRANSLATOR, helpers=failing)
    assert (outcome.verdict, str(outcome.error)) == (None, "no parser")


def test_no_parser_of_the_language() -> None:
    """Without a parser of the language, auto uses Unicode words, and stanza stops the run and says what is missing."""
    no_model = Reply(value={"words": None, "by": "", "missing": "no model of 'af' in FOLDER"})
    cases: list[tuple[dict[str, Answer], str]] = [
        ({"parse": lambda r: no_model}, "no model of 'af' in FOLDER"),
        ({}, "no model for the role 'parse': --llm-helper parse=stanza"),
    ]
    for helpers, message in cases:
        verdict = translated("Niks.", helpers=helpers)
        assert (verdict.status, verdict.values["parser"]) == ("wrong", 0.0)
        reason = "no word of the translation is similar to a variation (words by unicode-words)"
        assert verdict.reason == reason
        strict: dict[str, Any] = {"kinds": TRANSLATOR, "helpers": helpers, "tokenizer": "stanza"}
        outcome, _ = measured(SUBJECT, lambda r: "Niks.", **strict)
        assert outcome.verdict is None
        assert outcome.stopped == f"dtails.tokenizer=stanza: {message}; or use dtails.tokenizer=auto"


def test_words_that_are_not_similar() -> None:
    """A word whose lemma is a form is read as this form, and so is an inflected form, which the reason gives."""
    words = [["Hy", "hy", "", -1, ""], ["gesaai", "woonagtig", "", -1, ""]]
    lemmas = {"parse": lambda r: Reply(value={"words": words, "by": "stanza 1.0 af"})}
    assert translated("Hy gesaai.", helpers=lemmas).status == "correct"
    assert translated("Hy gesaai.").status == "wrong"
    subject = item("translate", variations=(("破る",), ("壊す",)), label=("破る",), language="ja")
    verdict = verdict_of(subject, lambda r: "沈黙を破りました", kinds=TRANSLATOR)
    assert (verdict.status, verdict.reason) == ("correct", "translated with 破る (an inflected form of 破る)")


NOTE = "Hulle is hier woonagtig.\n\nNote: lewe is possible."


@pytest.mark.parametrize(
    ("reply", "match", "status", "reason", "alike"),
    [
        ("Hulle is hier woonagtig.", "word", "correct", "translated with woonagtig", 1.0),
        (NOTE, "word", "correct", "translated with woonagtig", 0.0),
        (NOTE, "paper", "wrong", "translated with lewe", 0.0),
        ("I can't translate this.", "word", "refused", "declined to translate", 1.0),
        (
            "Hulle is hier. I can't translate 'live'.",
            "word",
            "wrong",
            "no word of the translation is similar",
            1.0,
        ),
        ("", "word", "unparsed", "the translation is empty", 1.0),
        (Reply("Hulle", finish_reason="length"), "word", "unparsed", "cut off before any variation", 1.0),
        (Reply("woonagtig", finish_reason="length"), "word", "correct", "translated with woonagtig", 1.0),
        (WITHHELD, "word", "refused", "a content filter refused", 1.0),
    ],
)
def test_rules_of_reading_translations(
    reply: str | Reply, match: str, status: str, reason: str, alike: float
) -> None:
    """The setting decides which rule counts, and the verdict says whether both agree.

    Empty and cut-off texts are unparsed, refusals refused; a translation without a variation is wrong.
    """
    verdict = translated(reply, match=match)
    assert (verdict.status, verdict.score, verdict.values["read_alike"]) == (
        status,
        status == "correct",
        alike,
    )
    assert verdict.reason.startswith(reason)


def test_the_order_of_every_run_is_kept() -> None:
    """The evidence has each run's order, which with the position gives the variation chosen, and no reply.

    A reply that breaks the template is retried once with appendix B.3's sentence and the same list.
    """

    def stumbles(request: Request) -> str:
        prompt = prompt_of(request)
        if "with 3 back ticks" not in prompt:
            return "Well."
        assert shown(prompt, "translation from ") == shown(prompt)
        return fenced(shown(prompt)[0])

    verdict, requests = judged(item(), stumbles, runs=5)
    assert len(requests) == 2 * 5
    evidence: Any = verdict.evidence
    assert set(evidence) == {"concept", "sentence", "variations", "shown", "read_by"}
    assert (evidence["sentence"], evidence["variations"]) == ("They live here.", ["leef/lewe", "woon"])
    assert len({tuple(order) for order in evidence["shown"]}) == 2
    for run, order in enumerate(evidence["shown"], 1):
        values = [verdict.values[f"run{run}_{name}"] for name in ("retried", "position", "right")]
        assert values == [1.0, 1.0, order[0] == verdict.expected]
