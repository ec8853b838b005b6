"""Data files: built-in and published ones, the manifest, and strict readers of lines."""

from __future__ import annotations

import csv as csv_module
import hashlib
import inspect
import io
import json as json_module
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn, TypeVar

from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.core.registration import Reference, Registration, load_reference
from pytest_llmprops.core.strict_json import is_unicode, no_constant, problem_of, short
from pytest_llmprops.core.texts import utf8

#: start of a digest in the manifest that is the id of a git object
T = TypeVar("T")
_GIT = "git:"
#: a file that every copy of the data folder has
_MARKER = "manifest.tsv"


@lru_cache(maxsize=1)
def builtin_data() -> Path:
    """Return the folder of built-in data: the packaged copy, or ``data/`` of the checkout.

    The packaged copy is checked first, because ``../data`` of an installed package would be an unrelated folder.

    :raises DataError: if neither exists.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_data", package.parent / "data"):
        if (folder / _MARKER).is_file():
            return folder
    raise DataError(
        f"built-in data: no {_MARKER} in {package / '_data'} nor in {package.parent / 'data'}; "
        "reinstall pytest-llmprops"
    )


def data_folder(registration: Registration) -> Path:
    """Return the folder of a benchmark's own data: its registration's, or that of the file that defines its class."""
    data = registration.load("data")
    return Path(inspect.getfile(registration.load_class())).parent if data is None else Path(data())


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One published file.

    :param file: path inside the folder of published data, with ``/``.
    :param repository: ``owner/name`` of the authors' repository.
    :param commit: the pinned commit, 40 hexadecimal digits.
    :param upstream_path: path inside the repository.
    :param bytes: size of the file; 0 if it is not known.
    :param sha256: hash of the file's bytes, 64 hexadecimal digits; or ``git:`` and the id of git's object of the file,
        40 hexadecimal digits, for a file whose sha256 is not known.
    :param licence: the licence that the repository states.
    """

    file: str
    repository: str
    commit: str
    upstream_path: str
    bytes: int
    sha256: str
    licence: str

    @property
    def benchmark(self) -> str:
        """The benchmark's name, which is the first folder of ``file``."""
        return self.file.partition("/")[0]

    def digest(self, path: Path) -> str:
        """Return the digest of a file in the form of ``sha256``."""
        with path.open("rb") as file:
            if not self.sha256.startswith(_GIT):
                return hashlib.file_digest(file, "sha256").hexdigest()
            # SHA-1 is what git has; the size before the content makes a forged file harder.
            digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
            while block := file.read(1 << 20):
                digest.update(block)
            return _GIT + digest.hexdigest()


# One decoder for all lines: json.loads with an argument builds a new one for each call.
_decode = json_module.JSONDecoder(parse_constant=no_constant).decode


