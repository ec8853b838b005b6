"""The linearity checker for entity extraction (Zeng, Wang & Ibbetson, sections 3 and 5.1, appendix A).

Outcomes of :class:`LinearityChecker`:

=============  ======================================================================================================
accepted       every test passed, or the answer has no entities and there is nothing to test (``no_entities``)
rejected       a test failed; a changed sentence without a readable reply fails its tests
unmeasurable   the answer has entities, but none or more than 12 of them can be tested: a limit of the measurement
unparsed       no reply about the original sentence could be read as a list
refused        a content filter withheld every reply about the original sentence, or, for each failed test, every
               reply about one of its changed sentences
=============  ======================================================================================================

``Acceptance.values`` (counts, unless noted otherwise):

======================  ============================================================================================
accepted                1 or 0
no_entities             1 if the answer is empty: accepted trivially, counted separately
unmeasurable            1 if the outcome is ``unmeasurable``
linear_not_faithful     1 if it is accepted although f is not the complement on some tested sentence
entities                entities of the answer, #E
tested                  those in the vectors, m
named                   tested entities that are named
not_literal             not in the sentence as the model writes them; left out of the vectors
contained               only inside longer entities; left out
no_synonym              without a valid replacement; left out
con_o                   samples of the original sentence with the answer
con_o_2, con_o_3 ...    the sizes of the other groups of equal answers, largest first (figure 10)
con_rs                  the lowest such number over the tested sentences
samples                 samples of each sentence
unread                  replies that were not a list, cut off or filtered, for the original and the tested sentences
tests, tests_passed     by the decision rule; ``tests_passed`` is A_test
combinations            combinations of samples over all tests: tests x samples^3, including unread replies
combinations_passed     those that pass; unread replies never do. A_rate is the quotient
changed                 different x other than 0 among the tests' x, y and x XOR y: the changed sentences
identity                those whose vector is the complement of x; identity_rate is the quotient
sentences               changed sentences whose replies could be read
lost, both, extra       over those: entities in neither form, entities in both forms, names that are not entities
paraphrase_missed       tested x for which no paraphrase kept the entities
labelled                labelled entities, if the sentence has labels
labelled_extracted      those in the answer
======================  ============================================================================================

``identity``, ``lost``, ``both`` and ``extra`` are about the deciding answer: the first sample's set under ``single``,
otherwise the most frequent set.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_llmprops.benchmarks.oracle.culprits import culprits, explanation
from pytest_llmprops.benchmarks.oracle.entities import MOST_ENTITIES, Entity, locate
from pytest_llmprops.benchmarks.oracle.extraction import (
    Extracted,
    Names,
    Samples,
    most_frequent,
    normalised,
)
from pytest_llmprops.benchmarks.oracle.linear_tests import (
    OneTest,
    Replies,
    Rule,
    Subject,
    deciding_set,
    extract,
    run_tests,
)
from pytest_llmprops.benchmarks.oracle.linearity_evidence import (
    CulpritEvidence,
    SentenceEvidence,
    entity_evidence,
    test_evidence,
)
from pytest_llmprops.benchmarks.oracle.linearity_settings import (
    PAPER,
    QUICK,
    LinearitySettings,
    bound_of,
)
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle, fill
from pytest_llmprops.benchmarks.oracle.synonym_rules import Pool, SynonymRules
from pytest_llmprops.benchmarks.oracle.synonyms import Generator, Synonym
from pytest_llmprops.core.linearity import complement, draws

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

        :param rng: seeds the pool and the tests separately, so that the tests do not depend on the entities. The x and
            y of each test are drawn uniformly and with replacement.
        :raises BackendError: if a call could not be made.
        """
        pool_seed, test_seed = rng.getrandbits(64), rng.getrandbits(64)
        prepared = await self.prepare(x, oracle, pool_seed)
        if prepared.original.planned:
            prepared = await self._plan(prepared, oracle)
        elif prepared.stopped is not None:
            return prepared.stopped
        replies = self.replies(prepared, oracle)
        pairs = draws(random.Random(test_seed), prepared.subject.m, self.settings.tests)
        by_rule, by_any = await run_tests(pairs, replies, self.settings.rule)
        tested = dict.fromkeys(z for a, b in pairs for z in (a, b, a ^ b))
        samples = {z: await replies.of(z) for z in tested}
        return self._decide(prepared, replies, by_rule, by_any, samples)

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
        values = self._counts(sentence, original, answer, names, con_o, subject)
        evidence = SentenceEvidence(sentence.text, entity_evidence(answer, chosen))
        prepared = Prepared(subject, original, None, values, evidence)
        return replace(prepared, stopped=_nothing_to_test(prepared, len(candidates)))

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
        await asyncio.gather(*(oracle(prompt, sample=k) for k in range(self.settings.synonym_votes)))
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

    def _counts(
        self,
        sentence: Sentence,
        original: Samples,
        answer: Sequence[Entity],
        names: Names,
        con_o: int,
        subject: Subject,
    ) -> dict[str, float]:
        states = [entity.state for entity in answer]
        counts: dict[str, Any] = {
            "entities": len(answer),
            "tested": subject.m,
            "named": sum(bool(entity.named) for entity in subject.tested),
            "not_literal": states.count("not_literal"),
            "contained": states.count("contained"),
            "no_synonym": states.count("tested") - subject.m
            if states.count("tested") <= MOST_ENTITIES
            else 0,
            "con_o": con_o,
            "samples": len(original.readings),
            "unread": original.unread,
        }
        sizes = sorted(Counter(original.sets).values(), reverse=True)
        counts |= {f"con_o_{place}": size for place, size in enumerate(sizes[1:], 2)}
        if sentence.labels is not None:
            labels = {normalised(label) for label in sentence.labels}
            counts |= {"labelled": len(labels), "labelled_extracted": len(labels & names)}
        return {name: float(value) for name, value in counts.items()}

    def _decide(
        self,
        prepared: Prepared,
        replies: Replies,
        by_rule: Sequence[OneTest],
        by_any: Sequence[OneTest],
        samples: Mapping[int, Samples],
    ) -> Acceptance:
        settings, subject = self.settings, prepared.subject
        accepted = all(test.passed for test in by_rule)
        answers = {
            x: names for x, s in samples.items() if (names := deciding_set(s, settings.rule)) is not None
        }
        faithful = all(_faithful(x, s, subject, settings.rule) for x, s in samples.items())
        # R(0) is the original sentence, whose entities are the answer. It has no replacements to count.
        changed = {x: names for x, names in answers.items() if x}
        counts: dict[str, Any] = {
            "accepted": accepted,
            "linear_not_faithful": accepted and not faithful,
            "con_rs": min(most_frequent(s.sets)[1] for s in samples.values()),
            "unread": prepared.values["unread"] + _unread_of(samples.values(), prepared.original),
            "tests": len(by_rule),
            "tests_passed": sum(test.passed for test in by_rule),
            "combinations": sum(test.total for test in by_any),
            "combinations_passed": sum(test.passing for test in by_any),
            "changed": sum(x != 0 for x in samples),
            "sentences": len(changed),
            "identity": sum(subject.vector(n) == complement(x, subject.m) for x, n in changed.items()),
            "lost": sum(subject.lost(names) for names in changed.values()),
            "both": sum(subject.both(names) for names in changed.values()),
            "extra": sum(len(subject.others(names)) for names in changed.values()),
            "paraphrase_missed": len(replies.missed),
        }
        values = {**prepared.values, **{name: float(value) for name, value in counts.items()}}
        evidence = replace(prepared.evidence, tests=test_evidence(by_rule, samples, subject))
        if accepted:
            why = f"{len(by_rule)} of {len(by_rule)} tests passed"
            why += "" if faithful else "; linear, not faithful"
            return Acceptance(True, "accepted", why, evidence.to_json(), bound_of(settings), values)
        failed = [test for test in by_rule if not test.passed]
        withheld = {x for x, s in samples.items() if s.refused == len(s.readings)}
        if all(withheld & {test.x, test.y, test.x ^ test.y} for test in failed):
            why = f"a content filter refused {len(withheld)} of {len(samples)} changed sentences"
            values = {**prepared.values, "accepted": 0.0, "unread": values["unread"]}
            return Acceptance(False, "refused", why, evidence.to_json(), None, values)
        breaking = culprits(by_rule, samples, subject, settings.rule, prepared.original)
        evidence = replace(evidence, culprits=tuple(map(CulpritEvidence.of, breaking)))
        return Acceptance(False, "rejected", explanation(by_rule, breaking), evidence.to_json(), None, values)


