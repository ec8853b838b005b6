"""The human evaluation of ERAS (Li & Hao, section 2.4): blind sheets out, filled sheets back in.

Annotators rank triples of sentences by sentiment. For a pair (t, c) the paper compares t's rank in
{t, c1, c2} with c's rank in {c, c1, c2}, c1 and c2 being control sentences. An annotator has 156 pairs (39
paradigms of 4) and ranks 208 triples, "the minimum necessary". Our reading: pairs go in groups of three, of
three paradigms. The three controls of a group make one triple, which serves all three pairs; each test
sentence makes one more, with the other two controls: 4 triples for 3 pairs, 52 groups, 208.
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
from pytest_llmprops.benchmarks.eras.sentences import SentencePair
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.seeds import generator
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.sheet_files import BOM, write_new

ANNOTATORS, PER_PARADIGM = 5, 4
KEY = "key.json"
_LETTERS = ("a", "b", "c")
_COLUMNS = ("triple", *(f"sentence_{x}" for x in _LETTERS), *(f"rank_{x}" for x in _LETTERS))
_RANKS = {"1": 1, "2": 2, "3": 3}


@dataclass(frozen=True, slots=True)
class Triple:
    """Three sentences to be ranked. A sentence is (pair id, ``test`` or ``control``)."""

    members: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HumanResult:
    """What people's rankings amount to; shares from 0 to 1.

    :param pairs: judged pairs. :param accuracy: test ranked at least as far in the true class's direction as
        control (the paper: .913). :param same: ranked alike (.815). :param baseline_accuracy: accuracy
        comparable with a model's (.506). :param baseline_gper: (.087). :param annotators: accuracy of each.
    """

    pairs: int
    accuracy: float
    same: float
    baseline_accuracy: float
    baseline_gper: float
    annotators: Mapping[str, float]


def draw(
    pairs: Sequence[SentencePair],
    *,
    seed: int,
    annotators: int = ANNOTATORS,
    per_paradigm: int = PER_PARADIGM,
) -> list[list[list[SentencePair]]]:
    """Each annotator's groups of three pairs, of three paradigms; no pair is drawn twice.

    :param pairs: of every paradigm at least ``annotators`` * ``per_paradigm`` (the paper: 20).
    :raises UsageError: for too few pairs, or a number of paradigms that is not divisible by three.
    """
    if annotators < 1 or per_paradigm < 1:
        raise UsageError("the numbers of annotators and of pairs a paradigm start at 1")
    by_paradigm: dict[str, list[SentencePair]] = {}
    for pair in pairs:
        by_paradigm.setdefault(pair.paradigm.id, []).append(pair)
    if not by_paradigm or len(by_paradigm) % 3:
        raise UsageError(f"{len(by_paradigm)} paradigms: pairs are grouped by three; use a multiple of three")
    need = annotators * per_paradigm
    for name, members in by_paradigm.items():
        if len(members) < need:
            raise UsageError(f"paradigm {name} has {len(members)} pairs, {need} are needed; make more pairs")
    random = generator(seed, "eras annotate")
    drawn = {name: random.sample(members, need) for name, members in by_paradigm.items()}
    everyone = []
    for annotator in range(annotators):
        groups = []
        for place in range(per_paradigm):
            names = random.sample(sorted(drawn), len(drawn))
            chosen = [drawn[name][annotator * per_paradigm + place] for name in names]
            groups += [chosen[i : i + 3] for i in range(0, len(chosen), 3)]
        everyone.append(groups)
    return everyone


def triples_of(group: Sequence[SentencePair]) -> list[Triple]:
    """The four triples of a group: its controls, and each test sentence with the other two controls."""
    controls = [(pair.id, "control") for pair in group]
    mixed = [[(pair.id, "test"), *(c for c in controls if c[0] != pair.id)] for pair in group]
    return [Triple(tuple(controls)), *(Triple(tuple(members)) for members in mixed)]


def write_sheets(
    out: Path,
    pairs: Sequence[SentencePair],
    *,
    seed: int,
    annotators: int = ANNOTATORS,
    per_paradigm: int = PER_PARADIGM,
) -> list[Path]:
    """Write ``annotator_1.csv`` ... and ``key.json``, which says what each sentence is; returns the files.

    Triples and the sentences in them are shuffled; a sheet shows nothing but sentences. The key is not for
    annotators.

    :raises UsageError: as :func:`draw`; for a folder that has sheets already or cannot be written.
    """
    everyone = draw(pairs, seed=seed, annotators=annotators, per_paradigm=per_paradigm)
    files: dict[str, str] = {}
    key: dict[str, Any] = {"version": 1, "seed": seed, "pairs": {}, "sheets": {}}
    for number, groups in enumerate(everyone, 1):
        by_id = {pair.id: pair for group in groups for pair in group}
        key["pairs"] |= {
            name: {"true_class": pair.paradigm.true_class, "test": pair.test, "control": pair.control}
            for name, pair in by_id.items()
        }
        random = generator(seed, "eras sheet", number)
        triples = [random.sample(t.members, 3) for group in groups for t in triples_of(group)]
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
    """The result of the filled sheets in ``folder``, all that ``key.json`` names.

    Ranks are 1 (most positive) to 3; equal ranks are ties.

    :raises DataError: in one line, for a missing or damaged key or sheet, a sentence that was changed, a
        rank that is missing or no rank, a triple that is missing or stands twice.
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
        _fail(folder / KEY, "not a key that `llmprops eras annotate` wrote; restore it")
    for name, (ids, triples) in known.items():
        ranks = _ranks(files, folder / name, name, expected[name])
        positions: dict[tuple[str, str], int] = {}
        for members, given in zip(triples, ranks, strict=True):
            kinds = [kind for _, kind in members]
            for place, (pair_id, kind) in enumerate(members):
                # A control counts where it stands among controls; beside a test sentence it is a yardstick.
                if kind == "test" or "test" not in kinds:
                    positions[pair_id, kind] = position(given, place)
        judged = []
        for pair_id in ids:
            try:
                test, control = (positions[pair_id, kind] for kind in ("test", "control"))
            except KeyError:
                _fail(folder / KEY, f"no triple ranks pair {pair_id}; restore it")
            judged.append(judge(pairs[pair_id]["true_class"], test, control))
        annotators[name] = sum(right for right, _ in judged) / len(judged)
        outcomes += judged
    if not outcomes:
        _fail(folder / KEY, "names no sheets; restore it")
    accuracy = sum(right for right, _ in outcomes) / len(outcomes)
    same = sum(alike for _, alike in outcomes) / len(outcomes)
    return HumanResult(len(outcomes), accuracy, same, *human_baseline(accuracy, same), annotators)


