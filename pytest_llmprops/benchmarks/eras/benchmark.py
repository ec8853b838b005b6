"""The ERAS benchmark: load the items, send the requests, judge the replies, compute the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_llmprops.benchmarks.eras import authors_metrics, explicit, implicit_metrics
from pytest_llmprops.benchmarks.eras.chat_sentiment import score_pair
from pytest_llmprops.benchmarks.eras.implicit import CHAT_MASK, MODEL_MASK, is_tie, occluded
from pytest_llmprops.benchmarks.eras.items import EXPLICIT, IMPLICIT, Context, load_items, sentences_in_script
from pytest_llmprops.benchmarks.eras.judging import (
    SegmentJudge,
    judge_chat,
    judge_chat_scores,
    judge_scores,
    read_scores,
)
from pytest_llmprops.benchmarks.eras.sentences import SentencePair
from pytest_llmprops.benchmarks.eras.values import facts_of, pair_result, paradigm_name
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded, Serve
from pytest_llmprops.core.errors import BackendError, RunStopped
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric, Place, by_place, rate
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.records import VerdictRecord
from pytest_llmprops.core.requests import Chat, Kind, Reply, Segment, Sentiment
from pytest_llmprops.core.verdicts import Verdict

#: With more pairs than this in one task, a paradigm is one pytest case.
MAX_PAIR_CASES = 20_000
#: Pairs per segmenter batch: their words are kept in memory until the batch is judged.
_CHUNK = 2000
_FILLED = (
    "the authors' slot words are not published: published templates are filled with this project's words"
)
_ASSUMED = (
    _FILLED,
    "simplified characters: the AS, CityU and jieba rows use traditional ones (eras.script=chinese-converter)",
    "chat models are not in the paper: prompts, answer letters and the mask character □ are this project's",
)


@dataclass(frozen=True, slots=True)
class ErasSettings:
    """How pairs are measured and reported.

    :param script: ``simplified``, or the converter to traditional characters.
    :param case: What a pytest case is: a pair, a paradigm, or ``auto`` (by the number of pairs). Display only.
    :param mlm_score: How a masked language model's scores chose the slot words of a generated set.
    :param chat_score: How to measure a chat model's sentiment. :param samples: Replies per sentence when sampling.
    :param temperature: Temperature of a chat model for segmentation; ``max_tokens`` is for segmentation too.
    """

    script: Literal["simplified", "chinese-converter", "opencc"] = "simplified"
    case: Literal["auto", "pair", "paradigm"] = "auto"
    mlm_score: Literal["ratio", "absolute"] = "ratio"
    chat_score: Literal["auto", "logprobs", "sampling"] = "auto"
    samples: int = 5
    temperature: float = 0.0
    max_tokens: int = 256

    def __post_init__(self) -> None:
        if self.samples < 1 or self.max_tokens < 1 or self.temperature < 0:
            raise ValueError("samples and max_tokens must be at least 1 and temperature at least 0")


class Eras(Benchmark):
    """Chinese garden path sentences: does a model segment them as their meaning requires?"""

    name = "eras"
    title = "ERAS"
    noun = "ERAS pairs"
    side_tasks = frozenset({IMPLICIT})
    about = "Does the model segment Chinese sentences correctly at places that tempt it into a wrong segmentation?"
    task_about = {
        EXPLICIT: "How does a segmenter cut three characters if both the first two and the last two are a word?",
        IMPLICIT: "Does a word of the wrong segmentation change the sentiment? If not, half the pairs are wrong.",
    }
    metric_directions = {
        **explicit.DIRECTIONS,
        "canary_token_rate": "lower",
        "canary_swallowed_rate": "lower",
        **implicit_metrics.DIRECTIONS,
        **authors_metrics.DIRECTIONS,
        "tie_rate": "none",
        "sampled_rate": "none",
    }
    kinds = frozenset({"segment", "sentiment", "chat"})
    roles = frozenset()
    limit_per_cluster = True
    # Two and five items of each paradigm. An implicit item takes up to 25 times the calls of an explicit one.
    sizes = {"small": {"explicit": 78, "implicit": 10}, "standard": {"explicit": 195, "implicit": 39}}
    # The paper's accuracies are means over paradigms (sections 3.1 and 4.1).
    weighting = "cluster"
    # A model without garden path errors ranks test and control by chance (section 4.1).
    accuracy_targets = {IMPLICIT: 0.5}
    presentation = frozenset({"case"})
    protocols = {
        "paper": NamedSettings(ErasSettings(samples=20), assumed=_ASSUMED),
        "quick": NamedSettings(
            ErasSettings(),
            assumed=(_FILLED,),
            gives_up="samples of a chat model without log probabilities (5 instead of 20): coarser scores, more ties",
        ),
    }

    def load(self, files: DataFiles) -> Loaded:
        return load_items(files)

    def kinds_of(self, task: str) -> frozenset[Kind]:
        return frozenset({"segment", "chat"}) if task == EXPLICIT else frozenset({"sentiment", "chat"})

    def case_names(self, items: Sequence[Item], settings: ErasSettings) -> Sequence[str] | None:
        """Return each item's paradigm, such as ``eras/explicit/07``; None if each pair is a case."""
        if settings.case == "pair":
            return None
        if settings.case == "auto":
            largest = max(
                (sum(item.task == task for item in items) for task in (EXPLICIT, IMPLICIT)), default=0
            )
            if largest <= MAX_PAIR_CASES:
                return None
        return [item.id.rpartition("/")[0] for item in items]

    async def evaluate(
        self, item: Item, context: Context, ask: Ask, protocol: Protocol[ErasSettings]
    ) -> Verdict:
        settings = protocol.settings
        _check_set(context, settings)
        pair: SentencePair = item["pair"]
        texts = sentences_in_script(pair, settings.script, context)
        if item.task == EXPLICIT:
            return await _explicit(pair, texts, ask, settings)
        return await _implicit(pair, texts, ask, settings)

    def evaluate_all(
        self, items: Sequence[Item], context: Context, serve: Serve, protocol: Protocol[ErasSettings]
    ) -> Sequence[Verdict | BackendError] | None:
        """Return the verdicts of a segmenter in this process; None if any item is not explicit."""
        if any(item.task != EXPLICIT for item in items):
            return None
        settings = protocol.settings
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

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Yield tables 1 and 2 as rows: means over paradigms, computed from the records' values alone."""
        for place, members in by_place(records).items():
            yield from (
                _explicit_rows(place, members) if place[0] == EXPLICIT else _implicit_rows(place, members)
            )

    def remarks(self, records: Sequence[VerdictRecord]) -> Iterable[str]:
        """Return a warning if all implicit pairs are ties, because their accuracy then means nothing."""
        pairs = [pair_result(r.values) for r in records if r.task == IMPLICIT and "test" in r.values]
        if len(pairs) > 1 and all(is_tie(pair.scores) for pair in pairs):
            yield f"all {len(pairs)} implicit pairs are ties: the sentiment scores do not depend on the sentence"


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
        return judge_scores(pair, read_scores(replies), "by the classifier")
    return judge_chat_scores(
        pair, await score_pair(sentences, ask, way=settings.chat_score, samples=settings.samples)
    )


