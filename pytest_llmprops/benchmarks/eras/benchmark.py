"""The ERAS benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_llmprops.benchmarks.eras.explicit import measure_explicit
from pytest_llmprops.benchmarks.eras.items import (
    EXPLICIT,
    IMPLICIT,
    Convert,
    SentencePair,
    load_items,
    sentences_in_script,
)
from pytest_llmprops.benchmarks.eras.metrics import DIRECTIONS, metric_rows, remarks
from pytest_llmprops.benchmarks.eras.sentiment import measure_implicit
from pytest_llmprops.benchmarks.eras.settings import ErasSettings
from pytest_llmprops.core.benchmark import Ask, Benchmark, DataFiles, Loaded
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.metrics import Metric
from pytest_llmprops.core.protocols import NamedSettings, Protocol
from pytest_llmprops.core.requests import Kind
from pytest_llmprops.core.verdicts import Verdict, VerdictRecord

#: With more pairs than this in one task, a paradigm is one pytest case.
MAX_PAIR_CASES = 20_000
_FILLED = (
    "the authors' slot words are not published: published templates are filled with this project's words"
)
_ASSUMED = (
    _FILLED,
    "simplified characters: the AS, CityU and jieba rows use traditional ones (eras.script=chinese-converter)",
    "chat models are not in the paper: prompts, answer letters, the mask □ and how replies are read are this project's",
)


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
    metric_directions = DIRECTIONS
    judges_filtered = True
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
        "paper": NamedSettings(ErasSettings(samples=20, rule="paper"), assumed=_ASSUMED),
        "quick": NamedSettings(
            ErasSettings(),
            assumed=(_FILLED,),
            gives_up="samples of a chat model without log probabilities (5 instead of 20): coarser scores, more ties",
        ),
    }

    def load(self, files: DataFiles) -> Loaded:
        return load_items(files)

    def kinds_of(self, task: str, settings: ErasSettings) -> frozenset[Kind]:
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
        self, item: Item, context: Convert, ask: Ask, protocol: Protocol[ErasSettings]
    ) -> Verdict:
        settings = protocol.settings
        pair: SentencePair = item["pair"]
        texts = sentences_in_script(pair, settings.script, context)
        measure = measure_explicit if item.task == EXPLICIT else measure_implicit
        return await measure(pair, texts, ask, settings)

    def caption(self, item: Item) -> str:
        return str(item["pair"].test)

    def metrics(self, records: Sequence[VerdictRecord]) -> Iterable[Metric]:
        """Yield tables 1 and 2 as rows: means over paradigms, computed from the records' values alone."""
        yield from metric_rows(records)

    def remarks(self, records: Sequence[VerdictRecord]) -> Iterable[str]:
        """Yield warnings about accuracies that mean nothing (degenerate segmentations, only ties)."""
        yield from remarks(records)
