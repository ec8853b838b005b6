"""Read the accuracies on labelled sentiment files from ``sentiment_accuracy.json`` in a run's folder.

``llmprops eras sentiment-accuracy FILE ... --model SPEC --out RUN/sentiment_accuracy.json`` writes this file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import DataError

#: The paper's two corpora, by a part of their files' names.
CORPORA = {"asap": "ASAP", "chnsenticorp": "ChnSentiCorp"}
NAME = "sentiment_accuracy.json"
_NUMBERS = ("accuracy", "ci_low", "ci_high", "n")


def read_accuracies(folder: Path, model: str) -> dict[str, Mapping[str, Any]]:
    """Return file name -> row of ``sentiment_accuracy.json`` for one model; empty without that file.

    :raises DataError: for a file that the command did not write.
    """
    path = folder / NAME
    if not path.is_file():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {
            str(row["file"]): {**row, **{name: float(row[name]) for name in _NUMBERS}}
            for row in rows
            if row["model"] == model
        }
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path}: not written by `llmprops eras sentiment-accuracy --out`; run the command again"
        ) from None


def accuracies_by_corpus(folder: Path, model: str) -> dict[str, Mapping[str, Any]]:
    """Return corpus -> accuracy row; if several files belong to one corpus, their file names are the keys."""
    rows = read_accuracies(folder, model)
    names = [_corpus(file) for file in rows]
    return {
        name if names.count(name) == 1 else file: row
        for name, (file, row) in zip(names, rows.items(), strict=True)
    }


def _corpus(file: str) -> str:
    return next((name for part, name in CORPORA.items() if part in file.casefold()), file)
