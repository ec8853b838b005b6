"""Extract concepts and a test set from a parallel corpus (Barua et al., section 2.1, appendices A.2 and B.1).

:func:`extract` runs these steps: analyse and align (``corpus.py``), count and filter (``occurrences.py``,
``concepts.py``), drop variations of other word senses and select the test set (``mined_concepts.py``), write.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.dtails.rows import COLUMNS
from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.aligner import Aligner
from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Counting, Thresholds, find_concepts
from pytest_llmprops.benchmarks.dtails.tools.mining.corpus import Corpus, Parser, Parts, Progress, no_progress
from pytest_llmprops.benchmarks.dtails.tools.mining.mined_concepts import (
    MinedConcept,
    Selection,
    no_concept_message,
    numbers,
    of_one_sense,
    select,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.occurrences import (
    collect,
    count_links,
    in_corpus_order,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.senses import WordNetSenses
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.data.whole_files import replacing

# Write extracted concepts in the authors' layout, which the suite and ``llmprops dtails rules`` read.
#
# ``<out>/dtails/en-xx/xx.words`` has every concept, ``expert_dataset.csv`` the rows selected for the test
# set, and ``train_dataset.csv`` all other rows. ``<out>/dtails/SOURCE.json`` marks the data as generated,
# with the settings for each language.

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


#: Concept, sentence, translation, variation names, label.
_Row = tuple[str, str, str, Sequence[str], str]


def write_rows(path: Path, rows: Iterable[_Row]) -> int:
    """Write a dataset file; return its number of rows.

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


_CODE = re.compile("[a-z]{2}")


@dataclass(frozen=True, slots=True)
class ExtractionSettings:
    """The settings of an extraction. :param forms: Maximum written forms of a variation, including its lemma."""

    counting: Counting = field(default_factory=Counting)
    thresholds: Thresholds = field(default_factory=Thresholds)
    selection: Selection = field(default_factory=Selection)
    forms: int = 6

    def __post_init__(self) -> None:
        if self.forms < 1:
            raise UsageError(f"--forms {self.forms}: a variation has at least one form, its lemma")


@dataclass(frozen=True, slots=True)
class Extraction:
    """The result of :func:`extract`.

    :param paths: The files written. :param facts: The language's part of ``SOURCE.json``.
    :param notes: Limitations of the result, one line each.
    """

    paths: tuple[Path, ...]
    facts: Mapping[str, Any]
    notes: tuple[str, ...]


def check_language(code: str) -> None:
    """Check the target language. :raises UsageError: The code does not have two letters, or is English."""
    if not _CODE.fullmatch(code):
        raise UsageError(
            f"--lang {code}: use the target language's code of two lowercase letters, such as af"
        )
    if code == "en":
        raise UsageError("--lang en: English is the source language; use the target language's code")


def extract(
    corpus: Corpus,
    language: str,
    out: Path,
    *,
    source: Parser,
    target: Parser,
    aligner: Aligner,
    senses: WordNetSenses | None = None,
    settings: ExtractionSettings | None = None,
    notes: Sequence[str] = (),
    progress: Progress = no_progress,
) -> Extraction:
    """Extract concepts and write them below ``out``; finished parts in ``out/work`` are reused.

    :param senses: None keeps variations of all senses. :param notes: Further notes for ``SOURCE.json``.
    :raises UsageError: A parser or aligner cannot run, ``out`` has other data, or no concept is left. Only ``out/work``
        is written then.
    :raises DataError: A file in ``out/work`` is damaged.
    """
    chosen = settings or ExtractionSettings()
    check_language(language)
    check_out(out)
    parts = Parts(out / "work" / f"dtails-en-{language}", corpus, source, target)
    analysis = parts.analyse(progress)
    parts.align(aligner, progress)
    counted = count_links(parts, chosen.counting, chosen.thresholds, progress, corpus.size)
    concepts = find_concepts(counted.counts, counted.totals, chosen.thresholds)
    if not concepts:
        raise UsageError(no_concept_message(counted, chosen.thresholds))
    occurrences = collect(parts, concepts, chosen.counting, senses, progress, corpus.size)
    mined = of_one_sense(concepts, occurrences, chosen.forms)
    if not mined:
        raise UsageError(
            f"no concept is left: each of the {len(concepts)} has fewer than two variations of one word sense with a"
            " sentence pair of their own; use more text, or --senses none"
        )
    test = select(mined, chosen.selection, language)
    lines = list(notes)
    if not analysis.lemmas:
        lines.append("variations are written forms: the target parser gives no lemmas")
    if not analysis.relations and chosen.counting.compounds == "drop":
        lines.append("words in compounds are included: the source parser gives no dependencies")
    if failed := getattr(aligner, "failed", 0):
        lines.append(f"{failed:,} pairs could not be aligned: the model does not accept them")
    facts = {
        "corpus": {
            "sha256": corpus.sha256, "files": [file.name for file in corpus.files], "lines": corpus.lines,
            "empty": corpus.empty, "too_long": corpus.long, "without_words": analysis.empty,
        },
        "source_parser": dict(source.identity),
        "target_parser": dict(target.identity),
        "aligner": dict(aligner.identity),
        "senses": dict(senses.identity) if senses is not None else "off",
        "settings": asdict(chosen),
        "statistics": numbers(counted, concepts, mined, chosen.thresholds),
        "notes": lines,
    }  # fmt: skip
    return _write(out, language, corpus, mined, test, facts)


def _write(
    out: Path,
    language: str,
    corpus: Corpus,
    mined: Sequence[MinedConcept],
    test: Mapping[int, Sequence[int]],
    facts: dict[str, Any],
) -> Extraction:
    folder = out / "dtails" / f"en-{language}"
    # Written first: it marks the folder as generated, so that a run after an interruption may write it again.
    source = write_source(out, language, facts)
    words = folder / f"{language}.words"
    folder.mkdir(parents=True, exist_ok=True)
    _replace(words, (f"{item.concept.lemma},{item.concept.tag},{';'.join(item.listing)}\n" for item in mined))
    test_rows = {(number, place) for number, places in test.items() for place in places}
    test_keys = {mined[number].rows.keys[place] for number, place in test_rows}
    expert: list[tuple[int, int, _Row]] = []

    def training() -> Iterator[_Row]:
        pairs = corpus.pairs()
        pair = next(pairs)
        for line, number, place in in_corpus_order([item.rows for item in mined]):
            while pair.line < line:
                pair = next(pairs)
            item = mined[number]
            label = list(item.names.values())[item.rows.labels[place]]
            row = (item.concept.lemma, pair.source, pair.target, item.listing, label)
            if (number, place) in test_rows:
                expert.append((number, place, row))
            elif item.rows.keys[place] not in test_keys:
                yield row

    train_path, expert_path = folder / "train_dataset.csv", folder / "expert_dataset.csv"
    train = write_rows(train_path, training())
    rows = write_rows(expert_path, (row for _, _, row in sorted(expert)))
    facts = {**facts, "rows": {"test": rows, "train": train, "test_concepts": len(test)}}
    write_source(out, language, facts)
    paths = [source, words, *([expert_path] if rows else []), *([train_path] if train else [])]
    return Extraction(tuple(paths), facts, tuple(facts["notes"]))
