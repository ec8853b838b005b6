"""The three sanity checks of section 5.2.1: the same question again, the own paraphrase, and unrelated sentences."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

from pytest_llmprops.benchmarks.oracle.pair_evidence import Pair, PairEvidence
from pytest_llmprops.benchmarks.oracle.paraphrase import ParaphraseChecker, prove
from pytest_llmprops.benchmarks.oracle.replies import Answer, ask_answer, ask_paraphrases, sentences_prompt
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.trust import usable
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import READ_BY

ASKINGS = 5


async def self_consistency(pair: Pair, oracle: Oracle, askings: int = ASKINGS) -> Acceptance:
    """Check whether prompt 5 gets the same answer every time (first check).

    Outcomes: ``consistent``, ``inconsistent``, and ``unreadable`` or ``refused`` if some answers cannot be read and
    the others are the same. Values: ``askings``, ``answers_yes``, ``answers_no``, ``answers_unreadable`` and
    ``consistent``.

    :param askings: how often the prompt is sent, as samples 0, 1, 2 …
    :raises BackendError: if a call could not be made.
    """
    acceptance, answers = await _ask_repeatedly(pair, oracle, askings)
    words: list[JSON] = [answer.word for answer in answers]
    evidence = {"sentence_1": pair.first, "sentence_2": pair.second, "answers": words}
    evidence[READ_BY] = _read_by(answers)
    return replace(acceptance, evidence=evidence)


async def _ask_repeatedly(pair: Pair, oracle: Oracle, askings: int) -> tuple[Acceptance, list[Answer]]:
    """Return the decision of :func:`self_consistency`, without evidence, and the answers."""
    prompt = sentences_prompt(pair.first, pair.second)
    answers = await asyncio.gather(*(ask_answer(oracle, prompt, sample=n) for n in range(askings)))
    said = [answer.said for answer in answers]
    values = {
        "askings": float(askings),
        "answers_yes": float(said.count(True)),
        "answers_no": float(said.count(False)),
        "answers_unreadable": float(said.count(None)),
        "consistent": float(len(set(said)) == 1 and None not in said),
    }
    consistent = bool(values["consistent"])
    counts = f"{values['answers_yes']:.0f} yes, {values['answers_no']:.0f} no"
    if values["answers_unreadable"]:
        counts += f", {values['answers_unreadable']:.0f} unreadable"
    why = f"{counts} in {askings} askings"
    outcome = "consistent" if consistent else "inconsistent"
    unread = [answer for answer in answers if answer.said is None]
    if unread and not (values["answers_yes"] and values["answers_no"]):
        outcome = "refused" if all(answer.notes.refused for answer in unread) else "unreadable"
    return Acceptance(consistent, outcome, why, values=values), answers


def _read_by(answers: Sequence[Answer]) -> str:
    """Return how the first answer was read, or why the first unreadable one cannot be."""
    return next((answer for answer in answers if answer.said is None), answers[0]).notes.read_by


async def own_paraphrase(
    sentence: str,
    oracle: Oracle,
    checker: ParaphraseChecker,
    rng: random.Random,
    askings: int = ASKINGS,
) -> Acceptance:
    """Check whether the oracle always calls its own paraphrase equivalent, and try to prove it (second check).

    If its first answer is no, that answer is also tested like that on any pair (appendix B.3.3).

    The paraphrase is the first one from prompt 7 that differs from the sentence. Outcomes:

    - ``consistent``: every answer is yes; the only accepted outcome
    - ``denied``: every answer is no
    - ``inconsistent``: any other answers
    - ``untested``: no paraphrase exists

    Values: those of :func:`self_consistency` (``consistent`` is also 1 for ``denied``, as in the paper), ``said_yes``
    of the first answer, those of ``Proof.values`` (table 4), and if the first answer is no, those of its test, except
    ``accepted`` and ``accepted_paper``.

    :raises BackendError: if a call could not be made.
    """
    paraphrases = await ask_paraphrases(oracle, sentence)
    texts = usable(paraphrases, sentence)
    if not texts:
        why = paraphrases.notes.problem or "no paraphrase differs from the sentence"
        return Acceptance(False, "untested", why, {"sentence": sentence})
    (acceptance, answers), alignments = await asyncio.gather(
        _ask_repeatedly(Pair(sentence, texts[0]), oracle, askings), checker.align(sentence, texts[0])
    )
    proof = await prove(alignments, oracle, ask_identical=checker.settings.phrases == "all")
    said = answers[0].said
    denied = acceptance.accepted and said is False
    words: list[JSON] = [answer.word for answer in answers]
    evidence: dict[str, JSON] = {"sentence": sentence, "paraphrase": texts[0], "answers": words}
    evidence |= {READ_BY: _read_by(answers), "proof": proof.evidence.to_json()}
    values = {**acceptance.values, "said_yes": -1.0 if said is None else float(said), **proof.values}
    if said is False:
        shown = PairEvidence(explanation=answers[0].explanation)
        test = await checker.check_no(Pair(sentence, texts[0]), oracle, rng, {}, shown, proof)
        evidence |= test.evidence
        values |= {name: n for name, n in test.values.items() if not name.startswith("accepted")}
    return replace(
        acceptance,
        accepted=acceptance.accepted and not denied,
        outcome="denied" if denied else acceptance.outcome,
        why=f"{acceptance.why}: it denies its own paraphrase" if denied else acceptance.why,
        evidence=evidence,
        values=values,
    )
