"""A whole training: train or continue, save, score, learning curve, model card; and measuring the model."""

from __future__ import annotations

import csv
import ctypes
import gc
import importlib.metadata
import io
import json
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import LLMPropsError, MissingExtra, UsageError
from pytest_llmprops.core.strict_json import JSON, parsed_json
from pytest_llmprops.data.whole_files import replacing, write_text
from pytest_llmprops.runs.reader import read_facts
from pytest_llmprops.training.task import CardFacts, Settings, Task

#: the file of the folder that says what is trained, and whether the training is complete
RECORD = "training.json"
_PACKAGES = (
    "pytest-llmprops", "torch", "transformers", "accelerate", "peft", "safetensors", "numpy",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Return the versions of this package, Python and the installed packages of a training."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write_card(
    folder: Path,
    facts: CardFacts,
    *,
    settings: Mapping[str, object],
    training: Mapping[str, object],
    scores: Sequence[Mapping[str, object]],
) -> Path:
    """Write ``README.md`` and return its path.

    :param training: steps, epochs, seconds and the device.
    :param scores: one row per scored file; the first row's names are the columns.
    """
    base = f"base_model: {facts.base}\n" if facts.base else ""
    text = f"---\n{base}language: {facts.language}\nlibrary_name: {facts.library}\n"
    text += f"tags: [{facts.benchmark}, pytest-llmprops]\n---\n\n# {facts.title}\n\n"
    text += f"Written by `llmprops {facts.benchmark} train`. No code in this folder is run.\n\n"
    text += "## Use\n\n" + "".join(f"    {line}\n" for line in facts.use)
    text += "\n## Scores\n\n" + _table(scores)
    text += "\n## Learning curve\n\n![learning curve](curve.svg)\n"
    text += "\n## Training\n\n" + _table([{"name": k, "value": v} for k, v in training.items()])
    text += "\n## Data\n\n" + _table(
        [
            {"use": f.role, "file": f.name, "lines": f"{f.lines:,}", "sha256": f"`{f.sha256}`"}
            for f in facts.files
        ]
    )
    if facts.notes:
        text += "\n" + "".join(f"- {note}\n" for note in facts.notes)
    text += "\n## Settings\n\n" + _table(
        [
            {"setting": k, "value": "–" if v is None else v}
            for k, v in (*settings.items(), *facts.options.items())
        ]
    )
    text += "\n## Assumed\n\nNeither the paper nor its authors' code states:\n\n"
    text += "".join(f"- {choice}\n" for choice in facts.assumed)
    text += "\n## Versions\n\n" + _table([{"package": k, "version": v} for k, v in versions().items()])
    write_text(folder / "README.md", text)
    return folder / "README.md"


def _table(rows: Sequence[Mapping[str, object]]) -> str:
    if not rows:
        return "None.\n"
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [[_cell(row.get(name, "")) for name in rows[0]] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|")


_FIRST = ("step", "epoch", "learning_rate", "loss")


def write_curve(history: Sequence[Mapping[str, float]], metric: str, folder: Path) -> list[Path]:
    """Write ``curve.csv`` and ``curve.svg``, and return their paths.

    :param history: the points; those of an evaluation have ``eval_<name>``.
    :param metric: the name of the score that the figure shows next to the loss.
    :raises MissingExtra: without matplotlib.
    """
    names = {name for entry in history for name in entry}
    scores = sorted(name for name in names if name.startswith("eval_"))
    columns = [*(name for name in _FIRST if name in names), *scores]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name.removeprefix("eval_") for name in columns])
    writer.writerows([entry.get(name, "") for name in columns] for entry in history)
    write_text(folder / "curve.csv", text.getvalue())
    with replacing(folder / "curve.svg") as draft:
        _draw(history, metric, draft)
    return [folder / "curve.csv", folder / "curve.svg"]


