"""The linearity checker for entity extraction (Zeng, Wang & Ibbetson, sections 3 and 5.1, appendix A).

Outcomes of :class:`LinearityChecker`:

=============  ======================================================================================================
accepted       every test passed, or the answer is that there are no entities and the labels say so, too
rejected       a test failed; a changed sentence without a readable reply fails its tests. Or the answer is that there
               are no entities, but the sentence has labelled ones, or words that are names by how they are written
untested       the answer is that there are no entities, and neither labels nor the sentence tell if that is right
unmeasurable   the answer has entities, but none or more than 12 of them can be tested, or one where an informative
               test needs two: a limit of the measurement
unparsed       no reply about the original sentence could be read as a list
refused        a content filter withheld every reply about the original sentence, or, for each failed test, every
               reply about one of its changed sentences
=============  ======================================================================================================

``linear_tests`` documents ``Acceptance.values``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

from pytest_llmprops.benchmarks.oracle.dependence import OUTCOMES, culprits, explanation, losses
from pytest_llmprops.benchmarks.oracle.entities import MOST_ENTITIES, locate, written_names
from pytest_llmprops.benchmarks.oracle.extraction import PROMPT, Extracted, Samples, most_frequent
from pytest_llmprops.benchmarks.oracle.linear_tests import (
    PARAPHRASE_TRIES,
    OneTest,
    Replies,
    Subject,
    answer_values,
    covers_all,
    extract,
    measured_values,
    run_in_turn,
    run_tests,
    sentences_of,
)
from pytest_llmprops.benchmarks.oracle.linearity_evidence import (
    CulpritEvidence,
    LossEvidence,
    SentenceEvidence,
    entity_evidence,
    test_evidence,
)
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Bound, Oracle, Prompt, fill
from pytest_llmprops.benchmarks.oracle.settings import NO_POWER, OracleSettings, reached_bound
from pytest_llmprops.benchmarks.oracle.synonym_rules import Pool, SynonymRules
from pytest_llmprops.benchmarks.oracle.synonyms import Generator, Synonym
from pytest_llmprops.core.linearity import expected_vectors, needed_tests
from pytest_llmprops.core.requests import Chat, Reply

# Null extractors: how often linearity is accepted of extractors that are not, or only partly, good.
#
# They get the tests of the same sentence, with the entities and synonyms of the model's answer, in process
# and without a call. Values of a verdict, 1 accepted and 0 not, and the same with ``_faithful`` if also
# faithful:
#
# - ``null_nothing``: always answers that there are no entities. Accepted only if the labels say so, too
# - ``null_empty``: extracts nothing from a changed sentence
# - ``null_list``: always returns the entities of the original sentence
# - ``null_drop10``, ``null_drop30``, ``null_coin``: extracts each entity that is there with probability 90%, 70%, 50%,
#   independently each time

#: value -> name in tables
NAMES = {
    "null_nothing": "extracts nothing",
    "null_empty": "nothing after a change",
    "null_list": "constant list",
    "null_drop10": "drop 10%",
    "null_drop30": "drop 30%",
    "null_coin": "coin",
}
#: returns the bits of the entities that are extracted from R(x)
Kept = Callable[[], Sequence[bool]]


async def extraction_null_values(
    subject: Subject, settings: OracleSettings, pairs: Sequence[tuple[int, int]], rng: random.Random
) -> dict[str, float]:
    """Return the values of the null extractors for the tests of a sentence.

    :param pairs: x and y of the tests, in the order in which they are run.
    """
    vectors = {z for x, y in pairs for z in (0, x, y, x ^ y)}
    prompts = {fill(PROMPT, text=subject.transformed(z).text): z for z in vectors}

    def dropping(share: float) -> Kept:
        return lambda: [rng.random() >= share for _ in range(subject.m)]

    kept: dict[str, Kept] = {
        "null_empty": lambda: [False] * subject.m,
        "null_list": lambda: [True] * subject.m,
        "null_drop10": dropping(0.1),
        "null_drop30": dropping(0.3),
        "null_coin": dropping(0.5),
    }
    run = run_tests if settings.target is None else run_in_turn
    values = {}
    for name, drawn in kept.items():
        oracle = _Extractor(subject, prompts, drawn, fixed=name == "null_list")
        by_rule, by_any = await run(pairs, Replies(subject, oracle, settings.samples), settings.rule)
        measured = measured_values(by_rule, by_any, subject, settings.rule)
        values[name] = float(measured["accepted"])
        values[f"{name}_faithful"] = float(measured["accepted"] and not measured["linear_not_faithful"])
    return values


class _Extractor(Oracle):
    """An oracle that lists the kept entities of R(x), or with ``fixed`` those of the original sentence.

    Samples take no task each: with the settings of the paper, a sentence has 825 of these replies.
    """

    __slots__ = ("_fixed", "_kept", "_prompts", "_subject")

    def __init__(self, subject: Subject, prompts: dict[str, int], kept: Kept, *, fixed: bool) -> None:
        super().__init__(self._reply)
        self._subject, self._prompts, self._kept, self._fixed = subject, prompts, kept, fixed

    async def samples(self, prompt: Prompt, numbers: Iterable[int]) -> list[Reply]:
        assert isinstance(prompt, str)
        x = 0 if self._fixed else self._prompts[prompt]
        names = [s.text if x >> i & 1 else s.entity.name for i, s in enumerate(self._subject.synonyms)]
        kept = [tuple(self._kept()) for _ in numbers]
        # Few lists differ, and making a reply takes longer than drawing its list.
        replies = {drawn: Reply(_list([*compress(names, drawn)])) for drawn in set(kept)}
        return [replies[drawn] for drawn in kept]

    async def _reply(self, chat: Chat) -> Reply:
        [reply] = await self.samples(chat.prompt, [chat.sample])
        return reply


def _list(names: Sequence[str]) -> str:
    lines = [f"{number}. entity: {name}" for number, name in enumerate(names, 1)]
    return "\n".join(lines) or "There are no entities."


#: maximum names in the reason for a wrong "no entities"
_MOST_LISTED = 3
#: entities per sentence that a plan assumes, one of them replaced by prompt 4. The paper has 3.7 on average, 76% of
#: them named (figure 6, appendix A.4)
SUPPOSED_ENTITIES = 4


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence to check.

    :param labels: names of its labelled entities, possibly none; None if it is not labelled.
    """

    text: str
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Prepared:
    """A sentence that is ready for tests, or the decision if it cannot be tested.

    :param stopped: the decision if there is nothing to test; otherwise None.
    :param values: the values that are known before any test.
    """

    subject: Subject
    original: Samples
    stopped: Acceptance | None
    values: Mapping[str, float] = field(default_factory=dict)
    evidence: SentenceEvidence = field(default_factory=SentenceEvidence)


