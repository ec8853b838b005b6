"""Are two sentences equivalent? The oracle's "yes" is proved, or its "no" trusted (Zeng et al., sections 4 and 5.2).

Outcomes of :class:`EquivalenceChecker`: ``accepted-yes``, ``accepted-no`` and ``rejected``. A rejected answer is not
trusted, but never turned into its opposite. Three outcomes are no decision:

- ``unreadable``: prompt 5 got no answer, or the decision depends on a reply that cannot be read
- ``refused``: the same, if a content filter withheld the reply
- ``untested``: a yes whose sentences have no trees or vectors, or a no without a paraphrase to test

The sanity checks of section 5.2.1 ask the same question again, about the oracle's own paraphrase, and about unrelated
sentences. ``docs/record.md`` has the evidence. Tables 2 to 5 can be recomputed from the values; a key is missing if
nothing was measured. Keys with ``…`` end in ``or`` and ``and``, the kinds of alignment.

=====================================  ============================================================================
``said_yes``, ``label``                the answer to prompt 5, and the label of the pair: 1 yes, 0 no, -1 none
``repaired``                           1 if the answer to prompt 5 needed the repair
``accepted``, ``accepted_paper``       1 or 0; the same if only triangular evidence rejects a "no"
``trees_missing``                      1 if the parser or encoder failed, so that nothing is aligned
``potential_…``, ``phi_…``             1 if the sentences are aligned before the oracle is asked, and after
``undecided_…``                        1 if they are aligned only if replies that cannot be read were a yes
``asked_phrases``, ``refused_phrases``, phrase pairs that were asked about; of these, refused (including unreadable)
``unreadable_phrases``                 ones, and unreadable ones
``left_out_1``, ``left_out_2``         paraphrases too near to their sentence, or with the words of another paraphrase
``category_…``                         table 5 (``trust.CATEGORIES``); 0 if any paraphrase may be drawn
``trust_…``                            1 accepted, 2 triangular evidence, 3 inconsistent, 4 unreadable, 5 no test
``trust_paper_…``                      1 if there is no triangular evidence, so that the paper accepts; 0 also if there
                                       was no test or an answer cannot be read
``overlap_own_…``,                     word overlap of the test's paraphrase with its source, and with the other
``overlap_other_…``                    sentence
``fair_coin_…``                        1 if both sentences had paraphrases to draw, so that the bound holds
``askings``, ``answers_yes``,          sanity checks: how often the same question was asked, and the answers
``answers_no``, ``answers_unreadable``
``consistent``                         1 if they are all the same and can be read
=====================================  ============================================================================
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pytest_llmprops.benchmarks.oracle.alignment import Alignments, PhrasePair, Rho
from pytest_llmprops.benchmarks.oracle.replies import (
    Answer,
    Paraphrases,
    ask_answer,
    ask_paraphrases,
    phrases_prompt,
    sentences_prompt,
)
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Bound, Oracle
from pytest_llmprops.benchmarks.oracle.settings import PHIS, OracleSettings, Phi
from pytest_llmprops.benchmarks.oracle.trust import (
    CATEGORIES,
    PARAPHRASES,
    Candidate,
    Test,
    pool_of,
    trust_test,
    trust_values,
    usable,
)
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import READ_BY, Evidence, text_lists_in, without_empty


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences; ``label`` is True if annotators call them equivalent, None if there is no label."""

    first: str
    second: str
    label: bool | None = None


@dataclass(frozen=True)
class Proof:
    """An attempt to prove that two sentences are equivalent.

    :param potential: the alignments before the oracle was asked.
    :param confirmed: the same without the refused pairs, some of them replaced by larger phrases.
    :param answers: each pair that was asked, with the answer; empty if no potential alignment covers a sentence.
    """

    potential: Alignments
    confirmed: Alignments
    answers: Mapping[PhrasePair, Answer]

    @property
    def possible(self) -> Rho:
        """The alignments if every reply that cannot be read were a yes."""
        denied = [pair for pair, answer in self.answers.items() if answer.said is False]
        return self.potential.widened(denied).without(denied).rho

    @property
    def unread(self) -> list[Answer]:
        """The answers about phrases that cannot be read."""
        return [answer for answer in self.answers.values() if answer.said is None]

    @property
    def refused(self) -> int:
        """The number of answers that do not confirm their pair: no, or unreadable."""
        return sum(not answer.said for answer in self.answers.values())

    @property
    def evidence(self) -> dict[str, JSON]:
        """The phrase pairs of a proof (table 13), and the leftover words that prevent one (table 12)."""
        if self.potential.missing:
            return {"missing": self.potential.missing}
        pairs = dict.fromkeys((*self.answers, *self.confirmed.pairs))
        phrases: list[JSON] = [_phrase(pair, self.answers.get(pair)) for pair in pairs]
        leftovers: list[JSON] = [list(words) for words in self.confirmed.leftovers]
        return without_empty({"phrases": phrases, "leftovers": leftovers if any(leftovers) else []})

    @property
    def values(self) -> dict[str, float]:
        """Flat numbers; see the table of the module."""
        rho, possible = self.confirmed.rho, self.possible
        numbers = potential_values(self.potential) | {
            "phi_or": rho.phi_or,
            "phi_and": rho.phi_and,
            "undecided_or": possible.phi_or and not rho.phi_or,
            "undecided_and": possible.phi_and and not rho.phi_and,
            "asked_phrases": len(self.answers),
            "refused_phrases": self.refused,
            "unreadable_phrases": len(self.unread),
        }
        return {name: float(number) for name, number in numbers.items()}


