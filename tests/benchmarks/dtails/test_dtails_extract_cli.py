"""The command ``llmprops lab dtails extract``: a run that the suite can read, its output and its errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.items import words
from pytest_llmprops.benchmarks.dtails.tools.corpus import ModelParser
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.models.registry import register_model
from tests.support.dtails import DTAILS
from tests.support.dtails_planted import CORPUS, InOrderModel, TaggerModel, write
from tests.support.runs import Runner

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the parser and the encoder of the planted corpus as models and hide any installed WordNet."""
    monkeypatch.setattr("pytest_llmprops.models.registry.registered", {})
    monkeypatch.setattr("pytest_llmprops.benchmarks.dtails.tools.mining.find_wordnet", lambda: None)
    register_model("planted", lambda spec, options: TaggerModel(), kinds=("parse",))
    register_model("planted-encoder", lambda spec, options: InOrderModel(), kinds=("embed",))


def extract(*words: object) -> int:
    models = ["--source-parser", "planted", "--target-parser", "words", "--aligner", "planted-encoder"]
    return main(["lab", "dtails", "extract", *models, "--lang", "xx", *(str(word) for word in words)])


def test_a_whole_run(tmp_path: Path, capsys: Capture, run: Runner) -> None:
    """A run finds the planted concept, says what is missing, and the suite reads what was extracted."""
    files, out = write(tmp_path, CORPUS), tmp_path / "out"
    assert extract("--corpus", *files, "--out", out) == 0
    said = capsys.readouterr()
    assert said.err == ""  # no progress when standard error is not a terminal
    for text in (
        "1 two variations of the same sense",
        "test set: 1 concepts, 10 pairs",
        "word senses were not checked: WordNet or NLTK is not installed",
        "written forms: the target parser 'words' gives no lemmas",
    ):
        assert text in said.out
    entries = words(DataFolder(out, "generated"), "xx")
    concepts = {entry.concept: (entry.pos, {v.name for v in entry.variations}) for entry in entries}
    # Without lemmas, the forms of hacienda are different words.
    assert concepts == {"see": ("VERB", {"ver", "mirar"})}
    assert extract("--corpus", *files, "--out", out, "--set", "seed=1", "--senses", "none") == 0
    assert "word senses were not checked" not in capsys.readouterr().out
    done = run(DTAILS, "--llm-data", str(out), "--model", "fake:echo", "--collect-only", "-q")
    assert done.code == 0, done.output
    assert "dtails/xx/see/g01" in done.output


def test_sentence_that_fails_to_parse_has_no_words() -> None:
    """A sentence that fails to parse is counted and has no words; a fatal failure stops the run."""
    parser = ModelParser("--source-parser", "planted", "en", "dependency")
    parsed = parser.parse(["one two", "bad", *["three"] * 250])
    assert [len(words) for words in parsed] == [2, 0, *[1] * 250]
    assert parser.failed == 1
    with pytest.raises(UsageError, match="--source-parser planted: no: broken"):
        parser.parse(["one", "broken"])


def test_interrupted_run_prints_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """An interrupted run says that it can be resumed and exits with the status of an interrupt."""

    def stopped(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_llmprops.benchmarks.dtails.tools.mining.extract", stopped)
    assert extract("--corpus", *write(tmp_path, CORPUS[:5]), "--out", tmp_path) == 130
    assert "run the same command again to resume" in capsys.readouterr().err


def test_failures_are_one_line(tmp_path: Path, capsys: Capture) -> None:
    """Each invalid option gives a one-line message with status 2, and nothing is written."""
    arguments = ("--corpus", *write(tmp_path, CORPUS[:5]), "--out", tmp_path / "out")
    for options, message in (
        ("--source-parser words", r"--source-parser words: plain words have no dependency.*use stanza"),
        ("--source-parser nosuch", r"--source-parser nosuch: unknown model"),
        ("--source-parser planted-encoder", r"--source-parser planted-encoder: not a parser"),
        ("--aligner planted", r"--aligner planted: not an encoder; use hf:MODEL"),
        ("--lang afr", r"--lang afr: use"),
        ("--set tags=NN", r"none of a source word with the tag NN"),
        ("--set min_count=0", r"min_count=0: it must be at least 1"),
        ("--senses minilm", r"--senses minilm: WordNet or NLTK is not installed; .*wordnet-base"),
    ):
        assert extract(*arguments, *options.split()) == 2
        assert re.fullmatch(f"llmprops: .*{message}.*\n", capsys.readouterr().err), options
    assert not (tmp_path / "out/dtails").exists()
