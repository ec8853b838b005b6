"""No suite takes a model that knows nothing for a good one, and a warning names each (``fixtures/degenerate.py``)."""

from __future__ import annotations

import pytest

from fixtures.degenerate import MODELS, headline_results
from tests.support.runs import ROOT, Runner

#: few items of each suite, but enough for a warning
SOME = "not search and (htest or homophones or oracle or dtails/gl or eras/explicit/0 or eras/implicit/0)"
FEW = ("--llm-limit", "8", "--llm-set", "eras.samples=2", "--llm-helper", "parse=words", "-k", SOME)


@pytest.mark.parametrize("name", [one.__name__ for one in MODELS])
def test_a_model_that_knows_nothing_does_not_win(name: str, run: Runner) -> None:
    """Its accuracy is not above chance in any suite, and the summary has a warning on each."""
    model = f"fake:call?file={ROOT / 'fixtures' / 'degenerate.py'}&function={name}"
    done = run(str(ROOT / "suites"), "--rootdir", str(run.folder), "--model", model, *FEW, "-q", timeout=300)
    if name == "empty":
        # The run ends: an empty reply costs as much as a good one.
        assert done.run["stopped"].startswith("fake")
        assert "20 empty replies in a row" in done.run["stopped"]
        return
    results = headline_results(done.run)
    assert set(results) == {"dtails", "eras", "homophones", "htest", "oracle"}
    assert {name: result.low <= result.chance for name, result in results.items()} == dict.fromkeys(
        results, True
    )
    warned = {row["benchmark"] for row in done.run["remarks"] if row["warning"]}
    assert warned == set(results)
