"""Making a rules file: which concepts, which sentences, a model's replies, the file (DTAiLS, section 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from pytest_llmprops.benchmarks.dtails.context import concept_sentences
from pytest_llmprops.benchmarks.dtails.items import expert_rows, languages, train_rows, words
from pytest_llmprops.benchmarks.dtails.prompts import Variations
from pytest_llmprops.benchmarks.dtails.rows import Row
from pytest_llmprops.benchmarks.dtails.rule_making import RulesOutcome, make_rules
from pytest_llmprops.benchmarks.dtails.rule_sentences import choose_sentences, corpus_rows
from pytest_llmprops.benchmarks.dtails.rules import RulesFile
from pytest_llmprops.core.benchmark import DataFiles
from pytest_llmprops.core.errors import BackendError, DataError, UsageError
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.data.whole_files import write_text

Pairs = Callable[[], Iterable[tuple[str, str]]]


class AskedModel(Protocol):
    """A model that can be asked inside ``async with``: ``engine.asking.OneModel``."""

    label: str

    async def __aenter__(self) -> AskedModel: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    async def __call__(self, request: Request, role: str = "subject") -> Reply: ...


@dataclass(frozen=True, slots=True)
class Concept:
    """What rules are wanted for, and the sentences that its prompt shows, by variation name."""

    name: str
    pos: str
    variations: Variations
    sentences: Mapping[str, Sequence[str]]


def concepts_of(
    files: DataFiles, language: str, *, every: bool = False, corpus: Pairs | None = None
) -> list[Concept]:
    """The concepts of a language's test rows, with sentences from its train rows or a parallel corpus.

    No sentence is a test sentence of the language.

    :param every: those of the ``.words`` file, too, that have no test row.
    :param corpus: gives (English, translation) pairs, each time from the start; instead of train rows.
    :raises UsageError: the language is not there, others are. :raises DataError: a file is not what it should be.
    """
    there = languages(files)
    if there and language not in there:
        raise UsageError(f"--lang {language}: no such rows; there are {', '.join(there)}")
    test = expert_rows(files, language)
    barred = [row.sentence for row in test]
    found: dict[tuple[str, frozenset[object]], tuple[str, str, Variations]] = {}
    for row in test:
        key = (row.concept, frozenset(row.variations))
        found.setdefault(key, (row.concept, row.pos, tuple(v.forms for v in row.variations)))
    for entry in words(files, language) if every else ():
        key = (entry.concept, frozenset(entry.variations))
        found.setdefault(key, (entry.concept, entry.pos, tuple(v.forms for v in entry.variations)))
    wanted = list(found.values())
    if corpus is not None:
        sentences = _from_corpus(corpus, wanted, barred)
    else:
        sentences = _from_train(train_rows(files, language), wanted, barred)
    return [Concept(*concept, those) for concept, those in zip(wanted, sentences, strict=True)]


def _from_train(
    rows: Sequence[Row], wanted: Sequence[tuple[str, str, Variations]], barred: Sequence[str]
) -> list[dict[str, tuple[str, ...]]]:
    by_concept: dict[str, list[Row]] = {}
    for row in rows:
        by_concept.setdefault(row.concept, []).append(row)
    return [
        dict(concept_sentences(by_concept.get(name, ()), name, variations, barred))
        for name, _, variations in wanted
    ]


def _from_corpus(
    corpus: Pairs, wanted: Sequence[tuple[str, str, Variations]], barred: Sequence[str]
) -> list[dict[str, tuple[str, ...]]]:
    found = corpus_rows(corpus(), [(name, variations) for name, _, variations in wanted])
    return [
        choose_sentences(rows, variations, barred)
        for rows, (_, _, variations) in zip(found, wanted, strict=True)
    ]


def write_rules(
    model: AskedModel,
    concepts: Sequence[Concept],
    language: str,
    *,
    temperature: float,
    max_tokens: int,
    told: Callable[[int], None] = lambda done: None,
) -> tuple[RulesFile, list[tuple[str, str]]]:
    """Have ``model`` write the rules of all concepts at once.

    :param told: gets the number of concepts done, whenever one is.
    :return: the rules that could be read, in the order of ``concepts``; and (concept, problem) of the others.
    :raises RunStopped: no call can succeed.
    """
    made = asyncio.run(_all(model, concepts, language, temperature, max_tokens, told))
    good = tuple(one.rules for one in made if one.rules is not None)
    bad = [(c.name, one.problem) for c, one in zip(concepts, made, strict=True) if one.rules is None]
    return RulesFile(language, model.label, good), bad


async def _all(
    model: AskedModel,
    concepts: Sequence[Concept],
    language: str,
    temperature: float,
    max_tokens: int,
    told: Callable[[int], None],
) -> list[RulesOutcome]:
    done = 0

    async def one(concept: Concept) -> RulesOutcome:
        nonlocal done
        try:
            made = await make_rules(
                ask,
                concept.name,
                concept.pos,
                concept.variations,
                language,
                concept.sentences,
                temperature=temperature,
                max_tokens=max_tokens,
            )
        except BackendError as error:
            made = RulesOutcome(None, error.message)
        done += 1
        told(done)
        return made

    async with model as ask:
        return await asyncio.gather(*map(one, concepts))


def save_rules(file: RulesFile, path: Path) -> None:
    """Write a rules file whole or not at all. :raises DataError: it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, file.to_json(), sync=True)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror or error}); choose another --out"
        ) from None
