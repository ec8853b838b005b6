"""The three sanity checks of section 5.2.1 (Zeng et al.), each the check of one case."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

from pytest_llmprops.benchmarks.oracle.json_reply import Answer, ask_answer, ask_paraphrases
from pytest_llmprops.benchmarks.oracle.paraphrase import Align, ParaphraseChecker, ParaphraseSettings
from pytest_llmprops.benchmarks.oracle.paraphrase_prompts import sentences_prompt
from pytest_llmprops.benchmarks.oracle.paraphrase_record import Pair
from pytest_llmprops.benchmarks.oracle.proof import prove
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.trust import usable
from pytest_llmprops.core.strict_json import JSON

ASKINGS = 5


async def self_consistency(pair: Pair, oracle: Oracle, askings: int = ASKINGS) -> Acceptance:
    """First check: is prompt 5 answered alike every time? Outcomes ``consistent`` and ``inconsistent``.

    Values: ``askings``, ``answers_yes``, ``answers_no``, ``answers_unreadable``, ``consistent`` (an unreadable
    answer is not alike a readable one; all unreadable is not consistent). Asking t is sample t of the prompt.

    :raises BackendError: a call could not be made.
    """
    acceptance, answers = await _asked_again(pair, oracle, askings)
    words: list[JSON] = [answer.word for answer in answers]
    evidence = {"sentence_1": pair.first, "sentence_2": pair.second, "answers": words}
    return replace(acceptance, evidence=evidence)


async def _asked_again(pair: Pair, oracle: Oracle, askings: int) -> tuple[Acceptance, list[Answer]]:
    """The decision of :func:`self_consistency`, without evidence, and the answers."""
    prompt = sentences_prompt(pair.first, pair.second)
    answers = await asyncio.gather(*(ask_answer(oracle, prompt, sample=n) for n in range(askings)))
    values = _counts(answers)
    alike = bool(values["consistent"])
    said = f"{values['answers_yes']:.0f} yes, {values['answers_no']:.0f} no"
    if values["answers_unreadable"]:
        said += f", {values['answers_unreadable']:.0f} unreadable"
    why = f"{said} in {askings} askings"
    outcome = "consistent" if alike else "inconsistent"
    return Acceptance(alike, outcome, why, values=values), answers


async def own_paraphrase(
    sentence: str, oracle: Oracle, checker: ParaphraseChecker, askings: int = ASKINGS
) -> Acceptance:
    """Second check: does the oracle hold its own paraphrase equivalent, every time, and can that be proved?

    The paraphrase is the first of prompt 7's that differs from the sentence. Outcomes: ``consistent``, every answer is
    yes, which alone is accepted; ``denied``, every answer is no; ``inconsistent``; and ``untested`` where there is no
    paraphrase. Values: as :func:`self_consistency`, where ``consistent`` is 1 of a ``denied`` one too, as in the
    paper; ``said_yes`` of the first asking; and those of ``Proof.values`` (table 4).

    :raises BackendError: a call could not be made.
    """
    given = await ask_paraphrases(oracle, sentence)
    texts = usable(given, sentence, checker.settings.paraphrases)
    if not texts:
        why = given.notes.problem or "no paraphrase differs from the sentence"
        return Acceptance(False, "untested", why, {"sentence": sentence})
    (asked, answers), alignments = await asyncio.gather(
        _asked_again(Pair(sentence, texts[0]), oracle, askings), checker.align(sentence, texts[0])
    )
    proof = await prove(alignments, oracle, ask_identical=checker.settings.ask_identical)
    said = answers[0].said
    denied = asked.accepted and said is False
    words: list[JSON] = [answer.word for answer in answers]
    evidence = {"sentence": sentence, "paraphrase": texts[0], "answers": words}
    return replace(
        asked,
        accepted=asked.accepted and not denied,
        outcome="denied" if denied else asked.outcome,
        why=f"{asked.why}: it denies its own paraphrase" if denied else asked.why,
        evidence={**evidence, "proof": proof.evidence.to_json()},
        values={**asked.values, "said_yes": -1.0 if said is None else float(said), **proof.values},
    )


def random_pairs(sentences: Sequence[str], rng: random.Random, count: int) -> tuple[Pair, ...]:
    """Third check: pairs of two different sentences drawn at random, hence not equivalent (label False).

    They are checked by :func:`random_checker`; with ``reference`` the proof is tried as well.

    :raises ValueError: when there are fewer than two different sentences.
    """
    distinct = list(dict.fromkeys(sentences))
    if len(distinct) < 2:
        raise ValueError("random pairs need two different sentences: give more")
    drawn = [rng.sample(distinct, 2) for _ in range(count)]
    return tuple(Pair(first, second, label=False) for first, second in drawn)


def random_checker(settings: ParaphraseSettings, align: Align) -> ParaphraseChecker:
    """The checker of random pairs: p is any of the ten paraphrases, and a proof is tried on every pair."""
    return ParaphraseChecker(replace(settings, indifferentiable="random", reference=True), align)


def _counts(answers: Sequence[Answer]) -> dict[str, float]:
    said = [answer.said for answer in answers]
    return {
        "askings": float(len(said)),
        "answers_yes": float(said.count(True)),
        "answers_no": float(said.count(False)),
        "answers_unreadable": float(said.count(None)),
        "consistent": float(len(set(said)) == 1 and None not in said),
    }
