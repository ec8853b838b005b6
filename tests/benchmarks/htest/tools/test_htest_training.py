"""Fine-tuning on H-TEST's tasks: the rows, a training, and the experiment of Table 8 from the base to the table."""

from __future__ import annotations

import csv
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.htest.benchmark import continuation
from pytest_llmprops.benchmarks.htest.tools import training
from pytest_llmprops.benchmarks.htest.tools.generation import train_prompt
from pytest_llmprops.benchmarks.htest.tools.training import FineTuning, LabelTask, run_experiment, train_task
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Chat, Completion
from pytest_llmprops.models.registry import parse_spec
from pytest_llmprops.training.run import measure_suite
from pytest_llmprops.training.task import IGNORED, Settings
from tests.support.backends import make, save_chat_model, texts
from tests.support.commands import one_error, output
from tests.support.records import recorded, verdicts
from tests.support.training import Stopped, resumed

needs_peft = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "accelerate", "peft")),
    reason="needs the extra 'research'",
)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
ROWS = [("a Bee", "A"), ("bees", "B"), ("Cee", "A"), ("dee", "B")]


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small chat model."""
    return save_chat_model(tmp_path_factory.mktemp("chat") / "tiny", positions=4096)


#: a training of a few seconds, after which a small model writes labels
QUICK = replace(training.DEFAULTS, learning_rate=2e-2, epochs=15.0, threads=1, batch=4)


@needs_peft
@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_only_the_answer_is_trained_on(kind: str, chat: Path) -> None:
    """The prompt is that of a measurement without examples; the labels are the answer's tokens and the end."""
    spec = parse_spec(f"hf:{chat}?kind={kind}")
    task, model = LabelTask(spec, ROWS, ROWS, 4), make(f"hf:{chat}?kind={kind}&device=cpu")
    model.prepare()
    for row, (text, label) in zip(task.rows, ROWS, strict=True):
        place = next(n for n, token in enumerate(row.labels) if token != IGNORED)
        assert list(row.labels[place:]) == list(row.ids[place:])
        written = model.tokenizer.decode(row.ids[place:])
        if kind == "chat":
            request: Chat | Completion = Chat.user(train_prompt(text))
            assert written == f"{label}</s>"
        else:
            request = Completion(continuation([], text))
            assert written == f" {label}\n"
        tokens, start = model.example(request, "x")
        assert list(row.ids[:place]) == tokens[:start]


