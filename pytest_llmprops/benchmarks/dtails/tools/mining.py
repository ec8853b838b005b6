"""Extract concepts and a test set from a parallel corpus (Barua et al., section 2.1, appendices A.2 and B.1).

:func:`extract` analyses and aligns the corpus, counts translations and filters them, drops variations of other word
senses, selects the test set, and writes the authors' files, which the suite and ``llmprops lab dtails rules`` read.
Memory grows with the number of different words and of rows.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pytest_llmprops.benchmarks.dtails.items import COLUMNS
from pytest_llmprops.benchmarks.dtails.rules import sentence_key
from pytest_llmprops.benchmarks.dtails.tools.alignment import Encoder, joined, overlapping
from pytest_llmprops.benchmarks.dtails.tools.concepts import (
    CONTENT_TAGS,
    Concept,
    Lexeme,
    Word,
    counted_links,
    find_concepts,
    key,
    of_main_sense,
    surface_forms,
)
from pytest_llmprops.benchmarks.dtails.tools.corpus import Parts, Progress
from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError
from pytest_llmprops.core.items import grouped
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import generated_before
from pytest_llmprops.data.whole_files import replacing, write_text

#: WordNet's letter, by universal tag.
_PARTS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
#: Words on each side of a word that the encoder reads, and the longest text of a gloss in characters.
_AROUND, _LONGEST = 30, 1500
#: Weight of the logarithm of a sense's rank. Without it, fewer senses are right than by always taking the first. It was
#: chosen on half of the words of Raganato et al. (2017).
_RARER = 0.05
#: The words of a sentence, and the index of one of them.
Place = tuple[Sequence[Word], int]


class GlossSenses:
    """The sense whose gloss is nearest to the word in its sentence.

    The vector of a word is the mean of its tokens' vectors in a window of the sentence. The vector of a sense is the
    mean over the text of its lemma, synonyms, gloss and examples. Their cosine is reduced by :data:`_RARER` times the
    logarithm of the sense's rank in WordNet, because later senses are rarer. The paper disambiguates with EWISER, a
    trained model; docs/research.md has the measured accuracies. NLTK reads WordNet's dictionary files (wndb(5WN)) from
    Debian's wordnet-base or its own data.

    :param folder: WordNet's dictionary files. :raises DataError: They are damaged.
    :raises MissingExtra: NLTK is not installed.
    """

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        self._folder, self._encoder = folder, encoder
        self._files: list[Any] = []
        self._reader = self._open()
        self._glosses: dict[tuple[str, Any], Any] = {}
        self.identity = {"bytes": (folder / "data.noun").stat().st_size, "encoder": encoder.identity}

    def close(self) -> None:
        for file in self._files:
            file.close()

    def synsets(self, word: Word) -> list[Any]:
        """Return the synsets with the word's lemma, in WordNet's order; NLTK's ``synsets`` also has other lemmas."""
        if word.tag not in _PARTS:
            return []
        lemmas = self._reader.lemmas(_lemma(word), _PARTS[word.tag])
        return list(dict.fromkeys(each.synset() for each in lemmas))

    def numbers(self, places: Sequence[Place]) -> list[int | None]:
        """Return the number of the best sense at each place, from 0; None without a sense."""
        import numpy as np

        synsets = [self.synsets(words[index]) for words, index in places]
        best: list[int | None] = [0 if own else None for own in synsets]
        several = [n for n, own in enumerate(synsets) if len(own) > 1]
        lemmas = {n: _lemma(places[n][0][places[n][1]]) for n in several}
        texts = {(lemmas[n], each): _gloss(lemmas[n], each) for n in several for each in synsets[n]}
        new = [name for name in texts if name not in self._glosses]
        for name, tokens in zip(new, self._encoder.tokens([texts[name] for name in new]), strict=True):
            self._glosses[name] = None if tokens is None else _unit(tokens[1].mean(axis=0))
        windows = []
        for n in several:
            words, index = places[n]
            start = max(0, index - _AROUND)
            text, spans = joined([word.text for word in words[start : index + _AROUND + 1]])
            windows.append((text, spans[index - start]))
        contexts = self._encoder.tokens([text for text, _ in windows])
        for n, (_, span), tokens in zip(several, windows, contexts, strict=True):
            glosses = [self._glosses[lemmas[n], each] for each in synsets[n]]
            own = [] if tokens is None else overlapping(tokens[0], span)
            if tokens is not None and own and all(gloss is not None for gloss in glosses):
                near = np.array(glosses) @ _unit(tokens[1][own].mean(axis=0))
                best[n] = int(np.argmax(near - _RARER * np.log(np.arange(1, len(glosses) + 1))))
        return best

    def _open(self) -> Any:
        try:
            import nltk
            from nltk.corpus.reader.wordnet import WordNetCorpusReader
        except ImportError:
            raise MissingExtra("--senses", package="nltk", extra="research") from None
        files = self._files

        class Reader(WordNetCorpusReader):  # type: ignore[misc]  # NLTK has no types
            def open(self, file: str) -> Any:
                # Debian does not package the names of the lexicographer files. They are not used here.
                if file == "lexnames":
                    return io.StringIO("".join(f"{number:02} {number} 0\n" for number in range(45)))
                files.append(super().open(file))
                return files[-1]

            def map_wn(self, version: str = "wordnet") -> None:
                """Skip the mapping to other versions, which needs a WordNet in NLTK's data."""

        if str(self._folder) not in nltk.data.path:
            nltk.data.path.append(str(self._folder))  # NLTK reads only files below these folders.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NLTK warns that other languages are missing.
                return Reader(str(self._folder), None)
        except (AssertionError, AttributeError, LookupError, OSError, StopIteration, ValueError):
            self.close()
            raise DataError(f"{self._folder}: not WordNet's files, or damaged; get them again") from None


