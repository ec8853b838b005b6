"""Write new homophone items to a folder for ``--llm-data``, in the format of the published files.

A sentence and the word that its context determines give one item, from ``data/homophones/sentences.csv`` or the user's
file. No sentence and no answer there is one of a built-in item.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmprops.benchmarks.homophones import items
from pytest_llmprops.benchmarks.homophones.tools.chinese import homophones
from pytest_llmprops.benchmarks.homophones.tools.respelling import respellings
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import DataFolder, builtin_data, generated_before
from pytest_llmprops.data.whole_files import write_text, writing

VERSION = 1
SENTENCES = "homophones/sentences.csv"
EDITIONS = {edition.language: edition for edition in items.EDITIONS}
Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Source:
    """A correct sentence, the word to replace, and its English translations (``a/b``; none for English)."""

    sentence: str
    answer: str
    english: str = ""


def columns_of(lang: str) -> tuple[str, ...]:
    """Return the columns of a published file."""
    return "sentence", "word", *reversed(EDITIONS[lang].answers)


def own_sources(lang: str) -> list[Source]:
    """Return the sentences of this package in a language."""
    columns = ("language", "sentence", "answer", "answer_english")
    rows = DataFolder(builtin_data(), "builtin").csv(SENTENCES, columns)
    return [
        Source(row["sentence"], row["answer"], row["answer_english"])
        for row in rows
        if row["language"] == lang
    ]


def read_sources(path: Path, lang: str) -> list[Source]:
    """Read the user's sentences from a UTF-8 file; blank lines are skipped.

    A line is ``sentence<TAB>answer``, and ``<TAB>English translations`` for Spanish and Chinese.

    :raises DataError: if the file is missing, empty or not UTF-8.
    :raises UsageError: if a line lacks a column, or its answer does not occur once in its sentence.
    """
    columns = ["sentence", "answer", *(["English translations"] if lang != "en" else [])]
    sources = []
    for number, line in enumerate(DataFolder(path.parent, "user").text(path.name).splitlines(), start=1):
        cells = [" ".join(cell.split()) for cell in line.split("\t")]
        if not any(cells):
            continue
        place = f"{path}, line {number}"
        if len(cells) != len(columns) or not all(cells):
            raise UsageError(f"{place}: write {'<TAB>'.join(columns)}")
        if len(re.findall(_whole(cells[1], lang), cells[0])) != 1:
            raise UsageError(f"{place}: the answer {cells[1]!r} must occur once in {cells[0][:40]!r}")
        sources.append(Source(*cells))
    return sources


def generate(lang: str, *, n: int, seed: int, sources: Sequence[Source] | None = None) -> list[Row]:
    """Return ``n`` rows with the published columns of ``lang``: the first of those of a larger ``n``.

    No two have the same answer or the same made-up word. A reply that repeats the sentence must not be correct, so
    neither the answer nor a translation of it is elsewhere in the sentence.

    :param sources: None for those of this package.
    :raises UsageError: (a ValueError) if the sentences give fewer than ``n`` items, or espeak-ng is not installed.
    :raises MissingExtra: if a package is not installed.
    """
    if n < 1:
        raise UsageError(f"cannot generate {n} items: request at least 1")
    pool = list(dict.fromkeys(own_sources(lang) if sources is None else sources))
    rng = generator("homophones", lang, seed)
    rng.shuffle(pool)
    answers = [source.answer.lower() for source in pool]
    proposed = homophones(answers, rng) if lang == "zh" else respellings(answers, lang, rng)
    taken, used = builtin_pairs(lang), set[str]()
    rows: list[Row] = []
    for source, words in zip(pool, proposed, strict=True):
        if len(rows) == n:
            return rows
        made = (_row(source, word, lang) for word in words if (word, source.answer) not in taken)
        row = next((row for row in made if row and used.isdisjoint((row["word"], source.answer))), None)
        if row is not None:
            used |= {row["word"], source.answer}
            rows.append(row)
    if len(rows) < n:
        raise UsageError(
            f"only {len(rows)} of {n} homophone items ({lang}) can be generated from {len(pool)} sentences: give more"
            " sentences with --sentences FILE, with answers of four letters or more, or request fewer items"
        )
    return rows


def builtin_pairs(lang: str) -> set[tuple[str, str]]:
    """Return the (word, answer) pairs of the built-in items, which are not new."""
    rows = DataFolder(builtin_data(), "builtin").csv(f"homophones/{EDITIONS[lang].builtin}", columns_of(lang))
    return {(row["word"], row[EDITIONS[lang].answers[0]]) for row in rows}


def _row(source: Source, word: str, lang: str) -> Row | None:
    """Return the item that replaces the answer by ``word``; None if its sentence gives the answer away."""
    sentence = re.sub(_whole(source.answer, lang), word, source.sentence)
    shown = sentence.casefold()
    english = "/".join(one for one in source.english.split("/") if one.casefold() not in shown)
    if source.answer.casefold() in shown or shown.count(word) != 1 or (source.english and not english):
        return None
    answers = [source.answer] if lang == "en" else [english, source.answer]
    return dict(zip(columns_of(lang), [sentence, word, *answers], strict=True))


def _whole(answer: str, lang: str) -> str:
    return re.escape(answer) if lang == "zh" else rf"(?<!\w){re.escape(answer)}(?!\w)"


def write_homophones(out: Path, lang: str, *, n: int, seed: int, sentences: Path | None = None) -> Path:
    """Generate ``n`` items, write them under ``out``, and return the CSV file.

    ``out/homophones/`` gets a file with the published name, and ``SOURCE.json``, which marks the folder as
    generated, with the seed and the number of every language.

    :raises UsageError: if the items cannot be generated, or the folder contains data that was not generated.
    """
    folder, name = out / "homophones", EDITIONS[lang].published
    languages = dict(generated_before(folder).get("languages", {}))
    rows = generate(
        lang, n=n, seed=seed, sources=None if sentences is None else read_sources(sentences, lang)
    )
    languages[lang] = {"file": name, "seed": seed, "n": n}
    record = {"source": "generated", "generator": "homophones", "version": VERSION, "languages": languages}
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns_of(lang), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # SOURCE.json first: a crash in between must not leave generated rows that look published.
        write_text(folder / "SOURCE.json", json.dumps(record, indent=2, sort_keys=True) + "\n")
        write_text(folder / name, buffer.getvalue())
    return folder / name
