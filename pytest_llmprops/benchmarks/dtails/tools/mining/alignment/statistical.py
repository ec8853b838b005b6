"""Statistical aligners from maintained libraries. They learn from the corpus that they align, so it must be large.

=========== ============================== =======================================================================
name        package                        what it is
=========== ============================== =======================================================================
fast_align  systran-align (wheels only)    IBM model 2 with a diagonal prior (Dyer et al., 2013), its own symmetry
eflomal     eflomal (GPL; a C compiler)    Bayesian HMM with fertility (Östling and Tiedemann, 2016). Its sampler
                                           has no seed: two runs differ a little
nltk        nltk                           IBM model 1 in Python: slow, memory grows with the corpus's vocabulary
=========== ============================== =======================================================================

Words are passed as numbers, so that no word can break a library's file format.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from pytest_llmprops.benchmarks.dtails.tools.mining.alignment.aligner import (
    Links,
    Symmetry,
    WordPair,
    symmetrised,
)
from pytest_llmprops.core.errors import MissingExtra, UsageError

#: The package to import, by name; the first installed one is the default.
PACKAGES = {"fast_align": "systran_align", "eflomal": "eflomal", "nltk": "nltk"}
_SEPARATOR = " ||| "
_BATCH = 1_000
_ITERATIONS = 5


def _distribution(name: str) -> str:
    return PACKAGES[name].replace("_", "-")


class _Spooled:
    """Base class: writes all pairs to a file, learns from it, and reads it again."""

    words: Literal["written", "lemmas"] = "lemmas"
    independent = False

    def __init__(self, name: str, **settings: Any) -> None:
        self._name = name
        self.identity: Mapping[str, Any] = {
            "aligner": name,
            "version": version(_distribution(name)),
            **settings,
        }

    def align(self, pairs: Iterable[WordPair]) -> Iterator[Links]:
        """Yield the links of each pair; see ``Aligner``."""
        with TemporaryDirectory(prefix="llmprops-align-") as name:
            folder = Path(name)
            empty = _spool(pairs, folder / "pairs")
            links = iter(self._links(folder))
            for is_empty in empty:
                yield frozenset() if is_empty else next(links)

    def _links(self, folder: Path) -> Iterable[Links]:
        """Return the links of each line of ``folder / "pairs"``; every line has words on both sides."""
        raise NotImplementedError


class FastAlign(_Spooled):
    """fast_align through SYSTRAN's bindings; the library symmetrises (grow-diag-final-and)."""

    def __init__(self) -> None:
        super().__init__("fast_align")

    def _links(self, folder: Path) -> Iterator[Links]:
        library = _systran_align()
        with _errors(self._name):
            library.generate_alignment_probabilities(
                *(str(folder / part) for part in ("pairs", "forward", "backward")),
                iterations=_ITERATIONS,
                favor_diagonal=True,
                optimize_tension=True,
                variational_bayes=True,
            )
            aligner = library.Aligner(str(folder / "forward"), str(folder / "backward"))
        with (folder / "pairs").open(encoding="ascii") as file:
            while batch := [_sides(line) for line in islice(file, _BATCH)]:
                with _errors(self._name):
                    results = aligner.align_batch(
                        [source for source, _ in batch], [target for _, target in batch]
                    )
                for result in results:
                    yield frozenset((int(i), int(j)) for i, j in result["alignments"])


