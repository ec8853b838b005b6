"""A helper that nobody named: used where its files are on this machine, and recorded only where it was asked."""

from __future__ import annotations

from pathlib import Path

from fixtures.runs import ROOT, Runner

DTAILS = "test_dtails.py"
SUITE = (ROOT / "suites" / DTAILS).read_text(encoding="utf-8")

TRANSLATOR = """
from pytest_llmprops import register_model
from pytest_llmprops.core.requests import Reply


class Translator:
    identity, pinned, max_batch, blocking, in_worker = {"backend": "same"}, True, 64, True, False

    def translate(self, requests):
        return [Reply("Die honde sien dit nie") for request in requests]

    def deviations(self):
        return ()

    def close(self):
        pass


register_model("same", lambda spec, options: Translator(), kinds=("translate",))
"""


def test_the_parser_on_this_machine_is_used(run: Runner, workers: str, stanza_models: Path) -> None:
    """Words of translations are Stanza's where it has the language, Unicode's elsewhere; reasons and record say so."""
    run.write("conftest.py", TRANSLATOR)
    run.write(DTAILS, SUITE)
    done = run(
        DTAILS,
        "--model=same",
        "--llm-limit=1",
        "-k",
        "dtails/af or dtails/ja",
        "-n",
        workers,
        env={"STANZA_RESOURCES_DIR": str(stanza_models)},
    )
    by = {name: "stanza" if name.startswith("dtails/af") else "unicode-words" for name in done.verdicts}
    assert set(by.values()) == {"stanza", "unicode-words"}
    assert all(f"words by {by[name]}" in verdict["reason"] for name, verdict in done.verdicts.items())
    assert done.run["helpers"]["parse"]["spec"] == "stanza"
    assert done.run["helpers"]["parse"]["identity"]["backend"] == "stanza"
    rates = {row["language"]: row["value"] for row in done.run["metrics"] if row["name"] == "parser_rate"}
    assert rates == {"af": 1.0, "ja": 0.0}


def test_a_parser_that_was_not_asked_is_not_recorded(run: Runner, stanza_models: Path) -> None:
    """A run that needs no words names no helper, so that it compares with runs of other machines."""
    run.write(DTAILS, SUITE)
    model = "fake:constant?text=``` x ```"
    env = {"STANZA_RESOURCES_DIR": str(stanza_models)}
    done = run(DTAILS, "--model", model, "--llm-limit=1", "-k", "dtails/af and not translate", env=env)
    assert done.run["helpers"] == {}


def test_a_parser_can_be_demanded(run: Runner) -> None:
    """dtails.tokenizer=stanza without its models stops the run with one line that says what to do."""
    run.write("conftest.py", TRANSLATOR)
    run.write(DTAILS, SUITE)
    done = run(DTAILS, "--model=same", "--llm-limit=1", "-k", "dtails/ja", "--llm-set=dtails.tokenizer=stanza")
    assert done.code == 2
    assert "dtails.tokenizer=stanza: no model for the role 'parse': --llm-helper parse=stanza" in done.output
