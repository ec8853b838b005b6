"""``llmprops eras sentiment-accuracy``: measure a model's accuracy on labelled files (ERAS, figure 5)."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.cli.kit import Groups
from pytest_llmprops.runs.export import write_whole

if TYPE_CHECKING:
    from pytest_llmprops.benchmarks.eras.implicit import Score
    from pytest_llmprops.engine.asking import OneModel
    from pytest_llmprops.models.spec import ModelSpec


def add_command(commands: Groups) -> None:
    """Add ``eras sentiment-accuracy`` to the commands of ``llmprops eras``."""
    command = commands.add_parser(
        "sentiment-accuracy",
        help="measure accuracy on labelled sentiment files (figure 5, and the test-set columns of table 2)",
        description="Files are tab- or comma-separated UTF-8, with the columns text and label (as in"
        " ChnSentiCorp) or review and star (as in ASAP).",
    )
    command.add_argument("files", type=Path, nargs="+", metavar="FILE")
    command.add_argument("--model", required=True, metavar="SPEC", help="hf:FOLDER, or a chat model")
    command.add_argument("--base-url", metavar="URL", help="base URL of an OpenAI-compatible server")
    command.add_argument(
        "--out", type=Path, metavar="JSON", help="also write the rows to this file, for the report"
    )
    command.set_defaults(command=_accuracy)


def _accuracy(options: argparse.Namespace) -> int:
    from pytest_llmprops.benchmarks.eras.tools.sentiment_files import parse_labelled, sentiment_accuracy
    from pytest_llmprops.core.errors import LLMPropsError, UsageError
    from pytest_llmprops.data.files import DataFolder
    from pytest_llmprops.models.registry import find_backend, parse_spec

    spec = parse_spec(options.model, base_url=options.base_url)
    kinds = find_backend(spec.backend).kinds(spec)
    if not kinds & {"sentiment", "chat"}:
        raise UsageError(f"--model {options.model}: give a sentiment classifier (hf:FOLDER) or a chat model")
    # Read all files before the first call, so that a malformed file costs nothing.
    files = []
    for file in options.files:
        text = DataFolder(file.parent, "given").text(file.name)
        files.append((file, parse_labelled(text, str(file))))
    rows: list[dict[str, Any]] = []
    for file, labelled in files:
        texts = [row.text for row in labelled.rows]
        scored, errors = asyncio.run(_scores(texts, spec, options.base_url, chat="sentiment" not in kinds))
        scores = [score for score, _ in scored]
        kept = [(row, s) for row, s in zip(labelled.rows, scores, strict=True) if s is not None]
        if not kept:
            raise LLMPropsError(
                f"{file}: no text could be scored: {errors[0] if errors else 'no answer was read'}"
            )
        accuracy = sentiment_accuracy([row for row, _ in kept], [score for _, score in kept])
        rows.append(
            {
                "model": spec.label,
                "file": file.name,
                "accuracy": accuracy.value,
                "ci_low": accuracy.ci_low,
                "ci_high": accuracy.ci_high,
                "correct": accuracy.correct,
                "n": accuracy.n,
                "errors": len(errors),
                "no_answer": len(texts) - len(kept) - len(errors),
                "left_out": labelled.left_out,
                "scored_by": sorted({way for _, way in scored if way}),
                "note": labelled.note,
            }
        )
        print(_line(rows[-1]))
        for error in dict.fromkeys(errors[:3]):
            print(f"  not scored: {error}")
    if options.out is not None:
        text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
        write_whole(options.out, lambda draft: draft.write_text(text, encoding="utf-8"))
    return 0


def _line(row: dict[str, Any]) -> str:
    text = (
        f"{row['file']}: {100 * row['accuracy']:.1f} [{100 * row['ci_low']:.1f}, {100 * row['ci_high']:.1f}]"
    )
    text += f" on {row['n']} texts by {' and '.join(row['scored_by'])}"
    labels = {"errors": "errors", "no_answer": "without an answer", "left_out": "left out"}
    counted = [f"{row[key]} {name}" for key, name in labels.items() if row[key]]
    return (
        text + (f" ({', '.join(counted)})" if counted else "") + (f"; {row['note']}" if row["note"] else "")
    )


async def _scores(
    texts: list[str], spec: ModelSpec, base_url: str | None, *, chat: bool
) -> tuple[list[tuple[Score | None, str]], list[str]]:
    """Return (score or None, way of measuring) for each text, and the messages of the failed calls."""
    from pytest_llmprops.core.errors import BackendError
    from pytest_llmprops.engine.asking import OneModel

    async with OneModel(spec, base_url=base_url) as ask:
        tasks = [_score(ask, text, chat) for text in texts]
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


async def _score(ask: OneModel, text: str, chat: bool) -> tuple[Score | None, str]:
    from pytest_llmprops.benchmarks.eras.chat_sentiment import score_pair
    from pytest_llmprops.benchmarks.eras.implicit import Score
    from pytest_llmprops.core.requests import Sentiment

    if not chat:
        value = (await ask(Sentiment(text))).value
        return Score(value["positive"], value["log_odds"]), "classifier"
    result = await score_pair([text], ask)
    return (result.scores[0] if result.scores else None), result.way
