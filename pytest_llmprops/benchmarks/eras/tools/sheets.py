"""The human evaluation of ERAS (Li & Hao, section 2.4): write blind sheets, and read the filled sheets.

Annotators rank triples of sentences by sentiment. For a pair (t, c) the paper compares t's rank in
{t, c1, c2} with c's rank in {c, c1, c2}, where c1 and c2 are control sentences. An annotator has 156 pairs (4
of each of 39 paradigms) and ranks 208 triples, "the minimum necessary". Our interpretation: each group has
three pairs of three paradigms. Its three controls form one triple, which is used for all three pairs. Each
test sentence forms another triple with the controls of the other two pairs. This gives 4 triples for 3 pairs,
52 groups and 208 triples.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pytest_llmprops.benchmarks.eras.items import SentencePair
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.items import grouped
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.strict_json import short
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.sheet_files import numbered_lines, sheet_text, write_new

ANNOTATORS, PER_PARADIGM = 5, 4
KEY = "key.json"
_LETTERS = ("a", "b", "c")
_COLUMNS = ("triple", *(f"sentence_{x}" for x in _LETTERS), *(f"rank_{x}" for x in _LETTERS))
_RANKS = {"1": 1, "2": 2, "3": 3}


#: Three sentences to rank. A sentence is (pair id, ``test`` or ``control``).
Triple = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class HumanResult:
    """The result of people's rankings; shares from 0 to 1, with the paper's values in parentheses.

    On a model's continuous scale, half of the pairs that are ranked equal would be wrong. All misclassifications in
    the ranking count as garden path errors (section 4.1, "Baseline").

    :param pairs: Number of judged pairs. :param accuracy: Share of pairs whose test sentence is ranked at least
        as far in the true class's direction as the control (.913). :param same: Share ranked equal (.815).
    :param annotators: Accuracy per annotator.
    """

    pairs: int
    accuracy: float
    same: float
    annotators: Mapping[str, float]

    @property
    def baseline(self) -> tuple[float, float]:
        """The accuracy (.506) and the GPER (.087) that are comparable with a model's."""
        return self.accuracy - self.same / 2, 1 - self.accuracy


def draw_groups(
    pairs: Sequence[SentencePair],
    *,
    seed: int,
    annotators: int = ANNOTATORS,
    per_paradigm: int = PER_PARADIGM,
) -> list[list[list[SentencePair]]]:
    """Return each annotator's groups of three pairs of three paradigms; no pair is drawn twice.

    :param pairs: At least ``annotators`` * ``per_paradigm`` of every paradigm (the paper: 20).
    :raises UsageError: for too few pairs, or a number of paradigms that is not divisible by three.
    """
    if annotators < 1 or per_paradigm < 1:
        raise UsageError("the numbers of annotators and of pairs per paradigm must be at least 1")
    by_paradigm = grouped(pairs, lambda pair: pair.paradigm.id)
    if not by_paradigm or len(by_paradigm) % 3:
        raise UsageError(
            f"{len(by_paradigm)} paradigms: groups have three pairs; use a multiple of three paradigms"
        )
    needed = annotators * per_paradigm
    for name, members in by_paradigm.items():
        if len(members) < needed:
            raise UsageError(
                f"paradigm {name} has {len(members)} pairs, but {needed} are needed; generate more pairs"
            )
    random = generator(seed, "eras annotate")
    samples = {name: random.sample(members, needed) for name, members in by_paradigm.items()}
    all_groups = []
    for annotator in range(annotators):
        groups = []
        for place in range(per_paradigm):
            names = random.sample(sorted(samples), len(samples))
            chosen = [samples[name][annotator * per_paradigm + place] for name in names]
            groups += [chosen[i : i + 3] for i in range(0, len(chosen), 3)]
        all_groups.append(groups)
    return all_groups


def triples_of(group: Sequence[SentencePair]) -> list[Triple]:
    """Return the four triples of a group: its controls, and each test sentence with the other two controls."""
    controls = [(pair.id, "control") for pair in group]
    mixed = [[(pair.id, "test"), *(c for c in controls if c[0] != pair.id)] for pair in group]
    return [tuple(members) for members in (controls, *mixed)]


def write_sheets(
    out: Path,
    pairs: Sequence[SentencePair],
    *,
    seed: int,
    annotators: int = ANNOTATORS,
    per_paradigm: int = PER_PARADIGM,
) -> list[Path]:
    """Write ``annotator_1.csv`` … and ``key.json``, which identifies each sentence; return the files.

    Triples and their sentences are shuffled, and a sheet contains only sentences. Annotators must not see the key.

    :raises UsageError: like :func:`draw_groups`; for a folder that already has sheets or cannot be written.
    """
    all_groups = draw_groups(pairs, seed=seed, annotators=annotators, per_paradigm=per_paradigm)
    files: dict[str, str] = {}
    key: dict[str, Any] = {"version": 1, "seed": seed, "pairs": {}, "sheets": {}}
    for number, groups in enumerate(all_groups, 1):
        key["pairs"] |= {
            pair.id: {"true_class": pair.paradigm.true_class, "test": pair.test, "control": pair.control}
            for group in groups
            for pair in group
        }
        random = generator(seed, "eras sheet", number)
        triples = [random.sample(t, 3) for group in groups for t in triples_of(group)]
        random.shuffle(triples)
        name = f"annotator_{number}.csv"
        key["sheets"][name] = triples
        records = []
        for place, texts in enumerate(_texts(key["pairs"], triples), 1):
            shown = {f"sentence_{x}": text for x, text in zip(_LETTERS, texts, strict=True)}
            records.append({"triple": str(place), **shown})
        files[name] = sheet_text(_COLUMNS, records)
    files[KEY] = json.dumps(key, ensure_ascii=False) + "\n"
    return write_new(out, files, taken=(KEY, "annotator_*.csv"))