def _phrase(pair: PhrasePair, answer: Answer | None) -> dict[str, JSON]:
    """Return the evidence of a phrase pair; without an answer, the phrases have the same words."""
    shown: dict[str, JSON] = {"first": pair.first, "second": pair.second}
    if answer is None:
        return shown | {"equivalent": True, "asked": False}
    why = "" if answer.said else answer.explanation or answer.notes.problem
    return shown | {"equivalent": answer.said} | ({"why": why} if why else {})


def potential_values(alignments: Alignments) -> dict[str, float]:
    """Return the values of alignments before the oracle is asked."""
    rho = alignments.rho
    return {
        "trees_missing": float(bool(alignments.missing)),
        "potential_or": float(rho.phi_or),
        "potential_and": float(rho.phi_and),
    }


def left_over(proof: Evidence) -> str:
    """Return the recorded words that no alignment covers in each sentence."""
    runs = enumerate(text_lists_in(proof, "leftovers"), 1)
    return ", ".join(f"s{number}: {{ {', '.join(words)} }}" for number, words in runs if words) or "nothing"


async def prove(alignments: Alignments, oracle: Oracle, *, ask_identical: bool = True) -> Proof:
    """Ask prompt 6 about the phrase pairs of ``alignments``, except of directions that cover no sentence.

    A refused pair is not a mapping. Words that differ alone may be equivalent in their phrase, so the larger phrases
    around refused ones are asked about once, where the alignments have any. With that, a perfect judge proves 70 of the
    84 built-in pairs; without it, 54.

    :param ask_identical: False treats two phrases with the same words as equivalent without asking.
    :raises BackendError: if a call could not be made.
    """
    answers: dict[PhrasePair, Answer] = {}

    async def refused_of(some: Alignments) -> list[PhrasePair]:
        new = [pair for pair in some.pairs if pair not in answers]
        new = [pair for pair in new if ask_identical or pair.first.casefold() != pair.second.casefold()]
        prompts = (phrases_prompt(pair.first, pair.second) for pair in new)
        replies = await asyncio.gather(*(ask_answer(oracle, prompt) for prompt in prompts))
        answers.update(zip(new, replies, strict=True))
        return [pair for pair, answer in answers.items() if not answer.said]

    wider = alignments.widened(await refused_of(alignments))
    return Proof(alignments, wider.without(await refused_of(wider)), answers)


#: returns the potential alignments of two sentences; ``Alignments.missing`` says why if the parser or encoder fails
Align = Callable[[str, str], Awaitable[Alignments]]
#: the bound of a no that is accepted as printed
AS_PRINTED = Bound("no bound: a no is rejected only if a paraphrase is called equivalent to both sentences")
#: outcome of a failed test of a no -> why it is not trusted
_DISTRUSTED = {
    "triangular": "triangular evidence, a paraphrase that is said to be equivalent to both sentences",
    "inconsistent": "self-inconsistent, it is not said to be equivalent to its own sentence only",
    "unreadable": "an answer of the test cannot be read",
}


