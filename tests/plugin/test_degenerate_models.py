"""No suite takes a model that knows nothing for a good one, and a warning names each (``fixtures/degenerate.py``)."""

from __future__ import annotations

from fixtures.degenerate import MODELS, headline_results
from tests.support.runs import ROOT, Runner

#: few items of each suite, but enough for a warning
SOME = (
    "not search and (htest or homophones or oracle or dtails/gl"
    " or eras/explicit/00 or eras/explicit/05 or eras/implicit/01)"
)
FEW = (
    "--llm-limit=8", "--llm-set=eras.samples=2", "--llm-helper=parse=words", "-k", SOME, "-q", "--tb=no", "-rN",
)  # fmt: skip
#: empty replies end a run; each of the others answers almost as one that is measured
LEFT_OUT = {"empty", "always_b", "always_no", "examples", "first_option"}


def test_models_that_know_nothing_do_not_win(run: Runner) -> None:
    """Their accuracy is not above chance in any suite, and the summary has a warning on each."""
    names = [one.__name__ for one in MODELS if one.__name__ not in LEFT_OUT]
    file = ROOT / "fixtures" / "degenerate.py"
    models = [word for name in names for word in ("--model", f"fake:call?file={file}&function={name}")]
    facts = run(str(ROOT / "suites"), "--rootdir", str(run.folder), *models, *FEW, timeout=300).run
    suites = {"dtails", "eras", "homophones", "htest", "oracle"}
    assert len(facts["models"]) == len(names)
    for model in facts["models"]:
        own = {key: [row for row in facts[key] if row["model"] == model] for key in ("summary", "metrics")}
        above = {name: result.low > result.chance for name, result in headline_results(own).items()}
        assert above == dict.fromkeys(suites, False), model
        warned = {row["benchmark"] for row in facts["remarks"] if row["warning"] and row["model"] == model}
        assert warned == suites, model
