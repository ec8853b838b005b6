"""``llmprops dtails annotate``, ``page`` and ``agreement``: write sheets, fill them in, compute agreement."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import Groups, wrote

_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}


def add_commands(commands: Groups) -> None:
    """Add ``dtails annotate``, ``page`` and ``agreement``."""
    annotate = commands.add_parser(
        "annotate",
        help="write blind sheets for annotators",
        description="Write annotator_1.csv ... and key.json. Each annotator fills in one sheet, in a"
        " spreadsheet or with `llmprops dtails page`. Do not show key.json to annotators.",
    )
    annotate.add_argument("--task", required=True, choices=("selection", "rules"), help="study")
    annotate.add_argument(
        "--lang", required=True, metavar="XX", help="code of the target language, such as af"
    )
    annotate.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")
    annotate.add_argument("--rules", type=Path, metavar="FILE", help="rules file to judge (task rules)")
    annotate.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="data in the authors' layout (task selection; default: built-in)",
    )
    annotate.add_argument(
        "--annotators", type=int, default=3, metavar="N", help="number of sheets (default: 3)"
    )
    annotate.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of all random choices (default: 0)"
    )
    annotate.add_argument(
        "--separator",
        choices=tuple(_SEPARATORS),
        default="comma",
        help="column separator; use semicolon where the decimal sign is a comma (default: comma)",
    )
    annotate.set_defaults(command=_annotate)
    page = commands.add_parser(
        "page",
        help="fill in one sheet in a browser",
        description="Serve a local page on which one annotator fills in one sheet. Each answer is saved"
        " immediately. Stop with Ctrl-C; run the command again to continue.",
    )
    page.add_argument("sheet", type=Path, metavar="SHEET.csv")
    page.add_argument("--port", type=int, default=0, metavar="N", help="port (default: any free port)")
    page.set_defaults(command=_page)
    agreement = commands.add_parser(
        "agreement",
        help="compute accuracy and agreement from filled sheets",
        description="Print accuracy, total agreement, Fleiss' kappa and PABAK, from the sheets listed in"
        " DIR/key.json.",
    )
    agreement.add_argument(
        "folder", type=Path, metavar="DIR", help="folder of the filled sheets and key.json"
    )
    agreement.add_argument(
        "--without", action="append", default=[], metavar="SHEET.csv", help="leave this sheet out; repeatable"
    )
    agreement.add_argument(
        "--write",
        type=Path,
        metavar="DIR",
        help="write the expert set to DIR, for --llm-data (task selection)",
    )
    agreement.set_defaults(command=_agreement)


def _annotate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.dtails.tools.annotation import sheets
    from pytest_llmprops.core.errors import UsageError

    if not (len(options.lang) == 2 and options.lang.isascii() and options.lang.islower()):
        raise UsageError(f"--lang {options.lang}: not a code of two lowercase letters, such as af")
    study_options = {
        "annotators": options.annotators,
        "seed": options.seed,
        "delimiter": _SEPARATORS[options.separator],
    }
    if options.task == "rules":
        if options.data is not None:
            raise UsageError("--data is only for --task selection; --task rules judges the file of --rules")
        if options.rules is None:
            raise UsageError("--task rules needs --rules FILE; `llmprops dtails rules` makes one")
        return wrote(sheets.write_rules(options.out, options.rules, options.lang, **study_options))
    if options.rules is not None:
        raise UsageError("--rules is only for --task rules; sheets of --task selection show no rules")
    rows, source = sheets.selection_rows(options.data, options.lang)
    return wrote(sheets.write_selection(options.out, rows, options.lang, source, **study_options))


def _page(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.dtails.tools.annotation.server import serving

    with serving(options.sheet, options.port) as page:
        print(f"{options.sheet}: {page.progress()}. Each answer is saved immediately; stop with Ctrl-C.")
        print(page.url, flush=True)
        try:
            page.serve_forever()
        except KeyboardInterrupt:
            print()
    print(f"{options.sheet}: {page.progress()}")
    if page.save_error:
        print(page.save_error)
    return 1 if page.save_error else 0


def _agreement(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.dtails.tools.annotation.expert_set import write_expert_set
    from pytest_llmprops.benchmarks.dtails.tools.annotation.results import result_lines
    from pytest_llmprops.benchmarks.dtails.tools.annotation.study import read_study

    study = read_study(options.folder, without=options.without)
    print("\n".join(result_lines(study)))
    return wrote(write_expert_set(options.write, study)) if options.write is not None else 0
