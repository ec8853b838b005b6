"""``llmprops eras`` and ``generate eras``: pairs, human evaluation, new sites, sentiment accuracy, training."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.benchmarks.eras.cli.train import add_train
from pytest_llmprops.cli.kit import Groups, add_seed_and_out, subcommands, wrote
from pytest_llmprops.core.errors import BackendError, LLMPropsError, UsageError
from pytest_llmprops.runs.export import write_whole

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.eras.implicit import Score
    from pytest_llmprops.benchmarks.eras.tools.sentiment_files import LabelledFile
    from pytest_llmprops.engine.session import OneModel
    from pytest_llmprops.models.spec import ModelSpec


def add_generate(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``generate eras``."""
    number = command.add_mutually_exclusive_group(required=True)
    number.add_argument("--pairs", type=int, metavar="N", help="up to N pairs per paradigm (maximum: 40,000)")
    number.add_argument("--total", type=int, metavar="N", help="N pairs in total (the paper: 203,944)")
    add_seed_and_out(command)
    command.add_argument(
        "--mlm", metavar="MODEL", help="fill-mask model that chooses the words: hf:FOLDER_OR_REPO"
    )
    command.add_argument(
        "--mlm-score",
        choices=("ratio", "absolute"),
        default="ratio",
        help="threshold on the score divided by the best score (ratio, the authors' code) or on the score itself",
    )
    command.add_argument(
        "--templates",
        type=Path,
        metavar="DIR",
        help="folder of published data with ERAS templates (default: built-in)",
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
    from pytest_llmprops.models.base import CallOptions
    from pytest_llmprops.models.registry import find_backend, parse_spec

    spec = parse_spec(options.mlm)
    model = find_backend(spec.backend).factory(spec, CallOptions())
    score = getattr(model, "context_scores", None)
    if score is None:
        raise UsageError(
            f"--mlm {options.mlm}: not a fill-mask model; give hf:FOLDER of a masked language model"
        )
    facts |= {"mlm": options.mlm, "mlm_identity": dict(model.identity), "mlm_score": options.mlm_score}
    facts |= {"seed": options.seed, "pairs": options.pairs}
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


def add_sentiment_accuracy(commands: Groups) -> None:
    """Add ``eras sentiment-accuracy`` to the commands of ``llmprops eras``."""
    command = commands.add_parser(
        "sentiment-accuracy",
        help="measure accuracy on labelled sentiment files (figure 5, and the test-set columns of table 2)",
        description="Files are tab- or comma-separated UTF-8, with the columns text and label (as in"
        " ChnSentiCorp) or reviewbody and star (as in ASAP). A classifier reads at most 512 tokens of a text.",
    )
    command.add_argument(
        "files",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="labelled files (default: the test files of `data pull training` in LLMPROPS_DATA)",
    )
    models = command.add_mutually_exclusive_group(required=True)
    models.add_argument("--model", metavar="SPEC", help="hf:FOLDER, or a chat model")
    models.add_argument(
        "--run", metavar="RUN", help="measure all models of a run, and write the rows into its folder"
    )
    command.add_argument("--base-url", metavar="URL", help="base URL of an OpenAI-compatible server")
    command.add_argument(
        "--out", type=Path, metavar="JSON", help="also write the rows to this file, for the report"
    )
    command.set_defaults(command=_accuracy)


def _accuracy(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.report.sentiment import NAME
    from pytest_llmprops.cli.kit import recorded

    specs, out, rows = {"": options.model}, options.out, list[dict[str, Any]]()
    if options.run is not None:
        run = recorded(options.run)
        specs = {label: facts.spec for label, facts in run.facts.models.items() if not facts.imported}
        out = out or run.folder / NAME
    # Read all files before the first call, so that a malformed file costs nothing.
    files = [_labelled(file) for file in options.files or _test_files()]
    for label, text in specs.items():
        rows += _measured(text, label, files, options.base_url)
    if out is not None:
        lines = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
        write_whole(out, lambda draft: draft.write_text(lines, encoding="utf-8"))
    return 0


def _test_files() -> list[Path]:
    """Return the test files of both corpora in ``LLMPROPS_DATA``.

    :raises UsageError: if there is none.
    """
    data = os.environ.get("LLMPROPS_DATA", "")
    names = ("asap/test.csv", "chnsenticorp/test.tsv")
    files = [path for name in names if (path := Path(data) / "training" / name).is_file()]
    if not data or not files:
        raise UsageError(
            "no labelled files: give FILE, or download some with `llmprops data pull training --dest DIR` and set"
            " LLMPROPS_DATA=DIR"
        )
    return files


def _labelled(file: Path) -> tuple[str, LabelledFile]:
    """Return a labelled file with its name, which has that of the corpus if the folder has it."""
    from pytest_llmprops.benchmarks.eras.report.sentiment import CORPORA
    from pytest_llmprops.benchmarks.eras.tools.sentiment_files import parse_labelled
    from pytest_llmprops.data.files import DataFolder

    name = file.name
    if file.parent.name.casefold() in CORPORA and file.parent.name.casefold() not in name.casefold():
        name = f"{file.parent.name}/{name}"
    return name, parse_labelled(DataFolder(file.parent, "given").text(file.name), str(file))


def _measured(
    text: str, label: str, files: Sequence[tuple[str, LabelledFile]], base_url: str | None
) -> list[dict[str, Any]]:
    """Return a model's accuracy on each file, and print it.

    :param text: its specification. :param label: its name in the rows; that of the specification if empty.
    """
    from pytest_llmprops.benchmarks.eras.tools.sentiment_files import sentiment_accuracy
    from pytest_llmprops.models.registry import find_backend, parse_spec

    spec = parse_spec(text, base_url=base_url)
    kinds = find_backend(spec.backend).kinds(spec)
    if not kinds & {"sentiment", "chat"}:
        raise UsageError(f"--model {text}: give a sentiment classifier (hf:FOLDER) or a chat model")
    is_chat = "sentiment" not in kinds
    rows: list[dict[str, Any]] = []
    for name, labelled in files:
        texts = [row.text for row in labelled.rows]
        texts, cut = (texts, 0) if is_chat or spec.backend != "hf" else _fitting(texts, spec.name)
        scored, errors = asyncio.run(_scores(texts, spec, base_url, chat=is_chat))
        scores = [score for score, _ in scored]
        kept = [(row, s) for row, s in zip(labelled.rows, scores, strict=True) if s is not None]
        if not kept:
            raise LLMPropsError(
                f"{name}: no text could be scored: {errors[0] if errors else 'no answer was read'}"
            )
        accuracy = sentiment_accuracy([row for row, _ in kept], [score for _, score in kept])
        rows.append(
            {
                "model": label or spec.label,
                "file": name,
                "accuracy": accuracy.value,
                "ci_low": accuracy.ci_low,
                "ci_high": accuracy.ci_high,
                "correct": accuracy.correct,
                "n": accuracy.n,
                "cut": cut,
                "errors": len(errors),
                "no_answer": len(texts) - len(kept) - len(errors),
                "left_out": labelled.left_out,
                "scored_by": sorted({way for _, way in scored if way}),
                "note": labelled.note,
            }
        )
        print((f"{label}, " if label else "") + _line(rows[-1]))
        for error in dict.fromkeys(errors[:3]):
            print(f"  not scored: {error}")
    return rows


#: Tokens of a review that a classifier reads, as in training (`--window`).
_WINDOW = 512


def _fitting(texts: Sequence[str], model: str) -> tuple[list[str], int]:
    """Return texts cut at their end to the tokens that a classifier takes, and how many were cut.

    Without it, a long review would be an error, and the accuracy that of short reviews.
    """
    from pytest_llmprops.benchmarks.eras.tools.training.encoder import Encoder

    encoder = Encoder(model, window=_WINDOW, option="--model hf:")
    fitting = [encoder.fitting(text) for text in texts]
    return fitting, sum(a != b for a, b in zip(texts, fitting, strict=True))


def _line(row: dict[str, Any]) -> str:
    text = (
        f"{row['file']}: {100 * row['accuracy']:.1f} [{100 * row['ci_low']:.1f}, {100 * row['ci_high']:.1f}]"
    )
    text += f" on {row['n']} texts by {' and '.join(row['scored_by'])}"
    labels = {
        "cut": f"cut to {_WINDOW} tokens",
        "errors": "errors",
        "no_answer": "without an answer",
        "left_out": "left out",
    }
    counted = [f"{row[key]} {name}" for key, name in labels.items() if row[key]]
    return (
        text + (f" ({', '.join(counted)})" if counted else "") + (f"; {row['note']}" if row["note"] else "")
    )


async def _scores(
    texts: list[str], spec: ModelSpec, base_url: str | None, *, chat: bool
) -> tuple[list[tuple[Score | None, str]], list[str]]:
    """Return (score or None, way of measuring) for each text, and the messages of the failed calls."""
    from pytest_llmprops.engine.session import OneModel

    async with OneModel(spec, base_url=base_url) as ask:
        tasks = [_sentiment_score(ask, text, chat) for text in texts]
        results = await asyncio.gather(*tasks, return_exceptions=True)
    errors: list[str] = []
    scores: list[tuple[Score | None, str]] = []
    for result in results:
        if isinstance(result, BackendError):
            errors.append(result.message)
        elif isinstance(result, BaseException):
            raise result
        scores.append((None, "") if isinstance(result, BaseException) else result)
    return scores, errors


async def _sentiment_score(ask: OneModel, text: str, chat: bool) -> tuple[Score | None, str]:
    from pytest_llmprops.benchmarks.eras.chat_sentiment import score_pair
    from pytest_llmprops.benchmarks.eras.implicit import Score
    from pytest_llmprops.core.requests import Sentiment

    if not chat:
        value = (await ask(Sentiment(text))).value
        return Score(value["positive"], value["log_odds"]), "classifier"
    result = await score_pair([text], ask)
    return (result.scores[0] if result.scores else None), result.way


_NAMES = ("gper", "pair_accuracy", "necessity", "sufficiency")
_HEADINGS = ("GPER", "accuracy", "necessity", "sufficiency")


def add_table2(commands: Groups) -> None:
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


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``eras annotate``, ``score``, ``mine``, ``sentiment-accuracy``, ``table2`` and ``train``."""
    commands = subcommands(parser)
    annotate = commands.add_parser(
        "annotate",
        help="write blind ranking sheets for annotators",
        description="Write annotator_1.csv ... and key.json. Annotators rank the three sentences of a line by"
        " sentiment: 1 is the most positive, equal ranks are ties. Do not show key.json to annotators.",
    )
    add_seed_and_out(annotate)
    annotate.add_argument(
        "--annotators", type=int, default=5, metavar="N", help="number of sheets (default: 5)"
    )
    annotate.add_argument(
        "--per-paradigm", type=int, default=4, metavar="N", help="pairs per paradigm and sheet (default: 4)"
    )
    annotate.add_argument(
        "--set",
        type=Path,
        metavar="DIR",
        help="pairs of `llmprops generate eras --out DIR` (default: built-in)",
    )
    annotate.set_defaults(command=_annotate)
    score = commands.add_parser(
        "score", help="compute human accuracy and the human baseline from filled sheets"
    )
    score.add_argument("folder", type=Path, metavar="DIR", help="folder of the filled sheets and key.json")
    score.set_defaults(command=_score)
    mine = commands.add_parser(
        "mine",
        help="list candidates for new paradigms from jieba's dictionary and a sentiment lexicon",
        description="Print overlapping words with different sentiment labels, best first. Write frames for them by"
        " hand. The lexicon is UTF-8 in the format of ANTUSD, one entry per line: WORD,SCORE,POS,NEU,NEG,NON,NOT.",
    )
    mine.add_argument("--lexicon", type=Path, required=True, metavar="FILE")
    mine.add_argument("--top", type=int, default=100, metavar="N", help="number of candidates (default: 100)")
    mine.add_argument(
        "--traditional", action="store_true", help="the lexicon uses traditional characters, like ANTUSD"
    )
    mine.set_defaults(command=_mine)
    add_sentiment_accuracy(commands)
    add_table2(commands)
    add_train(commands)


def _annotate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.annotation import write_sheets
    from pytest_llmprops.benchmarks.eras.tools.generation import load_templates, make_pairs, read_set

    if options.set is not None:
        pairs = read_set(options.set)
    else:
        needed = max(1, options.annotators * options.per_paradigm)
        pairs = list(make_pairs(*load_templates(), seed=options.seed, pairs=needed))
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

    if options.top < 1:
        raise UsageError("--top must be at least 1")
    print(table(mine_lexicon(options.lexicon, traditional=options.traditional), top=options.top))
    return 0
