"""Items of DTAiLS: strict readers of the built-in files and of files in the authors' layout.

A *concept* is an English word with several *variations* in the target language. Each row has an English sentence,
and the *label* is the variation that fits its context (paper, section 2).

Texts are kept exactly as they are in the file: zero-width joiners, the order of right-to-left letters and the Unicode
form of a word are data. In the authors' Tamil list, two variations differ only in their Unicode form.

Layouts in the data folder:

- built-in: ``dtails/XX.csv``, ``dtails/XX.train.csv`` and ``dtails/XX.words``, the project's own sentences. They are
  **not verified by native speakers**; ``dtails/README.md`` says what to check first.
- published and generated: ``dtails/en-XX/{expert_dataset.csv, XX.words, train_dataset.csv}``. The last two are
  optional.
"""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase
from typing import NamedTuple, NoReturn

from pytest_llmprops.core.benchmark import DataFiles
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.items import CONTROL_MARK, Item, grouped
from pytest_llmprops.core.strict_json import short

SELECT, TRANSLATE = "select", "translate"
#: The paper's languages: Afrikaans, Armenian, Farsi, Galician, Hindi, Japanese, Latvian, Tamil, Telugu
LANGUAGES = ("af", "hy", "fa", "gl", "hi", "ja", "lv", "ta", "te")
_ID_MARK = {"published": "p", "generated": "g"}
SENTENCE, TARGET = "source language text", "target language text"
COLUMNS = ("concept", SENTENCE, TARGET, "variations", "label")


@dataclass(frozen=True, slots=True)
class Variation:
    """One word of the target language with its accepted surface forms.

    A form may contain a form of another variation (``sien`` in ``gesien``), so a search for forms in a text must take
    the longest match.
    """

    forms: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Variation:
        """Parse forms joined by ``/``, such as ``gesê/sê``. A repeated form counts once.

        :raises DataError: A form is empty.
        """
        forms = tuple(dict.fromkeys(form.strip() for form in text.split("/")))
        if not all(forms):
            raise DataError(f"variation {short(text)} has an empty form; write forms as a/b")
        return cls(forms)

    @property
    def name(self) -> str:
        """The forms joined by ``/``, as in the files."""
        return "/".join(self.forms)

    def shares(self, other: Variation) -> bool:
        """Return True if the variations have a form in common: the authors' test of a right answer."""
        return not set(self.forms).isdisjoint(other.forms)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a ``.words`` file: a concept, its part of speech (universal tag) and its variations."""

    concept: str
    pos: str
    variations: tuple[Variation, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a dataset file.

    :param number: The row's number in the file, from 1, without the header.
    :param target: A translation that uses the label; empty if no reliable translation is available.
    :param label: Index into ``variations``.
    :param pos: Part of speech; empty if it is not in a ``.words`` file.
    :param clue: Words of the sentence that decide the choice (built-in rows only).
    :param repeats: Number of the earlier row with the same concept, sentence and label; otherwise 0.
    :param id: The last two parts of the item's id, if the file has them.
    """

    number: int
    concept: str
    sentence: str
    target: str
    variations: tuple[Variation, ...]
    label: int
    pos: str = ""
    clue: tuple[str, ...] = ()
    repeats: int = 0
    id: str = ""


def parse_words(text: str, where: str) -> tuple[Entry, ...]:
    """Parse lines ``concept,POS,variation;variation``; blank lines are skipped.

    :raises DataError: A line has another shape, a concept has fewer than two variations, or a pair (concept, POS) is
        repeated.
    """
    entries: dict[tuple[str, str], Entry] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"{where}: line {number}"
        concept, pos, words = [*(part.strip() for part in line.split(",", 2)), "", ""][:3]
        if not concept or not pos or not words:
            raise DataError(f"{place}: {short(line)}; write concept,POS,variation;variation")
        if (concept, pos) in entries:
            raise DataError(f"{place}: {concept!r} ({pos}) is repeated; merge its variations into one line")
        entries[concept, pos] = Entry(concept, pos, _variations(words.split(";"), concept, place))
    return tuple(entries.values())


def parse_rows(
    rows: Iterable[Mapping[str, str]],
    language: str,
    source: str,
    where: str,
    words: Sequence[Entry] = (),
    *,
    training: bool = False,
) -> tuple[Row, ...]:
    """Check and return the rows of ``expert_dataset.csv``, ``train_dataset.csv`` or a built-in file.

    :param rows: Cells by column. The columns are :data:`COLUMNS`, and optionally ``clue`` (parts joined by ``;``) and
        ``id``. The ``target language text`` may be empty.
    :param source: Repeated rows are kept if the source is ``published``, because the authors' counts include them,
        and refused otherwise.
    :param words: Entries of the ``.words`` file, for the parts of speech.
    :param training: The rows are examples for rules. They may repeat for any source, because corpora repeat.
    :raises DataError: The variations are not a list of at least two different words, the label matches none or
        several of them, the concept or sentence is empty, the clue is not in the sentence, or a row is repeated.
    """
    lists: dict[tuple[str, str], tuple[Variation, ...]] = {}
    tags: dict[tuple[str, frozenset[Variation]], str] = {}
    first: dict[tuple[str, str, frozenset[str]], int] = {}
    parsed = []
    for number, cells in enumerate(rows, 1):
        place = f"{where}: row {number} ({language})"
        concept, sentence = cells["concept"].strip(), cells[SENTENCE].strip()
        if not concept:
            _fail(place, "the concept is empty", "write the English word")
        if not sentence:
            _fail(
                place, f"the {SENTENCE} of {short(concept)} is empty", "write the sentence or remove the row"
            )
        key = (concept, cells["variations"])
        if key not in lists:
            lists[key] = _variations(_list(cells["variations"], place), concept, place)
            tags[concept, frozenset(lists[key])] = _pos(concept, lists[key], words)
        variations = lists[key]
        label = _label(cells["label"], variations, place)
        mark = (concept, sentence, frozenset(variations[label].forms))
        earlier = first.setdefault(mark, number)
        if earlier != number and source != "published" and not training:
            _fail(place, f"repeats row {earlier} (same concept, sentence and label)", "remove one")
        parsed.append(
            Row(
                number,
                concept,
                sentence,
                cells[TARGET].strip(),
                variations,
                label,
                tags[concept, frozenset(variations)],
                _clue(cells.get("clue", ""), sentence, place),
                0 if earlier == number else earlier,
                cells.get("id", "").strip(),
            )
        )
    return tuple(parsed)