class Eflomal(_Spooled):
    """eflomal, run as a subprocess."""

    def __init__(self, symmetry: Symmetry) -> None:
        super().__init__("eflomal", symmetry=symmetry)
        self._symmetry = symmetry

    def _links(self, folder: Path) -> Iterator[Links]:
        installed = Path(sys.executable).with_name("eflomal-align")
        program = str(installed) if installed.is_file() else shutil.which("eflomal-align")
        if program is None:
            raise UsageError("--aligner eflomal: its program eflomal-align is missing; install eflomal again")
        files = {"-i": "pairs", "-f": "forward", "-r": "backward"}
        command = [program, *(part for flag, name in files.items() for part in (flag, str(folder / name)))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            raise UsageError(f"--aligner eflomal: the program failed: {last[:300]}")
        with (
            (folder / "forward").open(encoding="ascii") as first,
            (folder / "backward").open(encoding="ascii") as second,
        ):
            for forward, backward in zip(first, second, strict=True):
                yield symmetrised(_points(forward), _points(backward), self._symmetry)


class NltkIbm1(_Spooled):
    """NLTK's IBM model 1 in both directions."""

    def __init__(self, symmetry: Symmetry) -> None:
        super().__init__("nltk", model="IBM 1", iterations=_ITERATIONS, symmetry=symmetry)
        self._symmetry = symmetry

    def _links(self, folder: Path) -> Iterator[Links]:
        forward, backward = (self._direction(folder, swapped=swapped) for swapped in (False, True))
        for first, second in zip(forward, backward, strict=True):
            turned = [(i, j) for j, i in second]
            yield symmetrised(first, turned, self._symmetry)

    def _direction(self, folder: Path, *, swapped: bool) -> list[list[tuple[int, int]]]:
        translate: Any = importlib.import_module("nltk.translate")
        with (folder / "pairs").open(encoding="ascii") as file:
            sides = [_sides(line)[:: -1 if swapped else 1] for line in file]
        texts = [translate.AlignedSent(target, source) for source, target in sides]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NLTK warns about small probabilities in a large vocabulary.
            translate.IBMModel1(texts, _ITERATIONS)
        # The source word is None for a word without a link.
        return [[(i, j) for j, i in text.alignment if i is not None] for text in texts]


def statistical(name: str, symmetry: Symmetry | None = None) -> FastAlign | Eflomal | NltkIbm1:
    """Return the aligner ``name`` of :data:`PACKAGES`; for ``statistical``, the first installed one.

    :param symmetry: By default, grow-diag-final-and.
    :raises UsageError: The name is unknown, or fast_align does not support the symmetry.
    :raises MissingExtra: The aligner is not installed.
    """
    if name == "statistical":
        installed = [known for known, package in PACKAGES.items() if importlib.util.find_spec(package)]
        if not installed:
            raise MissingExtra("--aligner statistical", package="nltk", extra="align")
        name = installed[0]
    if name not in PACKAGES:
        raise UsageError(f"--aligner {name}: choose from statistical, {', '.join(PACKAGES)} and hf:FOLDER")
    if importlib.util.find_spec(PACKAGES[name]) is None:
        extra = "align" if name == "nltk" else ""
        raise MissingExtra(f"--aligner {name}", package=_distribution(name), extra=extra)
    if name == "fast_align":
        if symmetry not in (None, "grow-diag-final-and"):
            raise UsageError(
                f"--symmetrize {symmetry}: fast_align only has grow-diag-final-and; use --aligner nltk"
            )
        return FastAlign()
    kind = Eflomal if name == "eflomal" else NltkIbm1
    return kind(symmetry or "grow-diag-final-and")


def _spool(pairs: Iterable[WordPair], path: Path) -> list[bool]:
    """Write the pairs with words on both sides; return for each pair whether it was left out."""
    numbers: tuple[dict[str, str], dict[str, str]] = ({}, {})
    empty = []

    def side(words: Sequence[str], known: dict[str, str]) -> str:
        return " ".join(known.setdefault(word, str(len(known))) for word in words)

    with path.open("w", encoding="ascii") as file:
        for source, target in pairs:
            empty.append(not (source and target))
            if source and target:
                file.write(f"{side(source, numbers[0])}{_SEPARATOR}{side(target, numbers[1])}\n")
    return empty


def _sides(line: str) -> tuple[list[str], list[str]]:
    source, _, target = line.partition(_SEPARATOR)
    return source.split(), target.split()


def _points(line: str) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, _, j in (link.partition("-") for link in line.split())]


def _systran_align() -> Any:
    """Import systran_align with one thread.

    With several threads, the order of additions varies, and a few links differ between runs.
    """
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        return importlib.import_module("systran_align")
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


@contextmanager
def _errors(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        line = " ".join(str(error).split())[:300]
        raise UsageError(f"--aligner {name}: the library failed: {line}") from None
