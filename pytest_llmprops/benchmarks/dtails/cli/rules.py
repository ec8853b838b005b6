"""``llmprops dtails rules``: have a model write how the variations of each concept differ."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmprops.cli.kit import Groups, wrote

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.dtails.tools.rules_file import Concept
    from pytest_llmprops.core.benchmark import DataFiles
    from pytest_llmprops.engine.session import OneModel

_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}


def add_annotation(commands: Groups) -> None:
    """Add ``dtails annotate`` and ``agreement``."""
    annotate = commands.add_parser(
        "annotate",
        help="write blind sheets for annotators",
        description="Write annotator_1.csv ... and key.json. Each annotator fills in one sheet in a spreadsheet."
        " Do not show key.json to annotators.",
    )
    add = annotate.add_argument
    add("--task", required=True, choices=("selection", "rules"), help="study")
    add("--lang", required=True, metavar="XX", help="code of the target language, such as af")
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write into")
    add("--rules", type=Path, metavar="FILE", help="rules file to judge (task rules)")
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="data in the authors' layout (task selection; default: built-in)",
    )
    add("--annotators", type=int, default=3, metavar="N", help="number of sheets (default: 3)")
    add("--seed", type=int, default=0, metavar="S", help="seed of all random choices (default: 0)")
    add(
        "--separator",
        choices=tuple(_SEPARATORS),
        default="comma",
        help="column separator; use semicolon where the decimal sign is a comma (default: comma)",
    )
    annotate.set_defaults(command=_annotate)
    agreement = commands.add_parser(
        "agreement",
        help="compute accuracy and agreement from filled sheets",
        description="Print accuracy, total agreement, Fleiss' kappa and PABAK, from the sheets in DIR that"
        " DIR/key.json names.",
    )
    add = agreement.add_argument
    add("folder", type=Path, metavar="DIR", help="folder of the filled sheets and key.json")
    add("--write", type=Path, metavar="FILE", help="write the expert set, as CSV (task selection)")
    agreement.set_defaults(command=_agreement)


def _annotate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.dtails.tools.sheets import rules_study, selection_study, write_sheets
    from pytest_llmprops.core.errors import UsageError

    if not (len(options.lang) == 2 and options.lang.isascii() and options.lang.islower()):
        raise UsageError(f"--lang {options.lang}: not a code of two lowercase letters, such as af")
    if options.task == "rules":
        if options.data is not None:
            raise UsageError("--data is only for --task selection; --task rules judges the file of --rules")
        if options.rules is None:
            raise UsageError("--task rules needs --rules FILE; `llmprops dtails rules` makes one")
        study = rules_study(options.lang, options.rules)
    else:
        if options.rules is not None:
            raise UsageError("--rules is only for --task rules; sheets of --task selection show no rules")
        study = selection_study(options.lang, options.data)
    delimiter = _SEPARATORS[options.separator]
    annotators, seed = options.annotators, options.seed
    return wrote(write_sheets(options.out, study, annotators=annotators, seed=seed, delimiter=delimiter))


def _agreement(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.dtails.tools.sheets import read_study, result_lines, write_expert_set

    study = read_study(options.folder)
    print("\n".join(result_lines(study)))
    return wrote(write_expert_set(options.write, study)) if options.write is not None else 0


def add_rules(commands: Groups) -> None:
    """Add ``dtails rules``."""
    command = commands.add_parser(
        "rules",
        help="let a model write rules for lexical choice",
        description="Send one prompt per concept, with the longest sentences under 50 tokens of each variation."
        " The sentences come from train rows or a corpus, never from test rows. The rules file is editable JSON;"
        " use it with --llm-set dtails.rules=FILE.",
    )
    add = command.add_argument
    add("--model", required=True, metavar="SPEC", help="a chat model, as for pytest --model")
    add(
        "--lang",
        nargs="+",
        required=True,
        metavar="XX",
        help="codes of target languages, or all: every language with test rows",
    )
    add("--base-url", metavar="URL", help="base URL of an OpenAI-compatible server")
    add("--data", type=Path, metavar="DIR", help="published or extracted data (default: built-in)")
    add(
        "--corpus",
        type=Path,
        nargs=2,
        metavar=("EN", "TARGET"),
        help="parallel corpus for example sentences: two files, each may be .gz",
    )
    add("--all", action="store_true", help="include concepts of XX.words without a test row")
    add("--out", type=Path, metavar="FILE", help="rules file of one language (default: rules-XX-MODEL.json)")
    add("--max-tokens", type=int, default=2048, metavar="N", help="maximum length of a reply (default: 2048)")
    add("--temperature", type=float, default=0.0, metavar="T", help="sampling temperature (default: 0)")
    add("--store", metavar="FILE|URL", help="reply store (default: the same as pytest)")
    command.set_defaults(command=_rules)


def _rules(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.dtails.items import languages
    from pytest_llmprops.core.errors import UsageError
    from pytest_llmprops.data.files import DataFolder, builtin_data
    from pytest_llmprops.engine.session import OneModel
    from pytest_llmprops.models.registry import parse_spec

    if options.max_tokens < 1 or not 0 <= options.temperature < math.inf:
        raise UsageError("--max-tokens must be at least 1 and --temperature at least 0")
    spec = parse_spec(options.model, base_url=options.base_url)
    model = OneModel(spec, base_url=options.base_url, store=options.store)
    if "chat" not in model.kinds:
        raise UsageError(f"--model {options.model}: not a chat model; rules need a chat model")
    files = DataFolder(builtin_data(), "builtin")
    if options.data is not None:
        files = DataFolder(options.data, DataFolder(options.data, "published").source_for("dtails"))
    codes = list(dict.fromkeys(options.lang))
    if codes == ["all"]:
        codes = list(languages(files))
    if len(codes) > 1 and (options.out is not None or options.corpus):
        raise UsageError(
            f"--lang {' '.join(options.lang)}: --out and --corpus are for one language; give one, or leave them out"
        )
    # Read all data before the first call.
    concepts = {code: _concepts(options, files, code) for code in codes}
    outs = [_write_rules(options, model, code, concepts[code]) for code in codes]
    if len(outs) > 1:
        print(f"use them with --llm-set dtails.rules={','.join(map(str, outs))}")
    return 0


def _concepts(options: argparse.Namespace, files: DataFiles, language: str) -> list[Concept]:
    from pytest_llmprops.benchmarks.dtails.tools.corpus import read_pairs
    from pytest_llmprops.benchmarks.dtails.tools.rules_file import concepts_of

    paths: list[Path] = options.corpus or []
    corpus = (lambda: (pair[1:] for pair in read_pairs(*paths))) if paths else None
    return concepts_of(files, language, every=options.all, corpus=corpus)


def _write_rules(
    options: argparse.Namespace, model: OneModel, language: str, concepts: Sequence[Concept]
) -> Path:
    """Write the rules file of one language and return its path.

    :raises LLMPropsError: if some concepts have no rules; the file has the others.
    """
    from pytest_llmprops.benchmarks.dtails.tools.rules_file import save_rules, write_rules
    from pytest_llmprops.core.errors import LLMPropsError

    out: Path = options.out or Path(f"rules-{language}-{_file_name_part(model.label)}.json")
    rules, bad = write_rules(
        model,
        concepts,
        language,
        temperature=options.temperature,
        max_tokens=options.max_tokens,
        progress=_progress(len(concepts)),
    )
    if rules.concepts:
        save_rules(rules, out)
        without = sum(not concept.sentences for concept in rules.concepts)
        print(
            f"{out}: rules for {len(rules.concepts)} of {len(concepts)} concepts"
            + (f", {without} of them without example sentences (sentences: 0)" if without else "")
        )
    if bad:
        name, problem = bad[0]
        raise LLMPropsError(
            f"no rules for {len(bad)} of {len(concepts)} concepts, such as {name!r}: {problem};"
            " run again, or write them by hand"
        )
    return out


def _file_name_part(label: str) -> str:
    # A label may be a whole path, and file systems limit names to 255 bytes.
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in label)[-60:]


def _progress(total: int) -> Callable[[int], None]:
    def show(done: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} of {total} concepts" + ("\n" if done == total else ""))
            sys.stderr.flush()

    return show
