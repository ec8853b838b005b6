"""``llmprops lab dtails``: make rules, extract concepts from a parallel corpus, run annotation studies."""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_llmprops.cli.kit import Groups, add_annotation, add_settings, settings_in, subcommands, wrote

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.dtails.items import Entry, Row
    from pytest_llmprops.benchmarks.dtails.prompts import Variations
    from pytest_llmprops.benchmarks.dtails.rules import RulesOutcome
    from pytest_llmprops.core.benchmark import DataFiles
    from pytest_llmprops.engine.session import OneModel

_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``dtails rules``, ``extract``, and ``annotate``."""
    commands = subcommands(parser)
    for add in (_add_rules, _add_extract, _add_annotation):
        add(commands)


def _add_rules(commands: Groups) -> None:
    command = commands.add_parser(
        "rules",
        help="let a model write rules for lexical choice",
        description="Send one prompt per concept, with the longest train sentences under 50 tokens of each variation."
        " The rules file is editable JSON; use it with --llm-set dtails.rules=FILE.",
    )
    add = command.add_argument
    add("--model", required=True, metavar="SPEC", help="a chat model, as for pytest --model")
    languages_help = "codes of target languages, or all: every language with test rows"
    add("--lang", nargs="+", required=True, metavar="XX", help=languages_help)
    add("--base-url", metavar="URL", help="base URL of an OpenAI-compatible server")
    add("--data", type=Path, metavar="DIR", help="published or extracted data (default: built-in)")
    add("--all", action="store_true", help="include concepts of XX.words without a test row")
    add("--out", type=Path, metavar="FILE", help="rules file of one language (default: rules-XX-MODEL.json)")
    add("--max-tokens", type=int, default=2048, metavar="N", help="maximum length of a reply (default: 2048)")
    add("--temperature", type=float, default=0.0, metavar="T", help="sampling temperature (default: 0)")
    add("--store", metavar="FILE|URL", help="reply store (default: the same as pytest)")
    command.set_defaults(command=_rules)


class _Concept(NamedTuple):
    """A concept that needs rules, and the sentences for its prompt by variation name."""

    name: str
    pos: str
    variations: Variations
    sentences: dict[str, tuple[str, ...]]


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
    if len(codes) > 1 and options.out is not None:
        raise UsageError(
            f"--lang {' '.join(options.lang)}: --out is for one language; give one, or leave it out"
        )
    # Read all data before the first call.
    concepts = {code: _concepts(files, code, every=options.all) for code in codes}
    outs = [_write_rules(options, model, code, concepts[code]) for code in codes]
    if len(outs) > 1:
        print(f"use them with --llm-set dtails.rules={','.join(map(str, outs))}")
    return 0


def _concepts(files: DataFiles, language: str, *, every: bool) -> list[_Concept]:
    """Return the concepts of a language's test rows, with sentences from its train rows.

    :param every: Include concepts of the ``.words`` file without a test row.
    :raises UsageError: The data has other languages only. :raises DataError: A file is invalid.
    """
    from pytest_llmprops.benchmarks.dtails.items import expert_rows, languages, train_rows, words
    from pytest_llmprops.benchmarks.dtails.rules import concept_sentences
    from pytest_llmprops.core.errors import UsageError

    codes = languages(files)
    if codes and language not in codes:
        raise UsageError(f"--lang {language}: no rows in this language; the data has {', '.join(codes)}")
    test = expert_rows(files, language)
    by_key: dict[tuple[str, frozenset[object]], tuple[str, str, Variations]] = {}
    entries: list[Row | Entry] = [*test, *(words(files, language) if every else ())]
    for entry in entries:
        forms = tuple(variation.forms for variation in entry.variations)
        by_key.setdefault((entry.concept, frozenset(forms)), (entry.concept, entry.pos, forms))
    concepts = list(by_key.values())
    names = [(name, variations) for name, _, variations in concepts]
    sentences = concept_sentences(train_rows(files, language), names, [row.sentence for row in test])
    return [_Concept(*concept, own) for concept, own in zip(concepts, sentences, strict=True)]


def _write_rules(
    options: argparse.Namespace, model: OneModel, language: str, concepts: Sequence[_Concept]
) -> Path:
    """Write the rules file of one language and return its path.

    :raises LLMPropsError: if some concepts have no rules; the file has the others.
    """
    from pytest_llmprops.benchmarks.dtails.rules import RulesFile, RulesOutcome, make_rules
    from pytest_llmprops.core.errors import BackendError, LLMPropsError
    from pytest_llmprops.data.whole_files import write_text, writing

    out: Path = options.out or Path(f"rules-{language}-{_file_name_part(model.label)}.json")
    limits = {"temperature": options.temperature, "max_tokens": options.max_tokens}
    done = 0

    async def one(ask: OneModel, c: _Concept) -> RulesOutcome:
        nonlocal done
        try:
            outcome = await make_rules(ask, c.name, c.pos, c.variations, language, c.sentences, **limits)
        except BackendError as error:
            outcome = RulesOutcome(None, error.message)
        done += 1
        _progress(done, len(concepts), f"concepts of {language}")
        return outcome

    async def every() -> list[RulesOutcome]:
        async with model as ask:
            return await asyncio.gather(*(one(ask, concept) for concept in concepts))

    outcomes = asyncio.run(every())
    rules = tuple(outcome.rules for outcome in outcomes if outcome.rules is not None)
    if rules:
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            write_text(out, RulesFile(language, model.label, rules).to_json(), sync=True)
        without = sum(not concept.sentences for concept in rules)
        note = f", {without} of them without example sentences (sentences: 0)" if without else ""
        print(f"{out}: rules for {len(rules)} of {len(concepts)} concepts{note}")
    bad = [(c.name, o.problem) for c, o in zip(concepts, outcomes, strict=True) if o.rules is None]
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


def _progress(done: int, total: int, what: str = "pairs analysed") -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done:,} of {total:,} {what}" + ("\n" if done == total else ""))
        sys.stderr.flush()


def _add_extract(commands: Groups) -> None:
    from pytest_llmprops.benchmarks.dtails.tools.mining import Settings

    command = commands.add_parser(
        "extract",
        help="extract concepts with several translations, and a test set, from a parallel corpus",
        description="Find English words with several translations in a corpus of sentence pairs, and write them in"
        " the authors' formats, for --llm-data DIR. The corpus is analysed in parts: an"
        " interrupted run resumes after the last complete part. docs/research.md explains every step.",
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
    add_settings(command, Settings())
    command.set_defaults(command=_extract)


def _extract(options: argparse.Namespace) -> int:
    from contextlib import ExitStack, closing

    from pytest_llmprops.benchmarks.dtails.tools.alignment import ENCODER, Encoder
    from pytest_llmprops.benchmarks.dtails.tools.corpus import ModelParser, Parts
    from pytest_llmprops.benchmarks.dtails.tools.mining import (
        GlossSenses,
        Settings,
        check_target,
        extract,
        find_wordnet,
    )
    from pytest_llmprops.core.errors import UsageError

    check_target(options.lang, options.out)
    settings = settings_in(options, Settings())
    wordnet, senses, notes = find_wordnet(), None, []
    if wordnet is None and options.senses not in (None, "none"):
        raise UsageError(
            f"--senses {options.senses}: WordNet or NLTK is not installed; install the extra 'research', get WordNet's"
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


def _add_annotation(commands: Groups) -> None:
    annotate = add_annotation(
        commands,
        about="write blind sheets for annotators; with --score, compute accuracy, total agreement, Fleiss' kappa and"
        " PABAK",
        description="Write annotator_1.csv ... and key.json. Each annotator fills in one sheet in a spreadsheet, saved"
        " as CSV UTF-8. Do not show key.json to annotators. Answers of selection: choice is the number of the option or"
        " the word; confidence is 'Absolutely sure', 'Likely but uncertain', 'No idea', or 1, 2, 3. Answers of rules:"
        " yes or no; for options that do not mean the concept, none or numbers such as 1;3.",
    )
    add = annotate.add_argument
    add("--task", choices=("selection", "rules"), default="selection", help="study (default: selection)")
    add("--lang", default="", metavar="XX", help="code of the target language, such as af")
    add("--rules", type=Path, metavar="FILE", help="rules file to judge (task rules)")
    data_help = "data in the authors' layout (task selection; default: built-in)"
    add("--data", type=Path, metavar="DIR", help=data_help)
    add("--annotators", type=int, default=3, metavar="N", help="number of sheets (default: 3)")
    separator_help = "column separator; use semicolon where the decimal sign is a comma (default: comma)"
    add("--separator", choices=tuple(_SEPARATORS), default="comma", help=separator_help)
    write_help = "with --score: write the expert set, as CSV (task selection)"
    add("--write", type=Path, metavar="FILE", help=write_help)
    annotate.set_defaults(command=_annotate)


def _annotate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.dtails.tools.sheets import rules_study, selection_study, write_sheets
    from pytest_llmprops.core.errors import UsageError

    if options.score:
        return _score(options)
    if not (len(options.lang) == 2 and options.lang.isascii() and options.lang.islower()):
        raise UsageError(f"--lang {options.lang}: not a code of two lowercase letters, such as af")
    if options.task == "rules":
        if options.data is not None:
            raise UsageError("--data is only for --task selection; --task rules judges the file of --rules")
        if options.rules is None:
            raise UsageError("--task rules needs --rules FILE; `llmprops lab dtails rules` makes one")
        study = rules_study(options.lang, options.rules)
    else:
        if options.rules is not None:
            raise UsageError("--rules is only for --task rules; sheets of --task selection show no rules")
        study = selection_study(options.lang, options.data)
    delimiter = _SEPARATORS[options.separator]
    annotators, seed = options.annotators, options.seed
    return wrote(write_sheets(options.folder, study, annotators=annotators, seed=seed, delimiter=delimiter))


def _score(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.dtails.tools.sheets import read_study, result_lines, write_expert_set

    study = read_study(options.folder)
    print("\n".join(result_lines(study)))
    return wrote(write_expert_set(options.write, study)) if options.write is not None else 0