def find_wordnet() -> Path | None:
    """Return a folder of WordNet's files: ``WNSEARCHDIR``, NLTK's data or Debian's; None without NLTK or files."""
    try:
        from nltk.data import path as roots
    except ImportError:
        return None
    places = [
        os.environ.get("WNSEARCHDIR", ""),
        *(f"{root}/corpora/wordnet" for root in roots),
        "/usr/share/wordnet",
    ]
    return next((Path(place) for place in places if place and (Path(place) / "data.noun").is_file()), None)


def _lemma(word: Word) -> str:
    return (word.lemma or word.text).lower().replace(" ", "_")


def _gloss(lemma: str, synset: Any) -> str:
    names = dict.fromkeys([lemma, *map(str.lower, synset.lemma_names())])
    text = "; ".join([synset.definition(), *synset.examples()])
    return f"{', '.join(names).replace('_', ' ')}: {text}"[:_LONGEST]


def _unit(vector: Any) -> Any:
    length = float((vector @ vector) ** 0.5)
    return vector / length if length else vector


#: Number of occurrences whose senses are decided together.
_TOGETHER = 256
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Settings:
    """The conditions for a concept (appendix B.1) and the size of the test set (appendix A.2).

    :param tags: Universal tags of the source words. :param min_count: Minimum number of links of a variation.
    :param min_entropy: Of a concept, in nats. :param forms: Maximum written forms of a variation, with its lemma.
    :param concepts: Maximum number of concepts in the test set. :param per_concept: Sentence pairs of each.
    :param uniform: Maximum difference of a variation's share from ``1 / k`` for k variations. Applied only if a
        language has more than ``concepts`` concepts.
    """

    tags: tuple[str, ...] = CONTENT_TAGS
    min_count: int = 50
    min_entropy: float = 0.69
    forms: int = 6
    concepts: int = 20
    per_concept: int = 10
    uniform: float = 0.20
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"min_count": 1, "min_entropy": 0, "forms": 1, "concepts": 1, "per_concept": 2, "uniform": 0}
        for name, number in least.items():
            if not getattr(self, name) >= number:
                raise UsageError(f"{name}={getattr(self, name)}: it must be at least {number}")


