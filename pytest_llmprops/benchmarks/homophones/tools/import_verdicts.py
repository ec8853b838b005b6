"""Import the verdicts on four models from the published homophone files as recorded runs.

With them, GPT-4 or Ernie can be compared with a current model item by item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pytest_llmprops.benchmark_registry import find_registration
from pytest_llmprops.benchmarks.homophones.benchmark import Homophones, read_rules
from pytest_llmprops.benchmarks.homophones.items import ASKED, EDITIONS, items
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.run_metadata import CallFacts, ModelMetadata, ProtocolMetadata
from pytest_llmprops.core.verdicts import Verdict, record_of
from pytest_llmprops.data.files import DataFolder, data_folder, read_manifest
from pytest_llmprops.runs.record import RunRecord, first_facts, new_run_folder
from pytest_llmprops.runs.summary import metric_rows, summary_rows

_NOT_MODELS = {
    "sentence",
    "word",
    "answer",
    "answer_english",
    "answer_chinese",
    "answer_spanish",
    "id",
    "function_word",
}
#: the authors' verdicts on their items, by id
SHIPPED = "homophones/published_verdicts.csv"
NOTE = "verdicts imported from the authors' file; no reply was published, and refusals count as wrong"


def import_homophones(data: Path | None, out: Path) -> Iterator[tuple[Path, str]]:
    """Write one run per model under ``out``; yield each run's folder and its scores as text.

    :param data: The folder of published data; None for the authors' verdicts that this package has, without the texts.
    :raises DataError: for a cell that is neither Y nor N, or if no file has a model's column.
    """
    folder = (
        DataFolder(data_folder(find_registration(Homophones.name)), "builtin")
        if data is None
        else DataFolder(data, "published")
    )
    verdicts = _shipped(folder) if data is None else _published(folder)
    if not verdicts:
        raise DataError(f"{data}/homophones: no file has a column of verdicts (GPT-3.5, GPT-4, …)")
    if data is not None:
        folder.verify(read_manifest())
    targets = {model: out / _run_name(model) for model in verdicts}
    for target in targets.values():
        if (target / "run.json").exists():
            raise UsageError(f"{target}: already holds a run; give a new folder with --out DIR")
    for model, judged in verdicts.items():
        yield _write(model, judged, folder, targets[model])


def _shipped(folder: DataFolder) -> dict[str, list[tuple[Item, bool]]]:
    """Return the verdicts of the file of this package, whose items have ids but no texts."""
    verdicts: dict[str, list[tuple[Item, bool]]] = {}
    for number, row in enumerate(folder.csv(SHIPPED), 1):
        _, language, _ = row["id"].split("/")
        fields = {"answers": ("",), "function_word": row["function_word"] == "1"}
        item = Item(row["id"], ASKED, language, "published", fields=fields)
        for column, cell in row.items():
            if column not in _NOT_MODELS:
                verdicts.setdefault(column, []).append((item, _yes(cell, SHIPPED, number, column)))
    return verdicts


def _published(folder: DataFolder) -> dict[str, list[tuple[Item, bool]]]:
    """Return the verdicts of the authors' files."""
    by_language: dict[str, list[Item]] = {}
    for item in items(folder, read_rules(folder).words):
        if item.task == ASKED:
            by_language.setdefault(item.language, []).append(item)
    verdicts: dict[str, list[tuple[Item, bool]]] = {}
    for edition in EDITIONS:
        path = f"homophones/{edition.published}"
        if not folder.exists(path):
            continue
        for number, row in enumerate(folder.csv(path), 1):
            item = by_language[edition.language][number - 1]
            for column, cell in row.items():
                if column.strip().lower() in _NOT_MODELS:
                    continue
                verdicts.setdefault(column.strip(), []).append((item, _yes(cell, path, number, column)))
    return verdicts


def _run_name(model: str) -> str:
    # A column name can contain characters that are not allowed in paths.
    return "imported-homophones-" + re.sub(r"[^A-Za-z0-9._=-]+", "_", model)


def _yes(cell: str, path: str, number: int, column: str) -> bool:
    answer = cell.strip().upper()
    if answer not in ("Y", "N"):
        raise DataError(f"{path}: row {number}, column {column}: {cell!r} must be Y or N")
    return answer == "Y"


def _write(model: str, judged: list[tuple[Item, bool]], data: DataFolder, target: Path) -> tuple[Path, str]:
    benchmark = Homophones()
    protocol = resolve(benchmark.name, benchmark.protocols, "paper", {}, 0)
    folder = new_run_folder(str(target), [model], target.parent)
    facts = first_facts(
        folder,
        models={model: ModelMetadata(model, imported=True, served_as=())},
        protocols={benchmark.name: ProtocolMetadata.from_json(protocol.to_json())},
        options={"imported_from": "homophones", "source": "published"},
        data=data.hashes(),
        calls=CallFacts(cost_usd=0.0),
        notes=(NOTE,),
    )
    record = RunRecord(folder, facts)
    for item, right in judged:
        expected = " / ".join(item["answers"])
        verdict = Verdict.check(
            right,
            expected=expected,
            given="",
            reason="as the authors judged",
            values={"function_word": float(item["function_word"])},
        )
        record.add(record_of(item, benchmark.name, model, verdict, requests=[]))
    rows = summary_rows(record.records)
    metrics, _ = metric_rows(record.records, {benchmark.name: benchmark})
    record.finish(replace(facts, complete=True, expected=len(judged), summary=rows, metrics=metrics))
    return record.folder, ", ".join(f"{r.language} {r.correct}/{r.items}" for r in rows)