class LinearityChecker:
    """Accepts the entities that a model extracts from a sentence if the extraction is linear in them."""

    name = "linearity"

    def __init__(self, settings: OracleSettings, rules: SynonymRules, pool: Pool) -> None:
        self.settings = settings
        self.rules = rules
        self.pool = pool

    async def check(self, x: Sentence | str, oracle: Oracle, rng: random.Random) -> Acceptance:
        """Measure one sentence. The tables of the module list outcomes and values.

        :param rng: seeds the pool and the tests separately, so that the tests do not depend on the entities. The
            pairs (x, y) of the tests are drawn uniformly: with replacement from all pairs or the informative ones, or
            without replacement if tests are run until a bound is reached.
        :raises BackendError: if a call could not be made.
        """
        pool_seed, test_seed = rng.getrandbits(64), rng.getrandbits(64)
        prepared = await self.prepare(x, oracle, pool_seed)
        if prepared.original.planned:
            prepared = await self._plan(prepared, oracle)
        elif prepared.stopped is not None:
            return prepared.stopped
        replies = self.replies(prepared, oracle)
        pairs = self.settings.pairs(random.Random(test_seed), prepared.subject.m)
        # The empty replies of a plan fail every test, and it counts the requests of an accepted sentence.
        in_turn = self.settings.target is not None and not prepared.original.planned
        by_rule, by_any = await (run_in_turn if in_turn else run_tests)(pairs, replies, self.settings.rule)
        decided = self._decide(prepared, replies, by_rule, by_any)
        if prepared.original.planned:
            return decided
        nulls = await extraction_null_values(
            prepared.subject, self.settings, pairs, random.Random(rng.getrandbits(64))
        )
        return replace(decided, values={**decided.values, **nulls})

    async def prepare(self, x: Sentence | str, oracle: Oracle, pool_seed: int) -> Prepared:
        """Ask for the answer about the sentence, locate its entities, and choose their synonyms.

        :raises BackendError: if a call could not be made.
        """
        sentence = Sentence(x) if isinstance(x, str) else x
        original = await extract(sentence.text, oracle, self.settings.samples)
        names, con_o = most_frequent(original.sets)
        if not con_o:
            return self._unread(sentence, original)
        answer = locate(original.first_with(names), sentence.text)
        candidates = [entity for entity in answer if entity.spans]
        chosen: tuple[Synonym, ...] = ()
        if len(candidates) <= MOST_ENTITIES:
            generator = Generator(
                sentence.text,
                oracle,
                self.rules,
                self.pool,
                pool_seed,
                self.settings.synonym_votes,
                self.settings.named_votes,
            )
            chosen = await generator.synonyms(answer)
        subject = Subject(sentence.text, answer, tuple(s for s in chosen if s.text))
        values = answer_values(original, con_o, names, subject, sentence.labels)
        outcome, _ = _no_entities(sentence)
        if outcome != "untested":
            values["null_nothing"] = float(outcome == "accepted")
            values["null_nothing_faithful"] = values["null_nothing"]
        evidence = SentenceEvidence(sentence.text, entity_evidence(answer, chosen), read_by=original.read_by)
        prepared = Prepared(subject, original, None, values, evidence)
        return replace(prepared, stopped=_nothing_to_test(prepared, sentence, len(candidates), self.settings))

    def replies(self, prepared: Prepared, oracle: Oracle) -> Replies:
        """Return the replies about R(x) of a prepared sentence; those about the sentence itself are known."""
        prompt = self.rules.prompts["paraphrase"] if self.settings.paraphrase else ""
        known = {prepared.subject.sentence: prepared.original}
        return Replies(prepared.subject, oracle, self.settings.samples, prompt, known)

    async def _plan(self, prepared: Prepared, oracle: Oracle) -> Prepared:
        """Ask what a typical sentence would need, for a plan without replies: its longest words are the entities."""
        text = prepared.subject.sentence
        words = sorted(set(re.findall(r"\w+", text)), key=lambda word: (-len(word), word))[:SUPPOSED_ENTITIES]
        answer = locate([Extracted(word) for word in words], text)
        prompt = fill(self.rules.prompts["synonyms"], entity=answer[0].name if answer else "", text=text)
        await oracle.samples(prompt, range(self.settings.synonym_votes))
        synonyms = (Synonym(e, f"not {e.name}", "pool", "supposed") for e in answer if e.spans)
        return replace(prepared, subject=Subject(text, answer, tuple(synonyms)), stopped=None)

    def _unread(self, sentence: Sentence, original: Samples) -> Prepared:
        refused = original.refused == len(original.readings)
        why = "a content filter refused" if refused else original.readings[0].problem
        values = {"accepted": 0.0, "samples": float(len(original.readings)), "unread": float(original.unread)}
        evidence = SentenceEvidence(sentence.text, read_by=original.read_by)
        outcome = "refused" if refused else "unparsed"
        stopped = Acceptance(False, outcome, why, evidence.to_json(), None, values)
        return Prepared(Subject(sentence.text, (), ()), original, stopped, values, evidence)

    def _decide(
        self, prepared: Prepared, replies: Replies, by_rule: Sequence[OneTest], by_any: Sequence[OneTest]
    ) -> Acceptance:
        settings, subject = self.settings, prepared.subject
        sentences = sentences_of(by_rule, settings.rule)
        accepted = all(test.passed for test in by_rule)
        values = {**prepared.values, **measured_values(by_rule, by_any, subject, settings.rule)}
        values["unread"] += sum(s.unread for _, s in sentences if s is not prepared.original)
        values["paraphrase_missed"] = float(len(replies.missed))
        # The replies about the original sentence chose its entities, so they lose fewer of them.
        lost = losses([(z, s) for z, s in sentences if s is not prepared.original], subject)
        values |= {outcome: float(sum(one.outcome == outcome for one in lost)) for outcome in OUTCOMES}
        evidence = replace(
            prepared.evidence, tests=test_evidence(by_rule), losses=LossEvidence.all_of(lost, subject)
        )
        if settings.target is not None:
            values["epsilon"], values["delta"] = settings.target
            values["known_in_full"] = float(accepted and covers_all(by_rule, subject.m))
        if accepted:
            bound = reached_bound(
                settings, subject.m, len(by_rule), is_known=bool(values.get("known_in_full"))
            )
            why = _why_accepted(values, settings, bound)
            return Acceptance(True, "accepted", why, evidence.to_json(), bound, values)
        failed = [test for test in by_rule if not test.passed]
        if all(any(map(_is_withheld, test.samples)) for test in failed):
            withheld = sum(_is_withheld(s) for _, s in sentences)
            why = f"a content filter refused {withheld} of {len(sentences)} changed sentences"
            values = {**prepared.values, "accepted": 0.0, "unread": values["unread"]}
            return Acceptance(False, "refused", why, evidence.to_json(), None, values)
        breaking = culprits(by_rule, sentences, subject, settings.rule, prepared.original, lost)
        evidence = replace(evidence, culprits=tuple(map(CulpritEvidence.of, breaking)))
        return Acceptance(False, "rejected", explanation(by_rule, breaking), evidence.to_json(), None, values)