@needs_peft
def test_a_trained_model_writes_labels(
    chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The base writes no label, its adapter one for each question; resumed after a stop, it has the same weights."""
    monkeypatch.setattr(training, "HELD_OUT", 8)
    options = FineTuning(f"hf:{chat}", items=16, rank=4)

    def train(folder: Path) -> bytes:
        train_task(options, "uppercase", QUICK, folder)
        return (folder / "adapter_model.safetensors").read_bytes()

    whole, parts = resumed(train, tmp_path, 1, monkeypatch)
    assert whole == parts
    assert "continuing from step 20" in capsys.readouterr().out
    questions = [Chat.user(train_prompt(text), max_tokens=5, temperature=0.0) for text, _ in ROWS]
    assert not {"A", "B"} & set(texts(make(f"hf:{chat}?device=cpu").chat(questions)))
    assert set(texts(make(f"hf:{tmp_path / 'whole'}?device=cpu").chat(questions))) <= {"A", "B"}
    record = json.loads((tmp_path / "whole" / "training.json").read_text("utf-8"))
    assert record["description"]["options"] == {"task": "uppercase", "items": 16, "rank": 4, "revision": None}
    assert (record["description"]["base"], record["training"]["steps"]) == (str(chat), 60)
    assert [row["file"] for row in record["scores"]] == ["held-out part"]


def test_experiment_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base is measured once; after a stop, only what is missing is trained and measured."""
    done: list[str] = []
    specs: list[str] = []
    stop_at = 4

    def step(name: str) -> None:
        nonlocal stop_at
        if len(done) == stop_at:
            stop_at = -1
            raise Stopped
        done.append(name)

    def measure(benchmark: str, spec: str, run: Path, arguments: Sequence[str]) -> None:
        step(f"measure {run.name}")
        specs.append(spec)
        recorded(run, verdicts("rhyme", 1, 1, benchmark=benchmark))

    monkeypatch.setattr(
        training, "train_task", lambda options, task, settings, out: step(f"train {task} {settings.seed}")
    )
    monkeypatch.setattr("pytest_llmprops.training.run.measure_suite", measure)
    monkeypatch.setattr(training, "require_packages", lambda *names: None)
    options = FineTuning("hf:org/base?revision=abc&dtype=float32", tasks=["rhyme", "end_ly"], seeds=2)
    settings, out = Settings(seed=3), tmp_path / "out"
    with pytest.raises(Stopped):
        run_experiment(options, settings, out)
    assert done == ["measure original", "train rhyme 3", "measure rhyme-seed3", "train rhyme 4"]
    for _ in range(2):
        assert len(run_experiment(options, settings, out)) == 5
        assert done[4:] == [
            "train rhyme 4", "measure rhyme-seed4", "train end_ly 3", "measure end_ly-seed3", "train end_ly 4",
            "measure end_ly-seed4",
        ]  # fmt: skip
    assert specs[0] == "hf:org/base?revision=abc&dtype=float32"
    assert specs[1] == f"hf:{out / 'models' / 'rhyme-seed3'}?dtype=float32"
    changes = r"other settings: items: recorded 1000, given 8; epochs: recorded 3\.0, given 2\.0\. Repeat"
    with pytest.raises(UsageError, match=changes):
        run_experiment(replace(options, items=8), replace(settings, epochs=2.0), out)


@needs_peft
def test_from_the_base_to_the_table(
    chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command measures, trains, measures again and writes table, CSV and figure; repeated, it only prints.

    The trained model's run is measured by pytest.
    """

    def measure(benchmark: str, spec: str, run: Path, arguments: Sequence[str]) -> None:
        if run.name == "original":
            rhyme = verdicts("rhyme", 1, 0, benchmark=benchmark, model="tiny")
            recorded(run, rhyme, models={"tiny": {"spec": spec}})
        else:
            measure_suite(benchmark, spec, run, arguments)

    monkeypatch.setattr("pytest_llmprops.training.run.measure_suite", measure)
    out = tmp_path / "out"
    words = f"lab htest train --model hf:{chat} --out {out} --task uppercase --items 8 --k 4 --limit 1 --rank 2".split()
    words += [f"--set={setting}" for setting in ("epochs=1", "threads=1", "seed=2")]
    first = output(capsys, *words)
    assert first.index("original: measuring") < first.index("uppercase-seed2: training")
    assert {path.name for path in out.iterdir()} == {
        "models", "runs", "figures", "table.csv", "training.json"
    }  # fmt: skip
    with open(out / "table.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["Model"] == "tiny"]
    assert [[row[head] for head in ("Fine-tuned on", "Seed", "Items", "Epochs")] for row in rows] == [
        ["original", "–", "–", "–"], ["uppercase", "2", "8", "1"]
    ]  # fmt: skip
    assert all(float(row["rhyme"]) in (0, 1) for row in rows)
    facts = json.loads((out / "runs" / "uppercase-seed2" / "run.json").read_text("utf-8"))
    protocol = facts["protocols"]["htest"]
    assert (protocol["name"], protocol["settings"]["k"]) == ("paper", 4)
    assert facts["models"]["uppercase-seed2"]["identity"]["adapter_sha256"]
    again = output(capsys, *words)
    assert "measuring" not in again
    assert again.strip() in first


@needs_peft
def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is one line, and nothing is written."""
    base = "--model hf:x"
    for words, message in {
        "--model fake:echo": "--model fake:echo: only models of transformers can be trained; give hf:",
        f"{base}?seed=4": "'seed' is not supported here; a training takes batch, dtype",
        f"{base} --items 0": "--items must be at least 1, not 0",
        f"{base} --set epochs=0": "epochs must be above 0",
        f"{base} --data .": "no items to exclude",
    }.items():
        assert message in one_error(
            capsys, "lab", "htest", "train", "--out", tmp_path / "out", *words.split()
        )
    assert not (tmp_path / "out").exists()
