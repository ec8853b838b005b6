"""The linearity checker for entity extraction (Zeng, Wang & Ibbetson, sections 3 and 5.1, appendix A).

Outcomes of :class:`LinearityChecker`:

=============  ======================================================================================================
accepted       every test passed, or the answer has no entities and there is nothing to test (``no_entities``)
rejected       a test failed; a changed sentence without a readable reply fails its tests
unmeasurable   the answer has entities, but none or more than 12 of them can be tested, or one where an informative
               test needs two: a limit of the measurement
unparsed       no reply about the original sentence could be read as a list
refused        a content filter withheld every reply about the original sentence, or, for each failed test, every
               reply about one of its changed sentences
=============  ======================================================================================================

``linearity_values`` documents ``Acceptance.values``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_llmprops.benchmarks.oracle.culprits import culprits, explanation
from pytest_llmprops.benchmarks.oracle.dependence import OUTCOMES, losses
from pytest_llmprops.benchmarks.oracle.entities import MOST_ENTITIES, locate
from pytest_llmprops.benchmarks.oracle.extraction import (
    Extracted,
    Samples,
    most_frequent,
)
from pytest_llmprops.benchmarks.oracle.extraction_nulls import extraction_null_values
from pytest_llmprops.benchmarks.oracle.linear_runs import covers_all, run_in_turn, run_tests, sentences_of
from pytest_llmprops.benchmarks.oracle.linear_tests import OneTest, Replies, Subject, extract
from pytest_llmprops.benchmarks.oracle.linearity_evidence import (
    CulpritEvidence,
    LossEvidence,
    SentenceEvidence,
    entity_evidence,
    test_evidence,
)
from pytest_llmprops.benchmarks.oracle.linearity_settings import (
    NO_POWER,
    PAPER,
    QUICK,
    LinearitySettings,
    bound_of,
    reached_bound,
)
from pytest_llmprops.benchmarks.oracle.linearity_values import answer_values, measured_values
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Bound, Oracle, fill
from pytest_llmprops.benchmarks.oracle.synonym_rules import Pool, SynonymRules
from pytest_llmprops.benchmarks.oracle.synonyms import Generator, Synonym

__all__ = ["PAPER", "QUICK", "LinearityChecker", "LinearitySettings", "Prepared", "Sentence", "bound_of"]

#: entities per sentence that a plan assumes, one of them replaced by prompt 4. The paper has 3.7 on average, 76% of
#: them named (figure 6, appendix A.4)
SUPPOSED_ENTITIES = 4


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence to check.

    :param labels: names of its labelled entities; None if it has no labels.
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

    def __init__(self, settings: LinearitySettings, rules: SynonymRules, pool: Pool) -> None:
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
        evidence = SentenceEvidence(sentence.text, entity_evidence(answer, chosen))
        prepared = Prepared(subject, original, None, values, evidence)
        return replace(prepared, stopped=_nothing_to_test(prepared, len(candidates), self.settings))

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
        evidence = SentenceEvidence(sentence.text)
        outcome = "refused" if refused else "unparsed"
        stopped = Acceptance(False, outcome, why, evidence.to_json(), None, values)
        return Prepared(Subject(sentence.text, (), ()), original, stopped, values, evidence)

    def _decide(
        self,
        prepared: Prepared,
        replies: Replies,
        by_rule: Sequence[OneTest],
        by_any: Sequence[OneTest],
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


def _nothing_to_test(prepared: Prepared, candidates: int, settings: LinearitySettings) -> Acceptance | None:
    values, evidence = dict(prepared.values), prepared.evidence.to_json()
    if not prepared.subject.answer:
        values |= {"accepted": 1.0, "no_entities": 1.0}
        return Acceptance(True, "accepted", "no entities, so nothing to test", evidence, None, values)
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


def _why_accepted(values: Mapping[str, float], settings: LinearitySettings, bound: Bound) -> str:
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
