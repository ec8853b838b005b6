"""Edits of DTAiLS choices: the same variations in another order, and sentences that leave the concept alone."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.benchmark import Dtails
from pytest_llmprops.benchmarks.dtails.edits import DtailsEdits, sentence_edits
from pytest_llmprops.benchmarks.dtails.items import SELECT
from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.core.benchmark_checks import loaded
from pytest_llmprops.core.protocols import resolve
from pytest_llmprops.core.requests import Chat, Kind, Reply, Request
from pytest_llmprops.core.searches import drawn
from pytest_llmprops.data.files import DataFolder, builtin_data

D = Dtails()


@pytest.fixture(scope="module")
def data() -> Loaded:
    """Return the built-in items."""
    return loaded(D, DataFolder(builtin_data(), "builtin"))


class Model:
    """The ``ask`` of a benchmark; it takes the first word of the list, or ``label`` wherever it is."""

    kinds: frozenset[Kind] = frozenset({"chat"})
    roles: frozenset[str] = frozenset()

    def __init__(self, label: str = "") -> None:
        self._label, self.asked = label, list[Chat]()

    async def __call__(self, request: Request, role: str = "subject") -> Reply:
        assert isinstance(request, Chat)
        self.asked.append(request)
        listed = re.findall(r"'([^']*)'", request.messages[-1].content.rpartition("list: [")[2])
        return Reply(f"```{self._label or listed[0].split('/')[0]}```")


def test_variants_have_the_same_choice(data: Loaded) -> None:
    """Each built-in item has the same variations and as many words of its concept after random edits."""
    protocol, rng = resolve("dtails", D.protocols, "quick", {}, 0), random.Random(0)
    for item in (item for item in data.items if item.task == SELECT):
        edits = asyncio.run(D.edits(item, data.context, Model(), protocol))
        assert isinstance(edits, DtailsEdits)
        stem = item["concept"][:3].casefold()
        for _ in range(4):
            variant = drawn(edits, rng)
            assert variant is not None
            sentence, order = variant.content
            assert sorted(order) == [*range(len(item["variations"]))]
            texts = (sentence.casefold(), item["sentence"].casefold())
            assert len({len(re.findall(rf"\b{re.escape(stem)}", text)) for text in texts}) == 1


@pytest.mark.parametrize(
    ("sentence", "concept", "left_out"),
    [
        ("The grey harbours did not close.", "harbour", "spelling"),
        ("The harbours did not close.", "do", "contraction"),
        ("We waited two days.", "two", "number"),
        ("We waited 2 days.", "two", "number"),
    ],
)
def test_edits_of_the_concept_are_left_out(sentence: str, concept: str, left_out: str) -> None:
    """An edit that changes the concept, or an auxiliary verb that may be a form of it, is not made."""
    assert left_out in sentence_edits(sentence, "gate")
    assert left_out not in sentence_edits(sentence, concept)


@pytest.mark.parametrize(("runs", "protocol"), [("1", "quick"), ("3", "paper")])
def test_zeros_are_the_first_run(data: Loaded, runs: str, protocol: str) -> None:
    """The search begins with the question of the first run, also if the measurement has several."""
    item = next(item for item in data.items if item.task == SELECT)
    resolved = resolve("dtails", D.protocols, protocol, {"runs": runs, "edits": "true"}, 0)
    model = Model(item["label"][0])
    verdict = asyncio.run(D.evaluate(item, data.context, model, resolved))
    assert (verdict.status, verdict.values["edit_right"]) == ("correct", 1)
    assert len(model.asked) == int(runs) + 1

    async def zeros() -> Any:
        edits = await D.edits(item, data.context, model, resolved)
        assert isinstance(edits, DtailsEdits)
        return await edits.judge(edits.original, model)

    assert asyncio.run(zeros()).status == "correct"
    assert model.asked[-1] == model.asked[0]


def test_model_that_takes_the_first_word_depends_on_the_order(data: Loaded) -> None:
    """Its right choices become wrong in another order of two words."""
    protocol = resolve("dtails", D.protocols, "quick", {}, 0)
    item = next(item for item in data.items if item.task == SELECT and len(item["variations"]) == 2)
    model = Model()
    edits = asyncio.run(D.edits(item, data.context, model, protocol))
    assert isinstance(edits, DtailsEdits)
    zeros = [0] * (len(edits.size) - 1)
    statuses = {
        asyncio.run(edits.judge(edits.variant((number, *zeros)), model)).status for number in range(2)
    }
    assert statuses == {"correct", "wrong"}
    names = ["/".join(forms) for forms in item["variations"]]
    assert edits.variant((1, *zeros)).edits[0] in {f"listed as {', '.join(o)}" for o in (names, names[::-1])}
