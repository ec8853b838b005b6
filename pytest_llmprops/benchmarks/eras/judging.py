"""Verdicts of ERAS: from two segmentations, or from the sentiment of four sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_llmprops.benchmarks.eras.chat_sentiment import NOTES, ChatScores
from pytest_llmprops.benchmarks.eras.explicit import (
    ChatSegmentation,
    SiteOutcome,
    judge_site,
    judge_words,
    read_segmentation,
)
from pytest_llmprops.benchmarks.eras.implicit import PairScores, Score, is_wrong
from pytest_llmprops.benchmarks.eras.paradigms import Paradigm
from pytest_llmprops.benchmarks.eras.sentences import SentencePair
from pytest_llmprops.benchmarks.eras.values import outcome_values, paradigm_values
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.core.segmentation import boundaries
from pytest_llmprops.core.verdicts import Verdict

#: drawn between two words, around the canary word of a wrong cut, and between the two sentences
BOUNDARY, OPEN, CLOSE, NEXT = "|", "【", "】", " / "
_REASONS = {
    "none": "no cut makes the canary word {canary}",
    "token": "the canary word {canary} was taken for a word",
    "swallowed": "the canary word {canary} is part of a longer word",
}


class SegmentJudge:
    """Verdicts on segmented pairs. Equal parts of verdicts are made once, as there may be 200,000 pairs."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Verdict] = {}

    def judge(self, pair: SentencePair, texts: tuple[str, str], words: Sequence[Sequence[str]]) -> Verdict:
        """The verdict on the words of test and control sentence.

        :param texts: both sentences as they were sent.
        :raises BackendError: where the words are not exactly the sentence.
        """
        start, branching = pair.site_start, pair.paradigm.branching
        test = judge_site(boundaries(words[0], texts[0]), start, branching)
        control = judge_site(boundaries(words[1], texts[1]), start, branching)
        given = f"{drawn(words[0], pair, test)}{NEXT}{BOUNDARY.join(words[1])}"
        return self.verdict(pair, texts[0], test, control, given)

    def verdict(
        self, pair: SentencePair, text: str, test: SiteOutcome, control: SiteOutcome | None, given: str
    ) -> Verdict:
        """The verdict on the two sites' outcomes; ``given`` shows both segmentations."""
        start = pair.site_start
        site = text[start : start + 3]
        key = (pair.paradigm.id, start, site, test, control)
        known = self._known.get(key)
        if known is None:
            left = pair.paradigm.branching == "left"
            canary = site[1:] if left else site[:2]
            known = self._known[key] = Verdict(
                "correct" if test.right else "wrong",
                expected_cut(site, pair.paradigm),
                "",
                _REASONS[test.canary].format(canary=canary),
                float(test.right),
                {**outcome_values(test, control), "start": float(start), **paradigm_values(pair.paradigm)},
            )
        return Verdict(known.status, known.expected, given, known.reason, known.score, known.values)


def expected_cut(site: str, paradigm: Paradigm) -> str:
    """The site cut as the sentence means it, and the canary word: ``信心|机, never 心机``."""
    if paradigm.branching == "left":
        return f"{site[:2]}{BOUNDARY}{site[2]}, never {site[1:]}"
    return f"{site[0]}{BOUNDARY}{site[1:]}, never {site[:2]}"


def drawn(words: Sequence[str], pair: SentencePair, outcome: SiteOutcome) -> str:
    """The test sentence with its boundaries, and with the canary word in brackets where it was found."""
    line = BOUNDARY.join(words)
    if outcome.right:
        return line
    # The canary word has no boundary inside; before it there are as many as words that end up to it.
    at = pair.site_start + (1 if pair.paradigm.branching == "left" else 0)
    done = before = 0
    for word in words:
        if done + len(word) > at:
            break
        done, before = done + len(word), before + 1
    at += before * len(BOUNDARY)
    return f"{line[:at]}{OPEN}{line[at : at + 2]}{CLOSE}{line[at + 2 :]}"