class EquivalenceChecker:
    """Accepts a "yes" that is proved and a "no" that passes its test.

    With the setting ``phrases=all``, everything is asked as in the paper: phrases with the same words too, proofs of
    pairs that need none (the reference columns of table 3), and the phrases of paraphrases.

    :param align: returns the potential alignments of two sentences.
    :param is_random: whether any paraphrase may be drawn, as in the third sanity check; every pair has a proof attempt.
    """

    name: ClassVar[str] = "equivalence"

    def __init__(self, settings: OracleSettings, align: Align, *, is_random: bool = False) -> None:
        self.settings, self.align, self.is_random = settings, align, is_random
        self.is_printed, self.asks_all = settings.alignment == "printed", settings.phrases == "all"

    async def check(self, x: Pair, oracle: Oracle, rng: random.Random) -> Acceptance:
        """Ask prompt 5 and check the answer.

        :raises BackendError: if a call could not be made.
        """
        answer = await ask_answer(oracle, sentences_prompt(x.first, x.second))
        values = {
            "said_yes": -1.0 if answer.said is None else float(answer.said),
            "label": -1.0 if x.label is None else float(x.label),
            "repaired": float(answer.notes.repaired),
            "accepted": 0.0,
            "accepted_paper": 0.0,
        }
        evidence = without_empty(
            {
                "sentence_1": x.first,
                "sentence_2": x.second,
                "answer": answer.word,
                "explanation": answer.explanation,
                READ_BY: answer.notes.read_by,
            }
        )
        if answer.said is False:
            return await self.check_no(x, oracle, rng, values, evidence)
        if answer.said:
            return await self._yes(await self.proof(x.first, x.second, oracle), values, evidence)
        if self.asks_all or self.is_random:
            proof = await self.proof(x.first, x.second, oracle)
            values, evidence = values | proof.values, {**evidence, "proof": proof.evidence}
        outcome = "refused" if answer.notes.refused else "unreadable"
        repair = ", after one repair" if answer.notes.repaired else ""
        return Acceptance(
            False, outcome, f"no answer: {answer.notes.problem}{repair}", evidence, None, values
        )

    async def proof(self, first: str, second: str, oracle: Oracle) -> Proof:
        """Try to prove that two sentences are equivalent, whatever the oracle answered."""
        return await prove(await self.align(first, second), oracle, ask_identical=self.asks_all)

    async def _yes(self, proof: Proof, values: dict[str, float], evidence: dict[str, JSON]) -> Acceptance:
        accepted = proof.confirmed.rho.phi_or
        left = f"left over: {left_over(proof.evidence)}"
        if accepted:
            outcome, why = "accepted-yes", f"yes, proved by {len(proof.confirmed.pairs)} phrase pairs"
        elif proof.potential.missing:
            outcome, why = "untested", f"yes, but not tested: {proof.potential.missing}"
        elif proof.possible.phi_or:
            outcome = _unread(proof.unread)
            counts = f"{len(proof.unread)} of {len(proof.answers)} answers about phrases"
            why = f"yes, but not decided: {counts} cannot be read"
        elif not proof.potential.rho.phi_or:
            outcome, why = "rejected", f"yes, but the prover finds no alignment: {left}"
        else:
            refused = f"{proof.refused} of {len(proof.answers)} phrase pairs refused"
            outcome, why = "rejected", f"yes, but not proved: {left}; {refused}"
        values |= proof.values | {"accepted": float(accepted), "accepted_paper": float(accepted)}
        return Acceptance(accepted, outcome, why, {**evidence, "proof": proof.evidence}, None, values)

    async def check_no(
        self,
        x: Pair,
        oracle: Oracle,
        rng: random.Random,
        values: Mapping[str, float],
        evidence: Evidence,
        proof: Proof | None = None,
    ) -> Acceptance:
        """Test the answer that the sentences of ``x`` are not equivalent.

        :param values, evidence: what is known before the test; the result has both, too.
        :param proof: given if the second sentence is the oracle's own paraphrase of the first one: the attempt to prove
            that they are equivalent. That paraphrase is not drawn for a test, which would compare it with itself.
        :raises BackendError: if a call could not be made.
        """
        sentences = x.first, x.second
        left_out = "" if proof is None else x.second
        (rho, aligned), replies = await asyncio.gather(
            self._aligned(*sentences, oracle, proof),
            asyncio.gather(*(self._paraphrases(sentence, oracle) for sentence in sentences)),
        )
        candidates = await self._candidates(sentences, replies, oracle, left_out)
        tests = await self._tests(sentences, candidates, oracle, rng)
        values = {**values, **aligned}
        for source, reply in enumerate(replies, 1):
            kept = sum(c.source == source for c in candidates)
            values[f"left_out_{source}"] = float(len(reply.texts[:PARAPHRASES]) - kept)
        for phi, test in tests.items():
            # Of table 5: 1 AI, 2 ĀI, 3 AĪ, 4 ĀĪ.
            is_drawn = test is not None and test.candidate.rho.holds(phi)
            values[f"category_{phi}"] = (
                0.0 if self.is_random else 1.0 + (not rho.holds(phi)) + 2 * (not is_drawn)
            )
            values |= {f"{name}_{phi}": number for name, number in trust_values(test).items()}
        test = tests["or"]
        accepted_paper = bool(values["trust_paper_or"])
        accepted = accepted_paper if self.is_printed else test is not None and test.outcome == "accepted"
        values |= {"accepted": float(accepted), "accepted_paper": float(accepted_paper)}
        bound = None
        if test is not None and accepted:
            bound = AS_PRINTED if self.is_printed else test.bound
        category = CATEGORIES.get(int(values["category_or"]), "")
        shown = {**evidence, **_trust_evidence(replies, candidates, test, category)}
        outcome, why = _no(test, replies, category, accepted=accepted)
        return Acceptance(accepted, outcome, why, shown, bound, values)

    async def _aligned(
        self, first: str, second: str, oracle: Oracle, proof: Proof | None = None
    ) -> tuple[Rho, dict[str, float]]:
        """Return the alignment of two sentences (A and I of table 5), and its values."""
        if proof is None and (self.asks_all or self.is_random):
            proof = await self.proof(first, second, oracle)
        if proof is not None:
            return (proof.confirmed if self.asks_all else proof.potential).rho, proof.values
        alignments = await self.align(first, second)
        return alignments.rho, potential_values(alignments)

    async def _paraphrases(self, sentence: str, oracle: Oracle) -> Paraphrases:
        distance = self.settings.distance
        is_usable = (lambda reply: bool(usable(reply, sentence, distance))) if distance else None
        return await ask_paraphrases(oracle, sentence, is_usable=is_usable)

    async def _candidates(
        self, sentences: tuple[str, str], replies: Sequence[Paraphrases], oracle: Oracle, left_out: str
    ) -> list[Candidate]:
        """Return the paraphrases that can be drawn, and whether each can be aligned with the other sentence.

        :param left_out: a paraphrase that is not drawn; empty if all can be.
        """
        texts = [
            (text, source)
            for source, (reply, sentence) in enumerate(zip(replies, sentences, strict=True), 1)
            for text in usable(reply, sentence, self.settings.distance)
            if text != left_out
        ]
        if self.is_random:
            return [Candidate(text, source, Rho()) for text, source in texts]
        aligned = await asyncio.gather(
            *(self._aligned(text, sentences[2 - source], oracle) for text, source in texts)
        )
        return [Candidate(text, source, rho) for (text, source), (rho, _) in zip(texts, aligned, strict=True)]

    async def _tests(
        self, sentences: tuple[str, str], candidates: Sequence[Candidate], oracle: Oracle, rng: random.Random
    ) -> dict[Phi, Test | None]:
        """Run the test for both kinds of alignment; once if both draw from the same paraphrases."""
        tests: dict[Phi, Test | None] = {}
        before: list[Candidate] | None = None
        for phi in PHIS:
            preferred = [c for c in candidates if c.rho.holds(phi)]
            pool = pool_of(candidates, preferred, even=not self.is_printed)
            is_new = pool != before
            tests[phi] = await trust_test(sentences, pool, oracle, rng) if is_new else tests["or"]
            before = pool
        return tests


