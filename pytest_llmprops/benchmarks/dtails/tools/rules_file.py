"""Make a rules file: collect concepts and sentences, ask a model, write the file (Barua et al., section 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from pytest_llmprops.benchmarks.dtails.context import concept_sentences
from pytest_llmprops.benchmarks.dtails.items import expert_rows, languages, train_rows, words
from pytest_llmprops.benchmarks.dtails.prompts import Variations
from pytest_llmprops.benchmarks.dtails.rows import Entry, Row
from pytest_llmprops.benchmarks.dtails.rule_making import (
    RulesOutcome,
    choose_sentences,
    corpus_rows,
    make_rules,
)
from pytest_llmprops.benchmarks.dtails.rules import RulesFile
from pytest_llmprops.core.benchmark import DataFiles
from pytest_llmprops.core.errors import BackendError, DataError, UsageError
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.data.whole_files import write_text

Pairs = Callable[[], Iterable[tuple[str, str]]]


class AskableModel(Protocol):
    """A model that answers requests inside ``async with``, such as ``engine.asking.OneModel``."""

    label: str

    async def __aenter__(self) -> AskableModel: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    async def __call__(self, request: Request, role: str = "subject") -> Reply: ...


@dataclass(frozen=True, slots=True)
class Concept:
    """A concept that needs rules, and the sentences for its prompt by variation name."""

    name: str
    pos: str
    variations: Variations
    sentences: Mapping[str, Sequence[str]]


def concepts_of(
    files: DataFiles, language: str, *, every: bool = False, corpus: Pairs | None = None
) -> list[Concept]:
    """Return the concepts of a language's test rows, with sentences from its train rows or a parallel corpus.

    The language's test sentences are left out.

    :param every: Include concepts of the ``.words`` file without a test row.
    :param corpus: Returns (English, translation) pairs from the start at each call; used instead of train rows.
    :raises UsageError: The data has other languages only. :raises DataError: A file is invalid.
    """
    codes = languages(files)
    if codes and language not in codes:
        raise UsageError(f"--lang {language}: no rows in this language; the data has {', '.join(codes)}")
    test = expert_rows(files, language)
    test_sentences = [row.sentence for row in test]
    by_key: dict[tuple[str, frozenset[object]], tuple[str, str, Variations]] = {}
    entries: list[Row | Entry] = [*test, *(words(files, language) if every else ())]
    for entry in entries:
        key = (entry.concept, frozenset(entry.variations))
        by_key.setdefault(key, (entry.concept, entry.pos, tuple(v.forms for v in entry.variations)))
    concepts = list(by_key.values())
    names = [(name, variations) for name, _, variations in concepts]
    if corpus is None:
        sentences = concept_sentences(train_rows(files, language), names, test_sentences)
    else:
        rows_by_concept = zip(corpus_rows(corpus(), names), names, strict=True)
        sentences = [choose_sentences(rows, forms, test_sentences) for rows, (_, forms) in rows_by_concept]
    return [Concept(*concept, examples) for concept, examples in zip(concepts, sentences, strict=True)]


def write_rules(
    model: AskableModel,
    concepts: Sequence[Concept],
    language: str,
    *,
    temperature: float,
    max_tokens: int,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[RulesFile, list[tuple[str, str]]]:
    """Have ``model`` write the rules of all concepts concurrently.

    :param progress: Called with the number of finished concepts after each one.
    :return: The rules that could be read, in the order of ``concepts``, and (concept, problem) of the others.
    :raises RunStopped: No call can succeed.
    """
    limits: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
    done = 0

    async def one(ask: AskableModel, c: Concept) -> RulesOutcome:
        nonlocal done
        try:
            outcome = await make_rules(ask, c.name, c.pos, c.variations, language, c.sentences, **limits)
        except BackendError as error:
            outcome = RulesOutcome(None, error.message)
        done += 1
        progress(done)
        return outcome

    async def every() -> list[RulesOutcome]:
        async with model as ask:
            return await asyncio.gather(*(one(ask, concept) for concept in concepts))

    outcomes = asyncio.run(every())
    rules = tuple(outcome.rules for outcome in outcomes if outcome.rules is not None)
    failures = [(c.name, o.problem) for c, o in zip(concepts, outcomes, strict=True) if o.rules is None]
    return RulesFile(language, model.label, rules), failures


def save_rules(file: RulesFile, path: Path) -> None:
    """Write a rules file atomically. :raises DataError: The file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, file.to_json(), sync=True)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror or error}); choose another --out"
        ) from None
