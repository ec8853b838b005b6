"""Ask about ERAS pairs and judge the replies; every metric is computed from the numbers of these verdicts alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from pytest_llmprops.benchmarks.eras import explicit
from pytest_llmprops.benchmarks.eras.chat_sentiment import NOTES, ChatScores, score_pair
from pytest_llmprops.benchmarks.eras.explicit import (
    DEGENERATE,
    Branching,
    ChatSegmentation,
    ParadigmFacts,
    SiteOutcome,
    is_degenerate,
    judge_site,
    read_segmentation,
    retry_prompt,
)
from pytest_llmprops.benchmarks.eras.implicit import (
    CHAT_MASK,
    MODEL_MASK,
    PairResult,
    PairScores,
    Score,
    is_tie,
    is_wrong,
    occluded,
)
from pytest_llmprops.benchmarks.eras.items import EXPLICIT, Context, sentences_in_script
from pytest_llmprops.benchmarks.eras.paradigms import Paradigm
from pytest_llmprops.benchmarks.eras.sentences import SentencePair, known_boundaries
from pytest_llmprops.benchmarks.eras.settings import ErasSettings
from pytest_llmprops.core.benchmark import Ask, Serve
from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import PLANNED, Chat, Reply, Segment, Sentiment
from pytest_llmprops.core.segmentation import boundaries
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.core.verdicts import READ_ALIKE, READ_BY, Verdict

_CODES = {"+": 1.0, "0": 0.0, "-": -1.0}
_CLASSES = {code: name for name, code in _CODES.items()}


def paradigm_values(paradigm: Paradigm) -> dict[str, float]:
    """Return ``paradigm`` (its number), ``right_branching`` (0, 1), ``true_class``, ``canary_class`` (1, 0, -1)."""
    return {
        "paradigm": float(paradigm.id),
        "right_branching": float(paradigm.branching == "right"),
        "true_class": _CODES[paradigm.true_class],
        "canary_class": _CODES[paradigm.canary_class],
    }


def outcome_values(test: SiteOutcome | None, control: SiteOutcome | None) -> dict[str, float]:
    """Return 0 or 1 for each of ``test``, ``control`` (the site is segmented correctly), and the two errors.

    The errors at the test site are ``canary_token`` and ``canary_swallowed``; see :class:`SiteOutcome`.

    :param test: None if the reply could not be read, which counts as incorrect and has no error type.
        The same holds for ``control``.
    """
    return {
        "test": float(test is not None and test.right),
        "control": float(control is not None and control.right),
        "canary_token": float(test is not None and test.canary == "token"),
        "canary_swallowed": float(test is not None and test.canary == "swallowed"),
    }


def paradigm_name(values: Mapping[str, float]) -> str:
    """Return the paradigm's id, for example ``07``."""
    return f"{int(values['paradigm']):02d}"


def facts_of(values: Mapping[str, float]) -> ParadigmFacts:
    """Return the paradigm's branching and sentiment from the values of :func:`paradigm_values`."""
    return ParadigmFacts(_branching(values), _sentiment(values))


def pair_result(values: Mapping[str, float]) -> PairResult:
    """Return a scored pair from the values of :func:`paradigm_values` and :meth:`PairScores.values`."""
    return PairResult(paradigm_name(values), _sentiment(values), _branching(values), PairScores.of(values))


def _branching(values: Mapping[str, float]) -> Branching:
    return "right" if values["right_branching"] else "left"


def _sentiment(values: Mapping[str, float]) -> str:
    return f"{_CLASSES[values['true_class']]}/{_CLASSES[values['canary_class']]}"


#: Marks between words, around the canary word of a wrong segmentation, and between the two sentences.
BOUNDARY, OPEN, CLOSE, NEXT = "|", "【", "】", " / "
_REASONS = {
    "none": "the canary word {canary} is not cut out",
    "degenerate": "the site is undecided in a degenerate segmentation: {words} words for {characters} characters",
    "token": "the canary word {canary} was segmented as a word",
    "swallowed": "the canary word {canary} is part of a longer word",
}


Rule = Literal["paper", "segmented"]


@dataclass(frozen=True, slots=True)
class Cutting:
    """How a sentence is cut.

    :param site_cuts: Number of boundaries inside the site, 0 to 2. :param words: Number of words.
    :param characters: Length of the sentence. :param gold: Number of boundaries that the paradigm determines (see
        :func:`~pytest_llmprops.benchmarks.eras.sentences.known_boundaries`). :param gold_cut: How many of them are cut.
    """

    site_cuts: int
    words: int
    characters: int
    gold: int
    gold_cut: int

    def values(self) -> dict[str, float]:
        return {name: float(number) for name, number in asdict(self).items()}


