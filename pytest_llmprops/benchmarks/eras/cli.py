"""``llmprops lab eras``: pairs, the human evaluation, accuracy on reviews, and training."""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pytest_llmprops.cli.kit import (
    Groups,
    add_annotation,
    add_seed_and_out,
    add_settings,
    print_table,
    recorded,
    settings_in,
    subcommands,
    wrote,
)
from pytest_llmprops.cli.papers import paper_rows
from pytest_llmprops.core.errors import BackendError, LLMPropsError, UsageError
from pytest_llmprops.core.items import grouped
from pytest_llmprops.data.published_results import PaperTable, PublishedResult, load_tables
from pytest_llmprops.data.whole_files import replacing, write_text
from pytest_llmprops.runs.paper_results import own_results

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.eras.implicit import Score
    from pytest_llmprops.benchmarks.eras.tools.corpora import ReviewFile
    from pytest_llmprops.benchmarks.eras.tools.training import Measured
    from pytest_llmprops.models.spec import ModelSpec

_BASE = "google-bert/bert-base-chinese"
_WWM_BASE = "hfl/chinese-bert-wwm-ext"
#: Tokens of a review that a classifier reads.
_WINDOW = 512
#: The printed tables of trained models, by the number that ``eras train`` takes.
_PRINTED = {1: ("eras/table-1", "eras/footnote-6"), 2: ("eras/table-2",)}


def _add_generate(commands: Groups) -> None:
    command = commands.add_parser(
        "generate",
        help="generate sentence pairs, with random slot words or those of a masked language model; use them with"
        " --llm-data DIR",
    )
    number = command.add_mutually_exclusive_group(required=True)
    number.add_argument("--pairs", type=int, metavar="N", help="up to N pairs per paradigm (maximum: 40,000)")
    number.add_argument("--total", type=int, metavar="N", help="N pairs in total (the paper: 203,944)")
    add_seed_and_out(command)
    add = command.add_argument
    add("--mlm", metavar="MODEL", help="fill-mask model that chooses the words: hf:FOLDER_OR_REPO")
    score_help = (
        "threshold on the score divided by the best score (ratio, the authors' code) or on the score itself"
    )
    add("--mlm-score", choices=("ratio", "absolute"), default="ratio", help=score_help)
    templates_help = "folder of published data with ERAS templates (default: built-in)"
    add("--templates", type=Path, metavar="DIR", help=templates_help)
    command.set_defaults(command=_generate)


