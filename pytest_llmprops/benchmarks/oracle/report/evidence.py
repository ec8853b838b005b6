"""What a run record tells of the oracle-checker's cases beside their values: sentences, proofs, contradictions.

``verdicts.jsonl`` has numbers and a reason. Sentences, phrase pairs and paraphrases stand only in the prompts and
replies of ``requests.jsonl``. Where that file is missing or cut, or a prompt is not in this version's wording, those
parts are empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pytest_llmprops.benchmarks.oracle.culprits import KINDS
from pytest_llmprops.benchmarks.oracle.extraction import PROMPT
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, NO, YES
from pytest_llmprops.benchmarks.oracle.json_reply import read_answer, read_paraphrases
from pytest_llmprops.benchmarks.oracle.metrics import CATEGORIES, CONSISTENCY, OWN, PAIRS, RANDOM
from pytest_llmprops.benchmarks.oracle.paraphrase_prompts import PARAPHRASES, PHRASES, SENTENCES
from pytest_llmprops.benchmarks.oracle.paraphrase_record import PHIS, Phi, phi_of
from pytest_llmprops.benchmarks.oracle.trust import OUTCOME_CODES
from pytest_llmprops.core.records import SearchRecord, VerdictRecord

__all__ = [
    "CATEGORIES", "CONSISTENCY", "KINDS", "LINEARITY", "NO", "OUTCOME_CODES", "OWN", "PAIRS", "RANDOM", "YES",
    "CulpritTold", "FoundBySearch", "PairTold", "PhraseAnswer", "TestTold", "found_by_search", "kinds_of",
    "leftovers_of", "pair_told", "phi_of", "sentence_told",
]  # fmt: skip

Requests = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class PhraseAnswer:
    """Two phrases that were put to the model; ``said`` is None where its reply cannot be read."""

    first: str
    second: str
    said: bool | None


@dataclass(frozen=True, slots=True)
class TestTold:
    """One test of a "no": is the paraphrase of sentence ``source`` equivalent to the other one, and to its own?

    ``series``: the kinds of alignment whose paraphrases it was drawn from, of which the run decides by one.
    """

    __test__ = False  # no test case of pytest's

    paraphrase: str
    source: int
    other: bool | None
    own: bool | None
    series: tuple[Phi, ...] = PHIS

    @property
    def triangular(self) -> bool:
        """The paraphrase is said to be equivalent to both sentences, which are said not to be."""
        return bool(self.other and self.own)


@dataclass(frozen=True, slots=True)
class PairTold:
    """What the record tells of a pair. ``first`` and ``second`` are empty where it does not tell them."""

    first: str = ""
    second: str = ""
    explanation: str = ""
    phrases: tuple[PhraseAnswer, ...] = ()
    tests: tuple[TestTold, ...] = ()


@dataclass(frozen=True, slots=True)
class CulpritTold:
    """An entity that breaks linearity, of which kinds, and the counts that say so."""

    name: str
    synonym: str
    kinds: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class FoundBySearch:
    """A counterexample: x and y as the entities that they replace, ``replaced`` of ``entities`` in all."""

    replaced: int
    entities: int
    x: tuple[str, ...]
    y: tuple[str, ...]
    culprits: tuple[CulpritTold, ...]


def found_by_search(record: SearchRecord) -> FoundBySearch:
    """What a line of ``searches.jsonl`` with a counterexample tells; what it lacks is empty, or 0."""
    found = record.counterexample or {}
    culprits = tuple(
        CulpritTold(
            _text(c.get("name")), _text(c.get("synonym")), _strings(c.get("kinds")), _text(c.get("why"))
        )
        for c in _list(found.get("culprits"))
        if isinstance(c, Mapping)
    )
    replaced, entities = (
        n if isinstance(n := found.get(name), int) else 0 for name in ("replaced", "entities")
    )
    return FoundBySearch(replaced, entities, _strings(found.get("x")), _strings(found.get("y")), culprits)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(text for text in _list(value) if isinstance(text, str))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def sentence_told(record: VerdictRecord, requests: Requests) -> str:
    """The sentence of an item of ``linearity``: the first one of which the entities were asked for."""
    for messages, _, _ in _asked(record, requests):
        found = _filled(PROMPT, messages[0])
        if found is not None:
            return found[0]
    return ""


def pair_told(record: VerdictRecord, requests: Requests) -> PairTold:
    """What the logged requests tell of an item of ``yes`` or ``no``.

    :param record: a line of ``verdicts.jsonl``. :param requests: as ``runs.replies.read_requests`` gives them.
    """
    sentences: dict[tuple[str, str, int], bool | None] = {}
    phrases: dict[tuple[str, str], bool | None] = {}
    given: dict[str, tuple[str, ...]] = {}
    pair: tuple[str, str] | None = None
    explanation = ""
    # The repair of a reply stands after it, and overwrites it.
    for messages, sample, reply in _asked(record, requests):
        human = messages[1] if len(messages) > 1 else messages[0]
        two = _filled(SENTENCES, human)
        if pair is None and _made(SENTENCES, human):
            # The first question is the one on the pair, also where its two sentences cannot be told apart.
            pair = (two[0], two[1]) if two else ("", "")
        if two is not None:
            answer = read_answer(reply)
            sentences[two[0], two[1], sample] = answer.said
            if (two, sample) == (pair, 0):
                explanation = answer.explanation
        elif (two := _filled(PHRASES, human)) is not None:
            phrases[two[0], two[1]] = read_answer(reply).said
        elif (one := _filled(PARAPHRASES, human)) is not None:
            given[one[0]] = read_paraphrases(reply).texts
    pair = pair or ("", "")
    return PairTold(
        *pair,
        explanation,
        tuple(PhraseAnswer(first, second, said) for (first, second), said in phrases.items()),
        tuple(_tests(pair, sentences, given)) if all(pair) else (),
    )


def _tests(
    pair: tuple[str, str],
    sentences: Mapping[tuple[str, str, int], bool | None],
    given: Mapping[str, tuple[str, ...]],
) -> Iterator[TestTold]:
    # Of each sample both series have one test. That of "or" was finished before "and" began, which made none of its
    # own where it drew from the same paraphrases, or happened to draw the same one.
    found = [
        (sample, text, source, said, sentences[text, own, sample])
        for (text, sentence, sample), said in sentences.items()
        for source, own, other in ((1, pair[0], pair[1]), (2, pair[1], pair[0]))
        # Asked about the other sentence first, then about its own; no paraphrase of a sentence is the sentence.
        if sentence == other
        and text != own
        and text in given.get(own, ())
        and (text, own, sample) in sentences
    ]
    drawn: dict[int, dict[str, None]] = {}
    for sample, text, *_ in found:
        drawn.setdefault(sample, {})[text] = None
    for sample, text, source, other_said, own_said in found:
        texts = list(drawn[sample])
        series = PHIS if len(texts) == 1 else PHIS[:1] if text == texts[0] else PHIS[1:]
        yield TestTold(text, source, other_said, own_said, series)


def leftovers_of(record: VerdictRecord) -> str:
    """The words that an alignment left over (table 12), from the reason; empty where it names none."""
    _, found, rest = str(record["reason"]).partition("left over: ")
    return rest if found else ""


def kinds_of(record: VerdictRecord) -> tuple[str, ...]:
    """The kinds of the entities that broke linearity, from the reason; each once."""
    named = re.findall(r'" \(([a-z, -]+)\)', str(record["reason"]))
    found = {kind for text in named for kind in text.split(", ")}
    return tuple(kind for kind in KINDS if kind in found)


def _asked(record: VerdictRecord, requests: Requests) -> Iterator[tuple[tuple[str, ...], int, str]]:
    """Turns, sample and reply of every question to the model under test, the repairs last."""
    rows = [requests[key] for key in record["requests"] if key in requests]
    found = [_row(row) for row in rows if row.get("role") == "subject"]
    yield from sorted((row for row in found if row[0]), key=lambda row: len(row[0]))


def _row(row: Mapping[str, Any]) -> tuple[tuple[str, ...], int, str]:
    request, reply = row.get("request"), row.get("reply")
    request = request if isinstance(request, Mapping) else {}
    sample = request.get("sample")
    return (
        tuple(_text(text) for _, text in request.get("messages") or ()),
        sample if isinstance(sample, int) else 0,
        _text(reply.get("text")) if isinstance(reply, Mapping) else "",
    )


def _filled(template: str, text: str) -> tuple[str, ...] | None:
    """What stands in the places of a template; None where ``text`` is not made from it, or in more than one way."""
    shortest, longest = (pattern.fullmatch(text) for pattern in _patterns(template))
    # Where a piece of the template stands in a sentence too, the first place is longer by the last pattern.
    if shortest is None or longest is None or shortest.groups() != longest.groups():
        return None
    return shortest.groups()


def _made(template: str, text: str) -> bool:
    """Whether ``text`` is made from a template, in whichever way."""
    return _patterns(template)[0].fullmatch(text) is not None


@cache
def _patterns(template: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A template with places that take as little as they can, from the first on, and as much as they can."""
    pieces = [re.escape(piece) for piece in re.split(r"\{[a-z0-9-]+\}", template)]
    shortest, longest = (re.compile(place.join(pieces), re.DOTALL) for place in ("(.*?)", "(.*)"))
    return shortest, longest
