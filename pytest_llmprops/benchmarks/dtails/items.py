"""Items of DTAiLS, from the built-in files and from files in the authors' layout.

Layouts in the data folder:

- built-in: ``dtails/XX.csv``, ``dtails/XX.train.csv`` and ``dtails/XX.words``, the project's own sentences. They are
  **not verified by native speakers**; ``dtails/README.md`` says what to check first.
- published and generated: ``dtails/en-XX/{expert_dataset.csv, XX.words, train_dataset.csv}``. The last two are
  optional.

:mod:`~pytest_llmprops.benchmarks.dtails.rows` describes rows and their checks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase

from pytest_llmprops.benchmarks.dtails.rows import COLUMNS, Entry, Row, Variation, parse_rows, parse_words
from pytest_llmprops.core.benchmark import DataFiles
from pytest_llmprops.core.items import CONTROL_MARK, Item

# Balance the order of variations over the items and runs of a language (Barua et al., appendix B.4).
#
# With independent shuffles, a model that ignores the order may choose one position too often, by chance and,
# because the seed fixes the orders, in every run. Therefore:
#
# - Each run of an item rotates the order of the run before. After k runs, each of k variations was at each
#   position once.
# - In each block of k items, the right variation begins at each position once. A block is k consecutive items with the
#   same number of variations, sorted by concept and label, so the variations of a concept are balanced, too.
#
# Which item gets which position, and the order of the other variations, are random choices by the seed
# (``prompts.shown_order``).


@dataclass(frozen=True, slots=True)
class Slot:
    """An item's place among the items that are balanced together.

    :param group: Their language and number of variations. :param rank: The item's rank in the group, from 0.
    :param label: Index of its right variation.
    """

    group: str
    rank: int
    label: int


def slots(items: Iterable[Item]) -> Mapping[str, Slot]:
    """Return the slot of each item by its id. The items need ``variations`` and ``label``."""
    groups: dict[str, list[tuple[str, int, Item]]] = {}
    for item in items:
        group = f"{item.language}/{len(item['variations'])}"
        label = item["variations"].index(item["label"])
        groups.setdefault(group, []).append((item.cluster, label, item))
    return {
        item.base_id: Slot(group, rank, label)
        for group, members in groups.items()
        for rank, (_, label, item) in enumerate(sorted(members, key=lambda member: member[:2]))
    }


SELECT, TRANSLATE = "select", "translate"
#: The paper's languages: Afrikaans, Armenian, Farsi, Galician, Hindi, Japanese, Latvian, Tamil, Telugu
LANGUAGES = ("af", "hy", "fa", "gl", "hi", "ja", "lv", "ta", "te")
_ID_MARK = {"published": "p", "generated": "g"}


def languages(files: DataFiles) -> tuple[str, ...]:
    """Return the codes of the languages with test rows: the paper's first, then other two-letter codes."""
    others = (a + b for a, b in product(ascii_lowercase, repeat=2) if a + b not in LANGUAGES)
    return tuple(code for code in (*LANGUAGES, *others) if files.exists(_path(files, code)))


def words(files: DataFiles, language: str) -> tuple[Entry, ...]:
    """Read the ``.words`` file of a language; empty if it is missing. :raises DataError: See ``parse_words``."""
    folder = _folder(files, language)
    path = f"{folder}/{language}.words"
    return parse_words(files.text(path), path) if files.exists(path) else ()


def expert_rows(files: DataFiles, language: str) -> tuple[Row, ...]:
    """Read the test rows of a language. :raises DataError: The file is missing, or see :func:`parse_rows`."""
    return _read(files, language, _path(files, language))


def train_rows(files: DataFiles, language: str) -> tuple[Row, ...]:
    """Read the train rows of a language, the examples for rules; empty if the file is missing.

    :raises DataError: See :func:`parse_rows`.
    """
    name = f"{language}.train.csv" if files.source == "builtin" else "train_dataset.csv"
    path = f"{_folder(files, language)}/{name}"
    return _read(files, language, path, training=True) if files.exists(path) else ()


def row_items(rows: Sequence[Row], language: str, source: str) -> Iterator[Item]:
    """Yield each row as an item of ``select``, followed by the same row as an item of ``translate``.

    The id is ``dtails/<lang>/<concept>/<n>``; n counts the concept's rows from 01 (``p01`` in published and ``g01`` in
    generated files). ``translate`` adds ``+translate``, so a limited run takes the same rows for both tasks. Words with
    the same spelling but different variations (``build``, noun and verb) are two concepts.

    Fields: ``concept``, ``pos``, ``sentence``, ``target``, ``variations`` (a tuple of tuples of forms),
    ``label`` (the right one of them), ``clue``, ``repeats`` (id of the row that it repeats, or "").
    """
    slugs = _slugs(rows)
    counts: dict[str, int] = {}
    ids: dict[int, str] = {}
    for row in rows:
        slug = slugs[_concept_key(row)]
        counts[slug] = counts.get(slug, 0) + 1
        own = row.id or f"{slug}/{_ID_MARK.get(source, '')}{counts[slug]:02d}"
        name = f"dtails/{language}/{own}"
        ids[row.number] = name
        variations = tuple(variation.forms for variation in row.variations)
        fields = {
            "concept": row.concept,
            "pos": row.pos,
            "sentence": row.sentence,
            "target": row.target,
            "variations": variations,
            "label": variations[row.label],
            "clue": row.clue,
            "repeats": ids.get(row.repeats, ""),
        }
        cluster = f"dtails/{language}/{slug}"
        yield Item(name, SELECT, language, source, cluster, fields)
        yield Item(f"{name}{CONTROL_MARK}{TRANSLATE}", TRANSLATE, language, source, cluster, fields)


def items(files: DataFiles) -> Iterator[Item]:
    """Yield the items of every language with test rows, in file order.

    :raises DataError: No language has test rows, or a file is invalid.
    """
    codes = languages(files)
    if not codes:
        # Raises the error that names a missing file and how to get it.
        files.text(_path(files, LANGUAGES[0]))
    for language in codes:
        yield from row_items(expert_rows(files, language), language, files.source)


def _folder(files: DataFiles, language: str) -> str:
    return "dtails" if files.source == "builtin" else f"dtails/en-{language}"


def _path(files: DataFiles, language: str) -> str:
    name = f"{language}.csv" if files.source == "builtin" else "expert_dataset.csv"
    return f"{_folder(files, language)}/{name}"


def _read(files: DataFiles, language: str, path: str, *, training: bool = False) -> tuple[Row, ...]:
    rows = files.csv(path, required=COLUMNS)
    return parse_rows(rows, language, files.source, path, words(files, language), training=training)


def _concept_key(row: Row) -> tuple[str, frozenset[Variation]]:
    return row.concept, frozenset(row.variations)


def _slugs(rows: Sequence[Row]) -> dict[tuple[str, frozenset[Variation]], str]:
    """Return a short ASCII name for each concept; equal names get their tag or a number."""
    slugs: dict[tuple[str, frozenset[Variation]], str] = {}
    taken: set[str] = set()
    for row in rows:
        key = _concept_key(row)
        if key in slugs:
            continue
        plain = unicodedata.normalize("NFKD", row.concept).encode("ascii", "ignore").decode().lower()
        base = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40] or "concept"
        tagged = f"{base}-{row.pos.lower()}" if row.pos.isascii() and row.pos.isalpha() else base
        tries = [base, tagged, *(f"{base}-{n}" for n in range(2, len(rows) + 2))]
        slugs[key] = next(name for name in tries if name not in taken)
        taken.add(slugs[key])
    return slugs