def _unread(answers: Sequence[Answer]) -> str:
    """Return the outcome if a decision depends on answers that cannot be read."""
    return "refused" if all(answer.notes.refused for answer in answers) else "unreadable"


def _trust_evidence(
    replies: Sequence[Paraphrases], candidates: Sequence[Candidate], test: Test | None, category: str
) -> dict[str, JSON]:
    """Return the evidence of the test of a "no" (table 15 shows triangular evidence)."""
    paraphrases: list[JSON] = [[c.text for c in candidates if c.source == source] for source in (1, 2)]
    problems: list[JSON] = [reply.notes.problem for reply in replies]
    tests: list[JSON] = []
    if test is not None:
        drawn: dict[str, JSON] = {"source": test.candidate.source, "paraphrase": test.candidate.text}
        tests = [{"outcome": test.outcome, **drawn, "other": test.other.word, "own": test.own.word}]
    return without_empty(
        {
            "paraphrases": paraphrases,
            "paraphrase_problems": problems if any(problems) else [],
            "category": category,
            "trust": test.outcome if test else "untested",
            "tests": tests,
        }
    )


def _no(
    test: Test | None, replies: Sequence[Paraphrases], category: str, *, accepted: bool
) -> tuple[str, str]:
    """Return the outcome of a "no", and why it is accepted or not, in one phrase."""
    if test is None:
        problem = next((reply.notes.problem for reply in replies if reply.notes.problem), "")
        outcome = "refused" if all(reply.notes.refused for reply in replies) else "untested"
        return outcome, f"no, but not tested: {problem or 'no paraphrase differs enough from its sentence'}"
    about = f" (category {category})" if category else ""
    if test.outcome == "accepted":
        return "accepted-no", f"no, and passed its test{about}"
    if accepted:
        return "accepted-no", f"no, and no triangular evidence, although its test failed{about}"
    unread = [answer for answer in (test.other, test.own) if answer.said is None]
    outcome = _unread(unread) if test.outcome == "unreadable" else "rejected"
    return outcome, f"no, but not trusted: {_DISTRUSTED[test.outcome]}{about}"


