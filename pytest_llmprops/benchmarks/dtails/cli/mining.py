"""``llmprops dtails extract``: extract concepts with variations from a parallel corpus."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.cli.kit import Groups, wrote

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.aligner import Aligner
    from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Word
    from pytest_llmprops.benchmarks.dtails.tools.mining.corpus import Progress
    from pytest_llmprops.benchmarks.dtails.tools.mining.extraction import Extraction, ExtractionSettings
    from pytest_llmprops.models.base import Model


# Use a model from the registry as a parser of one language, outside of a run.

#: What to use if the parser does not support a language.
_OTHERS = {"dependency": "spacy:MODEL", "words": "words (written forms, no lemmas)"}


class ModelParser:
    """A model of kind ``parse`` as a parser of one language.

    :param option: The command-line option, for messages.
    :raises UsageError: The model does not exist, or it is not a parser.
    """

    def __init__(self, option: str, spec: str, language: str, analysis: str) -> None:
        from pytest_llmprops.core.errors import UsageError

        try:
            self.model = model_of(option, spec)
        except UsageError as error:
            raise UsageError(f"{error}; or use {option} {_OTHERS[analysis]}") from None
        if not hasattr(self.model, "parse"):
            self.model.close()
            raise UsageError(f"{option} {spec}: not a parser; use stanza, spacy:MODEL or words")
        self._option, self._spec, self._language, self._analysis = option, spec, language, analysis
        identity = {**self.model.identity, "language": language, "analysis": analysis}
        self.identity: Mapping[str, Any] = identity
        self.failed = 0

    def parse(self, texts: Sequence[str]) -> list[list[Word]]:
        """Return the words of each text. If the model fails for a text, it has no words and counts in ``failed``.

        :raises UsageError: The model cannot be used, or does not support the language or the analysis.
        """
        from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Word
        from pytest_llmprops.core.errors import BackendError, UsageError

        parsed: list[list[Word]] = []
        for reply in self._replies(texts):
            if isinstance(reply, BackendError):
                if reply.fatal:
                    raise UsageError(f"{self._option} {self._spec}: {reply}")
                self.failed += 1
                parsed.append([])
            elif reply.value["words"] is None:
                what = f"{self._option} {self._spec}: {reply.value['missing']}"
                raise UsageError(f"{what}; or use {self._option} {_OTHERS[self._analysis]}")
            else:
                parsed.append([Word(*word) for word in reply.value["words"]])
        return parsed

    def _replies(self, texts: Sequence[str]) -> list[Any]:
        import asyncio
        from collections.abc import Awaitable

        from pytest_llmprops.core.requests import Parse
        from pytest_llmprops.models.base import Result, Results, serve

        async def wait(results: Awaitable[Sequence[Result]]) -> Sequence[Result]:
            return await results

        replies: list[Any] = []
        size = max(1, self.model.max_batch)
        for start in range(0, len(texts), size):
            batch = [Parse(text, self._language, self._analysis) for text in texts[start : start + size]]
            results: Results = serve(self.model, batch)
            replies += asyncio.run(wait(results)) if isinstance(results, Awaitable) else results
        return replies


def model_of(option: str, spec_text: str) -> Model:
    """Return the model for an option's spec. :raises UsageError: The model does not exist; names the option."""
    from pytest_llmprops.core.errors import UsageError
    from pytest_llmprops.models.base import CallOptions
    from pytest_llmprops.models.registry import find_backend, parse_spec

    try:
        spec = parse_spec(spec_text)
        return find_backend(spec.backend).factory(spec, CallOptions())
    except UsageError as error:
        # The registry's messages name --model.
        raise UsageError(str(error).replace(f"--model {spec_text}", f"{option} {spec_text}", 1)) from None


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
    add(
        "--corpus",
        nargs="+",
        type=Path,
        required=True,
        metavar="FILE",
        help="English file and target file, one sentence per line; or one TSV file, or the prefix of a Moses pair"
        " (corpus for corpus.en and corpus.xx); each may be .gz",
    )
    add("--lang", required=True, metavar="XX", help="code of the target language, two letters")
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write into; DIR/work is kept")
    add("--source-parser", default="stanza", metavar="SPEC", help="stanza or spacy:MODEL (default: stanza)")
    add(
        "--target-parser",
        default="stanza",
        metavar="SPEC",
        help="stanza, spacy:MODEL, or words: written forms, no lemmas (default: stanza)",
    )
    add(
        "--aligner",
        default="statistical",
        metavar="SPEC",
        help="statistical (the first that is installed of fast_align, eflomal, nltk), one of these, or"
        " hf:MODEL, a multilingual encoder (default: statistical)",
    )
    add(
        "--align-method",
        metavar="M",
        help="alignment method for hf: models: awesome, simalign or itermax (default: awesome)",
    )
    add("--align-threshold", type=float, metavar="P", help="threshold of awesome (default: 0.001)")
    add(
        "--symmetrize",
        metavar="HOW",
        help="symmetrization for eflomal and nltk: grow-diag-final-and (default), intersection or union",
    )
    add("--links", choices=("single", "all"), default="single", help=_LINKS)
    add(
        "--pos",
        nargs="+",
        metavar="TAG",
        help="universal part-of-speech tags of concepts (default: NOUN VERB ADJ ADV)",
    )
    add("--compounds", choices=("drop", "keep"), default="drop", help=_COMPOUNDS)
    add(
        "--min-count",
        type=int,
        default=50,
        metavar="N",
        help="minimum number of links per variation (default: 50)",
    )
    add(
        "--min-entropy",
        type=float,
        default=0.69,
        metavar="H",
        help="minimum entropy of a concept, in nats (default: 0.69)",
    )
    add("--entropy-over", choices=("variations", "all"), default="variations", help=_ENTROPY)
    add(
        "--senses",
        default="auto",
        metavar="WHAT",
        help="none; wordnet or wordnet:FOLDER: by words in common with WordNet's glosses; gloss or gloss:MODEL: by the"
        " vectors of an encoder (default model: minilm); variations of minority senses are dropped (default: wordnet"
        " where it is installed)",
    )
    add("--forms", type=int, default=6, metavar="N", help="written forms per variation (default: 6)")
    add("--concepts", type=int, default=20, metavar="N", help="concepts in the test set (default: 20)")
    add("--per-concept", type=int, default=10, metavar="N", help="sentence pairs per concept (default: 10)")
    add(
        "--uniform",
        type=float,
        default=0.20,
        metavar="D",
        help="when there are more than --concepts: maximum difference of a variation's share from 1/k (default: 0.20)",
    )
    add("--seed", type=int, default=0, metavar="S", help="seed of all random choices (default: 0)")
    command.set_defaults(command=_extract)


