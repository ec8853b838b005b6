"""``llmprops eras table2``: compute table 2 of ERAS from the authors' published scores."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import Groups

_NAMES = ("gper", "pair_accuracy", "necessity", "sufficiency")
_HEADINGS = ("GPER", "accuracy", "necessity", "sufficiency")


def add_command(commands: Groups) -> None:
    """Add ``eras table2`` to the commands of ``llmprops eras``."""
    command = commands.add_parser(
        "table2",
        help="compute a row of table 2 from the authors' published scores",
        description="Compute GPER, accuracy, necessity, sufficiency and the differences as the authors' code does, and"
        " print them with the rows of table 2. The files are in sent_results/ of github.com/winglicopy/ERAS.",
    )
    command.add_argument(
        "--scores", type=Path, required=True, metavar="FILE", help="the scores: NAME_result.json"
    )
    command.add_argument(
        "--occlusion",
        type=Path,
        metavar="FILE",
        help="the occlusion values (default: NAME_occu.json in the folder of the scores)",
    )
    command.set_defaults(command=_table2)


def _table2(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.implicit import SENTIMENTS
    from pytest_llmprops.benchmarks.eras.tools.authors_scores import authors_table, occlusion_beside
    from pytest_llmprops.data.published_results import find

    occlusion = options.occlusion or occlusion_beside(options.scores)
    table = authors_table(options.scores, occlusion)
    values = table.values
    own = [values.gper, values.accuracy, values.necessity, values.sufficiency]
    rows = [(options.scores.name, [*own, *(table.differences[name] for name in SENTIMENTS)])]
    printed = find(paper="eras", table="2")
    for model in dict.fromkeys(result.model for result in printed):
        cells = {(r.metric, r.setting): r.value for r in printed if r.model == model}
        numbers = [cells.get((name, ""), cells.get((name, "overall"))) for name in _NAMES]
        rows.append(
            (f"{model} (paper)", [*numbers, *(cells.get(("difference", name)) for name in SENTIMENTS)])
        )
    width = max(len(name) for name, _ in rows)
    print(" " * width, *(f"{name:>11}" for name in (*_HEADINGS, *SENTIMENTS)))
    for name, numbers in rows:
        print(f"{name:<{width}}", *(f"{'–' if x is None else format(100 * x, '.1f'):>11}" for x in numbers))
    print(
        f"{table.pairs:,} pairs of the 39 paradigms; the file has {table.all_pairs:,} pairs of 60 templates."
    )
    print("The last four columns are control minus test p(positive), averaged over paradigms.")
    if occlusion is None:
        print("GPER, necessity and sufficiency need the occlusion values: pass --occlusion NAME_occu.json.")
    return 0
