"""``llmprops dtails rules``: have a model write how the variations of each concept differ."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

from pytest_llmprops.cli.kit import Groups


def add_commands(commands: Groups) -> None:
    """Add ``dtails rules``."""
    command = commands.add_parser(
        "rules",
        help="let a model write rules for lexical choice",
        description="Send one prompt per concept, with the longest sentences under 50 tokens of each variation."
        " The sentences come from train rows or a corpus, never from test rows. The rules file is editable JSON;"
        " use it with --llm-set dtails.rules=FILE.",
    )
    command.add_argument("--model", required=True, metavar="SPEC", help="a chat model, as for pytest --model")
    command.add_argument("--lang", required=True, metavar="XX", help="code of the target language")
    command.add_argument("--base-url", metavar="URL", help="base URL of an OpenAI-compatible server")
    command.add_argument(
        "--data", type=Path, metavar="DIR", help="published or extracted data (default: built-in)"
    )
    command.add_argument(
        "--corpus",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="parallel corpus for example sentences, English first",
    )
    command.add_argument("--all", action="store_true", help="include concepts of XX.words without a test row")
    command.add_argument("--out", type=Path, metavar="FILE", help="rules file (default: rules-XX-MODEL.json)")
    command.add_argument(
        "--max-tokens", type=int, default=2048, metavar="N", help="maximum length of a reply (default: 2048)"
    )
    command.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="sampling temperature (default: 0)"
    )
    command.add_argument("--store", metavar="FILE|URL", help="reply store (default: the same as pytest)")
    command.set_defaults(command=_rules)


def _rules(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.dtails.tools.mining.corpus import read_pairs
    from pytest_llmprops.benchmarks.dtails.tools.rules_file import concepts_of, save_rules, write_rules
    from pytest_llmprops.core.errors import LLMPropsError, UsageError
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
    paths: list[Path] = options.corpus or []
    corpus = (lambda: read_pairs(*paths, language=options.lang)) if paths else None
    concepts = concepts_of(files, options.lang, every=options.all, corpus=corpus)
    out = options.out or Path(f"rules-{options.lang}-{_file_name_part(model.label)}.json")
    rules, bad = write_rules(
        model,
        concepts,
        options.lang,
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
    return 0


def _file_name_part(label: str) -> str:
    # A label may be a whole path, and file systems limit names to 255 bytes.
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in label)[-60:]


def _progress(total: int) -> Callable[[int], None]:
    def show(done: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} of {total} concepts" + ("\n" if done == total else ""))
            sys.stderr.flush()

    return show
