"""The human evaluation of ERAS (Li & Hao, section 2.4): write blind sheets, and read the filled sheets.

Annotators rank triples of sentences by sentiment. For a pair (t, c) the paper compares t's rank in
{t, c1, c2} with c's rank in {c, c1, c2}, where c1 and c2 are control sentences. An annotator has 156 pairs (4
of each of 39 paradigms) and ranks 208 triples, "the minimum necessary". Our interpretation: each group has
three pairs of three paradigms. Its three controls form one triple, which is used for all three pairs. Each
test sentence forms another triple with the controls of the other two pairs. This gives 4 triples for 3 pairs,
52 groups and 208 triples.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pytest_llmprops.benchmarks.eras.implicit import human_baseline
from pytest_llmprops.benchmarks.eras.items import SentencePair
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.sheet_files import BOM, write_new

ANNOTATORS, PER_PARADIGM = 5, 4
KEY = "key.json"
_LETTERS = ("a", "b", "c")
_COLUMNS = ("triple", *(f"sentence_{x}" for x in _LETTERS), *(f"rank_{x}" for x in _LETTERS))
_RANKS = {"1": 1, "2": 2, "3": 3}


#: Three sentences to rank. A sentence is (pair id, ``test`` or ``control``).
Triple = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HumanResult:
    """The result of people's rankings; shares from 0 to 1, with the paper's values in parentheses.

    :param pairs: Number of judged pairs. :param accuracy: Share of pairs whose test sentence is ranked at least
        as far in the true class's direction as the control (.913). :param same: Share ranked equal (.815).
    :param baseline_accuracy: Accuracy comparable with a model's (.506). :param baseline_gper: GPER comparable
        with a model's (.087). :param annotators: Accuracy per annotator.
    """

    pairs: int
    accuracy: float
    same: float
    baseline_accuracy: float
    baseline_gper: float
    annotators: Mapping[str, float]


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
    by_paradigm: dict[str, list[SentencePair]] = {}
    for pair in pairs:
        by_paradigm.setdefault(pair.paradigm.id, []).append(pair)
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
        by_id = {pair.id: pair for group in groups for pair in group}
        key["pairs"] |= {
            name: {"true_class": pair.paradigm.true_class, "test": pair.test, "control": pair.control}
            for name, pair in by_id.items()
        }
        random = generator(seed, "eras sheet", number)
        triples = [random.sample(t, 3) for group in groups for t in triples_of(group)]
        random.shuffle(triples)
        sheet = f"annotator_{number}.csv"
        key["sheets"][sheet] = {
            "groups": [[pair.id for pair in group] for group in groups],
            "triples": [[list(member) for member in triple] for triple in triples],
        }
        texts = [[_text(key["pairs"], member) for member in triple] for triple in triples]
        files[sheet] = _sheet(texts)
    files[KEY] = json.dumps(key, ensure_ascii=False) + "\n"
    return write_new(out, files, taken=(KEY, "annotator_*.csv"))


def _text(pairs: Mapping[str, Mapping[str, str]], member: Sequence[str]) -> str:
    return pairs[member[0]][member[1]]


def _sheet(texts: Sequence[Sequence[str]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for number, sentences in enumerate(texts, 1):
        writer.writerow([number, *sentences, "", "", ""])
    return BOM + buffer.getvalue()


def read_sheets(folder: Path) -> HumanResult:
    """Return the result of the filled sheets in ``folder``; ``key.json`` lists the sheets.

    Ranks are 1 (most positive) to 3; equal ranks are ties.

    :raises DataError: for a missing or damaged key or sheet, a changed sentence, a missing or invalid rank,
        and a triple that is missing or occurs twice.
    """
    files = DataFolder(folder, "user")
    key = files.json(KEY)
    outcomes: list[tuple[bool, bool]] = []
    annotators: dict[str, float] = {}
    try:
        pairs: Mapping[str, Mapping[str, str]] = key["pairs"]
        sheets: Mapping[str, Any] = key["sheets"]
        known = {
            name: (_flat(sheet["groups"], pairs), [[tuple(m) for m in t] for t in sheet["triples"]])
            for name, sheet in sheets.items()
        }
        expected = {
            name: [[_text(pairs, m) for m in t] for t in triples] for name, (_, triples) in known.items()
        }
    except (KeyError, TypeError, AttributeError, IndexError):
        _fail(folder / KEY, "not written by `llmprops lab eras annotate`; restore the original file")
    for name, (ids, triples) in known.items():
        ranks = _ranks(files, folder / name, name, expected[name])
        positions: dict[tuple[str, str], int] = {}
        for members, triple_ranks in zip(triples, ranks, strict=True):
            kinds = [kind for _, kind in members]
            for place, (pair_id, kind) in enumerate(members):
                # A control counts only in the triple of controls; next to a test sentence it is a reference.
                if kind == "test" or "test" not in kinds:
                    positions[pair_id, kind] = position(triple_ranks, place)
        judged = []
        for pair_id in ids:
            try:
                test, control = (positions[pair_id, kind] for kind in ("test", "control"))
            except KeyError:
                _fail(folder / KEY, f"no triple ranks pair {pair_id}; restore the original file")
            judged.append(judge(pairs[pair_id]["true_class"], test, control))
        annotators[name] = sum(right for right, _ in judged) / len(judged)
        outcomes += judged
    if not outcomes:
        _fail(folder / KEY, "names no sheets; restore the original file")
    accuracy = sum(right for right, _ in outcomes) / len(outcomes)
    same = sum(equal for _, equal in outcomes) / len(outcomes)
    return HumanResult(len(outcomes), accuracy, same, *human_baseline(accuracy, same), annotators)


def _flat(groups: Sequence[Sequence[str]], pairs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the pair ids of a sheet's groups; raise KeyError for a pair that the key does not describe."""
    ids = [pair_id for group in groups for pair_id in group]
    for pair_id in ids:
        if pairs[pair_id]["true_class"] not in ("+", "-"):
            raise KeyError(pair_id)
    return ids