def judged_site(
    words: Sequence[str], text: str, pair: SentencePair, rule: Rule
) -> tuple[SiteOutcome, frozenset[int]]:
    """Return the outcome at the site of a segmented sentence by ``rule``, and the word boundaries.

    :raises BackendError: if the words do not join to exactly ``text``.
    """
    edges, start = boundaries(words, text), pair.site_start
    outcome = judge_site(edges, start, pair.paradigm.branching)
    is_undecided = (start + 1 in edges) == (start + 2 in edges)
    if rule == "segmented" and is_undecided and is_degenerate(len(words), len(text)):
        outcome = DEGENERATE
    return outcome, edges


class SegmentJudge:
    """Judge segmented pairs. Equal parts of verdicts are built once, because there may be 200,000 pairs."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._known: dict[tuple[object, ...], Verdict] = {}

    def judge(
        self,
        pair: SentencePair,
        texts: tuple[str, str],
        words: Sequence[Sequence[str]],
        unread: str | None = None,
    ) -> Verdict:
        """Return the verdict on the words of the test and the control sentence.

        :param texts: Both sentences, as sent. :param unread: The control's reply if it cannot be read: it is incorrect.
        :raises BackendError: if the words do not join to exactly the sentence.
        """
        start = pair.site_start
        test, edges = judged_site(words[0], texts[0], pair, self._rule)
        control = judged_site(words[1], texts[1], pair, self._rule)[0] if unread is None else None
        gold = known_boundaries(pair)
        cutting = Cutting(
            (start + 1 in edges) + (start + 2 in edges),
            len(words[0]),
            len(texts[0]),
            len(gold),
            sum(place in edges for place in gold),
        )
        given = marked_segmentation(words[0], pair, test) + NEXT
        given += BOUNDARY.join(words[1]) if unread is None else unread
        site = texts[0][start : start + 3]
        key = (pair.paradigm.id, start, site, test, control, cutting)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Verdict(
                "correct" if test.right else "wrong",
                expected_cut(site, pair.paradigm),
                "",
                _reason(test, pair, site, cutting.words, cutting.characters),
                float(test.right),
                {
                    **outcome_values(test, control),
                    "start": float(start),
                    **cutting.values(),
                    **paradigm_values(pair.paradigm),
                },
            )
        return Verdict(known.status, known.expected, given, known.reason, known.score, known.values)


def _reason(outcome: SiteOutcome, pair: SentencePair, site: str, words: int, characters: int) -> str:
    canary = site[1:] if pair.paradigm.branching == "left" else site[:2]
    name = "degenerate" if outcome == DEGENERATE else outcome.canary
    return _REASONS[name].format(canary=canary, words=words, characters=characters)


def expected_cut(site: str, paradigm: Paradigm) -> str:
    """Return the correct segmentation of the site, and the canary word: ``信心|机, never 心机``."""
    if paradigm.branching == "left":
        return f"{site[:2]}{BOUNDARY}{site[2]}, never {site[1:]}"
    return f"{site[0]}{BOUNDARY}{site[1:]}, never {site[:2]}"


def marked_segmentation(words: Sequence[str], pair: SentencePair, outcome: SiteOutcome) -> str:
    """Return the test sentence with word boundaries, and with brackets around a wrongly segmented canary word."""
    line = BOUNDARY.join(words)
    if outcome.canary == "none":
        return line
    # The canary word contains no boundary mark, so only the marks before it shift its position in the line.
    start = pair.site_start + (1 if pair.paradigm.branching == "left" else 0)
    end = marks = 0
    for word in words:
        if end + len(word) > start:
            break
        end, marks = end + len(word), marks + 1
    start += marks * len(BOUNDARY)
    return f"{line[:start]}{OPEN}{line[start : start + 2]}{CLOSE}{line[start + 2 :]}"


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A chat model's answer to the request to segment one sentence.

    :param reply: The reply that counts. :param retried: It is the second reply, because the first could not be read.
    """

    reply: Reply
    result: ChatSegmentation
    retried: bool

    @property
    def is_filtered(self) -> bool:
        """True if a content filter refused."""
        return self.reply.finish_reason == "content_filter"

    @property
    def words(self) -> tuple[str, ...]:
        """The words; empty if the reply is filtered or cannot be read."""
        return () if self.is_filtered else self.result.words

    @property
    def problem(self) -> str:
        """Why there are no words."""
        if self.is_filtered:
            return "a content filter refused"
        is_cut = self.reply.finish_reason == "length" and self.reply.text.strip()
        problem = "the reply was cut off before the end of the sentence" if is_cut else self.result.problem
        return f"{problem}, after one retry" if self.retried else problem