class Row(NamedTuple):
    """A sentence pair with one variation of a concept.

    :param form: The variation in the translation; its lemma's spelling is ``spelling``.
    :param sentence: Equal for sentences that differ in case, spacing and punctuation only.
    :param sense: Number of the source word's sense; None if unknown.
    """

    line: int
    lemma: str
    form: str
    spelling: str
    sentence: int
    sense: int | None = None


@dataclass(slots=True)
class Mined:
    """A concept with its rows, in corpus order; ``forms`` are the written forms of each variation that is kept."""

    concept: Concept
    rows: list[Row] = field(default_factory=list)
    forms: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """The variations as files write them, by lemma."""
        return {lemma: "/".join(forms) for lemma, forms in self.forms.items()}

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows of each variation."""
        counts = Counter(row.lemma for row in self.rows)
        return {lemma: counts[lemma] for lemma in self.forms}

    def keep_main_sense(self, most: int) -> bool:
        """Drop variations of other senses; return True if at least two variations are left, all with rows."""
        senses: dict[str, Counter[int]] = {lemma: Counter() for lemma in self.concept.counts}
        words: dict[str, Counter[str]] = {lemma: Counter() for lemma in self.concept.counts}
        spellings: dict[str, Counter[str]] = {lemma: Counter() for lemma in self.concept.counts}
        for row in self.rows:
            words[row.lemma][row.form] += 1
            spellings[row.lemma][row.spelling] += 1
            senses[row.lemma].update([] if row.sense is None else [row.sense])
        kept = [lemma for lemma in of_main_sense(senses) if words[lemma]]
        self.rows = [row for row in self.rows if row.lemma in kept]
        self.forms = surface_forms({lemma: (spellings[lemma], words[lemma]) for lemma in kept}, most)
        return len(kept) > 1

    def eligible(self) -> list[Row]:
        """Return the rows that can be in the test set.

        The translation has a listed form, which a model's translation can match. Of equal sentences, the first one is
        taken, if all have the same variation.
        """
        labels: dict[int, set[str]] = {}
        for row in self.rows:
            labels.setdefault(row.sentence, set()).add(row.lemma)
        listed = {lemma: {form.casefold() for form in forms} for lemma, forms in self.forms.items()}
        first: dict[int, Row] = {}
        for row in self.rows:
            if row.form.casefold() in listed[row.lemma] and len(labels[row.sentence]) == 1:
                first.setdefault(row.sentence, row)
        return list(first.values())


def check_target(language: str, out: Path) -> None:
    """Check the language and the output folder.

    :raises UsageError: The code does not have two letters, or is English; or the folder has data from another source.
    """
    if not re.fullmatch("[a-z]{2}", language) or language == "en":
        raise UsageError(f"--lang {language}: use the target language's code of two lowercase letters, as af")
    generated_before(out / "dtails")


def extract(
    parts: Parts,
    language: str,
    out: Path,
    settings: Settings,
    *,
    senses: GlossSenses | None = None,
    notes: Sequence[str] = (),
    progress: Progress = lambda done, total: None,
) -> tuple[list[Path], dict[str, Any]]:
    """Extract concepts and write them below ``out``; return the files, and the language's part of ``SOURCE.json``.

    :param senses: None keeps variations of all senses. :param notes: Limitations of the result.
    :raises UsageError: A parser or the encoder cannot run, or no concept is left.
    :raises DataError: A part is damaged.
    """
    parts.analyse(progress)
    counts = _count(parts, settings)
    concepts = find_concepts(counts, settings.min_count, settings.min_entropy)
    several = sum(sum(n >= settings.min_count for n in linked.values()) > 1 for linked in counts.values())
    mined = [m for m in _collect(parts, concepts, settings, senses) if m.keep_main_sense(settings.forms)]
    numbers = {"words": len(counts), "several": several, "entropy": len(concepts), "one_sense": len(mined)}
    if not mined:
        raise UsageError(
            f"no concept: of {len(counts):,} source words, {several:,} have two translations that are each aligned"
            f" {settings.min_count} times, {len(concepts):,} of them an entropy of {settings.min_entropy}, and none has"
            " two of the same sense; use more text, a lower min_count or min_entropy (--set), or --senses none"
        )
    facts: dict[str, Any] = {
        **parts.facts,
        "senses": senses.identity if senses is not None else "off",
        "settings": asdict(settings),
        "statistics": numbers,
        "concepts": [
            {**asdict(m.concept), "rows": {m.names[lemma]: n for lemma, n in m.counts.items()}} for m in mined
        ],
        "notes": list(notes),
    }
    return _write(out, language, parts, mined, select(mined, settings, language), facts)


def _count(parts: Parts, settings: Settings) -> dict[Lexeme, Counter[str]]:
    """Return the number of links of each lexeme to each target lemma. :raises UsageError: No link counts."""
    counts: dict[Lexeme, Counter[str]] = {}
    links = 0
    for pair in parts.read():
        links += len(pair.links)
        for lexeme, _, j in counted_links(pair.source, pair.target, pair.links, settings.tags):
            counts.setdefault(lexeme, Counter())[key(pair.target[j])] += 1
    if not counts:
        raise UsageError(
            f"no words to count: {links:,} links in {parts.size:,} pairs, none of a source word with the tag"
            f" {', '.join(settings.tags)}; check the corpus, the parsers and --set tags"
        )
    # Sorted, so that the result does not depend on the order of the corpus.
    return {lexeme: counts[lexeme] for lexeme in sorted(counts)}


def _collect(
    parts: Parts, concepts: Sequence[Concept], settings: Settings, senses: GlossSenses | None
) -> Iterable[Mined]:
    """Return the concepts with their rows.

    A pair with two variations of a concept is not a row of it, because it is unknown which variation is right.
    """
    mined = {concept.lexeme: Mined(concept) for concept in concepts}
    waiting: list[tuple[Place, Mined, Row]] = []

    def add_rows() -> None:
        places = [place for place, _, _ in waiting]
        numbers = [None] * len(places) if senses is None else senses.numbers(places)
        for (_, item, row), number in zip(waiting, numbers, strict=True):
            item.rows.append(row._replace(sense=number))
        waiting.clear()

    for pair in parts.read() if mined else ():
        variations: dict[Lexeme, dict[str, tuple[Place, Mined, Row]]] = {}
        sentence = hash(sentence_key(pair.pair.source))
        for lexeme, i, j in counted_links(pair.source, pair.target, pair.links, settings.tags):
            word, lemma = pair.target[j], key(pair.target[j])
            if lexeme in mined and lemma in mined[lexeme].concept.counts:
                row = Row(pair.pair.line, lemma, word.text, word.lemma or word.text, sentence)
                variations.setdefault(lexeme, {})[lemma] = ((pair.source, i), mined[lexeme], row)
        waiting += [row for own in variations.values() if len(own) == 1 for row in own.values()]
        if len(waiting) >= _TOGETHER:
            add_rows()
    add_rows()
    return mined.values()


def select(mined: Sequence[Mined], settings: Settings, language: str) -> list[tuple[Mined, list[Row]]]:
    """Return the concepts of the test set with their rows (appendix A.2).

    If a language has more than 20 concepts, 20 are drawn from those whose variations are roughly equally frequent. Each
    gets 10 pairs: first one of each variation, then others of all variations.
    """
    eligible = {item.concept.lexeme: item.eligible() for item in mined}
    usable = [m for m in mined if {row.lemma for row in eligible[m.concept.lexeme]} == set(m.forms)]
    if len(usable) > settings.concepts:
        usable = [m for m in usable if is_roughly_uniform(list(m.counts.values()), settings.uniform)]
    if len(usable) > settings.concepts:
        random = generator(settings.seed, "dtails concepts", language)
        drawn = set(random.sample(sorted(m.concept.lexeme for m in usable), settings.concepts))
        usable = [m for m in usable if m.concept.lexeme in drawn]
    return [(m, draw(eligible[m.concept.lexeme], settings, language, *m.concept.lexeme)) for m in usable]


def is_roughly_uniform(counts: Sequence[int], uniform: float) -> bool:
    """Return True if every variation's share differs from ``1 / len(counts)`` by at most ``uniform``."""
    return all(abs(n / sum(counts) - 1 / len(counts)) <= uniform + _ROUNDING for n in counts)


