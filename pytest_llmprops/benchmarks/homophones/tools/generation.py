"""Write new homophone items to a folder for ``--llm-data``, in place of the published one.

``respelling.py`` (English, Spanish) and ``chinese.py`` generate the items from the sentences of ``sentences.py``; this
module writes files. File names and columns are those of the published sets.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pytest_llmprops.benchmarks.homophones.tools.english_reader import espeak_version
from pytest_llmprops.benchmarks.homophones.tools.respelling import english, generate_items, spanish
from pytest_llmprops.benchmarks.homophones.tools.sentences import (
    Row,
    Source,
    builtin_pairs,
    own_sources,
    read_sentences,
    translations,
)
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.whole_files import write_text

VERSION = 1
Generator = Callable[[int, int, Sequence[Source]], list[Row]]
"""(n, seed, sentences) -> rows with the published columns."""

FILES: Mapping[str, str] = MappingProxyType(
    {"en": "testset_english.csv", "es": "testset_espanol.csv", "zh": "testset_chinese.csv"}
)
COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "en": ("sentence", "word", "answer"),
    "es": ("sentence", "word", "answer_english", "answer_spanish"),
    "zh": ("sentence", "word", "answer_english", "answer_chinese"),
})  # fmt: skip


def _generate_en(n: int, seed: int, sources: Sequence[Source]) -> list[Row]:
    is_alone = espeak_version() is None
    language = english("alone" if is_alone else "espeak")
    try:
        items = generate_items(sources, language, n=n, seed=seed, taken=builtin_pairs("en"))
    except UsageError as error:
        more = (
            ", or install espeak-ng, which allows more (Debian: apt-get install espeak-ng)"
            if is_alone
            else ""
        )
        raise UsageError(f"{error}{more}") from None
    return [{"sentence": item.sentence, "word": item.word, "answer": item.answer} for item in items]


def _generate_es(n: int, seed: int, sources: Sequence[Source]) -> list[Row]:
    items = generate_items(
        sources, spanish(), n=n, seed=seed, translations=translations("es"), taken=builtin_pairs("es")
    )
    return [
        {
            "sentence": item.sentence,
            "word": item.word,
            "answer_english": item.english,
            "answer_spanish": item.answer,
        }
        for item in items
    ]


def _generate_zh(n: int, seed: int, sources: Sequence[Source]) -> list[Row]:
    # Imported here, because only Chinese needs pypinyin and jieba.
    from pytest_llmprops.benchmarks.homophones.tools.chinese import load_lexicon, make_rows

    return make_rows(
        sources,
        n=n,
        seed=seed,
        lexicon=load_lexicon(),
        translations=translations("zh"),
        taken=builtin_pairs("zh"),
    )


GENERATORS: dict[str, Generator] = {"en": _generate_en, "es": _generate_es, "zh": _generate_zh}
"""Language -> its generator."""


def generate(lang: str, *, n: int, seed: int, sources: Sequence[Source] | None = None) -> list[Row]:
    """Return ``n`` rows with the published columns of ``lang``, the same for the same arguments.

    English items also depend on whether espeak-ng is installed, which is a second reader of the respellings.

    :param sources: Complete sentences to take words from; None for those of this package.
    :raises UsageError: (a ValueError) for an unknown language, or if the sentences give fewer than ``n`` items.
    """
    if lang not in GENERATORS:
        raise UsageError(
            f"no homophone generator for language {lang!r}: use one of {', '.join(sorted(GENERATORS))}"
        )
    return GENERATORS[lang](n, seed, own_sources(lang) if sources is None else sources)


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
    rows = generate(
        lang, n=n, seed=seed, sources=None if sentences is None else read_sentences(sentences, lang)
    )
    readers = {"espeak-ng": espeak_version()} if lang == "en" else {}
    languages[lang] = {"file": FILES[lang], "seed": seed, "n": n, **readers}
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
