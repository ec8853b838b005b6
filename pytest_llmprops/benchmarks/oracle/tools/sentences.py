"""Write the user's own sentences for the linearity test to a folder for ``--llm-data``."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmprops.benchmarks.oracle.evaluation import Aligner, AskHelper
from pytest_llmprops.benchmarks.oracle.items import LINEARITY, OWN_FILE, YES, Matching, own_sentences
from pytest_llmprops.benchmarks.oracle.registration import REGISTRATION
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.items import Item
from pytest_llmprops.core.requests import Reply, Request
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.whole_files import write_text
from pytest_llmprops.models.base import CallOptions, Model, Result, serve
from pytest_llmprops.models.registry import available_default, find_backend, parse_spec
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.statistics.intervals import clopper_pearson


class Helpers:
    """Models by role, as the ``ask`` of a benchmark. Each text is processed once.

    :param specs: role -> specification, or None for the default helper of a run on this machine.
    :raises UsageError: if a model does not exist, or a role has no default on this machine.
    """

    def __init__(self, specs: Mapping[str, str | None]) -> None:
        self._models: dict[str, Model] = {}
        self._known: dict[Request, Result] = {}
        for role, text in specs.items():
            spec = parse_spec(text) if text else _default(role)
            self._models[role] = find_backend(spec.backend).factory(spec, CallOptions())

    async def __call__(self, request: Request, role: str = "") -> Reply:
        """Return the reply of a role's model.

        :raises BackendError: if the model cannot process the text, or cannot be called.
        """
        if request not in self._known:
            results = serve(self._models[role], [request])
            [self._known[request]] = await results if isinstance(results, Awaitable) else results
        result = self._known[request]
        if isinstance(result, BackendError):
            raise result
        return result

    def close(self) -> None:
        """Close the models."""
        for model in self._models.values():
            model.close()


def _default(role: str) -> ModelSpec:
    texts = REGISTRATION.default_helpers[role]
    spec = available_default(texts)
    if spec is None:
        raise UsageError(
            f"no helper for --{role} on this machine: install one of {', '.join(texts)}, or name another"
        )
    return spec


# How often the prover finds a potential alignment, before a model is asked: the floor and the ceiling of a
# proof.
#
# A constant "yes" is accepted exactly for the pairs with a potential alignment. Of equivalent pairs, the
# share is the most that any model can reach. Of other pairs, it is what a model gets without any knowledge.

EQUIVALENT, OTHER, RANDOM, SELF = "equivalent", "not equivalent", "random", "a sentence with itself"
#: column -> setting ``oracle.alignment``
PROVERS: Mapping[str, Matching] = {"printed (paper)": "printed", "covering (quick)": "covering"}
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Strengths:
    """The strengths of the potential alignments of pairs; 0 if there is none.

    :param missing: pairs that the parser or the encoder cannot process; they are left out.
    """

    values: tuple[float, ...]
    missing: int = 0

    @property
    def share(self) -> tuple[float, float, float]:
        """The share of pairs with a potential alignment, and its 95% interval (Clopper and Pearson)."""
        aligned = sum(value > 0 for value in self.values)
        low, high, *_ = clopper_pearson(aligned, len(self.values))
        return aligned / len(self.values), low, high


def labelled_pairs(items: Sequence[Item], limit: int, rng: random.Random) -> dict[str, Pairs]:
    """Return the pairs of ``items`` by label, random pairs of their sentences, and each sentence with itself.

    :param limit: maximum pairs of each kind; more are drawn from.
    """
    pairs = [item for item in items if item.task != LINEARITY]
    kinds: dict[str, Pairs] = {
        EQUIVALENT: [(item["first"], item["second"]) for item in pairs if item.task == YES],
        OTHER: [(item["first"], item["second"]) for item in pairs if item.task != YES],
    }
    drawn = {kind: rng.sample(pairs, min(limit, len(pairs))) for kind, pairs in kinds.items()}
    texts = sentences(items)
    if len(texts) > 1:
        drawn[RANDOM] = [(one, two) for one, two in (rng.sample(texts, 2) for _ in range(limit))]
    drawn[SELF] = [(text, text) for text in rng.sample(texts, min(limit, len(texts)))]
    return {kind: pairs for kind, pairs in drawn.items() if pairs}


def sentences(items: Sequence[Item]) -> list[str]:
    """Return the different sentences of items, the first of each pair."""
    return list(dict.fromkeys(item["text"] if item.task == LINEARITY else item["first"] for item in items))


async def strengths(pairs: Pairs, align: Aligner) -> Strengths:
    """Return the strengths of the potential alignments of pairs."""
    results = [await align(first, second) for first, second in pairs]
    values = tuple(alignments.strength for alignments in results if not alignments.missing)
    return Strengths(values, len(results) - len(values))


async def measure(kinds: Mapping[str, Pairs], ask: AskHelper) -> dict[str, dict[str, Strengths]]:
    """Return the strengths by kind of pair and by prover."""
    aligners = {name: Aligner(ask, matching) for name, matching in PROVERS.items()}
    return {
        kind: {name: await strengths(pairs, aligner) for name, aligner in aligners.items()}
        for kind, pairs in kinds.items()
    }


def roc(positive: Strengths, negative: Strengths) -> tuple[float, list[tuple[float, float, float]]]:
    """Return the area under the ROC by strength, and its points: (minimum strength, false, true positive rate)."""
    from scipy.stats import mannwhitneyu

    wins = mannwhitneyu(positive.values, negative.values).statistic
    area = float(wins) / (len(positive.values) * len(negative.values))

    def rate(strengths: Strengths, least: float) -> float:
        return sum(value > 0 and value >= least for value in strengths.values) / len(strengths.values)

    points = [0.0, 0.5, 0.6, 0.7, 0.8, 0.9]
    return area, [(least, rate(negative, least), rate(positive, least)) for least in points]


def lines(results: Mapping[str, Mapping[str, Strengths]]) -> Iterator[str]:
    """Yield the table of shares, then the ROC of each prover, in Markdown."""
    yield f"| pairs | n | {' | '.join(PROVERS)} |"
    yield f"|---|---|{'---|' * len(PROVERS)}"
    missing = 0
    for kind, by_prover in results.items():
        cells = [_cell(strengths) for strengths in by_prover.values()]
        first = next(iter(by_prover.values()))
        missing += first.missing
        yield f"| {kind} | {len(first.values)} | {' | '.join(cells)} |"
    if missing:
        yield f"\nleft out, because the parser or the encoder cannot process them: {missing}"
    if EQUIVALENT in results and OTHER in results:
        for name in PROVERS:
            area, points = roc(results[EQUIVALENT][name], results[OTHER][name])
            text = ", ".join(f">= {least}: {true:.3f}/{false:.3f}" for least, false, true in points)
            yield f"\n{name}: area under the ROC {area:.3f}; true/false positive rate by strength: {text}"


def _cell(strengths: Strengths) -> str:
    if not strengths.values:
        return "-"
    share, low, high = strengths.share
    return f"{share:.1%} ({low:.1%} to {high:.1%})"


def run(items: Sequence[Item], ask: AskHelper, limit: int, rng: random.Random) -> list[str]:
    """Return the lines of the table for the pairs and sentences of ``items``."""

    async def measured() -> dict[str, dict[str, Strengths]]:
        return await measure(labelled_pairs(items, limit, rng), ask)

    return list(lines(asyncio.run(measured())))


VERSION = 1
GENERATOR = "oracle-sentences"


def write_sentences(file: Path | str, out: Path | str) -> list[Path]:
    """Write the sentences of a text file with one sentence per line to ``<out>/oracle``, without duplicates.

    ``sentences.txt`` has the sentences. ``SOURCE.json`` marks them as not published and has the number of sentences and
    of duplicates left out. Earlier output of this function is replaced.

    :return: both files, ``SOURCE.json`` last.
    :raises DataError: if the file cannot be read or has no sentence; see ``own_sentences``.
    :raises UsageError: if ``out`` has other data, which the new files would hide, or cannot be written.
    """
    file, folder = Path(file), Path(out) / "oracle"
    sentences = own_sentences(DataFolder(file.parent, "own").given(str(file)), str(file))
    kept = list(dict.fromkeys(sentences))
    target, source = Path(out) / OWN_FILE, folder / "SOURCE.json"
    _check_free(Path(out), target, source)
    record = {
        "source": "generated", "generator": GENERATOR, "file": file.name, "n": len(kept),
        "repeated": len(sentences) - len(kept), "version": VERSION,
    }  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # SOURCE.json first, so that a crash in between cannot leave sentences without it.
        write_text(source, json.dumps(record, ensure_ascii=False, indent=2) + "\n")
        write_text(target, "".join(f"{sentence}\n" for sentence in kept))
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror or error}); choose another folder"
        ) from None
    return [target, source]


def _check_free(out: Path, target: Path, source: Path) -> None:
    """Reject a folder with published data, which SOURCE.json would hide, or with sentences from elsewhere."""
    for name in ("redocred", "msrp"):
        if (out / name).exists():
            raise UsageError(f"{out}: holds the published data '{name}'; choose another output folder")
    if source.is_file():
        record = DataFolder(source.parent, "generated").json(source.name)
        if not isinstance(record, dict) or record.get("generator") != GENERATOR:
            raise UsageError(f"{source}: written by another program; choose another output folder")
    elif target.exists():
        raise UsageError(f"{target}: exists without SOURCE.json; choose another output folder")
