"""``llmprops dtails extract``: extract concepts with variations from a parallel corpus."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_llmprops.cli.kit import Groups, wrote


def add_mining(commands: Groups) -> None:
    """Add ``dtails extract``."""
    command = commands.add_parser(
        "extract",
        help="extract concepts with several translations, and a test set, from a parallel corpus",
        description="Find English words with several translations in a corpus of sentence pairs, and write them in"
        " the authors' formats, for --llm-source published --llm-data DIR. The corpus is analysed in parts: an"
        " interrupted run resumes after the last complete part. docs/dtails-extract.md explains every step.",
    )
    add = command.add_argument
    corpus_help = "English file and target file, one sentence per line; each may be .gz"
    add("--corpus", nargs=2, type=Path, required=True, metavar=("EN", "TARGET"), help=corpus_help)
    add("--lang", required=True, metavar="XX", help="code of the target language, two letters")
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write into; DIR/work is kept")
    add("--source-parser", default="stanza", metavar="SPEC", help="stanza or spacy:MODEL (default: stanza)")
    target_help = "stanza, spacy:MODEL, or words: written forms, no lemmas (default: stanza)"
    add("--target-parser", default="stanza", metavar="SPEC", help=target_help)
    aligner_help = "multilingual encoder that aligns words (default: multilingual BERT, layer 8)"
    add("--aligner", metavar="SPEC", help=aligner_help)
    senses_help = "encoder of WordNet's glosses, or none (default: minilm, if WordNet is installed)"
    add("--senses", metavar="SPEC", help=senses_help)
    numbers: tuple[tuple[str, int | float, str], ...] = (
        ("--min-count", 50, "minimum number of links per variation"),
        ("--min-entropy", 0.69, "minimum entropy of a concept, in nats"),
        ("--forms", 6, "written forms per variation"),
        ("--concepts", 20, "concepts in the test set"),
        ("--per-concept", 10, "sentence pairs per concept"),
        ("--uniform", 0.20, "with more than --concepts: maximum difference of a variation's share from 1/k"),
        ("--seed", 0, "seed of all random choices"),
    )
    for name, default, what in numbers:
        add(name, type=type(default), default=default, metavar="N", help=f"{what} (default: {default})")
    tags_help = "universal part-of-speech tags of concepts (default: NOUN VERB ADJ ADV)"
    add("--pos", nargs="+", metavar="TAG", help=tags_help)
    command.set_defaults(command=_extract)


def _extract(options: argparse.Namespace) -> int:
    from contextlib import ExitStack, closing

    from pytest_llmprops.benchmarks.dtails.tools.alignment import ENCODER, Encoder
    from pytest_llmprops.benchmarks.dtails.tools.concepts import CONTENT_TAGS
    from pytest_llmprops.benchmarks.dtails.tools.corpus import ModelParser, Parts
    from pytest_llmprops.benchmarks.dtails.tools.mining import Settings, check_target, extract
    from pytest_llmprops.benchmarks.dtails.tools.senses import GlossSenses, find_wordnet
    from pytest_llmprops.core.errors import UsageError

    check_target(options.lang, options.out)
    names = ("min_count", "min_entropy", "forms", "concepts", "per_concept", "uniform", "seed")
    settings = Settings(
        tuple(options.pos or CONTENT_TAGS), **{name: getattr(options, name) for name in names}
    )
    wordnet, senses, notes = find_wordnet(), None, []
    if wordnet is None and options.senses not in (None, "none"):
        raise UsageError(
            f"--senses {options.senses}: WordNet or NLTK is not installed; install the extra 'align', get WordNet's"
            " files (Debian: apt-get install wordnet-base; elsewhere: name them in WNSEARCHDIR), or use --senses none"
        )
    if wordnet is None and options.senses is None:
        notes.append("word senses were not checked: WordNet or NLTK is not installed (see --senses)")
    if options.target_parser == "words":
        notes.append("variations are written forms: the target parser 'words' gives no lemmas")
    with ExitStack() as stack:
        source = ModelParser("--source-parser", options.source_parser, "en", "dependency")
        stack.callback(source.model.close)
        target = ModelParser("--target-parser", options.target_parser, options.lang, "words")
        stack.callback(target.model.close)
        aligner, model = Encoder.load("--aligner", options.aligner or ENCODER)
        stack.callback(model.close)
        if wordnet is not None and options.senses != "none":
            encoder, model = Encoder.load("--senses", options.senses or "minilm")
            stack.callback(model.close)
            senses = stack.enter_context(closing(GlossSenses(wordnet, encoder)))
        work = options.out / "work" / f"dtails-en-{options.lang}"
        parts = Parts(work, tuple(options.corpus), source, target, aligner)
        try:
            paths, facts = extract(
                parts, options.lang, options.out, settings, senses=senses, notes=notes, progress=_progress
            )
        except KeyboardInterrupt:
            print("llmprops: interrupted; run the same command again to resume", file=sys.stderr)
            return 130
        if failed := source.failed + target.failed + aligner.failed:
            print(f"{failed:,} sentences could not be analysed or aligned", file=sys.stderr)
    numbers, rows = facts["statistics"], facts["rows"]
    print(f"en-{options.lang}: {facts['pairs']:,} pairs, {numbers['words']:,} source words")
    print(
        f"  {numbers['several']:,} words have two frequent variations, {numbers['entropy']:,} enough entropy,"
        f" {numbers['one_sense']:,} two variations of the same sense"
    )
    print(
        f"  test set: {rows['test_concepts']} concepts, {rows['test']} pairs; train: {rows['train']:,} pairs"
    )
    for note in facts["notes"]:
        print(f"  note: {note}")
    return wrote(paths)


def _progress(step: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{step}: {done:,} of {total:,} pairs" + ("\n" if done == total else ""))
        sys.stderr.flush()