def _explicit_rows(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    values: list[Mapping[str, Any]] = [r.values for r in members if "test" in r.values]
    if not values:
        return
    facts = {paradigm_name(v): facts_of(v) for v in values}
    scores = explicit.paradigm_scores((paradigm_name(v), bool(v["test"]), bool(v["control"])) for v in values)
    yield from explicit.accuracy_rows(place, scores, facts)
    for name in ("canary_token", "canary_swallowed"):
        groups: dict[str, list[float]] = {}
        for v in values:
            groups.setdefault(paradigm_name(v), []).append(v[name])
        mean = sum(sum(group) / len(group) for group in groups.values()) / len(groups)
        yield Metric(*place, f"{name}_rate", mean, len(values), "overall", direction="lower")


def _implicit_rows(place: Place, members: Sequence[VerdictRecord]) -> Iterator[Metric]:
    values: list[Mapping[str, Any]] = [r.values for r in members if "test" in r.values]
    pairs = [pair_result(v) for v in values]
    yield from implicit_metrics.implicit_metrics(place, pairs)
    yield from authors_metrics.authors_metrics(place, pairs)
    if pairs:
        yield rate(place, "tie_rate", [is_tie(pair.scores) for pair in pairs], "none")
    sampled = [bool(v["sampled"]) for v in values if "sampled" in v]
    if sampled:
        yield rate(place, "sampled_rate", sampled, "none")