def _draw(history: Sequence[Mapping[str, float]], metric: str, file: Path) -> None:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("the learning curve", package="matplotlib", extra="research") from None
    # The same history gives the same file.
    with mpl.rc_context({"svg.hashsalt": "curve", "svg.fonttype": "none"}):
        figure: Any = Figure(figsize=(7, 3.5), layout="constrained")
        left = figure.add_subplot()
        losses = [(entry["step"], entry["loss"]) for entry in history if "loss" in entry]
        left.plot(*zip(*losses, strict=True), color="#8888aa", linewidth=1, label="loss (training)")
        left.set(xlabel="step", ylabel="loss", yscale="log")
        right = left.twinx()
        name = f"eval_{metric}"
        values = [(entry["step"], entry[name]) for entry in history if name in entry]
        right.plot(
            *zip(*values, strict=True),
            color="#c04020",
            marker="o",
            markersize=3,
            label=f"{metric} (held out)",
        )
        right.set(ylabel=f"{metric} (held out)")
        lines = [*left.get_lines(), *right.get_lines()]
        left.legend(lines, [line.get_label() for line in lines], loc="center right", frameon=False)
        figure.savefig(file, format="svg", metadata={"Date": None})


def begin(out: Path, description: Mapping[str, object]) -> bool:
    """Start a training in ``out``, or continue the one that is there; return whether that one is complete.

    :param description: everything that changes the result: settings, data, base.
    :raises UsageError: if ``out`` has other files, or a training with another description.
    """
    try:
        text = (out / RECORD).read_text(encoding="utf-8")
    except FileNotFoundError:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(
                f"--out {out}: there are other files; give a new folder, or that of an unfinished training"
            ) from None
        out.mkdir(parents=True, exist_ok=True)
        write_record(out, description, complete=False)
        return False
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror or error}; give a new folder") from None
    try:
        record = parsed_json(text)
        recorded, complete = dict(_named(record["description"])), record["complete"] is True
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"{out / RECORD} is damaged; delete {out} to train again") from None
    # Through JSON, because it turns tuples into lists.
    given = dict(_named(json.loads(json.dumps(dict(description)))))
    if changes := list(_changes(recorded, given)):
        raise UsageError(
            f"--out {out}: the folder was begun with other settings: {'; '.join(changes)}. Repeat the command with the"
            " recorded values to continue, or give a new folder"
        )
    return complete


def _named(value: JSON, name: str = "") -> Iterator[tuple[str, JSON]]:
    """Yield the values of a description by the names that a person knows: of a setting, or of a data file."""
    if isinstance(value, dict):
        for key, part in value.items():
            # The title follows from the data.
            yield from () if key == "title" else _named(part, key.replace("_", "-"))
    elif name == "data" and isinstance(value, list):
        for row in value:
            role, file, digest, *_ = row if isinstance(row, list) and len(row) > 2 else ("", str(row), "")
            yield f"{role} file {file}", f"sha256 {str(digest)[:12]}"
    else:
        yield name, value


def _changes(recorded: Mapping[str, JSON], given: Mapping[str, JSON]) -> Iterator[str]:
    for name in dict.fromkeys([*recorded, *given]):
        if recorded.get(name) != given.get(name):
            yield f"{name}: recorded {_shown(recorded.get(name))}, given {_shown(given.get(name))}"


def _shown(value: JSON) -> str:
    if value is None or value in ("", []):
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def write_record(
    out: Path,
    description: Mapping[str, object],
    *,
    complete: bool,
    results: Mapping[str, object] | None = None,
) -> None:
    """Write the record of a training."""
    record = {"complete": complete, "description": dict(description), **(results or {})}
    write_text(out / RECORD, json.dumps(record, ensure_ascii=False, indent=1) + "\n")


Row = Mapping[str, object]