#: Maximum length of an unreadable reply in the request to answer again, in characters.
LONGEST_SENT_BACK = 1_000


async def segmented(text: str, ask: Ask, settings: ErasSettings) -> ChatAnswer:
    """Ask a chat model to segment a sentence, and ask again once if the reply cannot be read."""
    request = Chat.user(
        explicit.PROMPT.format(text=text), temperature=settings.temperature, max_tokens=settings.max_tokens
    )
    first = ChatAnswer(reply := await ask(request), read_segmentation(reply.text, text), retried=False)
    # Few replies need a second question, so a plan does not count it.
    if first.words or first.is_filtered or reply.key == PLANNED:
        return first
    # Servers refuse an empty turn.
    shown = reply.text.strip()[:LONGEST_SENT_BACK] or "(empty)"
    reply = await ask(request.then(shown, retry_prompt(first.result.problem, text)))
    return ChatAnswer(reply, read_segmentation(reply.text, text), retried=True)


def judge_chat(
    pair: SentencePair, texts: tuple[str, str], answers: tuple[ChatAnswer, ChatAnswer], rule: Rule
) -> Verdict:
    """Return the verdict on a chat model's segmentations of both sentences.

    If the reply for the test sentence is refused or cannot be read, so is the pair. A control reply that
    cannot be read counts as incorrect.
    """
    test, control = answers
    flags = {
        "test_read": float(bool(test.words)),
        "control_read": float(bool(control.words)),
        "test_retried": float(test.retried),
        "control_retried": float(control.retried),
    }
    if not test.words:
        site = texts[0][pair.site_start : pair.site_start + 3]
        return Verdict(
            "refused" if test.is_filtered else "unparsed",
            expected_cut(site, pair.paradigm),
            NEXT.join(BOUNDARY.join(answer.words) or answer.reply.text.strip() for answer in answers),
            test.problem,
            values={
                **outcome_values(None, _outcome(control, texts[1], pair, rule)),
                "start": float(pair.site_start),
                **paradigm_values(pair.paradigm),
                **flags,
            },
        )
    unread = None if control.words else control.reply.text.strip()
    verdict = SegmentJudge(rule).judge(pair, texts, (test.words, control.words), unread)
    reason = verdict.reason if control.words else f"{verdict.reason}; control: {control.problem}"
    # The rules differ only at degenerate sites, which the paper's rule calls right.
    differs = judged_site(test.words, texts[0], pair, "segmented")[0] == DEGENERATE
    values = {**verdict.values, **flags, READ_ALIKE: float(not differs)}
    evidence = {READ_BY: "read after one retry" if test.retried else "read at once"}
    return replace(verdict, reason=reason, values=values, evidence=evidence)


def _outcome(answer: ChatAnswer, text: str, pair: SentencePair, rule: Rule) -> SiteOutcome | None:
    return judged_site(answer.words, text, pair, rule)[0] if answer.words else None


def judge_scores(pair: SentencePair, texts: tuple[str, str], scores: PairScores, way: str) -> Verdict:
    """Return the verdict on a pair's four scores; ``way`` says how they were measured.

    :param texts: Both sentences, as sent; kept as evidence, because the scores do not show them.
    """
    paradigm = pair.paradigm
    wrong = is_wrong(paradigm.sentiment, scores)
    side = "below" if paradigm.true_class == "+" else "above"
    relation = f"{side} the" if wrong else "the same as the" if is_tie(scores) else f"not {side} the"
    reason = f"the test sentence scores {relation} control sentence ({way})"
    return Verdict(
        "wrong" if wrong else "correct",
        f"test not {side} control ({paradigm.sentiment})",
        f"test {scores.test.positive:.6f}, control {scores.control.positive:.6f}",
        reason,
        float(not wrong),
        {**scores.values(), **paradigm_values(paradigm)},
        _sentences(texts),
    )


def _sentences(texts: tuple[str, str]) -> dict[str, JSON]:
    return {"test": texts[0], "control": texts[1]}


