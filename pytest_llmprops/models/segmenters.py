"""Chinese word segmenters that run in the pytest processes.

``jieba``: the package jieba. Parameters: ``hmm`` (``true`` or ``false``; true, jieba's default, guesses words that are
not in the dictionary) and ``dict`` (a dictionary to use instead of jieba's own, in its format: ``WORD COUNT [TAG]`` per
line, UTF-8).

``pkuseg``: the conditional random field of PKUSEG (Luo et al. 2019), from the package spacy-pkuseg. Parameter:
``model``, the folder of a model (``weights.npz`` with ``features.msgpack`` or ``features.pkl``). The default is the
folder ``default`` in ``$PKUSEG_HOME`` or ``~/.pkuseg``. Nothing is downloaded: spacy-pkuseg would download models that
it knows by name, so it only gets folders that exist. The default model of 2019 is in the wheel of pkuseg 0.0.25, which
no longer installs; the commands in :data:`HOW` extract it.

``maxmatch:WORDS.txt``: greedy longest match from left to right over a list of words. At each position the longest word
of the list that starts there is taken, or one character if no word starts there (Chang et al. 2008; the baseline of
ERAS). The list is UTF-8 text; words are separated by whitespace. It may have one word per line, or be a segmented
training file of the SIGHAN bakeoffs.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import os
import pickle
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pytest_llmprops.core.errors import BackendError, DataError
from pytest_llmprops.core.faults import fault_text
from pytest_llmprops.core.requests import Reply, Segment
from pytest_llmprops.core.segmentation import with_whitespace
from pytest_llmprops.core.texts import one_line, utf8
from pytest_llmprops.models.base import CallOptions, Result
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec, file_sha256, files_sha256

Cut = Callable[[str], list[str]]


class WordSegmenter:
    """A cheap, deterministic segmenter: a function from a sentence to its words.

    :param load: Returns that function; called at the first sentence.
    :param identity: Everything that affects the result: package version, dictionary, switches.
    """

    pinned = True
    max_batch = 256
    blocking = True

    def __init__(self, load: Callable[[], Cut], *, name: str, identity: Mapping[str, Any]) -> None:
        self.identity = identity
        self._load, self._name = load, name
        self._cut: Cut | None = None

    @property
    def cut(self) -> Cut:
        """The function from a sentence to its words, for callers with many sentences.

        :raises BackendError: if it cannot be loaded. The error is fatal: a retry cannot help.
        """
        if self._cut is None:
            try:
                self._cut = self._load()
            except Exception as error:
                text = f"{self._name} cannot be loaded: {one_line(str(error), 300)}"
                raise BackendError(text, kind="model", fatal=True) from None
        return self._cut

    def segment(self, requests: Sequence[Segment]) -> Sequence[Result]:
        """Return one reply per request, in order; ``value`` is the list of words."""
        try:
            cut = self.cut
        except BackendError as error:
            return [error] * len(requests)
        results: list[Result] = []
        for request in requests:
            start = time.perf_counter()
            try:
                words = cut(request.text)
            except Exception as error:
                results.append(BackendError(f"{self._name} fails: {fault_text(error)}", kind="backend"))
                continue
            results.append(Reply(value=words, served_model=self._name, seconds=time.perf_counter() - start))
        return results

    def deviations(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Free the dictionary or model."""
        self._cut = None


def _load_jieba(file: Path, hmm: bool) -> Cut:
    with warnings.catch_warnings():
        # Newer Pythons warn about escapes in jieba's patterns and about its use of pkg_resources.
        warnings.simplefilter("ignore")
        jieba: Any = importlib.import_module("jieba")
    tokenizer = jieba.Tokenizer()
    # jieba caches its dictionary in the system's temporary folder, under a name that does not depend on the
    # dictionary's content, and trusts whatever it finds there. Reading the dictionary directly is as fast.
    with file.open("rb") as stream:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(stream)
    tokenizer.initialized = True

    def cut(text: str) -> list[str]:
        return list(tokenizer.cut(text, HMM=hmm))

    return cut


def _check_dictionary(spec: ModelSpec, file: Path) -> None:
    """Read a user's dictionary once, so that its errors are reported before the run starts."""
    if not file.is_file():
        raise spec.error(f"the file {file} does not exist; pass dict=FILE in jieba's format")
    raw = file.read_bytes()
    try:
        lines = utf8(raw, str(file)).removesuffix("\n").split("\n")
    except DataError as error:
        raise spec.error(f"{error}") from None
    if raw.startswith(b"\xef\xbb\xbf"):
        raise spec.error(f"{file} starts with a byte-order mark; save it without one")
    for number, line in enumerate(lines, start=1):
        fields = line.strip().split(" ")
        if len(fields) < 2 or not fields[0] or not fields[1].isdecimal():
            raise spec.error(
                f"{file}: line {number} is not 'WORD COUNT' separated by one space: {line.strip()[:40]!r}"
            )