def run_training(
    task: Task,
    settings: Settings,
    out: Path,
    facts: CardFacts,
    *,
    score: Callable[[Path], Sequence[Row]],
) -> bool:
    """Train a task into a folder, or continue there; return whether anything was trained.

    A complete training of the same task with the same settings is not repeated. The folder has the model
    (``config.json``, safetensors, tokenizer), ``README.md`` (the model card), ``training.json``, ``curve.csv`` and
    ``curve.svg``. Its checkpoints are deleted when everything else is written.

    :param score: function from the folder of the saved model to rows with the file and its scores, for the card.
    :raises UsageError: if the folder has another training.
    """
    from pytest_llmprops.training.trainer import checkpoint_folder, train

    description = {
        "title": facts.title,
        "base": facts.base,
        "settings": asdict(settings.checked()),
        "options": dict(facts.options),
        "data": [[file.role, file.name, file.sha256, file.lines] for file in facts.files],
    }
    if begin(out, description):
        print(f"{out}: this training is complete; nothing to do")
        return False
    for note in facts.notes:
        print(note)
    outcome = train(task, settings, out)
    task.save(outcome.network, out)
    write_curve(outcome.history, task.metric, out)
    held_out = {"file": "held-out part", **outcome.scores}
    scores = [*score(out), {key: held_out[key] for key in held_out if key not in ("epoch", "step")}]
    training = {
        "steps": outcome.steps,
        "epochs": outcome.epochs,
        "seconds": round(outcome.seconds, 1),
        "lines": facts.lines,
        "rows": len(task.rows),
        "parameters": sum(weights.numel() for weights in outcome.network.parameters()),
        "device": str(outcome.network.device),
    }
    write_card(out, facts, settings=asdict(settings), training=training, scores=scores)
    write_record(
        out,
        description,
        complete=True,
        results={"training": training, "scores": scores, "versions": versions()},
    )
    shutil.rmtree(checkpoint_folder(out), ignore_errors=True)
    return True


def measure_suite(benchmark: str, spec: str, run: Path, arguments: Sequence[str]) -> None:
    """Measure a model with pytest in a process of its own, or complete a run that was stopped.

    :param spec: the model's specification. :param run: the folder of the run.
    :param arguments: further arguments of pytest, which choose items and settings.
    :raises LLMPropsError: if pytest does not measure it, with pytest's last line.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pytest.ini", "--pyargs"]
    command += [f"pytest_llmprops.suites.test_{benchmark}", "--model", spec]
    command += ["--llm-run", str(run.resolve()), *(["--llm-resume"] if (run / "run.json").is_file() else [])]
    # Neither the settings nor the conftest.py of the folder in which the command is run may change the measurement.
    with tempfile.TemporaryDirectory() as empty:
        (Path(empty) / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        done = subprocess.run(
            [*command, *arguments], cwd=empty, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            preexec_fn=ending_with_parent(),
        )  # fmt: skip
    # Status 1: some answers are wrong.
    if done.returncode not in (0, 1) or not is_measured(run):
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        line = next(
            (line for line in lines if line.startswith("ERROR: ")), lines[-1] if lines else "no output"
        )
        raise LLMPropsError(f"{run}: pytest ended with status {done.returncode}: {line.strip()[:300]}")


def train_and_measure(
    out: Path,
    place: str,
    benchmark: str,
    arguments: Sequence[str],
    *,
    train: Callable[[Path], None] | None = None,
    spec: Callable[[Path], str],
) -> Path:
    """Train a model into ``out``/models/``place``, measure it, and return its run, unless an earlier command did.

    :param train: writes the model into a folder; None for a model as it is.
    :param spec: function from that folder to the model's specification.
    """
    model, run = out / "models" / place, out / "runs" / place
    if not is_measured(run):
        if train is not None:
            print(f"{place}: training")
            train(model)
            free_memory()
        print(f"{place}: measuring")
        measure_suite(benchmark, spec(model.resolve()), run, arguments)
    return run


def free_memory() -> None:
    """Free the weights of a training that has ended, also those on a GPU, for the process that measures the model."""
    gc.collect()
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.cuda.empty_cache()


def ending_with_parent() -> Callable[[], object] | None:
    """Return what a new process calls to get SIGTERM when this one ends, even if it is killed; only Linux has that."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    set_signal_of_parents_death = 1
    return lambda: prctl(set_signal_of_parents_death, signal.SIGTERM)


def is_measured(run: Path) -> bool:
    """Return True if a run is recorded completely."""
    return (run / "run.json").is_file() and read_facts(run).complete
