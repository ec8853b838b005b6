"""``llmprops generate eras``: generate sentence pairs from templates."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_llmprops.cli.kit import wrote


def add_generate(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``generate eras``."""
    number = command.add_mutually_exclusive_group(required=True)
    number.add_argument("--pairs", type=int, metavar="N", help="up to N pairs per paradigm (maximum: 40,000)")
    number.add_argument("--total", type=int, metavar="N", help="N pairs in total (the paper: 203,944)")
    command.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of all random choices (default: 0)"
    )
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")
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
