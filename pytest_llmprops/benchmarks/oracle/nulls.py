"""Null oracles: how often a pair's checker accepts answers without any understanding, and those of a perfect judge.

They answer the same pair in process, without a call. What is accepted of a model means something only beyond them. The
paraphrase of a sentence is the sentence after a fixed phrase, because there is no model to paraphrase it.

Values of a verdict; a value is missing if the pair cannot be tested:

- ``null_yes``, ``null_no``: 1 if the same answer to every question is accepted, otherwise 0
- ``null_coin``: the same for a fair coin for each question; ``said_coin``: 1 if it says yes to the sentences
- ``null_judge``: the same for the labels of the pair and of its phrases; missing if a question that it needs has no
  label
- ``overlap``, ``overlap_proof``: the Jaccard index of the words of the sentences, and the highest threshold on that of
  phrases at which the sentences are proved equivalent, 0 if there is none. With ``overlap_own`` and ``overlap_other``
  of the model's paraphrases (``trust``), :mod:`metrics` plays every judge that says yes above a threshold
- ``self_aligned``: 1 if the prover aligns the first sentence with itself
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from pytest_llmprops.benchmarks.oracle.pair_evidence import Pair, PairEvidence, holds
from pytest_llmprops.benchmarks.oracle.paraphrase import Align, ParaphraseChecker, prove
from pytest_llmprops.benchmarks.oracle.replies import (
    PARAPHRASES,
    PARAPHRASES_SYSTEM,
    PHRASES_SYSTEM,
    Answer,
    ask_answer,
    ask_paraphrases,
    sentences_prompt,
)
from pytest_llmprops.benchmarks.oracle.scheme import Acceptance, Oracle
from pytest_llmprops.benchmarks.oracle.settings import OracleSettings
from pytest_llmprops.benchmarks.oracle.trust import overlap, usable
from pytest_llmprops.core.requests import Chat, Reply
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
    texts = usable(paraphrases, sentence, checker.settings.paraphrases)
    if not texts:
        why = paraphrases.notes.problem or "no paraphrase differs from the sentence"
        return Acceptance(False, "untested", why, {"sentence": sentence})
    (acceptance, answers), alignments = await asyncio.gather(
        _ask_repeatedly(Pair(sentence, texts[0]), oracle, askings), checker.align(sentence, texts[0])
    )
    proof = await prove(alignments, oracle, ask_identical=checker.settings.ask_identical)
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


def random_checker(settings: OracleSettings, align: Align) -> ParaphraseChecker:
    """Return the checker of random pairs: p is any of the ten paraphrases, and every pair gets a proof attempt."""
    return ParaphraseChecker(replace(settings, indifferentiable="random", reference=True), align)


#: answers whether two texts are equivalent
Judge = Callable[[str, str], bool]
#: in front of a sentence that stands for its own paraphrase
MARK = "In other words: "
#: value -> name of the null oracles that are played
NAMES = {
    "null_yes": "constant yes",
    "null_no": "constant no",
    "null_coin": "coin",
    "null_judge": "perfect judge",
}
_TWO = re.compile(r"^1\. '(.*)' 2\. '(.*)'\nAnswer", re.MULTILINE | re.DOTALL)
_ONE = re.compile(re.escape(PARAPHRASES).replace(re.escape("{sentence}"), "(.*)"), re.DOTALL)


async def null_values(x: Pair, checker: ParaphraseChecker, rng: random.Random) -> dict[str, float]:
    """Return the values of the null oracles for a pair.

    :raises BackendError: if the parser or the encoder could not be called.
    """
    # The draw of a source needs no alignment of paraphrases: the answers do not depend on it.
    settings = replace(checker.settings, indifferentiable="random", reference=False, distance=0.0)
    played = ParaphraseChecker(settings, checker.align)
    judges: dict[str, Judge] = {
        "null_yes": lambda first, second: True,
        "null_no": lambda first, second: False,
        "null_coin": lambda first, second: rng.random() < 0.5,
    }
    # Without labels of phrases, a proof cannot be answered. A judge of only some of the pairs would mislead.
    if x.label is False or (x.label and x.phrases is not None):
        judges["null_judge"] = _perfect(x)
    values = {"overlap": overlap(x.first, x.second)}
    for name, judge in judges.items():
        try:
            acceptance = await played.check(x, null_oracle(judge), rng)
        except _Unlabelled:
            continue
        if acceptance.outcome != "untested":
            values[name] = float(acceptance.accepted)
            if name == "null_coin":
                values["said_coin"] = acceptance.values["said_yes"]
    if "null_yes" in values:
        values["overlap_proof"] = await _proved_by_overlap(x, played) if values["null_yes"] else 0.0
    itself = await checker.align(x.first, x.first)
    return values if itself.missing else values | {"self_aligned": float(holds(itself.rho, settings.phi))}


def _overlaps(limit: float, first: str, second: str) -> bool:
    return overlap(first, second) >= limit


async def _proved_by_overlap(x: Pair, checker: ParaphraseChecker) -> float:
    """Return the highest threshold at which a judge by word overlap proves a yes, to two digits; 0 if none does.

    A higher threshold refuses more phrases, so the thresholds can be searched by halves.
    """
    limits = [step / 100 for step in range(101)]
    low, high = 0, len(limits) - 1
    while low < high:
        middle = (low + high + 1) // 2
        judge = partial(_overlaps, limits[middle])
        proof = await checker.proof(x.first, x.second, null_oracle(judge))
        if holds(proof.rho, checker.settings.phi):
            low = middle
        else:
            high = middle - 1
    return limits[low]


def null_oracle(judge: Judge) -> Oracle:
    """Return an oracle that answers prompts 5 and 6 by ``judge``, and prompt 7 with the marked sentence."""

    async def reply(chat: Chat) -> Reply:
        system, human = chat.messages[0].content, chat.messages[1].content
        if system == PARAPHRASES_SYSTEM:
            match = _ONE.search(human)
            return Reply(json.dumps({"paraphrases": [MARK + match[1]]} if match else {}))
        match = _TWO.search(human)
        said = match is not None and judge(*match.groups())
        about = "phrases" if system == PHRASES_SYSTEM else "sentences"
        return Reply(
            json.dumps({"answer": "yes" if said else "no", "explanation": f"a null oracle on {about}"})
        )

    return Oracle(reply)


class _Unlabelled(Exception):
    """A perfect judge is asked about phrases without a label."""


def _perfect(x: Pair) -> Judge:
    """Return a judge that answers by the labels of the sentences and of their phrases.

    It raises :class:`_Unlabelled` if it is asked about different phrases without a label.
    """
    labels = {(first, second): label for first, second, label in x.phrases or ()}

    def same(first: str, second: str) -> bool:
        sentences = [text.removeprefix(MARK) for text in (first, second)]
        if sentences[0].casefold() == sentences[1].casefold():
            return True
        if set(sentences) <= {x.first, x.second}:
            return bool(x.label)
        if (first, second) not in labels:
            raise _Unlabelled
        return labels[first, second]

    return same