def judge_chat(pair: SentencePair, texts: tuple[str, str], replies: Sequence[Reply]) -> Verdict:
    """The verdict on a chat model's two replies: sentences with spaces between their words.

    Refused or unparsed where the test sentence's reply is; a control that cannot be read counts as not right.
    """
    read = [read_segmentation(r.text, text) for r, text in zip(replies, texts, strict=True)]
    filtered = [r.finish_reason == "content_filter" for r in replies]
    test, control = (
        None
        if no or not found.words
        else judge_words(found.words, text, pair.site_start, pair.paradigm.branching)
        for found, text, no in zip(read, texts, filtered, strict=True)
    )
    shown = [
        BOUNDARY.join(found.words) if found.words else reply.text.strip()
        for found, reply in zip(read, replies, strict=True)
    ]
    marks = {"test_read": float(test is not None), "control_read": float(control is not None)}
    if test is None:
        site = texts[0][pair.site_start : pair.site_start + 3]
        return Verdict(
            "refused" if filtered[0] else "unparsed",
            expected_cut(site, pair.paradigm),
            NEXT.join(shown),
            _problem(replies[0], read[0], refused=filtered[0]),
            values={
                **outcome_values(test, control),
                "start": float(pair.site_start),
                **paradigm_values(pair.paradigm),
                **marks,
            },
        )
    given = NEXT.join((drawn(read[0].words, pair, test), shown[1]))
    found = SegmentJudge().verdict(pair, texts[0], test, control, given)
    reason = found.reason
    if control is None:
        reason += f"; control: {_problem(replies[1], read[1], refused=filtered[1])}"
    return Verdict(found.status, found.expected, given, reason, found.score, {**found.values, **marks})


def _problem(reply: Reply, read: ChatSegmentation, *, refused: bool) -> str:
    if refused:
        return "a content filter refused"
    if reply.finish_reason == "length" and reply.text.strip():
        return "the reply was cut off before the sentence was whole"
    return read.problem


def judge_scores(pair: SentencePair, scores: PairScores, way: str) -> Verdict:
    """The verdict on a pair's four scores; ``way`` says how they were had."""
    paradigm = pair.paradigm
    wrong = is_wrong(paradigm.sentiment, scores)
    side = "below" if paradigm.true_class == "+" else "above"
    reason = f"the test sentence scores {side if wrong else f'not {side}'} the control sentence ({way})"
    return Verdict(
        "wrong" if wrong else "correct",
        f"test not {side} control ({paradigm.sentiment})",
        f"test {_shown(scores.test.positive)}, control {_shown(scores.control.positive)}",
        reason,
        float(not wrong),
        {**scores.values(), **paradigm_values(paradigm)},
    )


def judge_chat_scores(pair: SentencePair, found: ChatScores) -> Verdict:
    """The verdict on what a chat model gave for the four sentences."""
    way = NOTES[found.way]
    if found.status == "scored":
        verdict = judge_scores(pair, PairScores(*found.scores), way)
        return replace(verdict, values={**verdict.values, **found.values()})
    side = "below" if pair.paradigm.true_class == "+" else "above"
    reason = "a content filter refused" if found.status == "refused" else "no answer could be read"
    return Verdict(
        found.status,
        f"test not {side} control ({pair.paradigm.sentiment})",
        NEXT.join(dict.fromkeys(text.strip() for text in found.given))[:400],
        f"{reason} for some sentence of the pair ({way})",
        values={**found.values(), **paradigm_values(pair.paradigm)},
    )


def _shown(value: float) -> str:
    return f"{value:.6f}"


def scores_of(replies: Sequence[Reply]) -> PairScores:
    """The scores in a sentiment model's four replies: test, control, and both occluded.

    :raises BackendError: for a reply that holds no such score.
    """
    try:
        return PairScores(*(Score(float(r.value["positive"]), float(r.value["log_odds"])) for r in replies))
    except (KeyError, TypeError, ValueError) as error:
        raise BackendError(f"the model gave no sentiment score: {error}", kind="model") from None
