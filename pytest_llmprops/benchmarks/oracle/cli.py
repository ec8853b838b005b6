"""The command ``llmprops lab oracle``: your own sentences for the linearity test."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pytest_llmprops.benchmarks.oracle.items import OWN_FILE, own_sentences
from pytest_llmprops.cli.kit import subcommands, wrote
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.files import DataFolder
from pytest_llmprops.data.whole_files import write_text

VERSION = 1
GENERATOR = "oracle-sentences"


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the command ``oracle sentences``."""
    commands = subcommands(parser)
    sentences = commands.add_parser(
        "sentences",
        help="convert a text file of sentences to items",
        description="Write a folder for --llm-data DIR from a UTF-8 text file with one sentence per line. Blank"
        " lines and duplicates are skipped. The sentences have no labels; the linearity test needs none.",
    )
    sentences.add_argument("file", type=Path, metavar="FILE", help="text file with one sentence per line")
    sentences.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")
    sentences.set_defaults(command=_sentences)


def _sentences(options: argparse.Namespace) -> int:
    return wrote(write_sentences(options.file, options.out))


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