def _texts(pairs: Mapping[str, Mapping[str, str]], triples: Sequence[Triple]) -> list[list[str]]:
    return [[pairs[pair][kind] for pair, kind in triple] for triple in triples]


def read_sheets(folder: Path) -> HumanResult:
    """Return the result of the filled sheets in ``folder``; ``key.json`` lists the sheets.

    Ranks are 1 (most positive) to 3; equal ranks are ties.

    :raises DataError: for a missing or damaged key or sheet, a changed sentence, a missing or invalid rank,
        and a triple that is missing or occurs twice.
    """
    key = DataFolder(folder, "user").json(KEY)
    try:
        pairs: Mapping[str, Mapping[str, str]] = key["pairs"]
        known = {
            name: [tuple((pair, kind) for pair, kind in t) for t in some]
            for name, some in key["sheets"].items()
        }
        expected = {name: _texts(pairs, triples) for name, triples in known.items()}
        classes = {name: {"+": 1, "-": -1}[pair["true_class"]] for name, pair in pairs.items()}
    except (KeyError, TypeError, AttributeError, ValueError):
        known = {}
    if not known:
        _fail(folder / KEY, "not written by `llmprops lab eras annotate`; restore the original file")
    annotators: dict[str, float] = {}
    differences: list[int] = []
    for name, triples in known.items():
        positions: dict[tuple[str, str], int] = {}
        for members, ranks in zip(triples, _ranks(folder / name, expected[name]), strict=True):
            kinds = [kind for _, kind in members]
            for place, member in enumerate(members):
                # A control counts only in the triple of controls; next to a test sentence it is a reference.
                if member[1] == "test" or "test" not in kinds:
                    positions[member] = position(ranks, place)
        ids = [pair for pair, kind in positions if kind == "test"]
        if len(positions) != 2 * len(ids):
            _fail(folder / KEY, f"no triple ranks the controls of {name}; restore the original file")
        own = [classes[pair] * (positions[pair, "test"] - positions[pair, "control"]) for pair in ids]
        annotators[name] = sum(difference >= 0 for difference in own) / len(own)
        differences += own
    accuracy = sum(difference >= 0 for difference in differences) / len(differences)
    same = differences.count(0) / len(differences)
    return HumanResult(len(differences), accuracy, same, annotators)


def position(ranks: Sequence[int], place: int) -> int:
    """Return how positive one of three sentences is relative to the others: -2 to 2.

    The value is the number of sentences ranked below it minus the number ranked above it; rank 1 is the most
    positive.
    """
    own = ranks[place]
    return sum(rank > own for rank in ranks) - sum(rank < own for rank in ranks)


def _ranks(path: Path, expected: Sequence[Sequence[str]]) -> list[list[int]]:
    """Return the three ranks of each triple, in the key's order."""
    ranks: dict[int, list[int]] = {}
    for place, triple, cells in numbered_lines(path, "triple", len(expected), _COLUMNS):
        for letter, sentence in zip(_LETTERS, expected[triple - 1], strict=True):
            if cells[f"sentence_{letter}"] != sentence:
                raise DataError(f"{place}: sentence_{letter} was changed; it must read {sentence!r}")
            if cells[f"rank_{letter}"] not in _RANKS:
                rank = short(cells[f"rank_{letter}"])
                raise DataError(f"{place}: rank_{letter} is {rank}; write 1 (most positive), 2 or 3")
        ranks[triple] = [_RANKS[cells[f"rank_{letter}"]] for letter in _LETTERS]
    return [ranks[number] for number in sorted(ranks)]


def result_lines(result: HumanResult) -> list[str]:
    """Return the result as text lines, with the paper's figures."""
    accuracy, gper = result.baseline
    return [
        f"pairs                {result.pairs}",
        f"human accuracy       {100 * result.accuracy:.1f}   (paper: 91.3)",
        f"ranked equal         {100 * result.same:.1f}   (paper: 81.5)",
        f"baseline accuracy    {100 * accuracy:.1f}   (paper: 50.6; half of the equal ranks count)",
        f"baseline GPER        {100 * gper:.1f}   (paper: 8.7)",
        *(f"{name}: accuracy {100 * value:.1f}" for name, value in result.annotators.items()),
    ]


def _fail(path: Path, problem: str) -> NoReturn:
    raise DataError(f"{path}: {problem}") from None
