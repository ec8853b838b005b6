"""Translations: which variation they use, how their words are split, and which texts are not translations."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.evaluation import PARSER, UNICODE, UNNEEDED
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Chat, Parse, Reply, Translate
from tests.support.dtails_cases import TRANSLATOR, fenced, item, measured, says, verdict_of

SUBJECT = item("translate", variations=(("lewe",), ("woonagtig",)), label=("woonagtig",))


def parser(*words: str, by: str = "stanza 1.0 af") -> Any:
    """A helper that splits every text into these words."""
    return lambda request: Reply(value={"words": [[word, "", "", -1, ""] for word in words], "by": by})


def no_model(request: object) -> Reply:
    """A helper that has no model of the language."""
    return Reply(value={"words": None, "by": "", "missing": "no model of 'af' in FOLDER"})


def translated(text: str | Reply, **more: Any) -> Any:
    return verdict_of(SUBJECT, lambda r: text, kinds=TRANSLATOR, **more)


def test_a_translation_model_gets_codes() -> None:
    """A translation model gets the sentence and both language codes in one call."""
    outcome, requests = measured(SUBJECT, lambda r: "Hulle is hier woonagtig.", kinds=TRANSLATOR, runs=3)
    assert requests == [Translate("They live here.", "en", "af")]
    assert outcome.verdict is not None
    assert outcome.verdict.status == "correct"


def test_a_chat_model_gets_a_prompt() -> None:
    """A chat model is asked for the translation and nothing else."""
    _, [request] = measured(SUBJECT, lambda r: "Hulle lewe hier.")
    assert isinstance(request, Chat)
    assert (request.temperature, request.max_tokens) == (0.0, 1024)
    assert request.prompt == (
        "Please translate the following sentence from English to Afrikaans. Return only the translation and no"
        " other text.\nThey live here."
    )


def test_a_model_of_both_kinds_translates() -> None:
    """A model that serves both kinds is used as a translator."""
    _, requests = measured(SUBJECT, lambda r: "x", kinds=frozenset({"chat", "translate"}))
    assert [r.kind for r in requests] == ["translate"]


def test_a_form_in_the_translation() -> None:
    """An exact form decides, also inside a longer word, without splitting words or calling the parser."""

    def unasked(request: object) -> Reply:
        raise AssertionError("the parser was asked")

    verdict = translated("Hulle oorlewe hier.", helpers={"parse": unasked})
    assert (verdict.status, verdict.given, verdict.reason) == ("wrong", "lewe", "translated with lewe")
    values = verdict.values
    assert (values["substring"], values["chosen"], values["tokenizer"]) == (1.0, 1.0, UNNEEDED)
    assert (values["start"], values["length"], values["ratio"], values["leftmost"]) == (9.0, 4.0, 1.0, 1.0)
    assert "tokenizer" not in verdict.evidence


def test_similar_word_by_unicode() -> None:
    """Without a parser the Unicode words are compared, and values, reason and evidence say so."""
    verdict = translated("Hulle is hier woonagtige.".replace("woonagtige", "woonagtog"))
    assert verdict.status == "correct"
    assert verdict.reason == "translated with woonagtig (similar word, ratio 0.89; words by unicode-words)"
    values = verdict.values
    assert (values["substring"], values["chosen"], values["tokenizer"]) == (0.0, 2.0, UNICODE)
    assert values["ratio"] == pytest.approx(16 / 18, abs=1e-4)
    assert verdict.evidence["tokenizer"] == "unicode-words"


def test_similar_word_by_the_parser() -> None:
    """With a parser its words are compared, including one that is not a Unicode word."""
    text = "Hulle iswoonagtoghier."
    assert translated(text).status == "wrong", "as one Unicode word it is like nothing"
    verdict = translated(text, helpers={"parse": parser("Hulle", "is", "woonagtog", "hier")})
    assert verdict.status == "correct"
    assert verdict.reason == "translated with woonagtig (similar word, ratio 0.89; words by stanza 1.0 af)"
    assert verdict.values["tokenizer"] == PARSER
    assert verdict.evidence["tokenizer"] == "stanza 1.0 af"


def test_request_to_the_parser() -> None:
    """The parser gets the translation, its language and the analysis into words; 'unicode' makes no call."""
    asked = []

    def record(request: Any) -> Reply:
        asked.append(request)
        return parser("Hulle")(request)  # type: ignore[no-any-return]

    assert translated("Niks.", helpers={"parse": record}).values["tokenizer"] == PARSER
    assert asked == [Parse("Niks.", "af", "words")]
    assert translated("Niks.", helpers={"parse": record}, tokenizer="unicode").values["tokenizer"] == UNICODE
    assert len(asked) == 1


def test_parser_without_the_language() -> None:
    """If the parser lacks the language, auto uses Unicode words and stanza stops the run."""
    verdict = translated("Niks.", helpers={"parse": no_model})
    assert verdict.values["tokenizer"] == UNICODE
    assert verdict.reason == "no word of the translation is similar to a variation (words by unicode-words)"
    outcome, _ = measured(
        SUBJECT, lambda r: "Niks.", kinds=TRANSLATOR, helpers={"parse": no_model}, tokenizer="stanza"
    )
    assert outcome.verdict is None
    assert outcome.stopped == (
        "dtails.tokenizer=stanza: no model of 'af' in FOLDER; or use dtails.tokenizer=auto"
    )


def test_a_parser_that_finds_no_words() -> None:
    """If the parser has the language and returns no words, Unicode words are not used instead."""
    verdict = translated("woonagtog", helpers={"parse": parser()})
    assert verdict.status == "wrong"
    assert verdict.values["tokenizer"] == PARSER


def test_no_parser_at_all() -> None:
    """Without a helper stanza stops the run and names the option that sets one, and auto continues."""
    outcome, _ = measured(SUBJECT, lambda r: "Niks.", kinds=TRANSLATOR, tokenizer="stanza")
    assert outcome.stopped is not None
    assert "--llm-helper parse=stanza" in outcome.stopped
    assert translated("Niks.").status == "wrong"


def test_a_parser_that_fails() -> None:
    """If the parser fails, the item is an error and no other words are used."""
    outcome, _ = measured(
        SUBJECT, lambda r: "Niks.", kinds=TRANSLATOR, helpers={"parse": lambda r: BackendError("no parser")}
    )
    assert outcome.verdict is None
    assert str(outcome.error) == "no parser"


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        ("", "unparsed", "the translation is empty"),
        (" \n", "unparsed", "the translation is empty"),
        (Reply("Hulle", finish_reason="length"), "unparsed", "cut off before any variation"),
        (Reply("", finish_reason="content_filter"), "refused", "a content filter refused"),
        ("I'm unable to translate this sentence.", "refused", "declined to translate"),
        ("Hulle bly hier.", "wrong", "no word of the translation is similar to a variation"),
        (Reply("Hulle is woonagtig", finish_reason="length"), "correct", "translated with woonagtig"),
    ],
)
def test_texts_that_are_not_a_translation(reply: str | Reply, status: str, reason: str) -> None:
    """Empty and cut-off texts are unparsed, refusals refused; a translation without a variation is wrong."""
    verdict = translated(reply)
    assert verdict.status == status
    assert verdict.reason.startswith(reason)
    assert verdict.score == (status == "correct")


def test_forms_that_contain_each_other() -> None:
    """The longest form in the translation wins, and the values also have the leftmost."""
    subject = item("translate", variations=(("sien",), ("gesien",), ("raak",)), label=("gesien",))
    verdict = verdict_of(subject, lambda r: "Hy raak dit gesien.", kinds=TRANSLATOR)
    assert verdict.status == "correct"
    assert (verdict.values["chosen"], verdict.values["leftmost"]) == (2.0, 3.0)


def test_unwritten_joiners_and_right_to_left() -> None:
    """A form is found in a translation that omits zero-width joiners or has direction marks."""
    subject = item(
        "translate", variations=(("مهم\u200cترین",), ("بیشتر",)), label=("مهم\u200cترین",), language="fa"
    )
    verdict = verdict_of(subject, lambda r: "\u202bاین مهمترین است\u202c", kinds=TRANSLATOR)
    assert verdict.status == "correct"
    assert verdict.given == "مهم\u200cترین"


def test_fences_in_a_translation_are_ignored() -> None:
    """A translation is read with its fences, and the evidence has the reference translation."""
    verdict = verdict_of(SUBJECT, says(fenced("woonagtig")), kinds=TRANSLATOR)
    assert verdict.status == "correct"
    assert verdict.evidence["reference"] == "Hulle woon hier."
    assert verdict.evidence["translation"] == fenced("woonagtig")
