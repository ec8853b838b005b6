"""Write new homophone items to a folder for ``--llm-data``, in place of the published one.

``respelling.py`` (English, Spanish) and ``generation_zh.py`` (Chinese) generate the items; this module reads
sentences and writes files. File names and columns are those of the published sets.
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
from pytest_llmprops.data.files import DataFolder, builtin_data
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
    """Read the rows of the built-in English or Spanish set."""
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
            "answer_english": _not_in_sentence(known.get(item.answer, ""), item.sentence),
            "answer_spanish": item.answer,
        }
        for item in items
    ]


def _not_in_sentence(translations: str, sentence: str) -> str:
    """Return the translations ("a/b") that a reply does not contain if it only repeats the sentence.

    If no translation is left, the item is judged by its Spanish answer alone.
    """
    return "/".join(t for t in translations.split("/") if t.casefold() not in sentence.casefold())


def _generate_zh(n: int, seed: int, sentences: Sequence[str] | None) -> list[Row]:
    # Imported here, because only Chinese needs pypinyin and jieba.
    from pytest_llmprops.benchmarks.homophones.tools.chinese import generate_zh

    return generate_zh(n=n, seed=seed, sentences=sentences)


GENERATORS: dict[str, Generator] = {"en": _generate_en, "es": _generate_es, "zh": _generate_zh}
"""Language -> its generator."""


def generate(lang: str, *, n: int, seed: int, sentences: Sequence[str] | None = None) -> list[Row]:
    """Return ``n`` rows with the published columns of ``lang``, the same for the same arguments.

    :param sentences: Complete sentences to take words from; None for the built-in ones with their answers restored.
    :raises UsageError: (a ValueError) for an unknown language, or if the sentences give fewer than ``n`` items.
    """
    if lang not in GENERATORS:
        raise UsageError(
            f"no homophone generator for language {lang!r}: use one of {', '.join(sorted(GENERATORS))}"
        )
    return GENERATORS[lang](n, seed, sentences)


def read_sentences(path: Path) -> list[str]:
    """Read the user's sentences from a UTF-8 file, one per line; blank lines are skipped.

    :raises DataError: if the file is missing, empty or not UTF-8.
    """
    text = DataFolder(path.parent, "user").text(path.name)
    return [line.strip() for line in text.splitlines() if line.strip()]


def write_homophones(out: Path, lang: str, *, n: int, seed: int, sentences: Path | None = None) -> Path:
    """Generate ``n`` items, write them under ``out``, and return the CSV file.

    ``out/homophones/`` gets a file with the published name, and ``SOURCE.json``, which marks the folder as
    generated. ``seed`` and ``n`` in it are those of the latest call; ``languages`` has those of every language.

    :raises UsageError: if the items cannot be generated, or the folder contains data that was not generated.
    """
    folder = out / "homophones"
    source = folder / "SOURCE.json"
    languages: dict[str, object] = {}
    if source.is_file():
        earlier = _read_source(source)
        languages = dict(earlier)
    elif any((folder / name).exists() for name in FILES.values()):
        raise UsageError(
            f"{folder}: contains homophone data that was not generated; choose another output folder"
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
        # SOURCE.json first: a crash in between must not leave generated rows that look published.
        write_text(source, json.dumps(record, indent=2) + "\n")
        write_text(target, to_csv(rows, COLUMNS[lang]))
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror or error}); choose another folder"
        ) from None
    return target


def to_csv(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> str:
    """Return CSV text with a header and LF line ends, quoted only if needed."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _read_source(path: Path) -> Mapping[str, object]:
    document = DataFolder(path.parent, "generated").json(path.name)
    if not isinstance(document, dict) or document.get("generator") != "homophones":
        raise UsageError(f"{path}: not written by the homophone generator; choose another output folder")
    languages = document.get("languages", {})
    if not isinstance(languages, dict):
        raise DataError(f"{path}: 'languages' must be an object; delete the folder and generate again")
    return languages
