"""``llmprops demo``: a decision on published verdicts, without a key, a model or a checkout."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import Groups, recorded, wrote
from pytest_llmprops.core.errors import MissingExtra
from pytest_llmprops.core.texts import terminal_line
from pytest_llmprops.reports.tables import terminal_width

_OLDER, _NEWER = "GPT-3.5", "GPT-4"
_GATE = """\
[[rule]]
benchmark = "homophones"
max_drop = 0.1
no_collapse = 0.15
each = "language"
"""


def add_demo(groups: Groups) -> None:
    """Add ``demo``."""
    demo = groups.add_parser(
        "demo",
        help="decide whether GPT-4 may replace GPT-3.5, and the other way round, on published verdicts",
        description="Decide on the published verdicts of two models on 200 homophones, and write the report. Nothing is"
        " measured, and nothing is sent.",
    )
    demo.add_argument(
        "--out",
        type=Path,
        default=Path("llmprops-demo"),
        metavar="DIR",
        help="folder (default: llmprops-demo)",
    )
    demo.set_defaults(command=_demo)


def _demo(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.gate import gate_lines
    from pytest_llmprops.runs.gate.decide import decide
    from pytest_llmprops.runs.gate.file import read_gate

    folder: Path = options.out
    runs = {model: recorded(_imported(model, folder)) for model in (_OLDER, _NEWER)}
    file = folder / "gate.toml"
    file.write_text(_GATE, encoding="utf-8")
    gate = read_gate(file)
    for candidate, baseline in ((_NEWER, _OLDER), (_OLDER, _NEWER)):
        run, other = runs[candidate], runs[baseline]
        result = decide(gate, run.facts, run.records, other, problems=run.problems)
        print(f"May {candidate} replace {baseline}? Their published verdicts on 200 homophones say:")
        print("\n".join([*gate_lines(result, terminal_width()), ""]))
    return _report(folder, runs[_OLDER].folder, runs[_NEWER].folder, file)


def _imported(model: str, folder: Path) -> str:
    """Return the folder of a run with the published verdicts of a model; one of an earlier demo is kept."""
    from pytest_llmprops.data.files import builtin_data
    from pytest_llmprops.runs.import_results import import_results

    run = folder / model
    if not (run / "run.json").exists():
        verdicts = builtin_data() / "homophones" / "published_verdicts.csv"
        import_results(verdicts, model, benchmark="homophones", score=model, out=run)
    return str(run)


def _report(folder: Path, run: Path, baseline: Path, gate: Path) -> int:
    from pytest_llmprops.reports.page.build import write_report

    try:
        written = write_report([run], folder / "report", baseline, gate)
    except MissingExtra as missing:
        print(f"The page of the second decision is left out: {terminal_line(str(missing))}")
        return 0
    print("The page of the second decision:")
    return wrote(path for path in written if path.name == "report.html")
