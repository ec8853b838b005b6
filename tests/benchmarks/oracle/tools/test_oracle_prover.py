"""`llmprops oracle prover`: shares of potential alignments of the three provers, without a model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.oracle.tools.sentences import (
    OTHER,
    PROVERS,
    SELF,
    Helpers,
    Strengths,
    labelled_pairs,
    measure,
    roc,
    run,
)
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.requests import Embed, Parse, Reply, Request
from tests.support.oracle_runs import Helper, pair

DOGS, MOVED = "red dogs barked loudly last night.", "last night red dogs barked loudly."
CATS = "small cats slept under warm tables."
ITEMS = (pair(DOGS, MOVED, 1), pair(CATS, DOGS, 2, label=False), pair(MOVED, "It is unparsable.", 3))


async def ask(request: Request, role: str = "") -> Reply:
    """Reply like the helper of the scripted runs."""
    helper = Helper()
    assert isinstance(request, Parse | Embed)
    [result] = helper.parse([request]) if isinstance(request, Parse) else helper.embed([request])
    if isinstance(result, BackendError):
        raise result
    return result


def test_shares_by_kind_and_prover() -> None:
    """Moved phrases and the sentences themselves are aligned by all provers; a text without a tree is left out."""
    kinds = labelled_pairs(ITEMS, 50, generator(0))
    assert {kind: len(pairs) for kind, pairs in kinds.items()} == {
        "equivalent": 2,
        OTHER: 1,
        "random": 50,
        SELF: 3,
    }
    results = asyncio.run(measure(kinds, ask))
    for name in PROVERS:
        assert results["equivalent"][name].share[0] == 1
        assert results["equivalent"][name].missing == 1
        assert results[SELF][name].share[0] == 1
    assert results[OTHER]["covering, bar (quick)"].share[0] == 0


def test_the_table_is_reproducible() -> None:
    """The lines are the same for the same seed, and name each prover and kind."""
    lines = run(ITEMS, ask, 5, generator(1))
    assert lines == run(ITEMS, ask, 5, generator(1))
    assert lines[0] == f"| pairs | n | {' | '.join(PROVERS)} |"
    assert [line.split(" | ")[0] for line in lines if line.startswith("| eq")] == ["| equivalent"]
    assert sum("area under the ROC 1.000" in line for line in lines) == len(PROVERS)
    assert any("cannot process them: 1" in line for line in lines)


def test_roc_by_hand() -> None:
    """Of four comparisons, three are won and one is a tie."""
    area, points = roc(Strengths((0.9, 0.7)), Strengths((0.7, 0.0)))
    assert area == pytest.approx(3.5 / 4)
    assert points[0] == (0.0, 0.5, 1.0)
    assert points[-1] == (0.9, 0.0, 0.5)


def test_a_helper_processes_a_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The written-form parser is called once for a repeated request, and an unknown model is an error."""
    helpers = Helpers({"parse": "words"})
    calls: list[object] = []

    def serve(model: object, requests: object) -> list[Reply]:
        calls.append(requests)
        return [Reply("x")]

    monkeypatch.setattr("pytest_llmprops.benchmarks.oracle.tools.sentences.serve", serve)
    request = Parse("one", "en", "constituency")
    replies = [asyncio.run(helpers(request, role="parse")) for _ in range(2)]
    helpers.close()
    assert replies[0] is replies[1]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--limit", "1"], "--limit must be at least 2"),
        (["--parse", "gone:x"], "gone"),
        (["--data", "nowhere"], "nowhere"),
    ],
)
def test_bad_options_give_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A bad option gives one line and exit status 2."""
    assert main(["oracle", "prover", *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
