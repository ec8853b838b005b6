"""The ERAS commands of `llmprops`: generated sets, sheets, accuracy on reviews, and errors in one line."""

from __future__ import annotations

import json
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


def test_a_set_is_written_and_read_back(tmp_path: Path) -> None:
    """--pairs N gives N pairs per paradigm; the folder is marked as generated and reads back the same."""
    assert eras("generate", "--pairs", "5", "--seed", "2", "--out", tmp_path) == 0
    items = loaded(BENCHMARK, DataFolder(tmp_path, "generated")).items
    assert len(items) == 2 * 39 * 5
    [item] = [item for item in items if item.id == "eras/explicit/g02/00000"]
    assert (item.source, item.cluster, item["pair"].paradigm.id) == ("generated", "eras/02", "02")
    read = [item["pair"] for item in items if item.task == "explicit"]
    made = make_pairs(*load_templates(), seed=2, pairs=5)
    assert [(p.id, p.test, p.control) for p in read] == [(p.id, p.test, p.control) for p in made]
    facts = json.loads((tmp_path / "eras" / "SOURCE.json").read_text())
    assert (facts["source"], facts["generator"], facts["written"]) == ("generated", "eras", 195)
    assert {p.name for p in (tmp_path / "eras").iterdir()} == {"SOURCE.json", "pairs.jsonl", "paradigms.json"}
    assert DataFolder(tmp_path, "published").source_for("eras") == "generated"
    assert DataFolder(tmp_path, "generated").verify(read_manifest()) == []


def test_published_templates_can_be_filled(published: Path, tmp_path: Path) -> None:
    """`lab eras generate --templates DIR` fills the authors' templates."""
    eras("generate", "--pairs", "2", "--templates", published, "--out", tmp_path)
    items = loaded(BENCHMARK, DataFolder(tmp_path, "generated")).items
    assert len(items) == 2 * 78
    assert "信心机" in items[0]["pair"].test


def test_a_failing_writer_leaves_nothing(tmp_path: Path) -> None:
    """If making pairs fails partway, an earlier set is unchanged and no draft is left; other data is not replaced."""
    paradigms, words = load_templates()
    pairs = list(make_pairs(paradigms, words, seed=0, pairs=1))
    write_set(tmp_path, iter(pairs), paradigms, source={})
    before = {p.name: p.read_bytes() for p in (tmp_path / "eras").iterdir()}

    def failing() -> Iterator[SentencePair]:
        yield pairs[1]
        raise DataError("enough")

    with pytest.raises(DataError, match="enough"):
        write_set(tmp_path, failing(), paradigms, source={})
    assert {p.name: p.read_bytes() for p in (tmp_path / "eras").iterdir()} == before
    (tmp_path / "eras" / "SOURCE.json").unlink()
    for out, message in (
        (tmp_path, "not generated"),
        (tmp_path / "eras" / "pairs.jsonl", "cannot be written"),
    ):
        with pytest.raises(UsageError, match=message):
            write_set(out, iter(pairs), paradigms, source={})