def _nothing_to_test(
    prepared: Prepared, sentence: Sentence, candidates: int, settings: OracleSettings
) -> Acceptance | None:
    values, evidence = dict(prepared.values), prepared.evidence.to_json()
    if not prepared.subject.answer:
        outcome, why = _no_entities(sentence)
        accepted = outcome == "accepted"
        values |= {"accepted": float(accepted), "no_entities": 1.0}
        return Acceptance(accepted, outcome, why, evidence, None, values)
    too_few = prepared.subject.m == 1 and settings.draw == "informative"
    if prepared.subject.m and not too_few:
        return None
    if too_few:
        why = "one entity can be tested, and a test that can fail needs two"
        values["no_informative_test"] = 1.0
    elif candidates > MOST_ENTITIES:
        why = f"{candidates} entities, and at most {MOST_ENTITIES} can be tested"
    elif candidates:
        why = f"none of {candidates} entities has a valid replacement"
    else:
        why = f"none of {len(prepared.subject.answer)} entities is in the sentence"
    values |= {"accepted": 0.0, "unmeasurable": 1.0}
    return Acceptance(False, "unmeasurable", why, evidence, None, values)


def _no_entities(sentence: Sentence) -> tuple[str, str]:
    """Return the outcome of the answer that a sentence has no entities, and the reason."""
    if sentence.labels is not None:
        if not sentence.labels:
            return "accepted", "no entities, as labelled"
        return "rejected", f"no entities, but labelled: {_listed(sentence.labels)}"
    if names := written_names(sentence.text):
        return "rejected", f"no entities, but the sentence has {_listed(names)}"
    return "untested", "no entities, and no labels to tell if that is right"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(f'"{name}"' for name in names[:_MOST_LISTED]) + more