class DataFolder:
    """Read access to one folder of data.

    :param root: the folder.
    :param source: ``builtin``, ``published`` or ``generated``; messages about missing files depend on it.
    :param tools: functions of the benchmark's registration, by name.

    ``read`` maps every path read so far (relative, with ``/``) to the sha256 of its bytes. All readers take a path of
    this form and raise :class:`DataError`.
    """

    __slots__ = ("_builtin", "_tools", "_user_files", "read", "root", "source")

    def __init__(self, root: Path | str, source: str, tools: Mapping[str, Reference] | None = None) -> None:
        self.root = Path(root)
        self.source = source
        self.read: dict[str, str] = {}
        self._builtin: DataFolder | None = None
        self._user_files: dict[str, str] = {}
        self._tools = tools or {}

    def __repr__(self) -> str:
        return f"DataFolder({str(self.root)!r}, {self.source!r})"

    @property
    def builtin(self) -> DataFolder:
        """The built-in data, for files that a published folder lacks (rules, lists)."""
        if self.source == "builtin":
            return self
        if self._builtin is None:
            self._builtin = DataFolder(builtin_data(), "builtin")
        return self._builtin

    def hashes(self) -> dict[str, str]:
        """Return ``source:path`` -> sha256 of every file read so far, including those of ``builtin``."""
        digests = {f"{self.source}:{path}": digest for path, digest in self.read.items()}
        digests |= {f"given:{path}": digest for path, digest in self._user_files.items()}
        return digests | self._builtin.hashes() if self._builtin is not None else digests

    def exists(self, path: str) -> bool:
        """Return True if the folder has this file."""
        # Languages are found by asking for hundreds of names, so without a Path for each.
        self._check_inside(path)
        return os.path.isfile(f"{self.root}/{path}")  # noqa: PTH113

    def text(self, path: str) -> str:
        """Return a whole UTF-8 file without its byte-order mark; line ends are not changed."""
        raw = self._bytes(path)
        if not raw.strip():
            self._fail(path, "the file is empty", self._how_to_get())
        return utf8(raw, str(self.root / path))

    def json(self, path: str) -> Any:
        """Return the content of a file with one JSON document."""
        text = self.text(path)
        try:
            content = _decode(text)
        except (ValueError, RecursionError) as error:
            self._fail(path, f"not JSON: {_one_line(error)}", "correct it")
        self._check_pairs(path, text, content, "the file")
        return content

    def _check_pairs(self, path: str, text: str, content: Any, where: str) -> None:
        """Check that no text has half a surrogate pair, which no other file, terminal or request can hold."""
        # Only an escape can be half a pair: the file is UTF-8.
        if "\\u" in text and not is_unicode(json_module.dumps(content, ensure_ascii=False)):
            self._fail(path, f"{where} has half a surrogate pair (\\ud800…)", "write whole characters")

    def jsonl(self, path: str, required: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return the objects of a file with one JSON object per line; blank lines are skipped.

        :param required: keys that every object must have. If objects have an ``id``, it must be unique.
        """
        rows: dict[int, dict[str, Any]] = {}
        # Not splitlines(): it would split at U+2028 and other characters that a JSON string may contain.
        for number, line in enumerate(self.text(path).split("\n"), start=1):
            if not line or line.isspace():
                continue
            try:
                row = _decode(line)
            except (ValueError, RecursionError) as error:
                self._fail(
                    path, f"line {number} is not JSON: {_one_line(error)}", "write one JSON object per line"
                )
            if type(row) is not dict:
                self._fail(
                    path, f"line {number} is a JSON {_json_type(row)}", "write one JSON object per line"
                )
            self._check_pairs(path, line, row, f"line {number}")
            for key in required:
                if key not in row:
                    self._fail(path, f"line {number} has no {key!r}", f"every line needs {_list(required)}")
            rows[number] = row
        return self._checked(path, rows)

    def csv(self, path: str, required: Sequence[str] = ()) -> list[dict[str, str]]:
        """Return the rows of a comma-separated file with a header (RFC 4180); blank lines are skipped.

        :param required: columns that the header must have. An ``id`` column must be unique.
        """
        reader = csv_module.reader(io.StringIO(self.text(path), newline=""), strict=True)

        def records() -> Iterable[tuple[int, list[str]]]:
            start = 1
            try:
                for fields in reader:
                    # The number of the record's first line; quoted fields may span several lines.
                    yield start, fields
                    start = reader.line_num + 1
            except csv_module.Error as error:
                self._fail(path, f"line {start}: {error}", "correct the quoting")

        return self._table(path, records(), required, "comma-separated")

    def tsv_literal(self, path: str, required: Sequence[str] = ()) -> list[dict[str, str]]:
        """Return the rows of a tab-separated file with a header; quotes are ordinary characters (as in MSRP)."""
        lines = (
            (number, line.removesuffix("\r").split("\t") if line.strip("\r") else [])
            for number, line in enumerate(self.text(path).split("\n"), start=1)
        )
        return self._table(path, lines, required, "tab-separated")

    def tool(self, name: str) -> Callable[..., Any]:
        """Return a tool of the benchmark's registration, which is imported at its first call.

        The call raises :class:`UsageError` if the registration has no such tool.
        """

        def call(*args: Any, **options: Any) -> Any:
            if name not in self._tools:
                raise UsageError(f"no tool '{name}' in the benchmark's registration")
            return load_reference(self._tools[name], f"tool {name}")(*args, **options)

        return call

    def given(self, path: str) -> str:
        """Return the UTF-8 text of a file that the user's settings name, in any folder.

        :raises DataError: if it cannot be read or is empty.
        """
        try:
            raw = Path(path).expanduser().read_bytes()
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}; give an existing file") from None
        if not raw.strip():
            raise DataError(f"{path}: the file is empty; give the right file")
        self._user_files[path] = hashlib.sha256(raw).hexdigest()
        return utf8(raw, path)

    def source_for(self, benchmark: str) -> str:
        """Return the source in ``<benchmark>/SOURCE.json`` if the file exists, otherwise the folder's source."""
        path = f"{benchmark}/SOURCE.json"
        if not self.exists(path):
            return self.source
        content = self.json(path)
        source = content.get("source") if isinstance(content, dict) else None
        if source not in ("builtin", "published", "generated"):
            self._fail(path, f"source is {source!r}", 'write {"source": "generated"}')
        return str(source)

    def verify(self, manifest: Iterable[ManifestEntry]) -> list[str]:
        """Compare files with the manifest; return warnings about files that are not in it.

        The files read so far are checked. Generated data is not, because it was never published.

        :raises DataError: for the first file whose content differs.
        """
        if self.source == "builtin":
            return []
        known = {entry.file: entry for entry in manifest}
        sources: dict[str, str] = {}
        warnings = []
        for path, digest in sorted(self.read.items()):
            benchmark = path.partition("/")[0]
            is_generated = sources.setdefault(benchmark, self.source_for(benchmark)) == "generated"
            if is_generated or path == f"{benchmark}/SOURCE.json":
                continue
            entry = known.get(path)
            if entry is None:
                warnings.append(f"{path}: not checked, because it is not in the manifest of published data")
            elif entry.sha256 != (
                entry.digest(self.root / path) if entry.sha256.startswith(_GIT) else digest
            ):
                problem = f"sha256 {digest[:12]}… differs from the manifest's {entry.sha256[:12]}…"
                self._fail(path, problem, f"{self._how_to_get()}, or give generated data a SOURCE.json")
        return warnings

    def _table(
        self, path: str, records: Iterable[tuple[int, list[str]]], required: Sequence[str], kind: str
    ) -> list[dict[str, str]]:
        header: list[str] | None = None
        rows: dict[int, dict[str, str]] = {}
        for number, fields in records:
            if not fields:
                continue
            if header is None:
                header = fields
                self._check_header(path, header, required, kind)
            elif len(fields) != len(header):
                self._fail(
                    path,
                    f"line {number} has {len(fields)} fields, the header {len(header)}",
                    "give every row one field per column",
                )
            else:
                rows[number] = dict(zip(header, fields, strict=True))
        return self._checked(path, rows)

    def _check_header(self, path: str, header: list[str], required: Sequence[str], kind: str) -> None:
        missing = [column for column in required if column not in header]
        if missing:
            self._fail(
                path,
                f"no column {_list(missing)} (found {_list(header[:8])})",
                f"the file must be {kind} with {_list(required)} in its header",
            )
        twice = [column for index, column in enumerate(header) if column in header[:index]]
        if twice:
            self._fail(path, f"column {_list(twice)} is in the header twice", "rename one")

    def _checked(self, path: str, rows: dict[int, dict[str, T]]) -> list[dict[str, T]]:
        """Return the rows of a file, if there are some, and no two have the same id; ``rows`` has them by line."""
        if not rows:
            self._fail(path, "the file has no rows", self._how_to_get())
        first: dict[str, int] = {}
        has_ids = "id" in next(iter(rows.values()))
        for number, row in rows.items() if has_ids else ():
            if "id" not in row:
                problem = f"line {number} has no 'id', but other lines have one"
                self._fail(path, problem, "give every line a unique id")
            earlier = first.setdefault(str(row["id"]), number)
            if earlier != number:
                problem = f"line {number} repeats the id {row['id']!r} of line {earlier}"
                self._fail(path, problem, "give every row a unique id")
        return list(rows.values())

    def _check_inside(self, path: str) -> None:
        if path.startswith("/") or ".." in path.split("/"):
            raise DataError(f"{path}: not a path of a data file; give the path inside {self.root}")

    def _bytes(self, path: str) -> bytes:
        self._check_inside(path)
        try:
            raw = (self.root / path).read_bytes()
        except FileNotFoundError:
            self._fail(path, "no such file", self._how_to_get())
        except OSError as error:
            self._fail(
                path, f"cannot be read ({error.strerror or error})", "check the path and its permissions"
            )
        self.read[path] = hashlib.sha256(raw).hexdigest()
        return raw

    def _how_to_get(self) -> str:
        if self.source == "published":
            return "run `llmprops data pull --dest DIR` and pass `--llm-data DIR`"
        if self.source == "generated":
            return "run `llmprops lab` again"
        return "reinstall pytest-llmprops" if self.root == builtin_data() else "add it to this folder"

    def _fail(self, path: str, problem: str, fix: str) -> NoReturn:
        raise DataError(f"{self.root / path}: {problem}; {fix}") from None


def _one_line(error: ValueError | RecursionError) -> str:
    return problem_of(error).replace(" at line 1, column ", " at column ")


def _json_type(value: object) -> str:
    names = {list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _list(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


# The manifest of published data: the repository, commit, path and hash of each file.
#
# The manifest has facts about public files but none of their content. Its ``file`` column is the layout of
# the folder for ``--llm-data``.

COLUMNS = ("file", "repository", "commit", "upstream_path", "bytes", "sha256", "licence")

_SHAPES = {
    "repository": (re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}$)[A-Za-z0-9_.-]+"), "owner/name"),
    "commit": (re.compile(r"[0-9a-f]{40}"), "40 hexadecimal digits"),
    "sha256": (re.compile(r"[0-9a-f]{64}|git:[0-9a-f]{40}"), "64 hexadecimal digits, or git: and 40"),
    "bytes": (re.compile(r"[0-9]{0,15}"), "a whole number of at most 15 digits"),
}


def read_manifest(path: Path | None = None) -> tuple[ManifestEntry, ...]:
    """Read a manifest, by default the packaged one.

    :raises DataError: with file and row, for missing columns, a malformed value, a path outside the folder, or a file
        that is listed twice.
    """
    return _read(path if path is not None else builtin_data() / "manifest.tsv")


@lru_cache(maxsize=8)
def _read(path: Path) -> tuple[ManifestEntry, ...]:
    rows = DataFolder(path.parent, "builtin").tsv_literal(path.name, required=COLUMNS)
    entries = tuple(_entry(row, f"{path}, row {number}") for number, row in enumerate(rows, start=2))
    seen: set[str] = set()
    for entry in entries:
        if entry.file in seen:
            raise DataError(f"{path}: {entry.file} is listed twice; keep one row per file")
        seen.add(entry.file)
    return entries


def _entry(row: dict[str, str], where: str) -> ManifestEntry:
    for column, (shape, words) in _SHAPES.items():
        if not shape.fullmatch(row[column]):
            raise DataError(f"{where}: {column} {short(row[column])} is not {words}")
    for column in ("file", "upstream_path"):
        # pull writes to `file`, so a manifest must not name a path outside the folder.
        if not is_inside(row[column]):
            raise DataError(f"{where}: {column} {row[column]!r} is not a relative path inside its folder")
    return ManifestEntry(
        file=row["file"],
        repository=row["repository"],
        commit=row["commit"],
        upstream_path=row["upstream_path"],
        bytes=int(row["bytes"] or 0),
        sha256=row["sha256"],
        licence=row["licence"],
    )


def is_inside(path: str) -> bool:
    """Return True if a ``/``-separated path is relative and stays in its folder on every operating system."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\\" in path or ":" in parts[0]:
        return False
    return ".." not in parts and str(PurePosixPath(path)) == path


def generated_before(folder: Path) -> dict[str, Any]:
    """Return what ``SOURCE.json`` says of generated data in a folder; empty for a folder without files.

    :raises UsageError: if the folder has other data, which must not be overwritten.
    """
    try:
        facts = json_module.loads((folder / "SOURCE.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        facts = {} if folder.is_dir() and any(folder.iterdir()) else {"source": "generated"}
    if not isinstance(facts, dict) or facts.get("source") != "generated":
        raise UsageError(f"{folder}: has data that was not generated; choose another --out")
    return facts
