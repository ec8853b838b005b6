"""The measurement of ERAS pairs: send the requests and judge the replies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pytest_llmprops.benchmarks.eras import explicit
from pytest_llmprops.benchmarks.eras.chat_sentiment import score_pair
from pytest_llmprops.benchmarks.eras.implicit import CHAT_MASK, MODEL_MASK, occluded
from pytest_llmprops.benchmarks.eras.items import EXPLICIT, Context, sentences_in_script
from pytest_llmprops.benchmarks.eras.judging import (
    SegmentJudge,
    judge_chat,
    judge_chat_scores,
    judge_scores,
    read_scores,
)
from pytest_llmprops.benchmarks.eras.sentences import SentencePair
from pytest_llmprops.benchmarks.eras.settings import ErasSettings
from pytest_llmprops.core.benchmark import Ask, Serve
from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import Chat, Reply, Segment, Sentiment
from pytest_llmprops.core.verdicts import Verdict

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
    judge = SegmentJudge().judge
    results: list[Verdict | BackendError] = []
    for start in range(0, len(items), _CHUNK):
        pairs: list[SentencePair] = [item["pair"] for item in items[start : start + _CHUNK]]
        texts = [sentences_in_script(pair, settings.script, context) for pair in pairs]
        replies = iter(serve([Segment(text) for both in texts for text in both]))
        for pair, both in zip(pairs, texts, strict=True):
            test, control = next(replies), next(replies)
            if isinstance(test, BackendError) or isinstance(control, BackendError):
                results.append(test if isinstance(test, BackendError) else _error(control))
                continue
            try:
                results.append(judge(pair, both, (test.value, control.value)))
            except BackendError as error:
                results.append(error)
    return results


def _check_set(context: Context, settings: ErasSettings) -> None:
    if context.mlm_score and context.mlm_score != settings.mlm_score:
        raise RunStopped(
            f"the set's slot words were chosen with mlm_score {context.mlm_score}, not {settings.mlm_score}:"
            f" pass --llm-set eras.mlm_score={context.mlm_score}"
        )


def _error(result: Reply | BackendError) -> BackendError:
    assert isinstance(result, BackendError)
    return result


async def _explicit(pair: SentencePair, texts: tuple[str, str], ask: Ask, settings: ErasSettings) -> Verdict:
    if "segment" in ask.kinds:
        test, control = await asyncio.gather(*(ask(Segment(text)) for text in texts))
        return SegmentJudge().judge(pair, texts, (test.value, control.value))
    requests = [
        Chat.user(
            explicit.PROMPT.format(text=text),
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
        )
        for text in texts
    ]
    return judge_chat(pair, texts, await asyncio.gather(*map(ask, requests)))


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
