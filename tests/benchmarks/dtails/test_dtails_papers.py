"""`llmprops papers dtails/figure-2`: its runs, from one command to its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.cli import papers
from pytest_llmprops.cli.main import main
from pytest_llmprops.runs.reader import read_run
from tests.support.commands import one_error
from tests.support.dtails import asked, two_languages, write_chooser
from tests.support.runs import ROOT, forked_pytest

Capture = pytest.CaptureFixture[str]


def test_figure_2_in_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    """Choices without rules, with own rules and with a helper's, and translations, are planned, measured and shown.

    If no given model serves what an entry needs, one line says so and nothing is measured.
    """
    # Work without wrapping and published data, with forks of pytest.
    monkeypatch.setattr(papers, "_pytest", forked_pytest)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    _, *data = two_languages(tmp_path / "data")
    data += ["--llm-store", "store.sqlite", "-p", "no:cacheprovider"]
    line = one_error(capfd, "papers", "dtails/figure-5", "--model", "fake:echo?kinds=translate", *data)
    assert "requests of the kind 'chat'" in line
    assert not (tmp_path / "reports").exists()

    model = write_chooser(tmp_path)
    models = ("--model", model, "--model", "fake:constant?text=Hulle woon.&kinds=translate")
    helper = ("--llm-set", "dtails.rules=helper", "--llm-helper", f"rules={model}")
    assert main(["papers", "dtails/figure-2", *models, *data, *helper]) == 0
    text = capfd.readouterr().out
    folders = sorted((tmp_path / "reports" / "runs").iterdir())
    runs = [read_run(folder) for folder in folders]
    settings = [run.facts.protocols["dtails"].settings["rules"] for run in runs]
    assert settings == ["none", "self", "helper", "none"]
    assert {run.facts.protocols["dtails"].name for run in runs} == {"paper"}
    assert [len(run.records) for run in runs] == [5, 5, 5, 5]
    assert [{record.task for record in run.records} for run in runs] == [{"select"}] * 3 + [{"translate"}]
    assert text.count("llmprops plan: no call is made") == 4
    assert text.rindex("llmprops plan") < text.index("run record:")
    # The Afrikaans sentences have the constant translation's word; the Armenian ones do not.
    assert {(r.language, r.status) for r in runs[3].records} == {("af", "correct"), ("hy", "wrong")}
    for name in ("no rules", "self rules", f"rules of {model}", "translates"):
        assert f"  {name}  " in text.partition("(figure 2)")[2], name
    calls = asked(tmp_path, rules=True)
    assert len(calls) == len(set(calls)) == 2, "the helper's replies are the model's own"
