"""``models`` and ``segment``: the backends, and the score of a segmentation."""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_llmprops.cli.kit import Groups, add_group, print_table, wrote
from pytest_llmprops.core.errors import DataError, LLMPropsError, MissingExtra, UsageError
from pytest_llmprops.core.texts import terminal_line, utf8
from pytest_llmprops.data.whole_files import write_text
from pytest_llmprops.models.api.prices import price, read_table, renewed_table, shipped_names, shipped_origin
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import ALIASES, backend_names, find_backend, parse_spec


def add_segment(groups: Groups) -> None:
    """Add ``llmprops segment score``."""
    commands = add_group(groups, "segment", "score word segmentations")
    score = commands.add_parser(
        "score",
        help="precision, recall, F1 and recall of unknown words, as in the SIGHAN bakeoffs",
        description="Compare a segmented file with a gold file. Both are UTF-8, one sentence per line, with spaces"
        " between words.",
    )
    score.add_argument("--gold", type=Path, required=True, metavar="FILE", help="gold segmentation")
    score.add_argument("--pred", type=Path, required=True, metavar="FILE", help="segmentation to score")
    score.add_argument(
        "--train-words",
        type=Path,
        metavar="FILE",
        help="words of the training data, separated by spaces or lines; all other words count as unknown",
    )
    score.add_argument(
        "--whole-text",
        action="store_true",
        help="compare the whole texts, for files with different line breaks",
    )
    score.set_defaults(command=_score)


def _score(options: argparse.Namespace) -> int:
    from pytest_llmprops.core.segmentation import score

    known = None
    if options.train_words is not None:
        known = frozenset(word for line in _lines(options.train_words) for word in line)
    gold, predicted = _lines(options.gold), _lines(options.pred)
    result = score(gold, predicted, known=known, whole_text=options.whole_text)
    rates = [("precision", result.precision), ("recall", result.recall), ("F1", result.f1)]
    if known is not None:
        rates += [
            ("OOV rate", result.oov_rate),
            ("OOV recall", result.oov_recall),
            ("IV recall", result.iv_recall),
        ]
    for name, count in (("gold", result.gold), ("predicted", result.predicted), ("correct", result.correct)):
        print(f"{f'{name} words':<16}{count:>9,}")
    for name, rate in rates:
        print(f"{name:<16}{'-' if rate is None else f'{rate:.4f}':>9}")
    return 0


def _lines(file: Path) -> list[list[str]]:
    """Return the words of each line of a UTF-8 file."""
    text = utf8(file.read_bytes(), str(file))
    if not text.strip():
        raise DataError(f"{file}: the file is empty")
    # splitlines() would also split at other separators, which may occur within a line.
    lines = [line.split() for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def add_models(groups: Groups) -> None:
    """Add ``models``."""
    models = groups.add_parser(
        "models",
        help="providers and local models, and what each needs",
        description="List what --model accepts: an example of each backend and alias, the requests that it serves, the"
        " packages that are missing, and the environment variables with its keys (never their values).",
    )
    models.add_argument(
        "--prices", action="store_true", help="list the prices of common models instead, with their date"
    )
    models.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="with --prices: write the prices of the installed litellm to FILE",
    )
    models.set_defaults(command=_models)


def _models(options: argparse.Namespace) -> int:
    if options.out is not None:
        if not options.prices:
            raise UsageError("--out FILE writes the prices: add --prices")
        write_text(options.out, renewed_table(datetime.datetime.now(datetime.UTC).date().isoformat()))
        return wrote([options.out])
    if options.prices:
        return _prices()
    return print_table([("name", "example", "serves", "needs"), *_backends(), *_aliases()])


def _prices() -> int:
    """Print the prices that apply: those of ``LLMPROPS_PRICES``, and of the newer table."""
    file = os.environ.get("LLMPROPS_PRICES")
    own = read_table(Path(file)).prices if file else ()
    rows: list[tuple[str, ...]] = [
        ("model", "USD per million input tokens", "cached input tokens", "output tokens", "prices")
    ]
    for name in dict.fromkeys([*own, *shipped_names()]):
        known = price(name, {}, file)
        if known is not None:
            sent, received, cached, _ = known.usd_per_million
            rows.append(
                (
                    name,
                    f"{sent:g}",
                    "unknown" if cached is None else f"{cached:g}",
                    f"{received:g}",
                    known.source,
                )
            )
    print_table(rows)
    print(
        f"The table of this package is from {shipped_origin()}. The newer of it and an installed litellm is used."
    )
    return 0


def _backends() -> Iterator[tuple[str, str, str, str]]:
    for name in backend_names():
        example = _own_example(name)
        try:
            backend = find_backend(name)
            example = backend.example or example
            served = backend.serves or ", ".join(sorted(backend.kinds(parse_spec(example))))
            yield name, example, served, _needs(example, backend.keys)
        except Exception as error:
            # Code of another package; the other models can be listed.
            yield name, example, "", terminal_line(f"does not work: {type(error).__name__}: {error}")


def _aliases() -> Iterator[tuple[str, str, str, str]]:
    for name, alias in ALIASES.items():
        example = f"{name}:{alias.example}"
        needs = f"a server at {alias.url}" if alias.url else _needs(example, alias.keys)
        yield name, example, "chat", needs


def _own_example(name: str) -> str:
    """Return the shortest specification of a backend: its name, if it has one model."""
    try:
        return parse_spec(name).text
    except LLMPropsError:
        return f"{name}:MODEL"


def _needs(example: str, keys: Sequence[str]) -> str:
    spec = parse_spec(example)
    needs = []
    try:
        find_backend(spec.backend).check(spec, CallOptions())
    except MissingExtra as error:
        needs.append(error.fix)
    except LLMPropsError as error:
        # Otherwise the example's file does not exist, which says nothing.
        if spec.text == spec.name:
            needs.append(str(error).removeprefix(f"--model {spec.text}: ").partition("; ")[0])
    needs += [f"{key} ({'set' if os.environ.get(key, '').strip() else 'not set'})" for key in keys]
    return "; ".join(needs) or "nothing more"