def _generate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.generation import load_templates, make_pairs, write_set

    paradigms, words = load_templates(options.templates)
    numbers = {"seed": options.seed, "pairs": options.pairs, "total": options.total}
    facts = {"templates": "builtin" if options.templates is None else "published", **numbers}
    if options.mlm is None:
        return wrote(write_set(options.out, make_pairs(paradigms, words, **numbers), paradigms, source=facts))
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
    try:
        pairs = make_pairs(paradigms, words, **numbers, score=score, mlm_score=options.mlm_score)
        return wrote(write_set(options.out, pairs, paradigms, source=facts))
    except BackendError as error:
        raise UsageError(f"--mlm {options.mlm}: {error}") from None
    finally:
        model.close()


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``generate``, ``annotate``, ``sentiment-accuracy``, ``segment-score`` and ``train``."""
    commands = subcommands(parser)
    _add_generate(commands)
    annotate = add_annotation(
        commands,
        about="write blind ranking sheets for annotators; with --score, compute human accuracy and the human baseline",
        description="Write annotator_1.csv ... and key.json. Annotators rank the three sentences of a line by"
        " sentiment: 1 is the most positive, equal ranks are ties. Do not show key.json to annotators.",
    )
    add = annotate.add_argument
    add("--annotators", type=int, default=5, metavar="N", help="number of sheets (default: 5)")
    add("--per-paradigm", type=int, default=4, metavar="N", help="pairs per paradigm and sheet (default: 4)")
    annotate.set_defaults(command=_annotate)
    accuracy = commands.add_parser(
        "sentiment-accuracy",
        help="measure a run's models on labelled reviews (figure 5, and the test-set columns of table 2)",
        description="Measure the accuracy of all models of a run on the test files of ASAP and ChnSentiCorp in"
        " LLMPROPS_DATA (`llmprops data pull training`), and write it into the run's folder for the report."
        f" A classifier reads at most {_WINDOW} tokens of a review.",
    )
    accuracy.add_argument("--run", metavar="RUN", required=True, help="measure the models of this run")
    accuracy.add_argument("--base-url", metavar="URL", help="base URL of an OpenAI-compatible server")
    accuracy.set_defaults(command=_accuracy)
    segment = commands.add_parser(
        "segment-score",
        help="precision, recall and F1 of a segmented file, as in the SIGHAN bakeoffs",
        description="Compare a segmented file with a gold file. Both are UTF-8, one sentence per line, with spaces"
        " between words.",
    )
    segment.add_argument("--gold", type=Path, required=True, metavar="FILE", help="gold segmentation")
    segment.add_argument("--pred", type=Path, required=True, metavar="FILE", help="segmentation to score")
    segment.set_defaults(command=_segment_score)
    _add_train(commands)


def _annotate(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.generation import load_templates, make_pairs
    from pytest_llmprops.benchmarks.eras.tools.sheets import read_sheets, result_lines, write_sheets

    if options.score:
        print("\n".join(result_lines(read_sheets(options.folder))))
        return 0
    numbers = {"annotators": options.annotators, "per_paradigm": options.per_paradigm}
    needed = max(1, options.annotators * options.per_paradigm)
    pairs = list(make_pairs(*load_templates(), seed=options.seed, pairs=needed))
    return wrote(write_sheets(options.folder, pairs, seed=options.seed, **numbers))


def _segment_score(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.corpora import read_segmented
    from pytest_llmprops.core.segmentation import score

    result = score(*(read_segmented(file).lines for file in (options.gold, options.pred)))
    for name, count in (("gold", result.gold), ("predicted", result.predicted), ("correct", result.correct)):
        print(f"{f'{name} words':<16}{count:>9,}")
    for name, rate in (("precision", result.precision), ("recall", result.recall), ("F1", result.f1)):
        print(f"{name:<16}{'-' if rate is None else f'{rate:.4f}':>9}")
    return 0


def _accuracy(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.report import ACCURACIES
    from pytest_llmprops.benchmarks.eras.tools.corpora import read_reviews

    run = recorded(options.run)
    # Read all files before the first call, so that a malformed file costs nothing.
    files = [read_reviews(file, f"{file.parent.name}/{file.name}") for file in _test_files()]
    rows: list[dict[str, Any]] = []
    for label, facts in run.facts.models.items():
        if not facts.imported:
            rows += _measured(facts.spec, label, files, options.base_url)
    write_text(run.folder / ACCURACIES, json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
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
            "no labelled files: download them with `llmprops data pull training --dest DIR` and set LLMPROPS_DATA=DIR"
        )
    return files


def _measured(
    text: str, label: str, files: Sequence[ReviewFile], base_url: str | None
) -> list[dict[str, Any]]:
    """Return a model's accuracy on each file, and print it.

    :param text: its specification. :param label: its name in the run.
    """
    from pytest_llmprops.benchmarks.eras.tools.corpora import accuracy
    from pytest_llmprops.models.registry import find_backend, parse_spec

    spec = parse_spec(text, base_url=base_url)
    kinds = find_backend(spec.backend).kinds(spec)
    if not kinds & {"sentiment", "chat"}:
        raise UsageError(
            f"{label}: neither a sentiment classifier nor a chat model; give a run of such models"
        )
    rows: list[dict[str, Any]] = []
    for file in files:
        texts = [review.text for review in file.reviews]
        cut = _cut(texts, spec.name) if "sentiment" in kinds and spec.backend == "hf" else texts
        scores = asyncio.run(_scores(cut, spec, base_url, chat="sentiment" not in kinds))
        errors = [score.message for score in scores if isinstance(score, BackendError)]
        kept = [(r, s) for r, s in zip(file.reviews, scores, strict=True) if isinstance(s, tuple)]
        if not kept:
            raise LLMPropsError(
                f"{file.name}: no text was scored: {errors[0] if errors else 'no answer was read'}"
            )
        result = accuracy(kept)
        row = {"ci_low": result.low, "ci_high": result.high, "n": result.n}
        rows.append({"model": label, "file": file.name, "accuracy": result.value, **row})
        counts = {
            f"cut to {_WINDOW} tokens": sum(a != b for a, b in zip(texts, cut, strict=True)),
            "errors": len(errors),
            "without an answer": scores.count(None),
            "with three stars left out": file.left_out,
        }
        notes = "".join(f", {number:,} {name}" for name, number in counts.items() if number)
        limits = f"[{100 * result.low:.1f}, {100 * result.high:.1f}]"
        print(f"{label}, {file.name}: {100 * result.value:.1f} {limits} on {result.n:,} reviews{notes}")
        for error in dict.fromkeys(errors[:3]):
            print(f"  not scored: {error}")
    return rows


def _cut(texts: Sequence[str], model: str) -> list[str]:
    """Return texts without the ends that are too long for a classifier, which would be errors."""
    from pytest_llmprops.benchmarks.eras.tools.training import Encoder

    encoder = Encoder(model, window=_WINDOW, option="hf:")
    return [encoder.cut(text) for text in texts]


async def _scores(
    texts: Sequence[str], spec: ModelSpec, base_url: str | None, *, chat: bool
) -> list[Score | BackendError | None]:
    """Return the score of each text, or the error of the call, or None for a reply that cannot be read."""
    from pytest_llmprops.benchmarks.eras.implicit import Score
    from pytest_llmprops.benchmarks.eras.sentiment import score_pair
    from pytest_llmprops.core.requests import Sentiment
    from pytest_llmprops.engine.session import OneModel

    async with OneModel(spec, base_url=base_url) as ask:

        async def score_of(text: str) -> Score | BackendError | None:
            try:
                if chat:
                    return next(iter((await score_pair([text], ask)).scores), None)
                return Score.of(await ask(Sentiment(text)))
            except BackendError as error:
                return error

        return await asyncio.gather(*map(score_of, texts))


def _add_train(commands: Groups) -> None:
    from pytest_llmprops.training.task import Settings

    command = commands.add_parser(
        "train",
        help="train and measure the fine-tuned models of table 1 or 2: word segmenters, sentiment classifiers",
        description="Train AS, CityU, PKU and MSR (table 1), or Sentiment Only, WWM, CWS and WWM+CWS (table 2), measure"
        " them on ERAS, and print them below the paper's rows. Each is a model folder in DIR/models: measure it with"
        " --model hf:FOLDER. Repeat the command to continue after a stop.",
    )
    add = command.add_argument
    add("table", type=int, choices=(1, 2), help="number of the table")
    data_help = "folder with SIGHAN 2005, for table 2 also ASAP and ChnSentiCorp, at any depth"
    add("--data", type=Path, required=True, metavar="FOLDER", help=data_help)
    base_help = f"folder or repository of a pre-trained encoder (default: {_BASE})"
    add("--base", default=_BASE, metavar="MODEL", help=base_help)
    wwm_help = f"base of the WWM models (default: {_WWM_BASE})"
    add("--wwm-base", default=_WWM_BASE, metavar="MODEL", help=wwm_help)
    seeds_help = "trainings of each model, from the setting seed on (default: 3)"
    add("--seeds", type=int, default=3, metavar="N", help=seeds_help)
    only_help = "as, cityu, pku, msr; sentiment-only, wwm, cws, wwm-cws (default: all)"
    add("--only", nargs="+", default=[], metavar="NAME", help=only_help)
    source_help = "ERAS items to measure (default: the published templates in LLMPROPS_DATA)"
    add("--source", choices=("published", "builtin"), default="published", help=source_help)
    add("--limit", type=int, metavar="N", help="measure N pairs per paradigm (default: all)")
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write into")
    add_settings(command, Settings())
    command.set_defaults(command=_train)


def _train(options: argparse.Namespace) -> int:
    from pytest_llmprops.training.task import Settings, require_packages

    require_packages("llmprops lab eras train")
    from pytest_llmprops.benchmarks.eras.tools.training import TableOptions, run_table

    settings = settings_in(options, Settings()).checked()

    templates = Path(os.environ.get("LLMPROPS_DATA", "")) / "eras" / "templates.json"
    if options.source == "published" and not templates.is_file():
        raise UsageError(
            "no published templates: download them with `llmprops data pull eras --dest DIR` and set LLMPROPS_DATA=DIR,"
            " or give --source builtin"
        )
    names = ("table", "data", "base", "wwm_base", "seeds", "only", "source", "limit")
    what = TableOptions(**{name: getattr(options, name) for name in names})
    measured = run_table(what, settings, options.out)
    return show_table(options.table, measured, options.out / "table.csv")


def show_table(number: int, measured: Sequence[Measured], out: Path) -> int:
    """Print a table of the paper with a row per seed and a row of means for each model, and write it as CSV.

    Table 1 is followed by the models' F1 on the test sets of their corpora (footnote 6).
    """
    rows: list[tuple[str, ...]] = []
    for table in load_tables():
        if table.id not in _PRINTED[number]:
            continue
        own = [replace(r, model=f"{m.name}, seed {m.seed}") for m in measured for r in _results(table, m)]
        by_name = grouped(own, lambda r: (r.model.partition(", seed ")[0], r.metric, r.setting))
        for (name, _, _), results in by_name.items():
            mean = fmean(result.value for result in results)
            own.append(replace(results[0], model=f"{name}, mean of {len(results)}", value=mean))
        part, notes = paper_rows(table, own)
        print(f"\n{table.id}: {table.title}\n")
        print_table(part)
        print("".join(f"{note}\n" for note in notes), end="")
        rows += part
    with replacing(out) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return wrote([out])


def _results(table: PaperTable, measured: Measured) -> Iterator[PublishedResult]:
    """Yield a trained model's figures of a table: those of its run, and its scores on test files."""
    from pytest_llmprops.benchmarks.eras.report import corpus_of
    from pytest_llmprops.runs.reader import read_run

    yield from own_results(table, read_run(measured.run))
    for file, scores in measured.scores.items():
        for score, name, setting in (
            ("f1", "word_f1", measured.name.partition(" (")[0]),
            ("accuracy", "sentiment_accuracy", corpus_of(file)),
        ):
            if score in scores:
                yield replace(
                    table.results[0], model="", metric=name, value=scores[score], n=None, note="", k=None,
                    setting=setting,
                )  # fmt: skip