def _check_jieba(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("hmm", "dict")
    package = spec.require("jieba", extra="zh")
    hmm = spec.params.get("hmm", "true").lower()
    if hmm not in ("true", "false"):
        raise spec.error("hmm must be true or false")
    if "dict" in spec.params:
        file = Path(spec.params["dict"]).expanduser()
        _check_dictionary(spec, file)
    else:
        file = package.with_name("dict.txt")
    return lambda: WordSegmenter(
        lambda: _load_jieba(file, hmm == "true"),
        name=spec.label,
        identity={
            "backend": "jieba",
            "version": importlib.metadata.version("jieba"),
            "dictionary_sha256": file_sha256(file),
            "hmm": hmm == "true",
        },
    )


JIEBA = Backend(_check_jieba, always("segment"), in_worker=True)


#: shell commands that download the default model into the default folder
HOW = (
    "pip download pkuseg==0.0.25 --no-deps --only-binary=:all: --python-version 3.7"
    " --platform manylinux1_x86_64 && unzip -j pkuseg-0.0.25-*.whl 'pkuseg/models/default/*' -d ~/.pkuseg/default"
)
#: sha256 of ``features.pkl`` in that wheel
_KNOWN_PICKLES = frozenset({"265dcf5534a11d6429776f7e7450a9eef8e075b1a4bedb82ef996994d9c721ac"})


class _PlainUnpickler(pickle.Unpickler):
    """Reads pickles of lists, dictionaries, texts and numbers only; any other object could run code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _check_pickle(file: Path) -> None:
    """Refuse a pickle that could run code when spacy-pkuseg loads it."""
    if file_sha256(file) in _KNOWN_PICKLES:
        return
    with file.open("rb") as stream:
        try:
            _PlainUnpickler(stream).load()
        except pickle.UnpicklingError as error:
            raise ValueError(f"{file.name} is not loaded, because it is not plain data: {error}") from None


def _load_pkuseg(folder: Path) -> Cut:
    if not (folder / "features.msgpack").is_file():
        _check_pickle(folder / "features.pkl")
    library: Any = importlib.import_module("spacy_pkuseg")
    # spacy-pkuseg warns on standard error that the features are a pickle.
    with contextlib.redirect_stderr(io.StringIO()):
        segmenter = library.pkuseg(str(folder))

    def cut(text: str) -> list[str]:
        words: list[str] = segmenter.cut(text)
        # spacy-pkuseg splits at whitespace and drops it.
        return words if text.split() == [text] else with_whitespace(words, text)

    return cut


def find_model(spec: ModelSpec) -> Path:
    """Return the folder of the model that ``spec`` asks for.

    :raises UsageError: if there is no model; the message says how to get the default model.
    """
    home = Path(os.environ.get("PKUSEG_HOME", "~/.pkuseg"))
    folder = Path(spec.params.get("model", home / "default")).expanduser()
    if not folder.is_dir():
        default = "" if "model" in spec.params else f", or get the default model of 2019: {HOW}"
        raise spec.error(
            f"no such folder: {folder} (models are not downloaded automatically); give"
            f" pkuseg?model=FOLDER{default}"
        )
    features = any((folder / name).is_file() for name in ("features.msgpack", "features.pkl"))
    if not features or not (folder / "weights.npz").is_file():
        raise spec.error(
            f"{folder} is not a PKUSEG model; it needs weights.npz and features.msgpack or features.pkl"
        )
    return folder.resolve()


def _check_pkuseg(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("model")
    dictionary = spec.require("spacy-pkuseg", extra="zh").parent / "dicts" / "default.pkl"
    folder = find_model(spec)
    names = ("weights.npz", "features.msgpack", "features.pkl")
    files = [folder / name for name in names if (folder / name).is_file()]
    return lambda: WordSegmenter(
        lambda: _load_pkuseg(folder),
        name=spec.label,
        identity={
            "backend": "pkuseg",
            "version": importlib.metadata.version("spacy-pkuseg"),
            "model_sha256": files_sha256(files),
            # spacy-pkuseg joins words with this dictionary, after the model.
            "dictionary_sha256": file_sha256(dictionary),
        },
    )


PKUSEG = Backend(_check_pkuseg, always("segment"), in_worker=True)


def read_words(file: Path) -> frozenset[str]:
    """Read the words of a list.

    :raises DataError: if the file is not UTF-8 or has no words.
    """
    words = frozenset(utf8(file.read_bytes(), str(file)).split())
    if not words:
        raise DataError(
            f"{file}: the word list is empty; write one word per line, or words separated by spaces"
        )
    return words


def longest_match(words: Collection[str]) -> Cut:
    """Return the function that cuts a text into the longest words of ``words``, from left to right."""
    known = frozenset(words)
    # First two characters of words -> the lengths of these words, longest first. Only these lengths are tried.
    lengths: dict[str, set[int]] = {}
    for word in known:
        if len(word) > 1:
            lengths.setdefault(word[:2], set()).add(len(word))
    tries = {start: tuple(sorted(sizes, reverse=True)) for start, sizes in lengths.items()}

    def cut(text: str) -> list[str]:
        result: list[str] = []
        place, end = 0, len(text)
        while place < end:
            word = text[place]
            for length in tries.get(text[place : place + 2], ()):
                candidate = text[place : place + length]
                if candidate in known:
                    word = candidate
                    break
            result.append(word)
            place += len(word)
        return result

    return cut


def _check_maxmatch(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only()
    file = Path(spec.name).expanduser()
    if not file.is_file():
        raise spec.error(f"no such file: {file}; give a word list: maxmatch:WORDS.txt")
    try:
        words = read_words(file)
    except DataError as error:
        raise spec.error(f"{error}") from None
    return lambda: WordSegmenter(
        lambda: longest_match(words),
        name=spec.label,
        identity={"backend": "maxmatch", "words_sha256": file_sha256(file)},
    )


MAXMATCH = Backend(_check_maxmatch, always("segment"), in_worker=True, example="maxmatch:WORDS.txt")
