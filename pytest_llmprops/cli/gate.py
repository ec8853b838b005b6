"""``llmprops gate``: apply a gate file to a recorded run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_llmprops.cli.kit import Groups
from pytest_llmprops.core.errors import UsageError


def add(groups: Groups) -> None:
    """Add ``gate``."""
    about = "apply a gate to a recorded run; exit status 0 if it passes, otherwise 1"
    gate = groups.add_parser("gate", help=about, description=about)
    gate.add_argument("run", metavar="RUN", help="run folder, run id or name of a promoted run")
    gate.add_argument("--gate", type=Path, required=True, metavar="FILE", help="gate file")
    gate.add_argument(
        "--baseline", metavar="RUN", help="baseline: a run folder, a run id or the name of a promoted run"
    )
    gate.add_argument("--json", action="store_true", help="print the decision as JSON")
    gate.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="append the decision as Markdown to FILE, for example $GITHUB_STEP_SUMMARY",
    )
    gate.set_defaults(command=_gate)


def _gate(options: argparse.Namespace) -> int:
    from pytest_llmprops.reports.gate import gate_lines, gate_markdown
    from pytest_llmprops.reports.tables import terminal_width
    from pytest_llmprops.runs.catalog import find_run
    from pytest_llmprops.runs.gate.decide import decide, with_computed_metrics
    from pytest_llmprops.runs.gate.file import read_gate
    from pytest_llmprops.runs.reader import read_run

    gate = read_gate(options.gate)
    run = with_computed_metrics(gate, read_run(find_run(options.run)))
    baseline = read_run(find_run(options.baseline)) if options.baseline else None
    if baseline is None and gate.needs_baseline:
        raise UsageError(
            f"{options.gate}: a rule with no_regression or max_drop needs a baseline; give one with --baseline RUN"
        )
    result = decide(gate, run.facts, run.records, baseline, problems=run.problems)
    if options.markdown is not None:
        with open(options.markdown, "a", encoding="utf-8") as file:
            file.write(gate_markdown(result))
    if options.json:
        import json

        # An escape of the console would not be JSON.
        is_unicode = sys.stdout.encoding.lower().startswith("utf")
        print(json.dumps(result.to_json(), ensure_ascii=not is_unicode, indent=1))
    else:
        notes = [f"note: {note}" for r in (run, baseline) if r is not None for note in r.notes]
        print("\n".join([*notes, *gate_lines(result, terminal_width())]))
    return 0 if result.passed else 1