def _flat(groups: Sequence[Sequence[str]], pairs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The pairs of a sheet's groups; KeyError for one that the key does not describe."""
    ids = [pair_id for group in groups for pair_id in group]
    for pair_id in ids:
        if pairs[pair_id]["true_class"] not in ("+", "-"):
            raise KeyError(pair_id)
    return ids


def position(ranks: Sequence[int], place: int) -> int:
    """How positive one of three sentences is relative to the others: -2 to 2.

    Sentences ranked below it less sentences ranked above it; rank 1 is the most positive.
    """
    own = ranks[place]
    return sum(rank > own for rank in ranks) - sum(rank < own for rank in ranks)


def judge(true_class: str, test: float, control: float) -> tuple[bool, bool]:
    """(annotated correctly, ranked alike) from the positions of a pair's test and control sentence."""
    right = test >= control if true_class == "+" else test <= control
    return right, test == control


def _ranks(files: DataFolder, path: Path, name: str, expected: Sequence[Sequence[str]]) -> list[list[int]]:
    """The three ranks of each triple, in the key's order."""
    found: dict[int, list[int]] = {}
    for row in files.csv(name, _COLUMNS):
        number = row["triple"].strip()
        if not (number.isascii() and number.isdecimal()) or not 1 <= int(number) <= len(expected):
            _fail(path, f"triple {number!r} is not one of 1 to {len(expected)}; give it its number back")
        triple = int(number)
        if triple in found:
            _fail(path, f"triple {triple} stands twice; remove one")
        for letter, sentence in zip(_LETTERS, expected[triple - 1], strict=True):
            if row[f"sentence_{letter}"].strip() != sentence:
                _fail(path, f"triple {triple}: sentence_{letter} was changed; it must read {sentence!r}")
        texts = [row[f"rank_{letter}"].strip() for letter in _LETTERS]
        for letter, text in zip(_LETTERS, texts, strict=True):
            if text not in _RANKS:
                what = f"is {text!r}" if text else "is empty"
                _fail(path, f"triple {triple}: rank_{letter} {what}; write 1 (most positive), 2 or 3")
        found[triple] = [_RANKS[text] for text in texts]
    missing = [n for n in range(1, len(expected) + 1) if n not in found]
    if missing:
        _fail(path, f"triple {missing[0]} is missing ({len(missing)} in all); put it back")
    return [found[n] for n in range(1, len(expected) + 1)]


def result_lines(result: HumanResult) -> list[str]:
    """The result as text, with the paper's figures beside it."""
    return [
        f"pairs                {result.pairs}",
        f"human accuracy       {100 * result.accuracy:.1f}   (paper: 91.3)",
        f"ranked alike         {100 * result.same:.1f}   (paper: 81.5)",
        f"baseline accuracy    {100 * result.baseline_accuracy:.1f}   (paper: 50.6; half of those alike count)",
        f"baseline GPER        {100 * result.baseline_gper:.1f}   (paper: 8.7)",
        *(f"{name}: accuracy {100 * value:.1f}" for name, value in result.annotators.items()),
    ]


def _fail(path: Path, what: str) -> NoReturn:
    raise DataError(f"{path}: {what}") from None
