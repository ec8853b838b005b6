"""Write extracted concepts in the authors' layout, which the suite and ``llmprops dtails rules`` read.

``<out>/dtails/en-xx/xx.words`` has every concept, ``expert_dataset.csv`` the rows selected for the test set, and
``train_dataset.csv`` all other rows. ``<out>/dtails/SOURCE.json`` marks the data as generated, with the settings for
each language.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.dtails.rows import COLUMNS
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.data.whole_files import replacing

SOURCE = "SOURCE.json"


def check_out(out: Path) -> None:
    """Check the output folder. :raises UsageError: It has data from another source, which must not be mixed."""
    root = out / "dtails"
    if root.exists() and any(root.iterdir()) and _source(root).get("source") != "generated":
        raise UsageError(f"{root}: has data that was not generated; choose another --out")


def write_source(out: Path, language: str, facts: Mapping[str, Any]) -> Path:
    """Write or replace a language's part of ``SOURCE.json``."""
    root = out / "dtails"
    root.mkdir(parents=True, exist_ok=True)
    languages = _source(root).get("languages")
    known = languages if isinstance(languages, dict) else {}
    data = {"source": "generated", "languages": dict(sorted({**known, language: facts}.items()))}
    path = root / SOURCE
    _replace(path, [json.dumps(data, ensure_ascii=False, indent=2) + "\n"])
    return path


def write_words(path: Path, entries: Iterable[tuple[str, str, Sequence[str]]]) -> Path:
    """Write a ``.words`` file of (concept, part of speech, names of its variations)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, (f"{concept},{tag},{';'.join(names)}\n" for concept, tag, names in entries))
    return path


def write_rows(path: Path, rows: Iterable[tuple[str, str, str, Sequence[str], str]]) -> int:
    """Write a dataset file of (concept, sentence, translation, variation names, label); return its number of rows.

    Without rows, no file is written, and an outdated file from an earlier run is removed.
    """
    count = 0

    def lines() -> Iterable[str]:
        nonlocal count
        yield _line(COLUMNS)
        for concept, sentence, target, names, label in rows:
            count += 1
            # The authors write a list as a Python literal with escapes.
            yield _line((concept, sentence, target, repr(list(names)), label))

    _replace(path, lines())
    if not count:
        path.unlink()
    return count


def _line(fields: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()


def _source(root: Path) -> dict[str, Any]:
    try:
        source = parsed_json((root / SOURCE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise DataError(f"{root / SOURCE}: not JSON; delete the folder or choose another --out") from None
    return source if isinstance(source, dict) else {}


def _replace(path: Path, texts: Iterable[str]) -> None:
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        file.writelines(texts)
