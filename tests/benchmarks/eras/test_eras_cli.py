"""The ERAS commands of `llmprops`: generated sets, sheets, accuracy on reviews, and errors in one line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.eras.items import SentencePair
from pytest_llmprops.benchmarks.eras.report import read_accuracies
from pytest_llmprops.benchmarks.eras.tools import generation
from pytest_llmprops.benchmarks.eras.tools.generation import load_templates, make_pairs, masked, write_set
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder, read_manifest
from pytest_llmprops.models.fake import FakeModel
from pytest_llmprops.models.registry import register_model
from tests.support.commands import one_error, output
from tests.support.eras_cases import BENCHMARK
from tests.support.eras_records import implicit, write
from tests.support.training import needs_train, save_base, write_reviews


def eras(*words: object) -> int:
    return main(["lab", "eras", *map(str, words)])


def read_set(folder: Path) -> list[SentencePair]:
    """Return the explicit pairs of a generated set, as the benchmark reads them."""
    items = loaded(BENCHMARK, DataFolder(folder, "generated")).items
    return [item["pair"] for item in items if item.task == "explicit"]


def test_a_set_is_written_and_read_back(tmp_path: Path) -> None:
    """--pairs N gives N pairs per paradigm; the folder is marked as generated and reads back the same."""
    assert eras("generate", "--pairs", "5", "--seed", "2", "--out", tmp_path) == 0
    items = loaded(BENCHMARK, DataFolder(tmp_path, "generated")).items
    assert len(items) == 2 * 39 * 5
    [item] = [item for item in items if item.id == "eras/explicit/g02/00000"]
    assert (item.source, item.cluster, item["pair"].paradigm.id) == ("generated", "eras/02", "02")
    pairs_read = read_set(tmp_path)
    assert Counter(pair.paradigm.id for pair in pairs_read) == {f"{n:02d}": 5 for n in range(1, 40)}
    made = make_pairs(*load_templates(), seed=2, pairs=5)
    assert [(p.id, p.test, p.control) for p in pairs_read] == [(p.id, p.test, p.control) for p in made]
    facts = json.loads((tmp_path / "eras" / "SOURCE.json").read_text())
    assert (facts["source"], facts["generator"], facts["written"]) == ("generated", "eras", 195)
    assert {p.name for p in (tmp_path / "eras").iterdir()} == {"SOURCE.json", "pairs.jsonl", "paradigms.json"}
    assert DataFolder(tmp_path, "published").source_for("eras") == "generated"
    assert DataFolder(tmp_path, "generated").verify(read_manifest()) == []


def test_published_templates_can_be_filled(published: Path, tmp_path: Path) -> None:
    """`lab eras generate --templates DIR` fills the authors' templates."""
    eras("generate", "--pairs", "2", "--templates", published, "--out", tmp_path)
    pairs = read_set(tmp_path)
    assert len(pairs) == 78
    assert "信心机" in pairs[0].test


def test_a_failing_writer_leaves_nothing(tmp_path: Path) -> None:
    """If making pairs fails partway, an earlier set is unchanged and no draft is left."""
    paradigms, words = load_templates()
    write_set(tmp_path, make_pairs(paradigms, words, seed=0, pairs=1), paradigms, source={})
    before = {p.name: p.read_bytes() for p in (tmp_path / "eras").iterdir()}

    def failing() -> Iterator[SentencePair]:
        yield from make_pairs(paradigms, words, seed=1, pairs=1)
        raise DataError("enough")

    with pytest.raises(DataError, match="enough"):
        write_set(tmp_path, failing(), paradigms, source={})
    assert {p.name: p.read_bytes() for p in (tmp_path / "eras").iterdir()} == before


def test_other_data_is_not_overwritten(tmp_path: Path) -> None:
    """A folder with published templates, and one that cannot be created, are errors."""
    (tmp_path / "eras").mkdir()
    (tmp_path / "eras" / "templates.json").write_text("{}")
    paradigms, words = load_templates()
    with pytest.raises(UsageError, match="not generated"):
        write_set(tmp_path, make_pairs(paradigms, words, seed=0, pairs=1), paradigms, source={})
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_set(tmp_path / "file", make_pairs(paradigms, words, seed=0, pairs=1), paradigms, source={})


def test_impossible_numbers_of_pairs_are_refused(tmp_path: Path) -> None:
    """A request with both numbers, none, too many pairs, or a total together with a model is refused."""
    paradigms, words = load_templates()
    refused: list[dict[str, Any]] = [{"pairs": n} for n in (0, 40_001)] + [{"total": n} for n in (1, 10**8)]
    for numbers in ({}, {"pairs": 1, "total": 39}, *refused):
        with pytest.raises(UsageError):
            make_pairs(paradigms, words, seed=0, **numbers)
    with pytest.raises(UsageError, match="--mlm"):
        make_pairs(paradigms, words, seed=0, total=100, score=lambda t, c: [0.0] * len(c))
    # A model that accepts no pair is an error, not an empty set.
    unlikely: dict[str, Any] = {
        "score": lambda text, candidates: [-5.0] * len(candidates),
        "mlm_score": "absolute",
    }
    with pytest.raises(DataError, match="paradigm 01: no pair"):
        list(make_pairs(paradigms, words, seed=0, pairs=2, **unlikely))