def _list(text: str, place: str) -> list[str]:
    """Parse a Python list literal of strings, without running code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about an unknown escape and keeps it as text.
            value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        _fail(place, f"variations {short(text)} are not a list", "write ['one', 'other/form']")
    return value


def _variations(texts: Sequence[str], concept: str, place: str) -> tuple[Variation, ...]:
    try:
        variations = tuple(Variation.parse(text) for text in texts)
    except DataError as error:
        raise DataError(f"{place}: {error}") from None
    if len(variations) < 2:
        what = f"concept {short(concept)} has {len(variations)} variation(s)"
        _fail(place, what, "write at least two, or remove the concept")
    repeated = next((v for index, v in enumerate(variations) if v in variations[:index]), None)
    if repeated is not None:
        _fail(place, f"variation {short(repeated.name)} of {short(concept)} is repeated", "remove one")
    return variations


def _label(text: str, variations: Sequence[Variation], place: str) -> int:
    """Return the index of the label; if it is not in the list, of the only variation that shares a form with it."""
    if not text.strip():
        _fail(place, "the label is empty", "write the right variation")
    try:
        label = Variation.parse(text)
    except DataError as error:
        raise DataError(f"{place}: label: {error}") from None
    if label in variations:
        return variations.index(label)
    fitting = [index for index, variation in enumerate(variations) if variation.shares(label)]
    if len(fitting) != 1:
        names = ", ".join(variation.name for variation in variations)
        what = "is not one of the variations" if not fitting else f"fits {len(fitting)} of the variations"
        _fail(place, f"label {short(text)} {what} {short(names)}", "copy one of them exactly")
    return fitting[0]


def _clue(text: str, sentence: str, place: str) -> tuple[str, ...]:
    clue = tuple(part.strip() for part in text.split(";") if part.strip())
    for part in clue:
        if not _has_words(sentence, part):
            fix = "copy words of the sentence and join them by ;"
            _fail(place, f"clue {short(part)} is not in the sentence", fix)
    return clue


def _has_words(sentence: str, part: str) -> bool:
    r"""Return True if ``part`` occurs in the sentence, not inside a longer word (``\w``)."""
    return bool(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", sentence))


def _pos(concept: str, variations: Sequence[Variation], words: Sequence[Entry]) -> str:
    """Return the tag of the entry with these variations, or of the concept's only entry; otherwise empty."""
    entries = [entry for entry in words if entry.concept == concept]
    same = [entry for entry in entries if set(entry.variations) == set(variations)]
    candidates = same or entries
    return candidates[0].pos if len(candidates) == 1 else ""


def _fail(place: str, what: str, fix: str) -> NoReturn:
    raise DataError(f"{place}: {what}; {fix}")


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
    """Return the slot of each item by its id, which balance the order of variations (appendix B.4).

    With independent shuffles, a model that ignores the order may choose one position too often, by chance and,
    because the seed fixes the orders, in every run. Therefore (see ``prompts.shown_order``):

    - Each run of an item rotates the order of the run before. After k runs, each of k variations was at each
      position once.
    - In each block of k items, the right variation begins at each position once. A block is k consecutive items with
      the same number of variations, sorted by concept and label, so the variations of a concept are balanced, too.

    Which item gets which position, and the order of the other variations, are random choices by the seed.
    """

    def label(item: Item) -> int:
        return int(item["variations"].index(item["label"]))

    groups = grouped(items, lambda item: f"{item.language}/{len(item['variations'])}")
    return {
        item.base_id: Slot(group, rank, label(item))
        for group, members in groups.items()
        for rank, item in enumerate(sorted(members, key=lambda item: (item.cluster, label(item))))
    }


class Baseline(NamedTuple):
    """The share of rows with their concept's most common label, in [0, 1], and the number of rows."""

    accuracy: float
    n: int


def frequency_baseline(rows: Iterable[tuple[Hashable, Hashable]]) -> Baseline:
    """Return the frequency baseline of one language: always choose the concept's most common variation (section 4).

    It is *in-sample*: the most common variation is counted on the rows that it is scored on, over the whole file of a
    language. It could not be known before the test.

    :param rows: (concept, label) of every row of the language's file, at least one. The concept must be unique for
        words with the same spelling but different variations, such as an item's cluster.
    """
    labels: dict[Hashable, Counter[Hashable]] = {}
    for concept, label in rows:
        labels.setdefault(concept, Counter())[label] += 1
    # Ties do not matter: equally common labels are right equally often.
    right = sum(max(counts.values()) for counts in labels.values())
    n = sum(counts.total() for counts in labels.values())
    return Baseline(right / n, n)