async def self_consistency(pair: Pair, oracle: Oracle, askings: int) -> Acceptance:
    """Check whether prompt 5 gets the same answer every time (first sanity check).

    Outcomes: ``consistent``, ``inconsistent``, and ``unreadable`` or ``refused`` if some answers cannot be read and
    the others are the same.

    :param askings: how often the prompt is sent, as samples 0, 1, 2 …
    :raises BackendError: if a call could not be made.
    """
    acceptance, _ = await _ask_repeatedly(pair, oracle, askings)
    sentences = {"sentence_1": pair.first, "sentence_2": pair.second}
    return replace(acceptance, evidence={**sentences, **acceptance.evidence})


async def _ask_repeatedly(pair: Pair, oracle: Oracle, askings: int) -> tuple[Acceptance, list[Answer]]:
    """Return the decision of :func:`self_consistency`, without the sentences in its evidence, and the answers."""
    prompt = sentences_prompt(pair.first, pair.second)
    answers = await asyncio.gather(*(ask_answer(oracle, prompt, sample=n) for n in range(askings)))
    said = [answer.said for answer in answers]
    yes, no, unread = (said.count(kind) for kind in (True, False, None))
    is_consistent = askings in (yes, no)
    outcome = "consistent" if is_consistent else "inconsistent"
    if unread and not (yes and no):
        outcome = _unread([answer for answer in answers if answer.said is None])
    values = {
        "askings": float(askings),
        "answers_yes": float(yes),
        "answers_no": float(no),
        "answers_unreadable": float(unread),
        "consistent": float(is_consistent),
    }
    why = f"{yes} yes, {no} no{f', {unread} unreadable' if unread else ''} in {askings} askings"
    # How the first answer was read, or why the first unreadable one cannot be.
    first = next((answer for answer in answers if answer.said is None), answers[0])
    evidence: dict[str, JSON] = {"answers": [answer.word for answer in answers], READ_BY: first.notes.read_by}
    return Acceptance(is_consistent, outcome, why, evidence, values=values), answers


async def own_paraphrase(
    sentence: str, oracle: Oracle, checker: EquivalenceChecker, rng: random.Random
) -> Acceptance:
    """Check whether the oracle always calls its own paraphrase equivalent, and try to prove it (second sanity check).

    If its first answer is no, that answer is also tested like that on any pair (appendix B.3.3).

    The paraphrase is the first one from prompt 7 that differs from the sentence. Outcomes are those of
    :func:`self_consistency`, of which only ``consistent`` is accepted, ``denied`` if every answer is no, and
    ``untested`` if no paraphrase exists. Values: ``consistent`` is also 1 for ``denied``, as in the paper; ``said_yes``
    is about the first answer; of its test, ``accepted`` and ``accepted_paper`` are left out.

    :raises BackendError: if a call could not be made.
    """
    paraphrases = await ask_paraphrases(oracle, sentence)
    texts = usable(paraphrases, sentence)
    if not texts:
        why = paraphrases.notes.problem or "no paraphrase differs from the sentence"
        return Acceptance(False, "untested", why, {"sentence": sentence})
    pair = Pair(sentence, texts[0])
    (acceptance, answers), proof = await asyncio.gather(
        _ask_repeatedly(pair, oracle, checker.settings.askings),
        checker.proof(pair.first, pair.second, oracle),
    )
    said = answers[0].said
    evidence: dict[str, JSON] = {"sentence": sentence, "paraphrase": pair.second, "proof": proof.evidence}
    evidence |= acceptance.evidence
    values = {**acceptance.values, "said_yes": -1.0 if said is None else float(said), **proof.values}
    if said is False:
        test = await checker.check_no(pair, oracle, rng, {}, {}, proof)
        evidence |= {**without_empty({"explanation": answers[0].explanation}), **test.evidence}
        values |= {name: n for name, n in test.values.items() if not name.startswith("accepted")}
    acceptance = replace(acceptance, evidence=evidence, values=values)
    if not acceptance.accepted or said:
        return acceptance
    why = f"{acceptance.why}: it denies its own paraphrase"
    return replace(acceptance, accepted=False, outcome="denied", why=why)