class Scorer(FakeModel):
    """A fill-mask model that prefers each slot's first words, more or less by the text before the slot."""

    def context_scores(self, text: str, candidates: Sequence[str]) -> list[float]:
        passing = 1 + text.index("[MASK]") % 3
        return [0.0 if place < passing else -1.0 for place, _ in enumerate(candidates)]


def test_a_masked_language_model_fills_the_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`generate --mlm` writes the pairs whose words pass, and records the model; another model is a one-line error."""
    paradigms, words = load_templates()
    monkeypatch.setattr(generation, "load_templates", lambda published=None: (paradigms[:3], words))
    monkeypatch.setattr("pytest_llmprops.models.registry.registered", {})
    register_model("scorer", lambda spec, options: Scorer(["A"]), kinds=("fill-mask",))
    assert (
        eras("generate", "--pairs", 2, "--mlm", "scorer", "--mlm-score", "absolute", "--out", tmp_path) == 0
    )
    lines = (tmp_path / "eras" / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    by_id = {paradigm.id: paradigm for paradigm in paradigms}
    for row in map(json.loads, lines):
        paradigm = by_id[row["id"].partition("/")[0]]
        place = masked(paradigm.control_parts, ()).index("[MASK]")
        assert words[paradigm.slots[0]].index(row["words"][0]) <= place % 3
    facts = json.loads((tmp_path / "eras" / "SOURCE.json").read_text())
    assert (facts["mlm"], facts["mlm_identity"]["backend"]) == ("scorer", "fake")
    assert (facts["mlm_score"], facts["seed"], facts["written"]) == ("absolute", 0, len(lines))
    capsys.readouterr()
    refused = ("lab", "eras", "generate", "--pairs", 1, "--mlm", "fake:echo", "--out", tmp_path)
    assert "not a fill-mask model" in one_error(capsys, *refused)


def test_annotate_and_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands of `llmprops lab eras` write sheets and read filled ones."""
    assert eras("annotate", tmp_path, "--annotators", "2", "--per-paradigm", "1") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    for file in tmp_path.glob("annotator_*.csv"):
        lines = file.read_text(encoding="utf-8-sig").splitlines()
        assert len(lines) == 53
        file.write_text("\n".join([lines[0], *(line[:-2] + "1,2,3" for line in lines[1:])]), encoding="utf-8")
    assert eras("annotate", tmp_path, "--score") == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["pairs", "78"]


def run_of(folder: Path, *specs: str) -> Path:
    """Write a run of models with these specifications, which are also their labels."""
    records = [replace(implicit(1, 0.4, 0.6), model=spec) for spec in specs]
    return write(folder / "run", records, models={spec: {"spec": spec} for spec in specs})


def test_sentiment_accuracy_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All models of a run are measured on the downloaded test files, and the report finds the rows."""
    folder = run_of(tmp_path, "fake:constant?text=A", "fake:constant?text=B")
    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    words = ("lab", "eras", "sentiment-accuracy", "--run", folder)
    assert "`llmprops data pull training --dest DIR` and set LLMPROPS_DATA=DIR" in one_error(capsys, *words)
    write_reviews(tmp_path / "training" / "chnsenticorp" / "test.tsv", ("很好", 1), ("不好", 0), ("不错", 1))
    monkeypatch.setenv("LLMPROPS_DATA", str(tmp_path))
    lines = output(capsys, *words).splitlines()
    assert [line.partition(" [")[0].partition("text=")[2] for line in lines] == [
        "A, chnsenticorp/test.tsv: 66.7", "B, chnsenticorp/test.tsv: 33.3",
    ]  # fmt: skip
    assert lines[0].endswith("] on 3 reviews")
    accuracies = [read_accuracies(folder, f"fake:constant?text={name}") for name in "AB"]
    assert accuracies == [{"ChnSentiCorp": pytest.approx(2 / 3)}, {"ChnSentiCorp": pytest.approx(1 / 3)}]


@needs_train
def test_long_reviews_are_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A classifier reads the start of a review that is too long for it; the line says how many were cut."""
    from transformers import BertForSequenceClassification

    folder = save_base(tmp_path / "base", positions=16)
    names = {0: "negative", 1: "positive"}
    network = BertForSequenceClassification.from_pretrained(folder, id2label=names)
    network.save_pretrained(folder)
    file = tmp_path / "training" / "asap" / "test.csv"
    write_reviews(file, ("老师有信心", 1), ("学生的书" * 9, 0), ("的" * 14, 0))
    monkeypatch.setenv("LLMPROPS_DATA", str(tmp_path))
    words = ("lab", "eras", "sentiment-accuracy", "--run", run_of(tmp_path, f"hf:{folder}"))
    assert "on 3 reviews, 1 cut to 512 tokens" in output(capsys, *words)


def test_model_without_answers_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that never answers, or that is a segmenter, gives a one-line error instead of an accuracy."""
    write_reviews(tmp_path / "training" / "asap" / "test.csv", ("很好", 1), ("不好", 0))
    monkeypatch.setenv("LLMPROPS_DATA", str(tmp_path))
    for model, said in (
        ("fake:constant?text=嗯", "asap/test.csv: no text was scored: no answer was read"),
        ("maxmatch:words.txt", "neither a sentiment classifier nor a chat model"),
    ):
        words = ("lab", "eras", "sentiment-accuracy", "--run", run_of(tmp_path, model))
        assert said in one_error(capsys, *words)
