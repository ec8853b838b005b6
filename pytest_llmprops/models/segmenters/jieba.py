"""``jieba``: the segmenter of the package jieba.

Parameters: ``hmm`` (``true`` or ``false``; true, jieba's default, guesses words that are not in the dictionary)
and ``dict`` (a dictionary to use instead of jieba's own, in its format: ``WORD COUNT [TAG]`` per line, UTF-8).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import warnings
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import DataError, MissingExtra, UsageError
from pytest_llmprops.core.texts import utf8
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.segmenters.base import Cut, WordSegmenter
from pytest_llmprops.models.spec import ModelSpec, file_sha256


def _load(file: Path, hmm: bool) -> Cut:
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
        raise UsageError(
            f"--model {spec.text}: the file {file} does not exist; pass dict=FILE in jieba's format"
        )
    try:
        text = utf8(file.read_bytes(), str(file))
    except DataError as error:
        raise UsageError(f"--model {spec.text}: {error}") from None
    if not text.strip():
        raise UsageError(f"--model {spec.text}: {file}: the dictionary is empty")
    if text.startswith("\ufeff") or file.read_bytes().startswith(b"\xef\xbb\xbf"):
        raise UsageError(f"--model {spec.text}: {file} starts with a byte-order mark; save it without one")
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1] if not lines[-1] else lines, start=1):
        fields = line.strip().split(" ")
        if len(fields) < 2 or not fields[0] or not fields[1].isdecimal():
            raise UsageError(
                f"--model {spec.text}: {file}: line {number} is not 'WORD COUNT' separated by one space:"
                f" {line.strip()[:40]!r}"
            )


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("hmm", "dict")
    if spec.name != "jieba":
        raise UsageError(f"--model {spec.text}: write jieba, jieba?hmm=false or jieba?dict=FILE")
    package = importlib.util.find_spec("jieba")
    if package is None or package.origin is None:
        raise MissingExtra(f"--model {spec.text}", package="jieba", extra="zh")
    hmm = spec.params.get("hmm", "true").lower()
    if hmm not in ("true", "false"):
        raise UsageError(f"--model {spec.text}: hmm must be true or false")
    if "dict" in spec.params:
        file = Path(spec.params["dict"]).expanduser()
        _check_dictionary(spec, file)
    else:
        file = Path(package.origin).with_name("dict.txt")
    return lambda: WordSegmenter(
        lambda: _load(file, hmm == "true"),
        name=spec.label,
        identity={
            "backend": "jieba",
            "version": importlib.metadata.version("jieba"),
            "dictionary_sha256": file_sha256(file),
            "hmm": hmm == "true",
        },
    )


BACKEND = Backend(_check, always("segment"), in_worker=True)
