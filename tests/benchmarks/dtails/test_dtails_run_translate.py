"""DTAiLS through pytest: translations, and the parser that splits them into words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dtails import DTAILS, said_in_one_line, two_languages
from tests.support.runs import Runner

#: a translation model defined by the test, and a parser that splits at vowels in the languages it supports
MODELS = """
from pytest_llmprops import Reply, register_model


class Own:
    pinned, max_batch, blocking = True, 8, True

    def __init__(self, name):
        self.identity = {"backend": name}

    def deviations(self):
        return ()

    def close(self):
        pass


class Translator(Own):
    def translate(self, requests):
        assert all((r.source, r.target) in (("en", "af"), ("en", "hy")) for r in requests)
        return [Reply(TEXT) for r in requests]


class Parser(Own):
    def parse(self, requests):
        assert all(r.analysis == "words" for r in requests)
        parsed = [self.words(r) for r in requests]
        return [Reply(value=v, served_model="splitter" if v["words"] else "") for v in parsed]

    def words(self, r):
        if r.language != "af":
            return {"words": None, "by": "", "missing": "no model of " + r.language}
        return {"words": [[w, w, "", -1, ""] for w in r.text.split("-")], "by": "splitter 1 af"}


register_model("own", lambda spec, options: Translator("own"), kinds=("translate",))
register_model("splitter", lambda spec, options: Parser("splitter"), kinds=("parse",))
"""


@pytest.fixture
def data(run: Runner) -> tuple[str, ...]:
    """Options that select two languages written by the test."""
    return two_languages(run.folder)


def write_models(run: Runner, text: str) -> None:
    """Register the parser and a translator that translates everything by an expression of ``r``."""
    run.write("conftest.py", MODELS.replace("TEXT", text))
    run.write("test_dtails.py", Path(DTAILS).read_text(encoding="utf-8"))


def test_a_translation_model(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """A translation-only model gets translation requests, and its selections are counted as not served."""
    write_models(run, "'Hulle woon hier.' if r.target == 'af' else 'ապրել'")
    done = run("test_dtails.py", *data[1:], "--model", "own", "-n", workers, "-q")
    assert done.code == 0, done.output
    assert {v["task"] for v in done.verdicts.values()} == {"translate"}
    assert len(done.verdicts) == 5
    assert done.run["not_served"] == {"dtails": {"own": 5}}
    assert {r["request"]["text"] for r in done.requests} == {f"They live in house {n}." for n in range(3)}


def test_tokenizer_is_recorded(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """Each verdict says whether the parser or, without its language, Unicode split its words."""
    write_models(run, "'dit-wooon-x' if r.target == 'af' else 'ապրոլ'")
    options = ("--model", "own", "--llm-helper", "parse=splitter", "-n", workers, "-q")
    done = run("test_dtails.py", *data[1:], *options)
    assert done.code == 0, done.output
    tokenizers = {
        (v["language"], v["values"]["tokenizer"], v["reason"].rpartition("; ")[2])
        for v in done.verdicts.values()
    }
    assert tokenizers == {("af", 2.0, "words by splitter 1 af)"), ("hy", 1.0, "words by unicode-words)")}
    rates = {m["language"]: m["value"] for m in done.run["metrics"] if m["name"] == "parser_rate"}
    assert rates == {"af": 1.0, "hy": 0.0}
    assert done.run["helpers"]["parse"]["identity"] == {"backend": "splitter"}


#: added to conftest.py: other default helpers of DTAiLS
DEFAULT = """
from dataclasses import replace

from pytest_llmprops.benchmark_registry import find_registration, register_benchmark