_LINKS = "count only words linked to a single target word, or all links (default: single)"
_COMPOUNDS = "drop or keep words in compounds and verbs with particles (default: drop)"
_ENTROPY = (
    "compute the entropy over the variations, or over all translations of the word (default: variations)"
)


def _extract(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.dtails.tools.mining.corpus import open_corpus
    from pytest_llmprops.benchmarks.dtails.tools.mining.extraction import check_language, check_out, extract
    from pytest_llmprops.benchmarks.dtails.tools.mining.senses import word_senses

    # Check all options before the slow work starts.
    check_language(options.lang)
    check_out(options.out)
    settings = _settings(options)
    corpus = open_corpus(options.corpus, options.lang)
    aligner, aligner_model = _aligner(options)
    sense_model = _sense_model(options.senses)
    encoder = None if sense_model is None else (sense_model.token_vectors, sense_model.identity)
    senses, notes = word_senses(options.senses, encoder), []
    if senses is None and options.senses == "auto":
        notes.append(
            "word senses were not checked: WordNet (Debian: apt-get install wordnet-base) or nltk is not installed"
            " (see --senses)"
        )
    if options.target_parser.partition("?")[0] == "words":
        notes.append("variations are written forms: the target parser 'words' gives no lemmas")
    models: list[Model] = [model for model in (aligner_model, sense_model) if model is not None]
    try:
        source = ModelParser("--source-parser", options.source_parser, "en", "dependency")
        models.append(source.model)
        target = ModelParser("--target-parser", options.target_parser, options.lang, "words")
        models.append(target.model)
        try:
            extraction = extract(
                corpus,
                options.lang,
                options.out,
                source=source,
                target=target,
                aligner=aligner,
                senses=senses,
                settings=settings,
                notes=notes,
                progress=_progress(),
            )
        except KeyboardInterrupt:
            print("llmprops: interrupted; run the same command again to resume", file=sys.stderr)
            return 130
        if source.failed or target.failed:
            print(f"{source.failed + target.failed:,} sentences could not be analysed", file=sys.stderr)
    finally:
        for model in models:
            model.close()
        if senses is not None:
            senses.close()
    _print_summary(extraction, options.lang)
    return wrote(extraction.paths)


def _aligner(options: argparse.Namespace) -> tuple[Aligner, Model | None]:
    from pytest_llmprops.core.errors import UsageError

    encoder_options = {"--align-method": options.align_method, "--align-threshold": options.align_threshold}
    if not options.aligner.startswith("hf:"):
        from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.statistical import statistical

        for name, value in encoder_options.items():
            if value is not None:
                raise UsageError(f"{name} {value}: only for --aligner hf:MODEL, not for {options.aligner}")
        return statistical(options.aligner, options.symmetrize), None
    from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.embedding import THRESHOLD, EmbeddingAligner

    if options.symmetrize is not None:
        raise UsageError(f"--symmetrize {options.symmetrize}: only for --aligner eflomal or nltk")
    model = _encoder("--aligner", options.aligner, "hf:MODEL with a multilingual encoder")
    threshold = THRESHOLD if options.align_threshold is None else options.align_threshold
    method = options.align_method or "awesome"
    aligner = EmbeddingAligner(
        model.token_vectors, identity=model.identity, method=method, threshold=threshold
    )
    return aligner, model


def _sense_model(choice: str) -> Any:
    """Return the encoder for ``--senses gloss:MODEL``; None for other choices."""
    name, _, spec = choice.partition(":")
    if name != "gloss":
        return None
    return _encoder("--senses", spec or "minilm", "gloss:hf:MODEL with an encoder, or gloss:minilm")


def _encoder(option: str, spec: str, instead: str) -> Any:
    """Return a model with ``token_vectors``. :raises UsageError: It is not an encoder; ``instead`` says what to use."""
    from pytest_llmprops.core.errors import UsageError

    kind = ""
    if spec.startswith("hf:") and "kind=" not in spec:
        kind = f"{'&' if '?' in spec else '?'}kind=embed"
    model = model_of(option, spec + kind)
    if not hasattr(model, "token_vectors"):
        model.close()
        raise UsageError(f"{option} {spec}: not an encoder; use {instead}")
    return model


def _settings(options: argparse.Namespace) -> ExtractionSettings:
    from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import CONTENT_TAGS, Counting, Thresholds
    from pytest_llmprops.benchmarks.dtails.tools.mining.extraction import ExtractionSettings
    from pytest_llmprops.benchmarks.dtails.tools.mining.mined_concepts import Selection

    return ExtractionSettings(
        Counting(tuple(options.pos or CONTENT_TAGS), options.links, options.compounds),
        Thresholds(options.min_count, options.min_entropy, options.entropy_over),
        Selection(options.concepts, options.per_concept, options.uniform, options.seed),
        options.forms,
    )


def _progress() -> Progress:
    """Return a function that shows a bar per step; on a terminal only."""
    import importlib
    import importlib.util

    if not sys.stderr.isatty() or importlib.util.find_spec("tqdm") is None:
        return lambda what, done, total: None
    tqdm: Any = importlib.import_module("tqdm").tqdm
    bars: dict[str, Any] = {}

    def update(step: str, done: int, total: int) -> None:
        if step not in bars:
            bars[step] = tqdm(total=total, desc=step, unit=" pairs", file=sys.stderr)
        bar = bars[step]
        bar.update(done - bar.n)
        if done >= total:
            bar.close()

    return update


def _print_summary(extraction: Extraction, language: str) -> None:
    facts = extraction.facts
    numbers, rows, corpus = facts["statistics"], facts["rows"], facts["corpus"]
    skipped = corpus["empty"] + corpus["too_long"] + corpus["without_words"]
    print(f"en-{language}: {corpus['lines']:,} pairs, {skipped:,} left out, {numbers['links']:,} links")
    print(
        f"  {numbers['lexemes']:,} source words; {numbers['with_two_variations']:,} with two frequent variations,"
        f" {numbers['with_entropy']:,} with enough entropy, {numbers['of_one_sense']:,} with two of the same sense"
    )
    print(
        f"  test set: {rows['test_concepts']} concepts, {rows['test']} pairs; train: {rows['train']:,} pairs"
    )
    for note in extraction.notes:
        print(f"  note: {note}")