def position(ranks: Sequence[int], place: int) -> int:
    """Return how positive one of three sentences is relative to the others: -2 to 2.

    The value is the number of sentences ranked below it minus the number ranked above it; rank 1 is the most
    positive.
    """
    own = ranks[place]
    return sum(rank > own for rank in ranks) - sum(rank < own for rank in ranks)


def judge(true_class: str, test: float, control: float) -> tuple[bool, bool]:
    """Return (annotated correctly, ranked equal) for the positions of a pair's test and control sentence."""
    right = test >= control if true_class == "+" else test <= control
    return right, test == control


def _ranks(files: DataFolder, path: Path, name: str, expected: Sequence[Sequence[str]]) -> list[list[int]]:
    """Return the three ranks of each triple, in the key's order."""
    ranks: dict[int, list[int]] = {}
    for row in files.csv(name, _COLUMNS):
        number = row["triple"].strip()
        if not (number.isascii() and number.isdecimal()) or not 1 <= int(number) <= len(expected):
            _fail(path, f"triple {number!r} is not one of 1 to {len(expected)}; restore its number")
        triple = int(number)
        if triple in ranks:
            _fail(path, f"triple {triple} occurs twice; remove one")
        for letter, sentence in zip(_LETTERS, expected[triple - 1], strict=True):
            if row[f"sentence_{letter}"].strip() != sentence:
                _fail(path, f"triple {triple}: sentence_{letter} was changed; it must read {sentence!r}")
        texts = [row[f"rank_{letter}"].strip() for letter in _LETTERS]
        for letter, text in zip(_LETTERS, texts, strict=True):
            if text not in _RANKS:
                problem = f"is {text!r}" if text else "is empty"
                _fail(path, f"triple {triple}: rank_{letter} {problem}; write 1 (most positive), 2 or 3")
        ranks[triple] = [_RANKS[text] for text in texts]
    missing = [n for n in range(1, len(expected) + 1) if n not in ranks]
    if missing:
        _fail(path, f"triple {missing[0]} is missing ({len(missing)} in total); restore it")
    return [ranks[n] for n in range(1, len(expected) + 1)]


def result_lines(result: HumanResult) -> list[str]:
    """Return the result as text lines, with the paper's figures."""
    return [
        f"pairs                {result.pairs}",
        f"human accuracy       {100 * result.accuracy:.1f}   (paper: 91.3)",
        f"ranked equal         {100 * result.same:.1f}   (paper: 81.5)",
        f"baseline accuracy    {100 * result.baseline_accuracy:.1f}   (paper: 50.6; half of the equal ranks count)",
        f"baseline GPER        {100 * result.baseline_gper:.1f}   (paper: 8.7)",
        *(f"{name}: accuracy {100 * value:.1f}" for name, value in result.annotators.items()),
    ]


def _fail(path: Path, problem: str) -> NoReturn:
    raise DataError(f"{path}: {problem}") from None