def judge_chat_scores(pair: SentencePair, texts: tuple[str, str], result: ChatScores) -> Verdict:
    """Return the verdict on a chat model's scores of the four sentences; for ``texts`` see :func:`judge_scores`."""
    way = NOTES[result.way]
    if result.status == "scored":
        verdict = judge_scores(pair, texts, PairScores(*result.scores), way)
        return replace(verdict, values={**verdict.values, **result.values()})
    side = "below" if pair.paradigm.true_class == "+" else "above"
    reason = "a content filter refused" if result.status == "refused" else "no answer could be read"
    return Verdict(
        result.status,
        f"test not {side} control ({pair.paradigm.sentiment})",
        NEXT.join(dict.fromkeys(text.strip() for text in result.replies))[:400],
        f"{reason} for at least one sentence of the pair ({way})",
        values={**result.values(), **paradigm_values(pair.paradigm)},
        evidence=_sentences(texts),
    )


def read_scores(replies: Sequence[Reply]) -> PairScores:
    """Return the scores in a sentiment classifier's four replies: test, control, and both occluded.

    :raises BackendError: for a reply without a score.
    """
    try:
        return PairScores(*(Score(float(r.value["positive"]), float(r.value["log_odds"])) for r in replies))
    except (KeyError, TypeError, ValueError) as error:
        raise BackendError(f"the model returned no sentiment score: {error}", kind="model") from None


#: Pairs per segmenter batch: their words are kept in memory until the batch is judged.
_CHUNK = 2000


async def evaluate(item: Item, context: Context, ask: Ask, settings: ErasSettings) -> Verdict:
    """Return the verdict on a pair from replies to both of its sentences."""
    _check_set(context, settings)
    pair: SentencePair = item["pair"]
    texts = sentences_in_script(pair, settings.script, context)
    if item.task == EXPLICIT:
        return await _explicit(pair, texts, ask, settings)
    return await _implicit(pair, texts, ask, settings)


def evaluate_all(
    items: Sequence[Item], context: Context, serve: Serve, settings: ErasSettings
) -> Sequence[Verdict | BackendError]:
    """Return the verdicts on explicit pairs of a segmenter in this process."""
    _check_set(context, settings)
    judge = SegmentJudge(settings.rule).judge
    results: list[Verdict | BackendError] = []
    for start in range(0, len(items), _CHUNK):
        pairs: list[SentencePair] = [item["pair"] for item in items[start : start + _CHUNK]]
        texts = [sentences_in_script(pair, settings.script, context) for pair in pairs]
        replies = iter(serve([Segment(text) for both in texts for text in both]))
        for pair, both in zip(pairs, texts, strict=True):
            test, control = next(replies), next(replies)
            try:
                results.append(judge(pair, both, (_words(test), _words(control))))
            except BackendError as error:
                results.append(error)
    return results


def _check_set(context: Context, settings: ErasSettings) -> None:
    if context.mlm_score and context.mlm_score != settings.mlm_score:
        raise RunStopped(
            f"the set's slot words were chosen with mlm_score {context.mlm_score}, not {settings.mlm_score}:"
            f" pass --llm-set eras.mlm_score={context.mlm_score}"
        )


def _words(reply: Reply | BackendError) -> Sequence[str]:
    if isinstance(reply, BackendError):
        raise reply
    words: Sequence[str] = reply.value
    return words


async def _explicit(pair: SentencePair, texts: tuple[str, str], ask: Ask, settings: ErasSettings) -> Verdict:
    if "segment" in ask.kinds:
        test, control = await asyncio.gather(*(ask(Segment(text)) for text in texts))
        return SegmentJudge(settings.rule).judge(pair, texts, (test.value, control.value))
    answers = await asyncio.gather(*(segmented(text, ask, settings) for text in texts))
    return judge_chat(pair, texts, (answers[0], answers[1]), settings.rule)


async def _implicit(pair: SentencePair, texts: tuple[str, str], ask: Ask, settings: ErasSettings) -> Verdict:
    classifier = "sentiment" in ask.kinds
    mask = MODEL_MASK if classifier else CHAT_MASK
    sentences = [*texts, *(occluded(text, pair.site_start, pair.paradigm.branching, mask) for text in texts)]
    if classifier:
        replies = await asyncio.gather(*(ask(Sentiment(text)) for text in sentences))
        return judge_scores(pair, texts, read_scores(replies), "by the classifier")
    return judge_chat_scores(
        pair, texts, await score_pair(sentences, ask, way=settings.chat_score, samples=settings.samples)
    )
