"""Fresh homophone items: a folder that ``--llm-data`` reads in place of the published one.

``respelling.py`` (English, Spanish) and ``generation_zh.py`` (Chinese) do the work; this module reads sentences and
writes files. File names and columns are those of the published sets.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pytest_llmprops.benchmarks.homophones.tools.respelling import generate_items, restore
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.location import builtin_data
from pytest_llmprops.data.pronunciation import load_cmudict
from pytest_llmprops.data.whole_files import write_text

VERSION = 1
Row = dict[str, str]
Generator = Callable[[int, int, Sequence[str] | None], list[Row]]
"""(n, seed, the user's sentences or None for the built-in ones) -> rows with the published columns."""

FILES: Mapping[str, str] = MappingProxyType(
    {"en": "testset_english.csv", "es": "testset_espanol.csv", "zh": "testset_chinese.csv"}
)
COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "en": ("sentence", "word", "answer"),
    "es": ("sentence", "word", "answer_english", "answer_spanish"),
    "zh": ("sentence", "word", "answer_english", "answer_chinese"),
})  # fmt: skip
_BUILTIN = {
    "en": ("homophones/english.csv", "answer"),
    "es": ("homophones/spanish.csv", "answer_spanish"),
}


def builtin_rows(lang: str) -> list[Row]:
    """The rows of the built-in English or Spanish set."""
    path, answer = _BUILTIN[lang]
    folder = DataFolder(builtin_data(), "builtin")
    return folder.csv(path, required=("id", "sentence", "word", answer, "function_word"))


def _builtin_sentences(lang: str) -> list[str]:
    answer = _BUILTIN[lang][1]
    return [restore(row["sentence"], row["word"], row[answer]) for row in builtin_rows(lang)]


def _generate_en(n: int, seed: int, sentences: Sequence[str] | None) -> list[Row]:
    texts = _builtin_sentences("en") if sentences is None else sentences
    items = generate_items(texts, "en", n=n, seed=seed, pronunciations=load_cmudict())
    return [{"sentence": item.sentence, "word": item.word, "answer": item.answer} for item in items]


def _generate_es(n: int, seed: int, sentences: Sequence[str] | None) -> list[Row]:
    texts = _builtin_sentences("es") if sentences is None else sentences
    items = generate_items(texts, "es", n=n, seed=seed)
    known = {row["answer_spanish"]: row["answer_english"] for row in builtin_rows("es")}
    return [
        {
            "sentence": item.sentence,
            "word": item.word,
            "answer_english": _unseen(known.get(item.answer, ""), item.sentence),
            "answer_spanish": item.answer,
        }
        for item in items
    ]


def _unseen(translations: str, sentence: str) -> str:
    """The translations ("a/b") that a reply would not contain by merely repeating the sentence.

    Empty where none is known: such an item is judged by its Spanish answer alone.
    """
    return "/".join(t for t in translations.split("/") if t.casefold() not in sentence.casefold())


def _generate_zh(n: int, seed: int, sentences: Sequence[str] | None) -> list[Row]:
    # imported here: it needs pypinyin and jieba, which the other languages do not
    from pytest_llmprops.benchmarks.homophones.tools.generation_zh import generate_zh

    return generate_zh(n=n, seed=seed, sentences=sentences)


GENERATORS: dict[str, Generator] = {"en": _generate_en, "es": _generate_es, "zh": _generate_zh}
"""Language -> its generator."""


def generate(lang: str, *, n: int, seed: int, sentences: Sequence[str] | None = None) -> list[Row]:
    """``n`` rows with the published columns of ``lang``, the same for the same arguments.

    :param sentences: whole sentences to take words from; None for the built-in ones, restored.
    :raises UsageError: (a ValueError) for an unknown language, or when the sentences yield fewer than ``n``.
    """
    if lang not in GENERATORS:
        raise UsageError(
            f"no homophone generator for language {lang!r}: use one of {', '.join(sorted(GENERATORS))}"
        )
    return GENERATORS[lang](n, seed, sentences)


def read_sentences(path: Path) -> list[str]:
    """The user's sentences, one a line of a UTF-8 file; blank lines are skipped.

    :raises DataError: when the file is missing, empty or not UTF-8.
    """
    text = DataFolder(path.parent, "user").text(path.name)
    return [line.strip() for line in text.splitlines() if line.strip()]


def write_homophones(out: Path, lang: str, *, n: int, seed: int, sentences: Path | None = None) -> Path:
    """Generate ``n`` items and write them below ``out``; returns the CSV file written.

    ``out/homophones/`` gets the published file name, and ``SOURCE.json``, which marks the folder as
    generated: ``seed`` and ``n`` are those of the latest call, ``languages`` those of every language there.

    :raises UsageError: when the items cannot be made, or the folder holds data that was not generated.
    """
    folder = out / "homophones"
    source = folder / "SOURCE.json"
    languages: dict[str, object] = {}
    if source.is_file():
        earlier = _read_source(source)
        languages = dict(earlier)
    elif any((folder / name).exists() for name in FILES.values()):
        raise UsageError(
            f"{folder}: holds homophone data that was not generated; choose another output folder"
        )
    rows = generate(lang, n=n, seed=seed, sentences=None if sentences is None else read_sentences(sentences))
    languages[lang] = {"file": FILES[lang], "seed": seed, "n": n}
    record = {
        "source": "generated", "generator": "homophones", "seed": seed, "n": n, "version": VERSION,
        "languages": {key: languages[key] for key in sorted(languages)},
    }  # fmt: skip
    target = folder / FILES[lang]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # the mark first: a crash in between must not leave generated rows that look published
        write_text(source, json.dumps(record, indent=2) + "\n")
        write_text(target, to_csv(rows, COLUMNS[lang]))
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror or error}); choose another folder"
        ) from None
    return target


def to_csv(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> str:
    """CSV text with a header, LF line ends, quoted only where needed."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _read_source(path: Path) -> Mapping[str, object]:
    found = DataFolder(path.parent, "generated").json(path.name)
    if not isinstance(found, dict) or found.get("generator") != "homophones":
        raise UsageError(f"{path}: not written by the homophone generator; choose another output folder")
    languages = found.get("languages", {})
    if not isinstance(languages, dict):
        raise DataError(f"{path}: 'languages' must be an object; delete the folder and generate again")
    return languages