def _nothing_to_test(prepared: Prepared, candidates: int) -> Acceptance | None:
    values, evidence = dict(prepared.values), prepared.evidence.to_json()
    if not prepared.subject.answer:
        values |= {"accepted": 1.0, "no_entities": 1.0}
        return Acceptance(True, "accepted", "no entities, so nothing to test", evidence, None, values)
    if prepared.subject.m:
        return None
    if candidates > MOST_ENTITIES:
        why = f"{candidates} entities, and at most {MOST_ENTITIES} can be tested"
    elif candidates:
        why = f"none of {candidates} entities has a valid replacement"
    else:
        why = f"none of {len(prepared.subject.answer)} entities is in the sentence"
    values |= {"accepted": 0.0, "unmeasurable": 1.0}
    return Acceptance(False, "unmeasurable", why, evidence, None, values)


def _faithful(x: int, samples: Samples, subject: Subject, rule: Rule) -> bool:
    """Return whether f(x) is the complement of x under the rule: for any sample, the majority, or the first sample."""
    ideal = complement(x, subject.m)
    if rule == "any":
        return any(subject.vector(names) == ideal for names in set(samples.sets))
    names = deciding_set(samples, rule)
    return names is not None and subject.vector(names) == ideal


def _unread_of(samples: Iterable[Samples], original: Samples) -> int:
    """Count the unread replies about different sentences, without the original."""
    return sum(s.unread for text, s in {s.text: s for s in samples}.items() if text != original.text)