def test_impossible_numbers_of_pairs_are_refused() -> None:
    """A request with both numbers, none, too many pairs, or a total together with a model is refused."""
    paradigms, words = load_templates()
    refused: list[dict[str, Any]] = [
        {},
        {"pairs": 0},
        {"pairs": 40_001},
        {"total": 1},
        {"pairs": 1, "total": 39},
    ]
    for numbers in refused:
        with pytest.raises(UsageError):
            make_pairs(paradigms, words, seed=0, **numbers)
    with pytest.raises(UsageError, match="--mlm"):
        make_pairs(paradigms, words, seed=0, total=100, score=lambda t, c: [0.0] * len(c))
    # A model that accepts no pair is an error, not an empty set.
    none = make_pairs(
        paradigms, words, seed=0, pairs=2, score=lambda t, c: [-5.0] * len(c), mlm_score="absolute"
    )
    with pytest.raises(DataError, match="paradigm 01: no pair"):
        list(none)


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
    command = ("lab", "eras", "generate", "--out", tmp_path, "--mlm")
    output(capsys, *command, "scorer", "--pairs", 2, "--mlm-score", "absolute")
    lines = (tmp_path / "eras" / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    by_id = {paradigm.id: paradigm for paradigm in paradigms}
    for row in map(json.loads, lines):
        paradigm = by_id[row["id"].partition("/")[0]]
        place = masked(paradigm.control_parts, ()).index("[MASK]")
        assert words[paradigm.slots[0]].index(row["words"][0]) <= place % 3
    facts = json.loads((tmp_path / "eras" / "SOURCE.json").read_text())
    assert (facts["mlm"], facts["mlm_identity"]["backend"]) == ("scorer", "fake")
    assert (facts["mlm_score"], facts["seed"], facts["written"]) == ("absolute", 0, len(lines))
    assert "not a fill-mask model" in one_error(capsys, *command, "fake:echo", "--pairs", 1)


def test_annotate_and_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands of `llmprops lab eras` write sheets and read filled ones."""
    words = ("lab", "eras", "annotate", tmp_path)
    assert len(output(capsys, *words, "--annotators", 2, "--per-paradigm", 1).splitlines()) == 3
    for file in tmp_path.glob("annotator_*.csv"):
        head, *lines = file.read_text(encoding="utf-8-sig").splitlines()
        assert len(lines) == 52
        file.write_text("\n".join([head, *(line[:-2] + "1,2,3" for line in lines)]), encoding="utf-8")
    assert output(capsys, *words, "--score").splitlines()[0].split() == ["pairs", "78"]


@needs_train
def test_accuracy_on_labelled_reviews(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All models of a run are measured, and the report finds their accuracies.

    A classifier reads the start of a review that is too long for it; the line says how many were cut. A model that
    never answers, or that is a segmenter, gives a one-line error instead of an accuracy.
    """
    from transformers import BertForSequenceClassification

    def command(*specs: str) -> tuple[object, ...]:
        records = [replace(implicit(1, 0.4, 0.6), model=spec) for spec in specs]
        run = write(tmp_path / "run", records, models={spec: {"spec": spec} for spec in specs})
        return "lab", "eras", "sentiment-accuracy", "--run", run

    monkeypatch.delenv("LLMPROPS_DATA", raising=False)
    says = "`llmprops data pull training --dest DIR` and set LLMPROPS_DATA=DIR"
    assert says in one_error(capsys, *command("fake:echo"))
    monkeypatch.setenv("LLMPROPS_DATA", str(tmp_path))
    reviews = ("老师有信心", 1), ("学生的书" * 9, 0), ("的" * 14, 0)
    write_reviews(tmp_path / "training" / "asap" / "test.csv", *reviews)
    for spec, said in (
        ("fake:constant?text=嗯", "asap/test.csv: no text was scored: no answer was read"),
        ("maxmatch:words.txt", "neither a sentiment classifier nor a chat model"),
    ):
        assert said in one_error(capsys, *command(spec))
    base = save_base(tmp_path / "base", positions=16)
    network = BertForSequenceClassification.from_pretrained(base, id2label={0: "negative", 1: "positive"})
    network.save_pretrained(base)
    models = [f"hf:{base}", "fake:constant?text=A", "fake:constant?text=B"]
    lines = output(capsys, *command(*models)).splitlines()
    assert lines[0].endswith("on 3 reviews, 1 cut to 512 tokens")
    assert [line.partition(" [")[0].partition("text=")[2] for line in lines[1:]] == [
        "A, asap/test.csv: 33.3", "B, asap/test.csv: 66.7",
    ]  # fmt: skip
    accuracies = [read_accuracies(tmp_path / "run", model) for model in models[1:]]
    assert accuracies == [{"ASAP": pytest.approx(1 / 3)}, {"ASAP": pytest.approx(2 / 3)}]
