"""The model card: what a trained model is, and everything that is needed to train it again."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_llmprops.benchmarks.eras.tools.training.task import CardFacts
from pytest_llmprops.data.whole_files import write_text

_PACKAGES = (
    "pytest-llmprops",
    "torch",
    "transformers",
    "accelerate",
    "safetensors",
    "pytorch-crf",
    "snownlp",
    "numpy",
)


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
    remarks: Sequence[str],
) -> Path:
    """Write ``README.md`` and return its path.

    :param training: steps, epochs, seconds and the device.
    :param scores: one row per scored file; the first row's names are the columns.
    :param remarks: what differs from the settings.
    """
    base = f"base_model: {facts.base}\n" if facts.base else ""
    text = f"---\n{base}language: zh\nlibrary_name: transformers\ntags: [eras, pytest-llmprops]\n---\n\n"
    text += f"# {facts.title}\n\nWritten by `llmprops eras train`. No code in this folder is run.\n\n"
    text += "## Use\n\n" + "".join(f"    {line}\n" for line in facts.use)
    text += "\n## Scores\n\n" + _table(scores)
    text += "\n## Learning curve\n\n![learning curve](curve.svg)\n"
    text += "\n## Training\n\n" + _table([{"name": k, "value": v} for k, v in training.items()])
    if remarks:
        text += "\n" + "".join(f"- {remark}\n" for remark in remarks)
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