def _why_accepted(values: Mapping[str, float], settings: OracleSettings, bound: Bound) -> str:
    tests, informative = (int(values[name]) for name in ("tests", "informative_tests"))
    parts = [f"{tests} of {tests} tests passed"]
    if informative < tests:
        parts[0] += f", {informative} of which could fail"
    if settings.rule == "any":
        parts.append(NO_POWER)
    if settings.target is not None:
        parts.append(bound.text)
    if values["linear_not_faithful"]:
        parts.append("linear, not faithful" if values["changed"] else "no sentence was changed")
    return "; ".join(parts)


def _is_withheld(samples: Samples) -> bool:
    return samples.refused == len(samples.readings)


# What the tests of a sentence cost if they run until a bound is reached, for a plan.


def expected_calls(settings: OracleSettings, m: int) -> float:
    """Return the expected number of calls for the tests of an accepted sentence with m entities.

    A vector is asked about once. A sentence that is rejected needs fewer calls.

    :raises ValueError: if the settings have no ``epsilon`` and ``delta``.
    """
    per_vector = settings.samples + settings.paraphrase
    return expected_vectors(m, _tests(settings, m)) * per_vector


def most_calls(settings: OracleSettings, m: int) -> int:
    """Return the highest number of calls for the tests of a sentence with m entities.

    :raises ValueError: if the settings have no ``epsilon`` and ``delta``.
    """
    per_vector = settings.samples + PARAPHRASE_TRIES * settings.paraphrase
    return min(3 * _tests(settings, m), (1 << m) - 1) * per_vector


def _tests(settings: OracleSettings, m: int) -> int:
    if settings.target is None:
        raise ValueError("epsilon and delta are not set")
    return needed_tests(m, *settings.target)


def plan_remark(settings: OracleSettings, sentences: int) -> str:
    """Return the expected and the highest number of calls for the tests of ``sentences`` sentences, in one line."""
    expected = expected_calls(settings, SUPPOSED_ENTITIES)
    most = max(most_calls(settings, m) for m in range(2, MOST_ENTITIES + 1))
    return (
        f"tests of linearity take {expected:.0f} calls per accepted sentence with {SUPPOSED_ENTITIES} entities, which"
        f" the plan expects, fewer if rejected, and at most {most} with up to {MOST_ENTITIES} entities; {sentences:,}"
        f" sentences: {sentences * expected:,.0f} expected, {sentences * most:,} at most"
    )