register_benchmark(replace(find_registration("dtails"), default_helpers={helpers}))
"""
SPLITTER = DEFAULT.format(helpers={"parse": ("splitter",)})


def test_tokenizer_stanza_requires_a_parser(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """dtails.tokenizer=stanza stops the run in one line if there is no parser or it lacks the language."""
    write_models(run, "'none'")
    strict = ("--model", "own", "--llm-set", "dtails.tokenizer=stanza", "-n", workers, "-q")
    done = run("test_dtails.py", *data[1:], *strict, "--llm-helper", "parse=splitter", "-k", "dtails/hy")
    said_in_one_line(done, "stopped: dtails.tokenizer=stanza: no model of hy; or use dtails.tokenizer=auto")
    assert done.run["complete"] is False
    assert done.verdicts == {}
    conftest = run.folder / "conftest.py"
    conftest.write_text(conftest.read_text(encoding="utf-8") + DEFAULT.format(helpers={}), encoding="utf-8")
    none = run("test_dtails.py", *data[1:], *strict)
    said_in_one_line(none, "stopped: dtails.tokenizer=stanza", "--llm-helper parse=stanza")


def test_default_parser_is_used(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """An available default parser splits words without an option and is recorded only if it was used."""
    write_models(run, "'dit-wooon-x' if r.target == 'af' else 'ապրել'")
    conftest = run.folder / "conftest.py"
    conftest.write_text(conftest.read_text(encoding="utf-8") + SPLITTER, encoding="utf-8")
    options = ("test_dtails.py", *data[1:], "--model", "own", "-n", workers, "-q")
    used = run(*options, "-k", "dtails/af")
    assert {v["values"]["tokenizer"] for v in used.verdicts.values()} == {2.0}
    assert used.run["helpers"]["parse"]["identity"] == {"backend": "splitter"}
    unused = run(*options, "-k", "dtails/hy")
    assert {v["values"]["tokenizer"] for v in unused.verdicts.values()} == {0.0}
    assert "parse" not in unused.run["helpers"]


def test_named_parser_replaces_the_default(run: Runner, data: tuple[str, ...]) -> None:
    """--llm-helper parse=SPEC replaces the default parser; a default that is not ready is not used."""
    write_models(run, "'dit-wooon-x'")
    conftest = run.folder / "conftest.py"
    text = conftest.read_text(encoding="utf-8") + SPLITTER
    conftest.write_text(text + 'register_model("mine", lambda spec, options: Parser("mine"), kinds=("parse",))\n',
                        encoding="utf-8")  # fmt: skip
    options = ("test_dtails.py", *data[1:], "--model", "own", "-k", "dtails/af", "-q")
    named = run(*options, "--llm-helper", "parse=mine")
    assert named.run["helpers"]["parse"]["identity"] == {"backend": "mine"}
    conftest.write_text(text.replace("('splitter',)", "('stanza?dir=/nowhere',)"), encoding="utf-8")
    absent = run(*options)
    assert "parse" not in absent.run["helpers"]
    assert {v["values"]["tokenizer"] for v in absent.verdicts.values()} == {1.0}


def test_the_word_parser(run: Runner, data: tuple[str, ...]) -> None:
    """The parser of Unicode words, used as a helper, splits any language and is named in the verdict."""
    write_models(run, "'Hulle wooon hier.' if r.target == 'af' else 'ապրոլ է'")
    options = ("--model", "own", "--llm-helper", "parse=words", "-q")
    done = run("test_dtails.py", *data[1:], *options, "--llm-set", "dtails.tokenizer=stanza")
    assert done.code == 0, done.output
    assert {v["values"]["tokenizer"] for v in done.verdicts.values()} == {2.0}


def test_helper_that_cannot_parse(run: Runner, data: tuple[str, ...]) -> None:
    """A chat model in the parser role gives errors that say so; Unicode words are not used instead."""
    write_models(run, "'none'")
    done = run("test_dtails.py", *data[1:], "--model", "own", "--llm-helper", "parse=fake:echo", "-q")
    assert {v["status"] for v in done.verdicts.values()} == {"error"}
    assert all("does not serve parse" in v["reason"] for v in done.verdicts.values())
