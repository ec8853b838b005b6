"""Write the expert set of DTAiLS (Barua et al., section 2.2): rows for which a majority chose the original."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.dtails.rows import COLUMNS, SENTENCE, TARGET, parse_rows, parse_words
from pytest_llmprops.benchmarks.dtails.tools.annotation import questions as sheet_questions
from pytest_llmprops.benchmarks.dtails.tools.annotation.results import selection_result
from pytest_llmprops.benchmarks.dtails.tools.annotation.study import Study
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.whole_files import write_text

VERSION = 1


def write_expert_set(out: Path, study: Study) -> list[Path]:
    """Write the expert set in the authors' layout, for ``--llm-source published --llm-data OUT``.

    The files are ``dtails/en-xx/expert_dataset.csv``, ``dtails/en-xx/xx.words`` (concepts with a known part of speech)
    and ``dtails/SOURCE.json``, which marks the data as generated. Several languages can share a folder.

    :raises UsageError: The sheets are of the other task, the set is empty, or the folder has other data or cannot be
        written.
    """
    if study.task != sheet_questions.SELECTION:
        raise UsageError(
            "--write: the expert set needs sheets of --task selection; these are of --task rules"
        )
    result = selection_result(study)
    if not result.expert:
        raise UsageError(
            "--write: for no sentence, a majority chose the original's variation; there is nothing to write"
        )
    folder = out / "dtails"
    place = folder / f"en-{study.language}"
    facts = _facts(folder, place)
    facts["languages"][study.language] = {
        "from": study.of,
        "annotators": len(study.answers),
        "sentences": len(study.questions),
        "kept": len(result.expert),
    }
    words = _words(study, result.expert)
    files = {place / "expert_dataset.csv": _dataset(study, result.expert)}
    files |= {place / f"{study.language}.words": words} if words else {}
    files[folder / "SOURCE.json"] = json.dumps(facts, ensure_ascii=False) + "\n"
    try:
        place.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            write_text(path, text)
    except OSError as error:
        raise UsageError(
            f"{out}: cannot be written ({error.strerror or error}); choose another folder"
        ) from None
    return list(files)


def _facts(folder: Path, place: Path) -> dict[str, Any]:
    """Return the content of SOURCE.json. :raises UsageError: The folder has data that would be overwritten."""
    fresh = {"source": "generated", "generator": "dtails agreement", "version": VERSION, "languages": {}}
    if place.exists() and any(place.iterdir()):
        raise UsageError(f"--write: {place} already has files; choose another folder")
    if not (folder / "SOURCE.json").is_file():
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"--write: {folder} has data from another source; choose another folder")
        return fresh
    source = DataFolder(folder, "generated").json("SOURCE.json")
    if not isinstance(source, dict) or source.get("generator") != fresh["generator"]:
        raise UsageError(f"--write: {folder} has data from another source; choose another folder")
    return fresh | {"languages": dict(source.get("languages", {}))}


def _dataset(study: Study, expert: Iterable[str]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    rows = []
    for name in expert:
        question, original = study.questions[name], study.originals[name]
        # The authors' lists are Python literals with escapes for invisible characters.
        rows.append(
            {
                "concept": question.concept,
                SENTENCE: question.text,
                TARGET: original.target,
                "variations": repr(list(question.options)),
                "label": question.options[original.label],
            }
        )
    writer.writerows(rows)
    parse_rows(rows, study.language, "published", "expert_dataset.csv")  # Check that the file can be read.
    return buffer.getvalue()


def _words(study: Study, expert: Iterable[str]) -> str:
    """Return the ``.words`` file, without concepts that have no part of speech or do not fit its syntax."""
    lines: dict[tuple[str, str], str] = {}
    for name in expert:
        question, pos = study.questions[name], study.originals[name].pos
        line = f"{question.concept},{pos},{';'.join(question.options)}"
        try:
            (entry,) = parse_words(line, "words")
        except (DataError, ValueError):
            continue
        if tuple(variation.name for variation in entry.variations) == question.options:
            lines.setdefault((question.concept, pos), line)
    return "".join(f"{line}\n" for line in lines.values())
