"""``llmprops eras``: the human evaluation, and sites for new paradigms."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.benchmarks.eras.cli import sentiment_accuracy as eras_accuracy
from pytest_llmprops.cli.kit import Groups, add_group, wrote


def add(groups: Groups) -> None:
    """Add ``eras annotate``, ``score``, ``mine`` and ``sentiment-accuracy``."""
    commands = add_group(groups, "eras", "ERAS: human evaluation, new paradigms, sentiment accuracy")
    annotate = commands.add_parser(
        "annotate",
        help="blind ranking sheets for annotators",
        description="Write annotator_1.csv ... and key.json. Annotators rank the three sentences of a line by"
        " sentiment: 1 is the most positive, equal ranks are ties. Keep key.json to yourself.",
    )
    annotate.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")
    annotate.add_argument("--seed", type=int, default=0, metavar="S", help="of every choice (default: 0)")
    annotate.add_argument("--annotators", type=int, default=5, metavar="N", help="sheets (default: 5)")
    annotate.add_argument(
        "--per-paradigm", type=int, default=4, metavar="N", help="pairs a paradigm and sheet (default: 4)"
    )
    annotate.add_argument(
        "--set",
        type=Path,
        metavar="DIR",
        help="pairs of `llmprops generate eras --out DIR` (default: built-in)",
    )
    annotate.set_defaults(command=_annotate)
    score = commands.add_parser("score", help="human accuracy and the human baseline from filled sheets")
    score.add_argument("folder", type=Path, metavar="DIR", help="folder of the filled sheets and key.json")
    score.set_defaults(command=_score)
    mine = commands.add_parser(
        "mine",
        help="candidates for new paradigms from jieba's dictionary and a sentiment lexicon",
        description="Print overlapping words with different sentiment labels, best first, for a person to write"
        " frames for. The lexicon has ANTUSD's format: WORD,SCORE,POS,NEU,NEG,NON,NOT a line, UTF-8.",
    )
    mine.add_argument("--lexicon", type=Path, required=True, metavar="FILE")
    mine.add_argument("--top", type=int, default=100, metavar="N", help="how many (default: 100)")
    mine.add_argument(
        "--traditional", action="store_true", help="the lexicon is in traditional characters, as ANTUSD is"
    )
    mine.set_defaults(command=_mine)
    eras_accuracy.add_command(commands)


def _annotate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.annotation import write_sheets
    from pytest_llmprops.benchmarks.eras.tools.generation import load_templates, make_pairs, read_set

    if options.set is not None:
        pairs = read_set(options.set)
    else:
        need = max(1, options.annotators * options.per_paradigm)
        pairs = list(make_pairs(*load_templates(), seed=options.seed, pairs=need))
    return wrote(
        write_sheets(
            options.out,
            pairs,
            seed=options.seed,
            annotators=options.annotators,
            per_paradigm=options.per_paradigm,
        )
    )


def _score(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.annotation import read_sheets, result_lines

    print("\n".join(result_lines(read_sheets(options.folder))))
    return 0


def _mine(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.mining import mine_lexicon, table
    from pytest_llmprops.core.errors import UsageError

    if options.top < 1:
        raise UsageError("--top starts at 1")
    print(table(mine_lexicon(options.lexicon, traditional=options.traditional), top=options.top))
    return 0


def add_generate(commands: Groups) -> None:
    """Add ``generate eras`` to the commands of ``llmprops generate``."""
    command = commands.add_parser(
        "eras", help="ERAS sentence pairs, from slot words or by a masked language model"
    )
    number = command.add_mutually_exclusive_group(required=True)
    number.add_argument("--pairs", type=int, metavar="N", help="up to N pairs a paradigm (at most 40,000)")
    number.add_argument("--total", type=int, metavar="N", help="N pairs in all (the paper: 203,944)")
    command.add_argument("--seed", type=int, default=0, metavar="S", help="seed of every choice (default: 0)")
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")
    command.add_argument(
        "--mlm", metavar="MODEL", help="fill-mask model that chooses the words: hf:FOLDER_OR_REPO"
    )
    command.add_argument(
        "--mlm-score",
        choices=("ratio", "absolute"),
        default="ratio",
        help="hold against the threshold a score divided by the best one's (the authors' way), or the score itself",
    )
    command.add_argument(
        "--templates",
        type=Path,
        metavar="DIR",
        help="published data, to fill its ERAS templates (default: built-in)",
    )
    command.set_defaults(command=_generate)


def _generate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.generation import load_templates, make_pairs, write_set

    paradigms, words = load_templates(options.templates)
    facts: dict[str, object] = {"templates": "builtin" if options.templates is None else "published"}
    if options.mlm is None:
        pairs = make_pairs(paradigms, words, seed=options.seed, pairs=options.pairs, total=options.total)
        facts |= {"seed": options.seed, "pairs": options.pairs, "total": options.total}
        return wrote(write_set(options.out, pairs, paradigms, source=facts))
    from pytest_llmprops.core.errors import BackendError, UsageError
    from pytest_llmprops.models.base import BackendOptions
    from pytest_llmprops.models.registry import find_backend, parse_spec

    spec = parse_spec(options.mlm)
    model = find_backend(spec.backend).factory(spec, BackendOptions())
    score = getattr(model, "context_scores", None)
    if score is None:
        raise UsageError(
            f"--mlm {options.mlm}: not a fill-mask model; give hf:FOLDER of a masked language model"
        )
    facts |= {"mlm": options.mlm, "mlm_identity": dict(model.identity), "mlm_score": options.mlm_score}
    facts |= {"pairs": options.pairs}
    pairs = make_pairs(
        paradigms,
        words,
        seed=options.seed,
        pairs=options.pairs,
        total=options.total,
        score=score,
        mlm_score=options.mlm_score,
    )
    try:
        return wrote(write_set(options.out, pairs, paradigms, source=facts))
    except BackendError as error:
        raise UsageError(f"--mlm {options.mlm}: {error}") from None
    finally:
        model.close()