def draw(rows: Sequence[Row], settings: Settings, *name: str) -> list[Row]:
    """Return the rows of one concept in the test set; all rows if there are not enough.

    :param name: The language and concept, for an independent draw per concept.
    """
    random = generator(settings.seed, "dtails pairs", *name)
    by_variation = grouped(sorted(rows), lambda row: row.lemma)
    chosen = {random.choice(own) for _, own in sorted(by_variation.items())}
    others = [row for row in sorted(rows) if row not in chosen]
    more = min(max(0, settings.per_concept - len(chosen)), len(others))
    return sorted(chosen | set(random.sample(others, more)))


def _write(
    out: Path,
    language: str,
    parts: Parts,
    mined: Sequence[Mined],
    test: Sequence[tuple[Mined, Sequence[Row]]],
    facts: dict[str, Any],
) -> tuple[list[Path], dict[str, Any]]:
    root = out / "dtails"
    before = generated_before(root).get("languages", {})
    folder = root / f"en-{language}"
    folder.mkdir(parents=True, exist_ok=True)
    names = [sorted(item.names.values()) for item in mined]
    chosen = {item.concept.lexeme: set(rows) for item, rows in test}
    asked = {row.sentence for rows in chosen.values() for row in rows}
    by_line: dict[int, list[tuple[int, Row]]] = {}
    for number, item in enumerate(mined):
        for row in item.rows:
            if row.sentence not in asked or row in chosen.get(item.concept.lexeme, ()):
                by_line.setdefault(row.line, []).append((number, row))
    tests = sum(map(len, chosen.values()))
    train = sum(map(len, by_line.values())) - tests
    facts["rows"] = {"test": tests, "train": train, "test_concepts": len(chosen)}
    # Written first: it marks the folder as generated, so that a run after an interruption may write it again.
    languages = before | {language: facts}
    data = {"source": "generated", "languages": dict(sorted(languages.items()))}
    texts = {root / "SOURCE.json": json.dumps(data, ensure_ascii=False, indent=2) + "\n"}
    lines = [
        f"{m.concept.lemma},{m.concept.tag},{';'.join(own)}\n" for m, own in zip(mined, names, strict=True)
    ]
    texts[folder / f"{language}.words"] = "".join(lines)
    for path, text in texts.items():
        write_text(path, text)
    expert: list[tuple[int, tuple[str, ...]]] = []
    train_path, expert_path = folder / "train_dataset.csv", folder / "expert_dataset.csv"
    with replacing(train_path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for pair in parts.read():
            for number, row in by_line.get(pair.pair.line, ()):
                item = mined[number]
                # The authors write a list as a Python literal with escapes.
                labels = (repr(names[number]), item.names[row.lemma])
                cells = (item.concept.lemma, pair.pair.source, pair.pair.target, *labels)
                if row in chosen.get(item.concept.lexeme, ()):
                    expert.append((number, cells))
                else:
                    writer.writerow(cells)
    with replacing(expert_path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        rows = [cells for _, cells in sorted(expert, key=lambda row: row[0])]
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    for path, count in ((expert_path, tests), (train_path, train)):
        if not count:
            path.unlink()  # The suite refuses a file without rows.
    return [path for path in (*texts, expert_path, train_path) if path.exists()], facts
